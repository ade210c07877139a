"""`shardfeed split DATASET OUT --split train=.8,validation=.2`: the same records in new, random splits."""

import argparse
from functools import partial

from shardfeed.converters import Shares
from shardfeed.converters.existing.split import split
from shardfeed.converters.planning.options import SPLIT_BY
from shardfeed.declared import assignments
from shardfeed.tools.arguments import GROUPS, add_group_arguments, given
from shardfeed.tools.making import add_datasets, add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `split`."""
    add = parser.add_argument
    add_datasets(parser)
    add("--split", metavar="A=F,B=F", required=True, help="fractions, e.g. train=0.9,validation=0.1")
    add(
        "--split-by",
        choices=SPLIT_BY,
        default="exact",
        metavar="HOW",
        help="exact (default): exact shares per class; hash: by key",
    )
    add_group_arguments(parser)
    add("--of", metavar="NAME", help="split to divide; others are kept (default: all records)")
    add("--seed", type=int, default=0, help="seed of the order and the splits (default 0)")
    add("--renumber", action="store_true", help="assign new image ids where COCO ids collide")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    shares = assignments("--split", args.split, float)
    options = given(args, "of", "seed", "renumber", *GROUPS)
    return run_operation(args, partial(split, args.dataset, args.out, Shares(shares, args.split_by), **options))
