"""`shardfeed append DATASET SOURCE OUT`: a dataset with more samples."""

import argparse
from functools import partial

from shardfeed.converters.existing.append import append, check_no_dataset
from shardfeed.declared import assignments
from shardfeed.manifest import read_manifest
from shardfeed.storage.storage import local_path
from shardfeed.tools.arguments import GROUPS, add_group_arguments, add_limit_arguments, given
from shardfeed.tools.commands import convert_command
from shardfeed.tools.making import add_making_arguments, run_operation

PYTHON_NAMES = convert_command.PYTHON_NAMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `append`."""
    parser.add_argument("dataset", help="dataset directory; it is only read")
    parser.add_argument("source", help="new samples, as for `convert`")
    parser.add_argument("out", help="dataset to create: a directory, or a URL such as s3://bucket/name")
    new = parser.add_argument_group("appended samples")
    new.add_argument("--split", metavar="A=F,B=F", help="fractions of new samples (default: as before)")
    add_group_arguments(new)
    new.add_argument("--seed", type=int, help="seed of order and splits (default: as before)")
    new.add_argument("--new-classes", action="store_true", help="add classes that the dataset does not have")
    add_limit_arguments(new)
    convert_command.add_source_arguments(parser)
    add_making_arguments(parser, to=False)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    check_no_dataset(args.source)
    if args.group_column is None:  # the source also needs the column of the dataset's groups
        args.group_column = read_manifest(local_path(args.dataset)).options.get("groups", {}).get("column")
    operation = partial(
        append,
        args.dataset,
        convert_command.source_of(args),
        args.out,
        split=assignments("--split", args.split, float) if args.split else None,
        **given(args, *GROUPS, "seed", "new_classes"),
        max_bad={"images": args.max_bad, "objects": args.max_bad_objects},
    )
    return run_operation(args, operation)
