"""Append samples to a dataset: old records stay unchanged, new ones follow them, with the dataset's classes."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Unpack

import numpy as np

from shardfeed.column import column_keys
from shardfeed.converters.commit.output import check_outside
from shardfeed.converters.conversion import convert
from shardfeed.converters.counted_ids import ids_were_counted
from shardfeed.converters.existing.class_map import joined, near_names, schema_difference
from shardfeed.converters.existing.dataset_source import DatasetLike
from shardfeed.converters.existing.making import MakingOptions, convert_anew
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.planning.options import (
    GroupColumn,
    GroupDuplicates,
    GroupPattern,
    Out,
    Shares,
    typed_shares,
)
from shardfeed.converters.planning.samples import OwnSamples, check_any_left
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.report import Report
from shardfeed.converters.sources.foreign import is_foreign, known, place_of, survey
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import Sample, Source, SourceInfo, info_of
from shardfeed.converters.sources.splits.split_list import SplitLists, with_split_lists
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument, escape
from shardfeed.manifest import has_manifest
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, RESTARTS, SHA256, SOURCE_ID, Schema, image_features
from shardfeed.split_words import renamed_splits
from shardfeed.storage.storage import is_address, local_path
from shardfeed.text import listing, number, some

_CLASSES_IN_SHARDS = ("parquet",)  # formats with class names in their files


@checked
def append(
    dataset: DatasetLike,
    source: Annotated[Source | str | os.PathLike[str], Typed("new samples, as for `convert`")],
    out: Out,
    *,
    split: Annotated[
        Mapping[str, float] | None, Typed("fractions of new samples (default: as before)", "A=F,B=F", read=typed_shares)
    ] = None,
    split_list: SplitLists | None = None,
    group_column: GroupColumn = None,
    group_pattern: GroupPattern = None,
    group_duplicates: GroupDuplicates = False,
    seed: Annotated[int | None, Typed("seed of order and splits (default: as before)", "N")] = None,
    new_classes: Annotated[bool, Typed("add classes that the dataset does not have")] = False,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from all records of `dataset`, followed by the samples of `source`.

    The old records keep their splits, shards and positions: `out` gets hard links to their shards, or copies if the
    disk does not support hard links. New samples are stored in their own shards, with the options of the old samples
    (image options, hashes). If the source names no split, the hash of a sample's key decides its split, as if all
    samples were converted together with `Shares(..., by="hash")`, the same shares and the same seed. A sample whose
    group already exists goes to the split of that group. The cost depends on the new samples only, except that the
    columns of the old records are read once.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        source: the new samples, in any form that `convert` accepts. A sample with a key that the dataset already has is
            skipped if its file has the stored sha256; a different sha256 is an error. Classes are matched by name.
        out: the directory to create; its parent must exist.
        split: share of each split, adding up to 1; default: the dataset's shares.
        split_list: lists of the new samples of each split, as in `convert`.
        group_column, group_pattern, group_duplicates: as in `convert`; default: the dataset's own values.
        seed: decides the order of new samples, and their split; default: the seed of the dataset.
        new_classes: append unknown classes to the end of the dataset's list, instead of raising an error.
        **making: options for writing the new dataset: see `MakingOptions`. `max_bad` and `shards` apply to the new
            samples, and a dry run reports only new samples; `to` must be the dataset's format.

    Raises:
        UsageError: features differ, a class is unknown, a key already exists with different bytes, or nothing is new;
            and as in `convert`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `convert`.

    Example:
        report = append("flowers", "more-photos", "grown")
        print(report.images, report.notes)
    """
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if not is_address(out):
        check_outside(local_path(out), [os.path.abspath(opened.directory)])
    to = opened.manifest.format
    if making.get("to") not in (None, to):
        problem = f"got {making.get('to')!r}, but the existing shards, which are kept, have the format {to}"
        raise UsageError("to", problem, "leave it out, and `shardfeed reshard` the new dataset")
    options = opened.manifest.options
    groups = options.get("groups", {})
    group_column = group_column or groups.get("column")
    if isinstance(source, str | os.PathLike):
        check_no_dataset(source)
        source = open_source(source, split_list=split_list, options=options_of({"group_column": group_column}))
    elif split_list:
        source = with_split_lists(source, split_list)
    sha256 = SHA256 in opened.manifest.schema.features
    image = replace(_image_options(opened, options), sha256=sha256)
    grown = GrownSource(opened, source, new_classes=new_classes, sha256=sha256)
    how: dict[str, Any] = {
        **making,
        "to": to,
        "split": Shares(_of_dataset(split, opened) if split is not None else options.get("split"), by="hash"),
        "seed": int(options.get("seed", 0)) if seed is None else seed,
        "group_column": group_column,
        "group_pattern": group_pattern or groups.get("pattern"),
        "group_duplicates": group_duplicates or groups.get("duplicates", False),
    }
    return convert(grown, out, image=image, **how)


