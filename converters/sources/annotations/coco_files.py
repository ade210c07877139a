"""The COCO files at a path: one, or a folder's, with a split each; and the locations of their images.

And their categories and keypoints: names, pairs that mirroring swaps, and the skeleton.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.annotations.json_stream import JsonStream, elements_of
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.rows.objects import shown_value
from shardfeed.errors import LabelFileError, StorageError, UsageError, argument, escape, name_text, without_secrets
from shardfeed.schema import is_plain
from shardfeed.split_words import usual_split
from shardfeed.text import some

_LARGEST = 2**63
_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}
_SIDE = re.compile(r"left|right|(?<![a-z])[lr](?![a-z])", re.IGNORECASE)
ROBOFLOW = "_annotations.coco.json"
_PEEKED = 2_000_000  # bytes of a file that are enough to recognise it
_LOOKED_AT = 20  # images that are looked for
_MOST = 20  # files of a folder that are opened to recognise them
_FAMILY = re.compile(r"(?:person_)?(instances|keypoints|captions|panoptic|stuff)(?=[_.-]|$)")
_SPLIT = re.compile(r"(?:^|[_.-])((train|training|val|valid|validation|test|minival)(?:[_-]?\d{4})?)(?=[_.-]|$)")
What = Literal["instances", "captions", "panoptic", "classes", "results", "images"]
_KINDS: tuple[What, ...] = ("instances", "captions", "panoptic", "classes")
_OF_OBJECT = frozenset(("bbox", "segmentation", "keypoints"))  # without any of these, an annotation is of the image
_OF_OBJECTS: frozenset[Task] = frozenset({"boxes", "masks", "keypoints"})
# Files of objects by their names, in order of preference; "" is any other name.
_FIRST = ("instances", "", "keypoints", "stuff")
_FIRST_OF_POINTS = ("keypoints", "instances", "")


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


@dataclass(frozen=True)
class CocoFile:
    """A file of annotations of the kind `what`. `split`: split of its images, if the layout defines it.

    `folder`: of the images, relative to the root, with "/" at its end, or "".
    """

    path: str
    what: What = "instances"
    split: str | None = None
    folder: str = ""

    @property
    def name(self) -> str:
        """The last part of its path, for notes."""
        return file_name(self.path)

    @property
    def family(self) -> str:
        """The first word of its name, such as "instances" or "keypoints"; "" if it is unknown."""
        found = _FAMILY.match(self.name)
        return found[1] if found else ""


@dataclass(frozen=True)
class CocoLayout:
    """`root`: the folder that keys are relative to. `files`: at least one. `others`: those that other tasks take."""

    root: str
    files: tuple[CocoFile, ...]
    others: tuple[CocoFile, ...] = ()


def file_name(path: str) -> str:
    """The last part of a path, for notes."""
    return name_text(os.path.basename(os.fsencode(path)))


def recognise_coco(path: str, *, to_the_end: bool = False) -> What | None:
    """The kind of COCO file, by the beginning of a JSON file; None for other JSON files, or if it is not JSON.

    `to_the_end`: whether everything before the first annotation is read. Raises LabelFileError for a file that begins
    like COCO's and is broken.
    """
    most = None if to_the_end else _PEEKED
    seen: dict[str, Any] = {}
    try:
        size = os.path.getsize(path)
        stream = JsonStream(path, most=most)
    except (OSError, StorageError, LabelFileError):  # not in UTF-8, for example
        return None
    whole = most is None or size <= most
    try:
        if stream.peek() == "[":
            entry = next(iter(stream.elements()), None)
            fields = ("bbox", "segmentation", "keypoints", "caption", "score")
            is_result = isinstance(entry, dict) and "image_id" in entry and any(field in entry for field in fields)
            return "results" if is_result else None
        for key in stream.members():
            if stream.peek() == "[" and key in ("images", "annotations", "categories"):
                seen[key] = None  # an empty list
                for entry in stream.elements():
                    seen[key] = seen[key] or entry
                    if key == "annotations":
                        return _of_first(seen, whole=whole)
    except LabelFileError:
        if whole and len(seen) > 1:
            raise
    finally:
        stream.close()
    found, family = _of_first(seen, whole=whole), CocoFile(path).family
    # If only images were read, or there is no annotation, the name may decide.
    return family if found == "instances" and (family == "captions" or family == "panoptic") else found


def _of_first(seen: dict[str, Any], *, whole: bool) -> What | None:
    """The kind of a file by the first entries of its lists; `whole`: whether there are no others."""
    image, annotation = seen.get("images"), seen.get("annotations")
    if isinstance(annotation, dict) and "image_id" in annotation:
        if "segments_info" in annotation:
            return "panoptic"
        if "caption" in annotation and "bbox" not in annotation:
            return "captions"
        return "classes" if "category_id" in annotation and not annotation.keys() & _OF_OBJECT else "instances"
    named = isinstance(image, dict) and "id" in image and ("file_name" in image or "coco_url" in image)
    if not named:
        return None
    return "images" if whole and "annotations" not in seen else "instances"


def coco_files(look: Look, options: AnnotationOptions) -> CocoLayout | None:
    """The files at the path, which is a file or a folder; None if there are none.

    Raises UsageError if two belong to the same split.
    """
    path, images = look.path, None if options.images is None else os.fspath(options.images)
    if not look.is_folder:
        what = recognise_coco(path) if _FAMILY.match(file_name(path)) else recognise_coco(path, to_the_end=True)
        word, split = _split_of(file_name(path))
        root = images or _beside(path)
        return CocoLayout(root, (CocoFile(path, what or "instances", split, _folder_of(root, word)),))
    root = str(images or path)
    files, others = list(_roboflow(look, root)), []
    for folder in () if files else ("annotations", "Annotations", ""):
        found = list(_files_in(look, folder, root))
        files = _chosen(found, options.tasks)
        if files:
            others = [file for file in found if file.what in _KINDS and file not in files]
            break
    if not files:
        return None
    for what in _KINDS:
        alike = [file for file in files if file.what == what]
        if len(alike) == 1 and alike[0].split == _plain(alike[0].name):  # no split, if it is the only file
            files[files.index(alike[0])] = replace(alike[0], split=None)
        splits = [file.split for file in alike]
        twice = [file.path for file in alike if splits.count(file.split) > 1]
        if twice:
            problem = f"{some(map(file_name, twice))} are of the same split"
            raise UsageError(path, problem, "give one of them as the source")
    return CocoLayout(root, tuple(files), tuple(others))


def _roboflow(look: Look, root: str) -> Iterator[CocoFile]:
    """`_annotations.coco.json` beside the images: of the folder, or of each of its splits."""
    folders, files = look.names()
    if ROBOFLOW in files:
        yield CocoFile(look.full(ROBOFLOW))
        return
    for name in folders:
        split = usual_split(name)
        if split and ROBOFLOW in look.names(name)[1]:
            folder = name + "/" if os.path.isdir(os.path.join(root, name)) else ""
            yield CocoFile(look.full(f"{name}/{ROBOFLOW}"), "instances", split, folder)


def _files_in(look: Look, folder: str, root: str) -> Iterator[CocoFile]:
    """COCO's files right in a folder."""
    names = [name for name in look.names(folder)[1] if name.lower().endswith(".json")]
    for name in names if len(names) <= _MOST else ():  # else a file an image, as other tools write them
        path = look.full(os.path.join(folder, name))
        if what := recognise_coco(path, to_the_end=not _FAMILY.match(name)):
            word, split = _split_of(name)
            yield CocoFile(path, what, split or _plain(name), _folder_of(root, word))


