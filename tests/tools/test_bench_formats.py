"""`shardfeed bench --formats`: the sample, the ways to read it, what is measured and printed, and the real command."""

import contextlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.registry import FORMATS
from shardfeed.readers import Dataset
from shardfeed.readers import open as open_dataset
from shardfeed.tools.bench.formats import library_process, measure, reading
from shardfeed.tools.bench.formats.places import MODES, bytes_fetched, drop_pages, files_below, storage_of
from shardfeed.tools.bench.formats.plot import draw
from shardfeed.tools.bench.formats.report import report_text
from shardfeed.tools.bench.formats.sample import RecordedPart, sample_of
from shardfeed.tools.cli import main

from in_process import OwnEngine

TWO = ("tfrecord", "webdataset")


def test_a_sample_is_from_all_over_it(flowers_folder: Path, flowers: Dataset) -> None:
    source = ImageFolder(flowers_folder)
    part = sample_of(str(flowers_folder), 6, 10**9)
    assert len(part) == 6
    assert part.places[0] == 0
    assert part.places[-1] == len(source) - 1
    assert {part[i].split for i in range(6)} == {"train"}
    assert [part[i].key for i in range(6)] == [source[place].key for place in part.places]
    assert sample_of(str(flowers_folder), 6, 10**9).places == part.places
    stored = sample_of(flowers.directory, 10**6, 10**9)
    assert isinstance(stored, RecordedPart)
    assert len(stored) == sum(map(len, flowers.values()))


