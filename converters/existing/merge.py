"""Several datasets as one."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as with_values
from typing import Annotated, Any, Unpack

import numpy as np

from shardfeed.converters.existing.class_map import Joined, joined, schema_difference
from shardfeed.converters.existing.dataset_source import (
    ChosenRecords,
    DatasetLike,
    Opened,
    RecordOfDataset,
    SourcePart,
    SplitRecords,
)
from shardfeed.converters.existing.making import MakingOptions, convert_anew, make_dataset
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.converters.existing.renumber import numbered
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import Out, Renumber, Seed
from shardfeed.converters.report import Report
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument, escape
from shardfeed.formats.example import decode
from shardfeed.schema import SOURCE_ID
from shardfeed.split_words import renamed_splits
from shardfeed.text import number


@checked
def merge(
    datasets: Annotated[Iterable[DatasetLike], Typed("two or more dataset directories; they are only read")],
    out: Out,
    *,
    prefix: Annotated[bool | Sequence[str], Typed("prefix the keys of each dataset with its directory name")] = False,
    seed: Seed = 0,
    renumber: Renumber = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from the records of several datasets, split by split, each split in a new random order.

    Splits and classes are matched by name, splits also by other usual words: `val` joins `validation`, under the name
    that the first dataset has. The class list is the list of the first dataset, followed by the classes
    that each further dataset adds. If two datasets have the same key with equal values (ignoring id and label numbers),
    the two records become one, in the split of the first dataset. Ids that a conversion assigned (`image/source_id`)
    are assigned again if they are out of order, label numbers are changed to match the new list, and everything else is
    copied value by value.

    Args:
        datasets: two or more directories or open `Dataset` objects; they are only read.
        out: the directory to create; its parent must exist.
        prefix: prefix each dataset's keys (`image/filename`) with a folder: its directory's name, or the name given
            here for each dataset. Then all keys are different.
        seed: decides the order.
        renumber: also give new ids to images with the same id from their sources, such as COCO's ids.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        UsageError: features differ, class lists contradict each other, two records with the same key differ; and as in
            `reshard`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `reshard`.

    Example:
        merge(["flowers", "others"], "both", prefix=True)
    """
    opened = [Opened(dataset) for dataset in datasets]
    if len(opened) < 2 or len({os.path.realpath(one.directory) for one in opened}) < len(opened):
        raise UsageError("datasets", f"got {len(opened)} directories", "give two or more different datasets")
    lists = _class_lists(opened)
    _check_encoding(opened)
    names = {key: of_key.names for key, of_key in lists.items()}
    ids = {key: of_key.ids for key, of_key in lists.items() if of_key.ids is not None}
    schema = with_values(opened[0].schema, class_names=names, class_ids=ids)
    prefixes = _prefixes(opened, prefix)
    changes = [_change(one, lists, of_one, at) for at, (one, of_one) in enumerate(zip(opened, prefixes, strict=True))]
    taken = _MergedRecords()
    splits = zip(opened, changes, _united_splits(opened), strict=True)
    parts = [
        SourcePart(records, taken.new(records, change), names[name], change)
        for one, change, names in splits
        for name, records in one.splits.items()
    ]
    parts = numbered(parts, seed, renumber=renumber)
    idless = (escape(key) for key, of_key in lists.items() if of_key.had_ids and of_key.ids is None)
    left_out = (f"not all classes of {key} have an id, so class ids are left out" for key in idless)
    notes = [*taken.notes(), *left_out]
    source = ChosenRecords(parts, schema, _made_with(opened), keeps_order=False, notes=notes)
    return make_dataset(source, opened, out, making, seed=seed)


def _class_lists(opened: Sequence[Opened]) -> dict[str, Joined]:
    """Join the class lists of each label feature. Raise UsageError if datasets differ in more than classes."""
    first = opened[0]
    for other in opened[1:]:
        if problem := schema_difference(first.schema, other.schema, other_place=other.directory):
            remedy = "convert one of them again with the labels and options of the other"
            if foreign := [one for one in (first, other) if one.manifest.options.get("adopted")]:
                whose = " and ".join(escape(one.directory) for one in foreign)
                remedy = f"the records of {whose} are foreign: {convert_anew(foreign[0].manifest.format)} to merge"
            raise UsageError(first.directory, problem, remedy)
    return {
        key: joined(
            key, [(one.directory, one.schema.class_names[key], one.schema.class_ids.get(key)) for one in opened]
        )
        for key in first.schema.class_names
    }


def _united_splits(opened: Sequence[Opened]) -> Iterator[Mapping[str, str]]:
    """Yield, for each dataset, the new name of each split: the word of the first dataset that has the split."""
    united: dict[str, None] = {}
    for one in opened:
        names = renamed_splits(one.splits, united)
        united |= dict.fromkeys(names.values())
        yield names


