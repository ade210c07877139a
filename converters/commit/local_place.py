"""Output of a conversion on the local disk: its finished shards, and the check of all shards before the commit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import Report
from shardfeed.converters.shards.earlier import EarlierShards
from shardfeed.converters.shards.receipts import load_receipt, receipt_count, receipt_path, still_whole
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.errors import IntegrityError
from shardfeed.storage.local import fsync_directory, remove_file


class Finished(NamedTuple):
    """Reusable work of an earlier run: receipts by (split, shard number), and shards from which images can be taken."""

    receipts: dict[tuple[str, int], Receipt]
    others: EarlierShards


def finished_shards(plan: Plan, staging: Staging, *, anew: bool = True) -> Finished:
    """Find the intact shards of an earlier run that have the bytes of this plan's shards; and other shards.

    `anew`: shards with an image that could not be read do not count, because they are to be tried again.

    A receipt of different content is removed durably: its shard will be overwritten, and later inputs may match the
    receipt again.
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
        elif receipt.digest == plan.shard_digest(shard) and not (anew and receipt.retry_may_help):
            found.receipts[shard.split, shard.number] = receipt
        else:
            found.others.set_aside(receipt, path, *files)
            stale = True
    planned = {receipt_path("", shard.split, shard.number, shard.count) for shard in plan.shards}
    for name in sorted(set(os.listdir(staging.receipts)) - planned):  # if the number of shards has changed
        path = os.path.join(staging.receipts, name)
        receipt, count = load_receipt(path), receipt_count(name)
        if receipt is not None and count:
            files = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
            if still_whole(receipt, *files):
                found.others.set_aside(receipt, path, *files)
    if stale:
        fsync_directory(staging.receipts)
    return found


def check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare the files on disk with the receipts: sizes and index, and with `every_byte` all bytes.

    Raises IntegrityError, StorageError.
    """
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        data, index = shard_paths(directory, shard.split, shard.number, shard.count, plan.options.to)
        for path, info, whole in ((data, receipt.info.data, every_byte), (index, receipt.info.index, True)):
            if problem := info.problem(path, every_byte=whole):
                remedy = "check the disk, remove the file, run again"
                raise IntegrityError(path, problem, remedy)


class LocalPlace:
    """Output on the local disk: `local` is its absolute path."""

    def __init__(self, local: str) -> None:
        self.local = local

    def may_replace(self, asked: bool) -> bool:
        """Whether an existing dataset at `local` may be replaced; `asked`: whether the user asked for it."""
        return asked

    def check_space(self, plan: Plan, staging: Staging) -> None:
        """Raise StorageError if the dataset does not fit on the disk."""
        check_space(plan.forecast, self.local, staging.dataset)

    def shards_go_to(self, staging: Staging) -> str:
        """The directory or URL to which workers write shards."""
        return staging.dataset

    def finished(self, plan: Plan, staging: Staging, *, anew: bool) -> Finished:
        """The finished shards in the output, as `finished_shards`."""
        return finished_shards(plan, staging, anew=anew)

    def check_shards(self, receipts: Sequence[Receipt], plan: Plan, staging: Staging, *, every_byte: bool) -> None:
        """Compare the shards that are there with the receipts, as `check_shards`."""
        check_shards(receipts, plan, staging.dataset, every_byte=every_byte)

    def send(self) -> None:
        """Send the finished dataset to where it belongs: it is there already."""

    @contextmanager
    def folder(self) -> Iterator[None]:
        """A block in which the folder of `local` exists; a temporary one is removed afterwards if nothing is left."""
        yield

    def reported(self, report: Report) -> Report:
        """The report for the user."""
        return report
