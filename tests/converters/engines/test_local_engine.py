"""The engine's watch over its workers: lost ones, poisonous and endless images, orphans, signals."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import LocalWorkers
from shardfeed.converters.conversion import convert
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import StorageError, TooManyRejectedError, UsageError, WorkerLostError
from shardfeed.schema import LABEL, Feature, Schema, image_features

from processes import HANGS, descendants, processes, until, until_gone
from repository import SUPPORT
from trees import tree

SCHEMA = Schema(image_features(sha256=False), {})


def task(directory: Path, number: int, images: list[object]) -> ShardTask:
    samples = tuple(Sample(b"%d-%d" % (number, i), image) for i, image in enumerate(images))  # type: ignore[arg-type]
    return ShardTask(str(directory), "train", number, 9, 0, samples, SCHEMA, ImageOptions())


def run(engine: LocalEngine, tasks: list[ShardTask]) -> dict[int, Receipt]:
    with engine:
        return {receipt.number: receipt for receipt in engine.run(iter(tasks))}


@pytest.fixture
def image(flowers_folder: Path) -> bytes:
    return (flowers_folder / "rose" / "0001.jpg").read_bytes()


def killed(signal_number: int) -> Callable[[], bytes]:
    """A picklable callable that ends its process: every time it is asked for the image."""
    return partial(signal.raise_signal, signal_number)  # type: ignore[return-value]


def test_no_more_workers_are_started_than_few_images_need(tmp_path: Path, image: bytes) -> None:
    with LocalEngine(3) as engine:
        engine.start(10)
        assert len(engine._workers) == 1
        receipts = engine.run(task(tmp_path, n, [image] * n) for n in range(7))
        assert {receipt.number: receipt.info.records for receipt in receipts} == {n: n for n in range(7)}
        assert engine.done() == (21, 21 * len(image))
        assert len(engine._workers) == 3
        engine.start(1500)
        assert len(engine._workers) == 3
    assert engine.warnings == []


def test_few_images_are_written_by_a_fork_where_that_is_safe(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Without the other processes that spawn takes, one of them to import everything again; to the same bytes."""
    script = """
import os, sys, threading
from multiprocessing import get_context
from shardfeed.converters import LocalWorkers, convert
methods = []
for method in ("fork", "spawn"):
    context = get_context(method)
    start = context.Process.start
    context.Process.start = lambda self, start=start, method=method: methods.append(method) or start(self)
folder, out = sys.argv[1:]
convert(folder, out + "/a", workers=LocalWorkers(start_method="auto"))
lock = threading.Lock()
lock.acquire()
other = threading.Thread(target=lock.acquire)
other.start()
convert(folder, out + "/b", workers=LocalWorkers(start_method="auto"))
lock.release()
convert(folder, out + "/c")
print(methods)
"""
    command = [sys.executable, "-c", script, str(folder(2)), str(tmp_path)]
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=one_thread, capture_output=True, text=True, check=True)
    assert done.stdout == "['fork', 'spawn', 'spawn']\n"
    shards = [next((tmp_path / name).rglob("*.tfrecord")).read_bytes() for name in "abc"]
    assert shards[0] == shards[1] == shards[2]


def test_a_worker_has_its_next_shard_before_a_receipt_is_handed_out(tmp_path: Path, image: bytes) -> None:
    """Keeping a receipt takes the disk a while. None is made before it is kept: that might raise, and takes memory."""
    made = []

    def tasks() -> Iterator[ShardTask]:
        for number in range(6):
            made.append(number)
            yield task(tmp_path, number, [image])

    with LocalEngine(1) as engine:
        for done, receipt in enumerate(engine.run(tasks())):
            assert receipt.number == done
            given = engine._workers[0].task
            assert given is None if done == 5 else given is not None and given.number == done + 1
            assert made == list(range(min(6, done + 2)))


@pytest.mark.promise(8)
def test_an_image_that_kills_its_worker_is_condemned(tmp_path: Path, image: bytes) -> None:
    """RELIABILITY 8."""
    numbers = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
    tasks = [task(tmp_path, n, [image, killed(number), image]) for n, number in enumerate(numbers)]
    receipts = run(LocalEngine(2), [*tasks, task(tmp_path, 3, [image] * 2)])
    rejected = {n: [(r.key, r.what) for r in receipt.rejected] for n, receipt in receipts.items()}
    assert rejected == {**{n: [(b"%d-1" % n, RejectCode.DECODER_CRASH.value)] for n in range(3)}, 3: []}
    assert [receipts[n].info.records for n in range(4)] == [2] * 4


