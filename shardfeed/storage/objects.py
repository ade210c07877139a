"""Object stores and web servers as storage: S3, Google Cloud Storage, Azure, HTTP and the Hugging Face Hub, by obstore.

Each file is bound to the version that was read first: a later read of another version is an error, not other bytes.
obstore's threads belong to one process. A child forked after their first use would wait for them forever, so it gets an
error here instead.
"""

import errno
import io
import os
import random
import re
import sys
import threading
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from shardfeed import processes
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError, check_extra
from shardfeed.storage.hub import authorization, files_below, files_url, size_of
from shardfeed.storage.hub_answers import MOST_FILE_BYTES
from shardfeed.storage.listing_limits import ListingLimits, endless
from shardfeed.storage.outage import DEADLINE_SECONDS as _DEADLINE_SECONDS
from shardfeed.storage.outage import awaited, note_answer
from shardfeed.storage.redirects import Guard, guard
from shardfeed.storage.storage import READ_BYTES, Buffer, Entry, OpenFile, Part
from shardfeed.text import number as counted

_SCHEMES = ("s3", "gs", "az", "http", "https")
_WEB = ("http", "https", "hf")  # asked by HTTP alone: without a bucket's credentials, and without its listing
_ENDPOINTS = {  # variables of the environment
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "hf": ("HF_ENDPOINT",),
}
_ROOT = re.compile(r"([a-z0-9]+)://([^/?#]+)", re.IGNORECASE)

