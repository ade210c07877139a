"""Benchmarks and scripts run rarely, so what they import of the product is looked up here."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file
    for name in ("benchmarks", "docs", "data_samples")
    for file in (ROOT / name).rglob("*.py")
    if "results" not in file.parts
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_script_imports_is_there(file: Path) -> None:
    imports = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom))
    asked = [(node.module or "", one.name) for node in imports for one in node.names if node.level == 0]
    for module, name in (one for one in asked if one[0].split(".")[0] == "shardfeed"):
        home = import_module(module)
        assert hasattr(home, name) or import_module(f"{module}.{name}"), f"{module} has no {name}"
