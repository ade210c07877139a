"""Datasets on the Hugging Face Hub: the current commit of a revision, the URL of its files, and the token."""

import errno
import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from shardfeed.errors import StorageError, UsageError

_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/@]+))?((?:/.*)?)", re.IGNORECASE)
_BOUND = re.compile(r"hf://(datasets/[^/@]+/[^/@]+)@([0-9a-f]{40})")
_SECONDS = 30


def bound(address: str) -> tuple[str, str]:
    """The root of a repository at the URL's current commit, and the same URL at this commit.

    Raises UsageError for a URL of another form, or if there is no such revision; StorageError.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(address, "got a URL of another kind", "write hf://datasets/USER/REPO@REVISION/FOLDER")
    repository, revision, path = found[1], found[2] or "main", found[3].rstrip("/")
    root = f"hf://datasets/{repository}@"
    if not _BOUND.fullmatch(root + revision):
        revision = _commit(address, f"{_endpoint()}/api/datasets/{repository}/revision/{quote(revision, safe='%')}")
    return root + revision, root + revision + path


def files_url(root: str) -> str | None:
    """Return the URL of a repository's files, or None for a root without a commit."""
    found = _BOUND.fullmatch(root)
    return found and f"{_endpoint()}/{found[1]}/resolve/{found[2]}"


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


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _commit(address: str, url: str) -> str:
    request = urllib.request.Request(url)
    for name, value in authorization().items():
        request.add_unredirected_header(name, value)  # not for another host
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)["sha"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise UsageError(address, "no such repository or revision") from None
        problem, remedy = f"cannot be read: HTTP status {error.code}", "run the same command again later"
        if error.code in (401, 403):
            problem = f"access denied, or no such repository (HTTP status {error.code})"
            raise StorageError(address, problem, "set HF_TOKEN", errno.EACCES) from None
    except (OSError, ValueError, LookupError) as error:
        problem, remedy = f"cannot be read: {type(error).__name__}", "check the network"
    raise StorageError(address, problem, remedy, errno.EIO)
