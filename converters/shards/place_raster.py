"""The mask of an image as its record has it: class numbers, one for each pixel of the stored image."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.images.mask_file import MaskFile, place_text, read_mask
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.pixels import Placement, encode_png, is_upright
from shardfeed.converters.images.store import StoredImage
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.object_masks import moved_pixels
from shardfeed.converters.sources.reading import read_content
from shardfeed.converters.sources.source import MaskTable, RasterImage, Sample
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import Value

_NONE = -1  # of a value without a meaning


def raster_values(sample: Sample, image: StoredImage, raster: Raster, options: ImageOptions) -> dict[str, Value]:
    """Make the values of the mask of `sample` for its record, by key; `image`: as it is stored.

    Raise RejectedError if the mask is missing or cannot be read, if its size or one of its values is wrong, or if it is
    unknown whether it belongs to the upright image. Raise UsageError for a table with values that are neither a class
    nor void.
    """
    found = sample.raster
    if found is None:
        raise RejectedError(RejectCode.PAIR, "an image without a mask")
    _check_table(found.table, raster)
    try:
        mask = read_mask(read_content(found.mask, options.max_bytes), options.max_pixels)
        upright = _of_upright(mask.size, found, image.placement)
        numbers = class_numbers(mask, found.table)
    except RejectedError as error:
        raise RejectedError(error.code, f"{escape(found.name)}: {error.reason}") from error
    numbers = numbers.astype(np.uint16 if raster.bits == 16 else np.uint8)
    gray = Image.fromarray(moved_pixels(numbers, image.placement, upright=upright))
    return {RASTER: encode_png(gray), RASTER_FORMAT: b"png"}


@lru_cache(maxsize=4)
def _check_table(table: MaskTable, raster: Raster) -> None:
    meant = [row[-1] for row in (*table.values, *table.colours)]
    bad = [number for number in meant if not 0 <= number < len(raster.class_names) and number != raster.void]
    if bad or not meant:
        expected = f"0 to {len(raster.class_names) - 1}{'' if raster.void is None else f' or {raster.void}'}"
        problem = f"got the value {bad[0]}, expected {expected}" if bad else "it has no row"
        raise UsageError("the table of masks", problem, "correct the source, or its schema")
    if any(row[0] < 0 for row in table.values):
        raise UsageError("the table of masks", "got a file value below 0", "correct the source")


def _of_upright(size: tuple[int, int], raster: RasterImage, placement: Placement) -> bool:
    """Whether a mask of `size` (width, height) is of the upright image. Raises RejectedError."""
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    if size not in (stored, turned):
        either = "" if stored == turned else f", or turned upright {turned[0]} x {turned[1]}"
        problem = f"{size[0]} x {size[1]} pixels (width x height), the image has {stored[0]} x {stored[1]}{either}"
        raise RejectedError(RejectCode.MASK_SIZE, problem)
    unclear = "EXIF rotates the image, and it is unknown whether the mask is rotated"
    stated = raster.upright if stored == turned else None  # a mask's own pixels are evidence that no option changes
    return is_upright(placement, size, stated, unclear)


def class_numbers(mask: MaskFile, table: MaskTable) -> np.ndarray:
    """Int32 [height, width]: the record's values for the values or colours of a mask. Raises RejectedError."""
    if table.colours:
        codes = mask.colours()
        if codes is None:
            raise RejectedError(RejectCode.MASK_LOSSY, "values above 255, expected class colours")
        known, meant = _colours(table)
        places = np.searchsorted(known, codes).clip(max=len(known) - 1)
        numbers = np.where(known[places] == codes, meant[places], _NONE).astype(np.int32)
        if numbers.size and numbers.min() < 0:
            at, count = _first(numbers == _NONE)
            where = f"{colour_text(int(codes.flat[at]))} at {place_text(at, mask.size[0])}"
            problem = f"the colour {where}, not that of a class ({count:,} such pixels)"
            raise RejectedError(RejectCode.MASK_LOSSY, problem)
        return numbers
    values = mask.values()
    if values is None:
        codes = mask.colours()
        assert codes is not None, "a mask without class numbers has colours"
        gray = (codes >> 16 == codes & 0xFF) & (codes >> 8 & 0xFF == codes & 0xFF)
        at, count = _first(~gray)
        where = f"{colour_text(int(codes.flat[at]))} at {place_text(at, mask.size[0])}"
        problem = f"the colour {where}, expected class numbers ({count:,} such pixels)"
        raise RejectedError(RejectCode.MASK_LOSSY, f"{problem}: {argument('colours', typed='FILE')} names colours")
    numbers = _values(table)
    bad = (values < 0) | (values >= len(numbers)) if values.dtype.itemsize > 1 else values >= len(numbers)
    found = numbers[np.where(bad, len(numbers) - 1, values)] if bad.any() else numbers[values]
    bad |= found == _NONE
    if bad.any():
        at, count = _first(bad)
        where = f"{values.flat[at]} at {place_text(at, mask.size[0])} ({count:,} such pixels)"
        expected = _ranges([value for value, _ in table.values])
        raise RejectedError(RejectCode.MASK_VALUE, f"the value {where}, expected {expected}")
    return found


def _first(bad: np.ndarray) -> tuple[int, int]:
    """The first of the pixels that are, counted row by row, and how many."""
    places = np.flatnonzero(bad)
    return int(places[0]), len(places)


@lru_cache(maxsize=4)
def _values(table: MaskTable) -> np.ndarray:
    """Int32: the record's value by value in the file, or _NONE."""
    numbers = np.full(max(value for value, _ in table.values) + 1, _NONE, np.int32)
    for value, number in table.values:
        numbers[value] = number
    return numbers


@lru_cache(maxsize=4)
def _colours(table: MaskTable) -> tuple[np.ndarray, np.ndarray]:
    """Colours, sorted, as red * 65536 + green * 256 + blue, and the record's value for each: int32."""
    rows = sorted((red << 16 | green << 8 | blue, number) for red, green, blue, number in table.colours)
    codes, numbers = np.array(rows, np.int32).T
    return codes, numbers


def colour_text(code: int) -> str:
    """`(64, 128, 0)`."""
    return f"({code >> 16}, {code >> 8 & 255}, {code & 255})"


def _ranges(values: Sequence[int]) -> str:
    """`0 to 20, or 255`."""
    texts: list[str] = []
    start = last = -2
    for value in [*sorted(values), None]:
        if value is not None and value == last + 1:
            last = value
            continue
        if start >= 0:
            texts.append(str(start) if start == last else f"{start} to {last}")
        start = last = value if value is not None else -2
    more = f" and {len(texts) - 6} more" if len(texts) > 6 else ""
    return ", ".join(texts[:6]) + more if len(texts) != 2 else " or ".join(texts)
