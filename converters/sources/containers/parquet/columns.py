"""Which column of a Parquet file is the image, which the label; by what it says of itself, or by usual names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfeed.annotations import CAPTION, RASTER
from shardfeed.converters.sources.containers.options import ContainerOptions, naming
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some

# In order of preference.
_IMAGES = ("image", "img", "jpg", "jpeg", "png", "picture", "photo", "image_bytes", "bytes", "content")
_LABELS = ("label", "labels", "class", "class_name", "category", "cls", "target")
_TEXTS = ("caption", "captions", "text")


@dataclass(frozen=True)
class ImageColumn:
    """A column of images: its `name`, and the paths in the file of its bytes and of what the image was called."""

    name: str
    bytes_path: str
    name_path: str | None


@dataclass(frozen=True)
class ParquetColumns:
    """What is taken of a file. `classes`, `object_classes`: names in label order, where the file has them.

    `tags`: whether a row has any number of labels. `objects`: the column of boxes; `sizes`: those of width and height,
    beside it. `extra`: further columns by the key of their feature. `unused`: all others.
    """

    image: ImageColumn
    mask: ImageColumn | None = None
    label: str | None = None
    classes: tuple[str, ...] | None = None
    caption: str | None = None
    split: str | None = None
    key: str | None = None
    objects: str | None = None
    object_classes: tuple[str, ...] | None = None
    sizes: tuple[str, str] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    tags: bool = False
    unused: tuple[str, ...] = ()

    @property
    def read(self) -> list[str]:
        """The columns that are read for a plan: all but images."""
        found = [
            self.label,
            self.caption,
            self.split,
            self.key,
            self.objects,
            *(self.sizes or ()),
            *self.extra.values(),
        ]
        return [*dict.fromkeys(name for name in found if name is not None)]

    @property
    def described(self) -> str:
        """What was taken for what, in words."""
        named = {"label": self.label, "text": self.caption, "split": self.split, "key": self.key, **self.extra}
        said = [f"image from {self.image.name}"]
        said += [f"mask from {self.mask.name}"] if self.mask else []
        said += [f"{what} from {name}" for what, name in named.items() if name is not None]
        said += [f"boxes from {self.objects}"] if self.objects else []
        return ", ".join(said)


def hugging_face(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """The features that `datasets` notes in a schema; nothing where it did not write it."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def choose_columns(place: str, schema: Any, options: ContainerOptions) -> ParquetColumns:
    """Decide by a pyarrow schema. Raises UsageError where nothing tells the image or the label."""
    said = dict(options.columns)
    names = list(schema.names)
    features = hugging_face(schema.metadata)
    for name in said.values():
        if names.count(name) != 1:
            problem = f"got the column '{escape(name)}', expected one of {', '.join(map(escape, names[:12]))}"
            raise UsageError(place, problem, f"correct {argument('columns')}")
    mask_name = said.pop("mask", said.pop(RASTER, None))
    mask = None if mask_name is None else _image_column(place, schema, mask_name)
    image = _image(place, schema, features, said.pop("image", None), mask_name)
    label = said.pop("label", None) or _label(place, schema, features)
    caption = said.pop("text", None) or _usual(schema, _TEXTS, _is_texts)
    split, key = said.pop("split", None), said.pop("key", None)
    objects, of_objects = _objects(schema, features, said.pop("objects", None))
    for feature in said:
        if not feature.startswith("image/") or feature in (CAPTION, "image/class/label", "image/class/text"):
            problem = f"got {escape(feature)!r}, expected image, mask, label, text, key, split, objects or image/NAME"
            raise UsageError("columns", problem, f"for a feature of your own give {naming('image/NAME', 'COLUMN')}")
    for what, name, fits in (
        ("label", label, _is_labels),
        ("text", caption, _is_texts),
        ("split", split, _is_label),
        ("key", key, _is_label),
    ):
        if name is not None and not _is(schema, name, fits):
            problem = f"the column '{escape(name)}' as {what}: it is of {escape(str(schema.field(name).type))[:60]}"
            expected = "texts" if what == "text" else "names or whole numbers"
            raise UsageError(place, f"{problem}, expected {expected}", "name another column")
    tags = label is not None and not _is(schema, label, _is_label)
    classes = None if label is None else _classes(_of_list(features.get(label)))
    sizes = (
        ("width", "height") if objects and all(_is(schema, name, _is_integer) for name in ("width", "height")) else None
    )
    found = ParquetColumns(image, mask, label, classes, caption, split, key, objects, of_objects, sizes, said, tags)
    used = {image.name, mask_name, *found.read}
    return ParquetColumns(**{**found.__dict__, "unused": tuple(name for name in names if name not in used)})


