"""Checks of `verify --deep` on a record's objects and mask."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.annotations import OBJECT_LABEL, OBJECT_MASK, OBJECT_TEXT, RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.images.mask_file import place_text, read_mask
from shardfeed.converters.rejects import RejectedError
from shardfeed.kinds import objects_problem
from shardfeed.schema import HEIGHT, WIDTH, Schema

_GRAY, _PNG = 0, b"\x89PNG\r\n\x1a\n"
_BITS, _COLOR_TYPE = 24, 25  # offsets in a PNG file (ISO/IEC 15948, 11.2.2)


def annotations_problem(record: Mapping[str, tuple[str, Any]], schema: Schema) -> str:
    """Describe what is wrong with the objects or the mask of a record; "" if they are right.

    `record`: as `decode` gives it, with one height and one width.
    """
    size = int(record[WIDTH][1][0]), int(record[HEIGHT][1][0])
    if schema.object_keys:
        values = {key: record[key][1] for key in schema.object_keys if key in record}
        if problem := objects_problem(values, schema) or _classes_problem(values, schema):
            return problem
        for i, mask in enumerate(values.get(OBJECT_MASK, ())):
            if problem := _mask_problem(bytes(mask), size, 8, 1, None):
                return f"{OBJECT_MASK} of object {i}: {problem}"
    if schema.raster is not None and (problem := _raster_problem(record, schema.raster, size)):
        return problem
    for key in schema.of_kind("tags"):
        labels = list(record.get(key, ("", ()))[1])
        if len(set(labels)) < len(labels):
            return f"{key} contains a class twice"
    return ""


def _classes_problem(values: Mapping[str, Sequence[Any]], schema: Schema) -> str:
    names = schema.class_names.get(OBJECT_LABEL)
    if names is None:
        return ""
    for i, label in enumerate(values.get(OBJECT_LABEL, ())):
        if not 0 <= label < len(names):
            return f"{OBJECT_LABEL} of object {i} is {label}, expected 0 to {len(names) - 1}"
        if OBJECT_TEXT in values and bytes(values[OBJECT_TEXT][i]) != names[label].encode():
            return f"{OBJECT_TEXT} of object {i} is not {names[label]!r}, the name of class {label}"
    return ""


def _raster_problem(record: Mapping[str, tuple[str, Any]], raster: Raster, size: tuple[int, int]) -> str:
    for key in (RASTER, RASTER_FORMAT):
        if len(record.get(key, ("", ()))[1]) != 1:
            return f"{key} is not one value"
    if bytes(record[RASTER_FORMAT][1][0]) != b"png":
        return f"{RASTER_FORMAT} is not png"
    problem = _mask_problem(bytes(record[RASTER][1][0]), size, raster.bits, len(raster.class_names) - 1, raster.void)
    return f"{RASTER}: {problem}" if problem else ""


def _mask_problem(data: bytes, size: tuple[int, int], bits: int, most: int, void: int | None) -> str:
    """Describe why `data` is not a gray PNG of `bits` and that (width, height), with values 0 to `most`, or `void`."""
    if not data.startswith(_PNG):
        return f"not a PNG, it begins with {data[:8]!r}"
    try:
        pixels = read_mask(data).pixels
    except RejectedError as error:
        return f"it does not decode: {error}"
    if (data[_BITS], data[_COLOR_TYPE]) != (bits, _GRAY):
        return f"a PNG of {data[_BITS]} bits and color type {data[_COLOR_TYPE]}, expected {bits} bits, gray"
    if (found := pixels.shape[::-1]) != size:
        return f"{found[0]} x {found[1]} pixels (width x height), the image has {size[0]} x {size[1]}"
    bad = pixels > most
    if void is not None:
        bad &= pixels != void
    if bad.any():
        at = int(np.argmax(bad))
        more = f", or {void} for void" if void is not None else ""
        return f"the value {pixels.flat[at]} at {place_text(at, size[0])}, expected 0 to {most}{more}"
    return ""
