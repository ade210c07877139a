"""Answers of the Hugging Face Hub's API as names, sizes, commits and cursors: nothing else of them is used.

A server that calls itself the Hub may send anything. Each answer has at most `MOST_BYTES`, a page of a listing
at most `MOST_ENTRIES`, and what does not look like the Hub's is a StorageError.
"""

import errno
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shardfeed.errors import StorageError
from shardfeed.storage.names import is_usable_name
from shardfeed.text import size_text

MOST_BYTES = 16 << 20  # the Hub's pages have 1,000 entries of some 300 bytes; parsed, this takes some 200 MB
MOST_ENTRIES = 100_000
MOST_FILE_BYTES = (1 << 63) - 1  # what a file system can say

_PIECE = 1 << 16
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_NEXT = re.compile(r'<([^<>]{1,4000})>;\s{0,9}rel="?next')


def read_answer(address: str, read: Callable[[int], bytes]) -> Any:
    """The JSON of an answer whose body `read` returns piece by piece. Raises StorageError, OSError."""
    body = bytearray()
    while piece := read(_PIECE):
        body += piece
        if len(body) > MOST_BYTES:
            raise _not_understood(address, f"it is larger than {size_text(MOST_BYTES)}")
    try:
        return json.loads(body)
    except RecursionError:
        raise _not_understood(address, "its lists are nested too deeply") from None
    except ValueError:  # no JSON, no text, or a number with too many digits
        raise _not_understood(address, "it is not JSON") from None


def read_next_cursor(link: str) -> str:
    """The cursor of the next page that a Link header names, or "".

    Only the cursor: the URL may name another host, which would get the token.
    """
    found = _NEXT.search(link)
    try:
        return parse_qs(urlsplit(found[1]).query).get("cursor", [""])[0] if found else ""
    except ValueError:  # of urlsplit: no URL
        return ""


def parse_revision(address: str, answer: Any, repository: str) -> tuple[str, str]:
    """The current name of a repository (`repository` if the answer has none), and the commit. Raises StorageError."""
    if not isinstance(answer, dict):
        raise _not_understood(address, "it is not an object")
    name, commit = answer.get("id", repository), answer.get("sha")
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name) or {".", ".."}.intersection(name.split("/")):
        raise _not_understood(address, "it has no repository's name")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _not_understood(address, "it has no commit")
    return name, commit


def parse_files(address: str, answer: Any) -> list[tuple[str, int]]:
    """The files among the entries of an answer: path in the repository, bytes. Raises StorageError."""
    if not isinstance(answer, list):
        raise _not_understood(address, "it is not a list")
    if len(answer) > MOST_ENTRIES:
        raise _not_understood(address, f"it has more than {MOST_ENTRIES:,} entries")
    return [_parse_file(address, one) for one in answer if not isinstance(one, dict) or one.get("type") == "file"]


def _parse_file(address: str, entry: Any) -> tuple[str, int]:
    if not isinstance(entry, dict):
        raise _not_understood(address, "an entry is not an object")
    path, size = entry.get("path"), entry.get("size")
    if not isinstance(path, str) or not is_usable_name(path):
        raise _not_understood(address, "the name of a file is none that a file can have")
    if type(size) is not int or not 0 <= size <= MOST_FILE_BYTES:
        raise _not_understood(address, "the size of a file is not a number of bytes")
    return path, size


def _not_understood(address: str, why: str) -> StorageError:
    return StorageError(address, f"the answer is not the Hub's: {why}", "check HF_ENDPOINT", errno.EIO)
