"""CPU time per record of reading a bucket, beside the same records from a local disk, and where it goes.

    python benchmarks/bucket_costs.py [--bytes 65000 2000 1000000] [--programs workers threads] [--rounds 3]
        [--latency 0.03] [--speed 200] [--megabytes 800] [--workers 2]
        [--pythons before=OTHER/bin/python now=.venv/bin/python]
    python benchmarks/bucket_costs.py --first --programs workers threads arrays tensorflow
    python benchmarks/bucket_costs.py --steps [--bytes 65000 2000 1000000]

Each record is a small JPEG with random bytes behind it, and comes from `bucket_server.py`, which is not counted.
Programs and Pythons alternate, and the figures are medians. CPU time is that of all processes, from the end of the
program's imports on, so what it starts counts whole. The table names the fetcher's, and that of a run that ends after
one batch, which is start-up. MB/s are those after the first batch. PyTorch's workers are forked, for a disk as well.
`--steps` measures single steps of a record's way in one process: its CRC, copies, and pages of /dev/shm.
"""

import argparse
import ctypes
import itertools
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bucket_server import file_server

BATCH, SHARD_BYTES = 64, 100_000_000
PROGRAMS = ("workers", "global", "cache", "threads", "arrays", "tensorflow", "stream", "client")


def make_dataset(directory: Path, size: int, records: int) -> None:
    """Write a dataset whose records have about `size` bytes: one small JPEG, and random bytes behind its end."""
    import numpy as np
    from PIL import Image

    import shardfeed
    from shardfeed.converters import ImageFolder, convert
    from shardfeed.formats.format import ShardInfo
    from shardfeed.formats.registry import NATIVE
    from shardfeed.manifest import FileInfo, Manifest, SplitInfo
    from shardfeed.shard_table import ShardTable
    from shardfeed.storage.checksum import crc32c

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "images" / "a").mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), 99, np.uint8)).save(Path(folder) / "images" / "a" / "1.jpg")
        convert(ImageFolder(Path(folder) / "images"), Path(folder) / "one", workers=1)
        one = shardfeed.open(Path(folder) / "one")["train"]
        schema, values = one.schema, dict[str, Any](one[0])
    image, random = bytes(values["image/encoded"]), os.urandom(size + (1 << 20))
    shards = max(1, records * size // SHARD_BYTES)
    encoder, infos = NATIVE.encoder(schema.features), []
    for shard in range(shards):
        data, index = bytearray(), []
        for number in range(records * shard // shards, records * (shard + 1) // shards):
            start = 7919 * number % (1 << 20)
            encoded = image + random[start : start + max(0, size - len(image))]
            framed = b"".join(encoder(values | {"image/encoded": encoded}))
            index.append(f"{len(data)} {len(framed)}\n")
            data += framed
        text, stem = "".join(index).encode(), f"train-{shard:05d}-of-{shards:05d}"
        (directory / "index").mkdir(parents=True, exist_ok=True)
        (directory / f"{stem}.tfrecord").write_bytes(data)
        (directory / "index" / f"{stem}.tfindex").write_bytes(text)
        infos.append(ShardInfo(len(index), *(FileInfo(len(each), crc32c(bytes(each))) for each in (data, text))))
    split = SplitInfo("train", ShardTable.of(infos))
    (directory / "manifest.json").write_bytes(
        Manifest("costs", schema, {"train": split}, {}, "0" * 32, {}, {}, {}).to_bytes()
    )


def record(sample: Any, seed: int) -> Any:
    return sample["image/encoded"]


def read(program: str, address: str, cache: str, batches: int, processes: int) -> None:
    """Read so many batches of an epoch; print records, seconds to the first batch, and the CPU seconds of imports."""
    if program in ("tensorflow", "stream"):
        import tensorflow  # noqa: F401
    elif program != "client":
        import torch  # noqa: F401
    import obstore

    import shardfeed
    from shardfeed.pipelines import Blocks, Cache, Global, array_batches, cached
    from shardfeed.pipelines.torch import Workers, torch_loader

    imports, started = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]), time.perf_counter()
    count, first, epochs = 0, 0.0, 2 if cache else 1
    made: Any = ()
    split = shardfeed.open(address)["train"]
    if program == "client":
        store = obstore.store.from_url(address, client_options={"allow_http": True})
        spans = []
        for shard, info in enumerate(split.shards.info.shards):
            starts = range(0, info.data.size, 8 << 20)
            spans += [(split.shards.info.shard_file(shard), at, min(at + (8 << 20), info.data.size)) for at in starts]

        def fetch(name: str, start: int, end: int) -> None:
            nonlocal first
            store.get_range(name, start=start, end=end)
            first = first or time.perf_counter() - started

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(fetch, *zip(*spans, strict=True)))
        count = len(split)
    elif cache:
        split = cached(split, Cache(cache, limit="100GB"))
    order: Any = {"global": Global(), "stream": "stream"}.get(program, Blocks(block_bytes=8 << 20))
    options: Any = {"batch_size": BATCH, "order": order, "seed": 7}
    if program in ("workers", "global", "cache", "threads"):
        workers = 0 if program == "threads" else Workers(processes, start_method="fork")
        made = torch_loader(split, transform=record, collate_fn=len, workers=workers, **options)
    elif program != "client":
        function = array_batches if program == "arrays" else shardfeed.train_batches
        made = function(split, image_size=32, **options)
    for _ in range(epochs):
        for _batch in itertools.islice(made, batches):
            first = first or time.perf_counter() - started
            count += BATCH
    said = {"first": first, "records": count, "imports": imports, "seconds": time.perf_counter() - started}
    print(json.dumps(said), flush=True)


