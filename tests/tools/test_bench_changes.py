"""Changes that `bench` tries: which are possible, and that each really makes what its advice says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.readers import Dataset
from shardfeed.tools.bench import changes
from shardfeed.tools.bench.changes import (
    Change,
    Look,
    converted,
    look_at,
    possible_changes,
    sample_of,
    stored_side,
    try_change,
)
from shardfeed.tools.bench.stages import Workload

SMALL = Look(height=240, width=240, progressive=0.0, png=0.0, raw=False)


@pytest.fixture
def work(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> Workload:
    monkeypatch.setattr(changes, "cpu_budget", lambda: 2)
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: False)
    return Workload(flowers["train"], 8, 224, "stream", 2)


def named(work: Workload, look: Look) -> list[str]:
    return [change.change for change in possible_changes(work, look)]


def test_only_changes_that_change_something_are_tried(work: Workload) -> None:
    assert stored_side(224) == 256
    assert named(work, SMALL) == []
    assert named(replace(work, workers=1), SMALL) == ["leave out --workers, which makes it 2"]
    assert named(work, replace(SMALL, raw=True, height=900, width=900)) == []
    assert named(work, replace(SMALL, progressive=0.6)) == ["shardfeed convert SOURCE OUT --baseline"]
    assert named(work, replace(SMALL, png=1.0)) == ["shardfeed convert SOURCE OUT --png-to-jpeg"]
    assert named(work, replace(SMALL, height=375, width=500)) == ["shardfeed convert SOURCE OUT --resize-shorter 256"]


def test_pixels_are_offered_where_they_fit_into_memory(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(SMALL, height=512, width=512)
    pixels = 3 * 512 * 512 * len(work.split)
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: size < pixels)
    assert [change.split(", then ")[-1][:6] for change in named(work, large)] == ["shardf", "cached"]
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: True)
    assert len(named(work, large)) == 3


def test_a_look_at_images(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(6, png_every=2)), tmp_path / "out", workers=1)
    split = shardfeed.open(tmp_path / "out")["train"]
    look = look_at(split)
    assert (look.png, look.progressive, look.raw) == (0.5, 0.0, False)
    assert look.height > 0 < look.width


def test_a_sample_is_two_batches_at_least(work: Workload) -> None:
    sample = sample_of(work, SMALL)
    assert sample
    assert len(sample.split) == len(work.split)
    assert sample_of(work, replace(SMALL, height=10_000, width=10_000)) is None


@pytest.mark.long
def test_changes_are_really_made(work: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "fits_in_memory", lambda size: True)
    small = replace(work.cut(16), image_size=16)
    base = converted(small, str(tmp_path / "base"))
    first, second = (sorted(record["image/encoded"] for record in each.split) for each in (base, small))
    assert first == second
    made = {}
    (tmp_path / "changes").mkdir()
    for change in possible_changes(small, look_at(small.split)):
        tried = try_change(change, base, str(tmp_path / "changes"))
        assert isinstance(tried, Workload), tried
        assert len(tried.split) == 16
        made[change.change] = tried.split[0]
    shrunk = made["shardfeed convert SOURCE OUT --resize-shorter 18"]
    assert min(shrunk["image/height"], shrunk["image/width"]) == 18
    assert {record["image/format"] for name, record in made.items() if "cached" in name} == {b"raw"}


def test_a_change_that_cannot_be_made_says_why(work: Workload, tmp_path: Path) -> None:
    def refused(work: Workload, out: str) -> Workload:
        raise shardfeed.errors.UsageError("--baseline", "turbojpeg is not installed")

    assert "turbojpeg" in str(try_change(Change("x", "y", refused), work, str(tmp_path)))
