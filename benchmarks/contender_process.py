"""A contender as its driver sees it: a tree of processes that is asked for epochs and stands still in between."""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

READINGS = Path(__file__).parent / "readings"
sys.path.insert(0, str(READINGS))

from contender import descendants, stat_fields  # noqa: E402  # beside the scripts: all that their environments have of ours

START_SECONDS = 1800  # it may have to make its copy of the data
EPOCH_SECONDS = 300
END_SECONDS = 10  # to end by itself, and take its shared memory with it

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class ContenderError(Exception):
    """Why a contender is out, in one line."""


class ContenderProcess:
    """Started at once; use `ready`, then `epoch` any number of times, then `ask_to_end` and `end`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with open(log, "wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                cwd=log.parent,
                start_new_session=True,  # Ctrl-C is the driver's
                preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # not to outlive it
                bufsize=0,
            )
        self._unread = b""
        self._seen: set[tuple[int, str]] = set()  # number and start time of processes to be ended

    def ready(self) -> dict[str, str]:
        """Wait until it is, and stop it. Versions by package. Raises ContenderError."""
        versions = self._answer(START_SECONDS)["versions"]
        self._signal(signal.SIGSTOP)
        return versions

    def epoch(self) -> dict[str, Any]:
        """Its answer, see readings/contender.py; it runs only meanwhile. Raises ContenderError."""
        self._signal(signal.SIGCONT)
        self._write(b"epoch\n")
        answer = self._answer(EPOCH_SECONDS)
        self._signal(signal.SIGSTOP)
        return answer | {"memory_bytes": self._memory_bytes()}

    def ask_to_end(self) -> None:
        """Let it end by itself, while others do."""
        self._look()
        self._signal(signal.SIGCONT)
        with contextlib.suppress(OSError):
            self._stdin.close()

    def end(self, deadline: float) -> None:
        """No process of it is left afterwards; those that do not end by `deadline`, of `time.monotonic`, are killed."""
        self._look()
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
            self._look()
        self._signal(signal.SIGSTOP)  # nobody starts another while they are killed one by one
        self._look()
        while left := [pid for pid, started in self._seen if _is_running(pid, started)]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()  # takes note of its end
            time.sleep(0.005)
        self._stdout.close()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def processes(self) -> list[int]:
        """Its own number, and those of its descendants."""
        return [self._process.pid, *descendants(self._process.pid)]

    def _look(self) -> None:
        """Remember its processes: if the first one ends by itself, those it leaves behind are not below it any more."""
        self._seen |= {(pid, fields[19]) for pid in self.processes() if (fields := stat_fields(pid))}  # proc(5)

    def _signal(self, number: int) -> None:
        """To all its processes, those started meanwhile included."""
        if self._process.poll() is not None:
            return
        told: set[int] = set()
        while new := [pid for pid in self.processes() if pid not in told]:
            told.update(new)
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # it ended: reading its answer will tell
            self._stdin.write(line)

    def _answer(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                raise ContenderError(f"no answer within {seconds:.0f} s")
            if not (data := os.read(self._stdout.fileno(), 1 << 16)):
                raise ContenderError(f"it ended with exit code {self._process.wait()}: {self._last_words()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise ContenderError(answer["error"])
        return answer

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "it said nothing")

    def _memory_bytes(self) -> int:
        """Proportional set size of all its processes: what they share is counted once."""
        kilobytes = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kilobytes * 1024


def _is_running(pid: int, started: str) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX" and fields[19] == started
