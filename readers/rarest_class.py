"""One class for a record that has several, from its objects or its tags: the rarest one."""

import numpy as np

from shardfeed.errors import RecordError
from shardfeed.readers.columns import read_values
from shardfeed.readers.shards import ClassSets, Shards
from shardfeed.readers.split import Split
from shardfeed.schema import Schema


def rarest_classes(split: Split, key: str) -> np.ndarray:
    """Return the rarest class of each sample, int64 [n]; the number of classes for a sample without any.

    `key` is a feature with class names and any number of values: labels of objects, or tags. The rarest class is the
    class that the fewest samples of `split` have, however often each has it; among equally rare classes, the lowest
    number.

    The classes are only in the records. So all records of the split are read once, in sequence, images included, and
    their CRCs are checked, which takes as long as reading an epoch without decoding. The result is kept with the split,
    its views and its cached copy, and pickled with them: one byte per record and one for each of its classes (two with
    256 classes or more). Each process that opens the dataset, for example each rank, reads for itself.

    Raises RecordError for a damaged record, and for a label out of range.
    """
    shards = split.shards
    if key not in shards.class_sets:
        shards.class_sets[key] = _read(shards, split.schema, key)
    counts, labels = shards.class_sets[key]
    places = split.places(np.arange(len(split)))
    chosen = counts[places].astype(np.int64)
    # The labels of the view's records, record by record: the offset of each record's first label, then all labels.
    starts = (np.cumsum(counts, dtype=np.int64) - counts)[places] - (np.cumsum(chosen) - chosen)
    return rarest(
        chosen, labels[np.repeat(starts, chosen) + np.arange(chosen.sum())], len(split.schema.class_names[key])
    )


def rarest(counts: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The rarest class of each record, int64 [n]; `classes` for a record without classes.

    `counts`: number of classes of each record, int64 [n]. `labels`: these classes, record by record, without duplicates
    in a record.
    """
    by_rarity = np.argsort(np.bincount(labels, minlength=classes), kind="stable")
    rank = np.empty(classes, np.int64)
    rank[by_rarity] = np.arange(classes)
    lowest = np.full(len(counts), classes)
    np.minimum.at(lowest, np.repeat(np.arange(len(counts)), counts), rank[labels])
    return np.append(by_rarity, classes)[lowest]


def _read(shards: Shards, schema: Schema, key: str) -> ClassSets:
    """Return the number of classes of each record, and the classes, record by record."""
    classes = len(schema.class_names[key])
    dtype = np.min_scalar_type(classes)
    counts, labels = np.zeros(shards.info.records, dtype), bytearray()
    for place, values in read_values(shards, schema, key):
        found = np.unique(np.asarray(values, np.int64))
        if len(found) and not 0 <= found[0] <= found[-1] < classes:
            bad = found[0] if found[0] < 0 else found[-1]
            raise RecordError(shards.place(place), f"{key} is {bad}, expected 0 to {classes - 1}")
        counts[place] = len(found)
        labels += found.astype(dtype).tobytes()
    return counts, np.frombuffer(bytes(labels), dtype)