_PAGE = 1000  # files of a listing in one answer
_FETCHED_AT_ONCE = 64 << 20  # bytes of a file that one request reads; a larger one is read by ranges
_AT_ONCE = 32  # concurrent requests of one process: more did not help at 30 ms per request
_PIECE = 1 << 20  # bytes of an answer that are passed on together: still in the processor's cache
# For an attempt of at most READ_BYTES (larger reads are divided): 280 kB/s is the minimum speed. The shorter limits are
# for attempts near the deadline: each is at most half of what is left, as obstore may repeat it.
_ATTEMPT_SECONDS = (45, 22, 11, 6, 3, 1.5, 0.5)
_TRIES = 3  # for other errors, which waiting does not mend: a wrong answer, or no server since the process began
_PAUSE_SECONDS, _LONGEST_PAUSE = 0.2, 10  # before the second attempt, and twice as long before each later one
# obstore's own retries, within an attempt: they continue a truncated answer where it ended.
_RETRY = {
    "max_retries": 3,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
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
_RENAME = "rename it; in S3 and Google Cloud Storage it is skipped if shardfeed's extra cloud-write is installed"
_SETTINGS = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_", "IDENTITY_", "MSI_"), "hf": ("HF_",)}
_PREFIXES = tuple(prefix for prefixes in _SETTINGS.values() for prefix in prefixes)
# Besides the store, hosts from which its client gets credentials, and which it may reach; for a store of the provider
# itself, all its hosts.
_SIGN_IN = ("169.254.0.0/16", "fd00:ec2::/32", "metadata.google.internal", "oauth2.googleapis.com")
_SIGN_IN += ("sts.googleapis.com", "iamcredentials.googleapis.com", "login.microsoftonline.com", "sts.amazonaws.com")
_PROVIDERS = {
    "s3": ".amazonaws.com,.amazonaws.com.cn",
    "gs": ".googleapis.com",
    "az": "127.0.0.1,.windows.net,.chinacloudapi.cn,.usgovcloudapi.net,.fabric.microsoft.com",
}
# Text in obstore's error -> problem and remedy; the first that matches. A retry would not help.
_CAUSES = (
    (
        "TimeTooSkewed|Signature (?:expired|not yet current)|reasonable timeframe|date header too old",
        "this machine's clock is wrong",
        "set it, for example with `timedatectl set-ntp true`",
    ),
    ("ExpiredToken|RequestExpired|TokenRefresh", "the credentials have expired", "renew them, then run again"),
    ("without LOCATION|HeaderMalformed", "the bucket is in another region", "set AWS_REGION to its region"),
    ("NoSuchBucket", "no such bucket", "check the URL and AWS_ENDPOINT_URL"),
    (r"credential provider|//169\.254|MissingAcc|MissingSec|(?:Open|Decode)Cred", "no valid credentials", _ACCESS),
    ("Generic Config", *_NOT_VALID),
    ("invalid ?certificate", "its TLS certificate is not trusted", "set SSL_CERT_FILE to its authority's certificate"),
    (r"status(?: code)?:? 40[13]", "access denied", _ACCESS),
    (r"status(?: code)?:? 400", "the server refuses the request", f"{_ACCESS}, and AWS_REGION"),
)
NO_DESCRIPTOR = "this process has too many open files"
_MORE_DESCRIPTORS = "raise the limit before the program starts, for example with `ulimit -n 4096`"
# The same for temporary errors without an answer of the server.
_PASSING = (
    ("too many open files", NO_DESCRIPTOR),
    ("dns error", "no server has this name"),
    ("connection ?refused", "the server refuses connections"),
    ("timed ?out|kind: timeout", "no response in time"),
    ("connection ?(?:closed|reset)|incomplete|broken pipe", "the connection was lost"),
    ("expected range|range request not", "the response has a different range than requested"),
)
_OUTAGE = re.compile("HTTP status (5|408|429)|no response|the connection|the server refuses|no server")
_REPLACED = "replaced since it was opened", "open the dataset again"

Received = Any  # bytes, or what has the buffer protocol
# ETag, or None; time of the last change if there is no ETag; bytes.
Version = tuple[str | None, object, int]


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
            problem = f"got a URL of another kind, expected one of {', '.join(_SCHEMES)}, hf"
            local = root.lower().startswith("file:")
            remedy = "write only the path" if local else "copy it to this machine, and give the path of the copy"
            raise UsageError(root, problem, remedy)
        self.root, self._scheme = root.rstrip("/"), root.partition("://")[0].lower()
        check_extra("obstore", root)
        self._forget()

    def _forget(self) -> None:
        self._guard: Guard | None = None
        self._clients: Sequence[Any] = ()  # one for each of _ATTEMPT_SECONDS
        self._answered = False  # by the server, with any status
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
        below = f"{prefix}/" if prefix else None
        try:
            found = self.call(directory, lambda store: obstore.list_with_delimiter(store, below))
        except OddNameError as error:
            raise io.UnsupportedOperation(f"{directory}: has an object that cannot be listed") from error
        entries = [Entry(one["path"].rpartition("/")[2], one["size"]) for one in found["objects"]]
        entries += [Entry(one.rstrip("/").rpartition("/")[2], -1) for one in found["common_prefixes"]]
        if not entries:
            raise FileNotFoundError(errno.ENOENT, "no such prefix", directory)
        return entries

    def below(
        self, prefix: str, names: Callable[[], Sequence[str]] = tuple
    ) -> Iterator[list[tuple[str, int, Version]]]:
        """Yield the files below a prefix, by pages: name in the bucket, bytes, version. None: no such prefix.

        An interrupted listing continues after the last page. Raises StorageError, also for a server that lists the same
        names again and again. obstore cannot list a page with a name that `is_odd`: its files are then those of
        `names`, which returns all names below the prefix, in the order of listings. OddNameError if it returns none.
        """
        if self._scheme == "hf":
            yield from self._below_in_commit(prefix)
            return
        listing, limits = _Listing(prefix, self.key(prefix)), ListingLimits(prefix)
        listed: Sequence[str] = ()
        while True:
            files: list[tuple[str, int, Version]] = []
            try:
                for one in self.call(prefix, listing.next_page) or ():
                    files.append((one["path"], one["size"], _version(one)))
            except OddNameError:
                if not (listed := listed or names()):
                    raise
                after = bisect_right(listed, listing.last.encode(), key=str.encode)
                files, listing.last = self._past_odd(listed[after:])
            else:
                listing.last = files[-1][0] if files else ""
            if not files:
                return
            limits.check_page(files)
            yield files
            if is_odd(listing.last):  # the end, and obstore can list nothing after it
                return

    def _below_in_commit(self, prefix: str) -> Iterator[list[tuple[str, int, Version]]]:
        for page in files_below(self.root, self.key(prefix)):
            yield [(name, size, self._of_commit(size)) for name, size in page]

    def _past_odd(self, names: Sequence[str]) -> tuple[list[tuple[str, int, Version]], str]:
        """The files of a listing until an ordinary name that follows odd ones, and that name; odd ones with 0 bytes."""
        odd = [is_odd(name) for name in names]
        end = next((i for i in range(1, len(names)) if odd[i - 1] and not odd[i]), len(names))

        def one(name: str, odd: bool) -> tuple[str, int, Version] | None:
            with suppress(FileNotFoundError):  # deleted, or a folder of a web console
                version = (None, None, 0) if odd else self.version(f"{self.root}/{name}")
                return name, version[2], version
            return None

        files = [each for each in self._threads().map(one, names[: end + 1], odd[: end + 1]) if each]
        return files, (names[: end + 1] or [""])[-1]

    def open(self, path: str, size: int | None = None) -> OpenFile:
        """A file. If `size` is given, no request is made before the first read, which may raise FileNotFoundError."""
        file = _Object(self, path, size)
        if size is None:
            file.fetch_small()
        return file

    def version(self, path: str) -> Version:
        """The version of a file now. Raises FileNotFoundError."""
        import obstore

        return self.version_of(self.call(path, lambda store: obstore.head(store, self.key(path))))

    def listed(self, path: str) -> Version:
        """The same, of a file that may be large: the Hub's other servers need not answer HEAD."""
        return self._of_commit(size_of(self.root, self.key(path))) if self._scheme == "hf" else self.version(path)

    def version_of(self, meta: Any) -> Version:
        """The version of an answer. In a repository of the Hub it is the commit, whatever its servers report."""
        return self._of_commit(meta["size"]) if self._scheme == "hf" else _version(meta)

    def _of_commit(self, size: int) -> Version:
        return None, self.root, size

    def read_many(self, parts: Sequence[Part]) -> Sequence[Buffer]:
        """The bytes of parts of files, in their order, up to 32 requests at a time; see `Storage`."""
        if len(parts) == 1:
            return [_read(parts[0])]
        return list(self._threads().map(_read, parts))

    def _threads(self) -> ThreadPoolExecutor:
        self.check_process()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AT_ONCE, "shardfeed-read")
            return self._pool

    def key(self, path: str) -> str:
        """The name of a file in the bucket."""
        return path[len(self.root) :].strip("/")

    def check_process(self) -> None:
        """Raise StorageError in a process that was forked from one that has used obstore."""
        if processes.forked_after_use():
            raise StorageError(self.root, *_FORKED)
        processes.client_process = os.getpid()

    def _client(self, left: float) -> Any:
        """obstore's client whose requests take at most `left` s, with its own retries, but no less than 1 s.

        All are made when one is first needed, with the credentials that the environment has then.
        """
        with self._lock:
            if not self._clients:
                self._clients, self._guard = _new_clients(self.root, self._scheme)
        fits = (client for client, seconds in zip(self._clients, _ATTEMPT_SECONDS, strict=True) if 2 * seconds <= left)
        return next(fits, self._clients[-1])

    def call(self, path: str, request: Callable[[Any], Any], part: str = "") -> Any:
        """Return what `request` returns, which gets obstore's client; errors name the `part` of the file.

        While the server answers 5xx or 429, or is away after it had answered, the request is repeated until
        `_DEADLINE_SECONDS` have passed, attempts included. obstore does not pass on `Retry-After`.

        Raises FileNotFoundError, StorageError, UsageError, IntegrityError, OddNameError.
        """
        self.check_process()
        with awaited(self.root, path, _DEADLINE_SECONDS) as waiting:
            left, begun = float(_DEADLINE_SECONDS), time.monotonic()
            for tries in count(1):
                try:
                    answer = request(self._client(left))
                    self._answered = True
                    return answer
                except BaseException as error:
                    waiting.problem = self._passing_problem(path, error)
                left = _DEADLINE_SECONDS - (time.monotonic() - begun)
                waits = waiting.problem == NO_DESCRIPTOR or (self._answered and _OUTAGE.match(waiting.problem))
                ending = not threading.main_thread().is_alive()  # the program's end waits for its threads
                if left < 1 or ending or (tries >= _TRIES and not waits):
                    raise _gave_up(path, part, waiting.problem, tries, time.monotonic() - begun)
                pause = min(_LONGEST_PAUSE, _PAUSE_SECONDS * 2 ** (tries - 1), left / 2)
                time.sleep(pause * random.uniform(0.5, 1))  # else all requests under way would be repeated at once
                left = _DEADLINE_SECONDS - (time.monotonic() - begun)
        raise AssertionError  # the loop has no end

    def _passing_problem(self, path: str, error: BaseException) -> str:
        """The problem of a request that may succeed if it is repeated. Raises the error for any other."""
        from obstore import exceptions

        if isinstance(error, exceptions.PreconditionError):
            raise IntegrityError(path, *_REPLACED) from None
        if isinstance(error, exceptions.InvalidPathError):
            found = re.search(r'path: .*?"(.*?)"', str(error), re.DOTALL)
            problem = f"has the object {found[1] if found else ''!r}, whose name is no path"
            raise OddNameError(path, problem, _RENAME) from None
        if isinstance(error, FileNotFoundError | exceptions.BaseError):
            return self._passing_problem_of_store(path, error)
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):  # of this process
            return NO_DESCRIPTOR
        if isinstance(error, ValueError) and not isinstance(error, ShardfeedError):  # of obstore
            raise UsageError(path, "is not a valid URL", "check host, port and path (no '..')") from None
        if type(error).__name__ in ("PanicException", "RustPanic"):  # of obstore: no request can hold a value
            raise UsageError(path, *_NOT_VALID) from None
        raise error

    def _passing_problem_of_store(self, path: str, error: Exception) -> str:
        from obstore import exceptions

        guard = self._guard
        if guard and guard.refused:
            there, guard.refused = guard.refused, ""
            raise redirected(path, there) from None
        problem, remedy = cause(Exception(f"{error} {f'{guard.unreachable} {guard.exhausted}' if guard else ''}"))
        if not remedy and isinstance(error, FileNotFoundError | exceptions.NotFoundError):
            note_answer(self.root)
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None
        if remedy:
            number = errno.EACCES if problem.startswith("access denied") else errno.EIO
            raise StorageError(path, problem, remedy, number) from None
        self._answered |= problem.startswith("HTTP")
        return problem


