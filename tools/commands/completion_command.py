"""`shardfeed completion bash|zsh|fish`: print the script that completes commands, options and choices."""

import argparse
from collections.abc import Mapping
from contextlib import suppress

from shardfeed.errors import UsageError
from shardfeed.tools.command_list import COMMANDS, command_parser, installed_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument of `completion`."""
    parser.add_argument("shell", choices=SHELLS, help='bash: put `eval "$(shardfeed completion bash)"` into ~/.bashrc')


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    parsers = {command: command_parser(command) for command in COMMANDS}
    for command in installed_commands():
        with suppress(UsageError):  # a broken package's: it says so when it is called
            parsers[command] = command_parser(command)
    print(completion_script(args.shell, parsers), end="")
    return 0


SHELLS = ("bash", "zsh", "fish")


def completion_script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The script for one of SHELLS; `parsers`: one for each command. File names complete where nothing else does."""
    if shell == "fish":
        return _fish(parsers)
    # zsh reads bash's completion by a module of its own.
    head = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" if shell == "zsh" else ""
    return head + _bash(parsers)


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _bash(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    commands = " ".join(parsers)
    after, names = [], []
    for command, parser in parsers.items():
        options = _options(parser)
        listed = " ".join(name for action in options for name in action.option_strings)
        names.append(f'    {command}:-*) words="{listed}" ;;')
        for action in options:
            if action.choices:
                pattern = "|".join(f"{command}:{name}" for name in action.option_strings or ["*"])
                (after if action.option_strings else names).append(f'    {pattern}) words="{_choices(action)}" ;;')
    return "\n".join(
        [
            "_shardfeed() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            '  local command="${COMP_WORDS[1]}"',
            '  case "$command:$word" in',
            *names,
            "  esac",
            '  case "$command:$before" in',
            *after,
            "  esac",
            f'  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands} help"; fi',
            f'  if [ "$COMP_CWORD:$command" = 2:help ]; then words="{commands}"; fi',
            '  COMPREPLY=( $(compgen -W "$words" -- "$word") )',
            "}",
            "complete -o default -F _shardfeed shardfeed",
            "",
        ]
    )


def _fish(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    lines = []
    for command, parser in parsers.items():
        lines.append(f"complete -c shardfeed -n __fish_use_subcommand -xa {command} -d {_quoted(parser.description)}")
        for action in _options(parser):
            parts = [f"complete -c shardfeed -n '__fish_seen_subcommand_from {command}'"]
            parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
            if action.choices:
                parts.append(f"-xa '{_choices(action)}'")
            elif action.option_strings and action.nargs != 0:
                parts.append("-r")
            if action.option_strings:
                parts.append(f"-d {_quoted((action.help or '').replace('%%', '%'))}")
            if len(parts) > 1:
                lines.append(" ".join(parts))
    return "\n".join([*lines, ""])


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _quoted(text: str | None) -> str:
    """Return the script for fish, with backslashes and quotes escaped for its single quotes."""
    return "'" + (text or "").replace("\\", "\\\\").replace("'", "\\'") + "'"
