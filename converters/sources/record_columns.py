"""Find the features of foreign records that hold the image, its label, its name and its objects.

    image/encoded, image/class/label, image/filename ...    TensorFlow's own keys, and ours
    image/object/bbox/xmin, image/object/mask ...           the Object Detection API's, and ours
    image, label, objects/bbox, objects/label ...           TFDS's; its boxes are ymin, xmin, ymax, xmax
    image_raw, height, width, depth, label                  raw pixels, of an early example of TensorFlow's

Other keys are known by the words for columns that all readers have.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    OBJECTS,
    RASTER,
)
from shardfeed.converters.images.mask_file import read_mask
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode, RejectedError
from shardfeed.converters.sources.classes import NamesFile
from shardfeed.converters.sources.files.class_names import names_beside, read_named_classes
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.record_features import FeatureLook, SeenFeature, text_key
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns
from shardfeed.converters.sources.rows.roles import CLASS_KEYS, WORDS, ColumnInfo, Kind, Role, Roles, choose_roles
from shardfeed.converters.sources.shard_names import list_names
from shardfeed.errors import UsageError, argument, escape, name_text
from shardfeed.formats.format import Fields
from shardfeed.kinds import AREAS, CLASSES, CROWDS, KEYPOINTS, MASKS
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, LABEL, RESTARTS, SHA256, SOURCE_ID, TEXT, WIDTH, Dtype

_FLAGS = {OBJECTS + name: name for name in ("difficult", "truncated", "occluded", "group_of")}  # 0 or 1, of each object
_ALL_FLAGS = (IS_CROWD, *_FLAGS)
_ID = "id"  # a number of each object
_DTYPES: Mapping[str, tuple[Dtype, ...]] = {
    **{key: (of.dtype,) for kind in (CLASSES, KEYPOINTS, AREAS, CROWDS, MASKS) for key, of in kind.features.items()},
    **dict.fromkeys(_FLAGS, ("int64",)),
    OBJECT_LABEL: ("int64", "bytes"),
    OBJECT_AREA: ("float32", "int64"),
}
KEYS_OF_OBJECTS = (*BOX, *_DTYPES)  # that are read, by our names
_MOST_RUNS = 1 << 20  # borders of a mask: noise has no outline, and would take a number for every pixel
NAMES = (FILENAME, "filename", "file_name", "image_name", "image_id", "id")  # of the image, in the order of trust
NUMBERS = (SOURCE_ID, "image/id", "image_id")
_RAW = (ENCODED, "image_raw", "image/raw", "image")
# About the stored image, computed again; or about the original file. Dropping them loses nothing.
_MADE_ANEW = {
    *(FORMAT, HEIGHT, WIDTH, RESTARTS, SHA256, SOURCE_ID, "image/colorspace", "image/channels"),
    *("height", "width", "depth"),
}
_WORDS = frozenset(word for words in WORDS.values() for word in words) | {"bbox"}
_STATED = frozenset({FILENAME, SOURCE_ID, *KEYS_OF_OBJECTS})
_WHOLE = "image"  # prefix of the keys of whole images
_UNNAMED = "key points have no names in records: they get numbers, and training does not mirror images that have some"
_MOST_VALUES = 1 << 22  # values of a key in one record: as many as the pixels of a mask stored as numbers
_NONE: tuple[str, Any] = ("", ())


@dataclass(frozen=True)
class ObjectKeys:
    """The keys of objects. `name`: what all begin with. `box`: in the order of BOX, or ymin, xmin, ymax, xmax in one.

    `others`: our key -> theirs.
    """

    name: str
    box: tuple[str, ...]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """All of them."""
        return frozenset({*self.box, *self.others.values()})

    @property
    def label(self) -> str:
        """The key of the class; "" if there is none."""
        return self.others.get(OBJECT_LABEL, "")

    def value(self, features: Fields) -> ObjectColumns | None:
        """Return the objects of a record; None if it has no box.

        Raises BadRowError if they cannot be told apart, RejectedError for a wrong dtype.
        """
        if not any(key in features for key in self.box):
            return None
        sides = [np.asarray(_values(features, key, ("float32",)), np.float32) for key in self.box]
        counts = sorted({len(side) for side in sides})
        if len(counts) > 1:
            raise BadRowError(counts[-1], f"the sides of its boxes have different lengths, {counts[0]} to {counts[-1]}")
        if len(sides) == 1 and counts[0] % 4:
            reason = f"{counts[0]} numbers in {escape(self.box[0])}, expected four per box"
            raise BadRowError(max(1, counts[0] // 4), reason)
        boxes = sides[0].reshape(-1, 4)[:, [1, 0, 3, 2]].T if len(sides) == 1 else sides
        corners = [*zip(*(side.tolist() for side in boxes), strict=True)]
        found = {ours: _values(features, key, _DTYPES.get(ours, ("int64",))) for ours, key in self.others.items()}
        labels, masks = found.get(OBJECT_LABEL), found.get(OBJECT_MASK)
        if labels and isinstance(labels[0], bytes):
            labels = [as_text(label, self.label) for label in labels]
        return ObjectColumns(
            corners,
            labels,
            [name_text(text) for text in found.get(OBJECT_TEXT, ())] or None,
            found.get(OBJECT_AREA),
            {key: found[key] for key in _ALL_FLAGS if found.get(key)},
            found.get(_ID) or None,
            _points(found, len(corners)) if {KEYPOINT_X, KEYPOINT_Y} <= found.keys() else None,
            None if masks is None or (corners and not masks) else [*map(_outline, masks)],
        )


def _values(features: Fields, key: str, dtypes: tuple[Dtype, ...]) -> list[Any]:
    dtype, values = features.get(key, _NONE)
    if len(values) and dtype not in dtypes:
        raise RejectedError(RejectCode.CORRUPT, f"{escape(key)} is {dtype}, expected {' or '.join(dtypes)}")
    return values.tolist() if isinstance(values, np.ndarray) else [*map(bytes, values)]


def _points(found: Mapping[str, list[Any]], count: int) -> list[list[float]]:
    """X, y and visibility of the key points of each object; points without a place are not there (0, 0, 0)."""
    x, y = (np.asarray(found[key], np.float64) for key in (KEYPOINT_X, KEYPOINT_Y))
    visible = found.get(KEYPOINT_VISIBILITY, [2] * len(x))
    if not len(x) == len(y) == len(visible) or (len(x) % count if count else len(x)):
        reason = f"{len(x)} x, {len(y)} y and {len(visible)} visibilities of key points for {count} boxes"
        raise BadRowError(max(1, count), reason)
    points = np.stack([x, y, visible], axis=-1)
    points[np.isnan(points).any(axis=-1)] = 0
    return points.reshape(count, 3 * len(x) // max(1, count)).tolist()


def _outline(mask: bytes) -> dict[str, Any] | BadAnnotationError:
    """The region of a mask's pixels above 0 as a run-length code, or why it has none."""
    try:
        pixels = read_mask(mask).values()
    except RejectedError as error:
        return BadAnnotationError(AnnotationCode.OUTLINE, f"its mask cannot be read: {error.reason or error.code}")
    if pixels is None:
        return BadAnnotationError(AnnotationCode.OUTLINE, "its mask has colours, expected 0 and 1")
    inside = (pixels != 0).ravel("F")
    borders = np.diff(inside, prepend=False)
    if np.count_nonzero(borders) > _MOST_RUNS:
        return BadAnnotationError(AnnotationCode.OUTLINE, f"its mask has more than {_MOST_RUNS:,} borders")
    starts = np.flatnonzero(borders)
    return {"size": [*pixels.shape], "counts": np.diff(starts, prepend=0, append=inside.size).tolist()}


