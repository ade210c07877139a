"""`shardfeed index DIR [OUT] [--rebuild]`: what is made of shards, made again, or made for the first time."""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from tqdm import tqdm

from shardfeed.converters.commit.new_dataset import check_new_output
from shardfeed.converters.existing.adopt import adopt
from shardfeed.converters.existing.rebuild import Rebuilt, rebuild
from shardfeed.converters.existing.surveying import Survey, survey
from shardfeed.converters.sources.rows.class_names import read_named_classes
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST
from shardfeed.schema import ENCODED, LABEL
from shardfeed.text import in_usual_order, listing, number, shell_quoted, size_text, table
from shardfeed.tools.commands.convert_report import feature_table

IN_PYTHON = {"splits": "--split"}
_NAMES_SHOWN = 8
_FOREIGN = ("split", "split_name", "image_key", "label_key", "class_names", "partial")  # options for those files alone


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `index`."""
    parser.add_argument("dataset", help="dataset directory, or a folder of TFRecord files that someone else wrote")
    parser.add_argument("out", nargs="?", help="dataset directory to create, with links to those TFRecord files")
    parser.add_argument("--rebuild", action="store_true", help="write into DIR; without it DIR is only looked at")
    foreign = parser.add_argument_group("for TFRecord files that someone else wrote")
    foreign.add_argument("--split-name", metavar="NAME", help="all files are one split (default: splits by file names)")
    foreign.add_argument(
        "--split", metavar="NAME=PATTERN", action="append", help="files of a split, of any name: train='*.tar' (repeat)"
    )
    foreign.add_argument(
        "--image-key", metavar="KEY", help=f"the image, where it is not called {ENCODED} (default: found)"
    )
    foreign.add_argument(
        "--label-key", metavar="KEY", help=f"the label, where it is not called {LABEL} (default: found)"
    )
    foreign.add_argument(
        "--class-names",
        metavar="FILE",
        help="names of the label: one a line from label 0's, `1:cat`, or label_map.pbtxt",
    )
    foreign.add_argument("--partial", action="store_true", help="take a split of which shards are missing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def run(args: argparse.Namespace) -> int:
    """Rebuild, adopt or only look; exit code 4 when a file is damaged that is not made of the shards."""
    is_dataset = has_manifest(args.dataset)
    if args.out is not None and args.rebuild:
        raise UsageError("--rebuild", "writes into DIR, and OUT is given too", "leave one out")
    if is_dataset and (args.out or any(vars(args)[name] for name in _FOREIGN)):
        raise UsageError(
            args.dataset, f"holds a {MANIFEST}: a dataset already", "leave OUT and the options for other folders out"
        )
    with tqdm(unit="B", unit_scale=True, disable=True if args.quiet or args.json else None) as bar:
        told, code = (_rebuild if is_dataset else _adopt)(args, bar.update)
    if args.json:
        print(json.dumps(told))
    return code


def _rebuild(args: argparse.Namespace, progress: Callable[[int], object]) -> tuple[dict[str, Any], int]:
    done = rebuild(args.dataset, write=args.rebuild, progress=progress)
    if not (args.quiet or args.json):
        _print_rebuilt(done, args.dataset)
    told = {"files": dict(done.files), "lost": dict(done.lost), "written": done.written}
    return told, IntegrityError.exit_code if done.lost else 0


def _print_rebuilt(done: Rebuilt, directory: str) -> None:
    what = "made again, byte for byte" if done.written else "can be made again"
    for name, problem in done.files.items():
        print(f"{escape(name)}: {problem}: {what}")
    for name, problem in done.lost.items():
        print(f"{escape(name)}: {problem}: not made of the shards; restore it from a copy, or `shardfeed salvage`")
    if not done.files and not done.lost:
        print(f"{escape(directory)}: indexes, label columns and TFDS's files are as written; nothing to do")
    elif done.files and not done.written:
        print(f"\nnothing was written; next: shardfeed index {shell_quoted(directory)} --rebuild")


def _adopt(args: argparse.Namespace, progress: Callable[[int], object]) -> tuple[dict[str, Any], int]:
    started = time.monotonic()
    names = None if args.class_names is None else read_named_classes(args.class_names)
    if args.out is not None:
        check_new_output(os.path.abspath(args.out))  # before hours of reading
    found = survey(
        args.dataset,
        split_name=args.split_name,
        splits=_patterns(args.split),
        image_key=args.image_key,
        label_key=args.label_key,
        class_names=names,
        partial=args.partial,
        progress=progress,
    )
    manifest = adopt(found, args.out) if args.out is not None or args.rebuild else None
    seconds = time.monotonic() - started
    if not (args.quiet or args.json):
        _print_adopted(found, args, seconds, written=manifest is not None)
    splits = {
        split.name: {"records": sum(len(t.sizes) for t in found.tallies[split.name]), "shards": len(split.files)}
        for split in found.splits
    }
    told = {
        "out": (args.out or args.dataset) if manifest else None,
        "splits": splits,
        "features": found.schema.to_json(),
        "left_aside": list(found.left_aside),
        "image_key": found.schema.key(ENCODED),
        "label_key": found.schema.key(LABEL),
        "notes": list(found.notes),
        "records": found.records,
        "bytes": found.size,
        "seconds": round(seconds, 3),
    }
    return told, 0


def _patterns(given: Sequence[str] | None) -> dict[str, str] | None:
    """Split -> pattern, of `--split NAME=PATTERN`."""
    patterns: dict[str, str] = {}
    for text in given or ():
        name, equals, pattern = text.partition("=")
        if not equals or not pattern or name in patterns:
            problem = "is given twice" if name in patterns else "expected NAME=PATTERN"
            raise UsageError("--split", f"got {escape(text)!r}: {problem}", "for example --split train='train/*.tfrec'")
        patterns[name] = pattern
    return patterns or None


def _print_adopted(found: Survey, args: argparse.Namespace, seconds: float, *, written: bool) -> None:
    rows: list[list[object]] = [["split", "records", "shards", "size", "first file"]]
    by_name = {split.name: split for split in found.splits}
    for name in in_usual_order(by_name):
        records = sum(len(tally.sizes) for tally in found.tallies[name])
        size = sum(info.size for info in found.data[name])
        rows.append([name, records, len(by_name[name].files), size_text(size), escape(by_name[name].files[0])])
    print(table(rows))
    print(feature_table(found.schema))
    for key, names in found.schema.class_names.items():
        classes = number(len(names), "class", "classes")
        print(f"{classes} of {escape(key)}: {listing([escape(name) for name in names], _NAMES_SHOWN)}")
    for note in found.notes:
        print(note)
    if found.left_aside:
        print(f"no TFRecord files, by their names: {listing([escape(name) for name in found.left_aside])}")
    rate = f"{found.records / seconds:,.0f} records/s, {size_text(found.size / seconds)}/s"
    print(f"{escape(args.dataset)}: {found.records:,} records, all whole ({seconds:.1f} s, {rate})")
    if written:
        print(f"\nnext: shardfeed verify {shell_quoted(args.out or args.dataset)}")
    elif found.fits_beside:
        command = f"shardfeed index {shell_quoted(args.dataset)} --rebuild"
        print(f"\nnothing was written; next: {command}, which makes it a dataset")
    else:
        command = f"shardfeed index {shell_quoted(args.dataset)} OUT"
        print(f"\nnothing was written; next: {command}, which links to these files")
