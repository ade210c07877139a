"""The files of an export: written by several threads, each durable before the whole has its name; or only counted."""

import hashlib
import os
from array import array
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np

from shardfeed.errors import UsageError, escape, name_text
from shardfeed.naming import name_problem
from shardfeed.storage.local import NewFile, fsync_directory, make_directory

_THREADS = 16  # each waits for the disk: one alone would write an eighth of what those do
_WAITING = 64 << 20  # bytes that wait to be written, at most
_BESIDE = 16 << 10  # bytes of memory counted per file, in addition to its content


class ExportFiles:
    """New files below `root`, an empty directory; None: nothing is written. Used as a context.

    `files`, `size`: number of files and their bytes. `keeping`: formats that keep whole paths, for errors.
    """

    def __init__(self, root: str | None, keeping: Sequence[str] = ()) -> None:
        self.root = root
        self._remedy = "rename one of the two in the source"
        if keeping:
            self._remedy += f", or export to {' or '.join(keeping)}, which keeps whole paths"
        self.files = self.size = 0
        self._names: set[bytes] = set()  # digests of names: of all where nothing is written, else the disk knows them
        self._pending: set[bytes] = set()  # names that are not on the disk yet
        self._folded = array("Q")  # of the name of each file and folder without case
        self._folders = {b""}
        self._threads = ThreadPoolExecutor(_THREADS) if root is not None else None
        self._writes: deque[tuple[Future[None], bytes, int]] = deque()
        self._waiting = 0
        self._streams: list[StreamedFile] = []

    def __enter__(self) -> "ExportFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._threads is None:
            return
        if kind is None:
            try:
                self._wait(0)
            finally:
                self._threads.shutdown(cancel_futures=True)
            for folder in sorted(self._folders, reverse=True):  # the contents of a folder before the folder
                fsync_directory(os.path.join(self.root or "", os.fsdecode(folder)))
        else:
            self._threads.shutdown(cancel_futures=True)
            for lines in self._streams:
                lines.discard()

    def write(self, name: bytes, data: bytes, where: object) -> None:
        """Add a file, `name` relative to the root; `where`: its sample, for errors.

        Raises UsageError for a name that is taken or leaves the root, StorageError for an earlier file.
        """
        self._claim(name, where)
        self.size += len(data)
        if self._threads is None:
            return
        size = len(data) + _BESIDE
        self._writes.append((self._threads.submit(_write, self._path(name), data), name, size))
        self._waiting += size
        self._wait(_WAITING)

    def stream(self, name: bytes) -> "StreamedFile":
        """A file that is written piece by piece."""
        self._claim(name, name)
        made = StreamedFile(self, None if self._threads is None else self._path(name))
        self._streams.append(made)
        return made

    @property
    def alike(self) -> int:
        """Number of names that differ from another only in case: a disk that ignores case holds one of them."""
        found = np.sort(np.frombuffer(self._folded, np.uint64)) if self._folded else np.zeros(0, np.uint64)
        return int(np.count_nonzero(found[1:] == found[:-1]))

    def _claim(self, name: bytes, where: object) -> None:
        check_name(name, where)
        if name in self._folders or self._is_file(name):
            problem = f"would be written as {escape(name)}, like an earlier sample"
            raise UsageError(where, problem, self._remedy)
        self._make_folders(name, where)
        if self._threads is None:
            self._names.add(_digest(name))
        else:
            self._pending.add(name)
        self._fold(name)
        self.files += 1

    def _fold(self, name: bytes) -> None:
        folded = name_text(name).casefold().encode("utf-8", "surrogateescape")
        self._folded.append(int.from_bytes(hashlib.blake2b(folded, digest_size=8).digest(), "little"))

    def _is_file(self, name: bytes) -> bool:
        """Whether a file with that name was added."""
        if self._threads is None:
            return _digest(name) in self._names
        return name in self._pending or os.path.isfile(self._path(name))

    def _path(self, name: bytes) -> str:
        return os.path.join(self.root or "", os.fsdecode(name))

    def _make_folders(self, name: bytes, where: object) -> None:
        """Make the folders above a new file. Raise UsageError if another file has the name of one."""
        folder = name.rpartition(b"/")[0]
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            folder = folder.rpartition(b"/")[0]
        for folder in reversed(missing):
            if self._is_file(folder):
                problem = f"would be in {escape(folder)}, which is the file of another sample"
                raise UsageError(where, problem, self._remedy)
            if self._threads is not None:
                make_directory(self._path(folder))
            self._folders.add(folder)
            self._fold(folder)

    def _wait(self, most: int) -> None:
        """Wait until no more than `most` bytes are unwritten; raise the error of a write that failed."""
        while self._writes and (self._waiting > most or most == 0):
            done, name, size = self._writes.popleft()
            self._waiting -= size
            done.result()
            self._pending.discard(name)


class StreamedFile:
    """A file that grows, `write(text)`, and is there when `close` is called."""

    def __init__(self, tree: ExportFiles, path: str | None) -> None:
        self._tree, self._file = tree, None if path is None else NewFile(path, sync_directory=False)

    def write(self, data: bytes) -> None:
        """Append to the file."""
        self._tree.size += len(data)
        if self._file is not None:
            self._file.write([data])

    def close(self) -> None:
        """Make it durable, under its name."""
        if self._file is not None:
            file, self._file = self._file, None
            file.__exit__(None, None, None)

    def discard(self) -> None:
        """Remove the file, if it was not closed."""
        if self._file is not None:
            self._file.__exit__(BaseException, None, None)


def _digest(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=16).digest()


def _write(path: str, data: bytes) -> None:
    with NewFile(path, sync_directory=False) as file:
        file.write([data])


def check_name(name: bytes, where: object) -> None:
    """Raise UsageError unless the name can be, unchanged, the path of a file below a folder."""
    if problem := name_problem(name):
        problem = f"its name {escape(name)!r} {problem}, so it is not a valid file name"
        raise UsageError(where, problem, "rename it in the source")
