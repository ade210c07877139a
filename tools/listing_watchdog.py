"""A watchdog for a process that lists a source: ends it if SIGTERM has not ended it after some seconds.

A script that needs only the standard library, run by `listing_watch`: PROCESS PATTERN PATIENCE. Its stdin has the
number of each signal that the process gets, and ends with the listing or with the process. PATTERN: its temporary
folders.
"""

import os
import select
import signal
import sys
import time

LAST_WORD = 1.0  # seconds that a thread of the process has to end it with the right code


def ended(seconds: float) -> bool:
    """Whether stdin ends within these seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0] and not os.read(0, 64):
            return True
    return False


def main(process: int, pattern: str, patience: float) -> None:
    """Watch until stdin ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while data := os.read(0, 64):
        if signal.SIGTERM in data:
            if ended(patience):
                return
            os.write(1, b"!")
            if not ended(LAST_WORD):
                os.kill(process, signal.SIGKILL)  # the interpreter is held by code that does not return
            import glob  # not above: rarely needed, and each start would wait for it
            import shutil

            for folder in glob.glob(pattern):
                shutil.rmtree(folder, ignore_errors=True)
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
