"""The key points of COCO's categories: names, which ones change places in a mirror, and the lines between."""

import re

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.annotations.coco.survey import Category

_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}
_SIDE = re.compile(r"left|right|(?<![a-z])[lr](?![a-z])", re.IGNORECASE)


def keypoints_of(category: Category) -> Keypoints:
    """The key points of one category, from 0 where COCO counts from 1; the skeleton is empty where it does not fit."""
    count = len(category.keypoints)
    fits = all(1 <= point <= count for pair in category.skeleton for point in pair)
    skeleton = tuple((a - 1, b - 1) for a, b in category.skeleton) if fits else ()
    return Keypoints(category.keypoints, mirrored(category.keypoints), skeleton)


def mirrored(names: tuple[str, ...]) -> tuple[int, ...]:
    """For each key point the one that it is in a mirror: `left_eye` is `right_eye`, `nose` is itself.

    Empty where names do not say: none has a side, or one has that has no other.
    """
    if len(set(names)) < len(names) or not any(_SIDE.search(name) for name in names):
        return ()
    places = {name: i for i, name in enumerate(names)}
    others = [_SIDE.sub(_other, name) for name in names]
    return tuple(places[other] for other in others) if all(other in places for other in others) else ()


def _other(found: re.Match[str]) -> str:
    side = found[0]
    other = _SIDES[side.lower()]
    return other.upper() if side.isupper() else other.capitalize() if side[0].isupper() else other
