"""Datasets on the Hugging Face Hub: the current commit of a revision, lists and URLs of its files, and the token."""

import errno
import json
import os
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from shardfeed.errors import StorageError, UsageError

_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/@]+))?((?:/.*)?)", re.IGNORECASE)
_BOUND = re.compile(r"hf://(datasets/[^/@]+/[^/@]+)@([0-9a-f]{40})")
_SECONDS = 30
_PAUSES = (1, 2, 4, 8, 16)  # s before the next attempt
_LONGEST_PAUSE = 60


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
        if not isinstance(answer, dict):
            raise _not_understood(address)
        root, revision = f"hf://datasets/{answer.get('id', repository)}@", answer.get("sha")
        if not isinstance(revision, str) or not _BOUND.fullmatch(root + revision):
            raise _not_understood(address)
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
    while True:
        more = {"cursor": cursor} if cursor else {}
        url = f"{_api(root, 'tree')}/{quote(folder)}".rstrip("/")
        try:
            entries, following = _asked(address, f"{url}?{urlencode({'recursive': 'true', **more})}")
        except UsageError:  # no such folder, which may be a file
            if not cursor:
                return
            problem = "its listing broke off: the Hub knew the first pages and not the next (HTTP status 404)"
            raise StorageError(address, problem, "run the same command again later", errno.EIO) from None
        yield _sizes(address, entries)
        # Only the cursor: the URL may name another host, which would get the token.
        last, cursor = cursor, parse_qs(urlsplit(following).query).get("cursor", [""])[0]
        if not cursor:
            return
        if cursor == last:
            raise _not_understood(address)


def size_of(root: str, path: str) -> int:
    """Return the bytes of a file of a repository. Raises FileNotFoundError, StorageError."""
    address = f"{root}/{path}"
    entries, _ = _asked(address, _api(root, "paths-info"), urlencode({"paths": path}).encode())
    for name, size in _sizes(address, entries):
        if name == path:
            return size
    raise FileNotFoundError(errno.ENOENT, "no such file", address)


def _sizes(address: str, entries: Any) -> list[tuple[str, int]]:
    """Paths and sizes of the files among the entries of an answer."""
    try:
        return [(str(one["path"]), int(one["size"])) for one in entries if one["type"] == "file"]
    except (TypeError, LookupError, ValueError):
        raise _not_understood(address) from None


def authorization() -> dict[str, str]:
    """Return the header with the token of HF_TOKEN, or of the file that a login has written; empty if there is none."""
    token = os.environ.get("HF_TOKEN", "")
    if not token:
        home = os.environ.get("HF_HOME", "~/.cache/huggingface")
        try:
            token = Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser().read_text()
        except OSError:
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
    """The content of an answer, and the URL of its next page or ""; asked again while the Hub is too busy.

    Raises UsageError for what does not exist, StorageError.
    """
    request = urllib.request.Request(url, data)
    for name, value in authorization().items():
        request.add_unredirected_header(name, value)  # not for another host
    for pause in (*_PAUSES, None):
        try:
            with urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS) as answer:
                found = re.search(r'<([^>]+)>;\s*rel="?next', answer.headers.get("Link", ""))
                return json.load(answer), found[1] if found else ""
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise UsageError(address, "no such repository, revision or folder") from None
            if error.code in (401, 403):
                problem = f"access denied, or no such repository (HTTP status {error.code})"
                raise StorageError(address, problem, "set HF_TOKEN", errno.EACCES) from None
            problem, remedy = f"cannot be read: HTTP status {error.code}", "run the same command again later"
            passing, asked = error.code in (408, 429) or error.code >= 500, error.headers.get("Retry-After", "")
        except ValueError:
            raise _not_understood(address) from None
        except (OSError, HTTPException) as error:
            problem, remedy, asked = f"cannot be read: {type(error).__name__}", "check the network", ""
            passing = not isinstance(error, urllib.error.URLError)  # no connection
        if pause is None or not passing:
            raise StorageError(address, problem, remedy, errno.EIO)
        time.sleep(min(_LONGEST_PAUSE, int(asked)) if asked.isdecimal() else pause * random.uniform(0.5, 1))
    raise AssertionError  # the last attempt returns or raises


def _not_understood(address: str) -> StorageError:
    return StorageError(address, "the answer is not the Hub's", "check HF_ENDPOINT", errno.EIO)
