"""Remove records from a dataset, and find where copies of them remain."""

import os
from dataclasses import replace as with_values
from typing import Unpack

import numpy as np

from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, Opened, SourcePart
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.existing.record_keys import Keys, places_of, read_keys
from shardfeed.converters.report import Report
from shardfeed.declared import checked
from shardfeed.errors import UsageError, escape
from shardfeed.storage.local import hidden_sibling
from shardfeed.text import number


@checked
def remove(
    dataset: DatasetLike,
    out: str | os.PathLike[str],
    keys: Keys,
    *,
    missing_ok: bool = False,
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
