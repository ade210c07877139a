"""One contender of benchmarks/bucket_reading.py: reads a dataset in a bucket, and prints what it took.

    python benchmarks/bucket_loader.py PROGRAM ADDRESS EPOCHS [CACHE]

Batches of 64 encoded images come from a PyTorch DataLoader with four workers, or from `train_batches`; none is decoded.
CPU time includes start-up and all processes, the fetcher too, which is waited for.
"""

import ctypes
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

BATCH, WORKERS, BUFFER, RANGE = 64, 4, 2000, 8 << 20


def image(record: Any, seed: int) -> Any:
    return record["image/encoded"]


def size(samples: list[Any]) -> tuple[int, int]:
    """Number of samples and of bytes of their images, which are the longest of a sample's values."""
    values = [sample.values() if isinstance(sample, dict) else [sample] for sample in samples]
    return len(samples), sum(max(len(value) for value in each if isinstance(value, bytes)) for each in values)


def shardfeed_torch(address: str, cache: str, workers: int = WORKERS) -> Any:
    import shardfeed
    from shardfeed.pipelines import Blocks, Cache, cached

    train = shardfeed.open(address)["train"]
    if cache:
        train = cached(train, Cache(cache, limit="100GB"))
    order = Blocks(block_bytes=8 << 20)  # the default for a bucket
    return shardfeed.torch_loader(
        train, batch_size=BATCH, transform=image, collate_fn=size, workers=workers, order=order
    )


class Batches:
    """TensorFlow's batches as (samples, bytes)."""

    def __init__(self, address: str) -> None:
        import tensorflow as tf

        import shardfeed
        from shardfeed.pipelines import make_batches

        def length(features: Any, seed: Any) -> Any:
            return tf.strings.length(features["image/encoded"])

        self.batches = make_batches(shardfeed.open(address)["train"], length, batch_size=BATCH, keys=["image/encoded"])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((BATCH, int(lengths.numpy().sum())) for lengths in self.batches)


def webdataset(address: str, cache: str) -> Any:
    import webdataset as wds
    from torch.utils.data import DataLoader

    urls = [f"pipe:curl -s -f '{url}'" for url in json.loads(os.environ["TARS"])]
    samples = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(BUFFER)
    return DataLoader(samples, batch_size=BATCH, num_workers=WORKERS, collate_fn=size)


def streaming(address: str, cache: str) -> Any:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    samples = StreamingDataset(remote=address, local=cache or tempfile.mkdtemp(), shuffle=True, batch_size=BATCH)
    return DataLoader(samples, batch_size=BATCH, num_workers=WORKERS, collate_fn=size)


class Link:
    """The shards' bytes by the client alone, 32 ranges of 8 MB at once: what server and proxy give."""

    def __init__(self, address: str) -> None:
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


def main(program: str, address: str, epochs: int, cache: str = "") -> None:
    import torch  # noqa: F401  # before the clock starts, as a training script has it

    started = time.perf_counter()
    threads = partial(shardfeed_torch, workers=0)  # which reads ahead itself
    of = {"torch": shardfeed_torch, "threads": threads, "webdataset": webdataset, "streaming": streaming}
    given: Any = {"tensorflow": Batches, "link": Link}.get(program)
    batches = given(address) if given else of[program](address, cache)
    found = []
    first = 0.0
    for _ in range(epochs):
        begun, samples, read = time.perf_counter(), 0, 0
        for count, size_of_batch in batches:
            first = first or time.perf_counter() - started
            samples, read = samples + count, read + size_of_batch
        found.append({"samples": samples, "bytes": read, "seconds": time.perf_counter() - begun})
    print(json.dumps({"first": first, "epochs": found}))


def wait_for_all() -> int:
    """Wait for every process of this program; the first exit status that is not 0, else 0."""
    failed = 0
    while True:
        try:
            failed = failed or os.waitstatus_to_exitcode(os.wait()[1])
        except ChildProcessError:
            return failed


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: processes that outlive the program become ours
    if os.fork():
        status = wait_for_all()
        print(json.dumps(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])))
        sys.exit(status)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
