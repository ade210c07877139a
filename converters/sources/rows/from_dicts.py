"""A source from your own dicts: images with boxes, classes, tags, captions and numbers, from Python.

Each dict is read and checked by itself first, without the others.
"""

import difflib
import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, Keypoints
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode
from shardfeed.converters.sources.classes import BadLabelError, ClassList, class_list
from shardfeed.converters.sources.files.listing import split_named
from shardfeed.converters.sources.options import AnnotationOptions, Unit
from shardfeed.converters.sources.rows.columns import (
    ByteStrings,
    KnownClasses,
    Labels,
    Splits,
    UnlikeError,
    Values,
    feature_key,
)
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.rows.rows import ColumnarSource, Rows
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.declared import checked
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.foreign import words
from shardfeed.naming import name_problem
from shardfeed.schema import IMAGE_KEYS, LABEL, is_plain
from shardfeed.text import number, some

_OBJECTS = ("boxes", "labels", "iscrowd", "area", "segmentation", "keypoints", "size")
_KNOWN = ("image", "key", "split", "image_id", "label", "tags", "caption", "captions", *_OBJECTS)
_USUAL = f"known are {', '.join(_KNOWN)}"
_REASONS = {errno.ENOENT: RejectCode.MISSING, errno.ENOTDIR: RejectCode.MISSING}

Image = SourceFile | bytes | Callable[[], bytes]
_CLASSES = {"label": "labels", "tags": "labels", "labels": "objects"}  # keys that take class names, and of what


@dataclass
class ReadDict:
    """Contents of one dict, checked; classes as text. `image`: a Skipped with the reason if the file is missing."""

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
    for name in names:
        taken = name in _KNOWN or feature_key(name) in {*IMAGE_KEYS, LABEL, CAPTION}
        if taken or not is_plain(name) or feature_key(name).startswith("image/object/"):
            problem = f"got {escape(name)!r}, which is already used, or belongs to objects"
            raise UsageError(argument, problem, "rename it")
    return tuple(names)


