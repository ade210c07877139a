"""`shardfeed bench`: the real command on small datasets, its JSON, its picture and its errors."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, LabelFile, convert
from shardfeed.tools.bench.report import report_text
from shardfeed.tools.cli import main

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--batch-size", "8", "--image-size", "32", "--seconds", "0.5", "--rounds", "2")
STAGES = ["read", "parse", "decode", "augment", "batch", "hand_over"]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `bench` in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["bench", *map(str, arguments)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, Path]:
    """The command, run on 60 JPEGs of 640 x 480: its JSON, its picture, its dataset."""
    root = tmp_path_factory.mktemp("bench")
    for number in range(60):
        (root / "images" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        colors = np.random.default_rng(number).integers(0, 256, (48, 64, 3), np.uint8)
        image = Image.fromarray(colors).resize((640, 480), Image.Resampling.BICUBIC)
        image.save(root / "images" / "ab"[number % 2] / f"{number}.jpg", quality=90)
    convert(ImageFolder(root / "images"), root / "out", workers=1)
    options = ["--model-ms", "40", "--json", "--plot", str(root / "bench.png")]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["bench", str(root / "out"), *QUICK, *options]) == 0
    return json.loads(printed.getvalue()), root / "bench.png", root / "out"


@pytest.mark.long
def test_the_stages_add_up_to_the_whole(measured: tuple[dict[str, Any], Path, Path]) -> None:
    report, _, _ = measured
    assert [stage["name"] for stage in report["stages"]] == STAGES
    costs = [stage["cpu_us_per_image"] for stage in report["stages"]]
    assert min(costs) >= 0
    assert sum(costs) == pytest.approx(report["pipeline"]["cpu_us_per_image"])
    for stage in report["stages"]:
        assert len(stage["up_to_here_cpu_us_per_image"]) == 2
        assert stage["below_noise"] == (stage["cpu_us_per_image"] <= stage["noise_us_per_image"])


@pytest.mark.long
def test_figures_are_plausible(measured: tuple[dict[str, Any], Path, Path]) -> None:
    report, _, _ = measured
    assert (report["samples"], report["median_height_px"], report["median_width_px"]) == (60, 480, 640)
    effort = report["effort"]
    assert (report["split"], report["formats"], report["rounds"]) == ("train", {"jpeg": 60}, effort["rounds"])
    assert report["batch_size_measured"] == effort["batch_size"] <= report["batch_size"] == 8
    assert report["images_per_round"] == effort["images"] * effort["epochs"]
    pipeline, decoder = report["pipeline"], report["decoder"]
    assert pipeline["cpu_us_per_image"] > 0
    assert decoder["cpu_us_per_image"] > 0
    assert 0 < decoder["cpu_share"] <= 1
    assert 0 < decoder["rate_share"] <= 1
    assert pipeline["images_per_s"] > 0
    mean = report["record_bytes_mean"]
    assert pipeline["encoded_mb_per_s"] == pytest.approx(pipeline["images_per_s"] * mean / 1e6)
    assert 0 < pipeline["busy_share"] <= 1
    assert report["disk"]["images_per_s"] > 0
    assert report["first_batch"]["iterator_s"] > 0
    assert report["first_batch"]["fresh_process_s"] > 0
    memory = report["memory"]
    assert 100e6 < memory["imported_bytes"] < memory["peak_bytes"] < 4e9
    assert memory["growth_bytes"] == memory["peak_bytes"] - memory["imported_bytes"]
    assert 1 <= memory["batches"] <= 60
    assert set(report["made_by"]) == {"shardfeed", "tensorflow", "python", "machine"}


@pytest.mark.long
def test_waits_are_those_of_the_steps(measured: tuple[dict[str, Any], Path, Path]) -> None:
    model = measured[0]["model"]
    steps = measured[0]["effort"]["steps"]
    assert len(model["waits_ms"]) == model["all"]["steps"] == steps
    assert model["steady"]["steps"] == steps - steps // 4
    assert model["all"]["mean_wait_ms"] == pytest.approx(np.mean(model["waits_ms"]), abs=0.001)
    assert model["steady"]["mean_wait_ms"] == pytest.approx(np.mean(model["waits_ms"][steps // 4 :]), abs=0.001)
    assert model["step_ms"] >= 40
    assert model["images_per_s_wanted"] == 200


@pytest.mark.long
def test_the_report_of_a_run(run: Run, measured: tuple[dict[str, Any], Path, Path]) -> None:
    """What it advises depends on what was measured, and so on the machine: test_bench_advice has that."""
    _, _, dataset = measured
    code, out, err = run(dataset, *QUICK, "--order", "global", "--parallelism", "1")
    assert (code, err) == (0, "")
    assert "order global, 1 thread on" in out
    for text in (
        "read records",
        "the decoder alone",
        "together",
        "peak memory",
        "ceiling",
        "--model-ms",
    ):
        assert text in out
    assert max(map(len, out.splitlines())) < 160


@pytest.mark.long
def test_the_picture_has_content(measured: tuple[dict[str, Any], Path, Path]) -> None:
    image = Image.open(measured[1])
    assert image.format == "PNG"
    assert 1000 < image.width < 2500
    assert 400 < image.height < 1200
    colors = {color for _, color in image.convert("RGB").getcolors(1 << 20) or []}
    assert (0, 114, 178) in colors  # the decoder's
    assert (213, 94, 0) in colors
    assert len(colors) > 50


@pytest.mark.long
def test_the_report_of_a_model_that_waits_and_of_one_that_does_not(
    measured: tuple[dict[str, Any], Path, Path],
) -> None:
    report = json.loads(json.dumps(measured[0]))
    report["model"]["steady"] |= {"mean_wait_ms": 20.0, "lost_share": 1 / 3}
    report["model_bound"] = False
    waiting = report_text(report)
    assert "A step of 40 ms would wait 20.0 ms for its batch on average, 33% of the time." in waiting
    report |= {"model_bound": True, "advice": [], "decoder": None}
    fast = report_text(report)
    report["decoder"] = measured[0]["decoder"] | {"rate_share": 1.0, "images_per_s": 1.0}
    shown = report_text(report)
    assert "reached      all of that, as far as these rounds can tell" in shown
    assert f"ceiling      {report['pipeline']['images_per_s']:,.0f} images/s" in shown
    assert "would not wait" in fast
    assert "the model is the bottleneck" in fast
    assert "train_batches(data['train']" in fast
    assert "none: the records hold pixels" in fast


@pytest.mark.long
def test_pngs_and_boxes_without_a_label(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "images"
    root.mkdir()
    lines = []
    for number in range(16):
        Image.new("RGB", (40, 32), (number * 9, 80, 40)).save(root / f"{number}.png")
        lines.append(json.dumps({"path": f"{number}.png", "label": "a", "ymin": [0.1] * (number % 3)}) + "\n")
    (tmp_path / "boxes.jsonl").write_text("".join(lines))
    source = LabelFile(tmp_path / "boxes.jsonl", root=root, label_columns=["ymin"])
    convert(source, tmp_path / "png", workers=1)
    assert "image/class/label" not in shardfeed.open(tmp_path / "png").manifest.schema.features
    code, out, _ = run(tmp_path / "png", *QUICK, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["formats"] == {"png": 16}
    assert report["decoder"]["cpu_us_per_image"] > 0
    assert report["model"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--split", "night"], "no split 'night'; it has 'train', 'validation'"),
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
def test_damage_is_named(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(8)), tmp_path / "out", workers=1)
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    code, out, err = run(tmp_path / "out", *QUICK)
    assert (code, out) == (4, "")
    assert "shardfeed verify" in err
    assert io.StringIO(err).readline().startswith("shardfeed: ")
