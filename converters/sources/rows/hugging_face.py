"""Hugging Face's description of columns, which `datasets` stores in the schema of its Parquet files."""

import json
from collections.abc import Mapping
from typing import Any


def features_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """The features by column, from the metadata of a schema; empty if `datasets` did not write it."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def item_of(about: Any) -> dict[str, Any]:
    """The feature of a list's elements, as written by old and new `datasets`; any other feature unchanged."""
    if isinstance(about, list) and about:
        about = about[0]
    elif isinstance(about, dict) and isinstance(about.get("feature"), dict):
        about = about["feature"]
    return about if isinstance(about, dict) else {}


def class_names_of(about: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names of a ClassLabel."""
    names = about.get("names") if about.get("_type") == "ClassLabel" else None
    return tuple(names) if isinstance(names, list) and names and all(isinstance(n, str) for n in names) else None
