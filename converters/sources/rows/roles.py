"""Roles of columns (image, label, caption, ...): one table of usual names for all formats."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from shardfeed.annotations import CAPTION
from shardfeed.converters.sources.files.parquet_file import BOX_KEYS
from shardfeed.converters.sources.options import naming
from shardfeed.errors import UsageError, escape
from shardfeed.schema import ENCODED, FILENAME, LABEL, SOURCE_ID, TEXT, image_features
from shardfeed.text import some

Role = Literal["image", "mask", "label", "label text", "text", "split", "key", "number", "objects"]
# Kinds of values in a column. "labels": any number of labels per sample, likewise "texts".
Kind = Literal["image", "integer", "integers", "float", "floats", "text", "texts", "objects", "other"]

_LABELS = ("label", "labels")
# Names of columns, in lower case, preferred names first. The user has to name any other column.
WORDS: Mapping[str, tuple[str, ...]] = {
    # the name of an image file, or its name in a table beside the files
    "path": (
        *("path", "filepath", "file_path", "image_path", "filename", "file_name", "file", "image", "image_name", "img"),
        *("img_path", "img_name", "imagename", "image_file", "fname", "image index", "image_index", "image_id"),
        *("imageid", "img_id", "id_code", "file_id", "isic_id", "patientid", "id"),
    ),
    "image": (
        *("image", "img", "jpg", "jpeg", "png", "picture", "photo", "pixels", "image_bytes", "image_raw", "bytes"),
        *("content", "images", "imgs"),
    ),
    "mask": ("mask", "masks", "seg", "segmentation", "segmentation_mask", "annotation", "annotations", *_LABELS),
    "label": (*_LABELS, "class", "class_name", "class_id", "category", "cls", "target", "targets", "ans"),
    "text": ("caption", "captions", "text", "txt", "prompt", "title", "sentence", "sentences"),
    "split": (),  # only on request: in many files it has another meaning
    "objects": ("objects", "annotations"),
}
_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "image": ("image",),
    "mask": ("image",),
    "label": ("integer", "integers", "text", "texts", "float", "floats"),
    "text": ("text", "texts"),
    "split": ("integer", "text"),
    "key": ("integer", "text"),
    "number": ("integer", "text"),
    "objects": ("objects",),
}
# Words for a role in options, besides its own name.
OPTION_ROLES = {
    ENCODED: "image",
    LABEL: "label",
    TEXT: "label text",
    FILENAME: "key",
    CAPTION: "text",
    SOURCE_ID: "number",
}
_ASKED = ("image", "mask", "label", "text", "split", "key", "objects")
# Keys inside an object, of its class.
CLASS_KEYS = ("categories", "category", "category_id", "labels", "label", "classes", "class", "class_id", "class_name")


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a file. `name`: as in `--columns`. `kind`: the kind of its values.

    `word`: the part of the name that is compared with the known names of each role; default: the part after the last
    "/" or ".". `role`: the role that the format itself states, which takes precedence over the word. `class_names`: in
    label order, if the format has them.

    Example:
        infos = [ColumnInfo("image", "image"), ColumnInfo("name", "text", role="key")]
    """

    name: str
    kind: Kind
    word: str = ""
    role: Role | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def own_key(self) -> str:
        """The key of the feature that the column holds if the file is a shard of ours."""
        return self.word or self.name

    @property
    def label_word(self) -> str:
        """The word to compare with the known names, in lower case."""
        return (self.word or self.name.rpartition("/")[2].rpartition(".")[2]).casefold()


