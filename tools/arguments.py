"""Arguments shared by several commands: shares, numbers of shards, sizes in bytes."""

import argparse
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args, get_origin

from shardfeed.converters.engines.choose_engine import ENGINES, LocalWorkers, NamedWorkers, RayWorkers
from shardfeed.converters.engines.engine import StartedBy
from shardfeed.converters.sources.options import Column, column_of
from shardfeed.declared import Positive, assignments, check, named_once, typed
from shardfeed.errors import UsageError, escape
from shardfeed.plugins import installed
from shardfeed.text import byte_size
from shardfeed.tools.parser import did_you_mean

GROUPS = ("group_column", "group_pattern", "group_duplicates")  # of `add_group_arguments`
RUN = ("no_leaks", "replace", "restart", "verify", "dry_run")


def add_options(group: argparse._ActionsContainer, *classes: type) -> None:
    """The options that dataclasses declare by `Typed`: None where they are not given."""
    for name, types, how, default in typed(*classes):
        flag = how.flag or name.replace("_", "-")
        more: dict[str, Any] = {"dest": name, "default": None, "help": how.help or argparse.SUPPRESS}
        if types == [bool]:
            more["action"] = "store_false" if default else "store_true"
        else:
            choices = get_args(types[0]) if get_origin(types[0]) is Literal and len(types) == 1 else None
            number = types == [int] or {*map(type, choices or ())} == {int}
            more |= {"metavar": how.metavar, "choices": choices, "action": "append" if how.flag else "store"}
            more["type"] = int if number else str if how.flag or how.read is None else partial(_read, how.read)
        group.add_argument(f"--{flag}", **more)
        if types == [bool] and default is None:
            group.add_argument(f"--no-{flag}", dest=name, action="store_false", default=None, help=argparse.SUPPRESS)


def _read(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.args[1]) from None


def options_given(args: argparse.Namespace, *classes: type) -> dict[str, Any]:
    """The values of those options of `add_options` that are given. Raises UsageError."""
    found = {}
    for name, types, how, _ in typed(*classes):
        value: Any = getattr(args, name)
        kinds, inner = [get_origin(kind) for kind in types], get_args(types[0])
        read = how.read or (column_of if Column in inner or types == [str, int] else str)
        if isinstance(value, list) and how.whole:
            found[name] = how.whole(value)
        elif isinstance(value, list) and Mapping in kinds:
            found[name] = named_once(name, map(read, value)) if how.read else assignments(name, ",".join(value), str)
        elif isinstance(value, list) or (value and len(kinds) == 1 and kinds[0] in (Sequence, Collection)):
            texts = value if how.flag else str(value).split(",")
            found[name] = [read(text.strip()) for text in texts]
        elif value is not None:
            found[name] = read(value) if isinstance(value, str) else value
    return found


def shards_of(args: argparse.Namespace) -> int | str | Mapping[str, int] | None:
    """Read `--shards`, `8` or `train=8,validation=2`, or else `--shard-size`. Raise UsageError if both are given."""
    text, size = args.shards, args.shard_size
    if text is not None and size is not None:
        raise UsageError("--shard-size", "--shards already sets the number of shards", "leave one of the two out")
    if text is None or text.isdecimal():
        return size if text is None else int(text)
    return assignments("--shards", text, int)


def add_group_arguments(group: argparse._ActionsContainer) -> None:
    """The options that group samples, which then go to the same split."""
    add = group.add_argument
    add("--group-column", metavar="NAME", help="keep rows with the same value of a column in one split")
    add("--group-pattern", metavar="REGEX", help="keep names with the same (?P<group>...) in one split; or roboflow")
    add("--group-duplicates", action="store_true", help="keep identical files in one split")


