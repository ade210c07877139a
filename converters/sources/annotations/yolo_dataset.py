"""Find the parts of a YOLO dataset from a folder or a file: where its images are, and the names of its classes."""

import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardfeed.converters.sources.annotations.yolo_data_yaml import DataYaml, read_data_yaml
from shardfeed.converters.sources.annotations.yolo_lines import looks_like_label
from shardfeed.converters.sources.classes import class_list, read_class_list
from shardfeed.converters.sources.files.class_names import MOST_BYTES
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import read_whole
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.errors import LabelFileError, MissingExtraError, UsageError, argument, escape
from shardfeed.split_words import split_words, usual_split
from shardfeed.text import some

NAMES_FILES = ("obj.names", "classes.txt", "_darknet.labels")  # one class a line: Darknet, LabelImg, Roboflow
_USUAL_YAML = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_LISTS = ("train.txt", "valid.txt", "val.txt", "test.txt")
_YAML = (".yaml", ".yml")
_LOOKED_AT = 50  # entries of a folder with labels
_FIRST = 4096  # bytes of a file of labels
_A_FRACTION = 1.5  # or a little off one


@dataclass(frozen=True)
class YoloDataset:
    """Description of a dataset. `place`: absolute path of its file or folder, for messages.

    `root`: the folder with the images and labels. `names`: of the classes, in label order; None if not given.
    `entries`: by split, absolute paths of folders, lists and images, all existing and most of them in `root`; empty if
    the folders of `root` define the splits. `data_yaml`: the data.yaml, if there is one. `images`: the folder of the
    images, if only their labels are in `root`; then entries may be folders that do not exist, but have labels.
    """

    place: str
    root: str
    names: tuple[str, ...] | None
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    data_yaml: DataYaml | None = None
    notes: tuple[str, ...] = ()
    images: str = ""


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Evidence of a data.yaml, of Darknet's obj.data, or of labels beside images; None without. Reads little."""
    try:
        found = description(look) if look.is_folder else described_by(look.path)
    except UsageError as error:
        return Evidence("yolo", error.args[1])  # reading it reports which one to choose
    if found is not None:
        name = escape(os.path.basename(found.path))
        by = f"Darknet's {name}" if name.lower().endswith(".data") else f"{name} of Ultralytics"
        return Evidence("yolo", by, parsed=found)
    labels = _labels(look) if look.is_folder else None
    if labels is None:
        return None
    lists = names_files(look)
    if lists:
        return Evidence("yolo", f"{some(lists)}, and lines of numbers as in {escape(labels)}")
    missing = "" if options.class_names else f"a data.yaml with names, or {argument('class_names', typed='FILE')}"
    return Evidence("yolo", f"images, and lines of class and fractions as in {escape(labels)}", missing)


def _labels(look: Look) -> str | None:
    """Find a label file in a folder whose images are in the usual place; None if there is none."""
    seen: Counter[str] = Counter()
    for path in look.files((".txt",)):
        folder, name = os.path.split(path)
        seen[folder] += name not in NAMES_FILES
        head, found, tail = f"/{folder}".rpartition("/labels")
        images = f"{head}/images{tail}"[1:] if found and tail[:1] in ("", "/") else folder
        if name in NAMES_FILES or seen[folder] > _LOOKED_AT:
            continue
        there = any(names_image(os.fsencode(other)) for other in look.names(images)[1])
        if there and _begins_with_labels(look.head(look.full(path))):
            return path
    return None


def _begins_with_labels(head: bytes) -> bool:
    """Whether the first lines of a file are labels, in fractions."""
    lines = head[:_FIRST].removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    whole = [line for line in lines if line.strip() and (line.endswith((b"\n", b"\r")) or len(lines) == 1)][:3]
    fractions = (max(map(float, line.split()[1:5])) <= _A_FRACTION for line in whole if looks_like_label(line))
    return bool(whole) and all(map(looks_like_label, whole)) and all(fractions)


@dataclass(frozen=True)
class Description:
    """The file that describes a dataset, by its absolute path; `data_yaml`: its content, if it is a readable YAML."""

    path: str
    data_yaml: DataYaml | None = None


