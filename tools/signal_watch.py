"""Limits on a command that lists a source or copies files: a signal ends it in five seconds; a listing's memory.

Python runs its signal handler between two instructions, so never while a library's code does not return. A second
process gets each signal from the low-level part of Python's handler, and ends this process if necessary.
"""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from shardfeed.budget import memory_free
from shardfeed.converters.engines.worker import limited_memory
from shardfeed.storage.temporary import folders_of

PATIENCE = 2.0  # seconds for Python's own handler; with the watchdog's last second less than five
KEPT_SHARE = 1 / 4  # of the free memory, left to other processes
LEAST_MEMORY = 1 << 30  # bytes that listing may always take: as much as a COCO file of all of Open Images


@contextmanager
def bounded_listing() -> Iterator[None]:
    """A block in which a signal ends this process in time, and allocations beyond the free memory fail."""
    with watched(), limited_memory(max(LEAST_MEMORY, int(memory_free() * (1 - KEPT_SHARE)))):
        yield


@contextmanager
def watched() -> Iterator[None]:
    """A block in which SIGTERM and SIGINT end this process within five seconds, whatever code it waits for."""
    own = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGTERM))
    if not own:  # a program with its own signal handlers
        yield
        return
    folders = folders_of(os.getpid(), glob.escape(tempfile.gettempdir()))
    script = os.path.join(os.path.dirname(__file__), "signal_watchdog.py")
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    command = [sys.executable, "-I", "-S", script, str(os.getpid()), folders, str(PATIENCE)]
    # In a separate session: Ctrl-C at the terminal is for this process.
    watchdog = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, start_new_session=True)
    thread = threading.Thread(target=_end_on_request, args=(watchdog,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        watchdog.kill()
        thread.join()  # if no thread runs, a worker is forked
        os.close(write)
        os.close(read)  # kept until here: Python may write to it after the watchdog has ended


def _end_on_request(watchdog: "subprocess.Popen[bytes]") -> None:
    """End this process on request of the watchdog, from a thread: the main thread is in a library's code."""
    assert watchdog.stdout is not None
    if asked := watchdog.stdout.read(1):
        said = b"interrupted" if asked[0] == signal.SIGINT else b"terminated"
        os.write(2, b"shardfeed: %s; run the same command again to resume\n" % said)
        os._exit(128 + asked[0])  # the watchdog removes the temporary folders
    watchdog.stdout.close()
    watchdog.wait()
