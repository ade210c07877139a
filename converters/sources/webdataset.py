"""Tars as WebDataset has them: one, a folder of them, or `train-{00000..00012}.tar`.

Images are read in place; tars that are compressed are unpacked into a temporary folder once.

A sample is the members that follow each other and have one key: `a/b.1.seg.png` is the column `1.seg.png` of the sample
`a/b`.
"""

import json
import os
import re
import stat
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from shardfeed.annotations import OBJECTS, RASTER
from shardfeed.converters.rejects import AnnotationCode, RejectCode
from shardfeed.converters.sources.annotations.masks_meaning import read_masks
from shardfeed.converters.sources.files.archive import Forwards
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.converters.sources.files.parts import Parts, listed
from shardfeed.converters.sources.files.tar import HardLinks, Member, is_tar, members, read_member
from shardfeed.converters.sources.files.text import as_utf8
from shardfeed.converters.sources.files.unpack import DamagedStreamError, Unpacked, form_of, unpacked
from shardfeed.converters.sources.guard import damaged, open_regular
from shardfeed.converters.sources.look import Evidence, Look, SourceFiles, find_files, missing_of
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.columns import as_array
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.own_columns import choose_own_roles
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, NoImageError, Role, Roles, kind_of
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import LabelFileError, UsageError, escape, name_bytes, spell_out
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

NAME = "webdataset"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_ENDS = (".tar", *_COMPRESSED)
_END = re.compile(r"\.(tar(\.\w+)?|tgz)\Z", re.IGNORECASE)
_LOOKED_AT, _LOOKED_AT_AFTER = 100, 10  # samples examined to find the columns, of the first tar and of others
_RECOGNISED_BY = 16  # tars; all but the last may be empty
_BLOCK = 512  # bytes of a header; zeros in a tar without members
_MOST_SHAPES = 1000  # sets of columns that are remembered


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
    length = None if hasattr(file, "fileno") else 1 << 62
    links = HardLinks(file, place, length)
    for stored in members(file, place, length):
        member = links.resolved(stored)
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