def find_dataset(look: Look, options: AnnotationOptions, found: Description | None) -> YoloDataset:
    """The dataset at a path: a data.yaml, a Darknet .data file, or a folder with or without such a file.

    `found`: its description, if that is known already.

    Raises UsageError or LabelFileError if it is not a dataset, or if two files describe it.
    """
    found = found or description(look) or Description(os.path.abspath(look.path))
    place = found.path
    if place.lower().endswith(_YAML):
        return _of_yaml(place, found.data_yaml or read_data_yaml(place), options)
    if place.lower().endswith(".data"):
        return _of_darknet(place, options)
    if look.is_folder:
        return _of_folder(look, place, options)
    problem = "is not a data.yaml or a Darknet obj.data"
    raise UsageError(look.path, problem, "give one of them, or the folder that holds images and labels")


def description(look: Look) -> Description | None:
    """The file in a folder that describes a dataset: a YAML file with names, or a Darknet .data file; None without.

    Raises UsageError if there are two.
    """
    names = look.names()[1] if look.is_folder else ()
    yaml, usual = ([name for name in names if name.lower().endswith(ends)] for ends in (_YAML, _USUAL_YAML))
    others = [name for name in yaml if name not in usual]
    for alike in (usual, others, [name for name in names if name.lower().endswith(".data")]):
        found = {name: one for name in alike if (one := described_by(look.full(name)))}
        if len(found) > 1:
            problem = f"more than one file describes a YOLO dataset ({some(found)})"
            raise UsageError(look.path, problem, "give one of them")
        if found:
            return next(iter(found.values()))
    return None


def described_by(path: str) -> Description | None:
    """Read a file that may be the data.yaml of a dataset, or Darknet's; None if it is neither.

    A data.yaml has names, or, if it has the usual file name, splits. Darknet's file has the paths of the names and of
    the images of a split. An unreadable file with the usual name counts as well: reading it gives the error.
    """
    path = os.path.abspath(path)
    name = os.path.basename(path).lower()
    usual = name in _USUAL_YAML
    try:
        if name.endswith(".data"):
            pairs = _pairs(path)
            return Description(path) if "names" in pairs and any(map(usual_split, pairs)) else None
        if not name.endswith(_YAML) or not (usual or b"names" in read_whole(path, MOST_BYTES)):
            return None
        document = read_data_yaml(path)
    except (LabelFileError, MissingExtraError):
        return Description(path) if usual else None
    return Description(path, document) if document.names is not None or (usual and document.entries) else None


def _class_names(options: AnnotationOptions, names: tuple[str, ...] | None, place: str) -> tuple[str, ...] | None:
    """Return the class names of the dataset, else the user's. Raises UsageError if both exist and differ."""
    given = class_list(options.class_names, from_zero=True)
    if given is not None and names is not None and given != names:
        problem = f"lists different classes ({some(names)}) than those given ({some(given)})"
        raise UsageError(place, problem, f"leave {argument('class_names')} out")
    return names if names is not None else given


# --- data.yaml


def _of_yaml(place: str, data_yaml: DataYaml, options: AnnotationOptions) -> YoloDataset:
    """The root is `images` of the options, else `path`, else the file's own folder: where the images of a split are.

    `path` may be that of another machine.
    """
    names = _class_names(options, data_yaml.names, place)
    folder = os.path.dirname(place)
    bases = list(dict.fromkeys([os.path.normpath(os.path.join(folder, data_yaml.path)), folder]))
    entries = data_yaml.entries or {}
    if options.images is not None:
        bases = [_folder_of_images(options.images)]
        if paths := _entries_of_labels(folder, bases[0], entries):
            return YoloDataset(place, folder, names, paths, data_yaml, images=bases[0])
    needed = _needed(entries)
    there = [base for base in bases if os.path.isdir(base)]
    exact = [base for base in there if all(_written(base, e) and is_in(_written(base, e), base) for e in needed)]
    partly = [base for base in there if any(_resolve(base, entry) for entry in needed)]
    found = exact or partly or ([] if needed else there)
    if not found:
        problem = f"{needed[0] if needed else data_yaml.path!r} is not in {' or '.join(map(repr, bases))}"
        remedy = f"give the folder of the images and their labels: {argument('images', typed='DIR')}"
        remedy = remedy if options.images is None else "check that it is the folder of the images and their labels"
        key = next((split for split, paths in entries.items() if needed and needed[0] in paths), "path")
        raise UsageError(f"{place}, {key}", problem, remedy)
    notes = []
    if options.images is None and found[0] != bases[0]:
        notes = [f"path of {escape(os.path.basename(place))} has no images: using those next to the file"]
    paths = _resolve_all(place, found[0], entries, notes)
    return YoloDataset(place, found[0], names, paths, data_yaml, tuple(notes))


