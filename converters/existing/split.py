"""A dataset in other splits, or in other shards; and the ids of its records, `image/source_id`.

Ids are unique in each split, even if its records come from several datasets. Those that a conversion assigned are
assigned again if they would no longer ascend. Those that come from the source, as in COCO, are kept: results are
compared with annotations by id. The manifest records which kind they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Unpack

import numpy as np

from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, DatasetSource, Opened, SourcePart
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.converters.planning.options import (
    GroupColumn,
    GroupDuplicates,
    GroupPattern,
    Groups,
    Out,
    Renumber,
    Seed,
    Shares,
    SharesLike,
)
from shardfeed.converters.planning.split_shares import draw
from shardfeed.converters.report import Report
from shardfeed.declared import Typed, checked
from shardfeed.errors import SplitError, UsageError, argument, name_text
from shardfeed.schema import SOURCE_ID


@checked
def split(
    dataset: DatasetLike,
    out: Out,
    split: SharesLike,
    *,
    of: Annotated[str | None, Typed("split to divide; others are kept (default: all records)", "NAME")] = None,
    group_column: GroupColumn = None,
    group_pattern: GroupPattern = None,
    group_duplicates: GroupDuplicates = False,
    seed: Seed = 0,
    renumber: Renumber = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from the same records in new splits, drawn at random, each in a new random order.

    A record's key decides its split and position, as in a conversion with the same shares and seed. Records are copied
    byte for byte, except for their id (`image/source_id`): ids that a conversion assigned are assigned again in a new
    split if they are out of order there.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        split: share of each new split, adding up to 1; use `Shares` to choose how samples are drawn.
        of: the split to divide; all other splits are kept. Default: all splits are combined and divided.
        group_column: a feature, `image/patient` or `patient`: records with the same value go to the same split. With
            `of`, a record whose group also has records in a kept split moves to that split.
        group_pattern, group_duplicates: as in `convert`; duplicates are found by the stored hashes.
        seed: decides the splits and the order.
        renumber: also give new ids to records with the same id from their source, such as COCO's ids.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        SplitError: the dataset has no split with the name `of`.
        UsageError, TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `reshard`.

    Example:
        split("flowers", "halves", {"train": 0.5, "validation": 0.5}, seed=7)
    """
    opened = Opened(dataset)
    if of is not None and of not in opened.splits:
        raise SplitError(opened.directory, f"no split {of!r}", f"it has {', '.join(map(repr, opened.splits))}")
    kept = [name for name in opened.splits if of is not None and name != of]
    if not (shares := Shares.of(split).shares):
        raise UsageError("split", f"got {shares!r}, expected the share of each new split")
    if clash := sorted(set(kept) & shares.keys()):
        problem = f"{clash[0]!r} is an existing split that is kept"
        raise UsageError("split", problem, f"choose other names, or leave {argument('of')} out to divide all records")
    places = {name: np.arange(len(records)) for name, records in opened.splits.items()}
    parts = [SourcePart(opened.splits[name], places[name], name if name in kept else None) for name in places]
    parts = numbered(parts, seed, renumber=renumber)
    made_with = opened.made_with("split", "split_by", "seed", "groups")
    source = ChosenRecords(parts, opened.schema, made_with, keeps_order=False)
    groups = Groups(group_column, group_pattern, group_duplicates)
    return make_dataset(source, [opened], out, making, split=split, seed=seed, groups=groups)


def numbered(parts: Sequence[SourcePart], seed: int, *, renumber: bool) -> list[SourcePart]:
    """Renumber the parts of the splits in which ids clash; `seed` draws the order of records.

    Ids that come from the source (COCO) are only changed with `renumber`; otherwise raise UsageError for a clash.
    """
    anew = {name for name in {part.split for part in parts} if _clash(name, parts, seed, renumber=renumber)}
    return [
        replace(part, change=replace(part.change or RecordChange(part.records.split.schema), renumber=True))
        if part.split in anew
        else part
        for part in parts
    ]


def _clash(name: str | None, parts: Sequence[SourcePart], seed: int, *, renumber: bool) -> bool:
    """Whether the records of the new split `name` need new ids."""
    of_split = [part for part in parts if part.split == name and len(part.places)]
    columns = [numbers for part in of_split if (numbers := part.records.numbers) is not None]
    if not of_split or len(columns) < len(of_split):
        return False
    numbers = np.concatenate([column[part.places] for column, part in zip(columns, of_split, strict=True)])
    if all(part.records.origin.counted for part in of_split):
        draws = b"".join(draw(key, seed)[8:] for key in _keys(of_split))
        order = np.argsort(np.frombuffer(draws, "<u8"), kind="stable")
        return bool((np.diff(numbers[order]) <= 0).any())
    found, counts = np.unique(numbers, return_counts=True)
    twice = np.flatnonzero(counts > 1)
    if not len(twice):
        return False
    if renumber:
        return True
    number = int(found[twice[0]])
    keys = [name_text(key) for key, of in zip(_keys(of_split), numbers.tolist(), strict=True) if of == number]
    problem = f"the images {keys[0]} and {keys[1]} of one split both have the id {number} ({SOURCE_ID})"
    remedy = f"{argument('renumber', True)} assigns new ids in such splits"
    remedy += ", which no longer match the annotation files"
    raise UsageError("renumber", problem, remedy)


def _keys(parts: Sequence[SourcePart]) -> Iterator[bytes]:
    """The new keys of all records."""
    for part in parts:
        prefix = b"" if part.change is None else part.change.prefix
        for place in part.places:
            yield prefix + part.records.key(int(place))


@checked
def reshard(dataset: DatasetLike, out: Out, **making: Unpack[MakingOptions]) -> Report:
    """Create the dataset `out` from the same records, in the same splits and order, in different shards.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        TooManyRejectedError: too many records are damaged; the error names them, and nothing is committed.
        UsageError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `convert` and `shardfeed.open`.
            After a StorageError or a kill, the same call continues.

    Example:
        reshard("flowers", "few", shards=1)
        reshard("flowers", "tars", to="webdataset")
    """
    opened = Opened(dataset)
    return make_dataset(DatasetSource(opened), [opened], out, making)
