"""Fetching of images from URLs, many at a time: objects in buckets (s3://bucket/name), files of web servers.

A listed object is bound to its listed version: another version is rejected (`E_SOURCE_CHANGED`). A URL in a table was
not listed: its current content is read once, and rejected if it cannot be read.

Every process has its own clients, made when they are first needed: a worker is never forked from a process with
clients.
"""

import errno
import http.client
import io
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from shardfeed.converters.rejects import RejectCode, RejectedError, check_bytes
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.parts import FilePart
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import IntegrityError, StorageError
from shardfeed.storage.address import rooted
from shardfeed.storage.storage import OpenFile
from shardfeed.text import number
from shardfeed.version import __version__

if TYPE_CHECKING:
    from shardfeed.storage.objects import ObjectStorage, Version

UNLISTED = -1  # instead of a modification time: for a URL of unknown size and version
ASSUMED_BYTES = 100_000  # of an image that was not listed; shards are planned by it

_TAR = re.compile(rb"\.(?:tar|tgz|tar\.(?:gz|zst|bz2|xz))\Z", re.IGNORECASE)
_AT_ONCE = 32  # requests of a process
AHEAD = 2 * _AT_ONCE  # images: if one is slow, others continue
_MOST_AHEAD = 64 << 20  # bytes of images that were read and not used yet
_SIGN = 10.0  # seconds after which a worker that waits for the network reports that it is alive
_TRIES = 4
_PAUSE = 1.0  # seconds after the first of them; then twice as many each time
_REQUEST_SECONDS = 20.0  # without a byte, and three times as much for one whole image
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_PIECE = 1 << 16
_PIECES, _PIECE_BYTES = 8, 4 << 20  # of a tar, on their way while it is read