def steps(size: int) -> dict[str, float]:
    """CPU microseconds of each step of the way of a record of `size` bytes, at 8 MB of records at a time."""
    from shardfeed.pipelines.caching.sparse import free_range
    from shardfeed.storage.checksum import crc32c

    count, spent = max(8, 100_000_000 // size), dict[str, float]()
    data = memoryview(os.urandom(max(size, 8 << 20)))
    parts = [data[start : start + size] for start in range(0, len(data) - size + 1, size)]
    payloads = [bytes(each) for each in parts]
    sent, got = socket.socketpair()

    def timed(name: str, work: Callable[[int], object]) -> None:
        begun = time.process_time()
        for number in range(count):
            work(number)
        spent[name] = 1e6 * (time.process_time() - begun) / count

    def over_socket() -> None:
        with ThreadPoolExecutor(1) as sender:
            sender.submit(lambda: [sent.sendall(parts[i % len(parts)]) for i in range(count)])
            for _ in range(count):
                got.recv(size, socket.MSG_WAITALL)

    with tempfile.TemporaryFile(dir="/dev/shm", buffering=0) as file, sent, got:
        fd = file.fileno()
        os.truncate(fd, count * size)
        timed("CRC-32C", lambda i: crc32c(payloads[i % len(parts)]))
        timed("copy into a payload", lambda i: bytes(parts[i % len(parts)]))
        timed("write to /dev/shm", lambda i: os.pwrite(fd, parts[i % len(parts)], i * size))
        timed("write there again, to the same pages", lambda i: os.pwrite(fd, parts[i % len(parts)], i * size))
        timed("read from there", lambda i: os.pread(fd, size, i * size))
        begun = time.process_time()
        free_range(fd, 0, count * size)
        spent["free there"] = 1e6 * (time.process_time() - begun) / count
        begun = time.process_time()
        over_socket()
        spent["instead: send and receive by a socket"] = 1e6 * (time.process_time() - begun) / count
    return spent


def run(python: str, program: str, address: str, batches: int, processes: int) -> dict[str, float]:
    """Run `read` in a new process; add the CPU seconds of its processes, without imports, and those of the fetcher."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as cache:
        where = [address, cache if program == "cache" else ""]
        command = [python, __file__, "read", program, *where, str(batches), str(processes)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.read()
        spent = {"fetcher": 0.0, "all": sum(os.wait4(process.pid, 0)[2][:2])}
        found: dict[str, float] = json.loads(said)
        for number in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
            arguments = Path(f"/proc/{number}/cmdline").read_text().split("\0")
            if "shardfeed.pipelines.caching.fetcher" in arguments:
                os.kill(number, signal.SIGKILL)  # it would wait 10 s for the next reader
                spent["fetcher"] = sum(os.wait4(number, 0)[2][:2])
                shutil.rmtree(arguments[-3], ignore_errors=True)
    return found | spent | {"all": spent["all"] + spent["fetcher"] - found["imports"]}


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time per record of reading a bucket.")
    parser.add_argument("--bytes", type=int, nargs="+", default=[65_000, 2_000, 1_000_000])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=["workers", "threads"])
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request (0.03)")
    parser.add_argument("--speed", type=float, default=200, help="MB/s of all requests together (200)")
    parser.add_argument("--megabytes", type=int, default=800, help="of a dataset, of 60,000 records at most (800)")
    parser.add_argument("--workers", type=int, default=2, help="of PyTorch, but for threads (2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first", action="store_true", help="only the first batch of each program")
    parser.add_argument("--steps", action="store_true", help="measure single steps of a record's way instead")
    parser.add_argument("--pythons", nargs="+", default=[f"now={sys.executable}"], help="name=path of each")
    args = parser.parse_args()
    if args.steps:
        found = [[steps(size) for _ in range(args.rounds)] for size in args.bytes]
        print("| CPU µs per record of |", *(f"{size:,} bytes |" for size in args.bytes))
        print("|---|" + "---:|" * len(args.bytes))
        for name in found[0][0]:
            print(f"| {name} |", *(f"{statistics.median(each[name] for each in of):,.1f} |" for of in found))
        return 0
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: a fetcher, which outlives its program, becomes ours
    keys = {"AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
    heads = ("records", "program", "Python", "CPU µs per record", "of it the fetcher", "MB/s", "start-up, s")
    print("|", " | ".join((*heads, "first batch, s")), "|")
    print("|---:|---|---|---:|---:|---:|---:|---:|")
    with (
        tempfile.TemporaryDirectory() as directory,
        file_server(Path(directory), args.latency, args.speed * 1e6) as server,
    ):
        os.environ |= keys | {"AWS_ENDPOINT_URL": server.url}
        for size in args.bytes:
            name = f"records-{size}"
            make_dataset(Path(directory) / name, size, min(60_000, args.megabytes * 1_000_000 // size))
            places = {"": f"s3://bucket/{name}", ", from a disk": str(Path(directory) / name)}
            kinds = [
                (program, kind, each)
                for program in args.programs
                for kind in places
                for each in args.pythons
                if not kind or (program not in ("client", "cache") and not args.first)
            ]
            runs: dict[Any, list[tuple[float, ...]]] = {one: [] for one in kinds}
            for _ in range(args.rounds):
                for (program, kind, each), of in runs.items():
                    how = each.partition("=")[2], program, places[kind]
                    of_one = run(*how, 1, args.workers)
                    of_all = of_one if args.first else run(*how, 1 << 40, args.workers)
                    per_record = 1e6 / of_all["records"]
                    spent = per_record * of_all["all"], per_record * of_all["fetcher"]
                    rate = size * (of_all["records"] - BATCH) / (of_all["seconds"] - of_all["first"]) / 1e6
                    of.append((*spent, rate, of_one["all"], of_one["first"]))
            for (program, kind, each), of in runs.items():
                *spent, rate, start, first = (statistics.median(values) for values in zip(*of, strict=True))
                costs = " | | " if args.first else f"{spent[0]:,.0f} | {spent[1]:,.0f} | {rate:,.0f}"
                label = f"| {size:,} | {program}{kind} | {each.partition('=')[0]}"
                print(f"{label} | {costs} | {start:.2f} | {first:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(sys.argv[2], sys.argv[3], sys.argv[4], *map(int, sys.argv[5:]))
    else:
        sys.exit(main())
