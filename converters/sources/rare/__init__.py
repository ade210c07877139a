"""Formats that few people have: annotation tools, arrays, databases, and ArrayRecord. Each has a row in `readers.py`."""
