"""Decompress files, and unpack archives, into a temporary folder: samples are read in any order, streams are not.

One pass, a megabyte at a time. The folder is below the one that TMPDIR names; it is removed with the source, or when
its process ends; if that was killed, by the next process that makes one. The ratio to the stored bytes and the free
space are looked at while it grows.
"""

import bz2
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO, Any

from shardfeed.converters.sources.guard import budget, open_regular
from shardfeed.errors import StorageError, UsageError, needing_extra
from shardfeed.free_space import room_in
from shardfeed.storage.temporary import TemporaryFolder

_WINDOW = 1 << 20
_GZIP_OR_ZLIB = 47  # zlib's window bits: 15, and find out which of the two it is
_ZLIB_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_STARTS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_XZ_MEMORY = 256 << 20  # bytes of a dictionary, which a header declares; `xz -9` takes 65 MB
_LOOK = 64 << 20  # bytes written between two looks at the free space
_KEPT_FREE = 128 << 20  # bytes that others may need there
_MORE_ROOM = "set TMPDIR=DIR to a folder with more space, or unpack the files"


class Unpacked:
    """A temporary folder for files of this process and its children; made when it is first needed."""

    def __init__(self) -> None:
        self.folder = ""
        self.files, self.size = 0, 0
        self._next_look = 0
        self._owned: TemporaryFolder | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_owned": None}  # a copy elsewhere reads the files, and does not remove them

    def remove(self) -> None:
        """Remove the folder now, not with this object."""
        if self._owned is not None:
            self._owned.remove()

    def made(self) -> str:
        """The folder."""
        if not self.folder:
            self._owned = TemporaryFolder("unpacked")
            self.folder = self._owned.path
        return self.folder

    def new(self, source: str, name: str = "") -> "UnpackedFile":
        """A file to write the content of `source` into: `with unpacked.new(path) as file`. Has its modification time.

        `name`: relative path in the folder; by default a number.
        """
        path = os.path.join(self.made(), name or f"{self.files:06d}")
        if name:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self.files += 1
        return UnpackedFile(self, path, source)

    def draw(self, size: int) -> None:
        """Count bytes that were written. Raises StorageError before the disk is full."""
        self.size += size
        if self.size >= self._next_look:
            room_in(self.folder).check(_KEPT_FREE, _MORE_ROOM)
            self._next_look = self.size + _LOOK

    @property
    def note(self) -> list[str]:
        """Sentence for the report on the decompressed files; empty if there are none."""
        if not self.files:
            return []
        files = "1 compressed file was" if self.files == 1 else f"{self.files:,} compressed files were"
        return [f"{files} unpacked for random access into {self.folder}: {self.size:,} bytes, removed at the end"]


class UnpackedFile:
    """An unpacked file while it is written.

    Raises StorageError where the disk refuses, which names TMPDIR; HostileError for more bytes than the budget has.
    """

    def __init__(self, unpacked: Unpacked, path: str, source: str) -> None:
        self._unpacked, self.path, self._source = unpacked, path, source
        self._state = os.stat(source)
        self._budget, self.size = budget(source), 0
        self._file: IO[bytes] = open(path, "xb")  # noqa: SIM115  # closed in __exit__

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        self.size += len(data)
        self._budget.unpacked(self.size, self._state.st_size, self._source)
        self._unpacked.draw(len(data))
        try:
            self._file.write(data)
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> "UnpackedFile":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._refused(error) from error
        mtime = self._state.st_mtime_ns  # so that a plan made again finds the same files
        os.utime(self.path, ns=(mtime, mtime))

    def _refused(self, error: OSError) -> StorageError:
        problem = f"cannot unpack {self._source}: {error.strerror} (errno {error.errno})"
        return StorageError(self.path, problem, _MORE_ROOM, error.errno)


class DamagedStreamError(Exception):
    """The compressed data is damaged or ends too early; earlier output is intact."""


def compression(head: bytes) -> str:
    """Recognise "gzip" or "zlib" by the first bytes, 64 or more, of a file; "" for other files."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(_ZLIB_STARTS):
        try:
            zlib.decompressobj().decompress(head)
        except zlib.error:
            return ""
        return "zlib"
    return ""


def inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress a gzip or zlib stream, at most a megabyte at once. Raises DamagedStreamError, OSError."""
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    data = b""
    while True:
        data = data or file.read(_WINDOW)
        if stream.eof:
            if not data.strip(b"\0"):
                return
            stream = zlib.decompressobj(_GZIP_OR_ZLIB)  # gzip's files may be joined
        try:
            found = stream.decompress(data, _WINDOW)
        except zlib.error as error:
            raise DamagedStreamError(str(error)) from None
        if found:
            yield found
        if not data and not found and not stream.eof:
            raise DamagedStreamError("it is truncated")
        data = stream.unused_data if stream.eof else stream.unconsumed_tail


def form_of(path: str) -> str:
    """Compression of a file by its first bytes: "gz", "bz2", "xz", "zstd", or "" for none. Raises OSError."""
    with open_regular(path) as file:
        head = file.read(8)
    return next((form for start, form in _STARTS.items() if head.startswith(start)), "")


def unpacked(path: str, form: str, place: str) -> Iterator[bytes]:
    """The content of a compressed file, at most a megabyte at once: of the form "gz", "bz2", "xz" or "zstd".

    Raises UsageError for other forms, DamagedStreamError.
    """
    with open_regular(path) as file:
        if form == "gz":
            yield from inflated(file)
        elif form == "bz2":
            yield from _read_all(bz2.BZ2File(file), (EOFError, OSError, ValueError))
        elif form == "xz":
            yield from _decompressed_xz(file)
        elif form == "zstd":
            with needing_extra(place):
                import zstandard
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield from _read_all(reader, (zstandard.ZstdError,))
        else:
            problem = f"compressed with {form}, expected zstd, gz, bz2, or none"
            raise UsageError(place, problem, "unpack its shards, or write them with compression=None")


def _decompressed_xz(file: IO[bytes]) -> Iterator[bytes]:
    """Not by LZMAFile, which takes as much memory as the header declares."""
    stream = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    try:
        while not stream.eof:
            data = file.read(_WINDOW) if stream.needs_input else b""
            if stream.needs_input and not data:
                raise DamagedStreamError("it is truncated")
            if found := stream.decompress(data, _WINDOW):
                yield found
    except lzma.LZMAError as error:
        raise DamagedStreamError(str(error)) from None


def _read_all(reader: IO[bytes], damages: tuple[type[Exception], ...]) -> Iterator[bytes]:
    try:
        while data := reader.read(_WINDOW):
            yield data
    except damages as error:
        raise DamagedStreamError(str(error)) from None


class ByteStream:
    """Bytes in pieces of other sizes than they come."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source, self._data, self._at = source, b"", 0

    def take(self, size: int) -> bytes:
        """Read this number of bytes, fewer at the end. Raises the errors of the source."""
        parts: list[bytes] = []
        while size:
            if self._at == len(self._data):
                self._data, self._at = next(self._source, b""), 0
                if not self._data:
                    break
            parts.append(self._data[self._at : self._at + size])
            self._at += len(parts[-1])
            size -= len(parts[-1])
        return b"".join(parts)
