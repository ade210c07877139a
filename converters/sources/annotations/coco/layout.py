"""Which COCO files a user points at: one, or those of a folder, a split each; and where their images lie."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shardfeed.converters.sources.annotations.coco.stream import JsonStream
from shardfeed.converters.sources.annotations.coco.survey import file_name
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, StorageError, UsageError, argument, escape
from shardfeed.text import some

ROBOFLOW = "_annotations.coco.json"
_PEEKED = 2_000_000  # bytes of a file that tell what it is
_LOOKED_AT = 20  # images that are looked for
_MOST = 20  # files of a folder that are opened to see what they are
_PREFIXES = {"captions": "captions", "keypoints": "person_keypoints", "rasters": "panoptic"}
_SPLIT = re.compile(r"(?:^|[_.-])((train|training|val|valid|validation|test|minival)(?:[_-]?\d{4})?)(?=[_.-]|$)")
What = Literal["instances", "captions", "panoptic", "results", "images"]
_NAMED: tuple[What, ...] = ("captions", "panoptic")


@dataclass(frozen=True)
class CocoFile:
    """A file of annotations. `split`: of its images, where the layout says. `folder`: of them, relative to the root."""

    path: str
    split: str | None = None
    folder: bytes = b""


@dataclass(frozen=True)
class Layout:
    """`root`: the folder that keys are relative to. `files`: at least one."""

    root: str
    files: tuple[CocoFile, ...]


def what_it_is(path: str) -> What | None:
    """What the beginning of a JSON file says that it is of COCO's; None where it is another's, or no JSON.

    Raises LabelFileError for a file that began as one of COCO's and is broken.
    """
    seen: dict[str, Any] = {}
    try:
        size = os.path.getsize(path)
        stream = JsonStream(path, most=_PEEKED)
    except (OSError, StorageError):
        return None
    try:
        if stream.peek() == "[":
            return "results" if _is_result(next(iter(stream.elements()), None)) else None
        for key in stream.members():
            if stream.peek() == "[" and key in ("images", "annotations", "categories"):
                entries = stream.elements()
                seen[key] = None  # an empty list
                for entry in entries:
                    seen[key] = seen[key] or entry
    except LabelFileError:
        if size <= _PEEKED and len(seen) > 1:
            raise
    finally:
        stream.close()
    found = _of_first(seen, whole=size <= _PEEKED)
    if found == "instances" and seen.get("annotations") is None:
        # Images fill all that was read, or there is no annotation: the name may tell.
        for what in _NAMED:
            if file_name(path).startswith(f"{what}_"):
                return what
    return found


def _is_result(entry: Any) -> bool:
    fields = ("bbox", "segmentation", "keypoints", "caption", "score")
    return isinstance(entry, dict) and "image_id" in entry and any(field in entry for field in fields)


def _of_first(seen: dict[str, Any], *, whole: bool) -> What | None:
    """What a file is by the first entries of its lists; `whole`: whether those are all."""
    image, annotation = seen.get("images"), seen.get("annotations")
    if isinstance(annotation, dict) and "image_id" in annotation:
        if "segments_info" in annotation:
            return "panoptic"
        return "captions" if "caption" in annotation and "bbox" not in annotation else "instances"
    named = isinstance(image, dict) and "id" in image and ("file_name" in image or "coco_url" in image)
    if not named:
        return None
    return "images" if whole and "annotations" not in seen else "instances"


def coco_files(path: str, options: AnnotationOptions) -> Layout | None:
    """The files of `path`, a file or a folder; None where there are none."""
    if not os.path.isdir(path):
        return Layout(options.images or _beside(path), (CocoFile(path, options.split),))
    root = options.images or path
    files = list(_roboflow(path)) or _of_coco(path, root, options)
    if options.split is not None and len(files) == 1:
        files = [CocoFile(files[0].path, options.split, files[0].folder)]
    if not files:
        return None
    splits = [file.split for file in files]
    twice = [file.path for file in files if splits.count(file.split) > 1]
    if twice:
        problem = f"{some(map(file_name, twice))} are of the same split"
        raise UsageError(path, problem, "give the one that is meant as the source")
    inside = [file if _is_folder(root, file.folder) else CocoFile(file.path, file.split) for file in files]
    return Layout(root, tuple(inside))


def _is_folder(root: str, folder: bytes) -> bool:
    return os.path.isdir(os.path.join(os.fsencode(root), folder))


def _names(folder: str) -> list[str]:
    """What is in a folder, sorted; nothing where that cannot be said."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def _roboflow(path: str) -> Iterator[CocoFile]:
    """`_annotations.coco.json` beside the images: of the folder, or of each of its splits."""
    if os.path.isfile(os.path.join(path, ROBOFLOW)):
        yield CocoFile(os.path.join(path, ROBOFLOW))
        return
    for name in _names(path):
        file = os.path.join(path, name, ROBOFLOW)
        split = usual_split(name)
        if split and os.path.isfile(file):
            yield CocoFile(file, split, os.fsencode(name) + b"/")


