"""Datasets and TFRecords that are there already: changed by operations, adopted, indexed again, salvaged, exported.

Each operation (append, filter, merge, relabel, remove, reshard, split) is a source, converted like any other: planned,
written by the same engines, resumed and committed whole. The original datasets are only read.
"""
