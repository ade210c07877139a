"""Prefetching on a Ray cluster of two nodes, made on this machine, and what becomes of lost actors and nodes."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.pipelines.prefetch import prefetch_ray

import prefetch_producers as producers
from processes import AFTER_CTRL_C, until_gone
from repository import SUPPORT

ray = pytest.importorskip("ray")
from shardfeed import ray_cluster  # noqa: E402  # it needs Ray

pytestmark = pytest.mark.timeout(120)
EVERY = [[number, index] for index in range(6) for number in (0, 1)]


def nodes_of(worker: Any) -> Iterator[Any]:
    """Where it runs, again and again, in batches too large for a message."""
    for index in range(12):
        yield {"node": ray.get_runtime_context().get_node_id(), "image": np.full((300_000,), index)}


@pytest.fixture(scope="module")
def modules() -> Path:
    return SUPPORT


@pytest.mark.long
def test_an_address_is_connected_to_and_left(cluster: Any) -> None:
    assert not ray.is_initialized()
    with prefetch_ray([producers.counting] * 2, address=cluster.address) as batches:
        assert [each.tolist() for each in batches] == EVERY
        assert ray.is_initialized()
        with pytest.raises(UsageError, match="connected to"):
            iter(prefetch_ray([producers.counting], address="127.0.0.1:1"))
    assert not ray.is_initialized()


@pytest.mark.long
def test_who_leaves_last_takes_the_connection_along(cluster: Any) -> None:
    assert not ray.is_initialized()
    first, second = (prefetch_ray([producers.counting] * 2, address=cluster.address) for _ in range(2))
    with second:
        with first:
            running, iterator = iter(first), iter(second)
            assert next(running).tolist() == next(iterator).tolist() == EVERY[0]
        assert [each.tolist() for each in iterator] == EVERY[1:]
    assert not ray.is_initialized()


@pytest.mark.long
def test_a_connection_of_someone_else(cluster: Any) -> None:
    """Who shuts ours down and connects anew keeps theirs."""
    ours = ray_cluster.Cluster(cluster.address)
    assert ours.connected()
    ray.shutdown()
    assert not ours.connected()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        assert not ours.connected()
        ours.leave([])
        with prefetch_ray([producers.counting] * 2) as batches:
            assert [each.tolist() for each in batches] == EVERY
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@pytest.mark.parametrize(
    "address", ["ray://127.0.0.1:10001", "127.0.0.1", "127.0.0.1:many", "127.0.0.1:" + "9" * 5000, "\0:1"]
)
def test_invalid_ray_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        prefetch_ray([producers.counting], address=address)


def test_an_address_where_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray, which would try for minutes; and SIGTERM stays whose it was."""
    assert not ray.is_initialized()
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.delattr(ray, "init")
    with pytest.raises(WorkerLostError, match=r"no Ray cluster can be joined at 127.0.0.1:1: .*refused"):
        iter(prefetch_ray([producers.counting], address="127.0.0.1:1"))
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.long
def test_a_signals_handler_stays_when_a_cluster_is_joined(cluster: Any) -> None:
    """Ray's own would end the process on the spot, past every `finally`."""
    before = signal.getsignal(signal.SIGTERM)
    with prefetch_ray([producers.counting], address=cluster.address) as batches:
        iter(batches)
        assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.long
def test_a_lost_actor_begins_again(connected: Any, tmp_path: Path) -> None:
    """Nothing twice, nothing missing."""
    mortal = partial(producers.dies, at=3, once=str(tmp_path / "died"))
    says = r"producers\[1\]: its actor was lost after \d batches"
    with prefetch_ray([mortal] * 2) as batches, pytest.warns(RuntimeWarning, match=says):
        assert [each.tolist() for each in batches] == EVERY


