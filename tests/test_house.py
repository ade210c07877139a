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
    "readers/swap_check.py",
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


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_torch_stays_in_its_rooms(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for dotted, line, top in imports(path):
        if top and dotted.split(".")[0] in {"torch", "torchvision", "torchdata"}:
            assert name.startswith("pipelines/torch"), f"{name}:{line}: import it in the function that needs it"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_ray_stays_in_its_rooms(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for dotted, line, top in imports(path):
        if dotted.split(".")[0] == "ray":
            assert path.parent.name in {"shardfeed", "converters", "pipelines"}, f"{name}:{line}"
            assert not top or path.name.startswith("ray_"), f"{name}:{line}: import it in the function that needs it"


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


# What runs code that someone else wrote, or writes files where an archive says. TensorFlow's names have a dot before.
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "system",
    "popen",
    "extractall",
    "extract",
    "unpack_archive",
}
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "code",
}
FORBIDDEN_MODULES |= {"tarfile", "xml", "html", "jinja2", "webbrowser"}
MAY_BE_CALLED = {"re.compile", "model.compile"}


def dangers(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, what) of each thing that no file of the packages may do (RELIABILITY.md E)."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [(node.lineno, name) for name in names if name.split(".")[0] in FORBIDDEN_MODULES]
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in FORBIDDEN_CALLS and ast.unparse(node.func) not in MAY_BE_CALLED:
            found.append((node.lineno, name))
        if name == "import_module" and node.args and isinstance(node.args[0], ast.Constant):
            found += [(node.lineno, name)] if str(node.args[0].value).split(".")[0] in FORBIDDEN_MODULES else []
        for keyword in node.keywords:
            harmless = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if keyword.arg in {"shell", "allow_pickle"} and not harmless:
                found.append((node.lineno, f"{keyword.arg}={ast.unparse(keyword.value)}"))
    return found


@pytest.mark.promise("E")
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_nothing_dangerous_is_called(path: Path) -> None:
    assert dangers(ast.parse(path.read_text())) == []


@pytest.mark.promise("E")
@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import os.path, marshal",
        "from yaml import load",
        "import xml.etree.ElementTree",
        "eval('1')",
        "builtins.exec(text)",
        "compile(text, 'x', 'exec')",
        "os.system('ls')",
        "os.popen('ls')",
        "tar.extractall(path)",
        "shutil.unpack_archive(path)",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=flag)",
        "np.load(path, allow_pickle=True)",
        "importlib.import_module('pickle')",
    ],
)
def test_each_danger_is_seen(code: str) -> None:
    """And its harmless sister is not."""
    assert dangers(ast.parse(code))
    assert not dangers(ast.parse("np.load(path, allow_pickle=False); re.compile('x'); subprocess.run(['ls'])"))


@pytest.mark.promise("E")
def test_no_page_is_made() -> None:
    """No file of the packages writes HTML: the report of `preview` is a picture. So nothing of a page must be escaped.

    If one is added, it needs a test that every value in it is escaped, no script and a strict Content-Security-Policy.
    """
    for path in FILES:
        strings = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        text = "".join(value for value in strings if isinstance(value, str)).lower()
        assert not [tag for tag in ("<html", "<!doctype", "<script", "<body", "<div") if tag in text], path


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
