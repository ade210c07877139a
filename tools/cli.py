"""`shardfeed`: one command a module, each with `add_arguments` and `run`; exit codes as documented in docs/cli.md.

Nothing heavy is imported here, and a command's module only when it is called.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from types import FrameType, ModuleType

from shardfeed.errors import ShardfeedError, StorageError, needing_extra
from shardfeed.storage.local import storage_error
from shardfeed.version import __version__

COMMANDS = {
    "convert": "image folder or label file -> sharded TFRecords",
    "verify": "compare every byte of a dataset with its manifest",
    "inspect": "what is in a dataset: counts, classes, sizes, first records",
    "preview": "a contact sheet: a row of images for each class",
    "bench": "where the time of an input pipeline goes, and whether a model would wait",
    "salvage": "a new dataset of every undamaged record of a damaged one",
    "index": "make a dataset's indexes again, or a dataset of TFRecords that someone else wrote",
    "demo": "convert, verify and train on drawn shapes, in a minute",
}
_SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_PATIENCE = 2.0  # seconds that stopping gets before another signal may cut it short


class _Terminated(BaseException):
    """SIGTERM, as an exception."""


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only the module of `command` is imported, as the others' options are not needed."""
    parser = argparse.ArgumentParser(
        prog="shardfeed",
        description="Image folders and label files in, sharded TFRecords out; sharded TFRecords in, batches out.",
        epilog="`shardfeed COMMAND --help` says more.",
    )
    parser.add_argument("--version", action="version", version=f"shardfeed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=what)
        if name == command:
            _module(name).add_arguments(sub)
    return parser


def _module(command: str) -> ModuleType:
    return import_module(f"shardfeed.tools.commands.{command}_command")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command = next((argument for argument in arguments if argument in COMMANDS), None)

    asked: list[tuple[int, float]] = []  # by which signal we were told to stop, and when

    def stop(number: int, frame: FrameType | None) -> None:
        if asked and time.monotonic() - asked[-1][1] < _PATIENCE:
            return
        asked.append((number, time.monotonic()))
        # An exception, so that every `with` and `finally` on the way out runs. From within a wait Ray passes on
        # KeyboardInterrupt alone, and turns others into a SystemError. Elsewhere SIGTERM is none: where one passes
        # through `exec`, which dataclasses are made by, Python ends with 130 in the end, although it was caught.
        within_ray = frame is not None and str(frame.f_globals.get("__name__")).startswith("ray.")
        raise KeyboardInterrupt if number == signal.SIGINT or within_ray else _Terminated

    before = {}
    try:
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background, where it is ignored
            before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
        return _exit_code(command, arguments)
    except (KeyboardInterrupt, _Terminated):  # also one that came while an error was being printed
        number = signal.Signals(asked[-1][0] if asked else signal.SIGINT)
        print(f"shardfeed: {_SAID[number]}; run the same command again to go on", file=sys.stderr)
        return 128 + number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(command: str | None, arguments: Sequence[str]) -> int:
    """That of `command`, run with `arguments`; what went wrong has been printed on one line."""
    try:
        args = _parser(command).parse_args(arguments)
        with needing_extra(f"shardfeed {args.command}"):
            return _module(args.command).run(args)
    except ShardfeedError as error:
        print(f"shardfeed: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `shardfeed inspect d | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # one that no module expected: still the machine's fault, not a bug
        print(f"shardfeed: {storage_error(str(error.filename or 'a file'), 'go on', error)}", file=sys.stderr)
        return StorageError.exit_code


if __name__ == "__main__":
    sys.exit(main())
