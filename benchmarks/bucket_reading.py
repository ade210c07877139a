"""Reads a dataset from an S3 server that delays each request, at several speeds of the link, beside other programs.

    python benchmarks/bucket_reading.py PHOTOS [--latency 0.03] [--speeds 50 200 500 1000] [--rounds 3] [--server files]

PHOTOS is an image folder (benchmarks/photos.py draws one). Contenders alternate; the table has medians. `link` reads
the shards' bytes with the client alone: what the server gives, which shares the machine's cores; ", from a disk" reads
a local copy. The server is SeaweedFS, of the tests' extra, behind a proxy, or `bucket_server.py`, which takes less of
the machine and so sends faster. Other programs get environments of their own.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

from bucket_server import file_server  # noqa: E402
from environments import NotInstallableError, clean_environment, environment_python  # noqa: E402

from shardfeed.converters import ImageFolder, convert  # noqa: E402

from buckets import KEY, SECRET, bucket_behind  # noqa: E402
from seaweed import seaweed  # noqa: E402

_OTHERS = {
    "webdataset": ["torch==2.13.0", "webdataset==1.0.2"],
    "streaming": ["torch==2.13.0", "mosaicml-streaming==0.13.0"],
    "litdata": ["torch==2.13.0", "litdata==0.2.76"],
}
_OURS = ("torch", "threads", "tensorflow", "array_batches", "train_batches")
_CONTENDERS = (
    "link",
    "torch, from the cache",
    *(f"{each}{of}" for each in (*_OURS, *_OTHERS) for of in ("", ", from a disk")),
)
_FORMS = {"webdataset": "tars", "streaming": "mds/train", "litdata": "litdata/all"}
# Images, about 64 MB as in LitData's documentation. It reads a chunk that two workers share whole for each image, which
# a small dataset would show too much of; chunks of equal length are dealt out whole.
_CHUNK = 1000


@dataclass
class Server:
    """An S3 server: its address, the addresses of objects without a signature, what limits it, and what it counts.

    `limit`: gets seconds per request and bytes/s. `counts`: requests and bytes, so far.
    """

    url: str
    signed: Callable[[str], str]
    limit: Callable[[float, float], None]
    counts: Callable[[], tuple[int, int]]


@contextmanager
def files(folder: Path, forms: list[str]) -> Iterator[Server]:
    """Serve what is below a folder, where each form is."""
    with file_server(folder, 0, 1e12) as served:
        numbers = served.numbers

        def limit(latency: float, speed: float) -> None:
            numbers.latency, numbers.speed = latency, speed

        yield Server(
            served.url, lambda key: f"{served.url}/bucket/{key}", limit, lambda: (numbers.requests, numbers.sent)
        )


@contextmanager
def seaweedfs(folder: Path, forms: list[str]) -> Iterator[Server]:
    """Copy the forms below a folder into a bucket of SeaweedFS, and serve it behind a proxy."""
    (folder / "server").mkdir()
    (folder / "files").mkdir()
    with (
        seaweed(folder / "server", KEY, SECRET, volumes=200) as port,
        bucket_behind(port, folder / "files", "bucket") as bucket,
    ):
        proxy, client = bucket.proxy, bucket.client
        for path in (path for form in forms for path in (folder / form).rglob("*") if path.is_file()):
            client.put_object(Bucket="bucket", Key=str(path.relative_to(folder)), Body=path.read_bytes())

        def signed(key: str) -> str:
            url = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key})
            return f"{proxy.url}/{url.split('/', 3)[3]}"

        def limit(latency: float, speed: float) -> None:
            proxy.latency, proxy.speed = latency, speed

        yield Server(proxy.url, signed, limit, lambda: (len(proxy.requests), proxy.sent))


def python_of(program: str) -> str:
    return environment_python(f"bucket-{program}", _OTHERS[program], "") if program in _OTHERS else sys.executable


def run(contender: str, server: Server, folder: Path) -> dict[str, Any]:
    """Run one contender: images and bytes of each epoch, requests, seconds to the first batch, CPU time."""
    program, _, how = contender.partition(", ")
    form = _FORMS.get(program, "dataset")
    tars = [str(path.relative_to(folder)) for path in sorted((folder / "tars").rglob("*.tar"))]
    environment = clean_environment() | {"S3_ENDPOINT_URL": server.url, "AWS_ENDPOINT_URL": server.url}
    environment |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    environment["TARS"] = json.dumps([str(folder / tar) if how else server.signed(tar) for tar in tars])
    before = server.counts()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as caches:
        environment["CACHES"] = caches
        command = [python_of(program), str(Path(__file__).with_name("bucket_loader.py")), program]
        command += [str(folder / form) if how == "from a disk" else f"s3://bucket/{form}"]
        command += ["2", caches] if how == "from the cache" else ["1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:200]}
    found, cpu = map(json.loads, done.stdout.splitlines()[-2:])
    requests, sent = (now - earlier for now, earlier in zip(server.counts(), before, strict=True))
    return found | {"cpu": cpu - found["imports"], "requests": requests, "sent": sent}


def make_forms(photos: str, folder: Path, programs: set[str]) -> list[str]:
    """Write the photos as each program reads them; the folders' names."""
    forms: dict[str, Any] = {"dataset": "tfrecord"}
    forms |= {"tars": "webdataset"} if "webdataset" in programs else {}
    forms |= {"mds": "mds"} if "streaming" in programs else {}
    for name, form in forms.items():
        convert(ImageFolder(photos), folder / name, to=form)
    if "litdata" not in programs:
        return list(forms)
    writer = Path(__file__).with_name("conversions") / "litdata_chunks.py"
    command = [python_of("litdata"), str(writer), photos, str(folder / "litdata"), "0", str(_CHUNK)]
    (folder / "litdata").mkdir()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
    return [*forms, "litdata"]


