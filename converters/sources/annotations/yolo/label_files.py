"""The files of labels of a YOLO dataset: each line becomes an object, or is listed with a code."""

from collections import Counter

from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError, LeftOut
from shardfeed.converters.sources.annotations.yolo.dataset import YoloDataset
from shardfeed.converters.sources.annotations.yolo.images import YoloImages, file_bytes
from shardfeed.converters.sources.annotations.yolo.lines import (
    BOX,
    CORNERS,
    LineReader,
    PixelsError,
    Shape,
    is_number,
)
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, argument, escape, name_text
from shardfeed.text import counted


class LabelFiles:
    """Puts the lines of the files of labels into `table`, or into `left_out`.

    Until all are read it is not known what they mean: `check` then says so, where nobody stated it.
    """

    def __init__(self, files: Listing, dataset: YoloDataset, shape: Shape, table: ObjectTable, *, masks: bool) -> None:
        self.left_out: list[LeftOut] = []
        self._files, self._dataset = files, dataset
        self._shape: Shape = shape
        self._table, self._masks = table, masks
        dimensions = 3 if dataset.said is None else dataset.said.dimensions
        self._reader = LineReader(shape, len(dataset.names or ()), dataset.keypoints, dimensions)
        self._places: dict[int, str] = {}  # the first line of so many numbers, of those that were taken
        self._counts: Counter[int] = Counter()  # lines of so many numbers, of those that were taken
        self._misfits: dict[int, str] = {}  # the first line of so many numbers, of those that were not
        self._fits = False  # whether a line had as many numbers as it should, and was not taken for another reason
        self._pixels: list[tuple[str, str]] = []  # lines that look like pixels: place, and what is wrong
        self._without = 0
        self._shared: list[bytes] = []
        self._no_labels: list[bytes] = []

    def read_all(self, images: YoloImages) -> dict[int, Skipped]:
        """Read the labels of all images, in their order, and list those of no image.

        Returns the images whose labels cannot be read, by their numbers in `files`; they are not numbered in the table.
        """
        rejected: dict[int, Skipped] = {}
        users = Counter(label for label in images.labels.tolist() if label >= 0)
        place = 0  # among the images that are kept
        for image, label in zip(images.images.tolist(), images.labels.tolist(), strict=True):
            key = self._files.key(image)
            if label >= 0:
                try:
                    lines = _lines(self._files, label)
                except RejectedError as error:
                    reason = f"its labels, {escape(self._files.key(label))}: {error.reason}"
                    rejected[image] = Skipped(key, error.code.value, reason)
                    continue
                self._read(place, key, self._files.key(label), lines)
                self._shared += [key] if users[label] > 1 else []
            else:
                self._without += 1
            place += 1
        self._list_lost(images)
        self._list_orphans(images)
        return rejected

    def _read(self, image: int, key: bytes, label: bytes, lines: list[tuple[int, bytes]]) -> None:
        seen: dict[tuple[float, ...], int] = {}
        for number, text in lines:
            try:
                line = self._reader.read(text)
                if (first := seen.setdefault(self._reader.last, number)) != number:
                    raise BadAnnotationError(AnnotationCode.TWICE, f"the same as line {first}")
            except BadAnnotationError as error:
                reason = f"line {number} of {escape(label)}: {error.reason}"
                self.left_out.append(LeftOut(key, error.code.value, reason))
                if error.code != AnnotationCode.LINE:
                    self._fits = True
                else:
                    self._misfits.setdefault(len(text.split()), self._place(label, number))
                if isinstance(error, PixelsError):
                    self._pixels += [(self._place(label, number), error.reason)] if not self._pixels else []
                continue
            if line.length not in self._places:
                self._places[line.length] = self._place(label, number)
            self._counts[line.length] += 1
            outline = [line.outline] if line.outline else None
            self._table.add(image, number, line.box, line.label, keypoints=line.keypoints, outline=outline)

    def _place(self, label: bytes, number: int) -> str:
        """The place of a line, for an error, which escapes it."""
        return f"{name_text(self._files.root)}/{name_text(label)}:{number}"

    def _list_lost(self, images: YoloImages) -> None:
        """Lines of images that are not there."""
        for key, label in images.lost:
            try:
                lines = _lines(self._files, label)
            except RejectedError:
                continue  # its image is listed
            name = escape(self._files.key(label))
            for number, _ in lines:
                reason = f"line {number} of {name}: its image is not there"
                self.left_out.append(LeftOut(key, AnnotationCode.IMAGE.value, reason))

    def _list_orphans(self, images: YoloImages) -> None:
        """Lines of files that belong to no image; texts that are no labels are counted."""
        for label in images.orphans:
            key = self._files.key(label)
            try:
                lines = _lines(self._files, label)
            except RejectedError:
                lines = []
            if any(looks_like_label(text) for _, text in lines):
                for number, _ in lines:
                    reason = f"line {number}: this file of labels has no image"
                    self.left_out.append(LeftOut(key, AnnotationCode.ORPHAN.value, reason))
            else:
                self._no_labels.append(key)

    def check(self, *, asked: bool) -> None:
        """Raises LabelFileError where lines are in pixels, or may mean two things and nobody `asked` for boxes.

        Polygons of a dataset differ in how many points they have: where all lines have as many numbers, it is not to
        be told from them what they are.
        """
        if self._pixels and not self._counts:
            place, problem = self._pixels[0]
            raise LabelFileError(place, problem, "divide x and width by the image's width, y and height by its height")
        if not (self._counts or self._fits) and len(self._misfits) == 1:
            ((count, place),) = self._misfits.items()
            if self._shape != "either" and count >= BOX:
                problem = f"all lines have {count} numbers, expected {self._reader.expected}"
                raise LabelFileError(place, problem, f"ask for other {ask_for()}, or correct data.yaml")
            if self._shape == "either" and count >= BOX + 3:
                problem = f"all lines have {count} numbers, as those of key points may"
                remedy = "write kpt_shape: [K, 3] (x, y, visibility), or [K, 2], into data.yaml"
                raise LabelFileError(place, problem, remedy)
        if self._shape != "either":
            return
        outlines = sorted(self._counts.keys() - {BOX})
        if asked or not outlines:
            return
        boxes, masks = ask_for("boxes"), ask_for("boxes", "masks")
        place = self._places[outlines[0]]
        if BOX in self._counts:
            other = escape(self._places[BOX])
            problem = f"got a line of {outlines[0]} numbers, and one of {BOX} at {other}: outlines, or boxes"
            remedy = f"{boxes} takes the box of each; {masks} takes outlines and lists the other lines"
        elif outlines == [CORNERS]:
            problem = f"all lines have {CORNERS} numbers: turned boxes, or outlines of four points"
            remedy = f"{boxes} takes the upright box around each, {masks} takes them for outlines, too"
        elif len(outlines) == 1 and self._dataset.said is None:
            problem = f"all lines have {outlines[0]} numbers: outlines, or boxes with key points"
            remedy = f"{masks} takes them for outlines; for key points give a data.yaml with kpt_shape"
        else:
            return
        raise LabelFileError(place, problem, remedy)

    @property
    def shape(self) -> Shape:
        """What the lines that were taken are."""
        if self._shape != "either" or not self._counts:
            return self._shape
        if self._counts.keys() == {BOX}:
            return "boxes"
        return "either" if BOX in self._counts else "polygons"

    def notes(self) -> list[str]:
        """Sentences for the report."""
        notes = []
        if self._without:
            notes.append(f"images without a file of labels, which have no object: {self._without}")
        if self._shared:
            notes.append(counted("images that share a file of labels", self._shared, len(self._shared)))
        if self._no_labels:
            notes.append(counted("texts beside the labels that are none", self._no_labels, len(self._no_labels)))
        outlines = sum(count for length, count in self._counts.items() if length != BOX)
        if outlines and self._shape != "keypoints" and not self._masks:
            notes.append(f"outlines of which the box around them is taken: {outlines}")
        names = self._dataset.names or ()
        lacking = [name for name, count in zip(names, self._table.class_counts(), strict=False) if not count]
        if lacking:
            notes.append(counted("classes without an object", lacking, len(lacking)))
        return notes


def ask_for(*tasks: str) -> str:
    """The argument that asks for these tasks, or for any, in a message."""
    return argument("tasks", python=f"tasks={list(tasks)}" if tasks else "", typed=",".join(tasks))


def looks_like_label(line: bytes) -> bool:
    """Whether a line is a class and four numbers or more."""
    words = line.split()
    return len(words) >= BOX and words[0].isdigit() and all(map(is_number, words))


def _lines(files: Listing, label: int) -> list[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers from 1. Raises RejectedError."""
    data = file_bytes(files, label).removeprefix(b"\xef\xbb\xbf")
    lines = budget().lines(data, name_text(files.root + b"/" + files.key(label)))
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
