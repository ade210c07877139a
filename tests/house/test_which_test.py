"""`make which-test` names the tests that run a file: a run under coverage is stored, and asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

SCRIPT = ROOT / "tests" / "support" / "which_test.py"
TEST = "tests/contract/test_naming.py"


@pytest.mark.long
def test_a_files_tests_are_those_that_ran_its_functions(tmp_path: Path) -> None:
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "PYTEST"))}
    environment = outer | {"COVERAGE_FILE": str(tmp_path / "data")}

    def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
        every = [sys.executable, *command]
        return subprocess.run(every, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)

    pytest_ = Path(sys.executable).parent / "pytest"
    ran = run("-m", "coverage", "run", pytest_, "-p", "no:cacheprovider", "-q", TEST)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert run("-m", "coverage", "combine", "--quiet").returncode == 0
    assert run(SCRIPT, "--store", tmp_path / "stored.json").returncode == 0
    tests = run(SCRIPT, tmp_path / "stored.json", "shardfeed/naming.py").stdout.splitlines()
    assert tests
    assert all(test.startswith(f"{TEST}::test_") for test in tests)
    assert run(SCRIPT, tmp_path / "stored.json", "readers/dataset.py").stdout.split() == []
    unknown = run(SCRIPT, tmp_path / "stored.json", "shardfeed/absent.py")
    assert unknown.returncode == 2
    assert "make coverage" in unknown.stderr
