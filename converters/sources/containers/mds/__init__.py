"""MosaicML's MDS: shards of samples whose columns have encodings, listed in an index.json."""
