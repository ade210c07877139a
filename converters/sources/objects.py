"""The objects of one image as given by its source, in pixels or fractions of the annotated image; and its mask.

They are clipped or left out when the image is read: only then its size is known, and whether its EXIF turns it. Each
annotation that was read is then either written, or listed with a code; otherwise `Account.check` raises an error.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, spell_out

# A region as in COCO: the union of polygons, each [x, y, x, y, ...]; or a run-length code, with "size" (height, width)
# and "counts". None: there is no mask.
Outline = Sequence[Sequence[float]] | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of an image, n of them.

    boxes: float64 [n, 4], left, top, right, bottom, from the top left corner of the image, as annotated: they may
        leave the image, and NaN is invalid.
    columns: further values of each, by feature key: n values each.
    names: names in the report: "annotation 17", "line 3".
    size: (width, height), pixels, of the image that was annotated; None if unknown.
    fractions: whether boxes, points and outlines are fractions of the image's sides; else they are pixels.
    upright: whether they refer to the upright or the stored image; None: `size` decides.
    points: by the word of a kind of points in `kinds`, such as "keypoints": float64 [n, K, 2 or 3], x, y and perhaps
        visibility (0 missing, 1 occluded, 2 visible).
    outlines: the region of each; None if no masks are read.
    areas: float64 [n], of the regions, in pixels squared; None if unknown.
    """

    boxes: np.ndarray
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    names: Sequence[str] = ()
    size: tuple[int, int] | None = None
    fractions: bool = False
    upright: bool | None = None
    points: Mapping[str, np.ndarray] = field(default_factory=dict)
    outlines: Sequence[Outline] | None = None
    areas: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.boxes)

    def digest(self) -> str:
        """Hex digits that differ when anything does that shows in a record."""
        found = (self.boxes, *(of_kind for _, of_kind in sorted(self.points.items())), self.areas)
        arrays = (b"" if values is None else values.tobytes() for values in found)
        columns = {key: list(values) for key, values in self.columns.items()}
        rest = repr((columns, self.size, self.fractions, self.upright, self.outlines))
        return hashlib.blake2b(b"|".join((*arrays, rest.encode())), digest_size=16).hexdigest()


@dataclass(frozen=True)
class MaskTable:
    """Mapping of the values or colours in mask files to the values in records.

    A value in a record is the number of a class, or the raster's void. `values`: (value in the file, value in the
    record); palette images have indices, 1-bit images 0 and 1. `colours`: (red, green, blue, value in the record); if
    there are any, `values` do not count. One table is shared by all masks.
    """

    values: tuple[tuple[int, int], ...] = ()
    colours: tuple[tuple[int, int, int, int], ...] = ()

    @cached_property
    def digest(self) -> str:
        """Hex digits that differ when the table does."""
        return hashlib.blake2b(repr((self.values, self.colours)).encode(), digest_size=16).hexdigest()


class AnnotationCode(StrEnum):
    """The reason why an annotation is not written. A code never changes its meaning; new codes may be added.

    Example:
        done = convert(open_source("instances.json", options=AnnotationOptions(images="photos")), "out")
        unnamed = [left for left in done.account.left_out if left.code == AnnotationCode.CATEGORY]
    """

    BOX_OUTSIDE = "E_BOX_OUTSIDE"  # leaves the image by more than a pixel and 1 % of its side
    BOX_EMPTY = "E_BOX_EMPTY"  # has no area, or no numbers
    CATEGORY = "E_CATEGORY"  # of a class that is not listed
    ORPHAN = "E_ORPHAN"  # of an image that is not listed
    TWICE = "E_TWICE"  # there already, the same in everything
    KEYPOINTS = "E_KEYPOINTS"  # not as many as there are names, or outside the image
    OUTLINE = "E_OUTLINE"  # no polygon and no run-length code of its image's size
    VALUE = "E_VALUE"  # a number that is impossible for its field
    LINE = "E_LINE"  # a line or an entry that cannot be read
    IMAGE = "E_IMAGE"  # its image was left out
    CUT_OFF = "E_CUT_OFF"  # in the part of the image that --size cuts off


# Codes that do not count as bad: the image is already counted, it was requested, or nothing is lost.
FORGIVEN = frozenset({AnnotationCode.IMAGE, AnnotationCode.CUT_OFF, AnnotationCode.TWICE})


class BadAnnotationError(Exception):
    """Raised to leave out and list an annotation: `code` is its code, `reason` an explanation."""

    def __init__(self, code: AnnotationCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class LeftOut:
    """An annotation that is not written: the key of its image, a code of AnnotationCode, and which one and why."""

    key: bytes
    code: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", spell_out(self.reason))


@dataclass(frozen=True)
class Account:
    """Counts of annotations: read, written, clipped among the written; and the list of those left out.

    `farthest`: the most pixels by which a clipped annotation left its image.
    `clips`: images with clipped annotations, each with the number of these and how far they leave it.
    """

    read: int = 0
    written: int = 0
    clipped: int = 0
    farthest: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    clips: tuple[LeftOut, ...] = ()

    def __add__(self, other: "Account") -> "Account":
        return Account.total((self, other))

    @classmethod
    def total(cls, accounts: Iterable["Account"]) -> "Account":
        """Add up accounts; annotations left out are listed in the order of the accounts."""
        read = written = clipped = 0
        farthest, left_out, clips = 0.0, [], []
        for account in accounts:
            read, written, clipped = read + account.read, written + account.written, clipped + account.clipped
            farthest = max(farthest, account.farthest)
            left_out += account.left_out
            clips += account.clips
        return cls(read, written, clipped, farthest, tuple(left_out), tuple(clips))

    @property
    def bad(self) -> list[LeftOut]:
        """Annotations left out with a code that is not in FORGIVEN."""
        return [one for one in self.left_out if one.code not in FORGIVEN]

    def check(self, place: str) -> None:
        """Raise IntegrityError unless all annotations that were read are written or listed."""
        if self.read != self.written + len(self.left_out):
            problem = f"{self.read:,} annotations read, {self.written:,} written and {len(self.left_out):,} listed"
            raise IntegrityError(place, problem, "this is a bug in shardfeed: please report it")

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts: counts, and how many were left out by code."""
        return {
            "read": self.read,
            "written": self.written,
            "clipped": self.clipped,
            "clipped_by_px": round(self.farthest, 3),
            "left_out": dict(sorted(Counter(one.code for one in self.left_out).items())),
        }


NOTHING = Account()
