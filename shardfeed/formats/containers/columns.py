"""What other programs call a record's features, and how values stand in JSON."""

import base64
from typing import Any

import numpy as np

from shardfeed.formats.containers.container import image_key
from shardfeed.schema import LABEL, Schema, Value


def column_names(schema: Schema) -> dict[str, str]:
    """Feature -> column: `image` and `label`, as others call those two, and of all others the key itself."""
    names = {key: key for key in schema.features}
    for key, name in ((image_key(schema), "image"), (label_key(schema), "label")):
        if key is not None:
            names[key] = name
    return {key: key if name != key and name in schema.features else name for key, name in names.items()}


def label_key(schema: Schema) -> str | None:
    """The feature that is the one class of a record; None where there is none."""
    key = schema.key(LABEL)
    return key if key is not None and key in schema.class_names and schema.features[key].scalar else None


def plain(value: Value) -> Any:
    """A value as JSON has it: bytes that are no text as {"base64": ...}, floats as the float32 that records hold."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [plain(item) for item in value]  # type: ignore[arg-type]  # a list in a list has plain items, too
    return float(np.float32(value)) if isinstance(value, float) else value
