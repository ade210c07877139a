"""Files of serialised tf.train.Examples, whatever frames them: which there are, what is in them, their images."""

import os
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.records.found_files import (
    ExampleFile,
    ExampleFormat,
    Met,
    find_files,
    folder_of,
    may_hold_some,
    names_around,
    not_one,
    opened,
    path_of,
)
from shardfeed.converters.sources.containers.records.gather import Gather
from shardfeed.converters.sources.containers.records.layout import HeadLook, Layout, find_layout
from shardfeed.converters.sources.containers.records.roles import supervised_keys
from shardfeed.converters.sources.containers.records.shard_names import FoundSplit
from shardfeed.converters.sources.containers.records.source import Assembly, described
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import IntegrityError, StorageError, UsageError, escape
from shardfeed.formats.example import decode, is_sequence_example
from shardfeed.formats.format import Fields
from shardfeed.naming import MANIFEST
from shardfeed.storage.local import storage_error
from shardfeed.text import number

_LOOKED_AT = 1000  # records, of all files, by which it is known what the keys are
_RECOGNISED_BY = 16
_ONLY_EXAMPLES = "only records that are serialised tf.train.Examples can be read"


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
    if not may_hold_some(path, form):
        return None
    try:
        found = find_files(path, form)
        names = [name for split in found for name in split.files if name is not None]
        if not names or not form.is_one(path_of(path, names[0])):
            return None
    except UsageError as error:
        return Evidence(form.name, f"it has files as {form.what}s are named", f"{error.place}: {missing_of(error)}")
    except (OSError, StorageError):
        return None
    count = number(len(names), f"{form.what} file")
    if os.path.isfile(os.path.join(path, MANIFEST)):
        return Evidence(form.name, count, f"its {MANIFEST} makes it a dataset already, which shardfeed.open reads")
    try:
        first = [FoundSplit(found[0].name, (names[0],))]
        if form.is_packed(path_of(path, names[0])):
            return Evidence(form.name, f"{count}, compressed")
        layout = _layout(opened(path, first, form, Unpacked()), options, form, path, _RECOGNISED_BY)
    except (UsageError, IntegrityError) as error:
        return Evidence(form.name, count, missing_of(error))
    return Evidence(form.name, f"{count}; {described(layout)}")


def read_examples(path: str, options: ContainerOptions, form: ExampleFormat) -> ColumnarSource:
    """The samples of a file, or of all files of a folder; every record is read once, and checked.

    Raises UsageError where nothing tells what the records are, LabelFileError for a label map, StorageError.
    """
    unpacked = Unpacked()
    found = find_files(path, form)
    files = opened(path, found, form, unpacked)
    if not files:
        raise UsageError(path, f"no {form.what} file in it, nor in its folders, by their names", "give the file itself")
    where = [array("q") for _ in range(3)]  # offset, length, size of the image
    try:
        layout = _layout(files, options, form, path, _LOOKED_AT)
        taken = Assembly(Gather(layout), files, options, path, names_around(path, files, layout))
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
                raise not_one(os.path.join(path, file.name), form, problem)
            if file.problem:
                taken.reject(i, last + 1, RejectCode.TRUNCATED, f"nothing from here on: {file.problem}")
    except OSError as error:
        raise storage_error(path, "read", error) from error
    arrays = [taken.record_of, *(np.frombuffer(values, np.int64) for values in where)]
    images = ExampleImages(form, tuple(files), taken.file_of, arrays, (layout.image, layout.pixels), unpacked)
    folder = os.fsencode(os.path.abspath(path)) if os.path.isdir(path) else None
    return taken.finish(images, unpacked.note, folder, f"{form.what} file")


def _take(taken: Assembly, file: int, met: Met, layout: Layout) -> int:
    """Bytes of the image of a record that became a sample; 0 where it did not."""
    if met.problem:
        taken.reject(file, met.record, RejectCode.CORRUPT, met.problem)
        return 0
    try:
        features = decode(met.payload, layout.keys)
    except IntegrityError as error:
        taken.reject(file, met.record, RejectCode.CORRUPT, f"no tf.train.Example: {error.problem}")
        return 0
    if layout.image not in features and is_sequence_example(met.payload):
        taken.reject(file, met.record, RejectCode.UNSUPPORTED, "a tf.train.SequenceExample, which is not read")
        return 0
    dtype, values = features.get(layout.image, ("bytes", ()))
    image = bytes(values[0]) if dtype == "bytes" and len(values) == 1 else None
    raw = bool(layout.pixels) and not begins_as_image((image or b"")[:HEAD_BYTES])
    return len(image or b"") if taken.add(file, met.record, features, image, "png" if raw else None) else 0


def _layout(
    files: Sequence[ExampleFile], options: ContainerOptions, form: ExampleFormat, path: str, most: int
) -> Layout:
    """What the keys are, by the first records of each file. Raises UsageError."""
    look = HeadLook()
    said = supervised_keys(folder_of(path))
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
            if is_sequence_example(met.payload):
                problem = "tf.train.SequenceExamples"
                continue
            look.add(features)
    if not look.records:
        raise UsageError(path, f"nothing can be read of {escape(files[0].name)}: {problem}", _ONLY_EXAMPLES)
    return find_layout(look, options.columns, path, said=said)
