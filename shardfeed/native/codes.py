"""Read and write the Huffman codes of JPEGs with the compiled module."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from shardfeed.native import library

_BLOCK = 640  # bytes of room that the module needs before each block: A_BLOCK of recode.cpp
_NO_CODE = -4
_PROBLEMS = {
    -1: "decoders refuse its header",
    -2: "its image data is damaged",
    -3: "its image data has markers that its header does not declare",
}


class DamagedCodesError(ValueError):
    """A code in the image data of a JPEG is damaged, or decoders refuse its header."""


def recoded(data: bytes, interval: int, usual: bytes, room: int) -> bytes | None:
    """Return the image data of a sequential JPEG with a restart marker every `interval` MCUs, without the end marker.

    `usual`: two tables for first coefficients to write with, 16 counts and 12 symbols each; b"" for the file's own.
    `room`: the largest size of the result, bytes. Returns None if a table has no code for a difference. Raises
    DamagedCodesError. The module must have been built.
    """
    out = np.empty(room + _BLOCK, np.uint8)
    made = _functions().shardfeed_recode(data, len(data), interval, usual or None, out.ctypes.data, len(out))
    if made == _NO_CODE:
        return None
    if made in _PROBLEMS:
        raise DamagedCodesError(_PROBLEMS[made])
    if made < 0:
        raise MemoryError(f"{len(data)} bytes of JPEG")
    return out[:made].tobytes()


def is_whole(data: bytes) -> bool:
    """Whether a JPEG is sequential and each code can be read, so that libjpeg decodes it without a warning.

    False means that a decoder must judge: the file is damaged, odd or of another kind, or the module was not built.
    """
    return library() is not None and bool(_functions().shardfeed_is_whole(data, len(data)))


def have_same_codes(data: bytes, other: bytes) -> bool:
    """Whether two sequential JPEGs have the same coefficients, and are decoded to the same pixels without a warning.

    False means that a decoder must judge, as for `is_whole`.
    """
    if library() is None:
        return False
    return bool(_functions().shardfeed_same_codes(data, len(data), other, len(other)))


@cache
def _functions() -> Any:
    functions = library()
    assert functions is not None
    data, size = ctypes.c_char_p, ctypes.c_size_t
    functions.shardfeed_recode.argtypes = [data, size, ctypes.c_int64, data, ctypes.c_void_p, size]
    functions.shardfeed_recode.restype = ctypes.c_int64
    functions.shardfeed_is_whole.argtypes = [data, size]
    functions.shardfeed_same_codes.argtypes = [data, size, data, size]
    return functions
