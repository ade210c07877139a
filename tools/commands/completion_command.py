"""`shardfeed completion bash|zsh|fish`: print the script that completes commands, options and choices."""

import argparse

from shardfeed.tools.command_list import COMMANDS, command_parser
from shardfeed.tools.completion import SHELLS, completion_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument of `completion`."""
    parser.add_argument("shell", choices=SHELLS, help='bash: put `eval "$(shardfeed completion bash)"` into ~/.bashrc')


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    parsers = {command: command_parser(command) for command in COMMANDS}
    print(completion_script(args.shell, parsers), end="")
    return 0
