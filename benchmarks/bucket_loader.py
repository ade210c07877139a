"""One contender of benchmarks/bucket_reading.py: reads a dataset in a bucket, and prints what it took.

    python benchmarks/bucket_loader.py PROGRAM ADDRESS EPOCHS [CACHE]

Batches of 64 encoded images come from a PyTorch DataLoader with two workers, or from `make_batches`; none is decoded.
`array_batches` and `train_batches` decode: crops of 224 pixels. CPU time is that of all processes, from the end of the
program's imports on; the fetcher is waited for. ADDRESS is a URL, or a directory, to read the same from a disk.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).with_name("conversions")))

BATCH, WORKERS, BUFFER, RANGE = 64, 2, 2000, 8 << 20


def image(record: Any, seed: int) -> Any:
    return record["image/encoded"]


def size(samples: list[Any]) -> tuple[int, int]:
    """Number of samples and of bytes of their images, which are the longest of a sample's values."""
    values = [sample.values() if isinstance(sample, dict) else [sample] for sample in samples]
    return len(samples), sum(
        max(len(value) for value in each if isinstance(value, (bytes, bytearray, memoryview))) for each in values
    )


def blocks() -> Any:
    from shardfeed.pipelines import Blocks

    return Blocks(block_bytes=8 << 20)  # the default for a bucket


def shardfeed_torch(address: str, cache: str, workers: int = WORKERS) -> Any:
    import shardfeed
    from shardfeed.pipelines import Cache, cached

    train = shardfeed.open(address)["train"]
    if cache:
        train = cached(train, Cache(cache, limit="100GB"))
    return shardfeed.torch_loader(
        train, batch_size=BATCH, transform=image, collate_fn=size, workers=workers, order=blocks()
    )


class Batches:
    """TensorFlow's batches as (samples, bytes)."""

    def __init__(self, address: str, cache: str) -> None:
        import tensorflow as tf

        import shardfeed
        from shardfeed.pipelines import make_batches

        def length(features: Any, seed: Any) -> Any:
            return tf.strings.length(features["image/encoded"])

        train = shardfeed.open(address)["train"]
        self.batches = make_batches(train, length, batch_size=BATCH, keys=["image/encoded"], order=blocks())

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((BATCH, int(lengths.numpy().sum())) for lengths in self.batches)


class Crops:
    """The batches of `array_batches` or `train_batches` as (samples, 0)."""

    def __init__(self, make: str, address: str, cache: str) -> None:
        import shardfeed

        train = shardfeed.open(address)["train"]
        self.batches = getattr(shardfeed, make)(train, batch_size=BATCH, image_size=224, order=blocks())

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((len(labels), 0) for _, labels in self.batches)


def webdataset(address: str, cache: str) -> Any:
    import webdataset as wds
    from torch.utils.data import DataLoader

    tars = json.loads(os.environ["TARS"])
    urls = [f"pipe:curl -s -f '{tar}'" if tar.startswith("http") else tar for tar in tars]
    samples = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(BUFFER)
    return DataLoader(samples, batch_size=BATCH, num_workers=WORKERS, collate_fn=size)


def streaming(address: str, cache: str) -> Any:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    local = cache or tempfile.mkdtemp(dir=os.environ["CACHES"])
    given = {"remote": address, "local": local} if "://" in address else {"local": address}
    samples = StreamingDataset(**given, shuffle=True, batch_size=BATCH)
    for stream in samples.streams:  # forked workers would share the connection that has read the index, and mix answers
        if "://" in address:
            stream._downloader.clean_up()
    return DataLoader(samples, BATCH, num_workers=WORKERS, collate_fn=size)


def litdata(address: str, cache: str) -> Any:
    import litdata
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"  # which it has no option for
    given: Any = {}
    if "://" in address:
        given = {"cache_dir": cache or tempfile.mkdtemp(dir=os.environ["CACHES"])}
        given["storage_options"] = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
    samples = litdata.StreamingDataset(address, shuffle=True, **given)
    return litdata.StreamingDataLoader(samples, batch_size=BATCH, num_workers=WORKERS, collate_fn=size)