def version_number(version: "Version") -> int:
    """60 bits that identify an ETag, or size and time without one, as a valid modification time in ns."""
    etag, changed, size = version
    tag = etag and etag.removeprefix("W/").strip('"')  # listings of some stores have no quotes
    digest = blake2b(repr((tag, changed, size)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 4


def read_in_place(key: bytes) -> bool:
    """Whether a file is read at its address, like images and tars; all others are copied first."""
    return names_image(key) or _TAR.search(key) is not None


def placed(content: Any, root: bytes) -> Any:
    """Replace the path of a content in `root/`, which stands for buckets, by its address; others unchanged."""
    path = getattr(content, "path", None)
    if not (isinstance(path, bytes) and path.startswith(root) and read_in_place(path)):
        return content
    address = address_of(path, root)
    return replace(content, path=address) if isinstance(content, SourceFile) else content._replace(path=address)


def address_of(path: bytes, root: bytes) -> bytes:
    """Return the address that a path in the folder `root/` represents."""
    return path[len(root) :].replace(b"/", b"://", 1)


def fetch(content: Any, max_bytes: int) -> bytes:
    """The bytes of a content at a URL: fetched ahead by threads, or now. Raises RejectedError, StorageError.

    StorageError is for faults that also affect other images, such as a lost network.
    """
    begun = _under_way.pop(content, None)
    return begun.result() if begun is not None else _fetch(content, max_bytes)


_under_way: dict[Any, Future[bytes]] = {}  # with images read by one thread
_of_next_shard: set[Any] = set()  # contents among them
_pool: ThreadPoolExecutor | None = None


def forget() -> None:
    """Discard prefetched data that was not used, when a new shard begins, unless it was requested for this shard."""
    for content in _under_way.keys() - _of_next_shard:
        _under_way.pop(content).cancel()
    _of_next_shard.clear()


def begin(contents: Sequence[Any], max_bytes: int, *, of_next_shard: bool = False) -> bool:
    """Begin to read contents in threads; whether there is room for more."""
    global _pool
    _pool = _pool or ThreadPoolExecutor(_AT_ONCE, "shardfeed-fetch")
    if of_next_shard:
        _of_next_shard.update(contents)
    for content in contents:
        if content not in _under_way:
            _under_way[content] = _pool.submit(_fetch, content, max_bytes)
    return len(_under_way) < AHEAD and sum(content.size for content in _under_way) < _MOST_AHEAD


def wait_for(contents: Iterable[Any], alive: Callable[[], object]) -> None:
    """Wait until requested contents have arrived, and call `alive` meanwhile."""
    waiting = {_under_way[content] for content in contents if content in _under_way}
    while waiting:
        _, waiting = wait(waiting, timeout=_SIGN)
        alive()


_making = threading.Lock()


@lru_cache(64)
def _storage(root: str) -> "ObjectStorage":
    from shardfeed.storage.objects import ObjectStorage  # not above: local sources need no client

    return ObjectStorage(root)


def storage_of(address: str) -> "ObjectStorage":
    """The bucket or server of a URL; of the Hub's, one with a commit. Raises UsageError, MissingExtraError."""
    root = rooted(address)[0]
    with _making:  # else each thread of a process that begins would make clients, and connections, of its own
        return _storage(root)


def _fetch(content: Any, max_bytes: int) -> bytes:
    address = os.fsdecode(content.path)
    if content.mtime_ns == UNLISTED:
        return _unlisted(address, max_bytes)
    check_bytes(content.size, max_bytes)
    try:
        # Of a part of a file: all of it is bound.
        file: OpenFile = storage_of(address).open(address, getattr(content, "file_size", content.size))
        data = file.read(getattr(content, "offset", 0), content.size)
        if data and version_number(file.version) != content.mtime_ns:  # type: ignore[arg-type]  # of this storage
            raise RejectedError(RejectCode.SOURCE_CHANGED, "its ETag differs from the listing's")
        return data
    except FileNotFoundError:
        raise RejectedError(RejectCode.SOURCE_CHANGED, "it was deleted after it was listed") from None
    except IntegrityError as error:
        raise RejectedError(RejectCode.SOURCE_CHANGED, f"it changed after it was listed: {error.problem}") from None
    except StorageError as error:
        if error.errno == errno.EACCES:  # of this object: the listing was allowed
            raise RejectedError(RejectCode.UNREADABLE, error.problem) from None
        raise


def _unlisted(address: str, max_bytes: int) -> bytes:
    if address.lower().startswith("http"):
        data = _download(address, max_bytes)
    else:
        try:
            file = storage_of(address).open(address)
            check_bytes(file.size, max_bytes)
            data = file.read(0, file.size)
        except FileNotFoundError:
            raise RejectedError(RejectCode.UNREADABLE, "no such object (HTTP status 404)") from None
        except StorageError as error:
            raise RejectedError(RejectCode.UNREADABLE, error.problem) from None
    check_bytes(len(data), max_bytes)
    return data


def _opener() -> urllib.request.OpenerDirector:
    """Opens only http:// and https://, also after a redirect: not ftp:// or file://."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        *(urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler),
        *(urllib.request.HTTPRedirectHandler, urllib.request.HTTPDefaultErrorHandler),
        *(urllib.request.HTTPErrorProcessor, urllib.request.UnknownHandler),
    ):
        opener.add_handler(handler())
    opener.addheaders = [("User-Agent", f"shardfeed/{__version__}")]
    return opener


def _download(url: str, max_bytes: int) -> bytes:
    """The bytes at a URL, `max_bytes` + 1 at most. Raises RejectedError with the last status and the attempts."""
    started = time.monotonic()
    written = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
    for attempt in range(1, _TRIES + 1):
        pause = _PAUSE * 2 ** (attempt - 1)
        try:
            return _get(written, max_bytes)
        except urllib.error.HTTPError as error:
            problem, again = f"HTTP status {error.code}", error.code in _AGAIN
            with suppress(ValueError):
                pause = max(pause, min(30.0, float(error.headers.get("Retry-After", 0))))
            error.close()
        except (http.client.HTTPException, OSError) as error:  # URLError, TimeoutError and resets among them
            cause = getattr(error, "reason", error)
            problem = _in_words(cause)
            again = not isinstance(cause, http.client.InvalidURL | ssl.SSLCertVerificationError)
        except ValueError:
            problem, again = "not a valid URL", False
        if not again or attempt == _TRIES:
            seconds = time.monotonic() - started
            problem = f"{problem}, after {number(attempt, 'attempt')} in {seconds:.0f} s"
            raise RejectedError(RejectCode.UNREADABLE, problem) from None
        time.sleep(pause)
    raise AssertionError  # the last attempt returns or raises


def _get(url: str, max_bytes: int) -> bytes:
    deadline = time.monotonic() + 3 * _REQUEST_SECONDS
    with _opener().open(url, timeout=_REQUEST_SECONDS) as response:
        pieces, size = list[bytes](), 0
        while size <= max_bytes and (piece := response.read1(_PIECE)):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > deadline:
                raise TimeoutError
        declared = response.headers.get("Content-Length")
    if declared is not None and size < min(int(declared), max_bytes):
        raise http.client.IncompleteRead(b"")
    return b"".join(pieces)


def _in_words(cause: object) -> str:
    """A failure without the address, which may hold a credential."""
    if isinstance(cause, http.client.IncompleteRead):
        return "the response is truncated"
    if isinstance(cause, TimeoutError):
        return "no response in time"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its TLS certificate is not trusted"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return type(cause).__name__


class Ranges(io.RawIOBase):
    """A file at a URL that is read forwards, in pieces, some of them requested ahead.

    Its descriptor is that of the placeholder file at `path`, with the same size and time.
    """

    def __init__(self, path: bytes, root: bytes) -> None:
        self._file, self._at, self._last = open(path, "rb"), 0, -1  # noqa: SIM115  # closed with this
        state = os.fstat(self._file.fileno())
        self._whole = SourceFile(address_of(path, root), state.st_size, state.st_mtime_ns)
        self._pool = ThreadPoolExecutor(_PIECES, "shardfeed-ranges")
        self._pieces: dict[int, Future[bytes]] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._whole.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, start = divmod(self._at, _PIECE_BYTES)
        if self._at >= self._whole.size:
            return 0
        data = self._piece(number)[start : start + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _piece(self, number: int) -> bytes:
        """A piece; from the second consecutive piece on, the following pieces are requested as well."""
        path, size, mtime_ns = self._whole.path, self._whole.size, self._whole.mtime_ns
        behind = number + (_PIECES if number == self._last + 1 and number else 1)
        for one in range(number, min(behind, -(-size // _PIECE_BYTES))):
            if one not in self._pieces:
                start = one * _PIECE_BYTES
                part = FilePart(path, start, min(_PIECE_BYTES, size - start), size, mtime_ns)
                self._pieces[one] = self._pool.submit(_fetch, part, size)
        if number != self._last:
            self._pieces = {one: piece for one, piece in self._pieces.items() if one >= number}
            self._last = number
        try:
            return self._pieces[number].result()
        except RejectedError as error:
            raise StorageError(path, error.reason, "run the same command again") from None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._file.close()
        super().close()
