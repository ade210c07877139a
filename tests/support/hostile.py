"""Open hostile sources in children, under limits on memory and time."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repository import SUPPORT

SECONDS = 10  # of CPU time for one source: more is a hang
MOST_MEMORY = 500 << 20  # bytes that a hostile source may take more than the same one without hostility


@dataclass(frozen=True)
class Outcome:
    """Outcome of opening a source: `said` is "read", an error, "TRACEBACK ...", or "killed by SIGXCPU" for a hang.

    `memory`: bytes that it took. `left`: names in the temporary folder. `escapes`: files opened outside of it.
    """

    said: str
    memory: int = 0
    left: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)

    def problem(self, memory: int = 0) -> str:
        """Describe what is wrong with this outcome; "" if nothing. `memory`: bytes that a harmless twin of it takes."""
        if self.said.startswith(("TRACEBACK", "killed")):
            return self.said
        if self.left or self.escapes:
            return f"left {self.left}, opened {self.escapes}"
        return f"took {self.memory >> 20} MB" if self.memory - memory > MOST_MEMORY else ""


class Opener:
    """Opens sources, one after the other, each in a child of its own."""

    def __init__(self, server: "subprocess.Popen[str]", temporary: Path) -> None:
        self._server, self._temporary = server, temporary

    def open(self, path: Path, outside: Path | None = None, **options: Any) -> Outcome:
        """`outside`: a folder of which nothing may be opened."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {
            "path": str(path),
            "options": options,
            "temporary": str(self._temporary),
            "outside": str(outside or self._temporary / "none"),
            "seconds": SECONDS,
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer.startswith("{"):  # it was killed, and could not remove what it unpacked
            shutil.rmtree(self._temporary)
            self._temporary.mkdir()
        if not answer.startswith("{"):
            return Outcome(answer.strip() or "killed, and its parent too")
        ended = self._server.stdout.readline().strip()
        return Outcome(**json.loads(answer)) if ended == "done" else Outcome(ended)


@contextmanager
def opener(temporary: Path) -> Iterator[Opener]:
    """An Opener while its server runs; what it unpacks goes below `temporary`."""
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, str(SUPPORT / "hostile_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield Opener(server, temporary)
        server.stdin.close()
