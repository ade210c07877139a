"""A watchdog for a process that waits for others' code: ends it if SIGTERM or SIGINT has not after some seconds.

A script that needs only the standard library, run by `signal_watch`: PROCESS PATTERN PATIENCE. Its stdin has the
number of each signal that the process gets, and ends with the block or with the process. PATTERN: its temporary
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
    stops = (signal.SIGTERM, signal.SIGINT)
    for number in stops:
        signal.signal(number, signal.SIG_IGN)
    while data := os.read(0, 64):
        if asked := [number for number in data if number in stops]:
            if ended(patience):
                return
            os.write(1, bytes(asked[:1]))
            if not ended(LAST_WORD):
                os.kill(process, signal.SIGKILL)  # the interpreter is held by code that does not return
            import glob  # not above: rarely needed, and each start would wait for it
            import shutil

            for folder in glob.glob(pattern):
                shutil.rmtree(folder, ignore_errors=True)
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
