"""Secrets cut out of any text that is shown: passwords and signatures in URLs, and the secrets of this process.

The secrets of this process are those of its environment, and those that it read from a file and gave to `remember`: a
server may repeat the headers of a request in its error, and a library may log them.
"""

import base64
import json
import logging
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote

HIDDEN = "***"
_SHORTEST = 8  # characters: a shorter one would be found in ordinary words
_SHORTEST_ID = 16  # the same of a key's public half, which some servers let people choose: a usual word, often

_SECRET_NAME = re.compile(r"(?:AWS_|AZURE_|GOOGLE_|HF_|HUGGING).*(?:SECRET|TOKEN|KEY|SAS|PASSWORD).*")
_NAME_OF_A_PLACE = re.compile(r".*(?:_FILE|_PATH|_URI|_URL|_ENDPOINT|_DIR|_ID|_HOST|_NAME)")
_URL_NAME = re.compile(r".*(?:_URL|_URL_S3|_ENDPOINT|_PROXY)", re.IGNORECASE)
_SECRET_FIELD = re.compile("key|secret|token|password", re.IGNORECASE)
_HEADER = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|aws4-hmac-sha256)\s+)?)(?!\*\*\*)[^\s\"',]+",
    re.IGNORECASE,
)
_URL_RUN_END = re.compile("[\\s'\"`\ue000-\ue002]")  # the last three mark arguments: see shardfeed.errors
_AUTHORITY = re.compile("[^\\s/?#'\"`\ue000-\ue002]*")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:@]*)(?::\d*)?[:,.;)]*")
# RFC 3986 has no backslash; some clients read it as a slash, so a secret may follow it.
_QUERY_OF_URL = re.compile(r"[?#;\\](?=.)", re.DOTALL)
_QUERY_IN_RUN = re.compile(r"[?#;\\](?=[^\s'\"`])")
_QUERY_AFTER_SPACE = re.compile(r"[?#](?=[^\s'\"`])")
_SIGNATURE = re.compile(r"[?#;](?=\S*=)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*\Z", re.IGNORECASE)
_LONGEST_SCHEME = 16

_remembered: set[str] = set()  # secrets that did not come from the environment


def remember(secret: str) -> None:
    """Have a secret that was read from a file hidden from now on."""
    _remembered.add(secret)


def without_secrets(text: str, *, is_url: bool = False) -> str:
    """Remove what may be secret from a text: parts of URLs, and the secrets of this process in any usual encoding.

    URLs lose user names and passwords, and queries, parameters and fragments, which may be signatures. In names of
    objects "?", ";" and "#" are usual; there they begin a secret only if "=" follows. `is_url`: if the text begins with
    a URL it has nothing else, so spaces and quotes are parts of that URL.
    """
    known = _pattern(frozenset(_secrets()))
    if known is not None:
        text = known.sub(HIDDEN, text)
    if "://" in text:
        text = _without_url_secrets(text, is_url)
    return _HEADER.sub(rf"\1{HIDDEN}", text) if "uthorization" in text.lower() else text


def _secrets() -> Iterator[str]:
    yield from _remembered
    for name, value in os.environ.items():
        kind = _kind_of_variable(name)
        if kind == "secret":
            yield value
            yield from _secrets_within(value)
        elif kind == "URL" and "@" in value:
            yield value.partition("://")[2].rpartition("@")[0].partition(":")[2]
        elif kind == "id" and len(value.strip()) >= _SHORTEST_ID:
            yield value


@lru_cache(1024)
def _kind_of_variable(name: str) -> str:
    """The kind of an environment variable by its name: a "secret", a "URL" that may have one, an "id", or ""."""
    if name == "AWS_ACCESS_KEY_ID":
        return "id"
    if _URL_NAME.fullmatch(name):
        return "URL"
    return "secret" if _SECRET_NAME.fullmatch(name) and not _NAME_OF_A_PLACE.fullmatch(name) else ""


@lru_cache(32)
def _secrets_within(value: str) -> tuple[str, ...]:
    """The secrets in a variable that holds a service account's JSON, or a signature's query."""
    if value.lstrip().startswith("{"):
        try:
            fields: Any = json.loads(value)
        except (ValueError, RecursionError):
            return ()
        return tuple(one for name, one in fields.items() if isinstance(one, str) and _SECRET_FIELD.search(name))
    return tuple(one for name, one in parse_qsl(value.lstrip("?")) if name == "sig")


