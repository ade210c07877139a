"""How much disk raw pixels take is known before any of them is written."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.converters.plan import Plan, PlanOptions, make_plan
from shardfeed.converters.space import Forecast, check_space, raw_forecast
from shardfeed.errors import StorageError
from shardfeed.schema import ENCODED


def planned(source: ImageFolder, **options: object) -> Plan:
    return make_plan(source, PlanOptions(image=ImageOptions(**options)))  # type: ignore[arg-type]


def test_the_forecast_is_what_is_stored(folder: Callable[..., Path], tmp_path: Path) -> None:
    source = ImageFolder(folder(9, png_every=3))
    for number, (options, exact) in enumerate(
        [({"size": (10, 20)}, True), ({"size": 16}, True), ({}, False), ({"resize_shorter": 20}, False)]
    ):
        forecast = raw_forecast(source, planned(source, encode="raw", **options))
        out = tmp_path / f"out{number}"
        convert(source, out, image=ImageOptions(encode="raw", **options), workers=1)  # type: ignore[arg-type]
        stored = sum(len(record[ENCODED]) for record in shardfeed.open(out)["train"])  # type: ignore[arg-type]
        assert forecast == Forecast(stored, exact)
    assert raw_forecast(source, planned(source, size=16)) is None


def test_shards_are_cut_by_the_pixels_they_will_hold(folder: Callable[..., Path]) -> None:
    source = ImageFolder(folder(10))
    for options, size in (
        ({"encode": "raw", "size": (10, 20)}, 30 * 600),
        ({"size": 10}, None),
        ({"encode": "raw"}, None),
    ):
        image = ImageOptions(**options)  # type: ignore[arg-type]
        plan = make_plan(source, PlanOptions(shard_size=3000, image=image))
        assert plan.source_bytes > 24_000
        assert len(plan.shards) == -(-(size or plan.source_bytes) // 3000)


def test_an_estimate_from_some_images(folder: Callable[..., Path]) -> None:
    root = folder(140, classes=("a", "b"))
    source = ImageFolder(root)
    forecast = raw_forecast(source, planned(source, encode="raw"))
    assert forecast is not None
    exact = sum(32 * (36 + i % 9) * 3 for i in range(140)) * 2
    assert forecast.size != exact
    assert abs(forecast.size / exact - 1) < 0.05
    for path in list(root.rglob("*.jpg"))[:20]:
        path.write_text("no image")
    assert raw_forecast(source, planned(source, encode="raw")) is not None


def test_too_little_room_is_said_before_anything_is_written(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ImageFolder(folder(2))
    options = ImageOptions(encode="raw", size=(60_000, 2_000))
    free = 6 * 60_000 * 2_000 * 3 - 1
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(StorageError, match=f"need {free + 1} bytes of disk, {free} are free") as caught:
        convert(source, tmp_path / "out", image=options, workers=1)
    assert caught.value.exit_code == 5
    assert sorted(set(os.listdir(tmp_path)) - {".out.lock"}) == ["images"]


def test_what_an_earlier_run_wrote_is_there_already(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ImageFolder(folder(2))
    plan = planned(source, encode="raw", size=10)
    out = str(tmp_path / "out")
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=1000, f_frsize=1))
    with pytest.raises(StorageError):
        check_space(plan, out, str(tmp_path / "begun"))
    (tmp_path / "begun").mkdir()
    for name, size in (("train-00000-of-00002.tfrecord.partial", 900), ("train-00000-of-00002.tfrecord", 799)):
        (tmp_path / "begun" / name).write_bytes(bytes(size))
    with pytest.raises(StorageError):
        check_space(plan, out, str(tmp_path / "begun"))
    (tmp_path / "begun" / "train-00000-of-00002.tfrecord").write_bytes(bytes(800))
    check_space(plan, out, str(tmp_path / "begun"))
    check_space(planned(source, encode="raw"), out, str(tmp_path))
    check_space(planned(source, size=10), out, str(tmp_path))
