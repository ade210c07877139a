"""Arrays that lie in a file as they lie in memory, or would once it is unpacked: any row without the others."""

import gzip
import math
import os
import tempfile
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, cast

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.arrays.pixels import Layout, Part, PixelPart
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.part import FilePart
from shardfeed.errors import UsageError, escape
from shardfeed.text import size_text

# Of one array: each worker unpacks it into a temporary file of its own, and there may be as many as processors.
MAX_UNPACKED_BYTES = 2 << 30
_PIECE = 1 << 20


@dataclass(frozen=True)
class PlainFile:
    """A file that is read where it lies."""

    state: FileState

    def part(self, offset: int, size: int) -> Part:
        """`size` bytes from `offset` on."""
        return FilePart(os.fsencode(self.state.path), offset, size, self.state.size, self.state.mtime_ns)


@dataclass(frozen=True)
class PackedFile:
    """A gzip file, or one `member` of a zip file, that is `unpacked_size` bytes long once it is unpacked.

    Nothing can be read of its middle alone, so each process that reads unpacks it once, into a temporary file that
    has no name and goes with the process.
    """

    state: FileState
    unpacked_size: int
    member: str | None = None

    def part(self, offset: int, size: int) -> Part:
        """`size` unpacked bytes from `offset` on."""
        return _PackedPart(self, offset, size)

    def open(self) -> IO[bytes]:
        """A stream of the unpacked bytes. Raises OSError, zlib.error and zipfile.BadZipFile, and so does reading."""
        if self.member is None:
            return cast("IO[bytes]", gzip.open(self.state.path, "rb"))
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.state.path))
            return archive.open(self.member)  # which keeps the file open beyond the archive


@dataclass(frozen=True)
class _PackedPart:
    file: PackedFile
    offset: int
    size: int

    @property
    def mtime_ns(self) -> int:
        return self.file.state.mtime_ns

    def __call__(self) -> bytes:
        self.file.state.check()
        return os.pread(_unpacked(self.file).fileno(), self.size, self.offset)


# What this process unpacked, or why it could not; read only, so a forked one may share it.
_here: dict[PackedFile, IO[bytes] | RejectedError] = {}


def _unpacked(packed: PackedFile) -> IO[bytes]:
    """The file's unpacked bytes, whole. Raises RejectedError."""
    if packed not in _here:
        try:
            _here[packed] = _unpack(packed)
        except RejectedError as error:
            _here[packed] = error
    found = _here[packed]
    if isinstance(found, RejectedError):
        raise found
    return found


def _unpack(packed: PackedFile) -> IO[bytes]:
    name = escape(packed.state.path)
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # kept open as long as this process
    try:
        with packed.open() as stream:
            left = packed.unpacked_size
            while left and (piece := stream.read(min(left, _PIECE))):
                file.write(piece)
                left -= len(piece)
            more = stream.read(1)  # and so to its end, where the checksum is
    except (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile) as error:
        file.close()
        raise RejectedError(RejectCode.CORRUPT, f"{name} cannot be unpacked: {error}") from None
    except OSError as error:
        file.close()
        problem = f"{name} cannot be unpacked into {escape(tempfile.gettempdir())}: {error.strerror}"
        raise RejectedError(RejectCode.UNREADABLE, f"{problem} (errno {error.errno})") from None
    if left or more:
        file.close()
        raise RejectedError(RejectCode.CORRUPT, f"{name} does not unpack to the {packed.unpacked_size} bytes it says")
    return file


@dataclass(frozen=True)
class RawArray:
    """An array of `shape` [n, ...] and `dtype` in `file`: row i begins at `offset` + i * `stride` bytes.

    `named`: what it is called in messages.
    """

    named: str
    file: PlainFile | PackedFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    stride: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def image(self, index: int, layout: Layout) -> PixelPart:
        """Row `index`, an image that lies as `layout` says."""
        return PixelPart(self.file.part(self.offset + index * self.stride, self.row_bytes), layout)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop`. Raises RejectedError; UsageError for an array that is pickled."""
        if self.dtype.hasobject:
            raise pickled(self.file.state.path, self.named)
        count = stop - start
        size = (count - 1) * self.stride + self.row_bytes
        data = self.file.part(self.offset + start * self.stride, size)().ljust(count * self.stride, b"\0")
        fields = np.frombuffer(data, np.uint8).reshape(count, self.stride)[:, : self.row_bytes]
        return np.ascontiguousarray(fields).view(self.dtype).reshape(count, *self.shape[1:])

    def check_readable(self, remedy: str) -> str:
        """A note where the array is packed, else "". Raises UsageError, with `remedy`, where it is too large for that.

        For images: of those any is read at any time.
        """
        if isinstance(self.file, PlainFile):
            return ""
        size = self.file.unpacked_size
        if size > MAX_UNPACKED_BYTES:
            problem = f"{escape(self.named)} is compressed and takes {size_text(size)} unpacked, which each worker "
            problem += f"must do; expected {size_text(MAX_UNPACKED_BYTES)} at most"
            raise UsageError(self.file.state.path, problem, remedy)
        into = escape(tempfile.gettempdir())
        return f"{escape(self.named)} is compressed: each worker unpacks its {size_text(size)} once, into {into}"


@dataclass(frozen=True)
class RawImages:
    """The images of `array`, which lie as `layout` says: see `Images`."""

    array: RawArray
    layout: Layout
    ending: bytes = b".png"

    def __len__(self) -> int:
        return self.array.shape[0]

    def content(self, index: int, /) -> PixelPart:
        """Image `index`, as a PNG."""
        return self.array.image(index, self.layout)


def pickled(place: str, name: str) -> UsageError:
    """The error for what only a pickle would give."""
    problem = f"{escape(name)} is pickled, and loading a pickle may run any program: it is not loaded"
    return UsageError(place, problem, "save arrays of numbers by np.savez, images of one size as uint8")
