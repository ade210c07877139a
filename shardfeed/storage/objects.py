"""Object stores and web servers as storage: S3, Google Cloud Storage, Azure, HTTP and the Hugging Face Hub, by obstore.

Each file is bound to the version that was read first: a later read of another version is an error, not other bytes.
obstore's threads belong to one process. A child forked after their first use would wait for them forever, so it gets an
error here instead.
"""

import errno
import io
import os
import re
import sys
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError, check_extra
from shardfeed.storage.hub import authorization, files_url
from shardfeed.storage.storage import READ_BYTES, Entry, OpenFile, Part
from shardfeed.text import number as counted

_SCHEMES = ("s3", "gs", "az", "http", "https")
_WEB = ("http", "https", "hf")  # without a listing
_ENDPOINTS = {  # variables of the environment
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "hf": ("HF_ENDPOINT",),
}
_ROOT = re.compile(r"([a-z0-9]+)://([^/?#]+)", re.IGNORECASE)

_PAGE = 1000  # files of a listing in one answer
_AT_ONCE = 32  # concurrent requests of one process: more did not help at 30 ms per request
_REQUEST_SECONDS = 45  # for a request of at most READ_BYTES (larger reads are divided): 280 kB/s is the minimum speed
_DEADLINE_SECONDS = 120  # after which no request is repeated
_TRIES = 3  # for errors after obstore's own retries: an answer that was truncated, late or wrong
_PAUSE_SECONDS = 0.1  # before the second attempt, and twice as long before each later one
_RETRY = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=_DEADLINE_SECONDS / _TRIES),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_FORKED = (
    "this process was forked from one that had read from there, and the client does not survive a fork",
    'start processes by "forkserver" or "spawn", as in torch_loader(..., workers=Workers(start_method="forkserver"))',
)
_ACCESS = (
    "check the credentials in the environment (AWS_..., GOOGLE_..., AZURE_..., HF_TOKEN) and the permission to read"
)
NETWORK = "check the URL, the endpoint and the network, and run the same command again"
_NOT_VALID = "a setting in the environment is not valid", _ACCESS
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "HF_")
# Text in obstore's error -> problem and remedy; the first that matches. A retry would not help.
_CAUSES = (
    ("ExpiredToken|RequestExpired|TokenRefresh", "the credentials have expired", "renew them, then run again"),
    ("without LOCATION|HeaderMalformed", "the bucket is in another region", "set AWS_REGION to its region"),
    ("NoSuchBucket", "no such bucket", "check the URL and AWS_ENDPOINT_URL"),
    (r"credential provider|//169\.254|MissingAcc|MissingSec|(?:Open|Decode)Cred", "no valid credentials", _ACCESS),
    ("Generic Config", *_NOT_VALID),
    ("invalid ?certificate", "its TLS certificate is not trusted", "set SSL_CERT_FILE to its authority's certificate"),
    (r"status(?: code)?:? 40[13]", "access denied", _ACCESS),
    (r"status(?: code)?:? 400", "the server refuses the request", f"{_ACCESS}, and AWS_REGION"),
)
# The same for temporary errors without an answer of the server.
_PASSING = (
    ("dns error", "no server has this name"),
    ("connection ?refused", "the server refuses connections"),
    ("timed ?out|kind: timeout", "no response in time"),
    ("connection ?(?:closed|reset)|incomplete|broken pipe", "the connection was lost"),
    ("expected range|range request not", "the response has a different range than requested"),
)
_REPLACED = "replaced since it was opened", "open the dataset again"

_process: int | None = None  # which has used obstore


Buffer = Any  # bytes, or what has the buffer protocol
# ETag, or None; time of the last change if there is no ETag; bytes.
Version = tuple[str | None, object, int]


def forked_after_use() -> bool:
    """Whether this process was forked from one that had used obstore: then neither it nor a fork of it can."""
    return _process not in (None, os.getpid())


