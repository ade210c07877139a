"""The objects of one image, as their source says it: in pixels or fractions of the image that was annotated; its mask.

What becomes of them is decided where the image is read: only there its size is known, and whether its EXIF turns it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

# A region as COCO has it: polygons, each [x, y, x, y, ...], whose union it is; or a run-length code, with "size"
# (height, width) and "counts". None: there is none.
Outline = Sequence[Sequence[float]] | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of an image, n of them.

    boxes: float64 [n, 4], left, top, right, bottom, from the top left corner of the image, as they were annotated: they
        may leave the image, and NaN is none.
    columns: what else is known of each, by feature key: n values each.
    names: what the report calls each: "annotation 17", "line 3".
    size: (width, height), pixels, of the image that was annotated; None where the source does not say.
    fractions: whether boxes, key points and outlines are fractions of the image's sides; else they are pixels.
    upright: whether they are of the image as its EXIF turns it, or as its file has it, where `size` does not tell.
    keypoints: float64 [n, K, 3], x, y and visibility (0 not there, 1 occluded, 2 visible); None without.
    outlines: the region of each; None where no masks are wanted.
    areas: float64 [n], of those regions, in pixels squared; None where the source does not say.
    """

    boxes: np.ndarray
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    names: Sequence[str] = ()
    size: tuple[int, int] | None = None
    fractions: bool = False
    upright: bool | None = None
    keypoints: np.ndarray | None = None
    outlines: Sequence[Outline] | None = None
    areas: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.boxes)

    def digest(self) -> str:
        """Hex digits that differ when anything does that shows in a record."""
        arrays = (b"" if found is None else found.tobytes() for found in (self.boxes, self.keypoints, self.areas))
        columns = {key: list(values) for key, values in self.columns.items()}
        rest = repr((columns, self.size, self.fractions, self.upright, self.outlines))
        return hashlib.blake2b(b"|".join((*arrays, rest.encode())), digest_size=16).hexdigest()


@dataclass(frozen=True)
class MaskTable:
    """What masks say: values that may be in their files, or colours, and what a record has for each.

    That is the number of a class, or the raster's void. `values`: (value in the file, value in the record); of a
    palette its indices, of 1 bit 0 and 1. `colours`: (red, green, blue, value in the record); where there are any,
    colours count and no values. One table is shared by all masks.
    """

    values: tuple[tuple[int, int], ...] = ()
    colours: tuple[tuple[int, int, int, int], ...] = ()

    @cached_property
    def digest(self) -> str:
        """Hex digits that differ when the table does."""
        return hashlib.blake2b(repr((self.values, self.colours)).encode(), digest_size=16).hexdigest()
