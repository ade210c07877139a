"""Files: those of a folder by number, and small ones that name things."""
