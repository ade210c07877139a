"""Processes as /proc has them, and waiting for what they do, however slow or busy the machine is."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
HANGS = 100.0  # seconds after which a test stops waiting: nothing here takes a tenth of it

# What Python ends with after a KeyboardInterrupt that nobody caught: the signal, or 1 where text was executed after it,
# as a module with a dataclass does that is first imported while Python ends.
AFTER_CTRL_C = (-signal.SIGINT, 1)


def until(found: Callable[[], T], pause: float = 0.005) -> T:
    """Return what `found` returns, once that is true."""
    deadline = time.monotonic() + HANGS
    while not (result := found()):
        assert time.monotonic() < deadline, f"it did not come in {HANGS:.0f} s"
        time.sleep(pause)
    return result


def until_gone(left: Callable[[], Any], pause: float = 0.02) -> None:
    """Wait until `left` finds nothing."""
    deadline = time.monotonic() + HANGS
    while found := left():
        assert time.monotonic() < deadline, f"still there after {HANGS:.0f} s: {found}"
        time.sleep(pause)


class Process(NamedTuple):
    state: str
    parent: int
    session: int
    command: str


def processes() -> dict[int, Process]:
    """All that live, by their numbers: those that ended and are not waited for are gone."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent, _, session, *_ = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if state not in "ZX":
                found[int(path.name)] = Process(state, int(parent), int(session), command)
    return found


def descendants(pid: int) -> dict[int, Process]:
    """Those of them that are below `pid`."""
    living, found = processes(), {pid}
    while more := {each for each, process in living.items() if process.parent in found} - found:
        found |= more
    return {each: living[each] for each in found - {pid} if each in living}


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A block in which the process does nothing, so that what is seen of it stays so. Then it goes on, if it can."""
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ", 0.0001)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
