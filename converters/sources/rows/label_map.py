"""Label maps of the Object Detection API (`label_map.pbtxt`): protobuf's text format, as far as those use it.

    item { id: 1 name: 'cat' display_name: "Cat" }      # a class

Source: the text format's specification, protobuf.dev/reference/protobuf/textformat-spec, and the API's
object_detection/protos/string_int_label_map.proto. Fields that are not read (key points, ancestors) are passed over.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardfeed.errors import LabelFileError, escape
from shardfeed.schema import is_plain

_TOKEN = re.compile(
    r"""[\s,;]+|\#[^\n]*"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z0-9_.+-]+)|(?P<mark>[{}<>:\[\]/])"""
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_REMEDY = "write each class as `item { id: 1 name: 'cat' }`"
_MOST_DIGITS = 9  # of a number of a class


@dataclass(frozen=True)
class _Token:
    kind: str  # "text", "word" or "mark"
    text: str
    line: int


def parse_label_map(text: str, place: str) -> dict[int, str]:
    """Number -> name of each item, its `display_name` where it has one.

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
            raise _error(place, line, "no '{' behind `item`")
        fields, at = _fields(tokens, at + 1, place, line)
        _add(names, fields, place, line)
    if not names:
        raise LabelFileError(place, "no `item { id: 1 name: 'cat' }` in it", "give a label map, or a list of names")
    return names


def _add(names: dict[int, str], fields: dict[str, str], place: str, line: int) -> None:
    """One more class. Raises LabelFileError where it cannot be one."""
    number, name = fields.get("id", ""), fields.get("display_name") or fields.get("name", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
        raise _error(
            place, line, f"an item with the id {number!r}, expected a number" if number else "an item without id"
        )
    if not is_plain(name):
        got = f"the name '{escape(name)}', expected plain text" if name else "no name"
        raise _error(place, line, f"item {number} has {got}")
    if int(number) in names:
        raise _error(place, line, f"the id {number} is that of '{escape(names[int(number)])}' already")
    if name in names.values():
        raise _error(place, line, f"the name '{escape(name)}' is there already")
    names[int(number)] = name


def _tokens(text: str, place: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(place, line, f"got {text[at : at + 20]!r}, which is no label map, or a text that does not end")
        if match.lastgroup is not None:
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _after_colon(tokens: list[_Token], at: int) -> int:
    return at + 1 if at < len(tokens) and tokens[at].text == ":" else at


def _fields(tokens: list[_Token], at: int, place: str, line: int) -> tuple[dict[str, str], int]:
    """The item's own fields, the last of each counts, and the position behind its end."""
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
    raise _error(place, line, "an item that does not end")


def _unquoted(token: _Token, place: str) -> str:
    """What a quoted text means; it may write UTF-8 byte by byte."""

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
        raise _error(place, token.line, f"{token.text[:40]} is no UTF-8") from None


def _error(place: str, line: int, problem: str) -> LabelFileError:
    return LabelFileError(f"{place}:{line}", problem, _REMEDY)