def _image(place: str, schema: Any, features: Mapping[str, Any], asked: str | None, mask: str | None) -> ImageColumn:
    if asked is not None:
        return _image_column(place, schema, asked)
    names = [name for name in schema.names if name != mask and _bytes_paths(schema, name) is not None]
    stated = [name for name in names if _type(features.get(name)) == "Image"]
    named = [name for name in _IMAGES if name in (stated or names)][:1]
    found = stated if len(stated) == 1 else named or stated or names
    if len(found) != 1:
        which = f"several columns may be the image: {some(found)}" if found else "no column of images in it"
        columns = f" (it has {', '.join(map(escape, schema.names[:12]))})" if not found else ""
        remedy = f"say which is it: {naming('image', found[0] if found else 'COLUMN')}"
        raise UsageError(place, which + columns, remedy)
    return _image_column(place, schema, found[0])


def _image_column(place: str, schema: Any, name: str) -> ImageColumn:
    found = _bytes_paths(schema, name)
    if found is None:
        problem = f"the column '{escape(name)}' is of {escape(str(schema.field(name).type))[:60]}"
        raise UsageError(place, f"{problem}, expected binary, or a struct of bytes and path", "name another column")
    return ImageColumn(name, *found)


def _bytes_paths(schema: Any, name: str) -> tuple[str, str | None] | None:
    """The paths of bytes and name in a column that may be of images; None in another."""
    import pyarrow.types as kinds

    kind = schema.field(name).type if schema.names.count(name) == 1 else None
    if kind is None:
        return None
    if kinds.is_struct(kind):
        fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        if not _is_binary(fields.get("bytes")):
            return None
        return f"{name}.bytes", f"{name}.path" if _is_text(fields.get("path")) else None
    return (name, None) if _is_binary(kind) else None


def _label(place: str, schema: Any, features: Mapping[str, Any]) -> str | None:
    stated = [name for name in schema.names if _type(_of_list(features.get(name))) == "ClassLabel"]
    if len(stated) != 1:
        named = [name for name in _LABELS if name in (stated or schema.names) and _is(schema, name, _is_labels)]
        if len(named) > 1 or (stated and not named):
            problem = f"several columns may be the label: {some(named or stated)}"
            raise UsageError(place, problem, f"say which is it: {naming('label', (named or stated)[0])}")
        stated = named
    return stated[0] if stated else None


def _objects(schema: Any, features: Mapping[str, Any], asked: str | None) -> tuple[str | None, tuple[str, ...] | None]:
    """The column of boxes, where there is one, and the names of their classes, where the file has them."""
    name = asked or ("objects" if "objects" in schema.names else None)
    if name is None or ("bbox" not in str(schema.field(name).type) and asked is None):
        return None, None
    about = _of_list(features.get(name))
    classes = about.get("category", about.get("categories")) if isinstance(about, dict) else None
    return name, _classes(_of_list(classes))


def _of_list(about: Any) -> Any:
    """The feature that a list is of, as old and as new `datasets` write it; any other as it is."""
    if isinstance(about, list) and about:
        return about[0]
    return about["feature"] if isinstance(about, dict) and isinstance(about.get("feature"), dict) else about


def _classes(about: Any) -> tuple[str, ...] | None:
    """The names of a ClassLabel."""
    names = about.get("names") if _type(about) == "ClassLabel" else None
    return tuple(names) if isinstance(names, list) and names and all(isinstance(n, str) for n in names) else None


def _type(about: Any) -> str:
    return str(about.get("_type", "")) if isinstance(about, dict) else ""


def _usual(schema: Any, words: Sequence[str], fits: Any) -> str | None:
    return next((name for name in words if _is(schema, name, fits)), None)


def _is(schema: Any, name: str, fits: Any) -> bool:
    return schema.names.count(name) == 1 and fits(_plain(schema.field(name).type))


def _plain(kind: Any) -> Any:
    """The type of the values, of a column that is a dictionary in memory."""
    import pyarrow.types as kinds

    return kind.value_type if kinds.is_dictionary(kind) else kind


def _is_binary(kind: Any) -> bool:
    import pyarrow.types as kinds

    if kind is None:
        return False
    kind = _plain(kind)
    return kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)


def _is_text(kind: Any) -> bool:
    import pyarrow.types as kinds

    return kind is not None and (kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _is_texts(kind: Any) -> bool:
    import pyarrow.types as kinds

    return _is_text(kind) or ((kinds.is_list(kind) or kinds.is_large_list(kind)) and _is_text(kind.value_type))


def _is_integer(kind: Any) -> bool:
    import pyarrow.types as kinds

    return kinds.is_integer(kind)


def _is_label(kind: Any) -> bool:
    return _is_integer(kind) or _is_text(kind)


def _is_labels(kind: Any) -> bool:
    import pyarrow.types as kinds

    return _is_label(kind) or ((kinds.is_list(kind) or kinds.is_large_list(kind)) and _is_label(kind.value_type))
