"""Caffe's Datum: one image and its label as a protocol buffer.

Fields: 1 channels, 2 height, 3 width, 4 data, 5 label, 6 float_data, 7 encoded. Pixels are bytes, one plane after the
other: blue, green, red, as OpenCV has them. Encoded data are a JPEG or PNG file, whose colors are in their usual order.
"""

from typing import NamedTuple

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.arrays.pixels import Layout

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_WIRES = {**dict.fromkeys((1, 2, 3, 5, 7), (_VARINT,)), 4: (_BYTES,), 6: (_BYTES, _FIXED32)}


class Datum(NamedTuple):
    """What one holds: sides in pixels, `data` the bytes of the pixels or of the file, `label` None without one.

    `floats`: whether it has float pixels.
    """

    channels: int
    height: int
    width: int
    data: memoryview
    label: int | None
    floats: bool
    encoded: bool


def read_datum(value: memoryview) -> Datum:
    """The Datum in `value`, of which nothing is copied. Raises ValueError for other bytes."""
    numbers: dict[int, int] = {}
    data, floats = memoryview(b""), False
    at = 0
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
            data = value[at : at + size]
        floats |= field == 6
        at += size
    if not data and not floats:
        raise ValueError("no data")
    label = numbers.get(5)
    if label is not None and label >= 1 << 63:
        label -= 1 << 64  # a negative number is a varint of its two's complement
    sides = numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0)
    return Datum(*sides, data, label, floats, bool(numbers.get(7, 0)))


def image_of(value: bytes) -> bytes:
    """The encoded image of a Datum; pixels as a PNG. Raises RejectedError."""
    try:
        datum = read_datum(memoryview(value))
    except ValueError as error:
        raise RejectedError(RejectCode.CORRUPT, f"no Datum: {error}") from None
    if datum.encoded:
        return bytes(datum.data)
    shape = datum.channels, datum.height, datum.width
    if datum.floats or datum.channels not in (1, 3):
        what = "float pixels" if datum.floats else f"{datum.channels} channels"
        raise RejectedError(RejectCode.UNSUPPORTED, f"a Datum with {what}, expected 1 or 3 of bytes")
    layout = Layout(shape, (1, 2, 0))
    if not layout.size or layout.size != len(datum.data):
        sides = " x ".join(map(str, shape))
        problem = f"a Datum of {sides} has {len(datum.data)} bytes, expected {layout.size}"
        raise RejectedError(RejectCode.CORRUPT, problem)
    return layout.png(np.frombuffer(datum.data, np.uint8).reshape(shape)[::-1])  # blue, green, red to red, green, blue


def _varint(value: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    number = shift = 0
    while at < len(value) and shift < 64:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("a number that does not end")
