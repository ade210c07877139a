"""The source that all readers make: keys, images and columns of samples by number.

Images are files, parts of larger files, or parts of blocks: several arrays or databases one after the other. A reader
lists unusable inputs in a `Ledger`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.objects import Account, AnnotationCode, LeftOut
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits, sample_number, schema_of, values_at
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Content, Findings, RasterImage, Sample, Skipped, SourceFile, SourceInfo
from shardfeed.errors import escape
from shardfeed.schema import Feature, Schema
from shardfeed.text import counted


class Keys(Protocol):
    """Names of samples by number; picklable. A `Listing` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Contents(Protocol):
    """Encoded files by number; picklable."""

    def __getitem__(self, index: int, /) -> Content: ...


class Rasters(Protocol):
    """The masks of images, each a class for each pixel; `raster`: the meaning of their values in records."""

    @property
    def raster(self) -> Raster: ...

    def of_image(self, image: int) -> RasterImage: ...


@dataclass(frozen=True, eq=False)
class ListedFiles:
    """The files of a listing, as contents."""

    listing: Listing

    def __getitem__(self, index: int, /) -> SourceFile:
        return self.listing.file(index)


@dataclass(frozen=True, eq=False)
class ColumnarSource:
    """A Source (see source.py) of samples by number.

    `numbers`: int64 [n], the source's id of each image, for evaluation; or None. `described`: a sentence on what each
    column was used for. `kept`: an object that must live as long as the source, such as a temporary folder.
    """

    keys: Keys
    images: Contents
    columns: Sequence[ListedColumn] = ()
    splits: Splits | None = None
    objects: ObjectTable | None = None
    rasters: Rasters | None = None
    numbers: np.ndarray | None = None
    findings: Findings = field(default_factory=Findings)
    described: str = ""
    kept: object = None

    def info(self) -> SourceInfo:
        """Return what was found, and how the source is described."""
        return SourceInfo(self.findings, self.described)

    def changed(self, **values: Any) -> Self:
        """A copy with other fields; not `replace`, as subclasses have constructors of their own."""
        made = object.__new__(type(self))
        now = {one.name: getattr(self, one.name) for one in fields(ColumnarSource)}
        ColumnarSource.__init__(made, **{**now, **values})
        return made

    @property
    def schema(self) -> Schema:
        """The features of the columns, of the objects and of the masks."""
        schema = schema_of(self.columns)
        schema = schema if self.objects is None else self.objects.joined(schema)
        if self.rasters is None:
            return schema
        features = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
        return replace(schema, features={**schema.features, **features}, raster=self.rasters.raster)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self.keys))
        return Sample(
            self.keys[index],
            self.images[index],
            values_at(self.columns, index),
            self.splits.names[self.splits.numbers.item(index)] if self.splits else None,
            None if self.objects is None else self.objects.of_image(index),
            None if self.numbers is None else self.numbers.item(index),
            None if self.rasters is None else self.rasters.of_image(index),
        )


@contextmanager
def as_listed(path: bytes | str, size: int, mtime_ns: int) -> Iterator[int]:
    """A descriptor of a file with the size and modification time that were listed.

    Raises RejectedError (`E_SOURCE_CHANGED`, `E_UNREADABLE`), also for an OSError while it is used.
    """
    try:
        with open_regular(path, buffering=0) as file:
            _check(path, os.fstat(file.fileno()), size, mtime_ns)
            yield file.fileno()
    except OSError as error:
        raise _refused(path, error) from None


def check_listed(path: bytes | str, size: int, mtime_ns: int) -> None:
    """Check a file like `as_listed`, without opening it."""
    try:
        _check(path, os.stat(path), size, mtime_ns)
    except OSError as error:
        raise _refused(path, error) from None


def _check(path: bytes | str, now: os.stat_result, size: int, mtime_ns: int) -> None:
    if (now.st_size, now.st_mtime_ns) != (size, mtime_ns):
        raise changed(path)


