"""`shardfeed rebuild DIR`: restore indexes, columns and other files from a dataset's shards."""

import argparse
import json

from shardfeed.converters.existing.rebuild import Rebuilt, rebuild
from shardfeed.errors import IntegrityError, escape
from shardfeed.text import shell_quoted
from shardfeed.tools.arguments import add_output_arguments, output_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rebuild`."""
    parser.add_argument("dataset", help="dataset directory; missing and damaged files are written into it")
    parser.add_argument("--dry-run", action="store_true", help="list missing and damaged files, write nothing")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild, or only check; exit code 4 if a damaged file cannot be made from the shards."""
    with output_bar(args) as bar:
        done = rebuild(args.dataset, dry_run=args.dry_run, progress=bar.update)
    if args.json:
        print(json.dumps({"files": dict(done.files), "lost": dict(done.lost), "written": done.written}))
    elif not args.quiet:
        _print(done, args.dataset)
    return IntegrityError.exit_code if done.lost else 0


def _print(done: Rebuilt, directory: str) -> None:
    what = "restored, byte for byte" if done.written else "can be restored"
    for name, problem in done.files.items():
        print(f"{escape(name)}: {problem}: {what}")
    for name, problem in done.lost.items():
        remedy = "restore it from a copy, or use `shardfeed salvage DIR OUT`"
        print(f"{escape(name)}: {problem}: not in the shards; {remedy}")
    if not done.files and not done.lost:
        print(f"{escape(directory)}: indexes, label columns and TFDS files are intact; nothing to do")
    elif done.files and not done.written:
        print(f"\nnothing was written; next: shardfeed rebuild {shell_quoted(directory)}")