def _gave_up(path: str, part: str, problem: str, tries: int, seconds: float) -> StorageError:
    remedy = _MORE_DESCRIPTORS if problem == NO_DESCRIPTOR else NETWORK
    problem = f"{part}cannot be read: {problem}, after {counted(tries, 'attempt')} in {seconds:.0f} s"
    return StorageError(path, problem, remedy, errno.EIO)


class _Listing:
    """obstore's listing of what is below `key`, which continues after the name `last`; `prefix`: its URL."""

    def __init__(self, prefix: str, key: str) -> None:
        self._prefix, self._below = prefix, f"{key}/" if key else None
        self.last = ""
        self._stream: Any = None

    def next_page(self, store: Any) -> Any:
        """The next files, None after the last. Raises StorageError if none arrive."""
        import asyncio  # not above: it takes a tenth of the start of a command

        import obstore

        pages, self._stream = self._stream, None  # an iterator that has raised is not used again: it would seem to end
        if pages is None:
            pages = obstore.list(store, self._below, offset=self.last or None, chunk_size=_PAGE)

        async def within() -> Any:
            return await asyncio.wait_for(anext(pages, None), _DEADLINE_SECONDS)

        try:  # in a thread, since this one may have a running loop
            with ThreadPoolExecutor(1) as pool:
                page = pool.submit(asyncio.run, within()).result()
        except TimeoutError:  # pages without a name do not end obstore's call
            raise endless(self._prefix, self.last) from None
        self._stream = pages
        return page


