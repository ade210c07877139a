"""Sources of the user's own, called in one place: what they raise or return costs one sample, or is named in one line.

A sample's fault is an exception of `source[i]`, an object that is no `Sample`, or an image, objects or a mask of a
wrong type. It is left out with `E_SOURCE_ERROR` and its number. The source's fault is what is wrong with `schema`,
`info` or `len(source)`: a UsageError, which names the class and the method.

Sources of this package keep these rules by themselves, and are called directly.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any, NoReturn, cast

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.source import (
    FinishedRecord,
    MaskTable,
    Objects,
    RasterImage,
    Sample,
    Skipped,
    Source,
    SourceFile,
    SourceInfo,
    info_of,
)
from shardfeed.converters.sources.statements import class_of, is_ours, raise_source_error
from shardfeed.declared import check
from shardfeed.errors import UsageError, escape, printable
from shardfeed.foreign import is_stop, words
from shardfeed.schema import LABEL, TEXT, Schema

MOST_SAMPLES = 10**12  # their plan takes 190 TB of temporary files
_MOST_BEYOND = 1000  # samples in a row with an IndexError: `len(source)` counts samples that are not there
_INT64 = range(-(2**63), 2**63)


def known(source: Source) -> Source:
    """Return a source whose samples are sound: one of ours itself, any other one behind a `ForeignSource`."""
    if isinstance(source, ForeignSource) or (is_ours(source) and not getattr(source, "foreign", False)):
        return source
    return cast(Source, ForeignSource(source))


def is_foreign(source: Source) -> bool:
    """Return whether a source that is `known` is the user's own."""
    return isinstance(source, ForeignSource)


def survey(source: Source) -> Iterator[tuple[int, int, Sample]]:
    """Yield each sample that is sound, with its index and its number as the source counts.

    Afterwards the source has these samples only.
    """
    if isinstance(source, ForeignSource):
        yield from source.survey()
        return
    for i in range(len(source)):
        yield i, i, source[i]


def place_of(source: Source, i: int) -> str:
    """Return the words for a sample in a message, with its number as its source counts."""
    return f"source[{source.number(i) if isinstance(source, ForeignSource) else i}]"


@dataclass(frozen=True)
class FaultyImage:
    """The image of a sample that is left out when it is written: it raises RejectedError.

    `beyond`: whether the source raised IndexError.
    """

    code: str
    reason: str
    beyond: bool = False

    def __call__(self) -> bytes:
        raise RejectedError(RejectCode(self.code), self.reason)


def call_foreign(content: Callable[..., Any], *arguments: Any) -> bytes:
    """Return the bytes that a callable of the user's own gives. Raises RejectedError for whatever it raises."""
    try:
        data = content(*arguments)
    except BaseException as error:
        raise_sample_error(error)
    if not isinstance(data, bytes):
        raise RejectedError(RejectCode.SOURCE_ERROR, f"got {escape(type(data).__name__)}, expected bytes")
    return data


def finished_payload(record: FinishedRecord, number: int) -> bytes:
    """Return the payload of a record. Raises RejectedError for whatever a user's one raises; ours raises as it does."""
    return record(number) if is_ours(record) else call_foreign(record, number)


def raise_sample_error(error: BaseException, where: str = "") -> NoReturn:
    """Raise RejectedError for what foreign code raised for one sample; a signal passes.

    `where`: words for the sample, which begin the reason.
    """
    if is_stop(error):
        raise error
    before = f"{where}: " if where else ""
    if isinstance(error, RejectedError):
        code = RejectCode(error.code) if error.code in {*RejectCode} else RejectCode.SOURCE_ERROR
        raise RejectedError(code, f"{before}{printable(str(error.reason))}") from error
    raise RejectedError(RejectCode.SOURCE_ERROR, f"{before}{words(error)}") from error


