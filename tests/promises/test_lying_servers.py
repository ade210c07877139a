"""Servers that lie, as the Hub, S3 and a web server: one clear error, in bounded memory and time, for each command."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lying_server import COMMIT, LyingServer, Request, entry, hub_answer, lying_server, s3_page

import shardfeed
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError
from shardfeed.readers import Dataset
from shardfeed.storage import hub, listing_limits, objects
from shardfeed.storage.address import bucket_of
from shardfeed.storage.hub_answers import MOST_BYTES
from shardfeed.storage.storage import SIDE_FILE_BYTES
from shardfeed.tools.cli import main

from repository import SUPPORT

pytestmark = pytest.mark.promise(74)

MOST_MEMORY = 700 << 20  # bytes of a command; imports alone take some 200 MB
HUGE = 2600 << 20

TREES: dict[str, Any] = {
    "nested deeply": b"[" * 200_000,
    "closed again": b"[" * 5000 + b"]" * 5000,
    "a number of 5,000 digits": b'[{"type":"file","path":"a.jpg","size":' + b"9" * 5000 + b"}]",
    "infinite": b'[{"type":"file","path":"a.jpg","size":1e999}]',
    "not a number": b'[{"type":"file","path":"a.jpg","size":NaN}]',
    "half a character": b'[{"type":"file","path":"\\ud800.jpg","size":10}]',
    "larger than an answer may be": b" " * (MOST_BYTES + 1) + b"[]",
    "not JSON": b"<html>",
    "not text": b"\xff\xfe\x00",
    "empty": b"",
    "null": None,
    "an object": {"a": 1},
    "lists in a list": [[1]],
    "negative": [entry("a.jpg", -5)],
    "true": [entry("a.jpg", True)],
    "2**63": [entry("a.jpg", 2**63)],
    "2**80": [entry("a.jpg", 2**80)],
    "no size": [entry("a.jpg", None)],
    "no path": [entry(None)],
    "no name": [entry("")],
    "upwards": [entry("a/../../x.jpg")],
    "absolute": [entry("/etc/x.jpg")],
    "NUL": [entry("a\0b.jpg")],
    "3,000 folders": [entry("y/" * 3000 + "a.jpg")],
    "1,000 short folders": [entry("y/" * 1000 + "a.jpg")],
    "a long name": [entry("x" * 5000 + ".jpg")],
    "200,000 entries": [entry("a.jpg")] * 200_000,
}
REVISIONS: dict[str, Any] = {
    "no commit": {},
    "a number": {"sha": 5},
    "a short one": {"sha": "abc"},
    "a newline": {"sha": COMMIT + "\n"},
    "upwards": {"sha": COMMIT, "id": "../.."},
    "a name that is a number": {"sha": COMMIT, "id": 5},
    "a name with a newline": {"sha": COMMIT, "id": "a/b\nc"},
    "a list": [],
    "nested deeply": b"[" * 100_000,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LyingServer]:
    """A server, and short deadlines in this process."""
    with lying_server() as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(hub, "DEADLINE_SECONDS", 1)
        monkeypatch.setattr(objects, "_DEADLINE_SECONDS", 2)
        monkeypatch.chdir(tmp_path)
        yield server


def environment(server: LyingServer) -> dict[str, str]:
    access = {"AWS_ACCESS_KEY_ID": "KEYOFTHETESTS1234", "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests"}
    return access | {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": server.url, "HF_ENDPOINT": server.url}


def said_by(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that fails, with an exit code for an error of usage or of the environment."""
    code = main([*arguments])
    lines = capfd.readouterr().err.strip().splitlines()
    assert code in (UsageError.exit_code, StorageError.exit_code), lines
    assert len(lines) == 1, lines
    return lines[0]


