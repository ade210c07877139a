"""The columns of samples in WebDataset tars: their members, the values in them, and the possible roles.

A sample is the members that follow each other and have one key: `a/b.1.seg.png` is the column `1.seg.png` of the sample
`a/b`.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO

from shardfeed.annotations import OBJECTS, RASTER
from shardfeed.converters.sources.archives.tar import Member, members, read_member
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, NoImageError, Role, Roles, choose_roles, kind_of
from shardfeed.converters.sources.rows.source import Names
from shardfeed.errors import UsageError, escape
from shardfeed.schema import ENCODED, IMAGE_KEYS
from shardfeed.text import number, some

URL = "__url__"  # as a key: the name of the tar, and the key in it
_MOST_VALUE = 16 << 20  # bytes of a text, number or JSON value
_MOST_COLUMNS = 1000  # keys of JSON that are known
_META = re.compile(rb"__[^/]*__")
_WHOLE_NUMBERS = frozenset(("cls", "cls2", "class", "count", "index", "inx", "id"))  # what such columns hold
_TEXTS = frozenset(("txt", "text", "transcript", "caption"))
_JSON = frozenset(("json", "jsn"))
_VALUES = _WHOLE_NUMBERS | _TEXTS | _JSON
_PICKLES = frozenset(("pyd", "pkl", "pickle", "pth", "pt"))
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_FEATURE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")  # most keys of JSON with numbers that become features automatically
_STATED: Mapping[Role, tuple[str, ...]] = {"label": ("cls",), "text": ("txt", "caption", "text")}  # before keys of JSON
# Where a name's extension begins: after its first dot; and where names have dots themselves, at the last parts that
# begin with a letter (`img_0.05_v1.0.seg.png`), or after the last dot.
_FIRST_DOT = re.compile(rb"\.(.*)\Z", re.DOTALL)
_LETTERS, _LAST_DOT = re.compile(rb"\.([A-Za-z][^.]*(?:\.[A-Za-z][^.]*)*)\Z"), re.compile(rb"\.([^.]*)\Z")
_ANY_IMAGE = "jpg, png or another image format"

TarSample = tuple[bytes, dict[str, Member]]  # the key as the tar has it, and members by column


@dataclass(frozen=True)
class Chosen:
    """Columns by role. `images`, `masks`: each sample has one of them; empty: any plain image, or no masks."""

    images: tuple[str, ...]
    masks: tuple[str, ...]
    by_tar: bool
    roles: Roles
    offered: Mapping[str, str]

    def images_of(self, columns: Iterable[str]) -> list[str]:
        """The columns of a sample that may be its image."""
        return [column for column in columns if (column in self.images if self.images else _is_plain_image(column))]


def samples(
    file: BinaryIO, place: str, passed_over: Names, extension: re.Pattern[bytes] = _FIRST_DOT
) -> Iterator[TarSample]:
    """The samples of a tar, in its order; metadata and hidden files are passed over in silence, others named.

    What `extension` matches of the base name is the column, in lower case; the key ends before it. Raises
    UsageError for a tar that is not whole, and for a column that comes twice in a sample.
    """
    known: bytes | None = None
    columns: dict[str, Member] = {}
    for member in members(file, place, None if hasattr(file, "fileno") else 1 << 62):
        folder, slash, base = member.name.removeprefix(b"./").lstrip(b"/").rpartition(b"/")
        if is_hidden(base) or (_META.fullmatch if folder else _META.match)(base) or _is_metadata(folder):
            continue
        match = extension.search(base)
        if not match or not match.start():
            passed_over.add(folder + slash + base)
            continue
        key, column = folder + slash + base[: match.start()], _column(match[1])
        if key != known:
            if known is not None:
                yield known, columns
            known, columns = key, {}
        if column in columns:
            problem = f"the sample '{escape(key)}' has the column '{escape(column)}' twice"
            problem += f", at the bytes {columns[column].offset:,} and {member.offset:,}"
            raise UsageError(place, problem, "leave one of the two out")
        columns[column] = member
    if known is not None:
        yield known, columns


@lru_cache
def _column(ending: bytes) -> str:
    return ending.decode("utf-8", "surrogateescape").lower()


@lru_cache
def _is_metadata(folder: bytes) -> bool:
    """Whether a folder holds system files or metadata."""
    return any(is_hidden(part) or _META.fullmatch(part) for part in folder.split(b"/") if part != b"..")


@lru_cache
def _is_plain_image(column: str) -> bool:
    """Whether a column is called by the extension of an image and nothing else."""
    return "." not in column and names_image(b"x." + os.fsencode(column))


@lru_cache
def last(column: str) -> str:
    """Return the part of a column after its last dot."""
    return column.rpartition(".")[2]


class _BadValueError(Exception):
    """The member of a sample cannot be read as its column should be; the message is a clause."""


def _value(tar: BinaryIO, column: str, member: Member) -> Any:
    """A text, a whole number, or any value of JSON. Raises _BadValueError."""
    if not member.plain:
        raise _BadValueError("it is a link or a special file")
    if member.size > _MOST_VALUE:
        raise _BadValueError(f"{number(member.size, 'byte')}, expected {_MOST_VALUE:,} at most")
    data = read_member(tar, member)
    try:
        if last(column) in _JSON:
            return json.loads(data)
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise _BadValueError("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _BadValueError(f"not JSON: {escape(str(error)[:80])}") from None
    return int(text) if last(column) in _WHOLE_NUMBERS and _INTEGER.match(text) else text


def read_values(
    tar: BinaryIO, columns: Mapping[str, Member], read: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the columns `read` by name, JSON fields after a dot; and the faults of others."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for column in read:
        try:
            value = _value(tar, column, columns[column])
        except _BadValueError as error:
            problems[column] = str(error)
            continue
        if isinstance(value, dict) and last(column) in _JSON:
            values |= {f"{column}.{key}": one for key, one in value.items()}
        else:
            values[column] = value
    return values, problems


class SeenColumns:
    """The columns that samples have, and the kinds of their values."""

    def __init__(self, options: ColumnOptions) -> None:
        self.options, self.extension, self._samples = options, _FIRST_DOT, 0
        self.members: Counter[str] = Counter()
        self.kinds: dict[str, Counter[str]] = {}
        self._null: set[str] = set()  # columns with a kind that does not depend on values

    def look(self, path: str, most: int) -> "SeenColumns":
        """Take the first samples of a tar. Raises UsageError for one that is damaged."""
        with open_regular(path) as tar:
            for _, columns in islice(samples(tar, path, Names(""), self.extension), most):
                self._samples += 1
                self.members.update([*columns])
                wanted = [column for column in columns if last(column) in _VALUES]
                self.add(read_values(tar, columns, wanted)[0])
        return self

    def extension_of_names(self) -> re.Pattern[bytes]:
        """Return where the extensions of names begin: not at the first dot if columns show that names have dots.

        Then no column is a plain extension, and each beginning of columns (`05_v1.0`) has the same extensions: several,
        or those of one sample, as no other sample has a column that begins so.
        """
        once = len(self.members) > 2 and max(self.members.values()) == 1
        for extension in (_LETTERS, _LAST_DOT) if self.extension is _FIRST_DOT else ():
            endings: dict[bytes, set[bytes]] = {}
            for column in self.members:
                name = b"x." + os.fsencode(column)
                match = extension.search(name)
                endings.setdefault(name[: match.start()] if match else b"x", set()).add(match[1] if match else name)
            several = extension is _LETTERS and min(map(len, endings.values()), default=0) > 1
            if b"x" not in endings and len({*map(frozenset, endings.values())}) == 1 and (several or once):
                return extension
        return self.extension

    @property
    def note(self) -> list[str]:
        """A sentence for the report, if names have dots."""
        found = f"base names have dots: a key ends before the extension, such as {some(self.members)}"
        return [found] if self.extension is not _FIRST_DOT else []

    def add(self, values: Mapping[str, Any]) -> None:
        """Take the kinds of a sample's values."""
        for name, value in values.items():
            if name in self.kinds or len(self.kinds) < _MOST_COLUMNS:
                kind = kind_of(value)
                if kind != "null":
                    self._null.discard(name)
                elif name not in self.kinds:
                    self._null.add(name)
                self.kinds.setdefault(name, Counter())[kind] += 1

    def reads(self, column: str) -> bool:
        """Whether the members of a column must be read to know its kind: JSON, or a column without values so far."""
        return last(column) in _JSON or (last(column) in _VALUES and column not in self.kinds)

    def has_seen(self, values: Mapping[str, Any]) -> bool:
        """Whether a sample has no new column, and no first value of a column that was null so far."""
        is_known = self._null and any(values.get(name) is not None for name in self._null)
        return values.keys() <= self.kinds.keys() and not is_known

    def choose(self, place: str) -> Chosen:
        """Choose among the columns found.

        Raises UsageError, also for pickles unless all columns taken were requested; NoImageError if the image is
        unknown.
        """
        asked = dict(self.options.columns)
        self._check_pickles(place, asked)
        named = [asked.pop(what, asked.pop(key, "")) for what, key in (("image", ENCODED), ("mask", RASTER))]
        images, masks = (tuple(filter(None, names.lower().split(";"))) for names in named)
        for what, columns in (("image", images), ("mask", masks)):
            if columns and not any(column in self.members for column in columns):
                problem = f"there is no column {escape(';'.join(columns))!r} for {what}: it has {some(self.members)}"
                raise UsageError(place, problem, "name one of its columns")
        if not images and not any(map(_is_plain_image, self.members)):
            dotted = [one for one in self.members if names_image(b"x." + os.fsencode(one)) and one not in masks]
            if len(dotted) != 1:
                problem = f"{'several images' if dotted else 'no image'} in its first samples: "
                others = [one for one in self.members if last(one) not in _VALUES | _PICKLES]
                whole = next((one for one in dotted or others if self.members[one] == self._samples), None)
                remedy = f"choose one, such as {naming('image', whole or '')}"
                if whole is None and dotted:
                    remedy = f"several names for one image: {naming('image', ';'.join(dotted[:2]))}; names with dots: "
                    remedy += "write each dot before the extension as _"
                elif whole is None:
                    remedy = "write the image of each sample as KEY.jpg or KEY.png"
                if self.members.keys() == {"tar"}:  # ImageNet's, a class each
                    each = "for f in *.tar; do mkdir ${f%.tar} && tar -xf $f -C ${f%.tar} && rm $f; done"
                    remedy = f"unpack it and the tars in it into an empty folder, and convert that folder: `{each}`"
                raise NoImageError(place, problem + some(dotted or self.members), remedy)
            images = (dotted[0],)
        by_tar = asked.get("key") == URL
        if by_tar:
            del asked["key"]
        infos = [ColumnInfo(" or ".join(images) or _ANY_IMAGE, "image", role="image")]
        infos += [ColumnInfo(" or ".join(masks), "image", role="mask")] if masks else []
        infos += self._infos({*images, *masks}, any_image=not images)
        roles = choose_roles(place, infos, asked, unlabelled=self.options.unlabelled, one_hot=self.options.one_hot)
        masks = masks or tuple(filter(None, [roles.name("mask")]))  # by its name: `mask.png`
        return Chosen(images, masks, by_tar, roles, self._offered(roles))

    def _check_pickles(self, place: str, asked: Mapping[str, str]) -> None:
        pickles = [column for column in self.members if last(column) in _PICKLES]
        named = [name for name in asked.values() if name in pickles]
        if named or (pickles and not asked):
            column = escape((named or pickles)[0])
            problem = f"the column {column} is a pickle, which can run arbitrary code when loaded"
            taken = "" if named else f", or choose the columns: {naming('image', 'jpg')}"
            raise UsageError(place, problem, f"write it as cls, txt or json{taken}")

    def _infos(self, images: set[str], *, any_image: bool) -> list[ColumnInfo]:
        """Describe all columns except images and masks; a JSON member gives one column per key."""
        stated: dict[str, Role] = {}
        for what, names in _STATED.items():
            stated[next((name for name in names if name in self.kinds), "")] = what
        found = []
        for column in self.members:
            keys = [name for name in self.kinds if name.startswith(f"{column}.") and last(column) in _JSON]
            if column not in self.kinds and not keys:
                if column not in images and not (any_image and _is_plain_image(column)):
                    kind: Kind = "image" if names_image(b"x." + os.fsencode(column)) else "other"
                    found.append(ColumnInfo(column, kind, column.rpartition(".")[0] if kind == "image" else column))
                continue
            for name in [*keys, *([column] if column in self.kinds else [])]:
                word = name[len(column) + 1 :] or column
                kind = _most(self.kinds[name])
                role = stated.get(name) if kind in ("integer", "text") else None
                found.append(ColumnInfo(name, kind, word, role))
        return found

    def _offered(self, roles: Roles) -> dict[str, str]:
        """The keys of JSON with numbers as values, by the features that they become."""
        found: dict[str, str] = {}
        for column in self.members:
            for name in self.kinds if last(column) in _JSON else ():
                key = f"image/{name[len(column) + 1 :]}"
                taken = key in IMAGE_KEYS or key.startswith((OBJECTS, "image/class/", RASTER))
                fits = name.startswith(f"{column}.") and _FEATURE.match(name[len(column) + 1 :]) and not taken
                if fits and name not in roles.columns and _most(self.kinds[name]) in ("integer", "float"):
                    found.setdefault(key, name)
        return {key: name for key, name in found.items() if key not in roles.extra}


def _most(kinds: Counter[str]) -> Any:
    """Return the kind that most values have; for numbers "float" if one is; "text" if undetermined."""
    known = Counter({kind: count for kind, count in kinds.items() if kind != "null"})
    if known.keys() == {"integer", "float"} or known.keys() == {"integers", "floats"}:
        return "floats" if "floats" in known else "float"
    kind = known.most_common(1)[0][0] if known else "text"
    return "other" if kind == "object" else kind
