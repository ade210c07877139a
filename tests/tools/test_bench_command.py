"""`shardfeed bench`: the real command on small datasets, its JSON, its picture and its errors."""

import argparse
import io
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.tools.bench import changes, measure, verdict
from shardfeed.tools.bench.plot import draw
from shardfeed.tools.bench.report import report_text
from shardfeed.tools.bench.stages import STAGES, STAGES_ON_HOST
from shardfeed.tools.cli import main
from shardfeed.tools.commands import bench_command

ROOT = Path(__file__).parents[2]
SHAPES = ROOT / "data_samples" / "shapes"
Run = Callable[..., tuple[int, str, str]]
QUICK = ("--batch-size", "8", "--image-size", "32")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `bench` in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["bench", *map(str, arguments)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def given(**figures: Any) -> dict[str, Any]:
    """A report with given figures: a pipeline of 640 images/s, and a model of 40 ms that waits."""
    return {
        "dataset": "shapes",
        "split": "train",
        "samples": 60,
        "formats": {"jpeg": 60},
        "record_bytes_mean": 20_000.0,
        "median_height_px": 480,
        "median_width_px": 640,
        "baseline_share": 1.0,
        "batch_size": 64,
        "image_size_px": 224,
        "order": "stream",
        "workers": 2,
        "cores_granted": 2,
        "decodes_by": "Python: SHARDFEED_NATIVE=0",
        "seconds": 60.0,
        "disk": {"images": 60, "images_per_s": 9e3, "mb_per_s": 180.0, "dataset_bytes": 1, "memory_free_bytes": 9},
        "rounds": [{"images_per_s": rate, "cpu_us_per_image": 3000.0} for rate in (600, 680, 640, 650, 630)],
        "refused": None,
        "pipeline": {
            "images_per_s": 640.0,
            "cpu_us_per_image": 3000.0,
            "encoded_mb_per_s": 12.8,
            "busy_share": 0.96,
            "busiest_share": 0.97,
        },
        "stages": [
            {"name": name, "cpu_us_per_image": 600.0, "share": 0.2, "noise_share": 0.01, "below_noise": name == "batch"}
            for name in STAGES
        ],
        "decoder": {"cpu_us_per_image": 2000.0, "images_per_s": 960.0, "cpu_share": 0.67, "rate_share": 0.67},
        "first_batch": {"iterator_s": 0.3, "fresh_process_s": 1.2, "import_s": 2.3},
        "memory": {"peak_bytes": 9e8, "growth_bytes": 3e8, "imported_bytes": 6e8, "batches": 9, "whole_epoch": False},
        "model": {
            "model_ms": 40.0,
            "step_ms": 40.1,
            "images_per_s": 640.0,
            "images_per_s_wanted": 1600.0,
            "shortest_step_ms": 100.0,
            "steps": 4,
            "mean_wait_ms": 60.0,
            "p50_wait_ms": 59.0,
            "p99_wait_ms": 80.0,
            "max_wait_ms": 81.0,
            "lost_share": 0.6,
            "waits_ms": [50.0, 60.0, 60.0, 70.0],
        },
        "model_bound": False,
        "advice": [{"change": "convert --resize-shorter 256", "why": "large", "factor": 1.7, "enough": False}],
        "not_tried": [{"change": "convert --baseline", "why": "no time was left"}],
        "next": ["train = shardfeed.train_batches(data['train'])"],
        **figures,
    }


def test_the_report_of_a_model_that_waits_and_of_one_that_does_not() -> None:
    waiting = report_text(given())
    assert "throughput   640 images/s (600 to 680 in 5 rounds)" in waiting
    assert "A step of 40 ms would wait 60.0 ms for its batch on average, 60% of the time." in waiting
    assert "1.7 x, not enough for this step: convert --resize-shorter 256" in waiting
    assert "not measured, as no time was left: convert --baseline" in waiting
    assert max(map(len, waiting.splitlines())) < 160
    fast = report_text(given(model_bound=True, advice=None, decoder=None))
    for text in (
        "would not wait",
        "the model is the bottleneck",
        "train_batches(data['train']",
        "ceiling      not measured: Python threads decode, not TensorFlow's decoder",
    ):
        assert text in fast
    raw = report_text(given(formats={"raw": 60}, decoder=None))
    assert "ceiling      not measured: the records hold raw pixels" in raw
    hurried = report_text(given(advice=[]))
    assert "is unknown:" in hurried
    assert "--batch-size 64 --seconds 120 --model-ms 40" in hurried
    assert "no tested change gains" in report_text(given(advice=[], not_tried=[]))
    slow = given()["disk"] | {"images_per_s": 100.0, "dataset_bytes": 99}
    assert "the disk is the limit" in report_text(given(disk=slow))


@pytest.mark.parametrize("again", [{"model": None}, {"advice": []}, {}])
def test_the_command_that_is_suggested_keeps_the_options_of_the_run(again: dict[str, Any]) -> None:
    """It would measure another pipeline without them; the command's own parser takes it."""
    run = {"split": "my split", "batch_size": 16, "image_size_px": 96, "order": "global", "workers": 1, "seconds": 20.0}
    text = report_text(given(**run, **again))
    (line,) = [line for line in text.splitlines() if line.startswith("  shardfeed bench")]
    parser = argparse.ArgumentParser()
    bench_command.add_arguments(parser)
    typed = vars(parser.parse_args(shlex.split(line)[2:]))
    assert {key: str(typed[key]) for key in ("dataset", "split", "batch_size", "image_size", "order", "workers")} == {
        "dataset": "shapes",
        "split": "my split",
        "batch_size": "16",
        "image_size": "96",
        "order": "global",
        "workers": "1",
    }
    assert typed["model_ms"] is not None
    assert float(typed["seconds"]) == (40 if again == {"advice": []} else 20)


def test_a_refusal_has_no_headline_and_no_advice() -> None:
    refused = {"problem": "60 seconds were enough for 3 of 5 rounds", "remedy": "give --seconds 150"}
    found = report_text(given(refused=refused, pipeline=None, stages=None, decoder=None, model=None, advice=None))
    assert "no images/s, no advice: 60 seconds were enough for 3 of 5 rounds\nnext: give --seconds 150" in found
    for text in ("throughput", "ceiling", "would wait", "what would help"):
        assert text not in found
    assert "disk" in found


def test_the_picture_has_content(tmp_path: Path) -> None:
    draw(given(), str(tmp_path / "bench.png"))
    image = Image.open(tmp_path / "bench.png")
    assert image.format == "PNG"
    assert 1000 < image.width < 2500
    assert 400 < image.height < 1200
    colors = {color for _, color in image.convert("RGB").getcolors(1 << 20) or []}
    assert (0, 114, 178) in colors  # the decoder's
    assert (213, 94, 0) in colors
    assert len(colors) > 50


def test_ctrl_c_prints_what_was_measured(run: Run, flowers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, report: dict[str, Any], **__: object) -> None:
        report["disk"] = given()["disk"]
        os.write(2, b"a start-up line of TensorFlow")
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "measure", stopped)
    code, out, err = run(flowers.directory, *QUICK)
    assert code == 130
    assert err == "shardfeed: interrupted; the results so far are printed above; nothing is saved\n"
    assert "batches of 8" in out
    assert "9,000 images/s, 180.0 MB/s" in out
    assert "throughput" not in out


