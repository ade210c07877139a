"""Shard formats: how samples lie in the files of one shard, written and read side by side."""
