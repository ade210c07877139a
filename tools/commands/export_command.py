"""`shardfeed export DATASET OUT --to FORMAT`: write a dataset as files that other tools read."""

import argparse
import json
import sys

from shardfeed.converters.existing.export_dataset import EXPORT_FORMATS, Exported, export, shard_remedy
from shardfeed.errors import escape
from shardfeed.text import number, size_text
from shardfeed.tools.arguments import add_output_arguments, output_bar
from shardfeed.tools.colour import coloured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `export`."""
    parser.add_argument("dataset", help="dataset directory; it is only read")
    parser.add_argument("out", help="folder to create")
    parser.add_argument("--to", type=_form, choices=EXPORT_FORMATS, required=True, help="format to export to")
    parser.add_argument("--drop", metavar="A,B", help="data that may be left out: crowds, masks, ids, ... or all")
    parser.add_argument("--dry-run", action="store_true", help="read everything, print the result, write nothing")
    add_output_arguments(parser)


def _form(name: str) -> str:
    """A format as given. Refuses one of shards, which only another command writes."""
    if remedy := shard_remedy(name):
        raise argparse.ArgumentTypeError(f"got {name!r}, expected one of {', '.join(EXPORT_FORMATS)}; {remedy}")
    return name


def run(args: argparse.Namespace) -> int:
    """Export and print the result; exit code 0 if the folder was made."""
    drop = [word.strip() for word in (args.drop or "").split(",") if word.strip()]
    with output_bar(args, " images") as bar:
        result = export(args.dataset, args.out, args.to, drop=drop, dry_run=args.dry_run, progress=bar.update)
    if args.json:
        print(json.dumps(result.to_json()))
    elif not args.quiet:
        _print(result, args.out)
    return 0


def _print(result: Exported, out: str) -> None:
    splits = ", ".join(f"{name}: {count:,}" for name, count in result.splits.items())
    print(f"{'would write: ' if result.dry_run else ''}{number(result.images, 'image')} as {result.to} ({splits})")
    for what, count in result.left_out.items():
        print(f"LEFT OUT, as {result.to} cannot store it: {escape(what)}: {count:,}")
    for note in result.notes:
        print(coloured("note:", "note", sys.stdout), escape(note))
    done = f"{number(result.files, 'file')}, {size_text(result.size)}"
    rate = f"{result.images / max(result.seconds, 1e-9):,.0f} images/s"
    print(f"{escape(out)}: {done} ({result.seconds:.1f} s, {rate})")
    commands = result.convert_commands
    print("\nto convert it again:" if len(commands) == 1 else "\nto convert it again, one command per part:")
    for command in commands:
        print(f"  {command}")
