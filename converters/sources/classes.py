"""Class names and label numbers: the one rule that maps texts, folders or integers to 0-based labels.

Names are sorted by their UTF-8 bytes unless a class list orders them. Some formats count classes from 0, others from 1
with 0 for the background. A wrong guess shifts every label by one, so integers that are not exactly 0 to K-1 are
refused unless something names their classes.
"""

import difflib
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

from shardfeed.converters.sources.files.listing import is_hidden
from shardfeed.converters.sources.files.text import encoding_remedy, name_as_text
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import is_plain, name_problem
from shardfeed.text import counted, number, some

ClassList = Sequence[str] | str | os.PathLike[str]
NamedClasses = Mapping[int, str]

_BACKGROUND = frozenset({"background", "none_of_the_above", "__background__"})  # item 0 of a label map, if it has one
_WHOLE = 2**53  # floats cannot represent every larger integer; no class has such a name
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}\Z")  # int() refuses more digits


class BadLabelError(Exception):
    """Raised for a `value`, or a list with it, that is not a valid label; the caller adds the location.

    `problem` and `remedy` may contain results of `shardfeed.errors.argument`.
    """

    def __init__(self, value: Any, problem: str, remedy: str) -> None:
        super().__init__(value, problem, remedy)
        self.value, self.problem, self.remedy = value, problem, remedy


@dataclass(frozen=True)
class NamesFile:
    """Class names beside the samples: `file`, for messages; number -> name; whether it is a label map."""

    file: str
    names: NamedClasses
    is_map: bool = False


@dataclass(frozen=True)
class Numbering:
    """Class `names` in label order, the label of each value that was numbered, and `notes` for the report.

    `ids`: the number of each class in the source, if those are not the labels; else empty.
    """

    names: tuple[str, ...]
    labels: Mapping[str, int] = field(default_factory=dict)
    ids: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def is_integer(text: str) -> bool:
    """Whether `text` is decimal digits with or without a sign."""
    return _INTEGER.match(text) is not None


def class_text(name: bytes) -> str:
    r"""A folder's name as a class name, in UTF-8 or the encoding asked for; escaped if it is no text (`caf\xe9`)."""
    text = name_as_text(name)
    if text is None:
        return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in name)
    return text if is_plain(text) else escape(text)


def class_folder(name: str) -> bytes:
    """The folder of a class in an export: its name, in which `%XX` stands for what no folder can be called."""
    text = name.replace("/", "%2F")
    if is_hidden(text.encode()):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    return text.encode()


def classes_by_folder(names: Iterable[str]) -> dict[bytes, str]:
    """The listed classes by their folders: the folder of an export, or one that is called like the class itself."""
    folders = {class_folder(name): name for name in names}
    return folders | {name.encode(): name for name in names}


class ClassNames(tuple[str, ...]):
    """Names in label order; `numbered`: whether their file has the numbers, from `first`, 0 or 1, on."""

    first = 0
    numbered = False


