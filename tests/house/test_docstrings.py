"""Every public name has an example in its docstring, which uses names and keywords that exist, and runs."""

import ast
import builtins
import inspect
import json
import os
import re
import shutil
import textwrap
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.pipelines.torch import Target
from shardfeed.readers import Dataset

PACKAGES = ("", ".converters", ".readers", ".pipelines", ".pipelines.prefetch", ".pipelines.torch")
FACES = {f"shardfeed{package}": import_module(f"shardfeed{package}") for package in PACKAGES}
EXAMPLE = re.compile(r"^Example:\n((?:    .*\n|\n)+)", re.MULTILINE)
MODULES = {"Path": Path, "SimpleNamespace": SimpleNamespace, "json": json, "np": np, "os": os, "shardfeed": shardfeed}
# What an example takes from the program around it.
AROUND = {
    *("LABEL", "Schema", "Feature", "data", "report", "flowers", "plants", "batches", "feed", "number", "offset"),
    *("F", "tf", "torch", "model", "criterion", "device", "strategy", "count_right", "right", "predict", "output"),
    *("target", "engine", "producer", "prefetcher", "read", "recognise", "roles", "look", "options", "entries"),
    *("files", "rows", "gather", "size", "color_jitter", "grayscale"),
}
# They want a cluster, a package, other files, a model, or a bucket.
SHOWN = {"RayWorkers", "NamedWorkers", "export", "find_files", "open_source", "Skip", "push", "pull"}
SHOWN |= {"Pushed", "Pulled"}


def public(package: str) -> dict[str, Any]:
    """The names of a package that can have a docstring of their own."""
    found = {name: getattr(FACES[package], name) for name in FACES[package].__all__}
    return {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isroutine(value)}


def example(value: Any) -> str:
    """The code below `Example:`, "" without."""
    found = EXAMPLE.search((inspect.getdoc(value) or "") + "\n")
    return textwrap.dedent(found.group(1)) if found else ""


def names_around(package: str) -> dict[str, Any]:
    """Return the names an example may use: the public names of all packages, those of its own first."""
    return {name: value for face in (*FACES, package) for name, value in public(face).items()} | MODULES


def unknown(tree: ast.AST, known: dict[str, Any]) -> set[str]:
    """The names that a piece of code uses and neither makes nor finds in `known`."""
    nodes = list(ast.walk(tree))
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {n.id for n in nodes if isinstance(n, ast.Name)} - made - known.keys() - vars(builtins).keys()


@pytest.mark.parametrize("package", FACES)
def test_every_public_name_has_an_example_of_what_there_is(package: str) -> None:
    known = names_around(package)
    for name, value in public(package).items():
        tree = ast.parse(example(value))
        assert tree.body, f"{name} has no example"
        assert unknown(tree, known) <= AROUND, name
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called = known.get(call.func.id) if isinstance(call.func, ast.Name) else None
            if called not in (None, *MODULES.values(), Target):  # types of Python have no signature
                taken = inspect.signature(called).parameters
                free = any(parameter.kind == parameter.VAR_KEYWORD for parameter in taken.values())
                assert free or {word.arg for word in call.keywords} <= taken.keys() | {None}, f"{name}: {call.func.id}"


@pytest.fixture
def at_home(flowers: Dataset, flowers_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has the files that examples name."""
    monkeypatch.chdir(tmp_path)
    rows, images = ["path,breed"], []
    for path in sorted(flowers_folder.glob("*/000[1-9].*")):
        name = f"{path.parent.name}/{path.name}"
        for copy in (Path("photos", name), Path("more-photos", path.parent.name, f"new-{path.name}")):
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Not the same picture twice: the second has a byte behind its end.
            copy.write_bytes(path.read_bytes() + b"\0" * (copy.parts[0] == "more-photos"))
        rows.append(f"{name},{path.parent.name}")
        width, height = Image.open(path).size
        images.append({"id": len(images), "file_name": name, "width": width, "height": height})
    Path("labels.csv").write_text("\n".join(rows))
    box = {"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 1, 5, 5], "segmentation": [[1, 1, 6, 1, 6, 6]]}
    coco = {"images": images, "annotations": [box], "categories": [{"id": 1, "name": "bud"}]}
    Path("instances.json").write_text(json.dumps(coco))
    np.savez("digits.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.arange(4))
    shutil.copytree(flowers.directory, "flowers")
    shutil.copytree(flowers.directory, "others")
    shutil.copytree(flowers.directory, "records", ignore=shutil.ignore_patterns("index", "*.json"))


RUNNABLE = [
    pytest.param(value, id=name)
    for package in ("shardfeed.converters", "shardfeed.readers")
    for name, value in public(package).items()
    if name not in SHOWN and not unknown(ast.parse(example(value)), names_around(package)) - {"data"}
]


@pytest.mark.long
@pytest.mark.parametrize("value", RUNNABLE)
def test_examples_run(value: Any, at_home: None) -> None:
    """Those that neither train nor are part of a reader."""
    run = compile(example(value), value.__name__, "exec")
    exec(run, names_around("shardfeed.converters") | {"data": shardfeed.open("flowers")})
