"""Images and their annotations, by name: a reader adds images and their objects; this module does the rest.

An additional field of each image, such as its video or patient, is for groups.
"""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shardfeed.annotations import CAPTION, OBJECTS, Keypoints
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode
from shardfeed.converters.sources.classes import BadLabelError
from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, ImageLookup
from shardfeed.converters.sources.files.listing import Listing, names_image, split_in_cell, splits_by_folder
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, Task, Unit
from shardfeed.converters.sources.rows.columns import (
    ByteStrings,
    KnownClasses,
    Labels,
    ListedColumn,
    Splits,
    TextColumn,
    as_array,
    feature_key,
)
from shardfeed.converters.sources.rows.objects import ObjectGather, class_text, shown_value
from shardfeed.converters.sources.rows.rows import ColumnarSource, Ledger, ListedFiles, Names, Rasters, Rows
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_bytes
from shardfeed.kinds import OF_OBJECTS
from shardfeed.schema import IMAGE_KEYS, LABEL, SOURCE_ID, TEXT, is_plain
from shardfeed.text import listing as listed
from shardfeed.text import number

_TAKEN = frozenset((*IMAGE_KEYS, LABEL, TEXT, SOURCE_ID, CAPTION))  # features that records have anyway
_NO, _YES = ("false",), ("true",)
_NOT_BEGUN = (
    "new",
    "todo",
    "to do",
    "not started",
    "unlabeled",
    "unlabelled",
    "unannotated",
    "not annotated",
    "skipped",
)
# Fields of an image, in lower case, in which tools say that nobody has annotated it, and the values that say so.
_MEANS_OPEN: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("annotated", "is_annotated", "labeled", "labelled", "is_labeled", "completed", "is_completed"), _NO
    ),
    **dict.fromkeys(("skipped", "is_skipped", "cancelled", "canceled", "was_cancelled"), _YES),
    **dict.fromkeys(("status", "state", "annotation_status", "label_status"), _NOT_BEGUN),
}
_SHOWN = 20  # names of fields in a message


class ImageField:
    """Collector of the values of the field `name`: texts or numbers, stored as texts under `key`; null is "".

    `place`: the annotations, for errors. Raises UsageError if no feature can have this name.
    """

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.key = name, place, feature_key(name)
        if self.key in _TAKEN or self.key.startswith(OBJECTS) or not is_plain(name):
            problem = f"got '{escape(name)}', which cannot be stored as '{escape(self.key)}'"
            remedy = f"copy the field under another name, or group by file names with {argument('group_pattern')}"
            raise UsageError("group_column", problem, remedy)
        self._fields: dict[str, None] = {}  # fields that at least one image has
        self._codes: dict[bytes, int] = {b"": 0}  # each different value
        self._of_image = array("q")  # the code of each image up to the last that has one

    def add(self, image: int, place: str, fields: Mapping[str, Any]) -> None:
        """Take the value of an image from all its `fields`; `place`: the file and the line or entry.

        Raises LabelFileError for a value that is neither a text nor a number, or other than the image had before.
        """
        self._fields |= dict.fromkeys(name for name, value in fields.items() if not isinstance(value, list | dict))
        value = fields.get(self.name)
        if value is None:
            return
        try:
            if not isinstance(value, str | int | float):
                raise TypeError
            text = str(value).strip().encode()
        except (TypeError, UnicodeEncodeError):
            problem = f"its {escape(self.name)} is {shown_value(value)}, expected a text or a number"
            raise LabelFileError(place, problem, "correct it, or remove it there") from None
        self._of_image.extend([0] * (image + 1 - len(self._of_image)))
        before = self._of_image[image]
        code = self._of_image[image] = self._codes.setdefault(text, len(self._codes))
        if before not in (0, code):
            expected = escape([*self._codes][before])
            problem = f"got the {escape(self.name)} {shown_value(value)}, expected {expected!r} as before"
            raise LabelFileError(place, problem, "give each image one value")

    def column(self, places: np.ndarray, count: int) -> TextColumn:
        """The column of `count` samples; `places`: int64 [images], the index of each image's sample, or -1.

        Raises UsageError if no image has the field.
        """
        if self.name not in self._fields:
            names = sorted(map(escape, self._fields))
            there = ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])]) or "none"
            problem = f"got '{escape(self.name)}', expected a field of the images in {self.place}: there are {there}"
            raise UsageError(
                "group_column", problem, f"name one of these, or group by file names with {argument('group_pattern')}"
            )
        codes = np.zeros(len(places), np.int64)
        codes[: len(self._of_image)] = as_array(self._of_image)
        found, images = np.zeros(count, np.int64), np.flatnonzero(places >= 0)[::-1]  # the first that has one counts
        images = images[codes[images] > 0]
        found[places[images]] = codes[images]
        return TextColumn(self.key, list(self._codes), found)


