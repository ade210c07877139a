"""Compares pipelines on a busy machine: each is a process, and all but one are stopped, in turn.

    benchmarks/in_turn.py stream=.venv/bin/python:/data/photos global=.venv/bin/python:/data/photos:order=global

Each reads a dataset of ours with the shardfeed of its Python: crops from `train_batches`, batches of 64, epoch after
epoch. Options: those of `train_batches`; `size=64` instead of 224; `loader=arrays`: `array_batches`; `loader=torch`:
`torch_loader` with 2 workers, and then `antialias=0` and `processes=1` too; `augment=simclr`: a recipe's name; names
in capitals set environment variables. A turn is so short that the machine is as busy for all of a cycle, and ratios to the first are taken within a
cycle. CPU time and memory (PSS) are those of the process and its workers; the first batch is counted from its start.
"""

import argparse
import json
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

BATCH = 64
WARM = 20  # batches before the first turn
SETTLE_S = 0.25  # of a turn, not counted
TICKS = os.sysconf("SC_CLK_TCK")

LOOP = f"""
import json, mmap, os, struct, sys
import shardfeed

data, counter, options = sys.argv[1:]
counted = mmap.mmap(os.open(counter, os.O_RDWR), 8)
split, options = next(iter(shardfeed.open(data).values())), json.loads(options)
loader, size = options.pop("loader", ""), options.pop("size", 224)
if "augment" in options:
    from shardfeed.pipelines.augment import recipes

    options["augment"] = getattr(recipes, options["augment"])
if loader == "torch":
    from shardfeed.pipelines.torch import Workers, random_resized_crop, torch_loader

    crop = random_resized_crop(size, antialias=bool(options.pop("antialias", 1)), augment=options.pop("augment", ()))
    workers = Workers(2, processes=True) if options.pop("processes", 0) else 2
    batches = torch_loader(split, batch_size={BATCH}, image_transform=crop, workers=workers, **options)
else:
    make = shardfeed.array_batches if loader else shardfeed.train_batches
    batches = make(split, batch_size={BATCH}, image_size=size, **options)
images = 0
while True:
    for _ in batches:
        images += {BATCH}
        counted[:8] = struct.pack("q", images)
"""


class Running(NamedTuple):
    """A process, where it counts its images, and when it had its first ones, in seconds from its start."""

    process: subprocess.Popen[bytes]
    counter: mmap.mmap
    first_s: float = 0.0

    def images(self) -> int:
        return struct.unpack("q", self.counter[:8])[0]

    def _processes(self) -> Iterator[tuple[Path, list[str]]]:
        """The process and its living workers, which are in its session, and what the kernel says of each."""
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):  # it has ended
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:
                    yield Path("/proc", entry), fields

    def cpu_s(self) -> float:
        return sum(int(fields[11]) + int(fields[12]) for _, fields in self._processes()) / TICKS

    def pss_mb(self) -> float:
        found = 0
        for folder, _ in self._processes():
            with suppress(OSError):
                lines = (folder / "smaps_rollup").read_text().splitlines()
                found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return found * 1024 / 1e6

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)


def begun(what: str, folder: Path, number: int) -> Running:
    """The process of `python:dataset[:option=value ...]`, warm and stopped."""
    python, data, *options = what.split(":")
    pairs = [option.split("=") for option in options]
    given = {key: json.loads(value) if value.isdecimal() else value for key, value in pairs if not key.isupper()}
    environment = {key: value for key, value in pairs if key.isupper()}
    file = folder / str(number)
    file.write_bytes(bytes(8))
    command = [os.path.abspath(python), "-c", LOOP, os.path.abspath(data), str(file), json.dumps(given)]
    # Not from here: a checkout in the current folder would be imported in place of the Python's own.
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    with file.open("r+b") as opened:
        running = Running(process, mmap.mmap(opened.fileno(), 8))
    while running.images() < WARM * BATCH:
        if process.poll() is not None:
            sys.exit(f"{what}: it ended with {process.returncode}")
        time.sleep(0.005)
        if not running.first_s and running.images():
            running = running._replace(first_s=time.perf_counter() - start)
    running.send(signal.SIGSTOP)
    return running


def turn(running: Running, seconds: float) -> tuple[float, float]:
    """Microseconds of CPU an image, and images a second."""
    running.send(signal.SIGCONT)
    time.sleep(SETTLE_S)
    images, cpu, wall = running.images(), running.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    images, cpu, wall = running.images() - images, running.cpu_s() - cpu, time.perf_counter() - wall
    running.send(signal.SIGSTOP)
    if not images:
        sys.exit("a turn made no batch: give more --seconds")
    return cpu / images * 1e6, images / wall


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure pipelines in turn, all others stopped.")
    parser.add_argument("what", nargs="+", metavar="NAME=PYTHON:DATASET[:OPTION=VALUE...]")
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn (1.5)")
    args = parser.parse_args()
    return compare(args.what, args.cycles, args.seconds)


def compare(what: Sequence[str], cycles: int, seconds: float) -> int:
    """Print a table of pipelines, each as NAME=PYTHON:DATASET[:OPTION=VALUE...]."""
    running: dict[str, Running] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, each in enumerate(what):
                name, _, pipeline = each.partition("=")
                running[name] = begun(pipeline, Path(folder), number)
            for cycle in range(cycles):
                for name in list(running) if cycle % 2 else reversed(running):
                    found.setdefault(name, []).append(turn(running[name], seconds))
                    memory[name] = max(memory.get(name, 0), running[name].pss_mb())
        finally:
            for each in running.values():
                each.send(signal.SIGKILL)
                each.process.wait()
    first = found[next(iter(running))]
    print("| | CPU µs/image | / first row | images/s | / first row | memory, MB | first batch, s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in running:
        cells = []
        for unit in (0, 1):
            ratio = statistics.median(mine[unit] / its[unit] for mine, its in zip(found[name], first, strict=True))
            cells.append(f"{statistics.median(mine[unit] for mine in found[name]):,.0f} | {ratio:.2f}")
        print(f"| {name} | {' | '.join(cells)} | {memory[name]:,.0f} | {running[name].first_s:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
