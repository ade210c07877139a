"""Print the path of the oldest Python here of the oldest version that setup.cfg names; say on stderr which it is.

It must be able to make environments, which Debian has in python3-venv, and have the headers of Python, in python3-dev:
without them the compiled module is not built, and its tests are skipped. If there is none, it is `python3`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

SETUP = Path(__file__).parent.parent / "setup.cfg"


def asked(*words: str | Path) -> str | None:
    """Run a program and return what it prints; None if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return None if done.returncode else done.stdout.strip()


def version(python: str | Path) -> tuple[int, ...]:
    """Its version, such as (3, 11, 2); empty for what does not run."""
    words = asked(python, "-c", "import sys; print(*sys.version_info[:3])")
    return tuple(map(int, (words or "").split()))


def oldest_named() -> str:
    """The oldest version of Python that setup.cfg allows, such as 3.11."""
    setup = ConfigParser()
    setup.read(SETUP)
    return setup["options"]["python_requires"].removeprefix(">=")


def pythons(named: str) -> Iterator[Path]:
    """Each Python of this version on PATH and in /usr/bin, once."""
    files = set()
    for folder in [*os.get_exec_path(), "/usr/bin"]:
        for name in (f"python{named}", "python3"):
            path = shutil.which(name, path=folder)
            if path and (file := Path(path).resolve()) not in files:
                files.add(file)
                yield Path(path)


def lacks(python: Path) -> str | None:
    """Name what a Python lacks to run all tests."""
    folder = asked(python, "-c", "import sysconfig; print(sysconfig.get_path('include'))")
    if not folder or not Path(folder, "Python.h").is_file():
        return "Python.h is missing (Debian: python3-dev)"
    with tempfile.TemporaryDirectory() as made:
        if asked(python, "-m", "venv", made) is None or asked(Path(made, "bin", "python"), "-m", "pip", "-V") is None:
            return "it makes no environments (Debian: python3-venv)"
    return None


def main() -> None:
    """Print the path."""
    named = oldest_named()
    of_named = [(version(python), python) for python in pythons(named)]
    for each, python in sorted(of_named):
        full = ".".join(map(str, each))
        if not f"{full}.".startswith(f"{named}."):
            continue
        if missing := lacks(python):
            print(f"Not Python {full} in {python}: {missing}.", file=sys.stderr)
            continue
        print(f"Tests run on Python {full}, {python}: the oldest {named} here.", file=sys.stderr)
        print(python)
        return
    full = ".".join(map(str, version("python3")))
    print(f"No Python {named} here has all that the tests need: they run on Python {full}, python3.", file=sys.stderr)
    print("python3")


if __name__ == "__main__":
    main()
