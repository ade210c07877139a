"""What a COCO file has, by one pass over it: images and categories whole, of the annotations what decides on them."""

import os
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shardfeed.converters.sources.annotations.coco.stream import JsonStream
from shardfeed.errors import LabelFileError, escape, name_text
from shardfeed.schema import is_plain

Kind = Literal["instances", "captions", "panoptic", "none"]
Id = int | str
_LARGEST = 2**63


@dataclass(frozen=True)
class Category:
    """One entry of "categories"; `keypoints`: names, `skeleton`: as it stands there, from 1.

    `is_thing`: whether it has objects, where the entry says it.
    """

    id: int
    name: str
    keypoints: tuple[str, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()
    is_thing: bool | None = None


@dataclass
class Survey:
    """Of one file. Image i: `ids[i]`, `names[i]`, and `widths[i]`, `heights[i]`, pixels, 0 where it does not say.

    `kind`: of the annotations. `offset`: the byte of their array, -1 without. `count`: of annotations. `own_ids`:
    whether each has a number of its own; `twice`: those that more than one has. `areas`: whether any says its area,
    `outlines`: its region. `ignored`: how many are marked to be ignored. `from_addresses`: names made of addresses.
    `pngs`: of panoptic annotations, the file of each image's segments, by the image's id.
    """

    path: str
    ids: list[Id] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    widths: "array[int]" = field(default_factory=lambda: array("q"))
    heights: "array[int]" = field(default_factory=lambda: array("q"))
    categories: tuple[Category, ...] = ()
    kind: Kind = "none"
    offset: int = -1
    count: int = 0
    own_ids: bool = True
    twice: frozenset[int] = frozenset()
    areas: bool = False
    ignored: int = 0
    from_addresses: int = 0
    pngs: dict[Id, str] = field(default_factory=dict)

    @property
    def numbered(self) -> bool:
        """Whether all images have a number that `image/source_id` can take."""
        return all(type(one) is int and 0 <= one < _LARGEST for one in self.ids)


def survey(path: str | os.PathLike[str]) -> Survey:
    """Read a file once. Raises LabelFileError for one that is no COCO file, or that contradicts itself."""
    found = Survey(os.fspath(path))
    stream = JsonStream(path)
    try:
        if stream.peek() == "[":
            raise not_annotations(found.path, "a list, as COCO's files of results are")
        seen: set[str] = set()
        for key in stream.members():
            if key in seen and key in ("images", "annotations", "categories"):
                raise LabelFileError(found.path, f'"{key}" is there twice', "join the two lists into one")
            seen.add(key)
            if key in ("images", "annotations", "categories") and stream.peek() != "[":
                raise LabelFileError(f"{found.path}, byte {stream.offset}", f'"{key}" is no list')
            if key == "images":
                _images(stream, found)
            elif key == "annotations":
                _annotations(stream, found)
            elif key == "categories":
                found.categories = _categories(stream, found.path)
        stream.end()
    finally:
        stream.close()
    for key in ("images", "annotations"):
        if key not in seen:
            raise not_annotations(found.path, f'no "{key}" in it, only {", ".join(map(escape, sorted(seen)[:5]))}')
    if found.kind in ("instances", "panoptic") and "categories" not in seen:
        raise not_annotations(found.path, 'no "categories", which name the classes')
    if not found.ids:
        raise LabelFileError(found.path, '"images" is empty', "check the export")
    return found


def not_annotations(path: str, got: str) -> LabelFileError:
    """Of a file of COCO's that says no instances, key points, segments or captions."""
    expected = "expected an object with the lists images, annotations and, unless they are captions, categories"
    return LabelFileError(path, f"got {got}; {expected}", "give the file of instances, key points or captions")


def said(entry: Any) -> str:
    """An entry in a message, shortly."""
    text = repr(entry)
    return escape(text if len(text) <= 80 else f"{text[:77]}...")


def _images(stream: JsonStream, found: Survey) -> None:
    of_id: dict[Id, int] = {}
    of_name: dict[str, int] = {}
    for i, entry in enumerate(stream.elements()):
        place = f'{found.path}, "images", entry {i}'
        if not isinstance(entry, Mapping):
            raise LabelFileError(place, f"got {said(entry)}, expected an object")
        own, name = entry.get("id"), entry.get("file_name")
        if type(own) is not int and not isinstance(own, str):
            raise LabelFileError(place, f"its id is {said(own)}, expected a number")
        if not name and isinstance(entry.get("coco_url"), str):
            # LVIS has no other name: folder and file are the end of the address, which nobody opens.
            name = "/".join(entry["coco_url"].split("/")[-2:])
            found.from_addresses += 1
        if not isinstance(name, str) or not name:
            raise LabelFileError(place, f"its file_name is {said(name)}, expected a name")
        if of_id.setdefault(own, i) != i:
            remedy = "give each image one entry: which one is meant cannot be told"
            raise LabelFileError(place, f"the id {said(own)} is that of entry {of_id[own]} already", remedy)
        if of_name.setdefault(name, i) != i:
            problem = f"{escape(name)} is entry {of_name[name]} already, with the id {said(found.ids[of_name[name]])}"
            raise LabelFileError(place, problem, "give each image one entry, and its annotations that id")
        found.ids.append(own)
        found.names.append(name)
        sides = [_side(entry.get(key)) for key in ("width", "height")]
        found.widths.append(sides[0] if all(sides) else 0)
        found.heights.append(sides[1] if all(sides) else 0)


def _side(value: Any) -> int:
    """Pixels; 0 for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 < value < 2**31 else 0


def _categories(stream: JsonStream, path: str) -> tuple[Category, ...]:
    found: dict[int, Category] = {}
    names: dict[str, int] = {}
    for i, entry in enumerate(stream.elements()):
        place = f'{path}, "categories", entry {i}'
        if not isinstance(entry, Mapping):
            raise LabelFileError(place, f"got {said(entry)}, expected an object")
        own, name = entry.get("id"), entry.get("name")
        if type(own) is not int or not -_LARGEST <= own < _LARGEST:
            raise LabelFileError(place, f"its id is {said(own)}, expected a whole number")
        if not isinstance(name, str) or not name or not is_plain(name):
            raise LabelFileError(place, f"its name is {said(name)}, expected a text on one line")
        if own in found:
            problem = f"the id {own} is that of '{escape(found[own].name)}' already"
            raise LabelFileError(place, problem, "give each category an id of its own")
        if name in names:
            problem = f"'{escape(name)}' is category {names[name]} already"
            raise LabelFileError(place, problem, "give both one entry, or names of their own")
        names[name] = own
        found[own] = Category(own, name, *_points(entry), is_thing=_is_thing(entry))
    return tuple(found[own] for own in sorted(found))


def _is_thing(entry: Mapping[str, Any]) -> bool | None:
    """What "isthing" says; None where it says neither 0 nor 1."""
    found = entry.get("isthing")
    return bool(found) if found in (0, 1) else None


def _points(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Names of key points, and pairs of them; nothing where they are no lists of those."""
    names, skeleton = entry.get("keypoints"), entry.get("skeleton")
    if not isinstance(names, list) or not all(isinstance(name, str) and is_plain(name) for name in names):
        return (), ()
    pairs = skeleton if isinstance(skeleton, list) else []
    whole = all(isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs)
    return tuple(names), tuple((a, b) for a, b in pairs) if whole else ()


def _annotations(stream: JsonStream, found: Survey) -> None:
    found.offset = stream.offset
    ids = array("q")
    kinds: Counter[Kind] = Counter()
    for entry in stream.elements():
        found.count += 1
        if not isinstance(entry, dict):
            continue  # listed when they are taken
        own = entry.get("id")
        if type(own) is int and -_LARGEST <= own < _LARGEST:
            ids.append(own)
        else:
            found.own_ids = False
        if "segments_info" in entry:
            kinds["panoptic"] += 1
            _png(entry, found)
        elif "caption" in entry and "bbox" not in entry:
            kinds["captions"] += 1
        else:
            kinds["instances"] += 1
        found.areas = found.areas or entry.get("area") is not None
        found.ignored += entry.get("ignore") in (1, True)
    if kinds:
        found.kind = kinds.most_common(1)[0][0]
    ordered = np.sort(np.frombuffer(ids, np.int64)) if len(ids) else np.zeros(0, np.int64)
    found.twice = frozenset(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]).tolist())


def _png(entry: Mapping[str, Any], found: Survey) -> None:
    """Note the file of an image's segments, where the entry names both. Raises LabelFileError for a second one."""
    image, name = entry.get("image_id"), entry.get("file_name")
    if not isinstance(name, str) or not (type(image) is int or isinstance(image, str)):
        return
    if image in found.pngs:
        problem = f"two annotations are of the image {said(image)}: {escape(found.pngs[image])} and {escape(name)}"
        raise LabelFileError(found.path, problem, "give each image one annotation, with one PNG")
    found.pngs[image] = name
    segments = entry["segments_info"]
    if isinstance(segments, list) and not found.areas:
        found.areas = any(isinstance(one, dict) and one.get("area") is not None for one in segments)


def file_name(path: str) -> str:
    """The last part of a path, for notes."""
    return name_text(os.path.basename(os.fsencode(path)))
