"""Datasets on the Hugging Face Hub: the current commit of a revision, lists and URLs of its files, and the token."""

import errno
import os
import queue
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from shardfeed.errors import StorageError, UsageError
from shardfeed.hidden import remember
from shardfeed.storage.hub_answers import parse_files, parse_revision, read_answer, read_next_cursor
from shardfeed.storage.listing_limits import ListingLimits
from shardfeed.storage.outage import DEADLINE_SECONDS, awaited, note_answer
from shardfeed.text import number

_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/@]+))?((?:/.*)?)", re.IGNORECASE)
_BOUND = re.compile(r"hf://(datasets/[^/@]+/[^/@]+)@([0-9a-f]{40})")
_SECONDS = 30  # without a byte
_PAUSE_SECONDS, _LONGEST_PAUSE = 1, 16  # before the second attempt, and twice as long before each later one
_LATER = "run the same command again later"


def parsed(address: str) -> tuple[str, str, str]:
    """USER/REPO, the revision as it is written, and "/FOLDER" of a URL; "" for what it lacks. Raises UsageError."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(address, "got a URL of another kind", "write hf://datasets/USER/REPO@REVISION/FOLDER")
    return found[1], found[2] or "", found[3].rstrip("/")


def bound(address: str) -> tuple[str, str]:
    """The root of a repository at the URL's current commit, and the same URL at this commit, by its current name.

    Raises UsageError for a URL of another form, or if there is no such revision; StorageError.
    """
    repository, revision, path = parsed(address)
    revision = revision or "main"
    root = f"hf://datasets/{repository}@"
    if not _BOUND.fullmatch(root + revision):
        url = f"{endpoint()}/api/datasets/{repository}/revision/{quote(revision, safe='%')}"
        answer, _ = _asked(address, url)
        repository, revision = parse_revision(address, answer, repository)
        root = f"hf://datasets/{repository}@"
    return root + revision, root + revision + path


def files_url(root: str) -> str | None:
    """Return the URL of a repository's files, or None for a root without a commit."""
    found = _BOUND.fullmatch(root)
    return found and f"{endpoint()}/{found[1]}/resolve/{found[2]}"


def files_below(root: str, folder: str) -> Iterator[list[tuple[str, int]]]:
    """Yield the files below a folder of a repository, by pages: path in the repository, bytes. None: no such folder.

    Raises StorageError.
    """
    address, cursor = f"{root}/{folder}".rstrip("/"), ""
    url, limits = f"{_api(root, 'tree')}/{quote(folder)}".rstrip("/"), ListingLimits(address)
    while True:
        more = {"cursor": cursor} if cursor else {}
        try:
            entries, link = _asked(address, f"{url}?{urlencode({'recursive': 'true', **more})}")
        except UsageError:  # no such folder, which may be a file
            if not cursor:
                return
            problem = "its listing broke off: the Hub knew the first pages and not the next (HTTP status 404)"
            raise StorageError(address, problem, "run the same command again later", errno.EIO) from None
        page, cursor = parse_files(address, entries), read_next_cursor(link)
        limits.check_page(page, cursor)
        yield page
        if not cursor:
            return


def size_of(root: str, path: str) -> int:
    """Return the bytes of a file of a repository. Raises FileNotFoundError, StorageError."""
    address = f"{root}/{path}"
    entries, _ = _asked(address, _api(root, "paths-info"), urlencode({"paths": path}).encode())
    for name, size in parse_files(address, entries):
        if name == path:
            return size
    raise FileNotFoundError(errno.ENOENT, "no such file", address)


def authorization() -> dict[str, str]:
    """Return the header with the token of HF_TOKEN, or of the file that a login has written; empty if there is none."""
    token = os.environ.get("HF_TOKEN", "")
    if not token:
        home = os.environ.get("HF_HOME", "~/.cache/huggingface")
        try:
            token = Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser().read_text()
            remember(token.strip())
        except (OSError, ValueError):  # of text that is not UTF-8
            pass
    return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


