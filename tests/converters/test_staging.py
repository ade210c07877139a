"""Leftovers of a run that was stopped around the commit, found by a run with other options."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.commit import output
from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.errors import OutputExistsError, PlanMismatchError


@pytest.fixture
def images(folder: Callable[..., Path]) -> Path:
    return folder(3)


def stop_at(name: str, monkeypatch: pytest.MonkeyPatch, images: Path, out: Path, **options: object) -> None:
    """Convert, but be stopped where the output would call `name`."""

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(output, name, stop)
        convert(ImageFolder(images), out, **{"shards": 2, "workers": 1, **options})  # type: ignore[arg-type]
    assert (out.parent / f".{out.name}.staging" / "plan.json").exists()


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def inode(out: Path) -> int:
    return next(out.glob("*.tfrecord")).stat().st_ino


@pytest.mark.parametrize("replace", [False, True])
def test_the_same_again_after_the_commit(
    replace: bool, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not converted a second time, though --replace would allow that."""
    out = tmp_path / "out"
    if replace:
        convert(ImageFolder(images), out, shards=2, seed=1, workers=1)
    stop_at("_clear", monkeypatch, images, out, replace=replace)
    before = inode(out)
    report = convert(ImageFolder(images), out, shards=2, workers=1, replace=replace)
    assert "an earlier run had committed this dataset" in report.notes[0]
    assert inode(out) == before
    assert names(tmp_path) == ["images", "out"]


def test_something_else_after_the_commit(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with other options reports no success, as its dataset is not there; --replace makes it."""
    out = tmp_path / "out"
    stop_at("_clear", monkeypatch, images, out)
    before = inode(out)
    with pytest.raises(OutputExistsError, match="exists already"):
        convert(ImageFolder(images), out, shards=3, workers=1)
    assert inode(out) == before
    assert names(tmp_path) == ["images", "out"]
    stop_at("_clear", monkeypatch, images, out, replace=True)
    convert(ImageFolder(images), out, shards=3, workers=1, replace=True)
    assert len(shardfeed.open(out).manifest.splits["train"].shards) == 3
    assert names(tmp_path) == ["images", "out"]


@pytest.mark.parametrize("options", [{}, {"shards": 3}])
@pytest.mark.parametrize("replace", [False, True])
def test_the_output_moved_away_after_the_commit(
    replace: bool, options: dict[str, int], images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made anew, of what was asked for: neither refused, nor put together from the dataset that was replaced."""
    out = tmp_path / "out"
    if replace:
        convert(ImageFolder(images), out, shards=2, seed=1, workers=1)
    stop_at("_clear", monkeypatch, images, out, replace=replace)
    expected = (out / "manifest.json").read_bytes()
    shutil.rmtree(out)
    convert(ImageFolder(images), out, **{"shards": 2, "workers": 1, **options})  # type: ignore[arg-type]
    assert ((out / "manifest.json").read_bytes() == expected) is not bool(options)
    assert not shardfeed.readers.verify(out).damages
    assert names(tmp_path) == ["images", "out"]


def test_stopped_before_the_name_and_asked_for_something_else(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written down as about to be committed, yet without its name: an unfinished conversion like any other."""
    out = tmp_path / "out"
    stop_at("give_name", monkeypatch, images, out)
    assert not out.exists()
    with pytest.raises(PlanMismatchError, match=r"shards was 2, now 3"):
        convert(ImageFolder(images), out, shards=3, workers=1)
    before = inode(tmp_path / ".out.staging" / "dataset")
    convert(ImageFolder(images), out, shards=2, workers=1)
    assert inode(out) == before
    assert names(tmp_path) == ["images", "out"]


def test_a_start_that_was_killed_is_no_commit(images: Path, tmp_path: Path) -> None:
    """A killed --replace had made one directory: a run without --replace must not take the old dataset for its own."""
    out = tmp_path / "out"
    convert(ImageFolder(images), out, shards=2, workers=1)
    for left in (Staging(str(out)).root + ".partial", Staging(str(out)).root):
        Path(left).mkdir()
        with pytest.raises(OutputExistsError, match="exists already"):
            convert(ImageFolder(images), out, shards=3, workers=1)
        convert(ImageFolder(images), out, shards=3, workers=1, replace=True)
        assert names(tmp_path) == ["images", "out"]


def test_what_was_being_written_goes_but_for_shards_with_a_checkpoint(images: Path, tmp_path: Path) -> None:
    plan = make_plan(ImageFolder(images), PlanOptions(shards=2))
    staging = Staging(str(tmp_path / "out"))
    assert staging.begin(plan) == ""
    dataset = Path(staging.dataset)
    (dataset / "index").mkdir()
    kept = [dataset / "a.tfrecord.partial", dataset / "a.tfrecord.checkpoint"]
    gone = [dataset / "b.tfrecord.partial", dataset / "index" / "b.tfindex.partial"]
    gone += [dataset / "a.tfrecord.checkpoint.partial", Path(staging.receipts) / "a.json.partial"]
    for path in (*kept, *gone):
        path.write_bytes(b"x")
    assert staging.begin(plan) == ""
    assert [path.exists() for path in (*kept, *gone)] == [True, True, False, False, False, False]
