"""What readers of objects need while they read: an account of what is left out, class names, and numbers."""

import functools
import math
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import Account, AnnotationCode, BadAnnotationError, LeftOut
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.classes import ClassList, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.listed_source import Splits
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.source import Findings, Skipped
from shardfeed.errors import UsageError, escape
from shardfeed.naming import check_split_name
from shardfeed.schema import is_plain
from shardfeed.text import counted, number

_WHOLE = 2**53  # from there on not every integer is a float, and no class is called so
_ABSENT = frozenset(("", "na", "n/a", "nan", "null", "none"))  # as spreadsheets, pandas and databases write it


class Names:
    """Names for a sentence of the report: how many there were, and the first few."""

    def __init__(self, what: str) -> None:
        self.what, self.count = what, 0
        self._first: list[bytes | str] = []

    def add(self, name: bytes | str) -> None:
        """One more."""
        self.count += 1
        if len(self._first) < 4:  # three are shown, and that there are more
            self._first.append(name)

    @property
    def note(self) -> list[str]:
        """The sentence; none where there is no name."""
        return [counted(self.what, self._first, self.count)] if self.count else []


class Ledger:
    """What a reader cannot use: annotations with a code, images that it cannot offer; and sentences for the report."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self.rejected: dict[bytes, Skipped] = {}
        self.notes: list[str] = []

    def leave_out(self, key: bytes, code: AnnotationCode, reason: str) -> None:
        """An annotation of the image `key`, or of the file of that name."""
        self.left_out.append(LeftOut(key, code.value, reason))

    def reject(self, key: bytes, code: RejectCode, reason: str) -> None:
        """An image."""
        self.rejected.setdefault(key, Skipped(key, code.value, reason))

    def findings(self, folder: bytes | None = None) -> Findings:
        """All of it; `folder`: one of which the source takes whatever lies in it."""
        account = Account(read=len(self.left_out), left_out=tuple(self.left_out))
        return Findings([self.rejected[key] for key in sorted(self.rejected)], self.notes, folder, account)


class ClassNumbers:
    """Class names of objects and their labels, once all that the annotations say is known.

    `texts`: each different class that an annotation names. Without a list that is `given`, names are sorted by their
    bytes, or, where all are integers, by their value; `ids` are those integers where they are not the labels. With one,
    an integer is a place in it where no class in it is called by an integer.
    """

    def __init__(self, texts: Collection[str], given: ClassList | None) -> None:
        self._labels: dict[str, int] = {}
        self.ids: tuple[int, ...] = ()
        self.notes: tuple[str, ...] = ()
        texts = {text for text in texts if is_plain(text)}
        names = class_list(given)
        if names is not None:
            self.names = names
            same = {unicodedata.normalize("NFC", name): i for i, name in enumerate(names)}
            places = not any(map(is_integer, names))
            for text in texts:
                if (name := unicodedata.normalize("NFC", text)) in same:
                    self._labels[text] = same[name]
                elif places and is_integer(text) and 0 <= int(text) < len(names):
                    self._labels[text] = int(text)
        elif texts and all(is_integer(text) and abs(int(text)) < _WHOLE for text in texts):
            numbers = sorted({int(text) for text in texts})
            self.names = tuple(map(str, numbers))
            self.ids = () if numbers == list(range(len(numbers))) else tuple(numbers)
            places_of = {value: label for label, value in enumerate(numbers)}
            self._labels = {text: places_of[int(text)] for text in texts}
        else:
            numbering = number_classes(texts, integers_are_labels=False)
            self.names, self._labels, self.notes = numbering.names, numbering.labels, numbering.notes

    def label(self, text: str) -> int:
        """The label of a class. Raises BadAnnotationError, E_CATEGORY, where there is none."""
        label = self._labels.get(text)
        if label is None and not text:
            raise BadAnnotationError(AnnotationCode.CATEGORY, "it names no class")
        if label is None:
            known = "of the class list" if is_plain(text) else "that is plain text"
            raise BadAnnotationError(AnnotationCode.CATEGORY, f"got the class '{escape(text)}', expected one {known}")
        return label


def is_absent(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().casefold() in _ABSENT


def read_number(text: str | None, what: str) -> float:
    """The number that a cell or an element holds; NaN and infinity are for the caller to judge.

    Raises BadAnnotationError: E_BOX_EMPTY where there is none, E_VALUE where it is something else.
    """
    try:
        if text and "_" not in text and text.isascii():  # Python reads both as numbers, nobody writes them so
            value = float(text)
            if value == value:
                return value
    except ValueError:
        pass
    if text is None or is_absent(text):
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"no {what}")
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        return float(text)  # NaN, with a sign
    except ValueError:
        raise BadAnnotationError(AnnotationCode.VALUE, f"got {what} '{escape(text[:40])}', expected a number") from None


@functools.lru_cache(4096)  # few images differ in size
def _number_of_pixels(text: str | None) -> int | None:
    """A side that an image may have; None for what is none."""
    try:
        side = read_number(text, "size")
    except BadAnnotationError:
        return None
    return int(side) if math.isfinite(side) and side >= 1 and side == int(side) else None


def read_size(width: str | None, height: str | None) -> tuple[int, int] | None:
    """(width, height) of an image, pixels; None where they do not say it: empty, 0, no whole numbers."""
    wide, high = _number_of_pixels(width), _number_of_pixels(height)
    return None if wide is None or high is None else (wide, high)


def list_wanted(root: str, options: AnnotationOptions) -> Listing:
    """The files below `root` that the options want. Raises UsageError where there is none."""
    files = list_files(root, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
    if not len(files):
        raise nothing_listed(files)
    return files


def check_tasks(place: object, options: AnnotationOptions, possible: Iterable[Task]) -> None:
    """Raises UsageError where something else is asked of a format than what it has, or only classes."""
    possible = list(possible)
    others = sorted(options.tasks.difference(possible, ("classes",)))
    if others or options.tasks == {"classes"}:
        problem = f"got the task '{(others or ['classes'])[0]}', expected {' or '.join(possible)}, which it has"
        raise UsageError(place, problem, "ask for those, or for none in particular")


def in_numbers(images: int, table: ObjectTable | None) -> str:
    """How much there is, for the user: `4 images, 6 objects of 3 classes`."""
    said = number(images, "image")
    if table is not None:
        said += f", {number(len(table), 'object')}"
    if table is not None and table.class_names is not None:
        said += f" of {number(len(table.class_names), 'class', 'classes')}"
    return said


def splits_of(said: Sequence[str | None], options: AnnotationOptions) -> Splits | None:
    """The split of each sample, from what the annotations say of it: where they say none, that of the options."""
    wanted = None if options.split is None else check_split_name(options.split)
    if all(split is None for split in said):
        return None if wanted is None else Splits.of([wanted] * len(said))
    return Splits.of(said)
