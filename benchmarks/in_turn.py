"""Compares pipelines on a busy machine: each is a process, and all but one are stopped, in turn.

    benchmarks/in_turn.py stream=.venv/bin/python:/data/photos global=.venv/bin/python:/data/photos:order=global

Each reads a dataset of ours with the shardfeed of its Python: crops of 224 from `train_batches`, batches of 64, epoch
after epoch. Options: those of `train_batches`; `loader=torch`: `torch_loader` with 2 workers, and then `antialias=0`
too; names in capitals set environment variables. A turn is so short that the machine is as busy for all of a cycle,
and ratios to the first are taken within a cycle. CPU time is that of the process and its workers.
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
if options.pop("loader", "") == "torch":
    from shardfeed.pipelines.torch import random_resized_crop, torch_loader

    crop = random_resized_crop(224, antialias=bool(options.pop("antialias", 1)))
    batches = torch_loader(split, batch_size={BATCH}, image_transform=crop, workers=2, **options)
else:
    from shardfeed.pipelines import train_batches

    batches = train_batches(split, batch_size={BATCH}, image_size=224, **options)
images = 0
while True:
    for _ in batches:
        images += {BATCH}
        counted[:8] = struct.pack("q", images)
"""


class Running(NamedTuple):
    """A process, and where it counts its images."""

    process: subprocess.Popen[bytes]
    counter: mmap.mmap

    def images(self) -> int:
        return struct.unpack("q", self.counter[:8])[0]

    def cpu_s(self) -> float:
        """CPU seconds of the process and its living workers, which are in its session."""
        found = 0
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):  # it has ended
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:
                    found += int(fields[11]) + int(fields[12])
        return found / TICKS

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
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    with file.open("r+b") as opened:
        running = Running(process, mmap.mmap(opened.fileno(), 8))
    while running.images() < WARM * BATCH:
        if process.poll() is not None:
            sys.exit(f"{what}: it ended with {process.returncode}")
        time.sleep(0.1)
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
    running: dict[str, Running] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, each in enumerate(args.what):
                name, _, what = each.partition("=")
                running[name] = begun(what, Path(folder), number)
            for cycle in range(args.cycles):
                for name in list(running) if cycle % 2 else reversed(running):
                    found.setdefault(name, []).append(turn(running[name], args.seconds))
        finally:
            for each in running.values():
                each.send(signal.SIGKILL)
                each.process.wait()
    first = found[next(iter(running))]
    print("| | CPU µs/image | / first row | images/s | / first row |", "|---|---:|---:|---:|---:|", sep="\n")
    for name in running:
        cells = []
        for unit in (0, 1):
            ratio = statistics.median(mine[unit] / its[unit] for mine, its in zip(found[name], first, strict=True))
            cells.append(f"{statistics.median(mine[unit] for mine in found[name]):,.0f} | {ratio:.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
