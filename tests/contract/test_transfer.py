"""Files copied at once: each part by one thread, idle threads help, and an error ends all."""

import threading
import time
from typing import Any

import pytest

from shardfeed.storage.storage import FileInfo
from shardfeed.storage.transfer import AT_ONCE, Share, transfer

from processes import until


def test_idle_threads_help_with_the_parts_of_a_large_file() -> None:
    together, parts = threading.Barrier(AT_ONCE), list[int]()

    def copy(name: str, info: FileInfo, share: Share) -> bool:
        def part(number: int) -> None:
            together.wait(60)  # until all threads are at a part
            parts.append(number)

        share(part, range(info.size))
        return info.size > 0

    sizes = list[int]()
    files = {"empty": FileInfo(0, 0), "large": FileInfo(3 * AT_ONCE, 0)}
    assert transfer(copy, files, sizes.append) == 1
    assert sorted(parts) == list(range(3 * AT_ONCE))
    assert sorted(sizes) == [0, 3 * AT_ONCE]


@pytest.mark.parametrize("bad", [0, 7, 99])
def test_an_error_is_raised_when_no_part_is_under_way(bad: int) -> None:
    """Also one of a helping thread; parts that were not begun are left."""
    under_way, begun, failed = set[int](), list[int](), threading.Event()

    def copy(name: str, info: FileInfo, share: Share) -> bool:
        def part(number: int) -> None:
            under_way.add(number)
            begun.append(number)
            try:
                if number == bad:
                    failed.set()
                    raise OSError(f"part {number}")
                if number > bad:
                    failed.wait(60)
            finally:
                under_way.discard(number)

        try:
            share(part, range(1000))
        finally:
            assert not under_way
        return True

    with pytest.raises(OSError, match=f"part {bad}"):
        transfer(copy, {"a": FileInfo(1, 0)}, None)
    assert bad in begun
    assert len(begun) < 1000


def test_ctrl_c_leaves_the_parts_that_were_not_begun() -> None:
    """Else it would take as long as all files that are under way."""
    begun, interrupted = list[int](), threading.Event()
    all_busy = threading.Event()

    def copy(name: str, info: FileInfo, share: Share) -> bool:
        def part(number: int) -> None:
            begun.append(number)
            if len(begun) == AT_ONCE - 1:
                all_busy.set()
            interrupted.wait(60)
            time.sleep(0.001)

        if info.size:
            share(part, range(info.size))
        else:
            all_busy.wait(60)
        return True

    def interrupt(size: int) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transfer(copy, {"empty": FileInfo(0, 0), "large": FileInfo(50_000, 0)}, interrupt)
    assert len(begun) < 50_000


def test_a_file_that_is_under_way_is_completed_after_the_error_of_another() -> None:
    """Also where it comes to its parts when no other thread can be had: else its upload would stay unfinished."""
    copied = list[int]()

    def copy(name: str, info: FileInfo, share: Any) -> bool:
        if name == "bad":
            raise ValueError(name)
        until(lambda: share.args[0]._shutdown)  # its pool's
        share(copied.append, range(info.size))
        return True

    with pytest.raises(ValueError, match="bad"):
        transfer(copy, {"large": FileInfo(20, 0), "bad": FileInfo(0, 0)}, None)
    assert copied == list(range(20))
