"""`shardfeed relabel DATASET OUT --map FILE`: other classes."""

import argparse
from functools import partial

from shardfeed.converters.existing.relabel import relabel
from shardfeed.tools.making import add_datasets, add_making_arguments, run_operation

PYTHON_NAMES = {"classes": "--map"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `relabel`."""
    add = parser.add_argument
    add_datasets(parser)
    add(
        "--map",
        metavar="FILE",
        required=True,
        help="CSV old,new or JSON {old: new}; an empty new name or null drops a class",
    )
    add("--feature", metavar="KEY", help="feature to change (default: all features with classes)")
    add("--order", metavar="FILE", help="new class names in label order, one per line")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    operation = partial(relabel, args.dataset, args.out, args.map, feature=args.feature, order=args.order)
    return run_operation(args, operation)
