"""Find the records of a split that meet a condition."""

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from shardfeed.annotations import XMIN
from shardfeed.converters.operations.choosing.parse import Comparison, Condition, Joined, Not
from shardfeed.errors import UsageError, escape, name_bytes
from shardfeed.readers.columns import read_values
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL, Schema
from shardfeed.text import listing

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "in": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NEGATED = {"!=": "==", "not in": "in"}
_LARGEST = 2**63 - 1
_CLASS, _SPLIT, _OBJECTS = "class", "split", "objects"


def evaluate(condition: Condition, split: Split) -> np.ndarray:
    """bool [n]. `!=` and `not in` hold where `==` and `in` do not.

    Features with one value a record come from columns; for others all records are read. Raises UsageError for names
    that the dataset does not have and values that cannot be compared, IntegrityError for damage.
    """
    if isinstance(condition, Not):
        return ~evaluate(condition.condition, split)
    if isinstance(condition, Joined):
        found = evaluate(condition.conditions[0], split)
        for other in condition.conditions[1:]:
            right = evaluate(other, split)
            found = found & right if condition.word == "and" else found | right
        return found
    if condition.operator in _NEGATED:
        return ~_compare(replace(condition, operator=_NEGATED[condition.operator]), split)  # type: ignore[arg-type]
    return _compare(condition, split)


def check_splits(condition: Condition, splits: Collection[str], schema: Schema) -> None:
    """Raise UsageError if the condition names a split that is not in the dataset's `splits`."""
    if isinstance(condition, Not):
        check_splits(condition.condition, splits, schema)
    elif isinstance(condition, Joined):
        for one in condition.conditions:
            check_splits(one, splits, schema)
    elif condition.name == _SPLIT and schema.key(_SPLIT) is None:
        for text in condition.texts:
            if text not in splits:
                raise _error(condition, f"{escape(text)!r} is not a split", f"they are {listing(list(splits), 8)}")


def _compare(condition: Comparison, split: Split) -> np.ndarray:
    schema, name = split.schema, condition.name
    if name == _SPLIT and schema.key(name) is None:
        _check_equality(condition, "a split")
        return np.full(len(split), split.name in condition.texts)
    if name == _OBJECTS and schema.key(name) is None and schema.object_keys:
        return _any_number(condition, _counts(split))
    if name == _OBJECTS and not any(key.rpartition("/")[2] == name for key in schema.features):
        raise _error(condition, "the dataset has no objects", "it needs a dataset with boxes: leave it out")
    key = feature_of(name, schema, condition.at)
    feature = schema.features[key]
    if schema.kind(key) in ("image", "raster", "mask"):
        raise _error(condition, f"{escape(key)} contains images, which cannot be compared", "choose another feature")
    if key in schema.class_names:
        _check_equality(condition, "a class")
        classes = np.array(sorted(_labels(condition, schema.class_names[key])), np.int64)
        return _match(split, key, lambda values: np.isin(values, classes))
    if feature.dtype == "bytes":
        _check_equality(condition, "text")
        wanted = set(map(name_bytes, condition.texts))
        return _match(split, key, lambda values: np.fromiter((v in wanted for v in values), bool, len(values)))
    if other := _other_feature(condition, schema):
        if not feature.scalar:
            raise _error(condition, f"{escape(key)} has several values per record", "compare it with a number")
        return _COMPARE[condition.operator](split.column(key), split.column(other))
    return _match(split, key, lambda values: _any_number(condition, np.asarray(values)))


def feature_of(name: str, schema: Schema, at: int) -> str:
    """Key of the feature that a condition calls `name`. Raise UsageError if there is none, or more than one."""
    if (found := schema.key(name)) is not None:
        return found
    label = schema.key(LABEL)
    if name == _CLASS and label in schema.class_names:
        return str(label)
    keys = [key for key in schema.features if key.endswith(f"/{name}")]
    if name == _CLASS:
        keys = list(schema.class_names)
    if len(keys) == 1:
        return keys[0]
    place = f"{name!r} at character {at + 1}"
    if keys:
        raise UsageError("where", f"{place} may be {' or '.join(map(escape, sorted(keys)))}", "write the full key")
    known = {key: key for key in schema.features} | {key.rpartition("/")[2]: key for key in schema.features}
    near = get_close_matches(name, [*known, _CLASS, _SPLIT, _OBJECTS], 2)
    all_ = f"it has {listing(sorted({key.rpartition('/')[2] for key in schema.features} | {_SPLIT}), 20)}"
    remedy = f"did you mean {' or '.join(map(escape, near))}?" if near else all_
    raise UsageError("where", f"{place} is not a feature of the dataset", remedy)


def _match(split: Split, key: str, matches: Callable[[Any], np.ndarray]) -> np.ndarray:
    """bool [n]: records of which any value matches; `matches`: bool [k] of k values."""
    if split.schema.features[key].scalar:
        return matches(split.column(key))
    found = np.zeros(len(split), bool)
    for place, values in read_values(split.shards, split.schema, key):
        found[place] = bool(matches(values).any()) if len(values) else False
    return found


def _counts(split: Split) -> np.ndarray:
    """The number of objects of each record, int64 [n]."""
    key = XMIN if XMIN in split.schema.features else split.schema.object_keys[0]
    counts = np.zeros(len(split), np.int64)
    for place, values in read_values(split.shards, split.schema, key):
        counts[place] = len(values)
    return counts


def _labels(condition: Comparison, names: Sequence[str]) -> Iterable[int]:
    """Numbers of the classes that a comparison names. Raise UsageError for a name that is not a class."""
    number = {name: i for i, name in enumerate(names)}
    for value in condition.texts:
        if value not in number:
            near = get_close_matches(value, names, 2)
            remedy = f"did you mean {' or '.join(map(escape, near))}?" if near else f"they are {listing(names, 8)}"
            raise _error(condition, f"{escape(value)!r} is not a class", remedy)
        yield number[value]


def _any_number(condition: Comparison, values: np.ndarray) -> np.ndarray:
    """bool, of the shape of `values`: which values match any of the condition's numbers."""
    compare = _COMPARE[condition.operator]
    found = np.zeros(values.shape, bool)
    for value in condition.values:
        if isinstance(value, str):
            raise _error(condition, f"{escape(value)!r} is not a number", "compare it with a number")
        found |= compare(values, value if abs(value) <= _LARGEST else float(value))
    return found


def _other_feature(condition: Comparison, schema: Schema) -> str | None:
    """The feature of numbers that a condition compares with; None where that is a value."""
    value = condition.values[0]
    if not isinstance(value, str) or condition.operator == "in" or condition.quoted[0]:
        return None
    key = feature_of(value, schema, condition.at)
    if not schema.features[key].scalar or schema.features[key].dtype == "bytes" or key in schema.class_names:
        raise _error(condition, f"{escape(key)} is not one number per record", "compare it with a number")
    return key


def _check_equality(condition: Comparison, what: str) -> None:
    if condition.operator not in ("==", "in"):
        raise _error(condition, f"{what} has no order", "use == != in or not in")


def _error(condition: Comparison, problem: str, remedy: str) -> UsageError:
    return UsageError("where", f"{escape(condition.name)} at character {condition.at + 1}: {problem}", remedy)
