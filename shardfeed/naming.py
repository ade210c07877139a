"""The names of a dataset's files: `train-00003-of-00008.tfrecord` and its index `train-00003-of-00008.tfindex`.

The pattern is the one TensorFlow Datasets and the Model Garden glob for; `<stem>.tfindex` beside `<stem>.tfrecord`
is where the `tfrecord` package looks.
"""

import re

from shardfeed.errors import UsageError

MANIFEST = "manifest.json"
REJECTED = "rejected.jsonl"
NORMALISED = "normalised.jsonl"
SALVAGED = "salvaged.json"
TFDS_FILES = frozenset({"dataset_info.json", "features.json"})
LABEL_NAMES_SUFFIX = ".labels.txt"
COLUMN_SUFFIX = ".npy"
RECORD_SUFFIX = ".tfrecord"
INDEX_SUFFIX = ".tfindex"

# TFDS wants a word; no digit first, so that "-00000-of-00008" can always be told from the name.
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*\Z")


def check_split_name(name: str) -> str:
    """Return `name`, or raise UsageError when it is not a letter followed by letters, digits and underscores."""
    if not _NAME.match(name):
        raise UsageError(
            "split", f"got the name {name!r}, expected a letter, then letters, digits or '_'", "rename the split"
        )
    return name


def label_names_file(key: str) -> str:
    """Where TFDS reads the names of the classes of the label feature `key` from: `image.class.label.labels.txt`."""
    return key.replace("/", ".") + LABEL_NAMES_SUFFIX


def is_dataset_file(name: str) -> bool:
    """Whether a dataset may have a file of this name, whatever its splits and features."""
    suffixes = (RECORD_SUFFIX, INDEX_SUFFIX, LABEL_NAMES_SUFFIX, COLUMN_SUFFIX)
    return name in TFDS_FILES | {MANIFEST, REJECTED, NORMALISED, SALVAGED} or name.endswith(suffixes)


def dataset_name(directory_name: str) -> str:
    """A name TFDS accepts (`[a-zA-Z]\\w*`) made from a directory's name: other characters become '_'."""
    word = re.sub(r"[^a-zA-Z0-9_]", "_", directory_name)
    return word if _NAME.match(word) else f"dataset_{word}"


def shard_stem(split: str, number: int, count: int) -> str:
    """`train-00003-of-00008` for shard 3 (from 0) of 8; five digits, more where a number needs them."""
    return f"{split}-{number:05d}-of-{count:05d}"
