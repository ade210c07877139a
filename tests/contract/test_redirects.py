"""The guard against redirects serves on, whatever goes wrong with one connection."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shardfeed.storage.redirects import _MOST_HEAD, Guard

from web_server import web_server

pytestmark = pytest.mark.promise(74)

# Prints a guard's port, and takes all descriptors, gives them back, or looks, as it is told.
PROGRAM = """
import os, sys
from shardfeed.storage.redirects import Guard
guard = Guard(sys.argv[1])
print(guard.url.rpartition(":")[2], flush=True)
taken = []
for line in sys.stdin:
    if line == "take\\n":
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
    if line == "give back\\n":
        while taken:
            os.close(taken.pop())
    print(line.strip(), repr(guard.exhausted), flush=True)
"""


# Reads with descriptors that are all taken, then with free ones, and prints what came of it.
READER = """
import os, resource, sys
import obstore
from shardfeed.errors import StorageError
from shardfeed.storage import objects
objects._DEADLINE_SECONDS = 3
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
storage, taken = objects.ObjectStorage("s3://bucket"), []
if sys.argv[1] == "later":
    print(storage.open("s3://bucket/x").size, flush=True)
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    print(storage.open("s3://bucket/x").size, flush=True)
except StorageError as error:
    print(error, flush=True)
while taken:
    os.close(taken.pop())
print(storage.open("s3://bucket/x").size, flush=True)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("when", ["at first", "later"])
def test_reading_goes_on_when_descriptors_are_free(tmp_path: Path, when: str) -> None:
    """Meanwhile the error names the limit; nothing else is on stderr."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x").write_bytes(b"hello")
    with web_server(tmp_path) as web:
        access = {"AWS_ACCESS_KEY_ID": "K" * 16, "AWS_SECRET_ACCESS_KEY": "s" * 30, "AWS_SESSION_TOKEN": "t" * 30}
        access |= {"AWS_ENDPOINT_URL": web.url, "AWS_REGION": "us-east-1"}
        done = subprocess.run(
            [sys.executable, "-c", READER, when], env=os.environ | access, capture_output=True, text=True, check=True
        )
    lines = done.stdout.splitlines()
    assert lines[-1] == "5"
    assert lines[-2] == "5" or "ulimit -n" in lines[-2], lines  # a connection that is kept needs no descriptor
    assert when == "later" or "this process has too many open files" in lines[0]
    assert done.stderr == ""


def answer_through(port: int, authority: str) -> bytes:
    """The first bytes of an answer to a request through a guard; empty if the connection was closed."""
    with socket.create_connection(("127.0.0.1", port)) as client, suppress(ConnectionError):
        client.sendall(f"GET http://{authority}/x HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        return client.recv(12)
    return b""


@pytest.mark.timeout(120)
def test_a_process_without_a_descriptor_goes_on_when_it_has_one(tmp_path: Path) -> None:
    """Until then a connection is closed at once, so that its request fails and is repeated."""
    (tmp_path / "x").write_bytes(b"hello")
    with web_server(tmp_path) as web:
        authority = web.url.removeprefix("http://")
        program = ["-c", f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n{PROGRAM}", authority]
        with subprocess.Popen(
            [sys.executable, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:

            def tell(word: str) -> str:
                process.stdin.write(f"{word}\n")
                process.stdin.flush()
                return process.stdout.readline()

            port = int(process.stdout.readline())
            assert answer_through(port, authority) == b"HTTP/1.1 200"
            tell("take")
            while answer_through(port, authority):  # with descriptors that the connection before has just given back
                tell("take")
            for _ in range(20):
                assert answer_through(port, authority) == b""
            # The last one may have been accepted, and found none for the connection to the store.
            while "Too many open files" not in tell("look"):
                tell("take")
                assert answer_through(port, authority) == b""
            tell("give back")
            while answer_through(port, authority) != b"HTTP/1.1 200":  # connections from before are closed first
                time.sleep(0.05)
            assert tell("look").endswith("''\n")
            process.stdin.close()
            assert process.stderr.read() == ""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[tuple[Guard, str]]:
    (tmp_path / "x").write_bytes(b"hello")
    with web_server(tmp_path) as web:
        authority = web.url.removeprefix("http://")
        yield Guard(authority), authority


@pytest.mark.parametrize("line", [b"A" * 1000, b"Name: value\r\n"])
def test_a_head_without_end_is_cut_off(guard: tuple[Guard, str], line: bytes) -> None:
    made, authority = guard
    port = int(made.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET http://{authority}/x HTTP/1.1\r\n".encode())
        sent = 0
        with suppress(ConnectionError):
            while sent < 100 * _MOST_HEAD:
                client.sendall(line * 100)
                sent += 100 * len(line)
        assert sent < 100 * _MOST_HEAD
    assert answer_through(port, authority) == b"HTTP/1.1 200"


def test_other_hosts_are_refused(guard: tuple[Guard, str]) -> None:
    made, _ = guard
    assert answer_through(int(made.url.rpartition(":")[2]), "other:80") == b""
    assert made.refused == "other"
