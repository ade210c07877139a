"""Schema of a record: feature keys, their dtypes and shapes, the meaning of their values, and class names.

Keys come from TensorFlow's Model Garden and Object Detection API, so that any decoder for them reads these records.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from shardfeed.annotations import (
    BOX,
    KEYPOINT_X,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECTS,
    RASTER,
    Keypoints,
    Raster,
    ids_of,
    names_of,
)
from shardfeed.errors import UsageError, escape

# Control characters, line separators (a name is one line of the labels file) and lone surrogates (bytes that are not
# UTF-8). Not every unprintable character: the spelling of Indic, Persian and Arabic words needs joiners.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

ENCODED = "image/encoded"  # bytes: the JPEG or PNG file, or raw pixels: uint8 RGB, row-major [height, width, 3]
FORMAT = "image/format"  # b"jpeg", b"png", b"png16" or b"raw"
PNG16 = "png16"  # a PNG of 16 bits, gray or RGB, whose readers keep them
HEIGHT = "image/height"  # int64, pixels, of the stored image
WIDTH = "image/width"  # int64, pixels
RESTARTS = "image/restarts"  # bytes: lengths of a seekable JPEG's rows of MCUs (jpeg.restarts); b"" for other images
FILENAME = "image/filename"  # bytes: path relative to the source's root, the sample's unique key
SOURCE_ID = "image/source_id"  # bytes: a number as decimal digits, unique in the split (google/automl#22)
SHA256 = "image/key/sha256"  # bytes: lower-case hex of the source file's sha256; absent with --no-hash
LABEL = "image/class/label"  # int64, 0-based index into the class names
TEXT = "image/class/text"  # bytes: the class name, UTF-8

Dtype = Literal["bytes", "int64", "float32"]
# Meaning of the values: an encoded image or its pixels; a class number; the numbers of a set of classes, without
# repeats; UTF-8 text; a number that is not a class; other bytes; other positions in the image, which change when it is
# rotated or cropped. For objects (see annotations.py): a side of a box, a mask, a coordinate of a keypoint. For a
# raster: a class per pixel.
Kind = Literal["image", "label", "tags", "text", "number", "bytes", "place", "box", "mask", "keypoint", "raster"]
Value = bytes | int | float | list[bytes] | list[int] | list[float] | list[list[int]] | list[list[float]]

_KEY = re.compile(r"[^\x00-\x1f\ud800-\udfff]+\Z")  # lone surrogates are not UTF-8
_DTYPES: dict[Kind, tuple[Dtype, ...]] = {
    "image": ("bytes",),
    "label": ("int64",),
    "tags": ("int64",),
    "text": ("bytes",),
    "number": ("int64", "float32"),
    "bytes": ("bytes",),
    "place": ("bytes", "int64", "float32"),
    "box": ("float32",),
    "mask": ("bytes",),
    "keypoint": ("float32",),
    "raster": ("bytes",),
}
# The kinds of TensorFlow's own keys, for features that do not state a kind. A file name need not be text.
_USUAL_KINDS: dict[str, Kind] = {
    ENCODED: "image",
    FORMAT: "text",
    FILENAME: "bytes",
    SOURCE_ID: "text",
    SHA256: "text",
    **dict.fromkeys((*BOX, OBJECT_MASK, RASTER), "place"),
}


@dataclass(frozen=True)
class Feature:
    """One feature of a record.

    `dtype`: "bytes", "int64" or "float32". `shape`: `()` for exactly one value, `(None,)` for any number of them,
    `(3,)` or `(17, 2)` for a fixed number: a list, or a list of lists. Bytes have one dimension at most. `kind`: the
    meaning of the values: "image", "label" (int64, a class), "tags" (int64, a set of classes without repeats), "text"
    (UTF-8), "number", "bytes", "place" (a position in the image, which changes when it is rotated or cropped), or one
    of the kinds of objects and segmentation masks in `Kind`. None: `Schema.kind` derives it. `alias`: a second key,
    under which readers find the feature: in adopted records the key may be "image", the alias "image/encoded".

    Raises UsageError for any other value, and for a kind that values of `dtype` cannot have.
    """

    dtype: Dtype
    shape: tuple[int | None, ...] = ()
    kind: Kind | None = None
    alias: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in ("bytes", "int64", "float32"):
            raise UsageError("Feature.dtype", f"got {self.dtype!r}, expected 'bytes', 'int64' or 'float32'")
        fixed = all(type(side) is int and side > 0 for side in self.shape)
        if self.shape != (None,) and not (fixed and len(self.shape) <= (1 if self.dtype == "bytes" else 8)):
            expected = "(), (None,), or numbers of values such as (3,)"
            raise UsageError("Feature.shape", f"got {self.shape!r} for {self.dtype}, expected {expected}")
        if self.kind is not None and self.kind not in _DTYPES:
            raise UsageError("Feature.kind", f"got {self.kind!r}, expected one of {', '.join(_DTYPES)}, or None")
        if self.kind is not None and self.dtype not in _DTYPES[self.kind]:
            expected = " or ".join(_DTYPES[self.kind])
            raise UsageError("Feature.kind", f"got {self.kind!r} for {self.dtype}, expected {expected}")
        if self.kind == "tags" and self.shape != (None,):
            raise UsageError("Feature.kind", f"got 'tags' for the shape {self.shape}, expected (None,): any number")

    @property
    def ragged(self) -> bool:
        """True if records may hold different numbers of values."""
        return self.shape == (None,)

    @property
    def scalar(self) -> bool:
        """True if a record holds exactly one value, not in a list."""
        return self.shape == ()

    @cached_property  # each record is compared with it
    def count(self) -> int | None:
        """Number of values in each record; None if it varies."""
        return None if self.ragged else math.prod(side or 0 for side in self.shape)


@dataclass(frozen=True)
class Schema:
    """Schema of every record of a dataset: features by key, and class names of the features that are labels.

    `class_names[key][v]` is the name of value `v` of feature `key`, whose kind is "label" or "tags", and
    `class_ids[key][v]` its id in the source, if known. `keypoints`, `raster`: the meaning of a record's keypoints and
    segmentation mask, if it has them.

        Schema({LABEL: Feature("int64")}, {LABEL: ("cat", "dog")})

    Raises UsageError for a key that is not printable text, for an alias that is taken, for class names of a feature
    that is not a label, and for class names with duplicates.
    """

    features: Mapping[str, Feature]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keypoints: Keypoints | None = None
    raster: Raster | None = None

    def __post_init__(self) -> None:
        for key in self.features:
            if not _KEY.match(key):
                raise UsageError("Schema.features", f"got the key {key!r}, expected printable text")
        aliases = [feature.alias for feature in self.features.values() if feature.alias is not None]
        if len({*aliases, *self.features}) < len(aliases) + len(self.features):
            raise UsageError("Schema.features", f"got the aliases {aliases}", "give each name to one feature")
        for key, ids in self.class_ids.items():
            if len(ids) != len(self.class_names.get(key, ())):
                raise UsageError(f"Schema.class_ids[{key!r}]", f"got {len(ids)} ids, expected one for each class name")
        if (self.keypoints is not None) > (KEYPOINT_X in self.features) or (self.raster is not None) > (
            RASTER in self.features
        ):
            raise UsageError("Schema", f"got key points or a raster, and no feature {KEYPOINT_X} or {RASTER}")
        for key, names in self.class_names.items():
            feature = self.features.get(key)
            if feature is None or feature.dtype != "int64":
                raise UsageError(f"Schema.class_names[{key!r}]", "class names belong to an int64 feature")
            if feature.kind not in (None, "label", "tags"):
                problem = f"class names belong to a label, and this feature is of the kind {feature.kind!r}"
                raise UsageError(f"Schema.class_names[{key!r}]", problem, "give it the kind 'label' or 'tags'")
            if len(set(names)) != len(names):
                raise UsageError(f"Schema.class_names[{key!r}]", "a class is named twice")

    def kind(self, key: str) -> Kind:
        """Return the kind of a feature: the meaning of its values.

        If the feature does not state it (because the dataset is older than kinds, or its source leaves it out): a
        feature with class names is a label; TensorFlow's own keys for images, boxes and masks have their
        kinds; `x/text` is text if `x/label` is a label; other bytes are bytes, other numbers numbers.
        """
        stated = self.features[key].kind
        if stated is not None:
            return stated
        if key in self.class_names:
            return "label"
        prefix, _, last = key.rpartition("/")
        if last == "text" and f"{prefix}/label" in self.class_names and self.features[key].dtype == "bytes":
            return "text"
        usual = _USUAL_KINDS.get(key)
        if usual is not None and self.features[key].dtype in _DTYPES[usual]:
            return usual
        return "bytes" if self.features[key].dtype == "bytes" else "number"

    def key(self, name: str) -> str | None:
        """The key of the feature whose key or alias is `name`; None if there is no such feature."""
        return name if name in self.features else self.aliases.get(name)

    @property
    def aliases(self) -> dict[str, str]:
        """Keys of features, by alias."""
        return {feature.alias: key for key, feature in self.features.items() if feature.alias is not None}

    @property
    def object_keys(self) -> list[str]:
        """Keys of the features of objects, sorted; empty if no feature has the kind "box"."""
        keys = sorted(key for key in self.features if key.startswith(OBJECTS))
        return keys if any(self.kind(key) == "box" for key in keys) else []

    @property
    def category_ids(self) -> tuple[int, ...]:
        """The id of each class of objects, by label, among COCO's categories, as `export` writes it.

        The ids in the source (`class_ids`) if they ascend; else 1, 2, 3, ... Empty without class names.
        """
        ids = self.class_ids.get(OBJECT_LABEL, ())
        if ids and all(a < b for a, b in pairwise(ids)):  # readers of COCO number classes by ascending ids
            return ids
        return tuple(range(1, len(self.class_names.get(OBJECT_LABEL, ())) + 1))

    @property
    def main_class_names(self) -> tuple[str, ...]:
        """The class names of whole images, else of objects, pixels or tags; empty if nothing has classes.

        Raises UsageError if several features have different names and none of them is `image/class/label`.
        """
        names = {key: self.class_names[key] for key in sorted(self.class_names)}
        if (label := self.key(LABEL)) in names:
            return names[label]
        if self.raster is not None:
            names[RASTER] = self.raster.class_names
        if len(set(names.values())) > 1:
            ways = [f"schema.class_names[{key!r}]" if key != RASTER else "schema.raster.class_names" for key in names]
            problem = f"{', '.join(map(escape, names))} have different classes"
            raise UsageError("class_names", problem, f"use one of {', '.join(ways)} of a split")
        return next(iter(names.values()), ())

    def of_kind(self, kind: Kind) -> list[str]:
        """Keys of the features of a kind, sorted."""
        return sorted(key for key in self.features if self.kind(key) == kind)

    def stated(self) -> "Schema":
        """The same schema, in which every feature states its kind."""
        features = {key: replace(feature, kind=self.kind(key)) for key, feature in self.features.items()}
        return replace(self, features=features)

    def mismatch(self, found: Mapping[str, tuple[str, Any]]) -> str:
        """Return why `found`, a record as `example.decode` gives it, does not match this schema; "" if it does.

        Features that the schema does not have are not an error: readers skip them.
        """
        for key, feature in self.features.items():
            dtype, values = found.get(key, (None, ()))
            # A record may lack a ragged feature: it then has no values, as in TensorFlow's parser.
            if dtype is None and not feature.ragged:
                return f"no feature {escape(key)}"
            # Writers do not agree on the dtype of an empty list.
            if dtype != feature.dtype and len(values):
                return f"feature {escape(key)} is {dtype}, the schema says {feature.dtype}"
            count = feature.count
            if count is not None and len(values) != count:
                expected = "one" if feature.scalar else count
                return f"feature {escape(key)} has {len(values)} values, the schema says {expected}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads; keys sorted."""
        features: dict[str, Any] = {}
        for key, feature in sorted(self.features.items()):
            features[key] = {"dtype": feature.dtype, "shape": list(feature.shape)}
            if feature.kind is not None:  # manifests written before kinds existed keep their bytes
                features[key]["kind"] = feature.kind
            if feature.alias is not None:
                features[key]["alias"] = feature.alias
            if key in self.class_names:
                features[key]["class_names"] = list(self.class_names[key])
            if key in self.class_ids:
                features[key]["class_ids"] = list(self.class_ids[key])
        if self.keypoints is not None:
            features[KEYPOINT_X]["keypoints"] = asdict(self.keypoints)
        if self.raster is not None:
            features[RASTER]["raster"] = asdict(self.raster)
        return features

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Schema":
        """The inverse of `to_json`. Raises UsageError, AttributeError, KeyError or TypeError on anything else."""
        features = {
            key: Feature(f["dtype"], tuple(f["shape"]), f.get("kind"), f.get("alias")) for key, f in value.items()
        }
        names = {key: names_of(f["class_names"]) for key, f in value.items() if "class_names" in f}
        ids = {key: ids_of(f["class_ids"]) for key, f in value.items() if "class_ids" in f}
        points, raster = (value.get(key, {}).get(what) for key, what in ((KEYPOINT_X, "keypoints"), (RASTER, "raster")))
        keypoints = None if points is None else Keypoints.from_json(points)
        return cls(features, names, ids, keypoints, None if raster is None else Raster.from_json(raster))