def find_object_keys(seen: Mapping[str, SeenFeature], asked: Mapping[str, str]) -> ObjectKeys | None:
    """Find the keys of boxes and of the other columns of objects; None if there are no boxes."""
    sides = tuple(asked.get(side, side) for side in BOX)
    boxes = [key for key, one in seen.items() if key.endswith("/bbox") and one.dtype == "float32"]
    candidates: dict[str, tuple[str, ...]] = {ours: (ours,) for ours in _DTYPES} | {
        OBJECT_AREA: (OBJECT_AREA, f"{OBJECTS}segment/area")
    }
    prefix = OBJECTS
    if not all(side in seen and seen[side].dtype == "float32" for side in sides):
        if len(boxes) != 1:
            return None
        sides, prefix = (boxes[0],), boxes[0].removesuffix("bbox")
        if prefix == "image/":  # what else begins so is of the image
            return ObjectKeys(boxes[0], sides)
        words = {OBJECT_AREA: "area", _ID: "id", IS_CROWD: "is_crowd"}
        words |= {key: f"is_{name}" for key, name in _FLAGS.items()}
        candidates = {ours: (prefix + word,) for ours, word in words.items()}
        candidates[OBJECT_LABEL] = tuple(prefix + word for word in ("label", *CLASS_KEYS))
    others: dict[str, str] = {}
    for ours, keys in candidates.items():
        for key in (asked[ours],) if ours in asked else keys:
            if key in seen and seen[key].dtype in _DTYPES.get(ours, ("int64",)):
                others.setdefault(ours, key)
    if OBJECT_LABEL not in others or seen[others[OBJECT_LABEL]].dtype == "bytes":  # then no text is beside a number
        text = others.pop(OBJECT_TEXT, "")
        others |= {OBJECT_LABEL: text} if text and OBJECT_LABEL not in others else {}
    return ObjectKeys(prefix.removesuffix("/"), sides, others)


