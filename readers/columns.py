"""The value of one feature in every record of a split, as an array.

A label comes from its stored column, if the dataset has one. Other features are read from the records, and of a long
record only what stands around its image: the rest has a thousandth of its bytes. A record's CRC covers all of it, so
the CRC of such a record is not checked.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, RecordError, escape
from shardfeed.formats.tfrecord.example import Decoded, decode
from shardfeed.formats.tfrecord.framing import FRAME_BYTES, HEADER_BYTES
from shardfeed.label_column import column_name, parse_column
from shardfeed.readers.shards import Shards
from shardfeed.schema import Dtype, Feature, Schema
from shardfeed.storage.checksum import crc32c

_WHOLE_BYTES = 8192  # framed records up to this long are read whole, and their CRC is checked
_WINDOW_BYTES = 1024  # of a longer one, read at once: as a rule all that stands on one side of its image
_TOGETHER = 256  # records read, or asked of the disk, at once: more gain nothing
_NUMBER_BYTES = 10  # a varint's length at most
_DTYPES: Mapping[Dtype, type] = {"int64": np.int64, "float32": np.float32, "bytes": object}
_REMEDY = "`shardfeed index DIR --rebuild` makes it again"


def read_column(shards: Shards, schema: Schema, key: str) -> np.ndarray:
    """The values of the scalar feature `key` in stored order: int64 [n], float32 [n], or bytes as objects [n].

    Read only, and kept in `shards.columns`, so that asking again costs nothing. The CRC of a stored column is checked,
    and that of each record of up to 8 KiB. Of longer records only the bytes around the image are read: a changed byte
    there is noticed where it breaks the structure, or leaves the feature out, and else becomes a wrong value.

    Raises IntegrityError for a stored column that is missing, damaged or has a label out of range; RecordError, which
    is one, for a damaged record, and for a record that has not exactly one value of the schema's dtype.
    """
    if key not in shards.columns:
        feature = schema.features[key]
        if key in schema.class_names and key in shards.info.columns:
            column = _stored_labels(shards, key, len(schema.class_names[key]))
        else:
            column = np.empty(shards.info.records, _DTYPES[feature.dtype])
            for place, value in _values(shards, feature, key):
                column[place] = value
        column.flags.writeable = False
        shards.columns[key] = column
    return shards.columns[key]


def _stored_labels(shards: Shards, key: str, classes: int) -> np.ndarray:
    path = os.path.join(shards.directory, column_name(shards.info.name, key))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise IntegrityError(path, "missing: the manifest has this label column", _REMEDY) from None
    expected = shards.info.columns[key]
    if len(data) != expected.size:
        raise IntegrityError(path, f"got {len(data)} bytes, expected {expected.size}", _REMEDY)
    if crc32c(data) != expected.crc32c:
        raise IntegrityError(path, "the label column is not the one that was written with this split", _REMEDY)
    return parse_column(data, shards.info.records, classes, path).astype(np.int64)


def _values(shards: Shards, feature: Feature, key: str) -> Iterator[tuple[int, Any]]:
    """(place in the split, value) of each record, in no particular order."""
    name = key.encode()
    wanted = b"\x0a" + _varint(len(name)) + name  # how its entry starts

    @lru_cache(maxsize=4096)  # sizes, formats and classes: a few values again and again
    def value_of(entry: bytes) -> Any:
        return _only_value(decode(b"\x0a" + _varint(len(entry)) + entry), feature, key)

    for shard in range(len(shards.info.shards)):
        first = int(shards.firsts[shard])
        for row, entry in _entries(shards, shard, wanted):
            try:
                value = value_of(entry)
            except IntegrityError:
                value = _checked_value(shards, shard, row, feature, key)
            yield first + row, value


def _entries(shards: Shards, shard: int, wanted: bytes) -> Iterator[tuple[int, bytes]]:
    """(record of the shard, what `_entry` finds in it) of each: first the short ones, then the long."""
    offsets = shards.index(shard).offsets
    long = np.diff(offsets) > _WHOLE_BYTES
    for rows in _pieces(np.flatnonzero(~long)):
        payloads = shards.payloads(shards.firsts[shard] + rows)
        for row, payload in zip(rows.tolist(), payloads, strict=True):
            yield row, _entry(payload, len(payload), wanted)
    for rows in _pieces(np.flatnonzero(long)):
        starts, ends = offsets[rows].tolist(), offsets[rows + 1].tolist()
        shards.fetch_ahead(shard, _WINDOW_BYTES, starts)
        shards.fetch_ahead(shard, _WINDOW_BYTES, [end - _WINDOW_BYTES for end in ends])
        for row, start, end in zip(rows.tolist(), starts, ends, strict=True):
            yield row, _entry_in_file(shards, shard, start, end, wanted)


def _pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))


def _checked_value(shards: Shards, shard: int, row: int, feature: Feature, key: str) -> Any:
    """The value in a record that is not laid out as ours are, or damaged: all of it is read, and its CRC checked."""
    payload = shards.payloads(shards.firsts[shard : shard + 1] + row)[0]
    try:
        return _only_value(decode(payload), feature, key)
    except IntegrityError as error:  # CRC right, content not: name the record
        place = f"{shards.path(shard)}, record {row}, offset {shards.index(shard).offsets[row]}"
        raise RecordError(place, error.problem, error.remedy) from None


def _only_value(features: Mapping[str, tuple[Dtype, Decoded]], feature: Feature, key: str) -> Any:
    if key not in features:
        raise IntegrityError("record", f"no feature {escape(key)}", "the dataset's schema has it: convert again")
    dtype, values = features[key]
    if len(values) != 1:
        raise IntegrityError("record", f"feature {escape(key)} has {len(values)} values, the schema says one")
    if dtype != feature.dtype:
        raise IntegrityError("record", f"feature {escape(key)} is {dtype}, the schema says {feature.dtype}")
    return values[0]


def _entry_in_file(shards: Shards, shard: int, start: int, end: int, wanted: bytes) -> bytes:
    """`_entry` of the record that fills bytes `start` to `end` of a shard, from as little of it as need be."""
    length = end - start - FRAME_BYTES
    head = shards.unchecked(shard, HEADER_BYTES + _WINDOW_BYTES, start)
    if head[:8] != length.to_bytes(8, "little"):
        return b""
    body = start + HEADER_BYTES
    return _entry(head[HEADER_BYTES:], length, wanted, lambda size, at: shards.unchecked(shard, size, body + at))


def _entry(
    window: bytes, length: int, wanted: bytes, fetch: Callable[[int, int], bytes] = lambda size, at: b""
) -> bytes:
    """The map entry that starts with `wanted` in an Example of `length` bytes, with its tag and length; b"" if none.

    `window`: the Example's first bytes; `fetch(size, at)` gives more. Takes the layout that our writer gives an
    Example, one Features message of entries (see example.py), whose keys are sorted, so that the first is the only one.
    What is not laid out so has no entry here. `at` moves forward with every step, and never behind the Example.
    """
    base = 0  # where the window starts
    try:
        if window[0] != 0x0A:
            return b""
        size, at = _read_varint(window, 1)
        if at + size != length:
            return b""
        while at < length:
            if at + 1 + _NUMBER_BYTES + len(wanted) > base + len(window) < length and at > base:
                base, window = at, fetch(min(_WINDOW_BYTES, length - at), at)
            if window[at - base] != 0x0A:
                return b""
            size, content = _read_varint(window, at - base + 1)
            end = base + content + size
            if end > length:
                return b""
            if window.startswith(wanted, content):
                if end <= base + len(window):
                    return window[at - base : end - base]
                return fetch(end - at, at) if end - at <= _WHOLE_BYTES else b""
            at = end
    except IndexError:  # a number, or an entry, is cut
        return b""
    return b""


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The value at `at` and the position behind it. Raises IndexError where the bytes end before it does."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 7 * _NUMBER_BYTES, 7):
        at += 1
        value |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return value, at + 1
    raise IndexError("a number does not end")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
