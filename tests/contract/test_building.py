"""A directory that is there whole or not at all: one writer, a hidden sibling, one rename."""

from pathlib import Path

import pytest

from shardfeed.errors import BusyError, StorageError
from shardfeed.storage.local import built, discard, give_name, hidden_sibling, locked


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def make(path: Path, content: str) -> None:
    with built(str(path)) as directory:
        assert not path.exists()
        assert names(Path(directory)) == []
        (Path(directory) / "file").write_text(content)


def test_it_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    make(tmp_path / "out", "x")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "file").read_text() == "x"


def test_nothing_stays_of_what_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), built(str(tmp_path / "out")) as directory:
        (Path(directory) / "file").write_text("x")
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    left = Path(hidden_sibling(str(tmp_path / "out"), "building"))
    left.mkdir()
    (left / "old").write_text("old")
    make(tmp_path / "out", "x")
    assert names(tmp_path / "out") == ["file"]


def test_a_name_that_is_taken_by_something_is_left_alone(tmp_path: Path) -> None:
    make(tmp_path / "out", "first")
    with pytest.raises(StorageError), built(str(tmp_path / "out")) as directory:
        (Path(directory) / "file").write_text("second")
    assert (tmp_path / "out" / "file").read_text() == "first"
    assert names(tmp_path) == ["out"]


def test_one_at_a_time_and_the_other_is_told_who(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with locked(out):
        assert names(tmp_path) == [".out.lock"]
        with pytest.raises(BusyError, match=r"process [0-9]+ on .* is writing this output"), locked(out):
            pass
    assert names(tmp_path) == []
    with locked(out):
        pass


def test_give_name_makes_or_exchanges(tmp_path: Path) -> None:
    for content in ("first", "second"):
        staged = tmp_path / "staged"
        if not staged.exists():
            staged.mkdir()
        (staged / "file").write_text(content)
        give_name(str(staged), str(tmp_path / "out"))
        assert (tmp_path / "out" / "file").read_text() == content
    assert (tmp_path / "staged" / "file").read_text() == "first", "what was replaced lies where the new one did"


def test_discard_goes_by_way_of_another_name(tmp_path: Path) -> None:
    path, hidden = tmp_path / "path", tmp_path / ".hidden"
    for left in (False, True):
        if left:
            hidden.mkdir()
            (hidden / "half").write_text("x")
        path.mkdir()
        (path / "file").write_text("x")
        discard(str(path), str(hidden))
        assert names(tmp_path) == []
    discard(str(path), str(hidden))
