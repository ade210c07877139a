"""Compressed files, unpacked into a temporary folder: a sample is read in any order, and nothing seeks in a stream.

One pass, a megabyte at a time. What it takes on the disk is what the files hold, in the folder that TMPDIR names; it is
gone when the source is, or its process ends.
"""

import bz2
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import IO

from shardfeed.errors import RecordError, StorageError, UsageError, needing_extra
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, frame, payload_length
from shardfeed.storage.local import storage_error

_WINDOW = 1 << 20
_GZIP_OR_ZLIB = 47  # zlib's window bits: 15, and find out which of the two it is
_ZLIB_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_NO_END = 1 << 62


class Unpacked:
    """A temporary folder for files of this process and its children; made when it is first needed."""

    def __init__(self) -> None:
        self.folder = ""
        self.files, self.size = 0, 0

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__.copy()  # a copy elsewhere reads the files, and does not remove them

    def new(self, source: str) -> "_NewFile":
        """A file to write what `source` holds into: `with unpacked.new(path) as file`. Has its modification time."""
        if not self.folder:
            try:
                self.folder = tempfile.mkdtemp(prefix="shardfeed-unpacked-")
            except OSError as error:
                raise storage_error(tempfile.gettempdir(), "make a folder in", error) from error
            weakref.finalize(self, _remove, self.folder, os.getpid())
        self.files += 1
        return _NewFile(self, os.path.join(self.folder, f"{self.files:06d}"), source)

    @property
    def note(self) -> list[str]:
        """What the report says of it; nothing where nothing was unpacked."""
        if not self.files:
            return []
        files = "1 compressed file was" if self.files == 1 else f"{self.files:,} compressed files were"
        return [
            f"{files} unpacked, to be read in any order, into {self.folder}: {self.size:,} bytes, removed at the end"
        ]


class _NewFile:
    """An unpacked file while it is written. Raises StorageError where the disk refuses; it then names TMPDIR."""

    def __init__(self, unpacked: Unpacked, path: str, source: str) -> None:
        self._unpacked, self.path, self._source = unpacked, path, source
        self._file: IO[bytes] = open(path, "xb")  # noqa: SIM115  # closed in __exit__

    def write(self, data: bytes) -> None:
        """Append."""
        try:
            self._file.write(data)
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> "_NewFile":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._refused(error) from error
        mtime = os.stat(self._source).st_mtime_ns  # so that a plan made again finds the same files
        os.utime(self.path, ns=(mtime, mtime))
        self._unpacked.size += os.path.getsize(self.path)

    def _refused(self, error: OSError) -> StorageError:
        problem = f"cannot unpack {self._source}: {error.strerror} (errno {error.errno})"
        refused = StorageError(self.path, problem, "name a folder with more room: TMPDIR=DIR, or unpack the files")
        refused.errno = error.errno
        return refused


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a worker, which inherits this
        shutil.rmtree(folder, ignore_errors=True)


class DamagedStreamError(Exception):
    """The compressed data is damaged, or ends too early; what came before is whole."""


def compression(head: bytes) -> str:
    """ "gzip", "zlib" or "" by the first bytes, 64 or more, of a file."""
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
    """What a gzip or zlib stream holds, at most a megabyte at once. Raises DamagedStreamError, OSError."""
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
            raise DamagedStreamError("it ends too early")
        data = stream.unused_data if stream.eof else stream.unconsumed_tail


def unpacked(path: str, form: str, place: str) -> Iterator[bytes]:
    """What a whole file of MDS's forms holds: "gz", "bz2", "zstd". Raises UsageError for others, DamagedStreamError."""
    with open(path, "rb") as file:
        if form == "gz":
            yield from inflated(file)
        elif form == "bz2":
            yield from _read_all(bz2.BZ2File(file), (EOFError, OSError, ValueError))
        elif form == "zstd":
            with needing_extra(place):
                import zstandard
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield from _read_all(reader, (zstandard.ZstdError,))
        else:
            problem = f"compressed with {form}, expected zstd, gz, bz2, or none"
            raise UsageError(place, problem, "unpack its shards, or write them with compression=None")


def _read_all(reader: IO[bytes], damages: tuple[type[Exception], ...]) -> Iterator[bytes]:
    try:
        while data := reader.read(_WINDOW):
            yield data
    except damages as error:
        raise DamagedStreamError(str(error)) from None


def repacked(payloads: Iterator[bytes], source: str, into: Unpacked) -> str:
    """A plain TFRecord file of payloads, which are those of the file `source`. Raises StorageError."""
    with into.new(source) as out:
        for payload in payloads:
            out.write(frame(payload))
        return out.path


def unpack_records(path: str, into: Unpacked) -> tuple[str, str]:
    """(A plain TFRecord file with the records of a compressed one, up to a damaged length; what is damaged, or "").

    A length is checked by its CRC before what it speaks of is written, so that not any stream of zeros fills the disk.
    Raises StorageError; RecordError where the first record has no length.
    """
    with open(path, "rb") as file, into.new(path) as out:
        stream = _Stream(inflated(file))
        records = 0
        try:
            while header := stream.take(HEADER_BYTES):
                try:
                    left = payload_length(header, _NO_END, f"{path}, record {records}") + FOOTER_BYTES
                except RecordError as error:
                    if not records:
                        raise
                    return out.path, error.problem
                out.write(header)
                while left:
                    data = stream.take(min(left, _WINDOW))
                    if not data:
                        return out.path, "it ends inside a record"
                    out.write(data)
                    left -= len(data)
                records += 1
        except DamagedStreamError as error:
            return out.path, f"the compressed data is damaged: {error}"
        return out.path, ""


class _Stream:
    """Bytes in pieces of other sizes than they come."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source, self._data, self._at = source, b"", 0

    def take(self, size: int) -> bytes:
        """So many bytes, fewer at the end. Raises what the source does."""
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