class ForeignSource:
    """A source of the user's own, of which each call is made here. Its samples are sound, and `survey` finds them.

    Before a survey it has all samples. `source[i]` of a sample that fails is one with a `FaultyImage`, which is left
    out by the worker that would write it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._faulty: list[int] = []  # numbers of samples that are left out, each less those before it
        self._rejected: list[Skipped] = []
        self._beyond = 0  # samples in a row with an IndexError

    @cached_property
    def schema(self) -> Schema:
        """The source's. Raises UsageError if it has none."""
        try:
            schema = self._source.schema
        except BaseException as error:
            raise_source_error(self._source, "schema", error)
        if not isinstance(schema, Schema):
            problem = f"{class_of(self._source)}.schema is a {escape(type(schema).__name__)}, expected a Schema"
            raise UsageError("source", problem, "see shardfeed.schema.Schema")
        return schema

    @cached_property
    def _stated(self) -> int:
        """The source's own length."""
        try:
            count = len(self._source)
        except BaseException as error:
            raise_source_error(self._source, "__len__", error)
        if count > MOST_SAMPLES:
            problem = f"{class_of(self._source)}.__len__ returned {count:,}, expected {MOST_SAMPLES:,} at most"
            raise UsageError("source", problem, "divide it into several sources")
        return count

    @cached_property
    def _info(self) -> SourceInfo:
        return info_of(self._source)

    @cached_property
    def _texts(self) -> Sequence[bytes]:
        """The name of each class if samples have it as text, too; else nothing."""
        names = self.schema.class_names.get(LABEL, ()) if TEXT in self.schema.features else ()
        return [name.encode() for name in names]

    def info(self) -> SourceInfo:
        """Return what the source says of itself, and the samples that a survey left out."""
        findings = self._info.findings
        rejected = [*findings.rejected, *self._rejected]
        return replace(self._info, findings=replace(findings, rejected=rejected, in_files=True))

    def __len__(self) -> int:
        return self._stated - len(self._faulty)

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self._stated - len(self._faulty):
            raise IndexError(i)
        return self._sample(self.number(i) if self._faulty else i)

    def number(self, i: int) -> int:
        """Return the number of a sample as the source counts."""
        return i + bisect_right(self._faulty, i)

    def survey(self) -> Iterator[tuple[int, int, Sample]]:
        """Yield each sound sample, as `survey` does."""
        self._faulty, self._rejected, self._beyond = [], [], 0
        for number in range(self._stated):
            sample = self._sample(number)
            image: Any = sample.image
            if type(image) is FaultyImage:
                self._leave_out(number, sample.key, image)
            else:
                self._beyond = 0
                yield number - len(self._faulty), number, sample

    def _leave_out(self, number: int, key: bytes, fault: FaultyImage) -> None:
        """List a sample that is not sound. Raises UsageError if many in a row are not there at all."""
        self._rejected.append(Skipped(key, fault.code, fault.reason))
        self._faulty.append(number - len(self._faulty))
        self._beyond = self._beyond + 1 if fault.beyond else 0
        if self._beyond == _MOST_BEYOND:
            first = f"source[{number + 1 - _MOST_BEYOND}]"
            problem = f"{class_of(self._source)}.__len__ returned {self._stated:,}, but {first} and the next"
            raise UsageError("source", f"{problem} {_MOST_BEYOND - 1} raise IndexError", "return how many there are")

    def _sample(self, number: int) -> Sample:
        """Return a sample; one that fails or is not sound with a `FaultyImage`."""
        sample: Any = None
        try:
            sample = self._source[number]
            if _is_plain(sample) and not self._texts:  # most samples of most sources: seen at once
                return sample
            return self._checked(f"source[{number}]", sample)
        except BaseException as error:
            fault = _fault(error, f"source[{number}]")
        key = sample.key if isinstance(sample, Sample) else None
        return Sample(key if isinstance(key, bytes) and key else b"source[%d]" % number, fault)

    def _checked(self, where: str, sample: Any) -> Sample:
        """Return what the source gave as a sound sample. Raises _UnsoundError."""
        if not _is_plain(sample):
            sample = _checked_sample(where, sample, self.schema)
        if type(sample.features) is not dict:
            sample = replace(sample, features=_plain_features(f"{where}.features", sample.features))
        if self._texts:
            self._check_text(where, sample)
        return sample

    def _check_text(self, where: str, sample: Sample) -> None:
        """Raise _UnsoundError for a class with the text of another one."""
        label, text = sample.features.get(LABEL), sample.features.get(TEXT)
        if type(label) is int and 0 <= label < len(self._texts) and type(text) is bytes and text != self._texts[label]:
            problem = f"got {escape(text)!r}, but class {label} is {escape(self._texts[label])!r}"
            raise _UnsoundError(f"{where}.features[{TEXT!r}]: {problem}")


