"""Object stores and web servers as storage: S3, Google Cloud Storage, Azure and HTTP, read by ranges with obstore.

Each file is bound to the version that was read first: a later read of another version is an error, not other bytes.
obstore's threads belong to one process. A child forked after their first use would wait for them for ever, so it gets
an error here instead.
"""

import errno
import io
import os
import re
import sys
import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from shardfeed.errors import IntegrityError, StorageError, UsageError, check_extra
from shardfeed.storage.storage import Entry, OpenFile, Part

_SCHEMES = ("s3", "gs", "az", "http", "https")
_ROOT = re.compile(r"([a-z0-9]+)://([^/?#]+)", re.IGNORECASE)

_AT_ONCE = 32  # requests under way in one process: more gained nothing at 30 ms a request
_PIECE_BYTES = 8 << 20  # of one request; larger reads are several
_REQUEST_SECONDS = 30  # for one of at most _PIECE_BYTES: 280 kB/s is the least speed
_DEADLINE_SECONDS = 120  # after which nothing is asked again
_TRIES = 3  # of what obstore, which retries by itself, has given up: an answer that was cut, late or another
_RETRY = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=_DEADLINE_SECONDS / _TRIES),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_FORKED = (
    "this process was forked from one that has read from there, and the client does not outlive a fork",
    'start processes by "forkserver" or "spawn", as in torch_loader(..., workers=Workers(start_method="forkserver"))',
)
_ACCESS = "check the credentials in the environment (AWS_..., GOOGLE_..., AZURE_...) and the permission to read"
_REPLACED = "replaced since it was opened", "open the dataset again"

_process: int | None = None  # which has used obstore


# ETag, or None; time of the last change where there is no ETag; bytes.
Version = tuple[str | None, object, int]


class ObjectStorage:
    """A bucket, or a web server: `root` is its address without a path, such as "s3://bucket" or "https://host".

    Credentials, region and endpoint are those of the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...); for S3
    those of boto3 where it is installed and the environment has none. They do not pickle, and are in no error.

    Raises UsageError for an address of another kind, MissingExtraError without obstore.
    """

    most_open = sys.maxsize  # no descriptors
    survives_fork = False

    def __init__(self, root: str) -> None:
        found = _ROOT.fullmatch(root.rstrip("/"))
        if found is None or found[1].lower() not in _SCHEMES:
            raise UsageError(root, f"got an address of another kind, expected one of {', '.join(_SCHEMES)}")
        self.root, self._scheme = found[0], found[1].lower()
        check_extra("obstore", root)
        self._forget()

    def _forget(self) -> None:
        self._store: Any = None
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> str:
        return self.root

    def __setstate__(self, root: str) -> None:
        self.__init__(root)

    def entries(self, directory: str) -> list[Entry]:
        """All that is directly below a prefix; an empty one does not exist. Web servers raise UnsupportedOperation."""
        import obstore

        if self._scheme in ("http", "https"):
            raise io.UnsupportedOperation(f"{directory}: a web server has no listing")
        prefix = self.key(directory)
        found = self.call(directory, lambda: obstore.list_with_delimiter(self.store, f"{prefix}/" if prefix else None))
        entries = [Entry(one["path"].rpartition("/")[2], one["size"]) for one in found["objects"]]
        entries += [Entry(one.rstrip("/").rpartition("/")[2], -1) for one in found["common_prefixes"]]
        if not entries:
            raise FileNotFoundError(errno.ENOENT, "no such prefix", directory)
        return entries

    def open(self, path: str, size: int | None = None) -> OpenFile:
        """A file. With its `size` no request is made until it is read, and FileNotFoundError comes then."""
        file = _Object(self, path, size)
        if size is None:
            file.fetch_all()
        return file

    def version(self, path: str) -> Version:
        """The version of a file now. Raises FileNotFoundError."""
        import obstore

        return _version(self.call(path, lambda: obstore.head(self.store, self.key(path))))

    def read_many(self, parts: Sequence[Part]) -> list[bytes]:
        """The bytes of parts of files, in their order, up to 32 requests at a time."""
        if len(parts) == 1:
            return [parts[0].read()]
        self.check_process()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AT_ONCE, "shardfeed-read")
        return list(self._pool.map(Part.read, parts))

    def key(self, path: str) -> str:
        """The name of a file in the bucket."""
        return path[len(self.root) :].strip("/")

    def check_process(self) -> None:
        """Raise StorageError in a process that was forked from one that has used obstore."""
        global _process
        if _process is None:
            _process = os.getpid()
        elif _process != os.getpid():
            raise StorageError(self.root, *_FORKED)

    @property
    def store(self) -> Any:
        """obstore's client, made when it is first needed."""
        self.check_process()
        with self._lock:
            if self._store is None:
                self._store = _new_store(self.root, self._scheme)
            return self._store

    def call(self, path: str, request: Any) -> Any:
        """Return what `request` returns. Raises FileNotFoundError, IntegrityError if replaced, or StorageError."""
        from obstore import exceptions

        self.check_process()
        begun, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return request()
            except (FileNotFoundError, exceptions.NotFoundError):
                raise FileNotFoundError(errno.ENOENT, "no such file", path) from None
            except exceptions.PreconditionError:
                raise IntegrityError(path, *_REPLACED) from None
            except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
                raise _failed(path, errno.EACCES, f"access denied ({_status(error)})", _ACCESS) from None
            except exceptions.BaseError as error:
                seconds = time.monotonic() - begun
                if tries == _TRIES or seconds > _DEADLINE_SECONDS or not isinstance(error, exceptions.GenericError):
                    problem = f"cannot be read: {_status(error)}, after {tries} attempts in {seconds:.0f} s"
                    raise _failed(path, errno.EIO, problem, "check the network, and run the same again") from None
            time.sleep(min(5, 0.1 * 2**tries))


