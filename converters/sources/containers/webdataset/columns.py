"""Which column of a tar's samples is the image, which the label; and the values of columns that are read."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfeed.annotations import CAPTION, RASTER
from shardfeed.converters.sources.containers.options import ContainerOptions, naming
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some

_LABEL_COLUMN, _TEXT_COLUMNS = "cls", ("txt", "caption")
_LABEL_KEYS = ("label", "class", "class_name", "class_id", "category", "cls")  # of a JSON object
_CAPTION_KEYS = ("caption", "captions")
_WHOLE_NUMBERS = frozenset(("cls", "cls2", "class", "count", "index", "inx", "id"))  # what such columns hold
_TEXTS = frozenset(("txt", "text", "transcript", "caption"))
_PICKLES = frozenset(("pyd", "pkl", "pickle", "pth", "pt"))
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
URL = "__url__"  # as a key: the name of the tar, and the key in it


class ValueProblem(Exception):
    """What is wrong with the value of a column in one sample; the message is a clause."""


@dataclass(frozen=True)
class Place:
    """Where a value is: in a column, or in that column's JSON object under a key."""

    column: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.column}.{self.key}" if self.key else self.column


@dataclass(frozen=True)
class Chosen:
    """Which columns are what. `images`, `masks`: each sample has one of them; empty: any plain image, or no masks.

    `key`: what is the sample's own name; None: its key in the tar. `by_tar`: whether the tar's name comes before that.
    `extra`: further features by their keys. `unused`: columns of the first samples that nothing is taken of.
    """

    images: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    label: Place | None = None
    caption: Place | None = None
    split: Place | None = None
    key: Place | None = None
    by_tar: bool = False
    extra: Mapping[str, Place] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @property
    def places(self) -> dict[str, Place]:
        """Every value that is read, by what it is."""
        named = {"label": self.label, "text": self.caption, "split": self.split, "key": self.key}
        return {**{what: place for what, place in named.items() if place is not None}, **self.extra}

    def image_of(self, columns: Mapping[str, Any]) -> list[str]:
        """The columns of a sample that may be its image."""
        return [c for c in columns if c in self.images] if self.images else plain_images(columns)

    @property
    def described(self) -> str:
        """What was taken for what, in words."""
        image = " or ".join(self.images) if self.images else "jpg, png and the like"
        said = [f"image from {image}"]
        said += [f"mask from {' or '.join(self.masks)}"] if self.masks else []
        said += [f"{what} from {place}" for what, place in self.places.items()]
        return ", ".join(said if self.label or self.caption or self.masks else [*said, "no label"])


