"""A dataset with other classes: renamed, put together, dropped."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_values
from typing import Annotated, Unpack

import numpy as np

from shardfeed.annotations import RASTER, Raster
from shardfeed.converters.existing.class_map import ClassMap, Mapped, mapped, near_names, read_class_map, with_classes
from shardfeed.converters.existing.dataset_source import ChosenRecords, DatasetLike, Opened, SourcePart, SplitRecords
from shardfeed.converters.existing.making import MakingOptions, make_dataset
from shardfeed.converters.existing.record_change import DROPPED, RecordChange
from shardfeed.converters.planning.options import Out
from shardfeed.converters.report import Report
from shardfeed.converters.sources.classes import class_list
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import Schema
from shardfeed.text import listing, number, some


@checked
def relabel(
    dataset: DatasetLike,
    out: Out,
    classes: Annotated[
        ClassMap, Typed("CSV old,new or JSON {old: new}; an empty new name or null drops a class", "FILE", "map")
    ],
    *,
    feature: Annotated[str | None, Typed("feature to change (default: all features with classes)", "KEY")] = None,
    order: Annotated[
        Sequence[str] | str | os.PathLike[str] | None, Typed("new class names in label order, one per line", "FILE")
    ] = None,
    **making: Unpack[MakingOptions],
) -> Report:
    """Create the dataset `out` from the same records with changed classes, in the same splits and order.

    Classes renamed to the same name are merged; classes not named in `classes` are kept. Labels, sets of classes,
    classes of objects and their names are all changed; a record without changes is copied byte for byte. A record is
    left out if its only class is dropped. If an object's class is dropped, the object is removed with its box, mask and
    keypoints, and its image is kept. Classes of segmentation masks can only be renamed.

    Args:
        dataset: a dataset's directory, or an open `Dataset`; it is only read.
        out: the directory to create; its parent must exist.
        classes: old name -> new name, or None to drop the class; or the path of such a mapping as a JSON file or a CSV
            file with columns `old,new`, where null or an empty cell drops the class.
        feature: the key of the only feature to change; default: all features with classes.
        order: new class names in label order, or a file with one per line; default: the order in which they first
            appear in the old list. Labels are 0 to K-1 in this order.
        **making: options for writing the new dataset: see `MakingOptions`.

    Raises:
        UsageError: a class is unknown, or no class or no record would be left; and as in `reshard`.
        TooManyRejectedError, IntegrityError, StorageError, WorkerLostError, BusyError: as in `reshard`.

    Example:
        relabel("flowers", "two", {"tulip": "rose"})  # two classes as one
        relabel("flowers", "without", {"tulip": None})
    """
    opened = Opened(dataset)
    schema = opened.schema
    wanted = read_class_map(classes)
    keys, listed = _features(schema, feature), class_list(order)
    rasters = feature in (None, RASTER) and schema.raster is not None
    _check_known(schema, wanted, [*keys, *([RASTER] if rasters else [])])
    lists = _lists(schema, wanted, keys, listed, feature)
    renamed = _raster(schema, wanted) if rasters else schema.raster
    if listed is not None:
        _check_order(listed, lists, renamed if rasters else None)
    lists = {key: of_key for key, of_key in lists.items() if not of_key.same}
    change = RecordChange(
        schema,
        {key: of_key.numbers for key, of_key in lists.items()},
        {key: of_key.names for key, of_key in lists.items()},
    )
    parts: list[SourcePart] = []
    dropped = 0
    for name, records in opened.splits.items():
        places = _stay(records, lists)
        dropped += len(records) - len(places)
        parts.append(SourcePart(records, places, name, change if lists else None))
    if dropped == len(opened):
        raise UsageError("classes", "the class of every record is dropped", "drop fewer")
    notes = [f"{number(dropped, 'record')} of dropped classes left out"] if dropped else []
    new_schema = with_values(with_classes(schema, lists), raster=renamed)
    source = ChosenRecords(parts, new_schema, opened.made_with(), notes=notes)
    report = make_dataset(source, [opened], out, making)
    if not report.committed:
        return report
    return with_values(report, notes=[*report.notes, *_dropped_objects(opened, lists, report)])


def _features(schema: Schema, feature: str | None) -> list[str]:
    """Keys of the label features to change. Raise UsageError for one that has no classes."""
    if feature is None or feature == RASTER:
        return sorted(schema.class_names) if feature is None else []
    key = schema.key(feature)
    if key not in schema.class_names:
        has = listing([escape(name) for name in sorted(schema.class_names)]) or "none"
        raise UsageError("feature", f"got {escape(feature)!r}, expected a feature with classes", f"it has {has}")
    return [str(key)]


def _lists(
    schema: Schema,
    wanted: Mapping[str, str | None],
    keys: Sequence[str],
    order: Sequence[str] | None,
    feature: str | None,
) -> dict[str, Mapped]:
    """Map the class list of each feature to its new one. Raise UsageError if none of its classes is left."""
    found: dict[str, Mapped] = {}
    for key in keys:
        names = schema.class_names[key]
        # If it has no name in common with them, the order is that of another feature's classes.
        ordered = feature is not None or bool(set(order or ()) & {wanted.get(name, name) for name in names})
        of_key = found[key] = mapped(names, wanted, order if ordered else None)
        if not of_key.names:
            raise UsageError("classes", f"no class of {escape(key)} would be left", "drop fewer")
        fixed = schema.features[key]
        if DROPPED in of_key.numbers and not fixed.scalar and not fixed.ragged:
            problem = f"each record has {fixed.count} classes in {escape(key)}, so none can be dropped"
            remedy = f"rename it instead, or leave the feature out with {argument('feature')}"
            raise UsageError("classes", problem, remedy)
    return found


def _check_order(order: Sequence[str], lists: Mapping[str, Mapped], raster: Raster | None) -> None:
    """Raise UsageError for an order that fits no feature's classes, or that would renumber the pixels of rasters."""
    names = [of_key.names for of_key in lists.values()] + ([raster.class_names] if raster is not None else [])
    if any(sorted(order) == sorted(of_key.names) for of_key in lists.values()):
        return
    if raster is not None and sorted(order) == sorted(raster.class_names):
        if tuple(order) != raster.class_names:
            problem = "reorders the classes of rasters, but pixel values are not rewritten"
            raise UsageError("order", problem, "leave it out, or convert the masks again with that list")
        return
    there = listing([escape(name) for name in dict.fromkeys(name for of_key in names for name in of_key)])
    problem = f"does not match the classes of any feature: {some(order)}"
    raise UsageError("order", problem, f"the resulting classes are {there}")


