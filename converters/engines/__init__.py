"""Engines, which write shards: worker processes of this machine, or a Ray cluster."""