def plain_images(columns: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Those that are called by the extension of an image and nothing else."""
    return [column for column in columns if "." not in column and names_image(b"x." + os.fsencode(column))]


def choose_columns(
    place: str, columns: Sequence[str], in_json: Mapping[str, Mapping[str, Any]], options: ContainerOptions
) -> Chosen:
    """Decide by what the first samples have. `columns`: all of theirs; `in_json`: objects of those that are JSON.

    Raises UsageError where nothing tells the image or the label, and for pickles, unless `options.columns` says it all.
    """
    said = dict(options.columns)
    pickles = [column for column in columns if column.rpartition(".")[2] in _PICKLES]
    asked = [name for name in said.values() if name.rpartition(".")[2] in _PICKLES and name not in in_json]
    if asked or (pickles and not said):
        problem = f"the column {escape((asked or pickles)[0])} is a pickle, which runs what is in it when it is loaded"
        remedy = "write it as cls, txt or json"
        if not asked:
            remedy += f", or say what is to be taken: {naming('image', 'jpg')}"
        raise UsageError(place, problem, remedy)
    images = tuple(said.pop("image", "").lower().split(";")) if "image" in said else ()
    masks = tuple(said.pop("mask", said.pop(RASTER, "")).lower().split(";"))
    masks = () if masks == ("",) else masks
    for column in (*images, *masks):
        if not any(name in columns for name in (images if column in images else masks)):
            raise _no_column(place, column, columns, in_json)
    if not images and not plain_images(columns):
        dotted = [column for column in columns if names_image(b"x." + os.fsencode(column)) and column not in masks]
        if len(dotted) != 1:
            which = some(dotted) if dotted else some(columns)
            problem = f"{'several images' if dotted else 'no image'} in its first samples: {which}"
            raise UsageError(place, problem, f"say which is it: {naming('image', 'COLUMN')}")
        images = (dotted[0],)
    found: dict[str, Place | None] = {}
    for what in ("label", "text", "split", "key"):
        name = said.pop(what, None)
        found[what] = None if name is None or name == URL else _place(place, name, columns, in_json)
    by_tar = options.columns.get("key") == URL
    if "label" not in options.columns:
        found["label"] = _usual(place, "label", (_LABEL_COLUMN,), _LABEL_KEYS, columns, in_json)
    if "text" not in options.columns:
        found["text"] = _usual(place, "text", _TEXT_COLUMNS, _CAPTION_KEYS, columns, in_json)
    extra = {key: _place(place, name, columns, in_json) for key, name in said.items()}
    for key in extra:
        if not key.startswith("image/") or key in (CAPTION, "image/class/label", "image/class/text"):
            problem = f"got {escape(key)!r}, expected image, mask, label, text, key, split or image/NAME"
            raise UsageError("columns", problem, f"for a feature of your own give {naming('image/NAME', 'COLUMN')}")
    used = {*images, *masks, *(p.column for p in (*found.values(), *extra.values()) if p is not None)}
    unused = tuple(c for c in columns if c not in used and (images or c not in plain_images(columns)))
    return Chosen(images, masks, found["label"], found["text"], found["split"], found["key"], by_tar, extra, unused)


def _place(place: str, name: str, columns: Sequence[str], in_json: Mapping[str, Mapping[str, Any]]) -> Place:
    """The column that a user names, or the key of a JSON column behind a dot."""
    if name.lower() in columns:
        return Place(name.lower())
    for column, value in in_json.items():
        key = name[len(column) + 1 :]
        if name.lower().startswith(f"{column}.") and key in value:
            return Place(column, key)
    raise _no_column(place, name, columns, in_json)


def _no_column(place: str, name: str, columns: Sequence[str], in_json: Mapping[str, Mapping[str, Any]]) -> UsageError:
    keys = [f"{column}.{key}" for column, value in in_json.items() for key in value]
    shown = ", ".join(map(escape, [*columns, *keys][:12]))
    return UsageError(
        place, f"got the column '{escape(name)}', expected one of {shown}", f"correct {argument('columns')}"
    )


def _usual(
    place: str,
    what: str,
    names: tuple[str, ...],
    keys: tuple[str, ...],
    columns: Sequence[str],
    in_json: Mapping[str, Mapping[str, Any]],
) -> Place | None:
    """The column that is usually called so, or else the one key of a JSON object; None where there is neither."""
    for name in names:
        if name in columns:
            return Place(name)
    found = [Place(column, key) for column, value in in_json.items() for key in keys if key in value]
    if len(found) > 1:
        problem = f"several keys may be the {what}: {some(map(str, found))}"
        raise UsageError(place, problem, f"say which is it: {naming(what, str(found[0]))}")
    return found[0] if found else None


def is_json(column: str) -> bool:
    """Whether a column holds JSON."""
    return column.rpartition(".")[2] in ("json", "jsn")


def is_readable(place: Place) -> bool:
    """Whether values of its column are known: JSON, texts, whole numbers."""
    return is_json(place.column) or place.column.rpartition(".")[2] in _WHOLE_NUMBERS | _TEXTS


def read_json(data: bytes) -> Any:
    """What a JSON column says. Raises ValueProblem."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueProblem(f"no JSON: {escape(str(error)[:80])}") from None


def read_value(place: Place, data: bytes, parsed: Any) -> Any:
    """A text, a number, or a list of either. `parsed`: what the column says where it is JSON. Raises ValueProblem."""
    if is_json(place.column):
        if not place.key:
            return parsed
        if not isinstance(parsed, dict) or parsed.get(place.key) is None:
            raise ValueProblem("no such key, or null")
        return parsed[place.key]
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueProblem("it is not UTF-8") from None
    if place.column.rpartition(".")[2] in _WHOLE_NUMBERS:
        if not _INTEGER.match(text):
            raise ValueProblem(f"got '{escape(text[:40])}', expected decimal digits")
        return int(text)
    return text


def checked(what: str, value: Any) -> Any:
    """A value as that takes it. Raises ValueProblem."""
    if what == "text":
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise ValueProblem("expected a text, or a list of them")
        return [text.strip() for text in texts if text.strip()]
    if what in ("label", "split", "key"):
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise ValueProblem(f"got {escape(str(value)[:40])!r}, expected a name or a whole number")
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueProblem("it is not Unicode") from None
        return text
    if isinstance(value, dict) or value is None:
        raise ValueProblem("got an object or null, expected a text, a number or a list of them")
    return value
