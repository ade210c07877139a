"""Find the features of foreign records that hold the image, its label, its name and its objects.

    image/encoded, image/class/label, image/filename ...    TensorFlow's own keys, and ours
    image/object/bbox/xmin, image/object/mask ...           the Object Detection API's, and ours
    image, label, objects/bbox, objects/label ...           TFDS's; its boxes are ymin, xmin, ymax, xmax
    image_raw, height, width, depth, label                  raw pixels, of an early example of TensorFlow's

Other keys are known by the words for columns that all readers have.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.annotations import (
    CAPTION,
    KEYPOINT_X,
    OBJECTS,
    RASTER,
)
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.classes import NamesFile
from shardfeed.converters.sources.files.class_names import names_beside, read_named_classes
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.record_features import FeatureLook, SeenFeature, text_key
from shardfeed.converters.sources.rows.object_keys import (
    KEYS_OF_OBJECTS,
    UNNAMED_POINTS,
    ObjectKeys,
    as_text,
    find_object_keys,
)
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns
from shardfeed.converters.sources.rows.roles import WORDS, ColumnInfo, Kind, Role, Roles, choose_roles
from shardfeed.converters.sources.shard_names import list_names
from shardfeed.errors import UsageError, argument, escape
from shardfeed.formats.format import Fields
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, LABEL, RESTARTS, SHA256, SOURCE_ID, TEXT, WIDTH, Dtype

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
        return [UNNAMED_POINTS] if unnamed else []

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
    objects = find_object_keys(look.dtypes, asked)
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
