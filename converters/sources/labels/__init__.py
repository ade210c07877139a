"""A label file: its table, its columns, its rows and the meaning of its cells."""
