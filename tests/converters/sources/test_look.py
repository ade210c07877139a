"""One look at the names in a folder, shared by all who must know what is there."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import FileNames, open_source
from shardfeed.converters.sources.look import Look, find_files


class CountedEntries:
    """Result of os.scandir that calls `tell` for each entry taken."""

    def __init__(self, entries: Any, tell: Callable[[], None]) -> None:
        self.entries, self.tell = entries, tell

    def __enter__(self) -> "CountedEntries":
        return self

    def __exit__(self, *_: object) -> None:
        self.entries.close()

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        for entry in self.entries:
            self.tell()
            yield entry


def test_a_large_folder_is_listed_by_one_look_and_by_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that look at the first names alone may: a thousand each."""
    count = 12_000
    for i in range(count):
        os.close(os.open(tmp_path / f"{'cat' if i % 2 else 'dog'}_{i}.jpg", os.O_CREAT | os.O_WRONLY))
    met = 0

    def tell(more: int = 1) -> None:
        nonlocal met
        met += more

    scan, names = os.scandir, os.listdir

    def counted_names(path: Any) -> list[Any]:
        found = names(path)
        tell(len(found))
        return found

    monkeypatch.setattr(os, "scandir", lambda path: CountedEntries(scan(path), tell))
    monkeypatch.setattr(os, "listdir", counted_names)
    assert type(open_source(tmp_path)) is FileNames
    assert 2 * count <= met < 3 * count


def test_an_end_is_seen_whatever_the_case(tmp_path: Path) -> None:
    (tmp_path / "a.JPG").touch()
    (tmp_path / ".x.npz").touch()
    assert Look(str(tmp_path)).suffixes == {".jpg"}
    assert Look(str(tmp_path)).holds_only_images
    (tmp_path / "X.NPZ").touch()
    assert Look(str(tmp_path)).suffixes == {".jpg", "x.npz"}
    assert not Look(str(tmp_path)).holds_only_images


def test_one_file_of_another_kind_is_seen_among_many_images(tmp_path: Path) -> None:
    """Wherever the file system has it in its order."""
    for i in range(5000):
        os.close(os.open(tmp_path / f"{i}.jpg", os.O_CREAT | os.O_WRONLY))
        if i == 2500:
            (tmp_path / "_annotations.coco.json").touch()
    assert "_annotations.coco.json" in Look(str(tmp_path)).suffixes


def test_flat(tmp_path: Path) -> None:
    assert not Look(str(tmp_path / "none")).is_flat
    assert not Look(str(tmp_path)).is_flat
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a").touch()
    assert Look(str(tmp_path)).is_flat
    (tmp_path / "b").mkdir()
    assert not Look(str(tmp_path)).is_flat


def test_all_readers_are_asked_of_a_file(tmp_path: Path) -> None:
    """HDF5 is known by its first bytes, whatever it is called."""
    (tmp_path / "x.dat").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ValueError, match="looks like a source for the reader hdf5"):
        open_source(tmp_path / "x.dat")


def test_find_files_in_any_case(tmp_path: Path) -> None:
    for name in ("a.tar", "b.TAR", "c.Tar.gz", "d.txt"):
        (tmp_path / name).touch()
    assert find_files(str(tmp_path), (".tar", ".tar.gz")).names == ["a.tar", "b.TAR", "c.Tar.gz"]
