"""The features of a dataset as its commands print them: key, dtype, what values mean, and how many there are."""

from collections.abc import Iterable

from shardfeed.errors import escape
from shardfeed.schema import Feature, Schema
from shardfeed.text import table


def feature_table(schema: Schema, keys: Iterable[str] | None = None) -> str:
    """A line for each feature, or for each of `keys`, sorted by key."""
    rows = [["feature", "dtype", "kind", "values", ""]]
    for key in sorted(schema.features if keys is None else keys):
        feature = schema.features[key]
        called = f"is {feature.alias} to readers" if feature.alias else ""
        rows.append([escape(key), feature.dtype, schema.kind(key), _values(feature), called])
    return table(rows)


def _values(feature: Feature) -> str:
    if feature.scalar:
        return "one"
    return "any number" if feature.ragged else "x".join(map(str, feature.shape))
