"""Features of all records of a split as arrays: columns of scalars, and the rarest class where a record has several."""

import os
from collections.abc import Iterator

import numpy as np

from shardfeed.column import HEADER_BYTES, check_header, check_labels, column_dtype, parse_column
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import decode
from shardfeed.formats.format import Decoded
from shardfeed.readers.shards import ClassSets, Shards
from shardfeed.schema import Schema
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.storage import READ_BYTES, FileInfo, OpenFile, whole

_KEPT_BYTES, _FRACTION = 64 << 20, 16  # see `read_column`
_TOGETHER = 256  # records read at once: more do not help
_DTYPES = {"int64": np.int64, "float32": np.float32, "bytes": object}
_REMEDY = "`shardfeed rebuild DIR` restores it"


def read_column(shards: Shards, schema: Schema, key: str, places: range | np.ndarray) -> np.ndarray:
    """Return the scalar feature `key` at `places`, a new array: int64 [k], float32 [k], or bytes as objects [k].

    It comes from the column that is stored with the dataset, and its CRC is checked. The whole column is kept in
    `shards.columns`, read-only and as it is stored; but of a column of more than 64 MB, a view of less than a 16th
    reads the numbers that it needs, and the rest only for the CRC. If there is no stored column (format 1 and adopted
    datasets only have columns of labels), every record is read whole, and its CRC is checked.

    Raises IntegrityError for a stored column that is missing, damaged or has a label out of range; its subclass
    RecordError for a damaged record, and for a record without exactly one value of the schema's dtype.
    """
    dtype = _DTYPES[schema.features[key].dtype]
    if key not in shards.columns:
        stored = shards.info.columns.get(key)
        if stored is not None and stored.size > _KEPT_BYTES and dtype is not object and isinstance(places, range):
            part = range(min(places[0], places[-1]), max(places[0], places[-1]) + 1) if places else places
            if len(part) * _FRACTION < shards.info.records:
                return _stored(shards, schema, key, part)[:: places.step].astype(dtype)
        if stored is not None:
            column = _stored(shards, schema, key)
        else:
            column = np.empty(shards.info.records, dtype)
            for place, (value,) in read_values(shards, schema, key):
                column[place] = value
        column.flags.writeable = False
        shards.columns[key] = column
    if not isinstance(places, range):
        return shards.columns[key][places].astype(dtype, copy=False)
    # A reversed range ends at -1, which a slice would take for the last place; an empty one may begin there, too.
    cut = slice(places.start, places.stop if places.stop >= 0 else None, places.step) if places else slice(0)
    return shards.columns[key][cut].astype(dtype)


def _stored(shards: Shards, schema: Schema, key: str, part: range | None = None) -> np.ndarray:
    """The stored column as an array, read-only; `part`: of numbers, only these consecutive ones."""
    path = os.path.join(shards.directory, shards.info.column_file(key))
    expected, dtype = shards.info.columns[key], column_dtype(schema, key)
    try:
        file = shards.storage.open(path, expected.size)
        data, found = _part(file, part, dtype.itemsize) if part is not None else (whole(file), None)
    except FileNotFoundError:
        raise IntegrityError(path, "missing: the manifest has this column", _REMEDY) from None
    found = found or FileInfo.of(data)
    if found.size != expected.size:
        raise IntegrityError(path, f"got {found.size} bytes, expected {expected.size}", _REMEDY)
    if found != expected:
        raise IntegrityError(path, "the column does not belong to this split", _REMEDY)
    if part is None:
        values = parse_column(data, shards.info.records, dtype, path)
    else:
        check_header(data, shards.info.records, dtype, path)
        values = np.frombuffer(data, dtype, len(part), HEADER_BYTES)
    if key in schema.class_names:
        check_labels(values, len(schema.class_names[key]), path, part.start if part is not None else 0)
    return values


def _part(file: OpenFile, part: range, width: int) -> tuple[bytes, FileInfo]:
    """The header of a column and its numbers `part`, of `width` bytes each; and the checksum of the whole file."""
    kept, size, crc = bytearray(), 0, 0
    wanted = (0, HEADER_BYTES), (HEADER_BYTES + part.start * width, HEADER_BYTES + part.stop * width)
    while block := file.read(size, READ_BYTES):
        for first, last in wanted:
            kept += block[max(0, first - size) : max(0, last - size)]
        crc = extend_crc32c(crc, block)
        size += len(block)
    return bytes(kept), FileInfo(size, crc)


def read_values(shards: Shards, schema: Schema, key: str) -> Iterator[tuple[int, Decoded]]:
    """Yield (place in the split, values of feature `key`) of each record in stored order; records are read whole.

    Raises RecordError for a damaged record, and for a record that does not match the schema.
    """
    only = Schema({key: schema.features[key]}, {})
    for start in range(0, shards.info.records, _TOGETHER):
        places = np.arange(start, min(start + _TOGETHER, shards.info.records))
        for place, payload in zip(places.tolist(), shards.payloads(places), strict=True):
            try:
                found = decode(payload, {key})
                problem, remedy = only.mismatch(found), "it does not match the dataset's schema: convert again"
            except IntegrityError as error:
                found, problem, remedy = {}, error.problem, error.remedy
            if problem:
                raise RecordError(shards.place(place), problem, remedy)
            yield place, found[key][1] if key in found else []


def rarest_classes(shards: Shards, schema: Schema, key: str, places: np.ndarray) -> np.ndarray:
    """Return the rarest class of the records at `places`, int64 [n]; the number of classes for one without any.

    `key` is a feature with class names and any number of values: labels of objects, or tags. The rarest class is the
    class that the fewest of these records have, however often each has it; among equally rare ones, the lowest number.

    The classes are only in the records. So all records of the split are read once, in sequence, images included, and
    their CRCs are checked, which takes as long as reading an epoch without decoding. The result is kept with the split,
    its views and its cached copy, and pickled with them: one byte per record and one for each of its classes (two with
    256 classes or more). Each process that opens the dataset, for example each rank, reads for itself.

    Raises RecordError for a damaged record, and for a label out of range.
    """
    if key not in shards.class_sets:
        shards.class_sets[key] = _class_sets(shards, schema, key)
    counts, labels = shards.class_sets[key]
    chosen = counts[places].astype(np.int64)
    # The labels of the view's records, record by record: the offset of each record's first label, then all labels.
    starts = (np.cumsum(counts, dtype=np.int64) - counts)[places] - (np.cumsum(chosen) - chosen)
    return rarest(chosen, labels[np.repeat(starts, chosen) + np.arange(chosen.sum())], len(schema.class_names[key]))


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


def _class_sets(shards: Shards, schema: Schema, key: str) -> ClassSets:
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