def endpoint() -> str:
    """The URL of the Hub: of HF_ENDPOINT, or its own."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _api(root: str, what: str) -> str:
    repository, _, commit = root.removeprefix("hf://").rpartition("@")
    return f"{endpoint()}/api/{repository}/{what}/{commit}"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Sends all of a request again within its host, where a repository has got another name."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        again = urllib.request.Request(newurl, req.data)
        again.unredirected_hdrs = req.unredirected_hdrs
        return again


def _asked(address: str, url: str, data: bytes | None = None) -> tuple[Any, str]:
    """The content of an answer, and its Link header or ""; asked again while the Hub is too busy.

    All attempts together take at most `DEADLINE_SECONDS`. Raises UsageError for what does not exist, StorageError.
    """
    begun, tries = time.monotonic(), 0
    with awaited(endpoint(), address, DEADLINE_SECONDS) as waiting:
        while True:
            tries += 1
            left = DEADLINE_SECONDS - (time.monotonic() - begun)
            try:
                return _within(left, lambda: _attempt(address, url, data))
            except urllib.error.HTTPError as error:
                passing, asked = _check_status(address, error), error.headers.get("Retry-After", "")
                problem, remedy = f"HTTP status {error.code}", _LATER
            except (OSError, HTTPException) as error:
                if isinstance(error, StorageError):
                    raise
                problem = "no response in time" if isinstance(error, TimeoutError) else type(error).__name__
                remedy, asked = "check the network", ""
                passing = not isinstance(error, urllib.error.URLError)  # no connection
            except ValueError:
                raise UsageError(address, "is not a valid URL", "check it, and HF_ENDPOINT") from None
            waiting.problem = problem
            left = DEADLINE_SECONDS - (time.monotonic() - begun)
            pause = _pause(tries, asked)
            if not passing or pause >= left:
                problem = f"cannot be read: {_described(problem, asked, tries, left)}"
                raise StorageError(address, problem, remedy, errno.EIO)
            time.sleep(pause)


def _check_status(address: str, error: urllib.error.HTTPError) -> bool:
    """Whether a status may pass if the request is repeated. Raises UsageError for 404, StorageError for no access."""
    if error.code == 404:
        raise UsageError(address, "no such repository, revision or folder") from None
    if error.code in (401, 403):
        problem = f"access denied, or no such repository (HTTP status {error.code})"
        raise StorageError(address, problem, "set HF_TOKEN", errno.EACCES) from None
    return error.code in (408, 429) or error.code >= 500


def _pause(tries: int, asked: str) -> float:
    """The seconds before the next attempt: random ones that increase, but no less than the server has asked for."""
    asked_for = float(asked[:9]) if asked.isdecimal() and asked.isascii() else 0.0
    return max(asked_for, min(_LONGEST_PAUSE, _PAUSE_SECONDS * 2 ** (tries - 1)) * random.uniform(0.5, 1))


def _described(problem: str, asked: str, tries: int, left: float) -> str:
    """The problem of the last attempt, with what was tried and what the server asks for."""
    problem = f"{problem}, after {number(tries, 'attempt')} in {DEADLINE_SECONDS - left:.0f} s"
    if _pause(tries, asked) >= left and asked.isdecimal():
        problem += f"; the server asks to wait for {asked[:9]} s"
    return problem


def _attempt(address: str, url: str, data: bytes | None) -> tuple[Any, str]:
    request = urllib.request.Request(url, data)
    for name, value in authorization().items():
        request.add_unredirected_header(name, value)  # not for another host
    with urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS) as answer:
        note_answer(endpoint())
        return read_answer(address, answer.read1), answer.headers.get("Link", "")


def _within(seconds: float, work: Callable[[], tuple[Any, str]]) -> tuple[Any, str]:
    """Return or raise what `work` does, in a thread that is left behind if it takes longer. Raises TimeoutError.

    A timeout of a socket counts from its last byte, so a server that sends a byte now and then would have no end.
    """
    ended: queue.SimpleQueue[tuple[tuple[Any, str] | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except Exception as error:
            ended.put((None, error))

    threading.Thread(target=run, name="shardfeed-hub", daemon=True).start()
    try:
        answer, error = ended.get(timeout=max(0.0, seconds))
    except queue.Empty:
        raise TimeoutError from None
    if answer is None:
        raise error or AssertionError
    return answer
