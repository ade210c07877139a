"""The shards of a plan: which an earlier run left whole, having the others written, and a last look at all of them."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.planning.plan import Plan, PlannedShard
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.shards.receipts import load_receipt, receipt_path, save_receipt, still_whole
from shardfeed.converters.shards.task import Receipt, ShardTask, shard_paths
from shardfeed.converters.sources.source import Sample, Source
from shardfeed.errors import IntegrityError
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local import storage_error


@dataclass(frozen=True)
class Progress:
    """How far a running conversion is: images read and planned, bytes of sources read, shards done and planned."""

    images: int
    images_planned: int
    source_bytes: int
    shards: int
    shards_planned: int


def write_missing(
    plan: Plan,
    source: Source,
    staging: Staging,
    engine: Engine,
    progress: Callable[[Progress], None] | None,
) -> list[Receipt]:
    """Every shard's receipt in the plan's order, having written those that an earlier run did not.

    Raises as the engine does; what is finished by then has a receipt.
    """
    receipts: dict[tuple[str, int], Receipt] = {}
    missing: list[PlannedShard] = []
    for shard in plan.shards:
        receipt = load_receipt(receipt_path(staging.receipts, shard.split, shard.number, shard.count))
        paths = shard_paths(staging.dataset, shard.split, shard.number, shard.count)
        if receipt is not None and still_whole(receipt, *paths) and not _worth_another_try(receipt):
            receipts[shard.split, shard.number] = receipt
        else:
            missing.append(shard)
    before = len(plan) - sum(len(shard.samples) for shard in missing)
    shard_counts = {shard.split: shard.count for shard in plan.shards}

    def report_progress() -> None:
        if progress is not None:
            images, size = engine.done()
            progress(Progress(before + images, len(plan), size, len(receipts), len(plan.shards)))

    def tasks() -> Iterator[ShardTask]:
        for shard in missing:
            samples: tuple[Sample, ...] = tuple(source[int(i)] for i in shard.samples)
            yield ShardTask(
                directory=staging.dataset,
                split=shard.split,
                number=shard.number,
                count=shard.count,
                first=shard.first,
                samples=samples,
                schema=plan.schema,
                image=plan.options.image,
            )

    for receipt in engine.run(tasks(), report_progress):
        count = shard_counts[receipt.split]
        path = receipt_path(staging.receipts, receipt.split, receipt.number, count)
        receipts[receipt.split, receipt.number] = save_receipt(path, receipt)
        report_progress()
    return [receipts[shard.split, shard.number] for shard in plan.shards]


def _worth_another_try(receipt: Receipt) -> bool:
    """Whether a finished shard lacks an image that could not be read: permissions and cables are repaired meanwhile."""
    return any(noted.what == RejectCode.UNREADABLE.value for noted in receipt.rejected)


def check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare what lies on disk with the receipts: sizes and index, and with `every_byte` all of it.

    Raises IntegrityError, StorageError.
    """
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        data, index = shard_paths(directory, shard.split, shard.number, shard.count)
        for path, info, whole in ((data, receipt.info.data, every_byte), (index, receipt.info.index, True)):
            try:
                found = FileInfo.of_file(path) if whole else FileInfo(os.path.getsize(path), info.crc32c)
            except OSError as error:
                raise storage_error(path, "read", error) from error
            if problem := info.difference(found):
                remedy = "the disk or something else changed it; check the disk, remove the file, run again"
                raise IntegrityError(path, problem, remedy)