def _resolve_all(place: str, base: str, entries: Mapping[str, Sequence[str]], notes: list[str]) -> dict[str, list[str]]:
    """The paths that the entries of each split mean; adds to the notes. Raises UsageError for one that is nowhere."""
    found: dict[str, list[str]] = {}
    for split, texts in entries.items():
        for text in texts:
            path = _resolve(base, text)
            if not path and split == "test":  # many exports name one that they do not have
                notes.append(f"test: {escape(text)} is missing")
            elif not path:
                folder = f"give the folder of images and labels: {argument('images', typed='DIR')}"
                remedy = f"correct it, remove the line, or {folder}"
                raise UsageError(f"{place}, {split}", f"{text!r} is not in {base!r}", remedy)
            else:
                found.setdefault(split, []).append(path)
                inside = os.path.relpath(path, base)
                if not is_in(path, base):
                    notes.append(f"{split}: {escape(text)} is outside of {escape(base)}, and read as in Ultralytics")
                elif not _written(base, text) and os.path.normpath(text).lstrip("./") != inside:
                    notes.append(f"{split}: {escape(text)} is missing, using {escape(inside)}")
    return found


def _folder_of_images(images: str | os.PathLike[str]) -> str:
    """The absolute path of the user's folder of images. Raises UsageError if there is none."""
    if not os.path.isdir(images):
        raise UsageError(images, "no such folder", "check the path")
    return os.path.abspath(os.fspath(images))


def _needed(entries: Mapping[str, Sequence[str]]) -> list[str]:
    """The entries that have to exist: those of the test split only if there are no others."""
    needed = [entry for split, found in entries.items() if split != "test" for entry in found]
    return needed or [entry for found in entries.values() for entry in found]


