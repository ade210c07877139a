"""Files of serialised tf.train.Examples in any framing: finding them, their features and their images."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.masks.meaning import read_masks
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.image_extensions import ending_of
from shardfeed.converters.sources.containers.records.columns import RecordColumns, find_columns, may_mean
from shardfeed.converters.sources.containers.records.features import (
    FeatureLook,
    not_examples,
    one_number,
    one_text,
    supervised_keys,
)
from shardfeed.converters.sources.containers.records.shard_names import (
    FoundSplit,
    ShardFiles,
    ShardNames,
    find_shards,
    find_splits,
    list_names,
)
from shardfeed.converters.sources.files.class_names import NamesFile, names_beside, read_named_classes
from shardfeed.converters.sources.look import Look, SourceFiles
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import SourceFile
from shardfeed.converters.sources.split_names import split_in_name
from shardfeed.errors import IntegrityError, RecordError, StorageError, UsageError, argument, escape
from shardfeed.formats.example import decode, is_sequence_example
from shardfeed.formats.format import Fields
from shardfeed.naming import MANIFEST
from shardfeed.storage.local import storage_error
from shardfeed.text import listing, number

_LOOKED_AT = 1000  # records, over all files, examined to find the keys; at least one of each file
_RECOGNISED_BY = 16
_PASSES = 32  # over all records, each begun because a key with a meaning was met for the first time
_ONLY_EXAMPLES = "only records that are serialised tf.train.Examples can be read"


class FoundRecord(NamedTuple):
    """A record, or a position without a valid one: then `payload` is b"" and `problem` describes the fault.

    `record`: from 0. `offset`, `size`: bytes in the file, with framing; both 0 if the format locates records itself.
    """

    record: int
    offset: int
    size: int
    payload: bytes
    problem: str = ""


@dataclass(frozen=True)
class ExampleFile(SourceFile):
    """A file of records: `name`, relative to the opened path; `split` from its name, or None.

    `problem`: damage at its end. For a compressed file, the file to read is a decompressed copy.
    """

    name: str
    split: str | None
    problem: str = ""


@dataclass(frozen=True)
class ExampleFormat:
    """One way to frame records.

    name: for `--reader`. shards: names of files. is_one: whether a file begins like the format. is_packed: whether it
    has no random access. unpack: returns the path of a file with random access, and the loss at its end. records:
    yields all records of a file. part: returns a function that returns a record's payload.
    """

    name: str
    shards: ShardNames
    is_one: Callable[[str], bool]
    is_packed: Callable[[str], object]
    unpack: Callable[[str, Unpacked], tuple[str, str]]
    records: Callable[[ExampleFile], Iterator[FoundRecord]]
    part: Callable[[ExampleFile, int, int, int], Callable[[], bytes]]

    @property
    def what(self) -> str:
        """A file of it, for people."""
        return f"{self.shards.what} file"


@dataclass(frozen=True)
class ExampleImage:
    """The image in a record: a content as `Sample.image` takes it. Raises RejectedError when called.

    `part`: what gives the payload; `key`: the feature; `size`: bytes; `mtime_ns`: of the file. `pixels`: the features
    that are height, width and depth of raw pixels, which become a PNG; None where images are files.
    """

    part: Callable[[], bytes]
    key: str
    size: int
    mtime_ns: int
    pixels: tuple[str, str, str] | None

    def __call__(self) -> bytes:
        """The bytes of the image file."""
        features = decode(self.part(), {self.key, *(self.pixels or ())})
        data = bytes(features[self.key][1][0])
        if self.pixels is None or begins_as_image(data[:HEAD_BYTES]):
            return data
        height, width, depth = (one_number(features, key) for key in self.pixels)
        depth = depth if depth > 0 else len(data) // max(1, height * width)
        if min(height, width) < 1 or depth not in (1, 3, 4) or len(data) != height * width * depth:
            reason = f"{len(data)} bytes, expected {height} x {width} x {depth} pixels"
            raise RejectedError(RejectCode.NOT_IMAGE, reason)
        pixels = np.frombuffer(data, np.uint8).reshape(height, width, depth)
        return encode_png(Image.fromarray(pixels[..., 0] if depth == 1 else pixels))


@dataclass(frozen=True, eq=False)
class ExampleImages:
    """The images of samples by their numbers: `file_of` int32 [n], places in `files`.

    `where`: int64 [n] each: the sample's record, the record's offset and length in bytes, and the bytes of the image.
    `keys`: of image and raw pixels. `unpacked`: files that exist as long as this object.
    """

    form: ExampleFormat
    files: tuple[ExampleFile, ...]
    file_of: np.ndarray
    where: Sequence[np.ndarray]
    keys: tuple[str, tuple[str, str, str] | None]
    unpacked: Unpacked

    def __getitem__(self, index: int, /) -> ExampleImage:
        file = self.files[self.file_of.item(index)]
        record, offset, length, size = (numbers.item(index) for numbers in self.where)
        key, pixels = self.keys
        return ExampleImage(self.form.part(file, record, offset, length), key, size, file.mtime_ns, pixels)


def recognise_examples(look: Look, options: ColumnOptions, form: ExampleFormat) -> Evidence | None:
    """Whether a path is a file of the format, or a folder with some; the first records of one give its features."""
    named = any(form.shards.place(os.path.basename(name)) for name in look.files(depth=3))
    if not (named if look.is_folder else look.is_file):
        return None
    try:
        found = _find(look, form)
        names = [name for split in found.splits for name in split.files if name is not None]
        # Writers with more shards than samples leave some empty, perhaps the first.
        first = tuple(name for name in names[:_RECOGNISED_BY] if form.is_one(os.path.join(found.root, name)))
        if not first:
            return None
    except UsageError as error:
        return Evidence(form.name, f"it has files named like {form.what}s", f"{error.place}: {missing_of(error)}")
    except (OSError, StorageError):
        return None
    count = number(len(names), form.what)
    if os.path.isfile(os.path.join(found.root, MANIFEST)):
        return Evidence(form.name, count, "it is already a dataset: read it with shardfeed.open")
    try:
        if form.is_packed(os.path.join(found.root, first[0])):
            return Evidence(form.name, f"{count}, compressed")
        alone = ShardFiles(found.root, [FoundSplit(found.splits[0].name, first)])
        seen = _look_at(_opened(alone, form, Unpacked()), form, look.path, _RECOGNISED_BY)
        columns = find_columns(seen, options, look.path, documented=supervised_keys(found.root))
    except (UsageError, IntegrityError) as error:
        return Evidence(form.name, count, missing_of(error))
    return Evidence(form.name, f"{count}; {columns.roles.described}")


def read_examples(look: Look, options: ColumnOptions, form: ExampleFormat) -> ColumnarSource:
    """Read the samples of a file, or of all files of a folder; every record is read once, and checked.

    If a key with a known meaning first appears after the records that were examined, all are read again. Raises
    UsageError if the features cannot be recognised, LabelFileError for a label map, StorageError.
    """
    unpacked = Unpacked()
    found = _find(look, form)
    files = _opened(found, form, unpacked)
    if not files:
        raise UsageError(look.path, f"no file in it or its folders is named like a {form.what}", "give the file itself")
    folder = os.fsencode(os.path.abspath(look.path)) if look.is_folder else None
    names, splits = [file.name for file in files], [file.split for file in files]
    of = SourceFiles(files, names, folder, notes=found.notes, of_splits=splits)
    documented = supervised_keys(found.root)
    try:
        seen = _look_at(files, form, look.path, _LOOKED_AT)
        for _ in range(_PASSES):
            columns = find_columns(seen, options, look.path, documented=documented)
            prefixes = [f"{name}/" for name in names]
            gather = Gather(of, columns.roles, options, prefixes=prefixes, digits=6, upright=False, fractions=True)
            if _read_all(gather, files, form, columns, seen):
                break
        else:
            problem = f"{_PASSES} passes did not find all keys of labels and boxes"
            raise UsageError(look.path, problem, "convert its files separately")
    except OSError as error:
        raise storage_error(look.path, "read", error) from error
    where = [gather.record_of, *map(gather.where, range(2))] if len(gather) else []

    def contents(size: int, key: str, pixels: tuple[str, str, str] | None = None) -> ExampleImages:
        """The images of a key; `size`: the place of their sizes in `Row.where`."""
        arrays = [*where, gather.where(size)] if len(gather) else []
        return ExampleImages(form, tuple(files), gather.file_of, arrays, (key, pixels), unpacked)

    mask = columns.roles.name("mask")
    return gather.source(
        contents(2, columns.image, columns.pixels),
        form.what,
        beside=_names_around(found.root, files, columns),
        rasters=partial(read_masks, contents(3, mask), options.class_names) if mask else None,
        notes=unpacked.note,
    )


class _Wanted:
    """The keys of records that are decoded; `late`: whether one that may mean something was never met before."""

    def __init__(self, keys: frozenset[str], known: set[str]) -> None:
        self.keys, self.known, self.late = keys, known, False

    def __contains__(self, key: str) -> bool:
        if key not in self.known:
            self.known.add(key)
            self.late = self.late or may_mean(key)
        return key in self.keys


def _read_all(
    gather: Gather, files: Sequence[ExampleFile], form: ExampleFormat, columns: RecordColumns, seen: FeatureLook
) -> bool:
    """Whether all records were read; else `seen` knows a key more."""
    wanted = _Wanted(columns.keys, {*seen.seen})
    for i, file in enumerate(files):
        whole, problem, last = False, "", -1
        for met in form.records(file):
            last = met.record
            whole, problem = whole or not met.problem, problem or met.problem
            row = _row(i, met, columns, wanted)
            if wanted.late:
                wanted.late = False
                with suppress(IntegrityError):  # a damaged record shows nothing
                    _add(seen, met, decode(met.payload))
                    return False
            gather.add(row)
        if problem and not whole:
            raise _unreadable_file_error(os.fsdecode(file.path) if not file.problem else file.name, form, problem)
        if file.problem:
            gather.reject(i, last + 1, RejectCode.TRUNCATED, f"nothing can be read from here on: {file.problem}")
    return True


def _row(file: int, met: FoundRecord, columns: RecordColumns, wanted: _Wanted) -> Row:
    """A record as the engine takes it."""

    def bad(code: RejectCode, reason: str, name: bytes = b"") -> Row:
        return Row(file, met.record, name=name, fault=(code, reason))

    if met.problem:
        return bad(RejectCode.CORRUPT, met.problem)
    try:
        features = decode(met.payload, wanted)
    except IntegrityError as error:
        return bad(RejectCode.CORRUPT, f"not a tf.train.Example: {error.problem}")
    if columns.image not in features and is_sequence_example(met.payload):
        return bad(RejectCode.UNSUPPORTED, "a tf.train.SequenceExample, which is not supported")
    name = one_text(features, columns.name)
    dtype, values = features.get(columns.image, ("bytes", ()))
    if dtype != "bytes" or len(values) != 1 or not values[0]:
        empty = dtype == "bytes" and len(values) == 1
        reason = f"no image in {escape(columns.image)}"
        return bad(RejectCode.EMPTY if empty else RejectCode.NOT_IMAGE, reason, name)
    image, where = bytes(values[0]), (met.offset, met.size, len(values[0]))
    if mask := columns.roles.name("mask"):
        dtype, values = features.get(mask, ("bytes", ()))
        if dtype != "bytes" or len(values) != 1 or not values[0]:
            return bad(RejectCode.PAIR, f"no mask in {escape(mask)}", name)
        where = (*where, len(values[0]))
    try:
        cells = columns.values(features)
    except RejectedError as error:
        return bad(error.code, error.reason, name)
    raw = columns.pixels and not begins_as_image(image[:HEAD_BYTES])
    ending = b".png" if raw else ending_of(image)
    return Row(file, met.record, where, cells, name, ending)


def _look_at(files: Sequence[ExampleFile], form: ExampleFormat, place: str, most: int) -> FeatureLook:
    """Collect the features of the first records of each file. Raises UsageError if none can be read."""
    look = FeatureLook()
    problem, remedy = "no record", _ONLY_EXAMPLES
    for file in files:
        for met in islice(form.records(file), max(1, most // max(1, len(files)))):
            if not met.problem:
                try:
                    if other := not_examples(met.payload):
                        problem, remedy = other
                    else:
                        _add(look, met, decode(met.payload))
                except IntegrityError as error:
                    problem = f"not a tf.train.Example: {error.problem}"
            problem = met.problem or problem
    if not look.records:
        raise UsageError(place, f"nothing can be read from {escape(files[0].name)}: {problem}", remedy)
    return look


def _add(look: FeatureLook, met: FoundRecord, features: Fields) -> None:
    """Inspect a record, without features of a dtype that differs from earlier records: it is listed later.

    An empty list has no dtype: some writers store empty lists of texts as integers.
    """
    fitting = {}
    for key, (dtype, values) in features.items():
        known = look.seen.get(key)
        if known is not None and known.dtype != dtype and not known.most:
            known.dtype = dtype
        if known is None or known.dtype == dtype:
            fitting[key] = dtype, values
    look.add(fitting, met.record)
    look.add_values(fitting)


def _find(look: Look, form: ExampleFormat) -> ShardFiles:
    """The files that a path means. Raises UsageError, StorageError."""
    if look.is_folder:
        found = find_shards(look.path, shards=form.shards)
        for split in found.splits:
            if split.missing:
                numbers = listing([str(number) for number in split.missing])
                problem = f"split {split.name}: of {len(split.files)} shards these are missing: {numbers}"
                raise UsageError(look.path, problem, "get them, or give a folder without numbered shards")
        return found
    if not look.is_file:
        problem = "neither a file nor a folder" if os.path.exists(look.path) else "no such file or folder"
        raise UsageError(look.path, problem, "check the path")
    name = os.path.basename(look.path)
    named = find_splits(look.path, [name], shards=form.shards)
    return ShardFiles(look.folder, [FoundSplit(named[0].name if named else "", (name,))])


def _opened(found: ShardFiles, form: ExampleFormat, unpacked: Unpacked) -> list[ExampleFile]:
    """Open all files, decompressed. File names define the splits if one of them contains a usual split name."""
    words = {split.name: split_in_name(split.name) for split in found.splits}
    usual = any(words.values())
    files: list[ExampleFile] = []
    for split in found.splits:
        name = (words[split.name] or split.name) if usual else None
        for file in filter(None, split.files):
            at = os.path.join(found.root, file)
            try:
                ready, problem = form.unpack(at, unpacked) if form.is_packed(at) else (at, "")
                state = os.stat(ready)
            except RecordError as error:
                raise _unreadable_file_error(at, form, error.problem) from None
            except OSError as error:
                raise storage_error(at, "read", error) from error
            path = os.fsencode(os.path.abspath(ready))
            files.append(ExampleFile(path, state.st_size, state.st_mtime_ns, file, name, problem))
    return files


def _unreadable_file_error(path: str, form: ExampleFormat, problem: str) -> UsageError:
    """Error for a file that is not of this format or has no intact record."""
    return UsageError(
        path, f"not a {form.what}, or it has no intact record: {problem}", "move it away, or get it again"
    )


def _names_around(root: str, files: Sequence[ExampleFile], columns: RecordColumns) -> dict[str, NamesFile]:
    """Find the files with class names beside the records, by column; the column of a label map is "".

    Raises LabelFileError for a label map that cannot be read, UsageError if two differ.
    """
    found: dict[str, NamesFile] = {}
    for folder in sorted({os.path.dirname(file.name) for file in files}):
        for name in list_names(os.path.join(root, folder), os.DirEntry.is_file):
            if name.endswith(".pbtxt") and "label" in name:
                file = os.path.join(folder, name)
                here = NamesFile(file, read_named_classes(os.path.join(root, file)), True)
                if "" in found and found[""].names != here.names:
                    problem = f"{escape(here.file)} and {escape(found[''].file)} list different classes"
                    raise UsageError(root, problem, f"give the right one: {argument('label_map', typed='FILE')}")
                found.setdefault("", here)
    plain = [name for name in list_names(root, os.DirEntry.is_file) if not name.endswith(".pbtxt")]
    keys = {label: label} if (label := columns.roles.name("label")) else {}
    if columns.objects is not None and columns.objects.label:
        keys[columns.objects.label] = columns.objects.name
    for i, (key, column) in enumerate(keys.items()):
        if there := names_beside(root, plain, key, images=not i and "" not in found):
            found[column] = NamesFile(*there)
    return found
