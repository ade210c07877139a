"""`shardfeed append DATASET SOURCE OUT`: a dataset with more samples."""

import argparse
from functools import partial

from shardfeed.converters.operations.append import append, check_no_dataset
from shardfeed.tools.arguments import assignments
from shardfeed.tools.commands import convert_command
from shardfeed.tools.commands.making import add_making_arguments, run_operation

IN_PYTHON = convert_command.IN_PYTHON


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `append`."""
    parser.add_argument("dataset", help="dataset directory; it is only read")
    parser.add_argument("source", help="the new samples: folder, label file or annotations, as `convert` takes them")
    parser.add_argument("out", help="dataset directory to create")
    new = parser.add_argument_group("what is appended")
    new.add_argument("--split", metavar="A=F,B=F", help="shares of new samples (default: those of the dataset)")
    new.add_argument("--seed", type=int, help="of their order and split (default: the dataset's)")
    new.add_argument("--new-classes", action="store_true", help="classes the dataset does not have are added")
    new.add_argument("--max-bad", metavar="N|P%", default="0", help="rejected inputs that may be (default 0)")
    new.add_argument("--max-bad-objects", metavar="N|P%", default="0", help="likewise annotations (default 0)")
    convert_command.add_source_arguments(parser)
    add_making_arguments(parser, to=False)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    check_no_dataset(args.source)
    operation = partial(
        append,
        args.dataset,
        convert_command.source_of(args),
        args.out,
        split=assignments("--split", args.split, float) if args.split else None,
        seed=args.seed,
        new_classes=args.new_classes,
        max_bad={"images": args.max_bad, "objects": args.max_bad_objects},
    )
    return run_operation(args, operation)
