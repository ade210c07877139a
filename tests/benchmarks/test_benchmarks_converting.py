"""The benchmark of conversion: that it runs, says what it must, and that what it measures holds every image."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from repository import ROOT

pytestmark = pytest.mark.long

BENCHMARKS = ROOT / "benchmarks"
MEASURED = ("tar", "header", "header_no_fsync", "cp", "codec", "default", "pillow")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import each other as a script's neighbours are imported."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def photos(folder: Callable[..., Path]) -> Path:
    """40 tiny JPEGs in 4 classes."""
    return folder(per_class=10, classes=("ash", "elm", "fir", "oak"))


@pytest.mark.long
def test_a_round_of_those_that_need_no_other_environment(photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "converting.py"), str(photos), "--rounds", "1", "--warm-ups", "0"]
    folders = ["--scratch", str(tmp_path), "--results", str(tmp_path / "results")]
    done = subprocess.run([*command, *folders, "--only", *MEASURED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    result = json.loads((tmp_path / "results" / "converting.json").read_text())
    assert set(result["contenders"]) == set(MEASURED)
    assert (result["images"], result["rounds"], result["absent"]) == (40, 1, {})
    assert result["bytes"] == sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    for name, figures in result["contenders"].items():
        (run,) = figures["rounds"]
        assert run["images"] == 40, name
        assert run["seconds"] > 0, name
        assert run["cpu_seconds"] > 0, name
        assert (run["start_cpu_seconds"] > 0) == name.startswith(("header", "default")), name
        assert 5e6 < run["peak_bytes"] < 1e9, name
    (without,) = result["contenders"]["header_no_fsync"]["rounds"]
    assert without["skipped_fsyncs"] >= 2 * result["shards"], "each shard and each index has one"
    assert result["contenders"]["header"]["start_seconds"] > 0, "ten photos"
    assert set(result["costs"]) == {"fsync_share", "fsync_share_over_one_sync", "decoder_share"}

    text = (tmp_path / "results" / "converting.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(MEASURED) + 2, "a heading for each table"
    assert len({line.count("|") for line in rows}) == 1
    assert result["date"] in text
    assert result["machine"]["kernel"] in text
    assert not list(tmp_path.glob("tmp*")), "outputs are removed"


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("shardfeed_convert.py", ("--check", "header", "--no-hash", "--shards", "2")),
        ("copying.py", ("cp",)),
        ("copying.py", ("tar",)),
        ("tensorflow_loop.py", ("2",)),
    ],
)
@pytest.mark.long
def test_the_output_holds_every_image(script: str, arguments: tuple[str, ...], photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, str(BENCHMARKS / "conversions" / script), str(photos), str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["images"] == 40
    written = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    originals = {path.read_bytes() for path in photos.rglob("*.jpg")}
    assert len(originals) == 40
    assert all(original in written for original in originals)


def test_the_loop_that_resizes(photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "conversions" / "pillow_loop.py"), str(photos), str(tmp_path), "16"]
    subprocess.run(command, check=True, capture_output=True)
    for path in photos.rglob("*.jpg"):
        with Image.open(tmp_path / path.parent.name / path.name) as image:
            assert min(image.size) == 16


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('print(\'{"seconds": 1, "start_seconds": 0, "images": 39}\')', "holds 39 of 40 images"),
        ("raise RuntimeError('no disk')", "exit code 1: RuntimeError: no disk"),
    ],
)
def test_a_contender_that_falls_short_gives_no_figure(
    benchmarks: None, body: str, said: str, photos: Path, tmp_path: Path
) -> None:
    from conversion_contenders import Contender
    from converting import FailedRunError, Setting, measure

    script = tmp_path / "short.py"
    script.write_text(body)
    setting = Setting(str(photos), str(photos), 40, 1, {})
    with pytest.raises(FailedRunError, match=said):
        measure(Contender("short", str(script)), sys.executable, setting, str(tmp_path))


def test_contenders_are_complete_and_pinned(benchmarks: None) -> None:
    from conversion_contenders import COPYING, REENCODING, SCRIPTS

    assert not set(COPYING) & set(REENCODING)
    used = set()
    for name, contender in (COPYING | REENCODING).items():
        assert (SCRIPTS / contender.script).is_file(), name
        used.add(contender.script)
        for requirement in contender.requirements:
            assert re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", requirement), f"{name}: {requirement}"
            if requirement.startswith("torch="):
                assert requirement == "torch==2.13.0"
    shared = {"measured.py", "mosaic_imports.py", "with_mosaic.py"}
    assert {path.name for path in SCRIPTS.glob("*.py")} - shared == used


def test_rounds_take_turns(benchmarks: None) -> None:
    from converting import turned

    names = list("abcdefg")
    rounds = [turned(names, number) for number in range(6)]
    assert all(sorted(order) == names for order in rounds)
    assert len({order[0] for order in rounds}) >= 4
    before = [order.index("a") < order.index("b") for order in rounds]
    assert True in before
    assert False in before


def test_ratios_are_those_of_the_same_round(benchmarks: None) -> None:
    from conversion_tables import conversion_result

    def runs(*seconds: float, start: float = 0.0) -> list[dict[str, float]]:
        return [
            {"seconds": s, "start_seconds": start, "cpu_seconds": s, "start_cpu_seconds": start / 2, "peak_bytes": 1e7}
            for s in seconds
        ]

    # Twice, four times and three times as fast; the ratio of the medians would be 2.
    of = {"header": runs(1.5, 1.0, 2.5, start=0.5), "tar": runs(2.0, 2.0, 6.0), "pillow": runs(1.0, 1.0, 1.0)}
    found: dict[str, dict[str, str]] = {name: {} for name in of}
    result = conversion_result(of, found, {}, images=100, size=1000, values={"shards": 2, "shorter": 256})
    header = result["contenders"]["header"]
    assert header["times_baseline"] == pytest.approx(3.0)
    assert header["times_baseline_with_start"] == pytest.approx(2.0)
    assert header["images_per_second"] == pytest.approx(100.0)
    assert header["cpu_microseconds_per_image"] == pytest.approx(12_500.0)


def test_the_reason_of_a_failure_is_no_advice(benchmarks: None) -> None:
    from environments import last_reason

    pip = "Traceback:\n  RuntimeError: Could not find required package: opencv.\n\nnote: not a problem with pip.\n"
    assert last_reason(pip) == "RuntimeError: Could not find required package: opencv"
    assert last_reason("ERROR: no matching distribution\nhint: see above\n") == "ERROR: no matching distribution"
    assert last_reason("\n") == "unknown"
