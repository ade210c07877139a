"""The COCO files at a path: one, or a folder's, with a split each; and the locations of their images."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from shardfeed.converters.sources.annotations.coco.stream import JsonStream, elements_of
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, StorageError, UsageError, argument, escape, name_text, without_secrets
from shardfeed.text import some

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
class Layout:
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


def coco_files(look: Look, options: AnnotationOptions) -> Layout | None:
    """The files at the path, which is a file or a folder; None if there are none.

    Raises UsageError if two belong to the same split.
    """
    path, images = look.path, None if options.images is None else os.fspath(options.images)
    if not look.is_folder:
        what = recognise_coco(path) if _FAMILY.match(file_name(path)) else recognise_coco(path, to_the_end=True)
        word, split = _split_of(file_name(path))
        root = images or _beside(path)
        return Layout(root, (CocoFile(path, what or "instances", split, _folder_of(root, word)),))
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
    return Layout(root, tuple(files), tuple(others))


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