class DictReader:
    """Reader of one dict after the other. Raises UsageError with the number of the dict."""

    def __init__(
        self,
        numbers: Sequence[str],
        texts: Sequence[str],
        root: str | os.PathLike[str] | None,
        keypoints: Keypoints | None,
    ) -> None:
        self.numbers, self.texts = _checked_extra("numbers", numbers), _checked_extra("texts", texts)
        self.keypoints = keypoints
        self._rooted = root is not None
        self._root = os.path.abspath(os.fsencode(os.curdir if root is None else root))

    def read(self, index: int, given: Mapping[str, Any]) -> ReadDict:
        """Check the dict `given` and return its contents. Raises UsageError."""
        place = f"dicts[{index}]"
        known = [*_KNOWN, *self.numbers, *self.texts]
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                remedy = f"did you mean {close[0]!r}?" if close else f"list it in numbers or texts; {_USUAL}"
                raise UsageError(place, f"got {escape(str(name))!r}, an unknown key", remedy)
        key, image = self._image(place, given)
        split = given.get("split")
        if split is not None:
            try:
                split = split_named(str(split))
            except UsageError as error:
                raise UsageError(place, f"split: {error.problem}", error.remedy) from None
        read = ReadDict(index, key, image, split, _whole(place, "image_id", given.get("image_id")))
        self._whole_image(read, given)
        self._of_objects(read, given)
        return read

    def _image(self, place: str, given: Mapping[str, Any]) -> tuple[bytes, Image | Skipped]:
        image = given.get("image")
        key = _key(place, given.get("key"))
        if isinstance(image, bytearray | memoryview):
            image = bytes(image)
        if isinstance(image, bytes) or callable(image):
            if key is None:
                raise UsageError(place, "it has no 'key', and its image has no path", "give each a unique name")
            return key, cast(Image, image)
        if not isinstance(image, str | os.PathLike):
            got = f"got {type(image).__name__}" if "image" in given else "it has no 'image'"
            raise UsageError(place, f"image: {got}, expected a path, or the bytes of an encoded file (JPEG, PNG ...)")
        path = os.path.normpath(os.path.join(self._root, _name(place, "image", image)))
        if key is None:
            key = self._key_of(place, path, image)
        return key, _file(place, key, path)

    def _key_of(self, place: str, path: bytes, image: str | os.PathLike[str]) -> bytes:
        """The key of an image without one: its path below the root. Raises UsageError for a path outside."""
        if not path.startswith(self._root.rstrip(b"/") + b"/"):
            folder = "that contains all images" if self._rooted else "of the images, such as root='/data/photos'"
            problem = f"image: {escape(os.fsencode(image))} is not in {escape(self._root)}"
            raise UsageError(place, problem, f"give the folder {folder}, or each dict a 'key'")
        return os.path.relpath(path, self._root)

    def _whole_image(self, read: ReadDict, given: Mapping[str, Any]) -> None:
        """Classes, captions, numbers and texts of the image."""
        _classes_of_image(read, given)
        captions = [*_texts(read, "caption", given), *_texts(read, "captions", given)]
        if "caption" in given or "captions" in given:
            read.captions = captions
        for name in (*self.numbers, *self.texts):
            if name not in given:
                raise read.error(f"it has no {escape(name)!r}", "give each one, nan for an unknown number")
        for name in self.texts:
            texts = _texts(read, name, given)
            read.extra[name] = texts if isinstance(given[name], list | tuple) else texts[0]
        for name in self.numbers:
            read.extra[name] = _numbers(read, name, given[name])

    def _of_objects(self, read: ReadDict, given: Mapping[str, Any]) -> None:
        """Read the boxes, and the values of each box."""
        if "boxes" not in given:
            _refuse_values_without_boxes(read, given)
            return
        read.boxes = _array(read, "boxes", given["boxes"], 4, "[left, top, right, bottom]")
        if "labels" in given:
            read.classes["labels"] = _classes(read, "labels", _listed(read, "labels", given))
        values_of = {"keypoints": self._points, "iscrowd": _crowds, "area": _areas, "segmentation": _outlines}
        for name, read_values in values_of.items():
            if name in given:
                read.of_objects[name] = read_values(read, given)
        _check_one_for_each_box(read, len(read.boxes))
        if given.get("size") is not None:
            read.size = _size(read, given)

    def _points(self, read: ReadDict, given: Mapping[str, Any]) -> list[Any]:
        if self.keypoints is None:
            raise read.error("got 'keypoints', without their names", "give keypoints=Keypoints(names)")
        points = np.asarray(_listed(read, "keypoints", given), dtype=object)
        flat = given["keypoints"] if points.ndim < 3 else points.reshape(len(points), -1).tolist()
        each = 3 * len(self.keypoints.names)
        expected = f"x, y and visibility for {number(len(self.keypoints.names), 'name')}"
        return _array(read, "keypoints", flat, each, expected).tolist()


def _classes_of_image(read: ReadDict, given: Mapping[str, Any]) -> None:
    if "label" in given:
        read.classes["label"] = _classes(read, "label", [given["label"]])
    if "tags" in given:
        tags = read.classes["tags"] = _classes(read, "tags", _listed(read, "tags", given))
        if len({unicodedata.normalize("NFC", tag) for tag in tags}) < len(tags):
            raise read.error(f"tags: got {some(tags)}, expected each class once")


def _numbers(read: ReadDict, name: str, given: Any) -> Any:
    """A number, or a list of them."""
    value = given.tolist() if isinstance(given, np.ndarray | np.generic) else given
    values = list(value) if isinstance(value, list | tuple) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | float):
            got = type(one).__name__
            raise read.error(f"{escape(name)}: got {got}, expected a number, or a list of them")
    return values if isinstance(value, list | tuple) else value


def _refuse_values_without_boxes(read: ReadDict, given: Mapping[str, Any]) -> None:
    stray = [name for name in _OBJECTS if name in given and name != "size"]
    if stray:
        remedy = "give 'boxes', or 'tags' for classes of the whole image"
        raise read.error(f"got {stray[0]!r} without 'boxes'", remedy)


def _crowds(read: ReadDict, given: Mapping[str, Any]) -> list[Any]:
    crowds = [_whole(f"dicts[{read.index}]", "iscrowd", crowd) for crowd in _listed(read, "iscrowd", given)]
    if not set(crowds) <= {0, 1}:
        raise read.error(f"iscrowd: got {some(map(str, crowds))}, expected 0 or 1 for each box")
    return crowds


def _areas(read: ReadDict, given: Mapping[str, Any]) -> list[Any]:
    areas = [[area] for area in _listed(read, "area", given)]
    return _array(read, "area", areas, 1, "a number")[:, 0].tolist()


def _outlines(read: ReadDict, given: Mapping[str, Any]) -> list[Any]:
    return [_plain(outline) for outline in _listed(read, "segmentation", given)]