def _of_dataset(shares: Mapping[str, float], opened: Dataset) -> dict[str, float]:
    """The shares of new samples by the names that the dataset's splits have."""
    names = renamed_splits(shares, opened)
    return {names[split]: share for split, share in shares.items()}


def check_no_dataset(source: str | os.PathLike[str]) -> None:
    """Raise UsageError if `source` is a dataset, where the samples of a source are expected."""
    if os.path.isdir(source) and has_manifest(os.fspath(source)):
        raise UsageError(os.fspath(source), "is a dataset", "`shardfeed merge` joins datasets")


def _image_options(opened: Dataset, options: Mapping[str, Any]) -> ImageOptions:
    """Options with which the dataset's images were stored. Raise UsageError if they are unknown."""
    problem = "does not record how its images were stored: "
    if options.get("adopted"):
        remedy = f"{convert_anew(opened.manifest.format)}, which you can append to"
        raise UsageError(opened.directory, f"{problem}its records come from another program", remedy)
    if not options.keys() >= {"check", "encode", "resize_shorter", "size", "quality"}:
        remedy = "convert the new images to a separate dataset, then `shardfeed merge` both"
        raise UsageError(opened.directory, f"{problem}it comes from several conversions", remedy)
    return ImageOptions.from_json(options)


class GrownSource:
    """The samples of `source` that `dataset` does not have, with classes as it numbers them; see `SourceInfo.onto`.

    `new_classes`: whether the source may add classes, after the dataset's. `sha256`: whether the dataset has the hash
    of each source file.

    Raises UsageError if features differ, for an unknown class, for a key with a different file, for an image id that is
    taken, and if nothing is new. Memory: 8 bytes per sample, and about 100 per record of the dataset during
    construction.
    """

    def __init__(self, dataset: Dataset, source: Source, *, new_classes: bool, sha256: bool) -> None:
        self._source = source = known(source)
        self.foreign = is_foreign(source)
        manifest, schema = dataset.manifest, dataset.manifest.schema.stated()
        images = image_features(sha256=sha256, restarts=RESTARTS in schema.features)
        theirs = replace(source.schema, features=images | dict(source.schema.features)).stated()
        if problem := schema_difference(schema, theirs, other_place="the source"):
            remedy = "give the source the same kind of labels as the dataset, or convert everything again"
            raise UsageError(dataset.directory, problem, remedy)
        self._numbers, names, ids = {}, dict(schema.class_names), dict(schema.class_ids)
        for key in schema.class_names:
            found = _joined(key, dataset.directory, schema, theirs, new_classes=new_classes)
            self._numbers[key], names[key], ids_of_key = found
            _check_addable(manifest.format, len(names[key]) - len(schema.class_names[key]))
            if key in ids:
                ids[key] = ids_of_key
        self.schema: Schema = replace(source.schema, class_names=names, class_ids=ids)
        there = _ExistingSamples(dataset, source, self._numbers, names)
        self._in_dataset = there.in_dataset
        places = np.array([i for i in range(len(source)) if i not in there.samples], np.int64)
        if not len(places):
            problem = f"the dataset already has all of its {number(len(source), 'sample')}"
            raise UsageError("source", problem, there.other_values)
        self._places = places
        whole = replace(schema, class_names=names, class_ids=ids)
        counted = [name for name in dataset if ids_were_counted(dataset, name)]
        onto = AppendTarget(dataset.directory, manifest, there.next_numbers, whole, counted)
        findings = info_of(source).findings
        notes = [*findings.notes, *there.notes()]
        for key, of_key in names.items():
            if more := of_key[len(schema.class_names[key]) :]:
                notes.append(f"{number(len(more), 'class', 'classes')} added to {escape(key)}: {some(more)}")
        notes += _without_columns(onto)
        self._info = SourceInfo(replace(findings, notes=tuple(notes)), onto=onto)

    def info(self) -> SourceInfo:
        """Return the source's findings and what was done here, and the dataset that the samples are appended to."""
        return self._info

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        sample = self._source[int(self._places[index])]
        sample = replace(sample, split=self._in_dataset(sample.split))
        other = {key: of_key for key, of_key in self._numbers.items() if of_key is not None}
        if not other:
            return sample
        features = {key: _renumbered(value, other.get(key)) for key, value in sample.features.items()}
        objects = sample.objects
        if objects is not None:
            columns = {key: _renumbered(value, other.get(key)) for key, value in objects.columns.items()}
            objects = replace(objects, columns=columns)
        return replace(sample, features=features, objects=objects)


