"""TFRecords that others wrote: plain, or compressed with GZIP or ZLIB, by any names and with any keys.

Every record is read, and both its CRCs checked; damaged ones are listed. Compressed files are unpacked into a temporary
folder (TMPDIR).

Files of serialised tf.train.Examples in other framings are found and read in the same way: see `ExampleFormat`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image, ending_of
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.masks_meaning import read_masks
from shardfeed.converters.sources.files.parts import FilePart
from shardfeed.converters.sources.files.unpack import ByteStream, DamagedStreamError, Unpacked, compression, inflated
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.look import Evidence, Look, SourceFiles, missing_of
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.record_columns import RecordColumns, find_columns, may_mean, names_around
from shardfeed.converters.sources.record_features import (
    FeatureLook,
    not_examples,
    one_number,
    one_text,
    supervised_keys,
)
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.shard_names import (
    TFRECORD,
    FoundSplit,
    ShardFiles,
    ShardNames,
    find_shards,
    find_splits,
    is_tfrecord,
    usual_splits,
)
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import IntegrityError, RecordError, StorageError, UsageError, escape
from shardfeed.formats.example import decode, is_sequence_example
from shardfeed.formats.format import Fields
from shardfeed.formats.tfrecord import FOOTER_BYTES, HEADER_BYTES, found_pieces, frame, payload_length, unframe
from shardfeed.naming import MANIFEST
from shardfeed.storage.local import storage_error
from shardfeed.text import counted, listing, number

_LOOKED_AT = 1000  # records, over all files, examined to find the keys; at least one of each file
_RECOGNISED_BY = 16
_ONLY_EXAMPLES = "only records that are serialised tf.train.Examples can be read"
_HEAD = 64
_WINDOW = 1 << 20
_NO_END = 1 << 62


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

    If a key with a known meaning first appears after the records that were examined, all are examined. Raises
    UsageError if the features cannot be recognised, LabelFileError for a label map, StorageError.
    """
    unpacked = Unpacked()
    found = _find(look, form)
    files = _opened(found, form, unpacked)
    if not files:
        raise UsageError(look.path, f"no file in it or its folders is named like a {form.what}", "give the file itself")
    folder = os.fsencode(os.path.abspath(look.path)) if look.is_folder else None
    names, splits = [file.name for file in files], [file.split for file in files]
    kinds = [split.name for split in found.splits]
    merged = (counted("kinds of files without a word for a split, read as one", kinds, len(kinds)),)
    notes = found.notes if len(kinds) == 1 or any(splits) else (*found.notes, *merged)
    of = SourceFiles(files, names, folder, notes=notes, of_splits=splits)
    documented = supervised_keys(found.root)
    prefixes = [f"{name}/" for name in names]
    try:
        for most in (_LOOKED_AT, sys.maxsize):
            seen = _look_at(files, form, look.path, most)
            columns = find_columns(seen, options, look.path, documented=documented)
            gather = Gather(of, columns.roles, options, prefixes=prefixes, digits=6, upright=False, fractions=True)
            if _read_all(gather, files, form, columns, _Wanted(columns.keys, {*seen.seen})):
                break
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
        beside=names_around(found.root, () if options.label_map or options.class_names else names, columns.labels),
        rasters=partial(read_masks, contents(3, mask), options.class_names) if mask else None,
        notes=[*unpacked.note, *columns.notes],
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
    gather: Gather, files: Sequence[ExampleFile], form: ExampleFormat, columns: RecordColumns, wanted: "_Wanted"
) -> bool:
    """Whether all records were read, and no key with a meaning was met for the first time."""
    for i, file in enumerate(files):
        whole, problem, last = False, "", -1
        for met in form.records(file):
            last = met.record
            whole, problem = whole or not met.problem, problem or met.problem
            row = _row(i, met, columns, wanted)
            if wanted.late:
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
    image = _only(features, columns.image)
    if not image:
        code = RejectCode.NOT_IMAGE if image is None else RejectCode.EMPTY
        return bad(code, f"no image in {escape(columns.image)}", name)
    where = (met.offset, met.size, len(image))
    if mask := columns.roles.name("mask"):
        if not (pixels := _only(features, mask)):
            return bad(RejectCode.PAIR, f"no mask in {escape(mask)}", name)
        where = (*where, len(pixels))
    try:
        cells = columns.values(features)
    except RejectedError as error:
        return bad(error.code, error.reason, name)
    raw = columns.pixels and not begins_as_image(image[:HEAD_BYTES])
    ending = b".png" if raw else ending_of(image)
    return Row(file, met.record, where, cells, name, ending)


