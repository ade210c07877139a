"""Sources of samples: the one extension point of conversion.

A source has a `schema` and supports `len(source)` and `source[i]`; a method `info` may say more (`SourceInfo`). A
conversion requests each sample twice, once to plan (key, split, labels) and once to write, so `source[i]` must be cheap
and return the same each time: give a `SourceFile` or a callable for the image, and its bytes are only read by the
worker that writes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from shardfeed.converters.sources.objects import Account, MaskTable, Objects
from shardfeed.errors import UsageError, spell_out
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


class StoredRecord(Protocol):
    """A record that is made already: picklable, and as cheap to have as a `SourceFile` until it is called.

    `size`: bytes of its payload, about. `digest`: bytes that differ where its payload does. `counted`: whether its
    `image/source_id` is a count, of this conversion or one before, and not its source's own number.
    """

    @property
    def size(self) -> int: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def counted(self) -> bool: ...

    def __call__(self, number: int) -> bytes:
        """The payload (see shardfeed/formats/format.py), which is stored byte for byte. Raises IntegrityError.

        `number`: its place in the new split, for a record that is to be numbered by it.
        """
        ...


@dataclass(frozen=True)
class Sample:
    """One image with its labels, objects and split.

    `key` is the unique, relative name of the sample: it decides the sample's split and position, and is stored as
    `image/filename`. It is bytes, because a file name need not be UTF-8. `image` is the encoded file: its location, its
    bytes, or a picklable callable that returns them. `features` holds the sample's labels by feature key: exactly the
    keys of `source.schema.features`. `split` names the split, or is None if the plan's shares decide. `objects`: the
    objects in the image, if the schema has boxes (the kind "box"); the worker computes the values of
    `schema.object_keys` from them, so `features` must not contain these. `raster`: a mask with a class for each pixel,
    if the schema has a `raster`; the worker computes its value too. `record`: a finished record to store unchanged (see
    `SourceInfo`); the image is then not read, and only the label of `features` is used. `number`: the source's own id
    of the image, 0 or more, which evaluation tools use: stored as `image/source_id`.

    Example:
        sample = Sample(b"rose/1.jpg", Path("photos/rose/0001.jpg").read_bytes, {"image/class/label": 1}, split="train")
    """

    key: bytes
    image: Content
    features: Mapping[str, Value] = field(default_factory=dict)
    split: str | None = None
    objects: Objects | None = None
    number: int | None = None
    raster: RasterImage | None = None
    record: StoredRecord | None = None


@dataclass(frozen=True)
class Skipped:
    """An input that is not a sample, found while listing: its relative name, a code of RejectCode, and the reason.

    Example:
        findings = Findings(rejected=[Skipped(b"notes.txt", RejectCode.NOT_IMAGE, "no image by its first bytes")])
    """

    key: bytes
    code: str
    reason: str


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
    notes: Sequence[str] = ()
    folder: bytes | None = None
    account: Account | None = None
    in_files: bool = False


@runtime_checkable
class Source(Protocol):
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


@dataclass(frozen=True)
class SourceInfo:
    """Statements of a source about itself, beside its samples: its method `info`, which it need not have, returns them.

    `findings`: of its listing. `described`: what it was taken for, in a sentence that `convert` prints first.

    Of a source of samples with a `record` each, whose schema is the records', with all that conversion adds:
    `made_with`: the options that decided how its images are stored, for the manifest; None for all other sources.
    `keeps_order`: whether samples are stored in the source's order in each split, and not in one that is drawn.
    `fingerprint`: that of the dataset that these are the samples of, all of them in their order; None where they are
    others. `onto`: the dataset that the samples are appended to, an `AppendTarget`.

    Example:
        def info(self):
            return SourceInfo(Findings(notes=["drawn at 300 dpi"]), f"{len(self)} drawings")
    """

    findings: Findings = field(default_factory=Findings)
    described: str = ""
    made_with: Mapping[str, Any] | None = None
    keeps_order: bool = False
    fingerprint: str | None = None
    onto: Any = None


def info_of(source: Source) -> SourceInfo:
    """Return what a source says of itself, options in notes spelled out; nothing if it has no `info`.

    Raises UsageError if `info` is no method that returns a SourceInfo, or if there are findings without it.
    """
    if not hasattr(source, "info") and isinstance(getattr(source, "findings", None), Findings):
        problem = "has findings as an attribute, expected a method `info` that returns them: they would be lost"
        raise UsageError("source", problem, "def info(self): return SourceInfo(self.findings)")
    told = getattr(source, "info", SourceInfo)
    info = told() if callable(told) else told
    if not isinstance(info, SourceInfo):
        problem = f"got {type(info).__name__} from the source's `info`, expected a method that returns a SourceInfo"
        raise UsageError("source", problem, "return SourceInfo(findings, described), or rename the attribute")
    findings = replace(info.findings, notes=[*map(spell_out, info.findings.notes)])
    return replace(info, findings=findings)