class OwnObjects(Protocol):
    """The objects of our records in columns: `columns` by key, `notes` for the report, and the `value` of a row."""

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns by the keys of our features."""
        ...

    @property
    def notes(self) -> list[str]:
        """Notes on what the columns do not say."""
        ...

    def value(self, values: Mapping[str, Any]) -> Any:
        """Return the `ObjectColumns` of a row; None if it has no box. Raises BadRowError."""
        ...


@dataclass(frozen=True)
class Roles:
    """Column by role, and `extra` columns by the key of their feature. `unused`: all other columns.

    `one_hot`: columns of 0 and 1, one per class, which are the label. `own`: the columns of the objects of our records,
    which take the place of one column of objects.
    """

    by_role: Mapping[Role, ColumnInfo] = field(default_factory=dict)
    extra: Mapping[str, ColumnInfo] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    one_hot: tuple[ColumnInfo, ...] = ()
    own: OwnObjects | None = None

    def name(self, role: Role) -> str | None:
        """The name of the column with a role; None if there is none."""
        found = self.by_role.get(role)
        return None if found is None else found.name

    @property
    def columns(self) -> frozenset[str]:
        """The names of all columns that something is taken from."""
        of_objects = self.own.columns.values() if self.own is not None else ()
        infos = (*self.by_role.values(), *self.extra.values(), *self.one_hot)
        return frozenset({*(info.name for info in infos), *of_objects})

    @property
    def described(self) -> str:
        """Describe in words which column has which role."""
        roles = sorted(self.by_role, key=get_args(Role).index)
        listed = [f"{role} from {escape(self.by_role[role].name)}" for role in roles]
        listed += [f"{key} from {escape(info.name)}" for key, info in self.extra.items()]
        if self.one_hot:
            listed.append(f"label from {some(info.name for info in self.one_hot)}")
        elif not {"label", "label text", "text", "mask", "objects"} & self.by_role.keys():
            listed.append("no label")
        return ", ".join(listed)


def choose_roles(
    place: str,
    infos: Iterable[ColumnInfo],
    asked: Mapping[str, str],
    *,
    unlabelled: bool = False,
    images: bool = True,
    names: Sequence[str] = (),
    one_hot: Sequence[str] = (),
) -> Roles:
    """Choose the role of each column: by the user's choice, else by the format, else by the column's name.

    `asked`: role or feature key -> column, as in `ColumnOptions.columns`. `images`: whether there must be an image
    column. `names`: columns that may hold the names of images, best first; such a column may have a second role.
    `one_hot`: columns of 0 and 1, one per class, in place of a label. Raises UsageError if a column is missing or its
    values do not suit its role, or if two columns would fit.

    Example:
        infos = [ColumnInfo("image", "image"), ColumnInfo("label", "text")]
        roles = choose_roles(files.place, infos, options.columns, unlabelled=options.unlabelled)
    """
    by_name = {info.name: info for info in infos}
    folded = {name.casefold(): info for name, info in by_name.items()}
    found: dict[Role, ColumnInfo] = {}
    extra: dict[str, ColumnInfo] = {}

    def named(what: str, name: str) -> ColumnInfo:
        info = by_name.get(name) or folded.get(name.casefold())
        if info is None:
            there = some(by_name) if by_name else "none"
            problem = f"there is no column {escape(name)!r} for {escape(what)}: it has {there}"
            raise UsageError(place, problem, "name one of its columns")
        return info

    hot = tuple(named("a class", name) for name in one_hot)
    for info in hot:
        if info.kind not in ("integer", "float"):
            problem = f"the column {escape(info.name)!r} holds {info.kind} values, expected 0 and 1 for a class"
            raise UsageError(place, problem, "name another column")
    for what, name in asked.items():
        info = named(what, name)
        role = OPTION_ROLES.get(what, what)
        if role in _KINDS or role == "label text":
            if info.kind not in _KINDS.get(role, ("text", "texts")):
                expected = " or ".join(_KINDS.get(role, ("text",)))
                problem = f"the column {escape(name)!r} holds {info.kind} values, expected {expected} for {role}"
                raise UsageError(place, problem, "name another column")
            found[role] = info  # type: ignore[index]  # one of the roles
        elif not what.startswith("image/") or what in image_features(sha256=True):
            known = ", ".join(_ASKED)
            problem = f"got {escape(what)!r}, expected {known}, or image/NAME for another feature"
            raise UsageError("columns", problem, f"write {naming('image/NAME', name)}")
        else:
            extra[what] = info
    taken = {info.name for info in (*found.values(), *extra.values(), *hot)}
    stated: dict[Role, list[ColumnInfo]] = {}
    for info in by_name.values():
        if info.role is not None and info.name not in taken:
            stated.setdefault(info.role, []).append(info)
    unwanted = ("label", "label text", "mask") if unlabelled or hot else ()
    for role, those in stated.items():
        if role not in found and role not in unwanted:
            found[role] = _stated(place, role, those)
            taken.add(found[role].name)
    by_words: tuple[Role, ...] = ("image", "objects", "label", "text")
    for role in by_words:
        if role in unwanted or role in found or (role == "label" and "label text" in found):
            continue
        fits = [info for info in by_name.values() if info.name not in taken and info.kind in _KINDS[role]]
        if chosen := _by_word(place, role, fits):
            found[role] = chosen
            taken.add(chosen.name)
    if "label text" in found and "label" in found and found["label"].kind in ("text", "texts"):
        label, text = (escape(repr(found[role].name)) for role in ("label", "label text"))
        problem = f"the labels in {label} are texts, expected numbers with names in {text}"
        raise UsageError(place, problem, "leave one of the two out")
    if images and "image" not in found:
        raise _no_image(place, list(by_name.values()))
    _check_boxes(place, found, by_name.values(), asked)
    masks = [info for info in by_name.values() if info.kind == "image" and info.name not in taken]
    has_labels = unwanted or {"mask", "label", "label text", "objects"} & found.keys()
    if not has_labels and (mask := _by_word(place, "mask", masks)):
        found["mask"] = mask
    own = next((name for name in names if name in by_name and name not in asked.values()), None)
    if own is not None and by_name[own].kind in ("integer", "text", "other"):  # bytes too: our own image/filename is
        found.setdefault("key", by_name[own])
    used = {info.name for info in (*found.values(), *extra.values(), *hot)}
    return Roles(found, extra, tuple(name for name in by_name if name not in used), hot)


def _check_boxes(
    place: str, found: Mapping[Role, ColumnInfo], infos: Iterable[ColumnInfo], asked: Mapping[str, str]
) -> None:
    """Raise UsageError for a list of classes beside a list of boxes: they are of objects, and not of the image."""
    label = found.get("label")
    if label is None or label.kind not in ("integers", "texts") or label.name in asked.values():
        return
    for info in infos:
        if info.label_word in BOX_KEYS and info.kind in ("other", "floats", "integers") and "objects" not in found:
            problem = f"the lists in {escape(label.name)!r} stand beside boxes in {escape(info.name)!r}"
            remedy = "join the two as one column objects, of bbox and label"
            raise UsageError(place, problem, f"{remedy}; {naming('label', label.name)} reads classes of images")


def _by_word(place: str, role: Role, fits: Sequence[ColumnInfo]) -> ColumnInfo | None:
    """Find the column named like a role, or the only one of images or objects. Raises UsageError if two fit."""
    words = WORDS.get(role, ())
    named = sorted((info for info in fits if info.label_word in words), key=lambda info: words.index(info.label_word))
    if not named and role in ("image", "objects"):
        return _by_kind(place, role, fits)
    if role == "label" and len(named) > 1:
        raise _several(place, role, named)
    if role == "image" and len({info.label_word for info in named[:2]}) < len(named[:2]):
        return None  # of left/image and right/image neither is the image
    return named[0] if named else None


def _by_kind(place: str, role: Role, fits: Sequence[ColumnInfo]) -> ColumnInfo | None:
    """The only column of the kind of a role, whatever it is called. Raises UsageError for several of objects."""
    if role == "objects" and len(fits) > 1:
        raise _several(place, role, fits)
    return fits[0] if len(fits) == 1 else None


def _stated(place: str, role: Role, infos: Sequence[ColumnInfo]) -> ColumnInfo:
    """Return the column to which the format gives the role; of several, the usual name. Raises UsageError."""
    if len(infos) == 1:
        return infos[0]
    if (chosen := _by_word(place, role, infos)) is None:
        raise _several(place, role, infos)
    return chosen


def _several(place: str, role: Role, infos: Sequence[ColumnInfo]) -> UsageError:
    problem = f"several columns may be the {role}: {some(info.name for info in infos)}"
    if role != "image":
        return UsageError(place, problem, f"choose one: {naming(role, infos[0].name)}")
    words = WORDS["mask"]
    masks = [info.name for info in infos if info.label_word in words]
    first = next((info.name for info in infos if info.name not in masks), infos[0].name)
    other = next((name for name in masks if name != first), "COLUMN")
    remedy = f"choose one, {naming('image', first)}; if another one is its mask, also {naming('mask', other)}"
    return NoImageError(place, problem, remedy)


def _no_image(place: str, infos: Sequence[ColumnInfo]) -> UsageError:
    if images := [info for info in infos if info.kind == "image"]:
        return _several(place, "image", images)
    problem = f"no column of images in it: it has {some(info.name for info in infos) or 'no column'}"
    raw = {"height", "width"} <= {info.label_word for info in infos}  # pixels are read beside their sizes alone
    pixels = next((info.name for info in infos if info.kind == "other"), None) if raw else None
    remedy = "write the bytes of the image files into one"
    return NoImageError(place, problem, f"choose one, {naming('image', pixels)}, or {remedy}" if pixels else remedy)


class NoImageError(UsageError):
    """No column is the image, or several may be."""


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, as in roles.py; "object" for a dict, "null" if unknown."""
    if value is None or value == [] or value == {}:
        return "null"
    if isinstance(value, list):
        kinds = {kind_of(one) for one in value} - {"null"}
        several = {"integer": "integers", "text": "texts", "object": "objects"}
        if kinds <= {"object", "objects"}:
            return "objects"
        return "floats" if kinds <= {"integer", "float"} and "float" in kinds else several.get("".join(kinds), "other")
    if isinstance(value, dict):
        box = next((value[key] for key in BOX_KEYS if key in value), 0)
        return "other" if box == 0 else "objects" if isinstance(box, list) and kind_of(box) == "other" else "object"
    return "integer" if isinstance(value, int) else "float" if isinstance(value, float) else "text"
