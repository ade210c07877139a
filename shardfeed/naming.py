"""The names of a dataset's files, relative to its directory.

    train-00003-of-00008.tfrecord          a shard: the pattern that TensorFlow Datasets and the Model Garden glob for;
                                           other formats have their usual names: a tar, data/*.parquet,
                                           train/shard.00003.mds
    index/train-00003-of-00008.tfindex     its index
    index/train.image.class.label.npy      the values of one feature in the whole split
    manifest.json, features.json ...       metadata of the whole dataset

Indexes and columns are in a directory of their own, so that `train*` matches shards and nothing else. In format 1 they
are next to the shards.
"""

import os
import re

from shardfeed.errors import UsageError
from shardfeed.formats.format import shard_stem
from shardfeed.formats.registry import FORMATS, NATIVE

FORMAT_VERSION = 2  # of new datasets; the manifest states a dataset's version, and 1 is read, too
CONTAINERS_VERSION = 3  # of a dataset with other shards than TFRecords, which earlier releases do not know
INDEX_DIRECTORY = "index"

MANIFEST = "manifest.json"
REJECTED = "rejected.jsonl"
NORMALISED = "normalised.jsonl"
LEFT_OUT = "left_out.jsonl"  # annotations
CLIPPED = "clipped.jsonl"  # images with annotations that were clipped
SALVAGED = "salvaged.json"
# Beside a dataset, not part of it: see converters/existing/passport.py.
BESIDE = CARD, CROISSANT = "README.md", "croissant.json"
TFDS_FILES = frozenset({"dataset_info.json", "features.json"})
LABEL_NAMES_SUFFIX = ".labels.txt"
COLUMN_SUFFIX = ".npy"

# TFDS requires a word; no digit first, so that "-00000-of-00008" can always be separated from the name.
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*\Z")
# Other files may end in .tar: a shard's name ends in its number, and an index is in the directory of indexes.
_OTHER_SHARD = re.compile(
    rf"[-.][0-9]{{5,}}({'|'.join(re.escape(each.data_suffix) for each in FORMATS.values() if each is not NATIVE)})\Z"
)
_OTHER_SIDECAR = re.compile(r"(_info\.json|[^/]+\.wids\.json|[^/]+/index\.json)\Z")  # see ShardFormat.describe
_OTHER_INDEX = re.compile(
    rf"{INDEX_DIRECTORY}/.*({'|'.join({re.escape(each.index_suffix) for each in FORMATS.values()})})\Z"
)
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\Z")  # of a dataset, as TFDS writes them


def check_split_name(name: str) -> str:
    """Return `name`, or raise UsageError when it is not a letter followed by letters, digits and underscores."""
    if not isinstance(name, str) or not _NAME.match(name):
        problem = f"got the name {name!r}, expected a letter, then letters, digits or '_'"
        raise UsageError("split", problem, "rename the split")
    return name


def name_problem(name: bytes) -> str:
    """Why a name cannot be, unchanged, the path of a file below a folder; "" if it can."""
    parts = name.split(b"/")
    if b"\0" in name:
        return "has a NUL"
    if name.startswith(b"/"):
        return "is absolute"
    if b".." in parts:
        return "points outside the folder"
    if b"" in parts or b"." in parts:
        return "has an empty part, or a part that is only dots"
    return "has a part of more than 255 bytes" if any(len(part) > 255 for part in parts) else ""


def label_names_file(key: str) -> str:
    """File from which TFDS reads the class names of the label feature `key`: `image.class.label.labels.txt`."""
    return key.replace("/", ".") + LABEL_NAMES_SUFFIX


def is_shard(name: str) -> bool:
    """Whether a file of this name is a shard of a dataset, whatever its splits."""
    return name.endswith(NATIVE.data_suffix) or bool(_OTHER_SHARD.search(name))


def is_index(name: str) -> bool:
    """Whether a file of this name is the index of a shard."""
    return name.endswith(NATIVE.index_suffix) or bool(_OTHER_INDEX.search(name))


def is_dataset_file(name: str) -> bool:
    """Whether a dataset of any format may have a file of this name, whatever its splits and features."""
    directory, _, file = name.rpartition("/")
    if directory == INDEX_DIRECTORY:
        return is_index(name) or file.endswith(COLUMN_SUFFIX) or bool(_OTHER_SHARD.search(name))
    if directory or _OTHER_SIDECAR.match(name):
        return bool(_OTHER_SHARD.search(name) or _OTHER_SIDECAR.match(name))
    if name in TFDS_FILES | {MANIFEST, REJECTED, NORMALISED, LEFT_OUT, CLIPPED, SALVAGED} or is_shard(name):
        return True
    return name.endswith((LABEL_NAMES_SUFFIX, NATIVE.index_suffix, COLUMN_SUFFIX))


def dataset_name(directory: str) -> str:
    r"""A name that TFDS accepts (`[a-zA-Z]\w*`), made from a directory's name: other characters become '_'.

    For TFDS, a directory `ROOT/NAME/1.2.3` is version 1.2.3 of NAME; its name here is `NAME/1.2.3`.
    """
    parent, last = os.path.split(directory)
    if _VERSION.match(last) and _NAME.match(above := os.path.basename(parent)):
        return f"{above}/{last}"
    word = re.sub(r"[^a-zA-Z0-9_]", "_", last)
    return word if _NAME.match(word) else f"dataset_{word}"


def shard_file(split: str, number: int, count: int, format: str = NATIVE.name) -> str:
    """The file of a shard."""
    return FORMATS[format].shard_file(split, number, count)


def index_file(split: str, number: int, count: int, version: int = FORMAT_VERSION, format: str = NATIVE.name) -> str:
    """The index of a shard, in a dataset of this format version."""
    return _made_of_shards(shard_stem(split, number, count) + FORMATS[format].index_suffix, version)


def column_file(split: str, key: str, version: int = FORMAT_VERSION) -> str:
    """The column of the feature `key`, in a dataset of this format version."""
    return _made_of_shards(f"{split}.{key.replace('/', '.')}{COLUMN_SUFFIX}", version)


def _made_of_shards(name: str, version: int) -> str:
    return name if version == 1 else f"{INDEX_DIRECTORY}/{name}"
