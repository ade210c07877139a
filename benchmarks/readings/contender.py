"""The protocol of the reading benchmark's contenders. Standard library only: it runs in every environment.

A contender is a process, started once as

    python SCRIPT PHOTOS DATA BATCH SIZE WORKERS [VARIANT]

PHOTOS: an image folder. DATA: a folder for copies of it in the contender's own form, kept between runs. BATCH: images.
SIZE: pixels, height and width of what it delivers. WORKERS: processes or threads it may use.

It answers on its standard output, one JSON object a line: {"versions": {package: version}} once it is ready, and for
each line "epoch" on its standard input, after one whole epoch, from the iterator's creation to its end:

    images: how many were delivered. labels: how many of each, by label.
    seconds, first_batch_seconds: wall time. cpu_seconds: user and system, of this process and all its descendants.

Or {"error": why}, and it ends. What libraries print goes to its standard error.
"""

import ctypes
import importlib.metadata
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

Batches = Iterable[tuple[Any, Any]]  # (images, labels): arrays or tensors


@dataclass(frozen=True)
class Task:
    """Task of this process: its arguments, see above."""

    photos: Path
    data: Path
    batch: int
    size: int
    workers: int
    variant: str


def contend(
    prepare: Callable[[Task], Callable[[], Batches]],
    packages: Sequence[str],
    *,
    shape: Sequence[int] | None = None,
    dtype: str = "uint8",
) -> None:
    """Be a contender: `prepare` makes its data and all that outlives an epoch, what it returns begins an epoch.

    `packages`: whose versions matter. `shape` and `dtype`: of one image, where it is not uint8 [size, size, 3].
    """
    # Whom a descendant leaves behind stays a descendant.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver's to answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    photos, data, batch, size, workers, *variant = sys.argv[1:]
    task = Task(Path(photos), Path(data), int(batch), int(size), int(workers), variant[0] if variant else "")
    try:
        batches = prepare(task)
        _answer(answers, {"versions": {package: importlib.metadata.version(package) for package in packages}})
        for line in sys.stdin:
            assert line == "epoch\n", line
            _answer(answers, _epoch(batches, task.batch, tuple(shape or (task.size, task.size, 3)), dtype))
    except Exception as error:
        said = str(error).strip().splitlines()
        _answer(answers, {"error": f"{type(error).__name__}: {said[0] if said else ''}"[:300]})
        raise


def photo_files(photos: Path) -> tuple[list[str], list[int]]:
    """The JPEGs of an image folder, sorted, and the label of each: the number of its class folder."""
    paths = sorted(photos.rglob("*.jpg"))
    numbers = {name: label for label, name in enumerate(sorted({path.parent.name for path in paths}))}
    return [str(path) for path in paths], [numbers[path.parent.name] for path in paths]


def made_once(directory: Path, make: Callable[[Path], object]) -> Path:
    """`directory`, which `make(path)` fills unless it is there; a `make` that fails leaves nothing."""
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        unfinished = directory.with_name(directory.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        make(unfinished)
        unfinished.rename(directory)
    return directory


def _answer(answers: TextIO, what: dict[str, Any]) -> None:
    print(json.dumps(what), file=answers, flush=True)


def _epoch(batches: Callable[[], Batches], batch: int, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    """One epoch, looked at as it passes: a contender that delivers something else is not a fast one."""
    seen: Counter[int] = Counter()
    first = None
    cpu, begun = _cpu_seconds(), time.perf_counter()
    for images, labels in batches():
        if first is None:
            first = time.perf_counter() - begun
        count, *rest = images.shape
        if not 1 <= count <= batch or tuple(rest) != shape or dtype not in str(images.dtype):
            raise ValueError(f"got a batch of {images.dtype} {tuple(images.shape)}, expected {dtype} {(batch, *shape)}")
        values = (labels.numpy() if hasattr(labels, "numpy") else labels).tolist()
        if len(values) != count:
            raise ValueError(f"got {len(values)} labels for {count} images")
        seen.update(values)
    seconds, cpu = time.perf_counter() - begun, _cpu_seconds() - cpu
    if first is None:
        raise ValueError("got no batch")
    return {
        "images": seen.total(),
        "labels": {str(label): seen[label] for label in sorted(seen)},
        "seconds": seconds,
        "cpu_seconds": cpu,
        "first_batch_seconds": first,
    }


def _cpu_seconds() -> float:
    """CPU seconds of this process and its descendants, living and ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = sum(sum(map(int, stat_fields(pid)[11:15])) for pid in descendants(os.getpid()))  # proc(5): utime to cstime
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first; those that ended are among them until they are waited for."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (fields := stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def stat_fields(pid: int) -> list[str]:
    """Fields of proc(5)'s stat from the third on; none of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
