"""What the samples of tars say, one after the other, in compact columns; and what cannot be taken of them."""

import os
import stat
from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from shardfeed.annotations import CAPTION
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.account import AnnotationCode
from shardfeed.converters.sources.annotations.gathering import Ledger
from shardfeed.converters.sources.archives.tar import read_member
from shardfeed.converters.sources.containers.masks import PartMasks, read_masks
from shardfeed.converters.sources.containers.options import ContainerOptions, naming
from shardfeed.converters.sources.containers.packed.class_column import class_column
from shardfeed.converters.sources.containers.packed.compact import Codes, Packer, UnlikeError, Values, as_array
from shardfeed.converters.sources.containers.webdataset.columns import (
    Chosen,
    ValueProblem,
    checked,
    is_json,
    read_json,
    read_value,
)
from shardfeed.converters.sources.containers.webdataset.met_keys import MetKeys
from shardfeed.converters.sources.containers.webdataset.samples import PassedOver, TarSample, samples
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.source_files import SourceFiles
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits
from shardfeed.converters.sources.rows.parts import Parts
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import split_in_cell
from shardfeed.errors import UsageError, escape
from shardfeed.text import counted, number, some

MOST_VALUE = 16 << 20  # bytes of a text, number or JSON object


class Gathering:
    """What is known of the samples of all tars, so far."""

    def __init__(self, files: SourceFiles, chosen: Chosen, options: ContainerOptions) -> None:
        self.files, self.chosen, self.options = files, chosen, options
        self.splits_of_files = files.splits(options.split)
        self.ledger, self.passed_over = Ledger(), PassedOver()
        self.keys, self.numbers = Packer(), array("i")
        self.images, self.masks = (array("q"), array("q")), (array("q"), array("q"))  # offsets and sizes
        self.labels, self.splits = Codes(), Codes()
        self.captions = Values(CAPTION, lists=True)
        self.extra = [Values(key) for key in chosen.extra]
        self.met = MetKeys(files, by_tar=chosen.by_tar)

    def tar(self, index: int) -> None:
        """Read all of a tar. Raises UsageError."""
        file, name = self.files.files[index], self.files.names[index]
        place = os.fsdecode(file.path)
        used: set[str] = set()
        kept = len(self.keys)
        count = 0
        try:
            with open(file.path, "rb") as tar:
                state = os.fstat(tar.fileno())
                if not stat.S_ISREG(state.st_mode) or state.st_size != file.size:
                    raise UsageError(place, "it is not as it was when it was listed", "wait until it is written")
                for sample in samples(tar, place, self.passed_over):
                    count += 1
                    used.update(sample.columns)
                    self.met.add(sample.key, index)
                    self._add(tar, sample, index, name)
        except OSError as error:
            raise UsageError(place, f"cannot be read: {error.strerror}", "check the file") from None
        if count and len(self.keys) == kept:
            self._nothing_kept(place, used)

    def _nothing_kept(self, place: str, used: set[str]) -> None:
        """Raises UsageError where a whole tar lacks a column that others have."""
        wanted = [spot.column for what, spot in self.chosen.places.items() if what != "text"]
        lacking = [column for column in wanted if column not in used]
        if not self.chosen.image_of(dict.fromkeys(used)):
            lacking.insert(0, self.chosen.images[0] if self.chosen.images else "jpg")
        if lacking:
            problem = f"its samples have the columns {', '.join(map(escape, sorted(used)))}, and no '{lacking[0]}', "
            problem += f"which is taken ({self.chosen.described})"
            raise UsageError(place, problem, "read tars of other columns by themselves, and merge the datasets")

    def _add(self, tar: BinaryIO, sample: TarSample, index: int, name: str) -> None:
        """Take one sample, or say why not."""
        images = self.chosen.image_of(sample.columns)
        key = sample.key + (b"." + images[0].rpartition(".")[2].encode() if images else b"")
        key = os.fsencode(os.path.splitext(name)[0]) + b"/" + key if self.chosen.by_tar else key
        try:
            if len(images) > 1:
                raise self._several(sample, images, index)
            masks = self._parts_of(sample, images)
            values = self._values(tar, sample)
            if self.chosen.key is not None:
                own = values["key"].encode().lstrip(b"/")
                key = own if names_image(own) else own + os.path.splitext(key)[1]
            if b".." in key.split(b"/"):
                raise RejectedError(RejectCode.PATH_ESCAPE, "its key leaves the root")
        except RejectedError as error:
            self.ledger.reject(key, error.code, f"{escape(name)}: {error.reason}")
            return
        for column in self.extra:
            try:
                column.add(values[column.key])
            except UnlikeError as error:
                place = f"{os.fsdecode(self.files.files[index].path)}, sample '{escape(sample.key)}'"
                problem = f"{column.key} from {self.chosen.extra[column.key]}: {error}"
                raise UsageError(place, problem, "leave the column out, or write it alike in all samples") from None
        self.keys.add(key)
        self.numbers.append(index)
        for where, columns in ((self.images, images), (self.masks, masks)):
            for column in columns:
                where[0].append(sample.columns[column].offset)
                where[1].append(sample.columns[column].size)
        if self.chosen.label is not None:
            self.labels.add(values["label"])
        if self.chosen.split is not None:
            self.splits.add(values["split"])
        if self.chosen.caption is not None:
            self.captions.add(values["text"])
            if not values["text"]:
                reason = f"the sample has no caption in {self.chosen.caption}"
                self.ledger.leave_out(key, AnnotationCode.LINE, reason)

    def _several(self, sample: TarSample, images: list[str], index: int) -> UsageError:
        """The error where a sample has more than one column that may be its image."""
        place = os.fsdecode(self.files.files[index].path)
        problem = f"the sample '{escape(sample.key)}' has more than one image: {', '.join(map(escape, images))}"
        return UsageError(place, problem, f"say which is it: {naming('image', images[0])}")

    def _parts_of(self, sample: TarSample, images: list[str]) -> list[str]:
        """The column of the mask, if masks are wanted. Raises RejectedError where it or the image is not there."""
        if not images:
            found = ", ".join(map(escape, sample.columns))
            raise RejectedError(RejectCode.MISSING, f"no image in the sample, only {found}")
        masks = [column for column in sample.columns if column in self.chosen.masks]
        if self.chosen.masks and len(masks) != 1:
            raise RejectedError(RejectCode.PAIR, f"{len(masks)} masks in the sample, expected one")
        for column in (*images, *masks):
            if not sample.columns[column].plain:
                raise RejectedError(RejectCode.NOT_REGULAR, f"{escape(column)} is a link, or no plain file")
        return masks

    def _values(self, tar: BinaryIO, sample: TarSample) -> dict[str, Any]:
        """What the columns that are read say of a sample, by what they are. Raises RejectedError."""
        values: dict[str, Any] = {}
        data: dict[str, bytes] = {}
        parsed: dict[str, Any] = {}
        for what, place in self.chosen.places.items():
            member = sample.columns.get(place.column)
            try:
                if member is None or not member.plain:
                    raise ValueProblem("the sample has none")
                if member.size > MOST_VALUE:
                    raise ValueProblem(f"{number(member.size, 'byte')}, expected {MOST_VALUE:,} at most")
                if place.column not in data:
                    data[place.column] = read_member(tar, member)
                    if is_json(place.column):
                        parsed[place.column] = read_json(data[place.column])
                values[what] = checked(what, read_value(place, data[place.column], parsed.get(place.column)))
            except ValueProblem as problem:
                if what != "text":  # an image without a caption stays one
                    reason = f"{what} from {escape(str(place))}: {problem}"
                    raise RejectedError(RejectCode.NO_LABEL, reason) from None
                values[what] = []
        return values

    def _classes_lost(self, keys: Sequence[bytes]) -> list[str]:
        """A note where keys without labels lie in several folders, as in a tar of class folders."""
        some_keys = (keys[i] for i in range(0, len(keys), max(1, len(keys) // 1000)))  # folders come one by one
        folders = sorted({os.path.dirname(key) for key in some_keys} - {b""})
        if len(folders) < 2:
            return []
        told = f"no labels, and images in several folders ({some(map(escape, folders))}): where those are classes, "
        return [told + "unpack by `tar -xf FILE -C FOLDER`, and convert the folder"]

    def source(self) -> ColumnarSource:
        """All samples. Raises UsageError."""
        self.met.check_unique()
        if not len(self.keys):
            raise self._no_sample()
        columns: list[ListedColumn] = []
        notes: list[str] = []
        names = None if self.chosen.masks else self.options.class_names
        place = f"{self.files.place}, column {self.chosen.label}"
        if self.chosen.label is not None:
            of_labels = ContainerOptions({}, names, self.options.label_offset, self.options.label_map)
            column, notes_of_labels = class_column(self.labels, of_labels, place)
            columns.append(column)
            notes += notes_of_labels
        columns += [self.captions.column()] if self.chosen.caption is not None else []
        columns += [values.column() for values in self.extra]
        keys, numbers = self.keys.packed(), as_array(self.numbers)
        masks: PartMasks | None = None
        if self.chosen.masks:
            parts = self._parts(self.masks, numbers)
            masks, notes_of_masks = read_masks(
                self.files.place, parts, len(keys), self.options.class_names, lambda i: escape(keys[i])
            )
            notes += notes_of_masks
        if self.chosen.label is None and self.chosen.caption is None and not self.chosen.masks:
            notes += self._classes_lost(keys)
        over, unused = self.passed_over, self.chosen.unused
        notes += [counted("members passed over, not called KEY.COLUMN", over.first, over.count)] if over.count else []
        notes += [counted("columns not used", unused, len(unused))] if unused else []
        self.ledger.notes += [*self.files.notes, *notes]
        for skipped in self.files.skipped:
            self.ledger.rejected.setdefault(skipped.key, skipped)
        return ColumnarSource(
            keys,
            self._parts(self.images, numbers),
            columns,
            self._splits(numbers),
            rasters=masks,
            findings=self.ledger.findings(self.files.folder),
            described=f"{number(len(self.files.files), 'tar')}, {number(len(keys), 'sample')}: {self.chosen.described}",
        )

    def _parts(self, where: tuple["array[int]", "array[int]"], numbers: np.ndarray) -> Parts:
        return Parts(self.files.files, numbers, *map(as_array, where))

    def _no_sample(self) -> UsageError:
        if not self.ledger.rejected:
            return UsageError(self.files.place, "no sample in it", "see what is in it: `tar -tf FILE`")
        first = self.ledger.rejected[min(self.ledger.rejected)]
        problem = (
            f"none of {number(len(self.met), 'sample')} can be taken, the first: {escape(first.key)}: {first.reason}"
        )
        return UsageError(self.files.place, problem, f"say which column is what: {naming('image', 'jpg')}")

    def _splits(self, numbers: np.ndarray) -> Splits | None:
        if self.chosen.split is not None:
            try:
                every = [split_in_cell(text) for text in self.splits.values]
            except UsageError as error:
                place = f"{self.files.place}, column {self.chosen.split}"
                raise UsageError(place, error.problem, error.remedy) from None
            return Splits(tuple(every), self.splits.codes.astype(np.int64))
        found = self.splits_of_files
        if set(found) == {None}:
            return None
        names = tuple(sorted({str(split) for split in found}))
        return Splits(names, np.array([names.index(str(split)) for split in found], np.int64)[numbers])
