"""`shardfeed export DATASET OUT --to FORMAT`: write a dataset as files that other tools read."""

import argparse
import json
import sys

from shardfeed.converters.existing.export_dataset import Exported, export
from shardfeed.errors import escape
from shardfeed.text import number, size_text
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given, output_bar
from shardfeed.tools.colour import coloured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `export`."""
    add_options(parser, export)
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Export and print the result; exit code 0 if the folder was made."""
    with output_bar(args, " images") as bar:
        result = export(**options_given(args, export), progress=bar.update)
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
