"""Tars as WebDataset has them: one, a folder of them, or `train-{00000..00012}.tar`.

A sample is the members that follow each other and have one key: `a/b.1.seg.png` is the column `1.seg.png` of the sample
`a/b`. Images are read in place; tars that are compressed are unpacked into a temporary folder once.
"""

import json
import os
import re
import stat
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np

from shardfeed.annotations import OBJECTS, RASTER
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode
from shardfeed.converters.sources.annotations.masks.meaning import read_masks
from shardfeed.converters.sources.archives.archive import Forwards
from shardfeed.converters.sources.archives.tar import Member, is_tar, members, read_member
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked, form_of, unpacked
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.converters.sources.files.source_files import SourceFiles, find_files, names_files
from shardfeed.converters.sources.guard import damaged
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.columns import as_array
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.ledger import Names
from shardfeed.converters.sources.rows.objects import kind_of
from shardfeed.converters.sources.rows.parts import Parts
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, NoImageError, Role, Roles, choose_roles
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape, name_bytes
from shardfeed.schema import ENCODED, IMAGE_KEYS
from shardfeed.text import number, some

NAME = "webdataset"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_ENDS = (".tar", *_COMPRESSED)
_END = re.compile(r"\.(tar(\.\w+)?|tgz)\Z", re.IGNORECASE)
_LOOKED_AT, _LOOKED_AT_AFTER = 100, 10  # samples that tell what columns there are, of the first tar and of others
_MOST_VALUE = 16 << 20  # bytes of a text, number or JSON value
_MOST_COLUMNS = 1000  # keys of JSON that are known
_NAME = re.compile(rb"((?:.*/|)[^./]+)[.]([^/]*)\Z", re.DOTALL)
_META = re.compile(rb"__[^/]*__")
_WHOLE_NUMBERS = frozenset(("cls", "cls2", "class", "count", "index", "inx", "id"))  # what such columns hold
_TEXTS = frozenset(("txt", "text", "transcript", "caption"))
_JSON = frozenset(("json", "jsn"))
_PICKLES = frozenset(("pyd", "pkl", "pickle", "pth", "pt"))
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_FEATURE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")  # keys of JSON whose numbers become features by themselves
_STATED: Mapping[Role, tuple[str, ...]] = {"label": ("cls",), "text": ("txt", "caption", "text")}  # before keys of JSON
_ANY_IMAGE = "jpg, png and the like"
_URL = "__url__"  # as a key: the name of the tar, and the key in it


@dataclass
class TarSample:
    """One sample: its key as the tar has it, and its members by column."""

    key: bytes
    columns: dict[str, Member] = field(default_factory=dict)


