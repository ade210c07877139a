"""A folder's files, by number."""