class Link:
    """The shards' bytes by the client alone, 32 ranges of 8 MB at once: what server and proxy give."""

    def __init__(self, address: str, cache: str) -> None:
        import obstore

        import shardfeed

        self.samples = len(shardfeed.open(address)["train"])
        self.store = obstore.store.from_url(address, client_options={"allow_http": True})
        objects = [one for page in self.store.list() for one in page if one["path"].endswith(".tfrecord")]
        self.ranges = [(one["path"], at) for one in objects for at in range(0, one["size"], RANGE)]
        self.sizes = {one["path"]: one["size"] for one in objects}

    def __iter__(self) -> Iterator[tuple[int, int]]:
        def read(path: str, start: int) -> int:
            return len(self.store.get_range(path, start=start, end=min(start + RANGE, self.sizes[path])))

        with ThreadPoolExecutor(32) as pool:
            yield from ((0, size) for size in pool.map(read, *zip(*self.ranges, strict=True)))
        yield self.samples, 0


_OURS = ("shardfeed.pipelines.arrays", "shardfeed.pipelines.caching.client")
_PROGRAMS: dict[str, tuple[Any, tuple[str, ...]]] = {  # and what each imports
    "link": (Link, (*_OURS, "obstore")),
    "torch": (shardfeed_torch, (*_OURS, "torch", "obstore", "shardfeed.pipelines.torch")),
    # This one reads ahead itself.
    "threads": (partial(shardfeed_torch, workers=0), (*_OURS, "torch", "obstore", "shardfeed.pipelines.torch")),
    "tensorflow": (Batches, (*_OURS, "tensorflow", "obstore", "shardfeed.pipelines.tensorflow")),
    "array_batches": (partial(Crops, "array_batches"), (*_OURS, "obstore")),
    "train_batches": (
        partial(Crops, "train_batches"),
        (*_OURS, "tensorflow", "obstore", "shardfeed.pipelines.tensorflow"),
    ),
    "webdataset": (webdataset, ("torch", "webdataset")),
    "streaming": (streaming, ("torch", "mosaic_imports", "boto3")),
    "litdata": (litdata, ("torch", "litdata", "obstore")),
}


def main(program: str, address: str, epochs: int, cache: str = "") -> None:
    make, packages = _PROGRAMS[program]
    for package in packages:  # before the clock starts, as a training script has them
        importlib.import_module(package)
    imports, started = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), time.perf_counter()
    batches = make(address, cache)
    found = []
    first = 0.0
    for _ in range(epochs):
        begun, samples, read = time.perf_counter(), 0, 0
        for count, size_of_batch in batches:
            first = first or time.perf_counter() - started
            samples, read = samples + count, read + size_of_batch
        found.append({"samples": samples, "bytes": read, "seconds": time.perf_counter() - begun})
    print(json.dumps({"first": first, "epochs": found, "imports": imports}))


def wait_for_all(main_process: int) -> int:
    """Wait for the program, then end what outlives it, a fetcher: it would wait for other readers. Its exit status."""
    status = os.waitstatus_to_exitcode(os.waitpid(main_process, 0)[1])
    with contextlib.suppress(ChildProcessError, FileNotFoundError):
        while True:
            for number in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
                arguments = Path(f"/proc/{number}/cmdline").read_text().split("\0")
                if "shardfeed.pipelines.caching.fetcher" in arguments:
                    os.kill(number, signal.SIGKILL)
                    shutil.rmtree(next(each for each in arguments if each.startswith("/dev/shm/")), ignore_errors=True)
            os.wait()
    return status


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: processes that outlive the program become ours
    if program_process := os.fork():
        status = wait_for_all(program_process)
        print(json.dumps(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])))
        sys.exit(status)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