@dataclass(frozen=True)
class _Chosen:
    """Which columns are what. `images`, `masks`: each sample has one of them; empty: any plain image, or no masks."""

    images: tuple[str, ...]
    masks: tuple[str, ...]
    by_tar: bool
    roles: Roles
    offered: Mapping[str, str]

    def images_of(self, columns: Mapping[str, Any]) -> list[str]:
        """The columns of a sample that may be its image."""
        return [column for column in columns if (column in self.images if self.images else _is_plain_image(column))]


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Recognise tars by their first header and the columns of the first samples."""
    first = names_files(look.path, _ENDS)
    packed = first.lower().endswith(_COMPRESSED) and form_of(first)
    if not first or not (packed or is_tar(first)):
        return None
    found = "tars" if look.is_folder or first != look.path else "a tar"
    try:
        if packed:  # read forwards: an archive of images in folders has one member to a key
            some_samples = islice(_samples(_unpacking(first), first, Names("")), _LOOKED_AT)
            return Evidence(NAME, f"{found} of samples") if any(len(one.columns) > 1 for one in some_samples) else None
        chosen = _Seen(options).look(first, _LOOKED_AT).choose(first)
    except DamagedStreamError:
        return None
    except UsageError as error:
        return Evidence(NAME, f"{found}, the first {escape(os.path.basename(first))}", missing_of(error))
    return Evidence(NAME, f"{found} of samples: {chosen.roles.described}")


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """Make one sample of each key in the tars; `options.columns` names columns, else their usual names do.

    The image is the one column that is called jpg, png or the like (`image`: others, `a;b` for one of several); the
    label `cls`, or a key of a JSON column as `json.label`; captions `txt` or the JSON's; objects the JSON's. `mask`: a
    column of masks, whose classes `options.class_names` then names. `key=__url__` puts the tar's name before each key.
    Numbers that the JSON of every sample has become features: `json.area` is `image/area`; any other value is taken
    where it is named: `image/url` from `json.url`. Raises UsageError for tars that are cut or damaged, samples that are
    torn apart or have a column twice, a key that comes again, pickles, and columns that no one knows.
    """
    files = find_files(look.path, _ENDS)
    into = Unpacked()
    tars = [_plain(file, into) for file in files.files]
    seen = _Seen(options)
    for tar in tars:
        seen.look(os.fsdecode(tar.path), _LOOKED_AT if not seen.members else _LOOKED_AT_AFTER)
    if not seen.members:
        problem = "no sample in it: no member is called KEY.COLUMN"
        raise UsageError(files.place, problem, "see what is in it: `tar -tf FILE`")
    chosen, passes = seen.choose(files.place), 0
    while True:
        passing = _Pass(files, tars, chosen, seen)
        passing.add_tars()
        passes += 1
        again = seen.choose(files.place)
        if again.roles.by_role == chosen.roles.by_role or passes == 3:
            break
        chosen = again  # a column that is taken was seen late
    passing.check_unique()
    gather = passing.gather
    gather.roles = replace(gather.roles, unused=again.roles.unused)
    parts = [
        Parts(tars, gather.file_of, gather.where(2 * place), gather.where(2 * place + 1), into)
        for place in range(2 if chosen.masks else 1)
    ]
    return gather.source(
        parts[0],
        "tar",
        rasters=None
        if not chosen.masks
        else lambda keys: read_masks(files.place, parts[1], len(keys), options.class_names, lambda i: escape(keys[i])),
        notes=[*into.note, *passing.classes_lost, *passing.passed_over.note],
    )


def _plain(file: SourceFile, into: Unpacked) -> SourceFile:
    """The tar, unpacked where it is compressed."""
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
    state = os.stat(new.path)
    return SourceFile(os.fsencode(new.path), state.st_size, state.st_mtime_ns)


def _unpacking(path: str) -> BinaryIO:
    """A compressed tar as a file that is read forwards."""
    return cast("BinaryIO", Forwards(unpacked(path, form_of(path), path), path))


def _samples(file: BinaryIO, place: str, passed_over: Names) -> Iterator[TarSample]:
    """The samples of a tar, in its order; metadata and hidden files are passed over in silence, others named.

    The first dot of the base name ends the key; columns are in lower case. Raises UsageError for a tar that is not
    whole, and for a column that comes twice in a sample.
    """
    sample = None
    for member in members(file, place, None if hasattr(file, "fileno") else 1 << 62):
        name = member.name.removeprefix(b"./").lstrip(b"/")
        folder, _, base = name.rpartition(b"/")
        if is_hidden(base) or _META.fullmatch(base) or (not folder and _META.match(base)) or _is_metadata(folder):
            continue
        found = _NAME.match(name)
        if found is None:
            passed_over.add(name)
            continue
        key, column = found[1], found[2].decode("utf-8", "surrogateescape").lower()
        if sample is None or sample.key != key:
            if sample is not None:
                yield sample
            sample = TarSample(key)
        if column in sample.columns:
            before = sample.columns[column].offset
            problem = f"the sample '{escape(key)}' has the column '{escape(column)}' twice"
            problem += f", at the bytes {before:,} and {member.offset:,}"
            raise UsageError(place, problem, "leave one of the two out")
        sample.columns[column] = member
    if sample is not None:
        yield sample


@lru_cache
def _is_metadata(folder: bytes) -> bool:
    """Whether what is in a folder is the system's business, or metadata."""
    return any(is_hidden(part) or _META.fullmatch(part) for part in folder.split(b"/") if part != b"..")


@lru_cache
def _is_plain_image(column: str) -> bool:
    """Whether a column is called by the extension of an image and nothing else."""
    return "." not in column and names_image(b"x." + os.fsencode(column))


@lru_cache
def _last(column: str) -> str:
    return column.rpartition(".")[2]


class _BadValueError(Exception):
    """The member of a sample cannot be read as its column should be; the message is a clause."""


