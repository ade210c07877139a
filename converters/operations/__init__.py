"""New datasets from datasets: records taken as they are, or with what an operation changes in them.

Each operation is a source (see `sources/records.py`), converted like any other: planned, written by the same engines,
resumed and committed whole. The datasets that it takes from are only read.
"""
