"""`shardfeed convert SOURCE OUT`: choose the source, convert with a progress bar, print the report."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from shardfeed.converters.commit.output import check_apart
from shardfeed.converters.conversion import Conversion, OutputOptions, PlannedConversion, convert
from shardfeed.converters.planning.options import DatasetOptions
from shardfeed.converters.report import noted_json
from shardfeed.converters.shards.task import Remark
from shardfeed.converters.sources.foreign import known
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import CLASSES, options_of
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import ShardfeedError, TooManyRejectedError, UsageError, escape, without_secrets
from shardfeed.storage.address import destination
from shardfeed.storage.storage import is_address
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given
from shardfeed.tools.convert_report import print_failed, print_report
from shardfeed.tools.next_steps import next_steps
from shardfeed.tools.progress import EventLog, ProgressReporter
from shardfeed.tools.signal_watch import bounded_listing
from shardfeed.version import __version__

PYTHON_NAMES = {  # arguments that have another name here
    "column": "column",
    "path": "as SOURCE",
    "root": "as SOURCE, and this file by --labels",
}


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for labels, annotations and file selection."""
    labels = parser.add_argument_group("labels and annotations")
    add_options(labels, *CLASSES)
    add_options(parser.add_argument_group("file selection"), open_source)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `convert`."""
    add_options(parser, PlannedConversion)
    add_source_arguments(parser)
    add_options(parser.add_argument_group("stored data"), DatasetOptions)
    run = parser.add_argument_group("run options")
    add_options(run, OutputOptions, Conversion)
    add_output_arguments(run)
    run.add_argument("--log", metavar="FILE", help="append events to FILE, as JSON Lines")


def run(args: argparse.Namespace) -> int:
    """Convert, print the outcome; the exit code is 0 or that of the error raised."""
    if args.log is not None and os.path.isdir(args.source):  # whose files are listed with the images
        folder = os.path.join(os.path.realpath(args.source), "")
        if os.path.realpath(args.log).startswith(folder):
            raise UsageError("--log", f"{escape(args.log)} is inside the source", "name a file outside of it")
    log = EventLog(args.log)
    reporter = ProgressReporter(quiet=args.quiet or args.json, log=log)
    log.write("started", source=without_secrets(args.source), out=args.out, version=__version__)
    try:
        with report_progress_to(reporter.preparing):
            return _convert(args, reporter, log)
    except Exception as error:
        code = getattr(error, "exit_code", ShardfeedError.exit_code)
        log.write("error", error=type(error).__name__, message=str(error), exit_code=code)
        raise
    except BaseException:  # a signal
        log.write("interrupted")
        raise
    finally:
        reporter.close()
        log.close()


def _convert(args: argparse.Namespace, reporter: ProgressReporter, log: EventLog) -> int:
    if is_address(args.out):
        destination(args.out)  # before the source is listed
    options = options_given(args, PlannedConversion, DatasetOptions, OutputOptions, Conversion)
    source = source_of(args)
    info = info_of(source)
    if info.described and not (args.json or args.quiet):
        print(info.described, flush=True)  # before the work starts: the user may want to stop
    log.write("listed", files=len(source), rejected=len(info.findings.rejected))
    if not is_address(args.out):
        check_apart(args.out, info.findings.folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints its messages about nodes there
            report = convert(**{**options, "source": source}, progress=reporter.converting)
    except TooManyRejectedError as error:
        reporter.close()
        _log_rejected(error.rejected, log)
        print_failed(error, args, shown=info.described)
        raise
    finally:
        reporter.close()
    _log_rejected(report.rejected, log)
    if report.committed:
        sizes = {name: info.records for name, info in report.manifest.splits.items()}
        log.write("committed", out=report.out, splits=sizes, seconds=round(report.seconds, 3))
    print_report(report, args, shown=info.described)
    if report.committed and not (args.json or args.quiet):
        print(next_steps(args.out, report.manifest))
    return 0


def _log_rejected(rejected: Sequence[Remark], log: EventLog) -> None:
    for noted in rejected:
        log.write("rejected", **noted_json(noted))


def source_of(args: argparse.Namespace) -> Source:
    """The source defined by the options of `add_source_arguments`."""
    values = {**options_given(args, *CLASSES), "group_column": args.group_column}
    with bounded_listing():
        return known(open_source(args.source, **options_given(args, open_source), options=options_of(values)))
