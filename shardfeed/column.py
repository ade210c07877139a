r"""A column: the value of one scalar feature in every record of a split, as a plain NumPy file.

    index/train.image.height.npy          one array [records] in stored order: '<i4' for a label, '<i8' for another
                                          int64, '<f4' for a float32
    index/train.image.filename.npy        bytes: two arrays, one after the other. '<i8' [records]: where each value
                                          ends, and '|u1': all values, joined

Each array is NumPy format 1.0 in C order, with a header that is always 128 bytes long. `np.load(path, mmap_mode="r")`
reads the numbers; for bytes, `np.load(file)` on an open file returns first the ends and then the values. shardfeed
neither writes nor reads them with NumPy: the bytes depend on the values alone, not on the NumPy release, and a header
is compared with the only valid one, so that nothing is ever unpickled.

Source: numpy/lib/format.py, "Format Version 1.0".
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.naming import column_file
from shardfeed.schema import Schema, scalar_keys

HEADER_BYTES = 128  # room for any number of records, so that the values start at one place, aligned to 64 bytes
_PREFIX = struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, HEADER_BYTES - 10)
_ENDS, _BLOB = np.dtype("<i8"), np.dtype("|u1")
_NAME_BYTES = 240  # of a file name; a file system takes 255, and a file being written has a suffix
_REMEDY = "`shardfeed rebuild DIR` restores it"


def column_keys(split: str, schema: Schema) -> list[str]:
    """Return the features of `schema` with a column, sorted: all with one value per record, except images and masks.

    Features whose file names would be equal (`image/a.b` and `image/a/b`) or too long for a file system have none: a
    column only repeats what the records contain.
    """
    names = {key: column_file(split, key) for key in scalar_keys(schema)}
    of_name = Counter(names.values())
    return sorted(key for key, name in names.items() if of_name[name] == 1 and len(name.encode()) <= _NAME_BYTES)


def column_dtype(schema: Schema, key: str) -> np.dtype:
    """The dtype of a scalar feature's values in its column; `object` for bytes."""
    if key in schema.class_names:
        return np.dtype("<i4")
    return np.dtype({"int64": "<i8", "float32": "<f4", "bytes": "O"}[schema.features[key].dtype])


def encode_column(values: Sequence[Any] | np.ndarray, dtype: np.dtype) -> bytes:
    """Return the bytes of a column, of a whole split or of one shard (see `join_columns`)."""
    if not dtype.hasobject:
        return _header(len(values), dtype) + np.asarray(values, dtype).tobytes()
    ends = np.fromiter(accumulate(map(len, values)), _ENDS, len(values))
    blob = b"".join(values)
    return b"".join([_header(len(values), _ENDS), ends.tobytes(), _header(len(blob), _BLOB), blob])


def join_columns(
    key: str,
    shards: Sequence[Mapping[str, bytes]],
    records: Sequence[int],
    dtype: np.dtype,
    old: Iterable[bytes] = (),
    before: int = 0,
) -> Iterator[bytes]:
    """Yield the bytes of a split's column `key`, joined from the columns of its shards, of `records[i]` records each.

    `shards`: the columns of each by key, in order; those of bytes are taken twice. `old`: the bytes of a column of
    `before` records, in pieces of any size, to which the shards are appended. One shard's column is held in memory.
    """
    rest = _Bytes(iter(old))
    rest.skip(HEADER_BYTES)
    total = before + sum(records)
    if not dtype.hasobject:
        yield _header(total, dtype)
        yield from rest.take(before * dtype.itemsize)
        for columns in shards:
            yield columns[key][HEADER_BYTES:]
        return
    yield _header(total, _ENDS)
    last = b""
    for part in rest.take(before * _ENDS.itemsize):
        last = (last + part)[-_ENDS.itemsize :]
        yield part
    size = end = int.from_bytes(last, "little")
    for columns, count in zip(shards, records, strict=True):
        of_piece = np.frombuffer(columns[key], _ENDS, count, HEADER_BYTES) + end
        end = int(of_piece[-1]) if count else end
        yield of_piece.tobytes()
    rest.skip(HEADER_BYTES)
    yield _header(end, _BLOB)
    yield from rest.take(size)
    for columns, count in zip(shards, records, strict=True):
        yield columns[key][2 * HEADER_BYTES + count * _ENDS.itemsize :]


