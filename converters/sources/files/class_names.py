"""Class names in files of other programs: one reader of lists, numbered lists, JSON, YAML, CSV and label maps.

daisy                     one a line, the first is label 0's
0:daisy, 0 daisy          numbered lines, such as TF-Slim's labels.txt; `daisy 0` and `daisy,0` too
id,name                   CSV with a header, or one column with one
["daisy", "rose"]         JSON; also {"0": "daisy"}, Keras's {"daisy": 0} and [{"id": 0, "name": "daisy"}]
names: [daisy, rose]      YAML, Ultralytics' data.yaml
item { id: 1 name: 'cat' display_name: "Cat" }       the Object Detection API's label_map.pbtxt

In YAML every value stays the text that it is in the file: YAML would make False of `no`, and 7 of `007`.
"""

import ast
import csv
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.sources.files.text import encoding_of, undecodable
from shardfeed.converters.sources.guard import budget
from shardfeed.errors import LabelFileError, ShardfeedError, StorageError, argument, escape, needing_extra
from shardfeed.naming import LABEL_NAMES_SUFFIX, label_names_file
from shardfeed.schema import is_plain, name_problem

MOST_BYTES = 4_000_000  # maximum size of a description: the names of 10,000 classes take a tenth of it
_TAGS = {kind: f"tag:yaml.org,2002:{tag}" for kind, tag in (("scalar", "str"), ("sequence", "seq"), ("mapping", "map"))}
_MOST_NODES = 1_000_000  # as many as a file of MOST_BYTES may hold without aliases
NamedClasses = Mapping[int, str]
_WHOLE = re.compile(r"[0-9]{1,9}\Z")  # a class's number
# An item of a dict or list as Python prints it.
_PYTHON_ITEM = re.compile(r"""(?:\b(\d{1,9})\s*:\s*)?('[^'\\\n]*'|"[^"\\\n]*")\s*,?""")
_NUMBERED = re.compile(r"\s*(\d{1,9})\s*:\s*(.+?)\s*\Z")
_NUMBER_FIRST = re.compile(r"\s*(\d{1,9})(?:\s*[,;=]\s*|\.?\s+)(.+?)\s*\Z")
_NUMBER_LAST = re.compile(r"\s*(.+?)(?:\s*[,;:=]\s*|\s+)(\d{1,9})\s*\Z")
# Words of headers. One that a class may be called, too, counts as a header only beside another, or in a CSV file.
_NAME_HEADS = ("class_name", "classname", "class_names", "label_name", "category_name", "display_name", "name", "class")
_NAME_HEADS += ("category", "label", "names", "classes", "labels", "species")
_NUMBER_HEADS = ("id", "class_id", "classid", "label_id", "category_id", "class_index", "class_idx", "index", "idx")
_NUMBER_HEADS += ("number", "label_num", "label", "class", "category", "target", "value", "")  # "": of pandas' index
_INSIDE = ("names", "classes", "categories", "labels", "class_names", "label_map")  # keys of the whole list in JSON
_FORMS = """write one name per line, or JSON like ["cat", "dog"] or {"0": "cat", "1": "dog"}"""
_MOST_BYTES = 64 << 20  # of a file of names
_LABELS = "labels.txt"
_BOM = "\ufeff"  # which `_text` removes
_COMMENT = re.compile(r"(?:#|//)\s")
_SEVERAL = re.compile(r"[,;=|<>\[\]{}]")  # signs in a line of several names, or of a program
_TOKEN = re.compile(
    r"""[\s,;]+|\#[^\n]*"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z0-9_.+-]+)|(?P<mark>[{}<>:\[\]/])"""
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_REMEDY = "write each class as `item { id: 1 name: 'cat' }`"


def load_yaml(path: str, data: bytes | str) -> Mapping[str, Any]:
    """The mapping in `data`, the content of a YAML file: of texts, lists and mappings.

    Raises LabelFileError for any other file, MissingExtraError without PyYAML.
    """
    with needing_extra(path):
        import yaml

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml takes a quarter of the time

    class Loader(safe):
        """The safe loader, which reads plain words as texts, and refuses duplicate keys."""

        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            return _TAGS[kind.id]  # of a node without a tag

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(None, None, "a duplicate key", key.start_mark)
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

        def get_single_node(self) -> Any:
            node = super().get_single_node()
            if node is not None and _expanded(node, {}) > _MOST_NODES:
                problem = "aliases that expand to more than a million values"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return node

    if len(data) > MOST_BYTES:
        problem = f"more than {MOST_BYTES:,} bytes, too large for YAML"
        raise LabelFileError(path, problem, "check that it is the right file")
    try:
        document = yaml.load(data, Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = path if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
        raise LabelFileError(place, f"not YAML: {escape(problem)}", "correct it") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        # Errors that PyYAML lets through: a tag that does not fit its text (`!!int x`), ten thousand brackets.
        raise LabelFileError(path, f"not YAML: {type(error).__name__}", "correct it") from None
    if not isinstance(document, dict):
        problem = "not a mapping, expected lines such as 'names: [cat, dog]'"
        raise LabelFileError(path, problem, "give the data.yaml of a YOLO dataset")
    return document


def _expanded(node: Any, seen: dict[int, int]) -> int:
    """Count the values of a YAML node with its aliases expanded; beyond any limit for a node that contains itself."""
    if isinstance(node.value, str):
        return 1
    if id(node) not in seen:
        seen[id(node)] = _MOST_NODES + 1  # while it is being counted
        children = (child for item in node.value for child in (item if isinstance(item, tuple) else (item,)))
        seen[id(node)] = 1 + sum(_expanded(child, seen) for child in children)
    return seen[id(node)]


def read_named_classes(path: str | os.PathLike[str]) -> dict[int, str]:
    """Number -> name, in the file's order, from a file in one of the forms above; those of plain lines are 0 to K-1.

    Raises LabelFileError with the place for a file in no form, and for a name or number given twice; MissingExtraError
    for YAML without PyYAML.
    """
    return read_classes(os.fspath(path))[0]


def read_label_map(path: str | os.PathLike[str]) -> dict[int, str]:
    """Number -> name, of a file that numbers its classes. Raises LabelFileError for others, a plain list too."""
    place = os.fspath(path)
    names, numbered = read_classes(place)
    if numbered:
        return names
    problem = "is a list of names, expected each with its number: `item { id: 1 name: 'cat' }` in a .pbtxt, or `1:cat`"
    remedy = f"give it as {argument('class_names', typed='FILE')}, and if the first is number 1 "
    raise LabelFileError(place, problem, remedy + argument("label_offset", 1))


def read_classes(place: str) -> tuple[dict[int, str], bool]:
    """As `read_named_classes`; and whether the file has the numbers."""
    return _classes_in(place, _text(place))


def lists_classes(text: str, names: Sequence[str]) -> bool:
    """Whether a file `classes.txt` of this text is read as exactly these classes, in this order."""
    try:
        listed, _ = _classes_in("classes.txt", text.removeprefix(_BOM))
    except ShardfeedError:
        return False
    return [listed[label] for label in sorted(listed)] == [*names]


def _classes_in(place: str, text: str) -> tuple[dict[int, str], bool]:
    """As `read_classes`, for the text of the file."""
    text = text.rstrip()
    end = os.path.splitext(place)[1].lower()
    begin = text.lstrip()
    if end == ".pbtxt" or re.match(r"item\s*[:{<]", begin):
        return parse_label_map(text, place), True
    if end in (".yaml", ".yml") or re.search(r"^names\s*:", text, re.MULTILINE):
        return names_in(place, load_yaml(place, text))
    if end == ".json" or begin.startswith(("{", "[")):
        return names_in(place, _parsed(place, text))
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    pairs = _of_table(place, lines, end in (".csv", ".tsv")) or _of_numbered_lines(place, lines)
    if pairs is not None:
        return _distinct(pairs, lambda n: f"{place}:{n}:1"), True
    return _of_plain_lines(place, text, end in (".csv", ".tsv")), False


def _of_plain_lines(place: str, text: str, is_csv: bool) -> dict[int, str]:
    """A name on each line, the first of which is a header if it is a word of headers and `is_csv`."""
    found = [(n, n - 1, line.decode().strip()) for n, line in enumerate(budget().lines(text.encode(), place), 1)]
    if is_csv:
        head = bool(found) and found[0][2].strip('"').casefold() in _NAME_HEADS
        found = [
            (n, number - head, next(csv.reader([name], delimiter="\t"), [""])[0]) for n, number, name in found[head:]
        ]
    if not found:
        raise LabelFileError(f"{place}:1:1", "got no class", "write each class name on one line")
    if comment := next((n for n, _, name in found if _COMMENT.match(name)), None):
        raise LabelFileError(f"{place}:{comment}:1", "looks like a comment, expected a class name", _FORMS)
    if len(found) == 1 and _SEVERAL.search(found[0][2]):
        raise LabelFileError(f"{place}:1:1", "the only line looks like a list, expected a class name", _FORMS)
    return _distinct(found, lambda n: f"{place}:{n}:1")


def _distinct(
    found: Sequence[tuple[int, int, str]],
    place: Callable[[int], str],
    remedy: str = "write each class name on one line",
) -> dict[int, str]:
    """The names by number, of (line, number, name). Raises LabelFileError for an invalid or a repeated one."""
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    for line, number, name in found:
        problem = name_problem(name)
        same = unicodedata.normalize("NFC", name)
        if same in seen:
            problem = f"'{escape(name)}' is already on line {seen[same]}"
        elif number in names:
            problem = f"the number {number} is already that of '{escape(names[number])}'"
        if problem:
            raise LabelFileError(place(line), problem, remedy)
        seen[same] = line
        names[number] = name
    return names


def _parsed(place: str, text: str) -> Any:
    """The content of a JSON file, or of one with a Python dict or list, as printed. Raises LabelFileError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        items = _PYTHON_ITEM.findall(text)
        if items and _PYTHON_ITEM.sub("", text).split() in (["{}"], ["{", "}"], ["[]"], ["[", "]"]):
            names = [ast.literal_eval(name) for _, name in items]
            return dict(zip((n for n, _ in items), names, strict=True)) if items[0][0] else names
        at = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise LabelFileError(f"{place}{at}", "begins like JSON, but cannot be read as JSON", _FORMS) from None


def names_in(place: str, document: Any) -> tuple[dict[int, str], bool]:
    """The names by number in the content of a JSON or YAML file, and whether it has the numbers."""
    if isinstance(document, dict) and (inner := [document[key] for key in _INSIDE if key in document]):
        kinds = [one for one in inner if isinstance(one, list | dict)]
        document = kinds[0] if len(kinds) == 1 else document
    pairs: list[tuple[Any, Any]] = []
    if isinstance(document, list) and all(isinstance(one, dict) and {"id", "name"} <= one.keys() for one in document):
        pairs = [(one["id"], one["name"]) for one in document]
    elif isinstance(document, list) and all(isinstance(one, str) for one in document):
        pairs = list(enumerate(document))
        return _distinct([(n + 1, n, name.strip()) for n, name in pairs], lambda n: f"{place}, name {n}"), False
    elif isinstance(document, dict):
        pairs = list(document.items())
        named = all(_number(key) is not None and isinstance(value, str) for key, value in pairs)
        pairs = pairs if named else [(value, key) for key, value in pairs]
        numbers = sorted({_number(key) or 0 for key, _ in pairs})
        if not named and (min(numbers, default=0) > 1 or numbers[-1:] != [numbers[0] + len(numbers) - 1]):
            pairs = []  # {"width": 640}: numbers of something else
    found = [(n, _number(key), name) for n, (key, name) in enumerate(pairs, 1)]
    if not found or not all(number is not None and isinstance(name, str) for _, number, name in found):
        problem = "expected a list of class names, or a mapping between them and their numbers"
        raise LabelFileError(place, problem, _FORMS)
    return _distinct(
        [(n, number or 0, name.strip()) for n, number, name in found], lambda n: f"{place}, name {n}"
    ), True


def _number(value: Any) -> int | None:
    """A whole number, or a text that is one; None for anything else."""
    if isinstance(value, str):
        return int(value) if _WHOLE.match(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _of_table(place: str, lines: Sequence[tuple[int, str]], is_csv: bool) -> list[tuple[int, int, str]] | None:
    """Line, number and name of the rows of a table with a header that names both; None for any other text.

    Raises LabelFileError for a CSV file with several columns whose meaning is unknown.
    """
    delimiter = max(",;\t", key=lines[0][1].count) if lines else ","
    if not lines or delimiter not in lines[0][1]:
        return None
    rows = [next(csv.reader([line], delimiter=delimiter)) for _, line in lines if '"' not in line or is_csv]
    heads = [cell.strip().casefold().replace(" ", "_") for cell in rows[0]] if rows else []
    if len(heads) < 2 or len(rows) < len(lines) or any(len(row) != len(heads) for row in rows):
        return None
    whole = [i for i in range(len(heads)) if all(_WHOLE.match(row[i].strip()) for row in rows[1:])]
    numbers = [i for i in whole if heads[i] in _NUMBER_HEADS]
    names = [i for i in range(len(heads)) if i not in whole and heads[i] in _NAME_HEADS]
    names = [names[0]] if len(names) > 1 and heads[names[0]] in _NAME_HEADS[:-6] else names
    if len(numbers) == 1 and len(names) == 1 and len(rows) > 1:
        cells = zip((n for n, _ in lines[1:]), rows[1:], strict=True)
        return [(n, int(row[numbers[0]]), row[names[0]].strip()) for n, row in cells]
    if is_csv and _of_numbered_lines(place, lines) is None:
        problem = f"got the columns {', '.join(map(escape, rows[0]))}, expected one number and one name of each class"
        raise LabelFileError(f"{place}:{lines[0][0]}", problem, "name them id,name in the header, or " + _FORMS)
    return None


def _of_numbered_lines(place: str, lines: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]] | None:
    """Line, number and name of lines that all are numbered; None for others.

    A number beside a blank may be a part of a name: it counts if the lines have the numbers from 0 or 1 on, in order.
    """
    for form, first in ((_NUMBERED, True), (_NUMBER_FIRST, True), (_NUMBER_LAST, False)):
        matches = [(n, form.match(line)) for n, line in lines]
        found = [(n, int(m[1 if first else 2]), m[2 if first else 1]) for n, m in matches if m is not None]
        if len(found) < len(lines) or len(found) < (1 if form is _NUMBERED else 2):
            continue
        numbers = [number for _, number, _ in found]
        in_order = numbers[0] < 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if form is _NUMBERED or (in_order and (first or len({name for *_, name in found}) == len(found))):
            return found
        if first and numbers[0] < 2 and numbers == sorted({*numbers}):
            lacking = next(n for n in range(numbers[0], numbers[-1]) if n not in numbers)
            problem = f"its lines are numbered from {numbers[0]} to {numbers[-1]}, without {lacking}"
            remedy = f"name every class; where the numbers are parts of names, {_FORMS}"
            raise LabelFileError(place, problem, remedy)
    return None


def names_beside(directory: str, files: Sequence[str], key: str, *, images: bool) -> tuple[str, dict[int, str]] | None:
    """The file among `files` of a directory that names the classes of a feature, and its names; None if there is none.

    TFDS's file of that feature, which has a name on each line; or `labels.txt`, which belongs to labels of images if
    `images` is true: no other feature matches it better. Files that cannot be read are ignored.
    """
    of_tfds = [label_names_file(key), key.replace("/", "-") + LABEL_NAMES_SUFFIX]
    for file in [*of_tfds, *([_LABELS] if images else [])]:
        if file in files:
            place = os.path.join(directory, file)
            try:
                return file, _of_lines(place) if file in of_tfds else read_named_classes(place)
            except (LabelFileError, StorageError):
                continue
    return None


def _of_lines(place: str) -> dict[int, str]:
    """The names of a file with nothing else, one on each line: `1 cat` is a name. Raises LabelFileError."""
    lines = _text(place).removesuffix("\n").split("\n")
    return _distinct([(n, n - 1, line) for n, line in enumerate(lines, 1)], lambda n: f"{place}:{n}:1")


def in_label_order(names: NamedClasses, least: int = 0) -> tuple[str, ...]:
    """The names by label, of `least` labels at least; one without a name has its number. Numbers unless distinct."""
    count = max(least, max(names, default=-1) + 1)
    numbers = [str(label) for label in range(count)]
    named = [names.get(label, number) for label, number in enumerate(numbers)]
    return tuple(named if len(set(named)) == count and all(map(is_plain, named)) else numbers)


def _text(place: str) -> str:
    """The file's text. Raises LabelFileError if it cannot be read, is too large, or is not UTF-8."""
    try:
        with open(place, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise LabelFileError(place, f"cannot read the class list: {error.strerror}", "check the path") from None
    if len(data) > _MOST_BYTES:
        raise LabelFileError(place, f"more than {_MOST_BYTES:,} bytes, expected class names", "check the path")
    encoding = encoding_of(data)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding)
        at = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        raise undecodable(data, f"{place}:{at}", encoding) from None


@dataclass(frozen=True)
class _LabelMapToken:
    kind: str  # "text", "word" or "mark"
    text: str
    line: int


def parse_label_map(text: str, place: str) -> dict[int, str]:
    """Number -> name of each item, its `display_name` if it has one.

    Raises LabelFileError with the line: no such file, an item without number or name, a number or a name twice.
    """
    found: list[tuple[int, int, str]] = []
    tokens = _tokens(text, place)
    for token in tokens:
        if token.text != "item" or token.kind != "word":
            raise _error(place, token.line, f"no `item`, but '{escape(token.text[:40])}'")
        if next((other.text for other in tokens if other.text != ":"), "") not in ("{", "<"):
            raise _error(place, token.line, "no '{' after `item`")
        fields = _fields(tokens, place, token.line)
        number, name = fields.get("id", ""), fields.get("display_name") or fields.get("name", "")
        if not _WHOLE.match(number):
            got = f"an item with the id {number!r}, expected a number" if number else "an item without id"
            raise _error(place, token.line, got)
        if not name:
            raise _error(place, token.line, f"item {number} has no name")
        found.append((token.line, int(number), name))
    if not found:
        raise LabelFileError(place, "no `item { id: 1 name: 'cat' }` in it", "give a label map, or a list of names")
    return _distinct(found, lambda line: f"{place}:{line}", _REMEDY)


def _tokens(text: str, place: str) -> Iterator[_LabelMapToken]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(place, line, f"got {text[at : at + 20]!r}, which is not a label map, or an unterminated text")
        if match.lastgroup is not None:
            yield _LabelMapToken(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _fields(tokens: Iterator[_LabelMapToken], place: str, line: int) -> dict[str, str]:
    """The fields of an item, the last of each, up to its end; those of messages in it are passed over."""
    found: dict[str, str] = {}
    name, depth, is_value = "", 1, False
    for token in tokens:
        if token.kind == "mark":
            depth += {"{": 1, "<": 1, "}": -1, ">": -1}.get(token.text, 0)
            is_value = token.text == ":"
            if not depth:
                return found
        elif token.kind == "word" and not is_value:
            name = token.text
        elif depth == 1:
            value = token.text if token.kind == "word" else _unquoted(token, place)
            found[name] = value if is_value else found.get(name, "") + value  # 'a' "b" is "ab"
            is_value = False
    raise _error(place, line, "an unterminated item")


def _unquoted(token: _LabelMapToken, place: str) -> str:
    """Decode a quoted text; its escapes may write UTF-8 byte by byte."""

    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, other = match.groups()
        if octal or hexadecimal:
            return bytes((int(octal, 8) & 0xFF if octal else int(hexadecimal, 16),))
        if short or long:
            return chr(min(int(short or long, 16), 0x10FFFF)).encode("utf-8", "replace")
        return _NAMED.get(other, other)

    try:
        return _ESCAPE.sub(one, token.text[1:-1].encode()).decode()
    except UnicodeDecodeError:
        raise _error(place, token.line, f"{token.text[:40]} is not UTF-8") from None


def _error(place: str, line: int, problem: str) -> LabelFileError:
    return LabelFileError(f"{place}:{line}", problem, _REMEDY)
