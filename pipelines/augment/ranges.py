"""Ranges that augmentations draw from, and the options that several of them have."""

from typing import Annotated, Literal

import numpy as np

from shardfeed.declared import Range
from shardfeed.errors import UsageError, shown

Span = tuple[float, float]  # (least, most)
Factor = Annotated[float, Range(0, 100)]  # of brightness and the like; 1 changes nothing
Level = Annotated[int, Range(0, 255)]
Colour = Level | tuple[Level, Level, Level]
Interpolation = Literal["nearest", "bilinear"]


def ordered(place: str, span: Span) -> Span:
    """Return (least, most) as it is. Raises UsageError if that is empty."""
    least, most = span
    if least > most:
        raise UsageError(place, f"got {shown(span)}, expected (least, most)", "swap the two")
    return span


def around(place: str, value: float | Span, centre: float = 0.0, floor: float | None = None) -> Span:
    """The range of a number to both sides of the centre, not below `floor`; or the range that is given.

    Raises UsageError if that is empty, or if a number is negative.
    """
    if isinstance(value, tuple):
        return ordered(place, value)
    if value < 0:
        raise UsageError(place, f"got {shown(value)}, expected 0 or more", "give (least, most) for a range")
    least, most = round(centre - value, 12), round(centre + value, 12)  # 1 - 0.8 is to print as 0.2
    return least if floor is None else max(floor, least), most


def within(span: Span, numbers: np.ndarray) -> np.ndarray:
    """Values of a range, uniformly, from numbers of 0..1."""
    least, most = span
    return least + (most - least) * numbers


def three(colour: Colour) -> tuple[int, int, int]:
    """A colour as red, green and blue."""
    return colour if isinstance(colour, tuple) else (colour, colour, colour)
