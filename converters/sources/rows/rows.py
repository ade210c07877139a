"""The engine of all readers: what is known of samples, in their order, becomes a source.

A reader finds the samples. The rest is decided here, once: how classes are numbered and whether they are sets, whose
the given class names are, which ids evaluators can use, what the objects are, and that an option which nothing used is
an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD, RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.rejects import Account, AnnotationCode, LeftOut, RejectCode
from shardfeed.converters.sources.classes import BadLabelError, ClassList, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.options import ColumnOptions, Options, naming
from shardfeed.converters.sources.rows.columns import (
    CLASS,
    EXACT,
    ClassColumn,
    KnownClasses,
    Labels,
    ListedColumn,
    Splits,
    TextColumn,
    Values,
    feature_key,
    sample_number,
    schema_of,
    values_at,
)
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.rows.roles import OPTION_ROLES
from shardfeed.converters.sources.source import (
    Content,
    Findings,
    RasterImage,
    Sample,
    Skipped,
    SourceFile,
    SourceInfo,
)
from shardfeed.converters.sources.statements import is_ours
from shardfeed.errors import UsageError, argument
from shardfeed.kinds import KINDS
from shardfeed.schema import LABEL, Feature, Schema
from shardfeed.text import counted, number, some

_EMPTY = "classes without objects in the source, kept"


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


@dataclass(frozen=True, eq=False, repr=False)
class ColumnarSource:
    """A Source (see source.py) of samples by number.

    `numbers`: int64 [n], the source's id of each image, for evaluation; or None. `described`: a sentence on what each
    column was used for. `kept`: an object that must live as long as the source, such as a temporary folder. `taken`:
    int64 [m], the numbers of its samples, in order, if lists of splits leave others out; None: all are.
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
    taken: np.ndarray | None = None

    def info(self) -> SourceInfo:
        """Return what was found, and how the source is described."""
        return SourceInfo(self.findings, self.described)

    @property
    def foreign(self) -> bool:
        """Whether its images come from an object of a reader of the user's own, whose calls may fail."""
        return not is_ours(self.images) and type(self.images).__module__ != "builtins"

    def changed(self, **values: Any) -> Self:
        """A copy with other fields; not `replace`, as subclasses have constructors of their own."""
        made = object.__new__(type(self))
        now = {one.name: getattr(self, one.name) for one in fields(ColumnarSource)}
        ColumnarSource.__init__(made, **{**now, **values})
        return made

    @property
    def schema(self) -> Schema:
        """The features of the columns, of the objects and of the masks."""
        return self._schema

    @cached_property
    def _schema(self) -> Schema:
        schema = schema_of(self.columns)
        schema = schema if self.objects is None else self.objects.joined(schema)
        if self.rasters is None:
            return schema
        features = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
        return replace(schema, features={**schema.features, **features}, raster=self.rasters.raster)

    def __repr__(self) -> str:
        """Describe the source in one line."""
        parts = [number(len(self), "sample"), *sorted(self.schema.features)]
        if self.splits is None:
            return f"{type(self).__name__}({', '.join(parts)})"
        splits = some(name for name in self.splits.names if name is not None)
        return f"{type(self).__name__}({', '.join(parts)}; splits {splits})"

    def __len__(self) -> int:
        return len(self.keys) if self.taken is None else len(self.taken)

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self))
        index = index if self.taken is None else self.taken.item(index)
        return Sample(
            self.keys[index],
            self.images[index],
            values_at(self.columns, index),
            self.splits.names[self.splits.numbers.item(index)] if self.splits else None,
            None if self.objects is None else self.objects.of_image(index),
            None if self.numbers is None else self.numbers.item(index),
            None if self.rasters is None else self.rasters.of_image(index),
        )


def noted(source: ColumnarSource, *notes: str) -> ColumnarSource:
    """The source with notes in front of its own."""
    return source.changed(findings=replace(source.findings, notes=[*notes, *source.findings.notes]))


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


