"""Walk through an LMDB database in a separate process, because a damaged page may kill the process.

The page may send the library beyond the file's end. Only Python and lmdb are imported, so the process starts quickly.

A script: PATH. It writes lines of JSON, bytes as Latin-1: the number of keys and the values of ASKED, then lists of
entries, see lmdb.py. It exits with 0 if every key and value could be reached; otherwise it prints why not, or is
killed.

It knows Caffe's Datum, one image and its label as a protocol buffer, of which the fields are: 1 channels, 2 height,
3 width, 4 data, 5 label, 6 float_data, 7 encoded.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

ASKED = (b"__keys__", b"__len__", b"num-samples")  # keys that identify the layout; bytes of each value
ASKED_BYTES = 20
DATUM, FLOATS, ENCODED = 1, 2, 4
FIRST, FIRST_BYTES = 20, 4096  # entries with values that help to identify it
OPEN: dict[str, Any] = {"subdir": False, "readonly": True, "lock": False, "readahead": False, "create": False}
TEXT, TEXT_BYTES = "label-", 1 << 16  # of these keys the whole values, up to this size
_AT_ONCE = 1000  # entries in a line
_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_WIRES = {**dict.fromkeys((1, 2, 3, 5, 7), (_VARINT,)), 4: (_BYTES,), 6: (_BYTES, _FIXED32)}


class Datum(NamedTuple):
    """Fields of one Datum: sides in pixels, and offset and size of its pixels or its image file in the value.

    `label`: None if missing. `floats`: whether it has float pixels.
    """

    channels: int
    height: int
    width: int
    offset: int
    size: int
    label: int | None
    floats: bool
    encoded: bool


def read_datum(value: memoryview) -> Datum:
    """The Datum in `value`, without a copy. Raises ValueError for other bytes."""
    numbers: dict[int, int] = {}
    offset = length = at = 0
    floats = False
    while at < len(value):
        tag, at = _varint(value, at)
        field, wire = tag >> 3, tag & 7
        if wire not in _WIRES.get(field, ()):
            raise ValueError(f"field {field} of wire type {wire}")
        if wire == _VARINT:
            numbers[field], at = _varint(value, at)
            continue
        size, at = (4, at) if wire == _FIXED32 else _varint(value, at)
        if at + size > len(value):
            raise ValueError(f"ends within field {field}")
        if field == 4:
            offset, length = at, size
        floats |= field == 6
        at += size
    if not length and not floats:
        raise ValueError("no data")
    label = numbers.get(5)
    if label is not None and label >= 1 << 63:
        label -= 1 << 64  # a negative number is a varint of its two's complement
    sides = numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0)
    return Datum(*sides, offset, length, label, floats, bool(numbers.get(7, 0)))


def _varint(value: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and its end."""
    number = shift = 0
    while at < len(value) and shift < 64:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number & (1 << 64) - 1, at
        shift += 7
    raise ValueError("an unterminated number")


def lines(path: str) -> Iterator[Any]:
    """Yield the number of keys with the values of `ASKED`, then lists of rows. Raises ValueError, lmdb.Error."""
    import lmdb

    environment = lmdb.open(path, **OPEN)
    entries, found, datums, rows = environment.stat()["entries"], 0, True, []
    with environment.begin(buffers=True) as transaction:
        asked = [(key, value) for key in ASKED if (value := transaction.get(key)) is not None]
        yield entries, {str(key, "latin1"): str(value[:ASKED_BYTES], "latin1") for key, value in asked}
        for key, value in transaction.cursor():
            found += 1
            name, size, head, of_datum = str(key, "latin1"), len(value), "", ()
            if found <= FIRST or (name.startswith(TEXT) and size <= TEXT_BYTES):
                head = str(value[: FIRST_BYTES if found <= FIRST else size], "latin1")
            reached = bytes(value[:1]), bytes(value[-1:])
            del reached
            if datums:
                try:
                    datum = read_datum(value)
                    flags = DATUM | FLOATS * datum.floats | ENCODED * datum.encoded
                    of_datum = flags, datum.label, datum.offset
                except ValueError as error:
                    datums, head = found > FIRST, head if found <= FIRST else str(error)
            rows.append((name, size, head, *of_datum))
            if len(rows) == _AT_ONCE or found == FIRST:
                yield rows
                rows = []
            if found > entries:
                break
    yield rows
    if found != entries:
        raise ValueError(f"it has {found:,} keys or more, expected {entries:,}")


if __name__ == "__main__":
    for line in lines(sys.argv[1]):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
