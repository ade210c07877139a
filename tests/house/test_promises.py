"""docs/reliability.md numbers what is promised: each promise has tests that say so, and the page names their files."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from repository import TESTS

PAGE = TESTS.parent / "docs" / "reliability.md"
ROWS = [*range(1, 38), *range(47, 50), *range(51, 62), *range(72, 79), "E"]


@cache
def marked() -> dict[str, set[str]]:
    """Row -> names of the files with tests or parameters that are marked with it."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
                assert node.args, f"{path.name}:{node.lineno}: which promise?"
                for row in node.args:
                    assert isinstance(row, ast.Constant), f"{path.name}:{node.lineno}: write the row itself"
                    found.setdefault(str(row.value), set()).add(path.name)
    return found


@cache
def promised() -> dict[str, set[str]]:
    """Row -> the test files that the page names for it."""
    tables = PAGE.read_text().split("## Damage that")[0]
    rows = re.findall(r"^\| (\d+|E) \|.*\| ([^|]*) \|$", tables, re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a row twice"
    return {row: set(re.findall(r"(test_\w+\.py)", files)) for row, files in rows}


def test_there_are_as_many_as_were_given() -> None:
    assert set(promised()) == {*map(str, ROWS)}


@pytest.mark.parametrize("row", ROWS)
def test_each_is_tested_where_the_page_says(row: int | str) -> None:
    assert marked().get(str(row), set()) == promised()[str(row)] != set()


@cache
def run_by_default() -> set[str]:
    """Rows with a test that `make test` runs: one whose function is not marked as a whole for another time."""
    left_out = {f"pytest.mark.{name}" for name in ("long", "torture")}
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        module = ast.parse(path.read_text())
        of_all = [node.value for node in module.body if isinstance(node, ast.Assign)]  # pytestmark is one of them
        for function in module.body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                marks = [*of_all, *function.decorator_list]
                if not left_out & {*map(ast.unparse, marks)}:
                    found.update(*map(promise_rows, marks))
    return found


def promise_rows(node: ast.AST) -> Iterator[str]:
    """Yield the rows that each `pytest.mark.promise(...)` in `node` names."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.promise":
            yield from (str(ast.literal_eval(row)) for row in call.args)


@pytest.mark.parametrize("row", ROWS)
def test_each_has_a_test_that_runs_by_default(row: int | str) -> None:
    assert str(row) in run_by_default()
