"""No function of the product has more than 12 branches, but for those of branches.txt, whose number may only fall.

A branch is what a reader must hold in mind: `if`, `for`, `while`, `except`, `assert` and `case`, each conditional
expression, each comprehension and each of its conditions, each further operand of `and` and `or`; a function starts at
one. Lambdas and functions inside a function are counted apart.

The list names each function with its branches when it was last changed. `python tests/house/test_branches.py` renews it
after a function has lost branches; it never adds one: divide the function instead.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("shardfeed", "converters", "readers", "pipelines", "tools")
LIST = Path(__file__).with_name("branches.txt")
MOST = 12
LARGE = 20  # branches from which a function counts among the large ones
MOST_LARGE = 79  # functions above LARGE; only lowered

BRANCH = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.IfExp,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPE = (*FUNCTION, ast.ClassDef)


def branches(function: ast.AST) -> int:
    """The branches of a function, without those of functions inside it."""
    total = 1
    remaining = list(ast.iter_child_nodes(function))
    while remaining:
        node = remaining.pop()
        if isinstance(node, (*FUNCTION, ast.Lambda)):
            continue
        if isinstance(node, BRANCH):
            total += 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        remaining += ast.iter_child_nodes(node)
    return total


def functions(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield each function below a node with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPE):
            yield from functions(child, scope)
            continue
        name = f"{scope}.{child.name}".lstrip(".")
        if isinstance(child, FUNCTION):
            yield name, child
        yield from functions(child, name)


def counted() -> dict[str, int]:
    """The branches of each function above the limit, by file and qualified name."""
    above: dict[str, int] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for name, function in functions(ast.parse(file.read_text())):
                place = f"{file.relative_to(ROOT)}::{name}"
                number = branches(function)
                if number > MOST:
                    above[place] = max(number, above.get(place, 0))
    return above


def listed() -> dict[str, int]:
    """The list of exceptions."""
    numbers: dict[str, int] = {}
    file = ""
    for line in LIST.read_text().splitlines():
        if not line.startswith(" "):
            file = line
            continue
        number, name = line.split()
        numbers[f"{file}::{name}"] = int(number)
    return numbers


def large(numbers: dict[str, int]) -> int:
    """How many functions are far above the limit."""
    return sum(number > LARGE for number in numbers.values())


def as_text(numbers: dict[str, int]) -> str:
    """The list as it is stored: each file, and below it its functions, one a line."""
    lines: list[str] = []
    file = ""
    for place, number in sorted(numbers.items()):
        of, name = place.split("::")
        if of != file:
            file = of
            lines.append(file)
        lines.append(f"  {number} {name}")
    return "\n".join(lines) + "\n"


def test_no_function_gains_branches() -> None:
    allowed = listed()
    more = [
        f"{place}: {number} branches, expected at most {allowed.get(place, MOST)}"
        for place, number in counted().items()
        if number > allowed.get(place, MOST)
    ]
    assert not more, "\n".join([*more, "divide the function: one thing at one level"])


def test_the_list_only_shrinks() -> None:
    now = counted()
    loose = [place for place, number in listed().items() if now.get(place, 0) < number]
    assert not loose, "\n".join([*loose, "fewer branches now: run python tests/house/test_branches.py"])
    assert large(listed()) == MOST_LARGE, f"lower MOST_LARGE to {large(listed())}"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("pass", 1),
        ("if a: pass\nelif b: pass\nelse: pass", 3),
        ("return a if b and c or d else e", 4),
        ("return [x for x in y if x if z]", 4),
        ("for a in b:\n  while c: assert d", 4),
        ("try: a\nexcept B: c\nexcept D: e", 3),
        ("match a:\n  case 1: b\n  case _: c", 3),
        ("return lambda: a or b", 1),
        ("def inner():\n  if a: pass", 1),
    ],
)
def test_what_counts(code: str, number: int) -> None:
    body = "".join(f"  {line}\n" for line in code.splitlines())
    (outer,) = ast.parse(f"def outer():\n{body}").body
    assert branches(outer) == number


def test_functions_are_named_by_their_classes() -> None:
    tree = ast.parse("class A:\n  def b(self):\n    def c(): pass\nif d:\n  def e(): pass")
    assert [name for name, _ in functions(tree)] == ["A.b", "A.b.c", "e"]


def renew() -> None:
    """Write the list anew; refuse to add a function or a branch."""
    now = counted()
    before = listed()
    more = [place for place, number in now.items() if number > before.get(place, MOST)]
    if more:
        sys.exit("\n".join([*more, "have gained branches: divide them, the list only shrinks"]))
    LIST.write_text(as_text(now))
    print(f"{len(now)} functions above {MOST} branches, {large(now)} above {LARGE}")


if __name__ == "__main__":
    renew()
