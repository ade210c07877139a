"""Options, progress and output shared by the commands that make a dataset from other datasets."""

import argparse
import contextlib
import sys
from collections.abc import Callable

from shardfeed.converters.report import Report
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.errors import TooManyRejectedError
from shardfeed.formats.registry import FORMATS
from shardfeed.text import shell_quoted
from shardfeed.tools.arguments import (
    RUN,
    add_run_arguments,
    add_worker_arguments,
    given,
    shards_of,
    size_argument,
    workers_of,
)
from shardfeed.tools.convert_report import print_failed, print_report
from shardfeed.tools.progress import EventLog, ProgressReporter


def add_datasets(parser: argparse.ArgumentParser) -> None:
    """The dataset that is read, and the one that is made."""
    parser.add_argument("dataset", help="dataset directory; it is only read")
    parser.add_argument("out", help="dataset to create: a directory, or a URL such as s3://bucket/name")


def add_making_arguments(parser: argparse.ArgumentParser, *, to: bool = True) -> None:
    """The options for writing a dataset; `to`: whether its format can be chosen."""
    written = parser.add_argument_group("how the dataset is written")
    add = written.add_argument
    if to:
        add("--max-bad", metavar="N|P%", default="0", help="damaged records that may be left out (default 0)")
        add("--to", metavar="FORMAT", help=f"shard format: {', '.join(FORMATS)} (default: unchanged)")
    add("--shards", metavar="N|A=N,B=N", help="number of shards per split (default: by --shard-size)")
    add("--shard-size", metavar="SIZE", type=size_argument, help="maximum shard size (default 256MB)")
    add_worker_arguments(written)
    add_run_arguments(written)


def run_operation(args: argparse.Namespace, operation: Callable[..., Report]) -> int:
    """Call `operation` with the arguments of `add_making_arguments`, and print its report; the exit code is 0."""
    reporter = ProgressReporter(quiet=args.quiet or args.json, log=EventLog(None))
    options = {**given(args, *RUN), "shards": shards_of(args), "workers": workers_of(args)}
    if "to" in args:
        options |= given(args, "to", "max_bad")
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