def _refused(path: bytes | str, error: OSError) -> RejectedError:
    if isinstance(error, FileNotFoundError):
        return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} was deleted after it was listed")
    problem = f"{escape(path)}: {os.strerror(error.errno or 0)} (errno {error.errno})"
    return RejectedError(RejectCode.UNREADABLE, problem)


def changed(path: bytes | str) -> RejectedError:
    """The error for a file that is another than the one that was listed."""
    return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} changed after it was listed")


class FilePart(NamedTuple):
    """The `size` bytes of the file `path` from `offset` on: a content as `Sample.image` takes it.

    `file_size`, `mtime_ns`: of the whole file when it was listed; it is compared when it is read. Raises RejectedError
    (`E_TRUNCATED`, `E_SOURCE_CHANGED`, `E_UNREADABLE`) when called.
    """

    path: bytes
    offset: int
    size: int
    file_size: int
    mtime_ns: int

    def __call__(self) -> bytes:
        """The bytes."""
        with as_listed(self.path, self.file_size, self.mtime_ns) as file:
            if self.offset + self.size > self.file_size:
                missing = self.offset + self.size - self.file_size
                reason = f"{escape(self.path)} ends {missing} bytes before the image does"
                raise RejectedError(RejectCode.TRUNCATED, reason)
            data = os.pread(file, self.size, self.offset)
        if len(data) != self.size:
            raise changed(self.path)
        return data


@dataclass(frozen=True, eq=False)
class Parts:
    """Byte ranges in `files`: `numbers` int32 [n] are the file numbers, `offsets` and `sizes` int64 [n] are in bytes.

    `unpacked`: a temporary folder with some of the files, which exists as long as this object.

    Example:
        images = Parts(files.files, gather.file_of, gather.where(0), gather.where(1))
        source = gather.source(images, "pack")
    """

    files: Sequence[SourceFile]
    numbers: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    unpacked: Unpacked | None = None

    def __getitem__(self, index: int, /) -> FilePart:
        file = self.files[self.numbers.item(index)]
        offset, size = self.offsets.item(index), self.sizes.item(index)
        return FilePart(file.path, offset, size, file.size, file.mtime_ns)


class Names:
    """Names for a sentence of the report: how many there were, and the first few."""

    def __init__(self, what: str) -> None:
        self.what, self.count = what, 0
        self._first: list[bytes | str] = []

    def add(self, name: bytes | str) -> None:
        """Count one."""
        self.count += 1
        if len(self._first) < 4:  # three are shown, and that there are more
            self._first.append(name)

    @property
    def note(self) -> list[str]:
        """The sentence; nothing without a name."""
        return [counted(self.what, self._first, self.count)] if self.count else []


class Ledger:
    """Annotations that are left out, with a code; images that cannot be offered; and sentences for the report."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self.rejected: dict[bytes, Skipped] = {}
        self.notes: list[str] = []

    def leave_out(self, key: bytes, code: AnnotationCode, reason: str) -> None:
        """List an annotation of the image `key`, or of the file of that name."""
        self.left_out.append(LeftOut(key, code.value, reason))

    def reject(self, key: bytes, code: RejectCode, reason: str) -> None:
        """List an image."""
        self.rejected.setdefault(key, Skipped(key, code.value, reason))

    def skip(self, inputs: Iterable[Skipped]) -> None:
        """List inputs that are no samples, unless they are listed already."""
        for skipped in inputs:
            self.rejected.setdefault(skipped.key, skipped)

    def findings(self, folder: bytes | None = None, *, annotated: bool) -> Findings:
        """Return all findings.

        `folder`: from which the source takes every file. `annotated`: whether samples have objects or captions.
        """
        left_out = tuple(self.left_out)
        account = Account(read=len(left_out), left_out=left_out) if annotated or left_out else None
        return Findings([self.rejected[key] for key in sorted(self.rejected)], self.notes, folder, account)