def table(rounds: dict[str, list[dict[str, Any]]]) -> None:
    """Print the medians of each contender."""
    print("| program | images/s | MB/s | next epoch | first batch, s | requests per image | CPU µs per image |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    median = statistics.median
    for name, of in rounds.items():
        good = [each for each in of if "failed" not in each]
        if not good:
            print(f"| {name} | failed: {of[0]['failed']} |")
            continue
        epochs = [each["epochs"] for each in good]
        later = f"{median(e[1]['samples'] / e[1]['seconds'] for e in epochs):,.0f}" if len(epochs[0]) > 1 else ""
        count = [sum(epoch["samples"] for epoch in each) for each in epochs]
        print(
            f"| {name} | {median(e[0]['samples'] / e[0]['seconds'] for e in epochs):,.0f} "
            f"| {median(e[0]['bytes'] / e[0]['seconds'] for e in epochs) / 1e6:.0f} | {later} "
            f"| {median(each['first'] for each in good):.1f} "
            f"| {median(each['requests'] / n for each, n in zip(good, count, strict=True)):.4f} "
            f"| {median(1e6 * each['cpu'] / n for each, n in zip(good, count, strict=True)):,.0f} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads a dataset from an S3 server with a delay, beside others.")
    parser.add_argument("photos")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request (0.03)")
    parser.add_argument("--speeds", type=float, nargs="+", default=[200], help="MB/s of all requests together (200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=("seaweedfs", "files"), default="seaweedfs")
    parser.add_argument("--contenders", nargs="+", choices=_CONTENDERS, default=_CONTENDERS, help="(all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        forms = make_forms(args.photos, folder, {each.partition(",")[0] for each in args.contenders})
        with {"files": files, "seaweedfs": seaweedfs}[args.server](folder, forms) as server:
            for speed in args.speeds:
                server.limit(args.latency, speed * 1e6)
                rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in args.contenders}
                for _ in range(args.rounds):
                    for name, of in rounds.items():
                        try:
                            of.append(run(name, server, folder))
                        except NotInstallableError as error:
                            of.append({"failed": str(error)})
                        print(f"{speed:,.0f} MB/s, {name}: {of[-1]}", file=sys.stderr, flush=True)
                print(f"\n{speed:,.0f} MB/s\n", flush=True)
                table(rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