@pytest.mark.long
@pytest.mark.promise(9)
def test_an_endless_image_is_condemned(tmp_path: Path, image: bytes) -> None:
    """RELIABILITY 9."""
    engine = LocalEngine(1, image_timeout=2.0)
    receipts = run(engine, [task(tmp_path, 0, [image, partial(time.sleep, 3600), image])])
    assert [(r.key, r.what) for r in receipts[0].rejected] == [(b"0-1", RejectCode.DECODE_TIMEOUT.value)]
    assert receipts[0].info.records == 2
    assert len(engine.warnings) == 2


@pytest.mark.promise(7)
def test_a_worker_lost_once_costs_nothing(tmp_path: Path, image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 7: as the kernel does when memory is short."""
    (tmp_path / "image").write_bytes(image)
    (tmp_path / "killonce.py").write_text(
        "import os, signal\nfrom pathlib import Path\n"
        "def once(marker):\n"
        "    flag = marker + '.seen'\n"
        "    if not os.path.exists(flag):\n"
        "        Path(flag).touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return Path(marker).read_bytes()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import killonce  # pyright: ignore[reportMissingImports]  # written three lines above

    engine = LocalEngine(2)
    image_once = partial(killonce.once, str(tmp_path / "image"))
    receipts = run(engine, [task(tmp_path, 0, [image, image_once, image]), task(tmp_path, 1, [image] * 5)])
    assert receipts[0].rejected == ()
    assert receipts[0].info.records == 3
    assert receipts[1].info.records == 5
    assert len(engine.warnings) == 1
    assert "was lost at image 1 of train-00000-of-00009 (exit code -9)" in engine.warnings[0]


@pytest.mark.long
@pytest.mark.promise(7)
def test_a_shard_that_loses_too_many_workers(tmp_path: Path) -> None:
    images: list[object] = [killed(signal.SIGKILL)] * 3
    receipts = run(LocalEngine(1), [task(tmp_path, 0, images)])
    assert len(receipts[0].rejected) == 3
    with pytest.raises(WorkerLostError, match="lost 8 workers"):
        # The worker dies while it reads the task, at no image: nothing can be condemned.
        run(LocalEngine(1), [task(tmp_path, 0, [Deadly()])])


class Deadly:
    """Kills whoever unpickles it."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return signal.raise_signal, (signal.SIGKILL,)


def test_what_cannot_be_sent_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    module = types.ModuleType("only_here")
    module.load = types.FunctionType(compile("b'x'", "only_here", "eval"), {}, "load")  # type: ignore[attr-defined]
    module.load.__module__ = module.load.__qualname__ = "only_here"  # type: ignore[attr-defined]
    module.load.__qualname__ = "load"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(UsageError, match=r"cannot be pickled for workers.*define the class or function in a module"):
        run(LocalEngine(1), [task(tmp_path, 0, [module.load])])  # type: ignore[attr-defined]


def test_a_workers_error_keeps_its_class_and_trace(tmp_path: Path, image: bytes) -> None:
    with pytest.raises(StorageError, match="No such file or directory") as caught:
        run(LocalEngine(2), [task(tmp_path / "none", 0, [image])])
    assert caught.value.exit_code == 5
    assert "write_shard" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("make", [LocalEngine, LocalWorkers])
@pytest.mark.parametrize(
    ("workers", "method"),
    [(1, "fork"), (1, "x"), *((count, "spawn") for count in (0, 4097, 10**30, 1.5, float("nan"), "2", True))],
)
def test_arguments_are_checked(make: Callable[..., Any], workers: Any, method: str) -> None:
    with pytest.raises(UsageError):
        make(workers, method)


def write_slow_conversion(folder: Path, out: Path) -> None:
    """slow.py: a conversion that takes minutes, as each image sleeps."""
    script = (
        "import sys, time\nfrom functools import partial\n"
        "from shardfeed.converters import LocalWorkers, Sample, convert\nfrom shardfeed.schema import Schema\n"
        "class Slow:\n"
        "    schema = Schema({})\n"
        "    def __len__(self): return 100\n"
        "    def __getitem__(self, i): return Sample(b'%d' % i, partial(time.sleep, 5))\n"
        f"convert(Slow(), {str(out)!r}, workers=LocalWorkers(3, sys.argv[1]), shards=4)\n"
    )
    (folder / "slow.py").write_text(script)


@pytest.mark.promise(6)
@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.long), "auto"])
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path, method: str) -> None:
    """RELIABILITY 6: a SIGKILL that only the parent gets."""
    write_slow_conversion(tmp_path, tmp_path / "out")
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, str(tmp_path / "slow.py"), method], env=one_thread)
    expected = 3 if method == "auto" else 4  # three workers, and the resource tracker or the fork server
    until(lambda: len(descendants(process.pid)) >= expected)
    time.sleep(0.3)
    below = descendants(process.pid)
    process.kill()
    process.wait()
    until_gone(lambda: below.keys() & processes())


