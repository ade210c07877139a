"""Where shards are written: worker processes of this machine, or a Ray cluster."""
