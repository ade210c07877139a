"""The rules that keep the house easy to live in: who imports whom, what starts fast, what is never called."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))]
NAMES = [str(path.relative_to(ROOT)) for path in FILES]

# What each package may import besides itself.
MAY_IMPORT = {
    "shardfeed": {"readers"},  # shardfeed.open, lazily
    "converters": {"shardfeed"},
    "readers": {"shardfeed"},
    "pipelines": {"shardfeed", "readers"},
    "tools": {"shardfeed", "converters", "readers", "pipelines"},
}
# Modules that build tf.data: only these import TensorFlow when they are imported.
BUILD_TF_DATA = {
    "readers/stream.py",
    "readers/parse.py",
    "readers/indexed.py",
    "pipelines/decode.py",
    "pipelines/augment.py",
    "pipelines/assembly.py",
    "pipelines/batches.py",
    "pipelines/backup.py",
    "pipelines/distribution.py",
    "pipelines/evaluation.py",
}


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(dotted name, line, at module level) of every absolute import."""
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found.append((node.module or "", node.lineno, id(node) in top))
        elif isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) in top) for alias in node.names]
    return found


def package_of(dotted: str) -> str | None:
    """The package of this project a dotted name belongs to."""
    if dotted.split(".")[0] != "shardfeed":
        return None
    part = [*dotted.split("."), ""][1]
    return part if part in PACKAGES else "shardfeed"


def test_every_file_is_seen() -> None:
    assert len(FILES) > 30
    for package in PACKAGES:
        assert not [p for p in (ROOT / package).iterdir() if p.is_dir() and p.name != "__pycache__"], "keep it flat"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_imports_run_one_way(path: Path) -> None:
    package = path.parent.name
    for dotted, line, _ in imports(path):
        assert dotted.split(".")[0] not in {"converters", "readers", "pipelines", "tools"}, (
            f"{path}:{line}: a second copy"
        )
        to = package_of(dotted)
        if to is not None and to != package:
            assert to in MAY_IMPORT[package], f"{path}:{line}: {package} must not import {to}"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_tensorflow_stays_in_its_rooms(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for dotted, line, top in imports(path):
        if dotted.split(".")[0] in {"tensorflow", "keras"}:
            assert path.parent.name in {"readers", "pipelines", "tools"}, f"{name}:{line}"
            assert not top or name in BUILD_TF_DATA, f"{name}:{line}: import it in the function that needs it"


def test_no_import_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for path in FILES:
        package = path.parent.name
        prefix = "shardfeed" if package == "shardfeed" else f"shardfeed.{package}"
        name = prefix if path.stem == "__init__" else f"{prefix}.{path.stem}"
        edges[name] = {dotted for dotted, _, top in imports(path) if top and dotted.startswith("shardfeed")} - {name}
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) != 1, f"cycle: {' -> '.join((*trail, name))}"
        if name in edges and name not in state:
            state[name] = 1
            for other in sorted(edges[name]):
                visit(other, (*trail, name))
            state[name] = 2

    for name in edges:
        visit(name, ())


FORBIDDEN_CALLS = {"eval", "exec", "loads_pickle", "extractall", "system", "popen"}


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_nothing_dangerous_is_called(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for dotted, line, _ in imports(path):
        assert dotted.split(".")[0] not in {"pickle", "marshal", "shelve", "dill", "yaml"}, f"{path}:{line}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        assert name not in FORBIDDEN_CALLS, f"{path}:{node.lineno}: {name}"
        for keyword in node.keywords:
            if keyword.arg in {"shell", "allow_pickle"}:
                assert isinstance(keyword.value, ast.Constant), f"{path}:{node.lineno}"
                assert not keyword.value.value, f"{path}:{node.lineno}: {keyword.arg}=True"


def modules_after(code: str, cwd: Path) -> set[str]:
    """The modules a fresh Python has loaded after running `code`."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=cwd, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import shardfeed; shardfeed.open",
        "from shardfeed.converters import convert, ImageFolder, LabelFile, FileNames",
        "from shardfeed.readers import Split, Dataset, verify",
        "import shardfeed.pipelines",
        "import shardfeed.tools.convert_command, shardfeed.tools.inspect_command, shardfeed.tools.verify_command",
        "import shardfeed.tools.preview_command, shardfeed.tools.demo_command",
    ],
)
def test_starts_without_tensorflow(code: str, tmp_path: Path) -> None:
    loaded = modules_after(code, tmp_path)
    assert "shardfeed" in loaded
    assert not {"tensorflow", "keras", "torch", "ray"} & loaded


def test_the_source_tree_imports_as_installed() -> None:
    loaded = modules_after("from shardfeed.converters import convert; from shardfeed.readers import Split", ROOT)
    assert "shardfeed.converters.conversion" in loaded
    assert not {"converters", "readers", "pipelines", "tools"} & loaded


def test_no_second_copy_is_loaded() -> None:
    assert not {"converters", "readers", "pipelines", "tools"} & set(sys.modules)
