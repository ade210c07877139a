"""Storage that a dataset is read from: directories that can be listed, and files with random access; and local paths.

All reading of a dataset uses these methods, so that another kind of storage is one more class with them: `objects.py`
has buckets and web servers, `address.py` finds the one of a URL. Writing is in `local.py` and `bucket_destination.py`.
"""

import errno
import os
import re
import resource
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from shardfeed.errors import StorageError, UsageError, escape
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.local import NO_DESCRIPTOR, disk_errors, storage_error
from shardfeed.text import size_text

# Bytes of records read by one request: more than a block of 8 MB, the default in a bucket, even if its records are
# larger than average.
READ_BYTES = 12 << 20
_PIECE_BYTES = 1 << 30  # one system call returns at most twice this


class Entry(NamedTuple):
    """One entry of a directory: a file of `size` bytes, or a link to one; -1 if it is not a file."""

    name: str
    size: int


class OpenFile(Protocol):
    """An open file: all reads see one state of it, even if another file takes its name meanwhile.

    It has no position, so many threads can use it at once, and it is closed with its last reference.
    """

    @property
    def path(self) -> str:
        """Path or URL, for errors."""
        ...

    @property
    def size(self) -> int:
        """Bytes, when it was opened."""
        ...

    @property
    def version(self) -> Hashable:
        """A value that identifies the opened state: another file under the same path has a different one."""
        ...

    def read(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on; fewer only at the end of the file. Raises OSError."""
        ...


Buffer = bytes | memoryview


class Part(NamedTuple):
    """`size` bytes of an open file from `start` on."""

    file: OpenFile
    start: int
    size: int

    def read(self) -> bytes:
        """The bytes; fewer only at the end of the file. Raises OSError."""
        return self.file.read(self.start, self.size)


def pieces(offsets: np.ndarray, row: int, end: int, most: int = READ_BYTES) -> Iterator[tuple[int, int]]:
    """Records `row` to `end` in pieces (first, end) of at most `most` bytes, or of one record.

    `offsets`: int64 [n + 1], ascending: the start of each record, and the end of the last one.
    """
    while row < end:
        last = row + 1
        if last < end:  # else one record, as usual for random access
            last = min(end, max(last, int(np.searchsorted(offsets, offsets.item(row) + most, "right")) - 1))
        yield row, last
        row = last


@runtime_checkable
class Storage(Protocol):
    """A place for datasets. Pickles, because a split is sent to other processes with it."""

    @property
    def most_open(self) -> int:
        """Shard files that a split should keep open: each may take a descriptor, and remembers its version."""
        ...

    @property
    def survives_fork(self) -> bool:
        """Whether a process that was forked after files were read may continue to read."""
        ...

    def entries(self, directory: str) -> Sequence[Entry]:
        """List the entries of a directory, in no order. Raises FileNotFoundError, NotADirectoryError, OSError.

        A storage without listings raises io.UnsupportedOperation: sizes are then compared when files are read.
        """
        ...

    def open(self, path: str, size: int | None = None) -> OpenFile:
        """Open a file for reading. Raises FileNotFoundError, NotADirectoryError, OSError.

        `size`: expected bytes, if known. Then a remote storage need not ask before the first read, which raises
        FileNotFoundError, or IntegrityError for another size.
        """
        ...

    def version(self, path: str) -> Hashable:
        """The `version` of the file that has this path now. Raises as `open`."""
        ...

    def read_many(self, parts: Sequence[Part]) -> Sequence[Buffer]:
        """The bytes of parts of files of this storage, in their order; a remote one has many requests under way.

        It may return views of its buffers instead of copies.
        """
        ...


# A file beside the shards that is read into memory whole, before anything vouches for its size. A manifest has some 150
# bytes a shard: the limit is a million shards of 256 MB, which is 256 TB.
SIDE_FILE_BYTES = 256 << 20
_MOST_BYTES = {"README.md": 16 << 20}  # a text that people read


def whole(file: OpenFile) -> bytes:
    """All bytes of a file whose size is known to be right, or small."""
    if file.size <= _PIECE_BYTES:
        return file.read(0, file.size)
    starts = range(0, file.size, _PIECE_BYTES)
    return b"".join([file.read(start, min(_PIECE_BYTES, file.size - start)) for start in starts])


def sizes_by_name(storage: Storage, directory: str, below: Sequence[str] = ()) -> dict[str, int]:
    """Name -> bytes (-1 unless it is a file) of all entries of a directory, and of the directories `below` that exist.

    Entries of these are named like `index/train-00000-of-00001.tfindex`; the directories themselves are not listed.
    Raises OSError.
    """
    found = {entry.name: entry.size for entry in storage.entries(directory)}
    for name in below:
        if found.get(name) == -1:
            try:
                inside = storage.entries(f"{directory}/{name}")
            except NotADirectoryError:
                continue
            del found[name]
            found |= {f"{name}/{entry.name}": entry.size for entry in inside}
    return found


_CHUNK = 1 << 20  # bytes that fit into the processor's cache
_REMOTE_CHUNK = 8 << 20  # bytes that take longer to send than a request to arrive


class LocalFile:
    """A file descriptor, read by `pread`, which has no shared position."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise storage_error(path, "open", error) from error
            raise
        state = os.fstat(self._fd)
        self.size = state.st_size
        self.version: Hashable = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns

    def read(self, start: int, size: int) -> bytes:
        return os.pread(self._fd, size, start)

    def load(self, start: int, size: int) -> None:
        """Read `size` bytes from `start` on into the page cache, unless they are there. Ignores errors."""
        with suppress(OSError):
            try:
                os.preadv(self._fd, [bytearray(1)], start + size - 1, os.RWF_NOWAIT)
            except BlockingIOError:  # the last byte is not there
                for at in range(start, start + size, _CHUNK):
                    os.pread(self._fd, min(_CHUNK, start + size - at), at)
            except OSError:  # a file system that cannot tell: tmpfs, NFS
                os.posix_fadvise(self._fd, start, size, os.POSIX_FADV_WILLNEED)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """`close` is bound here: at the interpreter's end `os` may be deleted before a split in a global variable."""
        if hasattr(self, "_fd"):
            close(self._fd)


_MOST_OPEN = 128  # of the 1024 descriptors that a process may usually have


class LocalStorage:
    """The local disk, and mounted file systems."""

    survives_fork = True

    def __repr__(self) -> str:  # in `help`, as a default
        return "LocalStorage()"

    @property
    def most_open(self) -> int:
        """An eighth of the descriptors that this process may have: other splits, frameworks and pipes need some."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return max(1, min(_MOST_OPEN, limit // 8)) if limit != resource.RLIM_INFINITY else _MOST_OPEN

    def entries(self, directory: str) -> list[Entry]:
        with os.scandir(directory) as entries:
            return [Entry(entry.name, _size(entry)) for entry in entries]

    def open(self, path: str, size: int | None = None) -> OpenFile:
        return LocalFile(path)

    def version(self, path: str) -> Hashable:
        return self.open(path).version

    def read_many(self, parts: Sequence[Part]) -> list[bytes]:
        return [part.read() for part in parts]


LOCAL: Storage = LocalStorage()


def open_side_file(path: str, storage: Storage = LOCAL) -> tuple[OpenFile, bytes]:
    """A file beside the shards, such as a manifest, and its content. Raises StorageError for a huge one; OSError."""
    file, most = storage.open(path), _MOST_BYTES.get(os.path.basename(path), SIDE_FILE_BYTES)
    if file.size > most:
        problem = f"has {size_text(file.size)}, expected at most {size_text(most)}"
        raise StorageError(path, problem, "check the URL or path, and who wrote this file", errno.EFBIG)
    return file, whole(file)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size if entry.is_file() else -1
    except FileNotFoundError:  # removed since it was listed
        return -1


def _ignore(_: bytes) -> None:
    """Do nothing with a piece of a file."""


def file_checksum(path: str, storage: Storage = LOCAL, also: Callable[[bytes], object] = _ignore) -> tuple[int, int]:
    """Compute the size in bytes and CRC-32C of a file's current content; `also` gets its pieces. Raises OSError."""
    size = crc = 0
    most = _CHUNK if type(storage) is LocalStorage else _REMOTE_CHUNK
    for chunk in _chunks(storage.open(path), most):
        size += len(chunk)
        also(chunk)
        crc = extend_crc32c(crc, chunk)
    return size, crc


def _chunks(file: OpenFile, most: int) -> Iterator[bytes]:
    """Yield its bytes in pieces of at most `most`, up to its end, which may have changed since it was opened."""
    start = 0
    while chunk := file.read(start, most):
        yield chunk
        start += len(chunk)


def not_a_file(directory: str, name: str) -> str:
    """Describe a shard of the local disk that is not a file: a link to a missing file, or something else."""
    path = os.path.join(directory, name)
    if os.path.islink(path) and not os.path.exists(path):
        return f"a link to {escape(os.readlink(path))}, which no longer exists"
    return "not a file"


@dataclass(frozen=True)
class FileInfo:
    """A file as it was written: `size` in bytes, CRC-32C of all of it."""

    size: int
    crc32c: int

    @classmethod
    def of(cls, content: bytes) -> "FileInfo":
        """Size and checksum of a file that contains `content`."""
        return cls(len(content), crc32c(content))

    @classmethod
    def of_file(cls, path: str, storage: Storage = LOCAL, also: Callable[[bytes], object] = _ignore) -> "FileInfo":
        """Compute size and checksum of the file at `path`; `also` gets its pieces. Raises StorageError."""
        with disk_errors(path, "read"):
            return cls(*file_checksum(path, storage, also))

    def problem(self, path: str, *, every_byte: bool) -> str:
        """Return how the local file at `path` differs, without `every_byte` only in size; "" if it does not.

        Raises StorageError if it cannot be read.
        """
        with disk_errors(path, "read"):
            size = os.path.getsize(path)
        return self.difference(FileInfo.of_file(path) if every_byte else FileInfo(size, self.crc32c))

    def difference(self, found: "FileInfo") -> str:
        """Return how `found`, a file that should be equal to this one, differs from it; "" if it does not."""
        if found.size != self.size:
            return f"has {found.size} bytes, expected {self.size}"
        return "" if found == self else f"its CRC-32C is {found.crc32c:08x}, expected {self.crc32c:08x}"

    def difference_of(self, content: bytes) -> str:
        """Like `difference`, of the content of the file that should be equal."""
        return self.difference(FileInfo.of(content))


_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {
    "s3": "`aws s3 sync`",
    "gs": "`gcloud storage rsync`",
    "hf": "`hf download`",
    **dict.fromkeys(("http", "https"), "`curl -LO`"),
}


def is_address(path: object) -> bool:
    """Whether `path` is a URL (s3://...), of any kind."""
    return isinstance(path, str | bytes | os.PathLike) and _ADDRESS.match(os.fsdecode(path)) is not None


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raise UsageError if `path` is a URL (s3://...), for code that needs a local file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "its own tool")
        raise UsageError(text, "is a URL, expected a local path", f"copy it with {tool}, or mount it")


def local_output(path: str | os.PathLike[str]) -> str:
    """The absolute path of an output. Raises UsageError if it is a URL (s3://...)."""
    if is_address(path):
        tool = _TOOLS.get(os.fspath(path).partition("://")[0].lower(), "its own tool")
        remedy = f"write to a local directory, and copy that with {tool}"
        raise UsageError(os.fspath(path), "is a URL, expected a local path", remedy)
    return local_path(path)


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute path. Raises UsageError if it is a URL (s3://...), or no path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError("path", f"got {path!r}, expected the path of a directory")
    check_local(path)
    return os.path.abspath(os.fspath(path))