def _check_addable(format: str, added: int) -> None:
    """Raise UsageError for new classes if the existing shards contain the list of classes."""
    if added and format in _CLASSES_IN_SHARDS:
        problem = f"existing {format} shards contain the class names, without the {added} new ones"
        remedy = "convert the new images to a separate dataset, then `shardfeed merge` both"
        raise UsageError("new_classes", problem, remedy)


def _without_columns(onto: AppendTarget) -> Iterator[str]:
    """A sentence about columns that the new dataset cannot have, as the old one has none to which they are appended."""
    lacking = {
        key
        for name, info in onto.manifest.splits.items()
        for key in (column_keys(name, onto.schema) if info.records else ())
        if key not in info.columns
    }
    if lacking:
        columns = f"{number(len(lacking), 'column')} ({some(sorted(lacking))})"
        yield (
            f"without {columns}, which {escape(onto.manifest.name)} does not have: using one reads all"
            " records; `shardfeed reshard` of the new dataset adds them"
        )


def _renumbered(value: Any, numbers: Sequence[int] | None) -> Any:
    """A label, or a list of labels, in the dataset's class numbers; invalid values are passed on to later checks."""
    if numbers is None:
        return value
    if isinstance(value, list | tuple):
        return [_renumbered(item, numbers) for item in value]
    return numbers[int(value)] if isinstance(value, int | np.integer) and 0 <= value < len(numbers) else value


def _joined(
    key: str, place: str, schema: Schema, theirs: Schema, *, new_classes: bool
) -> tuple[tuple[int, ...] | None, tuple[str, ...], tuple[int, ...]]:
    """Return the dataset's number of each class of the source, None if equal; all class names; and their ids.

    Ids are empty if the dataset has none. Raises UsageError for new classes that were not allowed, or that lack ids.
    """
    ours, others = schema.class_names[key], theirs.class_names[key]
    new = [name for name in others if name not in set(ours)]
    if new and not new_classes:
        which = f"{number(len(new), 'class', 'classes')} of {escape(key)}: {some(new)}"
        remedy = f"{near_names(new[0], ours)}; {argument('new_classes', True)} adds them to the list"
        raise UsageError("source", f"the dataset does not have {which}", remedy)
    known = schema.class_ids.get(key)
    lists = [(place, ours, known), ("source", others, theirs.class_ids.get(key) if known else None)]
    found = joined(key, lists)
    if known and found.ids is None:
        problem = f"some new classes of {escape(key)} have no id ({some(new)}), but all existing classes have one"
        remedy = "give them ids, or convert the new images separately and `shardfeed merge` both"
        raise UsageError("source", problem, remedy)
    numbers = found.numbers[1]
    return (None if numbers == tuple(range(len(numbers))) else numbers), found.names, found.ids or ()