@pytest.mark.long
def test_an_actor_that_is_lost_each_time(connected: Any) -> None:
    found = []
    with warnings.catch_warnings(), pytest.raises(WorkerLostError, match=r"producers\[1\].*4 times in a row"):
        warnings.simplefilter("ignore", RuntimeWarning)
        with prefetch_ray([partial(producers.dies, at=2)] * 2, buffer=1) as batches:
            for each in batches:
                found.append(each.tolist())
    assert found == [*EVERY[:4], [0, 2]]


@pytest.mark.long
def test_someone_else_shuts_ray_down(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said, not a wait without end."""
    with prefetch_ray([partial(producers.endless, pause=0.01)] * 2) as batches:
        iterator = iter(batches)
        next(iterator)
        actors = list(batches._workers._actors.values())
        monkeypatch.setattr(ray_cluster, "_current", lambda: None)
        with pytest.raises(WorkerLostError, match=r"Ray cluster: this process was disconnected"):
            for _ in iterator:
                pass
        monkeypatch.undo()
    for actor in actors:  # which would have ended with a connection that was really shut down
        ray.kill(actor)
    none_stays()


@pytest.mark.long
def test_arrays_are_where_they_lie(connected: Any) -> None:
    """Read-only, in the object store, and valid after the prefetcher is closed."""
    with prefetch_ray([partial(producers.large_stay, count=4)]) as batches:
        kept = list(batches)
    assert [int(each[-1]) for each in kept] == [0, 1, 2, 3]
    assert not kept[0].flags.writeable


SCRIPT = """
import sys
from functools import partial
import prefetch_producers as producers
from shardfeed.pipelines.prefetch import prefetch_ray

for number, _ in enumerate(prefetch_ray([partial(producers.endless, pause=0.05)] * 2, address=sys.argv[1])):
    if number == 4:
        print("taken", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.long
def test_the_end_of_the_consumer(connected: Any, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C gives one traceback, the others none; no process of it and no actor stays."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), connected.address]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    taken, actors = child.stdout.readline(), len(living_actors())
    os.killpg(child.pid, number)
    _, errors = child.communicate(timeout=60)
    assert (taken, actors) == ("taken\n", 2), errors
    assert child.returncode in (AFTER_CTRL_C if number is signal.SIGINT else (-number,)), errors
    assert errors.count("Traceback") == (number is signal.SIGINT), errors
    if number is signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
    none_stays()


def living_actors() -> list[str]:
    return [actor["State"] for actor in ray._private.state.actors().values() if actor["State"] != "DEAD"]


def none_stays() -> None:
    until_gone(living_actors)


@pytest.mark.long
def test_no_actor_stays_after_the_end(connected: Any) -> None:
    for _ in range(2):
        for each in prefetch_ray([partial(producers.endless, pause=0.01)] * 2):
            assert each[0] == 0
            break
    none_stays()


@pytest.mark.long
def test_a_killed_node(connected: Any) -> None:
    """The last test: it takes the second node away in the middle, with batches that lie there."""
    found: list[int] = []

    def take_all() -> bool:
        """Whether Ray spread the producers over both nodes, which is a wish to it: on a busy machine it may not."""
        found.clear()
        used = set()
        with prefetch_ray([nodes_of] * 4, buffer=2) as batches:
            for index, each in enumerate(batches):
                found.append(int(each["image"][-1]))
                used.add(each["node"])
                if index == 13:
                    if len(used) < 2:
                        return False
                    connected.remove_node(connected.second, allow_graceful=False)
        return True

    with pytest.warns(RuntimeWarning, match="its actor was lost"):
        assert any(take_all() for _ in range(10)), "the producers were never spread"
    assert found == [index for index in range(12) for _ in range(4)]


@pytest.mark.torture  # Ray takes a quarter of a minute to leave what is not there
def test_a_lost_head(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test: nothing is left of the cluster."""
    monkeypatch.setattr(ray_cluster, "_SILENCE", 1.0)
    with pytest.raises(WorkerLostError, match=r"Ray cluster .*: its head node has not answered for"):
        for number, _ in enumerate(prefetch_ray([partial(producers.endless, pause=0.01)] * 2)):
            if number == 3:
                connected.head_node.kill_gcs_server()
