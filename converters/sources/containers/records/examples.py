"""Files of serialised tf.train.Examples, whatever frames them: which there are, what is in them, their images."""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.records.class_names import names_beside, read_named_classes
from shardfeed.converters.sources.containers.records.gather import Gather
from shardfeed.converters.sources.containers.records.layout import HeadLook, Layout, find_layout
from shardfeed.converters.sources.containers.records.numbering import Beside
from shardfeed.converters.sources.containers.records.roles import supervised_keys
from shardfeed.converters.sources.containers.records.shard_names import (
    FoundSplit,
    find_splits,
    looks_like_shard,
    splits_of_folders,
)
from shardfeed.converters.sources.containers.records.source import Assembly, FoundFile, RecordSource, described
from shardfeed.converters.sources.containers.records.unpack import Unpacked
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import IntegrityError, RecordError, UsageError, argument, escape
from shardfeed.formats.format import Fields
from shardfeed.formats.tfrecord.example import decode, is_sequence_example
from shardfeed.naming import MANIFEST
from shardfeed.storage.local import storage_error
from shardfeed.text import listing, number

_LOOKED_AT = 1000  # records, of all files, by which it is known what the keys are
_RECOGNISED_BY = 16
_NAMES_SEEN, _FOLDERS_SEEN = 1000, 64  # of a folder that may be anything: it may hold a million images
_ONLY_EXAMPLES = "only records that are serialised tf.train.Examples can be read"


class Met(NamedTuple):
    """A record met on the way, or a place where none is: then `payload` is b"" and `problem` says what is wrong.

    `record`: from 0. `offset`, `size`: bytes in the file, with framing; both 0 where the format finds records itself.
    """

    record: int
    offset: int
    size: int
    payload: bytes
    problem: str = ""


@dataclass(frozen=True)
class ExampleFile(FoundFile):
    """`path`: the file to read, which has `size` bytes and `mtime_ns`; `problem`: what is lost at its end."""

    path: str
    size: int
    mtime_ns: int
    problem: str = ""


@dataclass(frozen=True)
class ExampleFormat:
    """One way to frame records.

    name, what: for `--from`, and for people. is_one: whether a file begins as one of the format. is_packed: whether its
    records cannot be read in any order. unpack: the path of a file in which they can, and what is lost at its end.
    records: all of a file. part: what gives the payload of one. stand_in: a file's name, as it would be were it a
    TFRecord's; "" where it is not one of these.
    """

    name: str
    what: str
    is_one: Callable[[str], bool]
    is_packed: Callable[[str], bool]
    unpack: Callable[[str, Unpacked], tuple[str, str]]
    records: Callable[[ExampleFile], Iterator[Met]]
    part: Callable[[ExampleFile, int, int, int], Callable[[], bytes]]
    stand_in: Callable[[str], str]


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
        height, width, depth = (_only(features, key) for key in self.pixels)
        depth = depth if depth > 0 else len(data) // max(1, height * width)
        if min(height, width) < 1 or depth not in (1, 3, 4) or len(data) != height * width * depth:
            reason = f"{len(data)} bytes, expected {height} x {width} x {depth} pixels"
            raise RejectedError(RejectCode.NOT_IMAGE, reason)
        pixels = np.frombuffer(data, np.uint8).reshape(height, width, depth)
        return encode_png(Image.fromarray(pixels[..., 0] if depth == 1 else pixels))


def _only(features: Fields, key: str) -> int:
    dtype, values = features.get(key, ("int64", ()))
    return int(values[0]) if dtype == "int64" and len(values) == 1 else -1


@dataclass(frozen=True, eq=False)
class ExampleImages:
    """The images of samples by their numbers: `file_of` int32 [n], places in `files`.

    `where`: of each sample int64 [n] its record, the record's offset and length in bytes, and the bytes of the image.
    `layout`: the keys of image and raw pixels. `unpacked`: files that are there while this is.
    """

    form: ExampleFormat
    files: tuple[ExampleFile, ...]
    file_of: np.ndarray
    where: Sequence[np.ndarray]
    layout: tuple[str, tuple[str, str, str] | None]
    unpacked: Unpacked

    def __getitem__(self, index: int, /) -> ExampleImage:
        file = self.files[self.file_of.item(index)]
        record, offset, length, size = (numbers.item(index) for numbers in self.where)
        key, pixels = self.layout
        return ExampleImage(self.form.part(file, record, offset, length), key, size, file.mtime_ns, pixels)