class _ExistingSamples:
    """Samples of a source that the dataset already has: `samples`, their indices in the source.

    `next_numbers`: of each split the number of its next record. `splits`: the dataset's name for each split of the
    source. `numbers`: the dataset's number of each class of the source, by feature, None where they are the same.
    `names`: of all classes, as the dataset numbers them.

    Raises UsageError for a key of the dataset with another file, and for a new image with a number that is taken.
    """

    def __init__(
        self,
        dataset: Dataset,
        source: Source,
        numbers: Mapping[str, Sequence[int] | None],
        names: Mapping[str, Sequence[str]],
    ) -> None:
        self.samples: set[int] = set()
        self.next_numbers: dict[str, int] = {}
        self._numbers, self._names = numbers, names
        self._other: list[str] = []  # samples with different values in the dataset, and the difference
        self._own: dict[
            tuple[str | None, int], bytes
        ] = {}  # keys of images by split and number: a split may count from 1
        keys = self._survey(source, dataset)
        clashes: list[tuple[bytes, int, str]] = []
        for name, split in dataset.items():
            self._find(split, keys, source)
            taken = [int(value) for value in split.column(SOURCE_ID)]
            self.next_numbers[name] = max(taken, default=-1) + 1
            clashes += self._clashes(name, taken)
        for key, value, name in clashes:  # now that all are known which the dataset has already
            if keys[key] not in self.samples:
                problem = f"the image {escape(key)} has the id {value} of an image in split {name}"
                raise UsageError("source", problem, "give it another id in its annotations")

    def _survey(self, source: Source, dataset: Dataset) -> dict[bytes, int]:
        """Look at each sample. Return the index of each key."""
        keys: dict[bytes, int] = {}
        splits: dict[str, None] = {}
        own: dict[tuple[str | None, int], bytes] = {}
        checks = OwnSamples(source)
        for i, sample_number, sample in survey(source):
            checks.check(sample_number, sample)
            keys[sample.key] = i  # two of one key are refused by the plan
            if sample.split is not None:
                splits[sample.split] = None
            if sample.number is not None:
                own[sample.split, sample.number] = sample.key
        check_any_left(source)
        checks.check_unique(source)
        self.splits = renamed_splits(splits, dataset)
        self._own = {(self.in_dataset(split), value): key for (split, value), key in own.items()}
        return keys

    def in_dataset(self, split: str | None) -> str | None:
        """The dataset's name for a split of the source."""
        return None if split is None else self.splits.get(split, split)

    def _clashes(self, name: str, taken: Sequence[int]) -> Iterator[tuple[bytes, int, str]]:
        """Yield the key, the number and the split of each new image with a number that a split of the dataset has."""
        if self._own:
            same = self._own.keys() & {(of, value) for of in (name, None) for value in taken}
            yield from ((self._own[of, value], value, name) for of, value in same)

    def _find(self, split: Split, keys: Mapping[bytes, int], source: Source) -> None:
        """Look for the keys in a split."""
        found = [(place, keys[key]) for place, key in enumerate(split.column(FILENAME)) if key in keys]
        if not found:
            return
        hashes = split.column(SHA256) if SHA256 in split.schema.features else None
        stored = split.shards.info.columns.keys()
        columns = {key: split.column(key) for key in sorted(source.schema.features.keys() & stored)}
        for place, i in found:
            sample = source[i]
            if hashes is None or _sha256(sample) != hashes[place]:
                problem = f"has the key {escape(sample.key)} of a record in split {split.name}"
                unlike = "but different bytes" if hashes is not None else "and without hashes they cannot be compared"
                raise UsageError(place_of(source, i), f"{problem}, {unlike}", "give it another name, or leave it out")
            self.samples.add(i)
            self._compare(sample, {key: column[place] for key, column in columns.items()})

    def _compare(self, sample: Sample, stored: Mapping[str, Any]) -> None:
        """Note the first value of a sample that the dataset has differently."""
        for key, old in stored.items():
            new = _renumbered(sample.features[key], self._numbers.get(key))
            if not _same(old, new):
                was, now = (_shown(value, self._names.get(key)) for value in (old, new))
                self._other.append(f"{escape(sample.key)}: {escape(key)} is {was}, in the source {now}")
                return

    def notes(self) -> Iterator[str]:
        """Sentences about them."""
        if self.samples:
            passed = number(len(self.samples), "sample")
            yield f"{passed} skipped: the dataset has the same files under these keys"
        if self._other:
            yield self.other_values

    @property
    def other_values(self) -> str:
        """Sentence about samples with different values in the dataset; "" if there are none."""
        if not self._other:
            return ""
        has = "has" if len(self._other) == 1 else "have"
        what = f"{number(len(self._other), 'sample')} of them {has} different values in the source"
        remedy = "the dataset's values are kept; for the new values, `shardfeed remove` these keys before you append"
        return f"{what} ({listing(self._other, 3, '; ')}): {remedy}"


def _shown(value: Any, names: Sequence[str] | None) -> str:
    if names and isinstance(value, int | np.integer) and 0 <= value < len(names):
        return escape(names[int(value)])
    return escape(value) if isinstance(value, bytes) else str(value)


def _same(old: Any, new: Any) -> bool:
    """Whether a value of a column is that of a sample."""
    if isinstance(old, np.floating):
        return bool(old == np.float32(new) or (np.isnan(old) and np.isnan(new)))
    return bool(old == new)


def _sha256(sample: Sample) -> bytes:
    """SHA-256 of a sample's file, in hex as in records; b"" if it cannot be read."""
    try:
        return hashlib.sha256(read_image(sample)).hexdigest().encode()
    except RejectedError:
        return b""