_FUNCTIONS = (MethodType, FunctionType, partial)


def _is_plain(sample: Any) -> bool:
    """Whether a sample has an image and features of the usual types, and neither objects nor a mask."""
    if type(sample) is not Sample or sample.objects is not None or sample.raster is not None:
        return False
    if type(sample.features) is not dict:
        return False
    image: Any = sample.image
    if type(image) is bytes:
        return True
    if type(image) is SourceFile:
        return type(image.path) is bytes and _is_state(image.size, image.mtime_ns)
    return type(image) in _FUNCTIONS and not image.__dict__


def _is_state(size: Any, mtime: Any) -> bool:
    """Whether these are the size and the modification time of a file."""
    return type(size) is int and size >= 0 and type(mtime) is int and mtime in _INT64


def _fault(error: BaseException, where: str) -> FaultyImage:
    """The image of a sample for which a source raised, or which is not sound. Raises signals again."""
    try:
        if isinstance(error, _UnsoundError):
            raise error
        raise_sample_error(error, where)
    except RejectedError as rejected:
        return FaultyImage(rejected.code.value, rejected.reason, isinstance(error, IndexError))


class _UnsoundError(RejectedError):
    """Raised for a sample that is not sound; the reason names it."""

    def __init__(self, reason: str) -> None:
        super().__init__(RejectCode.SOURCE_ERROR, reason)


def _refuse(where: str, value: object, expected: str) -> NoReturn:
    raise _UnsoundError(f"{where}: got {escape(type(value).__name__)}, expected {expected}")


def _refuse_error(where: str, error: BaseException) -> NoReturn:
    """Raise _UnsoundError for what a value's own methods raised; signals as they are."""
    if is_stop(error):
        raise error
    raise _UnsoundError(f"{where}: {words(error)}") from error


def _fits(where: str, value: object, hint: Any) -> None:
    """Raise _UnsoundError unless a value is of a type, in the words of an argument's error."""
    try:
        check(where, value, hint)
    except UsageError as error:
        raise _UnsoundError(f"{where}: {escape(error.problem)}") from error
    except BaseException as error:
        _refuse_error(where, error)


def _checked_sample(where: str, sample: Any, schema: Schema) -> Sample:
    """Return a sample with objects or a mask, or of another class. Raises _UnsoundError if it is not sound."""
    if not isinstance(sample, Sample):
        _refuse(where, sample, "a Sample")
    if isinstance(sample.image, FaultyImage):  # of a source behind this one
        return sample
    _check_image(f"{where}.image", sample.image)
    if sample.objects is not None:
        _check_objects(f"{where}.objects", sample.objects, schema)
    if sample.raster is not None:
        _check_raster(f"{where}.raster", sample.raster)
    return sample


def _plain_features(where: str, features: Any) -> dict[str, Any]:
    if not isinstance(features, Mapping):
        _refuse(where, features, "a mapping")
    try:
        return dict(features)
    except BaseException as error:
        _refuse_error(where, error)


def _check_image(where: str, image: Any) -> None:
    """Raise _UnsoundError for what is no content: no file, no bytes, no function that returns bytes."""
    if type(image) is SourceFile and type(image.path) is bytes:
        if _is_state(image.size, image.mtime_ns):
            return
    elif isinstance(image, bytes):
        return
    if isinstance(image, SourceFile):
        _fits(f"{where}.path", image.path, bytes)
    elif not callable(image) or isinstance(image, type):
        _refuse(where, image, "bytes, a SourceFile, or a function that returns bytes")
    _check_attributes(where, image)


