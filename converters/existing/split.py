"""A dataset in other splits, or in other shards."""

from typing import Annotated, Unpack

import numpy as np

from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, DatasetSource, Opened, SourcePart
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.existing.renumber import numbered
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
from shardfeed.converters.report import Report
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument
from shardfeed.split_words import split_called


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
    divided = [*opened.splits] if of is None else [opened.dataset[of].name]
    kept = [name for name in opened.splits if name not in divided]
    if not (shares := Shares.of(split).shares):
        raise UsageError("split", f"got {shares!r}, expected the share of each new split")
    if clash := sorted(filter(None, (split_called(name, kept) for name in shares))):
        problem = f"{clash[0]!r} is an existing split that is kept"
        raise UsageError("split", problem, f"choose other names, or leave {argument('of')} out to divide all records")
    places = {name: np.arange(len(records)) for name, records in opened.splits.items()}
    parts = [SourcePart(opened.splits[name], places[name], name if name in kept else None) for name in places]
    parts = numbered(parts, seed, renumber=renumber)
    made_with = opened.made_with("split", "split_by", "seed", "groups")
    source = ChosenRecords(parts, opened.schema, made_with, keeps_order=False)
    groups = Groups(group_column, group_pattern, group_duplicates)
    return make_dataset(source, [opened], out, making, split=split, seed=seed, groups=groups)


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
