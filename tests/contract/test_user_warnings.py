"""Warnings and errors of arguments point at the code of the user, not at ours."""

import ast
import runpy
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from shardfeed import declared, shapes
from shardfeed.declared import Natural, checked
from shardfeed.errors import RecordError, UsageError
from shardfeed.pipelines import Ranks
from shardfeed.readers import Skip
from shardfeed.user_warnings import warn_user

from repository import ROOT

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
OF_THE_CHECKS = {declared.__file__, shapes.__file__}


def test_no_function_of_ours_warns_by_a_level_of_its_own() -> None:
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "warnings.warn_explicit")
    ]
    assert [call.partition(":")[0] for call in calls] == ["shardfeed/user_warnings.py"]


def warned_line(call: Callable[[], object]) -> tuple[str, int]:
    """The file and the line of the one warning of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (warned,) = caught
    return warned.filename, warned.lineno


def ours() -> Callable[[int], None]:
    """A function of this package that warns, with others of it, and of Python, around it: so many more."""
    source = (
        "from contextlib import contextmanager\n"
        "from shardfeed.user_warnings import warn_user\n"
        "@contextmanager\n"
        "def block():\n    warn_user('why')\n    yield\n"
        "def warns(depth):\n"
        "    if depth:\n        return warns(depth - 1)\n"
        "    with block():\n        pass\n"
    )
    names: dict[str, Any] = {"__name__": "shardfeed.invented"}
    exec(compile(source, "/somewhere/shardfeed/invented.py", "exec"), names)
    return names["warns"]


@pytest.mark.promise(73)
@pytest.mark.parametrize("depth", [0, 1, 7])
def test_a_warning_names_the_line_of_the_user(depth: int, tmp_path: Path) -> None:
    warns = ours()
    assert warned_line(lambda: warns(depth))[0] == __file__
    script = tmp_path / "train.py"
    script.write_text(f"\n\nwarns({depth})\n")
    assert warned_line(lambda: runpy.run_path(str(script), {"warns": warns})) == (str(script), 3)


def test_a_library_between_is_not_the_user(tmp_path: Path) -> None:
    library = tmp_path / "lib/site-packages/library.py"
    library.parent.mkdir(parents=True)
    library.write_text("def fit(step):\n    return step()\n")
    fit = runpy.run_path(str(library))["fit"]
    warns = ours()
    assert warned_line(lambda: fit(partial(warns, 2)))[0] == __file__


def test_in_a_thread_of_ours_the_function_that_warns_is_named() -> None:
    thread = Thread(target=warn_user, args=("why",))

    def run() -> None:
        thread.start()
        thread.join()

    assert warned_line(run)[0].endswith("threading.py")


def test_a_damaged_record_is_reported_at_the_users_line() -> None:
    skip = Skip(1)
    assert warned_line(lambda: skip.note(RecordError("shard, record 3, offset 9", "damaged")))[0] == __file__


@checked
def function_of_ours(size: Natural = 1, names: Sequence[str] = ()) -> int:
    return size


@checked
def reading(names: Iterable[str]) -> list[str]:
    return list(names)


def last_frame(call: Callable[[], object]) -> traceback.FrameSummary:
    """The last frame of the traceback of a call that raises UsageError."""
    with pytest.raises(UsageError) as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert OF_THE_CHECKS.isdisjoint(frame.filename for frame in frames)
    return frames[-1]


@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda: function_of_ours("x"), function_of_ours),  # type: ignore[arg-type]
        (lambda: function_of_ours(names=[3]), function_of_ours),  # type: ignore[list-item]
        (lambda: function_of_ours(-1), function_of_ours),
        (lambda: reading(iter([3])), reading),
    ],
)
def test_the_last_frame_of_an_error_is_the_function_that_was_called(
    call: Callable[[], object], function: Callable[..., Any]
) -> None:
    frame = last_frame(call)
    assert (frame.filename, frame.name) == (__file__, function.__name__)
    assert frame.lineno == function.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]


def test_a_dataclass_is_the_last_frame_of_its_own_errors() -> None:
    assert last_frame(lambda: Ranks("x", 3)).name == "__init__"  # type: ignore[arg-type]


def test_a_function_that_takes_the_arguments_of_a_dataclass_is_the_last_frame() -> None:
    from shardfeed.converters import convert

    frame = last_frame(lambda: convert("x", "y", seed="x"))  # type: ignore[arg-type]
    assert frame.name == "__init__"  # of its options
