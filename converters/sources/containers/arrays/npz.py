"""NumPy's files: `.npz`, a folder of `.npy`, or one `.npy` with its labels beside it. Nothing pickled is loaded.

Arrays that `np.save` and `np.savez` wrote are read where they lie; those of `np.savez_compressed` are unpacked by each
worker.
"""

import math
import os
import struct
import zipfile
import zlib
from dataclasses import replace
from typing import IO

import numpy as np

from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.containers.arrays.names import split_of
from shardfeed.converters.sources.containers.arrays.pixels import layout_of, shape_text
from shardfeed.converters.sources.containers.arrays.raw_arrays import (
    PackedFile,
    PlainFile,
    RawArray,
    RawImages,
    pickled,
)
from shardfeed.converters.sources.containers.arrays.source import (
    LOOKED_AT,
    evidence_of,
    files_of,
    source_of,
)
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.guard import budget
from shardfeed.errors import UsageError, escape
from shardfeed.text import number

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member (APPNOTE 4.3.7): signature, lengths of name and extra field
# What zipfile raises for a file that is none, or is cut, damaged, encrypted or packed in a way that it does not know.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError)
_NPY_MAGIC = b"\x93NUMPY"


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """A `.npz` file or folder of them, a `.npy` file or a folder of them."""
    for ends in (".npz", ".npy"):
        if names := files_of(path, (ends,)):
            return evidence_of("npz", number(len(names), f"{ends} file"), lambda: _read(path, options, labelled=False))
    return None


def read(path: str, options: ContainerOptions) -> BlockSource:
    """The images of NumPy's files, with the labels that they have.

    Of several `.npz` files in a folder each has images of its own; `.npy` files in a folder are arrays of one set.
    Raises UsageError, for a pickle too.
    """
    return _read(path, options, labelled=True)


def _read(path: str, options: ContainerOptions, *, labelled: bool) -> BlockSource:
    """`labelled`: whether labels are read, too; without, it is only a look."""
    path = os.path.abspath(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    if names := files_of(path, (".npz",)):
        files = {name: _npz_arrays(os.path.join(folder, name)) for name in (names if labelled else names[:LOOKED_AT])}
        return source_of(path, files, options, _imaged, labelled=labelled)
    if not (names := files_of(path, (".npy",))):
        raise UsageError(path, "no .npz or .npy file is there", "check the path")
    if not os.path.isdir(path):
        names, options = _with_labels(path, folder, options)
    return source_of(path, {"": _npy_arrays(folder, names)}, options, _imaged, labelled=labelled)


def _with_labels(path: str, folder: str, options: ContainerOptions) -> tuple[list[str], ContainerOptions]:
    """The file of images, and those in the same folder that may be its labels; the options with what is said so."""
    own = os.path.splitext(os.path.basename(path))[0]
    label = options.columns.get("label", "").removesuffix(".npy")
    others = files_of(folder, (".npy",))
    stems = {name[: -len(".npy")]: name for name in others}
    wanted = [name for stem, name in stems.items() if stem in (own, label)]
    if not label:
        split = split_of(own)
        wanted += [name for stem, name in stems.items() if stem != own and split_of(stem) == split]
    columns = {**options.columns, "image": own, **({"label": label} if label else {})}
    return sorted(wanted), replace(options, columns=columns)


def _imaged(array: RawArray) -> tuple[RawImages, list[str]]:
    place = array.file.state.path
    if array.dtype.hasobject:
        raise pickled(place, array.named)
    layout, said = layout_of(place, array.named, array.shape, array.dtype)
    zipped = escape(os.path.basename(place))
    note = array.check_readable(f"`unzip {zipped}` into a folder, and give that: .npy files are read where they lie")
    return RawImages(array, layout), [f"{escape(array.named)}: {said}", *([note] if note else [])]


def _npy_arrays(folder: str, names: list[str]) -> dict[str, RawArray]:
    arrays = {}
    for name in names:
        place, stem = os.path.join(folder, name), name[: -len(".npy")]
        plain = PlainFile(FileState.listed(place))
        with open(place, "rb") as file:
            arrays[stem] = _array(file, place, stem, plain, 0)
    return arrays


def _npz_arrays(place: str) -> dict[str, RawArray]:
    """Name -> array. Raises UsageError for a file that is cut, or no zip file."""
    state = FileState.listed(place)
    arrays = {}
    try:
        with zipfile.ZipFile(place) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                name = info.filename[: -len(".npy")]
                if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                    file, start, size = PlainFile(state), _data_start(place, info), info.file_size
                else:
                    file, start, size = PackedFile(state, info.file_size, info.filename), 0, info.file_size
                with archive.open(info) as member:
                    arrays[name] = _array(member, place, name, file, start, size)
    except _BROKEN as error:
        with open(place, "rb") as file:
            if file.read(1) == b"\x80":
                raise pickled(place, os.path.basename(place)) from None
        raise UsageError(place, f"is no whole .npz file: {escape(str(error)[:200])}", "copy or save it again") from None
    return arrays


def _data_start(place: str, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin. The directory at the end of the file does not say."""
    with open(place, "rb") as file:
        file.seek(info.header_offset)
        signature, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"no member at byte {info.header_offset}")
    return info.header_offset + _LOCAL_HEADER.size + name + extra


def _array(
    stream: IO[bytes], place: str, name: str, file: PlainFile | PackedFile, start: int, size: int | None = None
) -> RawArray:
    """The array whose header `stream` begins with; its `size` bytes begin at `start` in `file`."""
    size = file.state.size if size is None else size
    head = stream.read(len(_NPY_MAGIC) + 2)
    if head[:1] == b"\x80":
        raise pickled(place, name)
    try:
        if not head.startswith(_NPY_MAGIC):
            raise ValueError(f"it begins with {head!r}")
        version = np.lib.format.read_array_header_1_0 if head[6] == 1 else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = version(stream)
    except ValueError as error:
        problem = f"{escape(name)} is no whole .npy file: {escape(str(error)[:200])}"
        raise UsageError(place, problem, "save it again by np.save") from None
    header = stream.tell()
    if by_columns and len(shape) > 1 and not dtype.hasobject:
        problem = f"{escape(name)} {shape_text(shape, dtype)} is stored column by column: no image is in one place"
        raise UsageError(place, problem, "save np.ascontiguousarray(x)")
    budget().rows(shape[0] if shape else 1, file.state.size, place, f"rows of {escape(name)}")
    row = math.prod(shape[1:]) * dtype.itemsize
    if not dtype.hasobject and size != header + row * (shape[0] if shape else 1):
        problem = f"{escape(name)} {shape_text(shape, dtype)} has {size - header} bytes of values, expected "
        problem += f"{row * (shape[0] if shape else 1)}"
        raise UsageError(place, problem, "the file is cut: copy or save it again")
    return RawArray(name, file, start + header, shape, dtype, row)
