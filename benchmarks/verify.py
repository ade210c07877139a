"""How fast `shardfeed verify` reads a dataset, beside `cat` and `sha256sum`: `python benchmarks/verify.py DATASET`.

All read the same files, from the page cache: they are read once before. One after the other in each round, because
machines drift; medians of the rounds, in GB a second of wall time, and of CPU time, user and system.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from shardfeed.readers import verify


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    run()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def reader(*command: str) -> Callable[[], object]:
    """A command that reads files and says nothing."""
    return lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how fast verify reads.")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    files = sorted(str(path) for path in args.dataset.iterdir() if path.is_file())
    size = sum(map(os.path.getsize, files))
    assert not verify(args.dataset).damages
    command = [sys.executable, "-m", "shardfeed.tools.cli", "verify", "--quiet", str(args.dataset)]
    runs = {
        "cat": reader("cat", *files),
        "verify, in a process that runs": lambda: verify(args.dataset),
        "shardfeed verify, with its start": reader(*command),
        "sha256sum": reader("sha256sum", *files),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            times[name].append(timed(run))
    print(f"{len(files)} files, {size / 1e9:.2f} GB, {args.rounds} rounds\n")
    print("| | GB/s of wall time | GB/s of CPU time |\n|---|---:|---:|")
    for name, seconds in times.items():
        wall, cpu = (size / 1e9 / statistics.median(column) for column in zip(*seconds, strict=True))
        print(f"| {name} | {wall:.2f} | {cpu:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
