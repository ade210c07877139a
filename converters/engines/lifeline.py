"""The first thing a worker process does: watch for its parent's end.

The worker's imports take a second, more on a busy machine. This module needs none of them.
"""

import contextlib
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from shardfeed.machine.budget import no_numpy_threads


def work_with_parent(lifeline: Connection, tasks: Connection, words: Any) -> None:
    """Run a worker (see `worker.work` for the arguments) that ends as soon as the other end of `lifeline` closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    no_numpy_threads()
    from shardfeed.converters.engines.worker import work

    work(tasks, words)


def _leave_with_parent(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(0)
