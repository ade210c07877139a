"""The same step has the same bytes: from any loader, order by order; on any ranks; killed and gone on with; from any
storage; with and without the compiled module."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed import native
from shardfeed.readers import Dataset

from buckets import KEY, SECRET, bucket_behind
from decoding_paths import COMPILED, PYTHON, built, path_taken
from gcs import gcs_server
from seaweed import seaweed
from steps import OPTIONS, ORDERS, SIZE, digest, samples_of, steps_of
from web_server import web_server

SCRIPT = Path(__file__).parents[1] / "support" / "steps.py"
KILLED_AT, STEPS = 3, 10  # a window is five steps
Runs = list[tuple[int, str, str | None]]

# Of each loader, order and number of ranks, where it begins, and where it goes on.
CASES = [
    ("tensorflow", "blocks", {1: ("disk", "s3"), 2: ("gs", "http"), 3: ("http", "disk"), 4: ("s3", "gs")}),
    ("tensorflow", "global", {1: ("s3", "disk"), 2: ("disk", "s3"), 4: ("disk", "gs")}),
    ("tensorflow", "stream", {1: ("s3", "disk"), 2: ("disk", "gs"), 3: ("gs", "http"), 4: ("http", "s3")}),
    ("numpy", "blocks", {1: ("s3", "disk"), 2: ("http", "gs"), 3: ("disk", "s3"), 4: ("gs", "http")}),
    ("numpy", "global", {1: ("disk", "s3"), 2: ("s3", "disk"), 4: ("gs", "disk")}),
    ("numpy", "mixed", {1: ("s3", "disk"), 2: ("disk", "http")}),
    ("threads", "blocks", {1: ("gs", "disk"), 2: ("s3", "http"), 3: ("disk", "gs"), 4: ("http", "s3")}),
    ("threads", "global", {1: ("s3", "gs"), 2: ("disk", "s3"), 4: ("s3", "disk")}),
    ("fork", "blocks", {1: ("http", "gs"), 2: ("s3", "disk"), 3: ("disk", "http"), 4: ("gs", "s3")}),
    ("spawn", "blocks", {1: ("gs", "s3"), 2: ("disk", "http"), 3: ("s3", "disk"), 4: ("http", "gs")}),
    ("forkserver", "blocks", {1: ("s3", "http"), 2: ("gs", "disk"), 3: ("http", "s3"), 4: ("disk", "s3")}),
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


def of_one_process(flowers: Dataset, order: str) -> list[Any]:
    """TensorFlow's batches, read from the disk by one process without a stop."""
    options: dict[str, Any] = {"image_size": SIZE, "order": ORDERS[order], "start_step": 0}
    batches = shardfeed.train_batches(samples_of(flowers.directory, order), **OPTIONS, **options)
    return list(batches.take(STEPS).as_numpy_iterator())


@pytest.mark.promise(29)
@pytest.mark.promise(53)
@pytest.mark.parametrize("order", ["global", "blocks", "mixed"])
def test_the_same_bytes_from_each_loader(flowers: Dataset, order: str) -> None:
    """Each goes on from the position of the one before, on other ranks, without the compiled module or with it."""
    pytest.importorskip("cv2")
    expected, step, position = of_one_process(flowers, order), 0, None
    paths = itertools.cycle([PYTHON, COMPILED] if native._loaded()[0] is not None else [PYTHON])
    # ten steps, in which the blocks' second window begins
    for loader, ranks in (("numpy", 1), ("threads", 2), ("fork", 1), ("numpy", 4), ("threads", 1)):
        with path_taken(next(paths)):
            run = (ranks, flowers.directory, position)
            parts = [steps_of(loader, order, rank, run) for rank in range(ranks)]
            for same in zip(*(itertools.islice(part, 2) for part in parts), strict=True):
                numbers, shares, positions = zip(*same, strict=True)
                assert {*numbers} == {step}
                for found, right in zip(zip(*itertools.chain(*shares), strict=True), expected[step], strict=True):
                    assert np.array_equal(np.concatenate(found), right), (loader, step)
                (position,) = {*positions}
                step += 1
    assert step == STEPS


def train(
    loader: str, order: str, runs: Runs, path: str, log: Path, until: int
) -> tuple[dict[tuple[int, int], list[str]], dict[int, str]]:
    """Train by one path of decoding; kill all processes once every run has made the steps before `until`.

    Returns the digests of all ranks by (ranks, step), and each run's position then.
    """
    replicas = loader == "tensorflow"
    count = 1 if replicas else max(ranks for ranks, _, _ in runs)
    found: dict[tuple[int, int], list[str]] = {}
    positions: dict[int, str] = {}
    with ExitStack() as stack:
        errors = stack.enter_context(open(log, "wb"))
        processes = []
        for rank in range(count):
            command = [sys.executable, str(SCRIPT), loader, order, str(rank), json.dumps(runs)]
            environment = os.environ | {native.VARIABLE: path}
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        for rank, process in enumerate(processes):
            waiting = {ranks for ranks, _, _ in runs if replicas or rank < ranks}
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


@built
@pytest.mark.long
@pytest.mark.promise(53)
@pytest.mark.parametrize(("loader", "order", "places"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_the_same_steps_everywhere(
    addresses: dict[str, str],
    flowers: Dataset,
    tmp_path: Path,
    loader: str,
    order: str,
    places: dict[int, tuple[str, str]],
) -> None:
    begun: Runs = [(ranks, addresses[first], None) for ranks, (first, _) in places.items()]
    found, positions = train(loader, order, begun, COMPILED, tmp_path / "begun", KILLED_AT)
    resumed: Runs = [(ranks, addresses[then], positions[ranks]) for ranks, (_, then) in places.items()]
    found |= train(loader, order, resumed, PYTHON, tmp_path / "resumed", STEPS)[0]
    for ranks in places:
        size = OPTIONS["batch_size"] // ranks
        for step, (images, labels) in enumerate(of_one_process(flowers, order)):
            parts = [slice(start, start + size) for start in range(0, OPTIONS["batch_size"], size)]
            assert found.pop((ranks, step)) == [digest(images[part], labels[part]) for part in parts], (ranks, step)
    assert not found
