"""Tars as WebDataset has them: one, a folder of them, or `train-{00000..00012}.tar`.

Images are read in place; tars that are compressed are unpacked into a temporary folder once.
"""

import os
import re
import stat
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.masks.meaning import read_masks
from shardfeed.converters.sources.archives.archive import Forwards
from shardfeed.converters.sources.archives.tar import Member, is_tar
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked, form_of, unpacked
from shardfeed.converters.sources.containers.handles import listed
from shardfeed.converters.sources.containers.webdataset_columns import (
    URL,
    Chosen,
    SeenColumns,
    last,
    read_values,
    samples,
)
from shardfeed.converters.sources.guard import damaged, open_regular
from shardfeed.converters.sources.look import Look, SourceFiles, find_files
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.columns import as_array
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.source import ColumnarSource, Names, Parts
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape, name_bytes
from shardfeed.text import some

NAME = "webdataset"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_ENDS = (".tar", *_COMPRESSED)
_END = re.compile(r"\.(tar(\.\w+)?|tgz)\Z", re.IGNORECASE)
_LOOKED_AT, _LOOKED_AT_AFTER = 100, 10  # samples examined to find the columns, of the first tar and of others
_RECOGNISED_BY = 16  # tars; all but the last may be empty
_BLOCK = 512  # bytes of a header; zeros in a tar without members
_MOST_SHAPES = 1000  # sets of columns that are remembered


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
        self.gather.add(Row(file, record, where, values, key + shape.ending, of_key, fault))

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
