"""HDF5: datasets of pixels, or of encoded images, and of their labels.

Each reading process opens a file itself, without a lock, and never uses it after a fork. References to other files are
refused: a link may lead anywhere, and a virtual dataset gives zeros for missing data.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image, ending_of
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.parts import close, listed, opened
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.guard import HostileError, budget
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import PixelLayout, RawArray, layout_of, shape_text
from shardfeed.converters.sources.rare.array_source import Array, evidence_of, files_of, named_source
from shardfeed.converters.sources.rare.hdf5_chunks import MAX_CHUNK_BYTES, Chunks
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import ShardfeedError, UsageError, escape, needing_extra
from shardfeed.text import counted, number, size_text

if TYPE_CHECKING:
    import h5py

_ENDS = (".h5", ".hdf5", ".hdf", ".he5")
MAX_UNPACKED_BYTES = 2 << 30  # of a dataset that is unpacked, because its images are not in separate chunks
_SLAB_BYTES = 64 << 20  # read at a time where all of a dataset is unpacked
_MOST_ROW_BYTES = 64 << 20  # of an encoded image
_SLOW = 100  # images per chunk: reading one image decompresses this many
# Errors of h5py for a truncated or damaged file.
_BROKEN = (OSError, LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, SystemError, MemoryError)
_OBJECTS = 10_000  # datasets of a file that are examined


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """An HDF5 file, or a folder of them."""
    names = [*_files(look, look_only=True)]
    if not names or any(look.kind_of(look.full(name)) != "hdf5" for name in names):
        return None
    return evidence_of("hdf5", number(len(names), "HDF5 file"), read, look, options)


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The images of an HDF5 file, or of each in a folder, with the labels that they have, there or in another file.

    Datasets are pixels, uint8, or encoded images: uint8 of any length, or bytes. Raises UsageError, MissingExtraError.
    """
    notes: list[str] = []
    places = {name: listed(path) for name, path in _files(look, look_only=look_only).items()}
    try:
        files = {name: _arrays(file, notes) for name, file in places.items()}
        return named_source(look.path, files, options, look_only=look_only, notes=notes)
    except ShardfeedError:
        raise
    except _BROKEN as error:
        problem = f"is not an intact HDF5 file: {escape(str(error)[:200])}"
        raise UsageError(look.path, problem, "copy it again") from None
    finally:
        for file in places.values():
            close(file.path)  # while it is open, nothing in this process can write it


def _files(look: Look, *, look_only: bool) -> dict[str, str]:
    """Name -> path of the files; a file that is given by itself may be called anything."""
    return files_of(look, _ENDS if look.is_folder else ("",), look_only=look_only)


def _open(path: str) -> "h5py.File":
    with needing_extra(path):
        import h5py
    return h5py.File(path, "r", locking=False)