@lru_cache(8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """A pattern that finds each of these secrets as it is, percent-encoded, in JSON, and in base64; None of none."""
    written = set[str]()
    for secret in (one.strip() for one in secrets):
        if len(secret) >= _SHORTEST:
            written |= _spellings(secret)
    return re.compile("|".join(map(re.escape, sorted(written, key=len, reverse=True)))) if written else None


def _spellings(secret: str) -> set[str]:
    percent = quote(secret, safe="")
    found = {secret, percent, re.sub("%..", lambda code: code[0].lower(), percent), quote(secret)}
    found |= {json.dumps(secret)[1:-1], json.dumps(secret)[1:-1].replace("/", r"\/")}
    data = secret.encode("utf-8", "surrogateescape")
    found |= {repr(secret)[1:-1], data.hex()}
    for before in range(3):  # characters in front shift the groups of three bytes, as in "user:secret"
        whole_groups = base64.b64encode(bytes(before) + data)
        first = 0 if not before else before + 1  # digits that also hold bits of what is in front
        last = len(data) + before
        digits = whole_groups.rstrip(b"=").decode()[first : last * 8 // 6]
        found |= {digits, digits.replace("+", "-").replace("/", "_")}
    return {one for one in found if len(one) >= _SHORTEST}


def _without_url_secrets(text: str, is_url: bool) -> str:
    is_url = is_url and re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE) is not None
    shown, done = list[str](), 0
    while (mark := text.find("://", done)) >= 0:
        named = _SCHEME.search(text[max(0, mark - _LONGEST_SCHEME) : mark])
        scheme = named[0].lower() if named else ""
        begin = mark + len("://")
        shown.append(text[done:begin])
        begin = _end_of_user(text, begin, scheme)
        following = text.find("://", begin)
        end = len(text) if following < 0 else following
        cut = _begin_of_query(text, begin, end, scheme, is_url)
        shown.append(text[begin:cut])
        done = cut
        if cut < end:
            done = len(text) if is_url else _end_of_run(text, cut, len(text))
    return "".join((*shown, text[done:]))


def _end_of_run(text: str, begin: int, end: int) -> int:
    """The first place of a space or a quote, which ends a URL in a sentence."""
    found = _URL_RUN_END.search(text, begin, end)
    return found.start() if found else end


def _end_of_user(text: str, begin: int, scheme: str) -> int:
    """The place behind a user's name and password, `begin` if a URL has none.

    A key may contain any character, spaces and slashes among them, so where one is, the last "@" ends it.
    """
    found = _AUTHORITY.match(text, begin)
    authority = found[0] if found else ""
    has_password = _HOST.fullmatch(authority) is None and ":" in authority.replace("[", ":")
    last = text.rfind("@", begin, begin + len(authority))
    if scheme == "hf" and last < 0:
        has_password, last = _user_of_hub(text, begin)
    if has_password:
        following = text.find("://", begin)
        # The next address begins behind a space or a quote: a "://" before that may be of the password.
        own = len(text) if following < 0 else max(following, _end_of_run(text, begin, len(text)))
        last = text.rfind("@", begin, own)
        if last < 0 <= following:  # the password has this "://"
            last = text.rfind("@", begin)
    return last + 1 if last >= 0 else begin


def _user_of_hub(text: str, begin: int) -> tuple[bool, int]:
    """Whether hf://datasets/USER/REPO@REVISION has a password in it; else the place of an "@" that is no revision's."""
    parts = text[begin : _end_of_run(text, begin, len(text))].split("/")[:3]
    kind_and_user = "/".join(parts[:2])
    return any(":" in part for part in parts), begin + kind_and_user.rfind("@") if "@" in kind_and_user else -1


def _begin_of_query(text: str, begin: int, end: int, scheme: str, is_url: bool) -> int:
    """The place of a URL's query, parameter or fragment, `end` if it has none."""
    if scheme not in ("http", "https"):
        found = _SIGNATURE.search(text, begin)
    elif is_url:
        found = _QUERY_OF_URL.search(text, begin)
    else:
        run_end = _end_of_run(text, begin, end)
        # One character more: a pattern looks at the next one.
        found = _QUERY_IN_RUN.search(text, begin, run_end + 1) or _QUERY_AFTER_SPACE.search(text, run_end, end + 1)
    return min(found.start(), end) if found else end


@contextmanager
def logs_without_secrets() -> Iterator[None]:
    """A block in which nothing that a library logs has a secret of this process.

    huggingface_hub, urllib3 and others log addresses and answers of failed requests, to stderr unless told otherwise.
    """
    before = logging.getLogRecordFactory()

    def record(*given: Any, **more: Any) -> logging.LogRecord:
        made = before(*given, **more)
        made.msg, made.args = without_secrets(made.getMessage()), ()
        if made.exc_info and made.exc_info[0] is not None:
            made.exc_text = without_secrets("".join(traceback.format_exception(*made.exc_info)).rstrip())
        return made

    logging.setLogRecordFactory(record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)
