"""Producers of batches, the description of the worker that runs each, and the items that the worker sends.

A producer is a callable that takes a `Worker` and returns an iterable of batches (such as a generator function with one
argument), or an iterable itself, if it needs no seed. A batch is any nesting of dicts, tuples and lists of NumPy
arrays.
"""

import copy
import inspect
import itertools
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.processes import MOST_WORKERS


@dataclass(frozen=True)
class Worker:
    """The number of the worker that runs a producer, the epoch, and a seed that depends on both.

    Example:
        def producer(worker):
            random = np.random.default_rng(worker.seed)
            for number in range(worker.number, 100, worker.count):  # its share of 100 batches
                yield random.random((32, 8))
    """

    number: int  # 0 ... count - 1
    count: int
    epoch: int  # from 0: one more each time the prefetcher is iterated
    seed: np.random.SeedSequence  # `numpy.random.default_rng(worker.seed)`; no two workers or epochs share one


Producer = Callable[[Worker], Iterable[Any]] | Iterable[Any]


@dataclass(frozen=True)
class Ended:
    """A producer's batches have ended."""


@dataclass(frozen=True)
class Failure:
    """A producer or its worker failed. `trace` is the traceback; empty if `error` has one itself."""

    error: Exception
    trace: str = ""


@dataclass(frozen=True)
class Yielded:
    """A batch of a producer."""

    value: Any


Item = Yielded | Ended | Failure


def make_workers(count: int, epoch: int, seed: int) -> list[Worker]:
    """Make the `Worker` of each of `count` workers for an epoch: its number and its own seed."""
    return [
        Worker(number, count, epoch, np.random.SeedSequence(seed, spawn_key=(epoch, number))) for number in range(count)
    ]


def check_producers(producers: Iterable[Producer]) -> tuple[Producer, ...]:
    """Return the producers after checks that do not run them. Raises UsageError."""
    if isinstance(producers, np.ndarray):
        raise UsageError("producers", "got an array, expected a list of producers", "for example [producer] * 4")
    found = tuple(itertools.islice(producers, MOST_WORKERS + 1))
    if not 1 <= len(found) <= MOST_WORKERS:
        raise UsageError("producers", f"got {'more' if found else 'none'}, expected 1 to {MOST_WORKERS:,}")
    for number, producer in enumerate(found):
        place = f"producers[{number}]"
        if isinstance(producer, (np.ndarray, Mapping, str, bytes)) or not isinstance(producer, Callable | Iterable):
            problem = f"got a {type(producer).__name__}, expected a callable or an iterable of batches"
            raise UsageError(place, problem, "")
        if callable(producer):
            try:
                inspect.signature(producer).bind(None)
            except TypeError as error:
                remedy = "give it one argument, the Worker with its number and seed"
                raise UsageError(place, f"cannot be called with one argument: {error}", remedy) from None
            except ValueError:  # a builtin without a signature
                pass
    return found


def pickled(producers: Sequence[Producer], dumps: Callable[[Any], Any], receiver: str, remedy: str) -> list[bytes]:
    """Pickle each producer by `dumps` for its worker. Raises UsageError for one that does not pickle."""
    found = []
    for number, producer in enumerate(producers):
        try:
            found.append(bytes(dumps(producer)))
        except Exception as error:
            problem = f"cannot be sent to {receiver}: {type(error).__name__}: {error}"
            raise UsageError(f"producers[{number}]", problem, remedy) from error
    return found


def check_epoch(producers: Sequence[Producer], epoch: int) -> None:
    """Raise UsageError for an iterator that an earlier epoch has used up: it would be empty, silently."""
    for number, producer in enumerate(producers):
        if epoch and not callable(producer) and isinstance(producer, Iterator):
            problem = f"is an iterator, which cannot restart for epoch {epoch}"
            raise UsageError(f"producers[{number}]", problem, "pass the generator function instead of what it returned")


def items_of(producer: Producer, worker: Worker) -> Generator[Item, None, None]:
    """Each batch as a `Yielded`, then `Ended` or a `Failure`. Closing it closes a producer that is a generator."""
    batches: Iterator[Any] | None = None
    last: Item = Ended()
    given = False  # to the consumer, which may close this meanwhile
    try:
        batches = iter(producer(worker) if callable(producer) else producer)
        for value in batches:
            batch = Yielded(value)
            del value  # do not keep a batch while the next is made
            given = True
            yield batch
            given = False
            del batch
    except Exception as error:
        last = Failure(_as_raised(error), traceback.format_exc())
    except BaseException as error:  # SystemExit in a producer must not end the consumer, nor look like the end of data
        if given:  # closed; a GeneratorExit of the producer is treated like SystemExit
            if isinstance(batches, Generator):
                batches.close()
            raise
        lost = WorkerLostError(f"producers[{worker.number}]", f"ended with {type(error).__name__}: {error}")
        last = Failure(lost, traceback.format_exc())
    yield last


def _as_raised(error: Exception) -> Exception:
    """Return the error, or a replacement if raising it in the consumer's `next` would mean the end of data."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        changed = RuntimeError(f"a producer raised {type(error).__name__}")
        changed.__cause__ = error
        return changed
    return error


def portable(failure: Failure) -> Failure:
    """A failure that another process can read: an error that does not pickle is replaced by its description."""
    try:
        ForkingPickler.dumps(failure.error)
        whole = type(copy.copy(failure.error)) is type(failure.error)  # created again as unpickling does
    except Exception:
        whole = False
    if whole:
        return failure
    words = f"{type(failure.error).__module__}.{type(failure.error).__qualname__}: {failure.error}"
    return Failure(RuntimeError(f"a producer raised {words} (which does not pickle)"), failure.trace)