def scalar_keys(schema: Schema) -> list[str]:
    """Keys of the features with one value per record, except encoded images, rasters and masks, and parts of these."""

    def is_picture(key: str) -> bool:
        kind = schema.kind(key)
        of_mask = kind == "place" and schema.features[key].dtype == "bytes"
        return key == RESTARTS or kind in ("image", "raster") or of_mask

    return [key for key, feature in schema.features.items() if feature.scalar and not is_picture(key)]


def image_features(*, sha256: bool, restarts: bool = False) -> dict[str, Feature]:
    """The features that every converted image has; with `restarts` also the features of seekable JPEGs."""
    texts = [ENCODED, FORMAT, FILENAME, SOURCE_ID, *[SHA256] * sha256, *[RESTARTS] * restarts]
    return {**dict.fromkeys(texts, Feature("bytes")), HEIGHT: Feature("int64"), WIDTH: Feature("int64")}


# All features that a conversion may add to those of the source.
IMAGE_KEYS = frozenset(image_features(sha256=True, restarts=True))


def is_plain(text: str) -> bool:
    """Return whether `text` is not empty and has no control character, line separator or byte that is not UTF-8."""
    return bool(text) and not _UNFIT.search(text)


def name_problem(name: str) -> str:
    """Why a text is no class name; "" if it is one."""
    if is_plain(name):
        return ""
    return f"got the class name '{escape(name)}', expected UTF-8 text without control characters"
