"""A source from your own dicts: images with boxes, classes, tags, captions and numbers, from Python."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, Keypoints
from shardfeed.converters.sources.classes import BadLabelError, ClassList, class_list
from shardfeed.converters.sources.objects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.options import AnnotationOptions, Unit
from shardfeed.converters.sources.rows.columns import ByteStrings, Splits, UnlikeError, Values, feature_key
from shardfeed.converters.sources.rows.dict_reader import DictReader, Image, ReadDict
from shardfeed.converters.sources.rows.image_classes import KnownClasses, Labels
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.rows.rows import Rows
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError, escape, name_text

_CLASSES = {"label": "labels", "tags": "labels", "labels": "objects"}  # keys that take class names, and of what


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
    _check_alike(read)
    unit: Unit | None = None if fractions is None else "fractions" if fractions else "pixels"
    rows = Rows("dicts", AnnotationOptions(unit=unit, boxes_on=boxes_on))
    there = [image for image, one in enumerate(read) if not isinstance(one.image, Skipped)]
    names = _given_names(class_names, read)
    rows.class_names = {what: names[name] for name, what in _CLASSES.items() if name in names}
    for name in ("label", "tags"):
        if name in names:
            known = KnownClasses(place="dicts", refuse=partial(_refuse, read, name))
            rows.labels.append(labels := Labels("set" if name == "tags" else "one", known))
            for image in there:
                labels.add(read[image].classes.get(name, []))
            for one in read:  # of a missing image, too: whether a file is there changes no label of others
                labels.expect(one.classes.get(name, []))
    if any(one.captions is not None for one in read):
        rows.values.append(Values(CAPTION, lists=True))
        for image in there:
            rows.values[-1].add(read[image].captions or [])
    for name in (*reader.texts, *reader.numbers):
        rows.values.append(Values(feature_key(name)))
        for image in there:
            try:
                rows.values[-1].add(read[image].extra[name])
            except UnlikeError as error:
                raise read[image].error(f"{escape(name)}: {error}") from None
    if any(one.boxes is not None for one in read):
        rows.objects = _objects(read, rows, keypoints)
        if "labels" in names:
            rows.of_objects = KnownClasses(place="dicts", refuse=partial(_refuse, read, "labels"))
        rows.objects.check_unit("boxes", unit, format_unit=lambda unit: f"fractions={unit == 'fractions'}")
    else:
        for name, value in {"fractions": fractions, "boxes_on": boxes_on, "keypoints": keypoints}.items():
            if value is not None:
                raise UsageError(name, "is for boxes, and no dict has any", "leave it out")
    rows.ledger.skip(one.image for one in read if isinstance(one.image, Skipped))
    if any(read[image].split is not None for image in there):
        rows.splits = Splits.of([read[image].split for image in there])
    places = np.full(len(read), -1, np.int64)
    places[there] = np.arange(len(there))

    def leave_out(image: int, code: AnnotationCode, reason: str) -> None:
        named = f"its image {name_text(read[image].key)} was left out" if code is AnnotationCode.IMAGE else ""
        rows.ledger.leave_out(read[image].key, code, f"{reason.partition(': ')[0]}: {named}" if named else reason)

    return rows.source(
        ByteStrings(read[image].key for image in there),
        DictImages([cast(Image, read[image].image) for image in there]),
        places=places,
        ids=np.array([-1 if (own := read[image].number) is None else own for image in there], np.int64),
        leave_out=leave_out,
    )


def _check_alike(read: Sequence[ReadDict]) -> None:
    """Raise UsageError for keys that some dicts have and others do not, and for two images with one id."""
    first: dict[int | None, ReadDict] = {}
    if any(one.number is not None for one in read):
        _all_have(read, "image_id", lambda one: one.number is not None, "give each a unique one, or none")
        for one in read:
            if (other := first.setdefault(one.number, one)) is not one:
                problem = f"has the image_id {one.number} of dicts[{other.index}]"
                raise one.error(problem, "give each a unique one, or none")
    if any("label" in one.classes for one in read):
        if tagged := next((one for one in read if "tags" in one.classes), None):
            problem = "got 'tags', but others have 'label': both are image/class"
            raise tagged.error(problem, "make the label one of the tags")
        _all_have(read, "label", lambda one: "label" in one.classes)
    full = [one for one in read if one.boxes is not None and len(one.boxes)]
    _all_have(full, "labels", lambda one: "labels" in one.classes)
    for name in ("area", "segmentation"):
        _all_have(full, name, lambda one, name=name: name in one.of_objects)


def _all_have(
    read: Sequence[ReadDict], name: str, has: Callable[[ReadDict], bool], remedy: str = "give it to all, or to none"
) -> None:
    """Check that all dicts have `name`, or none; raise UsageError otherwise."""
    lacking = [one.index for one in read if not has(one)]
    having = [one.index for one in read if has(one)]
    if lacking and having:
        raise UsageError(f"dicts[{min(lacking)}]", f"it has no {name!r}, but dicts[{min(having)}] has one", remedy)


def _given_names(
    class_names: ClassList | Mapping[str, ClassList] | None, read: Sequence[ReadDict]
) -> dict[str, tuple[str, ...] | None]:
    """The names given by the user for each of "label", "tags" and "labels" that a dict has.

    Raises UsageError for names of others, and if there is neither a name nor a class.
    """
    used = [name for name in _CLASSES if any(name in one.classes for one in read)]
    if not isinstance(class_names, Mapping):
        if class_names is not None and not used:
            raise UsageError("class_names", f"no dict has any of {', '.join(_CLASSES)}", "leave them out")
        given = dict.fromkeys(used, class_list(class_names))
    else:
        for name in class_names:
            if name not in _CLASSES:
                raise UsageError("class_names", f"got {escape(str(name))!r}, expected one of {', '.join(_CLASSES)}")
            if name not in used:
                raise UsageError("class_names", f"got names for {name!r}, but no dict has it", "leave them out")
        given = dict.fromkeys(used) | {name: class_list(names) for name, names in class_names.items()}
    for name, names in given.items():
        if names is None and not any(one.classes.get(name) for one in read):
            raise UsageError("class_names", f"no dict has any class in {name!r}", "name the classes")
    return given


def _refuse(read: Sequence[ReadDict], name: str, error: BadLabelError) -> UsageError:
    """The error for a class, with the first dict that has it."""
    first = min(one.index for one in read if error.value in one.classes.get(name, ()))
    return UsageError(f"dicts[{first}]", f"{name}: {error.problem}", error.remedy)


def _objects(read: Sequence[ReadDict], rows: Rows, keypoints: Keypoints | None) -> ObjectGather:
    """The objects of all dicts."""
    options, masks = rows.options, any("segmentation" in one.of_objects for one in read)
    assert isinstance(options, AnnotationOptions)
    gather = ObjectGather(
        what="box", unit=options.unit or "pixels", upright=options.upright, keypoints=keypoints, masks=masks
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
                rows.ledger.leave_out(one.key, error.code, f"box {n}: {error.reason}")
    return gather
