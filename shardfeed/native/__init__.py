"""The optional compiled module: JPEGs from records to a batch's pixels, in C++ against the system's libjpeg-turbo.

`pip install` builds it where a C++ compiler and the headers of libjpeg-turbo are; in a checkout, `python setup.py
--quiet build_ext --inplace` puts it beside this file. Without it everything works but `convert --seekable`, in Python
around other libraries. The environment variable SHARDFEED_NATIVE=0 turns it off, and 1 makes its absence an error.

native.h declares the functions. ctypes calls them, without the interpreter's lock.
"""

import ctypes
import logging
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from shardfeed.errors import UsageError

VARIABLE = "SHARDFEED_NATIVE"

_INTERFACE = 7  # of native.h
_REMEDY = (
    "install a C++ compiler and the headers of libjpeg-turbo (Debian: `apt-get install g++ libjpeg62-turbo-dev`), then"
    " shardfeed again: `pip install --force-reinstall --no-deps .` in its clone"
)
_LOG = logging.getLogger(__name__)
_BLOCK = 640  # bytes of room that the module needs before each block: A_BLOCK of recode.cpp
_NO_CODE = -4
_PROBLEMS = {
    -1: "decoders refuse its header",
    -2: "its image data is damaged",
    -3: "its image data has markers that its header does not declare",
}


def library() -> ctypes.CDLL | None:
    """Return the compiled module, loaded; None where it is turned off or was not built.

    Raises UsageError where SHARDFEED_NATIVE is 1 and it cannot be used, or has a value other than 0 and 1.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "0", "1"):
        raise UsageError(VARIABLE, f"got {wanted!r}, expected 0 or 1", "unset it to use what was built")
    if _turned_off():
        return None
    loaded, why = _loaded()
    if loaded is None and wanted == "1":
        raise UsageError(VARIABLE, f"got 1, but the compiled module {why}", _REMEDY)
    return loaded


def check_built(place: str, why: str) -> None:
    """Raise UsageError unless the compiled module is in use. `place` asks for it; `why`: what it does there."""
    if library() is None:
        remedy = f"unset {VARIABLE}" if _turned_off() else _REMEDY
        raise UsageError(place, f"needs the compiled module, as {why}; got {path_in_use()}", remedy)


def path_in_use() -> str:
    """Return which code decodes: "compiled, libjpeg-turbo 2.1.5", or "Python" and the reason."""
    loaded = library()
    if loaded is None:
        return f"Python: {f'{VARIABLE}=0' if _turned_off() else f'compiled module {_loaded()[1]}'}"
    number = loaded.shardfeed_jpeg()
    return f"compiled, libjpeg-turbo {number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _turned_off() -> bool:
    return os.environ.get(VARIABLE) == "0"


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """Return the library, or None and why there is none."""
    files = [os.path.join(os.path.dirname(__file__), f"library{suffix}") for suffix in EXTENSION_SUFFIXES]
    file = next(filter(os.path.exists, files), None)
    if file is None:
        return None, "was not built"
    try:
        loaded = ctypes.CDLL(str(file))
        built = loaded.shardfeed_interface()
        if built != _INTERFACE:
            return None, f"is of another version: interface {built}, expected {_INTERFACE}"
        if not loaded.shardfeed_jpeg():
            return None, "found another libjpeg than the one it was built against"
    except (OSError, AttributeError) as error:  # a library that it needs is missing
        return None, f"does not load: {error}"
    _LOG.debug("loaded %s", file)
    return loaded, ""


class DamagedCodesError(ValueError):
    """A code in the image data of a JPEG is damaged, or decoders refuse its header."""


def recoded(data: bytes, interval: int, usual: bytes, room: int) -> bytes | None:
    """Return the image data of a sequential JPEG with a restart marker every `interval` MCUs, without the end marker.

    `usual`: two tables for first coefficients to write with, 16 counts and 12 symbols each; b"" for the file's own.
    `room`: the largest size of the result, bytes. Returns None if a table has no code for a difference. Raises
    DamagedCodesError. The module must have been built.
    """
    import numpy as np  # not above: the command line starts without it

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
