"""Class names and label numbers: the mapping from text, folders or integers to 0-based labels.

Names are sorted by their UTF-8 bytes unless a class list orders them. Integers that are exactly 0 to K-1 are kept;
other integers are refused, because renumbering them would shift labels silently.
"""

import difflib
import os
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.files.class_names import name_problem, read_named_classes
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import is_plain
from shardfeed.text import counted, some

ClassList = Sequence[str] | str | os.PathLike[str]

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}\Z")  # int() refuses more digits


class BadLabelError(Exception):
    """Raised for a `value` that is not a valid label; the caller adds the location.

    `problem` and `remedy` may contain results of `shardfeed.errors.argument`.
    """

    def __init__(self, value: str, problem: str, remedy: str) -> None:
        super().__init__(value, problem, remedy)
        self.value, self.problem, self.remedy = value, problem, remedy


@dataclass(frozen=True)
class Numbering:
    """Class `names` in label order, the label of each value that was numbered, and `notes` for the report."""

    names: tuple[str, ...]
    labels: dict[str, int]
    notes: tuple[str, ...] = ()


def is_integer(text: str) -> bool:
    """Whether `text` is decimal digits with or without a sign."""
    return _INTEGER.match(text) is not None


def class_text(name: bytes) -> str:
    r"""A folder's name as a class name: its UTF-8 text; escaped if it is not text or breaks a line (`caf\xe9`)."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in name)
    return text if is_plain(text) else escape(text)


class ClassNames(tuple[str, ...]):
    """Names in label order; `first`: the number of the first one in the file that they are from, 0 or 1."""

    first = 0


def read_class_list(path: str | os.PathLike[str], *, from_zero: bool = True) -> ClassNames:
    """The class names in a file, in label order: one a line, or in another form of files/class_names.py.

    Raises LabelFileError for a file in no such form, a name given twice, numbers with gaps, and, if `from_zero`,
    numbers that begin with 1.
    """
    named = read_named_classes(path)
    first, place = min(named), os.fspath(path)
    lacking = next((number for number in range(min(first, 1), first + len(named)) if number not in named), None)
    if lacking is not None:
        problem = f"its classes have the numbers {some(map(str, sorted(named)))}, without {lacking}"
        raise LabelFileError(place, problem, "name every class, with numbers from 0 or from 1 on")
    if first and from_zero:
        problem = "numbers its classes from 1, but here they count from 0"
        raise LabelFileError(place, problem, "number them from 0, or write one name per line")
    names = ClassNames(named[number] for number in sorted(named))
    names.first = first
    return names


def class_list(classes: ClassList | None, *, from_zero: bool = False) -> tuple[str, ...] | None:
    """The class list that was given as names or as the path of a file, checked; None when none was given.

    `from_zero`: whether a file that numbers its classes from 1 is refused, because something counts them from 0.
    """
    if classes is None or isinstance(classes, ClassNames):
        return classes
    if isinstance(classes, str | os.PathLike):
        return read_class_list(classes, from_zero=from_zero)
    names = tuple(classes)
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        problem = name_problem(name) if isinstance(name, str) else f"got {type(name).__name__}, expected str"
        same = unicodedata.normalize("NFC", name) if not problem else ""
        if same in seen:
            problem = f"{name!r} is already class {seen[same]}"
        if problem:
            raise UsageError(f"class_names[{i}]", problem, "give each class a unique name")
        seen[same] = i
    if not names:
        raise UsageError("class_names", "got no class", "leave it out, or name the classes")
    return names


def number_classes(
    values: Collection[str], given: tuple[str, ...] | None = None, *, integers_are_labels: bool = True
) -> Numbering:
    """Number the different label texts `values`.

    With a class list `given`, a value is the name of its class; where all values are integers and no name in the list
    is one, it is the class's number. Without a list, integers 0 to K-1 are kept and texts are sorted.
    `integers_are_labels`: whether other integers are refused (a label column) or are names like any other (folders).
    Raises BadLabelError for a value that is no label.
    """
    integers = bool(values) and all(map(is_integer, values))
    if given is not None:
        return _index_given(values, given) if integers and not any(map(is_integer, given)) else _find(values, given)
    if integers:
        numbers = {value: int(value) for value in values}
        top = max(numbers.values())
        if len(set(numbers.values())) == top + 1 and min(numbers.values()) == 0:
            return Numbering(tuple(str(i) for i in range(top + 1)), numbers)
        if integers_are_labels:
            raise _gap(numbers)
    return _sort(values, integers)


def _sort(values: Collection[str], integers: bool) -> Numbering:
    # Text that looks the same is the same class, whichever way an accent was typed or a file system stored it.
    same = {value: unicodedata.normalize("NFC", value) for value in values}
    for value, name in same.items():
        problem = name_problem(name)
        if problem:
            undecoded = any("\udc80" <= c <= "\udcff" for c in name)  # bytes of a file that is not in UTF-8
            encoding = argument("encoding", "latin-1")
            raise BadLabelError(
                value, problem, f"give {encoding}, or another encoding" if undecoded else "change the label"
            )
    names = tuple(sorted(set(same.values()), key=lambda name: name.encode("utf-8")))
    number = {name: i for i, name in enumerate(names)}
    notes = []
    if len(names) < len(same):
        twice = sorted(value for value, name in same.items() if value != name and name in same)
        notes.append(counted("class names that differ only in Unicode form, merged into one class", twice, len(twice)))
    folded: dict[str, str] = {}
    twins = [(folded[name.casefold()], name) for name in names if folded.setdefault(name.casefold(), name) != name]
    if twins:
        pairs = [f"{first} and {second}" for first, second in twins]
        notes.append(counted("classes that differ only in case", pairs, len(pairs)))
    if integers and len(names) > 1:
        notes.append(
            f"class names are integers but not 0 to {len(names) - 1}, so they are sorted as text: "
            f"label 0 is {names[0]}, label 1 is {names[1]}; --class-names (in Python class_names) sets another order"
        )
    return Numbering(names, {value: number[name] for value, name in same.items()}, tuple(notes))


def _find(values: Collection[str], given: tuple[str, ...]) -> Numbering:
    exact = {name: i for i, name in enumerate(given)}
    same = {unicodedata.normalize("NFC", name): i for i, name in enumerate(given)}
    labels = {}
    for value in values:
        label = exact.get(value, same.get(unicodedata.normalize("NFC", value)))
        if label is None:
            close = difflib.get_close_matches(value, given, 1)
            remedy = f"did you mean '{escape(close[0])}'?" if close else "add it to the list, or correct it"
            problem = f"got the class '{escape(value)}', expected one of the class list ({some(given)})"
            raise BadLabelError(value, problem, remedy)
        labels[value] = label
    return Numbering(given, labels)


def _index_given(values: Collection[str], given: tuple[str, ...]) -> Numbering:
    first = given.first if isinstance(given, ClassNames) else 0
    for value in values:
        if not 0 <= int(value) - first < len(given):
            last = first + len(given) - 1
            problem = f"got the label {value}, expected {first} to {last}, an index into the class list"
            raise BadLabelError(value, problem, "correct the label, or list every class")
    note = f"labels 1 to {len(given)} become 0 to {len(given) - 1}: the class list counts from 1"
    return Numbering(given, {value: int(value) - first for value in values}, (note,) if first else ())


def _gap(numbers: dict[str, int]) -> BadLabelError:
    """Build the error for integers that are not 0 to K-1, with the two ways to give their meaning."""
    value = min(numbers, key=lambda value: numbers[value])
    if numbers[value] < 0:
        return BadLabelError(value, f"got the label {value}, expected 0 or more", "correct the label")
    low, top = min(numbers.values()), max(numbers.values())
    have = set(numbers.values())
    if low:
        start = f"labels start at {low}, not at 0"
    else:
        gap = next(i for i in range(top) if i not in have)
        value = min((v for v in numbers if numbers[v] > gap), key=lambda value: numbers[value])
        start = f"label {gap} is missing"
    count = len(have)
    problem = f"got {count} integer labels from {low} to {top}, expected 0 to {count - 1}: {start}"
    names = argument("class_names", typed="FILE")
    if low == 1 and count == top:
        remedy = (
            f"give {names}: '1' to '{top}' makes label 1 the class 0; "
            f"{top + 1} names, with 'background' first, keep the numbers"
        )
    else:
        remedy = f"give {names}: {top + 1} names keep the numbers, the {count} integers as names renumber them"
    return BadLabelError(value, problem, remedy)
