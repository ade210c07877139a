"""Parquet files with a column of images, as Hugging Face's `datasets` writes them and others do.

Images are fetched one by one from where they stand in the file: a shuffled conversion would read a whole row group for
each otherwise. pyarrow reads all else, and the file's directory of row groups.
"""
