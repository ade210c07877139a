"""Killed, interrupted, orphaned at random moments: nothing half made, nothing left running, the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardfeed.converters import ImageFolder, convert

from processes import HANGS, until, until_gone
from trees import tree

SHARDS = {"train": 6, "validation": 2}
SPLIT = {"train": 0.75, "validation": 0.25}
OPTIONS = ["--split", "train=0.75,validation=0.25", "--shards", "train=6,validation=2", "--quiet"]
COMMAND = [sys.executable, "-m", "shardfeed.tools.cli", "convert"]


class Conversion(NamedTuple):
    """A conversion of `images` by the command: the seconds it takes, the bytes it makes, and a dataset to replace."""

    images: Path
    seconds: float
    expected: dict[str, bytes]
    old: Path

    def command(self, *options: str, workers: int = 2) -> list[str]:
        return [*COMMAND, str(self.images), "out", *OPTIONS, "--workers", str(workers), *options]


@pytest.fixture(scope="module")
def conversion(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    """603 small images, 8 shards."""
    tmp_path = tmp_path_factory.mktemp("crash")
    images = tmp_path / "images"
    for directory in flowers_folder.iterdir():
        for copy in range(3):
            shutil.copytree(directory, images / f"{directory.name}{copy}")
    for name, options in (("whole", {}), ("old", {"seed": 1})):
        (tmp_path / name).mkdir()
        convert(ImageFolder(images), tmp_path / name / "out", split=SPLIT, shards=SHARDS, workers=1, **options)
    timed = tmp_path / "timed"
    timed.mkdir()
    made = Conversion(images, 0.0, tree(tmp_path / "whole"), tmp_path / "old" / "out")
    started = time.monotonic()
    subprocess.run(made.command(), cwd=timed, check=True)
    assert tree(timed) == made.expected
    return made._replace(seconds=time.monotonic() - started)


def check_output(place: Path, conversion: Conversion, replace: bool) -> bool:
    """The output is absent, or the old dataset where there was one, or complete; whether nothing is left to do."""
    out = place / "out"
    assert out.exists() or not replace
    found = {f"out/{name}": data for name, data in tree(out).items()}
    new = {name: data for name, data in conversion.expected.items() if name != "out/"}
    old = {f"out/{name}": data for name, data in tree(conversion.old).items()} if replace else {}
    assert found in (new, old) or not out.exists(), "neither absent nor complete"
    return found == new and not (place / ".out.staging").exists()


def resume(place: Path, conversion: Conversion, finished: bool, replace: bool) -> None:
    """Running again ends with exit 0, or 2 where all was done, and leaves exactly the dataset."""
    again = subprocess.run(
        conversion.command(*["--replace"] * replace), cwd=place, capture_output=True, text=True, check=False
    )
    assert again.returncode == (2 if finished and not replace else 0), again.stderr
    assert tree(place) == conversion.expected


def counts(quick: int, long: int) -> Any:
    """The test's number of trials, by default and in the long sweep."""
    return pytest.mark.parametrize("trials", [quick, pytest.param(long, marks=pytest.mark.torture)])


@pytest.mark.promise(1)
@pytest.mark.timeout(3000)
@counts(3, 200)
def test_kill_at_a_random_time_then_resume(
    trials: int, conversion: Conversion, tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    """Every third trial replaces a dataset, and of every third the resume is killed, too."""
    rng = random.Random(seed)
    midway = 0
    for trial in range(trials):
        place = tmp_path / f"trial{trial}"
        place.mkdir()
        replace = trial % 3 == 2
        if replace:
            shutil.copytree(conversion.old, place / "out")
        finished = False
        for _ in range(1 + (trial % 3 == 1)):
            command = conversion.command(*["--replace"] * replace)
            process = subprocess.Popen(command, cwd=place, start_new_session=True, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, conversion.seconds))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            finished = check_output(place, conversion, replace)
        midway += (place / ".out.staging").exists()
        resume(place, conversion, finished, replace)
        shutil.rmtree(place)
    assert trials < 200 or midway >= trials / 8, f"only {midway} of {trials} kills hit a run in the middle"
    torture_result("kill -9 of the process group at a random time", trials=trials, failures=0, midway=midway, seed=seed)


