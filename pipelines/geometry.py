"""Arithmetic of boxes, keypoints and rasters for a cropped, mirrored and resized window of their image.

This is the reference, in NumPy. TensorFlow and PyTorch compute the same in float32, with the operations in the same
order, so results are equal bit for bit; for rasters and masks, pixels are chosen with integer arithmetic. Tests check
this.

One `View`, as a crop of `augment/crops.py` chooses it, applies to all parts of a sample. After the crop, augmentations
may move or erase pixels: `View.moves`, which `augment.places` follows, for TensorFlow too.

- Boxes: the four corners move; the result is the box around what of that shape is still in the target. Its visible
  share is that of the crop, times the share of the moved shape that is in the target and not erased; an erased
  rectangle does not change the box. Areas grow as the moved shape does: by the determinant, or in a perspective by the
  box's own ratio.
- Key points and corners of rotated boxes move; key points outside of the target or erased are missing. An odd number of
  mirror images, with that of the crop, swaps left and right.
- Masks and rasters move with the same places as the image's pixels, nearest neighbour; outside of the image and where
  it is erased, masks are 0 and rasters void. A raster without a void value keeps its values where the image is erased.
- There is no way back by `to_source` once places have moved.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from shardfeed.declared import Range, checked
from shardfeed.errors import UsageError, shown
from shardfeed.pipelines.augment.edits import Edit
from shardfeed.pipelines.augment.operations.horizontal_flip import flipped_columns, flipped_points, flipped_sides
from shardfeed.pipelines.augment.places import are_mirrored, are_moved, move_boxes, move_points, move_raster
from shardfeed.pipelines.augment.view import View

MIN_VISIBLE = 0.1  # default share of an object's box: with less, the object is dropped
# Share of the target's side: narrower boxes are dropped. So minimum and maximum differ in float32, in pixels and as
# fractions, and no model gets a box without area.
LEAST_SIDE = 2.0**-20


class SeenBoxes(NamedTuple):
    """The boxes that are kept: k of n.

    `boxes`: float32 [k, 4], xmin, ymin, xmax, ymax in pixels of the target, clipped to the content, min < max. `kept`:
    int64 [k], their indices in the n boxes, ascending, to select from other columns. `visible`: float32 [k], the share
    of each box inside the window, 0..1. `growth`: float64 [k], the factor by which the view's moves make each larger;
    None: there are none.
    """

    boxes: np.ndarray
    kept: np.ndarray
    visible: np.ndarray
    growth: np.ndarray | None = None

    def chosen(self, rows: np.ndarray) -> "SeenBoxes":
        """Those of some rows, by number or as bool [k]."""
        columns: Any = (None if values is None else values[rows] for values in self)
        return SeenBoxes(*columns)


def reduction(size: tuple[int, int], target: tuple[int, int]) -> int:
    """Largest factor, 1, 2, 4 or 8, by which a decoder may shrink `size` and still cover `target`, (height, width)."""
    fits = min(size[0] // target[0], size[1] // target[1])
    return next((ratio for ratio in (8, 4, 2) if fits >= ratio), 1)


def see_boxes(boxes: np.ndarray, view: View, min_visible: float = MIN_VISIBLE) -> SeenBoxes:
    """Keep the boxes that have at least the share `min_visible`, 0..1, of their area in the view, and some area.

    `boxes`: float32 [n, 4], xmin, ymin, xmax, ymax as fractions of the whole image.
    """
    seen = _boxes_in_crop(boxes, view, min_visible)
    return boxes_after_moves(seen, view.moves, view.target, min_visible) if view.moves else seen


def boxes_after_moves(
    seen: SeenBoxes, moves: Sequence[tuple[Edit, np.ndarray]], target: tuple[int, int], min_visible: float
) -> SeenBoxes:
    """Keep the boxes of a crop, `target`, that still have the share `min_visible` and some area after its moves."""
    moved = move_boxes(seen.boxes, moves, target)
    visible = (seen.visible * moved.visible).astype(np.float32)
    sides = moved.boxes[:, 2:] - moved.boxes[:, :2]
    least = np.array([LEAST_SIDE * target[1], LEAST_SIDE * target[0]], np.float32)
    kept = np.flatnonzero((sides >= least).all(1) & (visible >= np.float32(min_visible)))
    return SeenBoxes(moved.boxes[kept], seen.kept[kept], visible[kept], moved.growth[kept])


def _boxes_in_crop(boxes: np.ndarray, view: View, min_visible: float) -> SeenBoxes:
    """As `see_boxes`, before the moves."""
    xs, ys = _in_window(boxes[:, 0::2], boxes[:, 1::2], view)  # [n, 2] each, minimum and maximum
    seen_xs, seen_ys = (np.clip(sides, np.float32(0), np.float32(1)) for sides in (xs, ys))
    wide, tall = (sides[:, 1] - sides[:, 0] for sides in (seen_xs, seen_ys))
    least_tall, least_wide = (np.float32(LEAST_SIDE * side) for side in view.target)
    broad = wide * np.float32(view.content.width) >= least_wide
    high = tall * np.float32(view.content.height) >= least_tall
    with np.errstate(divide="ignore", invalid="ignore"):
        visible = (wide * tall) / ((xs[:, 1] - xs[:, 0]) * (ys[:, 1] - ys[:, 0]))
    kept = np.flatnonzero(broad & high & (visible >= np.float32(min_visible)))
    if view.mirrored:
        seen_xs = flipped_sides(seen_xs)
    xs, ys = _in_target(seen_xs, seen_ys, view)
    return SeenBoxes(np.stack([xs[:, 0], ys[:, 0], xs[:, 1], ys[:, 1]], 1)[kept], kept, visible[kept])


def see_points(
    x: np.ndarray, y: np.ndarray, visibility: np.ndarray | None, view: View, flip: Sequence[int]
) -> np.ndarray:
    """Points as float32 [n, K, 3]: x and y in pixels of the target, and visibility; without it [n, K, 2].

    `x`, `y`: float32 [n, K], fractions of the whole image; `visibility`: int64 [n, K]. All three are 0 for points that
    are missing, outside the window or erased; without visibility, points may be outside. `flip`: as in `Keypoints`.
    Raises UsageError if what is seen is mirrored and `flip` is empty.
    """
    x, y = _in_window(x, y, view)
    inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    if view.mirrored:
        x = flipped_points(x)
    points = np.stack(_in_target(x, y, view), 2)
    return finished_points(points, inside, visibility, view.mirrored, view.moves, view.target, flip)


def finished_points(
    points: np.ndarray,
    inside: np.ndarray,
    visibility: np.ndarray | None,
    mirrored: bool,
    moves: Sequence[tuple[Edit, np.ndarray]],
    target: tuple[int, int],
    flip: Sequence[int],
) -> np.ndarray:
    """The points of a crop after its moves, with their visibility, and with left and right swapped: see `see_points`.

    `points`: float32 [n, K, 2], in pixels of `target`. `inside`, bool [n, K], and `mirrored`: by the crop.
    """
    if moves:
        points, still_inside = move_points(points, moves, target)
        inside = inside & still_inside
    if visibility is not None:
        points = np.concatenate([points, visibility.astype(np.float32)[:, :, None]], 2)
        points = np.where(((visibility > 0) & inside)[:, :, None], points, np.float32(0))
    if mirrored != are_mirrored(moves, target):
        check_flip(flip)
        points = points[:, list(flip)]
    return points


def see_raster(pixels: np.ndarray, view: View, padding: int | None = 0) -> np.ndarray:
    """Resize a raster or mask from [height, width] of the image to [height, width] of the target.

    The interpolation is nearest-neighbour. `padding`: the value outside of the content, and where the image is erased;
    None: 0 outside, and erased pixels keep their values.
    """
    if pixels.shape != view.size:
        problem = f"got {pixels.shape[0]} x {pixels.shape[1]} pixels, expected the image's, "
        raise UsageError("raster", f"{problem}{view.size[0]} x {view.size[1]}", "convert the dataset again")
    rows = _sources(view.window.top, view.window.height, view.content.top, view.content.height, view.target[0])
    columns = _sources(view.window.left, view.window.width, view.content.left, view.content.width, view.target[1])
    if view.mirrored:
        columns = flipped_columns(columns, view.content)
    seen = (rows >= 0)[:, None] & (columns >= 0)
    shown = pixels[np.ix_(np.maximum(rows, 0), np.maximum(columns, 0))]
    return move_raster(np.where(seen, shown, pixels.dtype.type(padding or 0)), view.moves, padding)


def see_areas(areas: np.ndarray, seen: SeenBoxes, view: View) -> np.ndarray:
    """Return the areas of the kept objects, float32 [k], in pixels squared of the target.

    `areas`: float32 [n], in pixels squared of the image. If the window cuts an object, its area shrinks in proportion
    to its box, which is an estimate; so does what is erased.
    """
    # In float64, because graph rewriting may change the order in which several factors are multiplied.
    scale = (view.content.height * view.content.width) / (view.window.height * view.window.width)
    scaled = areas[seen.kept].astype(np.float64) * scale * seen.visible
    return (scaled if seen.growth is None else scaled * seen.growth).astype(np.float32)


def largest(boxes: np.ndarray, most: int) -> np.ndarray:
    """Indices of the `most` largest boxes (xmin, ymin, xmax, ymax): int64, ascending; of equal ones the first."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return np.sort(np.argsort(-areas, kind="stable")[:most])


