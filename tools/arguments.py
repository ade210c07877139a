"""The options of commands, made of the arguments that functions and dataclasses declare by `Typed`."""

import argparse
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, get_args, get_origin

from shardfeed.converters.sources.options import Column, column_of
from shardfeed.declared import Option, Typed, assignments, named_once, typed
from shardfeed.errors import IntegrityError, UsageError, escape


def add_options(group: argparse._ActionsContainer, *owners: Any, required: bool = False) -> None:
    """The arguments that functions, dataclasses and TypedDicts declare by `Typed`: None where they are not given.

    `required`: the first has to be given.
    """
    for option in typed(*owners):
        if any(action.dest == option.name for action in group._actions):
            continue  # the first that declares a name counts
        several = len(option.how) > 1
        one_of = group.add_mutually_exclusive_group(required=option.required) if several else group
        for how in option.how:
            if how.parts is not None:
                headed = group.add_argument_group(how.help) if how.help else group
                add_options(headed, how.parts, required=option.required)
            elif how.placed or (option.required and not several and not how.flag):
                nargs = "+" if Iterable in _origins(option) else None if option.required else "?"
                group.add_argument(
                    option.name, metavar=(how.metavar or option.name).upper(), help=how.help, nargs=nargs
                )
            else:
                _add_option(one_of, option, how, required=(option.required or required) and not several)
        required = False


def _add_option(group: argparse._ActionsContainer, option: Option, how: Typed, *, required: bool) -> None:
    *letter, flag = (how.flag or option.name.replace("_", "-")).split("/")
    types = option.types
    more: dict[str, Any] = {"dest": option.name, "default": None, "help": how.help or argparse.SUPPRESS}
    if types[0] is bool:
        more["action"] = "store_false" if option.default is True else "store_true"
    else:
        choices = get_args(types[0]) if get_origin(types[0]) is Literal else ()
        number = int if types == [int] or {*map(type, choices)} == {int} else float if types == [float] else None
        more |= {"metavar": how.metavar, "required": required, "action": "append" if how.many else "store"}
        more["choices"] = (choices if len(types) == 1 else _Offered(choices)) if choices else None
        more["type"] = number or (str if how.many or how.read is None else partial(_read, how.read))
    group.add_argument(*(f"-{each}" for each in letter), f"--{flag}", **more)
    if types == [bool] and option.default is None:
        group.add_argument(f"--no-{flag}", dest=option.name, action="store_false", default=None, help=argparse.SUPPRESS)


class _Offered(tuple[str, ...]):
    """Choices of which others may be added: help and completion have these, and any other is tried, too."""

    def __contains__(self, name: object) -> bool:
        return True


def _origins(option: Option) -> list[Any]:
    return [get_origin(kind) for kind in option.types]


def _read(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError("; ".join(filter(None, error.args[1:]))) from None


def options_given(args: argparse.Namespace, *owners: Any) -> dict[str, Any]:
    """The values of those arguments of `add_options` that are given. Raises UsageError."""
    found, declared = {}, dict[str, Option]()
    for option in typed(*owners):
        declared.setdefault(option.name, option)
    for name, option in declared.items():
        types = option.types
        if (parts := option.how[0].parts) is not None:
            found[name] = parts(**options_given(args, parts))
        elif (value := getattr(args, name)) is not None:
            how = next((how for how in option.how if how.many == isinstance(value, list)), option.how[0])
            kinds, inner = _origins(option), get_args(types[0])
            read = how.read or (column_of if Column in inner or types == [str, int] else str)
            if isinstance(value, list) and how.whole:
                value = how.whole(value)
            elif isinstance(value, list) and how.many and Mapping in kinds:
                value = named_once(name, map(read, value)) if how.read else assignments(name, ",".join(value), str)
            elif isinstance(value, list) and how.many:
                value = [read(text.strip()) for text in value]
            elif isinstance(value, str) and len(kinds) == 1 and kinds[0] in (Sequence, Collection):
                value = [read(text.strip()) for text in value.split(",")]
            elif isinstance(value, str) and not how.read:
                value = read(value)
            found[name] = value
    return found


def command(
    function: Callable[..., Any],
    show: Callable[[Any, argparse.Namespace], None] | None = None,
    *,
    to_json: Callable[[Any], Any] = asdict,
    damage: Callable[[Any], object] = lambda result: None,
    unit: str = "B",
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]:
    """`add_arguments` and `run` of a command with a function's arguments; the function prints, and returns exit codes.

    With `show` it takes `progress`, in this `unit`, and returns a result, which is printed; exit code 4 if that has
    `damage`. It runs in the block `within`.
    """

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_options(parser, function)
        if show is not None:
            add_output_arguments(parser)

    def run(args: argparse.Namespace) -> int:
        given = options_given(args, function)
        if show is None:
            return int(function(**given))
        with output_bar(args, unit) as bar, within():
            result = function(**given, progress=bar.update)
        if args.json:
            print(json.dumps(to_json(result)))
        elif not args.quiet:
            show(result, args)
        return IntegrityError.exit_code if damage(result) else 0

    return add_arguments, run


def add_output_arguments(parser: argparse._ActionsContainer, as_json: str = "print the result as JSON") -> None:
    """The options of commands that print a result and show a bar."""
    parser.add_argument("--json", action="store_true", help=as_json)
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def output_bar(args: argparse.Namespace, unit: str = "B") -> Any:
    """A bar of bytes, or of another unit, on a terminal; none with the options of `add_output_arguments`."""
    from tqdm import tqdm

    return tqdm(unit=unit, unit_scale=unit == "B", disable=True if args.quiet or args.json else None)


def check_output(option: str, name: str, *ends: str) -> None:
    """Raise UsageError unless the name of a file to write ends in one of `ends`, and its directory exists."""
    if not name.lower().endswith(ends):
        raise UsageError(option, f"got {escape(name)!r}, expected a name that ends in {', '.join(ends)}")
    if not os.path.isdir(os.path.dirname(name) or "."):
        raise UsageError(option, f"no directory {escape(os.path.dirname(name))!r}", "create it first")
