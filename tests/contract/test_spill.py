"""Bytes in memory, and in a file without a name when they are many."""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shardfeed.errors import StorageError
from shardfeed.storage.local import Spill


@pytest.mark.parametrize("in_memory", [1, 1000, 10**6])
def test_bytes_are_read_as_they_were_appended(in_memory: int, tmp_path: Path) -> None:
    spill, expected = Spill(str(tmp_path), in_memory), b""
    for number in range(50):
        data = bytes([number]) * (number * 7 % 60)
        expected += data
        assert spill.append(data) == len(expected)
        assert spill.read(len(expected) // 3, 40) == expected[len(expected) // 3 :][:40]
    assert spill.read(0, spill.size) == expected
    assert not [*tmp_path.iterdir()], "the file has no name"


_BLOCK, _BLOCKS = 1000, 200


def misread(spill: Spill, seed: int) -> int:
    """Number of blocks that are not read as they were written, in random order."""
    order = random.Random(seed).choices(range(_BLOCKS), k=2000)
    return sum(spill.read(at * _BLOCK, _BLOCK) != bytes([at]) * _BLOCK for at in order)


def test_threads_and_forked_processes_read_at_once(tmp_path: Path) -> None:
    """They share the file, but no position in it: any of them may make the tasks of a plan."""
    spill = Spill(str(tmp_path), 10)
    for at in range(_BLOCKS):
        spill.append(bytes([at]) * _BLOCK)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(misread, [spill] * 4, range(4))] == [0] * 4
    children = []
    for seed in range(4):
        child = os.fork()
        if not child:
            os._exit(min(1, misread(spill, seed)))
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


_SMALL_FILES = """
import resource, sys
from shardfeed.storage.local import Spill
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
spill = Spill(sys.argv[1], 10)
try:
    spill.append(bytes(200_000))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_write_that_fails_names_the_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SMALL_FILES, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"StorageError {tmp_path}/(temporary file): cannot write: File too large (EFBIG)")


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(StorageError, match=r"gone/\(temporary file\): cannot write: No such file or directory"):
        Spill(os.fspath(folder), 10).append(bytes(20))
