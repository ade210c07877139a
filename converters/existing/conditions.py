"""Conditions as text, `class in (cat, dog) and height >= 224`, and the records of a split that meet them.

Python's own grammar, with features and values on both sides of `== != < <= > >= in` and `not in`, combined by `and`,
`or`, `not` and parentheses. A word is letters, digits and _ / . - , so that `image/height`, `golden-retriever`, `001`
and `class` are words; `ast` parses the condition with a plain name in the place of each. Nothing is ever run as code.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import XMIN
from shardfeed.errors import UsageError, escape, name_bytes
from shardfeed.readers.columns import read_values
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL, Schema
from shardfeed.split_words import split_called
from shardfeed.text import listing

MOST = 20_000  # characters
_DEEPEST = 50  # groups and `not` within each other
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], np.ndarray]] = {
    ast.Eq: np.equal,
    ast.In: np.equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.NotIn: ast.In}
_LARGEST = 2**63 - 1
_CLASS, _SPLIT, _OBJECTS = "class", "split", "objects"


class _Token(NamedTuple):
    """`kind`: "word", "number", "text" for one in quotes, "end"; a keyword or sign is its own kind."""

    kind: str
    text: str
    at: int  # its offset in the condition


class Comparison(NamedTuple):
    """A feature compared with one value, or with any number of them for `in`. A class may be named 001: see `texts`."""

    name: str
    at: int
    operator: type[ast.cmpop]  # a key of _COMPARE, or of _NEGATED
    values: list[_Token]

    @property
    def texts(self) -> list[str]:
        """The values as written, for features that are not numbers."""
        return [value.text for value in self.values]


class Condition(NamedTuple):
    """`tree`: BoolOp, UnaryOp of Not, and Compare alone; its names are numbers of `tokens`."""

    tree: ast.expr
    tokens: list[_Token]

    def comparison(self, node: ast.Compare) -> Comparison:
        """Comparison of a node of the tree."""
        name, *values = [self.tokens[int(one.id[1:])] for one in ast.walk(node) if isinstance(one, ast.Name)]
        return Comparison(name.text, name.at, type(node.ops[0]), values)


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w/.-]))
    | (?P<word>[\w/](?:[\w/.-]*[\w/])?)
    | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)"
    | (?P<sign>==|!=|<=|>=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_VALUE = "a number, a word or text in quotes"
_VALUES = ("number", "word", "text")
# What is expected in each state, and the state after each kind of token: says more of a mistake than `ast` does, alike
# in every version of Python.
_STATES: dict[str, tuple[str, dict[str, str]]] = {
    "feature": ("the name of a feature", {"word": "sign", "text": "sign", "not": "feature", "(": "feature"}),
    "sign": (
        "== != < <= > >= in or not in",
        {"in": "list", "not": "in"} | dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), "value"),
    ),
    "in": ("in", {"in": "list"}),
    "list": ("( and values", {"(": "entry"}),
    "entry": (_VALUE, dict.fromkeys(_VALUES, "more")),
    "more": (", or )", {",": "entry", ")": "done"}),
    "value": (_VALUE, dict.fromkeys(_VALUES, "done")),
    "done": ("and, or, or the end", {"and": "feature", "or": "feature", "end": ""}),
    "done in a group": (")", {"and": "feature", "or": "feature", ")": "done"}),
}
_HOW = "write for example: class in (cat, dog) and height >= 224"


def parse(text: str) -> Condition:
    """Parse a condition. Raise UsageError, with the place in the text, if it is not one."""
    if len(text) > MOST:
        raise UsageError("where", f"got {len(text):,} characters, expected at most {MOST:,}", "list keys in a file")
    tokens = _tokens(text)
    _check(tokens)
    source = " ".join(f"_{i}" if token.kind in _VALUES else token.text for i, token in enumerate(tokens))
    return Condition(ast.parse(source, mode="eval").body, tokens)


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
        elif kind == "sign" or content in ("and", "or", "not", "in"):
            kind = content
        found.append(_Token(kind, content, start))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _check(tokens: list[_Token]) -> None:
    """Raise UsageError at the first token that no condition has in its place."""
    state = "feature"
    around: list[str] = []  # each "(" and "not" that the next comparison is in
    for token in tokens:
        expected, after = _STATES["done in a group" if state == "done" and around else state]
        if token.kind not in after:
            got = "it ends" if token.kind == "end" else f"got {escape(token.text)!r} at character {token.at + 1}"
            raise UsageError("where", f"{got}, expected {expected}", _HOW)
        if state == "feature" and token.kind in ("not", "("):
            around.append(token.kind)
            if len(around) > _DEEPEST:
                raise UsageError("where", f"more than {_DEEPEST} nested groups", "simplify it")
        if state == "done" and token.kind == ")":
            around.pop()
        state = after[token.kind]
        while state == "done" and around[-1:] == ["not"]:
            around.pop()


def evaluate(condition: Condition, split: Split) -> np.ndarray:
    """bool [n]. `!=` and `not in` hold where `==` and `in` do not.

    Features with one value a record come from columns; for others all records are read. Raises UsageError for names
    that the dataset does not have and values that cannot be compared, IntegrityError for damage.
    """

    def holds(node: ast.expr) -> np.ndarray:
        match node:
            case ast.BoolOp(ast.And(), parts):
                return np.logical_and.reduce([holds(part) for part in parts])
            case ast.BoolOp(ast.Or(), parts):
                return np.logical_or.reduce([holds(part) for part in parts])
            case ast.UnaryOp(ast.Not(), part):
                return ~holds(part)
            case ast.Compare():
                compared = condition.comparison(node)
                if compared.operator in _NEGATED:
                    return ~_compare(compared._replace(operator=_NEGATED[compared.operator]), split)
                return _compare(compared, split)
        raise AssertionError(ast.dump(node))

    return holds(condition.tree)


def with_known_splits(condition: Condition, splits: Collection[str], schema: Schema) -> Condition:
    """Return the condition with the names that a dataset's `splits` have. Raise UsageError for a missing split."""
    tokens = {token.at: token for token in condition.tokens}
    for node in ast.walk(condition.tree):
        if not isinstance(node, ast.Compare) or schema.key(_SPLIT) is not None:
            continue
        compared = condition.comparison(node)
        for value in compared.values if compared.name == _SPLIT else ():
            known = split_called(value.text, splits)
            if known is None:
                problem = f"{escape(value.text)!r} is not a split"
                raise _error(compared, problem, f"they are {listing(list(splits), 8)}")
            tokens[value.at] = value._replace(text=known)
    return condition._replace(tokens=[*tokens.values()])


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
    for kind, text, _ in condition.values:
        if kind != "number":
            raise _error(condition, f"{escape(text)!r} is not a number", "compare it with a number")
        value = int(text) if re.fullmatch(r"[+-]?\d{1,19}", text) else float(text)
        found |= compare(values, value if abs(value) <= _LARGEST else float(value))
    return found


def _other_feature(condition: Comparison, schema: Schema) -> str | None:
    """The feature of numbers that a condition compares with; None where that is a value."""
    kind, text, _ = condition.values[0]
    if kind != "word" or condition.operator is ast.In:
        return None
    key = feature_of(text, schema, condition.at)
    if not schema.features[key].scalar or schema.features[key].dtype == "bytes" or key in schema.class_names:
        raise _error(condition, f"{escape(key)} is not one number per record", "compare it with a number")
    return key


def _check_equality(condition: Comparison, what: str) -> None:
    if condition.operator not in (ast.Eq, ast.In):
        raise _error(condition, f"{what} has no order", "use == != in or not in")


def _error(condition: Comparison, problem: str, remedy: str) -> UsageError:
    return UsageError("where", f"{escape(condition.name)} at character {condition.at + 1}: {problem}", remedy)
