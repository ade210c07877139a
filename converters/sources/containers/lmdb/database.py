"""An LMDB database: opened read-only without a lock, looked through in bounded memory, read value by value."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from shardfeed.converters.images.sniff import HEAD_BYTES
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.handles import FileState, close, opened
from shardfeed.converters.sources.containers.lmdb.datum import image_of
from shardfeed.errors import UsageError, escape, needing_extra

if TYPE_CHECKING:
    import lmdb

_MAGIC = (0xBEEFC0DE).to_bytes(4, "little")  # of the meta page, behind the header of every page
_MAGIC_AT = 16
# Bytes of values that are looked at before the file is mapped anew: pages that were looked at count as memory.
_LOOKED_AT = 64 << 20


def data_file(path: str) -> str | None:
    """The file with the data of the database at `path`, a folder with `data.mdb` or a file; None where it is none."""
    file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
    try:
        with open(file, "rb") as data:
            head = data.read(_MAGIC_AT + len(_MAGIC))
    except OSError:
        return None
    return file if head[_MAGIC_AT:] == _MAGIC else None


def _open(path: str) -> "lmdb.Environment":
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
    return environment


class Database:
    """What is in the file of `state`, while it is looked through: a context.

    Values that a loop gets are valid until the next.
    """

    def __init__(self, state: FileState) -> None:
        self.state = state
        self._touched = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        close(self.state.path)  # which this process could not open once more

    def look(self, key: bytes, most: int = HEAD_BYTES) -> tuple[int, bytes] | None:
        """The size of a key's value, and the first bytes of it, `most` at most; None where there is no such key."""
        self._renew()
        with opened(self.state, _open).begin(buffers=True) as transaction:
            value = transaction.get(key)
            if value is None:
                return None
            self._touched += len(value)
            return len(value), bytes(value[:most])

    def __len__(self) -> int:
        return opened(self.state, _open).stat()["entries"]

    def __iter__(self) -> Iterator[tuple[bytes, memoryview]]:
        """Keys and values, sorted by the bytes of the keys."""
        last = b""
        while True:
            self._renew()
            with opened(self.state, _open).begin(buffers=True) as transaction, transaction.cursor() as cursor:
                found = cursor.set_range(last) if last else cursor.first()
                if found and last and bytes(cursor.key()) == last:
                    found = cursor.next()
                while found and self._touched < _LOOKED_AT:
                    last, value = bytes(cursor.key()), cursor.value()
                    self._touched += len(value) + len(last)
                    yield last, value
                    found = cursor.next()
            if not found:
                return

    def _renew(self) -> None:
        if self._touched >= _LOOKED_AT:
            close(self.state.path)
            self._touched = 0


@dataclass(frozen=True)
class LmdbImage:
    """The image under `key`: a content as `Sample.image` takes it. `size`: of the value in bytes.

    `datum`: whether the value is a Caffe Datum; else it is the encoded image. Raises RejectedError when called.
    """

    state: FileState
    key: bytes
    size: int
    datum: bool

    @property
    def mtime_ns(self) -> int:
        """Of the file with the data."""
        return self.state.mtime_ns

    def __call__(self) -> bytes:
        """The encoded image."""
        import lmdb

        self.state.check()
        try:
            with opened(self.state, _open).begin() as transaction:
                value = transaction.get(self.key)
        except (lmdb.Error, UsageError) as error:
            raise RejectedError(RejectCode.UNREADABLE, escape(error)) from None
        if value is None:
            raise RejectedError(RejectCode.CORRUPT, f"the database has no key {escape(self.key)}")
        return image_of(value) if self.datum else value
