"""A source from your own dicts: images with boxes, classes, tags, captions and numbers, from Python."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, Keypoints
from shardfeed.converters.sources.classes import BadLabelError, ClassList, Numbering, class_list, number_classes
from shardfeed.converters.sources.objects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.rows.columns import (
    ByteStrings,
    ClassColumn,
    ListedColumn,
    Splits,
    TextColumn,
    UnlikeError,
    Values,
    ragged,
)
from shardfeed.converters.sources.rows.dict_reader import DictReader, Image, ReadDict, feature_key
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.rows.source import ColumnarSource, Ledger
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.text import some

_CLASSES = ("label", "tags", "labels")  # keys that take class names


@dataclass(frozen=True, eq=False)
class DictImages:
    """The images of dicts, by number: files, bytes, or functions that return them."""

    images: Sequence[Image]

    def __getitem__(self, index: int, /) -> Image:
        return self.images[index]


def from_dicts(
    dicts: Iterable[Mapping[str, Any]],
    *,
    class_names: ClassList | Mapping[str, ClassList] | None = None,
    root: str | os.PathLike[str] | None = None,
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    fractions: bool | None = None,
    boxes_on: Literal["upright", "stored"] | None = None,
    keypoints: Keypoints | None = None,
) -> ColumnarSource:
    """A source with one image per dict, with the labels and objects in the dict.

    A dict has "image": a path, the bytes of an encoded file, or a picklable function that returns them. Optional:

    * "key": the sample's unique name, by default the path. "split": its split, by default chosen by `convert`.
      "image_id": its id for evaluation tools; if one dict has an id, all must have one.
    * "label": its class, a name or a number from 0. Or "tags": a list of different classes; a missing list means no
      classes.
    * "caption" or "captions": a string, or a list of strings.
    * "boxes": [[left, top, right, bottom], ...], one per object, in pixels from the image's top left corner. An image
      without boxes is kept. With boxes, optional, one value per object: "labels": its class; "iscrowd": 0 or 1; "area":
      in pixels squared; "segmentation": COCO's polygons or run-length encoding, from which masks are made; "keypoints":
      x, y and visibility (0, 1, 2) of K points. "size": (width, height) of the image that was annotated.

    The dicts are iterated once, and their values are kept in memory, including images given as bytes.

    Args:
        dicts: a list, or any iterable of dicts.
        class_names: names in label order, or the path of a class list; or a mapping from "label", "tags" or "labels" to
            such a list or path. Default: the names in the dicts, sorted, or the numbers 0 to K-1.
        root: the folder that paths are relative to; the relative paths are the keys. Default: the current folder.
        numbers: further keys with numbers that are not classes: one number per image, or a list of any length. `age`
            gives the feature `image/age`, int64, or float32 if a number has a decimal point.
        texts: further keys with strings: one string per image, or a list of any length.
        fractions: whether boxes, keypoints and outlines are fractions of the image's sides. Default: pixels, but boxes
            that all lie within 0 to 1 are refused; False accepts such boxes as pixels.
        boxes_on: whether boxes refer to the "upright" image or the "stored" one, if EXIF rotates it. Default: inferred
            from "size"; an image is rejected if its "size" does not determine which.
        keypoints: the names of an object's keypoints.

    Raises:
        UsageError: a value is invalid; the message has the number of the dict, from 0. Missing images raise no error:
            `findings` lists them.

    Example:
        source = from_dicts(
            [{"image": "photos/rose/0001.jpg", "boxes": [[10, 2, 30, 20]], "labels": ["cat"], "split": "train"}],
            class_names=["cat", "dog"],
        )
        convert(source, "out")
    """
    if isinstance(dicts, str | bytes | Mapping) or not isinstance(dicts, Iterable):
        raise UsageError("dicts", f"got {type(dicts).__name__}, expected a list of dicts", "put it in brackets")
    reader = DictReader(numbers, texts, root, keypoints)
    read = [reader.read(i, entry) for i, entry in enumerate(dicts)]
    if not read:
        raise UsageError("dicts", "the list is empty", "give a dict for each image")
    read.sort(key=lambda one: one.key)
    for one, other in pairwise(read):
        if one.key == other.key:
            raise other.error(f"has the key {escape(one.key)!r} of dicts[{one.index}]", "keys must be unique")
    _check_numbers(read)
    there = [one for one in read if not isinstance(one.image, Skipped)]
    given = _GivenNames(class_names, read)
    ledger = Ledger()
    columns = _columns(there, read, given, reader)
    table = _objects(read, given, keypoints, ledger, fractions=fractions, boxes_on=boxes_on)
    for one in read:
        if isinstance(one.image, Skipped):
            ledger.rejected[one.key] = one.image
    splits = None if all(one.split is None for one in there) else Splits.of([one.split for one in there])
    own = [one.number for one in there if one.number is not None]
    return ColumnarSource(
        ByteStrings(one.key for one in there),
        DictImages([one.image for one in there if not isinstance(one.image, Skipped)]),
        columns,
        splits,
        table,
        numbers=np.array(own, np.int64) if own else None,
        findings=ledger.findings(),
    )


def _check_numbers(read: Sequence[ReadDict]) -> None:
    """Raise UsageError if some dicts have an image id and others none, or if two have the same."""
    first: dict[int | None, ReadDict] = {}
    numbered = [one for one in read if one.number is not None]
    if numbered and len(numbered) < len(read):
        lacking = min((one for one in read if one.number is None), key=lambda one: one.index)
        problem = f"it has no 'image_id', but dicts[{numbered[0].index}] has one"
        raise lacking.error(problem, "give each a unique one, or none")
    for one in numbered:
        if (other := first.setdefault(one.number, one)) is not one:
            raise one.error(f"has the image_id {one.number} of dicts[{other.index}]", "give each a unique one, or none")


class _GivenNames:
    """The class names given by the user, by "label", "tags" or "labels"; and the class numbers of the dicts' values."""

    def __init__(self, class_names: ClassList | Mapping[str, ClassList] | None, read: Sequence[ReadDict]) -> None:
        self._read = sorted(read, key=lambda one: one.index)
        used = [name for name in _CLASSES if any(name in one.classes for one in read)]
        if isinstance(class_names, Mapping):
            for name in class_names:
                if name not in _CLASSES:
                    raise UsageError("class_names", f"got {escape(str(name))!r}, expected one of {', '.join(_CLASSES)}")
                if name not in used:
                    raise UsageError("class_names", f"got names for {name!r}, but no dict has it", "leave them out")
            self._given = {name: class_list(names) for name, names in class_names.items()}
        else:
            self._given = dict.fromkeys(used, class_list(class_names))
            if class_names is not None and not used:
                raise UsageError("class_names", f"no dict has any of {', '.join(_CLASSES)}", "leave them out")
        self.used = used

    def names(self, name: str) -> tuple[str, ...] | None:
        """The class names given for `name`. Raises UsageError if there are none, and no class."""
        given = self._given.get(name)
        if given is None and not any(one.classes.get(name) for one in self._read):
            raise UsageError("class_names", f"no dict has any class in {name!r}", "name the classes")
        return given

    def numbering(self, name: str, of_objects: Collection[str] | None = None) -> Numbering:
        """Number all classes that the dicts have under `name`, or those of objects. Raises UsageError for a bad one."""
        values = list(dict.fromkeys(value for one in self._read for value in one.classes.get(name, ())))
        given = self.names(name)
        try:
            if of_objects is not None:
                return number_classes(of_objects, given, integers="ids")
            return number_classes(values, given)
        except BadLabelError as error:
            first = next(one for one in self._read if error.value in one.classes.get(name, ()))
            raise UsageError(f"dicts[{first.index}]", f"{name}: {error.problem}", error.remedy) from None


