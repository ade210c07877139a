"""`preview`: a sheet of a split's images, or of one image as augmentations and crops of training make it."""

import io
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_LABEL,
    OBJECT_MASK,
    RASTER,
)
from shardfeed.declared import Natural, Seed, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import Augment, Size, Views
from shardfeed.pipelines.arrays import array_batches
from shardfeed.pipelines.samples import SplitLike
from shardfeed.readers.split import Split
from shardfeed.schema import Schema
from shardfeed.text import listing
from shardfeed.tools.contact_sheet import TILE, WIDE_TILE, SheetRow, Tile, draw_sheet
from shardfeed.tools.overlay import draw_annotations, has_annotations, raster_legend

_COLUMNS, _ROWS = 4, 3
_DRAWS = _COLUMNS * _ROWS
_MOST_WIDE = 4  # views of large pictures
_POINTS = (KEYPOINT_X, KEYPOINT_Y, KEYPOINT_VISIBILITY)
# The targets that a sheet shows, each with the features of the dataset that it comes from.
_TARGETS: dict[str, tuple[str, ...]] = {
    "boxes": (*BOX, OBJECT_LABEL),
    "masks": (*BOX, OBJECT_LABEL, OBJECT_MASK),
    "keypoints": (*BOX, OBJECT_LABEL, *_POINTS),
    "raster": (RASTER,),
}


@checked
def preview(
    split: SplitLike,
    *,
    augment: Augment = (),
    views: Views = None,
    image_size: Size = 224,
    index: Natural | None = None,
    seed: Seed = 0,
) -> Image.Image:
    """Draw an image of a split twelve times, as training would show it in twelve epochs, on a sheet for a notebook.

    Boxes, masks, key points and segmentation masks are drawn as they are after the crop and the augmentations.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        augment, views, image_size: as in `array_batches`. With views, each row of the sheet has all views of one epoch,
            and no annotations.
        index: the image, `split[index]`. None: one that `seed` chooses.
        seed: 0 to 2^63 - 1; for the image and for its draws.

    Returns an RGB image of Pillow, which notebooks show; `save` writes it to a file.

    Raises:
        UsageError: for an empty split or an `index` beyond its end; for what `array_batches` refuses.
        RecordError: for a damaged record or an image that cannot be decoded.

    Example:
        from shardfeed.pipelines.augment import color_jitter, grayscale

        shardfeed.preview(data["train"], augment=[color_jitter(0.4, 0.4, 0.4), grayscale()])
    """
    number = _number_of(split, index, seed)
    one = split[number : number + 1]
    options: Any = {"batch_size": 1, "order": "stored", "start_step": 0, "seed": seed, "workers": 1}
    title = f"{split.name}, image {number}"
    if views is not None:
        batches = array_batches(one, views=views, augment=augment, label=None, **options)
        return _sheet_of_views(batches, len(views), title)
    targets = _targets_of(split.schema)
    options |= {"features": [], "targets": targets, "flip": _may_flip(split.schema, targets)}
    batches = array_batches(one, image_size=image_size, augment=augment, **options)
    note = f"{_DRAWS} draws of {listing([each.name for each in augment]) or 'a crop'}"
    return _sheet_of_draws(batches, _drawn_schema(split.schema, targets), title, note)


def _number_of(split: Split, index: int | None, seed: int) -> int:
    """The number of the image that is shown. Raises UsageError if there is none."""
    if index is None and len(split):
        return random.Random(seed).randrange(len(split))
    if index is None or index >= len(split):
        got = "got a split without samples" if index is None else f"got {index}, expected less than {len(split)}"
        raise UsageError("index", got, "choose another split" if index is None else "leave it out")
    return index


def _targets_of(schema: Schema) -> list[str]:
    """The targets that a sheet shows of a dataset."""
    return [name for name, keys in _TARGETS.items() if schema.features.keys() >= {*keys}]


def _may_flip(schema: Schema, targets: Sequence[str]) -> bool:
    """Whether crops may be mirrored: not if key points could not be."""
    return "keypoints" not in targets or bool(schema.keypoints and schema.keypoints.flip)


def _drawn_schema(schema: Schema, targets: Sequence[str]) -> Schema:
    """The schema of what is drawn: the features of the targets alone."""
    keys = {key for name in targets for key in _TARGETS[name]} | {IS_CROWD}
    features = {key: feature for key, feature in schema.features.items() if key in keys}
    names = {key: names for key, names in schema.class_names.items() if key in features}
    keypoints = schema.keypoints if "keypoints" in targets else None
    return Schema(features, names, keypoints=keypoints, raster=schema.raster if "raster" in targets else None)


def _sheet_of_draws(batches: Iterable[Any], schema: Schema, title: str, note: str) -> Image.Image:
    """Twelve draws of an image with its annotations. `batches`: with one image each, of an epoch each."""
    tiles = [_tile_of(epoch, batch, schema) for epoch, batch in enumerate(islice(batches, _DRAWS))]
    rows = [SheetRow("", "", "", tiles[start : start + _COLUMNS]) for start in range(0, len(tiles), _COLUMNS)]
    return draw_sheet(title, [note], rows, _COLUMNS, side=WIDE_TILE, legend=raster_legend(schema))


def _tile_of(epoch: int, batch: Mapping[str, Any], schema: Schema) -> Tile:
    """The image of a batch of one, with its annotations."""
    height, width = batch["images"].shape[1:3]
    record = _record_of({name: values[0] for name, values in batch.items()}, height, width)
    drawn = partial(draw_annotations, record=record, schema=schema) if has_annotations(schema) else None
    return Tile.of(_png(batch["images"][0]), f"epoch {epoch}", side=WIDE_TILE, drawn=drawn)


def _record_of(targets: Mapping[str, Any], height: int, width: int) -> dict[str, Any]:
    """The targets of an image of this size as a record has them, as far as pictures show them."""
    record: dict[str, Any] = {}
    if "boxes" in targets:
        sides = targets["boxes"] / (width, height, width, height)
        record |= dict(zip(BOX, sides.T, strict=True))
        record |= {OBJECT_LABEL: targets["labels"], IS_CROWD: targets["iscrowd"]}
    if "masks" in targets:
        record[OBJECT_MASK] = [_png(mask) for mask in targets["masks"]]
    if "keypoints" in targets:
        columns = np.moveaxis(targets["keypoints"] / (width, height, 1), -1, 0)
        record |= dict(zip(_POINTS, columns, strict=True))
    if "raster" in targets:
        record[RASTER] = _png(targets["raster"].astype(np.uint16))
    return record


def _sheet_of_views(batches: Iterable[Any], columns: int, title: str) -> Image.Image:
    """Three draws of all views of an image, a row for each. `batches`: with one image each, of an epoch each."""
    side = WIDE_TILE if columns <= _MOST_WIDE else TILE
    rows = []
    for epoch, images in enumerate(islice(batches, _ROWS)):
        tiles = [Tile.of(_png(view[0]), f"view {place}", side=side) for place, view in enumerate(images)]
        rows.append(SheetRow("", "", f"epoch {epoch}", tiles))
    return draw_sheet(title, [f"{_ROWS} draws of {columns} views"], rows, columns, side=side)


def _png(pixels: np.ndarray) -> bytes:
    """A PNG of pixels, [height, width], or [height, width, 3] of 8 bits, or of 16, of which it has the upper 8."""
    if pixels.ndim == 3 and pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()