def to_source(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Scale and offset, float32 [2] each, for x and y: pixel of the image = pixel of the target * scale + offset."""
    if view.mirrored:
        raise UsageError("to_source", "got a flipped view, expected one that is not flipped", "evaluate without a flip")
    if are_moved(view.moves):
        problem = "got a view whose pixels an augmentation has moved, expected one of a crop alone"
        raise UsageError("to_source", problem, "evaluate without augmentations")
    window, content = view.window, view.content
    scale = np.array([window.width, window.height], np.float64) / np.array([content.width, content.height], np.float64)
    offset = np.array([window.left, window.top], np.float64) - np.array([content.left, content.top]) * scale
    return scale.astype(np.float32), offset.astype(np.float32)


def _check_numbers(name: str, array: Any) -> None:
    """Raise UsageError unless this is an array or a tensor of numbers, the last dimension 4 for boxes, else 2."""
    size = 4 if name == "boxes" else 2
    try:
        shape = np.asarray(array, np.float32).shape
    except (TypeError, ValueError, OverflowError):
        shape = ()
    if shape[-1:] != (size,):
        raise UsageError(name, f"got {shown(array)}, expected numbers [..., {size}]")


def _check_pair(name: str, array: Any) -> None:
    """Raise UsageError unless this is an array or a tensor of two numbers."""
    _check_numbers(name, array)
    if np.shape(array) != (2,):
        raise UsageError(name, f"got an array of shape {np.shape(array)}, expected numbers [2]")


Numbers = Annotated[np.ndarray, _check_numbers]
Pair = Annotated[np.ndarray, _check_pair]
Pixels = Annotated[int, Range(0, 2**24)]  # more than any image has on a side


@checked
def boxes_to_source(boxes: Numbers, scale: Numbers, offset: Numbers) -> np.ndarray:
    """Convert predicted boxes from pixels of the model's input to pixels of the stored image, float32 [..., n, 4].

    Args:
        boxes: [..., n, 4] as xmin, ymin, xmax, ymax, for one image or a batch of them; or other x, y, x, y, ...
        scale: [..., 2], x and y, as `detection` returns it for a transform that does not flip.
        offset: [..., 2], likewise.

    Example:
        for batch in make_batches(data["validation"], detection(letterbox(512)), batch_size=16, order="stored"):
            boxes = boxes_to_source(predict(batch["images"]), batch["scale"].numpy(), batch["offset"].numpy())
    """
    boxes = np.asarray(boxes, np.float32)
    scale, offset = (np.tile(np.asarray(side, np.float32), boxes.shape[-1] // 2) for side in (scale, offset))
    try:
        return boxes * scale[..., None, :] + offset[..., None, :]
    except ValueError:
        shapes = f"got arrays of shapes {scale.shape} and {offset.shape} for boxes {boxes.shape}"
        raise UsageError(
            "scale, offset", shapes, "give one of each for an image, [2], or for a batch, [b, 2]"
        ) from None


@checked
def masks_to_source(masks: np.ndarray, scale: Pair, offset: Pair, size: tuple[Pixels, Pixels]) -> np.ndarray:
    """Resample predicted masks from the model's input to the stored image, [k, height, width].

    Masks are resampled with nearest-neighbour interpolation.

    Args:
        masks: [k, height, width] for one image.
        scale: [2], x and y, as `detection` returns it for a transform that does not flip.
        offset: [2], likewise.
        size: (height, width) of the stored image. Parts that the model did not see are 0.

    Example:
        height, width = target["orig_size"].tolist()
        found = masks_to_source(output["masks"][:, 0].numpy() > 0.5, target["scale"], target["offset"], (height, width))
    """
    if masks.ndim != 3:
        raise UsageError("masks", f"got an array of shape {masks.shape}, expected [k, height, width]")
    scale, offset = (np.asarray(side, np.float64)[::-1] for side in (scale, offset))
    places = [
        np.floor((np.arange(side) + 0.5 - offset[axis]) / scale[axis]).astype(np.int64)
        for axis, side in enumerate(size)
    ]
    inside = [(place >= 0) & (place < side) for place, side in zip(places, masks.shape[1:], strict=True)]
    rows, columns = (np.clip(place, 0, side - 1) for place, side in zip(places, masks.shape[1:], strict=True))
    found = masks[:, rows[:, None], columns]
    return np.where(inside[0][:, None] & inside[1], found, masks.dtype.type(0))


def check_flip(flip: Sequence[int]) -> None:
    """Raise UsageError if keypoints cannot be mirrored."""
    if not flip:
        problem = "these key points cannot be flipped: the dataset does not pair left and right"
        remedy = "use a transform with flip=False and augmentations that do not mirror, or Keypoints(names, flip=...)"
        raise UsageError("keypoints", problem, remedy)


def _in_window(x: np.ndarray, y: np.ndarray, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Convert fractions of the image to fractions of the window; points outside of it get values outside of 0..1."""
    top, left, height, width = (np.float32(side) for side in view.window)
    x = (x * np.float32(view.size[1]) - left) / width
    y = (y * np.float32(view.size[0]) - top) / height
    return x, y


def _in_target(x: np.ndarray, y: np.ndarray, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Convert fractions of the window to pixels of the target."""
    top, left, height, width = (np.float32(side) for side in view.content)
    return x * width + left, y * height + top


def _sources(start: int, extent: int, content_start: int, content: int, target: int) -> np.ndarray:
    """Nearest row (column) of the image for each one of the target; -1 in the padding. int64 [target]."""
    place = np.arange(target) - content_start
    nearest = start + (2 * place + 1) * extent // (2 * content)
    return np.where((place >= 0) & (place < content), nearest, -1)
