"""A label file: its table, its columns, its rows and what their cells mean."""
