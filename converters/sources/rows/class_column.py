"""Classes of samples, from the file, from names beside it, and from the user's options.

Some formats count classes from 0, others from 1 with 0 for the background. A wrong guess shifts every label by one, so
numbers are shifted only if something names their classes, and refused otherwise.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, ClassNames, class_list, is_integer, number_classes
from shardfeed.converters.sources.files.class_names import read_label_map
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.columns import ClassColumn, Codes
from shardfeed.converters.sources.rows.evidence import check_classes
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import is_plain
from shardfeed.text import counted, some

_MOST_CLASSES = 1 << 20  # distinct numbers for which class names are kept
_BACKGROUND = frozenset({"background", "none_of_the_above", "__background__"})  # item 0 of a label map, if it has one


@dataclass(frozen=True)
class NamesFile:
    """Class names beside the files: `file`, for messages; number -> name; whether it is a label map."""

    file: str
    names: Mapping[int, str]
    is_map: bool = False


class ClassTexts:
    """The text for each class number, from most of the samples that have one."""

    def __init__(self) -> None:
        self._known: Counter[tuple[Any, Any]] = Counter()

    def add(self, labels: Sequence[Any], texts: Any) -> None:
        """Count the texts of a sample, if there are as many as labels."""
        texts = texts if isinstance(texts, list) else [texts]
        if len(texts) == len(labels) and len(self._known) < _MOST_CLASSES:
            self._known.update(zip(labels, texts, strict=True))

    def agreed(self, column: str, notes: list[str]) -> dict[int, str] | None:
        """Return the text of each number, and a note on numbers with several texts."""
        agreed: dict[int, str] = {}
        odd: list[str] = []
        for (label, text), _ in self._known.most_common():
            if isinstance(text, str) and text and agreed.setdefault(int(label), text) != text:
                odd.append(f"{int(label)}: {text!r}, not {agreed[int(label)]!r}")
        if odd:
            notes.append(counted(f"texts in {column} that differ from those of most samples", odd, len(odd)))
        return agreed or None


@dataclass(frozen=True, eq=False)
class NumberedClasses:
    """`names` in label order; `numbers`: int64 [K], sorted: the source's number of each; `notes` for the report."""

    names: tuple[str, ...]
    numbers: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers, if they differ from the labels; else empty."""
        found = tuple(self.numbers.tolist())
        return () if found == tuple(range(len(found))) else found

    def labels(self, numbers: np.ndarray) -> np.ndarray:
        """The labels, int64, of numbers that all have one."""
        return np.searchsorted(self.numbers, numbers).astype(np.int64)


def class_column(
    labels_given: Codes,
    options: ColumnOptions,
    place: str,
    *,
    stated: Sequence[str] | None = None,
    texts: Mapping[int, str] | None = None,
    beside: NamesFile | None = None,
    prefix: str = "image/class",
) -> tuple[ClassColumn, tuple[str, ...]]:
    """The classes of all samples, one each or a set of them, and notes for the report.

    Args:
        labels_given: labels, as decimal digits or names.
        options: class names, label offset and label map of the user.
        place: file and column, for errors.
        stated: the class names that the format has, in label order.
        texts: the one text that stands beside each number in the samples.
        beside: names in a file beside the samples.
        prefix: of the two features.

    Raises UsageError for an invalid label, and if the meaning of numbers is unknown.
    """
    values = list(labels_given.values)
    codes = labels_given.codes
    sets = labels_given.ends is not None
    if values and all(map(is_integer, values)):
        numbers = np.array([int(text) for text in values], np.int64)
        found = sorted(set(numbers.tolist()))
        classes = number_labels(found, options, place, stated=stated, texts=texts, beside=beside)
        labels = classes.labels(numbers)
        return ClassColumn(prefix, classes.names, labels[codes], labels_given.ends, sets, classes.ids), classes.notes
    for name in ("label_offset", "label_map"):
        if getattr(options, name):
            first = next((text for text in values if not is_integer(text)), "")
            problem = f"{argument(name)} is for numbers, but labels are texts, such as '{escape(first[:40])}'"
            raise UsageError(place, problem, "leave it out")
    given = class_list(options.class_names) or (None if stated is None else tuple(stated))
    try:
        if given is None and not sets:
            column, asked = _key(place).partition(" ")[2] or _key(place), "label" in options.columns
            counts = dict(zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True))
            remedy = f"give {naming('label', column)} for classes, {naming('text', column)} for texts, or "
            check_classes(column, counts, "user" if asked else "name", remedy=remedy + argument("unlabelled"))
        numbering = number_classes(values, given)
    except BadLabelError as error:
        raise UsageError(place, error.problem, error.remedy) from None
    labels = np.array([numbering.labels[text] for text in values], np.int64)
    return ClassColumn(prefix, numbering.names, labels[codes], labels_given.ends, sets), numbering.notes


def number_labels(
    found: Sequence[int],
    options: ColumnOptions,
    place: str,
    *,
    stated: Sequence[str] | None = None,
    texts: Mapping[int, str] | None = None,
    beside: NamesFile | None = None,
) -> NumberedClasses:
    """The classes of labels with the distinct numbers `found`, sorted, at least one; as `class_column`."""
    given = class_list(options.class_names)
    if options.label_map is not None:
        if given is not None or options.label_offset:
            other = argument("class_names") if given is not None else argument("label_offset")
            raise UsageError("label_map", f"names and numbers the classes, and so does {other}", "leave one out")
        names = read_label_map(options.label_map)
        classes = _by_map(found, names)
        if classes is None:
            lacking = some(str(number) for number in found if number not in names)
            problem = f"has the numbers {lacking}, which {escape(options.label_map)} does not name"
            raise UsageError(place, problem, "complete the label map, or give the original one")
        return _checked_against_texts(classes, texts, place)
    if stated is not None:
        if given is not None and len(given) != len(stated):
            problem = f"got {len(given)} names, but {escape(place)} has {len(stated)} classes ({some(stated)})"
            raise UsageError("class_names", problem, "name each of them")
        given = given or tuple(stated)
    if given is not None:
        first = options.label_offset or (given.first if isinstance(given, ClassNames) else 0)
        return _checked_against_texts(_by_list(found, given, first, place), texts, place)
    notes: list[str] = []
    if beside is not None:
        classes = _by_map(found, beside.names) if beside.is_map else _in_order(found, beside.names, options)
        if classes is not None:
            note = f"class names of {_key(place)}: taken from {escape(beside.file)}"
            return _checked_against_texts(NumberedClasses(classes.names, classes.numbers, (note,)), texts, place)
        notes.append(f"{escape(beside.file)} does not name all classes of {_key(place)}, so it is not used")
    return _by_themselves(found, texts, options.label_offset, place, notes)


def _by_map(found: Sequence[int], names: Mapping[int, str]) -> NumberedClasses | None:
    """The classes of a label map, sorted by number; None if a number found is not in it.

    Number 0 is not a class if it is named background and not used.
    """
    known = dict(sorted(names.items()))
    if known.get(0, "").lower() in _BACKGROUND and 0 not in found:
        del known[0]
    if not set(found) <= known.keys():
        return None
    return NumberedClasses(tuple(known.values()), np.array(list(known), np.int64))


def _in_order(found: Sequence[int], names: Mapping[int, str], options: ColumnOptions) -> NumberedClasses | None:
    """The classes of a file that names all classes in label order; None if it does not, or lacks one."""
    if sorted(names) != list(range(len(names))) or len(set(names.values())) < len(names):
        return None
    first = options.label_offset
    if not first <= found[0] <= found[-1] < first + len(names):
        return None
    return NumberedClasses(tuple(names[i] for i in range(len(names))), np.arange(first, first + len(names)))


def _by_list(found: Sequence[int], names: tuple[str, ...], first: int, place: str) -> NumberedClasses:
    """Return the classes of the given list. Raises UsageError if a number is outside the list."""
    low, high = found[0], found[-1]
    if low < first or high >= first + len(names):
        problem = f"has the numbers {low} to {high}, but the {len(names)} class names are those of {first} to "
        problem += f"{first + len(names) - 1}"
        counted_from_one = first == 0 and low >= 1 and high <= len(names)
        offset = f"if the first is number 1, give {argument('label_offset', 1)}"
        raise UsageError(
            place, problem, offset if counted_from_one else "name every class, in the order of the numbers"
        )
    return NumberedClasses(names, np.arange(first, first + len(names)))


def _checked_against_texts(classes: NumberedClasses, texts: Mapping[int, str] | None, place: str) -> NumberedClasses:
    """Return the same classes. Raises UsageError if a number's text is the name of another class."""
    labels = {name: label for label, name in enumerate(classes.names)}
    numbers = classes.numbers.tolist()
    for number, text in (texts or {}).items():
        label = labels.get(text)
        if label is not None and numbers[label] != number:
            problem = f"has the text '{escape(text)}' for {number}, but the class names have {numbers[label]}"
            moved = {number - numbers[labels[text]] for number, text in (texts or {}).items() if text in labels}
            by_one = moved == {1} and int(numbers[0]) == 0
            raise UsageError(place, problem, f"give {argument('label_offset', 1)}" if by_one else "correct the names")
    return classes


