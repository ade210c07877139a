"""`shardfeed append DATASET SOURCE OUT`: a dataset with more samples."""

import argparse

from shardfeed.converters.conversion import Conversion, OutputOptions
from shardfeed.converters.existing.append import append, check_no_dataset
from shardfeed.converters.existing.making import WritingOptions
from shardfeed.manifest import read_manifest
from shardfeed.storage.storage import local_path
from shardfeed.tools.arguments import add_options, options_given
from shardfeed.tools.commands import convert_command
from shardfeed.tools.making import add_making_arguments, run_operation

PYTHON_NAMES = convert_command.PYTHON_NAMES
_WRITING = (WritingOptions, OutputOptions, Conversion)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `append`."""
    add_options(parser, append)
    convert_command.add_source_arguments(parser)
    add_making_arguments(parser, *_WRITING)


def run(args: argparse.Namespace) -> int:
    """Make the dataset; exit code 0, or that of the error raised."""
    check_no_dataset(args.source)
    if args.group_column is None:  # the source also needs the column of the dataset's groups
        args.group_column = read_manifest(local_path(args.dataset)).options.get("groups", {}).get("column")
    given = {**options_given(args, append, *_WRITING), "source": convert_command.source_of(args)}
    return run_operation(args, append, **given)
