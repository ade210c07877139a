"""The command line, and the code of single commands."""
