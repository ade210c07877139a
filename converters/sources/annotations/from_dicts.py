"""A source over dicts of your own: images with boxes, classes, tags, captions and numbers, said in Python."""

import difflib
import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, Keypoints
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import Account, AnnotationCode, LeftOut
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.classes import BadLabelError, ClassList, Numbering, class_list, number_classes
from shardfeed.converters.sources.files.listed_source import (
    ClassColumn,
    ListedColumn,
    NumberColumn,
    TextColumn,
    ragged,
    sample_number,
    schema_of,
    values_at,
)
from shardfeed.converters.sources.source import Findings, Sample, Skipped, SourceFile
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.schema import LABEL, Schema, image_features, is_plain
from shardfeed.text import some

_OBJECTS = ("boxes", "labels", "iscrowd", "area", "segmentation", "keypoints", "size")
_KNOWN = ("image", "key", "split", "image_id", "label", "tags", "caption", "captions", *_OBJECTS)
_CLASSES = ("label", "tags", "labels")  # those that class names are of
_USUAL = f"known are {', '.join(_KNOWN)}"
_REASONS = {errno.ENOENT: RejectCode.MISSING, errno.ENOTDIR: RejectCode.MISSING}

Image = SourceFile | bytes | Callable[[], bytes]


@dataclass(frozen=True, eq=False)
class DictSource:
    """What `from_dicts` gives: a Source whose samples are sorted by key. `findings`: images that are not there."""

    schema: Schema
    keys: Sequence[bytes]
    images: Sequence[Image]
    splits: Sequence[str | None]
    numbers: Sequence[int | None]
    columns: Sequence[ListedColumn]
    objects: ObjectTable | None
    findings: Findings

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self))
        features = values_at(self.columns, index)
        objects = None if self.objects is None else self.objects.of_image(index)
        return Sample(self.keys[index], self.images[index], features, self.splits[index], objects, self.numbers[index])


def from_dicts(
    dicts: Iterable[Mapping[str, Any]],
    *,
    class_names: ClassList | Mapping[str, ClassList] | None = None,
    root: str | os.PathLike[str] | None = None,
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    fractions: bool = False,
    boxes_on: Literal["upright", "stored"] | None = None,
    keypoints: Keypoints | None = None,
) -> DictSource:
    """A source of one image for each dict, with what that says of it.

    A dict has "image": a path, the bytes of an encoded file, or a function that returns them and pickles. Beside it:

    * "key": the sample's unique name, by default the path. "split": its split, by default what `convert` decides.
      "image_id": its own number, by which evaluation knows it; then each has one.
    * "label": its class, a name or a number from 0. Or "tags": a list of classes, each once, none where it is missing.
    * "caption" or "captions": a text, or a list of them.
    * "boxes": [[left, top, right, bottom], ...], one an object, in pixels from the image's top left corner. An image
      without boxes stays. With them "labels": the class of each; "iscrowd": 0 or 1 for each; "area": pixels squared of
      each; "segmentation": COCO's polygons or run-length code of each, which give masks; "keypoints": K times x, y and
      visibility (0, 1, 2) of each; "size": (width, height) of the image that was annotated.

    The dicts are gone through once, and what they say is held; so are images that are bytes.

    Args:
        dicts: a list of them, or anything that can be gone through.
        class_names: names in label order, or the path of a class list; or a mapping to those from "label", "tags" or
            "labels". Default: the names that occur, sorted, or the numbers 0 to K-1.
        root: the folder that paths are relative to: they are the keys. Default: the current one.
        numbers: further keys of numbers that are no classes: one for each image, or a list of any length. `age` gives
            the feature `image/age`, int64, or float32 where one has a point.
        texts: further keys of texts, likewise.
        fractions: boxes, key points and outlines are fractions of the image's sides, not pixels.
        boxes_on: of which image boxes are, where EXIF turns it: as it is shown, or as its file has it. Default: "size"
            tells; where nothing does, such an image is rejected.
        keypoints: the names of an object's key points.

    Raises:
        UsageError: what cannot be meant, with the number of the dict, from 0. Images that are not there are no error
            yet: they are in `findings`.

    Example:
        source = from_dicts(
            [{"image": "a.jpg", "boxes": [[10, 20, 50, 60]], "labels": ["cat"], "split": "train"}],
            class_names=["cat", "dog"],
        )
        convert(source, "out")
    """
    if isinstance(dicts, str | bytes | Mapping) or not isinstance(dicts, Iterable):
        raise UsageError("dicts", f"got {type(dicts).__name__}, expected a list of dicts", "put it in brackets")
    reader = _Reader(_checked_extra("numbers", numbers), _checked_extra("texts", texts), root, keypoints)
    read = [reader.read(i, said) for i, said in enumerate(dicts)]
    if not read:
        raise UsageError("dicts", "there is none", "give a dict for each image")
    read.sort(key=lambda one: one.key)
    for one, other in pairwise(read):
        if one.key == other.key:
            raise other.error(f"has the key {escape(one.key)!r} of dicts[{one.index}]", "keys must be unique")
    _check_numbers(read)
    there = [one for one in read if isinstance(one.image, SourceFile | bytes) or callable(one.image)]
    given = _GivenNames(class_names, read)
    columns = _columns(there, read, given, reader)
    objects = _objects(there, read, given, keypoints, fractions=fractions, boxes_on=boxes_on)
    schema = schema_of(columns)
    return DictSource(
        schema=schema if objects is None else objects.joined(schema),
        keys=[one.key for one in there],
        images=[one.image for one in there],  # type: ignore[misc]  # those that are there
        splits=[one.split for one in there],
        numbers=[one.number for one in there],
        columns=columns,
        objects=objects,
        findings=_findings(read),
    )


