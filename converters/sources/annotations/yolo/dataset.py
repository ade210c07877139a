"""What a folder or a file says of a YOLO dataset: where its images are, and what its classes are called."""

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.yolo.data_yaml import MOST_BYTES, DataYaml, read_data_yaml
from shardfeed.converters.sources.classes import class_list, read_class_list
from shardfeed.converters.sources.files.listing import is_hidden
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, MissingExtraError, UsageError, argument, escape
from shardfeed.text import some

USUAL_YAML = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
NAMES_FILES = ("obj.names", "classes.txt", "_darknet.labels")  # one class a line: Darknet, LabelImg, Roboflow
_LISTS = ("train.txt", "valid.txt", "val.txt", "test.txt")
_NAMED = frozenset({*NAMES_FILES, *_LISTS})


@dataclass(frozen=True)
class YoloDataset:
    """`place`: the file or folder that says it, an absolute path, for messages.

    `root`: the folder with the images and their labels. `names`: of the classes, in label order; None where nobody says
    them. `entries`: by split, folders and lists, as they are written; empty where the folders of `root` tell.
    `said`: what a data.yaml says; None without one.
    """

    place: str
    root: str
    names: tuple[str, ...] | None
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    said: DataYaml | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """The task that is stated; "" where none is."""
        return "" if self.said is None else self.said.task

    @property
    def keypoints(self) -> Keypoints | None:
        """The key points that are stated."""
        return None if self.said is None else self.said.keypoints


def find_dataset(path: str, options: AnnotationOptions) -> YoloDataset:
    """The dataset that `path` means: a data.yaml, a Darknet .data file, or a folder with one of them or without.

    Raises UsageError or LabelFileError where it is none, or where two files describe it.
    """
    place = os.path.abspath(path)
    if os.path.isdir(place):
        found = description(place)
        if found is None:
            return _of_folder(place, options)
        place = found
    elif not os.path.isfile(place):
        raise UsageError(path, "no such file or folder", "check the path")
    if place.lower().endswith((".yaml", ".yml")):
        return _of_yaml(place, options)
    if place.lower().endswith(".data"):
        return _of_darknet(place, options)
    problem = "is no data.yaml, and no obj.data of Darknet"
    raise UsageError(path, problem, "give one of them, or the folder that holds images and labels")


def description(folder: str) -> str | None:
    """The file in a folder that describes a dataset: a YAML file with names, or a Darknet .data file; None without.

    Raises UsageError where two do.
    """
    visible = _files(folder)
    usual = [name for name in visible if name.lower() in USUAL_YAML]
    found = [name for name in usual if describes(os.path.join(folder, name), usual=True)]
    if not found:
        others = [name for name in visible if name.lower().endswith((".yaml", ".yml")) and name not in usual]
        found = [name for name in others if describes(os.path.join(folder, name))]
    if not found:
        found = [name for name in visible if name.lower().endswith(".data") and is_darknet(os.path.join(folder, name))]
    if len(found) > 1:
        raise UsageError(
            folder, f"more than one file describes a YOLO dataset ({some(found)})", "give the one you mean"
        )
    return os.path.join(folder, found[0]) if found else None


def describes(path: str, *, usual: bool = False) -> bool:
    """Whether a YAML file is the data.yaml of a dataset: has names, or splits where it is called as is `usual`.

    One that is called so and cannot be read is, too: reading it then says what is wrong.
    """
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return usual
        if not usual:
            with open(path, "rb") as file:
                if b"names" not in file.read():
                    return False
        said = read_data_yaml(path)
    except (LabelFileError, MissingExtraError):
        return usual
    except OSError:
        return False
    return said.names is not None or (usual and bool(said.entries))


def _files(folder: str) -> list[str]:
    """The names of the visible files right in a folder that may describe a dataset, sorted."""
    ends = (".yaml", ".yml", ".data", ".names")
    try:
        with os.scandir(folder) as entries:
            named = (entry for entry in entries if entry.name.lower().endswith(ends) or entry.name in _NAMED)
            return sorted(e.name for e in named if not is_hidden(os.fsencode(e.name)) and e.is_file())
    except OSError:
        return []  # listing it says what is wrong