@dataclass(frozen=True)
class H5Array:
    """The dataset `named` of an HDF5 file, [n, ...].

    `at_once`: number of rows unpacked at a time if rows are not in separate chunks; else 0. `size`: mean size of an
    encoded image in bytes.
    """

    file: SourceFile
    named: str
    shape: tuple[int, ...]
    dtype: np.dtype
    at_once: int = 0
    size: int = 0

    def imaged(self) -> "tuple[H5Array, PixelLayout | None, bytes, list[str]]":
        """Pixels, or encoded images. Raises UsageError if it holds neither."""
        import h5py

        place, named = os.fsdecode(self.file.path), escape(self.named)
        dataset: Any = opened(self.file, _open)[self.named]
        _check_filters(place, dataset)
        count = self.shape[0]
        budget().rows(count, self.file.size, place, f"rows of {named}")
        kind = h5py.check_vlen_dtype(dataset.dtype)  # which a plain dtype does not show
        if kind != np.uint8 and self.dtype.kind not in "SV":
            layout, note = layout_of(place, self.named, self.shape, self.dtype)
            at_once, notes = _in_chunks(place, self, dataset.chunks)
            return replace(self, at_once=at_once), layout, b".png", [note, *notes]
        if math.prod(self.shape) != count or dataset.dtype.names:
            problem = f"{named} is {shape_text(self.shape, self.dtype)}"
            raise UsageError(place, problem, "expected one encoded image per sample: [n]")
        if kind is not None:
            _check_lengths(place, dataset, self.file.size)
        else:
            _check_longest(place, named, self.dtype.itemsize)
        try:
            head = _encoded(self.values(0))[:HEAD_BYTES] if count else b""
        except RejectedError as error:
            raise UsageError(place, f"cannot read the first image: {error.reason}", "copy the file again") from None
        if count and not begins_as_image(head):
            problem = f"{named} has no encoded images: the first begins with {head[:12]!r}"
            raise UsageError(place, problem, "save encoded files, or arrays of pixels [n, height, width, 3]")
        size = self.file.size // max(count, 1) if kind is not None else self.dtype.itemsize
        return replace(self, size=size), None, ending_of(head) if count else b"", [f"{named}: encoded images"]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop`. Raises RejectedError."""
        return np.asarray(self.values(slice(start, stop)))

    def values(self, which: int | slice) -> Any:
        """A row, or some. Raises RejectedError."""
        try:
            dataset: Any = opened(self.file, _open)[self.named]
            self._check_read(dataset, which)
            return dataset[which]
        except RejectedError as error:
            raise RejectedError(error.code, f"{escape(self.named)}: {error.reason}") from None
        except _BROKEN as error:
            raise RejectedError(RejectCode.CORRUPT, f"{escape(self.named)}: {escape(str(error)[:200])}") from None

    def _check_read(self, dataset: Any, which: int | slice) -> None:
        """Check what HDF5 would allocate for a row, or some. Raises RejectedError."""
        start, stop = (which.start, which.stop) if isinstance(which, slice) else (which, which + 1)
        size = (stop - start) * math.prod(self.shape[1:]) * self.dtype.itemsize
        try:
            budget().memory(size, self.file.size, os.fsdecode(self.file.path))
        except HostileError as error:
            raise RejectedError(RejectCode.TOO_LARGE, error.problem) from None
        if dataset.chunks:
            Chunks(dataset).check(start, stop)

    def content(self, index: int, layout: PixelLayout | None) -> "_H5Image":
        """Return a row as an image."""
        return _H5Image(self, index, self.size if layout is None else layout.size, layout)

    def unpacked(self, folder: Unpacked) -> Array:
        """Return the same array, decompressed to a file in `folder` if a chunk holds several rows."""
        if self.dtype.kind in "OS" and not self.size:  # labels: images were checked by `imaged`
            self._check_texts()
        if not self.at_once:
            return self
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        raw = RawArray(self.named, self.file, 0, self.shape, self.dtype, row, self._pieces, row * self.shape[0])
        return raw.unpacked(folder)

    def _check_texts(self) -> None:
        """Check the lengths of texts. Raises UsageError."""
        place = os.fsdecode(self.file.path)
        if self.dtype.kind == "O":
            _check_lengths(place, opened(self.file, _open)[self.named], self.file.size)
        else:
            _check_longest(place, escape(self.named), self.dtype.itemsize)

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, self.shape[0], self.at_once):
            yield self.rows(start, min(start + self.at_once, self.shape[0])).tobytes()


@dataclass(frozen=True)
class _H5Image:
    """One image of a dataset: a content as `Sample.image` takes it. `layout`: of pixels; None: it is encoded."""

    array: H5Array
    index: int
    size: int
    layout: PixelLayout | None

    @property
    def mtime_ns(self) -> int:
        return self.array.file.mtime_ns

    def __call__(self) -> bytes:
        """The PNG of the pixels, or the encoded image."""
        value = self.array.values(self.index)
        return _encoded(value) if self.layout is None else self.layout.png(value)


def _encoded(value: Any) -> bytes:
    """The bytes of a row of an encoded image: bytes, an opaque value, or numbers."""
    return value if type(value) is bytes else bytes(np.asarray(value).tobytes() if hasattr(value, "tobytes") else value)


def _arrays(listed_file: SourceFile, notes: list[str]) -> dict[str, H5Array]:
    """Return the datasets stored in the file itself, by name, and a note on external ones. Raises UsageError."""
    place = os.fsdecode(listed_file.path)
    with needing_extra(place):
        import h5py
    arrays: dict[str, H5Array] = {}
    elsewhere: list[str] = []
    links: list[str] = []
    file = opened(listed_file, _open)
    groups, met, visited = [("", file)], {_address(file)}, 0
    while groups:  # not by h5py's visititems: its time explodes where groups contain each other
        inside, group = groups.pop()
        deeper = []
        for name in group:
            visited += 1
            if visited > _OBJECTS:
                problem = f"has more than {_OBJECTS:,} objects"
                raise UsageError(place, problem, "give a file with arrays of many images")
            link, named = group.get(name, getlink=True), f"{inside}{name}"
            if isinstance(link, h5py.ExternalLink):
                links.append(named)
            if not isinstance(link, h5py.HardLink):
                continue
            found = group[name]
            if isinstance(found, h5py.Group):
                if _address(found) not in met:
                    deeper.append((f"{named}/", found))
                met.add(_address(found))
            elif isinstance(found, h5py.Dataset) and found.shape:
                if found.is_virtual or found.external:
                    elsewhere.append(named)
                else:
                    arrays[named] = H5Array(listed_file, named, found.shape, np.dtype(found.dtype.str))
        groups += deeper
    if elsewhere or links:
        what = "virtual datasets and links to other files are not followed"
        notes.append(counted(what, elsewhere + links, len(elsewhere + links)))
    if not arrays:
        problem = f"has no dataset{f', {notes[-1]}' if elsewhere or links else ''}"
        raise UsageError(place, problem, "give the file with the data, or a folder of such files")
    with open(place, "rb") as raw:
        if raw.read(6) == b"MATLAB":
            problem = "is a MATLAB file, which reverses the axes of arrays"
            raise UsageError(place, problem, "save it by h5py with the images first")
    return dict(sorted(arrays.items()))


def _address(found: Any) -> int:
    """Where an object is in its file: the same for each of its names."""
    import h5py

    low_level: Any = h5py  # whose h5o no stub knows
    return low_level.h5o.get_info(found.id).addr


def _check_lengths(place: str, dataset: Any, size: int) -> None:
    """Raise UsageError if rows of variable length are longer than the file, `size` bytes: HDF5 would allocate them.

    A row is stored as its length (4 bytes), and the address of its bytes, which are never compressed. Many rows may
    have the same address, so all together are limited, too.
    """
    row, named = np.dtype([("length", "<u4"), ("heap", "V12")]), escape(dataset.name)
    total = 0
    try:
        for part in _references(place, dataset, row.itemsize, size):
            lengths = np.frombuffer(part[: len(part) // row.itemsize * row.itemsize], row)["length"]
            total, longest = total + int(lengths.sum(dtype=np.int64)), int(lengths.max(initial=0))
            if longest > size:
                problem = f"{named} has a row of {longest} bytes, in a file of {size}"
                raise UsageError(place, problem, "copy the file again")
            _check_longest(place, named, longest)
    except RejectedError as error:
        raise UsageError(place, f"{named}: {error.reason}", "copy the file again") from None
    budget().memory(total, size, place, f"the rows of {named}")


def _references(place: str, dataset: Any, each: int, size: int) -> Iterator[bytes]:
    """Yield the stored rows of a dataset [n] of variable length, `each` of so many bytes, in pieces."""
    if dataset.chunks is not None:
        yield from Chunks(dataset).contents()
    elif dataset.id.get_offset() is not None:
        with open(place, "rb") as file:
            file.seek(dataset.file.userblock_size + dataset.id.get_offset())
            yield file.read(min(dataset.size * each, size))


def _check_longest(place: str, named: str, size: int) -> None:
    """Raise UsageError for a row of more bytes than HDF5 can give in bounded memory: it takes five times as much."""
    if size > _MOST_ROW_BYTES:
        problem = f"{named} has a row of {size_text(size)}, expected {size_text(_MOST_ROW_BYTES)} at most"
        raise UsageError(place, problem, "save each such row as a file")


def _check_filters(place: str, dataset: Any) -> None:
    """Raise UsageError if the dataset is compressed by a filter that this installation does not have."""
    import h5py

    settings = dataset.id.get_create_plist()
    for i in range(settings.get_nfilters()):
        code, _, _, name = settings.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            problem = f"{escape(dataset.name)} is compressed by {escape(name.decode(errors='replace'))} (filter {code})"
            remedy = (
                f"`h5repack -f GZIP=1 {escape(os.path.basename(place))} repacked.h5` where that filter is installed"
            )
            raise UsageError(place, f"{problem}, which is not installed", remedy)


def _in_chunks(place: str, array: H5Array, chunks: tuple[int, ...] | None) -> tuple[int, list[str]]:
    """Return the number of rows to decompress at a time, 0 to read each by itself; and notes.

    Raises UsageError where that would take too much memory or time.
    """
    if not chunks or not math.prod(array.shape):
        return 0, []
    named, image, chunk = escape(array.named), math.prod(array.shape[1:]), math.prod(chunks)
    remedy = f"`h5repack -l {named}:CHUNK={'x'.join(map(str, (1, *array.shape[1:])))}` stores one image per chunk"
    if chunk > MAX_CHUNK_BYTES:
        problem = (
            f"{named} has chunks of {size_text(chunk)}, each read as a whole, expected {size_text(MAX_CHUNK_BYTES)}"
        )
        raise UsageError(place, f"{problem} at most", remedy)
    size = image * array.shape[0]
    if chunks[0] == 1 or size <= MAX_UNPACKED_BYTES:
        return 0 if chunks[0] == 1 else max(1, min(chunks[0], _SLAB_BYTES // image)), []
    what = f"{named} has {chunks[0]} images per chunk, which are read together"
    if chunks[0] > _SLOW:
        raise UsageError(place, f"{what}, and takes {size_text(size)} decompressed", remedy)
    return 0, [f"{what}, which is slow: {remedy}"]
