"""`shardfeed filter DATASET OUT --where CONDITION`: the records that meet a condition."""

import argparse
from functools import partial

from shardfeed.converters.existing.filter import filter
from shardfeed.tools.arguments import given
from shardfeed.tools.making import add_datasets, add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `filter`."""
    add_datasets(parser)
    parser.add_argument("--where", metavar="CONDITION", help="condition: 'class in (cat, dog) and height >= 224'")
    parser.add_argument("--keys", metavar="FILE", help="only records with these keys (image/filename), one per line")
    parser.add_argument("--min-objects", metavar="N", type=int, help="only images with at least N objects")
    parser.add_argument("--missing-ok", action="store_true", help="ignore unknown keys")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    options = given(args, "where", "keys", "min_objects", "missing_ok")
    return run_operation(args, partial(filter, args.dataset, args.out, **options))