def _read(part: Part) -> Buffer:
    """The bytes of a part; a view of obstore's buffer, if they took one request."""
    if not isinstance(part.file, _Object):
        return part.read()
    found = list(part.file.pieces(part.start, part.start + part.size))
    return memoryview(found[0]) if len(found) == 1 else b"".join(found)


def receive(part: Part, take: Callable[[Buffer, int], object]) -> None:
    """Pass the bytes of a part to `take` as they arrive, each time with their place in the file; again after an error.

    A whole answer in one buffer would be another copy of it, in new memory. Raises OSError.
    """
    if isinstance(part.file, _Object):
        part.file.receive(part.start, part.start + part.size, take)
    else:
        data = part.read()
        if len(data) != part.size:
            problem = f"got {len(data)} bytes from {part.start} on, expected {part.size}"
            raise IntegrityError(part.file.path, problem, "run `shardfeed verify DIR`")
        take(data, part.start)


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

    def fetch_small(self) -> None:
        """Ask for the file, and read it with this request unless it is large: then only its size and version."""
        content = self._get(None)
        self._content = None if content is None else bytes(content)

    def read(self, start: int, size: int) -> bytes:
        end = min(start + size, self.size)
        if self._content is not None:
            return self._content[start:end]
        return b"".join(self.pieces(start, end))

    def pieces(self, start: int, end: int) -> Iterator[Received]:
        """The bytes from `start` to `end`, with one request per 12 MB."""
        for at in range(start, end, READ_BYTES):
            yield self._get((at, min(at + READ_BYTES, end)))

    def receive(self, start: int, end: int, take: Callable[[Buffer, int], object]) -> None:
        """See `receive`."""
        for at in range(start, end, READ_BYTES):
            self._get((at, min(at + READ_BYTES, end)), take)

    def _get(self, span: tuple[int, int] | None, take: Callable[[Buffer, int], object] | None = None) -> Received:
        """The bytes of a span, or of the whole file; empty if `take` gets them as they arrive."""
        import obstore
        from obstore import exceptions

        options: Any = {} if span is None else {"range": span}
        if self._etag is not None:
            options["if_match"] = self._etag

        def request(store: Any) -> Received:
            got = obstore.get(store, self._storage.key(self.path), options=options)
            note_answer(self._storage.root)
            self._bind(self._storage.version_of(got.meta))
            if span is None and self.size > _FETCHED_AT_ONCE:
                return None
            wanted = span or (0, self.size)
            if tuple(got.range) != wanted:  # nothing of it must reach the file
                raise exceptions.GenericError(f"got {got.range}, expected range {wanted}")
            if take is None:
                return _read_answer(got, wanted)
            _pass_on(got, wanted, take)
            return b""

        return self._storage.call(self.path, request, f"bytes {span[0]} to {span[1]} " if span else "")

    def _bind(self, version: Version) -> None:
        """Take the version of the first answer; raise IntegrityError for another one, or for another size."""
        etag, _, size = version
        with self._lock:
            if self._version is None:
                if self._size not in (None, size):
                    problem = f"has {size} bytes, expected {self._size}"
                    raise IntegrityError(self.path, problem, "open the dataset again")
                # A weak tag never matches in a request; it is compared here.
                self._etag = etag if etag and not etag.startswith("W/") else None
                self._size, self._version = size, version
        if self._version != version:
            raise IntegrityError(self.path, *_REPLACED)


