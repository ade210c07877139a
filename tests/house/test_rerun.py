"""Failed tests that `.ci/run` runs again, by real runs of pytest over made-up tests."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from repository import SUPPORT

PASSES = "def test_good():\n    pass\n"
FAILS_ONCE = """
from pathlib import Path
def test_once():
    ran = Path(__file__).with_suffix(".ran")
    first = not ran.exists()
    ran.touch()
    assert not first
"""
FAILS_ONCE_AT_ITS_END = """
from pathlib import Path
import pytest
@pytest.fixture
def resource():
    yield
    ran = Path(__file__).with_suffix(".ran")
    first = not ran.exists()
    ran.touch()
    assert not first
@pytest.mark.slow
def test_end(resource):
    pass
"""
FAILS = "def test_bad():\n    assert False\n"
CRASHES_ONCE = """
import os, signal
from pathlib import Path
def test_crash():
    ran = Path(__file__).with_suffix(".ran")
    if not ran.exists():
        ran.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
"""
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--max-worker-restart", "0")


class Ended(NamedTuple):
    status: int
    printed: str
    unstable: str  # what the file of unstable tests has


@pytest.fixture
def rerun(tmp_path: Path) -> Callable[..., Ended]:
    """A function that runs files of tests, given by their texts, as `.ci/run` does."""

    # The plugins of the suite would take most of the time.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}

    def run(*texts: str, options: tuple[str, ...] = ()) -> Ended:
        folder = tmp_path / "made_up"
        folder.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n")
        for number, text in enumerate(texts):
            (folder / f"test_{number}.py").write_text(text)
        unstable = tmp_path / "unstable.txt"
        words = [sys.executable, SUPPORT / "rerun.py", "--unstable", unstable, "-q", "-p", "no:cacheprovider", *options]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, unstable.read_text() if unstable.exists() else "")

    return run


def test_what_passes_is_run_once(rerun: Callable[..., Ended]) -> None:
    ended = rerun(PASSES)
    assert (ended.status, ended.unstable) == (0, "")
    assert ended.printed.splitlines()[-1].startswith("1 passed in ")


@pytest.mark.parametrize("options", [(), SIDE_BY_SIDE], ids=["one process", "two processes"])
def test_what_fails_once_is_unstable(rerun: Callable[..., Ended], options: tuple[str, ...]) -> None:
    ended = rerun(FAILS_ONCE, PASSES, FAILS_ONCE, options=options)
    assert ended.status == 0
    assert sorted(ended.unstable.splitlines()) == ["test_0.py::test_once", "test_2.py::test_once"]
    assert "2 failed, 1 passed in " in ended.printed
    assert [line[:9] for line in ended.printed.splitlines()[-2:]] == ["UNSTABLE:"] * 2


def test_the_end_of_a_test_and_one_of_another_tier(rerun: Callable[..., Ended]) -> None:
    """An error after the test counts as its failure, and a deselected mark does not hide it from the second run."""
    ended = rerun(FAILS_ONCE_AT_ITS_END, options=("-m", "slow"))
    assert (ended.status, ended.unstable) == (0, "test_0.py::test_end\n")


def test_a_second_failure_fails(rerun: Callable[..., Ended]) -> None:
    ended = rerun(FAILS, FAILS_ONCE)
    assert (ended.status, ended.unstable) == (1, "test_1.py::test_once\n")
    assert "FAILED TWICE: test_0.py::test_bad" in ended.printed


def test_a_fourth_failed_test_fails(rerun: Callable[..., Ended]) -> None:
    ended = rerun(*[FAILS_ONCE] * 4)
    assert (ended.status, ended.unstable) == (1, "")
    assert "No test is run again: 4 tests failed, more than 3." in ended.printed


def test_tests_that_did_not_run_fail(rerun: Callable[..., Ended]) -> None:
    ended = rerun(FAILS_ONCE, PASSES, options=("-x",))
    assert ended.status != 0
    assert "No test is run again: stopping after 1 failures." in ended.printed


def test_a_crash_of_a_worker_fails(rerun: Callable[..., Ended]) -> None:
    """Even if it would pass in a second run, and beside a test that would."""
    ended = rerun(CRASHES_ONCE, FAILS_ONCE, options=SIDE_BY_SIDE)
    assert (ended.status != 0, ended.unstable) == (True, "")
    assert "a process crashed in test_0.py::test_crash" in ended.printed


def test_a_crash_of_the_only_process_fails(rerun: Callable[..., Ended]) -> None:
    assert rerun(CRASHES_ONCE, FAILS_ONCE, options=("-p", "no:faulthandler")).status != 0


@pytest.mark.parametrize("options", [(), SIDE_BY_SIDE], ids=["one process", "two processes"])
def test_an_error_of_collection_fails(rerun: Callable[..., Ended], options: tuple[str, ...]) -> None:
    texts = ("def test_x(:\n", "import a_module_that_is_not_there\n", FAILS_ONCE)
    ended = rerun(*texts, options=(*options, "--continue-on-collection-errors"))
    assert (ended.status != 0, ended.unstable) == (True, "")
    assert "test_0.py cannot be collected" in ended.printed
    assert "test_1.py cannot be collected" in ended.printed


def test_an_error_inside_pytest_fails(rerun: Callable[..., Ended]) -> None:
    ended = rerun(FAILS_ONCE, options=("-p", "no_such_plugin"))
    assert (ended.status != 0, ended.unstable) == (True, "")


def test_no_tests_fail(rerun: Callable[..., Ended]) -> None:
    assert rerun("").status == 5
