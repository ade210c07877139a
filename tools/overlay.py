"""Draw the annotations of an image over its picture: boxes with names, masks, keypoints, a class for each pixel."""

import colorsys
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from shardfeed.annotations import BOX, IS_CROWD, OBJECT_LABEL, OBJECT_MASK, RASTER, Raster
from shardfeed.kinds import POINTS, RecordKind
from shardfeed.schema import Schema
from shardfeed.tools.lettering import shortened, text_width, write

_NAME_WIDTH, _NAME_SIZE, _NAME_HEIGHT = 100, 10, 13  # pixels, of the plate with a class name
_LINE = 2  # pixels, of a box
_DOT = 3  # pixels, radius of a keypoint
_TINT = 0.5  # share of a class's colour in its pixels
_VOID = (255, 255, 255)
_BACKGROUND = "background"  # a class of this name is not tinted


def class_colour(label: int) -> tuple[int, int, int]:
    """RGB of a class: always the same for a label, and different from neighbouring labels."""
    red, green, blue = colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.85 if label % 2 else 1.0, 1.0 - label % 3 * 0.15)
    return round(red * 255), round(green * 255), round(blue * 255)


def has_annotations(schema: Schema) -> bool:
    """Whether a record has annotations to draw over its image."""
    return bool(schema.object_keys or schema.of_kind("raster"))


def raster_legend(schema: Schema) -> list[tuple[tuple[int, int, int], str]]:
    """Colours and names of pixel classes, as in `draw_annotations`; none without a raster."""
    if schema.raster is None:
        return []
    names = [(class_colour(v), name) for v, name in enumerate(schema.raster.class_names) if name.lower() != _BACKGROUND]
    return [*names, (_VOID, "void")] if schema.raster.void is not None else names


def draw_annotations(picture: Image.Image, record: Mapping[str, Any], schema: Schema) -> Image.Image:
    """`picture`, RGB, the image of `record` at any size, with the record's annotations drawn over it.

    A crowd has a thin box. An occluded keypoint is a ring. Masks that do not decode raise Pillow's errors.
    """
    if RASTER in schema.of_kind("raster"):
        picture = _tinted(picture, _decoded(record[RASTER]), schema)
    if not schema.object_keys:
        return picture
    sides = [np.asarray(record.get(key, ())) for key in BOX]
    corners = np.rint(np.stack(sides, axis=-1) * (*picture.size, *picture.size)).astype(int)
    labels = np.asarray(record.get(OBJECT_LABEL, np.zeros(len(corners), int))).astype(int).tolist()
    crowds = np.asarray(record.get(IS_CROWD, np.zeros(len(corners), int))).tolist()
    masks = record.get(OBJECT_MASK, []) if schema.features.get(OBJECT_MASK) else []
    for mask, label in zip(masks, labels, strict=False):
        picture = _coloured(picture, _fitted(_decoded(mask), picture.size) != 0, class_colour(label))
    canvas = ImageDraw.Draw(picture)
    points = [kind for kind in POINTS if kind.is_in(schema) and kind.each(schema.keypoints)]
    outlined = any(kind.outline for kind in points)
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=-1)
    order = np.argsort(-areas, kind="stable").tolist()  # small ones last, so that large ones do not hide them
    for i in order:
        left, top, right, bottom = corners[i].tolist()
        edges = (left, top, max(left, right - 1), max(top, bottom - 1))
        if not outlined:
            canvas.rectangle(edges, outline=class_colour(labels[i]), width=1 if crowds[i] else _LINE)
    for kind in points:
        _draw_points(kind, canvas, record, schema, labels, picture.size)
    names = schema.class_names.get(OBJECT_LABEL, ())
    for i in order if names else ():
        name = names[labels[i]] + (", crowd" if crowds[i] else "")
        _draw_name(canvas, name, class_colour(labels[i]), corners[i].tolist(), picture.width)
    return picture


def _decoded(png: Any) -> np.ndarray:
    """[height, width], a value for each pixel; palette indices are not converted to colours."""
    with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
        return np.asarray(image)


def _fitted(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """`values` resized to `size` (width, height) with nearest-neighbour interpolation."""
    rows = ((np.arange(size[1]) + 0.5) * values.shape[0] / size[1]).astype(int)
    columns = ((np.arange(size[0]) + 0.5) * values.shape[1] / size[0]).astype(int)
    return values[rows[:, None], columns]


def _coloured(picture: Image.Image, where: np.ndarray, colour: tuple[int, int, int]) -> Image.Image:
    tint = Image.blend(picture, Image.new("RGB", picture.size, colour), _TINT)
    return Image.composite(tint, picture, Image.fromarray(where.astype(np.uint8) * 255))


def _tinted(picture: Image.Image, values: np.ndarray, schema: Schema) -> Image.Image:
    """`picture` with each pixel in the colour of its class, void in white."""
    values = _fitted(values, picture.size)
    raster = schema.raster or Raster(())
    plain = {value for value, name in enumerate(raster.class_names) if name.lower() == _BACKGROUND}
    for value in np.unique(values).tolist():
        if value == raster.void or value not in plain:
            picture = _coloured(picture, values == value, _VOID if value == raster.void else class_colour(value))
    return picture


def _draw_points(
    kind: RecordKind,
    canvas: ImageDraw.ImageDraw,
    record: Mapping[str, Any],
    schema: Schema,
    labels: list[int],
    size: tuple[int, int],
) -> None:
    """Draw the lines of a kind between existing points, and a dot for each with a visibility; rings for occluded."""
    columns = [np.asarray(record.get(key, ())).reshape(-1, kind.each(schema.keypoints)) for key in kind.features]
    places = np.floor(np.stack(columns[:2], axis=-1) * size).astype(int)
    seen = columns[2] if kind.visible else np.full(places.shape[:2], 2)
    for points, visible, label in zip(places.tolist(), seen.tolist(), labels, strict=True):
        colour = class_colour(label)
        for a, b in kind.lines(schema.keypoints) if kind.lines is not None else ():
            if visible[a] and visible[b]:
                canvas.line([tuple(points[a]), tuple(points[b])], colour, 2)
        for (x, y), state in zip(points, visible, strict=True) if kind.visible else ():
            if state:
                edges = (x - _DOT, y - _DOT, x + _DOT, y + _DOT)
                canvas.ellipse(edges, fill=colour if state == 2 else "white", outline="white" if state == 2 else colour)


def _draw_name(
    canvas: ImageDraw.ImageDraw, name: str, colour: tuple[int, int, int], corners: list[int], width: int
) -> None:
    """A plate in the class's colour with its name: above the box, or inside it if there is no room above."""
    text = shortened(name, _NAME_SIZE, _NAME_WIDTH)
    wide = text_width(text, _NAME_SIZE) + 3
    left = max(0, min(corners[0], width - wide - 1))
    top = corners[1] - _NAME_HEIGHT if corners[1] >= _NAME_HEIGHT else corners[1]
    canvas.rectangle((left, top, left + wide, top + _NAME_HEIGHT - 1), fill=colour)
    light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    write(canvas, (left + 2, top), text, _NAME_SIZE, "black" if light > 128 else "white")
