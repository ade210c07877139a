"""The commands that make a dataset from other datasets: their options are the arguments of the operations."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import Any

from shardfeed import converters
from shardfeed.converters.conversion import Conversion, OutputOptions
from shardfeed.converters.existing.making import MakingOptions
from shardfeed.converters.report import Report
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.errors import TooManyRejectedError
from shardfeed.text import shell_quoted
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given
from shardfeed.tools.convert_report import print_failed, print_report
from shardfeed.tools.progress import EventLog, ProgressReporter

MAKING = (MakingOptions, OutputOptions, Conversion)


class OperationCommand:
    """The command of the operation with this name."""

    def __init__(self, name: str) -> None:
        self.operation = getattr(converters, name)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The arguments of the operation, and the options for writing a dataset."""
        add_options(parser, self.operation)
        add_making_arguments(parser, *MAKING)

    def run(self, args: argparse.Namespace) -> int:
        """Make the dataset; exit code 0, or that of the error raised."""
        return run_operation(args, self.operation, **options_given(args, self.operation, *MAKING))


def add_making_arguments(parser: argparse.ArgumentParser, *owners: Any) -> None:
    """The options for writing a dataset, which are declared by `owners`."""
    written = parser.add_argument_group("how the dataset is written")
    add_options(written, *owners)
    add_output_arguments(written)


def run_operation(args: argparse.Namespace, operation: Callable[..., Report], **options: Any) -> int:
    """Call `operation` with the options, and print its report; the exit code is 0."""
    reporter = ProgressReporter(quiet=args.quiet or args.json, log=EventLog(None))
    try:
        with report_progress_to(reporter.preparing), contextlib.redirect_stdout(sys.stderr):  # Ray prints there
            report = operation(**options, progress=reporter.converting)
    except TooManyRejectedError as error:
        reporter.close()
        print_failed(error, args, what="record")
        raise
    finally:
        reporter.close()
    print_report(report, args, what="record")
    if report.committed and not (args.json or args.quiet):
        print(f"\nnext: shardfeed inspect {shell_quoted(args.out)}")
    return 0
