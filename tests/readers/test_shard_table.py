"""Splits of many shards pickle small: another process reads the table of shards from the manifest."""

import os
import pickle
import shutil
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import IntegrityError
from shardfeed.manifest import SplitInfo, read_manifest
from shardfeed.pipelines import Cache, cached
from shardfeed.readers import Dataset
from shardfeed.shard_table import ShardTable
from shardfeed.storage.storage import LocalStorage, OpenFile

from web_server import web_server

SHARDS = 3000  # a table of 94 KiB
PLACES = np.array([0, 1, 77, 40 * SHARDS - 1])


class Counting(LocalStorage):
    """The local disk, with a list of what was opened, new in each process."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str, size: int | None = None) -> OpenFile:
        self.opened.append(Path(path).name)
        return super().open(path, size)

    def version(self, path: str) -> Hashable:
        return LocalStorage().version(path)

    def __reduce__(self) -> Any:
        return Counting, ()


@pytest.fixture(scope="module")
def many(flowers: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose shards are all links to one shard of `flowers`."""
    directory = tmp_path_factory.mktemp("many") / "many"
    (directory / "index").mkdir(parents=True)
    manifest = flowers.manifest
    split = manifest.splits["train"]
    made = SplitInfo("train", ShardTable.of([split.shards[0]] * SHARDS))
    for name in (SplitInfo.shard_file, SplitInfo.index_file):
        for shard in range(SHARDS):
            os.link(Path(flowers.directory) / name(split, 0), directory / name(made, shard))
    (directory / "manifest.json").write_bytes(replace(manifest, splits={"train": made}, sidecars={}).to_bytes())
    return directory


def test_a_split_is_small_and_its_manifest_is_read_once(many: Path) -> None:
    data = shardfeed.open(many, storage=Counting())
    train = data["train"]
    assert len(train.shards.info.shards.rows.tobytes()) > 90_000
    for sent in (data, train, train[5:500], train.shards):
        assert len(pickle.dumps(sent)) < 5000
    first, second = pickle.loads(pickle.dumps(train)), pickle.loads(pickle.dumps(train[1:]))
    assert first.fingerprint == train.fingerprint
    assert first.payloads(PLACES) == train.payloads(PLACES)
    opened = first.shards.storage.opened
    assert opened.count("manifest.json") == 1
    assert len(second) == len(train) - 1
    assert second.shards.info.shards is first.shards.info.shards
    assert pickle.loads(pickle.dumps(first)).payload(77) == train.payload(77), "as a worker's own workers have it"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: path.unlink(), "its manifest was deleted since it was opened; open it again"),
        (
            lambda path: path.write_bytes(replace(read_manifest(str(path.parent)), splits={}).to_bytes()),
            "replaced by another dataset since it was opened; open it again",
        ),
    ],
)
def test_another_dataset_in_its_place(many: Path, tmp_path: Path, change: Callable[[Path], None], problem: str) -> None:
    shutil.copytree(many, tmp_path / "copy", copy_function=os.link)
    manifest = tmp_path / "copy" / "manifest.json"
    content = manifest.read_bytes()
    manifest.unlink()
    manifest.write_bytes(content)
    sent = pickle.dumps(shardfeed.open(tmp_path / "copy")["train"])
    change(manifest)
    received = pickle.loads(sent)
    for _ in range(2):
        with pytest.raises(IntegrityError, match=problem):
            received.payload(0)


def test_a_copy_in_a_cache_is_small(many: Path, tmp_path: Path) -> None:
    train = shardfeed.open(many)["train"]
    copy = cached(train[: 41 * 1100], tmp_path / "cache")
    assert len(pickle.dumps(copy)) < 5000
    assert pickle.loads(pickle.dumps(copy)).payloads(PLACES[:3]) == train.payloads(PLACES[:3])


def test_workers_read_the_manifest_that_the_fetcher_wrote(many: Path, tmp_path: Path) -> None:
    with web_server(many.parent) as web:
        train = shardfeed.open(f"{web.url}/many")["train"]
        expected = train.payloads(PLACES)
        copy = cached(train, Cache(tmp_path, limit="1GB"))
        sent = pickle.dumps(copy)
        assert len(sent) < 5000
        web.requests.clear()
        assert pickle.loads(sent).payloads(PLACES) == expected
        assert ("GET", "/many/manifest.json") not in {request[:2] for request in web.requests}
        next(tmp_path.rglob("manifest.json")).unlink()
        received = pickle.loads(sent)  # on another machine, which has no such copy
        assert received.fingerprint == train.fingerprint
        assert ("GET", "/many/manifest.json") in {request[:2] for request in web.requests}
