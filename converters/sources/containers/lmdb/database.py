"""An LMDB database: opened read-only without a lock, listed by another process, read value by value."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.arrays.pixels import Layout
from shardfeed.converters.sources.containers.handles import close, opened
from shardfeed.converters.sources.containers.lmdb import walk
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape, needing_extra

if TYPE_CHECKING:
    import lmdb

# Bytes after which the file is mapped again: until then, pages that were read count as memory of the process.
_MOST_MAPPED = 16 << 20
_LEAST_ENTRY = 10  # bytes of a key and its value in a page: a header of 8, and a place of 2
_AROUND = 64 << 10  # bytes that Linux maps around a page that is read


class Entry(NamedTuple):
    """A key, the bytes of its value and the first of them; `flags` and the others are of a Datum, as walk.py says them.

    `head` is the fault of a value that is not a Datum although earlier values are.
    """

    key: bytes
    size: int
    head: bytes
    flags: int = 0
    label: int | None = None
    offset: int = 0


class Database:
    """A context manager that iterates once over the sorted keys of a database, which another process reads.

    `asked`: the first bytes of the values of the keys that identify the layout. `first`: some such entries. Raises
    UsageError if it is damaged.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file, self.place = file, os.fsdecode(file.path)
        close(file.path)
        _open(self.place).close()  # the best error for a truncated file

    def __enter__(self) -> Self:
        script = os.path.join(os.path.dirname(__file__), "walk.py")
        self._stderr = tempfile.TemporaryFile()  # closed in __exit__
        command = [sys.executable, "-P", script, self.place]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=1 << 20)
        try:
            lines = self._lines()
            self.count, asked = next(lines)
            self.asked = {key.encode(): value.encode("latin1") for key, value in asked.items()}
            rows = (row for some in lines for row in some)
            parts = ((key.encode("latin1"), size, head.encode("latin1"), *datum) for key, size, head, *datum in rows)
            self._entries = (Entry(*part) for part in parts)
            self.first = [*islice(self._entries, walk.FIRST)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._child, self._stderr:
            self._child.kill()

    def __iter__(self) -> Iterator[Entry]:
        return chain(self.first, self._entries)

    def _lines(self) -> Iterator[Any]:
        """Yield the parsed JSON lines of the other process. Raises UsageError if it fails."""
        yield from map(json.loads, cast("IO[bytes]", self._child.stdout))
        if not (status := self._child.wait()):
            return
        self._stderr.seek(0)
        last = (self._stderr.read().decode(errors="replace").strip().splitlines() or [""])[-1]
        problem = escape(last[:200]) or f"reading it crashes the process ({status})"
        problem = f"is damaged, or not an LMDB database for this machine: {problem}"
        raise UsageError(self.place, problem, "copy it again")


def _open(path: str) -> "_Mapped":
    """Open the database. Raises UsageError if the file is truncated: a read beyond its end would kill the process."""
    with needing_extra(path):
        import lmdb
    try:
        environment = lmdb.open(path, **walk.OPEN, meminit=False)
    except lmdb.Error as error:
        problem = f"cannot be opened as an LMDB database: {escape(error)}"
        raise UsageError(path, problem, "copy it again, and close it where this process has it open") from None
    pages, size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
    stored, entries, problem = os.path.getsize(path), environment.stat()["entries"], ""
    if stored < pages * size:
        problem = f"is {stored} bytes long, expected {pages * size}: {pages} pages"
    elif entries * _LEAST_ENTRY > pages * size:
        problem = f"declares {entries:,} keys in {pages * size:,} bytes"
    if problem:
        environment.close()
        raise UsageError(path, problem, "it is truncated or damaged: copy it again")
    return _Mapped(environment)


class _Mapped:
    """An open database, and about how many bytes of it were read."""

    def __init__(self, environment: "lmdb.Environment") -> None:
        self.environment, self.read = environment, 0
        self.close = environment.close


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
        """Modification time of the data file."""
        return self.file.mtime_ns

    def __call__(self) -> bytes:
        """The encoded image."""
        import lmdb

        try:
            mapped = opened(self.file, _open)
            if mapped.read >= _MOST_MAPPED:
                close(self.file.path)
                mapped = opened(self.file, _open)
            with mapped.environment.begin() as transaction:
                value = transaction.get(self.key)
        except (lmdb.Error, UsageError) as error:
            raise RejectedError(RejectCode.UNREADABLE, escape(error)) from None
        mapped.read += _AROUND + len(value or b"")
        if value is None:
            raise RejectedError(RejectCode.CORRUPT, f"the database has no key {escape(self.key)}")
        return image_of(value) if self.datum else value


def image_of(value: bytes) -> bytes:
    """The encoded image of a Datum. Raises RejectedError.

    Pixels become a PNG: they are bytes, one plane after the other, blue, green, red, as in OpenCV. Encoded data are a
    JPEG or PNG file, with colours in the usual order.
    """
    try:
        datum = walk.read_datum(memoryview(value))
    except ValueError as error:
        raise RejectedError(RejectCode.CORRUPT, f"not a Datum: {error}") from None
    data = value[datum.offset : datum.offset + datum.size]
    if datum.encoded:
        return data
    shape = datum.channels, datum.height, datum.width
    if datum.floats or datum.channels not in (1, 3):
        what = "float pixels" if datum.floats else f"{datum.channels} channels"
        raise RejectedError(RejectCode.UNSUPPORTED, f"a Datum with {what}, expected 1 or 3 channels of bytes")
    layout = Layout(shape, (1, 2, 0))
    if not layout.size or layout.size != len(data):
        sides = " x ".join(map(str, shape))
        problem = f"a Datum of {sides} has {len(data)} bytes, expected {layout.size}"
        raise RejectedError(RejectCode.CORRUPT, problem)
    return layout.png(np.frombuffer(data, np.uint8).reshape(shape)[::-1])  # blue, green, red to red, green, blue
