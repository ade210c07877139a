"""`shardfeed convert SOURCE OUT`: choose the source, convert with a progress bar, print the report."""

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Sequence

from shardfeed.converters.commit.output import check_apart
from shardfeed.converters.conversion import convert
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import SPLIT_BY, Shares
from shardfeed.converters.report import noted_json
from shardfeed.converters.shards.task import Remark
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import CLASSES, options_of
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.declared import assignments
from shardfeed.errors import ShardfeedError, TooManyRejectedError, UsageError, escape, without_secrets
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.storage.address import destination
from shardfeed.storage.storage import is_address
from shardfeed.tools.arguments import (
    GROUPS,
    RUN,
    add_group_arguments,
    add_limit_arguments,
    add_options,
    add_run_arguments,
    add_worker_arguments,
    given,
    options_given,
    shards_of,
    size_argument,
    workers_of,
)
from shardfeed.tools.colour import warn
from shardfeed.tools.convert_report import print_failed, print_report
from shardfeed.tools.listing_watch import bounded_listing
from shardfeed.tools.next_steps import next_steps
from shardfeed.tools.progress import EventLog, ProgressReporter
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
    labels.add_argument("--reader", metavar="NAME", help="read SOURCE as this format: coco, labels, ...")
    add = parser.add_argument_group("file selection").add_argument
    add(
        "--include",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only matching files: '*.png', 'a/**/*.jpg'; repeatable",
    )
    add("--exclude", metavar="PATTERN", action="append", default=[], help="skip matching files or folders; repeatable")
    add("--follow-links", action="store_true", help="also follow links that point outside SOURCE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `convert`."""
    parser.add_argument("source", help="folder (SOURCE/[train/]class/image), label file, annotations or shards")
    parser.add_argument("out", help="dataset to create: a directory, or a URL such as s3://bucket/name")
    add_source_arguments(parser)
    stored = parser.add_argument_group("stored data")
    add = stored.add_argument
    add("--split", metavar="A=F,B=F", help="fractions: train=0.9,test=0.1 (default: all train)")
    add(
        "--split-by",
        choices=SPLIT_BY,
        default="exact",
        metavar="HOW",
        help="exact (default): exact shares per class; hash: by path",
    )
    add_group_arguments(stored)
    formats = ", ".join(FORMATS)
    add("--to", metavar="FORMAT", choices=tuple(FORMATS), default=NATIVE.name, help=f"shard format: {formats}")
    add("--shards", metavar="N|A=N,B=N", help="number of shards per split (default: by --shard-size)")
    add(
        "--shard-size",
        metavar="SIZE",
        type=size_argument,
        help="maximum shard size (default 256MB; at least 16 shards)",
    )
    add("--seed", type=int, default=0, help="seed of the order and the splits (default 0)")
    add_options(stored, ImageOptions)
    run = parser.add_argument_group("run options")
    add_worker_arguments(run, address=argparse.SUPPRESS)
    run.add_argument("--start-method", choices=("auto", "spawn", "forkserver"), default="auto", help=argparse.SUPPRESS)
    add_limit_arguments(run)
    add_run_arguments(run, dry_run="print the plan, write nothing")
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
    before = warnings.showwarning
    warnings.showwarning = warn
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
        warnings.showwarning = before
        reporter.close()
        log.close()


def _convert(args: argparse.Namespace, reporter: ProgressReporter, log: EventLog) -> int:
    if is_address(args.out):
        destination(args.out)  # before the source is listed
    source = source_of(args)
    info = info_of(source)
    if info.described and not (args.json or args.quiet):
        print(info.described, flush=True)  # before the work starts: the user may want to stop
    log.write("listed", files=len(source), rejected=len(info.findings.rejected))
    if not is_address(args.out):
        check_apart(args.out, info.findings.folder)
    image = ImageOptions(**options_given(args, ImageOptions))
    split = assignments("--split", args.split, float) if args.split else None
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints its messages about nodes there
            report = convert(
                source,
                args.out,
                split=Shares(split, args.split_by),
                **given(args, "to", "seed", *GROUPS, *RUN),
                shards=shards_of(args),
                image=image,
                max_bad={"images": args.max_bad, "objects": args.max_bad_objects},
                workers=workers_of(args),
                progress=reporter.converting,
            )
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
    values = {**options_given(args, *CLASSES), "group_column": getattr(args, "group_column", None)}
    with bounded_listing():
        chosen = given(args, "reader", "include", "exclude", "follow_links")
        return open_source(args.source, **chosen, options=options_of(values))
