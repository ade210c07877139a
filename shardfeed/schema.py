"""What a record holds: feature keys, their dtypes and shapes, and the names of classes.

Keys are TensorFlow's own (Model Garden, Object Detection API), so that every decoder that knows those reads ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shardfeed.errors import UsageError, escape

# Control characters, line separators (a name is one line of the labels file), halves of surrogate pairs (bytes that
# are not UTF-8). Not everything unprintable: joiners belong to the spelling of Indic, Persian and Arabic words.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

ENCODED = "image/encoded"  # bytes: the JPEG or PNG file, or raw pixels: uint8 RGB, row-major [height, width, 3]
FORMAT = "image/format"  # b"jpeg", b"png" or b"raw"
HEIGHT = "image/height"  # int64, pixels, of the stored image
WIDTH = "image/width"  # int64, pixels
FILENAME = "image/filename"  # bytes: path relative to the source's root, the sample's unique key
SOURCE_ID = "image/source_id"  # bytes: a number as decimal digits, unique in the split (google/automl#22)
SHA256 = "image/key/sha256"  # bytes: lower-case hex of the source file's sha256; absent with --no-hash
LABEL = "image/class/label"  # int64, 0-based index into the class names
TEXT = "image/class/text"  # bytes: the class name, UTF-8

Dtype = Literal["bytes", "int64", "float32"]
Value = bytes | int | float | list[bytes] | list[int] | list[float]

_KEY = re.compile(r"[^\x00-\x1f\ud800-\udfff]+\Z")  # lone surrogates are no UTF-8


@dataclass(frozen=True)
class Feature:
    """One feature: `dtype`, and `shape` as `()` for exactly one value or `(None,)` for any number of them."""

    dtype: Dtype
    shape: tuple[None, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in ("bytes", "int64", "float32"):
            raise UsageError("Feature.dtype", f"got {self.dtype!r}, expected 'bytes', 'int64' or 'float32'")
        if self.shape not in ((), (None,)):
            raise UsageError("Feature.shape", f"got {self.shape!r}, expected () or (None,)")

    @property
    def ragged(self) -> bool:
        """Whether a record holds any number of values instead of exactly one."""
        return self.shape == (None,)


@dataclass(frozen=True)
class Schema:
    """Feature keys with their dtypes and shapes, and class names for the int64 features that are labels.

    `class_names[key][v]` is the name of value `v` of feature `key`; `key` must be an int64 feature.
    Every record of a dataset has every feature of its schema.
    """

    features: Mapping[str, Feature]
    class_names: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for key in self.features:
            if not _KEY.match(key):
                raise UsageError("Schema.features", f"got the key {key!r}, expected printable text")
        for key, names in self.class_names.items():
            feature = self.features.get(key)
            if feature is None or feature.dtype != "int64":
                raise UsageError(f"Schema.class_names[{key!r}]", "class names belong to an int64 feature")
            if len(set(names)) != len(names):
                raise UsageError(f"Schema.class_names[{key!r}]", "a class is named twice")

    def mismatch(self, found: Mapping[str, tuple[str, Any]]) -> str:
        """What keeps `found`, a record as `example.decode` gives it, from being of this schema; "" where nothing does.

        Features that the schema does not have are no fault: readers pass them over.
        """
        for key, feature in self.features.items():
            dtype, values = found.get(key, (None, ()))
            # A record may lack a ragged feature: it then has no values of it, as TensorFlow's parser says too.
            if dtype is None and not feature.ragged:
                return f"no feature {escape(key)}"
            # An empty list has no dtype on the wire that every writer agrees on.
            if dtype != feature.dtype and len(values):
                return f"feature {escape(key)} is {dtype}, the schema says {feature.dtype}"
            if not feature.ragged and len(values) != 1:
                return f"feature {escape(key)} has {len(values)} values, the schema says one"
        return ""

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` gives back; keys sorted."""
        features: dict[str, Any] = {}
        for key, feature in sorted(self.features.items()):
            features[key] = {"dtype": feature.dtype, "shape": list(feature.shape)}
            if key in self.class_names:
                features[key]["class_names"] = list(self.class_names[key])
        return features

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Schema":
        """The inverse of `to_json`. Raises UsageError, AttributeError, KeyError or TypeError on anything else."""
        features = {key: Feature(f["dtype"], tuple(f["shape"])) for key, f in value.items()}
        names = {key: tuple(f["class_names"]) for key, f in value.items() if "class_names" in f}
        if not all(isinstance(name, str) for of_key in names.values() for name in of_key):
            raise TypeError("a class name is not text")
        return cls(features, names)


def image_features(*, sha256: bool) -> dict[str, Feature]:
    """The features that every converted image has, whatever its labels."""
    features = {
        ENCODED: Feature("bytes"),
        FORMAT: Feature("bytes"),
        HEIGHT: Feature("int64"),
        WIDTH: Feature("int64"),
        FILENAME: Feature("bytes"),
        SOURCE_ID: Feature("bytes"),
    }
    return features | ({SHA256: Feature("bytes")} if sha256 else {})


def is_plain(text: str) -> bool:
    """Whether `text` is not empty and has no control character, line separator or byte that is not UTF-8."""
    return bool(text) and not _UNFIT.search(text)