def _chosen(found: Sequence[CocoFile], tasks: Collection[Task]) -> list[CocoFile]:
    """Return the files for the requested tasks; by default the object files, else segments, else captions."""
    files: list[CocoFile] = []
    if "rasters" not in tasks and (not tasks or _OF_OBJECTS.intersection(tasks)):
        order = _FIRST_OF_POINTS if "keypoints" in tasks else _FIRST
        objects = [file for file in found if file.what == "instances"]
        files = next(filter(None, ([one for one in objects if one.family == family] for family in order)), [])
    if "rasters" in tasks or (not files and _OF_OBJECTS.intersection(tasks) <= {"boxes"} and "captions" not in tasks):
        files = [file for file in found if file.what == "panoptic"]
    if "classes" in tasks or not (files or tasks):
        files = [*files, *(file for file in found if file.what == "classes")]
    if "captions" in tasks or not (files or tasks):
        files = [*files, *(file for file in found if file.what == "captions")]
    return files


def _plain(name: str) -> str:
    return os.path.splitext(name)[0]


def plain_id(value: Any) -> Any:
    """An id as a number, where it is one written as "1" (VIA) or 1.0 (pandas); anything else unchanged."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 19:
        return int(value) if str(int(value)) == value else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _split_of(name: str) -> tuple[str, str | None]:
    """The word for the split in a file's name (`train2017`), and the split."""
    found = list(_SPLIT.finditer(os.path.splitext(name)[0].lower()))
    if not found:
        return "", None
    word = found[-1]
    return word[1], usual_split(word[2]) or word[2]


