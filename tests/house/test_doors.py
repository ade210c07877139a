"""No public door without a check of its arguments.

A door is whatever a user calls with arguments: functions in `__all__`, classes that users make, and the methods,
operators and setters of objects that public functions return. Each is `@checked`, or stands in a list with its reason.
What stands there is tried by the calls of tests/support/argument_fuzz.py instead.
"""

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args, get_origin

import pytest

from shardfeed.pipelines.augment import Augmentation
from shardfeed.pipelines.one_way import OneWay

from remedies.inventory import inventory
from repository import ROOT

PACKAGES = (
    "", ".converters", ".readers", ".pipelines", ".pipelines.augment", ".pipelines.prefetch", ".pipelines.torch"
)  # fmt: skip
OPERATORS = {"__getitem__", "__getitems__", "__setitem__", "__delitem__", "__contains__", "__call__", "__init__"}

# Functions and methods that look at their arguments themselves, where an error is raised as in `@checked`: a check by
# declaration would take longer than all else that they do, or would say less.
CHECKS_ITSELF = {
    "Dataset": {"__getitem__", "__contains__"},  # a missing split lists those that there are
    # For each sample: `place` checks the index. Any value may be searched for.
    "Split": {"__getitem__", "__getitems__", "__contains__", "count", "place", "where", "payload"},
    "Position": {"check", "from_json", "load", "save"},  # a position is read and written back as its file is
    "TorchLoader": {"state_dict", "load_state_dict"},  # its position does
    "DeviceFeed": {"state_dict", "load_state_dict"},
    "GeometricTransform": {"__call__"},  # for each image: `check_record` and `own_seed`
    "Detection": {"__call__"},
    "Segmentation": {"__call__"},
    "RandomCrop": {"at"},  # by our own functions only
}

# Classes whose objects only we make: results, and what functions return. Their constructors are no doors.
MADE_BY_US = {
    *("ArrayBatches", "Batches", "ColumnarSource", "Dataset", "DatasetReport", "Detection", "DeviceFeed", "EvalFeed"),
    *("Exported", "Feed", "GeometricTransform", "Pulled", "Pushed", "RandomCrop", "Segmentation"),
    *("Prefetcher", "Progress", "Rebuilt", "Report", "Salvaged", "SampleLoader", "ShardSlice", "ShardTasks", "Skipped"),
    *("Split", "Statistics", "Survey", "Target", "TorchLoader", "TrainingArrays", "Worker", "Stored"),
    *("Verified", "_KerasBatches"),
}

# Classes whose methods others call or write, never a user with arguments of their own choice.
NO_DOORS = {
    # What an author of an engine or a source writes, and we call.
    **dict.fromkeys(("Engine", "Source", "ReaderModule"), "a protocol"),
    # What an author of a reader uses, once for each line of a file: what it got wrong is an error of its reader, which
    # is raised with the file's name where readers are called.
    **dict.fromkeys(("Annotations", "Evidence", "Findings", "Gather", "Look", "Parts", "Reader"), "for readers"),
    **dict.fromkeys(("ColumnInfo", "Row", "Sample", "SourceFile", "SourceInfo", "SourceFiles", "Roles"), "for sources"),
    # What tf.data, Keras, PyTorch or a loader calls.
    **dict.fromkeys(("GraphTransform", "GraphDetection", "GraphSegmentation"), "called with tensors, in a graph"),
    "Augmentation": "drawn and checked by loaders",
    **dict.fromkeys(("MixUp", "CutMix", "OneMixing"), "called with a batch of a loader, and checks its kind"),
    **dict.fromkeys(("Manifest", "Mixture", "Order", "Receipt"), "parts of a result, for our own code"),
    **dict.fromkeys(("AnnotationCode", "RejectCode", "Target"), "plain values"),
}

# Methods of doors that a framework or our own pipelines call.
CALLED_BY_OTHERS = {
    "Backup": "on_",  # Keras' hooks
    "Collate": "__call__",
    "Skip": "note",
    "Split": "reading",
    "Detection": "follow",
    "Segmentation": "follow",
    "GeometricTransform": "augmented draw follow see",
    "RandomCrop": "augmented augments check_pixels choice choices edits view windows",
    "Report": "committed_with of",
    "ImageOptions": "from_json",
    "Shares": "of",
    **dict.fromkeys(("ImageFolder", "Unlabelled", "FileNames", "LabelFile", "ColumnarSource"), "changed __getitem__"),
}