class ObjectStorage:
    """A bucket, or a web server: `root` is its URL without a path, such as "s3://bucket" or "https://host".

    A repository of the Hub is "hf://datasets/USER/REPO@COMMIT", which never changes.

    Credentials, region and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...); for S3 from
    boto3 if it is installed and the environment has none. They are never pickled, nor part of an error.

    Raises UsageError for any other URL, MissingExtraError without obstore.
    """

    most_open = sys.maxsize  # no descriptors
    survives_fork = False

    def __init__(self, root: str) -> None:
        found = _ROOT.fullmatch(root.rstrip("/"))
        if not files_url(root) and (found is None or found[1].lower() not in _SCHEMES):
            problem = f"got a URL of another kind, expected one of {', '.join(_SCHEMES)}"
            local = root.lower().startswith("file:")
            remedy = "write only the path" if local else "copy it to this machine, and give the path of the copy"
            raise UsageError(root, problem, remedy)
        self.root, self._scheme = root.rstrip("/"), root.partition("://")[0].lower()
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
        """List the entries of a prefix; an empty one does not exist. Web servers raise UnsupportedOperation."""
        import obstore

        if self._scheme in _WEB:
            raise io.UnsupportedOperation(f"{directory}: a web server cannot list files")
        prefix = self.key(directory)
        found = self.call(directory, lambda: obstore.list_with_delimiter(self.store, f"{prefix}/" if prefix else None))
        entries = [Entry(one["path"].rpartition("/")[2], one["size"]) for one in found["objects"]]
        entries += [Entry(one.rstrip("/").rpartition("/")[2], -1) for one in found["common_prefixes"]]
        if not entries:
            raise FileNotFoundError(errno.ENOENT, "no such prefix", directory)
        return entries

    def below(self, prefix: str) -> Iterator[list[tuple[str, int, Version]]]:
        """Yield the files below a prefix, by pages: name in the bucket, bytes, version. None: no such prefix.

        An interrupted listing continues after the last page. Raises StorageError.
        """
        import obstore

        key, last, stream = self.key(prefix), "", None

        def next_page() -> Any:
            nonlocal stream
            pages, stream = stream, None  # an iterator that has raised is not used again: it would seem to end
            if pages is None:
                below = f"{key}/" if key else None
                pages = iter(obstore.list(self.store, below, offset=last or None, chunk_size=_PAGE))
            page = next(pages, None)
            stream = pages
            return page

        while page := self.call(prefix, next_page):
            yield [(one["path"], one["size"], _version(one)) for one in page]
            last = page[-1]["path"]

    def open(self, path: str, size: int | None = None) -> OpenFile:
        """A file. If `size` is given, no request is made before the first read, which may raise FileNotFoundError."""
        file = _Object(self, path, size)
        if size is None:
            file.fetch_all()
        return file

    def version(self, path: str) -> Version:
        """The version of a file now. Raises FileNotFoundError."""
        import obstore

        return self.version_of(self.call(path, lambda: obstore.head(self.store, self.key(path))))

    def version_of(self, meta: Any) -> Version:
        """The version of an answer. In a repository of the Hub it is the commit, whatever its servers report."""
        return (None, None, meta["size"]) if self._scheme == "hf" else _version(meta)

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
        if forked_after_use():
            raise StorageError(self.root, *_FORKED)
        _process = os.getpid()

    @property
    def store(self) -> Any:
        """obstore's client, made when it is first needed."""
        self.check_process()
        with self._lock:
            if self._store is None:
                self._store = _new_store(self.root, self._scheme)
            return self._store

    def call(self, path: str, request: Any, part: str = "") -> Any:
        """Return what `request` returns; errors name the `part` of the file.

        Raises FileNotFoundError, StorageError, UsageError, IntegrityError.
        """
        from obstore import exceptions

        self.check_process()
        begun, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return request()
            except exceptions.PreconditionError:
                raise IntegrityError(path, *_REPLACED) from None
            except (FileNotFoundError, exceptions.BaseError) as error:
                problem, remedy = cause(error)
                if not remedy and isinstance(error, FileNotFoundError | exceptions.NotFoundError):
                    raise FileNotFoundError(errno.ENOENT, "no such file", path) from None
                if remedy:
                    number = errno.EACCES if problem.startswith("access denied") else errno.EIO
                    raise failed(path, number, problem, remedy) from None
                seconds = time.monotonic() - begun
                if tries == _TRIES or seconds > _DEADLINE_SECONDS:
                    problem = f"{part}cannot be read: {problem}, after {counted(tries, 'attempt')} in {seconds:.0f} s"
                    raise failed(path, errno.EIO, problem, NETWORK) from None
            except ShardfeedError:
                raise
            except ValueError:  # of obstore
                raise UsageError(path, "is not a valid URL", "check host, port and path (no '..')") from None
            except BaseException as error:
                if type(error).__name__ == "PanicException":  # of obstore, for values that do not fit into a request
                    raise UsageError(path, *_NOT_VALID) from None
                raise
            time.sleep(_PAUSE_SECONDS * 2 ** (tries - 1))


