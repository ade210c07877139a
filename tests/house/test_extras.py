"""The core stands alone, and names the extra that installs what it lacks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed import pipelines
from shardfeed.errors import MissingExtraError, UsageError, check_extra, needing_extra

from repository import SUPPORT

CORE_ONLY = SUPPORT / "core_only.py"
WITHOUT_EXTRA = {"Cache", "Position", "as_dataset", "cached", "mix", "order_samples"} | {
    f"prefetch_{workers}" for workers in ("processes", "ray", "threads")
}


def extras_named(said: str) -> dict[str, str]:
    """What was asked for -> the extra that one line each told to install."""
    line = re.compile(r"(?:shardfeed: )?([^:]+): .* is not installed; pip install 'shardfeed\[(\w+)\]'.*")
    found = [line.fullmatch(each) for each in said.splitlines()]
    assert all(found), said
    return {match[1]: match[2] for match in found if match}


def check_what_was_named(named: dict[str, str]) -> None:
    """Of everything that needs an extra, and of nothing else."""
    for place in ("cache", "shardfeed bench", "shardfeed demo"):
        assert named.pop(place) == "tensorflow"
    for place in ("prefetch_ray", "engine"):
        assert named.pop(place) == "ray"
    assert named.pop("baseline") == "baseline"
    assert named.pop("--plot") == "bench"
    for name in pipelines.__all__:
        assert named.pop(f"shardfeed.pipelines.{name}", None) == (None if name in WITHOUT_EXTRA else "tensorflow")
    assert {*named.values()} == {"torch"}
    assert {place.rpartition(".")[0] for place in named} == {"shardfeed.pipelines.torch"}


def test_the_core_alone(flowers_folder: Path, tmp_path: Path) -> None:
    """It converts, verifies and reads without any extra; what needs one says which, on one line."""
    command = [sys.executable, CORE_ONLY, flowers_folder, tmp_path / "out", "hide"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_what_was_named(extras_named(done.stdout + done.stderr))
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing was touched before it was said"


def test_it_is_an_import_error_too() -> None:
    with pytest.raises(ImportError), needing_extra("here"):
        raise ModuleNotFoundError(name="torch")


def test_another_missing_module_is_not_blamed_on_an_extra() -> None:
    for name in ("tensorflow.python.of_another_release", "absl", None):
        with pytest.raises(ModuleNotFoundError) as caught, needing_extra("here"):
            raise ModuleNotFoundError(name=name)
        assert caught.value.name == name


def test_it_is_said_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    check_extra("numpy", "here")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"here: Matplotlib is not installed; pip install 'shardfeed\[bench\]'"):
        check_extra("matplotlib", "here")
    assert MissingExtraError.exit_code == UsageError.exit_code