def _check_one_for_each_box(read: ReadDict, count: int) -> None:
    for name, values in (read.of_objects | {"labels": read.classes.get("labels", [None] * count)}).items():
        if len(values) != count:
            problem = f"got {len(values)} of {name!r} for {number(count, 'box', 'boxes')}"
            raise read.error(problem, "give one for each box")


def _size(read: ReadDict, given: Mapping[str, Any]) -> tuple[int, int]:
    sides = [_whole(f"dicts[{read.index}]", "size", side) for side in _listed(read, "size", given)]
    if len(sides) != 2 or not all(sides):
        raise read.error(f"size: got {given['size']!r}, expected (width, height) in pixels")
    return int(sides[0] or 0), int(sides[1] or 0)


def _key(place: str, key: Any) -> bytes | None:
    """The key of a dict, or None. Raises UsageError for one that no sample can have, by the rule for all sources."""
    if key is None:
        return None
    key = _name(place, "key", key) if isinstance(key, str) else key
    if not isinstance(key, bytes):
        raise UsageError(place, f"key: got {type(key).__name__}, expected a relative name such as 'cats/1.jpg'")
    if problem := name_problem(key):
        got = f"key: got {escape(key)!r}, expected a relative name such as 'cats/1.jpg'"
        raise UsageError(place, got, f"it {problem}")
    return key


def _file(place: str, key: bytes, path: bytes) -> SourceFile | Skipped:
    """The file at a path, or why it is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        code = _REASONS.get(error.errno or 0, RejectCode.UNREADABLE) if isinstance(error, OSError) else None
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        return Skipped(key, (code or RejectCode.UNREADABLE).value, f"{place}: {reason}")
    if not stat.S_ISREG(found.st_mode):
        return Skipped(key, RejectCode.NOT_REGULAR.value, f"{place}: not a regular file")
    return SourceFile(path, found.st_size, found.st_mtime_ns)


def _name(place: str, name: str, text: str | os.PathLike[str]) -> bytes:
    """A file's name or path as bytes. Raises UsageError for one that no file can have."""
    try:
        found = os.fsencode(text)
    except UnicodeEncodeError:
        found = b"\0"
    if b"\0" in found:
        raise UsageError(place, f"{name}: got {escape(text)!r}, expected a name that a file can have")
    return found


def _whole(place: str, name: str, value: Any) -> int | None:
    """A number of 0 or more; None if missing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise UsageError(place, f"{name}: got {value!r}, expected an integer of 0 or more, below 2^63")
    return int(value)


def _listed(read: ReadDict, name: str, given: Mapping[str, Any]) -> list[Any]:
    """Return `given[name]` as a list. Raises UsageError for any other type."""
    values = given[name]
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise read.error(f"{escape(name)}: got {type(values).__name__}, expected a list")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _classes(read: ReadDict, name: str, values: Sequence[Any]) -> list[str]:
    """Names unchanged, numbers as digits."""
    found = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise read.error(f"{name}: got {type(value).__name__}, expected the name of a class, or its number")
        found.append(value if isinstance(value, str) else str(int(value)))
    return found


def _texts(read: ReadDict, name: str, given: Mapping[str, Any]) -> list[bytes]:
    value = given.get(name, [])
    found = []
    for text in value if isinstance(value, list | tuple | np.ndarray) else [value]:
        try:
            found.append(text.encode() if isinstance(text, str) else bytes(text.decode().encode()))
        except (AttributeError, UnicodeError):
            raise read.error(f"{escape(name)}: got {text!r:.60}, expected text, or a list of texts, in UTF-8") from None
    return found


def _array(read: ReadDict, name: str, rows: Any, width: int, expected: str) -> np.ndarray:
    """float64 [n, width]."""
    try:
        array = np.asarray(rows, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise read.error(f"{_unlike(name, rows, expected)}: {words(error)}") from None
    if array.size == 0:
        return np.zeros((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise read.error(_unlike(name, rows, expected))
    return array


def _unlike(name: str, rows: Any, expected: str) -> str:
    return f"{name}: got {str(rows)[:60]}, expected a list with {expected} for each object"


def _plain(outline: Any) -> Any:
    """Convert an outline to JSON types: pycocotools' codes are bytes, and polygons may be arrays."""
    if isinstance(outline, Mapping):
        return {key: _plain(value) for key, value in outline.items()}
    if isinstance(outline, bytes):
        return outline.decode("ascii", "replace")
    if isinstance(outline, np.ndarray | np.generic):
        return outline.tolist()
    return [_plain(part) for part in outline] if isinstance(outline, list | tuple) else outline