@pytest.mark.parametrize(("form", "said"), [("baseline", True), ("progressive", False), ("PNG", False)])
def test_it_says_when_a_gpu_could_decode(
    run: Run, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, said: bool
) -> None:
    """By the headers of the images: a GPU's engine takes baseline JPEGs only."""
    photos = folder(16)
    if form != "baseline":
        for path in photos.rglob("*.jpg"):
            image, options = Image.open(path), {"format": "PNG"} if form == "PNG" else {"progressive": True}
            image.load()
            image.save(path, **options)
    convert(ImageFolder(photos), tmp_path / "out", split={"train": 1}, workers=1)
    figures = given()
    known = ("pipeline", "stages", "decoder", "disk", "rounds", "first_batch", "memory", "model", "advice", "not_tried")

    def measured(*_: object, report: dict[str, Any], **__: object) -> None:
        report |= {key: figures[key] for key in known} | {"refused": None, "model_bound": False, "seconds": 60.0}

    monkeypatch.setattr(measure, "measure", measured)
    code, out, err = run(tmp_path / "out", *QUICK)
    assert (code, err) == (0, "")
    assert ('torch_loader(..., decode="cuda")' in out) == said
    assert ("100% of the images are baseline JPEGs, which the GPU decodes and crops: 2,400 of 3,000 us;" in out) == said
    assert ("on the CPU, 1,600 images/s need 4.8 cores" in out) == said
    figures |= {"model": None, "model_bound": None}
    assert ("on the CPU, 1,000 images/s need 3.0 cores" in run(tmp_path / "out", *QUICK)[1]) == said


