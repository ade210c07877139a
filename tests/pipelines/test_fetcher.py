"""Loaders over datasets of other machines, through the process that fetches: the same batches, everything once."""

import itertools
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from batches import same
from fetching import fetcher_of, fetches_by_arithmetic
from torch.utils.data import DataLoader

import shardfeed
from shardfeed.errors import IntegrityError, StorageError, UsageError
from shardfeed.pipelines import Blocks, Cache, Stored, Stream, cached, mix, order_samples
from shardfeed.pipelines.caching import fetcher, own_reader
from shardfeed.pipelines.caching.client import (
    FetcherClient,
    access,
    close_clients,
    identity,
    read_ahead_in_order,
    reading,
    use,
)
from shardfeed.pipelines.caching.sparse import CacheSpace, SparseCopy
from shardfeed.pipelines.orders.order import BlockOrder, IndexedOrder
from shardfeed.pipelines.torch import Ranks, Workers, torch_eval_loader, torch_loader
from shardfeed.readers import Dataset, Split

from processes import until
from web_server import WebServer, web_server

SMALL = Blocks(buffer=40, block_bytes=14_000)  # four windows of the 161 records


@pytest.fixture
def web(tmp_path: Path, flowers: Dataset) -> Iterator[WebServer]:
    (tmp_path / "served").mkdir()
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    with web_server(tmp_path / "served") as server:
        yield server


@pytest.fixture
def there(web: WebServer) -> Split:
    return shardfeed.open(f"{web.url}/flowers")["train"]


def batches(split: Any, count: int = 30, **options: Any) -> list[tuple[Any, Any]]:
    """Batches of PyTorch's endless loader, or of TensorFlow's or NumPy's."""
    options = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 0, "order": SMALL} | options
    if options.pop("numpy", False):
        return list(itertools.islice(shardfeed.array_batches(split, **options), count))
    if options.pop("tensorflow", False):
        return [(x.numpy(), y.numpy()) for x, y in shardfeed.train_batches(split, **options).take(count)]
    loader = torch_loader(split, **options)
    return [(x.numpy(), y.numpy()) for _, (x, y) in zip(range(count), loader, strict=False)]


def ranges(web: WebServer) -> list[tuple[str, int, int]]:
    """Shard, first byte and last byte of all ranges that were sent."""
    found = [(path, re.fullmatch(r"bytes=(\d+)-(\d+)", part)) for _, path, part in web.requests]
    return [(path, int(span[1]), int(span[2])) for path, span in found if span and path.endswith(".tfrecord")]


def sent(web: WebServer) -> int:
    return sum(end - start + 1 for _, start, end in ranges(web))


@pytest.mark.promise(53)
@pytest.mark.parametrize(
    ("order", "tensorflow"),
    [
        (SMALL, True),
        (SMALL, False),
        (Stream(buffer=40), True),
        pytest.param("global", True, marks=pytest.mark.long),
        ("global", False),
        pytest.param(Stored(), True, marks=pytest.mark.long),
        pytest.param(Stored(), False, marks=pytest.mark.long),
    ],
)
def test_the_same_batches(there: Split, flowers: Dataset, order: Any, tensorflow: bool) -> None:
    options = {"order": order, "tensorflow": tensorflow} | ({} if tensorflow else {"workers": 2})
    assert same(batches(there, **options), batches(flowers["train"], **options))
    options["start_step"] = 33
    assert same(batches(there, 5, **options), batches(flowers["train"], 5, **options))


@pytest.mark.promise(53)
@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(each, marks=pytest.mark.long) for each in ("spawn", "forkserver"))]
)
def test_workers_start_by_any_method(there: Split, flowers: Dataset, method: str) -> None:
    workers = Workers(1, start_method=method)
    there.payloads(np.arange(3))  # this process has used the client
    assert same(batches(there, 3, workers=workers), batches(flowers["train"], 3, workers=0))


def test_arrays_are_those_of_the_disk(there: Split, flowers: Dataset) -> None:
    """From any step on, and in an evaluation."""
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 7, "order": SMALL}
    remote, local = (shardfeed.array_batches(split, **options) for split in (there, flowers["train"]))
    assert same(list(islice(remote, 30)), list(islice(local, 30)))
    both = [shardfeed.eval_array_batches(split, batch_size=32, image_size=32) for split in (there, flowers["train"])]
    assert same(list(both[0]), list(both[1]))


