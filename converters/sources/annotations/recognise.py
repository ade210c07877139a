"""Which reader fits what a user points at: by its content, with the evidence said; never by guessing between two."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.guard import HostileError, guarded
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import ShardfeedError, UsageError, argument

if TYPE_CHECKING:
    from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource

# What `--from` takes, and the module beside this one that has the reader; each is imported when it is needed.
READERS = (
    ("coco", "coco"),
    ("yolo", "yolo"),
    ("voc", "voc"),
    ("masks", "masks.reader"),
    ("boxes-csv", "tables.object_rows"),
    ("classes-csv", "tables.classes_csv"),
    ("captions", "tables.captions"),
    ("imagefolder", "tables.metadata"),
)
_ENDS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".xml", ".csv", ".tsv", ".txt", ".names", ".data", ".token")
_FOLDERS = frozenset({"images", "annotations", "labels", "data", "imagesets"})  # and those that are called like splits
_Options = TypeVar("_Options")
_LOOKED_AT = 1000  # names in a folder that tell whether there may be annotations


@dataclass(frozen=True)
class Evidence:
    """Why a reader takes something for its own, in words: `found`, what there is; `missing`, what it lacks to be read.

    `name`: of the reader, as `--from` takes it.
    """

    name: str
    found: str
    missing: str = ""


class Reader(Protocol):
    """What the module of a reader has."""

    def recognise(self, path: str, options: AnnotationOptions) -> Evidence | None: ...

    def read(self, path: str, options: AnnotationOptions) -> "AnnotatedSource": ...


def reader(name: str) -> Reader:
    """The module of a reader. Raises UsageError where there is none of that name."""
    for known, module in READERS:
        if known == name:
            return cast("Reader", import_module(f"shardfeed.converters.sources.annotations.{module}"))
    raise UsageError("reader", f"got {name!r}, expected one of {', '.join(dict(READERS))}")


def recognise(path: str, options: AnnotationOptions) -> Sequence[Evidence]:
    """What every reader says that takes `path` for its own, or almost."""
    found = (asked(name, path, reader(name).recognise, options) for name, _ in READERS)
    return [evidence for evidence in found if evidence is not None]


def asked(
    name: str, path: str, recognise: Callable[[str, _Options], Evidence | None], options: _Options
) -> Evidence | None:
    """What the reader `name` says of a path; that it is damaged, where a library says so."""
    try:
        with guarded(path):
            return recognise(path, options)
    except HostileError as error:
        return Evidence(name, "by its name or its first bytes", missing_of(error))


def only_one(path: str, found: Iterable[Evidence]) -> Evidence | None:
    """The one reader that fits; None where none does. Raises UsageError where more than one does."""
    fits = [evidence for evidence in found if not evidence.missing]
    if len(fits) > 1:
        each = "; ".join(f"{evidence.name}: {evidence.found}" for evidence in fits)
        choices = ", or ".join(argument("reader", evidence.name) for evidence in fits)
        raise UsageError(path, f"{len(fits)} readers fit it ({each})", f"say which is meant: {choices}")
    return fits[0] if fits else None


def missing_of(error: ShardfeedError) -> str:
    """What an error says of a thing that cannot be read, and what to do, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: arguments in it are to be told as where they are read
    return f"{problem}; {remedy}" if remedy else problem


def almost(path: str, found: Iterable[Evidence], *, asking_helps: bool = True) -> UsageError | None:
    """The error to raise where a reader almost fits, and no other source does.

    `asking_helps`: whether a reader that is asked for takes more than one that recognises.
    """
    near = [evidence for evidence in found if evidence.missing]
    if not near:
        return None
    first = near[0]
    remedy = f"give {argument('reader', first.name)} where it is meant all the same" if asking_helps else ""
    return UsageError(path, f"looks like a source for the reader {first.name}: {first.found}; {first.missing}", remedy)


def may_be_annotated(folder: str) -> bool:
    """Whether names in a folder, its splits or its usual folders may be those of annotations; no file is opened."""
    inner = [name for name, is_folder in _entries(folder) if is_folder]
    inner = [name for name in inner if usual_split(name) or name.lower() in _FOLDERS]
    places = [folder, *(os.path.join(folder, name) for name in inner)]
    ends = (name.lower() for place in places for name, is_folder in _entries(place) if not is_folder)
    return any(name.endswith(_ENDS) for name in ends)


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Names in a folder, not those that are hidden, each with whether it is a folder; nothing where it has none."""
    try:
        with os.scandir(folder) as entries:
            seen = islice((entry for entry in entries if not entry.name.startswith(".")), _LOOKED_AT)
            return [(entry.name, entry.is_dir()) for entry in seen]
    except OSError:
        return []
