"""Built packages hold every module and no tests, and their core works in an environment of its own.

With a compiler they hold the compiled module; without one they are made, and work, without it.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from extras_named import check_what_was_named, extras_named
from repository import ROOT, SUPPORT
from trees import extract_all

pytestmark = pytest.mark.long
FOLDERS = ("shardfeed", "converters", "readers", "pipelines", "tools")
SOURCES = {str(path.relative_to(ROOT)) for pattern in ("*.cpp", "*.h") for path in (ROOT / "shardfeed").rglob(pattern)}
MODULES = sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def run(*command: object, **variables: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "SHARDFEED_NATIVE"} | variables
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of a fresh copy of the tree, and the wheel that was made of it."""
    root = tmp_path_factory.mktemp("build")
    tree = root / "tree"
    for folder in (*FOLDERS, "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for file in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    run(sys.executable, "-m", "build", "--outdir", root / "dist", tree)
    return root / "dist"


@pytest.fixture(scope="module")
def uncompiled(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel made of the source distribution where no compiler works."""
    (archive,) = built.glob("*.tar.gz")
    root = tmp_path_factory.mktemp("uncompiled")
    with tarfile.open(archive) as files:
        extract_all(files, root)
    (tree,) = root.iterdir()
    run(sys.executable, "-m", "build", "--wheel", "--outdir", root / "dist", tree, CC="false", CXX="false")
    (wheel,) = (root / "dist").glob("*.whl")
    return wheel


def compiled_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        return [name for name in files.namelist() if name.endswith(".so")]


def has_compiler(folder: Path) -> bool:
    """Whether C++ with libjpeg-turbo's headers compiles here."""
    (folder / "try.cpp").write_text("#include <cstdio>\n#include <jpeglib.h>\nint main() { return 0; }\n")
    words = ("c++", folder / "try.cpp", "-o", folder / "try", "-ljpeg")
    return shutil.which("c++") is not None and not subprocess.run(words, capture_output=True, check=False).returncode


def test_the_compiled_module_is_in_the_wheel_where_it_can_be(built: Path, tmp_path: Path) -> None:
    if not has_compiler(tmp_path):
        pytest.skip("no C++ compiler, or no headers of libjpeg-turbo: install g++ and libjpeg62-turbo-dev")
    (wheel,) = built.glob("*.whl")
    (name,) = compiled_in(wheel)
    assert name.startswith("shardfeed/native/library.")


def test_without_a_compiler_the_wheel_lacks_the_compiled_module_alone(built: Path, uncompiled: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert compiled_in(uncompiled) == []
    with zipfile.ZipFile(wheel) as files, zipfile.ZipFile(uncompiled) as fewer:
        names = {name for name in files.namelist() if name.startswith("shardfeed/")}
        assert names - {*fewer.namelist()} == {*compiled_in(wheel)}


def test_the_source_distribution_has_each_module(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = [name.partition("/")[2] for name in files.getnames()]
    assert sorted(name for name in names if name.endswith(".py")) == sorted([*MODULES, "setup.py"])
    assert {"setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "shardfeed/py.typed"} <= {*names}
    assert {*names} >= SOURCES


def test_the_wheel_has_each_module_where_it_is_imported_from(built: Path) -> None:
    (archive,) = built.glob("*.whl")
    with zipfile.ZipFile(archive) as files:
        names = files.namelist()
        (metadata,) = (files.read(name).decode() for name in names if name.endswith("/METADATA"))
    imported = [name if name.startswith("shardfeed/") else f"shardfeed/{name}" for name in MODULES]
    assert sorted(name for name in names if name.endswith(".py")) == sorted(imported)
    assert "shardfeed/py.typed" in names, "which counts for the packages below it, too"
    templates = (ROOT / "tools" / "report" / "templates").iterdir()
    assert {f"shardfeed/tools/report/templates/{path.name}" for path in templates} <= {*names}
    assert "License-Expression: Apache-2.0" in metadata
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needed = re.findall(r"^Requires-Dist: ([^;\n]+)$", metadata, re.MULTILINE)
    assert needed == setup["options"]["install_requires"].split()
    assert {re.split(r"\W", name)[0] for name in needed} == {"google", "numpy", "pillow", "simplejpeg", "tqdm"}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "uncompiled"])
def test_the_core_alone_in_an_environment_of_its_own(
    built: Path, uncompiled: Path, flowers_folder: Path, tmp_path: Path, compiled: bool
) -> None:
    """With nothing but what the wheel requires. `pip` fetches that from the index."""
    wheel = next(built.glob("*.whl")) if compiled else uncompiled
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    said = run(python, SUPPORT / "core_only.py", flowers_folder, tmp_path / "out")
    check_what_was_named(extras_named(said))
    said = run(tmp_path / "venv" / "bin" / "shardfeed", "--version")
    assert "shardfeed 0." in said
    assert ("compiled, libjpeg-turbo" in said) == bool(compiled_in(wheel))
