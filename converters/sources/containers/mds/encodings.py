"""Decode the values of MDS columns by their encoding, without the streaming package, which pins an old NumPy.

    int, int8 ... uint64, float16 ... float64    one number, little-endian
    str, str_int, str_float, str_decimal         UTF-8, or a number as text
    ndarray[:DTYPE[:SHAPE]]                      (dtype: 1 byte) (ndim << 2 | size of a side: 1 byte, sides), values
    pil                                          u32 width, height, length of the mode; mode; pixels
    bytes, jpeg, png, json                       as they are

Source: mosaicml/streaming 0.13, streaming/base/format/mds/encodings.py.
"""

import json
import math
from typing import Any, cast

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.rows.roles import Kind, kind_of

FILES = frozenset({"bytes", "jpeg", "png"})  # encodings with bytes that are, or may be, an image file
_SCALARS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_NUMBERS = {"int": "int64", **{name: name for name in _SCALARS}}
_ARRAY_DTYPES = {8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32",
                 34: "float32", 64: "uint64", 65: "int64", 66: "float64"}  # fmt: skip
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}  # of Pillow: bytes of a pixel
_MOST_SIDES = 63


def value_of(encoding: str, data: bytes) -> Any:
    """Return the value of a cell: text, number, list of numbers, or parsed JSON; bytes if it may be a file.

    Raises ValueError, TypeError, RecursionError if it cannot be read.
    """
    if encoding == "str":
        return data.decode()
    if encoding in _NUMBERS:
        (value,) = np.frombuffer(data, np.dtype(_NUMBERS[encoding]).newbyteorder("<")).tolist()
        return value
    if encoding == "str_int":
        return int(data)
    if encoding in ("str_float", "str_decimal"):
        return float(data)
    if encoding.startswith("ndarray"):
        return array_of(encoding, data).reshape(-1).tolist()
    return json.loads(data) if encoding == "json" else data


def cell_kind(encoding: str, data: bytes) -> Kind | None:
    """Return the kind of a column from one cell; None if the cell does not determine it. Raises as `value_of`."""
    if encoding in ("jpeg", "png", "pil") or (encoding == "bytes" and begins_as_image(data[:HEAD_BYTES])):
        return "image"
    if encoding.startswith("ndarray"):
        array = array_of(encoding, data)
        return "image" if _is_image(array) else "floats" if array.dtype.kind == "f" else "integers"
    value = value_of(encoding, data)
    kind = "objects" if isinstance(value, dict) else "other" if isinstance(value, bytes) else kind_of(value)
    return None if kind == "null" else cast("Kind", kind)


def array_of(encoding: str, data: bytes) -> np.ndarray:
    """The array in a cell of the encoding `ndarray...`. Raises ValueError if its bytes do not fit its shape."""
    parameters = encoding.split(":")[1:]
    at = 0
    if parameters:
        dtype = parameters[0]
    else:
        dtype, at = _ARRAY_DTYPES.get(data[0] if data else -1, ""), 1
    if dtype not in _ARRAY_DTYPES.values():
        raise ValueError("an array of an unknown dtype")
    if len(parameters) > 1:
        shape = tuple(int(side) for side in parameters[1].split(","))
    else:
        head = data[at] if at < len(data) else 0
        sides, width = head >> 2, 1 << (head & 3)
        shape = tuple(np.frombuffer(data[at + 1 : at + 1 + sides * width], f"<u{width}").tolist())
        if len(shape) != sides or sides > _MOST_SIDES:
            raise ValueError("an array with a truncated shape")
        at += 1 + sides * width
    found = np.dtype(dtype).newbyteorder("<")
    if len(data) - at != math.prod(shape) * found.itemsize:
        raise ValueError(f"{len(data) - at} bytes of an array of {shape} {dtype}")
    return np.frombuffer(data, found, offset=at).reshape(shape)


def png_of(encoding: str, data: bytes) -> bytes:
    """The pixels in a cell as a PNG. Raises RejectedError."""
    try:
        return encode_png(_pil(data) if encoding == "pil" else _image(array_of(encoding, data)))
    except (ValueError, TypeError) as error:
        raise RejectedError(RejectCode.NOT_IMAGE, f"its pixels cannot be read: {error}") from None


def _pil(data: bytes) -> Image.Image:
    if len(data) < 12:
        raise ValueError("cut")
    width, height, length = (int.from_bytes(data[i : i + 4], "little") for i in (0, 4, 8))
    mode = data[12 : 12 + length].decode("ascii", "replace")
    pixels = data[12 + length :]
    if mode not in _MODES:
        raise ValueError(f"of the mode {mode[:10]!r}, expected L, RGB or RGBA")
    if min(width, height) < 1 or len(pixels) != width * height * _MODES[mode]:
        raise ValueError(f"{len(pixels)} bytes for {width} x {height} pixels of {mode}")
    return Image.frombytes(mode, (width, height), pixels)


def _image(pixels: np.ndarray) -> Image.Image:
    if not _is_image(pixels):
        raise ValueError(f"an array of {pixels.shape} {pixels.dtype}, expected uint8 [height, width(, 1, 3 or 4)]")
    return Image.fromarray(pixels.reshape(pixels.shape[:2]) if pixels.shape[2:] in ((), (1,)) else pixels)


def _is_image(array: np.ndarray) -> bool:
    return array.dtype == np.uint8 and array.ndim >= 2 and array.shape[2:] in ((), (1,), (3,), (4,))
