"""`shardfeed remove DATASET OUT --keys FILE`: without some records, for erasure on request."""

import argparse
from functools import partial

from shardfeed.converters.existing.filter import remove
from shardfeed.errors import UsageError
from shardfeed.tools.making import add_datasets, add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `remove`."""
    add_datasets(parser)
    parser.add_argument("--keys", metavar="FILE", help="file of keys (image/filename) to remove, one per line")
    parser.add_argument("--key", metavar="KEY", action="append", default=[], help="key to remove; repeatable")
    parser.add_argument("--missing-ok", action="store_true", help="ignore unknown keys")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    if bool(args.keys) == bool(args.key):
        raise UsageError("--keys", "expected either a list or keys", "give --keys FILE, or --key KEY")
    operation = partial(remove, args.dataset, args.out, args.keys or args.key, missing_ok=args.missing_ok)
    return run_operation(args, operation)
