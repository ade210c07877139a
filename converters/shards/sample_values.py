"""Checks of the values that a source gives for a sample against the source's own schema, before they are written.

A record holds flat lists of one dtype. Anything else would be flattened, cut or taken for another number.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.schema import IMAGE_KEYS, Dtype, Feature, Schema, Value

_TYPES: Mapping[Dtype, tuple[type, ...]] = {
    "bytes": (bytes,),
    "int64": (int, np.integer),
    "float32": (float, int, np.floating, np.integer),
}
_PLAIN: Mapping[Dtype, type] = {"bytes": bytes, "int64": int, "float32": float}
_INT64 = range(-(2**63), 2**63)


def own_features(schema: Schema) -> dict[str, Feature]:
    """The features of a dataset that its source gives, not the conversion."""
    made = IMAGE_KEYS | set(schema.object_keys)
    made |= {RASTER, RASTER_FORMAT} if schema.raster is not None else set()
    return {key: feature for key, feature in schema.features.items() if key not in made}


def checked_values(sample: Sample, features: Mapping[str, Feature]) -> dict[str, Value]:
    """The values of `sample`, lists of lists made flat, row by row.

    Raises UsageError, which names sample and key, if they do not match `features`.
    """
    if sample.features.keys() != features.keys():
        lacking = sorted(features.keys() - sample.features.keys())
        key = lacking[0] if lacking else sorted(sample.features.keys() - features.keys())[0]
        problem = "has no value" if lacking else "has a value, but source.schema has no such feature"
        raise _error(sample, key, problem, "give each sample exactly the features of the schema")
    values: dict[str, Value] = {}
    for key, feature in features.items():
        value = sample.features[key]
        # Most values of most samples: seen at once, as each image has a few.
        if feature.shape == () and type(value) is _PLAIN[feature.dtype] and (type(value) is not int or value in _INT64):
            values[key] = value
            continue
        values[key] = value if feature.scalar else _flat(value, len(feature.shape))
        if problem := _problem(feature, value, values[key]):
            raise _error(sample, key, problem, _remedy(feature, value))
    return values


def _error(sample: Sample, key: str, problem: str, remedy: str) -> UsageError:
    return UsageError(f"sample {name_text(sample.key)}, feature {key}", problem, remedy)


def _flat(value: Any, depth: int) -> Any:
    """Flatten nested lists of `depth` levels; return anything else as it is."""
    for _ in range(depth - 1):
        if not isinstance(value, list) or not all(isinstance(part, list) for part in value):
            return value
        value = [item for part in value for item in part]
    return value


def _problem(feature: Feature, value: Any, flat: Any) -> str:
    """Describe why `value` (`flat`: made flat) does not fit `feature`; "" if it does."""
    types = _TYPES[feature.dtype]
    if feature.scalar:
        if not isinstance(value, types):
            return f"got {_shown(value)}, expected one {_expected(feature)}"
    elif not isinstance(flat, list | tuple):
        return f"got {_shown(value)}, expected a list of {_expected(feature)}"
    for item in (value,) if feature.scalar else flat:
        if not isinstance(item, types):
            return f"got {_shown(item)} in the list, expected {_expected(feature)}"
        if feature.dtype == "int64" and int(item) not in _INT64:
            return f"got {int(item)}, expected a number that fits int64"
    if feature.count is not None and not feature.scalar and _shape(value) != feature.shape:
        return f"got {_shape(value)} values, expected {feature.shape}"
    if feature.kind == "tags" and len(set(flat)) < len(flat):
        twice = next(item for i, item in enumerate(flat) if item in flat[:i])
        return f"got the class {int(twice)} twice, expected each class once at most"
    return ""


def _shape(value: Any) -> tuple[int, ...]:
    """Shape of a list or of nested lists; it ends at the first level where lists differ in length."""
    shape: list[int] = []
    level: list[Any] = [value]
    while level and all(isinstance(part, list | tuple) for part in level) and len({len(part) for part in level}) == 1:
        shape.append(len(level[0]))
        level = [item for part in level for item in part]
    return tuple(shape)


def _expected(feature: Feature) -> str:
    return {"bytes": "bytes", "int64": "int", "float32": "float"}[feature.dtype]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"the text {escape(value)[:40]!r}" if isinstance(value, str) else type(value).__name__


def _remedy(feature: Feature, value: Any) -> str:
    if isinstance(value, str):
        return "encode it: .encode()"
    if isinstance(value, np.ndarray) and not feature.scalar:
        flat = value.ndim == len(feature.shape)
        return ".tolist() makes a list of it" if flat else f"flatten it, or give it Feature(shape={value.shape})"
    return "correct the source, or its schema"
