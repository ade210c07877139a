"""A virtual environment for each peer: they pin versions of NumPy, protobuf and each other's parts that exclude others.

Made once under benchmarks/results/environments, and again when its requirements here change. A peer that cannot be
installed is no error: its reason goes into the table.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = Path(__file__).parent / "results" / "environments"
_SECONDS = 1800  # for one installation; some fetch gigabytes
_OURS = re.compile(r"shardfeed(\[[\w,-]+\])?")  # among requirements: this repository, with extras or without


class NotInstallableError(Exception):
    """Why an environment could not be made, in one line."""


def environment_python(name: str, requirements: Sequence[str], probe: str = "") -> str:
    """The interpreter of environment `name`, which has `requirements`; made, which takes minutes, where it is missing.

    `probe`: Python that must run in it, such as its imports. Raises NotInstallableError; what failed is remembered and
    not tried again until the requirements change.
    """
    directory = ENVIRONMENTS / name
    python = directory / "bin" / "python"
    wanted = hashlib.sha256("\n".join([sys.version, *requirements, probe]).encode()).hexdigest()
    stamp, failure = directory / "installed", directory / "failed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return str(python)
    if failure.is_file() and failure.read_text().split("\n")[0] == wanted:
        raise NotInstallableError(failure.read_text().split("\n", 1)[1])
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    packages = [f"{ROOT}{found[1] or ''}" if (found := _OURS.fullmatch(one)) else one for one in requirements]
    commands = [
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
        [str(python), "-c", probe],
    ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=directory)
            said = done.stderr.strip() if done.returncode else ""
        except subprocess.TimeoutExpired:
            said = f"not installed after {_SECONDS} s"
        if said:
            reason = last_reason(said)
            failure.write_text(f"{wanted}\n{reason}")
            raise NotInstallableError(reason)
    stamp.write_text(wanted)
    return str(python)


def last_reason(said: str) -> str:
    """The line of a failed program's stderr that says why: its last exception, else its last line that is no advice."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    plain = [line for line in lines if not line.lower().startswith(("note:", "hint:"))]
    return (raised or plain or ["unknown"])[-1].rstrip(".")[:200]


def versions(python: str, packages: Sequence[str]) -> dict[str, str]:
    """Installed versions of `packages` in the environment of `python`."""
    code = "import importlib.metadata as m, json, sys; print(json.dumps({p: m.version(p) for p in sys.argv[1:]}))"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def clean_environment() -> dict[str, str]:
    """The environment variables of a contender: nothing of this process's Python, few messages of TensorFlow."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "2"}
