"""Formats that few people have: annotation tools, arrays, databases, ArrayRecord. Each has a row in `readers.py`."""
