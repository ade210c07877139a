"""docs/reliability.md numbers what is promised: each promise has tests that say so, and the page names their files."""

import ast
import re
from functools import cache

import pytest

from repository import TESTS

PAGE = TESTS.parent / "docs" / "reliability.md"


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
    tables = PAGE.read_text().split("## What a checksum sees")[0]
    rows = re.findall(r"^\| (\d+|E) \|.*\| ([^|]*) \|$", tables, re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a row twice"
    return {row: set(re.findall(r"(test_\w+\.py)", files)) for row, files in rows}


def test_there_are_as_many_as_were_given() -> None:
    assert set(promised()) == {*map(str, range(1, 38)), "E"}


@pytest.mark.parametrize("row", [*range(1, 38), "E"])
def test_each_is_tested_where_the_page_says(row: int | str) -> None:
    assert marked().get(str(row), set()) == promised()[str(row)] != set()
