"""`shardfeed convert SOURCE OUT`: choose the source, convert with a progress bar, print the report."""

import argparse
import contextlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, cast, get_args

from shardfeed.converters.commit.output import check_apart
from shardfeed.converters.conversion import convert
from shardfeed.converters.images.options import Filter, ImageOptions
from shardfeed.converters.planning.split_shares import SPLIT_BY, Shares
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.converters.report import noted_json
from shardfeed.converters.shards.task import Noted
from shardfeed.converters.sources.guard import report_progress_to
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import Task, options_of
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import ShardfeedError, TooManyRejectedError, UsageError, escape, without_secrets
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.schema import Feature
from shardfeed.storage.address import destination, is_address
from shardfeed.tools.arguments import (
    GROUPS,
    RUN,
    add_group_arguments,
    add_limit_arguments,
    add_run_arguments,
    add_worker_arguments,
    assignments,
    given,
    named_once,
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

IN_PYTHON = {  # arguments that have another name here
    "label_columns": "--label-column",
    "text_columns": "--text-column",
    "number_columns": "--number-column",
    "column": "column",
    "path": "as SOURCE",
    "root": "as SOURCE, and this file by --labels",
}


def add_source_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options for labels, annotations and file selection, and return the group of the latter."""
    add = parser.add_argument_group("labels and annotations").add_argument
    add("--labels", metavar="FILE", help="labels: CSV, TSV, JSON Lines, or 'path label' text")
    add("--path-column", metavar="NAME|N", help="column of the image path (numbers start at 1)")
    add("--label-column", metavar="NAME|N", action="append", help="label column; repeat for more labels")
    add("--label-separator", metavar="S", action="append", help="separates labels within a cell; C=S: only in column C")
    add("--one-hot", metavar="A,B,C", help="columns of 0 and 1, each named after its class")
    add("--text-column", metavar="NAME|N", action="append", help="column of free text, such as captions")
    add("--number-column", metavar="C", action="append", help="column of numeric values: C, C:int, C:float, C:float:3")
    add("--missing", metavar="COLUMN=VALUE", action="append", help="value for empty cells, e.g. age=nan")
    add("--unlabelled", action="store_true", help="convert images without labels, from a folder or a list")
    add("--split-column", metavar="NAME|N", help="column of the split (default: 'split', if present)")
    add(
        "--format",
        metavar="F",
        choices=("csv", "tsv", "jsonl", "text", "parquet"),
        help="format of the label file: csv, tsv, jsonl, text",
    )
    add("--encoding", metavar="E", help="encoding of the label file (default: UTF-8)")
    add("--pattern", metavar="REGEX", help="labels from file names, by the group (?P<label>...)")
    add("--class-names", metavar="FILE", help="class names in order: lines, JSON, YAML, label map")
    add("--images", metavar="DIR", help="folder of the images, if SOURCE is an annotation file")
    add("--tasks", metavar="A,B", help="annotations: boxes, masks, keypoints, captions, ...")
    add("--reader", metavar="NAME", help="read SOURCE as this format: coco, labels, ...")
    add("--colours", metavar="FILE", help="table of masks: name,r,g,b or name,value per class")
    add("--columns", metavar="A=B,C=D", action="append", help="columns to use, in Parquet etc.: image=jpg,label=cls")
    add("--label-offset", metavar="N", type=int, default=0, help="number of the first class in the file (default 0)")
    add("--label-map", metavar="FILE", help="numbers and names of the classes, as in a .pbtxt")
    # Rarely needed: messages and notes name them when they are.
    add("--delimiter", help=argparse.SUPPRESS)
    add("--header", action=argparse.BooleanOptionalAction, help=argparse.SUPPRESS)
    add("--unit", choices=("pixels", "fractions"), help=argparse.SUPPRESS)  # of boxes
    add("--boxes-on", choices=("upright", "stored"), help=argparse.SUPPRESS)
    add("--voc-origin", type=int, choices=(0, 1), default=0, help=argparse.SUPPRESS)
    add("--void", type=_void, help=argparse.SUPPRESS)
    files = parser.add_argument_group("file selection")
    add = files.add_argument
    add(
        "--include",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only matching files: '*.png', 'a/**/*.jpg'; repeatable",
    )
    add("--exclude", metavar="PATTERN", action="append", default=[], help="skip matching files or folders; repeatable")
    add("--follow-links", action="store_true", help="also follow links that point outside SOURCE")
    return files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `convert`."""
    parser.add_argument("source", help="folder (SOURCE/[train/]class/image), label file, annotations or shards")
    parser.add_argument("out", help="dataset to create: a directory, or a URL such as s3://bucket/name")
    files = add_source_arguments(parser)
    files.add_argument(
        "--max-pixels",
        metavar="N",
        type=int,
        default=MAX_PIXELS,
        help=f"reject larger images (default and maximum: {MAX_PIXELS})",
    )
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
    add(
        "--check",
        metavar="HOW",
        choices=("decode", "header", "none"),
        default="decode",
        help="check of each image: decode (default), header, none",
    )
    add("--no-hash", action="store_true", help="do not store the SHA-256 of each source file")
    add("--resize-shorter", metavar="PX", type=int, help="shrink images so that the shorter side is PX")
    add("--size", metavar="HxW|PX", type=_shape, help="scale to cover HxW pixels, then crop the center")
    # Rarely needed: docs/convert.md explains when.
    add("--resize-filter", choices=get_args(Filter), default="lanczos", help=argparse.SUPPRESS)
    add("--quality", metavar="Q", type=int, help="JPEG quality of re-encoded images, 1 to 100")
    add("--encode", choices=("keep", "raw"), default="keep", help="store files (keep, default) or raw RGB pixels (raw)")
    add("--baseline", action="store_true", help="convert progressive JPEGs to baseline; needs shardfeed[baseline]")
    add("--seekable", action="store_const", const=True, help="faster decoding of crops; needs the compiled module")
    add("--no-seekable", action="store_const", const=False, dest="seekable", help=argparse.SUPPRESS)
    add("--png-to-jpeg", action="store_true", help="store PNGs as JPEG, for readers that only decode JPEG")
    add("--background", metavar="COLOR", default="white", help="colour behind transparent pixels; none drops alpha")
    add("--bits", metavar="N", type=int, default=16, help="bits used by 16-bit gray images: 12 makes 4095 white")
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
    source = source_of(args)
    info = info_of(source)
    if info.described and not (args.json or args.quiet):
        print(info.described, flush=True)  # before the work starts: the user may want to stop
    log.write("listed", files=len(source), rejected=len(info.findings.rejected))
    if not is_address(args.out):
        check_apart(args.out, info.findings.folder)
    image = ImageOptions(
        sha256=not args.no_hash,
        **given(args, "check", "encode", "resize_shorter", "size", "resize_filter", "quality", "baseline", "seekable"),
        **given(args, "png_to_jpeg", "background", "bits", "max_pixels"),
    )
    split = assignments("--split", args.split, float) if args.split else None
    before = warnings.showwarning
    warnings.showwarning = warn
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
        warnings.showwarning = before
    _log_rejected(report.rejected, log)
    if report.committed:
        sizes = {name: info.records for name, info in report.manifest.splits.items()}
        log.write("committed", out=report.out, splits=sizes, seconds=round(report.seconds, 3))
    print_report(report, args, shown=info.described)
    if report.committed and not (args.json or args.quiet):
        print(next_steps(args.out, report.manifest))
    return 0


def _log_rejected(rejected: Sequence[Noted], log: EventLog) -> None:
    for noted in rejected:
        log.write("rejected", **noted_json(noted))


def source_of(args: argparse.Namespace) -> Source:
    """The source defined by the options of `add_source_arguments`."""
    values = {
        **given(args, "labels", "pattern", "class_names", "format", "header", "delimiter", "encoding", "unlabelled"),
        **given(args, "images", "unit", "boxes_on", "voc_origin", "colours", "void", "label_offset", "label_map"),
        "path_column": _column(args.path_column),
        "label_columns": [_column(name) for name in args.label_column or ()],
        "text_columns": [_column(name) for name in args.text_column or ()],
        "number_columns": named_once("--number-column", map(_number_column, args.number_column or ())),
        "one_hot": [_column(name.strip()) for name in args.one_hot.split(",")] if args.one_hot else (),
        "split_column": _column(args.split_column),
        "group_column": getattr(args, "group_column", None),
        "label_separator": _separators(args.label_separator),
        "missing": named_once("--missing", map(_missing, args.missing or ())),
        "tasks": [cast("Task", task.strip()) for task in args.tasks.split(",")] if args.tasks else (),
        "columns": assignments("--columns", ",".join(args.columns), str) if args.columns else None,
    }
    with bounded_listing():
        chosen = given(args, "reader", "include", "exclude", "follow_links")
        return open_source(args.source, **chosen, options=options_of(values))


def _void(text: str) -> Any:
    """Value of void in masks: a number, or "none" for masks without void."""
    if text == "none" or text.isdecimal():
        return text if text == "none" else int(text)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected a number or none")


def _number_column(text: str) -> tuple[Any, Feature | None]:
    """A column, and the feature defined by `:int` or `:float` and `:N` after it."""
    found = re.fullmatch(r"(.+?)(?::(int|float)(?::([0-9]{1,6}))?)?", text)
    if found is None:
        raise UsageError("number_columns", f"got {text!r}, expected a column", "write NAME, NAME:float or NAME:float:3")
    name, dtype, count = found.groups()
    shape = () if count is None else (int(count),)
    asked = Feature("int64" if dtype == "int" else "float32", shape) if dtype else None
    return _column(name), asked


def _separators(texts: Sequence[str] | None) -> str | dict[Any, str] | None:
    """Label separator of the first label column, or one for each column that is named before a `=`."""
    named = [text.partition("=") for text in texts or ()]
    whole = [text for text, (name, _, separator) in zip(texts or (), named, strict=True) if not (name and separator)]
    if whole and len(named) > 1:
        raise UsageError("label_separator", f"got {whole[0]!r} with others", "write COLUMN=SEPARATOR for each")
    pairs = ((_column(name), separator) for name, _, separator in named)
    return whole[0] if whole else named_once("--label-separator", pairs) or None


def _missing(text: str) -> tuple[Any, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        raise UsageError("missing", f"got {text!r}, expected COLUMN=VALUE", "write for example age=nan")
    return _column(name), value


def _column(text: str | None) -> Any:
    """A column's name, or its number from 1 as the source counts from 0."""
    if text is not None and text.isdecimal():
        if int(text) < 1:
            raise UsageError("column", f"got {text}, expected a number from 1", "the first column is 1")
        return int(text) - 1
    return text


def _shape(text: str) -> int | tuple[int, int]:
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() for side in sides):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected HEIGHTxWIDTH like 224x320, or one number")
    return int(sides[0]) if len(sides) == 1 else (int(sides[0]), int(sides[1]))
