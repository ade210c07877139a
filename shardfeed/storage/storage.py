"""What a dataset is read from: directories that can be listed, and files of which ranges of bytes can be read.

All reading of a dataset goes through these two methods, so that another place than the local disk is another class with
them. Writing is local alone: see `local.py`.
"""

import os
import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from shardfeed.errors import UsageError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {"s3": "`aws s3 sync`", "gs": "`gcloud storage rsync`", "http": "`curl -LO`", "https": "`curl -LO`"}


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raises UsageError for an address: images and datasets lie on a file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "a tool of its own")
        raise UsageError(text, "is an address, expected a path of this machine", f"copy it with {tool}, or mount it")


_PIECE_BYTES = 1 << 30  # one system call gives no more than two of these


class Entry(NamedTuple):
    """What a directory has under `name`: a file of `size` bytes, also by a link; -1 for what is no file."""

    name: str
    size: int


class OpenFile(Protocol):
    """One file, opened: what is read is of one state of it, also when another one takes its name meanwhile.

    It has no position, so it serves many threads at once, and it closes when the last reader lets go of it.
    """

    @property
    def path(self) -> str:
        """Where it is, for errors."""
        ...

    @property
    def size(self) -> int:
        """Bytes, when it was opened."""
        ...

    @property
    def version(self) -> Hashable:
        """A value that another file under the same path does not share: of the state that was opened."""
        ...

    def read(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on; fewer only where the file ends. Raises OSError."""
        ...


class Storage(Protocol):
    """Where datasets are. Pickles, as it travels with a split to other processes."""

    def entries(self, directory: str) -> Sequence[Entry]:
        """All that is in a directory, in no order. Raises FileNotFoundError, NotADirectoryError, OSError."""
        ...

    def open(self, path: str) -> OpenFile:
        """A file, ready to be read. Raises FileNotFoundError, NotADirectoryError, OSError."""
        ...


def whole(file: OpenFile) -> bytes:
    """All bytes of a file."""
    if file.size <= _PIECE_BYTES:
        return file.read(0, file.size)
    starts = range(0, file.size, _PIECE_BYTES)
    return b"".join([file.read(start, min(_PIECE_BYTES, file.size - start)) for start in starts])


def sizes_by_name(storage: Storage, directory: str, below: Sequence[str] = ()) -> dict[str, int]:
    """Name -> bytes (-1 for what is no file) of all in a directory, and in those directories `below` it that are there.

    What is in one of those is named `index/train-00000-of-00001.tfindex`; it is itself not listed then. Raises OSError.
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