def as_text(value: Any, key: str) -> str:
    """A value as text. Raises RejectedError if it is not UTF-8."""
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise RejectedError(RejectCode.CORRUPT, f"the text in {escape(key)} is not UTF-8") from None


def may_mean(key: str) -> bool:
    """Whether a key may have a role by itself, so that it counts wherever it is met first."""
    return key in _STATED or key.rpartition("/")[2].casefold() in _WORDS


def is_of_objects(key: str, keys: Collection[str]) -> bool:
    """Whether a key describes each object, by its name or by a box with the same prefix."""
    prefix = key.rpartition("/")[0]
    return key.startswith(OBJECTS) or (prefix != _WHOLE and f"{prefix}/bbox" in keys)


@dataclass(frozen=True)
class RecordColumns:
    """Roles of the keys of records. `name`: the key of the image's own name, "" if missing.

    `pixels`: keys of height, width and depth if the image is raw pixels. `seen`: the features of the first records.
    """

    roles: Roles
    seen: Mapping[str, SeenFeature]
    name: str = ""
    pixels: tuple[str, str, str] | None = None
    objects: ObjectKeys | None = None

    @property
    def image(self) -> str:
        """The key of the image."""
        return self.roles.by_role["image"].name

    @property
    def notes(self) -> list[str]:
        """Notes for the report on what records do not say."""
        unnamed = self.objects is not None and KEYPOINT_X in self.objects.others
        return [_UNNAMED] if unnamed else []

    @property
    def labels(self) -> dict[str, str]:
        """Column by key, of the label of images and of that of objects."""
        found = {label: label} if (label := self.roles.name("label")) else {}
        return found | ({self.objects.label: self.objects.name} if self.objects and self.objects.label else {})

    @property
    def keys(self) -> frozenset[str]:
        """All keys of records that something is taken from."""
        of_objects = self.objects.keys if self.objects is not None else ()
        return frozenset({*self.roles.columns, self.name, *(self.pixels or ()), *of_objects} - {""})

    @cached_property
    def _taken(self) -> list[tuple[str, Dtype, bool]]:
        """Key, dtype, and whether a record has one value, of each column with values."""
        roles = self.roles
        infos = [*roles.by_role.values(), *roles.extra.values(), *roles.one_hot]
        infos = [info for info in infos if info.name in self.seen]
        of_values = [info for info in infos if info.kind != "image"]
        return [(info.name, self.seen[info.name].dtype, self.seen[info.name].most == 1) for info in of_values]

    def values(self, features: Fields) -> dict[str, Any]:
        """Return the values of a record by key, without the image. Raises RejectedError for a differing dtype."""
        found: dict[str, Any] = {}
        for key, expected, one in self._taken:
            dtype, values = features.get(key, _NONE)
            if not dtype or (one and not len(values)):
                continue
            if dtype != expected and len(values):
                raise RejectedError(RejectCode.NO_LABEL, f"{escape(key)} is {dtype}, but {expected} in other records")
            if len(values) > (1 if one else _MOST_VALUES):
                reason = (
                    f"{len(values):,} values of {escape(key)}, expected {'one' if one else 'fewer'} as in other records"
                )
                raise RejectedError(RejectCode.NO_LABEL, reason)
            every = values.tolist() if isinstance(values, np.ndarray) else [as_text(value, key) for value in values]
            found[key] = every[0] if one else every
        if self.objects is not None:
            try:
                objects: ObjectColumns | BadRowError | None = self.objects.value(features)
            except BadRowError as error:
                objects = error
            found |= {} if objects is None else {self.objects.name: objects}
        return found


