"""Advice of a message that can be typed as it is: whole commands, and options with their values."""

import os
import re
import shlex
from collections.abc import Iterator

from shardfeed.tools.command_list import command_parser

from layout_generator import Case

_WORD = r"""((?:'[^']*'|"[^"]*"|[^\s;'"])+)"""  # as a shell reads it
_OPTION = re.compile(rf"(?<![\w-])(--[a-z][a-z-]+)(?![\w-])(?: {_WORD})?")
_COMMAND = re.compile(r"shardfeed (convert [^`\n]+?)(?=`|\n|$|  #|  \()")
_ALONE = re.compile(r"(?:give|or) (\S+) alone")
_TABLE = re.compile(r"--labels ([^\s;,]+\.\w+)")
_SOURCE = re.compile(r"(\S+) as SOURCE with $")
_JOINED = re.compile(r",? (with|and) ")
# What stands for a value of the user's, or is no value at all but the sentence's next word.
_NO_VALUE = re.compile(r"[A-Z_.=]{3,}(\.[a-z]+)?|.*=[A-Z]{3,}.*|for|if|or|and|to|with|must|is|are|may|unless|\(.*")

Words = tuple[str, ...]


def ways(of: Case, command: Words, said: str) -> list[Words]:
    """List the commands that somebody who knows the truth can type as this message prints them, each once."""
    said = _message(said)
    found = [*_commands(said), *(_with(command, options) for options in _options(of, said))]
    return list(dict.fromkeys(way for way in found if way != command))


def filled(of: Case, command: Words, said: str) -> list[Words]:
    """List the commands with an option that the message names, and a value that only the user has."""
    said = _message(said)
    own = {os.path.basename(name) for name in of.names}
    tables = [found for found in _TABLE.findall(said) if os.path.basename(found) in own]
    beside = [found for found in _TABLE.findall(said) if found not in tables]
    table = ("--labels", tables[0]) if tables and "--labels" not in command else ()
    joined = [way for way in ways(of, command, said) if len(way) > len(command) + 2]  # with more than one option
    found = [
        (*command, *options, *table)
        for options in of.then
        if options[0] in said and options[0] not in command and not any(options[0] in way for way in joined)
    ]
    return [] if beside else found  # what is said is about a table that is not the source's


def alternatives(every: list[Words], command: Words) -> list[list[Words]]:
    """Group commands by the option that they add first: with other values of it, the user is asked to choose."""
    groups: dict[str, list[Words]] = {}
    for way in every:
        added = way[len(command) : len(command) + 1] if way[: len(command)] == command else way
        groups.setdefault(" ".join(added), []).append(way)
    return [*groups.values()]


def _message(said: str) -> str:
    return said.partition("\nusage:")[0]


def _with(command: Words, options: Words) -> Words:
    """The command with options, and with another source if they begin with SOURCE."""
    if options[0] == "SOURCE":
        return (command[0], options[1], *command[2:], *options[2:])
    return (*command, *options)


def asks_more(command: Words, said: str) -> bool:
    """Whether a message asks for something that only the user has: an option that the command does not have yet."""
    return any(found[1] not in command for found in _OPTION.finditer(_message(said)))


def alone(command: Words, said: str) -> list[Words]:
    """List the commands for parts of the source: a folder that the message says to give alone."""
    return [("convert", f"{command[1]}/{folder}", *command[2:]) for folder in _ALONE.findall(said)[:1]]


def _commands(said: str) -> Iterator[Words]:
    for found in _COMMAND.finditer(said):
        words = tuple(shlex.split(found[1]))
        if not any(_NO_VALUE.fullmatch(word) for word in words[1:]):
            yield words


def _options(of: Case, said: str) -> Iterator[Words]:
    """Options with their values; those that the message joins are typed together."""
    said = _COMMAND.sub(lambda found: " " * len(found[0]), said)
    end: int = -1
    group: tuple[Words | None, ...] = ()
    for found in _OPTION.finditer(said):
        option = _option(of, found)
        if end >= 0 and _JOINED.fullmatch(said[end : found.start()]):
            group = (*group, option)
        else:
            yield from _whole(group)
            source = _SOURCE.search(said[: found.start()])
            group = (("SOURCE", source[1]), option) if source else (option,)
            group = () if said[: found.start()].endswith("alone by ") else group
        end = found.end(1) if option is None or len(option) == 1 else found.end()
    yield from _whole(group)


def _whole(group: tuple[Words | None, ...]) -> Iterator[Words]:
    if group and all(group):
        yield tuple(word for option in group for word in option or ())


def _option(of: Case, found: re.Match[str]) -> Words | None:
    """An option and its value; None if the value is the user's, or is not true of the source."""
    action = command_parser("convert")._option_string_actions.get(found[1])
    if action is None:
        return None
    if action.nargs == 0:
        return (found[1],)
    text = (found[2] or "").rstrip(",.):")
    if not text or _NO_VALUE.fullmatch(text):
        return None
    try:
        value = "".join(shlex.split(text))
    except ValueError:
        return None
    return (found[1], value) if _true(of, found[1], value) else None


def _true(of: Case, flag: str, value: str) -> bool:
    """Whether a statement about columns or classes, which the user is asked for, is true."""
    roles = {"--label-column": "class", "--text-column": "text", "--number-column": "number"}
    if flag in roles:
        return any(
            fact.role == roles[flag] and value in (fact.name, fact.name.removeprefix("column ")) for fact in of.facts
        )
    if flag == "--pattern" and "<label>" in value:
        return not of.ambiguous and any(fact.role == "class" for fact in of.facts)
    if flag == "--columns":
        return "label=" not in value or any(fact.role == "class" and fact.name in value for fact in of.facts)
    return flag not in ("--group-column", "--class-names", "--workers", "--shards")
