"""Compare the wording of messages with messages.txt, so that a change of wording is one reviewed diff.

The list has the texts of the command line, and of the functions that reject an input with a code. Other tests match
codes and places. After a change of wording: `python tests/house/test_messages.py` renews the list.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("messages.txt")
CODES = {"RejectCode", "AnnotationCode"}


def template(node: ast.AST) -> str | None:
    """The text of a literal, with {} for each value in it; None for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts(node: ast.AST) -> Iterator[str]:
    """Templates of two words or more in `node`, without docstrings."""
    for child in ast.iter_child_nodes(node):
        text = template(child)
        if text is None:
            yield from texts(child)
        elif (
            " " in text.strip() and re.search(r"[A-Za-z]{2}.*[ {][A-Za-z]{2}", text) and not isinstance(node, ast.Expr)
        ):
            yield text


def with_codes(node: ast.AST) -> Iterator[ast.AST]:
    """The outermost functions in `node` that name a code."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef):
            yield from with_codes(child)
        elif any(isinstance(part, ast.Name) and part.id in CODES for part in ast.walk(child)):
            yield child


def messages() -> str:
    """All messages, one per line, by file."""
    lines = []
    for file in sorted([*(ROOT / "converters").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]):
        tree = ast.parse(file.read_text())
        parts = [tree] if "tools" in file.relative_to(ROOT).parts else with_codes(tree)
        found = sorted({text.replace("\n", "\\n") for part in parts for text in texts(part)})
        lines += [str(file.relative_to(ROOT)), *(f"  {text}" for text in found)] if found else []
    return "\n".join(lines) + "\n"


def test_messages_are_worded_as_in_the_list() -> None:
    expected, found = (text.splitlines() for text in (GOLDEN.read_text(), messages()))
    changed = [f"- {line}" for line in expected if line not in found]
    changed += [f"+ {line}" for line in found if line not in expected]
    assert found == expected, "\n".join([*changed, "to renew the list: python tests/house/test_messages.py"])


if __name__ == "__main__":
    GOLDEN.write_text(messages())