def _by_themselves(
    found: Sequence[int], texts: Mapping[int, str] | None, first: int, place: str, notes: Sequence[str]
) -> NumberedClasses:
    """Numbers that nothing but the records names: all from `first` on, without a gap. Raises UsageError."""
    low, high = found[0], found[-1]
    named = texts is not None and len(set(texts.values())) == len(texts) and all(map(is_plain, texts.values()))
    notes = [*notes]
    if high - low + 1 == len(found):
        if low == 1 and first == 0 and named:
            first = 1  # each has its name beside it, which moves with it
            notes.append(
                f"{_key(place)}: numbers 1 to {high} are the labels 0 to {high - 1}, from the texts next to them"
            )
        if low == first:
            names = tuple((texts or {})[number] if named else str(number) for number in found)
            return NumberedClasses(names, np.array(found, np.int64), tuple(notes))
    listed = (
        f"name all classes: {argument('class_names', typed='FILE')}, or {argument('label_map', typed='FILE.pbtxt')}"
    )
    got = f"has {len(found)} different numbers from {low} to {high}"
    if low == 1 and first == 0:
        whole = " (0 then means background)" if high == len(found) else ""
        remedy = f"if 1 is the first class, give {argument('label_offset', 1)}{whole}; {listed}"
        raise UsageError(place, f"{got}, without names: labels are 0 to {len(found) - 1}", remedy)
    if low < first:
        remedy = f"give the number of the first class: {argument('label_offset', low)}" if low >= 0 else listed
        raise UsageError(place, f"{got}: expected {first} or more", remedy)
    if low > first and high - low + 1 == len(found):
        listed = f"give the number of the first class: {argument('label_offset', low)}; or {listed}"
    raise UsageError(place, f"{got}, with gaps after {first}: a missing number may be a class", listed)


def _key(place: str) -> str:
    return place.rpartition(", ")[2]
