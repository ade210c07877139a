"""Files that hold many samples: tars, Parquet files, TFRecords; read on demand."""