class Annotations:
    """Collector of images and their annotations, in any order; `source` creates a source from the images that exist.

    Example:
        found = Annotations("boxes.json", look, options, what="box")
        for i, entry in enumerate(entries):
            image = found.image(entry["file"], where=f"entry {i}", size=(entry["width"], entry["height"]))
            for n, box in enumerate(entry["boxes"]):
                found.object(image, n, box["corners"], box["class"])
        return found.source()

    Args:
        place: the file or folder of the annotations, for errors.
        look: a `Look` at the path. The images are the files below `options.images`, else below the path's folder.
        options: options given by the user.
        root: the folder of the images, if the layout defines it; `options.images` takes precedence.
        what: the word for an object in the report, before its number.
        unit: unit of boxes, keypoints and outlines.
        keypoints: the names of an object's keypoints.
        masks: whether outlines are read; default: only if the user asks for masks.
        tasks: the tasks that the format supports; others are refused.
        files: the images, if they are already listed.
        flags: keys of 0-or-1 features of objects, which the dataset has even if no object has a value for them.
    """

    def __init__(
        self,
        place: str,
        look: Look,
        options: AnnotationOptions,
        *,
        root: str | None = None,
        what: str = "object",
        unit: Unit = "pixels",
        keypoints: Keypoints | None = None,
        masks: bool | None = None,
        tasks: Sequence[Task] = ("boxes",),
        files: Listing | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.place, self.options, self.ledger = place, options, Ledger()
        others = sorted(frozenset(options.tasks).difference(tasks))
        if others:
            problem = f"got the task '{others[0]}', expected {' or '.join(tasks)}"
            hint = "; classes are for whole images; objects have their classes with the boxes"
            hint = hint if others[0] == "classes" and "boxes" in tasks else ""
            raise UsageError("tasks", problem, f"request these tasks, or none{hint}")
        self.masks = masks = "masks" in options.tasks if masks is None else masks
        root = root if options.images is None else os.fspath(options.images)
        self.listing = look.list_files(root) if files is None else files
        self.ledger.notes += self.listing.notes
        self.lookup = ImageLookup(self.listing, ends=options.images is not None)
        self.objects = ObjectGather(
            what=what, unit=unit, upright=options.upright, keypoints=keypoints, masks=masks, flags=flags
        )
        self._files: list[int | Skipped] = []  # by image: the number of its file, or the reason why it has no file
        self._where: list[str | int] = []
        self._by_name: dict[str, int] = {}
        self._by_file: dict[int, int] = {}
        self._splits: dict[int, str] = {}
        self._field = None if options.group_column is None else ImageField(options.group_column, place)
        self._numbers = array("q")  # of each image up to the last that has one, -1 without
        self._captions, self._captioned = ByteStrings(), array("q")  # and the image of each
        self._classes: dict[int, list[str]] = {}
        self._unlabelled: dict[int, str] = {}  # why an image has no class
        self.sets = False  # whether classes are sets even where each image has one
        self._rejected: set[int] = set()
        self._unannotated: dict[int, str] = {}  # images that nobody has annotated, and what the source says of them
        self._once: set[int] = set()  # images without a file that the format names once
        self._left: list[tuple[int | str, AnnotationCode, str]] = []  # listed once it is known which files there are
        self.stated: tuple[Sequence[str], Sequence[int]] | None = None  # class names, and their ids, of the format
        self.label_classes: tuple[Sequence[str], Sequence[int]] | None = None  # of images, if the reader numbers them
        self._unread: dict[str, Counter[str]] = {}  # by the word for an entry: keys, and the number of their values
        self.boxed = "boxes" in tasks or masks or keypoints is not None
        self.unnamed = "image files without annotations"
        self.unassigned = False  # whether the format says that images are in no split: see `Splits`
        self.tells_unannotated = True  # False: an image without objects may be one that nobody has annotated

    # --- called by a reader

    def image(
        self,
        name: str,
        *,
        where: str | int = "",
        folder: str = "",
        split: str | None = None,
        number: Any = None,
        size: tuple[Any, Any] | None = None,
        once: bool = False,
        awaited: int | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the index of the image with this name, for the other methods; the same name gives the same index.

        `where`: the line or the number of the entry, for the report. `folder`: the folder below the root that the name
        is relative to, with "/" at its end. `split`, `number` (the image's id, for evaluation), `size` (width, height,
        as annotated): if known. `once`: whether the format names each image once; a repeated name then raises
        LabelFileError. `awaited`: the index that `await_image` returned for the image. `fields`: all values that the
        format has for the image, by name; the value that `options.group_column` names is stored.
        """
        key = folder + name
        image = -1 if once else self._by_name.get(key, -1)
        if image < 0:
            file = self.lookup.find(name, os.fsencode(folder))
            image = self._by_file.get(file, -1) if isinstance(file, int) else -1
            if image < 0:
                image = len(self._files) if awaited is None else awaited
                self._files[image : image + 1] = [file]
                self._where[image : image + 1] = [where]
                if isinstance(file, int):
                    self._by_file[file] = image
                elif once:
                    self._once.add(image)
            elif once:
                self._refuse_twice(image, name, where)
            if not once:  # which would be remembered for nothing
                self._by_name[key] = image
        self._set_details(image, where, split, number, size, fields)
        return image

    def file(self, index: int, **known: Any) -> int:
        """Return the image index of the file `listing[index]`, adding the image if it is new.

        `known`: the same keyword arguments as `image`.
        """
        image = self._by_file.setdefault(index, len(self._files))
        if image == len(self._files):
            self._files.append(index)
            self._where.append(known.get("where", ""))
        self._set_details(image, known.get("where", ""), *map(known.get, ("split", "number", "size", "fields")))
        return image

    def await_image(self, reason: str) -> int:
        """Return an index for an image whose annotations precede its name. `reason`: reported if no name follows."""
        self._files.append(Skipped(os.path.basename(os.fsencode(self.place)), AnnotationCode.ORPHAN.value, reason))
        self._where.append("")
        return len(self._files) - 1

    def _refuse_twice(self, image: int, name: str, where: str | int) -> None:
        place = f"{self.place}, {_at(where)}" if where != "" else self.place
        before = f" ({_at(self._where[image])})" if self._where[image] != "" else ""
        problem = f"{escape(name)} refers to {escape(self.key(image))}, which is listed before{before}"
        raise LabelFileError(place, problem, "give each image one entry")

    def _take_fields(self, image: int, where: str | int, fields: Mapping[str, Any]) -> None:
        """Keep the value for groups, and whether a field says that nobody has annotated the image."""
        if why := said_unannotated(fields):
            self.unannotated(image, why)
        if self._field is not None:
            self._field.add(image, f"{self.place}, {_at(where)}", fields)

    def _set_details(
        self, image: int, where: str | int, split: str | None, number: int | None, size: Any, fields: Any
    ) -> None:
        if fields is not None:
            self._take_fields(image, where, fields)
        if split is not None:
            try:
                split = split_in_cell(split)
            except UsageError as error:
                problem = f"the split: {error.problem}"
                raise LabelFileError(f"{self.place}, {_at(where)}", problem, error.remedy) from None
            if self._splits.setdefault(image, split) != split:
                problem = (
                    f"got the split '{split}', expected '{self._splits[image]}' as before for {escape(self.key(image))}"
                )
                raise LabelFileError(f"{self.place}, {_at(where)}", problem, "give each image one split")
        if type(number) is int and 0 <= number < 2**63:
            self._numbers.extend([-1] * (image + 1 - len(self._numbers)))
            self._numbers[image] = number if self._numbers[image] < 0 else self._numbers[image]
        if size is not None:
            before = self.objects.size(image)
            self.objects.set_size(image, *size)
            if before is not None and self.objects.size(image) != before:
                expected = f"{before[0]} x {before[1]} as before"
                problem = f"got {size[0]} x {size[1]} pixels for {escape(self.key(image))}, expected {expected}"
                raise LabelFileError(f"{self.place}, {_at(where)}", problem, "correct one of the two")

    def object(self, image: int, number: int, box: Sequence[Any] | None, label: Any = None, **known: Any) -> None:
        """Add one object of an image, as `ObjectGather.add` does, except that the class may be any value.

        An object that breaks a rule is listed with the code of that rule.
        """
        try:
            text = label if label is None or isinstance(label, str) else class_text(label)
            self.objects.add(image, number, box, text, **known)
        except BadAnnotationError as error:
            self.leave_out(image, error.code, f"{self.objects.what} {number}: {error.reason}")

    def take_rest(self, what: str) -> None:
        """Add the images that no annotation names, as images without objects; list unusable images as rejected.

        `what`: text of the note that counts these images.
        """
        if next(self._missing(), None) is not None:
            self.settle()  # names may be ids; this must be known before other names are matched
        rest = Names(what)
        for index, key in enumerate(self.listing):
            if index not in self._by_file and names_image(key):
                self.file(index)
                rest.add(key)
        for skipped in self.listing.skipped:
            if names_image(skipped.key) and self.listing.choice.wants(skipped.key):
                self.ledger.reject(skipped.key, RejectCode(skipped.code), skipped.reason)
        self.ledger.notes += rest.note

    def caption(self, image: int, text: Any, what: str = "caption") -> None:
        """Add a caption of an image; a caption that is empty or not text is listed as left out (E_LINE)."""
        try:
            encoded = text.strip().encode()
        except (AttributeError, UnicodeEncodeError):
            encoded = b""
        if not encoded:
            self.leave_out(image, AnnotationCode.LINE, f"{what}: it is empty or not UTF-8")
            return
        self._captions.add(encoded)
        self._captioned.append(image)

    def label(self, image: int, *values: Any) -> None:
        """Set the class or classes of an image, by name or number; stored as sets unless every image has exactly one.

        An image with a value that is not a class is rejected (E_NO_LABEL), and so is an image without a class if other
        images have one.
        """
        try:
            texts = [class_text(value) for value in values]
            if not all(texts) or -1 in values:
                raise BadAnnotationError(AnnotationCode.CATEGORY, f"its class is {'-1' if all(texts) else 'empty'}")
        except BadAnnotationError as error:
            self._unlabelled[image] = f"{self._place(image)}no label: {error.reason}"
        else:
            self._classes[image] = list(dict.fromkeys(texts))

    def leave_out(self, image: int | str, code: AnnotationCode, reason: str) -> None:
        """List an annotation as left out.

        `image`: the index or name of its image. With the index of an image that is not selected, nothing is listed.
        """
        self._left.append((image, code, reason))

    def reject(self, image: int | str, code: RejectCode, reason: str) -> None:
        """List an image, given by index or name, as rejected, and leave it out."""
        if isinstance(image, int):
            self._rejected.add(image)
        key = self.key(image) if isinstance(image, int) else name_bytes(image)
        self.ledger.reject(key, code, reason)

    def unannotated(self, image: int, why: str) -> None:
        """Leave out an image that nobody has annotated, unless something has objects or classes for it after all.

        It is no example of an image without objects. `why`: what the source says of it, such as "skipped". Only for
        formats that tell such images from images that are annotated as empty.
        """
        self._unannotated.setdefault(image, why)

    def unread(self, what: str, entry: Mapping[str, Any], known: Collection[str | None]) -> None:
        """Count the values of an entry under keys that are not `known`, for the report.

        `what`: the word for such entries. `known`: the keys that the reader reads, or ignores for a reason. Values that
        state nothing do not count: null, false, "", and lists and objects of such values.
        """
        for key in () if entry.keys() <= known else entry:  # type: ignore[operator]
            if key not in known and key != self.options.group_column and _states(entry[key]):
                self._unread.setdefault(what, Counter())[key] += 1

    def note(self, sentence: str) -> None:
        """Add a sentence to the report."""
        self.ledger.notes.append(sentence)

    # --- facts about an image

    def key(self, image: int) -> bytes:
        """Return the relative path of an image, even if the image does not exist."""
        file = self._files[image]
        return file.key if isinstance(file, Skipped) else self.listing.key(file)

    def _place(self, image: int) -> str:
        """The place where an image is first named, to begin a message with; "" if unknown."""
        return f"{_at(self._where[image])}: " if self._where[image] != "" else ""

    def is_usable(self, image: int) -> bool:
        """Return whether the image is an existing file that was not rejected."""
        return isinstance(self._files[image], int) and image not in self._rejected

    def path(self, image: int) -> bytes | None:
        """Return the path of the image file; None if it does not exist or `settle` has not found it yet."""
        file = self._files[image]
        return self.listing.file(file).path if isinstance(file, int) else None

    def __len__(self) -> int:
        return len(self._files)

    # --- the source

    def source(
        self, *, described: str = "", rasters: Callable[[np.ndarray], Rasters] | Rasters | None = None
    ) -> ColumnarSource:
        """Create the source: the images that exist, sorted by path, each with its annotations.

        `rasters`: the masks, or a function that computes them from the position of each image in the source, int64
        [images]; the position is -1 if the source does not contain the image. Raises LabelFileError if no image exists.
        """
        self.settle()
        self._drop_annotated()
        if self._wants("classes"):
            self._reject_unlabelled()
        places, taken = self._taken()
        listing = self.listing.take(taken)
        rows = Rows(self.place, self.options, self.ledger)
        names, ids = self.stated or (None, ())
        if self._classes and self._wants("classes"):
            called, own = self.label_classes or (names, ())
            integers = "labels" if called is None else "names"
            known = KnownClasses(place=self.place, names=called, ids=own, integers=integers, refuse=self._refuse_label)
            rows.labels.append(labels := Labels("set" if self.sets else "one", known))
            for texts in self._of_places(self._classes, places, len(taken), ()):
                labels.add(texts)
        self._add_columns(rows.columns, places, len(taken))
        if self.boxed and self._wants(*(kind.word for kind in OF_OBJECTS)):
            rows.objects = self.objects
        rows.of_objects = KnownClasses(place=self.place, names=names, ids=ids, refuse=self._refuse_label)
        rows.splits = self._split_column(places, listing)
        self._note_others(taken)
        self._note_bare(places)
        for what, keys in self._unread.items():
            shown = listed([f"{escape(key)} ({count:,})" for key, count in keys.most_common()])
            self.note(f"not read: {shown} of {what}")
        if not (len(self.objects) or self._classes or len(self._captions) or rasters or self._left):
            self.note(f"no annotation in the source: {number(len(taken), 'image')} stored without any")
        for image, code, reason in self._left:
            self._list_left_out(image, code, reason)
        return rows.source(
            listing,
            ListedFiles(listing),
            places=places,
            ids=self._ids(places, len(taken)),
            rasters=rasters(places) if callable(rasters) else rasters,
            leave_out=self._list_left_out,
            described=described or None,
        )

    def _list_left_out(self, image: int | str, code: AnnotationCode, reason: str) -> None:
        if isinstance(image, str):
            self.ledger.leave_out(name_bytes(image), code, reason)
        elif self._is_wanted(image):
            file = self._files[image]
            if code is AnnotationCode.IMAGE and isinstance(file, Skipped) and file.code == AnnotationCode.ORPHAN:
                code, reason = AnnotationCode.ORPHAN, f"{reason.partition(': ')[0]}: {file.reason}"
            self.ledger.leave_out(self.key(image), code, reason)

    def _refuse_label(self, error: BadLabelError) -> LabelFileError:
        return LabelFileError(self.place, error.problem, error.remedy)

    def _reject_unlabelled(self) -> None:
        """Find whether each image has exactly one class; reject those without."""
        self.sets |= any(len(texts) != 1 for image, texts in self._classes.items() if self.is_usable(image))
        labelled = {self._files[image] for image in self._classes}
        others = bool(labelled) and not self.sets
        for image, file in enumerate(self._files):
            if self.is_usable(image) and file not in labelled and (others or image in self._unlabelled):
                why = self._unannotated.pop(image, "")  # not left out: as in every format, an image needs its class
                why = f"it has no class: {why}" if why else "it has no class, but others have one"
                self.reject(image, RejectCode.NO_LABEL, self._unlabelled.get(image, why))

    def _wants(self, *tasks: str) -> bool:
        return not self.options.tasks or any(task in self.options.tasks for task in tasks)

    def _is_wanted(self, image: int) -> bool:
        file = self._files[image]
        return isinstance(file, int) or file.code == AnnotationCode.ORPHAN or self.listing.choice.wants(file.key)

    def settle(self) -> None:
        """Match names to files, once all images are named. Names that match no file are treated as ids.

        `source` calls this method. Raises LabelFileError if an id matches two files, or if no image exists.
        """
        missing = list(self._missing())
        try:
            found, notes = self.lookup.find_rest((file for _, file in missing), self._by_file)
        except AmbiguousIdError as error:
            remedy = f"give the folder of these images: {argument('images', typed='DIR')}"
            raise LabelFileError(self.place, error.problem, remedy) from None
        self._take(missing, found)
        self.ledger.notes += notes
        if not any(isinstance(file, int) for file in self._files):
            first = next(iter(missing), None)
            where = f" ({_at(self._where[first[0]])})" if first and self._where[first[0]] != "" else ""
            why = f": the first{where} is '{escape(first[1].key)}': {first[1].reason}" if first else ""
            problem = f"none of its {number(len(self._files), 'image')} is below {escape(self.listing.root)}{why}"
            remedy = f"give the folder that names are relative to: {argument('images', typed='DIR')}"
            given = self.options.images is not None
            raise LabelFileError(
                self.place, problem, "check that it is the folder of these images" if given else remedy
            )

    def _take(self, missing: Iterable[tuple[int, Skipped]], found: Mapping[bytes, int]) -> None:
        """Give missing images the files that were found for their names."""
        for image, name in missing:
            if (file := found.get(name.key)) is None:
                continue
            self._files[image] = file
            if (before := self._by_file.setdefault(file, image)) != image and {before, image} <= self._once:
                self._refuse_twice(before, os.fsdecode(name.key), self._where[image])

    def _missing(self) -> Iterator[tuple[int, Skipped]]:
        """The images that are named and not there, and why."""
        for image, file in enumerate(self._files):
            if isinstance(file, Skipped) and file.code != AnnotationCode.ORPHAN:
                yield image, file

    def _taken(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 [images]: the place of each image in the source, -1 without; int64 [n]: the files, sorted."""
        unwanted = Names("images that include and exclude leave out")
        self._note_unannotated()
        out = self._rejected | self._unannotated.keys()
        files = array("q")
        for image, file in enumerate(self._files):
            files.append(-1 if isinstance(file, Skipped) or image in out else file)
        for image, file in self._missing():
            if image in out:
                continue
            if self._is_wanted(image):
                self.ledger.reject(file.key, RejectCode(file.code), f"{self._place(image)}{file.reason}")
            else:
                unwanted.add(file.key)
        self.ledger.notes += unwanted.note
        of_image = np.frombuffer(files, np.int64) if len(files) else np.zeros(0, np.int64)
        taken = np.unique(of_image[of_image >= 0])
        if not len(taken):
            if len(self._unannotated) == len(self._files):
                problem = f"nobody has annotated any of its {number(len(self._files), 'image')}"
                raise LabelFileError(self.place, problem, "annotate some of them, and export again")
            first = next(iter(self.ledger.rejected.values()), None)
            why = f"; the first: {escape(first.key)}: {first.reason}" if first else ""
            raise LabelFileError(self.place, f"none of its images can be used{why}", "correct it")
        places = np.searchsorted(taken, of_image)
        return np.where(of_image >= 0, places, -1), taken

    def _drop_annotated(self) -> None:
        """Forget that nobody has annotated an image if it has objects, classes or something that is left out."""
        if self._unannotated:
            named = {image for image, *_ in self._left}
            for image in self.objects.images() | self._classes.keys() | self._unlabelled.keys() | named:
                self._unannotated.pop(image, None)  # type: ignore[arg-type]  # names of files are none of its keys

    def _note_unannotated(self) -> None:
        """Note the images that nobody has annotated, with their number for each reason."""
        reasons = self._unannotated.values()
        left = {why: Names(f"images left out, because nobody has annotated them ({why})") for why in reasons}
        for image, why in self._unannotated.items():
            if self._is_wanted(image):
                left[why].add(self.key(image))
        self.ledger.notes += [note for names in left.values() for note in names.note]

    def _of_places(self, values: Mapping[int, Any], places: np.ndarray, count: int, default: Any) -> list[Any]:
        """Return a value for each sample; if several images are one file, the value of the first."""
        found = [default] * count
        for image, value in reversed(list(values.items())):
            if places[image] >= 0:
                found[places[image]] = value
        return found

    def _add_columns(self, columns: list[ListedColumn], places: np.ndarray, count: int) -> None:
        """Captions of whole images, and the field for groups."""
        if len(self._captions) and self._wants("captions"):
            of_image = places[as_array(self._captioned)]
            for n in np.flatnonzero(of_image < 0).tolist():
                self.leave_out(self._captioned[n], AnnotationCode.IMAGE, "caption: its image was left out")
            kept = np.flatnonzero(of_image >= 0)
            numbers = kept[np.argsort(of_image[kept], kind="stable")]
            ends = np.cumsum(np.bincount(of_image[kept] + 1, minlength=count + 1), dtype=np.int64)
            columns.append(TextColumn(CAPTION, self._captions, numbers, ends))
            if without := count - int(np.count_nonzero(np.diff(ends))):
                self.note(f"images without a caption: {without:,}")
        if self._field is not None:
            columns.append(self._field.column(places, count))

    def _split_column(self, places: np.ndarray, listing: Listing) -> Splits | None:
        """Return the split of each image: from the annotations, else from folders named like splits."""
        if not self._splits:
            splits = splits_by_folder(self.listing, listing)
        else:
            splits = self._of_places(self._splits, places, len(listing), None)
        return (
            None if all(split is None for split in splits) else replace(Splits.of(splits), unassigned=self.unassigned)
        )

    def _note_bare(self, places: np.ndarray) -> None:
        """Note the images without objects, if the format does not tell them from images that nobody has annotated."""
        bare = Names("images without objects, or that nobody has annotated: the format does not tell them apart")
        if self.tells_unannotated or not len(self.objects):
            return
        known = self.objects.images() | self._classes.keys()
        for image in np.flatnonzero(places >= 0).tolist():
            if image not in known:
                bare.add(self.key(image))
        self.ledger.notes += bare.note

    def _ids(self, places: np.ndarray, count: int) -> np.ndarray:
        """int64 [n]: each image's own number, -1 without."""
        numbers = as_array(self._numbers)
        found, images = np.full(count, -1, np.int64), np.flatnonzero(numbers >= 0)[::-1]  # the first counts
        images = images[places[images] >= 0]
        found[places[images]] = numbers[images]
        return found

    def _note_others(self, taken: np.ndarray) -> None:
        """Note the images that exist but were not taken."""
        unnamed = Names(self.unnamed)
        known = np.zeros(len(self.listing), bool)
        known[taken] = known[[file for file in self._files if isinstance(file, int)]] = True
        for i, key in enumerate(self.listing):
            if not known[i] and names_image(key):
                unnamed.add(key)
        self.ledger.notes += unnamed.note


def said_unannotated(fields: Mapping[str, Any]) -> str:
    """Return what the fields of an image say if they say that nobody has annotated it, such as "skipped"; else ""."""
    for name, value in fields.items():
        meant = _MEANS_OPEN.get(name.casefold())
        if meant is not None and isinstance(value, bool | str) and str(value).casefold() in meant:
            return f"{name}: {str(value).casefold()}"
    return ""


def _states(value: Any) -> bool:
    """Whether a value of a JSON file states anything."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
    return any(one is not None and one is not False and one not in ("", [], {}) for one in values)


def _at(where: str | int) -> str:
    """A line or entry in a message."""
    return f"entry {where}" if isinstance(where, int) else where
