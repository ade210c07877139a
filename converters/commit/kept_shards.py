"""The shards of a dataset that is appended to: second names for their files, under the numbers of the new dataset."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from shardfeed.converters.planning.onto import Onto
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.shards.task import shard_paths
from shardfeed.errors import IntegrityError
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local import fsync_directory, link_or_copy, make_directory, storage_error
from shardfeed.text import number

_REMEDY = "the dataset that is appended to has changed: run `shardfeed verify` on it"


class _File(NamedTuple):
    """A file that stays: where it is, where it goes, and what it is."""

    path: str
    final: str
    info: FileInfo


def new_counts(plan: Plan) -> dict[str, int]:
    """The number of shards of each split of the new dataset, those that stay among them."""
    onto = plan.options.onto
    counts = {} if onto is None else {name: len(info.shards) for name, info in onto.manifest.splits.items()}
    return counts | {shard.split: shard.count for shard in plan.shards}


def keep_shards(plan: Plan, directory: str, *, every_byte: bool) -> list[str]:
    """Link the shards that stay, and their indexes, into `directory`; where no links can be, copy them.

    A sentence about it, none where nothing is appended to. Again after a kill, it does what is left. Sizes are compared
    with the manifest, with `every_byte` all of each file. Raises IntegrityError, StorageError.
    """
    onto = plan.options.onto
    if onto is None:
        return []
    linked = copied = 0
    folders: dict[str, None] = {}
    for file in _files(onto, plan, directory):
        folder = os.path.dirname(file.final)
        if folder not in folders:
            folders[folder] = None
            if not os.path.isdir(folder):
                make_directory(folder)
        if link_or_copy(file.path, file.final):
            linked += 1
        else:
            copied += 1
        _check(file, every_byte=every_byte)
    for folder in folders:
        fsync_directory(folder)
    shards = sum(len(info.shards) for info in onto.manifest.splits.values())
    how = "linked, not copied" if not copied else f"copied: its disk takes no links ({linked} of their files linked)"
    return [f"{number(shards, 'shard')} of {onto.manifest.name} {'is' if shards == 1 else 'are'} {how}"]


def _check(file: _File, *, every_byte: bool) -> None:
    """Raises IntegrityError where a file is not what the manifest says: by its size, with `every_byte` by all of it."""
    try:
        found = FileInfo.of_file(file.final) if every_byte else FileInfo(os.path.getsize(file.final), file.info.crc32c)
    except OSError as error:
        raise storage_error(file.final, "read", error) from error
    if problem := file.info.difference(found):
        raise IntegrityError(file.path, problem, _REMEDY)


def _files(onto: Onto, plan: Plan, directory: str) -> Iterator[_File]:
    counts = new_counts(plan)
    for name, info in onto.manifest.splits.items():
        for shard in range(len(info.shards)):
            final = shard_paths(directory, name, shard, counts[name], info.format)
            names = info.shard_file(shard), info.index_file(shard)
            paths = [os.path.join(onto.directory, name) for name in names]
            yield from map(_File, paths, final, (info.shards[shard].data, info.shards[shard].index))