class Rows:
    """Collector of what is known of samples, in their order; `source` makes the source of them.

    Attributes that a reader sets before it calls `source`:
        labels: the classes of samples, those of `image/class` first.
        columns, values: further features, complete or collected.
        objects: the objects of all samples, by number; None without. `of_objects`: what the source says of their
            classes.
        splits: the split of each sample; None: the plan decides.
        class_names: names given by the user for "labels" and "objects"; default: those of the options, which are for
            the first that the source has: pixels of masks, else samples, else objects.
        names_columns: whether users can name columns, if the options are `ColumnOptions`.

    Example:
        rows = Rows("flowers.json", options)
        rows.labels = [Labels(known=KnownClasses(place="flowers.json"))]
        for entry in entries:
            rows.labels[0].add([entry["class"]])
        return rows.source(listing, ListedFiles(listing))
    """

    def __init__(self, place: str, options: Options, ledger: Ledger | None = None) -> None:
        self.place, self.options = place, options
        self.ledger = Ledger() if ledger is None else ledger
        self.labels: list[Labels] = []
        self.of_objects = KnownClasses()
        self.columns: list[ListedColumn] = []
        self.values: list[Values] = []
        self.objects: ObjectGather | None = None
        self.splits: Splits | None = None
        self.class_names: Mapping[str, ClassList | None] | None = None
        self.names_columns = True

    def source(
        self,
        keys: Keys,
        images: Contents,
        *,
        places: np.ndarray | None = None,
        ids: np.ndarray | None = None,
        rasters: Rasters | None = None,
        leave_out: Callable[[int, AnnotationCode, str], object] | None = None,
        described: str | None = None,
        folder: bytes | None = None,
        kept: object = None,
    ) -> ColumnarSource:
        """Create the source.

        Args:
            keys, images: the name and the image of each sample.
            places: int64 [m], the sample of each number that objects were added with, -1 for one that is left out;
                default: the numbers are those of samples.
            ids: int64 [n], the source's own id of each sample, -1 for none: stored if they tell the samples of each
                split apart.
            rasters: the masks.
            leave_out: called with the number, code and reason of each object that is left out; default: it is listed.
            described, folder, kept: as in `ColumnarSource` and `Findings`; by default, it is described by counts.

        Raises UsageError, or what `KnownClasses.refuse` makes.
        """
        notes, columns = self.ledger.notes, list[ListedColumn]()
        for labels in self.labels:
            plain = type(self.options)()  # options are for the class of the image
            column, more = labels.column(self._options("labels", rasters) if labels.prefix == CLASS else plain)
            notes += more
            columns.append(column)
        columns += [*self.columns, *(values.column() for values in self.values)]
        table = None
        if self.objects is not None:
            leave = leave_out or (lambda image, code, reason: self.ledger.leave_out(keys[image], code, reason))
            table = self._table(self.objects, self._options("objects", rasters), places, leave)
        own = None if ids is None else self._own_ids(ids)
        described = _described(len(keys), columns, table) if described is None else described
        annotated = table is not None or any(CAPTION in column.features for column in columns)
        findings = self.ledger.findings(folder, annotated=annotated)
        made = ColumnarSource(keys, images, columns, self.splits, table, rasters, own, findings, described, kept)
        check_asked(self.place, self.options, made, names_columns=self.names_columns)
        return made

    @property
    def labelled(self) -> bool:
        """Whether samples have classes, `image/class`."""
        return any(labels.prefix == CLASS for labels in self.labels)

    def _options(self, what: str, rasters: Rasters | None) -> Options:
        """The options with the class names that are for `what`, or none."""
        if self.class_names is not None:
            return replace(self.options, class_names=self.class_names.get(what))
        first = "rasters" if rasters is not None else "labels" if self.labelled else "objects"
        return self.options if what == first else replace(self.options, class_names=None)

    def _table(
        self,
        gather: ObjectGather,
        options: Options,
        places: np.ndarray | None,
        leave_out: Callable[[int, AnnotationCode, str], object],
    ) -> ObjectTable:
        known, texts, notes = self.of_objects, gather.class_texts, self.ledger.notes
        given = class_list(options.class_names)  # type: ignore[arg-type]  # no mapping is left
        classes, numbered = None, False
        how: dict[str, Any] = {"integers": "ids"}
        if isinstance(options, ColumnOptions) and gather.beside and texts and all(map(is_integer, texts)):
            agreed, numbered = gather.beside.agreed(known.column, notes), True
            how = {"label_map": options.label_map, "offset": options.label_offset, "texts": agreed}
        try:
            if gather.classed or given is not None or known.names is not None:
                of_format = {"stated": known.names, "stated_ids": known.ids, "beside": known.beside}
                classes = number_classes(texts, given, **of_format, **how)
        except BadLabelError as error:
            raise (known.refuse or known.refused)(error) from None
        notes += known.noted(classes.notes) if classes else []
        for name in ("label_offset", "label_map") if not self.labelled and not numbered else ():
            if getattr(options, name, None):
                problem = f"{argument(name)} is not used: the classes of objects have names, or numbers of their own"
                raise UsageError(self.place, problem, f"leave it out, and name them with {argument('class_names')}")
        gather.check_unit(self.place, getattr(options, "unit", None))
        table = gather.finish(classes, places, leave_out)
        if gather.unmasked:
            notes.append(f"masks of objects are not read: {gather.unmasked:,} of {len(gather):,} objects have none")
        crowds = int(np.count_nonzero(table.flags.get(IS_CROWD, ())))
        if 2 * crowds > len(table):
            why = "some tools mark every run-length mask so; trainers and evaluation leave crowds out"
            notes.append(f"objects that are crowds (iscrowd 1): {crowds:,} of {len(table):,}; {why}")
        if known.names is not None:
            numbers = table.class_ids or range(len(table.class_names or ()))
            called = zip(table.class_names or (), numbers, table.class_counts(), strict=True)
            empty = [f"{name} (id {own})" if table.class_ids else name for name, own, count in called if not count]
            notes += [counted(_EMPTY, empty, len(empty))] if empty else []
        return table

    def _own_ids(self, ids: np.ndarray) -> np.ndarray | None:
        """The ids, if each sample has one that no other of its split has; else None."""
        split = np.zeros(len(ids), np.int64) if self.splits is None else self.splits.numbers
        order = np.lexsort((ids, split))
        if ids.min(initial=0) < 0 or ((np.diff(ids[order]) == 0) & (np.diff(split[order]) == 0)).any():
            return None
        if ids.max(initial=0) > EXACT:
            self.ledger.notes.append(f"ids of images are above {EXACT:,}: as float32 they are not unique")
        return ids