class _Object:
    """A file of an object store: see `OpenFile`. Its version is that of its first read."""

    def __init__(self, storage: ObjectStorage, path: str, size: int | None) -> None:
        self._storage, self.path, self._size = storage, path, size
        self._etag: str | None = None
        self._version: Hashable = None
        self._content: bytes | None = None  # of a file whose size nobody knew
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        assert self._size is not None
        return self._size

    @property
    def version(self) -> Hashable:
        if self._version is None:
            self._bind(self._storage.version(self.path))
        return self._version

    def fetch_all(self) -> None:
        """Read the file with one request, however large it is."""
        self._content = self._get(None)

    def read(self, start: int, size: int) -> bytes:
        end = min(start + size, self.size)
        if self._content is not None:
            return self._content[start:end]
        starts = range(start, end, _PIECE_BYTES)
        pieces = [self._get((at, min(at + _PIECE_BYTES, end))) for at in starts]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _get(self, span: tuple[int, int] | None) -> bytes:
        import obstore
        from obstore import exceptions

        options: Any = {} if span is None else {"range": span}
        if self._etag is not None:
            options["if_match"] = self._etag

        def request() -> bytes:
            got = obstore.get(self._storage.store, self._storage.key(self.path), options=options)
            self._bind(_version(got.meta))
            data = got.bytes().to_bytes()
            wanted = span or (0, self.size)
            if tuple(got.range) != wanted or len(data) != wanted[1] - wanted[0]:
                raise exceptions.GenericError(f"got {len(data)} bytes of {got.range}, expected {wanted}")
            return data

        return self._storage.call(self.path, request)

    def _bind(self, version: Version) -> None:
        """Take the version of the first answer; raise IntegrityError for another one, or for another size."""
        etag, _, size = version
        with self._lock:
            if self._version is None:
                if self._size not in (None, size):
                    raise IntegrityError(
                        self.path, f"has {size} bytes, expected {self._size}", "open the dataset again"
                    )
                # A weak tag never matches in a request; it is compared here.
                self._etag = etag if etag and not etag.startswith("W/") else None
                self._size, self._version = size, version
        if self._version != version:
            raise IntegrityError(self.path, *_REPLACED)


def _version(meta: Any) -> Version:
    return meta["e_tag"], None if meta["e_tag"] else meta["last_modified"], meta["size"]


def _new_store(root: str, scheme: str) -> Any:
    from obstore import store

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    plain = scheme == "http" or (scheme == "s3" and endpoint.startswith("http://"))
    options: dict[str, Any] = {"timeout": timedelta(seconds=_REQUEST_SECONDS), "connect_timeout": timedelta(seconds=10)}
    if plain:  # as was asked for by that address
        options["allow_http"] = True
    given: dict[str, Any] = {}
    if scheme == "s3" and "AWS_ACCESS_KEY_ID" not in os.environ and "AWS_SKIP_SIGNATURE" not in os.environ:
        try:
            import boto3
            from obstore.auth.boto3 import Boto3CredentialProvider

            session = boto3.Session()
            if session.get_credentials() is not None:  # profiles, single sign-on, ...
                given["credential_provider"] = Boto3CredentialProvider(session)
        except ImportError:
            pass
    from_url: Any = store.from_url  # whose overloads are by the kind of store
    return from_url(root, client_options=options, retry_config=_RETRY, **given)


def _failed(path: str, number: int, problem: str, remedy: str) -> StorageError:
    error = StorageError(path, problem, remedy)
    error.errno = number
    return error


def _status(error: Exception) -> str:
    """The HTTP status of an error of obstore, else its kind, without addresses: a signed one holds a credential."""
    text = str(error)
    found = re.search(r"status(?: code)?:? (\d{3})", text, re.IGNORECASE) or re.search(r"\b([45]\d\d) [A-Z]", text)
    if found:
        return f"HTTP status {found[1]}"
    causes = ("timed out", "timeout", "connection refused", "connection closed", "reset", "dns error", "range")
    return next((cause for cause in causes if cause in text.lower()), type(error).__name__)
