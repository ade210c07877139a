"""Read and check each dict of `from_dicts` by itself, without the others."""

import difflib
import errno
import os
import posixpath
import stat
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from shardfeed.annotations import CAPTION, Keypoints
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.rows.columns import feature_key
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import UsageError, escape
from shardfeed.schema import IMAGE_KEYS, LABEL, is_plain
from shardfeed.text import number, some

_OBJECTS = ("boxes", "labels", "iscrowd", "area", "segmentation", "keypoints", "size")
_KNOWN = ("image", "key", "split", "image_id", "label", "tags", "caption", "captions", *_OBJECTS)
_USUAL = f"known are {', '.join(_KNOWN)}"
_REASONS = {errno.ENOENT: RejectCode.MISSING, errno.ENOTDIR: RejectCode.MISSING}

Image = SourceFile | bytes | Callable[[], bytes]


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
    if isinstance(names, str):
        raise UsageError(argument, f"got the text {names!r}, expected a list", "put it in brackets")
    for name in names:
        taken = name in _KNOWN or feature_key(name) in {*IMAGE_KEYS, LABEL, CAPTION}
        if taken or not is_plain(name) or feature_key(name).startswith("image/object/"):
            raise UsageError(
                argument, f"got {escape(name)!r}, which is already used, or belongs to objects", "rename it"
            )
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
        if not isinstance(given, Mapping):
            raise UsageError(place, f"got {type(given).__name__}, expected a dict")
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
        image, key = given.get("image"), given.get("key")
        if isinstance(image, bytearray | memoryview):
            image = bytes(image)
        if key is not None:
            key = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
            if not isinstance(key, bytes) or not key or posixpath.normpath(key) != key or key.startswith((b"/", b"..")):
                problem = f"key: got {escape(key)!r}" if isinstance(key, bytes) else f"key: got {type(key).__name__}"
                raise UsageError(place, f"{problem}, expected a relative name such as 'cats/1.jpg'")
        if isinstance(image, bytes) or callable(image):
            if key is None:
                raise UsageError(place, "it has no 'key', and its image has no path", "give each a unique name")
            return key, cast(Image, image)
        if not isinstance(image, str | os.PathLike):
            got = f"got {type(image).__name__}" if "image" in given else "it has no 'image'"
            raise UsageError(place, f"image: {got}, expected a path, or the bytes of an encoded file (JPEG, PNG ...)")
        path = os.path.normpath(os.path.join(self._root, os.fsencode(image)))
        if key is None:
            if not path.startswith(self._root.rstrip(b"/") + b"/"):
                folder = "that contains all images" if self._rooted else "of the images, such as root='/data/photos'"
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

    def _whole_image(self, read: ReadDict, given: Mapping[str, Any]) -> None:
        """Classes, captions, numbers and texts of the image."""
        if "label" in given:
            read.classes["label"] = _classes(read, "label", [given["label"]])
        if "tags" in given:
            tags = read.classes["tags"] = _classes(read, "tags", _listed(read, "tags", given))
            if len({unicodedata.normalize("NFC", tag) for tag in tags}) < len(tags):
                raise read.error(f"tags: got {some(tags)}, expected each class once")
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
            value = given[name].tolist() if isinstance(given[name], np.ndarray | np.generic) else given[name]
            values = list(value) if isinstance(value, list | tuple) else [value]
            for one in values:
                if isinstance(one, bool) or not isinstance(one, int | float):
                    got = type(one).__name__
                    raise read.error(f"{escape(name)}: got {got}, expected a number, or a list of them")
            read.extra[name] = values if isinstance(value, list | tuple) else value

    def _of_objects(self, read: ReadDict, given: Mapping[str, Any]) -> None:
        """Read the boxes, and the values of each box."""
        if "boxes" not in given:
            stray = [name for name in _OBJECTS if name in given and name != "size"]
            if stray:
                remedy = "give 'boxes', or 'tags' for classes of the whole image"
                raise read.error(f"got {stray[0]!r} without 'boxes'", remedy)
            return
        read.boxes = _array(read, "boxes", given["boxes"], 4, "[left, top, right, bottom]")
        count = len(read.boxes)
        if "labels" in given:
            read.classes["labels"] = _classes(read, "labels", _listed(read, "labels", given))
        if "keypoints" in given:
            if self.keypoints is None:
                raise read.error("got 'keypoints', without their names", "give keypoints=Keypoints(names)")
            points = np.asarray(_listed(read, "keypoints", given), dtype=object)
            flat = given["keypoints"] if points.ndim < 3 else points.reshape(len(points), -1).tolist()
            each = 3 * len(self.keypoints.names)
            expected = f"x, y and visibility for {number(len(self.keypoints.names), 'name')}"
            read.of_objects["keypoints"] = _array(read, "keypoints", flat, each, expected).tolist()
        if "iscrowd" in given:
            crowds = [_whole(f"dicts[{read.index}]", "iscrowd", crowd) for crowd in _listed(read, "iscrowd", given)]
            if not set(crowds) <= {0, 1}:
                raise read.error(f"iscrowd: got {some(map(str, crowds))}, expected 0 or 1 for each box")
            read.of_objects["iscrowd"] = crowds
        if "area" in given:
            areas = [[area] for area in _listed(read, "area", given)]
            read.of_objects["area"] = _array(read, "area", areas, 1, "a number")[:, 0].tolist()
        if "segmentation" in given:
            read.of_objects["segmentation"] = [_plain(outline) for outline in _listed(read, "segmentation", given)]
        for name, values in (read.of_objects | {"labels": read.classes.get("labels", [None] * count)}).items():
            if len(values) != count:
                raise read.error(
                    f"got {len(values)} of {name!r} for {number(count, 'box', 'boxes')}", "give one for each box"
                )
        if given.get("size") is not None:
            sides = [_whole(f"dicts[{read.index}]", "size", side) for side in _listed(read, "size", given)]
            if len(sides) != 2 or not all(sides):
                raise read.error(f"size: got {given['size']!r}, expected (width, height) in pixels")
            read.size = int(sides[0] or 0), int(sides[1] or 0)


def _whole(place: str, name: str, value: Any) -> int | None:
    """A number of 0 or more; None if missing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise UsageError(place, f"{name}: got {value!r}, expected an integer of 0 or more")
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
        found = np.asarray(rows, np.float64)
    except (TypeError, ValueError):
        found = None
    if found is not None and found.size == 0:
        return np.zeros((0, width))
    if found is None or found.ndim != 2 or found.shape[1] != width:
        raise read.error(f"{name}: got {str(rows)[:60]}, expected a list with {expected} for each object")
    return found


def _plain(outline: Any) -> Any:
    """Convert an outline to JSON types: pycocotools' codes are bytes, and polygons may be arrays."""
    if isinstance(outline, Mapping):
        return {key: _plain(value) for key, value in outline.items()}
    if isinstance(outline, bytes):
        return outline.decode("ascii", "replace")
    if isinstance(outline, np.ndarray | np.generic):
        return outline.tolist()
    return [_plain(part) for part in outline] if isinstance(outline, list | tuple) else outline
