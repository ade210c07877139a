"""Columns of our own shards in formats of columns: WebDataset, Parquet and MDS.

image/class/text                         the name of the class whose number is beside it
image/caption                            captions
image/filename                           the name of the image
image/object/bbox/xmin, .../class/label  the objects, by the rule of records
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardfeed.annotations import BOX, CAPTION, KEYPOINT_X, OBJECT_LABEL, OBJECTS, RASTER
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rows.object_keys import DTYPES, UNNAMED_POINTS, ObjectKeys, find_object_keys
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns
from shardfeed.converters.sources.rows.roles import ColumnInfo, Role, Roles, choose_roles
from shardfeed.errors import UsageError, name_bytes
from shardfeed.formats.format import Fields
from shardfeed.schema import FILENAME, LABEL, TEXT, Dtype
from shardfeed.text import some

# What a user asks for who has chosen what to take of a shard of ours.
_CHOICES = ("label", "mask", "objects", "text", LABEL, TEXT, CAPTION)
_CLASSES = {("integer", "text"), ("integers", "texts")}  # kinds of a number, and of the name beside it
_OF_NUMBERS: Mapping[Dtype, Any] = {"int64": np.int64, "float32": np.float32}


@dataclass(frozen=True)
class ColumnsOfObjects:
    """The columns of the objects of our records. `columns`: by key. `dtypes`: of each key."""

    keys: ObjectKeys
    columns: Mapping[str, str]
    dtypes: Mapping[str, Dtype]

    def value(self, values: Mapping[str, Any]) -> ObjectColumns | None:
        """Return the objects of a row, of whose columns `values` has those that are there; None if it has no box.

        Raises BadRowError if they cannot be told apart.
        """
        boxes = values.get(self.columns[self.keys.box[0]])
        count = len(boxes) if isinstance(boxes, list) else 1
        try:
            return self.keys.value(self._fields(values))
        except RejectedError as error:
            raise BadRowError(count, error.reason) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRowError(count, f"its objects are not lists of values: {error}") from None

    @property
    def notes(self) -> list[str]:
        """Notes for the report on what the columns do not say."""
        return [UNNAMED_POINTS] if KEYPOINT_X in self.columns else []

    def _fields(self, values: Mapping[str, Any]) -> Fields:
        """The values of a row as in a record."""
        given = {key: values[column] for key, column in self.columns.items() if values.get(column) is not None}
        return {key: (self.dtypes[key], _values(value, self.dtypes[key])) for key, value in given.items()}


def choose_own_roles(
    place: str, infos: Sequence[ColumnInfo], options: ColumnOptions, asked: Mapping[str, str], names: Sequence[str] = ()
) -> Roles:
    """Choose the role of each column as `choose_roles` does, and of those that only shards of ours have.

    Raises UsageError, also for objects of ours that cannot be read: otherwise their classes would be labels of the
    image. A user who asks for a label, or for none, has chosen what to take.
    """
    given = _with_own_names(_with_own_key(infos, options.columns), asked)
    own = None
    if not options.unlabelled and asked.keys().isdisjoint(_CHOICES):
        own = _own_objects(place, given)
        given = _with_own_captions(_with_own_rasters(given if own is None else _joined(given, own)))
    chosen = {"unlabelled": options.unlabelled, "one_hot": options.one_hot, "names": names}
    return replace(choose_roles(place, given, asked, **chosen), own=own)


def _own_objects(place: str, infos: Sequence[ColumnInfo]) -> ColumnsOfObjects | None:
    """Find the columns of objects; None without any. Raises UsageError if one cannot be read."""
    columns = {info.own_key: info for info in infos if info.own_key.startswith(OBJECTS)}
    dtypes: dict[str, Dtype] = {key: _dtype(info) for key, info in columns.items() if key in (*BOX, *DTYPES)}
    keys = find_object_keys(dtypes, {})
    lost = [info.name for key, info in columns.items() if keys is None or key not in keys.keys]
    if lost:
        problem = f"its columns hold the objects of images, and {some(lost)} cannot be read from columns"
        raise UsageError(
            place, problem, "read the dataset that they are of, with its manifest: `shardfeed reshard DIR OUT`"
        )
    return None if keys is None else ColumnsOfObjects(keys, {key: info.name for key, info in columns.items()}, dtypes)


def _dtype(info: ColumnInfo) -> Dtype:
    """The dtype of a column of objects: its key's, unless it holds the names of classes in place of their numbers."""
    known: tuple[Dtype, ...] = DTYPES.get(info.own_key, ("float32",))
    return "bytes" if info.kind == "texts" and "bytes" in known else known[0]


