"""The page of `shardfeed report`: the content of a dataset, its probable faults, and their remedies."""