def _only(features: Fields, key: str) -> bytes | None:
    """The only value of bytes under a key; None if there is not exactly one."""
    dtype, values = features.get(key, ("bytes", ()))
    return bytes(values[0]) if dtype == "bytes" and len(values) == 1 else None


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
                        look.add(decode(met.payload), met.record, strict=False)
                except IntegrityError as error:
                    problem = f"not a tf.train.Example: {error.problem}"
            problem = met.problem or problem
    if not look.records:
        raise UsageError(place, f"nothing can be read from {escape(files[0].name)}: {problem}", remedy)
    return look


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
    """Open all files, decompressed."""
    files: list[ExampleFile] = []
    for split in usual_splits(found.splits):
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
            files.append(ExampleFile(path, state.st_size, state.st_mtime_ns, file, split.name or None, problem))
    return files


def _unreadable_file_error(path: str, form: ExampleFormat, problem: str) -> UsageError:
    """Error for a file that is not of this format or has no intact record."""
    problem = f"not a {form.what}, or it has no intact record: {problem}"
    return UsageError(path, problem, "move it away, or get it again")


@dataclass(frozen=True)
class FramedPart:
    """The payload of one record, its CRCs checked; `place` names it. Raises RejectedError when called."""

    part: FilePart
    place: str

    def __call__(self) -> bytes:
        """The payload."""
        try:
            return unframe(self.part(), self.place)
        except RecordError as error:
            raise RejectedError(RejectCode.CORRUPT, f"{escape(self.place)}: {error.problem}") from None


def packing(path: str) -> str:
    """Compression of a file, "" if it has none. Raises OSError."""
    with open_regular(path) as file:
        return compression(file.read(_HEAD))


def records(file: ExampleFile) -> Iterator[FoundRecord]:
    """Yield all records of a file; a damaged stretch up to the next intact record yields one entry."""
    for record, piece in enumerate(found_pieces(os.fsdecode(file.path))):
        size = piece.end - piece.start
        problem = "" if piece.framed else f"damaged or truncated: {size} bytes from offset {piece.start} on"
        yield FoundRecord(record, piece.start, size, piece.payload, problem)


def part(file: ExampleFile, record: int, offset: int, size: int) -> Callable[[], bytes]:
    """Return a callable that reads the payload of a record."""
    place = f"{file.name}, record {record}"
    return FramedPart(FilePart(file.path, offset, size, file.size, file.mtime_ns), place)


def repacked(payloads: Iterator[bytes], source: str, into: Unpacked) -> str:
    """Write the payloads of the file `source` to an uncompressed TFRecord file. Raises StorageError."""
    with into.new(source) as out:
        for payload in payloads:
            out.write(frame(payload))
        return out.path


def _unpack(path: str, into: Unpacked) -> tuple[str, str]:
    """(A plain TFRecord file with the records of a compressed one, up to a damaged length; the damage, or "").

    A length is checked by its CRC before that many bytes are written, so that a stream of zeros cannot fill the disk.
    Raises StorageError; RecordError if the first record has no valid length.
    """
    with open_regular(path) as file, into.new(path) as out:
        stream = ByteStream(inflated(file))
        first = True
        try:
            while header := stream.take(HEADER_BYTES):
                try:
                    left = payload_length(header, _NO_END, path) + FOOTER_BYTES
                except RecordError as error:
                    if first:
                        raise
                    return out.path, error.problem
                out.write(header)
                while left:
                    data = stream.take(min(left, _WINDOW))
                    if not data:
                        return out.path, "it ends inside a record"
                    out.write(data)
                    left -= len(data)
                first = False
        except DamagedStreamError as error:
            return out.path, f"the compressed data is damaged: {error}"
        return out.path, ""


FORMAT = ExampleFormat("tfrecord", TFRECORD, is_tfrecord, packing, _unpack, records, part)
recognise, read = partial(recognise_examples, form=FORMAT), partial(read_examples, form=FORMAT)
