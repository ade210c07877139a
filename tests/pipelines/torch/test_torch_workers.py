"""How many workers and batches ahead; what becomes of a run whose worker is killed."""

import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections import UserDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_transforms import slow_pid

from shardfeed import free_space as room
from shardfeed.errors import StorageError, UsageError, WorkerLostError
from shardfeed.pipelines import Global, crop
from shardfeed.pipelines.torch import random_resized_crop, torch_eval_loader, torch_loader, torch_predict_loader
from shardfeed.pipelines.torch import workers as torch_workers
from shardfeed.pipelines.torch.workers import WorkerPlan, Workers, batch_bytes, plan_workers, shared_memory_check
from shardfeed.readers import Dataset

from processes import AFTER_CTRL_C
from repository import SUPPORT


def test_workers_are_planned_by_cpus_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_workers, "cpu_budget", lambda: 12)
    monkeypatch.setattr(torch_workers, "memory_budget", lambda: 10**9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def plan(asked: int | Workers | None, size: int, ranks: int) -> tuple[int, int]:
        found = plan_workers(asked, size, ranks)
        assert not found.pin_memory
        return found.count, found.prefetch

    assert plan(None, 1000, 1) == plan(Workers(), 1000, 1) == (12, 2)
    assert plan(None, 1000, 8) == (1, 2)
    assert plan(None, 1000, 100) == (1, 2)
    assert plan(4, 25_000_001, 1) == (4, 1)  # 10 batches would be over a quarter
    assert plan(4, 25_000_000, 1) == (4, 2)
    assert plan(4, 13_000_000, 2) == (4, 1)
    assert plan(Workers(4, prefetch=5), 10**9, 1) == (4, 5)
    assert plan(Workers(prefetch=2), 10**9, 1) == (12, 2)
    assert plan(0, 10**9, 1)[0] == 0
    assert plan_workers(Workers(1, pin_memory=True, start_method="spawn"), 0, 1) == WorkerPlan(1, 2, True, "spawn")


def test_the_plan_counts_all_views_channels_and_shapes(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 workers have 6 batches in memory. The budget is four times that for one view of 48 x 48 pixels, not more."""
    monkeypatch.setattr(torch_workers, "memory_budget", lambda: 4 * 6 * (4 * 3 * 48 * 48))

    def ahead(**options: Any) -> int | None:
        workers = Workers(2, processes=True)
        return torch_loader(flowers["train"], batch_size=4, workers=workers, **options).prefetch_factor

    assert ahead(image_size=48) == ahead(views=[crop(48)], label=None) == 2
    assert ahead(image_size=49) == ahead(views=[crop(48), crop(1)]) == ahead(views=[crop(1), crop(48)], label=None) == 1
    assert ahead(image_transform=random_resized_crop(80, channels=1)) == 2
    assert ahead(order=Global(shapes=[(48, 48), (60_000, 1)])) == 2, "no image gets the other shape"
    assert ahead(order=Global(shapes=[(48, 49), (49, 48), (10, 10)])) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan_workers(-1, 0, 1), "count: got -1"),
        (lambda: plan_workers(10**30, 0, 1), "count: got 10+, expected an integer from 0 to 4,096"),
        (lambda: Workers(True), "count: got True"),
        (lambda: Workers(1.5), "count: got 1.5"),  # type: ignore[arg-type]
        (lambda: Workers(2, prefetch=0), "prefetch: got 0"),
        (lambda: Workers(2, start_method="threads"), "start_method: got 'threads', expected 'fork' or 'spawn' or"),
    ],
)
def test_invalid_workers_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def planned(count: int, prefetch: int) -> WorkerPlan:
    return WorkerPlan(count, prefetch, pin_memory=False, start_method=None)


def test_room_in_shared_memory() -> None:
    state = os.statvfs(torch_workers.SHARED)
    whole = state.f_blocks * state.f_frsize
    check = shared_memory_check(planned(2, 2), 1)
    assert check is not None
    assert check(1000) == 3
    assert shared_memory_check(planned(0, 2), 1) is None
    for workers, size, ranks in [(planned(2, 2), whole // 6 + 4096, 1), (planned(1, 1), whole // 30 + 4096, 10)]:
        check = shared_memory_check(workers, ranks)
        assert check is not None
        with pytest.raises(StorageError, match=r"/dev/shm: .*prefetch=1"):
            check(size)


def test_free_memory_counts_as_room_in_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No quarter of it must be left, however little is needed; what batches take since is not counted twice."""
    monkeypatch.setattr(room, "memory_budget", lambda: 10**9)
    monkeypatch.setattr(room, "memory_free", lambda: 60_000)
    made = shared_memory_check(planned(2, 2), 1)
    monkeypatch.setattr(room, "memory_free", lambda: 0)
    check = pickle.loads(pickle.dumps(made))
    assert check(7_500) == 3  # 6 batches, and 2 more if each worker keeps 3 and fills another one
    assert check(7_501) == check(10_000) == 0  # 6 batches
    with pytest.raises(StorageError, match=r"60.0 kB are needed, 60.0 kB are free of the available memory; "):
        check(10_001)


def test_room_is_for_the_largest_shape(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only for that of the first batch: three are in memory."""
    options: dict[str, Any] = {"batch_size": 4, "order": Global(shapes=[(9, 12), (340, 400)])}
    first = next(iter(torch_loader(flowers["train"], workers=0, **options)))[0]
    assert first.shape[2:] == (9, 12)
    monkeypatch.setattr(room, "memory_budget", lambda: 10**9)
    workers = Workers(1, prefetch=1, processes=True)
    for free, refused in ((3 * 4 * 3 * 340 * 400 + 1000, False), (3 * 4 * 3 * 340 * 400 - 1000, True)):
        monkeypatch.setattr(room, "memory_free", lambda free=free: free)
        with pytest.raises(StorageError, match=r"/dev/shm: 4\.9 MB are needed") if refused else nullcontext():
            next(iter(torch_loader(flowers["train"], workers=workers, **options)))


def test_the_size_of_a_batch() -> None:
    nest = {"a": torch.zeros(3, 2), "b": [torch.zeros(5, dtype=torch.uint8), ("text", 1)]}
    assert batch_bytes(nest) == 29
    assert batch_bytes([UserDict(x=np.zeros(3)), (np.zeros(2, np.int16),)]) == 28


# With a GPU, a thread of PyTorch's takes the batches of workers, to pin them, and ends with an error of theirs.
pinning_ends = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pinning_ends
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("method", "place"),
    [
        ("fork", "step"),
        pytest.param("spawn", "step", marks=pytest.mark.long),
        pytest.param("forkserver", "next", marks=pytest.mark.long),  # which gets the signal, instead of the trainer
    ],
)
def test_a_killed_worker_ends_the_run(method: str, place: str, flowers: Dataset) -> None:
    """The error is the same in the user's own code, where PyTorch's handler of the signal raises it."""
    workers = Workers(2, start_method=method)
    loader = torch_loader(flowers["train"], batch_size=8, transform=slow_pid, workers=workers)
    for _ in range(2):
        where = "next"
        with pytest.raises(WorkerLostError, match=r"^DataLoader worker [\d, ]+: .*SIGKILL; .*fewer workers"):
            for pids in loader:
                with suppress(ProcessLookupError):  # it made this batch before it was killed
                    os.kill(int(pids[0]), signal.SIGKILL)
                where = "step"
                while place == "step":
                    time.sleep(0.01)
                where = "next"
        assert where == place
    assert len(list(loader)) == len(loader)  # by workers of their own
    assert not [name for name in Path("/dev/shm").iterdir() if name.name.startswith(f"torch_{os.getpid()}_")]


@pinning_ends
@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [torch_eval_loader, torch_predict_loader])
def test_a_worker_killed_between_two_iterations(make: Any, flowers: Dataset) -> None:
    loader = make(flowers["validation"], batch_size=8, image_size=16, workers=Workers(2, processes=True))
    assert len(list(loader)) == len(loader)
    with pytest.raises(WorkerLostError, match=r"^DataLoader worker \d+: .*SIGKILL; .*fewer workers"):
        os.kill(loader._iterator._workers[1].pid, signal.SIGKILL)
        time.sleep(100)  # in the user's code
    assert len(list(loader)) == len(loader)


def _exits(samples: Any) -> None:
    os._exit(3)


def _crashes(samples: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _killed(samples: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pinning_ends
@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", ["collate_fn", "image_transform"])
@pytest.mark.parametrize(
    ("end", "message"),
    [
        (_exits, "its process ended with exit code 3; its stderr may say why"),
        (_crashes, "its process ended by signal SIGSEGV; its stderr may say why"),
        (_killed, "its process ended by signal SIGKILL; usually because memory ran out: use fewer workers"),
    ],
)
def test_why_a_worker_ended_in_the_users_function(
    place: str, end: Callable[..., None], message: str, flowers: Dataset
) -> None:
    options: dict[str, Any] = {"image_size": 16, "collate_fn": end} if place == "collate_fn" else {place: end}
    loader = torch_loader(flowers["train"], batch_size=8, workers=1, **options)
    with pytest.raises(WorkerLostError, match=rf"^DataLoader worker \d+: {message}$"):
        next(iter(loader))


PROGRAM = """
import os, signal, sys
import shardfeed
from shardfeed.pipelines.torch import Workers, torch_loader

def top(image): return image.resize((8, 8))
def killed(image): os.kill(os.getpid(), signal.SIGKILL)
def crashed(image): os.kill(os.getpid(), signal.SIGSEGV)

def main(method, data):
    class Local:
        def __call__(self, image): return image
    workers = Workers(1, start_method=method)
    for _ in torch_loader(shardfeed.open(data)["train"], batch_size=8, workers=workers, {transform}): pass
    print("done")

if {guard}:
    main({method!r}, {data!r})
"""
FORK_SERVER = """
from multiprocessing import spawn

prepare = spawn.get_preparation_data


def imports_main(name):
    data = prepare(name)
    return data | {"main_path": data["init_main_from_path"]} if name == "ignore" else data


spawn.get_preparation_data = imports_main  # as from Python 3.12.8 and 3.13.1 on
"""


QUICK = ("fork server", "local class", "typed")
GUARD = '__name__ == "__main__"'
LAST = {
    # how the program is started, the start method, its condition, its transform, and its last line
    "no guard": ("file", "forkserver", "True", "image_size=16", "WorkerLostError: DataLoader .*; put the code .* if"),
    "no guard, spawn": ("file", "spawn", "True", "image_size=16", "WorkerLostError: DataLoader .*; put the code .* if"),
    "fork server": ("file", "server", "True", "image_size=16", "WorkerLostError: fork server: .*; put the code .* if"),
    "with guard": ("file", "server", GUARD, "image_transform=top", "done$"),
    "local class": (
        "file",
        "spawn",
        GUARD,
        "image_transform=Local()",
        r"UsageError: workers: a transform, batch_transform .*: AttributeError: .*\.Local",
    ),
    "lambda": (
        "file",
        "forkserver",
        GUARD,
        "transform=lambda *_: 0",
        "UsageError: workers: a transform, batch_transform .*lambda",
    ),
    "collate_fn": (
        "file",
        "spawn",
        GUARD,
        "image_size=16, collate_fn=Local()",
        "UsageError: workers: .* collate_fn .*Local",
    ),
    "typed": ("-c", "spawn", GUARD, "image_transform=top", "UsageError: workers: .* notebook"),
    "typed, ours": ("-c", "forkserver", GUARD, "image_size=16", "done$"),
    "from a pipe": ("-", "spawn", GUARD, "image_size=16", "UsageError: workers: .* from a pipe"),
    "killed": ("file", "forkserver", GUARD, "image_transform=killed", "WorkerLostError: .* SIGKILL; .* memory "),
    "crashed": ("file", "forkserver", GUARD, "image_transform=crashed", "WorkerLostError: .* SIGSEGV; "),
    "exit": ("file", "spawn", GUARD, "image_transform=sys.exit", "WorkerLostError: .* exit code 1; "),
}


@pytest.mark.parametrize("case", [pytest.param(k, marks=() if k in QUICK else pytest.mark.long) for k in LAST])
def test_a_program_whose_workers_cannot_work_says_why(case: str, flowers: Dataset, tmp_path: Path) -> None:
    """In the last line; above it are the lines of one traceback."""
    run, method, guard, transform, last = LAST[case]
    if method == "server":  # which imports the script itself
        method = "forkserver"
        (tmp_path / "sitecustomize.py").write_text(FORK_SERVER)
    text = PROGRAM.format(transform=transform, guard=guard, method=method, data=flowers.directory)
    (tmp_path / "train.py").write_text(text)
    arguments = {"file": ["train.py"], "-c": ["-c", text], "-": ["-"]}[run]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        input=text if run == "-" else "",
        capture_output=True,
        text=True,
        timeout=110,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    lines = [line for line in done.stderr.splitlines() if "resource_tracker" not in line]  # of Python, at its end
    lines = lines or done.stdout.splitlines()
    assert re.match(rf"(shardfeed\.errors\.)?{last}", lines[-1]), done.stderr
    assert len(lines) < 25, done.stderr
    assert done.stderr.count("Traceback") == (last != "done$")


class OfAKilledWorker:
    """A part of a batch that its worker cannot hand over any more, as memory that is shared."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refused, ()


def _refused() -> None:
    raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def _dropped(record: Mapping[str, Any], seed: int) -> int:
    raise ConnectionResetError(errno.ECONNRESET, "of a server that the transform asks")


@pinning_ends
def test_a_batch_of_a_killed_worker(flowers: Dataset) -> None:
    """PyTorch raises one of several errors, depending on the moment; only an error of the worker is translated."""
    options: Any = {"batch_size": 8, "workers": 1}
    loader = torch_loader(flowers["train"], image_size=16, collate_fn=lambda samples: OfAKilledWorker(), **options)
    with pytest.raises(WorkerLostError, match=r"^DataLoader worker: its process ended; its stderr may say why"):
        next(iter(loader))
    with pytest.raises(ConnectionResetError, match="of a server"):
        next(iter(torch_loader(flowers["train"], transform=_dropped, **options)))


CTRL_C = """
import sys, time
import shardfeed
from loader_transforms import slow_pid
from processes import AFTER_CTRL_C
from shardfeed.pipelines.torch import Workers

if __name__ == "__main__":
    split = shardfeed.open(sys.argv[1])["train"]
    workers = Workers(2, start_method=sys.argv[2])
    loader = shardfeed.torch_loader(split, batch_size=4, transform=slow_pid, workers=workers, start_step=0)
    print("starting", flush=True)
    batches = iter(loader)
    print("started", flush=True)
    next(batches)
    print("waiting", flush=True)
    for batch in batches: pass
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "moment", ["started", *(pytest.param(m, marks=pytest.mark.long) for m in ("starting", "waiting"))]
)
@pytest.mark.parametrize(
    "method", ["spawn", *(pytest.param(m, marks=pytest.mark.long) for m in ("fork", "forkserver"))]
)
def test_ctrl_c_gives_one_traceback(method: str, moment: str, flowers: Dataset, tmp_path: Path) -> None:
    """Only the trainer prints one: workers, even while they import, ignore the signal that the whole group gets."""
    script = tmp_path / "trainer.py"
    script.write_text(CTRL_C)
    program = [sys.executable, str(script), flowers.directory, method]
    environment = os.environ | {"PYTHONPATH": str(SUPPORT)}
    options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(program, start_new_session=True, **options) as trainer:
        assert moment in iter(lambda: trainer.stdout.readline().strip(), "")
        os.killpg(trainer.pid, signal.SIGINT)
        errors = trainer.communicate()[1]  # until the last worker has closed it
    assert (errors.count("Traceback"), errors.splitlines()[-1]) == (1, "KeyboardInterrupt"), errors
    assert trainer.returncode in AFTER_CTRL_C


TRAINER = """
import multiprocessing, sys, time
import shardfeed
from shardfeed.pipelines.torch import Workers

if __name__ == "__main__":
    split = shardfeed.open(sys.argv[1])["train"]
    workers = Workers(2, start_method=sys.argv[2])
    batches = iter(shardfeed.torch_loader(split, batch_size=4, image_size=16, workers=workers))
    next(batches)
    print(*(worker.pid for worker in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "method", ["forkserver", *(pytest.param(each, marks=pytest.mark.long) for each in ("fork", "spawn"))]
)
def test_no_worker_outlives_a_killed_trainer(method: str, flowers: Dataset, tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    program = [sys.executable, str(script), flowers.directory, method]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as trainer:
        workers = [Path("/proc", pid.decode()) for pid in trainer.stdout.readline().split()]
        assert len(workers) == 2
        assert all(worker.exists() for worker in workers)
        trainer.kill()
    while any(worker.exists() for worker in workers):
        time.sleep(0.1)  # until the timeout
