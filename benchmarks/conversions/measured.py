"""Measurement shared by the scripts of all contenders. Standard library only: it runs in every peer's environment.

A script is called as `python SCRIPT PHOTOS OUT [ITS OWN ARGUMENTS]`, writes all images of the folder PHOTOS under the
folder OUT and ends with one line of JSON on stdout, which `measure` prints:
seconds: wall time from the script's first line to the bytes being on disk. start_seconds: of those, what passed before
the first image: imports, a runtime's start. cpu_seconds: of this process and all its descendants from there on.
peak_bytes: resident, of the largest process. images: how many are in OUT, counted after the clock stopped.

Scripts must not have the name of a package: their folder comes first on the path.
"""

import ctypes
import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

STARTED = time.monotonic()  # this module is the first import of each script
WORKERS = 2
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def photo_paths(photos: str) -> list[Path]:
    """The JPEGs of an image folder, sorted."""
    return sorted(Path(photos).rglob("*.jpg"))


def photo_labels(paths: Iterable[Path]) -> dict[str, int]:
    """Class folder's name -> label."""
    return {name: label for label, name in enumerate(sorted({path.parent.name for path in paths}))}


def sync(folder: str) -> None:
    """Make what was written into `folder` durable, with all else on its file system."""
    subprocess.run(["sync", "-f", folder], check=True)


def count_tfrecords(paths: Iterable[Path]) -> int:
    """Records in TFRecord files, found by their lengths alone."""
    count = 0
    for path in paths:
        with open(path, "rb") as file:
            while header := file.read(12):
                (length,) = struct.unpack("<Q", header[:8])
                file.seek(length + 4, os.SEEK_CUR)
                count += 1
            if file.tell() != path.stat().st_size:
                raise SystemExit(f"{path}: ends inside a record")
    return count


def measure(
    work: Callable[[], object],
    count: Callable[[], int],
    close: Callable[[], object] = lambda: None,
    notes: Callable[[], dict[str, float]] = dict,
) -> None:
    """Run `work`, which is timed, then `close` and `count`, which are not, and print the line of JSON.

    `notes`: further numbers for that line, asked for after `work`.
    """
    # Orphans, such as the workers of a runtime's daemon, become children of this process: their time is counted too.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begun, cpu = time.monotonic(), _cpu_seconds()
    work()
    ended = time.monotonic()
    line = {
        "seconds": ended - STARTED,
        "start_seconds": begun - STARTED,
        "cpu_seconds": _cpu_seconds() - cpu,
        "peak_bytes": _peak_bytes(),
        **notes(),
    }
    close()
    print("\n" + json.dumps({**line, "images": count()}), flush=True)


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ended = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    ticks = 0
    for pid in _descendants():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        ticks += sum(map(int, fields[11:15]))  # proc(5): utime, stime and those of its children that have ended
    return ended + ticks / os.sysconf("SC_CLK_TCK")


def _peak_bytes() -> int:
    peaks = [resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]
    for pid in (os.getpid(), *_descendants()):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        peaks += [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return max(peaks) * 1024


def _descendants() -> list[int]:
    """Process ids of this process's descendants that live or were not waited for."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                parent = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        of_one = children.get(waiting.pop(), [])
        found += of_one
        waiting += of_one
    return found


def photos_and_out() -> tuple[str, str]:
    """The first two arguments of the script."""
    return sys.argv[1], sys.argv[2]
