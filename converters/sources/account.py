"""What became of the annotations of a shard's images: each one that was read is written, or listed with a code.

`read = written + listed` is what the program says of itself in the end, and `check` raises where it is not so.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shardfeed.errors import IntegrityError


class AnnotationCode(StrEnum):
    """Why an annotation is not written. A code never changes its meaning; new ones may be added."""

    BOX_OUTSIDE = "E_BOX_OUTSIDE"  # leaves the image by more than a pixel and 1 % of its side
    BOX_EMPTY = "E_BOX_EMPTY"  # has no area, or no numbers
    CATEGORY = "E_CATEGORY"  # of a class that is not listed
    ORPHAN = "E_ORPHAN"  # of an image that is not listed
    TWICE = "E_TWICE"  # there already, the same in everything
    KEYPOINTS = "E_KEYPOINTS"  # not as many as there are names, or outside the image
    OUTLINE = "E_OUTLINE"  # no polygon and no run-length code of its image's size
    VALUE = "E_VALUE"  # a number that cannot be what it is said to be
    LINE = "E_LINE"  # a line or an entry that cannot be read
    IMAGE = "E_IMAGE"  # its image was left out
    CUT_OFF = "E_CUT_OFF"  # in the part of the image that --size cuts off


# What does not count as bad: the image is counted already, the options ask for it, or nothing is lost.
FORGIVEN = frozenset({AnnotationCode.IMAGE, AnnotationCode.CUT_OFF, AnnotationCode.TWICE})


class BadAnnotationError(Exception):
    """This annotation is to be left out and listed: `code` says which reason, `reason` says it in words."""

    def __init__(self, code: AnnotationCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class LeftOut:
    """An annotation that is not written: the key of its image, a code of AnnotationCode, and which one and why."""

    key: bytes
    code: str
    reason: str


@dataclass(frozen=True)
class Account:
    """Of some annotations: how many were read and written, how many of those clipped, and the others.

    `farthest`: by how many pixels a clipped one left its image, at most.
    """

    read: int = 0
    written: int = 0
    clipped: int = 0
    farthest: float = 0.0
    left_out: tuple[LeftOut, ...] = ()

    def __add__(self, other: "Account") -> "Account":
        return Account.total((self, other))

    @classmethod
    def total(cls, accounts: Iterable["Account"]) -> "Account":
        """Of all of them, the others in the order of the accounts."""
        read = written = clipped = 0
        farthest, left_out = 0.0, []
        for account in accounts:
            read, written, clipped = read + account.read, written + account.written, clipped + account.clipped
            farthest = max(farthest, account.farthest)
            left_out += account.left_out
        return cls(read, written, clipped, farthest, tuple(left_out))

    @property
    def bad(self) -> list[LeftOut]:
        """Those that should not have been there."""
        return [one for one in self.left_out if one.code not in FORGIVEN]

    def check(self, place: str) -> None:
        """Raises IntegrityError unless all that were read are written or listed."""
        if self.read != self.written + len(self.left_out):
            problem = f"{self.read:,} annotations read, {self.written:,} written and {len(self.left_out):,} listed"
            raise IntegrityError(place, problem, "this is a fault of shardfeed: please report it")

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