def _check_attributes(where: str, image: Any) -> None:
    """Raise _UnsoundError for a `size` and an `mtime_ns` that are no numbers of a file, and for a record's fields."""
    try:
        size, mtime = getattr(image, "size", 0), getattr(image, "mtime_ns", 0)
        sound = _is_state(size, mtime)
        if isinstance(image, FinishedRecord):
            sound = sound and isinstance(image.digest, bytes) and isinstance(image.counted, bool)
    except BaseException as error:
        _refuse_error(where, error)
    if not sound:
        problem = (
            f"got the size {escape(repr(size))[:40]} and the mtime_ns {escape(repr(mtime))[:40]}, expected integers"
        )
        raise _UnsoundError(f"{where}: {problem}")


# The fields of objects whose types say all.
_OF_OBJECTS: Mapping[str, Any] = {
    "columns": Mapping[str, Sequence[Any]],
    "names": Sequence[str],
    "size": tuple[int, int] | None,
    "fractions": bool,
    "upright": bool | None,
    "points": Mapping[str, np.ndarray],
    "outlines": Sequence[Any] | None,
    "areas": np.ndarray | None,
}
_OF_MASK: Mapping[str, Any] = {"name": str, "upright": bool | None, "table": MaskTable}
_ROWS_OF_TABLE: Mapping[str, Any] = {
    "values": tuple[tuple[int, int], ...],
    "colours": tuple[tuple[int, int, int, int], ...],
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int64": (int, np.integer),
    "float32": (float, int, np.number),
    "bytes": (bytes,),
}


def _check_objects(where: str, objects: Any, schema: Schema) -> None:
    """Raise _UnsoundError for objects that cannot be placed in an image."""
    if not isinstance(objects, Objects):
        _refuse(where, objects, "Objects or None")
    boxes: Any = objects.boxes
    if not _is_numbers(boxes, 2) or boxes.shape[1] != 4:
        _refuse(f"{where}.boxes", boxes, "an array of numbers, [n, 4]")
    for name, hint in _OF_OBJECTS.items():
        _fits(f"{where}.{name}", getattr(objects, name), hint)
    _check_points(f"{where}.points", objects.points)
    if objects.areas is not None and not (_is_numbers(objects.areas, 1) and len(objects.areas) == len(boxes)):
        _refuse(f"{where}.areas", objects.areas, "an array of numbers, [n]")
    for key, cells in objects.columns.items():
        if key in schema.features:  # the worker names a column without a feature
            _check_column(f"{where}.columns[{escape(key)!r}]", cells, schema, key)


def _check_points(where: str, points: Mapping[str, Any]) -> None:
    for word, of_kind in points.items():
        if not _is_numbers(of_kind, 3) or of_kind.shape[2] not in (2, 3):
            _refuse(f"{where}[{escape(word)!r}]", of_kind, "an array of numbers, [n, K, 2 or 3]")


def _is_numbers(values: Any, dimensions: int) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "fiu" and values.ndim == dimensions


def _check_column(where: str, cells: Any, schema: Schema, key: str) -> None:
    """Raise _UnsoundError unless the values of objects are of the feature's dtype, and classes have names."""
    dtype = schema.features[key].dtype
    try:
        values = [*cells]
    except BaseException as error:
        _refuse_error(where, error)
    odd = [cell for cell in values if not isinstance(cell, _TYPES[dtype])]
    if odd:
        _refuse(where, odd[0], f"{dtype} in the list")
    if dtype == "int64":
        names = schema.class_names.get(key) if key == OBJECT_LABEL else None
        _check_range(where, values, _INT64 if names is None else range(len(names)))


def _check_range(where: str, values: Sequence[Any], numbers: range) -> None:
    beyond = [value for value in values if int(value) not in numbers]
    if beyond:
        reason = f"{where}: got {int(beyond[0])}, expected {numbers.start:,} to {numbers.stop - 1:,}"
        raise _UnsoundError(reason)


def _check_raster(where: str, raster: Any) -> None:
    """Raise _UnsoundError for a mask that cannot be read."""
    if not isinstance(raster, RasterImage):
        _refuse(where, raster, "a RasterImage or None")
    _check_image(f"{where}.mask", raster.mask)
    for name, hint in _OF_MASK.items():
        _fits(f"{where}.{name}", getattr(raster, name), hint)
    for name, hint in _ROWS_OF_TABLE.items():
        _fits(f"{where}.table.{name}", getattr(raster.table, name), hint)