def _read_answer(got: Any, wanted: tuple[int, int]) -> Received:
    """The bytes of an answer, in obstore's own buffer; no more than these are read, whatever its head promises."""
    expected = wanted[1] - wanted[0]
    pieces, size = list[Received](), 0
    for piece in got.stream(min_chunk_size=max(1, expected)):
        pieces.append(piece)
        size += len(piece)
        if size > expected:
            break
    _check_length(size, wanted)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _pass_on(got: Any, wanted: tuple[int, int], take: Callable[[Buffer, int], object]) -> None:
    """Give the bytes of an answer to `take` as they arrive."""
    end = wanted[0]
    for piece in got.stream(min_chunk_size=_PIECE):
        if end + len(piece) <= wanted[1]:
            take(memoryview(piece), end)
        end += len(piece)
        if end > wanted[1]:
            break
    _check_length(end - wanted[0], wanted)


def _check_length(size: int, wanted: tuple[int, int]) -> None:
    from obstore import exceptions

    if size != wanted[1] - wanted[0]:
        raise exceptions.GenericError(f"got {size} bytes, expected range {wanted}")


def _version(meta: Any) -> Version:
    if meta["size"] > MOST_FILE_BYTES:
        raise StorageError(meta["path"], "the server reports a size that no file can have", NETWORK, errno.EIO)
    return meta["e_tag"], None if meta["e_tag"] else meta["last_modified"], meta["size"]


def _new_clients(root: str, scheme: str) -> tuple[list[Any], Guard | None]:
    """Return a client for each of _ATTEMPT_SECONDS, and their guard."""
    from obstore import store

    for name, value in os.environ.items():
        if name.startswith(_PREFIXES) and value != value.strip():
            raise UsageError(name, "begins or ends with a space or a newline", "remove it")
    named, endpoint = _endpoint(scheme)
    if not re.match("(https?://[^/]|$)", endpoint):
        raise UsageError(named, "is not a URL", "set it to one such as http://localhost:9000")
    options: dict[str, Any] = {"connect_timeout": timedelta(seconds=10)}
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
                raise StorageError(root, problem, "check AWS_PROFILE and ~/.aws/config", errno.EIO) from None
    guarding = None if scheme in _WEB else _guard_of(scheme, endpoint, options)
    from_url: Any = store.from_url  # whose overloads are by the kind of store

    last = _RETRY["backoff"]["max_backoff"]  # an attempt of obstore may begin so long after its `retry_timeout`
    clients = []
    for limit in (timedelta(seconds=seconds) for seconds in _ATTEMPT_SECONDS):
        retry = _RETRY | {"retry_timeout": max(timedelta(0), limit - last)}
        settings = {"client_options": options | {"timeout": limit}, "retry_config": retry, **given}
        clients.append(from_url(files_url(root) or root, **settings))
    return clients, guarding


