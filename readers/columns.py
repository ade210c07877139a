"""The value of one feature in every record of a split, as an array."""

import os
from collections.abc import Iterator

import numpy as np

from shardfeed.column import check_labels, column_dtype, parse_column
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import decode
from shardfeed.formats.format import Decoded
from shardfeed.readers.shards import Shards
from shardfeed.schema import Schema
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.storage import whole

_TOGETHER = 256  # records read at once: more do not help
_DTYPES = {"int64": np.int64, "float32": np.float32, "bytes": object}
_REMEDY = "`shardfeed rebuild DIR` restores it"


def read_column(shards: Shards, schema: Schema, key: str) -> np.ndarray:
    """Return the values of the scalar feature `key` in stored order: int64 [n], float32 [n], or bytes as objects [n].

    The array is read-only and cached in `shards.columns`. It comes from the column that is stored with the dataset, and
    its CRC is checked. If there is none (format 1 and adopted datasets only have columns of labels), every record is
    read whole, and its CRC is checked.

    Raises IntegrityError for a stored column that is missing, damaged or has a label out of range; its subclass
    RecordError for a damaged record, and for a record without exactly one value of the schema's dtype.
    """
    if key not in shards.columns:
        dtype = _DTYPES[schema.features[key].dtype]
        if key in shards.info.columns:
            column = _stored(shards, schema, key).astype(dtype)
        else:
            column = np.empty(shards.info.records, dtype)
            for place, (value,) in read_values(shards, schema, key):
                column[place] = value
        column.flags.writeable = False
        shards.columns[key] = column
    return shards.columns[key]


def _stored(shards: Shards, schema: Schema, key: str) -> np.ndarray:
    path = os.path.join(shards.directory, shards.info.column_file(key))
    try:
        data = whole(shards.storage.open(path, shards.info.columns[key].size))
    except FileNotFoundError:
        raise IntegrityError(path, "missing: the manifest has this column", _REMEDY) from None
    expected = shards.info.columns[key]
    if len(data) != expected.size:
        raise IntegrityError(path, f"got {len(data)} bytes, expected {expected.size}", _REMEDY)
    if crc32c(data) != expected.crc32c:
        raise IntegrityError(path, "the column does not belong to this split", _REMEDY)
    values = parse_column(data, shards.info.records, column_dtype(schema, key), path)
    if key in schema.class_names:
        check_labels(values, len(schema.class_names[key]), path)
    return values


def read_values(shards: Shards, schema: Schema, key: str) -> Iterator[tuple[int, Decoded]]:
    """Yield (position in the split, values of feature `key`) of each record in stored order; records are read whole.

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
