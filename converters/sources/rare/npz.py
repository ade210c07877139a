"""NumPy's files: `.npz`, a folder of `.npy`, or one `.npy` with its labels beside it. Pickles are never loaded.

Arrays of `np.save` and `np.savez` are read in place; those of `np.savez_compressed` are decompressed once.
"""

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from shardfeed.converters.sources.files.parts import listed
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import RawArray, pickled, shape_text
from shardfeed.converters.sources.rare.array_source import evidence_of, files_of, inside, named_source, split_of
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError, escape
from shardfeed.text import number

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member (APPNOTE 4.3.7): signature, lengths of name and extra field
# Errors of zipfile for files that are not zips, truncated, damaged, encrypted, or compressed in an unknown way.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError)
_PIECE = 1 << 20
_NPY_MAGIC = b"\x93NUMPY"


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """A `.npz` file or folders of them, a `.npy` file or a folder of them."""
    names = [*files_of(look, (".npz",), look_only=True)] or [*inside(look, (".npy",), 1)]
    if not names:
        return None
    return evidence_of("npz", number(len(names), f"{os.path.splitext(names[0])[1]} file"), read, look, options)


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The images of NumPy's files, with their labels, if any.

    Each of several `.npz` files has its own images, or labels for another file's images; `.npy` files in a folder are
    arrays of one set. Raises UsageError, also for a pickle.
    """
    if files_of(look, (".npz",), look_only=True):
        paths = files_of(look, (".npz",), look_only=look_only)
        files = {name: _npz_arrays(path) for name, path in paths.items()}
    else:
        if not (names := [*inside(look, (".npy",), 1)]):
            raise UsageError(look.path, "there is no .npz or .npy file", "check the path")
        if not look.is_folder:
            names, options = _with_labels(look, options)
        files = {"": _npy_arrays(look.folder, names)}
    return named_source(os.path.abspath(look.path), files, options, look_only=look_only)


def _with_labels(look: Look, options: ColumnOptions) -> tuple[list[str], ColumnOptions]:
    """Return the files of images and of possible labels in one folder, and options with these columns."""
    own = os.path.splitext(os.path.basename(look.path))[0]
    label = options.columns.get("label", "").removesuffix(".npy")
    stems = {os.path.splitext(name)[0]: name for name in inside(Look(look.folder), (".npy",), 1)}
    wanted = [name for stem, name in stems.items() if stem in (own, label)]
    if not label:
        wanted += [name for stem, name in stems.items() if stem != own and split_of(stem) == split_of(own)]
    columns = {**options.columns, "image": own, **({"label": label} if label else {})}
    return sorted(wanted), replace(options, columns=columns)


def _npy_arrays(folder: str, names: list[str]) -> dict[str, RawArray]:
    arrays = {}
    for name in names:
        place, stem = os.path.join(folder, name), os.path.splitext(name)[0]
        plain = listed(place)
        with open(place, "rb") as file:
            arrays[stem] = _array(file, place, RawArray(stem, plain, 0, (), np.dtype("u1"), 1, None, plain.size))
    return arrays


def _npz_arrays(place: str) -> dict[str, RawArray]:
    """Name -> array. Raises UsageError for a file that is cut, or no zip file."""
    file = listed(place)
    arrays = {}
    try:
        with zipfile.ZipFile(place) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                name = info.filename[: -len(".npy")]
                stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
                pieces = None if stored else partial(_pieces, place, info.filename)
                start = _data_start(place, info) if stored else 0
                with archive.open(info) as member:
                    raw = RawArray(name, file, start, (), np.dtype("u1"), 1, pieces, info.file_size)
                    arrays[name] = _array(member, place, raw)
    except _BROKEN as error:
        with open(place, "rb") as head:
            if head.read(1) == b"\x80":
                raise pickled(place, os.path.basename(place)) from None
        problem = f"is not an intact .npz file: {escape(str(error)[:200])}"
        raise UsageError(place, problem, "copy or save it again") from None
    return arrays


def _data_start(place: str, info: zipfile.ZipInfo) -> int:
    """Return the offset of the bytes of a stored member, which the directory at the end of the file lacks."""
    with open(place, "rb") as file:
        file.seek(info.header_offset)
        signature, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"no member at byte {info.header_offset}")
    return info.header_offset + _LOCAL_HEADER.size + name + extra


def _pieces(place: str, member: str) -> Iterator[bytes]:
    with zipfile.ZipFile(place) as archive, archive.open(member) as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _array(stream: IO[bytes], place: str, raw: RawArray) -> RawArray:
    """The array with the header at the start of `stream`; `raw`: array of all its bytes."""
    name, size = raw.named, raw.size
    head = stream.read(len(_NPY_MAGIC) + 2)
    if head[:1] == b"\x80":
        raise pickled(place, name)
    try:
        if not head.startswith(_NPY_MAGIC):
            raise ValueError(f"it begins with {head!r}")
        version = np.lib.format.read_array_header_1_0 if head[6] == 1 else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = version(stream)
        if min(shape, default=0) < 0:
            raise ValueError(f"its shape is {shape}")
    except Exception as error:  # the header is parsed as Python: any error of the parser or NumPy
        problem = f"{escape(name)} is not an intact .npy file: {escape(str(error)[:200])}"
        raise UsageError(place, problem, "save it again by np.save") from None
    header = stream.tell()
    if by_columns and len(shape) > 1 and not dtype.hasobject:
        problem = f"{escape(name)} {shape_text(shape, dtype)} is stored in Fortran order, so no image is contiguous"
        raise UsageError(place, problem, "save np.ascontiguousarray(x)")
    count, row = shape[0] if shape else 1, math.prod(shape[1:]) * dtype.itemsize
    budget().rows(count, os.path.getsize(place), place, f"rows of {escape(name)}")
    if not dtype.hasobject and size != header + row * count:
        problem = f"{escape(name)} {shape_text(shape, dtype)} has {size - header} bytes of values, expected "
        raise UsageError(place, f"{problem}{row * count}", "the file is truncated: copy or save it again")
    return replace(raw, offset=raw.offset + header, shape=shape, dtype=dtype, stride=row)
