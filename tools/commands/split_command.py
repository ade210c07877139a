"""`shardfeed split DATASET OUT --split train=.8,validation=.2`: the same records in splits that are drawn anew."""

import argparse
from functools import partial

from shardfeed.converters import Shares
from shardfeed.converters.operations.split import split
from shardfeed.converters.planning.split_shares import SPLIT_BY
from shardfeed.tools.arguments import assignments
from shardfeed.tools.commands.making import add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `split`."""
    parser.add_argument("dataset", help="dataset directory; it is only read")
    parser.add_argument("out", help="dataset directory to create")
    parser.add_argument("--split", metavar="A=F,B=F", required=True, help="shares, e.g. train=0.9,validation=0.1")
    parser.add_argument(
        "--split-by",
        choices=SPLIT_BY,
        default="exact",
        metavar="HOW",
        help="shares exact in each class (exact, default), or by key (hash)",
    )
    parser.add_argument("--of", metavar="NAME", help="the split that is cut; others are kept (default: all together)")
    parser.add_argument("--seed", type=int, default=0, help="of order and split (default 0)")
    parser.add_argument("--renumber", action="store_true", help="new numbers also where two images of COCO have one")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    shares = assignments("--split", args.split, float)
    operation = partial(
        split,
        args.dataset,
        args.out,
        Shares(shares, args.split_by),
        of=args.of,
        seed=args.seed,
        renumber=args.renumber,
    )
    return run_operation(args, operation)
