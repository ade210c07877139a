"""Files that hold many samples: tars, Parquet files, foreign TFRecords, databases, arrays; one module per format.

Each has `recognise(path, options) -> Evidence | None`, a cheap check of the content, and `read(path, options) ->
Source`, which reads samples on demand.
"""
