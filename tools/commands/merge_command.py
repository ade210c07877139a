"""`shardfeed merge DATASET DATASET OUT`: several datasets as one."""

import argparse
from functools import partial

from shardfeed.converters.existing.merge import merge
from shardfeed.tools.making import add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `merge`."""
    parser.add_argument("datasets", nargs="+", help="two or more dataset directories; they are only read")
    parser.add_argument("out", help="dataset to create: a directory, or a URL such as s3://bucket/name")
    parser.add_argument("--prefix", action="store_true", help="prefix the keys of each dataset with its directory name")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order (default 0)")
    parser.add_argument("--renumber", action="store_true", help="assign new image ids where COCO ids collide")
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    operation = partial(merge, args.datasets, args.out, prefix=args.prefix, seed=args.seed, renumber=args.renumber)
    return run_operation(args, operation)
