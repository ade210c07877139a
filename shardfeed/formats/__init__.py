"""Shard formats: the layout of samples in the files of one shard, with writer and reader in one place."""