def documented() -> set[str]:
    """The keys of the first column of "The JSON" in docs/bench.md."""
    rows = (ROOT / "docs" / "bench.md").read_text().split("\n## The JSON\n")[1].splitlines()
    return {key for row in rows if row.startswith("| `") for key in re.findall("`([^`]+)`", row.split("|")[1])}


@pytest.mark.long
def test_the_figures_of_a_run_agree(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is: here rounds that differ are no reason to refuse, and time is no limit."""
    monkeypatch.setattr(verdict, "AGREE", float("inf"))
    monkeypatch.setattr(measure, "_SLICES", 1e9)
    convert(ImageFolder(SHAPES), tmp_path / "shapes", workers=1)
    code, out, err = run(tmp_path / "shapes", *QUICK, "--seconds", "9999", "--model-ms", "0.1", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report.keys() == documented()
    assert report["refused"] is None
    assert report["samples"] == sum(report["formats"].values())
    assert report["disk"]["images_per_s"] > 0
    pipeline, model, rates = report["pipeline"], report["model"], [each["images_per_s"] for each in report["rounds"]]
    assert len(rates) == 5
    assert min(rates) <= pipeline["images_per_s"] <= max(rates)
    assert pipeline["images_per_s"] == pytest.approx(8e3 / model["shortest_step_ms"])
    assert model["images_per_s"] == pytest.approx(8e3 / (model["step_ms"] + model["mean_wait_ms"]))
    assert model["step_ms"] >= 0.1
    assert model["steps"] == len(model["waits_ms"]) >= 5 * 3 * 4
    assert [stage["name"] for stage in report["stages"]] == list(STAGES_ON_HOST)
    assert sum(stage["cpu_us_per_image"] for stage in report["stages"]) == pytest.approx(pipeline["cpu_us_per_image"])
    assert report["decoder"] is None
    assert 100e6 < report["memory"]["imported_bytes"] < report["memory"]["peak_bytes"] < 4e9
    assert report["memory"]["batches"] == len(shardfeed.open(tmp_path / "shapes")["train"]) // 8
    assert (report["advice"] is None) == report["model_bound"]
    assert set(report["made_by"]) == {"shardfeed", "tensorflow", "python", "machine"}


@pytest.mark.long
def test_too_few_seconds_are_refused_with_more_of_them(run: Run, flowers: Any) -> None:
    code, out, err = run(flowers.directory, *QUICK, "--seconds", "0.01", "--order", "global", "--workers", "1")
    assert (code, err) == (0, "")
    assert "order global, 1 thread on" in out
    assert "no images/s, no advice: 0.01 seconds were enough for 0 of 5 rounds\nnext: give --seconds 10\n" in out
    assert "throughput" not in out
    code, out, err = run(flowers.directory, *QUICK, "--seconds", "0.01", "--json")
    report = json.loads(out)
    assert report.keys() == documented()
    assert report["refused"].keys() == {"problem", "remedy"}
    empty = ("pipeline", "stages", "decoder", "first_batch", "memory", "model", "model_bound", "advice")
    assert [report[key] for key in empty] == [None] * len(empty)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--split", "night"], "no split 'night'; it has 'train', 'validation'"),
        (["--workers", "0"], "--workers: got 0, expected an integer from 1 to 4,096"),
        (["--workers", "1" + "0" * 30], "--workers: got 10"),
        (["--image-size", "1000000"], "--image-size: got 1000000, expected an integer from 1 to 65,535"),
        (["--batch-size", "5000"], "--batch-size: got 5000, expected at most 161"),
        (["--batch-size", "0"], "--batch-size: got 0"),
        (["--seconds", "nan"], "--seconds: got nan"),
        (["--model-ms", "-1"], "--model-ms: got -1"),
        (["--plot", "x.jpg"], "--plot: got 'x.jpg', expected a name that ends in .png"),
        (["--plot", "/nowhere/x.png"], "--plot: no directory '/nowhere'"),
    ],
)
def test_what_cannot_be_meant_is_refused(run: Run, flowers: Any, arguments: list[str], said: str) -> None:
    code, out, err = run(flowers.directory, *arguments)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.long
def test_damage_is_named(
    run: Run, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_SEEN", 1)  # image, so that the pipeline meets the damage
    convert(ImageFolder(folder(8)), tmp_path / "out", workers=1)
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    code, out, err = run(tmp_path / "out", *QUICK)
    assert code == 4
    assert "throughput" not in out
    assert "shardfeed verify" in err
    assert io.StringIO(err).readline().startswith("shardfeed: ")
