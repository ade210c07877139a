"""A dataset as files for other tools. Start with `export.py`; each format has its own module."""
