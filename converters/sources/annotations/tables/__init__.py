"""Readers of tables: a row for each object, a row for each image with objects or classes in it, captions."""