def _check_known(schema: Schema, wanted: Mapping[str, str | None], keys: Sequence[str]) -> None:
    """Raise UsageError for a class that none of the features has."""
    known = {name: None for key in keys for name in schema.class_names.get(key, ())}
    if RASTER in keys and schema.raster is not None:
        known |= dict.fromkeys(schema.raster.class_names)
    for name in wanted:
        if name not in known:
            problem = f"{escape(name)!r} is not a class of the dataset"
            raise UsageError("classes", problem, near_names(name, list(known)))


def _raster(schema: Schema, wanted: Mapping[str, str | None]) -> Raster | None:
    """The raster with its classes renamed. Raises UsageError where pixels would have to change."""
    if schema.raster is None:
        return None
    names = [wanted.get(name, name) for name in schema.raster.class_names]
    if None in names or len(set(names)) < len(names):
        pairs = zip(schema.raster.class_names, names, strict=True)
        bad = next(name for name, new in pairs if names.count(new) > 1 or new is None)
        problem = f"the class {escape(bad)} of rasters would be dropped or merged, but pixel values are not rewritten"
        remedy = "only rename it, or convert the masks again"
        if schema.class_names:
            remedy = f"only rename it, limit the change to one {argument('feature')}, or convert the masks again"
        raise UsageError("classes", problem, remedy)
    return with_values(schema.raster, class_names=tuple(map(str, names)))


def _stay(records: SplitRecords, lists: Mapping[str, Mapped]) -> np.ndarray:
    """The positions of records with no dropped class in any feature with one class per record."""
    stay = np.ones(len(records), bool)
    for key, of_key in lists.items():
        if DROPPED in of_key.numbers and records.split.schema.features[key].scalar:
            stay &= np.array(of_key.numbers)[records.split.column(key)] != DROPPED
    return np.flatnonzero(stay)


def _dropped_objects(opened: Opened, lists: Mapping[str, Mapped], report: Report) -> list[str]:
    """A sentence about the objects that the new dataset does not have."""
    notes = []
    for key in sorted(set(lists) & set(opened.schema.object_keys)):
        before, after = (
            sum(sum(info.class_counts.get(key, ())) for info in manifest.splits.values())
            for manifest in (opened.manifest, report.manifest)
        )
        if after < before:
            gone = number(before - after, "object")
            notes.append(f"{gone} of {before:,} left out with dropped classes and images ({key})")
    return notes
