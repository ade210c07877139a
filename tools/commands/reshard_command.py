"""`shardfeed reshard DATASET OUT`: the same records in other shards, or in another format."""

import argparse
from functools import partial

from shardfeed.converters.existing.split import reshard
from shardfeed.tools.making import add_datasets, add_making_arguments, run_operation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `reshard`."""
    add_datasets(parser)
    add_making_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    return run_operation(args, partial(reshard, args.dataset, args.out))