@pytest.mark.long
@pytest.mark.promise(5)
@pytest.mark.parametrize(
    ("images", "options", "count"), [(300, ["--workers", "2"], 3), (30, ["--shards", "30"], 1)], ids=["spawn", "fork"]
)
def test_ctrl_c_while_workers_start_prints_one_line(
    folder: Callable[..., Path], tmp_path: Path, images: int, options: list[str], count: int
) -> None:
    root = folder(images)
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(root), str(tmp_path / "out"), *options]
    interrupted = 0
    for _ in range(100):
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
        until(lambda run=process: len(descendants(run.pid)) >= count or run.poll() is not None, 0.002)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=HANGS)
        if (tmp_path / "out").exists():  # it was there before the signal
            shutil.rmtree(tmp_path / "out")
            continue
        assert (process.returncode, errors) == (130, "shardfeed: interrupted; run the same command again to resume\n")
        interrupted += 1
        if interrupted == 5:
            return
    pytest.fail("workers were hardly ever met while they started")


@pytest.mark.promise(5)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_a_signal_stops_the_command(folder: Callable[..., Path], tmp_path: Path, number: int, code: int) -> None:
    """RELIABILITY 5: whole process group or parent alone, workers gone, resumable."""
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(folder(20)), str(tmp_path / "out")]
    command += ["--shards", "12", "--workers", "2", "--quiet"]
    hangs = {"PYTHONPATH": str(SUPPORT / "deaths"), "DEATH_AT": "open rose/0001.jpg", "DEATH_HOW": "hang"}
    process = subprocess.Popen(
        [*command, "--start-method", "spawn"],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | hangs,  # one worker never comes to an end: the signal is not late
    )
    receipts = tmp_path / ".out.staging" / "receipts"
    # A whole one: the signal may come before the name of a partial one is final.
    until(lambda: any(receipts.glob("*.json")))
    below = descendants(process.pid)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == code, errors
    assert "run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert not {pid for pid in below if os.path.exists(f"/proc/{pid}/exe")}
    assert not (tmp_path / "out").exists()
    assert any(receipts.iterdir())
    assert subprocess.run(command, check=False).returncode == 0


class Breaks:
    """A source that fails while its last shard is put together."""

    schema = Schema({LABEL: Feature("int64")}, {LABEL: ("a", "b")})

    def __init__(self, paths: list[Path], calls: int) -> None:
        self.paths, self.left = paths, calls

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Sample:
        self.left -= 1
        if not self.left:
            raise RuntimeError("the network is down")
        return Sample(b"%d" % i, self.paths[i].read_bytes(), {LABEL: i % 2})


@pytest.mark.usefixtures("worker_processes")
@pytest.mark.promise(4)
def test_what_is_done_is_kept_when_the_source_fails(folder: Callable[..., Path], tmp_path: Path) -> None:
    paths = sorted(folder(12).rglob("*.jpg"))
    whole = Breaks(paths, -1)
    convert(whole, tmp_path / "whole", shards=4, workers=1)
    calls = -1 - whole.left
    with pytest.raises(TooManyRejectedError, match=r"1 input rejected .*RuntimeError: the network is down") as caught:
        convert(Breaks(paths, calls - 1), tmp_path / "out", shards=4, workers=1)
    assert [noted.what for noted in caught.value.rejected] == ["E_SOURCE_ERROR"]
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / ".out.staging" / "receipts").iterdir())) == 4
    report = convert(Breaks(paths, -1), tmp_path / "out", shards=4, workers=1)
    assert report.kept == 3  # the shard without the sample is written again
    made, expected = (
        {name: data for name, data in tree(tmp_path / out).items() if name.endswith(".tfrecord")}
        for out in ("out", "whole")
    )
    assert made == expected
