"""Commands that copy a dataset to or from a bucket."""
