"""The rules that keep the house easy to live in: who imports whom, what starts fast, what is never called."""

import ast
import functools
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
FOLDERS = sorted({path.parent for path in FILES})

# What each package may import besides itself.
MAY_IMPORT = {
    "top": {"shardfeed", "converters", "readers", "pipelines", "tools"},  # shardfeed/__init__.py: public names, lazily
    "shardfeed": set(),
    "converters": {"shardfeed", "readers"},  # readers: of datasets that are converted again
    "readers": {"shardfeed"},
    "pipelines": {"shardfeed", "readers"},
    "tools": {"shardfeed", "converters", "readers", "pipelines"},
    "testing": {"shardfeed", "converters", "readers"},  # shardfeed/testing: contracts to inherit, imported by no room
}


def package(path: Path) -> str:
    """The top-level folder that a file is in; shardfeed/testing and the package itself stand beside them."""
    parts = path.relative_to(ROOT).parts
    if parts == ("shardfeed", "__init__.py"):
        return "top"
    return "testing" if parts[:2] == ("shardfeed", "testing") else parts[0]


def dotted_name(path: Path) -> str:
    """The name that a file is imported by; a folder's face has the folder's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "shardfeed" else ("shardfeed", *parts))


MODULES = {dotted_name(path): path for path in FILES}
each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=[str(folder.relative_to(ROOT)) for folder in FOLDERS])


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, which several rules read."""
    return ast.parse(path.read_text())


def files_in(folder: Path) -> list[Path]:
    """The files of a folder itself, without those of folders below it."""
    return [path for path in FILES if path.parent == folder]


@functools.cache
def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(dotted name, line, at module level) of every import; `from package import module` names the module."""
    tree = parsed(path)
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            names = {f"{module}.{alias.name}" for alias in node.names}
            found += [(name if name in MODULES else module, node.lineno, id(node) in top) for name in sorted(names)]
        elif isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) in top) for alias in node.names]
    return found


def package_of(dotted: str) -> str | None:
    """The package of this project a dotted name belongs to."""
    if dotted.split(".")[0] != "shardfeed":
        return None
    part = [*dotted.split("."), ""][1]
    return part if part in MAY_IMPORT else "shardfeed"


def test_every_file_is_seen() -> None:
    assert len(FILES) > 100
    folders = {parent for path in FILES for parent in path.relative_to(ROOT).parents if parent.name}
    assert folders == {folder.relative_to(ROOT) for folder in FOLDERS if folder / "__init__.py" in FILES}, (
        "setup.py finds packages by their __init__.py"
    )


def test_the_repository_stays_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone, so nobody knows which files are tracked")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(files) > 1000
    assert sum(path.lstat().st_size for path in files if path.exists()) < 10 << 20


def test_no_class_name_is_there_twice() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, "one name for one thing: name the vaguer one for what it is"


@each_folder
def test_folders_are_at_most_three_levels_deep(folder: Path) -> None:
    assert len(folder.relative_to(ROOT).parts) <= 3, "put its files beside what they are read with"


@each_folder
def test_imports_run_one_way(folder: Path) -> None:
    for path in files_in(folder):
        ours = package(path)
        for dotted, line, _ in imports(path):
            assert dotted.split(".")[0] not in {"converters", "readers", "pipelines", "tools"}, (
                f"{path}:{line}: a second copy"
            )
            to = package_of(dotted)
            if to is not None and to != ours:
                assert to in MAY_IMPORT[ours], f"{path}:{line}: {ours} must not import {to}"


@each_folder
def test_pytest_is_needed_by_contracts_alone(folder: Path) -> None:
    for path in files_in(folder):
        asked = [line for name, line, _ in imports(path) if name.split(".")[0] == "pytest"]
        assert package(path) == "testing" or not asked, f"{path}:{asked}"


@each_folder
def test_frameworks_stay_in_their_rooms(folder: Path) -> None:
    """TensorFlow below folders of that name, PyTorch too, Ray and Keras in files named for them; else in functions."""
    for path in files_in(folder):
        name = path.relative_to(ROOT)
        for dotted, line, top in imports(path):
            if not top:
                continue
            root = dotted.split(".")[0]
            where = f"{name}:{line}: import it in the function that needs it"
            assert root != "tensorflow" or "tensorflow" in name.parts[:-1], where
            assert root != "keras" or "tensorflow" in name.parts[:-1] or path.name == "keras.py", where
            assert root not in {"torch", "torchvision", "torchdata"} or "torch" in name.parts[:-1], where
            assert root != "ray" or path.name.startswith("ray_"), where


@functools.cache
def rooms_and_imports() -> dict[str, dict[str, set[str]]]:
    """Folder -> room in it -> other rooms of that folder that something in it imports, inside functions too.

    A folder's face offers names and is no room.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for path in FILES:
        if path.name == "__init__.py":
            continue
        here = dotted_name(path).split(".")
        for dotted, _, _ in imports(path):
            there = dotted.split(".")
            shared = 0
            while shared < min(len(here), len(there)) and here[shared] == there[shared]:
                shared += 1
            if 0 < shared < min(len(here), len(there)):
                of_folder = found.setdefault(".".join(here[:shared]), {})
                of_folder.setdefault(here[shared], set()).add(there[shared])
    return found


@each_folder
def test_imports_inside_a_folder_run_one_way(folder: Path) -> None:
    """No room of a folder imports another that, by whatever way, imports it."""
    edges = rooms_and_imports().get(dotted_name(folder / "__init__.py"), {})
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) != 1, f"{folder}: a circle: {' -> '.join((*trail, name))}"
        if name not in state:
            state[name] = 1
            for other in sorted(edges.get(name, ())):
                visit(other, (*trail, name))
            state[name] = 2

    for name in edges:
        visit(name, ())


