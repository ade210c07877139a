"""The contract of prefetching, over threads, processes and Ray."""

import gc
import itertools
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.pipelines.prefetch import Prefetcher, Worker, prefetch_processes, prefetch_ray, prefetch_threads
from shardfeed.pipelines.prefetch.prefetcher import WaitTimes
from shardfeed.pipelines.prefetch.producers import Failure, Yielded, items_of, make_workers

import prefetch_producers as producers
from processes import HANGS, until
from repository import SUPPORT

COUNTS, batch, tag = producers.COUNTS, producers.batch, producers.tag

multiprocessing.set_forkserver_preload(["shardfeed.pipelines.prefetch.process_workers", "prefetch_producers"])

MAKERS: dict[str, Callable[..., Prefetcher]] = {
    "threads": prefetch_threads,
    "spawn": prefetch_processes,
    "forkserver": partial(prefetch_processes, start_method="forkserver"),
    "ray": prefetch_ray,
}


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        here = str(SUPPORT)
        patch.setenv("PYTHONPATH", here + os.pathsep + os.environ.get("PYTHONPATH", ""))
        for tries_left in (2, 1, 0):  # Ray gives its node 30 seconds, which a busy machine may not
            try:
                ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
                break
            except Exception:
                ray.shutdown()
                if not tries_left:
                    raise
        yield
        ray.shutdown()


@pytest.fixture(params=["threads", "spawn", "forkserver", pytest.param("ray", marks=pytest.mark.long)])
def prefetch(request: pytest.FixtureRequest) -> Callable[..., Prefetcher]:
    if request.param == "ray":
        request.getfixturevalue("ray_here")
    return MAKERS[request.param]


# Where the code is the same for all, or nearly: starting an interpreter for each worker takes half a second.
quick = pytest.mark.parametrize("prefetch", ["threads", "forkserver"], indirect=True)
_RAY = pytest.param("ray", marks=pytest.mark.long)
quick_and_ray = pytest.mark.parametrize("prefetch", ["threads", "forkserver", _RAY], indirect=True)


def in_turn(counts: tuple[int, ...]) -> list[tuple[int, int]]:
    """(producer, index), round robin over those that have not ended."""
    longest = max(counts)
    return [(number, index) for index in range(longest) for number in range(len(counts)) if index < counts[number]]


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert found.flags.f_contiguous == expected.flags.f_contiguous or not expected.flags.forc
    else:
        assert found == expected


def test_ordered_batches_come_once_in_turn(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.several] * 4, buffer=2) as batches:
        for _ in range(2):  # the workers of one epoch make the next
            iterator = iter(batches)
            found = list(iterator)
            assert [tag(each) for each in found] == in_turn(COUNTS)
            for each in found:
                assert_same(each, batch(*tag(each)))
            assert next(iterator, None) is None
            assert batches.statistics().batches == sum(COUNTS)


def test_unordered_batches_come_once(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.several] * 4, ordered=False) as batches:
        found = [tag(each) for each in batches]
    assert Counter(found) == Counter(in_turn(COUNTS))
    for number in range(4):
        assert [index for producer, index in found if producer == number] == list(range(COUNTS[number]))


@pytest.mark.long
@quick
def test_as_completed_does_not_wait_for_the_slow(prefetch: Callable[..., Prefetcher]) -> None:
    pauses = (0.0, 0.6)
    with prefetch([partial(producers.sleeper, pauses=pauses)] * 2, ordered=False) as batches:
        first = [int(each[0]) for each, _ in zip(batches, range(6), strict=False)]
    assert first.count(0) >= 5


