"""A package of another project, which adds a reader, an engine and a command; written to a folder, or installed there.

Its reader takes lines such as `circle.001.jpg 1 2 30 40 ring`, its engine writes in the process, its command counts.
"""

import subprocess
import sys
from pathlib import Path

POINTS = {
    "shardfeed.readers": "boxes = their_boxes:boxes",
    "shardfeed.engines": "here = their_boxes:here",
    "shardfeed.commands": "count = their_boxes.count_command",
}
_FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "their-boxes"
version = "1.5"
"""
    + "".join(
        '[project.entry-points."{}"]\n{} = "{}"\n'.format(group, *point.split(" = ")) for group, point in POINTS.items()
    ),
    "their_boxes/__init__.py": """
from types import SimpleNamespace

from shardfeed.converters import AnnotationOptions, Annotations, Evidence, Reader
from shardfeed.converters.shards.write_shard import write_shard


def recognise(look, options):
    path = look.first((".boxes",))
    return Evidence("boxes", "images and boxes in lines", parsed=path) if path else None


def read(look, options, path=None):
    found = Annotations(look.path, look, options, what="line")
    with open(path or look.first((".boxes",))) as file:
        for number, line in enumerate(file, 1):
            name, *sides, label = line.split()
            found.object(found.image(name, where=f"line {number}"), number, [*map(float, sides)], label)
    return found.source()


boxes = Reader(
    "boxes",
    SimpleNamespace(recognise=recognise, read=read),
    AnnotationOptions,
    takes={"images", "class_names"},
    suffixes=(".boxes",),
)


class Here:
    def __init__(self):
        self.warnings = []

    def start(self, tasks):
        pass

    def run(self, tasks, poll=lambda: None):
        for task in tasks:
            poll()
            yield write_shard(task)

    def done(self):
        return 0, 0

    def stop(self):
        pass


def here(workers, tries):
    engine = Here()
    engine.warnings.append(f"{workers.count} workers are this process")
    return engine
""",
    "their_boxes/count_command.py": """
HELP = "count the lines of files"


def add_arguments(parser):
    parser.add_argument("files", nargs="+", help="files with lines")
    parser.add_argument("--total", action="store_true", help="print one number")


def run(args):
    counts = [sum(1 for _ in open(name)) for name in args.files]
    print(*[sum(counts)] if args.total else counts)
    return 0
""",
    "test_boxes.py": """
import pytest

from shardfeed.converters import open_source
from shardfeed.testing.source import SourceContract


class TestBoxes(SourceContract):
    @pytest.fixture
    def build(self):
        return lambda: open_source("images", reader="boxes")
""",
}


def write_package(folder: Path) -> None:
    """The files of the package's project."""
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip())


def add_points(folder: Path, package: str, points: dict[str, str]) -> None:
    """Write what an installed package leaves: its name, its version 1.5, and its entry points by group."""
    info = folder / f"{package.replace('-', '_')}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{point}\n" for group, point in points.items()))


def install_package(project: Path, target: Path) -> None:
    """Build the project, and install it into the folder `target`, without a network."""
    words = ["install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--target", target, project]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
