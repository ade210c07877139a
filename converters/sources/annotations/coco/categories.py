"""The categories of COCO's files and their keypoints: names, pairs that mirroring swaps, and the skeleton."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.annotations.coco.layout import file_name, plain_id
from shardfeed.converters.sources.rows.objects import shown_value
from shardfeed.errors import LabelFileError, escape
from shardfeed.schema import is_plain
from shardfeed.text import some

_LARGEST = 2**63
_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}
_SIDE = re.compile(r"left|right|(?<![a-z])[lr](?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Category:
    """One entry of "categories"; `keypoints`: names, `skeleton`: as in the file, from 1.

    `is_thing`: whether it has objects, if the entry states it.
    """

    id: int
    name: str
    keypoints: tuple[str, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()
    is_thing: bool | None = None


def read_categories(entries: Iterator[Any], path: str) -> tuple[Category, ...]:
    """Read the categories of a file, by id. Raises LabelFileError for entries that are invalid or contradictory."""
    found: dict[int, Category] = {}
    names: dict[str, int] = {}
    for i, entry in enumerate(entries):
        place = f'{path}, "categories", entry {i}'
        if not isinstance(entry, Mapping):
            raise LabelFileError(place, f"got {shown_value(entry)}, expected an object")
        own, name = plain_id(entry.get("id")), entry.get("name")
        if type(own) is not int or not -_LARGEST <= own < _LARGEST:
            raise LabelFileError(place, f"its id is {shown_value(own)}, expected an integer")
        if not isinstance(name, str) or not name or not is_plain(name):
            raise LabelFileError(place, f"its name is {shown_value(name)}, expected one line of text")
        if own in found:
            problem = f"the id {own} is already that of '{escape(found[own].name)}'"
            raise LabelFileError(place, problem, "give each category a unique id")
        if name in names:
            problem = f"'{escape(name)}' is category {names[name]} already"
            raise LabelFileError(place, problem, "merge the entries, or rename one")
        names[name] = own
        is_thing = entry.get("isthing")
        found[own] = Category(own, name, *_points(entry), bool(is_thing) if is_thing in (0, 1) else None)
    return tuple(found[own] for own in sorted(found))


def _points(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Names and pairs of keypoints; empty if they are not lists of names and pairs."""
    names, skeleton = entry.get("keypoints"), entry.get("skeleton")
    if not isinstance(names, list) or not all(isinstance(name, str) and is_plain(name) for name in names):
        return (), ()
    pairs = skeleton if isinstance(skeleton, list) else []
    whole = all(isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs)
    return tuple(names), tuple((a, b) for a, b in pairs) if whole else ()


def agreed(of_files: Mapping[str, Sequence[Category]]) -> Sequence[Category]:
    """Return the categories that all files share. Raises LabelFileError if they differ."""
    paths = list(of_files)
    first = of_files[paths[0]]
    shown = escape(file_name(paths[0]))
    for path in paths[1:]:
        other = of_files[path]
        differing = sorted({(one.id, one.name) for one in first} ^ {(one.id, one.name) for one in other})
        if differing:
            names = some(f"{own} '{name}'" for own, name in differing) + (" is" if len(differing) == 1 else " are")
            problem = f"has different categories than {shown}: {names} only in one of the two"
            raise LabelFileError(path, problem, "give both the same list, with the same ids")
        for one, before in zip(other, first, strict=True):
            if one.keypoints != before.keypoints:
                problem = f"the key points of '{escape(one.name)}' differ from those in {shown}"
                raise LabelFileError(path, problem, "give both the same names in the same order")
            if one.is_thing != before.is_thing:
                problem = f"the \"isthing\" of '{escape(one.name)}' differs from that in {shown}"
                raise LabelFileError(path, problem, "give both the same list of categories")
    return first


def keypoints_of(category: Category) -> Keypoints:
    """The keypoints of one category, counted from 0 (COCO counts from 1); the skeleton is empty if it is invalid."""
    count = len(category.keypoints)
    fits = all(1 <= point <= count for pair in category.skeleton for point in pair)
    skeleton = tuple((a - 1, b - 1) for a, b in category.skeleton) if fits else ()
    return Keypoints(category.keypoints, mirrored(category.keypoints), skeleton)


def mirrored(names: tuple[str, ...]) -> tuple[int, ...]:
    """Map each keypoint to its mirror image: `left_eye` to `right_eye`, `nose` to itself.

    Empty if the names do not define it: none has a side, or one has no counterpart.
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
