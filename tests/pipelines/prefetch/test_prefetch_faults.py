"""Faults while prefetching: the stated error, no hang; no process, thread, descriptor or memory is left."""

import errno
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import pytest

from shardfeed.errors import StorageError, WorkerLostError
from shardfeed.pipelines.prefetch import Prefetcher, prefetch_processes, prefetch_threads

import prefetch_producers as producers
from processes import AFTER_CTRL_C, HANGS, descendants, processes, until, until_gone
from repository import ROOT, SUPPORT

multiprocessing.set_forkserver_preload(["shardfeed.pipelines.prefetch.process_workers", "prefetch_producers"])

MAKERS: dict[str, Callable[..., Prefetcher]] = {
    "threads": prefetch_threads,
    "spawn": prefetch_processes,
    "forkserver": partial(prefetch_processes, start_method="forkserver"),
}
pytestmark = pytest.mark.timeout(150)  # the alarm clock, behind HANGS


def held() -> dict[str, set[str]]:
    """Resources held by this process and its children, without the servers of multiprocessing itself, which stay."""
    gc.collect()
    return {
        "processes": {str(pid) for pid, each in descendants(os.getpid()).items() if "_tracker" not in each.command},
        # Datasets of tests before this one may still read ahead, and start a thread when they come to it.
        "threads": {name for t in threading.enumerate() if not (name := t.name).startswith("shardfeed-decode")},
        "descriptors": {f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}" for fd in descriptors()},
        "mappings": {line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd" in line},
        # Other programs of this machine use /dev/shm too, such as fetchers of other tests: names of Python and torch.
        "shm": {name for name in os.listdir("/dev/shm") if name.startswith(("psm_", "sem.", "torch_"))},
    }


def descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    before = held()
    yield
    until_gone(lambda: {what: now - before[what] for what, now in held().items() if now - before[what]}, 0.05)


@pytest.fixture(params=MAKERS)
def prefetch(request: pytest.FixtureRequest, nothing_left: None) -> Callable[..., Prefetcher]:
    return MAKERS[request.param]


@pytest.fixture(params=["spawn", "forkserver"])
def in_processes(request: pytest.FixtureRequest, nothing_left: None) -> Callable[..., Prefetcher]:
    return MAKERS[request.param]


@pytest.mark.parametrize("how", ["break", "close", "del", "with"])
@pytest.mark.long
def test_workers_end_when_an_iteration_is_left_early(prefetch: Callable[..., Prefetcher], how: str) -> None:
    batches = prefetch([partial(producers.endless, shape=(100_000,))] * 2, buffer=3)
    iterator = iter(batches)
    for each in range(6):
        assert int(next(iterator)[0]) == each // 2
    if how == "with":
        with batches:
            pass
    elif how == "close":
        batches.close()
    elif how == "del":
        del batches, iterator
    else:
        del iterator  # as a `for` loop does that is left


@pytest.mark.parametrize("at", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 4))])
def test_a_killed_worker(in_processes: Callable[..., Prefetcher], at: int) -> None:
    found = []
    batches = in_processes([partial(producers.dies, at=at)] * 2)
    with pytest.raises(WorkerLostError, match=r"producers\[1\].*SIGKILL.*memory ran out") as caught:
        for each in batches:
            found.append(each.tolist())
    assert caught.value.exit_code == 5
    assert found == [[number, index] for index in range(at) for number in (0, 1)] + [[0, at]]


@pytest.mark.long
def test_a_killed_worker_whose_child_lives_on(nothing_left: None) -> None:
    """The child holds the worker's connection open, so that it does not end."""
    with pytest.raises(WorkerLostError, match="SIGKILL"):
        list(prefetch_processes([partial(producers.dies, at=2, orphan=True)] * 2))
    for pid, child in descendants(os.getpid()).items():  # reparented, unless a subreaper is above
        assert "sleep 20" not in child.command or os.kill(pid, signal.SIGKILL) is None


