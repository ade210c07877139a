"""Commands that make something else of a dataset; the dataset is only read."""
