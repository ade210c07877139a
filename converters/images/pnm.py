"""PBM, PGM and PPM to pixels (netpbm's pbm(5), pgm(5), ppm(5)).

Not read by Pillow, which uses a Python loop over the pixels if the largest value is not 255.
"""

import re

import numpy as np
from PIL import Image

from shardfeed.converters.images.sniff import HEAD_BYTES, PNM_BLANK, PNM_START
from shardfeed.converters.rejects import RejectCode, RejectedError, check_size

_LARGEST = re.compile(PNM_BLANK + rb"([0-9]{1,9})")
_WHITE_SPACE = b" \t\n\v\f\r"


def load_pnm(data: bytes, max_pixels: int) -> tuple[Image.Image, int]:
    """The image of mode L or RGB in a file that PNM_START matches, and the bits of a value as stored: 1, 8 or 16.

    Values become 0 to 255, rounded: v * 255 / the largest that the header allows. Raises RejectedError.
    """
    size = PNM_START.match(data, 0, HEAD_BYTES)
    assert size
    kind, width, height = map(int, size.groups())
    check_size(height, width, max_pixels)
    if not height or not width:
        raise RejectedError(RejectCode.CORRUPT, f"PNM declares {height} x {width} pixels")
    at, largest = size.end(), 1
    if kind in (2, 3, 5, 6):
        match = _LARGEST.match(data, at, at + HEAD_BYTES)
        if not match:
            raise RejectedError(RejectCode.TRUNCATED, f"PNM ends in its header, at byte {len(data)}")
        at, largest = match.end(), int(match[1])
    if not 1 <= largest <= 65_535:
        raise RejectedError(RejectCode.CORRUPT, f"PNM declares the largest value {largest}, expected 1 to 65535")
    channels = 3 if kind in (3, 6) else 1
    read = _plain_values if kind <= 3 else _raw_values
    values = read(data, at, kind, (height, width * channels), largest)
    if values.max() > largest:
        problem = f"PNM has a value of {values.max()}, its header declares at most {largest}"
        raise RejectedError(RejectCode.CORRUPT, problem)
    if kind in (1, 4):
        values = 1 - values  # 1 is black
    if largest != 255:
        values = ((values.astype(np.uint32) * 510 + largest) // (2 * largest)).astype(np.uint8)
    pixels = values.astype(np.uint8).reshape((height, width, 3) if channels == 3 else (height, width))
    return Image.fromarray(pixels), 1 if kind in (1, 4) else 16 if largest > 255 else 8


def _raw_values(data: bytes, at: int, kind: int, shape: tuple[int, int], largest: int) -> np.ndarray:
    """uint8 or big-endian uint16 `shape`, which begin after the one byte of white space at `at`."""
    height, row = shape
    dtype = np.dtype(np.uint8 if largest < 256 else ">u2")
    row_bytes = (row + 7) // 8 if kind == 4 else row * dtype.itemsize
    start, stop = at + 1, at + 1 + height * row_bytes
    if len(data) < stop:
        problem = f"PNM has {max(0, len(data) - start)} bytes of pixels, its header declares {stop - start}"
        raise RejectedError(RejectCode.TRUNCATED, problem)
    if PNM_START.match(data[stop : stop + HEAD_BYTES].lstrip(_WHITE_SPACE)):
        raise RejectedError(RejectCode.ANIMATED, "PNM with more than one image")
    if kind == 4:
        packed = np.frombuffer(data, np.uint8, height * row_bytes, start).reshape(height, row_bytes)
        return np.unpackbits(packed, axis=1, count=row)
    return np.frombuffer(data, dtype, height * row, start).reshape(shape)


def _plain_values(data: bytes, at: int, kind: int, shape: tuple[int, int], largest: int) -> np.ndarray:
    """int64 `shape`, written as decimal numbers; the digits of a PBM need no blanks between them."""
    text = re.sub(rb"#[^\n\r]*", b"", data[at:])
    if odd := text.translate(None, b"0123456789" + _WHITE_SPACE):
        raise RejectedError(RejectCode.CORRUPT, f"PNM has {odd[:12]!r} among its values")
    count = shape[0] * shape[1]
    if kind == 1:
        values = np.frombuffer(text.translate(None, _WHITE_SPACE), np.uint8).astype(np.int64) - ord("0")
    else:
        values = np.fromstring(text, np.int64, sep=" ")
    if len(values) < count:
        raise RejectedError(RejectCode.TRUNCATED, f"PNM has {len(values)} values, its header declares {count}")
    return values[:count].reshape(shape)
