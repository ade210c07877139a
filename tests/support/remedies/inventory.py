"""The advice in the package's messages, found in its source: what can be typed, and what is only words.

Advice is what a message says after its problem: the third argument of an error, a variable `remedy`, a note. It can be
typed if it names an option or a command. Its id is its file and its text, with {} for each value in it, so it
survives a move within the file.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import product

from shardfeed.tools.command_list import COMMANDS, command_parser

from repository import ROOT

FOLDERS = ("converters", "pipelines", "readers", "shardfeed", "tools")
TYPED = {"argument", "naming", "ways"}  # the functions that write an option into a message
NAMED = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)|(?<![\w/-])(shardfeed (?:" + "|".join(COMMANDS) + r"))(?![\w-])")
# What is printed by a command that succeeded is no advice about an error, and neither are its help and examples.
NOT_ADVICE = re.compile(
    r"tools/(command_list|cli|progress|commands/(completion|demo)_command)\.py|shardfeed/errors\.py"
)
_MARK = "\ue000"  # begins and ends an option in a template: what is between them can be typed

Names = dict[str, list[ast.expr]]


def flag(name: str) -> str:
    """An argument as `convert` prints it."""
    special = {"path": "as SOURCE", "root": "as SOURCE, and this file by --labels", "splits": "--split"}
    return special.get(name) or "--" + name.replace("_columns", "_column").replace("_", "-")


def is_named(node: ast.AST, *names: str) -> bool:
    """Whether `node` calls one of these functions."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def is_error(node: ast.AST) -> bool:
    """Whether `node` makes an error of place, problem and remedy."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name.endswith("Error") and name != "ArgumentTypeError"


def is_quoted(node: ast.AST) -> bool:
    """Whether `node` quotes a text for a shell."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "quote"


def constant(node: ast.AST) -> str:
    if is_quoted(node):
        node = node.args[0]  # type: ignore[attr-defined]
    if isinstance(node, ast.JoinedStr):
        return "".join(constant(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


class Scope:
    """The texts of a function or module: what its names were set to, and its advice."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.used: set[str] = set()

    def texts(self, node: ast.AST, within: frozenset[str] = frozenset()) -> list[str]:
        """All texts that an expression may have, with {} for each value in it. `within`: names being looked up."""
        if isinstance(node, ast.Constant):
            return [node.value if isinstance(node.value, str) else "{}"]
        if isinstance(node, ast.JoinedStr):
            parts = [self.texts(part, within) for part in node.values]
            return ["".join(chosen) for chosen in product(*parts)][:16]
        if isinstance(node, ast.FormattedValue):
            return self.texts(node.value, within) if not isinstance(node.value, ast.Constant) else ["{}"]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pairs = product(self.texts(node.left, within), self.texts(node.right, within))
            return [left + right for left, right in pairs][:16]
        if isinstance(node, ast.IfExp):
            return [*self.texts(node.body, within), *self.texts(node.orelse, within)]
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self.texts(value, within)]
        if isinstance(node, ast.Name) and node.id in self.names and node.id not in within:
            values = [value for value in self.names[node.id] if value.lineno <= node.lineno <= _until(value)]
            values = values or self.names[node.id]
            found = [text for value in values for text in self.texts(value, within | {node.id})]
            if any(can_be_typed(text) for text in found) or node.id.startswith(("remedy", "_REMEDY")):
                self.used.add(node.id)
                return found
            return ["{}"]
        if is_named(node, *TYPED) and constant(node.args[0]) != "column":  # that is a place
            return [_MARK + self.option(node) + _MARK]
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.texts(node.elt, within)
        if isinstance(node, ast.Call):  # "".join(...), one_of(...), or any function of what can be typed
            inner = [text for part in node.args for text in self.texts(part, within) if can_be_typed(text)]
            return inner or ["{}"]
        return ["{}"]

    def option(self, call: ast.Call) -> str:
        """Text of `argument`, `naming` or `ways`, as `convert` prints it."""
        name, *more = [constant(part) for part in call.args] or ["{}"]
        if is_named(call, "ways"):
            return "--label-column {}"
        if is_named(call, "naming"):
            return f"--columns {name}={more[0]}"
        typed = [constant(word.value) for word in call.keywords if word.arg == "typed"]
        value = typed[0] if typed else more[0] if more else ""
        if value in ("True", "False"):
            name, value = f"no_{name}" if value == "False" else name, ""
        value = value if typed or not value or "{}" in value else shlex.quote(value)
        return f"{flag(name) if name != '{}' else '--{}'} {value}".rstrip()


@cache
def options() -> frozenset[str]:
    """All options of our commands: a message may also name those of tar or docker."""
    parsers = (command_parser(command) for command in COMMANDS)
    return frozenset(flag for parser in parsers for flag in parser._option_string_actions)


def _until(value: ast.expr) -> float:
    """The last line where a name has this value, which is that of a branch that ends."""
    return getattr(value, "until", float("inf"))


def can_be_typed(text: str) -> bool:
    return _MARK in text or bool(options_in(text))


def scopes(tree: ast.Module) -> Iterator[tuple[Scope, list[ast.stmt]]]:
    """Each function with its names, and the module without its functions."""
    outer = _assigned(tree.body, {})
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name != "naming":
            yield Scope(outer | _assigned(node.body, {})), node.body
    yield Scope(outer), tree.body


def _within(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a body, without those of the functions and classes in it."""
    rest: list[ast.AST] = list(reversed(body))
    while rest:
        node = rest.pop()
        yield node
        inner = (ast.FunctionDef, ast.AsyncFunctionDef)
        children = [part for part in ast.iter_child_nodes(node) if not isinstance(part, inner)]
        rest += [] if isinstance(node, inner) else reversed(children)


def _assigned(body: list[ast.stmt], found: Names) -> Names:
    for node in _within(body):
        if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Raise, ast.Continue)):
            for part in (inner for one in node.body for inner in ast.walk(one)):
                part.until = node.body[-1].end_lineno  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value)
    return found


