"""MATLAB's files of version 5, as `scipy.io.savemat` writes them, without compression."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

_TYPES = {"int8": 1, "uint8": 2, "int16": 3, "uint16": 4, "int32": 5, "uint32": 6, "float64": 9}
_CLASSES = {"float64": 6, "uint8": 9, "int8": 8, "int16": 10, "uint16": 11, "int32": 12, "uint32": 13}
_CELL, _STRUCT, _CHAR, _MATRIX = 1, 2, 4, 14


def _element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


def _head(of_class: int, shape: tuple[int, ...], name: str) -> bytes:
    flags = _element(_TYPES["uint32"], struct.pack("<II", of_class, 0))
    return flags + _element(_TYPES["int32"], np.array(shape, "<i4").tobytes()) + _element(1, name.encode())


def matrix(value: Any, name: str = "") -> bytes:
    """An array, a text, a list (a cell array of one row), or a list of dicts (a structure array of one row)."""
    if isinstance(value, str):
        body = _head(_CHAR, (1, len(value)), name) + _element(_TYPES["uint16"], value.encode("utf-16-le"))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        fields = list(value[0])
        names = b"".join(field.encode().ljust(32, b"\0") for field in fields)
        body = _head(_STRUCT, (1, len(value)), name) + struct.pack("<HHI", _TYPES["int32"], 4, 32) + _element(1, names)
        body += b"".join(matrix(row[field]) for row in value for field in fields)
    elif isinstance(value, list):
        body = _head(_CELL, (1, len(value)), name) + b"".join(map(matrix, value))
    else:
        array = np.atleast_2d(np.asarray(value))
        array = array if str(array.dtype) in _CLASSES else array.astype(np.float64)
        kind = str(array.dtype)
        body = _head(_CLASSES[kind], array.shape, name) + _element(_TYPES[kind], array.tobytes(order="F"))
    return struct.pack("<II", _MATRIX, len(body)) + body


def mat_file(variables: Mapping[str, Any]) -> bytes:
    """A file of these variables."""
    head = b"MATLAB 5.0 MAT-file, Platform: posix, Created on: Thu Jan  1 00:00:00 2026".ljust(116) + b"\0" * 8
    return (
        head + struct.pack("<H2s", 0x0100, b"IM") + b"".join(matrix(value, name) for name, value in variables.items())
    )