def _value(tar: BinaryIO, column: str, member: Member) -> Any:
    """A text, a whole number, or any value of JSON. Raises _BadValueError."""
    if not member.plain:
        raise _BadValueError("it is a link, or no plain file")
    if member.size > _MOST_VALUE:
        raise _BadValueError(f"{number(member.size, 'byte')}, expected {_MOST_VALUE:,} at most")
    data = read_member(tar, member)
    try:
        if _last(column) in _JSON:
            return json.loads(data)
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise _BadValueError("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _BadValueError(f"no JSON: {escape(str(error)[:80])}") from None
    return int(text) if _last(column) in _WHOLE_NUMBERS and _INTEGER.match(text) else text


def _values(tar: BinaryIO, sample: TarSample, wanted: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of JSON and of `wanted` columns by name, keys of JSON objects behind a dot; and what is wrong."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for column, member in sample.columns.items():
        if _last(column) in _JSON or column in wanted:
            try:
                value = _value(tar, column, member)
            except _BadValueError as error:
                problems[column] = str(error)
                continue
            if isinstance(value, dict) and _last(column) in _JSON:
                values |= {f"{column}.{key}": one for key, one in value.items()}
            else:
                values[column] = value
    return values, problems


class _Seen:
    """The columns that samples have, and the kinds of their values."""

    def __init__(self, options: ColumnOptions) -> None:
        self.options = options
        self.members: dict[str, None] = {}
        self.kinds: dict[str, Counter[str]] = {}
        self._null: set[str] = set()  # columns of which no value tells the kind

    def look(self, path: str, most: int) -> "_Seen":
        """Take the first samples of a tar. Raises UsageError for one that is damaged."""
        wanted = _WHOLE_NUMBERS | _TEXTS
        with open(path, "rb") as tar:
            for sample in islice(_samples(tar, path, Names("")), most):
                readable = [column for column in sample.columns if _last(column) in wanted]
                self.add(sample, _values(tar, sample, readable)[0])
        return self

    def add(self, sample: TarSample, values: Mapping[str, Any]) -> None:
        """Take the columns of a sample, and the kinds of its values."""
        self.members |= dict.fromkeys(sample.columns)
        for name, value in values.items():
            if name in self.kinds or len(self.kinds) < _MOST_COLUMNS:
                kind = kind_of(value)
                if kind != "null":
                    self._null.discard(name)
                elif name not in self.kinds:
                    self._null.add(name)
                self.kinds.setdefault(name, Counter())[kind] += 1

    def knows(self, sample: TarSample, values: Mapping[str, Any]) -> bool:
        """Whether no column of a sample is new, or of a kind that is not known yet."""
        if any(values.get(name) is not None for name in self._null):
            return False
        return all(map(self.members.__contains__, sample.columns)) and all(map(self.kinds.__contains__, values))

    def choose(self, place: str) -> _Chosen:
        """Choose columns by those that were seen. Raises UsageError, for pickles too unless all that is taken is asked
        for; NoImageError where nothing tells the image."""
        asked = dict(self.options.columns)
        self._check_pickles(place, asked)
        images, masks = (
            tuple(filter(None, asked.pop(what, asked.pop(key, "")).lower().split(";")))
            for what, key in (("image", ENCODED), ("mask", RASTER))
        )
        for what, columns in (("image", images), ("mask", masks)):
            if columns and not any(column in self.members for column in columns):
                problem = f"there is no column {escape(';'.join(columns))!r} for {what}: it has {some(self.members)}"
                raise UsageError(place, problem, "name one of its columns")
        if not images and not any(map(_is_plain_image, self.members)):
            dotted = [one for one in self.members if names_image(b"x." + os.fsencode(one)) and one not in masks]
            if len(dotted) != 1:
                problem = f"{'several images' if dotted else 'no image'} in its first samples: "
                remedy = f"say which is it: {naming('image', 'COLUMN')}"
                if self.members.keys() == {"tar"}:  # ImageNet's, a class each
                    each = "for f in *.tar; do mkdir ${f%.tar} && tar -xf $f -C ${f%.tar} && rm $f; done"
                    remedy = f"unpack it into an empty folder, there the tars in it, and convert that folder: `{each}`"
                raise NoImageError(place, problem + some(dotted or self.members), remedy)
            images = (dotted[0],)
        by_tar = asked.get("key") == _URL
        if by_tar:
            del asked["key"]
        infos = [ColumnInfo(" or ".join(images) or _ANY_IMAGE, "image", role="image")]
        infos += [ColumnInfo(" or ".join(masks), "image", role="mask")] if masks else []
        infos += self._infos({*images, *masks}, any_image=not images)
        roles = choose_roles(place, infos, asked, unlabelled=self.options.unlabelled)
        return _Chosen(images, masks, by_tar, roles, self._offered(roles))

    def _check_pickles(self, place: str, asked: Mapping[str, str]) -> None:
        pickles = [column for column in self.members if _last(column) in _PICKLES]
        named = [name for name in asked.values() if name in pickles]
        if named or (pickles and not asked):
            problem = (
                f"the column {escape((named or pickles)[0])} is a pickle, which runs what is in it when it is loaded"
            )
            taken = "" if named else f", or say what is to be taken: {naming('image', 'jpg')}"
            raise UsageError(place, problem, f"write it as cls, txt or json{taken}")

    def _infos(self, images: set[str], *, any_image: bool) -> list[ColumnInfo]:
        """All columns but those of images and masks; keys of JSON objects instead of their members."""
        stated: dict[str, Role] = {}
        for what, names in _STATED.items():
            stated[next((name for name in names if name in self.kinds), "")] = what
        found = []
        for column in self.members:
            keys = [name for name in self.kinds if name.startswith(f"{column}.") and _last(column) in _JSON]
            if column not in self.kinds and not keys:
                if column not in images and not (any_image and _is_plain_image(column)):
                    kind: Kind = "image" if names_image(b"x." + os.fsencode(column)) else "other"
                    found.append(ColumnInfo(column, kind, column))
                continue
            for name in [*keys, *([column] if column in self.kinds else [])]:
                word = name[len(column) + 1 :] or column
                kind = _most(self.kinds[name])
                role = stated.get(name) if kind in ("integer", "text") else None
                found.append(ColumnInfo(name, kind, word, role))
        return found

    def _offered(self, roles: Roles) -> dict[str, str]:
        """The keys of JSON whose values are numbers, by the features that they become."""
        found: dict[str, str] = {}
        for column in self.members:
            for name in self.kinds if _last(column) in _JSON else ():
                key = f"image/{name[len(column) + 1 :]}"
                taken = key in IMAGE_KEYS or key.startswith((OBJECTS, "image/class/", RASTER))
                fits = name.startswith(f"{column}.") and _FEATURE.match(name[len(column) + 1 :]) and not taken
                if fits and name not in roles.columns and _most(self.kinds[name]) in ("integer", "float"):
                    found.setdefault(key, name)
        return {key: name for key, name in found.items() if key not in roles.extra}


def _most(kinds: Counter[str]) -> Any:
    """The kind that most values have, of numbers "float" where one is; "text" where nothing tells."""
    known = Counter({kind: count for kind, count in kinds.items() if kind != "null"})
    if known.keys() == {"integer", "float"} or known.keys() == {"integers", "floats"}:
        return "floats" if "floats" in known else "float"
    kind = known.most_common(1)[0][0] if known else "text"
    return "other" if kind == "object" else kind


class _Pass:
    """One pass over all tars."""

    def __init__(self, files: SourceFiles, tars: Sequence[SourceFile], chosen: _Chosen, seen: _Seen) -> None:
        self.files, self.tars, self.chosen, self.seen = files, tars, chosen, seen
        self._stems = [_END.sub("", name) for name in files.names]
        prefixes = [f"{stem}/" for stem in self._stems]
        self.gather = Gather(files, chosen.roles, seen.options, prefixes=prefixes, offered=chosen.offered)
        self.passed_over = Names("members passed over, not called KEY.COLUMN")
        self._met, self._met_in = array("Q"), array("i")  # hashes of keys, and the tar of each
        self._folders: set[bytes] = set()
        roles = {info.name: role for role, info in chosen.roles.by_role.items()}
        self._wanted = {name for name in chosen.roles.columns if roles.get(name) not in ("image", "mask")}
        self._not_needed = {name for name, role in roles.items() if role in ("text", "objects")}

    def add_tars(self) -> None:
        """Take all samples. Raises UsageError."""
        for file in range(len(self.tars)):
            self._add_tar(file)

    def _add_tar(self, file: int) -> None:
        listed, place = self.tars[file], os.fsdecode(self.files.files[file].path)
        with open(listed.path, "rb") as tar:
            state = os.fstat(tar.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size != listed.size:
                raise UsageError(place, "it is not as it was when it was listed", "wait until it is written")
            for record, sample in enumerate(_samples(tar, place, self.passed_over)):
                own = name_bytes(self._stems[file]) + b"/" + sample.key if self.chosen.by_tar else sample.key
                self._met.append(int.from_bytes(blake2b(own, digest_size=8).digest(), "little"))
                self._met_in.append(file)
                if len(self._folders) < 4:
                    self._folders.add(os.path.dirname(own))
                self._add(tar, sample, own, file, record)

    def _add(self, tar: BinaryIO, sample: TarSample, key: bytes, file: int, record: int) -> None:
        """Take one sample, or list it."""
        values, problems = _values(tar, sample, self._wanted)
        if not self.seen.knows(sample, values):
            self.seen.add(sample, values)
        images = self.chosen.images_of(sample.columns)
        if len(images) > 1:
            place = os.fsdecode(self.files.files[file].path)
            problem = f"the sample '{escape(sample.key)}' has more than one image: {', '.join(map(escape, images))}"
            raise UsageError(place, problem, f"say which is it: {naming('image', images[0])}")
        ending = b"." + _last(images[0]).encode() if images else b""
        masks = [column for column in sample.columns if column in self.chosen.masks]
        fault = self._fault(sample, key, images, masks, problems)
        for column, problem in problems.items() if fault is None else ():
            if column in self._not_needed or any(name.startswith(f"{column}.") for name in self._not_needed):
                self.gather.ledger.leave_out(key + ending, AnnotationCode.LINE, f"{column}: {problem}")
        where = tuple(number for one in (*images, *masks) for number in sample.columns[one][1:3])
        of_key = ending if "key" in self.chosen.roles.by_role else b""
        self.gather.add(Row(file, record, where, values, key + ending, of_key, fault))

    def _fault(
        self, sample: TarSample, key: bytes, images: list[str], masks: list[str], problems: Mapping[str, str]
    ) -> tuple[RejectCode, str] | None:
        """Why a sample cannot be taken."""
        if not images:
            return RejectCode.MISSING, f"no image in the sample, only {', '.join(map(escape, sample.columns))}"
        if self.chosen.masks and len(masks) != 1:
            return RejectCode.PAIR, f"{len(masks)} masks in the sample, expected one"
        for column in (*images, *masks):
            if not sample.columns[column].plain:
                return RejectCode.NOT_REGULAR, f"{escape(column)} is a link, or no plain file"
        if b".." in key.split(b"/"):
            return RejectCode.PATH_ESCAPE, "its key leaves the root"
        needed = self._wanted - self._not_needed
        for column, problem in problems.items():
            if column in needed or any(name.startswith(f"{column}.") for name in needed):
                return RejectCode.NO_LABEL, f"{escape(column)}: {problem}"
        return None

    def check_unique(self) -> None:
        """Raises UsageError where a key comes again: torn apart in a tar, or in two tars."""
        hashes, met_in = as_array(self._met), as_array(self._met_in)
        self._met, self._met_in = array("Q"), array("i")
        order = np.argsort(hashes, kind="stable")
        again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        if not len(again):
            return
        later = int(again.min())
        one, other = met_in[int(np.argmax(hashes == hashes[later]))], met_in[later]
        first, second = (self.files.names[file] for file in (one, other))
        with open(self.tars[other].path, "rb") as tar:
            samples = _samples(tar, str(second), Names(""))
            key = escape(next(islice(samples, later - int(np.argmax(met_in == other)), None)).key)
        place = os.fsdecode(self.files.files[other].path)
        if one == other:
            problem = f"the sample '{key}' is torn apart: its files are not behind each other"
            problem += f" ({len(again):,} such samples)" if len(again) > 1 else ""
            raise UsageError(place, problem, "write the tar in the order of names: `tar --sort=name -cf OUT DIR`")
        problem = f"the key '{key}' is in {escape(first)} and in {escape(second)} ({len(again):,} keys come again)"
        remedy = f"where each tar counts anew give {naming('key', _URL)}: the tar's name before each"
        raise UsageError(place, problem, remedy)

    @property
    def classes_lost(self) -> list[str]:
        """A note where samples without labels lie in several folders, as in a tar of class folders."""
        folders = sorted(self._folders - {b""})
        if len(folders) < 2 or len(self.chosen.roles.by_role) > 1:
            return []
        told = f"no labels, and images in several folders ({some(map(escape, folders))}): where those are classes, "
        return [told + "unpack by `tar -xf FILE -C FOLDER`, and convert the folder"]
