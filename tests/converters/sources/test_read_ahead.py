"""Reading ahead on a slow disk: the same listing as without, when it begins, and how far it goes."""

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.converters.sources.files import walk as read_ahead
from shardfeed.converters.sources.files.listing import Globs, Listing
from shardfeed.converters.sources.files.walk import DiskAnswers, list_files
from shardfeed.converters.sources.guard import EVERY, report_progress_to
from shardfeed.errors import StorageError

LINKS = {
    "link to a file": "/root/a/b.png",
    "link to a folder": "/root/a",
    "link to a hidden folder": "/root/.h",
    "link out": "/outside",
    "broken link": "nowhere",
    "unreadable": "n" * 300,
}
PATHS = st.lists(st.sampled_from(["a", "b.png", "c", "c.jpg", ".h"]), min_size=1, max_size=4).map("/".join)
TREES = st.dictionaries(PATHS, st.sampled_from(["file", "file", "folder", "FIFO", *LINKS]), max_size=25)
GLOBS = st.sampled_from([(), "*.png", "a", "c/", ["a/**", "*.jpg"]])


def plant(parent: Path, tree: dict[str, str]) -> Path:
    os.makedirs(parent / "outside" / "a")
    (parent / "outside" / "b.png").write_text("outside")
    (parent / "outside" / "a" / "back").symlink_to(parent / "root")
    for key, kind in tree.items():
        path = parent / "root" / key
        if os.path.lexists(path) or any(os.path.lexists(above) and not os.path.isdir(above) for above in path.parents):
            continue  # a file where another name needs a folder
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            path.write_text(key)
        elif kind == "folder":
            path.mkdir()
        elif kind == "FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to(str(parent) + LINKS[kind] if LINKS[kind].startswith("/") else LINKS[kind])
    (parent / "root").mkdir(exist_ok=True)
    return parent / "root"


def everything(listing: Listing) -> tuple:
    arrays = (listing.ends, listing.sizes, listing.mtimes)
    rest = (listing.skipped, listing.bare, listing.hidden, listing.aliases, listing.notes)
    return (listing.root, listing.blob, *(array.tolist() for array in arrays), *rest)


@given(tree=TREES, include=GLOBS, exclude=GLOBS, follow_links=st.booleans(), most=st.integers(1, 12))
def test_the_listing_of_any_tree_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, str],
    include: Globs,
    exclude: Globs,
    follow_links: bool,
    most: int,
) -> None:
    root = plant(tmp_path_factory.mktemp("tree"), tree)
    listings = []
    for slow in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DiskAnswers, "_slow", slow)
            patch.setattr(read_ahead, "_MOST", most)
            patch.setattr(read_ahead, "_AHEAD", 2)
            listings.append(list_files(root, include=include, exclude=exclude, follow_links=follow_links))
    assert everything(listings[0]) == everything(listings[1])


class Disk:
    """Stands in for `os.stat`, and for the clock: each status takes `seconds`. Counts who asked."""

    def __init__(self, patch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.seconds, self.now, self.own, self.by_threads = seconds, 0.0, 0, 0
        self._stat, self._lock, self._walker = os.stat, threading.Lock(), threading.get_ident()
        patch.setattr(os, "stat", self.stat)
        patch.setattr(read_ahead, "perf_counter", lambda: self.now)
        patch.setattr(read_ahead, "thread_time", lambda: 0.0)

    def stat(self, path: bytes) -> os.stat_result:
        with self._lock:
            self.now += self.seconds
            own = threading.get_ident() == self._walker
            self.own, self.by_threads = self.own + own, self.by_threads + (not own)
        return self._stat(path)


def fill(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for i in range(count):
        os.close(os.open(folder / f"{i:06d}.jpg", os.O_CREAT | os.O_WRONLY))


@pytest.mark.parametrize("folders", [1, 300])
def test_threads_ask_after_a_slow_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: int) -> None:
    for i in range(folders):
        fill(tmp_path / f"{i:03d}", 3000 // folders)
    disk = Disk(monkeypatch, 0.0003)
    assert len(list_files(tmp_path)) == 3000
    assert 1024 <= disk.own < 1400
    assert disk.own + disk.by_threads == 3000 + folders + 2, "each once, and the root twice"


def test_no_thread_asks_on_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 3000)
    disk = Disk(monkeypatch, 0.000003)
    assert len(list_files(tmp_path)) == 3000
    assert not disk.by_threads


def test_the_walk_is_not_left_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 2 * EVERY)
    monkeypatch.setattr(DiskAnswers, "_slow", True)
    disk, told = Disk(monkeypatch), []
    with report_progress_to(lambda doing, done, total: told.append((done, disk.by_threads))):
        list_files(tmp_path)
    assert [done for done, _ in told] == [EVERY, 2 * EVERY, 2 * EVERY]
    assert all(done <= asked <= done + (read_ahead._AHEAD + 1) * read_ahead._CHUNK for done, asked in told)


@pytest.mark.parametrize("slow", [False, True])
def test_running_out_of_descriptors_at_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    fill(tmp_path / "a", 10)
    monkeypatch.setattr(DiskAnswers, "_slow", slow)
    stat = os.stat

    def failing(path: bytes) -> os.stat_result:
        if path.endswith(b"000007.jpg"):
            raise OSError(errno.ENFILE, "Too many open files in system")
        return stat(path)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(StorageError, match=r"a/000007\.jpg: Too many open files"):
        list_files(tmp_path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