@quick_and_ray
def test_iterables_are_producers(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([[np.arange(2), np.arange(3)], (np.arange(4),)]) as batches:
        for _ in range(2):
            assert [len(each) for each in batches] == [2, 4, 3]


@quick_and_ray
def test_seeds_are_distinct_and_repeat(prefetch: Callable[..., Prefetcher]) -> None:
    def expected(epoch: int, seed: int) -> list[tuple[Any, ...]]:
        return [
            (number, 2, epoch, *np.random.default_rng(worker.seed).integers(0, 2**62, 2))
            for number, worker in enumerate(make_workers(2, epoch, seed))
        ]

    with prefetch([producers.draws] * 2, seed=5) as batches:
        found = [[(*each[:3], *each[3]) for each in batches] for _ in range(2)]
    assert found == [expected(0, 5), expected(1, 5)]
    every = [tuple(row[3:]) for seed in range(5) for epoch in range(5) for row in expected(epoch, seed)]
    assert len(set(every)) == len(every) == 50


@quick_and_ray
def test_buffer_is_bounded(prefetch: Callable[..., Prefetcher], tmp_path: Path) -> None:
    """Ready batches, one finished that waits for room, and, while nothing is taken, no more."""
    file = tmp_path / "noted"
    with prefetch([partial(producers.noting, file=str(file))], buffer=3) as batches:
        iterator = iter(batches)
        for taken in (1, 2, 3):
            next(iterator)
            until(lambda least=taken + 3: len(file.read_text()) >= least)
            time.sleep(0.2)
            assert len(file.read_text()) <= taken + 4


@quick
def test_producers_are_closed(prefetch: Callable[..., Prefetcher], tmp_path: Path) -> None:
    file = tmp_path / "noted"
    for _ in prefetch([partial(producers.noting, file=str(file))]):
        break
    assert file.read_text().endswith("x")


@pytest.mark.parametrize("at", range(6))
def test_an_error_comes_in_its_turn(prefetch: Callable[..., Prefetcher], at: int) -> None:
    found = []
    with prefetch([producers.Raiser(at, by=1)] * 2) as batches:
        iterator = iter(batches)
        with pytest.raises(ValueError, match="no such batch") as caught:
            for each in iterator:
                found.append(tuple(each))
        assert next(iterator, None) is None
    assert found == [(number, index) for index in range(at) for number in range(2)] + [(0, at)]
    assert any("in producer 1 of 2" in note and "raise ERRORS" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ("Tricky", (producers.Tricky, RuntimeError), "1 and 2"),
        ("Unsendable", (producers.Unsendable, RuntimeError), "holds a lambda"),
        ("StopIteration", RuntimeError, "StopIteration"),
        ("SystemExit", WorkerLostError, "SystemExit"),
        ("KeyboardInterrupt", WorkerLostError, "KeyboardInterrupt"),
    ],
)
@quick
def test_errors_of_all_kinds(prefetch: Callable[..., Prefetcher], error: str, kind: Any, says: str) -> None:
    with prefetch([producers.Raiser(0, error)]) as batches, pytest.raises(kind, match=says):
        next(iter(batches))


def test_generator_exit_of_a_producer_is_an_error() -> None:
    """Nobody closed it: that is no end of its batches, nor of the thread that runs it."""

    def produce(worker: Worker) -> Iterator[int]:
        yield 1
        raise GeneratorExit

    batch, failure = items_of(produce, make_workers(1, 0, 0)[0])
    assert batch == Yielded(1)
    assert isinstance(failure, Failure)
    assert "ended with GeneratorExit" in str(failure.error)
    with prefetch_threads([produce]) as batches, pytest.raises(WorkerLostError, match="GeneratorExit"):
        list(batches)


@quick
@pytest.mark.parametrize("ordered", [True, False])
def test_threads_may_share_an_iteration(prefetch: Callable[..., Prefetcher], ordered: bool) -> None:
    found: list[tuple[int, int]] = []

    def take() -> None:
        found.extend(tuple(each.tolist()) for each in iterator)

    produce = partial(producers.sleeper, pauses=(0.0,) * 3, count=200)
    with prefetch([produce] * 3, ordered=ordered) as batches:
        iterator = iter(batches)
        threads = [threading.Thread(target=take, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANGS)
    assert sorted(found) == sorted((number, index) for number in range(3) for index in range(200))


@quick_and_ray
def test_after_an_error_the_next_epoch_runs(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.Raiser(1)]) as batches:
        for _ in range(2):
            with pytest.raises(ValueError, match="no such batch"):
                list(batches)


def test_iteration_after_one_left_early_starts_a_new_epoch(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.counting] * 2) as batches:
        for each in batches:
            assert each.tolist() == [0, 0]
            break
        old = iter(batches)
        next(old)
        assert [each.tolist() for each in batches] == [[number, index] for index in range(6) for number in (0, 1)]
        with pytest.raises(UsageError, match="iterated again"):
            next(old)
    with pytest.raises(UsageError, match="closed"):
        iter(batches)


@quick
def test_closed_while_iterated(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.counting]) as batches:
        iterator = iter(batches)
        kept = next(iterator)
    with pytest.raises(UsageError, match="closed"):
        next(iterator)
    assert kept.tolist() == [0, 0]


@pytest.mark.long
@quick_and_ray
def test_closed_by_another_thread(prefetch: Callable[..., Prefetcher]) -> None:
    """Whoever waits is told, and not when the batch comes."""
    batches = prefetch([partial(producers.sleeper, pauses=(3600.0,))])
    iterator = iter(batches)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            next(iterator)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    batches.close()
    thread.join(60)
    assert [type(error) for error in caught] == [UsageError]