def running(mark: str) -> list[str]:
    """The command lines of the live processes that inherited an environment with `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """An environment that marks whoever inherits it; nobody with it may live on after the test."""
    mark = f"shardfeed-{uuid.uuid4().hex}"
    yield os.environ | {"MARK": mark}
    assert not running(mark)


def gone_after(mark: str) -> float:
    """Seconds until no process with `mark` is left."""
    started = time.monotonic()
    until_gone(lambda: running(mark))
    return time.monotonic() - started


@pytest.mark.long
@pytest.mark.promise(5)
@pytest.mark.timeout(3000)
@counts(4, 100)
def test_a_signal_at_a_random_time(
    trials: int,
    conversion: Conversion,
    environment: dict[str, str],
    tmp_path: Path,
    seed: int,
    torture_result: Callable[..., None],
) -> None:
    """SIGINT or SIGTERM, to the group or to the parent alone, once or twice, from the first instruction to the last."""
    rng = random.Random(seed)
    stopped, slowest = 0, 0.0
    for trial in range(trials):
        place = tmp_path / f"trial{trial}"
        place.mkdir()
        number = (signal.SIGINT, signal.SIGTERM)[trial % 2]
        send, twice = rng.choice((os.killpg, os.kill)), rng.random() < 0.5
        process = subprocess.Popen(
            conversion.command(), cwd=place, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        time.sleep(rng.uniform(0, conversion.seconds))
        send(process.pid, number)
        if twice:
            time.sleep(rng.uniform(0, 0.2))
            if process.poll() is None:
                send(process.pid, number)
        started = time.monotonic()
        _, errors = process.communicate(timeout=HANGS)
        # Before Python has run a line of ours the signal itself ends it; a shell says the same code for both.
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        # Or with 1, while it imports `site` and `runpy`.
        unborn = code == 1 and number is signal.SIGINT and "shardfeed" not in errors
        assert code in (0, 128 + number) or unborn, errors
        slowest = max(slowest, time.monotonic() - started, gone_after(environment["MARK"]))
        finished = check_output(place, conversion, replace=False)
        assert finished or code
        assert number is signal.SIGINT or "KeyboardInterrupt" not in errors, errors
        stopped += not finished
        resume(place, conversion, finished, replace=False)
        shutil.rmtree(place)
    assert trials < 100 or stopped >= trials / 4, "most runs had ended before: the machine became faster meanwhile"
    assert trials < 100 or slowest < 5, "which holds on a machine that does nothing else"
    torture_result(
        "SIGINT or SIGTERM at a random time", trials=trials, failures=0, slowest=round(slowest, 2), seed=seed
    )


@pytest.mark.long
@pytest.mark.promise(6)
@pytest.mark.timeout(3000)
@counts(4, 50)
def test_workers_do_not_outlive_a_parent_killed_at_a_random_time(
    trials: int,
    conversion: Conversion,
    environment: dict[str, str],
    tmp_path: Path,
    seed: int,
    torture_result: Callable[..., None],
) -> None:
    rng = random.Random(seed)
    orphaned, slowest, trial = 0, 0.0, 0
    while orphaned < trials:  # those in which it had workers
        trial += 1
        assert trial < 10 * trials, "the parent was nearly always alone"
        place = tmp_path / f"trial{trial}"
        place.mkdir()
        method = ("spawn", "forkserver")[trial % 2]
        command = conversion.command("--start-method", method, workers=3)
        process = subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.DEVNULL)
        until(lambda run=process: run.poll() is not None or running(environment["MARK"])[1:])
        time.sleep(rng.uniform(0, 0.7) * conversion.seconds)
        process.kill()
        process.wait()
        orphaned += bool(running(environment["MARK"]))
        slowest = max(slowest, gone_after(environment["MARK"]))
        check_output(place, conversion, replace=False)
        shutil.rmtree(place)
    assert trials < 50 or slowest < 2, "which holds on a machine that does nothing else"
    torture_result(
        "the parent killed at a random time", trials=trials, failures=0, slowest=round(slowest, 2), seed=seed
    )


SETTINGS: dict[str, list[Any]] = {
    "workers": ["1", "2", "4"],
    "method": ["spawn", "forkserver"],
    "PYTHONHASHSEED": ["0", "1", "random"],
    "LC_ALL": ["C", "C.UTF-8", "tr_TR.UTF-8"],
    "TZ": ["UTC", "Asia/Kathmandu", "America/St_Johns"],
    "umask": [0o077, 0o000, 0o027],
    "clock": [0.0, 40 * 365 * 86_400.0, -20 * 365 * 86_400.0],
    "directory": ["beside", "elsewhere", "in the source"],
    "source": ["absolute", "relative", "with a slash", "through a link", "dotted"],
}


def chosen(trials: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Settings so that in every few trials each value of each is met once."""
    columns = {}
    for name, values in SETTINGS.items():
        enough = [value for _ in range(-(-trials // len(values))) for value in rng.sample(values, len(values))]
        columns[name] = enough[:trials]
    for trial in range(trials):
        yield {name: column[trial] for name, column in columns.items()}


@pytest.mark.long
@pytest.mark.promise(14)
@pytest.mark.timeout(3000)
@counts(3, 60)
def test_the_bytes_do_not_depend_on_where_and_how_it_runs(
    trials: int, conversion: Conversion, tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    rng = random.Random(seed)
    (tmp_path / "linked").symlink_to(conversion.images)
    for trial, setting in enumerate(chosen(trials, rng)):
        place = tmp_path / f"trial{trial}"
        place.mkdir()
        clock = place.with_name("clock")
        clock.mkdir(exist_ok=True)
        (clock / "sitecustomize.py").write_text(
            f"import time\nreal, real_ns = time.time, time.time_ns\n"
            f"time.time = lambda: real() + {setting['clock']}\n"
            f"time.time_ns = lambda: real_ns() + {int(setting['clock'])} * 10**9\n"
        )
        directory = {"beside": place, "elsewhere": Path("/"), "in the source": conversion.images}[setting["directory"]]
        source = {
            "absolute": str(conversion.images),
            "relative": os.path.relpath(conversion.images, directory),
            "with a slash": f"{conversion.images}//",
            "through a link": str(tmp_path / "linked"),
            "dotted": f"{conversion.images}/../{conversion.images.name}/.",
        }[setting["source"]]
        path = os.pathsep.join([str(clock), *map(os.path.abspath, filter(None, sys.path))])
        how = ["--workers", setting["workers"], "--start-method", setting["method"]]
        done = subprocess.run(
            [*COMMAND, source, os.path.relpath(place / "out", directory), *OPTIONS, *how],
            cwd=directory,
            env=os.environ
            | {name: setting[name] for name in ("PYTHONHASHSEED", "LC_ALL", "TZ")}
            | {"PYTHONPATH": path},
            umask=setting["umask"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (setting, done.stderr)
        assert tree(place) == conversion.expected, setting
        shutil.rmtree(place)
    torture_result("different workers, locale, clock, umask, directory", trials=trials, failures=0, seed=seed)