def read_class_list(path: str | os.PathLike[str], *, from_zero: bool = True) -> ClassNames:
    """The class names in a file, in label order: one a line, or in another form of files/class_names.py.

    Raises LabelFileError for a file in no such form, a name given twice, numbers with gaps, and, if `from_zero`,
    numbers that begin with 1.
    """
    from shardfeed.converters.sources.files.class_names import read_classes  # not above: most give no file

    place = os.fspath(path)
    named, numbered = read_classes(place)
    first = min(named)
    lacking = next((number for number in range(min(first, 1), first + len(named)) if number not in named), None)
    if lacking is not None:
        problem = f"its classes have the numbers {some(map(str, sorted(named)))}, without {lacking}"
        raise LabelFileError(place, problem, "name every class, with numbers from 0 or from 1 on")
    if first and from_zero:
        problem = "numbers its classes from 1, but here they count from 0"
        raise LabelFileError(place, problem, "number them from 0, or write one name per line")
    names = ClassNames(named[number] for number in sorted(named))
    names.first, names.numbered = first, numbered
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
    values: Collection[str],
    given: Sequence[str] | None = None,
    *,
    integers: Literal["labels", "names", "ids"] = "labels",
    stated: Sequence[str] | None = None,
    stated_ids: Sequence[int] = (),
    beside: NamesFile | None = None,
    texts: Mapping[int, str] | None = None,
    label_map: str | os.PathLike[str] | None = None,
    offset: int | None = None,
) -> Numbering:
    """Number the different label texts `values`.

    The first of these that is there says what the classes are:

    - `label_map`: the user's file, with the number and name of each class.
    - `stated`: the names that the format has, in label order, with the numbers `stated_ids`, else from 0 on. `given`
      orders these classes if it has their names, or else renames each of them.
    - `given`: the user's class list, as `class_list` returns it. A value is the name of its class; if all values are
      integers, and no name in the list is one, it is the class's number.
    - `beside`: a file next to the samples, if it names all numbers.
    - Nothing: integers are kept if they count from `offset` on without a gap, and texts are sorted.

    Args:
        values: the different labels.
        given, stated, stated_ids, beside, label_map: see above.
        integers: "labels": integers that nothing names are refused if they have gaps. "names": they are names like any
            other (folders). "ids": they are numbers of objects' classes, sorted by value; no value is refused, but one
            that is no class gets no label, unless all seem to count from 1 and `given` from 0.
        texts: the text that stands beside each number in the samples. It names numbers that nothing else names.
        offset: the number of the first class, 0 by default; None if users of this reader cannot give it.

    Raises BadLabelError for a value that is no label, UsageError for options that contradict each other.
    """
    if integers == "ids":
        values = [value for value in values if is_plain(value)]
    whole = bool(values) and all(map(is_integer, values))
    if label_map is not None and (given is not None or offset):
        other = argument("class_names" if given is not None else "label_offset")
        raise UsageError("label_map", f"names and numbers the classes, and so does {other}", "leave one out")
    if (label_map is not None or offset) and not whole:
        option = argument("label_offset" if offset else "label_map")
        first = next((value for value in values if not is_integer(value)), "")
        problem = f"{option} is for numbers, but labels are texts, such as '{escape(first[:40])}'"
        raise BadLabelError(first, problem, "leave it out")
    numbers = sorted({int(value) for value in values}) if whole else []
    by_number = whole or (integers == "ids" and any(map(is_integer, values)))
    names: dict[int, str] = {}
    notes: list[str] = []
    if label_map is not None:
        from shardfeed.converters.sources.files.class_names import read_label_map

        names = _of_map(read_label_map(label_map), numbers)
    elif stated is not None:
        names = dict(zip(stated_ids or count(offset or 0), stated, strict=False))
        by_number = by_number and integers != "names"
    elif given is not None:
        listed = given if isinstance(given, ClassNames) else ClassNames(given)
        names = dict(enumerate(given, offset or listed.first))
        if any(map(is_integer, given)) and not offset:
            by_number = by_number and listed.numbered and not _by_name(given).keys() >= set(map(_composed, values))
        if by_number and whole and listed.first and not offset:
            notes.append(f"labels 1 to {len(given)} become 0 to {len(given) - 1}: the class list counts from 1")
    elif whole and integers == "ids" and max(-numbers[0], numbers[-1]) < _WHOLE:
        names = {number: str(number) for number in numbers}
    elif whole and beside is not None and (names := _of_file(beside, numbers, offset or 0)):
        notes.append(f"class names taken from {escape(beside.file)}")
    elif whole:
        if beside is not None:
            notes.append(f"{escape(beside.file)} does not name all classes, so it is not used")
        names = _of_numbers(numbers, texts or {}, offset or 0, notes)
        if not names and integers == "labels":
            raise _gap(values, offset)
    if not names and stated is None:
        return _sorted(values)
    place_of = {number: label for label, number in enumerate(names)}
    label_of = {} if by_number and whole else _by_name(names.values())
    labels: dict[str, int] = {}
    for value in values:
        found = place_of.get(int(value)) if by_number and is_integer(value) else label_of.get(_composed(value))
        if found is not None:
            labels[value] = found
        elif integers != "ids" or (stated is None and _are_off_by_one(numbers, names)):
            raise _unknown(value, names, numbers if by_number else None, offset, all_numbers=whole)
    ids = tuple(names) if stated_ids or (by_number and [*names] != [*range(len(names))]) else ()
    made = Numbering(tuple(names.values()), labels, ids, tuple(notes))
    if stated is not None and given is not None:
        made = _renamed(made, given, [*names] if by_number or ids else [])
    if texts and by_number:
        _check_texts(made, texts, offset)
    return made


