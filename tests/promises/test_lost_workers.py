"""Workers that are killed, crash or hang, through the command: what it costs, and what it says."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.engines import choose_engine
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.schema import FILENAME
from shardfeed.tools import cli

from processes import stopped
from repository import SUPPORT
from trees import tree

DEATHS = SUPPORT / "deaths"


@pytest.fixture
def die(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """A function that makes workers die: `die("open a/0001.jpg", "SIGSEGV", once=True)`."""

    def arrange(at: str, how: str = "SIGKILL", *, once: bool) -> None:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(DEATHS), os.environ.get("PYTHONPATH", "")]))
        monkeypatch.setenv("DEATH_AT", at)
        monkeypatch.setenv("DEATH_HOW", how)
        if once:
            monkeypatch.setenv("DEATH_ONCE", str(tmp_path / "died"))

    return arrange


@pytest.fixture
def whole(folder: Callable[..., Path], tmp_path: Path) -> dict[str, bytes]:
    """Files that a run without deaths makes of nine images in three shards."""
    (tmp_path / "whole").mkdir()
    convert(ImageFolder(folder(3)), tmp_path / "whole" / "out", shards=3, workers=1)
    return tree(tmp_path / "whole" / "out")


def command(tmp_path: Path, *more: str) -> int:
    arguments = ["convert", str(tmp_path / "images"), str(tmp_path / "out"), "--shards", "3", "--workers", "2"]
    return cli.main([*arguments, "--start-method", "spawn", *more])  # what makes them die is loaded with Python


@pytest.mark.promise(7)
@pytest.mark.parametrize(
    ("at", "place"),
    [
        ("start", "of-00003 (exit code -9)"),
        ("open rose/0001.jpg", "image "),
        ("fsync 00001-of-00003.tfrecord.partial", "lost at train-00001-of-00003"),
        ("fsync 00001-of-00003.tfindex.partial", "lost at train-00001-of-00003"),
    ],
)
def test_a_worker_killed_once_costs_nothing(
    at: str,
    place: str,
    whole: dict[str, bytes],
    die: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    die(at, once=True)
    assert command(tmp_path) == 0
    assert (tmp_path / "died").exists()
    assert tree(tmp_path / "out") == whole
    said = capsys.readouterr()
    notes = [line for line in said.out.splitlines() if line.startswith("note: a worker was lost at ")]
    assert len(notes) == 1
    assert place in notes[0]
    assert notes[0].endswith("(exit code -9); the shard is tried again")
    assert said.err == ""


@pytest.mark.promise(7)
def test_workers_that_always_die_end_the_run(
    whole: dict[str, bytes],
    die: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    die("fsync 00001-of-00003.tfrecord.partial", once=False)
    assert command(tmp_path) == 5
    said = capsys.readouterr().err
    assert "train-00001-of-00003: lost 8 workers; free some memory, then run again to resume" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / ".out.staging" / "receipts").iterdir())) == 2, "the others are done"
    monkeypatch.setenv("DEATH_AT", "open nothing")
    assert command(tmp_path) == 0
    assert tree(tmp_path / "out") == whole


@pytest.mark.promise(8, 9)
@pytest.mark.parametrize(("how", "code"), [("SIGABRT", "E_DECODER_CRASH"), ("hang", "E_DECODE_TIMEOUT")])
def test_a_poisonous_image_is_isolated(
    how: str,
    code: str,
    whole: dict[str, bytes],
    die: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    die("open rose/0001.jpg", how, once=False)
    monkeypatch.setattr(choose_engine, "LocalEngine", partial(LocalEngine, image_timeout=0.5))
    assert command(tmp_path, "--json") == 3
    report = json.loads(capsys.readouterr().out)
    reason = "crashed its worker in every attempt"
    assert report["rejected"] == [{"key": "rose/0001.jpg", "code": code, "reason": reason}]
    assert command(tmp_path, "--json", "--max-bad", "1") == 0
    assert json.loads(capsys.readouterr().out)["images"] == 0, "only committed"
    expected = {record[FILENAME]: record for record in shardfeed.open(tmp_path / "whole" / "out")["train"]}
    del expected[b"rose/0001.jpg"]  # type: ignore[arg-type]  # a name is bytes
    found = {record[FILENAME]: record for record in shardfeed.open(tmp_path / "out")["train"]}
    assert found == expected, "numbers of records included"


def kill_workers(root: Path, base: Path, trials: int, rng: random.Random, method: str) -> None:
    """Kill one worker of the command while it writes a shard, again and again."""
    arguments = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(root), "out", "--shards", "8"]
    arguments += ["--workers", "2", "--json", "--start-method", method]
    (base / "timed").mkdir(parents=True)
    subprocess.run(arguments, cwd=base / "timed", check=True, capture_output=True)
    expected = tree(base / "timed")
    kills = 0
    for trial in range(20 * trials):
        place = base / f"killed{trial}"
        place.mkdir()
        process = subprocess.Popen(arguments, cwd=place, stdout=subprocess.PIPE, text=True)
        killed = kill_one_that_writes(process, rng)
        report = json.loads(process.communicate()[0])
        assert process.returncode == 0
        assert tree(place) == expected
        assert any("a worker was lost" in note for note in report["notes"]) == killed
        kills += killed
        if kills == trials:
            return
    pytest.fail(f"{kills} kills in {20 * trials} runs: hardly ever was a worker found at a shard")


def kill_one_that_writes(process: subprocess.Popen[str], rng: random.Random) -> bool:
    """Kill a worker that has a shard open; whether that was done before the command ended."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        for pid in map(int, rng.sample(found := children.read_text().split(), len(found))):
            with contextlib.suppress(OSError), stopped(pid):  # unless it ended meanwhile
                opened = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
                if any(path.endswith(".partial") for path in opened) and rng.random() < 0.3:
                    os.kill(pid, signal.SIGKILL)
                    return True
        time.sleep(rng.uniform(0, 0.005))
    return False


@pytest.mark.promise(7)
def test_a_worker_killed_at_a_random_time(folder: Callable[..., Path], tmp_path: Path, seed: int) -> None:
    kill_workers(folder(100), tmp_path, 3, random.Random(seed), "auto")


@pytest.mark.torture
@pytest.mark.promise(7)
def test_fifty_workers_killed_at_random_times(
    folder: Callable[..., Path], tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    root = folder(150)
    for way in ("spawn", "auto"):
        kill_workers(root, tmp_path / way, 25, random.Random(seed), way)
    torture_result("workers killed at random times", trials=50, failures=0, hits=50, seed=seed)