def _value(tar: BinaryIO, column: str, member: Member) -> Any:
    """A text, a whole number, or any value of JSON. Raises ValueError; its message is a clause."""
    if not member.plain:
        raise ValueError("it is a link or a special file")
    if member.size > _MOST_VALUE:
        raise ValueError(f"{number(member.size, 'byte')}, expected {_MOST_VALUE:,} at most")
    try:
        data = as_utf8(read_member(tar, member), column)
    except LabelFileError as error:
        raise ValueError(f"it is {': '.join(map(spell_out, error.args[1:3]))}") from None
    try:
        if last(column) in _JSON:
            return json.loads(data)
        text = data.decode().strip()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {escape(str(error)[:80])}") from None
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
        except ValueError as error:
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

    def look(self, path: str, most: int) -> None:
        """Take the first samples of a tar. Raises UsageError for one that is damaged."""
        with open_regular(path) as tar:
            for _, columns in islice(samples(tar, path, Names(""), self.extension), most):
                self._samples += 1
                self.members.update([*columns])
                wanted = [column for column in columns if last(column) in _VALUES]
                self.add(read_values(tar, columns, wanted)[0])

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
        self._check_named(place, {"image": images, "mask": masks})
        if not images and not any(map(_is_plain_image, self.members)):
            images = (self._only_image(place, masks),)
        by_tar = asked.get("key") == URL
        if by_tar:
            del asked["key"]
        infos = [ColumnInfo(" or ".join(images) or _ANY_IMAGE, "image", role="image")]
        infos += [ColumnInfo(" or ".join(masks), "image", role="mask")] if masks else []
        infos += self._infos({*images, *masks}, any_image=not images)
        roles = choose_own_roles(place, infos, self.options, asked)
        masks = masks or tuple(filter(None, [roles.name("mask")]))  # by its name: `mask.png`
        return Chosen(images, masks, by_tar, roles, self._offered(roles))

    def _check_named(self, place: str, named: Mapping[str, tuple[str, ...]]) -> None:
        """Raise UsageError unless one of the columns named for the image, and for the mask, exists."""
        for what, columns in named.items():
            if columns and not any(column in self.members for column in columns):
                problem = f"there is no column {escape(';'.join(columns))!r} for {what}: it has {some(self.members)}"
                raise UsageError(place, problem, "name one of its columns")

    def _only_image(self, place: str, masks: tuple[str, ...]) -> str:
        """Return the only column that may be the image, though its name has a dot. Raises NoImageError."""
        dotted = [one for one in self.members if names_image(b"x." + os.fsencode(one)) and one not in masks]
        if len(dotted) == 1:
            return dotted[0]
        problem = f"{'several images' if dotted else 'no image'} in its first samples: "
        raise NoImageError(place, problem + some(dotted or self.members), self._image_remedy(dotted))

    def _image_remedy(self, dotted: list[str]) -> str:
        """Return the remedy where no column is the image; `dotted`: those that may be."""
        if self.members.keys() == {"tar"}:  # ImageNet's, a class each
            each = "for f in *.tar; do mkdir ${f%.tar} && tar -xf $f -C ${f%.tar} && rm $f; done"
            return f"unpack it and the tars in it into an empty folder, and convert that folder: `{each}`"
        others = [one for one in self.members if last(one) not in _VALUES | _PICKLES]
        whole = next((one for one in dotted or others if self.members[one] == self._samples), None)
        if whole is not None:
            return f"choose one, such as {naming('image', whole)}"
        if dotted:
            remedy = f"several names for one image: {naming('image', ';'.join(dotted[:2]))}; names with dots: "
            return remedy + "write each dot before the extension as _"
        return "write the image of each sample as KEY.jpg or KEY.png"

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


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Recognise tars by their first header and the columns of the first samples."""
    tars = [look.path] if look.is_file else [*map(look.full, islice(look.files(_ENDS), _RECOGNISED_BY))]
    first = next((tar for tar in tars if any(look.head(tar)[:_BLOCK])), tars[0] if tars else "")
    packed = first.lower().endswith(_COMPRESSED) and form_of(first)
    if not first or not (packed or is_tar(first)):
        return None
    found = "tars" if look.is_folder or first != look.path else "a tar"
    try:
        if packed:  # read forwards: an archive of images in folders has one member to a key
            streams = {tar: unpacked(tar, form_of(tar), tar) for tar in tars if tar.lower().endswith(_COMPRESSED)}
            files = ((cast("BinaryIO", Forwards(stream, tar)), tar) for tar, stream in streams.items())
            each = (samples(*file, Names("")) for file in files)
            several = any(len(columns) > 1 for _, columns in islice(chain.from_iterable(each), _LOOKED_AT))
            return Evidence(NAME, f"{found} of samples") if several else None
        chosen = _looked_at(options, [first]).choose(first)
    except DamagedStreamError:
        return None
    except UsageError as error:
        return Evidence(NAME, f"{found}, the first {escape(os.path.basename(first))}", missing_of(error))
    return Evidence(NAME, f"{found} of samples: {chosen.roles.described}")


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """Make one sample of each key in the tars; columns are named by `options.columns`, else by their usual names.

    The image is the only column named jpg, png or similar (`image`: others, `a;b` for one of several); the label `cls`,
    or a key of a JSON column as `json.label`; captions `txt` or the JSON's; objects the JSON's. `mask`: a column of
    masks; `options.class_names` then names its classes. `key=__url__` puts the tar's name before each key. Numbers in
    the JSON of every sample become features: `json.area` is `image/area`; any other value is taken if it is named:
    `image/url` from `json.url`. Raises UsageError for tars that are truncated or damaged, samples that are not
    contiguous or have a column twice, a repeated key, pickles, and unknown columns.
    """
    files = find_files(look.path, _ENDS)
    compressed = any(name.lower().endswith(_COMPRESSED) for name in files.names)
    into = Unpacked() if compressed else None
    tars = [_plain(file, into) if into else file for file in files.files]
    seen = _looked_at(options, [os.fsdecode(tar.path) for tar in tars])
    if not seen.members:
        problem = "no sample in it: no member is named KEY.COLUMN"
        raise UsageError(files.place, problem, "list its members: `tar -tf FILE`")
    chosen, passes = seen.choose(files.place), 0
    while True:
        passing = _Pass(files, tars, chosen, seen)
        for file in range(len(tars)):
            passing.add_tar(file)
        passes += 1
        again = seen.choose(files.place)
        if again.roles.by_role == chosen.roles.by_role or passes == 3:
            break
        chosen = again  # a column that is taken was seen late
    passing.check_unique()
    gather = passing.gather
    gather.roles = replace(gather.roles, unused=again.roles.unused)
    places = [(gather.where(2 * place), gather.where(2 * place + 1)) for place in range(2 if chosen.masks else 1)]
    parts = [Parts(tars, gather.file_of, *place, into) for place in places]
    return gather.source(
        parts[0],
        "tar",
        rasters=partial(read_masks, parts[1], options.class_names) if chosen.masks else None,
        notes=[*(into.note if into else ()), *passing.classes_lost, *passing.passed_over.note, *seen.note],
    )


def _looked_at(options: ColumnOptions, tars: Sequence[str]) -> SeenColumns:
    """The columns of the first samples of each tar."""
    seen = SeenColumns(options)
    while True:
        for tar in tars:
            seen.look(tar, _LOOKED_AT if not seen.members else _LOOKED_AT_AFTER)
        if (extension := seen.extension_of_names()) is seen.extension:
            return seen
        seen = SeenColumns(options)
        seen.extension = extension


def _plain(file: SourceFile, into: Unpacked) -> SourceFile:
    """The tar, unpacked if it is compressed."""
    path = os.fsdecode(file.path)
    form = form_of(path) if path.lower().endswith(_COMPRESSED) else ""
    if not form:
        return file
    try:
        with into.new(path) as new:
            for data in unpacked(path, form, path):
                new.write(data)
    except DamagedStreamError as error:
        raise damaged(path, error) from None
    return listed(new.path)


class _Shape(NamedTuple):
    """Layout shared by samples with the same columns: the columns of images and masks, and those to read."""

    images: Sequence[str]
    masks: Sequence[str]
    read: Sequence[str]
    ending: bytes


class _Pass:
    """One pass over all tars."""

    def __init__(self, files: SourceFiles, tars: Sequence[SourceFile], chosen: Chosen, seen: SeenColumns) -> None:
        self.files, self.tars, self.chosen, self.seen = files, tars, chosen, seen
        self._stems = [_END.sub("", name) for name in files.names]
        prefixes = [f"{stem}/" for stem in self._stems]
        self.gather = Gather(files, chosen.roles, seen.options, prefixes=prefixes, offered=chosen.offered)
        self.passed_over = Names("ignored members, not named KEY.COLUMN")
        self._key_hashes = array("q")
        self._begins = [0] * len(tars)  # the place of each tar's first key among the hashes
        self._folders: set[bytes] = set()
        roles = {info.name: role for role, info in chosen.roles.by_role.items()}
        self._wanted = {name for name in chosen.roles.columns if roles.get(name) not in ("image", "mask")}
        self._not_needed = {name for name, role in roles.items() if role in ("text", "objects")}
        self._named = "key" in chosen.roles.by_role
        self._by_own_names = self._named and "key" not in seen.options.columns  # by image/filename, in our tars
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._samples = partial(samples, extension=seen.extension)

    def add_tar(self, file: int) -> None:
        """Take all samples of a tar. Raises UsageError."""
        known, place = self.tars[file], os.fsdecode(self.files.files[file].path)
        self._begins[file] = len(self._key_hashes)
        with open_regular(known.path) as tar:
            state = os.fstat(tar.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size != known.size:
                raise UsageError(place, "it changed after it was listed", "wait until the writer has finished")
            for record, (key, columns) in enumerate(self._samples(tar, place, self.passed_over)):
                own = self._own(file, key)
                self._key_hashes.append(hash(own))
                if len(self._folders) < 4:
                    self._folders.add(own.rpartition(b"/")[0])
                self._add(tar, own, columns, file, record)

    def _own(self, file: int, key: bytes) -> bytes:
        return name_bytes(self._stems[file]) + b"/" + key if self.chosen.by_tar else key

    def _find_shape(self, columns: tuple[str, ...]) -> _Shape:
        self.seen.members.update([*columns])
        images = self.chosen.images_of(columns)
        masks = [column for column in columns if column in self.chosen.masks]
        read = [column for column in columns if column in self._wanted or self.seen.reads(column)]
        shape = _Shape(images, masks, read, b"." + last(images[0]).encode() if images else b"")
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes[columns] = shape
        return shape

    def _add(self, tar: BinaryIO, key: bytes, columns: Mapping[str, Member], file: int, record: int) -> None:
        """Take one sample, or list it."""
        names = tuple(columns)
        shape = self._shapes.get(names) or self._find_shape(names)
        values, problems = read_values(tar, columns, shape.read)
        if not self.seen.has_seen(values):
            self.seen.add(values)
        if len(shape.images) > 1:
            place = os.fsdecode(self.files.files[file].path)
            problem = f"the sample '{escape(key)}' has more than one image: {', '.join(map(escape, shape.images))}"
            raise UsageError(place, problem, f"choose one: {naming('image', shape.images[0])}")
        fault = self._fault(key, columns, shape, problems)
        for column, problem in problems.items() if fault is None else ():
            if _among(column, self._not_needed):
                self.gather.ledger.leave_out(key + shape.ending, AnnotationCode.LINE, f"{column}: {problem}")
        where: tuple[int, ...] = ()
        for column in (*shape.images, *shape.masks):
            where += columns[column][1:3]
        of_key = shape.ending if self._named else b""
        name = b"" if self._by_own_names and not fault else key + shape.ending
        self.gather.add(Row(file, record, where, values, name, of_key, fault))

    def _fault(
        self, key: bytes, columns: Mapping[str, Member], shape: _Shape, problems: Mapping[str, str]
    ) -> tuple[RejectCode, str] | None:
        """Return code and reason for rejecting a sample; None for a valid one."""
        if not shape.images:
            return RejectCode.MISSING, f"no image in the sample, only {', '.join(map(escape, columns))}"
        if self.chosen.masks and len(shape.masks) != 1:
            return RejectCode.PAIR, f"{len(shape.masks)} masks in the sample, expected one"
        for column in (*shape.images, *shape.masks):
            if not columns[column].plain:
                return RejectCode.NOT_REGULAR, f"{escape(column)} is a link or a special file"
        if b".." in key and b".." in key.split(b"/"):
            return RejectCode.PATH_ESCAPE, "its key is a path outside the root"
        for column, problem in problems.items():
            if _among(column, self._wanted - self._not_needed):
                return RejectCode.NO_LABEL, f"{escape(column)}: {problem}"
        return None

    def check_unique(self) -> None:
        """Raise UsageError if a key is repeated: its files are not adjacent in a tar, or are in two tars."""
        hashes, self._key_hashes = as_array(self._key_hashes), array("q")
        again = np.delete(np.arange(len(hashes)), np.unique(hashes, return_index=True)[1])
        for later in again.tolist():
            earlier = int(np.argmax(hashes == hashes[later]))
            (one, key), (other, twin) = self._find(earlier), self._find(later)
            if key != twin:  # two hashes may be equal by chance
                continue
            first, second = (self.files.names[file] for file in (one, other))
            place = os.fsdecode(self.files.files[other].path)
            if one == other:
                problem = f"the files of the sample '{key}' are not adjacent"
                problem += f" ({len(again):,} such samples)" if len(again) > 1 else ""
                raise UsageError(place, problem, "write the tar in the order of names: `tar --sort=name -cf OUT DIR`")
            problem = f"the key '{key}' is in {escape(first)} and in {escape(second)} ({len(again):,} repeated keys)"
            remedy = f"if each tar restarts its keys, give {naming('key', URL)}, which prefixes the tar's name"
            raise UsageError(place, problem, remedy)

    def _find(self, place: int) -> tuple[int, str]:
        """The tar and the key of a sample, by its place among all."""
        file = int(np.searchsorted(self._begins, place, side="right")) - 1
        with open_regular(self.tars[file].path) as tar:
            found = self._samples(tar, str(self.files.names[file]), Names(""))
            return file, escape(self._own(file, next(islice(found, place - self._begins[file], None))[0]))

    @property
    def classes_lost(self) -> list[str]:
        """Note that samples without labels are in several folders, as in a tar of class folders; empty if not."""
        folders = sorted(self._folders - {b""})
        if len(folders) < 2 or len(self.chosen.roles.by_role) > 1:
            return []
        note = f"no labels, and images in several folders ({some(map(escape, folders))}): if those are classes, "
        return [note + "unpack by `tar -xf FILE -C FOLDER`, and convert the folder"]


def _among(column: str, names: Iterable[str]) -> bool:
    """Whether a column, or a key of its JSON, is one of `names`."""
    return column in names or any(name.startswith(f"{column}.") for name in names)
