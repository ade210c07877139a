"""Planning: split and shard of each sample, decided before anything is written."""