# Functions for authors of readers and for nodes of a cluster, as the classes above.
FUNCTIONS = {"choose_roles", "find_files", "write_shard"}

# Arguments of other people's functions, which an advice names: file, argument.
FOREIGN_ARGUMENTS = {
    ("converters/existing/surveying.py", "compression_type"),  # tf.data
    ("converters/sources/files/unpack.py", "compression"),  # MDSWriter
    ("converters/sources/statements.py", "digest_size"),  # hashlib
    ("pipelines/keras.py", "shuffle"),  # fit
    ("pipelines/keras.py", "epochs"),
}
VALUES = {"age", "mask", "test", "train", "validation"}  # columns and splits, as in train=0.9 or --columns mask=NAME


def public() -> Iterator[tuple[str, Any]]:
    """Each public name with its object."""
    for package in PACKAGES:
        module = importlib.import_module(f"shardfeed{package}")
        for name in module.__all__:
            yield name, getattr(module, name)


def ours(made: object) -> bool:
    """Whether it is a class of this package."""
    return inspect.isclass(made) and made.__module__.startswith("shardfeed.")


def classes_in(hint: Any, module: str) -> Iterator[type]:
    """The classes of this package that an annotation names."""
    if isinstance(hint, str):
        hint = eval(hint, dict(vars(sys.modules[module])))
    if ours(hint):
        yield hint
    if ours(get_origin(hint)):
        yield get_origin(hint)  # type: ignore[misc]  # it is a class
    for part in get_args(hint):
        if inspect.isclass(part) or get_origin(part) is not None:
            yield from classes_in(part, module)


