"""`shardfeed bench`: the time of each stage of an input pipeline."""
