"""Every option of every command, as the second half of docs/cli.md: `python docs/cli_reference.py --write`.

The parsers are asked, so that nothing can be missing. Without `--write` the text is printed.
"""

import argparse
import re
from pathlib import Path

from shardfeed.tools.command_list import COMMANDS, EXAMPLES, command_parser

PAGE = Path(__file__).parent / "cli.md"
_TITLES = {"positional arguments": "argument", "options": "option"}
START, END = "<!-- docs/cli_reference.py -->\n", "<!-- end -->\n"


def option_row(action: argparse.Action) -> str:
    """A line of a table: how the option is typed, and what it does."""
    if not action.option_strings:
        typed = str(action.metavar or action.dest).upper()
    elif action.nargs == 0:
        typed = ", ".join(action.option_strings)
    else:
        value = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.metavar
        typed = f"{', '.join(action.option_strings)} {value or action.dest.upper()}"
    typed = typed.replace("%%", "%").replace("|", r"\|")
    meaning = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    meaning = re.sub(r"([|*<_])", r"\\\1", meaning)  # what Markdown would take for its own
    return f"| `{typed}` | {meaning} |"


def command_section(command: str) -> str:
    """A heading, what the command does, and a table for each group of its options."""
    lines = [f"## shardfeed {command}", "", f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.", ""]
    lines += [*(f"    $ {example}" for example in EXAMPLES[command]), ""]
    for group in command_parser(command)._action_groups:  # argparse has no public way to ask for them
        rows = [
            option_row(action)
            for action in group._group_actions
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
        ]
        if rows:
            lines += [f"| {_TITLES.get(group.title or '', group.title)} | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def reference() -> str:
    """All commands, in the order of `shardfeed --help`."""
    return "\n".join(command_section(command) for command in COMMANDS)


def main() -> None:
    """Print the reference, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/cli.md")
    if not parser.parse_args().write:
        print(reference(), end="")
        return
    before, rest = PAGE.read_text().split(START)
    PAGE.write_text(f"{before}{START}\n{reference()}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
