"""Sources of samples: the one extension point of conversion.

A source has a `schema` and supports `len(source)` and `source[i]`; a method `info` may say more (`SourceInfo`). A
conversion requests each sample twice, once to plan (key, split, labels) and once to write, so `source[i]` must be cheap
and return the same each time: give a `SourceFile` or a callable for the image, and its bytes are only read by the
worker that writes them.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from shardfeed.converters.rejects import Account
from shardfeed.converters.sources.statements import (
    check_fingerprint,
    check_made_with,
    check_onto,
    check_text,
    check_texts,
    class_of,
    raise_source_error,
)
from shardfeed.declared import check, checked
from shardfeed.errors import UsageError, escape, printable, spell_out
from shardfeed.foreign import KnownByNames
from shardfeed.schema import Schema, Value


@dataclass(frozen=True)
class SourceFile:
    """An image file: `path` to open, its `size` in bytes and `mtime_ns` when it was listed.

    The worker compares `size` and `mtime_ns` when it reads, and rejects a file that has changed (`E_SOURCE_CHANGED`).

    Example:
        status = os.stat("photos/rose/0001.jpg")
        image = SourceFile("photos/rose/0001.jpg", status.st_size, status.st_mtime_ns)
    """

    path: bytes
    size: int
    mtime_ns: int


# An encoded file: its location, its bytes, or a callable that returns them. A callable may have the attributes `size`,
# in bytes, for planning shards, and `mtime_ns`; without these, a change of its result is not detected.
Content = SourceFile | bytes | Callable[[], bytes]


# A region as in COCO: the union of polygons, each [x, y, x, y, ...]; or a run-length code, with "size" (height, width)
# and "counts". None: there is no mask.
Outline = Sequence[Sequence[float]] | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of an image, n of them, in pixels or fractions of the annotated image.

    They are clipped or left out when the image is read: only then its size is known, and whether its EXIF turns it.

    boxes: float64 [n, 4], left, top, right, bottom, from the top left corner of the image, as annotated: they may
        leave the image, and NaN is invalid.
    columns: further values of each, by feature key: n values each.
    names: names in the report: "annotation 17", "line 3".
    size: (width, height), pixels, of the image that was annotated; None if unknown.
    fractions: whether boxes, points and outlines are fractions of the image's sides; else they are pixels.
    upright: whether they refer to the upright or the stored image; None: `size` decides.
    points: by the word of a kind of points in `kinds`, such as "keypoints": float64 [n, K, 2 or 3], x, y and perhaps
        visibility (0 missing, 1 occluded, 2 visible).
    outlines: the region of each; None if no masks are read.
    areas: float64 [n], of the regions, in pixels squared; None if unknown.
    """

    boxes: np.ndarray
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    names: Sequence[str] = ()
    size: tuple[int, int] | None = None
    fractions: bool = False
    upright: bool | None = None
    points: Mapping[str, np.ndarray] = field(default_factory=dict)
    outlines: Sequence[Outline] | None = None
    areas: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.boxes)

    def digest(self) -> str:
        """Hex digits that differ when anything does that shows in a record."""
        found = (self.boxes, *(of_kind for _, of_kind in sorted(self.points.items())), self.areas)
        arrays = (b"" if values is None else values.tobytes() for values in found)
        columns = {key: list(values) for key, values in self.columns.items()}
        rest = repr((columns, self.size, self.fractions, self.upright, self.outlines))
        return hashlib.blake2b(b"|".join((*arrays, rest.encode())), digest_size=16).hexdigest()


