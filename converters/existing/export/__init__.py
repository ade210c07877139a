"""A dataset as files that other tools take. `export.py` is where to begin; each format is a module of its own."""
