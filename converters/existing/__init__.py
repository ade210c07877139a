"""Datasets and TFRecords that are there already: adopted, indexed again, salvaged, exported."""