@dataclass(frozen=True)
class MaskTable:
    """Mapping of the values or colours in mask files to the values in records.

    A value in a record is the number of a class, or the raster's void. `values`: (value in the file, value in the
    record); palette images have indices, 1-bit images 0 and 1. `colours`: (red, green, blue, value in the record); if
    there are any, `values` do not count. One table is shared by all masks.
    """

    values: tuple[tuple[int, int], ...] = ()
    colours: tuple[tuple[int, int, int, int], ...] = ()

    @cached_property
    def digest(self) -> str:
        """Hex digits that differ when the table does."""
        return hashlib.blake2b(repr((self.values, self.colours)).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class RasterImage:
    """A mask: an image file with the class of each pixel; `table` maps its values to classes.

    `name`: its name in the report. `upright`: whether it refers to the upright image or the stored one, if its
    size does not tell.
    """

    mask: Content
    table: MaskTable
    name: str = "its mask"
    upright: bool | None = None


class FinishedRecord:
    """A record that is made already, in place of an image: picklable, and as cheap to have as a `SourceFile`.

    Inherit from it. `size`: bytes of its payload, about. `digest`: bytes that differ where its payload does.
    `counted`: whether its `image/source_id` is a count, of this conversion or one before, and not its source's own.
    """

    size: int

    @property
    def digest(self) -> bytes: ...
    @property
    def counted(self) -> bool: ...

    def __call__(self, number: int) -> bytes:
        """The payload (see shardfeed/formats/format.py), which is stored byte for byte. Raises IntegrityError.

        `number`: its place in the new split, for a record that is to be numbered by it.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Sample:
    """One image with its labels, objects and split.

    `key` is the unique, relative name of the sample: it decides the sample's split and position, and is stored as
    `image/filename`. It is bytes, because a file name need not be UTF-8. `image` is the encoded file: its location, its
    bytes, or a picklable callable that returns them; or a finished record to store unchanged (see `SourceInfo`), and
    then only the label of `features` is used. `features` holds the sample's labels by feature key: exactly the
    keys of `source.schema.features`. `split` names the split, or is None if the plan's shares decide. `objects`: the
    objects in the image, if the schema has boxes (the kind "box"); the worker computes the values of
    `schema.object_keys` from them, so `features` must not contain these. `raster`: a mask with a class for each pixel,
    if the schema has a `raster`; the worker computes its value too. `number`: the source's own id of the image, 0 or
    more, which evaluation tools use: stored as `image/source_id`.

    Example:
        sample = Sample(b"rose/1.jpg", Path("photos/rose/0001.jpg").read_bytes, {"image/class/label": 1}, split="train")
    """

    key: bytes
    image: Content | FinishedRecord
    features: Mapping[str, Value] = field(default_factory=dict)
    split: str | None = None
    objects: Objects | None = None
    number: int | None = None
    raster: RasterImage | None = None


@dataclass(frozen=True)
class Skipped:
    """An input that is not a sample, found while listing: its relative name, a code of RejectCode, and the reason.

    Example:
        findings = Findings(rejected=[Skipped(b"notes.txt", RejectCode.NOT_IMAGE, "no image by its first bytes")])
    """

    key: bytes
    code: str
    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes):
            check("key", self.key, bytes)
        check_text("code", self.code)
        check_text("reason", self.reason)


@checked
@dataclass(frozen=True)
class Findings:
    """Facts that a source found while listing its samples, for the report.

    `rejected`: inputs that cannot be samples. `notes`: sentences, for example on skipped hidden files or repeated rows.
    `folder`: the absolute path of the folder if the source reads every file in it; a dataset must not be written there,
    or the next conversion would read the dataset's files as images. `account`: counts and a list of the annotations
    that belong to no sample, or were left out while reading. `in_files`: whether inputs are parts of larger files, so
    that patterns cannot exclude them.

    Example:
        source = ImageFolder("photos")
        print(source.findings.notes, len(source.findings.rejected))
    """

    rejected: Sequence[Skipped] = ()
    notes: Annotated[Sequence[str], check_texts] = ()
    folder: bytes | None = None
    account: Account | None = None
    in_files: bool = False


@runtime_checkable
class Source(Protocol, metaclass=KnownByNames):
    """Samples with random access by index: deterministic and picklable; used from one thread of one process.

    `schema` describes a sample's features (not the image itself): their dtypes, shapes and kinds, and the class names
    of labels, in label order (0-based). `source[i]` raises IndexError from `len(source)` on, so that a source can be
    iterated. `shardfeed.testing.SourceContract` tests what a source must guarantee.

    Example:
        class Digits:
            schema = Schema({LABEL: Feature("int64")}, {LABEL: ("zero", "one")})

            def __len__(self):
                return 2

            def __getitem__(self, i):
                return Sample(f"{i}.png".encode(), Path(f"digits/{i}.png").read_bytes, {LABEL: i})

        convert(Digits(), "out")
    """

    @property
    def schema(self) -> Schema: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


@checked
@dataclass(frozen=True)
class SourceInfo:
    """Statements of a source about itself, beside its samples: its method `info`, which it need not have, returns them.

    `findings`: of its listing. `described`: what it was taken for, in a sentence that `convert` prints first.

    Of a source of finished records, whose schema is theirs, with all that conversion adds:
    `made_with`: the options that decided how its images are stored, for the manifest; None for all other sources.
    `keeps_order`: whether samples are stored in the source's order in each split, and not in one that is drawn.
    `fingerprint`: that of the dataset that these are the samples of, all of them in their order; None where they are
    others. `onto`: the dataset that the samples are appended to, an `AppendTarget`.

    Example:
        def info(self):
            return SourceInfo(Findings(notes=["drawn at 300 dpi"]), f"{len(self)} drawings")
    """

    findings: Findings = field(default_factory=Findings)
    described: Annotated[str, check_text] = ""
    made_with: Annotated[Mapping[str, Any] | None, check_made_with] = None
    keeps_order: bool = False
    fingerprint: Annotated[str | None, check_fingerprint] = None
    onto: Annotated[Any, check_onto] = None


def info_of(source: Source) -> SourceInfo:
    """Return what a source says of itself, options in notes spelled out; nothing if it has no `info`.

    Raises UsageError if `info` is no method that returns a SourceInfo, if it raises, or if there are findings without
    it.
    """
    try:
        has_info = hasattr(source, "info")
        if not has_info and isinstance(getattr(source, "findings", None), Findings):
            problem = "has findings as an attribute, expected a method `info` that returns them: they would be lost"
            raise UsageError("source", problem, "def info(self): return SourceInfo(self.findings)")
        told = source.info if has_info else SourceInfo  # type: ignore[attr-defined]  # it has one
        info = told() if callable(told) else told
    except BaseException as error:
        raise_source_error(source, "info", error)
    if not isinstance(info, SourceInfo):
        got = f"got {escape(type(info).__name__)} from the source's `info`"
        problem = f"{got} ({class_of(source)}.info), expected a method that returns a SourceInfo"
        raise UsageError("source", problem, "return SourceInfo(findings, described), or rename the attribute")
    notes = [printable(spell_out(note)) for note in info.findings.notes]
    return replace(info, findings=replace(info.findings, notes=notes), described=printable(info.described))
