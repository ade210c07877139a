"""Temporary folders: they end with their process, and the next one removes those of processes that were killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shardfeed.storage.temporary import TemporaryFolder

from processes import until

OWNER = """
import os, sys, time
from shardfeed.storage.temporary import TemporaryFolder
folder = TemporaryFolder(sys.argv[1])
open(os.path.join(folder.path, "file"), "w").close()
if sys.argv[2] == "child" and os.fork() == 0:
    os.setsid()
os.write(1, f"{folder.path}\\n".encode())  # at once: the other process writes, too
time.sleep(1000)
"""
pytestmark = pytest.mark.promise(77)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def owner(temporary: Path, kind: str, child: str = "") -> "tuple[subprocess.Popen[str], Path]":
    command = [sys.executable, "-c", OWNER, kind, child]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)})
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    others = [temporary / "shardfeed-unpackedly", temporary / "shardfeed-shard-1-a", temporary / "photos"]
    for other in others:
        other.mkdir()
    process, left = owner(temporary, "unpacked")
    process.kill()
    process.communicate()
    assert (left / "file").exists()
    with TemporaryFolder("unpacked") as made:
        assert not left.exists()
        assert os.path.isdir(made)
    assert not os.path.exists(made)
    assert all(other.is_dir() for other in others)


def test_the_folder_of_a_living_process_is_left_alone(temporary: Path) -> None:
    process, living = owner(temporary, "unpacked")
    try:
        with TemporaryFolder("unpacked") as mine, TemporaryFolder("unpacked"):
            assert (living / "file").exists()
            assert os.path.isdir(mine)
    finally:
        process.kill()
        process.communicate()


def test_children_own_the_folder_as_well(temporary: Path) -> None:
    process, held = owner(temporary, "unpacked", "child")
    assert process.stdout is not None
    process.stdout.readline()  # of both
    (child,) = (int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    process.kill()
    process.wait()
    with TemporaryFolder("unpacked"):
        assert held.exists()
    os.kill(child, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{child}/fd").exists() or not list_of(child))
    with TemporaryFolder("unpacked"):
        assert not held.exists()


def list_of(process: int) -> list[str]:
    """The open files of a process; none once it is dead."""
    try:
        return os.listdir(f"/proc/{process}/fd")
    except OSError:
        return []


def test_a_link_and_a_file_of_that_name_are_left_alone(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    (temporary / "shardfeed-unpacked-1-link").symlink_to(temporary / "elsewhere")
    (temporary / "shardfeed-unpacked-1-file").touch()
    with TemporaryFolder("unpacked"):
        pass
    assert sorted(os.listdir(temporary)) == ["elsewhere", "shardfeed-unpacked-1-file", "shardfeed-unpacked-1-link"]
