"""A dataset read in one mode by a process of its own: `python one_reading.py JSON`.

So each run begins with nothing in memory, and its peak is its own. It is one thread: read records, check their CRCs.
"""

import io
import itertools
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, escape
from shardfeed.formats.example import decode
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT
from shardfeed.storage.storage import LOCAL, LocalStorage, OpenFile, Storage, whole
from shardfeed.text import shell_quoted
from shardfeed.tools.bench.fresh_process import memory_bytes

SPLIT = "train"  # all samples are in it
DISK, CACHE, MAPPED, PRELOADED = "disk", "cache", "mapped", "preloaded"
_SETTLE = 0.1  # seconds: pages that are still on their way from the disk, read ahead, cannot be dropped
MODES = (DISK, CACHE, MAPPED, PRELOADED)
BATCH = 64  # records that are asked for at once
# malloc keeps what is freed, as in our workers, and for libraries, too. Else it is chance whether it gives the room of
# each batch back and faults it in again, which takes five times as long as to read a record of 65 kB.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
_LEAST_SHARE = 0.9  # of the bytes that must come from the disk, for the pages to have been dropped


class _InMemory:
    """See `OpenFile`: a file whose bytes are at hand, mapped or read."""

    def __init__(self, file: OpenFile, data: bytes | mmap.mmap) -> None:
        self.path, self.size = file.path, file.size
        self.version: Hashable = file.version
        self._data = data

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]


class _Mapped(LocalStorage):
    """The local disk; files are mapped."""

    def open(self, path: str, size: int | None = None) -> OpenFile:
        file = LOCAL.open(path)
        if not file.size:
            return file  # nothing can be mapped
        with open(path, "rb") as opened:
            return _InMemory(file, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


class _Preloaded(LocalStorage):
    """The local disk; a file is read whole when it is opened."""

    def open(self, path: str, size: int | None = None) -> OpenFile:
        file = LOCAL.open(path)
        return _InMemory(file, whole(file))


def storage_of(mode: str) -> Storage:
    """Storage through which a dataset is read in `mode`."""
    return {MAPPED: _Mapped(), PRELOADED: _Preloaded()}.get(mode, LOCAL)


def drop_pages(paths: Iterable[str]) -> None:
    """Ask the kernel to forget what it keeps of some files. Raises OSError."""
    time.sleep(_SETTLE)
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def fetch_pages(paths: Iterable[str]) -> None:
    """Read some files through once, so that the kernel keeps them. Raises OSError."""
    for path in paths:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass


def bytes_fetched() -> int | None:
    """Bytes that this process had fetched from disks so far; None where the kernel does not say."""
    try:
        with open("/proc/self/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))
    except (OSError, StopIteration):
        return None


def files_below(directory: str) -> list[str]:
    """All files of a directory, sorted."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)


def read_fresh(directory: str, mode: str, seconds: float, decoded: bool) -> dict[str, Any]:
    """Measure, in a new process, reading `directory` (one split) in `mode` for `seconds` or an epoch.

    `sequential`, `random` and, with `decoded`, `decoded`: {"wall_us", "cpu_us"} per image. `first_batch_s`: seconds
    from opening the dataset. `peak_bytes`: peak memory; `growth_bytes`: its growth since the imports. `dropped`:
    whether all data came from the disk; None in other modes and if the kernel does not say.

    Raises IntegrityError with the process's output when it fails.
    """
    asked = json.dumps({"directory": directory, "mode": mode, "seconds": seconds, "decoded": decoded})
    return run_fresh([sys.executable, "-P", __file__, asked], directory)


def run_fresh(command: list[str], directory: str) -> dict[str, Any]:
    """Run a process and return the JSON on its last line. Raises IntegrityError with the last line of its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | _MALLOC)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        problem = f"a process that reads it ended with {done.returncode}: {escape(said)}"
        raise IntegrityError(directory, problem, f"shardfeed verify {shell_quoted(directory)} --deep")
    return json.loads(done.stdout.splitlines()[-1])


def decode_image(encoded: bytes, form: bytes) -> np.ndarray:
    """The pixels, uint8 [height, width, 3] or as they are stored: JPEGs by libjpeg-turbo, all else by Pillow."""
    if form == b"raw":
        return np.frombuffer(encoded, np.uint8)
    if encoded.startswith(b"\xff\xd8"):
        import simplejpeg

        try:
            return simplejpeg.decode_jpeg(encoded, "RGB")
        except (ValueError, KeyError):  # CMYK, and what it has no name for
            pass
    from PIL import Image

    with Image.open(io.BytesIO(encoded)) as image:
        return np.asarray(image.convert("RGB"))


def image_of(payload: bytes) -> tuple[bytes, bytes]:
    """The image of a record, and what it says its format is."""
    found = decode(payload, (ENCODED, FORMAT))
    forms = [*found[FORMAT][1]] if FORMAT in found else []
    return bytes(found[ENCODED][1][0]), bytes(forms[0]) if forms else b""


def timed(run: Callable[[], int], seconds: float) -> dict[str, float]:
    """Microseconds of wall and CPU time of an image; `run` goes through some and says how many, again and again."""
    images, wall, cpu = 0, time.perf_counter(), time.process_time()
    while True:
        images += run()
        passed = time.perf_counter() - wall
        if passed >= seconds:
            return {"wall_us": passed / images * 1e6, "cpu_us": (time.process_time() - cpu) / images * 1e6}


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    mode, directory = asked["mode"], asked["directory"]
    cold = mode == DISK
    # Once from the disk: what comes second is in memory.
    seconds = 0.0 if cold else asked["seconds"]
    files = files_below(directory)
    imported = memory_bytes("VmRSS:")
    if cold:
        drop_pages(files)
    else:
        fetch_pages(files)
    started = time.perf_counter()
    split = open_dataset(directory, storage=storage_of(mode))[SPLIT]
    places = np.arange(len(split))
    if mode == PRELOADED:
        firsts = split.shards.firsts
        split.shards.payloads(firsts[:-1][np.diff(firsts) > 0])  # of each shard: all files are open now, that is read
    split.shards.payloads(places[:BATCH])
    first_batch_s = time.perf_counter() - started
    if cold:
        drop_pages(files)
    else:
        _through(split, places)  # opens all shards, and all they bring is in memory
    before = bytes_fetched()
    sequential = timed(lambda: _through(split, places), seconds)
    fetched = None if before is None else (bytes_fetched() or 0) - before
    if cold:
        drop_pages(files)
    mixed = np.random.default_rng(0).permutation(len(split))
    random = timed(lambda: _through(split, mixed), seconds)
    found: dict[str, Any] = {
        "first_batch_s": first_batch_s,
        "sequential": sequential,
        "random": random,
        "peak_bytes": memory_bytes("VmHWM:"),
        "growth_bytes": memory_bytes("VmHWM:") - imported,
        "dropped": None if not cold or fetched is None else fetched >= _LEAST_SHARE * split.record_bytes,
    }
    if asked["decoded"]:
        parts = itertools.cycle(mixed[start : start + BATCH] for start in range(0, len(mixed), BATCH))

        def some() -> int:
            payloads = split.shards.payloads(next(parts))
            for payload in payloads:
                decode_image(*image_of(payload))
            return len(payloads)

        some()  # imports the decoder
        found["decoded"] = timed(some, seconds)
    return found


def _through(split: Split, places: np.ndarray) -> int:
    """Read the records at some places; their number."""
    for start in range(0, len(places), BATCH):
        split.shards.payloads(places[start : start + BATCH])
    return len(places)


if __name__ == "__main__":
    print(json.dumps(_run(json.loads(sys.argv[1]))))
