"""New datasets from datasets: records are copied, or changed by an operation.

Each operation is a source (see `sources/records.py`), converted like any other: planned, written by the same engines,
resumed and committed whole. The original datasets are only read.
"""
