"""`shardfeed`: one command a module, each with `add_arguments` and `run`; exit codes as documented in docs/cli.md.

Nothing heavy is imported here, and a command's module only if that command runs.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from textwrap import wrap
from types import FrameType
from typing import TextIO

from shardfeed.budget import no_numpy_threads
from shardfeed.errors import ShardfeedError, StorageError, UsageError, arguments_in, escape, needing_extra
from shardfeed.foreign import Stop
from shardfeed.hidden import logs_without_secrets
from shardfeed.native import path_in_use
from shardfeed.storage.local import storage_error
from shardfeed.text import did_you_mean
from shardfeed.tools.colour import coloured, warnings_on_one_line
from shardfeed.tools.command_list import (
    COMMANDS,
    GROUPS,
    PackageCommand,
    command_module,
    command_parser,
    flags_of,
    installed_commands,
)
from shardfeed.tools.parser import CommandParser, help_width
from shardfeed.version import __version__

_SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_ABOUT = "Convert labelled images to sharded TFRecords; check, change and measure datasets."
_MORE = f"`shardfeed help COMMAND` shows options and examples; `shardfeed --version` prints {__version__}."
_AGAIN = "run the same command again to resume"
_PATIENCE = 2.0  # seconds for stopping before another signal may interrupt it


class _Interrupted(KeyboardInterrupt):
    """SIGINT. Python ends with that signal, caught or not, after a KeyboardInterrupt itself passed through `exec`."""


class _Terminated(Stop):
    """SIGTERM, as an exception."""


def _overview(stream: TextIO) -> str:
    """The text of `shardfeed --help`, as wide as the terminal, with headings in bold where `stream` is one."""
    theirs = {name: f"of the package {one.packages}" for name, one in installed_commands().items()}
    about, groups = COMMANDS | theirs, GROUPS | ({"of other packages": (*theirs,)} if theirs else {})
    indent = max(map(len, about)) + 4
    lines = [f"{coloured('usage:', 'heading', stream)} shardfeed COMMAND [arguments]", ""]
    lines += wrap(_ABOUT, help_width())
    for heading, commands in groups.items():
        lines += ["", coloured(f"{heading}:", "heading", stream)]
        for command in commands:
            rows = wrap(about[command], help_width() - indent)
            name = coloured(f"  {command}".ljust(indent), "command", stream)
            lines += [name + rows[0], *(" " * indent + row for row in rows[1:])]
    return "\n".join([*lines, "", *wrap(_MORE, help_width())])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)

    asked: list[tuple[int, float]] = []  # the signal that stops this process, and its time

    def stop(number: int, frame: FrameType | None) -> None:
        if asked and time.monotonic() - asked[-1][1] < _PATIENCE:
            return
        asked.append((number, time.monotonic()))
        # An exception, so that every `with` and `finally` on the way out runs. From within a wait, Ray passes on only
        # KeyboardInterrupt, and turns other exceptions into a SystemError.
        within_ray = frame is not None and str(frame.f_globals.get("__name__")).startswith("ray.")
        raise _Interrupted if number == signal.SIGINT or within_ray else _Terminated

    before = {}
    try:
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background, where it is ignored
            before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
        with logs_without_secrets(), warnings_on_one_line():
            return _exit_code(arguments)
    except (KeyboardInterrupt, _Terminated):  # also a signal that arrived while an error was being printed
        number = signal.Signals(asked[-1][0] if asked else signal.SIGINT)
        rest = "the results so far are printed above; nothing is saved" if arguments[:1] == ["bench"] else _AGAIN
        print(f"shardfeed: {_SAID[number]}; {rest}", file=sys.stderr)
        return 128 + number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` begin with and return its exit code; errors are printed on one line."""
    flags: dict[str, str] = {}
    try:
        if not arguments:  # on stderr, and not a success: a script may lack an argument
            print(_overview(sys.stderr), file=sys.stderr)
            return UsageError.exit_code
        _check_words(arguments)
        command, *rest = [*arguments[1:2], "--help"] if arguments[0] == "help" else arguments
        if command in ("-h", "--help"):
            print(_overview(sys.stdout))
            return 0
        if command == "--version":
            print(f"shardfeed {__version__} (decodes by {path_in_use()})")
            return 0
        _check_command(command)
        no_numpy_threads()
        parser = command_parser(command)
        flags |= flags_of(parser, command, rest)
        return _run(command, parser, rest, flags)
    except ShardfeedError as error:
        if arguments_in(error) - flags.keys() - {*arguments}:
            flags = _flags_of_convert() | flags
        _print_error(error.format_message(flags))
        return error.exit_code
    except BrokenPipeError:  # `shardfeed inspect d | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # not expected by any module, but still the machine's fault, not a bug
        _print_error(str(storage_error(str(error.filename or "a file"), "continue", error)))
        return StorageError.exit_code


def _check_words(words: Sequence[str]) -> None:
    """Raise UsageError for a word that no shell can give, only a program that calls `main`: half of a character."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise UsageError(escape(word), "got half of a character, which no file has in its name") from None


def _check_command(command: str) -> None:
    """Raise UsageError for a command that neither we nor an installed package have."""
    if command in COMMANDS or command in (theirs := installed_commands()):
        return
    kind = "option" if command.startswith("-") else "command"
    names = [*COMMANDS, *theirs, "help", "--help", "--version"]
    raise UsageError(escape(command), f"no such {kind}", did_you_mean(command, names, "`shardfeed --help` lists all"))


def _run(command: str, parser: CommandParser, typed: Sequence[str], flags: Mapping[str, str]) -> int:
    """Run a command with the words after its name; a wrong one is printed with the usage."""
    module = command_module(command)
    try:
        args = module.parsed(parser, typed) if isinstance(module, PackageCommand) else parser.parse_args(typed)
    except UsageError as error:
        _print_error(error.format_message(flags))
        print(f"usage: {parser.short_usage()}", file=sys.stderr)
        return error.exit_code
    with needing_extra(f"shardfeed {command}"):
        return module.run(args)


def _flags_of_convert() -> dict[str, str]:
    """Options of `convert`, for a message of another command that advises to convert again."""
    flags = flags_of(command_parser("convert"), "convert")
    return {name: f"`shardfeed convert` {flag}" for name, flag in flags.items() if flag.startswith("--")}


def _print_error(message: str) -> None:
    print(f"{coloured('shardfeed:', 'error', sys.stderr)} {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