def test_a_sample_has_so_many_bytes_at_most(flowers_folder: Path) -> None:
    whole = sample_of(str(flowers_folder), 10**6, 10**9)
    sizes = [whole[i].image.size for i in range(len(whole))]  # type: ignore[union-attr]  # a SourceFile
    half = sample_of(str(flowers_folder), 10**6, sum(sizes) // 2)
    assert 0.3 * len(whole) < len(half) < 0.7 * len(whole)
    assert max(half.places) > 0.7 * len(whole)
    assert len(sample_of(str(flowers_folder), 10**6, 1)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_records_are_the_same_wherever_they_are_read(flowers: Dataset, mode: str) -> None:
    split = open_dataset(flowers.directory, storage=storage_of(mode))["train"]
    assert split.shards.payloads(np.arange(len(split))) == flowers["train"].shards.payloads(np.arange(len(split)))


def test_an_empty_file_is_mapped_too(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert storage_of("mapped").open(str(tmp_path / "empty")).read(0, 10) == b""


def test_pages_are_dropped_without_harm(flowers: Dataset) -> None:
    files = files_below(flowers.directory)
    before = [Path(file).read_bytes() for file in files]
    drop_pages(files)
    assert [Path(file).read_bytes() for file in files] == before
    assert bytes_fetched() is None or bytes_fetched() >= 0  # type: ignore[operator]


def test_each_image_is_decoded(flowers: Dataset) -> None:
    for record in flowers["train"]:
        pixels = reading.decode_image(record["image/encoded"], record["image/format"])  # type: ignore[arg-type]
        assert pixels.shape == (record["image/height"], record["image/width"], 3)
    assert reading.decode_image(b"\0\1\2", b"raw").tolist() == [0, 1, 2]


@pytest.fixture
def measured(flowers_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The report on a folder, in two formats, made in this process."""

    def read_here(directory: str, mode: str, seconds: float, decoded: bool) -> dict[str, Any]:
        return reading._run({"directory": directory, "mode": mode, "seconds": seconds, "decoded": decoded})

    def convert_here(source: Any, out: str, **options: Any) -> None:
        convert(source, out, engine=OwnEngine(1), **options)

    monkeypatch.setattr(measure, "read_fresh", read_here)
    monkeypatch.setattr(measure, "convert", convert_here)
    monkeypatch.setattr(measure, "FORMATS", {name: FORMATS[name] for name in TWO})
    monkeypatch.setattr(measure, "LIBRARIES", ())
    (tmp_path / "made").mkdir()
    part = sample_of(str(flowers_folder), 12, 10**9)
    found = measure.measure(part, str(tmp_path / "made"), rounds=2, seconds=0.001, progress=lambda what: None)
    return {"source": str(flowers_folder), **found}


def test_what_is_measured_and_shown(measured: dict[str, Any], tmp_path: Path) -> None:
    json.dumps(measured)
    assert (measured["images"], measured["rejected"], measured["skipped"]) == (12, 0, {})
    assert measured["decode"]["cpu_us"] > 0
    assert measured["check"]["cpu_us"] > 0
    assert list(measured["formats"]) == list(TWO)
    for name, one in measured["formats"].items():
        made = os.path.join(measured["where"], name)
        assert one["bytes"] == sum(map(os.path.getsize, files_below(made)))
        assert one["bytes"] == measured["image_bytes"] + one["overhead_bytes"]
        assert list(one["modes"]) == list(MODES)
        assert one["decoded"]["cpu_us"] > one["modes"]["cache"]["random"]["cpu_us"] / 10
        for of_mode in one["modes"].values():
            assert of_mode["first_batch_s"] > 0
            assert of_mode["peak_bytes"] > 1e6
            for way in ("sequential", "random"):
                assert of_mode[way]["images_per_s"] == pytest.approx(1e6 / of_mode[way]["wall_us"])
    assert sorted(os.listdir(measured["where"])) == sorted(TWO)
    assert 2 <= len(measured["advice"]) <= 3
    text = report_text(measured)
    assert max(map(len, text.splitlines())) < 100
    draw(measured, str(tmp_path / "formats.png"))
    assert (tmp_path / "formats.png").read_bytes().startswith(b"\x89PNG")
    for name in (*TWO, *MODES):
        assert name in text


def test_a_new_process_says_what_stopped_it(flowers: Dataset, tmp_path: Path) -> None:
    found = reading.read_fresh(flowers.directory, "cache", 0.01, decoded=False)
    assert found["peak_bytes"] >= found["growth_bytes"] > 0
    assert found["dropped"] is None
    with pytest.raises(IntegrityError, match=r"a process that reads it ended with 1: .*not a dataset"):
        reading.read_fresh(str(tmp_path), "cache", 0.01, decoded=False)


def test_libraries_read_what_they_compressed(tmp_path: Path) -> None:
    """Each on a file of its own making; a file that lacks records is told."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    module = pytest.importorskip("array_record.python.array_record_module")
    records = [bytes([i]) * 9000 for i in range(70)]
    pq.write_table(pa.table({"image": records}), tmp_path / "a.parquet", compression="none", use_dictionary=False)
    writer = module.ArrayRecordWriter(str(tmp_path / "a.array_record"), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()
    for name, path in (("pyarrow", "a.parquet"), ("array_record", "a.array_record")):
        asked = {"module": name, "paths": [str(tmp_path / path)], "records": 70, "rounds": 2, "seconds": 0.001}
        found = library_process._run(asked | {"out": str(tmp_path / name)})
        assert found["compressed"]["bytes"] <= found["plain"]["bytes"] / 2
        for kind in ("plain", "compressed"):
            assert [one["cpu_us"] > 0 for one in found[kind]["sequential"]] == [True, True]
            assert len(found[kind]["random"]) == (2 if name == "array_record" else 0)
        with pytest.raises(ValueError, match="70 records were read of 71, plain"):
            library_process._run(asked | {"records": 71, "out": str(tmp_path / f"{name}-2")})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--images", "3"], "--images: it says what --formats measures"),
        (["--keep", "d"], "--keep: it says what --formats measures"),
        (["--formats", "--images", "0"], "--images: got 0, expected at least 1"),
        (["--formats", "--batch-size", "8"], "--batch-size: --formats does not measure a pipeline"),
        (["--formats", "--keep", "."], "--keep: '.' is there already"),
    ],
)
def test_options_that_cannot_be_meant(
    options: list[str], said: str, flowers: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", flowers.directory, *options]) == UsageError.exit_code
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_the_real_command(folder: Callable[..., Path], tmp_path: Path) -> None:
    options = ["--images", "20", "--rounds", "1", "--json", "--plot", str(tmp_path / "p.png")]
    kept = tmp_path / "kept"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["bench", "--formats", str(folder()), *options, "--keep", str(kept)]) == 0
    report = json.loads(printed.getvalue())
    assert (report["images"], report["of"]) == (20, 24)
    assert sorted(os.listdir(kept)) == sorted(report["formats"])
    assert [len(open_dataset(kept / name)["train"]) for name in report["formats"]] == [20] * len(report["formats"])
    assert {"TensorFlow", "webdataset"} <= {one["library"] for one in report["libraries"]}
    assert report["advice"][0].startswith(("Keep", "Take"))
    assert (tmp_path / "p.png").stat().st_size > 10_000