def _guard_of(scheme: str, endpoint: str, options: dict[str, Any]) -> Guard | None:
    """Add the options that keep a client from other hosts than the store's; None behind a proxy of the environment."""
    try:
        place = urlsplit(endpoint or "https://")
        host, authority = place.hostname or "", place.netloc.rpartition("@")[2].lower().removesuffix(":80")
    except ValueError:
        return None  # obstore names the error
    proxies = urllib.request.getproxies()
    if (place.scheme in proxies or "all" in proxies) and not urllib.request.proxy_bypass(host):
        return None
    # Secrets that a redirect would take along: a session token, the key of an object, a signature as a query. (HTTPS
    # with another port of the same host needs the same certificate.)
    named = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS[scheme])}
    secrets = any(re.search("TOKEN|SAS|SSE", name) for name in named)
    secrets |= scheme == "s3" and not {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"}.intersection(os.environ)
    relays = place.scheme == "http" and secrets
    hosts = {found[1] for value in named.values() if (found := re.match(r"https?://(?:[^/@]*@)?([^/:]+)", value))}
    reached = {*hosts, *_SIGN_IN, f"sts.{os.environ.get('AWS_REGION')}.amazonaws.com", host or _PROVIDERS[scheme]}
    found = guard(authority if relays else "")
    options["proxy_url"] = found.url
    options["proxy_excludes"] = ",".join(reached - ({host} if relays else set()))
    return found


def is_odd(name: str) -> bool:
    """Whether obstore cannot read an object of this name: it has an empty part, "." or "..", or a control character."""
    return re.search(r"(?:^|/)\.{0,2}(?=/|$)|[\x00-\x1f\x7f]", name.removesuffix("/")) is not None


class OddNameError(StorageError):
    """A listing has an object that obstore cannot list."""


def redirected(path: str, there: str) -> StorageError:
    """The error for a store that redirects to `there`, a URL or another host, which gets no request."""
    scheme = path.partition("://")[0].lower()
    named, endpoint = _endpoint(scheme)
    here = urlsplit(endpoint).netloc.rpartition("@")[2] or _PROVIDERS[scheme].partition(",")[0]
    there = (urlsplit(there).netloc or there).rpartition("@")[2]
    problem = f"{here} redirects to another host, {there}, which would get credentials"
    remedy = f"set {named or _ENDPOINTS[scheme][0]} to the address of the store itself"
    return StorageError(path, problem, remedy, errno.EIO)


def _endpoint(scheme: str) -> tuple[str, str]:
    """The name and value of the variable that is set to a store's endpoint; both "" if none is."""
    named = next(filter(os.environ.get, _ENDPOINTS.get(scheme, ())), "")
    return named, os.environ.get(named, "")


def cause(error: Exception) -> tuple[str, str]:
    """Explain an error: problem, and remedy unless temporary; without obstore's text, which may hold credentials."""
    text = re.sub(r"https?://(?!169\.254)\S+", "", str(error))
    found = re.search(r"status(?: code)?:? (\d{3})", text, re.IGNORECASE) or re.search(r"\b([45]\d\d) [A-Z]", text)
    status = f"HTTP status {found[1]}" if found else ""
    for pattern, problem, remedy in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            if "clock" in problem:
                problem += _skew(text)
            return problem + (f" ({status})" if status else ""), remedy
    passing = (problem for pattern, problem in _PASSING if re.search(pattern, text, re.IGNORECASE))
    return status or next(passing, "no usable response"), ""


def _skew(text: str) -> str:
    """By how much this machine's clock is wrong, if the server has said its time."""
    found = re.search(r"<ServerTime>(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", text)
    if found is None:
        return ""
    ahead = (datetime.now(UTC) - datetime.fromisoformat(found[1]).replace(tzinfo=UTC)).total_seconds()
    return f": {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
