"""`shardfeed export DATASET OUT --to FORMAT`: write a dataset as files that other tools read."""

import argparse
import sys

from shardfeed.converters.existing.export_dataset import Exported, export
from shardfeed.errors import escape
from shardfeed.text import number, size_text
from shardfeed.tools.arguments import command
from shardfeed.tools.colour import coloured


def _print(result: Exported, args: argparse.Namespace) -> None:
    splits = ", ".join(f"{name}: {count:,}" for name, count in result.splits.items())
    print(f"{'would write: ' if result.dry_run else ''}{number(result.images, 'image')} as {result.to} ({splits})")
    for what, count in result.left_out.items():
        print(f"LEFT OUT, as {result.to} cannot store it: {escape(what)}: {count:,}")
    for note in result.notes:
        print(coloured("note:", "note", sys.stdout), escape(note))
    done = f"{number(result.files, 'file')}, {size_text(result.size)}"
    rate = f"{result.images / max(result.seconds, 1e-9):,.0f} images/s"
    print(f"{escape(args.out)}: {done} ({result.seconds:.1f} s, {rate})")
    commands = result.convert_commands
    print("\nto convert it again:" if len(commands) == 1 else "\nto convert it again, one command per part:")
    for line in commands:
        print(f"  {line}")


add_arguments, run = command(export, _print, to_json=Exported.to_json, unit=" images")
