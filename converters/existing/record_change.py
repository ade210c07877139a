"""Changes that an operation makes to a record: classes, its key, its number. All else is kept, value for value."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, escape
from shardfeed.formats.example import decode, encode
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, TEXT, Feature, Schema
from shardfeed.text import number

DROPPED = -1  # number for a class that the new dataset does not have

_REMEDY = "run `shardfeed verify DIR --deep` on its dataset"


@dataclass(frozen=True)
class RecordChange:
    """Change to make to each record of `schema`. A record in which nothing changes keeps its bytes.

    `numbers`: by label feature, the new number of each class, or DROPPED. `names`: the new names of those classes.
    `prefix`: prepended to its key. `renumber`: whether its `image/source_id` becomes its place in the new split.

    A class that is dropped goes from a set of classes; an object that has it goes with all its values, mask and
    keypoints included. If a feature has one class per record and that is dropped, the caller leaves the record out.
    """

    schema: Schema
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefix: bytes = b""
    renumber: bool = False

    @cached_property
    def digest(self) -> str:
        """Hex digits that differ if the changes differ."""
        what = sorted(self.numbers.items()), sorted(self.names.items()), self.prefix, self.renumber
        return hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()

    def label(self, key: str, label: int) -> int:
        """The new number of a class of the feature `key`."""
        return self.numbers[key][label] if key in self.numbers else label

    def __call__(self, payload: bytes, number: int) -> bytes:
        """The new payload. Raises IntegrityError for a record that is not of the schema."""
        found = decode(payload)
        values: dict[str, Any] = {
            key: list(of_key) if dtype == "bytes" else of_key  # type: ignore[arg-type]  # a list, as dtype says
            for key, (dtype, of_key) in found.items()
        }
        new = dict(values)
        for key in self.numbers:
            if key in new:
                self._relabel(new, key)
        name = self.schema.key(FILENAME)
        if self.prefix and name in new:
            new[name] = [self.prefix + key for key in new[name]]
        if self.renumber and SOURCE_ID in new:
            new[SOURCE_ID] = [b"%d" % number]
        if all(_same(new[key], values[key]) for key in new):
            return payload
        features = {key: Feature(dtype, (None,)) for key, (dtype, _) in found.items()}
        return encode(features, {key: of if isinstance(of, list) else of.tolist() for key, of in new.items()})

    def _relabel(self, values: dict[str, Any], key: str) -> None:
        """Give the classes of a feature their new numbers, and their text features the new names."""
        table = np.array(self.numbers[key], np.int64)
        labels = np.asarray(values[key], np.int64)
        if labels.size and not 0 <= labels.min() <= labels.max() < len(table):
            bad = int(labels.min() if labels.min() < 0 else labels.max())
            problem = f"{escape(key)} is {bad}, expected 0 to {len(table) - 1}"
            raise IntegrityError("record", problem, _REMEDY)
        new = table[labels]
        stay = new != DROPPED
        objects = self.schema.object_keys
        if not stay.all() and key in objects:
            _keep_objects(values, objects, stay)
        values[key] = new[stay]
        if self.schema.kind(key) == "tags":  # two classes may be one now
            values[key] = np.array(list(dict.fromkeys(values[key].tolist())), np.int64)
        text = text_key(self.schema, key)
        if text is not None and text in values:
            values[text] = [self.names[key][label].encode() for label in values[key]]


def text_key(schema: Schema, key: str) -> str | None:
    """Return the feature with the class names of the label `key`, value for value; None if there is none."""
    beside = key.removesuffix("/label") + "/text"
    if schema.key(LABEL) == key and schema.key(TEXT) is not None:
        beside = schema.key(TEXT) or ""
    feature = schema.features.get(beside)
    there = feature is not None and feature.dtype == "bytes" and feature.shape == schema.features[key].shape
    return beside if there and schema.kind(beside) == "text" else None


def _keep_objects(values: dict[str, Any], keys: list[str], stay: np.ndarray) -> None:
    """Keep in the columns `keys` the values of objects with `stay`, bool [n]; a column may have several per object.

    Raise IntegrityError for a column whose length is no multiple of n.
    """
    for key in keys:
        of_key = values.get(key, [])
        each, rest = divmod(len(of_key), len(stay))
        if rest:
            problem = f"{escape(key)} has {number(len(of_key), 'value')} for {number(len(stay), 'object')}"
            raise IntegrityError("record", problem, _REMEDY)
        chosen = np.flatnonzero(np.repeat(stay, each))
        values[key] = [of_key[i] for i in chosen] if isinstance(of_key, list) else of_key[chosen]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return one == other
    return one is other or (one.dtype == other.dtype and one.tobytes() == other.tobytes())
