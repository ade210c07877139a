"""Lists that say which images belong to a split: `--split-list`."""