def content(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@pytest.mark.parametrize("lie", TREES)
def test_a_listing_of_the_hub(server: LyingServer, capfd: pytest.CaptureFixture[str], lie: str) -> None:
    body = content(TREES[lie])
    server.answer = hub_answer(lambda request: request.send(200, body))
    assert "the answer is not the Hub's" in said_by(capfd, "convert", "hf://datasets/u/r", "out")
    assert "the answer is not the Hub's" in said_by(capfd, "convert", "hf://datasets/u/r/a.csv", "out")
    assert not os.path.lexists("out")


@pytest.mark.parametrize(
    "body",
    [b"[]", "[]".encode("utf-16"), content([entry("a.jpg") | {"type": "directory"}, {"type": ["file"], "path": "b"}])],
)
def test_a_repository_without_files(server: LyingServer, capfd: pytest.CaptureFixture[str], body: bytes) -> None:
    """Whether it is a file is not asked: that would be a file without a name."""
    server.answer = hub_answer(lambda request: request.send(200, body))
    assert "has no files" in said_by(capfd, "convert", "hf://datasets/u/r", "out")
    assert not [request for request in server.asked if "paths-info" in request]


@pytest.mark.parametrize("lie", REVISIONS)
def test_a_commit_of_the_hub(
    server: LyingServer, capfd: pytest.CaptureFixture[str], flowers: Dataset, lie: str
) -> None:
    server.answer = lambda request: request.send(200, content(REVISIONS[lie]))
    for command in ("convert URL out", "inspect URL", "pull URL out", "verify URL", "report URL"):
        words = ["hf://datasets/u/r" if word == "URL" else word for word in command.split()]
        assert "the answer is not the Hub's" in said_by(capfd, *words)
    assert "the answer is not the Hub's" in said_by(capfd, "push", flowers.directory, "hf://datasets/u/r")
    with pytest.raises(StorageError):
        shardfeed.open("hf://datasets/u/r")


def pages_of_hub(kind: str) -> Callable[[Request], None]:
    """Answer with a page and the cursor of the next one, without end."""
    numbers = count()

    def answer(request: Request) -> None:
        number = next(numbers)
        cursor = {"the same": "a", "two in turn": "ab"[number % 2], "five in turn": str(number % 5)}.get(kind, number)
        names = [] if kind == "empty pages" else [entry(f"{'a' if kind == 'same names' else number}.jpg")]
        link = f'<http://other/{COMMIT}?cursor={cursor}>; rel="next"'
        request.send(200, json.dumps(names).encode(), Link=link)

    return answer


@pytest.mark.parametrize("kind", ["the same", "two in turn", "five in turn", "empty pages", "same names", "new names"])
def test_a_listing_of_the_hub_without_end(
    server: LyingServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(listing_limits, "MOST_FILES", 200)
    server.answer = hub_answer(pages_of_hub(kind))
    said = said_by(capfd, "convert", "hf://datasets/u/r", "out")
    assert "report it to whoever runs the server" in said
    assert len(server.asked) < 300


@pytest.mark.parametrize("link", ['<http://[>; rel="next"', '<>; rel="next"', "<<<<>>>;;;;rel=next", "<" * 50_000])
def test_a_link_that_is_none_ends_a_listing(server: LyingServer, capfd: pytest.CaptureFixture[str], link: str) -> None:
    body = json.dumps([entry("a.jpg")]).encode()
    server.answer = hub_answer(lambda request: request.send(200, body, Link=link))
    assert "no class" in said_by(capfd, "convert", "hf://datasets/u/r", "out")


def test_the_hub_asks_to_wait_for_a_day(server: LyingServer, capfd: pytest.CaptureFixture[str]) -> None:
    server.answer = lambda request: request.send(429, Retry_After="86400")
    said = said_by(capfd, "inspect", "hf://datasets/u/r")
    assert "HTTP status 429, after 1 attempt in 0 s; the server asks to wait for 86400 s" in said
    assert len(server.asked) == 1


def test_the_hub_sends_a_byte_now_and_then(server: LyingServer, capfd: pytest.CaptureFixture[str]) -> None:
    server.answer = lambda request: request.send_slowly(60)
    assert "no response in time" in said_by(capfd, "inspect", "hf://datasets/u/r")


def pages_of_s3(kind: str) -> Callable[[Request], None]:
    numbers = count()

    def answer(request: Request) -> None:
        number = next(numbers)
        names = {"two in turn": f"photos/{number % 2}.jpg", "3,000 folders": "photos/" + "y/" * 3000 + "a.jpg"}
        size = "9223372036854775808" if kind == "2**63 bytes" else "10"
        token = "" if kind in ("3,000 folders", "2**63 bytes") else f"t{number}"
        request.send(200, s3_page([names.get(kind, f"photos/{number:09}.jpg")], token, size))

    return answer


@pytest.mark.parametrize("kind", ["two in turn", "new names", "3,000 folders", "2**63 bytes"])
def test_a_listing_of_s3(
    server: LyingServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(listing_limits, "MOST_FILES", 5000)
    server.answer = pages_of_s3(kind)
    said_by(capfd, "convert", "s3://bucket/photos", "out")
    assert not os.path.lexists("out")


@pytest.mark.parametrize("kind", ["two in turn", "new names"])
def test_a_listing_before_an_upload(
    server: LyingServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flowers: Dataset, kind: str
) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setattr(listing_limits, "MOST_FILES", 300)
    server.answer = pages_of_s3(kind)
    said = said_by(capfd, "push", flowers.directory, "s3://bucket/photos")
    assert "report it to whoever runs the server" in said


def serve_dataset(directory: Path, lies: dict[str, Callable[[Request], None]]) -> Callable[[Request], None]:
    """Serve a dataset's files at any address that ends in their names; `lies`: other answers, by names."""

    def answer(request: Request) -> None:
        name = request.path.partition("?")[0].rpartition("/")[2]
        found = [path for path in directory.rglob(name) if path.is_file()] if name else []
        if name in lies:
            lies[name](request)
        elif "list-type" in request.path:
            request.send(200, s3_page([]))
        elif found:
            data = found[0].read_bytes()
            request.send_file(len(data), lambda first, end: data[first:end])
        else:
            request.send(404)

    return answer


@pytest.mark.parametrize("scheme", ["hf", "s3", "http"])
@pytest.mark.parametrize("name", ["manifest.json", "README.md", "croissant.json"])
def test_a_file_beside_the_shards_that_says_it_is_huge(
    server: LyingServer, capfd: pytest.CaptureFixture[str], flowers: Dataset, scheme: str, name: str
) -> None:
    """Nothing of it is read."""
    sent: list[int] = []

    def huge(request: Request) -> None:
        request.begin(200, HUGE, ETag='"x"')
        with suppress(OSError):  # the client closes the connection
            for _ in range(HUGE >> 20):
                request.connection.sendall(bytes(1 << 20))
                sent.append(1 << 20)
        raise ConnectionError

    copy = Path(shutil.copytree(flowers.directory, "copy"))
    server.answer = hub_answer(huge, serve_dataset(copy, {name: huge}))
    url = {"hf": "hf://datasets/u/r", "s3": "s3://bucket/d", "http": f"{server.url}/d"}[scheme]
    for command in ("pull", "inspect", "verify") if name == "manifest.json" else ("pull",):
        said = said_by(capfd, command, url, *["out"] * (command == "pull"))
        assert f"{name}: has 2.7 GB, expected at most {'16.8' if name == 'README.md' else '268.4'} MB" in said
    assert not os.path.lexists("out")
    assert sum(sent) < 100 << 20


def test_an_answer_that_is_longer_than_its_range(server: LyingServer, flowers: Dataset) -> None:
    """Its head says so, and the right range: no more is taken than was asked for."""
    sent: list[int] = []

    def longer(request: Request) -> None:
        request.begin(206, HUGE, ETag='"x"', Content_Range="bytes 0-99/100")
        for _ in range(HUGE >> 20):
            request.connection.sendall(bytes(1 << 20))
            sent.append(1 << 20)

    server.answer = longer
    file = objects.ObjectStorage("s3://bucket").open("s3://bucket/x", 100)
    with pytest.raises(StorageError):
        file.read(0, 100)
    assert sum(sent) < 100 << 20


def test_a_small_file_of_an_upload_has_a_limit(server: LyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setattr("shardfeed.storage.bucket_destination.SIDE_FILE_BYTES", 1 << 20)
    server.answer = lambda request: request.send_huge(64 << 20)
    with pytest.raises(StorageError, match="has more than"):
        bucket_of("s3://bucket").read("s3://bucket/receipt")


@pytest.mark.long
@pytest.mark.parametrize("command", ["pull", "inspect", "open"])
@pytest.mark.parametrize("scheme", ["hf", "s3", "http"])
@pytest.mark.parametrize("size", [HUGE, SIDE_FILE_BYTES])
def test_memory_is_bounded(flowers: Dataset, tmp_path: Path, scheme: str, command: str, size: int) -> None:
    """A manifest that is huge, and one of the size that is allowed and that is no manifest."""
    arguments = {"pull": ["pull", "URL", "out"], "inspect": ["inspect", "URL"]}.get(command)
    program = ["-m", "shardfeed.tools.cli", *arguments] if arguments else ["-c", OPEN, "URL"]
    with lying_server() as server:

        def manifest(request: Request) -> None:
            if size == HUGE:
                request.send_huge(size)
            else:
                request.send_file(size, lambda first, end: bytes(end - first))

        other = serve_dataset(Path(flowers.directory), {"manifest.json": manifest})
        server.answer = hub_answer(lambda request: request.send(404), other)
        url = {"hf": "hf://datasets/u/r", "s3": "s3://bucket/d", "http": f"{server.url}/d"}[scheme]
        process = subprocess.Popen(
            [sys.executable, *(url if word == "URL" else word for word in program)],
            env=os.environ | environment(server) | {"PYTHONPATH": str(SUPPORT / "deadlines")},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        _, errors = process.communicate()
    said = errors.decode()
    assert process.returncode in (2, 4, 5), said
    assert "Traceback" not in said
    peak = max(int(line) for line in said.split() if line.isdigit()) if command == "open" else 0
    assert peak < MOST_MEMORY, said


OPEN = r"""
import re, sys, shardfeed
from shardfeed.errors import ShardfeedError
try:
    shardfeed.open(sys.argv[1])
except ShardfeedError as error:
    print(str(error)[:100].split(":")[0], file=sys.stderr)
    # Not ru_maxrss, which has the memory of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())
    print(int(peak[1]) << 10, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def test_a_local_manifest_that_is_huge(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d").mkdir()
    with open(tmp_path / "d" / "manifest.json", "wb") as file:
        file.truncate(HUGE)
    assert "expected at most" in said_by(capfd, "inspect", str(tmp_path / "d"))
    with pytest.raises((StorageError, IntegrityError)) as raised:
        shardfeed.open(tmp_path / "d")
    assert isinstance(raised.value, ShardfeedError)