class _Bytes:
    """A reader of a given number of bytes from an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes; fewer at the end."""
        while size > 0 and (piece := self._left or next(self._pieces, b"")):
            self._left = piece[size:]
            yield piece[:size]
            size -= min(size, len(piece))

    def skip(self, size: int) -> None:
        for _ in self.take(size):
            pass


def parse_column(data: bytes, records: int, dtype: np.dtype, place: object) -> np.ndarray:
    """Return the values of a column, [records], read-only: of `dtype`, or bytes as objects.

    Raises IntegrityError, with `place` as the file, unless the column has this number of records.
    """
    if not dtype.hasobject:
        values, rest = _array(data, records, dtype, place)
        if rest:
            raise IntegrityError(place, f"{len(rest)} extra bytes at the end", _REMEDY)
        return values
    ends, rest = _array(data, records, _ENDS, place)
    size = len(rest) - HEADER_BYTES
    blob, rest = _array(rest, max(0, size), _BLOB, place)
    starts = np.concatenate([[0], ends[:-1]]) if records else ends
    if (ends < starts).any() or (int(ends[-1]) if records else 0) != len(blob):
        raise IntegrityError(place, "its offsets do not increase, or do not end at the last value", _REMEDY)
    joined = blob.tobytes()
    values = np.empty(records, object)
    values[:] = [joined[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    values.flags.writeable = False
    return values


def equally_long(data: bytes, records: int, width: int) -> np.ndarray:
    """Return the values of a column of bytes that all have length `width`, as 'S<width>' [records] without a copy.

    `data` must be whole, as a receipt's columns are. A value must not end in a zero byte, which 'S' drops.
    """
    return np.frombuffer(data, f"S{width}", records, 2 * HEADER_BYTES + records * _ENDS.itemsize)


def bytes_at(data: bytes, records: int, place: int) -> bytes:
    """Return the value of record `place` in an undamaged column of bytes, without reading the others."""
    ends = np.frombuffer(data, _ENDS, records, HEADER_BYTES)
    start = 2 * HEADER_BYTES + records * _ENDS.itemsize
    return data[start + (int(ends[place - 1]) if place else 0) : start + int(ends[place])]


def check_labels(labels: np.ndarray, classes: int, place: object, first: int = 0) -> None:
    """Raise IntegrityError, with `place` as the file, unless each label is within 0 to `classes` - 1.

    `first`: number of the first label's record.
    """
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        problem = f"record {first + bad[0]} has the label {labels[bad[0]]}, expected 0 to {classes - 1}"
        raise IntegrityError(place, problem, _REMEDY)


def check_header(data: bytes, count: int, dtype: np.dtype, place: object) -> None:
    """Raise IntegrityError, with `place` as the file, unless `data` begins with the header of such an array."""
    if data[:HEADER_BYTES] != _header(count, dtype):
        raise IntegrityError(place, f"its header does not declare {count} values of {dtype.str}", _REMEDY)


def _header(count: int, dtype: np.dtype) -> bytes:
    """The 128 bytes before `count` values."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
    return _PREFIX + text.encode().ljust(HEADER_BYTES - len(_PREFIX) - 1) + b"\n"


def _array(data: bytes, count: int, dtype: np.dtype, place: object) -> tuple[np.ndarray, bytes]:
    """Split `data` into its first array, of `count` values, read-only, and the rest. Raises IntegrityError."""
    check_header(data, count, dtype, place)
    end = HEADER_BYTES + count * dtype.itemsize
    if len(data) < end:
        raise IntegrityError(place, f"got {len(data)} bytes, expected {end} for {count} values", _REMEDY)
    return np.frombuffer(data, dtype, count, HEADER_BYTES), data[end:]
