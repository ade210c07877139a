"""The region of an object as a mask, by pycocotools: a different rule for the inside would change areas and AP."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import TURNED_BACK, Placement, encode_png
from shardfeed.converters.images.store import StoredImage
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.source import Objects, Outline
from shardfeed.errors import needing_extra

_FAR = 10  # times the larger side of the image


def _bad(reason: str) -> BadAnnotationError:
    return BadAnnotationError(AnnotationCode.OUTLINE, reason)


def draw_mask(outline: Outline, size: tuple[int, int], objects: Objects) -> np.ndarray:
    """A region's pixels: uint8 [height, width] of the image that was annotated, 1 inside. All 0 for None.

    `size`: (height, width). Raises BadAnnotationError, for a region without a pixel as well; MissingExtraError without
    pycocotools, unless the region is a list of runs.
    """
    if outline is None:
        return np.zeros(size, np.uint8)
    mask = _drawn(outline, size, objects)
    if not mask.any():
        raise _bad("a region that covers no pixel of the image")
    return mask


def _drawn(
    outline: Sequence[Sequence[float]] | Mapping[str, Any], size: tuple[int, int], objects: Objects
) -> np.ndarray:
    if isinstance(outline, Mapping):
        code = _checked_code(outline, size)
        if isinstance(code["counts"], list):  # of runs, outside and inside in turn
            runs = np.arange(len(code["counts"])) % 2
            return runs.astype(np.uint8).repeat(code["counts"]).reshape(size, order="F")
        coco = _pycocotools()
        try:
            mask = coco.decode(code)
        except ValueError as error:
            raise _bad(f"an invalid run-length code: {error}") from None
        # If runs end too early, decoding returns uninitialised memory: encoding it again then gives another code.
        if mask.max(initial=0) > 1 or coco.encode(mask)["counts"] != coco.merge([code, code])["counts"]:
            raise _bad("a run-length code whose counts do not add up to the pixels of the image")
        return mask
    polygons = _checked_polygons(outline)
    if objects.fractions:
        polygons = [(np.reshape(part, (-1, 2)) * (size[1], size[0])).ravel().tolist() for part in polygons]
    far = _FAR * max(size)
    if any(max(part) > far or min(part) < -far for part in polygons):  # which take pycocotools' memory
        raise _bad(f"a polygon that extends beyond the image by more than {_FAR} times its size")
    coco = _pycocotools()
    return coco.decode(coco.merge(coco.frPyObjects(polygons, *size)))


def _pycocotools() -> Any:
    """Its module of masks, whose type hints are incomplete."""
    with needing_extra("masks"):
        from pycocotools import mask
    return mask


def _checked_code(outline: Mapping[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    found = list(outline.get("size", ()))
    if found != list(size):
        raise _bad(f"a run-length code of the size {found}, expected {list(size)} (height, width)")
    counts = outline.get("counts")
    if isinstance(counts, str | bytes):
        counts = counts.encode() if isinstance(counts, str) else counts
        # 6 bits per character, one for continuation: pycocotools would read past the end of the text.
        if not counts or not all(48 <= char < 112 for char in counts) or (counts[-1] - 48) & 32:
            raise _bad("a run-length code that is invalid or truncated")
        return {"size": found, "counts": counts}
    whole = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
    if not whole or sum(counts) != size[0] * size[1]:  # type: ignore[arg-type]  # a list of ints: see above
        raise _bad("a run-length code whose counts do not add up to the pixels of the image")
    return {"size": found, "counts": counts}


def _checked_polygons(outline: Sequence[Sequence[float]]) -> list[list[float]]:
    polygons = [list(part) for part in outline]
    if not polygons:
        raise _bad("no polygon")
    for part in polygons:
        if len(part) < 6 or len(part) % 2:
            raise _bad(f"a polygon of {len(part)} numbers, expected x and y of three points or more")
        if not np.isfinite(np.array(part, np.float64)).all():
            raise _bad("a polygon with a value that is not a number")
    return polygons


def encode_mask(mask: np.ndarray, image: StoredImage, *, upright: bool) -> bytes:
    """A mask of the annotated image as a PNG of the stored one: cut, scaled (nearest-neighbour), and turned along."""
    return encode_png(Image.fromarray(moved_pixels(mask, image.placement, upright=upright)))


def moved_pixels(pixels: np.ndarray, placement: Placement, *, upright: bool) -> np.ndarray:
    """Convert values [height, width] of a source image, upright or as in its file, to the pixels of the stored image.

    Each pixel gets the value of the source pixel that contains its centre; on a border, of the later one.
    """
    if placement.fit is None:
        return pixels if upright else _turned(pixels, placement.orientation)
    if upright:
        pixels = _turned(pixels, TURNED_BACK[placement.orientation])
    left, top, right, bottom = placement.fit.box
    width, height = placement.fit.size
    pixels = pixels[_nearest(top, bottom, height)][:, _nearest(left, right, width)]
    return _turned(pixels, placement.orientation)


def _nearest(start: float, stop: float, count: int) -> np.ndarray:
    """Int64 [count]: the pixels in which the middles of `count` equal parts from `start` to `stop` lie."""
    # A single division and no running sum, so that a border is met exactly, whatever the size.
    found = np.floor(start + (2 * np.arange(count) + 1) * (stop - start) / (2 * count)).astype(np.int64)
    return np.minimum(found, int(np.ceil(stop)) - 1)


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The array, [height, width], that EXIF orientation `orientation` makes of another."""
    pixels = pixels.T if orientation >= 5 else pixels
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(pixels[::rows, ::columns])
