"""How much disk a dataset takes is known before any of it is written."""

import os
import warnings
from collections.abc import Callable
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.space import check_space
from shardfeed.errors import SpaceWarning, StorageError
from shardfeed.schema import ENCODED
from shardfeed.storage.local import storage_error


def planned(source: ImageFolder, **options: object) -> Plan:
    return make_plan(source, PlanOptions(image=ImageOptions(**options)))  # type: ignore[arg-type]


def test_the_forecast_is_what_is_stored(folder: Callable[..., Path], tmp_path: Path) -> None:
    source = ImageFolder(folder(9, png_every=3))
    for number, (options, exact) in enumerate(
        [({"size": (10, 20)}, True), ({"size": 16}, True), ({}, False), ({"resize_shorter": 20}, False)]
    ):
        forecast = planned(source, encode="raw", **options).forecast
        out = tmp_path / f"out{number}"
        convert(source, out, image=ImageOptions(encode="raw", **options), workers=1)  # type: ignore[arg-type]
        stored = sum(len(record[ENCODED]) for record in shardfeed.open(out)["train"])  # type: ignore[arg-type]
        assert (forecast.pixels, forecast.exact) == (stored, exact)
    assert planned(source, size=16).forecast.pixels is None


def test_shards_are_cut_by_the_pixels_they_will_hold(folder: Callable[..., Path]) -> None:
    source = ImageFolder(folder(10))
    for options, size in (
        ({"encode": "raw", "size": (10, 20)}, 30 * 600),
        ({"size": 10}, None),
        ({"encode": "raw"}, None),
    ):
        image = ImageOptions(**options)  # type: ignore[arg-type]
        plan = make_plan(source, PlanOptions(shards="3000B", image=image))
        assert plan.source_bytes > 24_000
        assert len(plan.shards) == -(-(size or plan.source_bytes) // 3000)


def test_an_estimate_from_some_images(folder: Callable[..., Path]) -> None:
    root = folder(140, classes=("a", "b"))
    source = ImageFolder(root)
    pixels = planned(source, encode="raw").forecast.pixels
    assert pixels is not None
    exact = sum(32 * (36 + i % 9) * 3 for i in range(140)) * 2
    assert pixels != exact
    assert abs(pixels / exact - 1) < 0.05
    for path in list(root.rglob("*.jpg"))[:20]:
        path.write_text("no image")
    assert planned(source, encode="raw").forecast.pixels is not None


@pytest.mark.long
@pytest.mark.promise(15)
@pytest.mark.parametrize(
    ("options", "within"),
    [({}, 0.02), ({"encode": "raw", "size": 16}, 0.02), ({"encode": "raw"}, 0.05), ({"baseline": True}, 0.02)],
)
def test_the_forecast_of_shards_and_indexes(
    flowers_folder: Path, tmp_path: Path, options: dict[str, Any], within: float
) -> None:
    source = ImageFolder(flowers_folder)
    forecast = planned(source, **options).forecast
    assert forecast.size is not None
    convert(source, tmp_path / "out", image=ImageOptions(**options), workers=2)
    stored = sum(path.stat().st_size for path in (tmp_path / "out").rglob("train-*"))
    # In the end the columns are there twice: with the receipts, too, which go when all is done.
    stored += 2 * sum(path.stat().st_size for path in (tmp_path / "out").rglob("train.*.npy"))
    assert abs(forecast.size / stored - 1) < within
    assert forecast.exact == ("size" in options)
    assert not forecast.exact or forecast.size <= stored


def test_what_is_encoded_again_has_no_forecast(folder: Callable[..., Path]) -> None:
    source = ImageFolder(folder(2))
    for options in ({"quality": 50}, {"size": 20}, {"resize_shorter": 20}):
        forecast = planned(source, **options).forecast
        assert forecast.size is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_space(forecast, "/proc/out", "/proc/none")


def disk(monkeypatch: pytest.MonkeyPatch, free: int, files: int | None = None) -> None:
    """A disk with `free` bytes and `files` inodes left."""
    limits = SimpleNamespace(f_bavail=free, f_frsize=1, f_files=0 if files is None else 1000, f_favail=files)
    monkeypatch.setattr(os, "statvfs", lambda path: limits)


@pytest.mark.promise(15)
def test_too_little_room_is_said_before_anything_is_written(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ImageFolder(folder(2))
    options = ImageOptions(encode="raw", size=(60_000, 2_000))
    free = 6 * 60_000 * 2_000 * 3
    disk(monkeypatch, free)
    with pytest.raises(StorageError, match=rf"need {str(free)[:4]}\d+ bytes of disk, {free} are free") as caught:
        convert(source, tmp_path / "out", image=options, workers=1)
    assert caught.value.exit_code == 5
    assert sorted(os.listdir(tmp_path)) == ["images"]


@pytest.mark.promise(15)
@pytest.mark.parametrize(
    ("free", "files", "said"), [(1000, None, "need .* bytes of disk, 1000 are free"), (10**9, 5, r"5 \(inodes\)")]
)
def test_a_forecast_that_is_not_certain_warns_and_goes_on(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, files: int, said: str
) -> None:
    disk(monkeypatch, free, files)
    with pytest.warns(SpaceWarning, match=said):
        assert convert(ImageFolder(folder(2)), tmp_path / "out", workers=1).committed


def test_what_an_earlier_run_wrote_is_there_already(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ImageFolder(folder(2))
    forecast = planned(source, encode="raw", size=10).forecast
    assert forecast.size is not None
    out, begun = str(tmp_path / "out"), tmp_path / "begun"
    disk(monkeypatch, 1000)
    with pytest.raises(StorageError):
        check_space(forecast, out, str(begun))
    begun.mkdir()
    shard = begun / "train-00000-of-00002.tfrecord"
    for path, size in ((begun / "train-00000-of-00002.tfrecord.partial", 900), (shard, forecast.size - 1001)):
        path.write_bytes(bytes(size))
    with pytest.raises(StorageError):
        check_space(forecast, out, str(begun))
    shard.write_bytes(bytes(forecast.size - 1000))
    check_space(forecast, out, str(begun))


@pytest.mark.promise(15)
def test_a_full_disk_says_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch, 123, 7)
    for number in (ENOSPC, EDQUOT):
        error = storage_error(str(tmp_path / "shard"), "write", OSError(number, ""))
        assert error.errno == number
        remedy = "123 bytes and 7 files (inodes) are free: make room, then run the same command again to resume"
        assert error.remedy == remedy
    assert storage_error(str(tmp_path / "shard"), "write", OSError(EIO, "")).remedy == (
        "run the same command again to resume"
    )
