"""The source that all readers make: keys, images and columns of samples by number.

Images are files, parts of larger files, or parts of blocks: several arrays or databases one after the other. A reader
lists unusable inputs in a `Ledger`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.objects import Account, AnnotationCode, LeftOut
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits, sample_number, schema_of, values_at
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Content, Findings, RasterImage, Sample, Skipped, SourceFile, SourceInfo
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
