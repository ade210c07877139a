"""Arrays that lie in a file as they lie in memory, or would once it is unpacked: any row without the others."""

import gzip
import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Protocol, cast

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.arrays.pixels import Layout, Part, PixelPart
from shardfeed.converters.sources.containers.handles import check
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.rows.parts import FilePart
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape
from shardfeed.text import size_text

# Of one array: each worker unpacks it into a temporary file of its own, and there may be as many as processors.
MAX_UNPACKED_BYTES = 2 << 30
_PIECE = 1 << 20
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile)


class Packed(Protocol):
    """Something compressed in a file that takes `unpacked_size` bytes once it is unpacked; hashable.

    Nothing can be read of its middle alone, so each process that reads unpacks it once, into a temporary file that
    has no name and goes with the process.
    """

    @property
    def file(self) -> SourceFile: ...

    @property
    def unpacked_size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]:
        """The unpacked bytes. Raises RejectedError, OSError and what `_BROKEN` has."""
        ...


@dataclass(frozen=True)
class PackedFile:
    """A gzip file, or one `member` of a zip file: see `Packed`."""

    file: SourceFile
    unpacked_size: int
    member: str | None = None

    def pieces(self) -> Iterator[bytes]:
        """The unpacked bytes, and one more where there are more."""
        with self._open() as stream:
            left = self.unpacked_size
            while left and (piece := stream.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece
            yield stream.read(1)  # and so to its end, where the checksum is

    def _open(self) -> IO[bytes]:
        if self.member is None:
            return cast("IO[bytes]", gzip.open(self.file.path, "rb"))
        with zipfile.ZipFile(os.fsdecode(self.file.path)) as archive:
            return archive.open(self.member)  # which keeps the file open beyond the archive


@dataclass(frozen=True)
class _PackedPart:
    packed: Packed
    offset: int
    size: int

    @property
    def mtime_ns(self) -> int:
        return self.packed.file.mtime_ns

    def __call__(self) -> bytes:
        check(self.packed.file)
        return os.pread(_unpacked(self.packed).fileno(), self.size, self.offset)


# What this process unpacked, or why it could not; read only, so a forked one may share it.
_here: dict[Packed, IO[bytes] | RejectedError] = {}


def _unpacked(packed: Packed) -> IO[bytes]:
    """The unpacked bytes, whole. Raises RejectedError."""
    if packed not in _here:
        try:
            _here[packed] = _unpack(packed)
        except RejectedError as error:
            _here[packed] = error
    found = _here[packed]
    if isinstance(found, RejectedError):
        raise found
    return found


def _unpack(packed: Packed) -> IO[bytes]:
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        try:
            _hand_over(packed, file.write)
            file.flush()
        except RejectedError as error:
            raise RejectedError(error.code, f"{escape(packed.file.path)} {error.reason}") from None
        except OSError as error:
            problem = f"{escape(packed.file.path)} cannot be unpacked into {escape(tempfile.gettempdir())}"
            raise RejectedError(RejectCode.UNREADABLE, f"{problem}: {error.strerror} (errno {error.errno})") from None
        stack.pop_all()  # it stays open as long as this process
    return file


def _hand_over(packed: Packed, write: Callable[[bytes], object]) -> None:
    """Gives all unpacked bytes to `write`. Raises RejectedError where they are not whole, OSError."""
    size = 0
    try:
        for piece in packed.pieces():
            write(piece)
            size += len(piece)
    except _BROKEN as error:
        raise RejectedError(RejectCode.CORRUPT, f"cannot be unpacked: {error}") from None
    if size != packed.unpacked_size:
        raise RejectedError(RejectCode.CORRUPT, f"does not unpack to the {packed.unpacked_size} bytes that it says")


@dataclass(frozen=True)
class RawArray:
    """An array of `shape` [n, ...] and `dtype` in `of`: row i begins at `offset` + i * `stride` bytes.

    `named`: its name, for messages.
    """

    named: str
    of: SourceFile | Packed
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    stride: int

    @property
    def file(self) -> SourceFile:
        """The file that it is in."""
        return self.of if isinstance(self.of, SourceFile) else self.of.file

    @property
    def place(self) -> str:
        """The file's path, for errors."""
        return os.fsdecode(self.file.path)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def part(self, offset: int, size: int) -> Part:
        """`size` bytes from `offset` on."""
        if isinstance(self.of, SourceFile):
            return FilePart(self.of.path, offset, size, self.of.size, self.of.mtime_ns)
        return _PackedPart(self.of, offset, size)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop`. Raises RejectedError; UsageError for an array that is pickled."""
        if self.dtype.hasobject:
            raise pickled(self.place, self.named)
        count = stop - start
        size = (count - 1) * self.stride + self.row_bytes
        data = self.part(self.offset + start * self.stride, size)().ljust(count * self.stride, b"\0")
        fields = np.frombuffer(data, np.uint8).reshape(count, self.stride)[:, : self.row_bytes]
        return np.ascontiguousarray(fields).view(self.dtype).reshape(count, *self.shape[1:])

    def check_readable(self, remedy: str) -> list[str]:
        """A note where the array is unpacked to read an image.

        Raises UsageError, with `remedy`, where it is too large for that.
        """
        if isinstance(self.of, SourceFile):
            return []
        size = self.of.unpacked_size
        budget().unpacked(size, self.file.size, self.place)
        what = f"{escape(self.named)} is compressed as a whole, or in parts of many images"
        if size > MAX_UNPACKED_BYTES:
            problem = f"{what}, and takes {size_text(size)} unpacked; expected {size_text(MAX_UNPACKED_BYTES)} at most"
            raise UsageError(self.place, problem, remedy)
        return [f"{what}: each worker unpacks its {size_text(size)} once, into {escape(tempfile.gettempdir())}"]

    def check_whole(self) -> None:
        """Raises UsageError where what is compressed cannot be unpacked: it is, once, and nothing of it kept."""
        if isinstance(self.of, SourceFile):
            return
        try:
            _hand_over(self.of, len)
        except (RejectedError, OSError) as error:
            reason = error.reason if isinstance(error, RejectedError) else f"cannot be read: {error.strerror}"
            raise UsageError(self.place, f"{escape(self.named)} {reason}", "copy or save it again") from None


@dataclass(frozen=True)
class RawImages:
    """The images of `array`, which lie as `layout` says: see `Images`."""

    array: RawArray
    layout: Layout
    ending: bytes = b".png"

    @property
    def named(self) -> str:
        """The array's name."""
        return self.array.named

    def __len__(self) -> int:
        return self.array.shape[0]

    def content(self, index: int, /) -> PixelPart:
        """Image `index`, as a PNG."""
        array = self.array
        return PixelPart(array.part(array.offset + index * array.stride, array.row_bytes), self.layout)


def pickled(place: str, name: str) -> UsageError:
    """The error for what only a pickle would give."""
    problem = f"{escape(name)} is pickled, and loading a pickle may run any program: it is not loaded"
    return UsageError(place, problem, "save arrays of numbers by np.savez, images of one size as uint8")