def door_classes() -> dict[str, type]:
    """The public classes, and those of what public functions return."""
    found: dict[str, type] = {}
    for name, made in public():
        if inspect.isclass(made):
            found[name] = made
        elif inspect.isfunction(made):
            function = inspect.unwrap(made)
            for kind in classes_in(function.__annotations__["return"], function.__module__):
                found[kind.__name__] = kind
    hidden = importlib.import_module("shardfeed.pipelines.keras")._KerasBatches  # behind a class of Keras
    return {**found, hidden.__name__: hidden}


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods, operators and setters of a class that take arguments and are of this package."""
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_") and name not in OPERATORS:
            continue
        function = member.fset if isinstance(member, property) else getattr(member, "__func__", member)
        if not inspect.isfunction(function) or not function.__module__.startswith("shardfeed."):
            continue
        if len(inspect.signature(function).parameters) > 1 and function is not OneWay.__contains__:  # refuses all
            yield name, function


def is_checked(function: Any) -> bool:
    """Whether it is decorated."""
    return "declared" in vars(function)


def is_excused(kind: str, name: str) -> bool:
    """Whether a method stands in one of the lists."""
    if name == "__init__":
        return kind in MADE_BY_US
    by_others = CALLED_BY_OTHERS.get(kind, "").split()
    return name in CHECKS_ITSELF.get(kind, ()) or any(name.startswith(prefix) for prefix in by_others)


def unchecked() -> list[str]:
    """The doors without a check that stand in no list."""
    found = [
        name for name, made in public() if inspect.isfunction(made) and not is_checked(made) and name not in FUNCTIONS
    ]
    for kind, made in door_classes().items():
        if kind in NO_DOORS or issubclass(made, Augmentation):
            continue
        for name, function in methods(made):
            if not is_checked(function) and not is_excused(kind, name):
                found.append(f"{kind}.{name}")
    return sorted(set(found))


def arguments() -> set[str]:
    """The names of all arguments of public functions, of the classes of doors, and of their methods."""
    callables = [made for _, made in public() if callable(made)]
    for kind in door_classes().values():
        callables += [kind, *(function for _, function in methods(kind))]
    names: set[str] = set()
    for each in callables:
        with suppress(TypeError, ValueError):  # some classes have no signature
            names |= set(inspect.signature(each).parameters)
    return names


def unknown_arguments(advice: str, known: set[str]) -> list[tuple[str, str]]:
    """File and name of each argument (`name=`) in an advice of the inventory that nothing public takes."""
    file, _, text = advice.partition(": ")
    named = re.findall(r"(?<![\w./-])([a-z_]+)=(?!=)", text)
    return [(file, name) for name in named if name not in known]


@pytest.mark.long
def test_an_advice_names_arguments_that_a_public_function_takes() -> None:
    known = arguments() | VALUES
    found = {pair for advice in inventory() for pair in unknown_arguments(advice, known)}
    assert found - FOREIGN_ARGUMENTS == set(), "no public function takes it"


def test_an_advice_with_an_unknown_argument_is_found() -> None:
    invented = "pipelines/x.py: give voids=255, or decode='cuda'"
    assert unknown_arguments(invented, arguments()) == [("pipelines/x.py", "voids")]


@pytest.mark.promise(73)
def test_no_public_door_is_without_a_check() -> None:
    assert unchecked() == [], "write @checked above it, or give a reason in this file"


@pytest.mark.promise(73)
def test_the_lists_name_what_there_is() -> None:
    classes = door_classes()
    listed = {*CHECKS_ITSELF, *MADE_BY_US, *NO_DOORS, *CALLED_BY_OTHERS}
    assert listed - classes.keys() == {"ReaderModule"}  # which a reader loads
    for kind, names in CHECKS_ITSELF.items():
        assert names <= {name for name, _ in inspect.getmembers_static(classes[kind])}, kind
    assert {name for name, _ in public()} >= FUNCTIONS


def test_a_door_without_a_check_is_found() -> None:
    class Invented:
        """A class as a public function may return it."""

        __module__ = "shardfeed.invented"

        def open(self, size: int) -> None: ...

        @property
        def step(self) -> int:
            return 0

        @step.setter
        def step(self, step: int) -> None: ...

        def __contains__(self, name: object) -> bool:
            return False

    for name in ("open", "__contains__"):
        getattr(Invented, name).__module__ = "shardfeed.invented"
    vars(Invented)["step"].fset.__module__ = "shardfeed.invented"
    assert [name for name, function in methods(Invented) if not is_checked(function)] == [
        "__contains__",
        "open",
        "step",
    ]


# Options of other programs.
OF_OTHERS = re.compile(r"(azcopy|docker|pip|hf|tar|apt|shardfeed \w+)\b[^`]*--|--(upgrade|shm-size|force-reinstall)\b")
OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z-]+")


def bare_options(source: str) -> list[str]:
    """The texts of a module that name an option as it is typed, and not as Python writes it."""
    tree = ast.parse(source)
    described = {id(node) for call in ast.walk(tree) if is_described(call) for node in ast.walk(call)}
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if id(node) in described | documented | inside:
            continue
        text = text_of(node)
        if OPTION.search(text) and "(in Python" not in text and not OF_OTHERS.search(text):
            found.append(text)
    return found


def is_described(node: ast.AST) -> bool:
    """Whether it is the help of an option, or an argument of a message that Python writes in its own way."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("Typed", "argument")


def text_of(node: ast.AST) -> str:
    """The text of a literal, with {} for each value in it; "" for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_messages_name_options_as_python_writes_them() -> None:
    """Functions are called from Python: `argument("max_bad", 8)` is typed as an option on the command line only."""
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for folder in ("shardfeed", "converters", "readers", "pipelines")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in bare_options(path.read_text())
    ]
    assert found == [], "name the argument by shardfeed.errors.argument, or add '(in Python ...)'"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('E("x", "give --tasks boxes")', 1),
        ('E("x", f"give --tasks {boxes}")', 1),
        ('E("x", "give --tasks boxes (in Python tasks=[...])")', 0),
        ('E("x", "`shardfeed adopt DIR --image-key KEY`")', 0),
        ('Typed("not with --tasks")', 0),
        ('def f():\n    """With --tasks."""', 0),
    ],
)
def test_a_bare_option_is_found(source: str, count: int) -> None:
    assert len(bare_options(source)) == count