def _by_name(names: Iterable[str]) -> dict[str, int]:
    return {_composed(name): label for label, name in enumerate(names)}


def _composed(text: str) -> str:
    """The text in NFC: what looks the same is one class, whichever way an accent was typed or stored."""
    return unicodedata.normalize("NFC", text)


def _of_map(names: NamedClasses, numbers: Sequence[int]) -> dict[int, str]:
    """The classes of a label map, sorted by number. Number 0 is none if it is named background and not used."""
    unused = names.get(0, "").lower() in _BACKGROUND and 0 not in numbers
    return {number: name for number, name in sorted(names.items()) if number or not unused}


def _of_file(file: NamesFile, numbers: Sequence[int], first: int) -> dict[int, str]:
    """The classes of a file beside the samples; none if it lacks a number or, unless it is a label map, has gaps."""
    names = _of_map(file.names, numbers)
    if not file.is_map:
        whole = [*names] == [*range(len(names))] and len({*names.values()}) == len(names)
        names = dict(enumerate(names.values(), first)) if whole else {}
    return names if names.keys() >= {*numbers} else {}


def _of_numbers(numbers: Sequence[int], texts: Mapping[int, str], first: int, notes: list[str]) -> dict[int, str]:
    """The classes of numbers that count from the first one on; none if they do not."""
    low, high = numbers[0], numbers[-1]
    called = [texts.get(number, "") for number in numbers]
    named = len({*called}) == len(called) and all(map(is_plain, called))
    if named and low == 1 and not first and high == len(numbers):
        first = 1  # each has its name beside it, which moves with it
        notes.append(f"numbers 1 to {high} are the labels 0 to {high - 1}, from the texts next to them")
    if low != first or high - low + 1 != len(numbers):
        return {}
    return dict(zip(numbers, called if named else map(str, numbers), strict=True))


def _gap(values: Collection[str], offset: int | None) -> BadLabelError:
    """Build the error for integers that do not count from the first class on, with the ways to give their meaning."""
    value_of, first = {int(value): value for value in values}, offset or 0
    low, high, count = min(value_of), max(value_of), len(value_of)
    if low < 0:
        return BadLabelError(value_of[low], f"got the label {low}, expected 0 or more", "correct the label")
    ways, names = [], argument("class_names", typed="FILE")
    dense = high - low + 1 == count
    if low == first:
        gap = next(number for number in range(low, high) if number not in value_of)
        why, value = f"label {gap} is missing", min(number for number in value_of if number > gap)
    else:
        why, value = f"labels start at {low}, not at {first}", low
        if offset is not None and dense:
            background = " (0 then means background)" if low == 1 else ""
            ways.append(f"if {low} is the first class, give {argument('label_offset', low)}{background}")
    if low == 1 and dense and not first:
        way = f"give {names}: '1' to '{high}' makes label 1 the class 0; "
        ways.append(way + f"{high + 1} names, with 'background' first, keep the numbers")
    elif not first:
        ways.append(f"give {names}: {high + 1} names keep the numbers, the {count} integers as names renumber them")
    elif low >= first:
        ways.append(f"give {names}, with a name for each of {first} to {high}")
    if offset is not None:
        instead = f" instead of {argument('label_offset')}" if first else ""
        ways.append(f"give {argument('label_map', typed='FILE')}{instead}, with the number and name of each class")
    problem = f"got {count} integer labels from {low} to {high}, expected {first} to {first + count - 1}: {why}"
    return BadLabelError(value_of[value], problem, "; or ".join(ways))


def _unknown(
    value: str, names: Mapping[int, str], numbers: Sequence[int] | None, offset: int | None, *, all_numbers: bool
) -> BadLabelError:
    """Build the error for a value that is no class; `numbers`: of all values, if classes are found by number."""
    shown, own = some(names.values()), [*names]
    if numbers is None:
        close = difflib.get_close_matches(value, [*names.values()], 1)
        remedy = f"did you mean '{escape(close[0])}'?" if close else "add it to the list, or correct it"
        if all_numbers:
            remedy = f"name every class, or, if labels are numbers, number the lines of the list: `0:{names[own[0]]}`"
        return BadLabelError(
            value, f"got the class '{escape(value)}', expected one of the class list ({shown})", remedy
        )
    row = len(own) > 1 and own == [*range(own[0], own[-1] + 1)]
    known = f"{own[0]} to {own[-1]}" if row else f"one of {some(map(str, own))}"
    remedy = "correct the label, or name every class"
    if _are_off_by_one(numbers, names):
        one = "number the lines of the class list from 1" if offset is None else f"give {argument('label_offset', 1)}"
        remedy = f"if the first is number 1, {one}"
    return BadLabelError(
        value, f"got the label {value}, expected {known}, the numbers of the classes ({shown})", remedy
    )