def _entries_of_labels(folder: str, images: str, entries: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The lists in `folder`, and the folders in it with labels, if the entries name these and no labels at `images`.

    So it is where a tool exports labels without their images. Empty if a split is missing, or any other entry.
    """
    found: dict[str, list[str]] = {}
    for split, texts in entries.items():
        for text in texts:
            place = _resolve if text.lower().endswith(".txt") else _folder_of_labels
            path, at_images = place(folder, text), place(images, text)
            if at_images or not (path or split == "test"):
                return {}
            found.setdefault(split, []).extend([path] if path else [])
    return {} if is_in(folder, images) else found


def _folder_of_labels(base: str, text: str) -> str:
    """The path in `base` that an entry names, existing or not, if labels are where those of its images are; else ""."""
    for end in path_ends(text):
        path = os.path.join(base, end)
        head, found, tail = f"{path}/".rpartition("/images/")
        folder = f"{head}/labels/{tail}" if found else path
        if os.path.isdir(folder) and any(name.endswith(".txt") for name in os.listdir(folder)):
            return path
    return ""


def is_in(path: str, base: str) -> bool:
    """Whether a path is a folder or in it; both are absolute."""
    return path == base or path.startswith(base.rstrip("/") + "/")


def _written(base: str, text: str) -> str:
    """Return the path in an entry unchanged, if it exists; "" otherwise, and if `base` is in it."""
    path = os.path.normpath(os.path.join(base, text))
    return path if os.path.exists(path) and (path == base or not is_in(base, path)) else ""


def _resolve(base: str, text: str) -> str:
    """The path of an entry: as written, and as Ultralytics reads it; "" if it does not exist.

    Else in `base`, with more and more of its first folders removed: they may be from another machine, or from the
    folder in which a tool was started. Else with another word for the same split: Roboflow writes `valid`, and some
    users rename it.
    """
    cut = [*path_ends(text)]
    parts = [(end.split("/"), i) for end in cut for i in range(end.count("/") + 1)]
    renamed = ("/".join([*of[:i], word, *of[i + 1 :]]) for of, i in parts for word in split_words(of[i]))
    inside = (os.path.join(base, end) for ends in (cut, renamed) for end in ends)
    return _written(base, text) or next((path for path in inside if os.path.exists(path)), "")


def path_ends(text: str) -> Iterator[str]:
    r"""`a/b/c`, `b/c` and `c` of `/a/b/c`, `../a/b/c` or `a\b\c`."""
    path = posixpath.normpath(text.strip().replace("\\", "/"))
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return ("/".join(parts[i:]) for i in range(len(parts)))


# --- Darknet


def _of_darknet(place: str, options: AnnotationOptions) -> YoloDataset:
    """`classes = 2`, `train = data/train.txt`, `valid = ...`, `names = data/obj.names`."""
    folder = os.path.dirname(place)
    base = folder if options.images is None else os.path.abspath(options.images)
    images = "" if is_in(folder, base) else base
    pairs = _pairs(place)
    names = None
    if "names" in pairs:
        file = _resolve(folder, pairs["names"]) or _resolve(base, pairs["names"])
        if not file:
            raise LabelFileError(f"{place}, names", f"no file {pairs['names']!r}", f"put it into {folder!r}")
        names = read_class_list(file)
        if pairs.get("classes", str(len(names))).strip() != str(len(names)):
            problem = f"got {pairs['classes']!r}, and {len(names)} names in {os.path.relpath(file, folder)}"
            raise LabelFileError(f"{place}, classes", problem, "make them agree")
    entries: dict[str, list[str]] = {}
    for key, value in pairs.items():
        if (split := usual_split(key)) and value:
            entries.setdefault(split, []).append(value)
    names = _class_names(options, names, place)
    if images and (paths := _entries_of_labels(folder, images, entries)):
        return YoloDataset(place, folder, names, paths, images=images)
    notes: list[str] = []
    paths = _resolve_all(place, base, entries, notes)
    return YoloDataset(place, base, names, paths, notes=tuple(notes))


def _pairs(path: str) -> dict[str, str]:
    """Parse lines of `key = value`. Raises LabelFileError for a line that is not."""
    found: dict[str, str] = {}
    for line, (text,) in LabelTable(path, "text", None, paths_only=True).texts():
        if text.startswith(("#", ";")):
            continue
        key, equal, value = (part.strip() for part in text.partition("="))
        if not equal or key in found:
            problem = f"{escape(key[:60])} appears twice" if equal else "got no '='"
            raise LabelFileError(f"{path}:{line}", problem, "write lines such as 'train = data/train.txt'")
        found[key] = value
    return found


# --- no description


def _of_folder(look: Look, root: str, options: AnnotationOptions) -> YoloDataset:
    """Recognise a folder by its own subfolders and files: `train.txt`, `classes.txt`, `images/train`."""
    if options.images is not None and not os.path.samefile(options.images, root):
        problem = "not used: a folder without data.yaml or obj.data contains the images"
        raise UsageError("images", problem, "leave it out")
    files = [os.path.join(root, name) for name in names_files(look)]
    names = read_class_list(files[0]) if files else None
    for other in files[1:]:
        if read_class_list(other) != names:
            problem = f"lists different classes than {files[0]}"
            raise UsageError(other, problem, "make them agree: labels are indexes into one list")
    entries: dict[str, list[str]] = {}
    for name in look.names()[1]:
        if name in _LISTS:
            entries.setdefault(str(usual_split(name[:-4])), []).append(os.path.join(root, name))
    return YoloDataset(root, root, _class_names(options, names, root), entries)


def names_files(look: Look) -> list[str]:
    """The lists of class names in a folder, and in its usual folders; relative."""
    found = []
    for path in look.files((*NAMES_FILES, ".names")):
        *folders, name = path.split("/")
        usual = all(folder.lower() in ("images", "labels", "data") or usual_split(folder) for folder in folders)
        found += [path] if usual and (name.endswith(".names") or name in NAMES_FILES) else []
    return found
