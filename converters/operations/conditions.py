"""Conditions as text, `class in (cat, dog) and height >= 224`, and the records of a split that meet them.

Nothing of a condition is ever run as code.

    condition  = both {"or" both}              both = not {"and" not}          not = {"not"} (comparison | group)
    group      = "(" condition ")"             comparison = name operator value | name ["not"] "in" list
    operator   = "==" "!=" "<" "<=" ">" ">="   list = "(" value {"," value} ")"
    value      = number | word | 'text' | "text"

A word is letters, digits and _ / . - , so that `image/height` and `golden-retriever` are words.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np

from shardfeed.annotations import XMIN
from shardfeed.errors import UsageError, escape, name_bytes
from shardfeed.readers.columns import read_values
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL, Schema
from shardfeed.text import listing

MOST = 20_000  # characters
_DEEPEST = 50  # groups and `not` within each other
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "in": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NEGATED = {"!=": "==", "not in": "in"}
_LARGEST = 2**63 - 1
_CLASS, _SPLIT, _OBJECTS = "class", "split", "objects"

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

    def _expect(self, text: str, expected: str = "") -> None:
        if not self._take(text):
            raise self.error(expected or text)

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
            self._expect(")")
            return found
        return self._comparison()

    def _comparison(self) -> Comparison:
        name = self.next
        if name.kind not in ("word", "text") or (name.kind == "word" and name.text in _KEYWORDS):
            raise self.error("the name of a feature")
        self._at += 1
        if self._is("in", "not"):
            operator: Literal["in", "not in"] = "not in" if self._take("not") else "in"
            self._expect("in")
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


def evaluate(condition: Condition, split: Split) -> np.ndarray:
    """bool [n]. `!=` and `not in` hold where `==` and `in` do not.

    Features with one value a record come from columns; for others all records are read. Raises UsageError for names
    that the dataset does not have and values that cannot be compared, IntegrityError for damage.
    """
    if isinstance(condition, Not):
        return ~evaluate(condition.condition, split)
    if isinstance(condition, Joined):
        join = np.logical_and if condition.word == "and" else np.logical_or
        return join.reduce([evaluate(one, split) for one in condition.conditions])
    if condition.operator in _NEGATED:
        return ~_compare(replace(condition, operator=_NEGATED[condition.operator]), split)  # type: ignore[arg-type]
    return _compare(condition, split)


def check_splits(condition: Condition, splits: Collection[str], schema: Schema) -> None:
    """Raise UsageError if the condition names a split that is not in the dataset's `splits`."""
    if isinstance(condition, Not):
        check_splits(condition.condition, splits, schema)
    elif isinstance(condition, Joined):
        for one in condition.conditions:
            check_splits(one, splits, schema)
    elif condition.name == _SPLIT and schema.key(_SPLIT) is None:
        for text in condition.texts:
            if text not in splits:
                raise _error(condition, f"{escape(text)!r} is not a split", f"they are {listing(list(splits), 8)}")


def _compare(condition: Comparison, split: Split) -> np.ndarray:
    schema, name = split.schema, condition.name
    if name == _SPLIT and schema.key(name) is None:
        _check_equality(condition, "a split")
        return np.full(len(split), split.name in condition.texts)
    if name == _OBJECTS and schema.key(name) is None and schema.object_keys:
        counts = np.zeros(len(split), np.int64)
        of_objects = XMIN if XMIN in schema.features else schema.object_keys[0]
        for place, values in read_values(split.shards, schema, of_objects):
            counts[place] = len(values)
        return _any_number(condition, counts)
    if name == _OBJECTS and not any(key.rpartition("/")[2] == name for key in schema.features):
        raise _error(condition, "the dataset has no objects", "it needs a dataset with boxes: leave it out")
    key = feature_of(name, schema, condition.at)
    feature = schema.features[key]
    if schema.kind(key) in ("image", "raster", "mask"):
        raise _error(condition, f"{escape(key)} contains images, which cannot be compared", "choose another feature")
    if key in schema.class_names:
        _check_equality(condition, "a class")
        classes = np.array(sorted(_labels(condition, schema.class_names[key])), np.int64)
        return _match(split, key, lambda values: np.isin(values, classes))
    if feature.dtype == "bytes":
        _check_equality(condition, "text")
        wanted = set(map(name_bytes, condition.texts))
        return _match(split, key, lambda values: np.fromiter((v in wanted for v in values), bool, len(values)))
    if other := _other_feature(condition, schema):
        if not feature.scalar:
            raise _error(condition, f"{escape(key)} has several values per record", "compare it with a number")
        return _COMPARE[condition.operator](split.column(key), split.column(other))
    return _match(split, key, lambda values: _any_number(condition, np.asarray(values)))


