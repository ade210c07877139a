"""A dataset of those records of another that meet a condition."""

import os
from typing import Unpack

import numpy as np

from shardfeed.converters.existing.conditions import check_splits, evaluate, parse
from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, Opened, SourcePart
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.existing.record_keys import Keys, places_of, read_keys
from shardfeed.converters.report import Report
from shardfeed.declared import checked
from shardfeed.errors import UsageError, argument
from shardfeed.text import number


@checked
def filter(
    dataset: DatasetLike,
    out: str | os.PathLike[str],
    *,
    where: str | None = None,
    keys: Keys | None = None,
    min_objects: int | None = None,
    missing_ok: bool = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from the records that meet all given conditions, in the same splits and order.

    Records are copied byte for byte: classes keep their names and numbers, even if no record of a class remains
    (`relabel` renumbers).

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        where: a condition on features, such as `class in (cat, dog) and height >= 224 and not format == png`. A feature
            is named by its key, or by the end of its key after any "/" if only one feature has that end; `class` and
            `split` have their usual meaning, and `objects` is the number of objects. Operators: == != < <= > >= in, not
            in; combined with and, or, not and parentheses. Class names and texts are plain words or quoted. A feature
            with several values matches if any value does.
        keys: keep only records with these keys, given as in `remove`.
        min_objects: keep only images with at least this many objects.
        missing_ok: ignore keys that no record has.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        UsageError: a condition cannot be parsed or names an unknown feature, class or split, or no record would be
            left; and as in `reshard`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `reshard`.

    Example:
        filter("flowers", "roses", where="class in (rose, tulip) and height >= 24")
    """
    opened = Opened(dataset)
    if where is None and keys is None and min_objects is None:
        some = f"{argument('where')}, {argument('keys')} or {argument('min_objects')} for images with objects"
        raise UsageError("filter", "got no condition", f"give {some}; `reshard` keeps all records")
    if min_objects is not None and not opened.schema.object_keys:
        raise UsageError("min_objects", "the dataset has no objects", "leave it out")
    stay = {name: np.ones(len(records), bool) for name, records in opened.splits.items()}
    conditions = [] if where is None else [parse(where)]
    if min_objects is not None:
        conditions.append(parse(f"objects >= {min_objects}"))
    for condition in conditions:
        check_splits(condition, opened.splits, opened.schema)
        for name, records in opened.splits.items():
            stay[name] &= evaluate(condition, records.split)
    if keys is not None:
        named = places_of(opened, read_keys(keys), missing_ok=missing_ok)
        stay = {name: stay[name] & named[name] for name in stay}
    left = sum(int(of_split.sum()) for of_split in stay.values())
    if not left:
        raise UsageError("filter", f"none of {number(len(opened), 'record')} is left", "loosen the condition")
    notes = [f"{left:,} of {number(len(opened), 'record')} kept"]
    parts = [SourcePart(records, np.flatnonzero(stay[name]), name) for name, records in opened.splits.items()]
    source = ChosenRecords(parts, opened.schema, opened.made_with(), notes=notes)
    return make_dataset(source, [opened], out, making)