def recognise_examples(path: str, options: ContainerOptions, form: ExampleFormat) -> Evidence | None:
    """Whether `path` is a file of the format, or a folder with some; the first records of one tell what is in them."""
    if not _may_be(path, form):
        return None
    try:
        found = _find(path, form)
        names = [name for split in found for name in split.files if name is not None]
        if not names or not form.is_one(_join(path, names[0])):
            return None
    except UsageError as error:
        return Evidence(form.name, f"it has files as {form.what}s are named", f"{error.place}: {error.problem}")
    except OSError:
        return None
    count = number(len(names), f"{form.what} file")
    if os.path.isfile(os.path.join(path, MANIFEST)):
        return Evidence(form.name, count, f"its {MANIFEST} makes it a dataset already, which shardfeed.open reads")
    try:
        first = [FoundSplit(found[0].name, (names[0],))]
        if form.is_packed(_join(path, names[0])):
            return Evidence(form.name, f"{count}, compressed")
        layout = _layout(_opened(path, first, form, Unpacked()), options, form, path, _RECOGNISED_BY)
    except UsageError as error:
        return Evidence(form.name, count, f"{error.problem}; {error.remedy}")
    except IntegrityError as error:
        return Evidence(form.name, count, error.problem)
    return Evidence(form.name, f"{count}; {described(layout)}")


def read_examples(path: str, options: ContainerOptions, form: ExampleFormat) -> RecordSource:
    """The samples of a file, or of all files of a folder; every record is read once, and checked.

    Raises UsageError where nothing tells what the records are, LabelFileError for a label map, StorageError.
    """
    unpacked = Unpacked()
    found = _find(path, form)
    files = _opened(path, found, form, unpacked)
    if not files:
        raise UsageError(path, f"no {form.what} file in it, nor in its folders, by their names", "give the file itself")
    layout = _layout(files, options, form, path, _LOOKED_AT)
    taken = Assembly(Gather(layout), files, options, path, _beside(path, files, layout))
    where = [array("q") for _ in range(3)]  # offset, length, size of the image
    try:
        for i, file in enumerate(files):
            whole, problem, last = False, "", -1
            for met in form.records(file):
                last = met.record
                whole, problem = whole or not met.problem, problem or met.problem
                size = _take(taken, i, met, layout)
                if size:
                    for values, value in zip(where, (met.offset, met.size, size), strict=True):
                        values.append(value)
            if problem and not whole:
                raise _not_one(os.path.join(path, file.name), form, problem)
            if file.problem:
                taken.reject(i, last + 1, RejectCode.TRUNCATED, f"nothing from here on: {file.problem}")
    except OSError as error:
        raise storage_error(path, "read", error) from error
    arrays = [taken.record_of, *(np.frombuffer(values, np.int64) for values in where)]
    images = ExampleImages(form, tuple(files), taken.file_of, arrays, (layout.image, layout.pixels), unpacked)
    folder = os.fsencode(os.path.abspath(path)) if os.path.isdir(path) else None
    return taken.finish(images, unpacked.note, folder)


def _take(taken: Assembly, file: int, met: Met, layout: Layout) -> int:
    """Bytes of the image of a record that became a sample; 0 where it did not."""
    if met.problem:
        taken.reject(file, met.record, RejectCode.CORRUPT, met.problem)
        return 0
    try:
        features = decode(met.payload)
    except IntegrityError as error:
        taken.reject(file, met.record, RejectCode.CORRUPT, f"no tf.train.Example: {error.problem}")
        return 0
    if not features and is_sequence_example(met.payload):
        taken.reject(file, met.record, RejectCode.UNSUPPORTED, "a tf.train.SequenceExample, which is not read")
        return 0
    dtype, values = features.get(layout.image, ("bytes", ()))
    image = bytes(values[0]) if dtype == "bytes" and len(values) == 1 else None
    raw = bool(layout.pixels) and not begins_as_image((image or b"")[:HEAD_BYTES])
    return len(image or b"") if taken.add(file, met.record, features, image, "png" if raw else None) else 0


def _may_be(path: str, form: ExampleFormat) -> bool:
    """Whether some of the first names in a folder, or in its first folders, may be those of shards; or it is a file."""
    if not os.path.isdir(path):
        return os.path.isfile(path)
    try:
        with os.scandir(path) as entries:
            first = [(entry.name, entry.is_dir()) for entry in islice(entries, _NAMES_SEEN)]
        names = [name for name, is_folder in first if not is_folder]
        for folder in [name for name, is_folder in first if is_folder][:_FOLDERS_SEEN]:
            with os.scandir(os.path.join(path, folder)) as entries:
                names += [entry.name for entry in islice(entries, _FOLDERS_SEEN)]
    except OSError:
        return False
    stand_ins = [stand_in for name in names if (stand_in := form.stand_in(name))]
    return any(looks_like_shard(name) for name in stand_ins)


