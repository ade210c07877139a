"""Converts from a bucket, pushes and pulls, beside the client alone: a real S3 server behind a proxy with a delay.

    python benchmarks/bucket_transfers.py PHOTOS [--latency 0.03] [--speed 20] [--rounds 3] [--only convert push]

PHOTOS is an image folder (benchmarks/photos.py draws one). Of each job, obstore alone moves the same bytes with as many
connections, in the same round: what server and proxy give, which share the machine's cores. Seconds of the client alone
are without its start; those of shardfeed are of the whole command, imports and all. CPU time is that of the command's
processes, not of server and proxy. SeaweedFS comes with the tests' extra.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

RANGE = 8 << 20  # bytes of one request for a part of a file
PART = 16 << 20  # bytes of one part of a file that is sent
SMALL_SHARDS = 500  # of a tenth of the photos
_SHARDFEED = str(Path(sys.executable).with_name("shardfeed"))


class Job(NamedTuple):
    """A measurement: the client alone (see `alone`) with `connections`, and a command of shardfeed."""

    alone: tuple[str, ...]
    connections: int
    command: tuple[str, ...]


JOBS = {
    "convert": Job(("get photos",), 64, ("convert", "s3://bucket/photos", "OUT")),
    "convert, headers": Job(("get photos",), 64, ("convert", "s3://bucket/photos", "OUT", "--check", "header")),
    "convert to a bucket": Job(
        ("get photos", "put dataset"), 64, ("convert", "s3://bucket/photos", "s3://new/dataset", "--check", "header")
    ),
    "push": Job(("put dataset",), 16, ("push", "FOLDER/dataset", "s3://new/dataset")),
    "push, small files": Job(("put small",), 16, ("push", "FOLDER/small", "s3://new/dataset")),
    "pull": Job(("get dataset",), 16, ("pull", "s3://bucket/dataset", "OUT")),
    "pull, small files": Job(("get small",), 16, ("pull", "s3://bucket/small", "OUT")),
}


def alone(job: str, connections: int, folder: str) -> None:
    """Move the bytes of a job by the client alone, and print the seconds without start and listing."""
    import obstore

    verb, name = job.split()
    there = "s3://bucket" if verb == "get" else "s3://new"
    store: Any = obstore.store.from_url(there, client_options={"allow_http": True})

    def get(path: str, start: int, end: int) -> None:
        obstore.get(store, path, options={"range": (start, end)}).bytes()

    def put(path: str, start: int, end: int) -> None:
        with open(path, "rb", 0) as file:
            file.seek(start)
            obstore.put(store, f"alone/{path.replace('/', '-')}-{start}", file.read(end - start), use_multipart=False)

    if verb == "get":
        sizes = {one["path"]: one["size"] for page in obstore.list(store, f"{name}/") for one in page}
    else:
        sizes = {str(path): path.stat().st_size for path in Path(folder, name).rglob("*") if path.is_file()}
    step = RANGE if verb == "get" else PART
    pieces = [(path, at, min(size, at + step)) for path, size in sizes.items() for at in range(0, size, step)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(get if verb == "get" else put, *zip(*pieces, strict=True)))
    print(time.perf_counter() - begun)


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """Seconds, CPU seconds of all its processes, and output of a command."""
    with tempfile.TemporaryFile("w+") as out:
        begun = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {text[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime, text


def main() -> int:
    # Not above: the client alone takes no time to import them.
    import shardfeed
    from shardfeed.converters import ImageFolder, convert

    from buckets import KEY, SECRET, bucket_behind
    from seaweed import seaweed

    parser = argparse.ArgumentParser(description="Moves images and datasets from and to an S3 server with a delay.")
    parser.add_argument("photos")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request (0.03)")
    parser.add_argument("--speed", type=float, default=20, help="MB/s of all requests together (20)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=tuple(JOBS), help="(all)")
    parser.add_argument("--beside", nargs="*", default=(), help="commands `shardfeed` of other versions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        convert(ImageFolder(args.photos), folder / "dataset")
        convert(ImageFolder(args.photos, include=["*0.jpg"]), folder / "small", shards=SMALL_SHARDS)
        photos = [path for path in Path(args.photos).rglob("*") if path.is_file()]
        (folder / "server").mkdir()
        (folder / "files").mkdir()
        with (
            seaweed(folder / "server", KEY, SECRET, volumes=600) as port,
            bucket_behind(port, folder / "files", "bucket") as bucket,
        ):
            for name in ("dataset", "small"):
                bucket.upload(shardfeed.open(folder / name), name)

            def upload(path: Path) -> None:
                key = f"photos/{path.relative_to(args.photos)}"
                bucket.client.put_object(Bucket="bucket", Key=key, Body=path.read_bytes())

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(upload, photos))
            bucket.proxy.latency, bucket.proxy.speed = args.latency, args.speed * 1e6
            environment, commands = dict(os.environ), [*args.beside, _SHARDFEED]

            def client(job: Job) -> list[float]:
                """Seconds, and CPU seconds, of the client alone."""
                words = [[sys.executable, __file__, one, str(job.connections), directory] for one in job.alone]
                runs = [timed(each, environment) for each in words]
                return [sum(float(text) for *_, text in runs), sum(cpu for _, cpu, _ in runs)]

            def ours(job: Job, command: str) -> list[float]:
                given = {"OUT": str(folder / "out"), "FOLDER": directory}
                words = [command, *job.command]
                for name, value in given.items():
                    words = [word.replace(name, value) for word in words]
                bucket.proxy.requests.clear()
                seconds, cpu, _ = timed(words, environment)
                shutil.rmtree(folder / "out", ignore_errors=True)
                return [seconds, cpu, len(bucket.proxy.requests)]

            found: dict[str, list[list[list[float]]]] = {name: [] for name in args.only}
            for _ in range(args.rounds):
                for name, runs in found.items():
                    runs.append([])
                    for command in ("", *commands):
                        bucket.client.create_bucket(Bucket="new")
                        runs[-1].append(ours(JOBS[name], command) if command else client(JOBS[name]))
                        for page in bucket.client.get_paginator("list_objects_v2").paginate(Bucket="new"):
                            for one in page.get("Contents", ()):
                                bucket.client.delete_object(Bucket="new", Key=one["Key"])
                        bucket.client.delete_bucket(Bucket="new")  # and what it took of the server's disk
                    print(name, *([round(each, 2) for each in one] for one in runs[-1]), file=sys.stderr, flush=True)
    columns = ["job", "connections", "client alone, s", "its CPU s"]
    columns += [f"{column} {command}" for command in commands for column in ("s", "relative", "CPU s", "requests")]
    print(f"| {' | '.join(columns)} |")
    print(f"|---{'|---:' * (len(columns) - 1)}|")
    median = statistics.median
    for name, runs in found.items():
        base, *others = ([median(column) for column in zip(*each, strict=True)] for each in zip(*runs, strict=True))
        cells = [name, str(JOBS[name].connections), *(f"{each:.1f}" for each in base)]
        for at, (seconds, cpu, requests) in enumerate(others, 1):
            relative = median(run[0][0] / run[at][0] for run in runs)
            cells += [f"{seconds:.1f}", f"{relative:.2f}", f"{cpu:.1f}", f"{requests:,.0f}"]
        print(f"| {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2].isdecimal():
        alone(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
