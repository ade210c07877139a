"""The core stands alone, and names the extra that installs what it lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.errors import MissingExtraError, UsageError, check_extra, needing_extra

from extras_named import check_what_was_named, extras_named
from repository import SUPPORT


def test_the_core_alone(flowers_folder: Path, tmp_path: Path) -> None:
    """It converts, verifies and reads without any extra; what needs one says which, on one line."""
    command = [sys.executable, SUPPORT / "core_only.py", flowers_folder, tmp_path / "out", "hide"]
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
