"""The guard against redirects serves on, whatever goes wrong with one connection."""

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

# Prints a guard's port, and takes all descriptors, or gives them back, as it is told.
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
    else:
        while taken:
            os.close(taken.pop())
    print(line.strip(), repr(guard.exhausted), flush=True)
"""


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
            assert "Too many open files" in tell("look")
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