@quick_and_ray
def test_batches_stay_while_kept(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([producers.large_stay] * 2, buffer=1) as batches:
        kept = list(batches)
        views = [each[10:20] for each in kept]
        del kept
        gc.collect()
        again = [each[:1].copy() for each in batches]
    assert [view.tolist() for view in views] == [
        [number * 1000 + index] * 10 for index in range(30) for number in (0, 1)
    ]
    assert [int(each[0]) for each in again] == [number * 1000 + index for index in range(30) for number in (0, 1)]


@pytest.mark.long
@quick
def test_who_is_the_bottleneck(prefetch: Callable[..., Prefetcher]) -> None:
    with prefetch([partial(producers.sleeper, pauses=(0.0, 0.1), count=8)] * 2) as batches:
        list(batches)
        slow = batches.statistics()
    assert slow.bottleneck == "producers"
    assert slow.waited > 0
    assert len(slow.waited_for) == 2
    with prefetch([partial(producers.sleeper, pauses=(0.0, 0.0), count=8)] * 2) as batches:
        for _ in batches:
            time.sleep(0.05)
        fast = batches.statistics()
    assert 0 <= fast.occupancy <= 1
    assert (fast.batches, fast.first_wait > 0) == (16, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([],), "got none"),
        ((itertools.repeat(producers.counting),), "got more, expected 1 to 4,096"),
        ((producers.counting,), "producers: got .*, expected a list"),
        ((np.zeros(3),), "producers: got .*, expected a list"),
        (([3],), "producers: got 3 in the list, expected a function or a list"),
        (([np.zeros(3)],), "callable or an iterable"),
        (([producers.batch],), "one argument"),
    ],
)
def test_arguments(arguments: tuple[Any, ...], says: str) -> None:
    for name in ("threads", "spawn"):
        with pytest.raises(UsageError, match=says):
            MAKERS[name](*arguments)


@pytest.mark.parametrize("options", [{"buffer": 0}, {"buffer": 1.5}, {"buffer": True}, {"seed": -1}, {"seed": None}])
def test_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        prefetch_threads([producers.counting], **options)
    with pytest.raises(UsageError, match="start_method"):
        prefetch_processes([producers.counting], start_method="fork")


def test_a_used_up_iterator_is_refused() -> None:
    worker = Worker(0, 1, 0, np.random.SeedSequence(0))
    with prefetch_threads([producers.counting(worker)]) as batches:
        assert len(list(batches)) == 6
        with pytest.raises(UsageError, match="cannot restart"):
            iter(batches)


@pytest.mark.long
def test_unpicklable_producers_are_refused(request: pytest.FixtureRequest) -> None:
    with pytest.raises(UsageError, match=r"producers\[1\]: cannot be sent to a worker.*top of a module"):
        prefetch_processes([producers.counting, lambda worker: []])
    request.getfixturevalue("ray_here")
    lock = threading.Lock()
    with pytest.raises(UsageError, match=r"producers\[0\]: cannot be sent to an actor"):
        prefetch_ray([lambda worker: [lock]])


def test_an_unpicklable_batch_is_an_error() -> None:
    with prefetch_processes([producers.holds_unsendable]) as batches:
        iterator = iter(batches)
        assert next(iterator).tolist() == [0, 1, 2]
        with pytest.raises(Exception, match=r"pickle.*lambda"):
            next(iterator)


def test_workers_keep_no_batch() -> None:
    """A copied batch is freed before the next is made: a worker that keeps batches grows by each of them."""
    with prefetch_processes([producers.alive_at_once]) as batches:
        assert [int(each[0]) for each in batches] == [0] * 12


def test_waits_are_counted_by_producer() -> None:
    """The first batch is apart; then the consumer takes 1 s a step and waits 0, 0.5 and 0.1 s."""
    waits = WaitTimes(2, buffer=4)
    now = 0.0
    waits.clock = lambda: now  # type: ignore[method-assign]
    assert waits.statistics().batches == 0
    assert waits.statistics().bottleneck == "consumer"
    for lane, step, wait, ready in [(0, 0.0, 3.0, 0.0), (1, 1.0, 0.0, 4.0), (0, 1.0, 0.5, 2.0), (1, 1.0, 0.1, 9.0)]:
        began = now + step
        now = began + wait
        waits.took(lane, began, ready)
    found = waits.statistics()
    assert (found.batches, found.first_wait) == (4, 3.0)
    assert found.mean_wait == pytest.approx(0.2)
    assert found.p99_wait == pytest.approx(0.5, rel=0.05)
    assert found.waited == pytest.approx(0.6 / 3.6)
    assert found.occupancy == pytest.approx((1 + 0.5 + 1) / 3)
    assert found.waited_for == pytest.approx((0.5, 0.1))
    assert found.bottleneck == "producers"
    assert "4 batches, waits of 200.00 ms" in str(found)
    assert "bottleneck: producers" in str(found)
