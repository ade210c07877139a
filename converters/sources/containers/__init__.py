"""Files that hold many samples: tars, Parquet files, TFRecords of others, databases, arrays; one module a format.

Each has `recognise(path, options) -> Evidence | None`, which looks at content and is cheap, and
`read(path, options) -> Source`, whose samples are read when they are asked for.
"""
