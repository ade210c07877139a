"""Find the features of foreign records that hold the image, its label, its name and its objects.

    image/encoded, image/class/label, image/filename ...    TensorFlow's own keys, and ours
    image/object/bbox/xmin, image/object/class/label ...    the Object Detection API's
    image, label, objects/bbox, objects/label ...           TFDS's; its boxes are ymin, xmin, ymax, xmax
    image_raw, height, width, depth, label                  raw pixels, of an early example of TensorFlow's

Other keys are known by the words for columns that all readers have.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.annotations import BOX, CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_TEXT, OBJECTS, RASTER
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.containers.records.features import FeatureLook, SeenFeature
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns
from shardfeed.converters.sources.rows.roles import CLASS_KEYS, WORDS, ColumnInfo, Kind, Role, Roles, choose_roles
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.formats.format import Fields
from shardfeed.schema import (
    ENCODED,
    FILENAME,
    FORMAT,
    HEIGHT,
    LABEL,
    RESTARTS,
    SHA256,
    SOURCE_ID,
    TEXT,
    WIDTH,
    Dtype,
)

_FLAGS = {OBJECTS + name: name for name in ("difficult", "truncated", "occluded", "group_of")}  # 0 or 1, of each object
NAMES = (FILENAME, "filename", "file_name", "image_name", "image_id", "id")  # of the image, in the order of trust
NUMBERS = (SOURCE_ID, "image/id", "image_id")
_RAW = (ENCODED, "image_raw", "image/raw", "image")
# About the stored image, computed again; or about the original file. Dropping them loses nothing.
_MADE_ANEW = {
    *(FORMAT, HEIGHT, WIDTH, RESTARTS, SHA256, SOURCE_ID, "image/colorspace", "image/channels"),
    *("height", "width", "depth"),
}
_MASKS = (RASTER, "image/segmentation/class/encoded")  # ours, and DeepLab's
_LABEL_END, _TEXT_END = "/label", "/text"
_WORDS = frozenset(word for words in WORDS.values() for word in words) | {"bbox"}
_STATED = frozenset({FILENAME, SOURCE_ID, *BOX, OBJECT_LABEL, OBJECT_TEXT, OBJECT_AREA, IS_CROWD, *_FLAGS})
_WHOLE = "image"  # prefix of the keys of whole images
_MOST_VALUES = 1 << 22  # values of a key in one record: as many as the pixels of a mask stored as numbers
_NONE: tuple[str, Any] = ("", ())


def may_mean(key: str) -> bool:
    """Whether a key may have a role by itself, so that it counts wherever it is met first."""
    return key in _STATED or key.rpartition("/")[2].casefold() in _WORDS


def is_of_objects(key: str, keys: Collection[str]) -> bool:
    """Whether a key describes each object, by its name or by a box with the same prefix."""
    prefix = key.rpartition("/")[0]
    return key.startswith(OBJECTS) or (prefix != _WHOLE and f"{prefix}/bbox" in keys)


@dataclass(frozen=True)
class ObjectKeys:
    """The keys of objects. `name`: what all begin with. `box`: in the order of BOX, or ymin, xmin, ymax, xmax in one.

    `label`, `text`, `area`, `id`: "" for none. `flags`: our key -> theirs.
    """

    name: str
    box: tuple[str, ...]
    label: str = ""
    text: str = ""
    area: str = ""
    id: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """All of them."""
        return frozenset({*self.box, self.label, self.text, self.area, self.id, *self.flags.values()} - {""})

    def value(self, features: Fields) -> ObjectColumns | BadRowError | None:
        """Return the objects of a record; None if it has none of the keys. Raises RejectedError for a wrong dtype."""
        if not any(key in features for key in self.box):
            return None
        sides = [np.asarray(self._values(features, key, "float32"), np.float32) for key in self.box]
        counts = sorted({len(side) for side in sides})
        if len(counts) > 1:
            return BadRowError(
                counts[-1], f"the sides of its boxes have different lengths, {counts[0]} to {counts[-1]}"
            )
        if len(sides) == 1 and counts[0] % 4:
            reason = f"{counts[0]} numbers in {escape(self.box[0])}, expected four per box"
            return BadRowError(max(1, counts[0] // 4), reason)
        boxes = sides[0].reshape(-1, 4)[:, [1, 0, 3, 2]].T if len(sides) == 1 else sides
        labels = self._values(features, self.label, "int64", "bytes") if self.label else None
        if labels and isinstance(labels[0], bytes):
            labels = [_decoded(label, self.label) for label in labels]
        texts = [name_text(text) for text in self._values(features, self.text, "bytes")]
        flags = {ours: self._values(features, theirs, "int64") for ours, theirs in self.flags.items()}
        return ObjectColumns(
            [*zip(*(side.tolist() for side in boxes), strict=True)],
            labels,
            texts or None,
            self._values(features, self.area, "float32", "int64") if self.area else None,
            {ours: values for ours, values in flags.items() if values},
            self._values(features, self.id, "int64") or None,
        )

    @staticmethod
    def _values(features: Fields, key: str, *dtypes: Dtype) -> list[Any]:
        dtype, values = features.get(key, _NONE)
        if len(values) and dtype not in dtypes:
            raise RejectedError(RejectCode.CORRUPT, f"{escape(key)} is {dtype}, expected {' or '.join(dtypes)}")
        return values.tolist() if isinstance(values, np.ndarray) else [*map(bytes, values)]


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
            every = values.tolist() if isinstance(values, np.ndarray) else [_decoded(value, key) for value in values]
            found[key] = every[0] if one else every
        if self.objects is not None and (objects := self.objects.value(features)) is not None:
            found[self.objects.name] = objects
        return found


def _decoded(value: Any, key: str) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise RejectedError(RejectCode.CORRUPT, f"the text in {escape(key)} is not UTF-8") from None


def find_columns(
    look: FeatureLook, options: ColumnOptions, place: str, *, documented: tuple[str | None, str | None] = (None, None)
) -> RecordColumns:
    """Find the role of each key: given by the user, else by TensorFlow's names, else by words.

    `documented`: keys of image and label, as named in a file next to the records. Raises UsageError as `choose_roles`.
    """
    seen, asked = look.seen, dict(options.columns)
    objects = _object_keys(seen, asked)
    kinds: dict[str, Kind] = {key: one.kind for key, one in sorted(seen.items())}
    wanted_image = asked.get("image", asked.get(ENCODED))
    pixels = _raw_pixels(kinds, wanted_image)
    if pixels:
        kinds[wanted_image or next(key for key in _RAW if key in kinds)] = "image"
    # The text of a class number is not a caption, even if it has such a name.
    beside = {key: key.removesuffix(_LABEL_END) + _TEXT_END for key in kinds if key.endswith(_LABEL_END)}
    beside = {key: text for key, text in beside.items() if seen[key].dtype == "int64" and text in kinds}
    hidden = {*beside.values()} - {*asked.values()}
    of_objects = {what: name for what, name in asked.items() if what.startswith(OBJECTS)}
    for what, name in of_objects.items():
        if objects is None or name not in objects.keys:
            known = (*BOX, OBJECT_LABEL, OBJECT_TEXT, OBJECT_AREA, IS_CROWD, *_FLAGS)
            why = f"it is not read, only {', '.join(known)} are" if name in seen else "there is no such key"
            problem = f"{escape(what)} from {escape(name)}: {why}"
            raise UsageError(place, problem, "leave it out")
    asked = {what: name for what, name in asked.items() if what not in of_objects}
    hidden |= {key for key in kinds if is_of_objects(key, kinds)} - {*asked.values()}
    stated = _stated(kinds, documented)
    infos = [
        ColumnInfo(
            *(key, "other" if key in hidden else kind, "mask" if key in _MASKS else ""),
            role=None if key in hidden else stated.get(key),
        )
        for key, kind in kinds.items()
    ]
    if objects is not None:
        infos.append(ColumnInfo(objects.name, "objects", role="objects"))
    roles = choose_roles(place, infos, asked, unlabelled=options.unlabelled, one_hot=options.one_hot)
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


def _object_keys(seen: Mapping[str, SeenFeature], asked: Mapping[str, str]) -> ObjectKeys | None:
    """Find the keys of boxes and of the other columns of objects; None if there are no boxes."""

    def first(dtypes: tuple[Dtype, ...], ours: str, *keys: str) -> str:
        keys = (asked[ours],) if ours in asked else keys
        return next((key for key in keys if key in seen and seen[key].dtype in dtypes), "")

    sides = tuple(asked.get(side, side) for side in BOX)
    if all(side in seen and seen[side].dtype == "float32" for side in sides):
        label, text = first(("int64",), OBJECT_LABEL, OBJECT_LABEL), first(("bytes",), OBJECT_TEXT, OBJECT_TEXT)
        label, text = label or text, text if label else ""
        area = first(("float32", "int64"), OBJECT_AREA, OBJECT_AREA, f"{OBJECTS}segment/area")
        flags = {key: first(("int64",), key, key) for key in (IS_CROWD, *_FLAGS)}
        return ObjectKeys(OBJECTS.removesuffix("/"), sides, label, text, area, "", _without_empty(flags))
    boxes = [key for key, one in seen.items() if key.endswith("/bbox") and one.dtype == "float32"]
    if len(boxes) != 1:
        return None
    prefix = boxes[0].removesuffix("bbox")
    if prefix == f"{_WHOLE}/":  # what else begins so is of the image
        return ObjectKeys(boxes[0], (boxes[0],))
    label = first(("int64", "bytes"), OBJECT_LABEL, *(prefix + word for word in ("label", *CLASS_KEYS)))
    flags = {IS_CROWD: first(("int64",), IS_CROWD, prefix + "is_crowd")}
    flags |= {key: first(("int64",), key, f"{prefix}is_{name}") for key, name in _FLAGS.items()}
    area = first(("float32", "int64"), OBJECT_AREA, prefix + "area")
    own = first(("int64",), "", prefix + "id")
    return ObjectKeys(prefix.removesuffix("/"), (boxes[0],), label, "", area, own, _without_empty(flags))


def _without_empty(flags: Mapping[str, str]) -> dict[str, str]:
    return {ours: theirs for ours, theirs in flags.items() if theirs}