def _columns(
    there: Sequence[ReadDict], read: Sequence[ReadDict], given: _GivenNames, reader: DictReader
) -> list[ListedColumn]:
    """Build the columns of whole images: labels or tags, captions, texts and numbers. Raises UsageError."""
    columns: list[ListedColumn] = []
    if {"label", "tags"} <= set(given.used):
        one = next((one for one in read if "tags" in one.classes), read[0])
        raise one.error("got 'tags', but others have 'label': both are image/class", "make the label one of the tags")
    if "label" in given.used:
        _all_have(read, "label", lambda one: "label" in one.classes)
        labels = given.numbering("label")
        numbers = [labels.labels[one.classes["label"][0]] for one in there]
        columns.append(ClassColumn("image/class", labels.names, np.array(numbers, np.int64), ids=labels.ids))
    if "tags" in given.used:
        labels = given.numbering("tags")
        sets = [[labels.labels[tag] for tag in one.classes.get("tags", ())] for one in there]
        for one, numbers in zip(there, sets, strict=True):
            if len(set(numbers)) < len(numbers):  # by two spellings
                raise one.error(f"tags: got {some(one.classes['tags'])}, expected each class once")
        columns.append(ClassColumn("image/class", labels.names, *ragged(sets, np.int64), True, labels.ids))
    if any(one.captions is not None for one in read):
        columns.append(TextColumn.of_lists(CAPTION, [one.captions or [] for one in there]))
    for name in (*reader.texts, *reader.numbers):
        _all_have(there, f"list in {name}", lambda one, name=name: isinstance(one.extra[name], list))
        values = Values(feature_key(name))
        for one in there:
            try:
                values.add(one.extra[name])
            except UnlikeError as error:
                raise one.error(f"{escape(name)}: {error}") from None
        columns.append(values.column())
    return columns