def _joined(infos: Sequence[ColumnInfo], own: ColumnsOfObjects) -> list[ColumnInfo]:
    """One column of objects in place of theirs."""
    names = next((info.class_names for info in infos if info.own_key == OBJECT_LABEL), None)
    objects = ColumnInfo(own.keys.name, "objects", role="objects", class_names=names)
    return [*(info for info in infos if info.own_key not in own.columns), objects]


def _values(value: Any, dtype: Dtype) -> Any:
    """The values of a key as a record has them. Raises TypeError, ValueError or OverflowError."""
    if not isinstance(value, list):
        raise TypeError(f"got {type(value).__name__}")
    return [*map(_bytes, value)] if dtype == "bytes" else np.asarray(value, _OF_NUMBERS[dtype]).reshape(-1)


def _bytes(value: Any) -> bytes:
    """A text, or a file: itself, in a struct beside its path, or in JSON. Raises TypeError or ValueError."""
    if isinstance(value, dict) and "base64" in value:
        return base64.b64decode(value["base64"], validate=True)
    content = value.get("bytes") if isinstance(value, dict) else value
    if isinstance(content, str):
        return name_bytes(content)
    if not isinstance(content, bytes):
        raise TypeError(f"got {type(content).__name__} in a list of texts or files")
    return content


def _with_own_key(infos: Sequence[ColumnInfo], asked: Mapping[str, str]) -> list[ColumnInfo]:
    """State the role of `image/filename`, unless the user `asked` for another name."""
    if not asked.keys().isdisjoint(("key", FILENAME)):
        return [*infos]
    return [replace(info, role="key") if (info.own_key, info.kind) == (FILENAME, "text") else info for info in infos]


def _with_own_rasters(infos: Sequence[ColumnInfo]) -> list[ColumnInfo]:
    """Call the masks of whole images so: they are taken if there are no other labels, as in records."""
    called = {info.name: replace(info, word="mask", role=None) for info in infos if info.own_key == RASTER}
    return [called.get(info.name, info) if info.kind == "image" else info for info in infos]


def _with_own_captions(infos: Sequence[ColumnInfo]) -> list[ColumnInfo]:
    """State the role of `image/caption`, unless another column has it."""
    if any(info.role == "text" for info in infos):
        return [*infos]
    return [replace(info, role="text") if info.own_key == CAPTION else info for info in infos]


def _with_own_names(infos: Sequence[ColumnInfo], asked: Mapping[str, str]) -> list[ColumnInfo]:
    """State the role of `image/class/text`, which shards of ours keep in other formats: it names the number beside it.

    By its last word it would be a caption. Nothing is stated if the user `asked` for a label.
    """
    by_key = {info.own_key: info for info in infos}
    number = next((by_key[key] for key in ("cls", "label", LABEL) if key in by_key), None)
    text = by_key.get(TEXT)
    if text is None or number is None or not asked.keys().isdisjoint(("label", LABEL, TEXT)):
        return [*infos]
    if (number.kind, text.kind) not in _CLASSES:
        return [*infos]
    stated: dict[str, Role] = {number.name: "label", text.name: "label text"}
    others = [replace(info, role=None) if info.role == "label" else info for info in infos]
    return [replace(info, role=stated.get(info.name, info.role)) for info in others]
