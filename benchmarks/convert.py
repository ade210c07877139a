"""Conversion against `tar cf` and a TFRecordWriter loop: `python benchmarks/convert.py [PHOTOS]`.

Every run is a process of its own, ends when its bytes are on the disk (fsync, or `sync -f` for those that do not),
and starts after the last one's output was removed and the disk has come to rest. Rounds alternate (A B A B ...), the
first is a warm-up and not counted. Starting is measured apart, as it costs the same for any number of images: for
shardfeed it is what the same conversion of ten of the images takes, in every round; for TensorFlow its import. Rates
are without it; the column "with start" has it. Results go to benchmarks/results/convert.json and convert.md.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SHARDS = 8
WORKERS = 2
PEAK_ALLOWED = 150_000_000  # bytes resident in one worker
RESULTS = Path(__file__).parent / "results"

Measured = dict[str, float]


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(work: Callable[[], object]) -> Measured:
    started, cpu = time.monotonic(), cpu_seconds()
    work()
    return {"seconds": time.monotonic() - started, "cpu_seconds": cpu_seconds() - cpu}


def peak(who: int) -> float:
    """Bytes. For children the largest of them; not below what this process had when it started them."""
    return resource.getrusage(who).ru_maxrss * 1024


def run_shardfeed(photos: str, out: str, *, check: Any, sha256: bool) -> Measured:
    from shardfeed.converters import ImageFolder, ImageOptions, convert

    def work() -> None:
        source, image = ImageFolder(photos), ImageOptions(check=check)
        report = convert(source, f"{out}/all", shards=SHARDS, workers=WORKERS, sha256=sha256, image=image)
        if report.rejected:
            raise SystemExit(f"{report.rejected[0]}: rejected, the photos are damaged")

    measured = timed(work)
    return measured | {"start_seconds": 0.0, "peak_bytes": peak(resource.RUSAGE_CHILDREN)}


def run_header(photos: str, out: str) -> Measured:
    return run_shardfeed(photos, out, check="header", sha256=False)


def run_default(photos: str, out: str) -> Measured:
    return run_shardfeed(photos, out, check="decode", sha256=True)


def run_tar(photos: str, out: str) -> Measured:
    def work() -> None:
        subprocess.run(["tar", "cf", f"{out}/all.tar", "-C", photos, "."], check=True)
        subprocess.run(["sync", "-f", f"{out}/all.tar"], check=True)

    measured = timed(work)
    return measured | {"start_seconds": 0.0, "peak_bytes": peak(resource.RUSAGE_CHILDREN)}


def run_tensorflow(photos: str, out: str) -> Measured:
    started = time.monotonic()
    import tensorflow as tf

    imported = time.monotonic() - started

    def feature(value: bytes | int) -> Any:
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    def work() -> None:
        paths = sorted(Path(photos).rglob("*.jpg"))
        labels = {parent: label for label, parent in enumerate(sorted({path.parent for path in paths}))}
        for shard in range(SHARDS):
            with tf.io.TFRecordWriter(f"{out}/train-{shard:05d}-of-{SHARDS:05d}.tfrecord") as writer:
                for path in paths[shard::SHARDS]:
                    values = {
                        "image/encoded": feature(path.read_bytes()),
                        "image/filename": feature(os.fsencode(path.name)),
                        "image/class/label": feature(labels[path.parent]),
                    }
                    writer.write(tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString())
        subprocess.run(["sync", "-f", out], check=True)

    measured = timed(work)
    measured["seconds"] += imported
    return measured | {"start_seconds": imported, "peak_bytes": peak(resource.RUSAGE_SELF)}


METHODS: dict[str, tuple[str, Callable[[str, str], Measured]]] = {
    "header": (f"shardfeed, --check header --no-hash, {WORKERS} workers", run_header),
    "tar": ("tar cf, sync -f", run_tar),
    "default": (f"shardfeed, defaults (decodes and hashes every image), {WORKERS} workers", run_default),
    "tensorflow": ("tf.io.TFRecordWriter loop, sync -f", run_tensorflow),
}
ALTERNATING = (("header", "tar"), ("default", "tensorflow"))
OURS = ("header", "default")
FEW = 10  # images whose conversion is all start


def measure(method: str, photos: str, scratch: str) -> Measured:
    """One run in a child process; its output is removed afterwards. What it says is shown only when it fails."""
    with tempfile.TemporaryDirectory(dir=scratch) as out:
        subprocess.run(["sync", "-f", scratch], check=True)
        command = [sys.executable, __file__, photos, "--only", method, "--scratch", out]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{method}: {done.stderr}")
        return json.loads(done.stdout)


def net_seconds(run: Measured) -> float:
    """Without the start."""
    return run["seconds"] - run["start_seconds"]


def summary(rounds: Sequence[Measured], images: int, size: int) -> dict[str, Any]:
    """Medians, and the highest peak; rates are without the start."""
    net = statistics.median(map(net_seconds, rounds))
    cpu = statistics.median(run["cpu_seconds"] for run in rounds)
    return {
        "seconds": statistics.median(run["seconds"] for run in rounds),
        "start_seconds": statistics.median(run["start_seconds"] for run in rounds),
        "net_seconds": net,
        "images_per_second": images / net,
        "megabytes_per_second": size / 1e6 / net,
        "cpu_microseconds_per_image": cpu / images * 1e6,
        "peak_bytes": max(run["peak_bytes"] for run in rounds),
        "rounds": list(rounds),
    }


def times_tar(rounds: Sequence[Measured], tar: Sequence[Measured], seconds: Callable[[Measured], float]) -> float:
    """How many times faster than tar: the median over rounds, each against the tar run of the same round."""
    return statistics.median(seconds(other) / seconds(ours) for ours, other in zip(rounds, tar, strict=True))


def markdown(result: dict[str, Any]) -> str:
    lines = [
        f"{result['images']:,} JPEGs of {result['bytes'] / result['images'] / 1e3:.0f} kB, medians of "
        f"{result['rounds']} rounds, bytes on disk at the end; {result['machine']['cpu']}, "
        f"{result['machine']['cores']} cores.",
        "",
        "| | images/s | MB/s | times tar | with start | start, s | CPU µs/image | peak MB a process |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (text, _) in METHODS.items():
        m = result["methods"][name]
        lines.append(
            f"| {text} | {m['images_per_second']:,.0f} | {m['megabytes_per_second']:,.0f} | {m['times_tar']:.2f} "
            f"| {m['times_tar_with_start']:.2f} | {m['start_seconds']:.2f} | {m['cpu_microseconds_per_image']:,.0f} "
            f"| {m['peak_bytes'] / 1e6:.0f} |"
        )
    return "\n".join(lines) + "\n"


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def few_photos(photos: str, scratch: str) -> str:
    """A folder with a few of the photos, in two of their classes."""
    few = Path(scratch) / "few"
    for folder in sorted(path for path in Path(photos).iterdir() if path.is_dir())[:2]:
        (few / folder.name).mkdir(parents=True)
        for path in sorted(folder.glob("*.jpg"))[: FEW // 2]:
            shutil.copy(path, few / folder.name)
    return str(few)


def compare(photos: str, rounds: int, scratch: str) -> dict[str, Any]:
    sizes = [path.stat().st_size for path in Path(photos).rglob("*.jpg")]
    runs: dict[str, list[Measured]] = {method: [] for method in METHODS}
    few = few_photos(photos, scratch)
    for pair in ALTERNATING:
        for number in range(rounds + 1):
            for method in pair:
                measured = measure(method, photos, scratch)
                if method in OURS:
                    measured["start_seconds"] = measure(method, few, scratch)["seconds"]
                which = f"round {number}" if number else "warm-up"
                print(f"{which}, {method}: {measured['seconds']:.2f} s", flush=True)
                if number:
                    runs[method].append(measured)
    methods = {method: summary(found, len(sizes), sum(sizes)) for method, found in runs.items()}
    for method, found in runs.items():
        methods[method]["times_tar"] = times_tar(found, runs["tar"], net_seconds)
        methods[method]["times_tar_with_start"] = times_tar(found, runs["tar"], lambda run: run["seconds"])
    return {"images": len(sizes), "bytes": sum(sizes), "rounds": rounds, "machine": machine(), "methods": methods}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure conversion against tar and TensorFlow's writer.")
    parser.add_argument("photos", nargs="?", default=RESULTS / "photos", help="image folder; drawn when it is missing")
    parser.add_argument("--count", type=int, default=4000, help="photos to draw where they are missing (4000)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds after one warm-up (5)")
    parser.add_argument("--scratch", help="folder for what is written (default: beside the photos)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for convert.json and convert.md")
    parser.add_argument("--only", choices=METHODS, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    photos = os.path.abspath(args.photos)
    if args.only:
        print(json.dumps(METHODS[args.only][1](photos, args.scratch)))
        return 0
    if not os.path.isdir(photos):
        from photos import make_photos  # not above: what it imports would weigh on every measured process

        print(f"drawing {args.count} photos into {photos}", flush=True)
        os.makedirs(os.path.dirname(photos), exist_ok=True)
        make_photos(photos + ".partial", args.count)
        os.rename(photos + ".partial", photos)
    with tempfile.TemporaryDirectory(dir=args.scratch or os.path.dirname(photos)) as scratch:
        result = compare(photos, args.rounds, scratch)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "convert.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.results / "convert.md").write_text(markdown(result))
    print(markdown(result))
    too_large = [m for m in OURS if result["methods"][m]["peak_bytes"] >= PEAK_ALLOWED]
    for method in too_large:
        print(f"{method}: a worker took more than {PEAK_ALLOWED / 1e6:.0f} MB", file=sys.stderr)
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
