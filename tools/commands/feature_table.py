"""The features of a dataset as its commands print them: key, dtype, what values mean, and how many there are."""

from shardfeed.errors import escape
from shardfeed.schema import Feature, Schema
from shardfeed.text import table


def feature_table(schema: Schema) -> str:
    """A line for each feature, sorted by key."""
    rows = [["feature", "dtype", "kind", "values"]]
    for key, feature in sorted(schema.features.items()):
        rows.append([escape(key), feature.dtype, schema.kind(key), _values(feature)])
    return table(rows)


def _values(feature: Feature) -> str:
    if feature.scalar:
        return "one"
    return "any number" if feature.ragged else "x".join(map(str, feature.shape))
