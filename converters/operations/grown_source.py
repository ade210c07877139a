"""The samples that are appended to a dataset: of a source, with the dataset's classes, and without what it has."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shardfeed.column import column_keys
from shardfeed.converters.counted_ids import ids_were_counted
from shardfeed.converters.operations.classes import near_names, schema_difference
from shardfeed.converters.planning.onto import Onto
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import Findings, Sample, Source, findings_of
from shardfeed.errors import UsageError, argument, escape
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import FILENAME, RESTARTS, SHA256, SOURCE_ID, Schema, image_features
from shardfeed.text import number, some

_CLASSES_IN_SHARDS = ("parquet",)  # formats whose files have the class names in them


class GrownSource:
    """The samples of `source` that `dataset` does not have, with classes as it numbers them; see `GrowingSource`.

    `new_classes`: whether the source may have others, which come behind the dataset's. `sha256`: whether the dataset
    has the hash of each source file.

    Raises UsageError where their features differ, for an unknown class, for a key whose file is another one now, for a
    number of an image that is taken, and where nothing is new. Memory: 8 bytes a sample, and about 100 for each of the
    dataset while it is made.
    """

    def __init__(self, dataset: Dataset, source: Source, *, new_classes: bool, sha256: bool) -> None:
        self._source = source
        manifest, schema = dataset.manifest, dataset.manifest.schema.stated()
        images = image_features(sha256=sha256, restarts=RESTARTS in schema.features)
        theirs = replace(source.schema, features=images | dict(source.schema.features)).stated()
        if problem := schema_difference(schema, theirs, other_place="the source"):
            remedy = "give the source the labels that the dataset was made with, or convert all again"
            raise UsageError(dataset.directory, problem, remedy)
        self._numbers, names, ids = {}, dict(schema.class_names), dict(schema.class_ids)
        for key in schema.class_names:
            joined = _joined(key, schema, theirs, new_classes=new_classes)
            self._numbers[key], names[key] = joined
            added = len(names[key]) - len(schema.class_names[key])
            if added and manifest.format in _CLASSES_IN_SHARDS:
                problem = f"old {manifest.format} shards have the class names in them, without the {added} new"
                remedy = "`shardfeed merge` with a dataset of the new images writes all anew"
                raise UsageError("new_classes", problem, remedy)
            if key in ids:
                ids[key] = _ids(key, schema, theirs, names[key])
        self.schema: Schema = replace(source.schema, class_names=names, class_ids=ids)
        places, numbers, equal = _new(dataset, source)
        if not len(places):
            raise UsageError("source", f"the dataset has all of its {number(len(source), 'sample')} already")
        self._places = places
        whole = replace(schema, class_names=names, class_ids=ids)
        counted = [name for name in dataset if ids_were_counted(dataset, name)]
        self.onto = Onto(dataset.directory, manifest, numbers, whole, counted)
        notes = list(findings_of(source).notes)
        if equal:
            notes.append(f"{number(equal, 'sample')} passed over: the dataset has the same files under these keys")
        for key, of_key in names.items():
            if more := of_key[len(schema.class_names[key]) :]:
                notes.append(f"{number(len(more), 'class', 'classes')} added to {escape(key)}: {some(more)}")
        notes += _without_columns(self.onto)
        self.findings: Findings = replace(findings_of(source), notes=tuple(notes))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        sample = self._source[int(self._places[index])]
        other = {key: of_key for key, of_key in self._numbers.items() if of_key is not None}
        if not other:
            return sample
        features = {key: _renumbered(value, other.get(key)) for key, value in sample.features.items()}
        objects = sample.objects
        if objects is not None:
            columns = {key: _renumbered(value, other.get(key)) for key, value in objects.columns.items()}
            objects = replace(objects, columns=columns)
        return replace(sample, features=features, objects=objects)


def _without_columns(onto: Onto) -> Iterator[str]:
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
            f"without {columns}, which {escape(onto.manifest.name)} does not have: where one is asked for, all"
            " records are read; `shardfeed reshard` of the new dataset makes them"
        )


def _renumbered(value: Any, numbers: Sequence[int] | None) -> Any:
    """A label, or a list of them, as the dataset numbers its classes; what cannot be one is left to who checks it."""
    if numbers is None:
        return value
    if isinstance(value, list | tuple):
        return [_renumbered(item, numbers) for item in value]
    return numbers[int(value)] if isinstance(value, int | np.integer) and 0 <= value < len(numbers) else value


def _joined(
    key: str, schema: Schema, theirs: Schema, *, new_classes: bool
) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """The dataset's number of each class of the source, None where they are the same; and all class names."""
    ours, others = schema.class_names[key], theirs.class_names[key]
    new = [name for name in others if name not in set(ours)]
    if new and not new_classes:
        which = f"{number(len(new), 'class', 'classes')} of {escape(key)}: {some(new)}"
        remedy = f"{near_names(new[0], ours)}; {argument('new_classes', True)} adds them to the list"
        raise UsageError("source", f"the dataset does not have {which}", remedy)
    names = (*ours, *new)
    place = {name: i for i, name in enumerate(names)}
    numbers = tuple(place[name] for name in others)
    return (None if numbers == tuple(range(len(numbers))) else numbers), names