def _all_have(read: Sequence[ReadDict], name: str, has: Callable[[ReadDict], bool]) -> None:
    """Check that all dicts have `name`, or none; raise UsageError otherwise."""
    lacking = [one.index for one in read if not has(one)]
    having = [one.index for one in read if has(one)]
    if lacking and having:
        problem = f"it has no {name!r}, but dicts[{min(having)}] has one"
        raise UsageError(f"dicts[{min(lacking)}]", problem, "give it to all, or to none")


def _objects(
    read: Sequence[ReadDict],
    given: _GivenNames,
    keypoints: Keypoints | None,
    ledger: Ledger,
    *,
    fractions: bool | None,
    boxes_on: str | None,
) -> ObjectTable | None:
    """Return the table of the objects of all dicts; None if no dict has boxes."""
    boxed = [one for one in read if one.boxes is not None]
    if not boxed:
        return None
    full = [one for one in boxed if one.boxes is not None and len(one.boxes)]
    _all_have(full, "labels", lambda one: "labels" in one.classes)
    for name in ("area", "segmentation"):
        _all_have(full, name, lambda one, name=name: name in one.of_objects)
    gather = ObjectGather(
        what="box",
        unit="fractions" if fractions else "pixels",
        upright=None if boxes_on is None else boxes_on == "upright",
        keypoints=keypoints,
        masks=any("segmentation" in one.of_objects for one in boxed),
    )
    for image, one in enumerate(read):
        if one.size is not None:
            gather.set_size(image, *one.size)
        for n, box in enumerate([] if one.boxes is None else one.boxes.tolist()):
            known = {name: values[n] for name, values in one.of_objects.items()}
            try:
                gather.add(
                    image,
                    n,
                    box,
                    one.classes["labels"][n] if "labels" in one.classes else None,
                    area=known.get("area"),
                    flags={IS_CROWD: known["iscrowd"]} if "iscrowd" in known else None,
                    keypoints=known.get("keypoints"),
                    outline=known.get("segmentation"),
                )
            except BadAnnotationError as error:
                ledger.leave_out(one.key, error.code, f"box {n}: {error.reason}")
    classes = None
    if "labels" in given.used:
        classes = given.numbering("labels", gather.class_texts)
        ledger.notes += classes.notes
    unit = None if fractions is None else gather.unit
    gather.check_unit("boxes", unit, format_unit=lambda unit: f"fractions={unit == 'fractions'}")
    places = np.full(len(read), -1, np.int64)
    there = [image for image, one in enumerate(read) if not isinstance(one.image, Skipped)]
    places[there] = np.arange(len(there))

    def leave_out(image: int, code: AnnotationCode, reason: str) -> None:
        named = f"its image {name_text(read[image].key)} was left out" if code is AnnotationCode.IMAGE else ""
        ledger.leave_out(read[image].key, code, f"{reason.partition(': ')[0]}: {named}" if named else reason)

    return gather.finish(classes, places, leave_out)