def keeps_split(name: str, split: str, *, alone: bool) -> bool:
    """Whether a file of this name in a folder, if `alone` the only one, is read as the file of that split."""
    known = _split_of(name)[1]
    if known is None and _FAMILY.match(name):
        return False
    return (known or ("train" if alone else _plain(name))) == split


def _folder_of(root: str, word: str) -> str:
    """The folder of a split's images, relative to `root`, with "/" at its end; empty if there is no such folder."""
    split = usual_split(re.sub(r"[_-]?\d{4}$", "", word))
    others = ("train", "valid", "val", "validation", "test") if split else ()
    words = [word, *[other for other in others if usual_split(other) == split]]
    for name in words if word else ():
        for folder in (name, f"images/{name}", f"{name}/images", f"{name}/data"):
            if os.path.isdir(os.path.join(root, folder)):
                return folder + "/"
    return ""


def _beside(path: str) -> str:
    """Return the folder of a file's images, if not given: the first usual one that contains any of them.

    Raises UsageError if none does.
    """
    here = os.path.dirname(os.path.abspath(path))
    names: list[str] = []  # of the first images
    for entry in islice(elements_of(path, "images"), _LOOKED_AT):
        name = entry.get("file_name") or entry.get("coco_url") if isinstance(entry, dict) else None
        if isinstance(name, str) and ".." not in name:
            names.append("/".join(name.split("/")[-2:]) if name == entry.get("coco_url") else name)
    bases = [here]
    if os.path.basename(here).lower() in ("annotations", "annotation", "labels"):
        bases.append(os.path.dirname(here))
    word = _split_of(os.path.basename(path))[0]
    inner = [*([word, f"images/{word}"] if word else []), "images", "data", ""]
    for base in bases:
        for folder in inner:
            place = os.path.join(base, folder) if folder else base
            if any(_is_file(place, name) or _is_file(place, name.rpartition("/")[2]) for name in names):
                return place
    first = f", such as {escape(without_secrets(names[0]).partition('?')[0])}," if names else ""
    problem = f"none of its images{first} is in {some([*bases, *inner[:-1]])}"
    raise UsageError(path, problem, f"give their folder: {argument('images', typed='DIR')}")


def _is_file(folder: str, name: str) -> bool:
    try:
        return os.path.isfile(os.path.join(folder, name.replace("\\", "/").lstrip("/")))
    except ValueError:  # a NUL
        return False
