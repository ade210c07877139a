"""Eight ranks on one cache that holds a tenth of the split, through kills of a rank and of the process that fetches."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from cache_ranks import RANKS, Rank, loader_of
from datasets import repeated
from fetching import fetcher_of, fetches_by_arithmetic

import shardfeed
from shardfeed.pipelines import Cache
from shardfeed.pipelines.orders.order import BlockOrder
from shardfeed.pipelines.torch import Ranks

from buckets import KEY, SECRET, Bucket, bucket_behind
from seaweed import seaweed

pytestmark = pytest.mark.long
EPOCHS = 3  # of 100 steps
KILLED_RANK, KILLED_FETCHER = 130, (55, 175, 240)  # steps, of which each begins a window
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory: other file systems allocate more than is written."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    for name in ("server", "files"):
        (tmp_path / name).mkdir()
    with (
        seaweed(tmp_path / "server", KEY, SECRET) as port,
        bucket_behind(port, tmp_path / "files", "tenth") as bucket,
    ):
        yield bucket


def disk_use(directory: Path) -> int:
    """Bytes that a directory's files take at one moment: looked at anew until nothing has changed meanwhile."""

    def look() -> dict[str, tuple[int, int]] | None:
        try:
            states = {str(path): path.stat() for path in directory.rglob("*")}
        except FileNotFoundError:
            return None
        return {path: (state.st_blocks * 512, state.st_ctime_ns) for path, state in states.items()}

    while (found := look()) is None or found != look():
        pass
    return sum(size for size, _ in found.values())


@pytest.mark.promise(57, 58)
def test_kills_of_a_rank_and_of_the_fetcher(bucket: Bucket, tmp_path: Path, memory: Path) -> None:
    """Each step's batch, put together from eight ranks, is that of the local dataset; others' files stay.

    What is sent is what arithmetic says, though the fetcher is killed each time while it waits for a window's records:
    half a window more at most (0.2 %), as the last record that is removed may be another one, and for manifest and
    indexes; or a window and a half less, as the last window may be on its way. If nothing of an epoch were kept for
    the next one, two windows more would be sent.

    The cache takes its limit, the files beside the shards (indexes, manifest, logs), and a page more at each end of a
    run of records, of which there are no more than records.
    """
    here = repeated(tmp_path / "photos", range(180, 240, 6), samples=2400, shards=4)
    there = shardfeed.open(bucket.upload(here, "photos"))["train"]
    foreign = [memory / "notes", memory / "photos-train-0123456789abcdef" / "train-00000-of-00001.tfrecord"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("stays")
    bucket.proxy.sent = 0

    limit = there.record_bytes // 10
    ranks = [Rank(there, Cache(memory, limit=limit), number) for number in range(RANKS)]
    for rank in ranks:
        rank.start()
    local = loader_of(here["train"], Ranks(0, 1))
    assert isinstance(local.order, BlockOrder)
    assert local.order.chunks_per_epoch == 40
    most, steps = 0, EPOCHS * local.steps_per_epoch
    for step, expected in zip(range(steps), local, strict=False):
        asked = len(bucket.proxy.requests)
        bucket.proxy.latency = 3600 if step in KILLED_FETCHER else 0
        for rank in ranks:
            rank.pipe.send(True)
        if step == KILLED_RANK:
            ranks[3].process.kill()
            ranks[3].process.join()
            ranks[3].start()
            ranks[3].pipe.send(True)
        if step in KILLED_FETCHER:
            while len(bucket.proxy.requests) == asked:
                time.sleep(0.001)
            os.kill(fetcher_of(str(memory)), signal.SIGKILL)
            bucket.proxy.latency = 0
        while len(wait([rank.pipe for rank in ranks], timeout=0)) < RANKS:
            most = max(most, disk_use(memory))
            time.sleep(0.005)
        assert [sample for rank in ranks for sample in rank.batch()] == expected, f"step {step}"
        most = max(most, disk_use(memory))
    for rank in ranks:
        rank.pipe.send(False)
        rank.process.join()

    window = there.record_bytes * local.order.window // len(there)
    expected_bytes = fetches_by_arithmetic(here["train"], local.order, limit, EPOCHS, ranks=True)
    assert -1.5 * window <= bucket.proxy.sent - expected_bytes <= 0.5 * window
    small = sum(p.stat().st_blocks * 512 for p in memory.rglob("*") if p.is_file() and p.suffix != ".tfrecord")
    assert most <= limit + small + 2 * PAGE * (len(there) // 10)
    assert all(path.read_text() == "stays" for path in foreign)
