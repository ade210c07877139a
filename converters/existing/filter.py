"""A dataset of those records of another that meet a condition, or without some; and where copies of these remain."""

import os
from collections.abc import Collection, Iterable
from dataclasses import replace as with_values
from typing import Annotated, Unpack

import numpy as np

from shardfeed.converters.existing.conditions import evaluate, parse, with_known_splits
from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, Opened, SourcePart
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.planning.options import Out
from shardfeed.converters.report import Report
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument, escape, name_bytes
from shardfeed.storage.local import hidden_sibling
from shardfeed.text import number, some

MissingOk = Annotated[bool, Typed("ignore unknown keys")]
Keys = Iterable[str | bytes] | str | os.PathLike[str]


@checked
def filter(
    dataset: DatasetLike,
    out: Out,
    *,
    where: Annotated[str | None, Typed("condition: 'class in (cat, dog) and height >= 224'", "CONDITION")] = None,
    keys: Annotated[Keys | None, Typed("only records with these keys (image/filename), one per line", "FILE")] = None,
    min_objects: Annotated[int | None, Typed("only images with at least N objects", "N")] = None,
    missing_ok: MissingOk = False,
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
        condition = with_known_splits(condition, opened.splits, opened.schema)
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


@checked
def remove(
    dataset: DatasetLike,
    out: Out,
    keys: Annotated[
        Keys,
        Typed("file of keys (image/filename) to remove, one per line", "FILE"),
        Typed("key to remove; repeatable", "KEY", "key", many=True),
    ],
    *,
    missing_ok: MissingOk = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` without the records that have the given keys, in the same splits and order.

    `out` contains nothing of the removed records. They are still in `dataset`, which is only read: the report's notes
    say where, and which shards of `dataset` are shared with other datasets.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        keys: file names, as in `image/filename`; or the path of a file with one per line. Identify a record without a
            file name by split and position: `train/000000017`.
        missing_ok: ignore keys that no record has.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        UsageError: a key is unknown, or no record would be left; and as in `reshard`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `reshard`.

    Example:
        report = remove("flowers", "without", ["rose/0001.jpg"])
        print(report.notes)  # where the removed records still are
    """
    opened = Opened(dataset)
    gone = places_of(opened, read_keys(keys), missing_ok=missing_ok)
    parts = [SourcePart(records, np.flatnonzero(~gone[name]), name) for name, records in opened.splits.items()]
    counts = {name: int(of_split.sum()) for name, of_split in gone.items()}
    removed = sum(counts.values())
    if removed == len(opened):
        raise UsageError("keys", "the keys match every record: none would be left", "remove the dataset's directory")
    by_split = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count)
    note = f"{number(removed, 'record')} removed{f' ({by_split})' if by_split else ''}"
    source = ChosenRecords(parts, opened.schema, opened.made_with(), notes=[note])
    report = make_dataset(source, [opened], out, making)
    return with_values(report, notes=[*report.notes, *_remaining_copies(opened)]) if removed else report


def _remaining_copies(opened: Opened) -> list[str]:
    """Sentences about the places that still have the records that were removed."""
    directory = opened.directory
    places = [f"the records are still in {escape(directory)}: remove that dataset when it is no longer needed"]
    shared = [
        os.path.basename(name)
        for split in opened.manifest.splits.values()
        for shard in range(len(split.shards))
        if _names(os.path.join(directory, name := split.shard_file(shard))) > 1
    ]
    if shared:
        what = f"{number(len(shared), 'shard')} of it (such as {shared[0]}) {'has' if len(shared) == 1 else 'have'}"
        places.append(
            f"{what} a hard link in another dataset, made by append: `find DIR -samefile FILE` finds it;"
            " removing one link keeps the other"
        )
    for kind in ("staging", "building"):
        if os.path.isdir(left := hidden_sibling(directory, kind)):
            places.append(f"{escape(left)} is left by an interrupted run, and may also contain them")
    places.append("also check caches of training (cache=), backups and the source images")
    return places


def _names(path: str) -> int:
    """Number of names (hard links) of a file; 0 if it is missing."""
    try:
        return os.stat(path).st_nlink
    except OSError:
        return 0


def read_keys(keys: Keys) -> dict[bytes, None]:
    """The keys of an iterable, or of a file with one per line, in order and without repeats.

    Raises UsageError if there are none, or the file cannot be read, or is not text.
    """
    if isinstance(keys, str | os.PathLike):
        try:
            with open(keys, "rb") as file:
                content = file.read()
        except OSError as error:
            raise UsageError(os.fspath(keys), f"cannot read the list of keys: {error.strerror}", "check it") from None
        if b"\0" in content:  # which no file name has
            problem = "got binary data, expected a list of keys (image/filename), one per line"
            raise UsageError(os.fspath(keys), problem, "write the keys into a text file")
        lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
        found = dict.fromkeys(line for line in lines if line)
    else:
        found = dict.fromkeys(key if isinstance(key, bytes) else name_bytes(key) for key in keys)
    if not found:
        raise UsageError("keys", "the list of keys is empty", "give the file names in the dataset")
    return found


def places_of(opened: Opened, keys: Collection[bytes], *, missing_ok: bool) -> dict[str, np.ndarray]:
    """Whether each record of each split is named, bool [n]. Raises UsageError for keys that no record has."""
    left = set(keys)
    named: dict[str, np.ndarray] = {}
    for name, records in opened.splits.items():
        named[name] = np.fromiter((key in keys for key in records.keys), bool, len(records))
        left.difference_update(records.keys[np.flatnonzero(named[name])])
    if left and not missing_ok:
        problem = f"{number(len(left), 'key')} of {len(keys):,} {'is' if len(left) == 1 else 'are'} not in "
        example = next((key for records in opened.splits.values() for key in records.keys), b"")
        remedy = f"keys are file names such as {escape(example)}; {argument('missing_ok', True)} ignores them"
        raise UsageError("keys", f"{problem}{escape(opened.directory)}: {some(sorted(left))}", remedy)
    return named
