"""Class names in files of other programs: lists, numbered lists, TFDS's label files, label maps.

daisy                     one a line, the first is label 0's
0:daisy                   TF-Slim's labels.txt
item { id: 1 name: 'cat' display_name: "Cat" }       the Object Detection API's label_map.pbtxt
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.classes import read_class_list
from shardfeed.errors import LabelFileError, StorageError, argument, escape
from shardfeed.naming import LABEL_NAMES_SUFFIX, label_names_file
from shardfeed.schema import is_plain

NamedClasses = Mapping[int, str]

_NUMBERED = re.compile(r"\s*(\d{1,9})\s*:\s*(.+?)\s*\Z")
_MOST_BYTES = 64 << 20  # of a file of names
_LABELS = "labels.txt"
_TOKEN = re.compile(
    r"""[\s,;]+|\#[^\n]*"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z0-9_.+-]+)|(?P<mark>[{}<>:\[\]/])"""
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_REMEDY = "write each class as `item { id: 1 name: 'cat' }`"
_MOST_DIGITS = 9  # of a number of a class


def read_named_classes(path: str | os.PathLike[str]) -> dict[int, str]:
    """Label -> name, from a file in one of the forms above. Raises LabelFileError for any other form."""
    return _numbered(os.fspath(path)) or dict(enumerate(read_class_list(path)))


def read_label_map(path: str | os.PathLike[str]) -> dict[int, str]:
    """Number -> name, of a label map or of numbered lines. Raises LabelFileError for others, a plain list too."""
    place = os.fspath(path)
    if names := _numbered(place):
        return names
    read_class_list(path)  # reports a file that is not even text
    problem = "is a list of names, expected each with its number: `item { id: 1 name: 'cat' }` in a .pbtxt, or `1:cat`"
    remedy = f"give it as {argument('class_names', typed='FILE')}, and if the first is number 1 "
    raise LabelFileError(place, problem, remedy + argument("label_offset", 1))


def _numbered(place: str) -> dict[int, str] | None:
    """Read class names by number from a file; None if the file has no numbers."""
    text = _text(place)
    if text is not None and place.endswith(".pbtxt"):
        return parse_label_map(text, place)
    if text is not None and (lines := [_NUMBERED.match(line) for line in text.splitlines() if line.strip()]):
        found = {int(line[1]): line[2] for line in lines if line}
        if len(found) == len(lines):
            return found
    return None


def names_beside(directory: str, files: Sequence[str], key: str, *, images: bool) -> tuple[str, dict[int, str]] | None:
    """The file among `files` of a directory that names the classes of a feature, and its names; None if there is none.

    TFDS's file of that feature, or `labels.txt` or a label map, which belong to labels of images if `images` is true:
    no other feature matches them better. Files that cannot be read are ignored.
    """
    usual = [label_names_file(key), key.replace("/", "-") + LABEL_NAMES_SUFFIX]
    if images:
        usual += [_LABELS, *(file for file in files if file.endswith(".pbtxt") and "label" in file)]
    for file in usual:
        if file in files:
            try:
                return file, read_named_classes(os.path.join(directory, file))
            except (LabelFileError, StorageError):
                continue
    return None


def in_label_order(names: NamedClasses, least: int = 0) -> tuple[str, ...]:
    """The names by label, of `least` labels at least; one without a name has its number. Numbers unless distinct."""
    count = max(least, max(names, default=-1) + 1)
    numbers = [str(label) for label in range(count)]
    named = [names.get(label, number) for label, number in enumerate(numbers)]
    return tuple(named if len(set(named)) == count and all(map(is_plain, named)) else numbers)


def _text(path: str) -> str | None:
    """The file's text; None if it cannot be read or is not UTF-8, which the reader of the list reports."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        return data.removeprefix(b"\xef\xbb\xbf").decode() if len(data) <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class _Token:
    kind: str  # "text", "word" or "mark"
    text: str
    line: int


def parse_label_map(text: str, place: str) -> dict[int, str]:
    """Number -> name of each item, its `display_name` if it has one.

    Raises LabelFileError with the line: no such file, an item without number or name, a number or a name twice.
    """
    tokens = list(_tokens(text, place))
    names: dict[int, str] = {}
    at = 0
    while at < len(tokens):
        if tokens[at].text != "item" or tokens[at].kind != "word":
            raise _error(place, tokens[at].line, f"no `item`, but '{escape(tokens[at].text[:40])}'")
        line = tokens[at].line
        at = _after_colon(tokens, at + 1)
        if at == len(tokens) or tokens[at].text not in ("{", "<"):
            raise _error(place, line, "no '{' after `item`")
        fields, at = _fields(tokens, at + 1, place, line)
        _add(names, fields, place, line)
    if not names:
        raise LabelFileError(place, "no `item { id: 1 name: 'cat' }` in it", "give a label map, or a list of names")
    return names


def _add(names: dict[int, str], fields: dict[str, str], place: str, line: int) -> None:
    """Add a class. Raises LabelFileError if it is invalid."""
    number, name = fields.get("id", ""), fields.get("display_name") or fields.get("name", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
        raise _error(
            place, line, f"an item with the id {number!r}, expected a number" if number else "an item without id"
        )
    if not is_plain(name):
        got = f"the name '{escape(name)}', expected plain text" if name else "no name"
        raise _error(place, line, f"item {number} has {got}")
    if int(number) in names:
        raise _error(place, line, f"the id {number} is already that of '{escape(names[int(number)])}'")
    if name in names.values():
        raise _error(place, line, f"the name '{escape(name)}' already exists")
    names[int(number)] = name


def _tokens(text: str, place: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(place, line, f"got {text[at : at + 20]!r}, which is not a label map, or an unterminated text")
        if match.lastgroup is not None:
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _after_colon(tokens: list[_Token], at: int) -> int:
    return at + 1 if at < len(tokens) and tokens[at].text == ":" else at


def _fields(tokens: list[_Token], at: int, place: str, line: int) -> tuple[dict[str, str], int]:
    """The item's own fields (the last of each counts), and the position after its end."""
    found: dict[str, str] = {}
    depth, name = 1, ""
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.kind == "text":
            value = _unquoted(token, place)
            while at < len(tokens) and tokens[at].kind == "text":  # "a" "b" is "ab"
                value += _unquoted(tokens[at], place)
                at += 1
            if depth == 1 and name:
                found[name] = value
        elif token.kind == "mark":
            depth += {"{": 1, "<": 1, "}": -1, ">": -1}.get(token.text, 0)
            if not depth:
                return found, at
        elif at < len(tokens) and tokens[at].text in (":", "{", "<"):
            name = token.text
            at = _after_colon(tokens, at)
            continue
        elif depth == 1 and name:
            found[name] = token.text
        name = ""
    raise _error(place, line, "an unterminated item")


def _unquoted(token: _Token, place: str) -> str:
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
