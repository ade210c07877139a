"""CPU time that the compiled module saves, and the rate where one process ends: `benchmarks/native.py PHOTOS FOLDER`.

PHOTOS is an image folder of JPEGs (photos.py draws one). FOLDER holds the two datasets, plain and seekable, which are
made where they are missing.

1. Both paths, SHARDFEED_NATIVE=1 and 0, of each loader, in turn as in_turn.py has them: CPU time an image.
2. CPU time an image with the interpreter's lock: that of the threads of a decoder outside the module's functions. And
   the rate at which one process ends, however many cores it has: that of a decoder whose module makes no pixels.
3. The rate of one decoder by its number of threads.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.native import library
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding import compiled
from shardfeed.pipelines.decoding.batch import BatchDecoder

BATCH, TARGET = 64, (224, 224)
PATHS = ((1, "compiled"), (0, "Python"))
LOADERS = {
    'TensorFlow, "global"': "order=global",
    'TensorFlow, "stream"': "order=stream",
    "PyTorch, `antialias=False`": "loader=torch:antialias=0",
    "PyTorch, antialiased": "loader=torch",
}


class CountedLibrary:
    """The compiled module, with the CPU nanoseconds of all calls in `spent`; `makes`: whether it makes pixels."""

    def __init__(self, loaded: Any) -> None:
        self._loaded, self._lock = loaded, threading.Lock()
        self.spent, self.makes = 0, True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._loaded, name)

        def call(*given: Any) -> Any:
            begun = time.thread_time_ns()
            if name == "shardfeed_make" and not self.makes:
                return None
            result = function(*given)
            with self._lock:
                self.spent += time.thread_time_ns() - begun
            return result

        return call


def decoder(split: Any, threads: int) -> BatchDecoder:
    crop = RandomCrop(TARGET, RandomWindow((0.08, 1), (3 / 4, 4 / 3)), flip=True)
    return BatchDecoder(crop, split.schema, split.formats, threads)


def batches(split: Any, count: int) -> list[tuple[Sequence[bytes], np.ndarray]]:
    """Payloads and seeds of some batches."""
    payloads = split.payloads(np.arange(min(len(split), count * BATCH)))
    seeds = np.random.default_rng(0).integers(0, 2**63 - 1, (len(payloads), 2))
    starts = range(0, len(payloads) - BATCH + 1, BATCH)
    return [(payloads[at : at + BATCH], seeds[at : at + BATCH]) for at in starts]


def decoding(made: BatchDecoder, given: list[tuple[Sequence[bytes], np.ndarray]]) -> tuple[float, float]:
    """CPU microseconds of the process per image, and images per second."""
    cpu, wall = time.process_time(), time.perf_counter()
    for payloads, seeds in given:
        made(payloads, seeds)
    images = BATCH * len(given)
    return (time.process_time() - cpu) / images * 1e6, images / (time.perf_counter() - wall)


def of_lock(split: Any, rounds: int) -> tuple[float, float]:
    """CPU microseconds per image outside the module, and images per second of a decoder without pixels."""
    given, held, rates = batches(split, 20), [], []
    every = property(lambda images: np.ones(len(images.views()), bool))  # else Python makes what is not made
    for _ in range(rounds):
        counted = CountedLibrary(library())
        with mock.patch.object(compiled, "library", return_value=counted):
            made = decoder(split, 1)
        cpu, _ = decoding(made, given)
        held.append(cpu - counted.spent / (BATCH * len(given)) / 1e3)
        counted.makes = False
        with mock.patch.object(compiled.CompiledImages, "made", every):
            rates.append(decoding(made, given)[1])
    return statistics.median(held), statistics.median(rates)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the compiled module beside Python.")
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cycles", type=int, default=10, help="turns of each loader (10)")
    parser.add_argument("--seconds", type=float, default=6, help="of a turn (6)")
    args = parser.parse_args()
    if library() is None:
        sys.exit("the compiled module is not in use: see `shardfeed --version`")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in ("plain", "seekable"):
        data = args.folder / name
        if not data.exists():
            convert(ImageFolder(args.photos), data, split={"train": 1}, image=ImageOptions(seekable=name == "seekable"))
        split = next(iter(shardfeed.open(data).values()))
        print(f"\n### {name}\n")
        for title, options in LOADERS.items():
            what = [f"{path}={sys.executable}:{data}:{options}:SHARDFEED_NATIVE={number}" for number, path in PATHS]
            print(f"{title}\n", flush=True)
            turns = ["--cycles", str(args.cycles), "--seconds", str(args.seconds)]
            subprocess.run([sys.executable, Path(__file__).with_name("in_turn.py"), *what, *turns], check=True)
            print()
        held, ends = of_lock(split, 5)
        print(f"With the interpreter's lock: {held:.1f} µs per image. Without pixels: {ends:,.0f} images/s.\n")
        given = batches(split, 20)
        decoders = {threads: decoder(split, threads) for threads in (1, 2, 4, 8, 16)}
        runs = [{threads: decoding(made, given) for threads, made in decoders.items()} for _ in range(args.cycles)]
        print(f"| threads, on {os.cpu_count()} CPUs | CPU µs/image | images/s |", "|---|---:|---:|", sep="\n")
        for threads in decoders:
            cpu, rate = (statistics.median(run[threads][unit] for run in runs) for unit in (0, 1))
            print(f"| {threads} | {cpu:,.0f} | {rate:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
