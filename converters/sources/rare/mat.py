"""MATLAB's files, version 5 to 7: arrays [height, width, channels, n] and their labels, as SVHN has them.

Sides are stored in reverse order, so each image is in one place where the images are the last side.
Version 7.3 is HDF5.
"""

import math
import os
from collections.abc import Iterator
from functools import partial

import numpy as np

from shardfeed.converters.sources.files.parts import listed
from shardfeed.converters.sources.files.unpack import DamagedStreamError
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import RawArray
from shardfeed.converters.sources.rare.array_source import evidence_of, files_of, named_source
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError, argument, escape, needing_extra
from shardfeed.text import number

_MAGIC = b"MATLAB "
_NUMBERS = {"double": "f8", "single": "f4", "logical": "u1", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2"}
_NUMBERS |= {"int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8"}
_SLAB = 1 << 20  # bytes handed over at a time


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """A `.mat` file or a folder of them."""
    names = files_of(look, (".mat",), look_only=True)
    names = [name for name, path in names.items() if look.head(path).startswith(_MAGIC)]
    if not names:
        return None
    found = number(len(names), ".mat file")
    evidence = evidence_of("mat", found, read, look, options)
    if not evidence.missing or not look.image:
        return evidence
    if names[0].count(os.sep) > 1:  # Caltech-101: the outline of each image
        return None
    missing = f"{escape(names[0])} lists image files, which is not supported; "
    remedy = f"save it as a CSV of `path,label`, and give that: {argument('labels', typed='FILE.csv')}"
    return Evidence("mat", found, missing + remedy)


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The images of MATLAB's files, with the labels that they have. Raises UsageError, MissingExtraError."""
    files = {name: _arrays(path) for name, path in files_of(look, (".mat",), look_only=look_only).items()}
    return named_source(look.path, files, options, look_only=look_only)


def _pieces(path: str, name: str, dtype: str) -> Iterator[bytes]:
    """The bytes of a variable, column by column. Raises DamagedStreamError."""
    from scipy import io

    try:
        found = io.loadmat(path, variable_names=[name], mat_dtype=True)
        array = np.ascontiguousarray(np.asarray(found[name]).T.astype(dtype, copy=False))
    except Exception as error:  # scipy has its own errors for truncated or damaged files
        raise DamagedStreamError(str(error)[:200]) from None
    plain = array.reshape(-1).view(np.uint8)
    for start in range(0, len(plain), _SLAB):
        yield plain[start : start + _SLAB].tobytes()


def _arrays(path: str) -> dict[str, RawArray]:
    """Name -> array of numbers, its sides in reverse order. Raises UsageError, MissingExtraError."""
    file = listed(path)
    with open(path, "rb") as head:
        if head.read(len(_MAGIC) + 3) == _MAGIC + b"7.3":
            problem = "is a MATLAB file of version 7.3, which is HDF5 with the axes of arrays reversed"
            raise UsageError(path, problem, "save it by `save -v7`, or by h5py with the images first")
    with needing_extra(path):
        from scipy import io
    try:
        variables = io.whosmat(path)
    except Exception as error:  # see `_pieces`
        raise UsageError(path, f"is not an intact .mat file: {escape(str(error)[:200])}", "copy it again") from None
    arrays = {}
    for name, shape, kind in variables:
        if kind not in _NUMBERS:
            continue
        dtype = np.dtype(_NUMBERS[kind])
        sides = (max(shape),) if len(shape) == 2 and min(shape) == 1 else tuple(reversed(shape))
        budget().rows(sides[0], file.size, path, f"images in {escape(name)}")
        row = math.prod(sides[1:]) * dtype.itemsize
        pieces = partial(_pieces, os.path.abspath(path), name, dtype.str)
        arrays[name] = RawArray(name, file, 0, sides, dtype, row, pieces, row * sides[0], -1)
    return arrays