def _class_names(options: AnnotationOptions, names: tuple[str, ...] | None, place: str) -> tuple[str, ...] | None:
    """The classes that the dataset names, or else the user. Raises UsageError where both do, and differ."""
    given = class_list(options.class_names)
    if given is not None and names is not None and given != names:
        problem = f"names other classes ({some(names)}) than those given ({some(given)})"
        raise UsageError(place, problem, f"leave {argument('class_names')} out")
    return names if names is not None else given


# --- data.yaml


def _of_yaml(place: str, options: AnnotationOptions) -> YoloDataset:
    said = read_data_yaml(place)
    names = _class_names(options, said.names, place)
    entries = dict(said.entries or {})
    root, notes = _root(place, said.path, entries, options)
    return YoloDataset(place, root, names, entries, said, notes)


def _root(
    place: str, path: str, entries: Mapping[str, Sequence[str]], options: AnnotationOptions
) -> tuple[str, tuple[str, ...]]:
    """The folder of the images and labels of a data.yaml, and notes: the one given, or `path`, or the file's own.

    `path` may be that of another machine: what decides is where the images of a split are. Raises UsageError where
    they are nowhere.
    """
    folder = os.path.dirname(place)
    if options.images is not None:
        if not os.path.isdir(options.images):
            raise UsageError(options.images, "no such folder", "check the path")
        bases = [os.path.abspath(options.images)]
    else:
        written = os.path.normpath(os.path.join(folder, path))
        bases = list(dict.fromkeys([written, folder] if path else [folder]))
    needed = [entry for split, found in entries.items() if split != "test" for entry in found]
    needed = needed or [entry for found in entries.values() for entry in found]
    there = [base for base in bases if os.path.isdir(base)]
    exact = [base for base in there if all(os.path.exists(os.path.join(base, e)) and _inside(base, e) for e in needed)]
    partly = [base for base in there if any(in_folder(base, entry) is not None for entry in needed)]
    found = exact or partly or ([] if needed else there)
    if not found:
        folders = argument("images", typed="DIR")
        problem = f"{needed[0] if needed else path!r} is not in {' or '.join(map(repr, bases))}"
        remedy = f"give the folder that holds the images and their labels: {folders}"
        raise UsageError(f"{place}, {_key_of(entries, needed)}", problem, remedy)
    notes = ()
    if options.images is None and found[0] != bases[0]:
        notes = (f"path of {escape(os.path.basename(place))} has no images: those beside the file are taken",)
    return found[0], notes


def _key_of(entries: Mapping[str, Sequence[str]], needed: Sequence[str]) -> str:
    """The split of the first entry that is needed; `path` where there is none."""
    return next((split for split, found in entries.items() if needed and needed[0] in found), "path")


def _inside(base: str, entry: str) -> bool:
    """Whether an entry, as it is written, is in a folder."""
    path = os.path.normpath(os.path.join(base, entry))
    return path == base or path.startswith(base.rstrip("/") + "/")


def in_folder(base: str, text: str) -> str | None:
    """The path of a file or folder in `base` that `text` means, relative to it; None where there is none.

    As it is written; else without what leads out of `base`, and then without more and more of its first folders: those
    of another machine, or of the folder in which a tool was started.
    """
    if _inside(base, text) and os.path.exists(os.path.join(base, text)):
        return os.path.relpath(os.path.join(base, text), base)
    return next((end for end in ends(text) if os.path.exists(os.path.join(base, end))), None)


def ends(text: str) -> Iterator[str]:
    r"""`a/b/c`, `b/c` and `c` of `/a/b/c`, `../a/b/c` or `a\b\c`."""
    path = posixpath.normpath(text.strip().replace("\\", "/"))
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return ("/".join(parts[i:]) for i in range(len(parts)))


