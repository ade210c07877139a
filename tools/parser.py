"""The parser of every command: no abbreviated options, suggestions for mistyped ones, help with examples."""

import argparse
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from gettext import gettext
from typing import Any, NoReturn

from shardfeed.errors import UsageError, escape
from shardfeed.text import did_you_mean
from shardfeed.tools.colour import coloured

_WIDEST = 100  # columns that help takes
_HELP_COLUMN = 26  # where the explanation of an option begins
_CHOICE = re.compile(r"invalid choice: (.+?) \(choose from (.+)\)", re.DOTALL)


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UsageErrors that name the nearest option, and that abbreviates nothing.

    An abbreviation accepted today would become ambiguous once an option with a similar name is added.
    """

    def __init__(self, prog: str, description: str, examples: Sequence[str] = (), **options: Any) -> None:
        self.examples = examples
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=GroupedHelp,
            add_help=False,
            **options,
        )
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)  # not listed in the help itself

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore
        """Parse as argparse does, but raise UsageError where argparse would exit with 2."""
        typed = list(args or ())
        self._check_names(typed)
        found, rest = self.parse_known_args(typed, namespace)
        if rest:
            problem = f"got {escape(rest[0])!r}, one argument too many"
            raise UsageError(self.prog, problem, "quote names that contain spaces")
        names = {word.partition("=")[0] for word in typed}
        for action in self._actions:  # an empty variable of a shell must not count as an option left out
            value = getattr(found, action.dest, None)
            if action.option_strings and names.isdisjoint(action.option_strings):
                continue  # another has this name in Python
            if "" in (value if isinstance(value, list) else [value]):
                place = (
                    action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest).upper()
                )
                raise UsageError(place, "got '', expected a value", "check the shell variable that should hold it")
        return found

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an option. argparse takes that of `--delimiter=--` for the end of the options."""
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _check_names(self, typed: Iterable[str]) -> None:
        """Raise UsageError for the first unknown option, before argparse takes its value for another argument."""
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        known = ["--help", *(name for action in shown for name in action.option_strings)]
        for word in typed:
            name = word.partition("=")[0]
            if word == "--":
                return
            if name.startswith("--") and " " not in name and name not in self._option_string_actions:
                remedy = f"`{self.prog} --help` lists all"
                raise UsageError(escape(name), "no such option", did_you_mean(name, known, remedy))

    def error(self, message: str) -> NoReturn:
        """argparse's complaint as a UsageError: the option is the place."""
        place, problem = self.prog, message
        if found := re.match(r"argument ([^:]+): (.*)", message, re.DOTALL):
            place, problem = found.groups()
            place = place.split("/")[-1]
        if found := _CHOICE.match(problem):
            got, choices = (part.replace("'", "") for part in found.groups())
            remedy = did_you_mean(got, choices.split(", "), "")
            raise UsageError(place, f"got {escape(got)!r}, expected one of {choices}", remedy)
        if wrong := re.match(r"invalid (int|float) value: (.{100}).+", problem, re.DOTALL):
            problem = f"invalid {wrong[1]} value: {wrong[2]}..."
        if missing := re.match(gettext("the following arguments are required: %s") % "(.*)", message):
            names = [name if name.startswith("-") else name.upper() for name in missing[1].split(", ")]
            problem = f"expected {' and '.join(names)} too"
        raise UsageError(place, problem)

    def short_usage(self) -> str:
        """Required arguments only: `shardfeed convert SOURCE OUT [options]`. All options would fill a page."""
        wanted, options = [], []
        for action in self._actions:
            if action.option_strings and action.required:
                values = action.metavar or f"{{{','.join(action.choices or ())}}}"
                options.append(f"{action.option_strings[0]} {values}")
            elif not action.option_strings and action.help != argparse.SUPPRESS:
                name = str(action.metavar or action.dest).upper()
                wanted.append(f"[{name}]" if action.nargs in ("?", "*") else name)
        return " ".join([self.prog, *wanted, *options, "[options]"])

    def format_help(self) -> str:
        """The short usage, groups of options, and examples, which are not wrapped, so that lines can be copied."""
        self.usage = self.short_usage().replace("%", "%%")
        lines = [coloured("examples:", "heading", sys.stdout), *(f"  {example}" for example in self.examples)]
        return super().format_help() + ("\n" + "\n".join(lines) + "\n" if self.examples else "")


class GroupedHelp(argparse.HelpFormatter):
    """Help as wide as the terminal, at most 100 columns, each option on one line if it fits."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN, width=help_width())

    def start_section(self, heading: str | None) -> None:
        """Without the first heading: the line before has the names of the arguments."""
        shown = None if heading in (None, gettext("positional arguments")) else coloured(heading, "heading", sys.stdout)
        super().start_section(shown)

    def _get_default_metavar_for_positional(self, action: argparse.Action) -> str:
        return action.dest.upper()


def help_width() -> int:
    """Columns for help on this terminal, or as set by `COLUMNS`."""
    return max(40, min(_WIDEST, shutil.get_terminal_size().columns))
