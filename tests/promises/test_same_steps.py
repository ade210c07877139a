"""The same steps, bit for bit: in any storage, by any loader, with any ranks, killed and gone on with elsewhere."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.readers import Dataset

from buckets import KEY, SECRET, bucket_behind
from gcs import gcs_server
from seaweed import seaweed
from steps import OPTIONS, STREAM, digest
from web_server import web_server

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[1] / "support" / "steps.py"
KILLED_AT, STEPS = 3, 10  # a window is five steps
Runs = list[tuple[int, str, str | None]]

# Of each loader and number of ranks, where it begins, and where it goes on.
CASES = [
    ("tensorflow", {1: ("disk", "s3"), 2: ("gs", "http"), 3: ("http", "disk"), 4: ("s3", "gs")}),
    ("stream", {1: ("s3", "disk"), 2: ("disk", "gs"), 3: ("gs", "http"), 4: ("http", "s3")}),
    ("fork", {1: ("http", "gs"), 2: ("s3", "disk"), 3: ("disk", "http"), 4: ("gs", "s3")}),
    ("spawn", {1: ("gs", "s3"), 2: ("disk", "http"), 3: ("s3", "disk"), 4: ("http", "gs")}),
    ("forkserver", {1: ("s3", "http"), 2: ("gs", "disk"), 3: ("http", "s3"), 4: ("disk", "s3")}),
]


@pytest.fixture(scope="module")
def addresses(flowers: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The dataset on the disk, in SeaweedFS, in an emulator of Google Cloud Storage, and on a web server."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("seaweed", "proxy", "gcs", "web")}
    name = f"flowers-{os.getpid()}"  # a fetcher of an earlier run may be there still
    shutil.copytree(flowers.directory, folders["web"] / name)
    shutil.copytree(flowers.directory, folders["gcs"] / "steps" / name)
    with ExitStack() as stack:
        port = stack.enter_context(seaweed(folders["seaweed"], KEY, SECRET))
        bucket = stack.enter_context(bucket_behind(port, folders["proxy"], "steps"))
        web = stack.enter_context(web_server(folders["web"]))
        stack.enter_context(gcs_server(folders["gcs"]))
        s3 = bucket.upload(flowers, name)
        yield {"disk": flowers.directory, "s3": s3, "gs": f"gs://steps/{name}", "http": f"{web.url}/{name}"}


@pytest.fixture(scope="module")
def expected(flowers: Dataset) -> dict[str, list[tuple[Any, Any]]]:
    """The batches of each loader, read from the disk by one process without a stop."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for loader, options in (("tensorflow", OPTIONS), ("stream", STREAM)):
        batches = shardfeed.train_batches(flowers["train"], **options, start_step=0).take(STEPS)
        found[loader] = [(x.numpy(), y.numpy()) for x, y in batches]
    torch = shardfeed.torch_loader(flowers["train"], **OPTIONS, start_step=0, workers=0)
    of_torch = [(x.numpy(), y.numpy()) for _, (x, y) in zip(range(STEPS), torch, strict=False)]
    found.update(dict.fromkeys(("fork", "spawn", "forkserver"), of_torch))
    return found


def train(loader: str, runs: Runs, log: Path, until: int) -> tuple[dict[tuple[int, int], list[str]], dict[int, str]]:
    """Kill all processes once every run has made the steps before `until`, counted over all runs.

    Returns the digests of all ranks by (ranks, step), and each run's position then.
    """
    replicas = loader in ("tensorflow", "stream")
    count = 1 if replicas else max(ranks for ranks, _, _ in runs)
    found: dict[tuple[int, int], list[str]] = {}
    positions: dict[int, str] = {}
    with ExitStack() as stack:
        errors = stack.enter_context(open(log, "wb"))
        processes = []
        for rank in range(count):
            command = [sys.executable, str(SCRIPT), loader, str(rank), json.dumps(runs)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        for rank, process in enumerate(processes):
            waiting = {ranks for ranks, _, _ in runs if replicas or rank < ranks}
            assert process.stdout is not None
            while waiting:
                line = process.stdout.readline()
                assert line.endswith(b"\n"), log.read_text()[-3000:]
                ranks, step, digests, position = json.loads(line)
                if step < until:
                    found.setdefault((ranks, step), []).extend(digests)
                if step == until - 1:
                    positions[ranks] = position
                    waiting.remove(ranks)
    return found, positions


@pytest.mark.promise(53)
@pytest.mark.parametrize(("loader", "places"), CASES, ids=[loader for loader, _ in CASES])
def test_the_same_steps_everywhere(
    addresses: dict[str, str], expected: Any, tmp_path: Path, loader: str, places: dict[int, tuple[str, str]]
) -> None:
    begun: Runs = [(ranks, addresses[first], None) for ranks, (first, _) in places.items()]
    found, positions = train(loader, begun, tmp_path / "begun", KILLED_AT)
    resumed: Runs = [(ranks, addresses[then], positions[ranks]) for ranks, (_, then) in places.items()]
    found |= train(loader, resumed, tmp_path / "resumed", STEPS)[0]
    batches = expected[loader]
    for ranks in places:
        size = OPTIONS["batch_size"] // ranks
        for step, (images, labels) in enumerate(batches):
            parts = [slice(start, start + size) for start in range(0, OPTIONS["batch_size"], size)]
            assert found.pop((ranks, step)) == [digest(images[part], labels[part]) for part in parts], (ranks, step)
    assert not found
