"""What the rows of Parquet files say, one after the other, in compact columns; and what cannot be taken of them."""

import os
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from shardfeed.annotations import CAPTION
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.account import AnnotationCode
from shardfeed.converters.sources.annotations.gathering import Ledger
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.containers.options import ContainerOptions, naming
from shardfeed.converters.sources.containers.packed.class_column import class_column
from shardfeed.converters.sources.containers.packed.compact import Codes, Packer, UnlikeError, Values, as_array
from shardfeed.converters.sources.containers.packed.masks import PartMasks, read_masks
from shardfeed.converters.sources.containers.parquet.boxes import Boxes
from shardfeed.converters.sources.containers.parquet.columns import ParquetColumns, choose_columns
from shardfeed.converters.sources.containers.parquet.pages import BadPageError
from shardfeed.converters.sources.containers.parquet.where import WHOLE, Where, open_parquet
from shardfeed.converters.sources.files.source_files import SourceFiles
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import split_in_cell
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import counted, number

_BATCH = 1024  # rows whose small columns are in memory at once
_SLOW = 16 << 20  # bytes of a page, from which on an image takes more time to be read than to be checked


class Gathering:
    """What is known of the rows of all files, so far."""

    def __init__(self, files: SourceFiles, chosen: ParquetColumns, options: ContainerOptions) -> None:
        self.files, self.chosen, self.options = files, chosen, options
        self.splits_of_files = files.splits(options.split)
        self.ledger = Ledger()
        self.images = Where(chosen.image)
        self.masks = None if chosen.mask is None else Where(chosen.mask)
        self.numbers, self.rows = array("i"), array("i")
        self.named, self.names, self.hashes = True, Packer(), array("Q")  # what images are called, as long as all are
        self.labels, self.splits = Codes(lists=chosen.tags), Codes()
        self.captions = Values(CAPTION, lists=True)
        self.extra = [Values(key) for key in chosen.extra]
        self.boxes = None if chosen.objects is None else Boxes()
        self._schema: Any = None
        self._only_paths = 0  # images of which there is a path alone

    def file(self, index: int) -> None:
        """Read all rows of a file, without their images. Raises UsageError."""
        import pyarrow as pa

        place = os.fsdecode(self.files.files[index].path)
        file = open_parquet(place)
        budget().rows(file.metadata.num_rows, self.files.files[index].size, place)
        self._check_alike(place, file.schema_arrow)
        with file, open(place, "rb") as raw:
            if os.fstat(raw.fileno()).st_size != self.files.files[index].size:
                raise UsageError(place, "it is not as it was when it was listed", "wait until it is written")
            row = 0
            try:
                wheres = [where for where in (self.images, self.masks) if where is not None]
                for where in wheres:
                    where.begin(file, place)
                for group in range(file.metadata.num_row_groups):
                    places = [where.in_group(raw, group) for where in wheres]
                    for values, *found in zip(self._values(file, group), *places, strict=True):
                        self._add(index, row, values, found)
                        row += 1
            except BadPageError as error:
                raise UsageError(place, str(error), f"write it again, with pyarrow, or {WHOLE}") from None
            except UsageError:
                raise
            except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of texts that are not UTF-8, too
                problem = f"cannot be read: {escape(str(error)[:120])}"
                raise UsageError(place, problem, WHOLE) from None

    def _check_alike(self, place: str, schema: Any) -> None:
        """Raises UsageError where a file has other columns than those before, or other class names."""
        if self._schema is None:
            self._schema = schema
            return
        first = os.fsdecode(self.files.files[0].path)
        used = [self.chosen.image.name, *self.chosen.read, *([self.chosen.mask.name] if self.chosen.mask else [])]
        for name in used:
            kinds = [
                escape(str(one.field(name).type)) if name in one.names else "none" for one in (schema, self._schema)
            ]
            if kinds[0] != kinds[1]:
                problem = f"the column '{escape(name)}' is {kinds[0][:80]}, and in {escape(first)} {kinds[1][:80]}"
                raise UsageError(place, problem, "read files of other columns by themselves, and merge the datasets")
        said = {"image": self.chosen.image.name, **({"label": self.chosen.label} if self.chosen.label else {})}
        here = choose_columns(place, schema, ContainerOptions({**said, **self.options.columns}))
        for what, mine, others in (
            ("label", here.classes, self.chosen.classes),
            ("objects", here.object_classes, self.chosen.object_classes),
        ):
            if mine != others and self.options.class_names is None:
                counts = " and ".join(str(len(names or ())) for names in (mine, others))
                problem = f"the classes of {what} are others than in {escape(first)} ({counts}, or in another order)"
                raise UsageError(place, problem, "read such files by themselves, and merge the datasets")

    def _values(self, file: Any, group: int) -> Iterator[dict[str, Any]]:
        """The small columns of each row of a row group; `path`: what its image is called."""
        columns = [*self.chosen.read, *([self.chosen.image.name_path] if self.chosen.image.name_path else [])]
        if not columns:
            yield from ({} for _ in range(file.metadata.row_group(group).num_rows))
            return
        for batch in file.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False):
            for values in batch.to_pylist():
                if self.chosen.image.name_path:
                    image = values.pop(self.chosen.image.name)
                    values["\0path"] = image["path"] if image else None
                yield values

    def _add(self, index: int, row: int, values: dict[str, Any], found: list[tuple[int, int]]) -> None:
        """Take one row, or say why not."""
        name = self.files.names[index]
        path = values.get("\0path")
        try:
            self._check_images(found, path)
            labels = self._labels(values)
            split = self._text("split", self.chosen.split, values)
            key = self._text("key", self.chosen.key, values)
            for column, of_column in self.chosen.extra.items():
                if values[of_column] is None:
                    raise RejectedError(RejectCode.NO_LABEL, f"{column} from {escape(of_column)}: null")
        except RejectedError as error:
            self.ledger.reject(f"{name}:{row}".encode("utf-8", "surrogateescape"), error.code, error.reason)
            return
        place = f"{os.fsdecode(self.files.files[index].path)}, row {row}"
        for column in self.extra:
            try:
                column.add(values[self.chosen.extra[column.key]])
            except UnlikeError as error:
                problem = f"{column.key} from {escape(self.chosen.extra[column.key])}: {error}"
                raise UsageError(place, problem, "leave the column out") from None
        if self.chosen.tags:
            self.labels.add_all(labels)
        elif self.chosen.label is not None:
            self.labels.add(labels[0])
        if split is not None:
            self.splits.add(split)
        if self.chosen.caption is not None:
            self._caption(values[self.chosen.caption], f"{name}:{row}")
        if self.boxes is not None and self.chosen.objects is not None:
            size = [values[side] for side in self.chosen.sizes or ()]
            self.boxes.add(len(self.numbers), values[self.chosen.objects], size)
        self._name(path if self.chosen.key is None else key)
        self.numbers.append(index)
        self.rows.append(row)
        for where, (offset, size) in zip((self.images, self.masks), found, strict=False):
            if where is not None:
                where.keep(offset, size)

    def _check_images(self, found: list[tuple[int, int]], path: Any) -> None:
        """Raises RejectedError where an image or a mask is null."""
        for what, code, (_, size) in zip(("image", "mask"), (RejectCode.MISSING, RejectCode.PAIR), found, strict=False):
            if size < 0:
                self._only_paths += what == "image" and bool(path)
                beside = f": there is only its path, {escape(path[:80])}" if path and what == "image" else ""
                raise RejectedError(code, f"the {what} is null{beside}")

    def _labels(self, values: dict[str, Any]) -> list[str]:
        """The label of a row as text, or all of them; none where no column is one. Raises RejectedError."""
        if self.chosen.label is None:
            return []
        value = values[self.chosen.label]
        if self.chosen.tags and value is None:
            raise RejectedError(RejectCode.NO_LABEL, f"label from {escape(self.chosen.label)}: null")
        if -1 in (items := value if self.chosen.tags else [value]) and self.chosen.classes is not None:
            raise RejectedError(RejectCode.NO_LABEL, f"label from {escape(self.chosen.label)}: -1, which is no class")
        return [_said("label", self.chosen.label, item) for item in items]

    def _text(self, what: str, column: str | None, values: dict[str, Any]) -> str | None:
        """A value as text; None where no column is that. Raises RejectedError where it is null or empty."""
        return None if column is None else _said(what, column, values[column])

    def _caption(self, value: Any, where: str) -> None:
        texts = value if isinstance(value, list) else [value]
        kept = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        self.captions.add(kept)
        if not kept:
            reason = f"the row has no caption in {self.chosen.caption}"
            self.ledger.leave_out(where.encode("utf-8", "surrogateescape"), AnnotationCode.LINE, reason)

    def _name(self, said: str | None) -> None:
        """What a row is called, if it says it in a way that may be a key."""
        key = said.replace("\\", "/").removeprefix("./") if said else ""
        if not key or key.startswith("/") or "://" in key or ".." in key.split("/"):
            self.named = False
        if self.named:
            self.names.add(key.encode())
            self.hashes.append(int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little"))

    def source(self) -> ColumnarSource:
        """All rows. Raises UsageError."""
        if not len(self.numbers):
            raise self._no_row()
        columns: list[ListedColumn] = []
        notes: list[str] = []
        place = f"{self.files.place}, column {self.chosen.label}"
        given = self.options.class_names  # of masks, else of labels, else of boxes
        if self.chosen.label is not None:
            of_labels = ContainerOptions(
                {}, None if self.chosen.mask else given, self.options.label_offset, self.options.label_map
            )
            column, notes_of_labels = class_column(self.labels, of_labels, place, self.chosen.classes)
            columns.append(column)
            notes += notes_of_labels
        columns += [self.captions.column()] if self.chosen.caption is not None else []
        columns += [values.column() for values in self.extra]
        numbers = as_array(self.numbers)
        keys, notes_of_keys = self._keys()
        notes += notes_of_keys
        masks: PartMasks | None = None
        if self.masks is not None:
            of_masks = self.masks.images(self.files, numbers)
            masks, notes_of_masks = read_masks(
                self.files.place, of_masks, len(keys), self.options.class_names, lambda i: escape(keys[i])
            )
            notes += notes_of_masks
        objects = None
        if self.boxes is not None:
            names = None if self.chosen.mask or self.chosen.label is not None else class_list(given)
            objects = self.boxes.table(names, self.chosen.object_classes, keys, self.ledger)
        unused, largest = self.chosen.unused, self.images.places.largest
        if largest > _SLOW:
            notes.append(
                f"images are compressed, up to {largest:,} bytes in a page that is read whole for each of them: slow; "
                "files written with compression='none' and use_dictionary=False for the images are read at once"
            )
        notes += [counted("columns not used", unused, len(unused))] if unused else []
        self.ledger.notes += [*self.files.notes, *notes]
        for skipped in self.files.skipped:
            self.ledger.rejected.setdefault(skipped.key, skipped)
        described = f"{number(len(self.files.files), 'Parquet file')}, {number(len(keys), 'sample')}"
        return ColumnarSource(
            keys,
            self.images.images(self.files, numbers),
            columns,
            self._splits(numbers),
            objects,
            masks,
            findings=self.ledger.findings(self.files.folder),
            described=f"{described}: {self.chosen.described}",
        )

    def _keys(self) -> tuple[Any, list[str]]:
        """The key of each row, and a note where it is not what its image is called."""
        hashes, self.hashes = as_array(self.hashes), array("Q")
        hashes.sort()
        if self.named and not (hashes[1:] == hashes[:-1]).any():
            return self.names.packed(), []
        if self.chosen.key is not None:
            place = f"{self.files.place}, column {self.chosen.key}"
            raise UsageError(place, "a value is no key, or comes again", "name a column of unique relative names")
        keys = Packer()
        stems = [os.path.splitext(name)[0] for name in self.files.names]
        for file, row in zip(self.numbers, self.rows, strict=True):
            keys.add(f"{stems[file]}/{row:08}".encode("utf-8", "surrogateescape"))
        return keys.packed(), ["rows are called by their file and number: no column says a name that is unique"]

    def _splits(self, numbers: np.ndarray) -> Splits | None:
        if self.chosen.split is not None:
            try:
                every = [split_in_cell(text) for text in self.splits.values]
            except UsageError as error:
                raise UsageError(
                    f"{self.files.place}, column {self.chosen.split}", error.problem, error.remedy
                ) from None
            return Splits(tuple(every), self.splits.codes.astype(np.int64))
        found = self.splits_of_files
        if set(found) == {None}:
            return None
        names = tuple(sorted({str(split) for split in found}))
        return Splits(names, np.array([names.index(str(split)) for split in found], np.int64)[numbers])

    def _no_row(self) -> UsageError:
        if self._only_paths:
            remedy = f"a list of files is a label table: {argument('reader', 'labels')}"
            return UsageError(self.files.place, f"its images are null, it has {self._only_paths:,} paths alone", remedy)
        if not self.ledger.rejected:
            return UsageError(self.files.place, "no row in it", "check the path")
        first = self.ledger.rejected[min(self.ledger.rejected)]
        problem = f"none of {number(len(self.ledger.rejected), 'row')} can be taken, the first: {escape(first.key)}: "
        return UsageError(self.files.place, problem + first.reason, f"say what is what: {naming('label', 'COLUMN')}")


def _said(what: str, column: str, value: Any) -> str:
    """A name or a number as text. Raises RejectedError for null and empty."""
    if not isinstance(value, str | int) or value == "":
        got = "null" if value is None else "nothing" if value == "" else type(value).__name__
        raise RejectedError(RejectCode.NO_LABEL, f"{what} from {escape(column)}: {got}, expected a name or a number")
    return str(value)