@dataclass
class _Read:
    """What one dict says, checked; classes as text. `image`: why there is none, where it is not there."""

    index: int
    key: bytes
    image: Image | Skipped
    split: str | None
    number: int | None
    classes: dict[str, list[str]] = field(default_factory=dict)  # by "label" (one), "tags" or "labels"
    captions: list[bytes] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    boxes: np.ndarray | None = None  # float64 [n, 4]
    of_objects: dict[str, list[Any]] = field(default_factory=dict)  # by "iscrowd", "area", ...: n each
    size: tuple[int, int] | None = None

    def error(self, problem: str, remedy: str = "") -> UsageError:
        return UsageError(f"dicts[{self.index}]", problem, remedy)


def _checked_extra(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise UsageError(argument, f"got the text {names!r}, expected a list", "put it in brackets")
    for name in names:
        taken = name in _KNOWN or _feature_key(name) in {*image_features(sha256=True), LABEL, CAPTION}
        if taken or not is_plain(name) or _feature_key(name).startswith("image/object/"):
            raise UsageError(argument, f"got {escape(name)!r}, which is taken, or of objects", "rename it")
    return tuple(names)


def _feature_key(name: str) -> str:
    return f"image/{name.removeprefix('image/')}"


class _Reader:
    """Reads one dict after the other. Raises UsageError with its number."""

    def __init__(
        self,
        numbers: tuple[str, ...],
        texts: tuple[str, ...],
        root: str | os.PathLike[str] | None,
        keypoints: Keypoints | None,
    ) -> None:
        self.numbers, self.texts, self.keypoints = numbers, texts, keypoints
        self._rooted = root is not None
        self._root = os.path.abspath(os.fsencode(os.curdir if root is None else root))

    def read(self, index: int, said: Mapping[str, Any]) -> _Read:
        """What `said` says."""
        place = f"dicts[{index}]"
        if not isinstance(said, Mapping):
            raise UsageError(place, f"got {type(said).__name__}, expected a dict")
        known = [*_KNOWN, *self.numbers, *self.texts]
        for name in said:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                remedy = f"did you mean {close[0]!r}?" if close else f"name it in numbers or texts; {_USUAL}"
                raise UsageError(place, f"got {escape(str(name))!r}, which says nothing here", remedy)
        key, image = self._image(place, said)
        split = said.get("split")
        if split is not None:
            try:
                split = split_named(str(split))
            except UsageError as error:
                raise UsageError(place, f"split: {error.problem}", error.remedy) from None
        read = _Read(index, key, image, split, _whole(place, "image_id", said.get("image_id")))
        self._whole_image(read, said)
        self._of_objects(read, said)
        return read

    def _image(self, place: str, said: Mapping[str, Any]) -> tuple[bytes, Image | Skipped]:
        image, key = said.get("image"), said.get("key")
        if isinstance(image, bytearray | memoryview):
            image = bytes(image)
        if key is not None:
            key = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
            if not isinstance(key, bytes) or not key or posixpath.normpath(key) != key or key.startswith((b"/", b"..")):
                problem = f"key: got {escape(key)!r}" if isinstance(key, bytes) else f"key: got {type(key).__name__}"
                raise UsageError(place, f"{problem}, expected a relative name such as 'cats/1.jpg'")
        if isinstance(image, bytes) or callable(image):
            if key is None:
                raise UsageError(place, "it has no 'key', and its image no path", "give each a name of its own")
            return key, cast(Image, image)
        if not isinstance(image, str | os.PathLike):
            got = f"got {type(image).__name__}" if "image" in said else "it has no 'image'"
            raise UsageError(place, f"image: {got}, expected a path, or the bytes of an encoded file (JPEG, PNG ...)")
        path = os.path.normpath(os.path.join(self._root, os.fsencode(image)))
        if key is None:
            if not path.startswith(self._root.rstrip(b"/") + b"/"):
                folder = "that they are all in" if self._rooted else "of the images, such as root='/data/photos'"
                problem = f"image: {escape(os.fsencode(image))} is not in {escape(self._root)}"
                raise UsageError(place, problem, f"give the folder {folder}, or each dict a 'key'")
            key = os.path.relpath(path, self._root)
        try:
            found = os.stat(path)
        except (OSError, ValueError) as error:
            code = _REASONS.get(error.errno or 0, RejectCode.UNREADABLE) if isinstance(error, OSError) else None
            reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
            return key, Skipped(key, (code or RejectCode.UNREADABLE).value, f"{place}: {reason}")
        if not stat.S_ISREG(found.st_mode):
            return key, Skipped(key, RejectCode.NOT_REGULAR.value, f"{place}: not a regular file")
        return key, SourceFile(path, found.st_size, found.st_mtime_ns)

    def _whole_image(self, read: _Read, said: Mapping[str, Any]) -> None:
        """Classes, captions, numbers and texts of the image."""
        if "label" in said:
            read.classes["label"] = _classes(read, "label", [said["label"]])
        if "tags" in said:
            tags = read.classes["tags"] = _classes(read, "tags", _listed(read, "tags", said))
            if len(set(tags)) < len(tags):
                raise read.error(f"tags: got {some(tags)}, expected each class once")
        captions = [*_texts(read, "caption", said), *_texts(read, "captions", said)]
        if "caption" in said or "captions" in said:
            read.captions = captions
        for name in (*self.numbers, *self.texts):
            if name not in said:
                raise read.error(f"it has no {escape(name)!r}", "give each one, nan for a number that is not known")
        for name in self.texts:
            texts = _texts(read, name, said)
            read.extra[name] = texts if isinstance(said[name], list | tuple) else texts[0]
        for name in self.numbers:
            value = said[name].tolist() if isinstance(said[name], np.ndarray | np.generic) else said[name]
            values = list(value) if isinstance(value, list | tuple) else [value]
            for number in values:
                if isinstance(number, bool) or not isinstance(number, int | float):
                    got = type(number).__name__
                    raise read.error(f"{escape(name)}: got {got}, expected a number, or a list of them")
            read.extra[name] = values if isinstance(value, list | tuple) else value

    def _of_objects(self, read: _Read, said: Mapping[str, Any]) -> None:
        """Boxes, and what is known of each."""
        if "boxes" not in said:
            stray = [name for name in _OBJECTS if name in said and name != "size"]
            if stray:
                remedy = "give 'boxes', or 'tags' for classes of the whole image"
                raise read.error(f"got {stray[0]!r} without 'boxes'", remedy)
            return
        read.boxes = _array(read, "boxes", said["boxes"], 4, "[left, top, right, bottom]")
        count = len(read.boxes)
        if "labels" in said:
            read.classes["labels"] = _classes(read, "labels", _listed(read, "labels", said))
        if "keypoints" in said:
            if self.keypoints is None:
                raise read.error("got 'keypoints', whose names are not known", "give keypoints=Keypoints(names)")
            points = np.asarray(_listed(read, "keypoints", said), dtype=object)
            flat = said["keypoints"] if points.ndim < 3 else points.reshape(len(points), -1).tolist()
            each = 3 * len(self.keypoints.names)
            expected = f"x, y and visibility for {len(self.keypoints.names)} names"
            read.of_objects["keypoints"] = _array(read, "keypoints", flat, each, expected).tolist()
        if "iscrowd" in said:
            crowds = [_whole(f"dicts[{read.index}]", "iscrowd", crowd) for crowd in _listed(read, "iscrowd", said)]
            if not set(crowds) <= {0, 1}:
                raise read.error(f"iscrowd: got {some(map(str, crowds))}, expected 0 or 1 for each box")
            read.of_objects["iscrowd"] = crowds
        if "area" in said:
            areas = [[area] for area in _listed(read, "area", said)]
            read.of_objects["area"] = _array(read, "area", areas, 1, "a number")[:, 0].tolist()
        if "segmentation" in said:
            read.of_objects["segmentation"] = [_plain(outline) for outline in _listed(read, "segmentation", said)]
        for name, values in (read.of_objects | {"labels": read.classes.get("labels", [None] * count)}).items():
            if len(values) != count:
                raise read.error(f"got {len(values)} of {name!r} for {count} boxes", "give one for each box")
        if said.get("size") is not None:
            sides = [_whole(f"dicts[{read.index}]", "size", side) for side in _listed(read, "size", said)]
            if len(sides) != 2 or not all(sides):
                raise read.error(f"size: got {said['size']!r}, expected (width, height) in pixels")
            read.size = int(sides[0] or 0), int(sides[1] or 0)


def _whole(place: str, name: str, value: Any) -> int | None:
    """A number of 0 or more; None where it is not given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise UsageError(place, f"{name}: got {value!r}, expected a whole number of 0 or more")
    return int(value)


def _listed(read: _Read, name: str, said: Mapping[str, Any]) -> list[Any]:
    """What is said, which is a list."""
    values = said[name]
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise read.error(f"{escape(name)}: got {type(values).__name__}, expected a list")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _classes(read: _Read, name: str, values: Sequence[Any]) -> list[str]:
    """Names as they are, numbers in digits."""
    found = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise read.error(f"{name}: got {type(value).__name__}, expected the name of a class, or its number")
        found.append(value if isinstance(value, str) else str(int(value)))
    return found


def _texts(read: _Read, name: str, said: Mapping[str, Any]) -> list[bytes]:
    value = said.get(name, [])
    found = []
    for text in value if isinstance(value, list | tuple | np.ndarray) else [value]:
        try:
            found.append(text.encode() if isinstance(text, str) else bytes(text.decode().encode()))
        except (AttributeError, UnicodeError):
            raise read.error(f"{escape(name)}: got {text!r:.60}, expected text, or a list of texts, in UTF-8") from None
    return found


def _array(read: _Read, name: str, rows: Any, width: int, expected: str) -> np.ndarray:
    """float64 [n, width]."""
    try:
        found = np.asarray(rows, np.float64)
    except (TypeError, ValueError):
        found = None
    if found is not None and found.size == 0:
        return np.zeros((0, width))
    if found is None or found.ndim != 2 or found.shape[1] != width:
        raise read.error(f"{name}: got {str(rows)[:60]}, expected a list with {expected} for each object")
    return found


def _plain(outline: Any) -> Any:
    """As JSON has it: pycocotools' codes are bytes, and polygons may be arrays."""
    if isinstance(outline, Mapping):
        return {key: _plain(value) for key, value in outline.items()}
    if isinstance(outline, bytes):
        return outline.decode("ascii", "replace")
    if isinstance(outline, np.ndarray | np.generic):
        return outline.tolist()
    return [_plain(part) for part in outline] if isinstance(outline, list | tuple) else outline


def _check_numbers(read: Sequence[_Read]) -> None:
    """Raises UsageError where some have an image id and others none, or two have the same."""
    first: dict[int | None, _Read] = {}
    numbered = [one for one in read if one.number is not None]
    if numbered and len(numbered) < len(read):
        lacking = min((one for one in read if one.number is None), key=lambda one: one.index)
        problem = f"it has no 'image_id', and dicts[{numbered[0].index}] has one"
        raise lacking.error(problem, "give each its own, or none")
    for one in numbered:
        if (other := first.setdefault(one.number, one)) is not one:
            raise one.error(f"has the image_id {one.number} of dicts[{other.index}]", "give each its own, or none")


class _GivenNames:
    """The class names that were given, by "label", "tags" or "labels"; and the numbers of what the dicts say."""

    def __init__(self, class_names: ClassList | Mapping[str, ClassList] | None, read: Sequence[_Read]) -> None:
        self._read = sorted(read, key=lambda one: one.index)
        used = [name for name in _CLASSES if any(name in one.classes for one in read)]
        if isinstance(class_names, Mapping):
            for name in class_names:
                if name not in _CLASSES:
                    raise UsageError("class_names", f"got {escape(str(name))!r}, expected one of {', '.join(_CLASSES)}")
                if name not in used:
                    raise UsageError("class_names", f"got names for {name!r}, which no dict has", "leave them out")
            self._given = {name: class_list(names) for name, names in class_names.items()}
        else:
            self._given = dict.fromkeys(used, class_list(class_names))
            if class_names is not None and not used:
                raise UsageError("class_names", f"no dict has any of {', '.join(_CLASSES)}", "leave them out")
        self.used = used

    def numbering(self, name: str) -> Numbering:
        """Of all classes that the dicts have under `name`. Raises UsageError for one that is none."""
        values = list(dict.fromkeys(value for one in self._read for value in one.classes.get(name, ())))
        given = self._given.get(name)
        if not values and given is None:
            raise UsageError("class_names", f"no dict has any class in {name!r}", "name the classes")
        try:
            return number_classes(values, given)
        except BadLabelError as error:
            first = next(one for one in self._read if error.value in one.classes.get(name, ()))
            raise UsageError(f"dicts[{first.index}]", f"{name}: {error.problem}", error.remedy) from None


def _columns(there: Sequence[_Read], read: Sequence[_Read], given: _GivenNames, reader: _Reader) -> list[ListedColumn]:
    """What is known of whole images."""
    columns: list[ListedColumn] = []
    if {"label", "tags"} <= set(given.used):
        one = next((one for one in read if "tags" in one.classes), read[0])
        raise one.error("got 'tags', and others have 'label': both are image/class", "make the label one of the tags")
    if "label" in given.used:
        _all_have(read, "label", lambda one: "label" in one.classes)
        labels = given.numbering("label")
        numbers = [labels.labels[one.classes["label"][0]] for one in there]
        columns.append(ClassColumn("image/class", labels.names, np.array(numbers, np.int64)))
    if "tags" in given.used:
        labels = given.numbering("tags")
        sets = [[labels.labels[tag] for tag in one.classes.get("tags", ())] for one in there]
        for one, numbers in zip(there, sets, strict=True):
            if len(set(numbers)) < len(numbers):  # by two spellings
                raise one.error(f"tags: got {some(one.classes['tags'])}, expected each class once")
        columns.append(ClassColumn("image/class", labels.names, *ragged(sets, np.int64), tags=True))
    if any(one.captions is not None for one in read):
        columns.append(TextColumn.of_lists(CAPTION, [one.captions or [] for one in there]))
    for name in reader.texts:
        values = _alike(there, name)
        columns.append(_text_column(_feature_key(name), values))
    for name in reader.numbers:
        values = _alike(there, name)
        flat = [number for value in values for number in (value if isinstance(value, list) else [value])]
        dtype = np.float32 if any(isinstance(number, float) for number in flat) else np.int64
        try:
            made = ragged(values, dtype) if isinstance(values[0], list) else (np.array(values, dtype), None)
        except OverflowError:
            raise UsageError("numbers", f"{escape(name)} has a number that does not fit int64") from None
        columns.append(NumberColumn(_feature_key(name), *made))
    return columns


def _all_have(read: Sequence[_Read], name: str, has: Callable[[_Read], bool]) -> None:
    """Raises UsageError where some of them have it, and one has not."""
    lacking = [one.index for one in read if not has(one)]
    having = [one.index for one in read if has(one)]
    if lacking and having:
        problem = f"it has no {name!r}, and dicts[{min(having)}] has"
        raise UsageError(f"dicts[{min(lacking)}]", problem, "say it of all, or of none")


def _alike(there: Sequence[_Read], name: str) -> list[Any]:
    """The values of all: lists, or none of them."""
    _all_have(there, f"list in {name}", lambda one: isinstance(one.extra[name], list))
    return [one.extra[name] for one in there]


def _text_column(key: str, values: Sequence[Any]) -> TextColumn:
    """Of lists of texts, or of texts."""
    if values and isinstance(values[0], list):
        return TextColumn.of_lists(key, values)
    texts = TextColumn.of_lists(key, [[value] for value in values])
    return replace(texts, ends=None)


def _objects(
    there: Sequence[_Read],
    read: Sequence[_Read],
    given: _GivenNames,
    keypoints: Keypoints | None,
    *,
    fractions: bool,
    boxes_on: str | None,
) -> ObjectTable | None:
    """The boxes of all, and what is known of them; None where no dict has any."""
    boxed = [one for one in read if one.boxes is not None]
    if not boxed:
        return None
    full = [one for one in boxed if one.boxes is not None and len(one.boxes)]
    _all_have(full, "labels", lambda one: "labels" in one.classes)
    for name in ("area", "segmentation"):
        _all_have(full, name, lambda one, name=name: name in one.of_objects)
    labels = given.numbering("labels") if "labels" in given.used else None
    has = {name for one in boxed for name in one.of_objects}
    table = ObjectTable(
        None if labels is None else labels.names,
        what="box",
        unit="fractions" if fractions else "pixels",
        upright=None if boxes_on is None else boxes_on == "upright",
        columns=(IS_CROWD,) if "iscrowd" in has else (),
        areas="area" in has,
        masks="segmentation" in has,
        keypoints=keypoints,
    )
    nothing_seen = [0.0] * 3 * (len(keypoints.names) if keypoints else 0)
    for i, one in enumerate(there):
        if one.size is not None:
            table.set_size(i, *one.size)
        for n, box in enumerate([] if one.boxes is None else one.boxes.tolist()):
            of_box = {name: values[n] for name, values in one.of_objects.items()}
            table.add(
                i,
                n,
                box,
                0 if labels is None else labels.labels[one.classes["labels"][n]],
                columns={IS_CROWD: of_box.get("iscrowd") or 0},
                area=of_box.get("area", 0.0),
                keypoints=of_box.get("keypoints", nothing_seen),
                outline=of_box.get("segmentation"),
            )
    return table


def _findings(read: Sequence[_Read]) -> Findings:
    """Images that are not there, and their boxes."""
    skipped = [(one, one.image) for one in read if isinstance(one.image, Skipped)]
    left_out = tuple(
        LeftOut(one.key, AnnotationCode.IMAGE.value, f"box {n}: its image {name_text(one.key)} was left out")
        for one, _ in skipped
        for n in range(0 if one.boxes is None else len(one.boxes))
    )
    account = Account(read=len(left_out), left_out=left_out) if left_out else None
    return Findings([why for _, why in skipped], account=account)