def test_many_requests_are_a_warning(there: Split, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "workers": 0}
    with pytest.warns(RuntimeWarning, match=r"sample by sample, 160 requests per epoch: 0.00 USD.*5,500 per second"):
        torch_loader(there, order="global", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_loader(there, order=SMALL, **options)
        torch_loader(cached(there, Cache(tmp_path, limit="1GB")), order="global", **options)


def test_views_and_mixtures(there: Split, flowers: Dataset) -> None:
    here = flowers["train"]
    for of in (
        lambda split: split[10:150:2],
        lambda split: split.select(np.arange(100)[::-1]),
        lambda split: mix([(split, 1), (here, 2)]),
        lambda split: mix([here[:40], split], {0: (1, 0), 3: (1, 2)}),
    ):
        options = {"order": "global", "workers": 1}
        assert same(batches(of(there), 10, **options), batches(of(here), 10, **options))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_mixture_is_fetched_ahead(web: WebServer, there: Split, flowers: Dataset, rank: int) -> None:
    """After the first batch, what the next 256 samples of a rank need arrives before it is read, and nothing twice."""
    mixture = mix([(flowers["train"], 2), (there, 1)])
    _, order = order_samples(mixture, batch_size=8, seed=5, order="global")
    assert isinstance(order, IndexedOrder)
    sizes = np.concatenate([there.shards.view(shard).sizes for shard in range(len(there.shards.info.shards))])
    drawn = np.concatenate([order.batch(step, rank, 2) for step in range(1 + 2 * 256 // 8)])
    expected = int(sizes[np.unique(drawn[drawn >= len(there)]) - len(there)].sum())
    assert expected < there.record_bytes
    web.requests.clear()
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 0, "order": "global"}
    batches = iter(torch_loader(mixture, **options, workers=0, ranks=Ranks(rank, 2)))
    next(batches)
    until(lambda: sent(web) >= expected)
    assert sent(web) == expected
    for _ in range(200):
        next(batches)
    assert expected < sent(web) <= there.record_bytes


@pytest.fixture
def wait_for(web: WebServer, there: Split) -> Callable[[int], None]:
    """wait_for(2): until the records of the first two windows of an order with seed 5 have been requested."""
    _, order = order_samples(there, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    sizes = np.concatenate([there.shards.view(shard).sizes for shard in range(len(there.shards.info.shards))])

    def wait(windows: int) -> None:
        wanted = int(sizes[order.draw(0, np.arange(windows * order.window)).indices].sum())
        until(lambda: sent(web) >= wanted)
        assert sent(web) == wanted

    return wait


def test_the_first_window_is_fetched_while_workers_start(there: Split, flowers: Dataset, wait_for: Any) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 0, "order": SMALL}
    loader = torch_loader(there, **options, workers=0)
    found = iter(loader)  # nothing is read yet
    wait_for(1)
    expected = torch_loader(flowers["train"], **options, workers=0)
    assert all((x == y).all() for x, y in zip(next(found), next(iter(expected)), strict=True))
    wait_for(2)


def test_a_window_is_begun_while_the_one_before_it_arrives(web: WebServer, there: Split, wait_for: Any) -> None:
    """Four windows, of which one request of the third is answered late: the fourth is requested meanwhile."""
    late: list[str] = []

    def fault(path: str, part: str) -> str:
        if armed and not late and path.endswith(".tfrecord"):
            late.append(part)
        return "late" if armed and late == [part] else ""

    armed, web.fault = False, fault
    loader = torch_loader(there, batch_size=8, image_size=32, seed=5, start_step=0, order=SMALL, workers=0)
    batches = iter(loader)
    next(batches)
    wait_for(2)
    armed = True
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(lambda: [next(batches) for _ in range(15)])
        try:
            wait_for(4)
            assert late
            assert not read.done()
        finally:
            web.late.set()
        assert len(read.result()) == 15


def test_evaluation_has_every_sample_once(there: Split, flowers: Dataset) -> None:
    for ranks in (1, 2):
        for rank in range(ranks):
            options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "ranks": Ranks(rank, ranks), "workers": 0}
            of = [list(torch_eval_loader(split, **options)) for split in (there, flowers["train"])]
            assert same(*([(x.numpy(), y.numpy()) for x, y in each] for each in of))


@pytest.mark.promise(57)
def test_workers_and_ranks_share_what_is_fetched(web: WebServer, there: Split) -> None:
    """Two ranks with two workers each: two epochs fetch each record once, in few requests, as there is room for all."""
    _, order = order_samples(there, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    loaders = [
        torch_loader(
            there, batch_size=8, image_size=32, seed=5, order=SMALL, start_step=0, workers=2, ranks=Ranks(rank, 2)
        )
        for rank in range(2)
    ]
    for _ in zip(range(2 * order.steps_per_epoch), *loaders, strict=False):
        pass
    assert sent(web) == there.record_bytes
    assert len(ranges(web)) <= 2 * (len(there) // order.block + len(there.shards.info.shards))


def test_a_cache_keeps_everything_that_has_room(web: WebServer, there: Split, flowers: Dataset, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "of somebody else").write_text("stays")
    for _ in range(2):  # the second run uses what the first fetched
        train = cached(there, Cache(tmp_path / "cache", limit="1GB"))
        assert same(batches(train, 60, workers=2), batches(flowers["train"], 60, workers=2))
    assert sent(web) == there.record_bytes
    assert train[3] == flowers["train"][3]
    assert train.column("image/height").tolist() == flowers["train"].column("image/height").tolist()
    assert (tmp_path / "cache" / "of somebody else").read_text() == "stays"


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory: other file systems allocate more than is written."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.promise(58)
@pytest.mark.parametrize(
    "loader",
    [
        {"tensorflow": True},
        {},
        *(pytest.param(more, marks=pytest.mark.long) for more in ({"numpy": True}, {"workers": 0})),
    ],
    ids=str,
)
def test_a_small_cache_removes_what_is_needed_last(
    web: WebServer, there: Split, flowers: Dataset, memory: Path, loader: Any
) -> None:
    limit = there.record_bytes * 8 // 10
    train = cached(there, Cache(memory, limit=limit))
    _, order = order_samples(there, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    steps = 4 * order.steps_per_epoch
    assert same(batches(train, steps, **loader), batches(flowers["train"], steps, **loader))
    expected = fetches_by_arithmetic(flowers["train"], order, limit, 4)
    assert expected < 0.8 * 4 * there.record_bytes, "some of it is still there in the next epoch"
    assert abs(sent(web) - expected) <= 0.1 * there.record_bytes
    kept = sum(path.stat().st_blocks * 512 for path in memory.rglob("*.tfrecord"))
    log = np.frombuffer(next(memory.rglob("shardfeed-fetched")).read_bytes(), np.int64).reshape(-1, 2)
    present = np.zeros(len(train), bool)
    for place, count in log.tolist():
        present[place : place + abs(count)] = count > 0
    runs = np.count_nonzero(np.diff(present.astype(int), prepend=0) == 1) + len(there.shards.info.shards)
    assert kept <= limit + 2 * runs * os.sysconf("SC_PAGE_SIZE"), "a page more at each end of a run"


@pytest.mark.promise(58)
def test_the_limit_that_was_given_last_holds(web: WebServer, there: Split, flowers: Dataset, memory: Path) -> None:
    def kept() -> int:
        return sum(path.stat().st_blocks * 512 for path in memory.rglob("*.tfrecord"))

    everything = np.arange(len(there))
    expected = flowers["train"].payloads(everything)
    first = cached(there, Cache(memory, limit="1GB"))
    assert first.payloads(everything) == expected
    half = there.record_bytes // 2
    small = cached(there, Cache(memory, limit=half))
    first = pickle.loads(pickle.dumps(first))  # as a worker has it, which connects later
    for part in [everything[:0], *np.array_split(everything, 6)]:
        assert first.payloads(part) == small.payloads(part) == [expected[place] for place in part]
        # The fetcher removes what was read once it learns that it was read. A page more at each end of ten runs.
        until(lambda: kept() <= half + 20 * os.sysconf("SC_PAGE_SIZE"))
    large = cached(there, Cache(memory, limit="1GB"))
    loader = torch_loader(large, batch_size=8, image_size=32, order=SMALL, workers=0)
    assert large.payloads(everything) == expected
    with pytest.raises(UsageError, match=r"limit=.*expected at least"):
        cached(there, Cache(memory, limit=half // 2))
    web.requests.clear()
    assert large.payloads(everything) == expected
    assert len(list(loader)) > 0
    assert sent(web) == 0


@pytest.mark.promise(58)
def test_a_cache_that_is_too_small_is_refused(there: Split, tmp_path: Path) -> None:
    limit = there.record_bytes // 2
    with pytest.raises(UsageError, match=r"limit=.*expected at least"):
        torch_loader(cached(there, Cache(tmp_path, limit=limit)), batch_size=8, image_size=32, order=SMALL)
    with pytest.raises(UsageError, match=r"limit=.*expected at least"):
        torch_loader(cached(there, Cache(tmp_path, limit=limit)), batch_size=8, image_size=32, order="global")
    for wrong in ("much", "500", "1e9", 0, -1, 2.5):
        with pytest.raises(UsageError, match="limit"):
            Cache(tmp_path, limit=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="decoded"):
        Cache(tmp_path, limit="1GB", decoded=True)
    with pytest.raises(UsageError, match=r"limit=.*expected at least"):
        batches(cached(there, Cache(tmp_path, limit=limit)), tensorflow=True, order="stream")


def test_a_stream_reads_whole_shards_once(web: WebServer, there: Split, flowers: Dataset, tmp_path: Path) -> None:
    """Each shard of at most 8 MB by one request; with a cache, none in the next run, which starts at another step."""
    shards = len(there.shards.info.shards)
    options: dict[str, Any] = {"tensorflow": True, "order": Stream(buffer=40), "start_step": None}
    expected = batches(flowers["train"], **options)
    for number, samples in enumerate([there, cached(there, Cache(tmp_path, limit="1GB"))]):
        web.requests.clear()
        assert same(batches(samples, **options), expected)
        assert (sent(web), len(ranges(web))) == (there.record_bytes, shards), number
    web.requests.clear()
    again = cached(shardfeed.open(f"{web.url}/flowers")["train"], Cache(tmp_path, limit="1GB"))
    options["start_step"] = 20
    assert same(batches(again, 5, **options), batches(flowers["train"], 25, **options | {"start_step": 0})[20:])
    assert sent(web) == 0


@pytest.mark.promise(57)
@pytest.mark.parametrize("numpy", [False, True])
def test_threads_of_one_process_need_no_fetcher(web: WebServer, there: Split, flowers: Dataset, numpy: bool) -> None:
    """A split that memory holds is sent once, in few requests, for four epochs."""
    _, order = order_samples(there, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    before = {path.name for path in Path("/dev/shm").glob("shardfeed-*")}
    options: dict[str, Any] = {"workers": 2, "numpy": numpy}
    expected = batches(flowers["train"], 80, **options)
    web.requests.clear()
    assert same(batches(there, 80, **options), expected)
    assert sent(web) == there.record_bytes
    assert len(ranges(web)) <= 2 * (len(there) // order.block + len(there.shards.info.shards))
    assert {path.name for path in Path("/dev/shm").glob("shardfeed-*")} <= before
    web.fault = lambda path, part: "403" if path.endswith(".tfrecord") else ""
    with pytest.raises(StorageError, match="access denied"):
        batches(there, 1, **options)


@pytest.fixture
def read_here(there: Split) -> tuple[Any, BlockOrder]:
    """The split, read ahead by threads of this process, and its order."""
    samples, order = order_samples(there, batch_size=8, seed=5, order=SMALL)
    assert isinstance(order, BlockOrder)
    return read_ahead_in_order(samples, order, threads=True), order


def read_chunk(split: Any, order: BlockOrder, chunk: int) -> list[bytes]:
    with reading(split, chunk):
        return split.payloads(order.draw(0, np.arange(chunk * order.chunk, chunk * order.chunk + 8)).indices)


def arrived(split: Any) -> None:
    """Wait until all that was requested has come, or failed."""
    for begun in list(split.shards.ahead._chunks.values()):
        begun.exception()
    for piece in list(split.shards.ahead._pieces.values()):
        piece.payloads.exception()


@pytest.mark.promise(57)
def test_an_outage_that_is_over_before_its_records_are_read_costs_nothing(
    web: WebServer, read_here: Any, flowers: Dataset
) -> None:
    split, order = read_here
    read_chunk(split, order, 0)
    arrived(split)
    web.fault = lambda path, part: "403" if path.endswith(".tfrecord") else ""
    read_chunk(split, order, 1)
    arrived(split)
    assert any(piece.payloads.exception() for piece in split.shards.ahead._pieces.values())
    web.fault = lambda path, part: ""
    indices = order.draw(0, np.arange(2 * order.chunk, 2 * order.chunk + 8)).indices
    assert read_chunk(split, order, 2) == flowers["train"].payloads(indices)


def test_a_thread_that_cannot_start_is_an_error_for_one_reader_and_no_hang(
    read_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, order = read_here
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError, match="can't start"):
            read_chunk(split, order, 0)
    assert len(read_chunk(split, order, 0)) == 8


def test_a_loader_that_has_ended_requests_no_more(
    web: WebServer, there: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ThreadPoolExecutor(1)
    monkeypatch.setattr(own_reader, "_pool", lambda: pool)
    samples, order = order_samples(there, batch_size=8, seed=5, order=Blocks(buffer=161, block_bytes=1))
    split = read_ahead_in_order(samples, order, threads=True)
    asked, go_on = threading.Event(), threading.Event()
    web.fault = lambda path, part: (asked.set(), go_on.wait(), "")[2] if path.endswith(".tfrecord") else ""
    with reading(split, 0):
        split.shards.ahead._chunks[0].result()  # its requests wait for the only thread
        assert asked.wait(60)
    close_clients(split)
    go_on.set()
    pool.submit(int).result()  # after all of them
    assert len(ranges(web)) <= 1


@pytest.mark.promise(56)
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_workers_of_another_loader_read_through_the_fetcher(there: Split, flowers: Dataset, method: str) -> None:
    """They get the dataset of a loader whose own process reads ahead, after it has read."""
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 5, "start_step": 0, "order": SMALL}
    ours = torch_loader(there, **options, workers=1)
    next(iter(ours))
    other: Any = torch_loader(there, **options, workers=1)
    again = DataLoader(
        ours.dataset,
        batch_sampler=other.batch_sampler,
        num_workers=2,
        multiprocessing_context=method,
        collate_fn=other.collate_fn,
    )
    found = [(x.numpy(), y.numpy()) for x, y in islice(again, 30)]
    assert same(found, batches(flowers["train"], 30, workers=0))


@pytest.mark.promise(57)
def test_a_killed_fetcher_is_started_again(web: WebServer, there: Split, flowers: Dataset, tmp_path: Path) -> None:
    train = cached(there, Cache(tmp_path, limit="1GB"))
    found = []
    loader = torch_loader(train, batch_size=8, image_size=32, seed=5, start_step=0, order=SMALL, workers=2)
    for number, (x, y) in zip(range(40), loader, strict=False):
        found.append((x.numpy(), y.numpy()))
        if number in (2, 7, 12):
            os.kill(fetcher_of(str(tmp_path)), signal.SIGKILL)
    assert same(found, batches(flowers["train"], 40, workers=0))
    assert sent(web) <= there.record_bytes * 1.8, "what had been fetched was there"


@pytest.mark.promise(59)
def test_damage_in_the_cache_is_fetched_again(web: WebServer, there: Split, flowers: Dataset, tmp_path: Path) -> None:
    train = cached(there, Cache(tmp_path, limit="1GB"))
    everything = np.arange(len(train))
    expected = flowers["train"].payloads(everything)
    assert train.payloads(everything) == expected
    shard = next(tmp_path.rglob("train-00001*.tfrecord"))
    content = bytearray(shard.read_bytes())
    content[100:110] = bytes(255 - byte for byte in content[100:110])
    shard.write_bytes(content)
    web.requests.clear()
    assert train.payloads(everything) == expected
    assert 0 < sent(web) < there.record_bytes / 10


@pytest.mark.promise(59)
@pytest.mark.parametrize("killed", [False, True])
def test_shards_that_are_gone_from_the_cache_are_fetched_again(
    there: Split, flowers: Dataset, tmp_path: Path, killed: bool
) -> None:
    """Also by a reader that has them open."""
    everything = np.arange(len(there))
    expected = flowers["train"].payloads(everything)
    cache = tmp_path / "cache"
    train = cached(there, Cache(cache, limit="1GB"))
    assert train.payloads(everything[:100]) == expected[:100]
    if killed:
        os.kill(fetcher_of(str(cache)), signal.SIGKILL)
    for path in [*cache.rglob("*.tfrecord"), *cache.rglob("*.tfindex")]:
        path.unlink()
    other = cached(there, Cache(cache, limit="1GB"))
    assert other.payloads(everything[:100]) == expected[:100]
    assert train.payloads(everything) == other.payloads(everything) == expected


@pytest.mark.promise(58)
def test_a_cache_with_a_link_in_it_is_named_and_nothing_is_written_through_it(
    there: Split, flowers: Dataset, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    train = cached(there, Cache(cache, limit="1GB"))
    shard = next(cache.rglob("shardfeed-fetched")).with_name("train-00001-of-00004.tfrecord")
    (tmp_path / "foreign").write_bytes(b"stays" * 1600)
    shard.symlink_to(tmp_path / "foreign")
    with pytest.raises(StorageError, match=rf"^{shard}: the cache is damaged: .*; .*remove {shard.parent}"):
        train.payloads(np.arange(len(there)))
    os.kill(fetcher_of(str(cache)), signal.SIGKILL)
    (cache / "fetcher.log").unlink()
    (cache / "fetcher.log").symlink_to(tmp_path / "foreign")
    shutil.rmtree(shard.parent)
    with pytest.raises(StorageError, match=r"fetcher.log: cannot open: .*ELOOP.*; remove this link"):
        cached(there, Cache(cache, limit="1GB"))
    assert (tmp_path / "foreign").read_bytes() == b"stays" * 1600
    (cache / "fetcher.log").unlink()
    train = cached(there, Cache(cache, limit="1GB"))
    assert train.payloads(np.arange(len(there))) == flowers["train"].payloads(np.arange(len(there)))


@pytest.mark.promise(59)
def test_a_response_that_is_damaged_is_fetched_again(web: WebServer, there: Split, flowers: Dataset) -> None:
    asked: Counter[str] = Counter()

    def fault(path: str, part: str) -> str:
        """The first request for each shard has a wrong bit, later ones fail now and then."""
        if not path.endswith(".tfrecord"):
            return ""
        asked[path] += 1
        return "flip" if asked[path] == 1 else "cut" if asked[path] % 3 == 0 else "503" if asked[path] % 5 == 0 else ""

    web.fault = fault
    assert same(batches(there, workers=1), batches(flowers["train"], workers=0))
    assert min(asked.values()) > 3


def opened_by(web: WebServer, patch: pytest.MonkeyPatch, key: str, token: str = "") -> Split:
    """The dataset at a server that speaks S3, and the environment of a program that reads it with this key."""
    patch.setenv("AWS_ENDPOINT_URL", web.url)
    patch.setenv("AWS_ACCESS_KEY_ID", key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", f"secret of {key}")
    patch.setenv("AWS_REGION", "us-east-1")
    patch.setenv("AWS_SESSION_TOKEN", token) if token else patch.delenv("AWS_SESSION_TOKEN", raising=False)
    if not (web.folder / "bucket").exists():
        shutil.copytree(web.folder / "flowers", web.folder / "bucket" / "flowers")
    return shardfeed.open("s3://bucket/flowers")["train"]


def only(web: WebServer, key: str) -> None:
    """Have a server refuse all other access keys from now on."""
    web.answer = lambda path, head: None if f"Credential={key}/" in head else (403, {}, b"AccessDenied")


@pytest.mark.promise(60)
@pytest.mark.parametrize(("limit", "token"), [(None, ""), ("1GB", "first token")])
def test_renewed_keys_reach_a_fetcher_that_a_reader_keeps_alive(
    web: WebServer, flowers: Dataset, tmp_path: Path, monkeypatch: Any, limit: str | None, token: str
) -> None:
    """Also the first reader's requests have the renewed keys, in its directory or as temporary keys of the account."""

    def reader(key: str, token: str) -> Iterator[tuple[Any, Any]]:
        split = opened_by(web, monkeypatch, key, token)
        split = cached(split, Cache(tmp_path / "cache", limit=limit)) if limit else split
        return iter(torch_loader(split, batch_size=8, image_size=32, seed=5, start_step=0, order=SMALL, workers=0))

    only(web, "first")
    expected = batches(flowers["train"], 20, workers=0)
    first = reader("first", token)
    found = [next(first) for _ in range(5)]
    only(web, "second")
    second = reader("second", token.replace("first", "second"))
    assert same([(x.numpy(), y.numpy()) for x, y in (next(second) for _ in range(20))], expected)
    found += [next(first) for _ in range(15)]
    assert same([(x.numpy(), y.numpy()) for x, y in found], expected)


@pytest.mark.promise(60)
def test_keys_that_a_program_renews_itself_reach_its_fetcher(
    web: WebServer, flowers: Dataset, tmp_path: Path, monkeypatch: Any
) -> None:
    """By the next request that fails; and an earlier environment, as a new worker of another program has, does not."""
    only(web, "first")
    expected, places = flowers["train"].payloads(np.arange(161)), np.array_split(np.arange(161), 4)
    train = cached(opened_by(web, monkeypatch, "first", "token"), Cache(tmp_path, limit="1GB"))
    assert train.payloads(places[0]) == expected[: len(places[0])]
    only(web, "second")
    with pytest.raises(StorageError, match="access denied"):
        train.payloads(places[1])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    assert [train.payloads(part) for part in places[1:3]] == [[expected[i] for i in part] for part in places[1:3]]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    other = pickle.loads(pickle.dumps(train))
    assert other.payloads(places[3]) == [expected[i] for i in places[3]]


@pytest.mark.promise(60)
@pytest.mark.parametrize("limit", [None, "1GB"])
def test_programs_with_other_endpoints_read_from_their_own(
    web: WebServer, flowers: Dataset, tmp_path: Path, monkeypatch: Any, limit: str | None
) -> None:
    """At the same time, of the same dataset; even if the other one's server is gone. A cache is filled by both."""
    shutil.copytree(flowers.directory, tmp_path / "other" / "flowers")
    expected, places = flowers["train"].payloads(np.arange(161)), np.array_split(np.arange(161), 3)
    with web_server(tmp_path / "other") as other:
        splits = []
        for server in (web, other):
            split = opened_by(server, monkeypatch, "key")
            _, order = order_samples(split, batch_size=8, order=SMALL)
            of_cache = limit and cached(split, Cache(tmp_path / "cache", limit=limit))
            splits.append(of_cache or read_ahead_in_order(split, order))
        for server, split, part in ((web, splits[0], places[0]), (other, splits[1], places[1])):
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
            web.requests.clear()
            other.requests.clear()
            assert split.payloads(part) == [expected[place] for place in part]
            assert sent(server) > 0
            assert sent(other if server is web else web) == 0
        other.answer = lambda path, head: (403, {}, b"AccessDenied")
        with pytest.raises(StorageError, match="access denied"):
            splits[1].payloads(places[2])
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
        assert splits[0].payloads(places[2]) == [expected[place] for place in places[2]]


def test_credentials_are_sent_only_to_a_process_of_the_same_user(
    there: Split, tmp_path: Path, monkeypatch: Any
) -> None:
    cache = Cache(tmp_path, limit="1GB")
    cached(there, cache)
    monkeypatch.setattr("shardfeed.pipelines.caching.client.send", lambda *_: pytest.fail("sent"))
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(StorageError, match="belongs to another user"):
        cached(there, cache)


@pytest.mark.parametrize(
    ("variables", "another"),
    [
        ({"AWS_ENDPOINT_URL": "http://other"}, True),
        ({"AWS_ENDPOINT_URL_S3": "http://other"}, True),
        ({"AWS_PROFILE": "other"}, True),
        ({"AWS_ACCESS_KEY_ID": "other"}, True),
        ({"AWS_SHARED_CREDENTIALS_FILE": "other"}, True),
        ({"AWS_SECRET_ACCESS_KEY": "other"}, False),
        ({"AWS_SESSION_TOKEN": "other", "AWS_ACCESS_KEY_ID": "other", "AWS_CREDENTIAL_EXPIRATION": "later"}, False),
        ({"GOOGLE_BASE_URL": "http://other"}, True),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "other"}, True),
        ({"GOOGLE_SERVICE_ACCOUNT_KEY": "other"}, False),
        ({"AZURE_STORAGE_ACCOUNT_NAME": "other"}, True),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "other"}, False),
        ({"AZURE_STORAGE_SAS_TOKEN": "other"}, False),
        ({"HF_ENDPOINT": "http://other"}, True),
        ({"HF_TOKEN": "other"}, False),
        ({"HTTPS_PROXY": "http://other"}, False),
        ({"LOCAL_RANK": "other"}, False),
    ],
)
def test_an_account_is_the_same_with_renewed_credentials(
    monkeypatch: Any, variables: dict[str, str], another: bool
) -> None:
    for name in access():
        monkeypatch.delenv(name)
    if "AWS_SESSION_TOKEN" in variables:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
    before = access()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (identity(access()) != identity(before)) == another
    assert (access() != before) == ("LOCAL_RANK" not in variables)
    use(before)
    assert access() == before


@pytest.mark.promise(55)
def test_a_dataset_that_is_replaced_is_an_error(web: WebServer, there: Split) -> None:
    loader = torch_loader(there, batch_size=8, image_size=32, start_step=0, order=SMALL, workers=1)
    taken = iter(loader)
    next(taken)
    for path in web.folder.rglob("*.tfrecord"):
        path.write_bytes(path.read_bytes()[::-1])
        os.utime(path, (1, 1))
    with pytest.raises(IntegrityError, match="replaced"):
        for _ in range(100):
            next(taken)


@pytest.mark.promise(54)
def test_no_answer_is_an_error(web: WebServer, there: Split, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("shardfeed.pipelines.caching.client._ANSWER_SECONDS", 2)
    train = cached(there, Cache(tmp_path, limit="1GB"))
    os.kill(fetcher_of(str(tmp_path)), signal.SIGSTOP)
    try:
        with pytest.raises(StorageError, match="did not answer in 2 s"):
            train.payloads(np.arange(3))
    finally:
        os.kill(fetcher_of(str(tmp_path)), signal.SIGKILL)


@pytest.mark.promise(58)
def test_leftovers_of_another_dataset_make_room(web: WebServer, there: Split, flowers: Dataset, tmp_path: Path) -> None:
    everything = np.arange(len(there))
    cached(there, Cache(tmp_path, limit="1GB")).payloads(everything)
    os.kill(fetcher_of(str(tmp_path)), signal.SIGKILL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("stay")
    old = next(tmp_path.rglob("shardfeed-fetched")).parent
    old = old.rename(old.with_name("flowers-train-0123456789abcdef"))
    train = cached(there, Cache(tmp_path, limit=there.record_bytes + 4096))
    assert train.payloads(everything) == flowers["train"].payloads(everything)
    assert not old.exists()
    assert (tmp_path / "mine" / "notes").read_text() == "stay"


@pytest.mark.promise(60)
def test_a_directory_of_another_user_is_refused(there: Split, monkeypatch: Any) -> None:
    owner = os.getuid()
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "order": SMALL, "ranks": Ranks(0, 2)}
    loader = torch_loader(there, **options, workers=0)
    directory = Path(loader.dataset.samples.shards.copy.filler.directory)  # type: ignore[attr-defined]
    other = owner + 1
    foreign = directory.with_name(directory.name.replace(f"-{owner}-", f"-{other}-"))
    foreign.symlink_to(directory)  # with a fetcher that answers
    monkeypatch.setattr(os, "getuid", lambda: other)
    try:
        with pytest.raises(StorageError, match="belongs to another user"):
            torch_loader(there, **options, workers=0)
    finally:
        foreign.unlink()


FORKED = """
import os, sys
import shardfeed
from shardfeed.pipelines import Blocks
from shardfeed.pipelines.torch import Workers, torch_loader
data = shardfeed.open(sys.argv[1])
data["train"][0]
for seed in range(int(sys.argv[2])):
    loader = torch_loader(
        data["train"], batch_size=8, image_size=32, seed=seed, workers=Workers(1, start_method="fork")
    )
    next(iter(loader))
    del loader
    if os.fork() == 0:
        try:
            data["train"][0]
        except shardfeed.errors.StorageError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print("fine")
"""


@pytest.mark.promise(56)
@pytest.mark.parametrize("trials", [3, pytest.param(100, marks=pytest.mark.long)])
def test_forks_never_hang(web: WebServer, trials: int) -> None:
    command = [sys.executable, "-c", FORKED, f"{web.url}/flowers", str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.stdout == "fine\n", done.stderr


READS = """
import sys
import shardfeed
from shardfeed.pipelines import Cache, cached
print(len(cached(shardfeed.open(sys.argv[1])["train"], Cache("cache", limit="1GB")).payload(0)))
"""


def test_the_fetcher_imports_nothing_from_the_working_directory(web: WebServer, there: Split, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "socket.py").write_text("raise RuntimeError('not the module that was meant')")
    (tmp_path / "reads.py").write_text(READS)
    command = [sys.executable, str(tmp_path / "reads.py"), f"{web.url}/flowers"]
    done = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True)
    assert done.stdout == f"{len(there.payload(0))}\n", done.stderr


@pytest.mark.long
def test_the_temporary_directory_goes_with_its_users(there: Split) -> None:
    _, order = order_samples(there, batch_size=8, order=SMALL)
    loader = torch_loader(there, batch_size=8, image_size=32, order=SMALL, workers=0, ranks=Ranks(0, 2))
    filler = loader.dataset.samples.shards.copy.filler  # type: ignore[attr-defined]
    assert isinstance(filler, FetcherClient)
    assert order.steps_per_epoch == len(list(loader))
    directory = Path(filler.directory)
    assert directory.stat().st_mode & 0o077 == 0
    del loader, filler
    until(lambda: not directory.exists())


LEFT = """
import sys
import shardfeed
from shardfeed.pipelines import Ranks, array_batches

made = array_batches(shardfeed.open(sys.argv[1])["train"], batch_size=8, image_size=32, ranks=Ranks(0, 2))
batches = iter(made)
next(batches)
print(made._samples.shards.copy.filler.directory, flush=True)
for line in sys.stdin:
    print(len(list(batches)), flush=True)
"""


def test_next_run_removes_memory_of_killed_runs(web: WebServer) -> None:
    def run(name: str) -> tuple[subprocess.Popen[str], Path]:
        shutil.copytree(web.folder / "flowers", web.folder / name)
        program = [sys.executable, "-c", LEFT, f"{web.url}/{name}"]
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return process, Path(process.stdout.readline().strip())

    (dead, left), (alive, kept) = run("dead"), run("alive")
    try:
        for directory in (left, kept):
            os.kill(fetcher_of(str(directory)), signal.SIGKILL)
        dead.kill()
        dead.wait()
        assert (left / "fetcher.clients").exists()
        following, own = run("following")
        following.kill()
        following.wait()
        assert own.exists()
        assert not left.exists()
        assert kept.exists()  # its reader goes on, with a new fetcher
        assert alive.communicate("go on\n", timeout=60)[0].strip() == "19"
    finally:
        for process in (dead, alive):
            process.kill()
            process.wait()


def test_a_temporary_directory_with_a_file_of_the_user_keeps_it(tmp_path: Path, flowers: Dataset) -> None:
    copy = SparseCopy(str(tmp_path), flowers, "train", CacheSpace(1 << 30, {}, hard=False))
    copy.fill(np.arange(50))
    for name in ("fetcher.lock", "fetcher.log", "fetcher.clients", "notes"):
        (tmp_path / name).write_text("stays")
    fetcher._remove(str(tmp_path))
    assert list(tmp_path.rglob("*")) == [tmp_path / "notes"]
    (tmp_path / "notes").unlink()
    fetcher._remove(str(tmp_path))
    assert not tmp_path.exists()


@pytest.mark.promise(55)
def test_objects_that_were_copied_anew_are_read_when_the_dataset_is_opened_again(
    tmp_path: Path, flowers: Dataset
) -> None:
    shutil.copytree(flowers.directory, tmp_path / "served" / "flowers")
    everything = np.arange(len(flowers["train"]))
    with web_server(tmp_path / "served", tags=False) as web:

        def opened() -> Split:
            return cached(shardfeed.open(f"{web.url}/flowers")["train"], Cache(tmp_path / "cache", limit="1GB"))

        train = opened()
        train.payloads(everything[::2])
        for path in web.folder.rglob("*.*"):
            os.utime(path, (1, 1))
        with pytest.raises(IntegrityError, match="replaced since it was opened; open the dataset again"):
            train.payloads(everything)
        assert opened().payloads(everything) == flowers["train"].payloads(everything)
