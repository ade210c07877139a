"""Which shards an earlier run left whole, that the others are written, and that all are looked at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.commit.staging import Staging, check_shards, finished_shards
from shardfeed.converters.conversion import Progress, write_missing
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.errors import IntegrityError, StorageError, UsageError

from in_process import OwnEngine


class Counting(OwnEngine):
    """Notes which shards it was given; stops as a killed run does after `most`."""

    def __init__(self, most: int = 99) -> None:
        super().__init__(1)
        self.most, self.given = most, []

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        for number, receipt in enumerate(super().run(tasks, poll), 1):
            self.given.append(receipt.number)
            yield receipt
            if number == self.most:
                raise KeyboardInterrupt


@pytest.fixture
def source(folder: Callable[..., Path]) -> ImageFolder:
    return ImageFolder(folder(4))


@pytest.fixture
def plan(source: ImageFolder) -> Plan:
    return make_plan(source, PlanOptions(shards=4))


@pytest.fixture
def staging(plan: Plan, tmp_path: Path) -> Staging:
    staging = Staging(str(tmp_path / "out"))
    staging.begin(plan)
    return staging


def written(plan: Plan, source: ImageFolder, staging: Staging) -> tuple[list[int], list[Receipt]]:
    """Numbers of the shards that had to be written, and all receipts."""
    engine = Counting()
    receipts = write_missing(plan, source, staging, finished_shards(plan, staging), engine, None)
    return engine.given, receipts


def test_only_those_that_are_missing_are_written(plan: Plan, source: ImageFolder, staging: Staging) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_missing(plan, source, staging, finished_shards(plan, staging), Counting(most=2), None)
    again, receipts = written(plan, source, staging)
    assert again == [2, 3]
    assert [receipt.number for receipt in receipts] == [0, 1, 2, 3]
    assert sum(receipt.info.records for receipt in receipts) == len(plan) == 12
    assert written(plan, source, staging) == ([], receipts)


@pytest.mark.parametrize(
    "what", ["dataset/*-00002-of-*.tfrecord", "dataset/index/*-00002-of-*.tfindex", "receipts/*-00002-*"]
)
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_a_shard_that_is_not_whole_is_written_again(
    what: str, how: str, plan: Plan, source: ImageFolder, staging: Staging
) -> None:
    _, before = written(plan, source, staging)
    (path,) = Path(staging.root).glob(what)
    data = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(data[:-1])
    again, receipts = written(plan, source, staging)
    assert again == [2]
    assert receipts == before
    assert path.read_bytes() == data


def test_progress_counts_what_was_there(plan: Plan, source: ImageFolder, staging: Staging) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_missing(plan, source, staging, finished_shards(plan, staging), Counting(most=1), None)
    states: list[Progress] = []
    write_missing(plan, source, staging, finished_shards(plan, staging), Counting(), states.append)
    assert states[0].images == 3, "the images of the shard that is there"
    assert [state.shards for state in states] == sorted(state.shards for state in states)
    assert (states[-1].shards, states[-1].shards_planned, states[-1].images_planned) == (4, 4, 12)


@pytest.mark.parametrize("every_byte", [False, True])
def test_all_shards_are_looked_at(every_byte: bool, plan: Plan, source: ImageFolder, staging: Staging) -> None:
    _, receipts = written(plan, source, staging)
    check_shards(receipts, plan, staging.dataset, every_byte=every_byte)
    shard = next(Path(staging.dataset).glob("*-00001-of-*.tfrecord"))
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    if every_byte:
        with pytest.raises(IntegrityError, match=r"00001-of-00004.tfrecord: its CRC-32C is .*, expected"):
            check_shards(receipts, plan, staging.dataset, every_byte=True)
    else:
        check_shards(receipts, plan, staging.dataset, every_byte=False)
    shard.write_bytes(data + b"x")
    with pytest.raises(IntegrityError, match=f"has {len(data) + 1} bytes, expected {len(data)}"):
        check_shards(receipts, plan, staging.dataset, every_byte=every_byte)
    shard.unlink()
    with pytest.raises(StorageError):
        check_shards(receipts, plan, staging.dataset, every_byte=every_byte)


def test_an_engine_of_ones_own(source: ImageFolder, tmp_path: Path) -> None:
    engine = Counting()
    report = convert(source, tmp_path / "out", shards=3, workers=engine)
    assert engine.given == [0, 1, 2]
    assert report.committed
    for odd in ("dask", True, object()):
        with pytest.raises(UsageError, match=r"^workers: got .*, expected .* or NamedWorkers or Engine"):
            convert(source, tmp_path / "other", workers=odd)  # type: ignore[arg-type]  # that is what is refused
    assert not (tmp_path / "other").exists()