class _EngineNames(tuple[str, ...]):
    """The names of our engines; those that installed packages add are in it, too. UsageError for any other name."""

    def __contains__(self, name: object) -> bool:
        names = [*self, *(() if super().__contains__(name) else installed("engine", ENGINES))]
        if name not in names:  # argparse would name ours alone
            problem = f"got {escape(str(name))!r}, expected one of {', '.join(names)}"
            raise UsageError("--engine", problem, did_you_mean(str(name), names, "install the package that adds it"))
        return True


def add_worker_arguments(
    group: argparse._ActionsContainer, *, address: str = "address of the Ray cluster (default: RAY_ADDRESS)"
) -> None:
    """The options of `workers_of`; `address`: help of the option."""
    group.add_argument("--workers", metavar="N", type=int, help="worker processes (default: one per core)")
    engines = "where workers run; ray needs shardfeed[ray]"
    group.add_argument("--engine", choices=_EngineNames(ENGINES), default="local", help=engines)
    group.add_argument("--address", metavar="HOST:PORT", help=address)


def add_limit_arguments(group: argparse._ActionsContainer) -> None:
    """The limits for what a conversion leaves out."""
    for name, what in (("--max-bad", "images"), ("--max-bad-objects", "annotations")):
        group.add_argument(name, metavar="N|P%", default="0", help=f"rejected {what} allowed (default 0)")


def add_run_arguments(group: argparse._ActionsContainer, *, dry_run: str = "print the result, write nothing") -> None:
    """RUN, and the options of commands that print a report and show a bar; `dry_run`: its help."""
    add = group.add_argument
    add("--no-leaks", action="store_true", help="fail if a file or a group is in two splits")
    add("--replace", action="store_true", help="replace OUT when the new dataset is complete")
    add("--restart", action="store_true", help="discard an interrupted run and start over")
    add("--verify", action="store_true", help="read every byte again before committing")
    add("--dry-run", action="store_true", help=dry_run)
    add("--json", action="store_true", help="print the report as JSON")
    add("--quiet", action="store_true", help="no progress bar, no summary")


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """These arguments, for a function that has parameters of the same names."""
    return {name: getattr(args, name) for name in names}


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of commands that print a result and show a bar."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def output_bar(args: argparse.Namespace, unit: str = "B") -> Any:
    """A bar of bytes, or of another unit, on a terminal; none with the options of `add_output_arguments`."""
    from tqdm import tqdm

    return tqdm(unit=unit, unit_scale=unit == "B", disable=True if args.quiet or args.json else None)


def size_argument(text: str) -> str:
    """The text of a size, as `--shard-size` takes it. Raises argparse's error for any other text."""
    try:
        byte_size(text)
    except (ValueError, OverflowError):
        remedy = f"; write {text}MB, or --shards {text}" if text.isdecimal() else ""
        problem = f"got {text!r}, expected a size with its unit like 256MB{remedy}"
        raise argparse.ArgumentTypeError(problem) from None
    return text


def check_output(option: str, name: str, *ends: str) -> None:
    """Raise UsageError unless the name of a file to write ends in one of `ends`, and its directory exists."""
    if not name.lower().endswith(ends):
        raise UsageError(option, f"got {escape(name)!r}, expected a name that ends in {', '.join(ends)}")
    if not os.path.isdir(os.path.dirname(name) or "."):
        raise UsageError(option, f"no directory {escape(os.path.dirname(name))!r}", "create it first")


def workers_of(args: argparse.Namespace) -> LocalWorkers | RayWorkers | NamedWorkers:
    """Read `--engine`, `--workers`, `--address` and, if the command has it, `--start-method`. Raises UsageError."""
    check("workers", args.workers, Positive | None)
    method: StartedBy = getattr(args, "start_method", "spawn")
    if args.engine == "ray":
        return RayWorkers(args.workers, args.address, method)
    if args.engine != "local":
        return NamedWorkers(args.engine, args.workers, args.address, method)
    if args.address is not None:
        raise UsageError("--address", f"got {args.address!r}, the address of a Ray cluster", "also give --engine ray")
    return LocalWorkers(args.workers, method)
