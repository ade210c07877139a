"""Room in a directory: the file system's, and the memory granted where it is in memory."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from shardfeed import free_space as room
from shardfeed.errors import StorageError
from shardfeed.free_space import is_in_memory, room_in
from shardfeed.text import size_text


def test_a_disk(disk_path: Path) -> None:
    state = os.statvfs(disk_path)
    free = state.f_bavail * state.f_frsize
    room_in(str(disk_path)).check(free // 2, "nothing")
    message = r"are needed, .* are free in its file system.*; to fix this: .*a miracle"
    with pytest.raises(StorageError, match=message) as caught:
        room_in(str(disk_path)).check(2 * free, "a miracle")
    assert caught.value.errno == errno.ENOSPC


def test_what_is_in_memory() -> None:
    assert is_in_memory("/dev/shm")
    assert not is_in_memory("/proc")


@pytest.mark.parametrize(("blocks", "available"), [(1000, 1000), (0, 0)])
def test_memory_is_kept_for_others(monkeypatch: pytest.MonkeyPatch, blocks: int, available: int) -> None:
    """A file system of a gigabyte, or without limit; 800 MB were granted and 700 MB are free: 500 MB may be used."""
    state = SimpleNamespace(f_bavail=available, f_frsize=1_000_000, f_blocks=blocks)
    monkeypatch.setattr(room.os, "statvfs", lambda path: state)
    monkeypatch.setattr(room, "memory_budget", lambda: 800_000_000)
    monkeypatch.setattr(room, "memory_free", lambda: 700_000_000)
    room_in("/dev/shm").check(500_000_000, "more")
    with pytest.raises(
        StorageError, match=r"500.0 MB are free of the available memory, 25% of which stay reserved; .*"
    ):
        room_in("/dev/shm").check(500_000_001, "more")
    whole = room_in("/dev/shm", kept_share=0)
    whole.check(700_000_000, "more")
    with pytest.raises(StorageError, match=r"700.0 MB are free of the available memory; to fix this: more"):
        whole.check(700_000_001, "more")


def test_sizes() -> None:
    assert size_text(64_000_000) == "64.0 MB"
    assert size_text(2_251_400_000) == "2.3 GB"
    assert size_text(12_345_678_900_000) == "12.3 TB"
    for size, text in ((999, "999 bytes"), (999.7, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB")):
        assert size_text(size) == text
