"""Parse the text of a condition.

    condition  = both {"or" both}              both = not {"and" not}          not = {"not"} (comparison | group)
    group      = "(" condition ")"             comparison = name operator value | name ["not"] "in" list
    operator   = "==" "!=" "<" "<=" ">" ">="   list = "(" value {"," value} ")"
    value      = number | word | 'text' | "text"

A word is letters, digits and _ / . - , so that `image/height` and `golden-retriever` are words.
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from shardfeed.errors import UsageError, escape

MOST = 20_000  # characters
_DEEPEST = 50  # groups and `not` within each other

Value = int | float | str


@dataclass(frozen=True)
class Comparison:
    """`name` compared with values by an operator: one value, or any number of them for "in".

    `quoted`: whether each value was in quotes, and so is not the name of a feature. `texts`: each as written, for
    features that are not numbers: a class may be named 001. `at`: its offset in the text.
    """

    name: str
    operator: Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
    values: tuple[Value, ...]
    quoted: tuple[bool, ...]
    texts: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class Not:
    """Negation: true where `condition` is not."""

    condition: "Condition"


@dataclass(frozen=True)
class Joined:
    """Conditions combined: all must hold, or with "or" any of them."""

    word: Literal["and", "or"]
    conditions: tuple["Condition", ...]


Condition = Comparison | Not | Joined


class _Token(NamedTuple):
    """`kind`: "word", "number", "text", "sign" or "end"."""

    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w/.-]))
    | (?P<word>[\w/](?:[\w/.-]*[\w/])?)
    | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)"
    | (?P<sign>==|!=|<=|>=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_KEYWORDS = ("and", "or", "not", "in")
_OPERATORS = ("==", "!=", "<=", ">=", "<", ">")
_HOW = "write for example: class in (cat, dog) and height >= 224"


def parse(text: str) -> Condition:
    """Parse a condition. Raise UsageError, with the place in the text, if it is not one."""
    if len(text) > MOST:
        raise UsageError("where", f"got {len(text):,} characters, expected at most {MOST:,}", "list keys in a file")
    parser = _Parser(_tokens(text))
    found = parser.condition(0)
    if parser.next.kind != "end":
        raise parser.error("and, or, or the end")
    return found


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            single = " (== compares)" if text[at] == "=" else ""
            raise UsageError("where", f"got {escape(text[at])!r} at character {at + 1}{single}", _HOW)
        kind = match.lastgroup or ""
        content = match[kind]
        start = match.start(kind)
        if kind in ("single", "double"):
            kind, content = "text", re.sub(r"\\(.)", r"\1", content)
        found.append(_Token(kind, content, start))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    """Goes through the tokens of one condition."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at = tokens, 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def _is(self, *texts: str) -> bool:
        return self.next.kind in ("word", "sign") and self.next.text in texts

    def _take(self, *texts: str) -> bool:
        """Whether the next token is one of `texts`; if so, it is consumed."""
        found = self._is(*texts)
        self._at += found
        return found

    def _expect(self, text: str, expected: str) -> None:
        if not self._take(text):
            raise self.error(expected)

    def error(self, expected: str) -> UsageError:
        """Error that something else was expected at the next token."""
        token = self.next
        got = "it ends" if token.kind == "end" else f"got {escape(token.text)!r} at character {token.at + 1}"
        return UsageError("where", f"{got}, expected {expected}", _HOW)

    def condition(self, depth: int, word: Literal["and", "or"] = "or") -> Condition:
        """Parse `both or both ...`, or with the other `word` `not and not ...`."""
        parts: list[Condition] = []
        while not parts or self._take(word):
            parts.append(self.condition(depth, "and") if word == "or" else self._not(depth))
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _not(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise UsageError("where", f"more than {_DEEPEST} nested groups", "simplify it")
        if self._take("not"):
            return Not(self._not(depth + 1))
        if self._take("("):
            found = self.condition(depth + 1)
            self._expect(")", ")")
            return found
        return self._comparison()

    def _comparison(self) -> Comparison:
        name = self.next
        if name.kind not in ("word", "text") or (name.kind == "word" and name.text in _KEYWORDS):
            raise self.error("the name of a feature")
        self._at += 1
        if self._is("in", "not"):
            operator: Literal["in", "not in"] = "not in" if self._take("not") else "in"
            self._expect("in", "in")
            self._expect("(", "( and values")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")", ", or )")
            found, quoted, texts = zip(*values, strict=True)
            return Comparison(name.text, operator, found, quoted, texts, name.at)
        sign = self.next.text
        if not self._take(*_OPERATORS):
            raise self.error("== != < <= > >= in or not in")
        value, quoted, text = self._value()
        return Comparison(name.text, sign, (value,), (quoted,), (text,), name.at)  # type: ignore[arg-type]  # one of _OPERATORS

    def _value(self) -> tuple[Value, bool, str]:
        """A value, whether it stood in quotes, and how it was written."""
        token = self.next
        if token.kind not in ("word", "number", "text") or (token.kind == "word" and token.text in _KEYWORDS):
            raise self.error("a number, a word or text in quotes")
        self._at += 1
        if token.kind != "number":
            return token.text, token.kind == "text", token.text
        try:
            return int(token.text), False, token.text
        except ValueError:  # a fraction, or more digits than int takes
            return float(token.text), False, token.text