def _is_part(node: ast.AST) -> bool:
    """Whether an expression is an option alone, or several."""
    if isinstance(node, ast.IfExp):
        return _is_part(node.body) and _is_part(node.orelse)
    return all(map(_is_part, node.elts)) if isinstance(node, ast.Tuple) else is_named(node, *TYPED)


def _advice(scope: Scope, node: ast.AST) -> Iterator[str]:
    """The texts of advice in a node: not those of problems, places, keys of dictionaries, or comparisons."""
    if is_error(node):
        assert isinstance(node, ast.Call)
        remedies = [*node.args[2:], *(word.value for word in node.keywords if word.arg == "remedy")]
        for part in remedies:
            yield from (text for text in scope.texts(part))
        return
    if isinstance(node, (ast.JoinedStr, ast.BinOp, ast.Constant, ast.IfExp)) or is_named(node, *TYPED):
        yield from (text for text in scope.texts(node) if can_be_typed(text))
        return
    inner = (ast.Compare, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, inner) or getattr(getattr(node, "func", None), "attr", "") in ("add_argument", "compile"):
        return
    if is_named(node, "check_extra", "needing_extra"):  # their texts are places
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
        return
    if isinstance(node, ast.Assign):
        names = [name.id for name in node.targets if isinstance(name, ast.Name)]
        if set(names) & scope.used or set(names) & {"problem", "problems", "place", "what"}:
            return  # told where it is used
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in (value for value in values if not _is_part(value)):  # one is found where it is used
            yield from _advice(scope, value)
        return
    if isinstance(node, ast.keyword) and node.arg in ("help", "metavar", "default", "description", "problem"):
        return
    for part in ast.iter_child_nodes(node):
        yield from _advice(scope, part)


def options_in(text: str) -> set[str]:
    """The options and commands that a text names."""
    names = {flag or command for flag, command in NAMED.findall(text)}
    names = {name for name in names if name.startswith("shardfeed ") or name in options()}
    return names | set(re.findall(r"as (SOURCE)\b", text))


@cache
def inventory() -> dict[str, bool]:
    """Each advice as `file: text`, and whether it can be typed."""
    found: dict[str, bool] = {}
    for file in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if NOT_ADVICE.fullmatch(name):
            continue
        used: set[str] = set()
        tree = ast.parse(file.read_text())
        for scope, body in scopes(tree):  # the module last
            scope.used = used if body is tree.body else set()
            for _ in range(2):  # the first time notes which names are used
                texts = [text for node in body for text in _advice(scope, node)]
            used |= scope.used
            for text in texts:
                if re.search("[a-z]", text.replace("{}", "")) and not re.fullmatch("--[a-z-]+", text):
                    found[f"{name}: {text.replace(_MARK, '').strip()}".replace("\n", "\\n")] = can_be_typed(text)
    return found


def pattern(advice: str) -> re.Pattern[str]:
    """Pattern of the text of an advice in a message."""
    text = advice.partition(": ")[2].replace("\\n", "\n")
    escaped = ".*?".join(map(re.escape, text.split("{}")))
    in_python = r"(?: \(in Python [^\n]*?\))?"  # follows an option in a report
    escaped = (
        escaped.replace("\\ ", f"'?{in_python} '?").replace(";", "'?;").replace(",", "'?,")
    )  # values may be quoted
    return re.compile(escaped.replace(r"\-\-", "(?:`shardfeed convert` )?--"), re.DOTALL)  # in another command


if __name__ == "__main__":
    for advice, typed in inventory().items():
        print("typed" if typed else "words", advice)