def find_columns(
    look: FeatureLook,
    options: ColumnOptions,
    place: str,
    *,
    documented: tuple[str | None, str | None] = (None, None),
    images: bool = True,
) -> RecordColumns:
    """Find the role of each key: given by the user, else by TensorFlow's names, else by words.

    `documented`: keys of image and label, as named in a file next to the records. `images`: whether there must be an
    image. Raises UsageError as `choose_roles`.
    """
    seen, asked = look.seen, dict(options.columns)
    objects = find_object_keys(seen, asked)
    kinds: dict[str, Kind] = {key: one.kind for key, one in sorted(seen.items())}
    raw = ENCODED if ENCODED in seen and seen[ENCODED].raw else None  # and no other image beside it
    wanted_image = asked.get("image", asked.get(ENCODED, raw))
    pixels = _raw_pixels(kinds, wanted_image)
    if pixels:
        kinds[wanted_image or next(key for key in _RAW if key in kinds)] = "image"
    # The text of a class number is not a caption, even if it has such a name.
    beside = {key: text_key(key) for key in kinds if seen[key].dtype == "int64" and text_key(key) in kinds}
    hidden = {*beside.values()} - {*asked.values()}
    of_objects = {what: name for what, name in asked.items() if what.startswith(OBJECTS)}
    for what, name in of_objects.items():
        if objects is None or name not in objects.keys:
            why = f"it is not read, only {', '.join(KEYS_OF_OBJECTS)} are" if name in seen else "there is no such key"
            problem = f"{escape(what)} from {escape(name)}: {why}"
            raise UsageError(place, problem, "leave it out")
    asked = {what: name for what, name in asked.items() if what not in of_objects}
    hidden |= {key for key in kinds if is_of_objects(key, kinds)} - {*asked.values()}
    stated = _stated(kinds, documented)
    infos = [
        ColumnInfo(
            *(key, "other" if key in hidden else kind, "mask" if key == RASTER else ""),
            role=None if key in hidden else stated.get(key),
        )
        for key, kind in kinds.items()
    ]
    if objects is not None:
        infos.append(ColumnInfo(objects.name, "objects", role="objects"))
    roles = choose_roles(place, infos, asked, unlabelled=options.unlabelled, images=images, one_hot=options.one_hot)
    by_role, unused = dict(roles.by_role), {*roles.unused}
    text = beside.get(roles.name("label") or "", "")
    if text and "label text" not in by_role and seen[text].dtype == "bytes":
        by_role["label text"] = ColumnInfo(text, seen[text].kind)
    name = next((key for key in NAMES if kinds.get(key) in ("integer", "text")), "")
    found = RecordColumns(replace(roles, by_role=by_role), seen, name, pixels, objects)
    unused -= found.keys | _MADE_ANEW
    return replace(found, roles=replace(found.roles, unused=tuple(sorted(unused))))


def _stated(kinds: Mapping[str, Kind], documented: tuple[str | None, str | None]) -> dict[str, Role]:
    """Return the roles defined by TensorFlow's key names, or by a metadata file next to the records."""
    classes = ("integer", "integers", "text", "texts")
    label = next((key for key in (LABEL, documented[1]) if kinds.get(key or "") in classes), None)
    candidates: list[tuple[Role, tuple[str | None, ...], tuple[Kind, ...]]] = [
        ("image", (ENCODED, documented[0]), ("image",)),
        ("label", (label,), classes),
        ("label text", (TEXT if label is None else None,), ("text", "texts")),
        ("text", (CAPTION,), ("text", "texts")),
        ("number", NUMBERS, ("integer", "text")),
    ]
    found: dict[str, Role] = {}
    for role, keys, fitting in candidates:
        if (key := next((key for key in keys if kinds.get(key or "") in fitting), None)) is not None:
            found.setdefault(key, role)
    return found


def _raw_pixels(kinds: Mapping[str, Kind], image: str | None) -> tuple[str, str, str] | None:
    """Height, width and depth, if records have these and the image is not encoded."""
    images = [key for key, kind in kinds.items() if kind == "image"]
    if image in images or (image is None and (images or not any(key in kinds for key in _RAW))):
        return None
    for prefix, depths in (("image/", ("image/depth", "image/channels")), ("", ("depth", "channels"))):
        sides = prefix + "height", prefix + "width"
        if all(kinds.get(side) == "integer" for side in sides):
            return *sides, next((depth for depth in depths if kinds.get(depth) == "integer"), "")
    return None


def names_around(
    root: str, files: Iterable[str], labels: Mapping[str, str], *, main: str | None = None, option: str = "label_map"
) -> dict[str, NamesFile]:
    """Find the files with class names beside records, by column; the column of a label map is "".

    `files`: those of the records, relative to `root`. `labels`: column by key. `main`: the key whose classes a file
    without a key in its name has, "" for none; default: the first. `option`: what gives another label map.

    Raises LabelFileError for a label map that cannot be read, UsageError if two differ.
    """
    found: dict[str, NamesFile] = {}
    for folder in sorted({os.path.dirname(file) for file in files}):
        for name in list_names(os.path.join(root, folder), os.DirEntry.is_file):
            if name.endswith(".pbtxt") and "label" in name:
                file = os.path.join(folder, name)
                here = NamesFile(file, read_named_classes(os.path.join(root, file)), True)
                if "" in found and found[""].names != here.names:
                    problem = f"{escape(here.file)} and {escape(found[''].file)} list different classes"
                    raise UsageError(root, problem, f"give the right one: {argument(option, typed='FILE')}")
                found.setdefault("", here)
    plain, main = list_names(root, os.DirEntry.is_file), next(iter(labels), "") if main is None else main
    for key, column in labels.items():
        if there := names_beside(root, plain, key, images=key == main and "" not in found):
            found[column] = NamesFile(*there)
    return found