def _check_encoding(opened: Sequence[Opened]) -> None:
    """Raise UsageError if one has raw pixels and another image files: features.json cannot state both."""
    formats = {
        one.directory: {kind for split in one.dataset.values() for kind, count in split.formats.items() if count}
        for one in opened
    }
    raw = next((place for place, kinds in formats.items() if kinds == {"raw"}), None)
    files = next((place for place, kinds in formats.items() if kinds and "raw" not in kinds), None)
    if raw is not None and files is not None:
        remedy = f"convert one of them again, with {argument('encode', 'raw')} or without"
        raise UsageError(raw, f"has raw pixels, and {escape(files)} image files", remedy)


def _prefixes(opened: Sequence[Opened], prefix: bool | Sequence[str]) -> list[bytes]:
    """List the prefix of each dataset's keys. Raise UsageError unless all differ and can be the name of a folder."""
    if prefix is False:
        return [b""] * len(opened)
    names = [os.path.basename(one.directory) for one in opened] if prefix is True else list(prefix)
    sound = all(isinstance(name, str) and name and name not in (".", "..") and "\0" not in name for name in names)
    if len(set(names)) != len(opened) or not sound:
        problem = f"got {', '.join(map(repr, names))}, expected a different name for each of {len(opened)} datasets"
        raise UsageError("prefix", problem, "rename a directory, or in Python give names: prefix=[...]")
    return [os.fsencode(name) + b"/" for name in names]


def _change(one: Opened, lists: Mapping[str, Joined], prefix: bytes, at: int) -> RecordChange | None:
    """Change to make to the records of the dataset at index `at` of the list; None if they are copied."""
    numbers = {key: of_key.numbers[at] for key, of_key in lists.items()}
    numbers = {key: of_key for key, of_key in numbers.items() if of_key != tuple(range(len(of_key)))}
    names = {key: lists[key].names for key in numbers}
    return RecordChange(one.schema, numbers, names, prefix) if numbers or prefix else None


def _made_with(opened: Sequence[Opened]) -> dict[str, Any]:
    """The options that all datasets share, and whether any was made from foreign records.

    If their images were stored in different ways, this is not recorded: `append` then refuses, and asks for `check`.
    """
    options = [one.made_with("seed") for one in opened]
    same = {key: value for key, value in options[0].items() if all(key in o and o[key] == value for o in options)}
    image = [ImageOptions.from_json(of_one).to_json() for of_one in options]
    if any(of_one != image[0] for of_one in image):
        same.pop("check", None)
    if any(of_one.get("adopted") for of_one in options):
        same |= {"adopted": True, "distinct": all(of_one.get("distinct", True) for of_one in options)}
    return same


class _MergedRecords:
    """Records taken so far, by their new keys, and the number of records that had been taken already."""

    def __init__(self) -> None:
        self._where: dict[bytes, tuple[SplitRecords, int, RecordChange | None]] = {}
        self._again = self._elsewhere = 0

    def new(self, records: SplitRecords, change: RecordChange | None) -> np.ndarray:
        """Positions of a split's records with new keys. Raises UsageError for a different record with an old key."""
        places: list[int] = []
        prefix = b"" if change is None else change.prefix
        for place in range(len(records)):
            key = prefix + records.key(place)
            if key not in self._where:
                self._where[key] = records, place, change
                places.append(place)
                continue
            first = self._where[key]
            if differing := _differing(first, (records, place, change)):
                problem = (
                    f"{escape(key)} is also in {escape(first[0].origin.directory)}, with other {escape(differing)}"
                )
                remedy = f"{argument('prefix', True)} keeps both, or leave one out with `shardfeed remove`"
                raise UsageError(records.origin.directory, problem, remedy)
            self._again += 1
            self._elsewhere += first[0].origin.split.name != records.origin.split.name
        return np.array(places, np.int64)

    def notes(self) -> Iterator[str]:
        """Sentences about records that two datasets have."""
        if self._again:
            yield f"{number(self._again, 'record')} identical in two datasets, stored once"
        if self._elsewhere:
            yield f"{self._elsewhere:,} of them in different splits: the first dataset's split is used"


def _differing(
    one: tuple[SplitRecords, int, RecordChange | None], other: tuple[SplitRecords, int, RecordChange | None]
) -> str:
    """The first feature in which two stored records would differ, except for their id; "" for none."""
    values = []
    for records, place, change in (one, other):
        record = RecordOfDataset(records.origin, place, 0, change)
        found = decode(record(0))
        found.pop(SOURCE_ID, None)
        bits = {key: of_key if isinstance(of_key, list) else of_key.tobytes() for key, (_, of_key) in found.items()}
        values.append(bits)  # and not as numbers: NaN differs from itself
    keys = sorted(values[0].keys() | values[1].keys())
    return next((key for key in keys if values[0].get(key) != values[1].get(key)), "")