def _of_coco(path: str, root: str, options: AnnotationOptions) -> Sequence[CocoFile]:
    """The files of the task in `annotations`, or beside the images' folder; a split each, by their names."""
    task = next((name for name in _PREFIXES if name in options.tasks), "")
    wanted: What = "captions" if task == "captions" else "panoptic" if task == "rasters" else "instances"
    files = list(_of_kind(path, root, task, wanted))
    if not files and options.tasks <= {"boxes"}:
        files = list(_of_kind(path, root, "rasters", "panoptic"))  # which has boxes, too
    return files


def _of_kind(path: str, root: str, task: str, wanted: What) -> Iterator[CocoFile]:
    """The files of one kind; `task`: the one that their names may tell, or ""."""
    for folder in (os.path.join(path, "annotations"), os.path.join(path, "Annotations"), path):
        names = [name for name in _names(folder) if name.lower().endswith(".json")]
        prefixed = [name for name in names if name.startswith(_PREFIXES.get(task, "instances") + "_")]
        prefixed = prefixed or [name for name in names if name.startswith("instances_") and wanted == "instances"]
        others = [name for name in names if not name.startswith(("captions_", "person_keypoints_", "panoptic_"))]
        chosen = prefixed or others
        if len(chosen) > _MOST:
            continue  # a file an image, as other tools write them
        chosen = [name for name in chosen if what_it_is(os.path.join(folder, name)) == wanted]
        for name in chosen:
            word, split = _split_of(name)
            alone = len(chosen) == 1
            file = os.path.join(folder, name)
            yield CocoFile(file, split or (None if alone else _plain(name)), _folder_of(root, word))
        if chosen:
            return


def _plain(name: str) -> str:
    return os.path.splitext(name)[0]


def _split_of(name: str) -> tuple[str, str | None]:
    """The word in a file's name that says its split (`train2017`), and the split."""
    found = list(_SPLIT.finditer(os.path.splitext(name)[0].lower()))
    if not found:
        return "", None
    word = found[-1]
    return word[1], usual_split(word[2]) or word[2]


def _folder_of(root: str, word: str) -> bytes:
    """The folder of a split's images, relative to `root`, with "/" at its end; empty where there is none such."""
    words = [word, *[other for other in ("train", "valid", "val", "validation", "test") if _same(word, other)]]
    for name in words if word else ():
        for folder in (name, f"images/{name}", f"{name}/images", f"{name}/data"):
            if os.path.isdir(os.path.join(root, folder)):
                return os.fsencode(folder) + b"/"
    return b""


def _same(word: str, other: str) -> bool:
    """Whether two words mean the same split."""
    plain = re.sub(r"[_-]?\d{4}$", "", word)
    return usual_split(plain) is not None and usual_split(plain) == usual_split(other)


def _beside(path: str) -> str:
    """The folder of a file's images, where nobody said it: the first of the usual ones that has any of them.

    Raises UsageError where none has.
    """
    here = os.path.dirname(os.path.abspath(path))
    names = _first_names(path)
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
    first = f", such as {escape(names[0])}," if names else ""
    problem = f"none of its images{first} lies in {some([*bases, *inner[:-1]])}"
    raise UsageError(path, problem, f"give their folder: {argument('images', typed='DIR')}")


def _is_file(folder: str, name: str) -> bool:
    try:
        return os.path.isfile(os.path.join(folder, name.replace("\\", "/").lstrip("/")))
    except ValueError:  # a NUL
        return False


def _first_names(path: str) -> Sequence[str]:
    """The names of the first images."""
    names: list[str] = []
    stream = JsonStream(path)
    try:
        if stream.peek() != "{":
            return names
        for key in stream.members():
            for entry in stream.elements() if key == "images" and stream.peek() == "[" else ():
                name = entry.get("file_name") or entry.get("coco_url") if isinstance(entry, dict) else None
                if isinstance(name, str) and ".." not in name:
                    names.append("/".join(name.split("/")[-2:]) if name == entry.get("coco_url") else name)
                if len(names) == _LOOKED_AT:
                    return names
    finally:
        stream.close()
    return names
