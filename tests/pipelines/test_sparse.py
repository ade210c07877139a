"""Sparse copies: what is present has the bytes of the dataset, whatever was removed beside it or failed on the way."""

import os
import shutil
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import RecordError, StorageError
from shardfeed.pipelines import Blocks, Cache, cached, order_samples
from shardfeed.pipelines.caching.sparse import CacheSpace, CopyReader, FollowedOrder, SparseCopy, leftovers_in
from shardfeed.pipelines.orders.order import BlockOrder
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset, Split

from web_server import web_server

SMALL = Blocks(buffer=40, block_bytes=14_000)  # four windows of the 161 records


def framed(split: Split, folder: str, place: int) -> bytes:
    """The bytes of a record in its shard's file below a folder."""
    shards = split.shards
    ((shard, row, _, _),) = shards.runs(np.array([place]))
    (part,) = shards.view(shard).parts(shards.file(shard), row, 1)
    content = Path(folder, shards.info.shard_file(shard)).read_bytes()
    return content[part.start : part.start + part.size]


@pytest.mark.promise(58)
@pytest.mark.parametrize("threads", [1, 4])
def test_records_that_share_a_page_with_removed_ones_stay(flowers: Dataset, tmp_path: Path, threads: int) -> None:
    """Three of these records share a page of a file."""
    train = flowers["train"]
    assert train.record_bytes / len(train) < 4096 / 2
    copy = SparseCopy(
        str(tmp_path), shardfeed.open(flowers.directory), "train", CacheSpace(train.record_bytes // 2, {}, hard=False)
    )

    def fill(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(100):
            copy.fill(rng.permutation(len(train))[:5])

    running = [threading.Thread(target=fill, args=(seed,)) for seed in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    present = np.flatnonzero(copy.present).tolist()
    assert 0 < len(present) < 0.7 * len(train), "some were removed"
    assert all(framed(train, copy.directory, at) == framed(train, flowers.directory, at) for at in present)


@pytest.mark.promise(57)
def test_a_copy_of_a_killed_process_is_taken_over(flowers: Dataset) -> None:
    """Records that had been written but not logged are removed; the log has each run once."""
    train = flowers["train"]

    def opened(directory: str) -> SparseCopy:
        return SparseCopy(directory, shardfeed.open(flowers.directory), "train", CacheSpace(1 << 30, {}, hard=True))

    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        copy = opened(directory)
        copy.fill(np.concatenate([np.arange(30), np.arange(90, 110)]))
        for _ in range(10):
            copy.again(np.arange(5))
        log, shards = Path(copy.directory, "shardfeed-fetched"), list(Path(copy.directory).rglob("*.tfrecord"))
        size = log.stat().st_size
        with open(log, "ab") as file:
            file.write(b"torn")
        for shard in shards:
            content = (Path(flowers.directory) / shard.relative_to(copy.directory)).read_bytes()
            shard.write_bytes(content)
        other = opened(directory)
        assert np.array_equal(other.present, copy.present)
        present = np.flatnonzero(other.present)
        assert all(framed(train, copy.directory, at) == framed(train, flowers.directory, at) for at in present)
        assert other.bytes == sum(len(framed(train, flowers.directory, at)) for at in present)
        taken = sum(shard.stat().st_blocks * 512 for shard in shards)
        assert taken <= other.bytes + 2 * os.sysconf("SC_PAGE_SIZE") * 4 < flowers["train"].record_bytes / 2
        assert log.stat().st_size == 16 * 2 < size
        other.fill(np.arange(len(train)))
        assert opened(directory).present.all()
        assert log.stat().st_size == 16


def opened(
    flowers: Dataset, directory: Path, leftovers: dict[str, int] | None = None, limit: int = 1 << 30
) -> SparseCopy:
    return SparseCopy(str(directory), flowers, "train", CacheSpace(limit, leftovers or {}, hard=True))


SHARD, INDEX = "train-00001-of-00004.tfrecord", "index/train-00001-of-00004.tfindex"


@pytest.mark.promise(58)
def test_only_files_that_a_copy_created_are_removed_to_make_room(flowers: Dataset, tmp_path: Path) -> None:
    everything = np.arange(len(flowers["train"]))
    old = Path(opened(flowers, tmp_path).directory)
    opened(flowers, tmp_path).fill(everything)
    shutil.copytree(old, tmp_path / "mine")  # by the user, with its list of files
    old = old.rename(old.with_name("flowers-train-0123456789abcdef"))
    foreign = [old / "notes", old / "index" / "notes", tmp_path / "other" / "shardfeed-fetched", old / SHARD]
    (tmp_path / "other").mkdir()
    (old / SHARD).unlink()
    (tmp_path / "other" / "shardfeed-created").write_text("1 notes")
    for path in foreign:
        path.write_text("stays")
    found = leftovers_in(str(tmp_path))
    assert found.keys() == {str(old)}
    mine = sorted((tmp_path / "mine").rglob("*"))
    copy = opened(flowers, tmp_path, found, flowers["train"].record_bytes)
    copy.fill(everything)
    assert copy.present.all()
    assert sorted(path for path in old.rglob("*") if path.is_file()) == sorted({*foreign} - {foreign[2]})
    assert [path.read_text() for path in foreign] == ["stays"] * 4
    assert sorted((tmp_path / "mine").rglob("*")) == mine


@pytest.mark.promise(58)
@pytest.mark.parametrize("kind", ["symlink", "hard link", "file", "directory"])
@pytest.mark.parametrize("name", [SHARD, INDEX, "manifest.json", "shardfeed-fetched", "shardfeed-created", "index", ""])
def test_nothing_is_written_that_a_copy_did_not_create(flowers: Dataset, tmp_path: Path, name: str, kind: str) -> None:
    """Before it is there, and afterwards, something of the user has one of its names: the cache is damaged."""
    (tmp_path / "cache").mkdir()
    foreign = tmp_path / "foreign"
    directory = Path(opened(flowers, tmp_path / "elsewhere").directory)
    directory = tmp_path / "cache" / directory.name
    for before in (True, False):
        if not before:
            opened(flowers, tmp_path / "cache").fill(np.arange(161))
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        foreign.mkdir() if name in ("index", "") else foreign.write_bytes(b"stays" * 1600)
        if kind == "symlink":
            path.symlink_to(foreign)
        elif kind == "hard link" and foreign.is_file():
            path.hardlink_to(foreign)
        elif kind == "directory" and foreign.is_file():
            path.mkdir()
        elif kind == "file" and foreign.is_file():
            shutil.copy(foreign, path)
        else:
            path.write_bytes(b"mine")
        with pytest.raises(StorageError, match=r"cache.*: the cache is damaged: .*remove .*cache/flowers-train-"):
            opened(flowers, tmp_path / "cache").fill(np.arange(161))
        if foreign.is_file():
            assert foreign.read_bytes() == b"stays" * 1600
            assert kind != "file" or path.read_bytes() == b"stays" * 1600
            foreign.unlink()
        else:
            foreign.rmdir()
            assert path.is_symlink() or path.read_bytes() == b"mine"
        shutil.rmtree(directory, ignore_errors=True)  # the remedy
        directory.unlink() if os.path.lexists(directory) else None
        copy = opened(flowers, tmp_path / "cache")
        copy.fill(np.arange(161))
        assert framed(flowers["train"], copy.directory, 60) == framed(flowers["train"], flowers.directory, 60)
        shutil.rmtree(directory)


@pytest.mark.promise(59)
@pytest.mark.parametrize("damage", ["missing", "short", "empty", "long", "index", "manifest", "all but the log"])
@pytest.mark.parametrize("alive", [False, True])
def test_files_that_are_gone_are_fetched_again(flowers: Dataset, tmp_path: Path, damage: str, alive: bool) -> None:
    """The log still lists their records. A copy in use learns it when a reader finds them damaged."""
    train = flowers["train"]
    copy = opened(flowers, tmp_path)
    copy.fill(np.arange(150))
    directory = Path(copy.directory)
    for shard in directory.glob("*.tfrecord"):
        if damage == "missing":
            shard.unlink()
        elif damage in ("short", "empty", "long"):
            os.truncate(shard, {"short": 1000, "empty": 0, "long": 1 << 20}[damage])
    for path in directory.rglob("*"):
        kept = {"index": path.suffix != ".tfindex", "manifest": path.name != "manifest.json"}
        kept["all but the log"] = path.name.startswith("shardfeed-")
        if path.is_file() and not kept.get(damage, True):
            path.unlink()
    if alive:
        copy.again(np.arange(150))
    else:
        copy = opened(flowers, tmp_path)
        assert copy.present.any() == (damage in ("index", "manifest"))
        copy.fill(np.arange(150))
    assert all(framed(train, copy.directory, at) == framed(train, flowers.directory, at) for at in range(150))
    assert copy.bytes == sum(len(framed(train, flowers.directory, at)) for at in range(150))
    again = opened(flowers, tmp_path)
    assert np.flatnonzero(again.present).tolist() == list(range(150))
    again.fill(np.arange(150))
    assert (directory / "manifest.json").read_bytes() == flowers.manifest.to_bytes()
    assert len(list(directory.rglob("*.tfindex"))) == 4


def test_chunk_that_was_read_is_not_fetched_ahead(flowers: Dataset, tmp_path: Path) -> None:
    """On a busy machine the thread that fetches ahead may be later than the reader, and what it has read be removed."""
    train = flowers["train"]
    _, order = order_samples(train, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    copy = SparseCopy(
        str(tmp_path), shardfeed.open(flowers.directory), "train", CacheSpace(train.record_bytes, {}, hard=True)
    )
    following, late = FollowedOrder(order, 0, 1), threading.Event()
    copy.readers["reader"] = reader = CopyReader("reader", following)
    for _ in range(copy._ahead._max_workers):
        copy._ahead.submit(late.wait)
    for chunk in range(3):
        reader.oldest = reader.newest = chunk
        copy.fill(following.places(chunk), reader)
    copy.again(following.places(2))  # what this thread asked for last, so that the others can be removed
    assert copy.remove(train.record_bytes) > 0
    missing = np.flatnonzero(~copy.present)
    assert np.isin(following.places(1), missing).any()
    late.set()
    copy._ahead.shutdown()
    fetched = missing[copy.present[missing]]
    assert np.isin(fetched, following.places(3)).all()


def test_workers_of_pytorch_have_the_whole_cache(flowers: Dataset, tmp_path: Path) -> None:
    """The process that waits for its worker reads nothing, and holds no records."""
    train = cached(flowers["train"], Cache(tmp_path, limit=flowers["train"].record_bytes * 8 // 10))
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 0, "order": SMALL}
    loader = torch_loader(train, **options, workers=1)
    expected = torch_loader(flowers["train"], **options, workers=0)
    for _, (x, y), (found, numbers) in zip(range(80), expected, loader, strict=False):
        assert (x == found).all()
        assert (y == numbers).all()


@pytest.mark.promise(54)
def test_a_network_that_is_down_is_one_error_for_all(flowers: Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    """The rest of a request is not tried, and whoever waits for the same records has the same error."""
    monkeypatch.setattr("shardfeed.storage.objects._TRIES", 1)
    (tmp_path / "served").mkdir()
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    with web_server(tmp_path / "served") as web:
        dataset = shardfeed.open(f"{web.url}/flowers")
        copy = SparseCopy(str(tmp_path / "copy"), dataset, "train", CacheSpace(1 << 30, {}, hard=False))
        copy.read_indexes(set(range(4)))
        first = threading.Event()

        def fault(path: str, part: str) -> str:
            first.set()
            return "whole"

        web.fault = fault
        web.requests.clear()
        errors: list[StorageError] = []

        def fill() -> None:
            with pytest.raises(StorageError) as raised:
                copy.fill(np.arange(0, 160, 2))
            errors.append(raised.value)

        readers = [threading.Thread(target=fill) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(errors) == 4
        asked = Counter(part for _, _, part in web.requests)
        assert len(asked) <= 32, "which are under way at once"


@pytest.mark.promise(59)
def test_an_index_that_arrives_damaged_is_read_again(flowers: Dataset, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    with web_server(tmp_path / "served") as web:
        there = shardfeed.open(f"{web.url}/flowers")["train"]
        met: Counter[str] = Counter()

        def fault(path: str, part: str) -> str:
            met[path] += 1
            return "flip" if path.endswith(".tfindex") and met[path] == 1 else ""

        web.fault = fault
        assert there.payloads(np.arange(161)) == flowers["train"].payloads(np.arange(161))
        assert sum(path.endswith(".tfindex") for path in met.elements()) == 8


def test_a_damaged_record_is_named_by_its_address(flowers: Dataset, tmp_path: Path) -> None:
    """Not by the file into which it was fetched."""
    (tmp_path / "served").mkdir()
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    shard = tmp_path / "served" / flowers["train"].shards.info.shard_file(2).join(["flowers/", ""])
    content = shard.read_bytes()
    shard.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    with web_server(tmp_path / "served") as web:
        loader = torch_loader(
            shardfeed.open(f"{web.url}/flowers")["train"], batch_size=8, image_size=32, order=SMALL, workers=0
        )
        with pytest.raises(
            RecordError, match=rf"^{web.url}/flowers/train-00002-of-00004.tfrecord, record 0, offset 0:"
        ):
            list(loader)
