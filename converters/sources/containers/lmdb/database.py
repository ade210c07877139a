"""An LMDB database: opened read-only without a lock, looked through in bounded memory, read value by value."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from shardfeed.converters.images.sniff import HEAD_BYTES
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.handles import check, close, opened
from shardfeed.converters.sources.containers.lmdb.datum import image_of
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape, needing_extra

if TYPE_CHECKING:
    import lmdb

# Pages that were read count as memory of the process, until the file is mapped anew: after so many bytes.
_MOST_MAPPED = 16 << 20
_LEAST_ENTRY = 10  # bytes of a key and its value in a page: a header of 8, and a place of 2
_AROUND = 64 << 10  # bytes that Linux maps around a page that is read


class _Mapped:
    """An open database, and about how many bytes of it were read."""

    def __init__(self, environment: "lmdb.Environment") -> None:
        self.environment, self.read = environment, 0

    def close(self) -> None:
        self.environment.close()


def _mapped(file: SourceFile) -> _Mapped:
    """The open database, of which not too much is mapped. Raises UsageError, MissingExtraError."""
    mapped = opened(file, _open)
    if mapped.read < _MOST_MAPPED:
        return mapped
    close(file.path)
    return opened(file, _open)


@functools.lru_cache(maxsize=64)
def _check_walk(file: SourceFile) -> None:
    """Raise UsageError where a walk through the database, by another process, does not end well."""
    script = os.path.join(os.path.dirname(__file__), "walk.py")
    done = subprocess.run([sys.executable, "-P", script, file.path], capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"reading it ends the process ({done.returncode})"])[-1]
        problem = f"is damaged, or no LMDB database of this machine: {escape(said[:200])}"
        raise UsageError(os.fsdecode(file.path), problem, "copy it again")


def _open(path: str) -> _Mapped:
    """Raises UsageError where the file is not whole: beyond its end there is no memory, and a read ends the process."""
    with needing_extra(path):
        import lmdb
    try:
        environment = lmdb.open(
            path, subdir=False, readonly=True, lock=False, readahead=False, meminit=False, create=False
        )
    except lmdb.Error as error:
        problem = f"cannot be opened as an LMDB database: {escape(error)}"
        raise UsageError(path, problem, "copy it again, and close it where this process has it open") from None
    pages, size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
    if os.path.getsize(path) < pages * size:
        environment.close()
        problem = f"is {os.path.getsize(path)} bytes long, expected {pages * size}: {pages} pages"
        raise UsageError(path, problem, "it is cut: copy it again")
    entries = environment.stat()["entries"]
    if entries * _LEAST_ENTRY > pages * size:
        environment.close()
        problem = f"declares {entries:,} keys in {pages * size:,} bytes"
        raise UsageError(path, problem, "it is damaged: copy it again")
    return _Mapped(environment)


class Database:
    """The content of a file while it is looked through: a context.

    Values that a loop gets are valid until the next.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    @property
    def place(self) -> str:
        """The file's path, for errors."""
        return os.fsdecode(self.file.path)

    def __enter__(self) -> Self:
        _mapped(self.file)  # which says best what is wrong with a file that is cut
        try:
            _check_walk(self.file)
        except UsageError:
            close(self.file.path)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close(self.file.path)  # which this process could not open once more
        if type(error).__module__.partition(".")[0] == "lmdb":
            problem = f"is damaged, or no LMDB database of this machine: {escape(error)}"
            raise UsageError(self.place, problem, "copy it again") from None

    def look(self, key: bytes, most: int = HEAD_BYTES) -> tuple[int, bytes] | None:
        """The size of a key's value, and the first bytes of it, `most` at most; None where there is no such key."""
        mapped = _mapped(self.file)
        mapped.read += _AROUND
        with mapped.environment.begin(buffers=True) as transaction:
            value = transaction.get(key)
            return None if value is None else (len(value), bytes(value[:most]))

    def __len__(self) -> int:
        return _mapped(self.file).environment.stat()["entries"]

    def __iter__(self) -> Iterator[tuple[bytes, memoryview]]:
        """Keys and values, sorted by the bytes of the keys."""
        last, found = b"", True
        while found:
            mapped = _mapped(self.file)
            with mapped.environment.begin(buffers=True) as transaction, transaction.cursor() as cursor:
                found = cursor.set_range(last) if last else cursor.first()
                if found and last and bytes(cursor.key()) == last:
                    found = cursor.next()
                while found and mapped.read < _MOST_MAPPED:
                    last, value = bytes(cursor.key()), cursor.value()
                    mapped.read += len(value) + len(last)
                    yield last, value
                    found = cursor.next()


@dataclass(frozen=True)
class LmdbImage:
    """The image under `key`: a content as `Sample.image` takes it. `size`: of the value in bytes.

    `datum`: whether the value is a Caffe Datum; else it is the encoded image. Raises RejectedError when called.
    """

    file: SourceFile
    key: bytes
    size: int
    datum: bool

    @property
    def mtime_ns(self) -> int:
        """Of the file with the data."""
        return self.file.mtime_ns

    def __call__(self) -> bytes:
        """The encoded image."""
        import lmdb

        check(self.file)
        try:
            mapped = _mapped(self.file)
            with mapped.environment.begin() as transaction:
                value = transaction.get(self.key)
        except (lmdb.Error, UsageError) as error:
            raise RejectedError(RejectCode.UNREADABLE, escape(error)) from None
        mapped.read += _AROUND + len(value or b"")
        if value is None:
            raise RejectedError(RejectCode.CORRUPT, f"the database has no key {escape(self.key)}")
        return image_of(value) if self.datum else value
