"""Kills an export at chosen operations on storage, each time in a process of its own, and runs it again.

    python export_kill_trials.py DATASET PLACE FORMAT EVERY

A script, as it forks. Files are written by several threads: which operation is the n-th differs from run to run, how
many there are does not. With EVERY > 1 one of so many is a trial, but at least one of each kind. Prints a line of JSON.
"""

import json
import os
import shutil
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from shardfeed.converters import export
from shardfeed.errors import OutputExistsError

from kill_trials import in_child
from storage_ops import Operation, watched
from trees import tree


def run_until(dataset: Path, at: Path, to: Any, stop: int, half: bool) -> None:
    """Export, and die at the operation of number `stop` from 0: before it, or with half of its bytes written."""
    count = 0
    lock = threading.Lock()

    def before(operation: Operation) -> None:
        nonlocal count
        with lock:
            if count == stop:
                if half and operation.data:
                    with open(operation.path, "ab") as file:
                        file.write(operation.data[: len(operation.data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    with watched(at, before):
        export(dataset, at / "out", to, drop="all")


def wrong(dataset: Path, at: Path, to: Any, expected: dict[str, bytes]) -> str:
    """Describe the promise broken after a kill and after running again; empty if none is."""
    found = tree(at / "out") if (at / "out").exists() else None
    if found not in (None, expected):
        return "the output is neither absent nor complete"

    def again() -> None:
        try:
            export(dataset, at / "out", to, drop="all")
        except OutputExistsError:
            assert found is not None, "refused, though it was not finished"

    if in_child(again):
        return "running again failed"
    left = tree(at)
    whole = {"out/": b"", **{f"out/{name}": data for name, data in expected.items()}}
    # Nobody else removes a lock file that a killed run left beside a finished export.
    if found is not None:
        left.pop(".out.lock", None)
    return "" if left == whole else f"other bytes or names: {sorted(left.items() ^ whole.items())}"[:300]


def main(dataset: Path, place: Path, to: Any, every: int) -> None:
    place.mkdir()
    whole = place / "whole"
    whole.mkdir()
    operations: list[Operation] = []
    with watched(whole, operations.append):
        export(dataset, whole / "out", to, drop="all")
    expected = tree(whole / "out")
    points = [(i, half) for i, found in enumerate(operations) for half in ((False, True)[: 1 + bool(found.data)])]
    points.append((len(operations), False))  # after the last one
    kinds: set[tuple[str, bool]] = set()
    failures, trials = [], 0
    for n, (i, half) in enumerate(points):
        name = operations[i].name if i < len(operations) else "end"
        kind = (name, half) if operations[min(i, len(operations) - 1)].path.count("/") > 4 else (f"{name} {i}", half)
        if n % every and kind in kinds:
            continue
        kinds.add(kind)
        trials += 1
        at = place / "trial"
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        status = in_child(partial(run_until, dataset, at, to, i, half))
        died = 0 if i == len(operations) else -signal.SIGKILL
        what = f"exit status {status}" if status != died else wrong(dataset, at, to, expected)
        if what:
            failures.append(f"operation {i} of {len(operations)}, {'half of' if half else 'before'} {name}: {what}")
    counts = {"operations": len(operations), "trials": trials, "kinds": sorted({one.kind for one in operations})}
    print(json.dumps({**counts, "failures": failures}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