def _find(path: str, form: ExampleFormat) -> list[FoundSplit]:
    """Splits and their files, relative to the folder `path`, or the file itself. Raises UsageError, OSError."""
    if not os.path.exists(path):
        raise UsageError(path, "no such file or folder", "check the path")
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            raise UsageError(path, "neither a file nor a folder", "give a file")
        name = os.path.basename(path)
        stand_in = form.stand_in(name)
        named = find_splits(path, [stand_in] if stand_in else [])
        return [FoundSplit(named[0].name if named else "", (name,))]
    stand_ins = {stand_in: name for name in _files_of(path) if (stand_in := form.stand_in(name))}
    found = find_splits(path, stand_ins)
    if not found:
        folders = {folder: _files_of(os.path.join(path, folder)) for folder in _folders(path)}
        for folder, names in folders.items():
            stand_ins |= {f"{folder}/{s}": f"{folder}/{name}" for name in names if (s := form.stand_in(name))}
        by_folder = {folder: [s for name in names if (s := form.stand_in(name))] for folder, names in folders.items()}
        try:
            found = splits_of_folders(path, by_folder)
        except UsageError as error:
            raise UsageError(error.place, error.problem.replace("TFRecord", form.what), error.remedy) from None
    for split in found:
        if split.missing:
            numbers = listing([str(number) for number in split.missing])
            problem = f"split {split.name}: of {len(split.files)} shards these are not there: {numbers}"
            raise UsageError(path, problem, "get them, or give a folder of files that are not numbered so")
    return [FoundSplit(split.name, tuple(stand_ins[file] for file in split.files if file)) for split in found]


def _files_of(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))


def _folders(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _join(path: str, name: str) -> str:
    return os.path.join(path, name) if os.path.isdir(path) else path


def _opened(path: str, found: Sequence[FoundSplit], form: ExampleFormat, unpacked: Unpacked) -> list[ExampleFile]:
    """All files, those that are compressed unpacked. Their names say a split where one of them is a usual one."""
    usual = any(usual_split(split.name) or split.name in ("dev", "eval") for split in found)
    files: list[ExampleFile] = []
    for split in found:
        name = (usual_split(split.name) or split.name) if usual else None
        for file in split.files:
            at = _join(path, file or "")
            try:
                ready, problem = form.unpack(at, unpacked) if form.is_packed(at) else (at, "")
                state = os.stat(ready)
            except RecordError as error:
                raise _not_one(at, form, error.problem) from None
            except OSError as error:
                raise storage_error(at, "read", error) from error
            size, mtime = state.st_size, state.st_mtime_ns
            files.append(ExampleFile(file or "", name, os.path.abspath(ready), size, mtime, problem))
    return files


def _not_one(path: str, form: ExampleFormat, problem: str) -> UsageError:
    return UsageError(
        path, f"no {form.what} file, or nothing of it is whole: {problem}", "move it away, or get it again"
    )


def _layout(
    files: Sequence[ExampleFile], options: ContainerOptions, form: ExampleFormat, path: str, most: int
) -> Layout:
    """What the keys are, by the first records of each file. Raises UsageError."""
    look = HeadLook()
    said = supervised_keys(path) if os.path.isdir(path) else supervised_keys(os.path.dirname(path))
    each = max(1, most // max(1, len(files)))
    problem = "no record"
    for file in files[:most]:
        for met in islice(form.records(file), each):
            if met.problem:
                problem = met.problem
                continue
            try:
                features = decode(met.payload)
            except IntegrityError as error:
                problem = f"no tf.train.Example: {error.problem}"
                continue
            if not features and is_sequence_example(met.payload):
                problem = "tf.train.SequenceExamples"
                continue
            look.add(features)
    if not look.records:
        raise UsageError(path, f"nothing can be read of {escape(files[0].name)}: {problem}", _ONLY_EXAMPLES)
    return find_layout(look, options.columns, path, said=said)


def _beside(path: str, files: Sequence[ExampleFile], layout: Layout) -> dict[str, Beside]:
    """What lies beside the files and names classes, by feature; "": a label map, or a plain list.

    Raises LabelFileError for a label map that cannot be read, UsageError where two differ.
    """
    root = path if os.path.isdir(path) else os.path.dirname(path)
    found: dict[str, Beside] = {}
    for folder in sorted({os.path.dirname(file.name) for file in files}):
        names = _files_of(os.path.join(root, folder))
        for name in names:
            if name.endswith(".pbtxt") and "label" in name:
                here = Beside(os.path.join(folder, name), read_named_classes(os.path.join(root, folder, name)), True)
                if "" in found and found[""].names != here.names:
                    problem = f"{escape(here.file)} and {escape(found[''].file)} name other classes"
                    raise UsageError(path, problem, f"give the right one: {argument('label_map', typed='FILE')}")
                found.setdefault("", here)
    plain = [name for name in _files_of(root) if not name.endswith(".pbtxt")]
    keys = [layout.label, layout.objects.columns.get(OBJECT_LABEL, "") if layout.objects else ""]
    keys = [key for key in keys if key]
    for key in keys:
        if there := names_beside(root, plain, key, images=key == keys[0] and "" not in found):
            found[key] = Beside(*there)
    return found