# What decides for all readers is decided in one place: the classes and functions that do, and the files that call them.
# A file that inherits from one is like one that calls it.
_ROWS = "converters/sources/rows"
ONE_PLACE = {
    "ColumnarSource": {f"{_ROWS}/rows.py"},
    "check_asked": {f"{_ROWS}/rows.py"},
    "ObjectTable": {f"{_ROWS}/objects.py"},
    "ClassColumn": {f"{_ROWS}/columns.py", f"{_ROWS}/inference.py"},
    "Numbering": {"converters/sources/classes.py"},
    "number_classes": {
        f"{_ROWS}/columns.py",  # of samples
        f"{_ROWS}/rows.py",  # of objects
        f"{_ROWS}/inference.py",  # of columns of a table
        "converters/sources/rows/label_file.py",  # of the names of one-hot columns
    },
}


def test_one_engine_makes_sources_and_one_rule_numbers_classes() -> None:
    found: dict[str, set[str]] = {name: set() for name in ONE_PLACE}
    for path in FILES:
        for node in ast.walk(parsed(path)):
            used = node.bases if isinstance(node, ast.ClassDef) else [node.func] if isinstance(node, ast.Call) else []
            for one in used:
                name = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else ""
                if name in found:
                    found[name].add(path.relative_to(ROOT).as_posix())
    assert found == ONE_PLACE, "a reader says what it found to `Rows`, whose `source` makes the source"


FACES = [path for path in FILES if path.name == "__init__.py" and "lazy_names" in path.read_text()]


@pytest.mark.parametrize("path", FACES, ids=[str(path.relative_to(ROOT)) for path in FACES])
def test_a_face_offers_what_type_checkers_see(path: Path) -> None:
    face = importlib.import_module(dotted_name(path))
    seen = {
        alias.asname: node.module
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
        if alias.asname
    }
    assert sorted(seen) == face.__all__
    assert (
        set(face.__all__)
        <= set(dir(face))
        <= {*face.__all__, "converters", "pipelines", "readers", "augment", "prefetch", "recipes", "torch"}
    )
    missing = [
        name for name in face.__all__ if not re.search(rf"\b{name}\b", face.__doc__ or "") and name != "__version__"
    ]
    assert not missing, "the docstring lists the names, which help() and notebooks show"
    for name, module in seen.items():
        assert getattr(face, name) is getattr(importlib.import_module(str(module)), name)
        assert f"{dotted_name(path)}.{name}" not in MODULES, "whoever imports that module first gets it for the name"


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
# The one file that may import a module that is dangerous elsewhere, and how it is kept from being so here.
MAY_BE_IMPORTED = {
    "shardfeed/formats/webdataset.py": {"tarfile"},  # it writes headers, and reads none
    "converters/sources/annotations/documents.py": {"xml.etree"},  # a DOCTYPE is refused before
    "readers/notebook.py": {"html"},  # to escape text
    "tools/report/page.py": {"jinja2"},  # with autoescape, for templates of ours alone
    "converters/sources/files/class_names.py": {"yaml"},  # its safe loader, which makes no object of a tag
}


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
@each_folder
def test_nothing_dangerous_is_called(folder: Path) -> None:
    for path in files_in(folder):
        name = str(path.relative_to(ROOT))
        # A contract pickles what it tests, and reads no data of others.
        harmless = {"pickle"} if package(path) == "testing" else MAY_BE_IMPORTED.get(name, set())
        assert [(name, line, what) for line, what in dangers(parsed(path)) if what not in harmless] == []


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


# Where the time of day is shown. A wait, a deadline or an age by this clock would be wrong once it is set.
TIMES_OF_DAY = {"shardfeed/storage/outage.py": 1}


def wall_clock_reads(code: str) -> int:
    """How often the code names a function that tells the time of day in seconds."""
    tree = ast.parse(code)
    read = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    taken = {
        (node.module, name.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names
    }
    return len((read | taken) & {("time", "time"), ("time", "time_ns"), ("tf", "timestamp")})


def test_nothing_is_timed_by_a_clock_that_may_be_set() -> None:
    found = {str(path.relative_to(ROOT)): wall_clock_reads(path.read_text()) for path in FILES}
    assert {path: count for path, count in found.items() if count} == TIMES_OF_DAY


@pytest.mark.parametrize(
    "code", ["time.time()", "from time import time", "field(default_factory=time.time)", "tf.timestamp()"]
)
def test_each_such_clock_is_seen(code: str) -> None:
    assert wall_clock_reads(code) == 1


@pytest.mark.promise("E")
def test_pages_are_made_by_templates_that_escape() -> None:
    """No module writes markup, except fragments for notebooks; tests/readers/test_notebook.py shows that it escapes.

    The page of `report` comes from templates; tests/tools/test_report_command.py shows that they escape every value,
    and that only the page's own script may run.
    """
    page, fragment = ("<html", "<!doctype", "<script", "<body", "<div", "<iframe"), ("<table", "<td", "<tr", "<img")
    for path in FILES:
        tags = page if path == ROOT / "readers" / "notebook.py" else page + fragment
        strings = [node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
        text = "".join(value for value in strings if isinstance(value, str)).lower()
        assert not [tag for tag in tags if tag in text], path
    templates = [path.read_text() for path in (ROOT / "tools" / "report" / "templates").glob("*.html")]
    assert len(templates) >= 2
    for text in templates:
        assert not re.search(r"\|\s*safe|autoescape|\son\w+=|\sstyle=|http", text.replace("http-equiv", ""))


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
        "from shardfeed.tools.commands import convert_command, inspect_command, verify_command",
        "from shardfeed.tools.commands import preview_command, demo_command",
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