# --- Darknet


def _of_darknet(place: str, options: AnnotationOptions) -> YoloDataset:
    """Of `classes = 2`, `train = data/train.txt`, `valid = ...`, `names = data/obj.names`."""
    folder = os.path.dirname(place)
    root = folder if options.images is None else os.path.abspath(options.images)
    said = _pairs(place)
    names = None
    if "names" in said:
        found = in_folder(folder, said["names"]) or in_folder(root, said["names"])
        if found is None:
            raise LabelFileError(f"{place}, names", f"no file {said['names']!r}", f"put it into {folder!r}")
        below = folder if os.path.exists(os.path.join(folder, found)) else root
        names = read_class_list(os.path.join(below, found))
        if said.get("classes", str(len(names))).strip() != str(len(names)):
            problem = f"got {said['classes']!r}, and {len(names)} names in {found}"
            raise LabelFileError(f"{place}, classes", problem, "make them agree")
    entries: dict[str, list[str]] = {}
    for key, value in said.items():
        split = usual_split(key)
        if split and value:
            entries.setdefault(split, []).append(value)
    names = _class_names(options, names, place)
    return YoloDataset(place, root, names, entries)


def _pairs(path: str) -> dict[str, str]:
    """`key = value`, one a line. Raises LabelFileError for what is none."""
    try:
        with open(path, "rb") as file:
            lines = budget().lines(file.read(MOST_BYTES).removeprefix(b"\xef\xbb\xbf"), path)
    except OSError as error:
        raise LabelFileError(path, f"cannot be read: {error.strerror}", "check the path") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "surrogateescape").strip()
        if not text or text.startswith(("#", ";")):
            continue
        key, equal, value = (part.strip() for part in text.partition("="))
        if not equal or key in found:
            problem = f"{escape(key[:60])} is there twice" if equal else "got no '='"
            raise LabelFileError(f"{path}:{number}", problem, "write lines such as 'train = data/train.txt'")
        found[key] = value
    return found


def is_darknet(path: str) -> bool:
    """Whether a .data file is Darknet's: says where the names and the images of a split are."""
    try:
        found = _pairs(path)
    except LabelFileError:
        return False
    return "names" in found and any(map(usual_split, found))


# --- no description


def _of_folder(root: str, options: AnnotationOptions) -> YoloDataset:
    """Of a folder of which only its own folders and files tell: `train.txt`, `classes.txt`, `images/train`."""
    if options.images is not None and not os.path.samefile(options.images, root):
        problem = "a folder without data.yaml or obj.data holds the images itself"
        raise UsageError("images", problem, "leave it out")
    files = names_files(root)
    names = read_class_list(files[0]) if files else None
    for other in files[1:]:
        if read_class_list(other) != names:
            problem = f"names other classes than {files[0]}"
            raise UsageError(other, problem, "make them agree: labels are numbers in one list")
    entries: dict[str, list[str]] = {}
    for name in _files(root):
        if name in _LISTS:
            entries.setdefault(str(usual_split(name[:-4])), []).append(name)
    return YoloDataset(root, root, _class_names(options, names, root), entries)


def names_files(root: str) -> list[str]:
    """The lists of class names in a folder, in its folders, and in those of them that are called `labels`."""
    folders = [root, *_folders(root)]
    folders += [inner for folder in folders[1:] for inner in _folders(folder)]
    found: list[str] = []
    for folder in folders:
        found += [os.path.join(folder, name) for name in _files(folder) if name in NAMES_FILES]
        found += [os.path.join(folder, n) for n in _files(folder) if n.endswith(".names") and n not in NAMES_FILES]
    return found


def _folders(folder: str) -> list[str]:
    """The visible folders in a folder that are called as those of a dataset are."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    names = [name for name in names if name.lower() in ("images", "labels", "data") or usual_split(name)]
    return [os.path.join(folder, name) for name in names]
