"""What the commands that make a dataset of datasets have in common: options, progress, and what they print."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

from shardfeed.converters.report import Report
from shardfeed.converters.sources.files.signs import told_to
from shardfeed.errors import TooManyRejectedError, escape
from shardfeed.formats.registry import FORMATS
from shardfeed.naming import REJECTED
from shardfeed.text import in_usual_order, listing, number, shell_quoted, size_text, table
from shardfeed.tools.arguments import byte_size, shard_numbers
from shardfeed.tools.commands.convert_report import print_rejected
from shardfeed.tools.progress import EventLog, SignsOfLife

_CLASSES_SHOWN = 20


def add_making_arguments(parser: argparse.ArgumentParser, *, to: bool = True) -> None:
    """The options that say how a dataset is written; `to`: whether its format can be chosen."""
    written = parser.add_argument_group("how it is written")
    if to:
        written.add_argument("--max-bad", metavar="N|P%", default="0", help="damaged records left out (default 0)")
        names = ", ".join(FORMATS)
        written.add_argument("--to", metavar="FORMAT", help=f"of the shards: {names} (default: the dataset's)")
    written.add_argument("--shards", metavar="N|A=N,B=N", help="shards of each split (default: by --shard-size)")
    written.add_argument("--shard-size", metavar="SIZE", type=byte_size, help="e.g. 256MB (default: at most that)")
    written.add_argument("--workers", metavar="N", type=int, help="processes (default: one for each core)")
    written.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where they run; ray needs shardfeed[ray]",
    )
    written.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster (default: RAY_ADDRESS)")
    written.add_argument("--replace", action="store_true", help="swap OUT for the new dataset when it is finished")
    written.add_argument("--restart", action="store_true", help="remove what an earlier, stopped run left; begin anew")
    written.add_argument("--verify", action="store_true", help="read every byte again before the commit")
    written.add_argument("--dry-run", action="store_true", help="print what there would be, write nothing")
    written.add_argument("--json", action="store_true", help="print the report as JSON")
    written.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def run_operation(args: argparse.Namespace, operation: Callable[..., Report]) -> int:
    """Call `operation` with the arguments of `add_making_arguments`, and print its report; the exit code is 0."""
    signs = SignsOfLife(quiet=args.quiet or args.json, log=EventLog(None))
    options: dict[str, Any] = {name: getattr(args, name) for name in _NAMES}
    if "to" in args:
        options |= {"to": args.to, "max_bad": args.max_bad}
    try:
        with told_to(signs.preparing), contextlib.redirect_stdout(sys.stderr):  # Ray prints there
            report = operation(**options, shards=shard_numbers(args.shards), progress=signs.converting)
    except TooManyRejectedError as error:
        signs.close()
        if not (args.json or args.quiet):
            print_rejected(error.rejected, "the error's list in Python")
        raise
    finally:
        signs.close()
    if args.json:
        print(json.dumps(report.to_json()))
    elif not args.quiet:
        _print(report, args)
    return 0


_NAMES = ("shard_size", "workers", "engine", "address", "replace", "restart", "verify", "dry_run")


def _print(report: Report, args: argparse.Namespace) -> None:
    manifest = report.manifest
    for key, names in manifest.schema.class_names.items():
        numbered = [f"{label} {escape(name)}" for label, name in enumerate(names)]
        print(f"{number(len(names), 'class', 'classes')} of {escape(key)}: {listing(numbered, _CLASSES_SHOWN)}")
    heads = ["split", "records", "shards", *(["size"] if report.committed else [])]
    rows: list[list[object]] = [[*heads]]
    for name in in_usual_order(manifest.splits):
        info = manifest.splits[name]
        size = [size_text(info.size)] if report.committed else []
        rows.append([name, info.records, len(info.shards), *size])
    print(table(rows))
    for note in report.notes:
        print(f"note: {note}")
    print_rejected(report.rejected, f"{escape(report.out)}/{REJECTED}" if report.committed else "--json")
    if not report.committed:
        print("nothing was written (--dry-run)")
        return
    total = sum(info.records for info in manifest.splits.values())
    rate = f"{report.images / report.seconds:,.0f} records/s, {size_text(report.source_bytes / report.seconds)}/s"
    how = f"{report.seconds:.1f} s, {rate}" if report.images else "all of it written by an earlier run"
    print(f"{escape(args.out)}: {number(total, 'record')} ({how})")
    print(f"\nnext: shardfeed inspect {shell_quoted(args.out)}")