def test_batches_before_the_kill_of_a_worker_are_right(in_processes: Callable[..., Prefetcher]) -> None:
    """At any moment: what comes before the error is right and in order."""
    for delay in (0.0, 0.005, 0.02, 0.05):
        batches = in_processes([partial(producers.endless, shape=(300_000,))])
        iterator = iter(batches)
        assert int(next(iterator)[7]) == 0
        (worker,) = [child for child in multiprocessing.active_children() if child.name.startswith("prefetch")]
        killer = threading.Timer(delay, os.kill, (worker.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(WorkerLostError):
            for index, each in enumerate(iterator, 1):
                assert each[0] == each[-1] == index
        killer.join()


def test_too_little_memory(nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before the first slot is made: the workers are told, from outside, that 10 MB are free."""
    patch = "import shardfeed.budget\nshardfeed.budget.memory_free = lambda root='/': 10_000_000\n"
    (tmp_path / "sitecustomize.py").write_text(patch)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    small, large = partial(producers.endless, shape=(50_000,)), partial(producers.endless, shape=(200_000,))
    with prefetch_processes([small] * 2) as batches:  # 2 x 4 x 0.4 MB
        assert len(next(iter(batches))) == 50_000
    says = r"12.8 MB are needed, 10.0 MB .* are free; .*smaller buffer"
    with prefetch_processes([large] * 2) as batches, pytest.raises(StorageError, match=says) as caught:
        next(iter(batches))  # 2 x 4 x 1.6 MB
    assert caught.value.errno == errno.ENOMEM


ONE_EPOCH = """
import sys
sys.path.insert(0, {here!r})
from prefetch_producers import large_stay
from shardfeed.pipelines.prefetch import prefetch_processes
print(sum(len(batch) > 0 for batch in prefetch_processes([large_stay] * 2)))
"""


def child_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def test_shm_may_be_tiny(nothing_left: None) -> None:
    """Docker's /dev/shm of 64 MB, or less: it is not used. A script without a guard for `__main__`."""
    mounted = "mount -t tmpfs -o size=4k tmpfs /dev/shm && df --output=size /dev/shm && exec "
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted + f'"{sys.executable}" -', "sh"]
    if subprocess.run([*command[:5], "mount -t tmpfs tmpfs /dev/shm"], capture_output=True).returncode:
        pytest.skip("no mounts allowed here")
    done = subprocess.run(
        command, input=ONE_EPOCH.format(here=str(SUPPORT)), env=child_environment(), capture_output=True, text=True
    )
    assert done.stdout.split() == ["1K-blocks", "4", "60"], done.stderr


SCRIPT = """
import os, sys, time
sys.path.insert(0, {here!r})
from functools import partial
import prefetch_producers as producers
from shardfeed.pipelines.prefetch import prefetch_processes, prefetch_threads

if __name__ == "__main__":
    batches = {call}
    held = []
    for batch in batches:
        held.append(batch)
        if len(held) == 4:
            print("taken", flush=True)
"""
IN_PROCESSES = "prefetch_processes([partial(producers.{kind})] * 2, start_method={method!r})"


def started(call: str, tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(here=str(SUPPORT), call=call))
    child = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
        start_new_session=True,
    )
    assert child.stdout.readline() == "taken\n", child.communicate()[1]
    return child


def of_session(session: int) -> list[int]:
    return [pid for pid, each in processes().items() if each.session == session]


def gone(session: int) -> None:
    try:
        until_gone(lambda: of_session(session))
    finally:
        for pid in of_session(session):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize(
    "call",
    [
        "prefetch_threads([partial(producers.endless, pause=0.1)] * 2)",
        IN_PROCESSES.format(kind="endless, pause=0.1", method="spawn"),
        IN_PROCESSES.format(kind="endless, pause=0.1", method="forkserver"),
    ],
)
def test_control_c(call: str, tmp_path: Path, nothing_left: None) -> None:
    """To the whole group, as a terminal does: one traceback, of the consumer."""
    child = started(call, tmp_path)
    os.killpg(child.pid, signal.SIGINT)
    _, error = child.communicate(timeout=HANGS)
    assert child.returncode in AFTER_CTRL_C
    assert error.count("Traceback") == 1, error
    assert error.rstrip().endswith("KeyboardInterrupt")
    gone(child.pid)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("who", ["consumer", "all"])
@pytest.mark.parametrize("kind", ["endless", "spins"])
@pytest.mark.long
def test_kill_nine(who: str, kind: str, method: str, tmp_path: Path, nothing_left: None) -> None:
    """The consumer alone, also while a worker is at a batch without end; or everyone at once."""
    if kind == "spins" and who == "all":
        pytest.skip("the kernel does not care what they were at")
    call = IN_PROCESSES.format(kind=kind if kind == "endless" else "spins", method=method)
    if kind == "spins":  # gives one batch each, so the script would wait for more than two
        call = call.replace("* 2", "* 4")
    child = started(call, tmp_path)
    assert len(of_session(child.pid)) >= 3
    if who == "all":
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()
    gone(child.pid)
    child.communicate()


FORK = """
import os, sys, time
sys.path.insert(0, {here!r})
from functools import partial
import prefetch_producers as producers
from shardfeed.pipelines.prefetch import prefetch_processes

file = sys.argv[1]
batches = prefetch_processes([partial(producers.noting, file=file)])
next(iter(batches))  # and left: its worker ends
batches = prefetch_processes([partial(producers.noting, file=file)])
iterator = iter(batches)
next(iterator)
child = os.fork()
if child == 0:
    time.sleep(600)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
batches.close()
"""


@pytest.mark.parametrize("how", [pytest.param("close", marks=pytest.mark.long), "kill"])
def test_a_fork_of_the_consumer_holds_no_worker(how: str, tmp_path: Path, nothing_left: None) -> None:
    """It has a copy of whatever was open: the worker would not see that no one wants more."""
    script, file = tmp_path / "script.py", tmp_path / "noted"
    script.write_text(FORK.format(here=str(SUPPORT)))
    command = [sys.executable, str(script), str(file)]
    pipe = subprocess.PIPE
    consumer = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=child_environment())
    fork = int(consumer.stdout.readline())
    try:
        assert file.read_text().count("x") == 1
        if how == "kill":
            consumer.kill()
        else:
            consumer.stdin.close()
        until(lambda: file.read_text().count("x") == 2)  # its `finally` ran
    finally:
        os.kill(fork, signal.SIGKILL)
        consumer.stdout.close()
        consumer.wait()


@pytest.mark.long
def test_without_a_guard_for_main(tmp_path: Path, nothing_left: None) -> None:
    """A producer of the script itself makes workers run the script: said, not a storm of processes."""
    script = tmp_path / "script.py"
    script.write_text(
        "from shardfeed.pipelines.prefetch import prefetch_processes\n"
        "def produce(worker):\n    yield from [1, 2, 3]\n"
        "print(list(prefetch_processes([produce])))\n"
    )
    done = subprocess.run([sys.executable, str(script)], env=child_environment(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "WorkerLostError: producers[0]: its process ended with exit code 1; " in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert 'under `if __name__ == "__main__":`' in done.stderr
