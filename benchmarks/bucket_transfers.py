"""Converts from a bucket, pushes and pulls, beside the client alone: a real S3 server behind a proxy with a delay.

    python benchmarks/bucket_transfers.py PHOTOS [--latency 0.03] [--speed 200] [--rounds 3] [--only convert push]

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
SMALL_SHARDS = 500
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
        ("get photos", "put dataset"), 64, ("convert", "s3://bucket/photos", "s3://bucket/NEW", "--check", "header")
    ),
    "push": Job(("put dataset",), 16, ("push", "FOLDER/dataset", "s3://bucket/NEW")),
    "push, small files": Job(("put small",), 16, ("push", "FOLDER/small", "s3://bucket/NEW")),
    "pull": Job(("get dataset",), 16, ("pull", "s3://bucket/dataset", "OUT")),
    "pull, small files": Job(("get small",), 16, ("pull", "s3://bucket/small", "OUT")),
}


def alone(job: str, connections: int, folder: str) -> None:
    """Move the bytes of a job by the client alone, and print the seconds without start and listing."""
    import obstore

    verb, name = job.split()
    store: Any = obstore.store.from_url("s3://bucket", client_options={"allow_http": True})

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
    parser.add_argument("--speed", type=float, default=200, help="MB/s of all requests together (200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=tuple(JOBS), help="(all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        convert(ImageFolder(args.photos), folder / "dataset")
        convert(ImageFolder(args.photos), folder / "small", shards=SMALL_SHARDS)
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
            environment = dict(os.environ)

            def client(job: Job) -> tuple[float, float, int]:
                bucket.proxy.requests.clear()
                runs = [
                    timed([sys.executable, __file__, one, str(job.connections), directory], environment)
                    for one in job.alone
                ]
                return sum(float(text) for *_, text in runs), sum(cpu for _, cpu, _ in runs), len(bucket.proxy.requests)

            def ours(job: Job, number: int) -> tuple[float, float, int]:
                bucket.proxy.requests.clear()
                out = folder / "out"
                given = {"OUT": str(out), "NEW": f"new-{number}", "FOLDER": directory}
                command = list(job.command)
                for name, value in given.items():
                    command = [word.replace(name, value) for word in command]
                seconds, cpu, _ = timed([_SHARDFEED, *command], environment)
                shutil.rmtree(out, ignore_errors=True)
                return seconds, cpu, len(bucket.proxy.requests)

            found: dict[str, list[tuple[tuple[float, float, int], ...]]] = {name: [] for name in args.only}
            number = 0
            for _ in range(args.rounds):
                for name, runs in found.items():
                    number += 1
                    runs.append((client(JOBS[name]), ours(JOBS[name], number)))
                    print(name, *([round(each, 2) for each in one] for one in runs[-1]), file=sys.stderr, flush=True)
    columns = (
        "job",
        "connections",
        "client alone, s",
        "shardfeed, s",
        "relative",
        "client's CPU s",
        "ours",
        "requests",
    )
    print(f"| {' | '.join(columns)} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, runs in found.items():
        (base, base_cpu, _), (seconds, cpu, requests) = (
            [statistics.median(column) for column in zip(*which, strict=True)] for which in zip(*runs, strict=True)
        )
        relative = statistics.median(one[0] / other[0] for one, other in runs)
        print(
            f"| {name} | {JOBS[name].connections} | {base:.1f} | {seconds:.1f} | {relative:.2f} "
            f"| {base_cpu:.1f} | {cpu:.1f} | {requests:,.0f} |"
        )
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2].isdecimal():
        alone(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
