"""Ends a worker, or has it hang, at a chosen moment, as a broken decoder or the kernel's out-of-memory killer does.

First on PYTHONPATH, with DEATH_AT and DEATH_HOW set; DEATH_ONCE names a file that is made the first time, so that it
happens once. Moments: "start", or the end of a path with the call that is made on it: "open a/0001.jpg".
"""

import os
import signal
import sys
import time
from typing import Any


def _die() -> None:
    once = os.environ.get("DEATH_ONCE")
    if once:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    if os.environ["DEATH_HOW"] == "hang":
        time.sleep(600)
    os.kill(os.getpid(), getattr(signal, os.environ["DEATH_HOW"]))


def _install(call: str, ending: str) -> None:
    real = getattr(os, call)

    def wrapped(first: Any, *rest: Any, **named: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fsdecode(first)
        if path.endswith(ending):
            _die()
        return real(first, *rest, **named)

    setattr(os, call, wrapped)


if "--multiprocessing-fork" in sys.orig_argv:
    moment = os.environ["DEATH_AT"]
    if moment == "start":
        _die()
    else:
        _install(*moment.split(" ", 1))
