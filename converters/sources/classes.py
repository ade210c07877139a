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

from shardfeed.converters.sources.guard import budget
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


def read_class_list(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names in a text file, one a line in label order: UTF-8, with or without BOM, LF or CRLF.

    Raises LabelFileError with line and column for a blank line, a name given twice, or text that is not UTF-8.
    """
    place = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise LabelFileError(place, f"cannot read the class list: {error.strerror}", "check the path") from None
    lines = budget().lines(data.removeprefix(b"\xef\xbb\xbf"), place)
    names: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            name = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode("utf-8")) + 1
            raise LabelFileError(f"{place}:{number}:{column}", "not UTF-8", "save the list as UTF-8") from None
        problem = _name_problem(name)
        same = unicodedata.normalize("NFC", name)
        if same in seen:
            problem = f"'{escape(name)}' is already on line {seen[same]}"
        if problem:
            raise LabelFileError(f"{place}:{number}:1", problem, "write each class name on one line")
        seen[same] = number
        names.append(name)
    if not names:
        raise LabelFileError(f"{place}:1:1", "got no class", "write each class name on one line")
    return tuple(names)


def class_list(classes: ClassList | None) -> tuple[str, ...] | None:
    """The class list that was given as names or as the path of a file, checked; None when none was given."""
    if classes is None:
        return None
    if isinstance(classes, str | os.PathLike):
        return read_class_list(classes)
    names = tuple(classes)
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        problem = _name_problem(name) if isinstance(name, str) else f"got {type(name).__name__}, expected str"
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
        problem = _name_problem(name)
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
    for value in values:
        if not 0 <= int(value) < len(given):
            problem = f"got the label {value}, expected 0 to {len(given) - 1}, an index into the class list"
            raise BadLabelError(value, problem, "correct the label, or list every class")
    return Numbering(given, {value: int(value) for value in values})


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


def _name_problem(name: str) -> str:
    if is_plain(name):
        return ""
    return f"got the class name '{escape(name)}', expected UTF-8 text without control characters"
