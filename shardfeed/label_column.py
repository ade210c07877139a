r"""A label column: the value of one label feature in every record of a split, as a plain NumPy file.

    train.image.class.label.npy      NumPy format 1.0, dtype '<i4', shape (records,), C order: 128 bytes of header, then
                                     4 bytes a record in stored order

`np.load(path, mmap_mode="r")` reads it. We neither write nor read it with NumPy: the bytes here depend on the labels
alone, not on NumPy's release, and are compared with those that would be written, so that nothing is ever unpickled.
Only labels have one: integers of one value a record, which class-balanced orders need of all records at once.

Source: numpy/lib/format.py, "Format Version 1.0".
"""

import struct
from collections import Counter
from collections.abc import Sequence

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.naming import COLUMN_SUFFIX
from shardfeed.schema import Schema

_DTYPE = np.dtype("<i4")
_HEADER_BYTES = 128  # room for any number of records, so that the labels start at one place, aligned to 64 bytes
_PREFIX = struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, _HEADER_BYTES - 10)
_NAME_BYTES = 240  # of a file name; a file system takes 255, and a file being written has a suffix
_REMEDY = "`shardfeed index DIR --rebuild` makes it again"


def column_name(split: str, key: str) -> str:
    """The file name of the column of the label feature `key`: `train.image.class.label.npy`."""
    return f"{split}.{key.replace('/', '.')}{COLUMN_SUFFIX}"


def column_keys(split: str, schema: Schema) -> list[str]:
    """The label features of `schema` that a split has a column of, sorted.

    Ragged ones have none, nor have those whose file names are equal (`image/a.b` and `image/a/b`) or too long for a
    file system: a column saves reading the records, but says nothing that they do not.
    """
    keys = [key for key in schema.class_names if not schema.features[key].ragged]
    names = Counter(column_name(split, key) for key in keys)
    return sorted(
        key for key in keys if names[name := column_name(split, key)] == 1 and len(name.encode()) <= _NAME_BYTES
    )


def column_header(records: int) -> bytes:
    """The 128 bytes before the labels of `records` records."""
    text = f"{{'descr': '{_DTYPE.str}', 'fortran_order': False, 'shape': ({records},), }}"
    return _PREFIX + text.encode().ljust(_HEADER_BYTES - len(_PREFIX) - 1) + b"\n"


def label_bytes(labels: Sequence[int] | np.ndarray) -> bytes:
    """The labels as they stand in the file, 4 bytes each; pieces of a split may be joined. They must fit int32."""
    return np.asarray(labels, _DTYPE).tobytes()


def read_labels(data: bytes) -> np.ndarray:
    """The inverse of `label_bytes`, int32 [n], read only. Raises ValueError where bytes are left over."""
    return np.frombuffer(data, _DTYPE)


def parse_column(data: bytes, records: int, classes: int, place: object) -> np.ndarray:
    """The labels in a column's bytes, int32 [records], read only; `place` names the file in errors.

    Raises IntegrityError unless it is the column of `records` records, each label within 0 to `classes` - 1.
    """
    header = column_header(records)
    if data[: len(header)] != header:
        raise IntegrityError(place, f"not the column of {records} labels: another header", _REMEDY)
    size = len(header) + records * _DTYPE.itemsize
    if len(data) != size:
        raise IntegrityError(place, f"got {len(data)} bytes, expected {size} for {records} labels", _REMEDY)
    labels = read_labels(data[len(header) :])
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        problem = f"record {bad[0]} has the label {labels[bad[0]]}, expected 0 to {classes - 1}"
        raise IntegrityError(place, problem, _REMEDY)
    return labels
