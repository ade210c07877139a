"""A Parquet file and the kinds of its columns, with the description that Hugging Face's `datasets` stores in it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shardfeed.errors import UsageError, escape, needing_extra

# Keys inside an object, of its box.
BOX_KEYS = ("bbox", "box", "bboxes", "boxes")
WHOLE = "copy or download it again"


@contextmanager
def parquet_file(path: str, error: type[UsageError] = UsageError) -> Iterator[Any]:
    """A Parquet file, by pyarrow.

    Raises `error` for one that is truncated, encrypted or damaged, also while it is read; MissingExtraError.
    """
    with needing_extra("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            yield file
    except UsageError:
        raise
    except (pa.ArrowException, OSError, ValueError) as why:  # ValueError: of texts that are not UTF-8, too
        problem = f"cannot be read as Parquet: {escape(str(why)[:120])}"
        raise error(path, problem, f"it is truncated, encrypted or of another format: {WHOLE}") from None


def struct_fields(kind: Any) -> dict[str, Any]:
    """The types in a pyarrow type of structs, by name; empty for any other type."""
    import pyarrow.types as kinds

    return {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)} if kinds.is_struct(kind) else {}


def _has_boxes(fields: Mapping[str, Any]) -> bool:
    """Whether a struct has a list of numbers, or of lists of them, under a key of boxes."""
    boxes = (kind_of_type(fields[key]) for key in BOX_KEYS if key in fields)
    return any(kind in ("integers", "floats", "other") for kind in boxes)


def kind_of_type(kind: Any) -> Any:
    """The kind of a pyarrow type, as in rows/roles.py; "null" if it has no values."""
    import pyarrow.types as kinds

    if kind is None:
        return "null"
    if kinds.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if fields := struct_fields(kind):
        if "bytes" in fields and kind_of_type(fields["bytes"]) == "image":
            return "image"
        return "objects" if _has_boxes(fields) else "other"
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        of = kind_of_type(kind.value_type)
        return {"integer": "integers", "float": "floats", "text": "texts", "objects": "objects"}.get(of, "other")
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return "image"
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return "text"
    if kinds.is_integer(kind) or kinds.is_boolean(kind):
        return "integer"
    return "float" if kinds.is_floating(kind) else "null" if kinds.is_null(kind) else "other"


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
