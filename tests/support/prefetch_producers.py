"""Producers for the tests of prefetching, in a module that workers can import."""

import gc
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shardfeed.pipelines.prefetch import Worker

COUNTS = (5, 0, 3, 7)  # batches by producer


class Pair(NamedTuple):
    image: np.ndarray
    label: int


def batch(number: int, index: int) -> dict[str, Any]:
    """Every kind of thing a batch may hold, other for each producer and index."""
    rng = np.random.default_rng([number, index])
    image = rng.random((2, 4 + index, 3), np.float32)
    return {
        "image": image,
        "nested": (image.astype(np.uint8), [np.asfortranarray(image[0]), image[:, ::-1].transpose(2, 0, 1)]),
        "pair": Pair(rng.integers(0, 9, (0, 3)), index),
        "scalar": np.array(number * 1000 + index),
        "times": np.array(["2026-01-01", "NaT"], "datetime64[D]"),
        "names": np.array(["a", "bc" * index]),
        "objects": np.array([None, {"x": 1}], object),
        "masked": np.ma.masked_array(np.arange(3), mask=[0, 1, 0]),
        "record": np.zeros(2, [("a", "i4"), ("b", "f8")]),
        "text": "é",
        "none": None,
    }


def tag(found: dict[str, Any]) -> tuple[int, int]:
    """(producer, index) of a batch."""
    return divmod(int(found["scalar"]), 1000)


def several(worker: Worker) -> Iterator[Any]:
    for index in range(COUNTS[worker.number]):
        yield batch(worker.number, index)


def draws(worker: Worker) -> Iterator[Any]:
    yield worker.number, worker.count, worker.epoch, np.random.default_rng(worker.seed).integers(0, 2**62, 2)


def counting(worker: Worker) -> Iterator[np.ndarray]:
    for index in range(6):
        yield np.array([worker.number, index])


def endless(worker: Worker, pause: float = 0.0, shape: tuple[int, ...] = (1000,)) -> Iterator[np.ndarray]:
    index = 0
    while True:
        time.sleep(pause)
        yield np.full(shape, index)
        index += 1


def noting(worker: Worker, file: str) -> Iterator[np.ndarray]:
    """Appends a byte to `file` for each batch begun, an `x` when it is closed."""
    try:
        for index in range(100):
            with open(file, "a") as out:
                out.write(".")
            yield np.array([index])
    finally:
        with open(file, "a") as out:
            out.write("x")


def large_stay(worker: Worker, count: int = 30) -> Iterator[np.ndarray]:
    for index in range(count):
        yield np.full((50_000 + 1000 * (index % 5),), worker.number * 1000 + index)


def sleeper(worker: Worker, pauses: tuple[float, ...], count: int = 6) -> Iterator[np.ndarray]:
    for index in range(count):
        time.sleep(pauses[worker.number])
        yield np.array([worker.number, index])


class Tricky(Exception):
    """Pickles, but cannot be made again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lambda")
        self.held = lambda: None


ERRORS = {
    "ValueError": lambda: ValueError("no such batch"),
    "Tricky": lambda: Tricky(1, 2),
    "Unsendable": lambda: Unsendable(),
    "StopIteration": lambda: StopIteration(),
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": lambda: KeyboardInterrupt(),
}


class Raiser:
    """Producer that raises at its item `at`; not a generator, which would turn StopIteration into another error."""

    def __init__(self, at: int, error: str = "ValueError", by: int = 0) -> None:
        self.at, self.error, self.by = at, error, by

    def __call__(self, worker: Worker) -> Iterator[np.ndarray]:
        if self.at == 0 and worker.number == self.by:
            raise ERRORS[self.error]()
        return self.items(worker)

    def items(self, worker: Worker) -> Iterator[np.ndarray]:
        for index in range(6):
            if index == self.at and worker.number == self.by:
                raise ERRORS[self.error]()
            yield np.array([worker.number, index])


def dies(worker: Worker, at: int, once: str = "", orphan: bool = False) -> Iterator[np.ndarray]:
    """Worker 1 is killed at its item `at`; only the first time if the file `once` is named."""
    for index in range(6):
        if worker.number == 1 and index == at and not (once and os.path.exists(once)):
            if once:
                Path(once).touch()
            if orphan:  # a process that holds on to everything this one has open
                subprocess.Popen(["sleep", "20"], close_fds=False)
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        yield np.array([worker.number, index])


def holds_unsendable(worker: Worker) -> Iterator[Any]:
    yield np.arange(3)
    yield {"array": np.arange(3), "other": lambda: None}


def spins(worker: Worker) -> Iterator[np.ndarray]:
    """Never comes back from its second batch."""
    yield np.arange(3)
    while True:
        pass


def ragged(worker: Worker) -> Iterator[Any]:
    for index in range(5):
        rows = 4 if index < 4 else 2
        yield {
            "x": np.full((rows, 3, 2 + index % 2), worker.number, np.float32),
            "parts": [np.full(rows, index), np.float64(index)],
        }


def learnable(worker: Worker, batches: int = 8) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(worker.seed)
    for _ in range(batches):
        x = rng.normal(size=(16, 4)).astype(np.float32)
        yield x, (x.sum(1) > 0).astype(np.float32)


def alive_at_once(worker: Worker) -> Iterator[np.ndarray]:
    """How many batches of this producer are still alive while the next is made."""
    gc.disable()
    made: list[weakref.ref[np.ndarray]] = []
    for _ in range(12):
        batch = np.array([sum(one() is not None for one in made)])
        made.append(weakref.ref(batch))
        yield batch
        del batch
