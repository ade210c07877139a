"""Reads a dataset from a real S3 server behind a proxy that delays each request and limits the speed, beside others.

    python benchmarks/bucket_reading.py PHOTOS [--latency 0.03] [--speed 200] [--rounds 3]

PHOTOS is an image folder (benchmarks/photos.py draws one). Contenders alternate; the table has medians. `link` reads
the shards' bytes with the client alone: what server and proxy give, which share the machine's cores; "torch, from a
disk" reads a local copy in the same order. SeaweedFS comes with the tests' extra; other programs get environments of
their own.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

from environments import NotInstallableError, clean_environment, environment_python  # noqa: E402

import shardfeed  # noqa: E402
from shardfeed.converters import ImageFolder, convert  # noqa: E402

from buckets import KEY, SECRET, Bucket, bucket_behind  # noqa: E402
from seaweed import seaweed  # noqa: E402

_OTHERS = {
    "webdataset": ["torch==2.13.0", "webdataset==1.0.2"],
    "streaming": ["torch==2.13.0", "mosaicml-streaming==0.13.0"],
}
_OURS = ("torch", "torch, from a disk", "torch, from the cache", "threads", "threads, from a disk", "tensorflow")
_CONTENDERS = ("link", *_OURS, *_OTHERS)


def python_of(program: str) -> str:
    return environment_python(f"bucket-{program}", _OTHERS[program], "") if program in _OTHERS else sys.executable


def run(contender: str, bucket: Bucket, folder: Path) -> dict[str, Any]:
    """Run one contender: images and bytes of each epoch, requests, seconds to the first batch, CPU time."""
    program = contender.partition(",")[0]
    addresses = {"webdataset": "s3://bucket/tars", "streaming": "s3://bucket/mds/train"}
    environment = clean_environment() | {"S3_ENDPOINT_URL": bucket.proxy.url, "AWS_ENDPOINT_URL": bucket.proxy.url}
    environment |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    tars = [str(path.relative_to(folder)) for path in sorted((folder / "tars").rglob("*.tar"))]
    sign = bucket.client.generate_presigned_url
    signed = [sign("get_object", Params={"Bucket": "bucket", "Key": name}) for name in tars]
    environment["TARS"] = json.dumps([bucket.proxy.url + "/" + url.split("/", 3)[3] for url in signed])
    while any(Path("/dev/shm").glob("shardfeed-*")):  # records that the contender before it fetched
        time.sleep(0.5)
    bucket.proxy.requests.clear()
    bucket.proxy.sent = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as cache:
        command = [python_of(program), str(Path(__file__).with_name("bucket_loader.py")), program]
        local = str(folder / "dataset") if "disk" in contender else ""
        command += [local or addresses.get(program, "s3://bucket/dataset")]
        command += ["2", cache] if "cache" in contender else ["1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:200]}
    found, cpu = map(json.loads, done.stdout.splitlines()[-2:])
    return found | {"cpu": cpu, "requests": len(bucket.proxy.requests), "sent": bucket.proxy.sent}


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads a dataset from an S3 server with a delay, beside others.")
    parser.add_argument("photos")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request (0.03)")
    parser.add_argument("--speed", type=float, default=200, help="MB/s of all requests together (200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", choices=_CONTENDERS, default=_CONTENDERS, help="(all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        forms: dict[str, Any] = {"dataset": "tfrecord"}
        forms |= {"tars": "webdataset"} if "webdataset" in args.contenders else {}
        forms |= {"mds": "mds"} if "streaming" in args.contenders else {}
        for name, form in forms.items():
            convert(ImageFolder(args.photos), folder / name, to=form)
        (folder / "server").mkdir()
        (folder / "files").mkdir()
        with (
            seaweed(folder / "server", KEY, SECRET, volumes=200) as port,
            bucket_behind(port, folder / "files", "bucket") as bucket,
        ):
            for name in forms:
                bucket.upload(shardfeed.open(folder / name), name)
            bucket.proxy.latency, bucket.proxy.speed = args.latency, args.speed * 1e6
            rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in args.contenders}
            for _ in range(args.rounds):
                for name, of in rounds.items():
                    try:
                        of.append(run(name, bucket, folder))
                    except NotInstallableError as error:
                        of.append({"failed": str(error)})
    print("| program | images/s | MB/s | next epoch | first batch, s | requests per image | CPU µs per image |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, of in rounds.items():
        good = [each for each in of if "failed" not in each]
        if not good:
            print(f"| {name} | failed: {of[0]['failed']} |")
            continue
        epochs = [each["epochs"] for each in good]
        median = statistics.median
        later = f"{median(e[1]['samples'] / e[1]['seconds'] for e in epochs):,.0f}" if len(epochs[0]) > 1 else ""
        count = [sum(epoch["samples"] for epoch in each) for each in epochs]
        print(
            f"| {name} | {median(e[0]['samples'] / e[0]['seconds'] for e in epochs):,.0f} "
            f"| {median(e[0]['bytes'] / e[0]['seconds'] for e in epochs) / 1e6:.0f} | {later} "
            f"| {median(each['first'] for each in good):.1f} "
            f"| {median(each['requests'] / n for each, n in zip(good, count, strict=True)):.4f} "
            f"| {median(1e6 * each['cpu'] / n for each, n in zip(good, count, strict=True)):,.0f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