class ListedSource(ColumnarSource):
    """A source over the files of a listing; its samples are sorted by the bytes of their keys.

    `rows`: what is known of them. `described`, `more`: as of `Rows.source`.
    """

    def __init__(self, listing: Listing, rows: Rows, described: str = "", **more: Any) -> None:
        made = rows.source(listing, ListedFiles(listing), described=described, **more)
        super().__init__(**{one.name: getattr(made, one.name) for one in fields(ColumnarSource)})

    @property
    def listing(self) -> Listing:
        """The files."""
        assert isinstance(self.keys, Listing)
        return self.keys

    @property
    def root(self) -> bytes:
        """The folder that keys are relative to: an absolute path."""
        return self.listing.root


def _described(images: int, columns: Sequence[ListedColumn], table: ObjectTable | None) -> str:
    """Counts of what a source has: `6 images, one class each, 9 objects of 2 classes`."""
    counts = [number(images, "image")]
    for column in columns:
        if isinstance(column, ClassColumn) and column.prefix == CLASS:
            counts.append(f"{'one class' if column.ends is None else 'a set of classes'} each")
        elif isinstance(column, TextColumn) and column.key == CAPTION:
            counts.append(number(len(column.numbers), "caption"))
    if table is not None:
        of = "" if table.class_names is None else f" of {number(len(table.class_names), 'class', 'classes')}"
        counts.append(f"{number(len(table), 'object')}{of}")
    return ", ".join(counts)


def check_asked(place: str, options: Options, source: ColumnarSource, *, names_columns: bool = True) -> None:
    """Raise UsageError for an option that says something of classes, boxes or columns that the source does not have.

    `names_columns`: whether `ColumnOptions` can name a column that has it.
    A reader cannot forget this: the source itself is looked at. Options of how files are read are for the reader.
    """
    objects, features = source.objects, source.schema.features
    labelled, boxed = any(isinstance(column, ClassColumn) for column in source.columns), objects is not None
    masked = source.rasters is not None
    tasks = {kind.word: kind.is_in(source.schema) for kind in KINDS} | {"classes": LABEL in features}
    for task in sorted(getattr(options, "tasks", ())):
        if not tasks[task]:
            problem = f"{argument('tasks')} asks for {task}, and the source has none"
            raise UsageError(place, problem, "leave it out: all that it has is read")
    used = {
        "class_names": labelled or boxed or masked,
        "label_separator": labelled,
        "label_offset": labelled or boxed,
        "label_map": labelled or boxed,
        "unit": boxed,
        "boxes_on": boxed or masked,
    }
    for name in (name for name, is_used in used.items() if getattr(options, name, None) and not is_used):
        what = "boxes" if name in ("unit", "boxes_on") else "labels"
        if isinstance(options, ColumnOptions) and names_columns:
            column = naming("objects" if what == "boxes" else "label", "COLUMN")
            problem = f"{argument(name)} is for {what}, and no column is known to have them"
            raise UsageError(place, problem, f"name it, {column}, or leave the option out")
        raise UsageError(place, f"{argument(name)} is for {what}, and no image has any", "leave the option out")
    roles = {
        **dict.fromkeys(("image", "key", "number"), True),
        **dict.fromkeys(("label", "label text"), LABEL in features),
        "text": CAPTION in features,
        "objects": boxed,
        "mask": masked,
        "split": source.splits is not None,
    }
    for option, column, feature in _columns(options):
        if not roles.get(OPTION_ROLES.get(feature, feature), feature in features):
            problem = f"{argument(option)} names {column} for {feature}, and this reader makes none of it"
            raise UsageError(place, problem, "leave it out")


def _columns(options: Options) -> Iterator[tuple[str, str, str]]:
    """The columns that are asked for: option, column, and role or feature. The plan looks for that of groups."""
    for feature, column in getattr(options, "columns", {}).items():
        yield "columns", column, feature
    for name in ("text_columns", "number_columns"):
        for column in (one for one in getattr(options, name, ()) if isinstance(one, str)):
            yield name, column, feature_key(column)