def _are_off_by_one(numbers: Sequence[int], names: Mapping[int, str]) -> bool:
    """Whether numbers seem to count from 1 and `names` from 0."""
    return bool(numbers) and numbers[0] == 1 and 0 in names and numbers[-1] == len(names)


def _renamed(made: Numbering, given: Sequence[str], numbers: Sequence[int]) -> Numbering:
    """The classes of a format in the user's order, if the list has their names, or with the user's names.

    `numbers`: of the classes, if their values have numbers. Raises UsageError for a list that may mean either.
    """
    unnamed = made.names == tuple(map(str, numbers))  # then a digit in the list is a name for any of them
    label_of = {} if unnamed else _by_name(given)
    moved = [label_of.get(_composed(name), -1) for name in made.names]
    if len(given) == len(moved) and all(label in (-1, place) for place, label in enumerate(moved)):
        return replace(made, names=tuple(given))
    if set(moved) == {-1} or any(moved[place] < 0 for place in made.labels.values()):
        classes = f"{number(len(moved), 'class', 'classes')} ({some(made.names)})"
        problem = f"got {number(len(given), 'name')} for {classes}"
        raise UsageError("class_names", problem, "name each of them: by a new name in its place, or all in a new order")
    labels = {value: moved[place] for value, place in made.labels.items()}
    number_of = dict(zip(moved, numbers, strict=True)) if numbers else {}
    ids = tuple(number_of.get(label, -1) for label in range(len(given)))
    kept = number_of and -1 not in ids and (made.ids or ids != tuple(range(len(ids))))
    return Numbering(tuple(given), labels, ids if kept else (), made.notes)


def _check_texts(made: Numbering, texts: Mapping[int, str], offset: int | None) -> None:
    """Raise BadLabelError if the text beside a number is the name of another class."""
    numbers = dict(zip(made.names, made.ids or range(len(made.names)), strict=True))
    moved = {own - numbers[text] for own, text in texts.items() if text in numbers}
    for own, text in texts.items():
        if numbers.get(text, own) != own:
            problem = f"has the text '{escape(text)}' for {own}, but the class names have {numbers[text]}"
            by_one = moved == {1} and offset is not None and numbers[made.names[0]] == 0
            remedy = f"give {argument('label_offset', 1)}" if by_one else "correct the names"
            raise BadLabelError(str(own), problem, remedy)


def _sorted(values: Collection[str]) -> Numbering:
    """Number names by their UTF-8 bytes."""
    same = {value: _composed(value) for value in values}
    for value, name in same.items():
        problem = name_problem(name)
        if problem:
            undecoded = any("\udc80" <= c <= "\udcff" for c in name)  # bytes of a file that is not in UTF-8
            raise BadLabelError(value, problem, encoding_remedy(value) if undecoded else "change the label")
    names = tuple(sorted(set(same.values()), key=lambda name: name.encode("utf-8")))
    label_of = {name: i for i, name in enumerate(names)}
    notes = []
    if len(names) < len(same):
        twice = sorted(value for value, name in same.items() if value != name and name in same)
        notes.append(counted("class names that differ only in Unicode form, merged into one class", twice, len(twice)))
    folded: dict[str, str] = {}
    twins = [(folded[name.casefold()], name) for name in names if folded.setdefault(name.casefold(), name) != name]
    if twins:
        pairs = [f"{first} and {second}" for first, second in twins]
        notes.append(counted("classes that differ only in case", pairs, len(pairs)))
    if len(names) > 1 and all(map(is_integer, values)):
        notes.append(
            f"class names are integers but not 0 to {len(names) - 1}, so they are sorted as text: "
            f"label 0 is {names[0]}, label 1 is {names[1]}; --class-names (in Python class_names) sets another order"
        )
    return Numbering(names, {value: label_of[name] for value, name in same.items()}, (), tuple(notes))
