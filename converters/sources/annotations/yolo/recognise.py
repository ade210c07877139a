"""Whether something is a YOLO dataset, by what is in it."""

import itertools
import os
from collections.abc import Iterator

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.yolo.dataset import (
    NAMES_FILES,
    describes,
    description,
    is_darknet,
    names_files,
)
from shardfeed.converters.sources.annotations.yolo.label_files import looks_like_label
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some

NAME = "yolo"
_LOOKED_AT = 50  # entries of a folder with labels
_FIRST = 4096  # bytes of a file of labels
_A_FRACTION = 1.5  # or a little off one


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """Evidence of a data.yaml, of Darknet's obj.data, or of labels beside images; None without. Reads little."""
    path = os.fspath(path)
    if os.path.isfile(path):
        return _of_file(path)
    if not os.path.isdir(path):
        return None
    try:
        found = description(path)
    except UsageError as error:
        return Evidence(NAME, error.problem)  # reading it says which to choose
    if found is not None:
        return _of_file(found)
    labels = _labels(path)
    if labels is None:
        return None
    shown = escape(os.path.relpath(labels, path))
    lists = names_files(path)
    if lists:
        names = some(os.path.relpath(name, path) for name in lists)
        return Evidence(NAME, f"{names}, and lines of numbers as in {shown}")
    evidence = f"images, and lines of a class and fractions as in {shown}"
    if options.class_names is not None:
        return Evidence(NAME, evidence)
    return Evidence(NAME, evidence, f"a data.yaml with names, or {argument('class_names', typed='FILE')}")


def _of_file(path: str) -> Evidence | None:
    name = os.path.basename(path)
    if name.lower().endswith((".yaml", ".yml")):
        usual = name.lower().startswith(("data.", "dataset."))
        return Evidence(NAME, f"{escape(name)} of Ultralytics") if describes(path, usual=usual) else None
    if name.lower().endswith(".data"):
        return Evidence(NAME, f"Darknet's {escape(name)}") if is_darknet(path) else None
    return None


def _labels(root: str) -> str | None:
    """A file of labels in a folder or in its usual folders, that has images where they are looked for; or None."""
    for folder in _label_folders(root):
        head, found, tail = folder.rpartition("/labels")
        images = f"{head}/images{tail}" if found and tail[:1] in ("", "/") else folder
        if not any(names_image(os.fsencode(name)) for name in _names(images)):
            continue
        texts = [name for name in _names(folder) if name.endswith(".txt") and name not in NAMES_FILES]
        for name in texts[:_LOOKED_AT]:
            if _begins_with_labels(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return None


def _label_folders(root: str) -> Iterator[str]:
    """The folder, those in it, and those in `labels` and called `labels` in them."""
    yield root
    for name in _names(root, folders=True)[:_LOOKED_AT]:
        folder = os.path.join(root, name)
        yield folder
        if name == "labels":
            yield from (os.path.join(folder, inner) for inner in _names(folder, folders=True)[:_LOOKED_AT])
        else:
            yield os.path.join(folder, "labels")


def _names(folder: str, *, folders: bool = False) -> list[str]:
    """The names of some visible files in a folder, or of its folders."""
    try:
        with os.scandir(folder) as entries:
            found = (entry for entry in entries if entry.is_dir() == folders)
            names = (entry.name for entry in found if not is_hidden(os.fsencode(entry.name)))
            return sorted(itertools.islice(names, 40 * _LOOKED_AT))
    except OSError:
        return []


def _begins_with_labels(path: str) -> bool:
    """Whether the first lines of a file are labels, in fractions."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            lines = file.read(_FIRST).removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    except OSError:
        return False
    whole = [line for line in lines if line.strip() and (line.endswith((b"\n", b"\r")) or len(lines) == 1)][:3]
    fractions = (max(map(float, line.split()[1:5])) <= _A_FRACTION for line in whole if looks_like_label(line))
    return bool(whole) and all(map(looks_like_label, whole)) and all(fractions)
