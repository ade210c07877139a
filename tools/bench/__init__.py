"""`shardfeed bench`: where the time of an input pipeline goes."""
