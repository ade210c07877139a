"""`shardfeed`: one command a module, each with `add_arguments` and `run`; exit codes as documented in docs/cli.md.

Nothing heavy is imported here, and a command's module only when it is called.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

from shardfeed.errors import ShardfeedError, StorageError, UsageError, escape, needing_extra
from shardfeed.machine.numpy_threads import no_numpy_threads
from shardfeed.storage.local import storage_error
from shardfeed.text import table
from shardfeed.tools.command_list import COMMANDS, OPERATIONS, command_module, command_parser, flags_of
from shardfeed.tools.parser import did_you_mean
from shardfeed.version import __version__

_SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_PATIENCE = 2.0  # seconds that stopping gets before another signal may cut it short


class _Terminated(BaseException):
    """SIGTERM, as an exception."""


def _overview() -> str:
    """What `shardfeed --help` prints."""
    operations = [[command, COMMANDS[command]] for command in OPERATIONS]
    commands = [[command, what] for command, what in COMMANDS.items() if command not in OPERATIONS]
    commands.append(["help", "what a command does, and its options"])
    width = max(len(command) for command in COMMANDS)
    commands, operations = ([[name.ljust(width), what] for name, what in rows] for rows in (commands, operations))
    return f"""usage: shardfeed COMMAND [arguments]

Image folders and label files in, sharded TFRecords out; sharded TFRecords in, batches out.

commands:
{table(commands)}

datasets from datasets:
{table(operations)}

`shardfeed COMMAND --help` says more; `shardfeed --version` prints {__version__}."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)

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
        return _exit_code(arguments)
    except (KeyboardInterrupt, _Terminated):  # also one that came while an error was being printed
        number = signal.Signals(asked[-1][0] if asked else signal.SIGINT)
        print(f"shardfeed: {_SAID[number]}; run the same command again to go on", file=sys.stderr)
        return 128 + number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _without_help(arguments: Sequence[str]) -> list[str]:
    """`help` and `help COMMAND` as `--help` and `COMMAND --help`. Raises UsageError where there is nothing."""
    if not arguments:
        problem = f"expected a command: {', '.join(COMMANDS)}"
        raise UsageError("shardfeed", problem, "`shardfeed help` says what each does")
    if arguments[0] == "help":
        return [*arguments[1:2], "--help"]
    return list(arguments)


def _exit_code(arguments: Sequence[str]) -> int:
    """That of the command that `arguments` begin with; what went wrong has been printed on one line."""
    flags: dict[str, str] = {}
    try:
        command, *rest = _without_help(arguments)
        if command in ("-h", "--help"):
            print(_overview())
            return 0
        if command == "--version":
            print(f"shardfeed {__version__}")
            return 0
        if command not in COMMANDS:
            kind = "option" if command.startswith("-") else "command"
            remedy = did_you_mean(command, [*COMMANDS, "help", "--help", "--version"], "`shardfeed --help` lists all")
            raise UsageError(escape(command), f"no such {kind}", remedy)
        no_numpy_threads()
        parser = command_parser(command)
        flags = flags_of(parser, command, rest)
        try:
            args = parser.parse_args(rest)
        except UsageError as error:
            print(f"shardfeed: {error.said(flags)}\nusage: {parser.short_usage()}", file=sys.stderr)
            return error.exit_code
        with needing_extra(f"shardfeed {command}"):
            return command_module(command).run(args)
    except ShardfeedError as error:
        print(f"shardfeed: {error.said(flags)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `shardfeed inspect d | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # one that no module expected: still the machine's fault, not a bug
        print(f"shardfeed: {storage_error(str(error.filename or 'a file'), 'go on', error)}", file=sys.stderr)
        return StorageError.exit_code


if __name__ == "__main__":
    sys.exit(main())
