"""`shardfeed bench --formats`: what the same images cost in each format of shards, however they are read."""