@checked
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
    reader = DictReader(numbers, texts, root, keypoints)
    read = _read_in_order(reader, dicts)
    unit: Unit | None = None if fractions is None else "fractions" if fractions else "pixels"
    rows = Rows("dicts", AnnotationOptions(unit=unit, boxes_on=boxes_on))
    there = [one for one in read if not isinstance(one.image, Skipped)]
    names = _given_names(class_names, read)
    rows.class_names = {what: names[name] for name, what in _CLASSES.items() if name in names}
    _add_classes(rows, names, read, there)
    _add_values(rows, reader, read, there)
    if any(one.boxes is not None for one in read):
        rows.objects = _objects(read, rows, keypoints)
        if "labels" in names:
            rows.of_objects = KnownClasses(place="dicts", refuse=partial(_refuse, read, "labels"))
        rows.objects.check_unit("boxes", unit, format_unit=lambda unit: f"fractions={unit == 'fractions'}")
    else:
        _refuse_options_of_boxes({"fractions": fractions, "boxes_on": boxes_on, "keypoints": keypoints})
    return _source(rows, read, there)


def _read_in_order(reader: DictReader, dicts: Iterable[Mapping[str, Any]]) -> list[ReadDict]:
    """All dicts, by key. Raises UsageError unless each has a key of its own, and they go together."""
    read = [reader.read(i, entry) for i, entry in enumerate(dicts)]
    if not read:
        raise UsageError("dicts", "the list is empty", "give a dict for each image")
    read.sort(key=lambda one: one.key)
    for one, other in pairwise(read):
        if one.key == other.key:
            raise other.error(f"has the key {escape(one.key)!r} of dicts[{one.index}]", "keys must be unique")
    _check_alike(read)
    return read


def _add_classes(rows: Rows, names: Mapping[str, Any], read: list[ReadDict], there: list[ReadDict]) -> None:
    """The classes of the images that are `there`, by the keys that a dict has."""
    for name in ("label", "tags"):
        if name in names:
            known = KnownClasses(place="dicts", refuse=partial(_refuse, read, name))
            rows.labels.append(labels := Labels("set" if name == "tags" else "one", known))
            for one in there:
                labels.add(one.classes.get(name, []))
            for one in read:  # of a missing image, too: whether a file is there changes no label of others
                labels.expect(one.classes.get(name, []))


def _add_values(rows: Rows, reader: DictReader, read: list[ReadDict], there: list[ReadDict]) -> None:
    """Captions, texts and numbers of the images that are `there`."""
    if any(one.captions is not None for one in read):
        rows.values.append(Values(CAPTION, lists=True))
        for one in there:
            rows.values[-1].add(one.captions or [])
    for name in (*reader.texts, *reader.numbers):
        rows.values.append(Values(feature_key(name)))
        for one in there:
            try:
                rows.values[-1].add(one.extra[name])
            except UnlikeError as error:
                raise one.error(f"{escape(name)}: {error}") from None


def _refuse_options_of_boxes(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(name, "is for boxes, and no dict has any", "leave it out")


def _source(rows: Rows, read: list[ReadDict], there: list[ReadDict]) -> ColumnarSource:
    rows.ledger.skip(one.image for one in read if isinstance(one.image, Skipped))
    if any(one.split is not None for one in there):
        rows.splits = Splits.of([one.split for one in there])
    places = np.full(len(read), -1, np.int64)
    places[[not isinstance(one.image, Skipped) for one in read]] = np.arange(len(there))

    def leave_out(image: int, code: AnnotationCode, reason: str) -> None:
        named = f"its image {name_text(read[image].key)} was left out" if code is AnnotationCode.IMAGE else ""
        rows.ledger.leave_out(read[image].key, code, f"{reason.partition(': ')[0]}: {named}" if named else reason)

    return rows.source(
        ByteStrings(one.key for one in there),
        [cast(Image, one.image) for one in there],
        places=places,
        ids=np.array([-1 if one.number is None else one.number for one in there], np.int64),
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
                    points={"keypoints": known["keypoints"]} if "keypoints" in known else None,
                    outline=known.get("segmentation"),
                )
            except BadAnnotationError as error:
                rows.ledger.leave_out(one.key, error.code, f"box {n}: {error.reason}")
    return gather