def feature_of(name: str, schema: Schema, at: int) -> str:
    """Key of the feature that a condition calls `name`. Raise UsageError if there is none, or more than one."""
    if (found := schema.key(name)) is not None:
        return found
    label = schema.key(LABEL)
    if name == _CLASS and label in schema.class_names:
        return str(label)
    keys = [key for key in schema.features if key.endswith(f"/{name}")]
    if name == _CLASS:
        keys = list(schema.class_names)
    if len(keys) == 1:
        return keys[0]
    place = f"{name!r} at character {at + 1}"
    if keys:
        raise UsageError("where", f"{place} may be {' or '.join(map(escape, sorted(keys)))}", "write the full key")
    known = {key: key for key in schema.features} | {key.rpartition("/")[2]: key for key in schema.features}
    near = get_close_matches(name, [*known, _CLASS, _SPLIT, _OBJECTS], 2)
    all_ = f"it has {listing(sorted({key.rpartition('/')[2] for key in schema.features} | {_SPLIT}), 20)}"
    remedy = f"did you mean {' or '.join(map(escape, near))}?" if near else all_
    raise UsageError("where", f"{place} is not a feature of the dataset", remedy)


def _match(split: Split, key: str, matches: Callable[[Any], np.ndarray]) -> np.ndarray:
    """bool [n]: records of which any value matches; `matches`: bool [k] of k values."""
    if split.schema.features[key].scalar:
        return matches(split.column(key))
    found = np.zeros(len(split), bool)
    for place, values in read_values(split.shards, split.schema, key):
        found[place] = bool(matches(values).any()) if len(values) else False
    return found


def _labels(condition: Comparison, names: Sequence[str]) -> Iterable[int]:
    """Numbers of the classes that a comparison names. Raise UsageError for a name that is not a class."""
    number = {name: i for i, name in enumerate(names)}
    for value in condition.texts:
        if value not in number:
            near = get_close_matches(value, names, 2)
            remedy = f"did you mean {' or '.join(map(escape, near))}?" if near else f"they are {listing(names, 8)}"
            raise _error(condition, f"{escape(value)!r} is not a class", remedy)
        yield number[value]


def _any_number(condition: Comparison, values: np.ndarray) -> np.ndarray:
    """bool, of the shape of `values`: which values match any of the condition's numbers."""
    compare = _COMPARE[condition.operator]
    found = np.zeros(values.shape, bool)
    for value in condition.values:
        if isinstance(value, str):
            raise _error(condition, f"{escape(value)!r} is not a number", "compare it with a number")
        found |= compare(values, value if abs(value) <= _LARGEST else float(value))
    return found


def _other_feature(condition: Comparison, schema: Schema) -> str | None:
    """The feature of numbers that a condition compares with; None where that is a value."""
    value = condition.values[0]
    if not isinstance(value, str) or condition.operator == "in" or condition.quoted[0]:
        return None
    key = feature_of(value, schema, condition.at)
    if not schema.features[key].scalar or schema.features[key].dtype == "bytes" or key in schema.class_names:
        raise _error(condition, f"{escape(key)} is not one number per record", "compare it with a number")
    return key


def _check_equality(condition: Comparison, what: str) -> None:
    if condition.operator not in ("==", "in"):
        raise _error(condition, f"{what} has no order", "use == != in or not in")


def _error(condition: Comparison, problem: str, remedy: str) -> UsageError:
    return UsageError("where", f"{escape(condition.name)} at character {condition.at + 1}: {problem}", remedy)
