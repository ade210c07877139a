"""Operations that are killed at any operation on storage: absent or complete, sources untouched, gone on with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.formats.registry import FORMATS, NATIVE

from operation_kill_trials import OPERATIONS
from repository import SUPPORT


def trials(place: Path, name: str, to: str, every: int, seed: int) -> None:
    """Runs tests/support/operation_kill_trials.py."""
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    command = [sys.executable, str(SUPPORT / "operation_kill_trials.py"), str(place), name, to, str(every), str(seed)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not result["failures"], "\n".join(result["failures"])
    assert result["operations"] > 60
    assert result["trials"] >= result["operations"] // every
    assert every > 1 or name != "append" or any(kind.startswith("link ") for kind in result["kinds"])


def test_append_killed_here_and_there(tmp_path: Path, seed: int) -> None:
    trials(tmp_path, "append", NATIVE.name, 30, seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_operation(name: str, tmp_path: Path, seed: int) -> None:
    trials(tmp_path, name, NATIVE.name, 1, seed)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [pytest.param(3, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.torture)])
@pytest.mark.parametrize("to", sorted(FORMATS.keys() - {NATIVE.name}))
def test_append_in_other_formats_killed(to: str, every: int, tmp_path: Path, seed: int) -> None:
    trials(tmp_path, "append", to, every, seed)
