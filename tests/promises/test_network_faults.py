"""A real S3 server whose answers fail on the way: the right samples or one clear error, and never a hang."""

import gc
import os
import re
import runpy
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed import errors
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import IntegrityError, RecordError, ShardfeedError, StorageError
from shardfeed.pipelines import Blocks, Cache, cached
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset
from shardfeed.storage import objects

from buckets import KEY, SECRET, Bucket, bucket_behind
from faulty_proxy import FAULTS
from repository import SUPPORT
from seaweed import seaweed

pytestmark = pytest.mark.long
TRIALS = 1000
LOADED = [pytest.param(50, id="50"), pytest.param(TRIALS, marks=pytest.mark.torture, id="1000")]  # through loaders
SMALL = Blocks(buffer=64, block_bytes=1)  # windows of 64 requests
SMALLER = Blocks(buffer=8, block_bytes=1)  # without a cache, a window with a swap is read anew: some must have none
# One in so many requests fails: more rarely where it is asked again once, or never. And how many are under way.
ONE_IN = {"503": 3, "reset": 3, "cut": 3, "stall": 3, "whole": 5, "shift": 11, "flip": 11, "swap": 23, "slow": 1}
AT_ONCE = {"shift": 10, "flip": 10, "swap": 3}
MAY_RAISE = {"whole": StorageError, "shift": RecordError, "flip": RecordError, "swap": IntegrityError}


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket whose requests have short deadlines."""
    values = runpy.run_path(str(SUPPORT / "deadlines" / "sitecustomize.py"))["VALUES"]
    folders = [tmp_path_factory.mktemp(name) for name in ("server", "files")]
    with (
        seaweed(folders[0], KEY, SECRET) as port,
        bucket_behind(port, folders[1], "faults") as bucket,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", str(SUPPORT / "deadlines"), prepend=os.pathsep)
        for name, value in values.items():
            patch.setattr(objects, name, value)
        yield bucket


@pytest.fixture(scope="module")
def address(bucket: Bucket, flowers: Dataset) -> str:
    return bucket.upload(flowers, "flowers")


@pytest.fixture
def failing(bucket: Bucket) -> Iterator[Callable[[str], Counter[str]]]:
    """failing("cut"): some requests for shards fail from now on; the faults that were met."""

    def begin(kind: str) -> Counter[str]:
        met: Counter[str] = Counter()
        failed: set[tuple[str, int]] = set()  # ranges, by their ends, that are asked for once more

        def fault(method: str, path: str, part: str) -> str:
            met["requests"] += 1
            if not (part and path.endswith(".tfrecord")):
                return ""
            first, last = map(int, part[6:].split("-"))
            size, fails = last + 1 - first, met["requests"] % ONE_IN[kind] == 0
            met["faults"] += fails
            met["bytes"] += size // 2 if fails and kind == "cut" else size
            met["needed"] += 0 if (path, last) in failed else size
            (failed.add if fails else failed.discard)((path, last))
            return kind if fails else ""

        bucket.proxy.fault = fault
        return met

    yield begin
    bucket.proxy.fault = lambda method, path, part: ""


def check_clear(error: ShardfeedError, kind: type[ShardfeedError] | None) -> None:
    """An error of ours: one short line, which names the file by its address, and what was tried."""
    text = str(error)
    assert kind is not None, text
    assert isinstance(error, kind), text
    assert text.startswith("s3://faults/"), text
    assert "\n" not in text
    assert "?" not in text
    assert len(text) < 300
    if kind is StorageError:
        assert "attempt" in text


@pytest.fixture(scope="module")
def many(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """603 images in 4 shards."""
    folder = tmp_path_factory.mktemp("many")
    for copy in "123":
        for name in flowers_folder.iterdir():
            shutil.copytree(name, folder / "images" / name.name / copy)
    convert(ImageFolder(folder / "images"), folder / "many", split={"train": 1}, shards={"train": 4})
    return shardfeed.open(folder / "many")


@pytest.mark.promise(54)
@pytest.mark.torture
@pytest.mark.parametrize("kind", FAULTS)
def test_a_thousand_faults(address: str, flowers: Dataset, failing: Any, kind: str) -> None:
    expected = flowers["train"].payloads(np.arange(len(flowers["train"])))
    rng, met, right, raised = np.random.default_rng(0), failing(kind), 0, 0
    there = shardfeed.open(address)["train"]
    while met["faults"] < TRIALS:
        places = rng.permutation(len(there))[: AT_ONCE.get(kind, 60)]
        try:
            assert there.payloads(places) == [expected[place] for place in places]
            right += 1
        except ShardfeedError as error:
            check_clear(error, MAY_RAISE.get(kind))
            raised += 1
            there = shardfeed.open(address)["train"]  # bound to no version
    assert right > 0, f"{raised} errors of {met}"
    assert kind in MAY_RAISE or not raised


def batches(split: Any, framework: str, step: int, **options: Any) -> Iterator[Any]:
    """Batches of a loader from a step on: the images and the labels of each as one tuple of bytes."""
    options = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": step} | options
    options["order"] = SMALLER if framework == "threads" else SMALL
    if framework != "tensorflow":
        options["workers"] = 2 if split.shards.copy else 0
        found = torch_loader(split, **options)
    else:
        found = shardfeed.train_batches(split, **options)
    return ((images.numpy().tobytes(), labels.numpy().tobytes()) for images, labels in found)


def ours(error: Exception) -> ShardfeedError:
    """The error of ours that TensorFlow wrapped."""
    if isinstance(error, ShardfeedError):
        return error
    found = re.findall(r"^shardfeed\.errors\.(\w+): (.*?): ([^;\n]*)(.*)$", str(error), re.MULTILINE)
    name, place, problem, remedy = found[-1]
    return getattr(errors, name)(place, problem, remedy)


@pytest.mark.promise(54)
@pytest.mark.timeout(1800)  # ends a hang
@pytest.mark.parametrize("trials", LOADED)
@pytest.mark.parametrize("framework", ["tensorflow", "torch", "threads"])
@pytest.mark.parametrize("kind", FAULTS)
def test_loaders_meet_faults(
    bucket: Bucket,
    many: Dataset,
    failing: Any,
    tmp_path: Path,
    torture_result: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    framework: str,
    trials: int,
) -> None:
    """A cache that holds 4 tenths, so that each epoch fetches. After an error the dataset is opened again.

    "threads" are those of the program, which itself reads, and keeps nothing.
    """
    monkeypatch.setattr("shardfeed.pipelines.caching.own_reader._KEPT_BYTES", 0)
    address = bucket.upload(many, f"many-{kind}-{framework}-{trials}")
    cache = Cache(tmp_path / "cache", limit=many["train"].record_bytes * 4 // 10)
    here = batches(many["train"], framework, 0)
    met, step, raised, began, last, slowest = failing(kind), 0, 0, time.monotonic(), time.monotonic(), 0.0
    while met["faults"] < trials:
        try:
            there = shardfeed.open(address)["train"]
            for batch in batches(there if framework == "threads" else cached(there, cache), framework, step):
                assert batch == next(here), f"step {step}"
                step += 1
                now = time.monotonic()
                slowest, last = max(slowest, now - last), now
                if met["faults"] >= trials:
                    break
        except (ShardfeedError, tf.errors.OpError) as error:
            check_clear(ours(error), MAY_RAISE.get(kind))
            raised += 1
        gc.collect()  # a loader that is left keeps its place in the cache
    assert step > 0
    assert kind in MAY_RAISE or not raised
    assert kind != "cut" or met["bytes"] <= 1.1 * met["needed"]
    counts = {"faults": met["faults"], "batches": step, "errors": raised, "slowest": round(slowest, 1)}
    bytes_ = {"bytes": round(met["bytes"] / met["needed"], 3)} if kind == "cut" else {}
    torture_result(f"{kind}, {framework}", **counts, **bytes_, seconds=round(time.monotonic() - began))