def buffers(part: Part) -> Iterator[Buffer]:
    """Return the bytes of a part in pieces, without a copy if they come from an object store. Raises OSError."""
    if isinstance(part.file, _Object):
        yield from part.file.pieces(part.start, part.start + part.size)
    else:
        yield part.read()


class _Object:
    """A file in an object store: see `OpenFile`. Its version is fixed by the first read."""

    def __init__(self, storage: ObjectStorage, path: str, size: int | None) -> None:
        self._storage, self.path, self._size = storage, path, size
        self._etag: str | None = None
        self._version: Hashable = None
        self._content: bytes | None = None  # of a file of unknown size
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
        self._content = bytes(self._get(None))

    def read(self, start: int, size: int) -> bytes:
        end = min(start + size, self.size)
        if self._content is not None:
            return self._content[start:end]
        return b"".join(self.pieces(start, end))

    def pieces(self, start: int, end: int) -> Iterator[Buffer]:
        """The bytes from `start` to `end`, with one request per 12 MB."""
        for at in range(start, end, READ_BYTES):
            yield self._get((at, min(at + READ_BYTES, end)))

    def _get(self, span: tuple[int, int] | None) -> Buffer:
        import obstore
        from obstore import exceptions

        options: Any = {} if span is None else {"range": span}
        if self._etag is not None:
            options["if_match"] = self._etag

        def request() -> Buffer:
            got = obstore.get(self._storage.store, self._storage.key(self.path), options=options)
            self._bind(self._storage.version_of(got.meta))
            data = got.bytes()  # obstore's own buffer: a copy would take four times as long as the request
            wanted = span or (0, self.size)
            if tuple(got.range) != wanted or len(data) != wanted[1] - wanted[0]:
                raise exceptions.GenericError(f"got {len(data)} bytes of {got.range}, expected range {wanted}")
            return data

        return self._storage.call(self.path, request, f"bytes {span[0]} to {span[1]} " if span else "")

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

    for name, value in os.environ.items():
        if name.startswith(_SETTINGS) and value != value.strip():
            raise UsageError(name, "begins or ends with a space or a newline", "remove it")
    named = next(filter(os.environ.get, _ENDPOINTS.get(scheme, ())), "")
    endpoint = os.environ.get(named, "")
    if not re.match("(https?://[^/]|$)", endpoint):
        raise UsageError(named, "is not a URL", "set it to one such as http://localhost:9000")
    options: dict[str, Any] = {"timeout": timedelta(seconds=_REQUEST_SECONDS), "connect_timeout": timedelta(seconds=10)}
    if scheme == "http" or endpoint.startswith("http://"):  # as the URL requires
        options["allow_http"] = True
    if scheme == "hf":
        options["default_headers"] = authorization()
    given: dict[str, Any] = {}
    if scheme == "s3" and "AWS_ACCESS_KEY_ID" not in os.environ and "AWS_SKIP_SIGNATURE" not in os.environ:
        with suppress(ImportError):
            import boto3
            from botocore.exceptions import BotoCoreError
            from obstore.auth.boto3 import Boto3CredentialProvider

            try:
                session = boto3.Session()
                if session.get_credentials() is not None:  # profiles, single sign-on, ...
                    given["credential_provider"] = Boto3CredentialProvider(session)
            except BotoCoreError as error:
                problem = f"boto3 has no valid credentials ({type(error).__name__})"
                raise failed(root, errno.EIO, problem, "check AWS_PROFILE and ~/.aws/config") from None
    from_url: Any = store.from_url  # whose overloads are by the kind of store
    return from_url(files_url(root) or root, client_options=options, retry_config=_RETRY, **given)


def failed(path: str, number: int, problem: str, remedy: str) -> StorageError:
    """A StorageError with an error number."""
    error = StorageError(path, problem, remedy)
    error.errno = number
    return error


def cause(error: Exception) -> tuple[str, str]:
    """Explain an error: problem, and remedy unless temporary; without obstore's text, which may hold credentials."""
    text = re.sub(r"https?://(?!169\.254)\S+", "", str(error))
    found = re.search(r"status(?: code)?:? (\d{3})", text, re.IGNORECASE) or re.search(r"\b([45]\d\d) [A-Z]", text)
    status = f"HTTP status {found[1]}" if found else ""
    for pattern, problem, remedy in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return problem + (f" ({status})" if status else ""), remedy
    passing = (problem for pattern, problem in _PASSING if re.search(pattern, text, re.IGNORECASE))
    return status or next(passing, "no usable response"), ""
