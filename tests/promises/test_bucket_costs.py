"""Requests, bytes and traces of reading from a real S3 server, counted by the proxy before it."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from datasets import repeated

import shardfeed
from shardfeed.pipelines import Blocks, Cache, cached, make_batches, order_samples
from shardfeed.pipelines.orders.order import BlockOrder
from shardfeed.pipelines.torch import Ranks, torch_loader
from shardfeed.readers import Dataset, Split
from shardfeed.storage.objects import ObjectStorage

from buckets import KEY, SECRET, Bucket, bucket_behind
from seaweed import seaweed

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    folders = [tmp_path_factory.mktemp(name) for name in ("server", "files")]
    with seaweed(folders[0], KEY, SECRET) as port, bucket_behind(port, folders[1], "costs") as bucket:
        yield bucket


def image_and_note(record: Any, seed: Any) -> Any:
    return record["image/encoded"], record["image/note"]


def epoch(split: Split, framework: str, **options: Any) -> Iterator[list[tuple[bytes, bytes]]]:
    """The samples of each batch of epoch 0, of one loader or of one for each of some ranks."""
    options = {"batch_size": 64, "seed": 3} | options
    if framework == "tensorflow":
        batches = make_batches(split, image_and_note, keys=["image/encoded", "image/note"], **options)
        yield from (list(zip(images.numpy(), notes.numpy(), strict=True)) for images, notes in batches)
    else:
        ranks = options.pop("ranks", 1)
        loaders = [
            torch_loader(split, transform=image_and_note, collate_fn=list, ranks=Ranks(rank, ranks), **options)
            for rank in range(ranks)
        ]
        yield from (list(chain(*shares)) for shares in zip(*loaders, strict=True))


def same(found: Iterator[Any], expected: Iterator[Any]) -> bool:
    return all(one == other for one, other in zip(found, expected, strict=True))


def test_an_epoch_of_300_shards_takes_a_request_a_sample(bucket: Bucket, tmp_path: Path) -> None:
    """All are counted: those that open the dataset here and in the fetcher, and an index for each shard.

    So with n samples per shard it is 1 + 1 / n requests a sample in the first epoch: 1.018 here, and less where shards
    have a usual size.
    """
    many = repeated(tmp_path / "many", range(16, 24), samples=300 * 56, shards=300)
    address = bucket.upload(many, "many")
    bucket.proxy.requests.clear()
    there = shardfeed.open(address)["train"]
    assert len(bucket.proxy.requests) <= 3
    train = cached(there, Cache(tmp_path / "cache", limit="1GB"))
    found = epoch(train, "torch", order="global", workers=2)
    assert same(found, epoch(many["train"], "torch", order="global", workers=0))
    assert 0.98 * len(there) < len(bucket.proxy.requests) <= 1.02 * len(there)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Images of 30 to 65 kB in 5 shards of 80 MB."""
    return repeated(tmp_path_factory.mktemp("photos") / "photos", range(180, 270, 6), samples=8576, shards=5)


@pytest.fixture(scope="module")
def photos_there(bucket: Bucket, photos: Dataset) -> str:
    return bucket.upload(photos, "photos")


@pytest.mark.parametrize(("framework", "options"), [("tensorflow", {}), ("torch", {}), ("torch", {"ranks": 2})])
def test_an_epoch_in_blocks_takes_few_requests(
    bucket: Bucket,
    photos: Dataset,
    photos_there: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    framework: str,
    options: dict[str, Any],
) -> None:
    """Blocks of 8 MB take at most 0.01 requests a sample, all counted, and each record is sent once.

    The temporary directory has no room for all. With the epoch's last window, the next epoch's first one is fetched.
    """
    monkeypatch.setattr("shardfeed.pipelines.caching.client._SHARED", str(tmp_path))
    bucket.proxy.requests.clear()
    bucket.proxy.sent = 0
    there = shardfeed.open(photos_there)["train"]
    blocks = Blocks(buffer=1000, block_bytes=8 << 20)
    _, order = order_samples(there, batch_size=64, order=blocks)
    assert isinstance(order, BlockOrder)
    workers = {"workers": 4} if framework == "torch" else {}
    found = epoch(there, framework, order=blocks, **workers, **options)
    assert same(found, epoch(photos["train"], "torch", order=blocks, workers=0))
    assert len(bucket.proxy.requests) <= 0.01 * len(there)
    assert bucket.proxy.sent <= 1.01 * there.record_bytes * (1 + order.window / len(there))


@pytest.mark.promise(54)
def test_a_body_that_is_cut_goes_on_where_it_ended(bucket: Bucket) -> None:
    content = os.urandom(6_000_000)
    bucket.client.put_object(Bucket="costs", Key="big/file", Body=content)
    bucket.proxy.sent, asked = 0, 0

    def fault(method: str, path: str, part: str) -> str:
        nonlocal asked
        asked += 1
        return "cut" if asked % 2 else ""

    bucket.proxy.fault = fault
    try:
        for _ in range(10):
            assert ObjectStorage("s3://costs").open("s3://costs/big/file", 6_000_000).read(0, 6_000_000) == content
    finally:
        bucket.proxy.fault = lambda method, path, part: ""
    assert asked >= 20
    assert bucket.proxy.sent <= 1.1 * 10 * len(content)