def _ids(key: str, schema: Schema, theirs: Schema, names: Sequence[str]) -> tuple[int, ...]:
    """The id of each class of both. Raises UsageError where they contradict each other, or one has none."""
    known = dict(zip(schema.class_names[key], schema.class_ids[key], strict=True))
    for name, id_ in zip(theirs.class_names[key], theirs.class_ids.get(key, ()), strict=False):
        taken = next((other for other, of_other in known.items() if of_other == id_), name)
        if known.setdefault(name, id_) != id_ or taken != name:
            problem = f"the class {escape(name)} of {escape(key)} has the id {id_}, in the dataset"
            is_ = f"{problem} that is {escape(taken)}" if taken != name else f"{problem} it is {known[name]}"
            raise UsageError("source", is_, "correct the ids of its classes")
    if lacking := [name for name in names if name not in known]:
        problem = f"the new class {escape(lacking[0])} of {escape(key)} has no id, and all of the dataset's have one"
        raise UsageError("source", problem, "give it one, or `shardfeed merge` a dataset of the new images")
    return tuple(known[name] for name in names)


def _new(dataset: Dataset, source: Source) -> tuple[np.ndarray, dict[str, int], int]:
    """The samples that are new, int64 [n]; the number of each split's next record; how many were there already."""
    keys: dict[bytes, int] = {}
    own: dict[tuple[str | None, int], bytes] = {}  # by split, as files that are read together may each count from 1
    for i in range(len(source)):
        sample = source[i]
        keys[sample.key] = i  # two of one key are refused by the plan
        if sample.number is not None:
            own[sample.split, sample.number] = sample.key
    there: set[int] = set()
    numbers: dict[str, int] = {}
    clashes: list[tuple[bytes, int, str]] = []
    for name, split in dataset.items():
        found = [(place, keys[key]) for place, key in enumerate(split.column(FILENAME)) if key in keys]
        hashes = split.column(SHA256) if found and SHA256 in split.schema.features else None
        for place, i in found:
            if hashes is None or _sha256(source[i]) != hashes[place]:
                problem = f"has the key {escape(source[i].key)} of a record in split {name}"
                problem += ", and other bytes" if hashes is not None else ", and no hashes say whether it is the same"
                raise UsageError(f"source[{i}]", problem, "give it another name, or leave it out")
            there.add(i)
        taken = [int(value) for value in split.column(SOURCE_ID)]
        numbers[name] = max(taken, default=-1) + 1
        if own:
            same = own.keys() & {(of, value) for of in (name, None) for value in taken}
            clashes += [(own[of, value], value, name) for of, value in same]
    for key, value, name in clashes:  # now that all are known which the dataset has already
        if keys[key] not in there:
            problem = f"the image {escape(key)} has the number {value} of an image in split {name}"
            raise UsageError("source", problem, "give it another id in its annotations")
    return np.array([i for i in range(len(source)) if i not in there], np.int64), numbers, len(there)


def _sha256(sample: Sample) -> bytes:
    """Of the file of a sample, as records have it; b"" for one that cannot be read."""
    try:
        return hashlib.sha256(read_image(sample)).hexdigest().encode()
    except RejectedError:
        return b""
