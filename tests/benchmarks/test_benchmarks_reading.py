"""The reading benchmark on a few tiny photos, and its protocol with contenders that do not behave."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from processes import HANGS, descendants, processes, until
from repository import ROOT

pytestmark = pytest.mark.long

BENCHMARKS = ROOT / "benchmarks"
CLASSES, PER_CLASS, BATCH = 3, 16, 16
EACH = {str(label): PER_CLASS for label in range(CLASSES)}

# A contender without data: batches of 16 labels, and of images that have nothing but a shape.
SCRIPT = """
from contender import contend
import os, subprocess, sys, time

class Array(list):
    dtype = "uint8"
    shape = ({batch}, 2, 2, 3)
    def tolist(self):
        return list(self)

def prepare(task):
    {prepare}
    def epoch():
        {epoch}
    return epoch

contend(prepare, [])
"""
GOOD = "for label in range(3): yield Array(), Array([label] * 16)"


@pytest.fixture
def photos(folder: Callable[..., Path]) -> Path:
    return folder(per_class=PER_CLASS)


def run_reading(photos: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "reading.py"), "--photos", str(photos), *options]
    command += ["--results", str(out), "--copies", str(out / "copies")]
    # As from the repository's root, whether or not the package is installed.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, capture_output=True, text=True, env=variables)


@pytest.mark.long
def test_all_deliver_each_image(photos: Path, tmp_path: Path) -> None:
    options = ["--rounds", "1", "--batch", str(BATCH), "--only", "tf.data tuned"]
    done = run_reading(photos, tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "reading.json").read_text())
    (part,) = result["sets"]
    assert set(part["contenders"]) == {"decoder", "ours, stream", "tf.data tuned"}
    for name, found in part["contenders"].items():
        assert found["error"] is None, name
        (one,) = found["rounds"]
        assert one["labels"] == EACH, name
        assert one["images"] == CLASSES * PER_CLASS
        assert 0 < one["first_batch_seconds"] <= one["seconds"]
        assert one["cpu_seconds"] > 0
        assert "tensorflow" in found["versions"]
    assert part["contenders"]["ours, stream"]["summary"]["times_ours"] == {"median": 1.0, "least": 1.0, "most": 1.0}
    text = (tmp_path / "out" / "reading.md").read_text()
    assert text.strip() == done.stdout.strip()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    by_ours = [float(row.split("|")[3].split()[0]) for row in rows]
    assert len(by_ours) == len(part["contenders"])
    assert by_ours == sorted(by_ours, reverse=True)


def test_names_that_are_not_known_are_refused(photos: Path, tmp_path: Path) -> None:
    done = run_reading(photos, tmp_path / "out", "--only", "tf.data tuned", "tensorfow")
    assert done.returncode == 2
    assert "tensorfow" in done.stderr
    assert "TFDS" in done.stderr


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that starts a contender of that epoch; none is left at the end of the test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import contender_process

    started = []

    def start_one(epoch: str = GOOD, prepare: str = "pass", batch: int = 16) -> Any:
        script = tmp_path / f"contender_{len(started)}.py"
        script.write_text(SCRIPT.format(epoch=epoch, prepare=prepare, batch=batch))
        command = [sys.executable, str(script), str(tmp_path), str(tmp_path), "16", "2", "2"]
        variables = os.environ | {"PYTHONPATH": str(BENCHMARKS / "readings")}
        started.append(contender_process.ContenderProcess(command, variables, tmp_path / "log"))
        return started[-1]

    yield start_one
    for process in started:
        process.ask_to_end()
        process.end(time.monotonic() + 1)


def states(pids: Iterable[int]) -> list[str]:
    return [each.state for pid, each in processes().items() if pid in pids]


def test_it_answers_epochs_and_stands_still_between_them(start: Any) -> None:
    spin = "import time\\nwhile time.process_time() < 30: pass"
    process = start(prepare=f"subprocess.Popen([sys.executable, '-c', '{spin}'], start_new_session=True)")
    assert process.ready() == {}
    for _ in range(2):
        answer = process.epoch()
        assert answer["labels"] == EACH
        assert answer["images"] == 48
        assert answer["memory_bytes"] > 1e6
        pids = process.processes()
        assert len(pids) == 2
        until(lambda pids=pids: states(pids) == ["T", "T"])
    process.ask_to_end()
    process.end(time.monotonic() + 5)
    assert states(pids) == []


def test_the_time_of_workers_counts(start: Any) -> None:
    """CPU time of living and of ended workers counts; their time before the epoch does not."""
    spin = "import time\\nwhile time.process_time() < 0.3: pass\\nprint(flush=True)\\ninput()"
    worker = f"subprocess.Popen([sys.executable, '-c', '{spin}'], stdin=-1, stdout=-1)"
    alive = f"self = {worker}; self.stdout.readline(); os.workers = [self]; {GOOD}"
    ended = f"self = {worker}; self.communicate(b'x'); {GOOD}"
    for epoch in (alive, ended):
        process = start(epoch=epoch.replace("; for", "\n        for"))
        process.ready()
        assert process.epoch()["cpu_seconds"] > 0.28
    process = start(prepare="begun = time.process_time()\n    while time.process_time() < begun + 2: pass")
    process.ready()
    assert process.epoch()["cpu_seconds"] < 1.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epoch": "yield 1 / 0"}, "ZeroDivisionError: division by zero"),
        ({"epoch": "os._exit(3); yield"}, "ended with exit code 3"),
        ({"epoch": "time.sleep(60); yield"}, "no answer within"),
        ({"epoch": "yield from ()"}, "got no batch"),
        ({"batch": 17}, "got a batch of uint8 (17, 2, 2, 3)"),
        ({"batch": 8}, "got 16 labels for 8 images"),
        ({"prepare": "raise RuntimeError('no data')"}, "RuntimeError: no data"),
    ],
)
def test_one_that_fails_says_why(
    start: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: str
) -> None:
    import contender_process

    if "no answer" in said:
        monkeypatch.setattr(contender_process, "EPOCH_SECONDS", 2)
    process = start(**options)
    with pytest.raises(contender_process.ContenderError) as caught:
        process.ready()
        process.epoch()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "said"), [({0: 100, 1: 36}, "left out 64"), ({0: 101, 1: 99}, "1 images more"), ({0: 100, 1: 37}, "")]
)
def test_counts_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch, labels: dict[int, int], said: str) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import reading

    monkeypatch.setattr(reading, "workers", lambda: 2)
    photos = reading.PhotoSet("photos", Path(), 32, "500x375", Counter({0: 100, 1: 100}), Path())
    answer = {"labels": {str(label): count for label, count in labels.items()}}
    if not said:
        return reading.check_epoch(answer, photos)
    with pytest.raises(reading.ContenderError, match=said):
        reading.check_epoch(answer, photos)
    return None


def test_groups_hold_all_once_and_the_yardsticks_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import reading
    import reading_contenders

    contenders = reading_contenders.chosen(None, False)
    groups = reading.grouped(contenders, 8)
    assert all(len(group) <= 8 for group in groups)
    seen = Counter(contender.name for group in groups for contender in group)
    assert set(seen) == {contender.name for contender in contenders}
    for name, times in seen.items():
        assert times == (len(groups) if name in reading_contenders.YARDSTICKS else 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    command = [sys.executable, str(BENCHMARKS / "reading.py"), "--photos", str(photos), "--batch", str(BATCH)]
    command += ["--results", str(tmp_path), "--copies", str(tmp_path / "copies"), "--only", "ours, global"]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)})
    until(lambda: len(descendants(driver.pid)) >= 2)  # a contender, and its conversion
    pids = descendants(driver.pid)
    driver.send_signal(number)
    assert driver.wait(HANGS) == 128 + number
    assert states(pids) == []
