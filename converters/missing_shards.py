"""The shards of a plan: which an earlier run left whole, having the others written, and a last look at all of them."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.planning.plan import Plan, PlannedShard
from shardfeed.converters.shards.earlier import EarlierShards
from shardfeed.converters.shards.receipts import load_receipt, receipt_count, receipt_path, save_receipt, still_whole
from shardfeed.converters.shards.task import Kept, Receipt, ShardTask, checkpoint_path, shard_paths
from shardfeed.converters.sources.source import Sample, Source
from shardfeed.errors import IntegrityError
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local import fsync_directory, remove_file, storage_error


@dataclass(frozen=True)
class Progress:
    """How far a running conversion is: images read and planned, bytes of sources read, shards done and planned."""

    images: int
    images_planned: int
    source_bytes: int
    shards: int
    shards_planned: int


class Finished(NamedTuple):
    """What an earlier run left of use: receipts by split and number of their shard, and shards to take images from."""

    receipts: dict[tuple[str, int], Receipt]
    others: EarlierShards


def finished_shards(plan: Plan, staging: Staging) -> Finished:
    """The shards that an earlier run left whole, and that this plan would make byte for byte alike; and others.

    A receipt that stands for something else goes, durably: its shard is about to be written over, and later inputs may
    be again what they were when that receipt was right.
    """
    found = Finished({}, EarlierShards(staging.earlier))
    stale = False
    for shard in plan.shards:
        path = receipt_path(staging.receipts, shard.split, shard.number, shard.count)
        receipt = load_receipt(path)
        files = shard_paths(staging.dataset, shard.split, shard.number, shard.count, plan.options.to)
        if receipt is None or not still_whole(receipt, *files):
            if os.path.lexists(path):
                remove_file(path)
                stale = True
        elif receipt.digest == plan.shard_digest(shard) and not receipt.worth_another_try:
            found.receipts[shard.split, shard.number] = receipt
        else:
            found.others.set_aside(receipt, path, *files)
            stale = True
    planned = {receipt_path("", shard.split, shard.number, shard.count) for shard in plan.shards}
    for name in sorted(set(os.listdir(staging.receipts)) - planned):  # where there are more or fewer shards now
        path = os.path.join(staging.receipts, name)
        receipt, count = load_receipt(path), receipt_count(name)
        if receipt is not None and count:
            files = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
            if still_whole(receipt, *files):
                found.others.set_aside(receipt, path, *files)
    if stale:
        fsync_directory(staging.receipts)
    return found


def write_missing(
    plan: Plan,
    source: Source,
    staging: Staging,
    finished: Finished,
    engine: Engine,
    progress: Callable[[Progress], None] | None,
) -> list[Receipt]:
    """Every shard's receipt in the plan's order, having written those that are not among the `finished`.

    Raises as the engine does; what is finished by then has a receipt.
    """
    receipts, earlier = dict(finished.receipts), finished.others
    missing = [shard for shard in plan.shards if (shard.split, shard.number) not in receipts]
    before = len(plan) - sum(len(shard.samples) for shard in missing)
    shard_counts = {shard.split: shard.count for shard in plan.shards}

    def report_progress() -> None:
        if progress is not None:
            images, size = engine.done()
            progress(Progress(before + images, len(plan), size, len(receipts), len(plan.shards)))

    def samples_of(shard: PlannedShard) -> tuple[Sample, ...]:
        return tuple(source[int(i)] for i in shard.samples)

    def stored(shard: PlannedShard, samples: tuple[Sample, ...]) -> dict[int, Kept]:
        return earlier.find(samples, plan.schema, plan.options.image, (shard.split, shard.number))

    def tasks() -> Iterator[ShardTask]:
        for shard in missing:
            samples = samples_of(shard)
            kept = stored(shard, samples)
            earlier.taken += len(kept)
            yield ShardTask(
                directory=staging.dataset,
                split=shard.split,
                number=shard.number,
                count=shard.count,
                first=shard.first,
                samples=samples,
                schema=plan.schema,
                image=plan.options.image,
                digest=plan.shard_digest(shard),
                kept=kept,
                format=plan.options.to,
            )

    if earlier:  # a disk may have no room for all of them beside the new ones: each goes when its last user is done
        for shard in missing:
            stored(shard, samples_of(shard))
        earlier.remove_unused()
    for receipt in engine.run(tasks(), report_progress):
        count = shard_counts[receipt.split]
        path = receipt_path(staging.receipts, receipt.split, receipt.number, count)
        receipts[receipt.split, receipt.number] = save_receipt(path, receipt)
        data, _ = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
        if os.path.lexists(checkpoint := checkpoint_path(data)):
            remove_file(checkpoint)
        earlier.remove_unused((receipt.split, receipt.number))
        report_progress()
    return [receipts[shard.split, shard.number] for shard in plan.shards]


def check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare what lies on disk with the receipts: sizes and index, and with `every_byte` all of it.

    Raises IntegrityError, StorageError.
    """
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        data, index = shard_paths(directory, shard.split, shard.number, shard.count, plan.options.to)
        for path, info, whole in ((data, receipt.info.data, every_byte), (index, receipt.info.index, True)):
            try:
                found = FileInfo.of_file(path) if whole else FileInfo(os.path.getsize(path), info.crc32c)
            except OSError as error:
                raise storage_error(path, "read", error) from error
            if problem := info.difference(found):
                remedy = "the disk or something else changed it; check the disk, remove the file, run again"
                raise IntegrityError(path, problem, remedy)
