"""The compiled module: when it is used, and what is said where it is not."""

import subprocess
import sys

import pytest

from shardfeed import native
from shardfeed.errors import UsageError

built = pytest.mark.skipif(native._loaded()[0] is None, reason=f"the compiled module {native._loaded()[1]}")


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_loaded", lambda: (None, "was not built"))


@built
@pytest.mark.parametrize("value", ["", "1"])
def test_what_was_built_is_used(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(native.VARIABLE, value)
    loaded = native.library()
    assert loaded is not None
    assert loaded.shardfeed_jpeg() > 2_000_000
    assert native.path_in_use().startswith("compiled, libjpeg-turbo ")


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.VARIABLE, "0")
    assert native.library() is None
    assert native.path_in_use() == "Python: SHARDFEED_NATIVE=0"


@pytest.mark.usefixtures("not_built")
def test_nothing_is_missed_where_it_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    assert native.library() is None
    assert native.path_in_use() == "Python: compiled module was not built"


@pytest.mark.usefixtures("not_built")
@pytest.mark.parametrize("value", ["1", "yes"])
def test_an_error_where_it_is_asked_for_and_cannot_be(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(native.VARIABLE, value)
    with pytest.raises(UsageError, match=native.VARIABLE):
        native.library()


def test_the_command_line_says_which_path_runs() -> None:
    words = [sys.executable, "-m", "shardfeed.tools.cli", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"(decodes by {native.path_in_use()})" in done.stdout
