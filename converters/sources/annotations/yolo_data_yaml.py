"""Ultralytics' data.yaml: the names of the classes, where the images of each split are, and the keypoints.

Every value stays the text that it is in the file: YAML would make False of a class called `no`, and 7 of `007`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.files.class_names import MOST_BYTES, load_yaml, names_in
from shardfeed.converters.sources.reading import read_whole
from shardfeed.errors import LabelFileError
from shardfeed.split_words import usual_split
from shardfeed.text import some

TASKS = ("detect", "segment", "pose", "obb")
_NOTHING = ("", "~", "null", "Null", "NULL", "None")
_WHOLE = re.compile(r"[0-9]{1,9}\Z")


@dataclass(frozen=True)
class DataYaml:
    """Contents of a data.yaml. `names`: None if missing. `path`: "" if missing.

    `entries`: by split, the folders or lists of images. `task`: one of TASKS, or "". `keypoints`: None without a
    `kpt_shape`; with one, `dimensions` is 2 for x and y, 3 with visibility.
    """

    names: tuple[str, ...] | None
    path: str = ""
    entries: Mapping[str, tuple[str, ...]] | None = None
    task: str = ""
    keypoints: Keypoints | None = None
    dimensions: int = 3


def read_data_yaml(path: str) -> DataYaml:
    """Read a data.yaml. Raises LabelFileError if its content is invalid, MissingExtraError without PyYAML."""
    document = load_yaml(path, read_whole(path, MOST_BYTES, "give the data.yaml of a YOLO dataset"))
    names = None if "names" not in document else _names(path, document["names"])
    if "nc" in document and names is not None and _whole(document["nc"]) != len(names):
        _refuse(path, "nc", f"got {_shown(document['nc'])}, and {len(names)} names", "make them agree")
    folder = document.get("path", "")
    if not isinstance(folder, str):
        _refuse(path, "path", f"got {_shown(folder)}, expected a folder", "write path: FOLDER")
    task = document.get("task", "")
    if task in _NOTHING:
        task = ""
    elif task not in TASKS:
        _refuse(path, "task", f"got {_shown(task)}, expected one of {', '.join(TASKS)}", "correct it, or leave it out")
    keypoints, dimensions = _keypoints(path, document) if "kpt_shape" in document else (None, 3)
    if keypoints is not None and task not in ("", "pose"):
        _refuse(path, "task", f"got {task!r} with a kpt_shape, which needs the task pose", "leave one of the two out")
    if keypoints is None and task == "pose":
        problem = "got 'pose' without a kpt_shape"
        _refuse(path, "task", problem, "add kpt_shape: [K, 3] (K key points of x, y, visibility), or [K, 2]")
    return DataYaml(
        names,
        "" if folder in _NOTHING else folder,
        _entries(path, document),
        "pose" if keypoints is not None else task,
        keypoints,
        dimensions,
    )


def _refuse(path: str, key: str, problem: str, remedy: str) -> NoReturn:
    raise LabelFileError(f"{path}, {key}", problem, remedy)


def _shown(value: Any) -> str:
    """A value in a message: a text, else its kind, since it may be as deep as you like."""
    return repr(value[:60]) if isinstance(value, str) else f"a {type(value).__name__}"


def _whole(value: Any) -> int:
    """A number from 0; -1 for anything else."""
    return int(value) if isinstance(value, str) and _WHOLE.match(value) else -1


def _names(path: str, value: Any) -> tuple[str, ...]:
    """The names of classes, in label order."""
    named = names_in(f"{path}, names", value)[0]
    lacking = [str(label) for label in range(len(named)) if label not in named]
    if lacking:
        problem = f"got {len(named)} numbered names, without the number {some(lacking)}"
        _refuse(path, "names", problem, "number them from 0, without gaps")
    return tuple(named[label] for label in range(len(named)))


def _entries(path: str, document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the values of the keys train, val, test and their synonyms, by split."""
    entries: dict[str, tuple[str, ...]] = {}
    keys: dict[str, str] = {}
    for key, value in document.items():
        split = usual_split(key) if isinstance(key, str) else None
        if split is None:
            continue
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(entry, str) for entry in found):
            _refuse(path, key, f"got {_shown(value)}, expected a folder, a list file, or several", "correct it")
        found = tuple(entry for entry in found if entry not in _NOTHING)
        if not found:
            continue
        if split in entries:
            problem = f"is the split {split}, like {keys[split]}"
            _refuse(path, key, problem, "leave one of the two out")
        entries[split], keys[split] = found, key
    return entries


def _keypoints(path: str, document: Mapping[str, Any]) -> tuple[Keypoints, int]:
    """The keypoints, and how many numbers each has."""
    shape = document["kpt_shape"]
    if not isinstance(shape, list) or len(shape) != 2 or _whole(shape[0]) < 1 or _whole(shape[1]) not in (2, 3):
        problem = "expected [K, 2] (x, y) or [K, 3] (x, y, visibility), K key points"
        _refuse(path, "kpt_shape", problem, "correct it")
    count, dimensions = map(_whole, shape)
    if count > 10_000:
        _refuse(path, "kpt_shape", f"got {count} key points, expected 10,000 at most", "correct it")
    flip = document.get("flip_idx", [])
    numbers = tuple(_whole(number) for number in flip) if isinstance(flip, list) else (-1,)
    if numbers and (len(numbers) != count or any(numbers[n : n + 1] != (i,) for i, n in enumerate(numbers) if n >= 0)):
        numbers = (-1,)
    if -1 in numbers:
        problem = f"expected the {count} numbers 0 to {count - 1}, with left and right swapped"
        _refuse(path, "flip_idx", problem, "number k is the index of key point k in the flipped image")
    return Keypoints(_point_names(path, document.get("kpt_names"), count), numbers), dimensions


def _point_names(path: str, value: Any, count: int) -> tuple[str, ...]:
    """The names of keypoints, by default their numbers: from one list, or from one list per class."""
    if value is None or value in _NOTHING:
        return tuple(str(i) for i in range(count))
    lists = list(value.values()) if isinstance(value, dict) else [value]
    if isinstance(value, dict) and lists and all(isinstance(name, str) for name in lists):
        lists = [[value.get(str(i)) for i in range(count)]] if len(lists) == count else lists
    first = lists[0] if lists else None
    if not isinstance(first, list) or any(names != first for names in lists):
        problem = f"expected one list of {count} names, the same for every class"
        _refuse(path, "kpt_names", problem, "correct it, or leave it out")
    named = all(isinstance(name, str) and name.strip() for name in first)
    if not named or len(first) != count or len(set(first)) != count:
        _refuse(path, "kpt_names", f"expected {count} different names", "correct it, or leave it out")
    return tuple(map(str, first))
