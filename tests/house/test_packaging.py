"""Built packages hold every module and no tests, and their core works in an environment of its own."""

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

pytestmark = pytest.mark.long
FOLDERS = ("shardfeed", "converters", "readers", "pipelines", "tools")
MODULES = sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of a fresh copy of the tree, and the wheel that was made of it."""
    root = tmp_path_factory.mktemp("build")
    tree = root / "tree"
    for folder in (*FOLDERS, "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    run(sys.executable, "-m", "build", "--outdir", root / "dist", tree)
    return root / "dist"


def test_the_source_distribution_has_each_module(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = [name.partition("/")[2] for name in files.getnames()]
    assert sorted(name for name in names if name.endswith(".py")) == MODULES
    assert {"setup.cfg", "pyproject.toml", "README.md", "LICENSE", "shardfeed/py.typed"} <= {*names}


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


def test_the_core_alone_in_an_environment_of_its_own(built: Path, flowers_folder: Path, tmp_path: Path) -> None:
    """With nothing but what the wheel requires. `pip` fetches that from the index."""
    (wheel,) = built.glob("*.whl")
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    said = run(python, SUPPORT / "core_only.py", flowers_folder, tmp_path / "out")
    check_what_was_named(extras_named(said))
    assert "shardfeed 0." in run(tmp_path / "venv" / "bin" / "shardfeed", "--version")
