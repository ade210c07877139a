"""What goes where, decided before anything is written."""
