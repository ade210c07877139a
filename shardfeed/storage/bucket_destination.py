"""The part that all buckets that are written to have in common, and the errors of their clients."""

import errno
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from shardfeed.errors import IntegrityError, OutputExistsError, StorageError
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import disk_errors
from shardfeed.storage.objects import NETWORK, cause
from shardfeed.storage.storage import SIDE_FILE_BYTES, FileInfo
from shardfeed.storage.transfer import Share, alone
from shardfeed.text import size_text

# Answers of a store that refuses a request.
DAMAGED = "the bytes arrived damaged"
TAKEN = "another writer sends the same file"
GONE = "no such file or upload"
NO_CHECKSUMS = "checksums refused"
_TRIES = 3  # for damaged bytes, and for files that others send at the same time
_PAUSE_SECONDS = 1  # before the third attempt


class RefusedError(Exception):
    """A store refuses a request; `args[0]` is one of the answers above."""


class Destination(ABC):
    """A bucket that files are written to; `root` is its URL. Paths are URLs in it: "s3://bucket/flowers/manifest.json".

    It pickles as its URL, without credentials, which each process takes from its environment. Threads may share it, and
    a forked child may use it. All methods raise StorageError. `read_back`: files that were read after they were
    written, because the store did not report their CRC-32C.
    """

    part_bytes = 16 << 20  # a larger file is sent in parts of this size; S3 takes at least 5 MiB

    def __init__(self, root: str) -> None:
        self.root, self.bucket = root, root.partition("://")[2]
        self.read_back = 0
        self._client: tuple[int, Any] | None = None  # and the process that made it
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root,)

    def put_new(self, path: str, content: str | bytes, info: FileInfo, share: Share = alone) -> bool:
        """Create a file of `content`: bytes, or the path of a local file; `info` is its size and CRC-32C.

        Returns True if this call created it, and False if an equal file was there, by size and CRC-32C. Large local
        files are sent in parts, in S3 as many at once as `share` does; S3 is not sent again the parts that it has from
        an earlier, killed call.

        Raises OutputExistsError if another file is there, IntegrityError if the local file differs from `info`,
        StorageError if the store cannot be written to, or refuses the bytes as damaged each time they are sent.
        """
        if isinstance(content, bytes) or info.size <= self.part_bytes:
            data = content if isinstance(content, bytes) else read_piece(content, 0, info.size + 1)
            check_unchanged(path if isinstance(content, bytes) else content, info, FileInfo.of(data))
            content = data
        why = DAMAGED
        for tries in range(_TRIES):
            try:
                if isinstance(content, str) and self.info_of_store(path) is not None:
                    raise RefusedError(TAKEN)  # before a large file is sent
                if self._put(path, content, info, share) or self._info(path, info.size) == info:
                    return True
                self.delete(path)
                why = DAMAGED
            except RefusedError as refused:
                why = refused.args[0]
            if why != DAMAGED:
                if (found := self._info(path, info.size)) == info:
                    return False
                if found is not None:
                    problem = f"another file is there: {info.difference(found)}"
                    raise OutputExistsError(path, problem, "remove it if nothing needs it, or choose another URL")
                if tries == 1:
                    time.sleep(_PAUSE_SECONDS)  # another writer is about to create it, or has given up
        if isinstance(content, str):
            check_unchanged(content, info, FileInfo.of_file(content))
        raise StorageError(path, f"cannot be written: {why}, {_TRIES} times", NETWORK, errno.EIO)

    @abstractmethod
    def _put(self, path: str, content: str | bytes, info: FileInfo, share: Share) -> bool:
        """Try once to create a file of bytes, or of a local file that is larger than a part.

        Returns whether the store has compared the CRC-32C. Raises RefusedError.
        """

    def info(self, path: str) -> FileInfo | None:
        """The size and CRC-32C of a file; None if there is none."""
        return self._info(path)

    def _info(self, path: str, expected: int | None = None) -> FileInfo | None:
        """The same; of a file of another size than `expected`, which is not read, the CRC-32C may be 0."""
        found = self.info_of_store(path)
        if found is None:
            return None
        of_store, crc_of_store = found
        if crc_of_store is not None or expected not in (None, of_store):
            return FileInfo(of_store, crc_of_store or 0)
        with self._lock:
            self.read_back += 1
        size = crc = 0
        for chunk in self._content(path):
            size, crc = size + len(chunk), extend_crc32c(crc, chunk)
        return FileInfo(size, crc)

    @abstractmethod
    def info_of_store(self, path: str) -> tuple[int, int | None] | None:
        """Size of a file, and its CRC-32C if the store reports it; None if there is no such file."""

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None if there is none. Raises StorageError for one that is not small."""
        content = bytearray()
        try:
            for chunk in self._content(path):
                content += chunk
                if len(content) > SIDE_FILE_BYTES:
                    problem = f"has more than {size_text(SIDE_FILE_BYTES)}"
                    raise StorageError(path, problem, "remove it if nothing needs it", errno.EFBIG)
        except RefusedError:
            return None
        return bytes(content)

    @abstractmethod
    def _content(self, path: str) -> Iterator[bytes]:
        """The bytes of a file in pieces. Raises RefusedError."""

    @abstractmethod
    def below(self, prefix: str) -> dict[str, int]:
        """Name below a prefix -> bytes, for all files there."""

    @abstractmethod
    def abort_unfinished(self, prefix: str) -> int:
        """Abort the unfinished uploads below a prefix; returns their number."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, if it exists."""

    def _key(self, path: str) -> str:
        return path[len(self.root) :].strip("/")

    def _client_here(self) -> Any:
        """The client of this process: its connections do not survive a fork."""
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = os.getpid(), self._new_client()
            return self._client[1]

    @abstractmethod
    def _new_client(self) -> Any: ...


def read_piece(path: str, start: int, size: int) -> bytes:
    """Bytes of a local file. Raises StorageError."""
    with disk_errors(path, "read"), open(path, "rb", 0) as file:
        file.seek(start)
        return file.read(size)


def check_unchanged(path: str, info: FileInfo, found: FileInfo) -> None:
    """Raise IntegrityError if a local file, of which `found` was read, is not as the manifest says."""
    if problem := info.difference(found):
        raise IntegrityError(path, problem, "restore the file: `shardfeed verify DIR` lists what is damaged")


def failed_because(path: str, text: str) -> StorageError:
    """The error for a failed request; `text` is one that `cause` knows, without credentials."""
    problem, remedy = cause(Exception(text))
    remedy = remedy.replace("permission to read", "permission to write") or NETWORK
    if problem.startswith("access denied"):
        return StorageError(path, problem, remedy, errno.EACCES)
    return StorageError(path, f"cannot be written: {problem}", remedy, errno.EIO)
