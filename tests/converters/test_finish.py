"""A new dataset appears by one rename, or nothing stays."""

from pathlib import Path

import pytest

from shardfeed.converters.commit.output import new_dataset
from shardfeed.errors import BusyError, OutputExistsError, StorageError, UsageError
from shardfeed.storage import local as files


def build(out: Path) -> None:
    with new_dataset(str(out)) as directory:
        assert not out.exists()
        (Path(directory) / "file").write_text("x")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_it_appears_when_it_is_done(tmp_path: Path) -> None:
    build(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["file"]
    with pytest.raises(OutputExistsError):
        build(tmp_path / "out")
    with pytest.raises(UsageError, match="parent"):
        build(tmp_path / "none" / "out")


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_dataset(str(tmp_path / "out")) as directory:
        (Path(directory) / "file").write_text("x")
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".out.building").mkdir()
    (tmp_path / ".out.building" / "old").write_text("x")
    build(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["file"]


def test_one_at_a_time(tmp_path: Path) -> None:
    with new_dataset(str(tmp_path / "out")) as directory:
        with pytest.raises(BusyError, match="process"):
            build(tmp_path / "out")
        assert Path(directory).is_dir()
    assert names(tmp_path) == ["out"]


def test_an_error_after_the_rename_says_that_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command could not run again."""

    def fails(path: str) -> None:
        if path == str(tmp_path) and (tmp_path / "out").exists():
            raise StorageError(path, "cannot fsync: Input/output error (EIO)")

    monkeypatch.setattr(files, "fsync_directory", fails)
    with pytest.raises(StorageError, match=r"out: is complete, but a power failure now might lose its name: .*EIO"):
        build(tmp_path / "out")
    assert names(tmp_path / "out") == ["file"]
    assert names(tmp_path) == ["out"]
