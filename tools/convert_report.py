"""Reports printed by the commands that make a dataset: when they are done or, with --dry-run, before they begin."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.images.options import Change, ImageOptions
from shardfeed.converters.rejects import Account
from shardfeed.converters.report import Report, counts_by_code, noted_json
from shardfeed.converters.shards.task import Remark, noted_of
from shardfeed.errors import TooManyRejectedError, escape
from shardfeed.naming import LEFT_OUT, REJECTED
from shardfeed.schema import IMAGE_KEYS, LABEL, Schema
from shardfeed.text import in_usual_order, listing, number, size_text, table
from shardfeed.tools.arguments import options_given
from shardfeed.tools.colour import coloured

_SHOWN = 8  # rejected inputs printed, all of which are in rejected.jsonl
_CLASSES_SHOWN = 20
_CLASS_HEADS = 8  # classes with their own column in the table of splits


def print_report(report: Report, args: argparse.Namespace, *, shown: str = "", what: str = "image") -> None:
    """Print the dataset that was or would be made. `shown`: a note already shown. `what`: word for a record."""
    if args.json:
        print(json.dumps(report.to_json()))
        return
    if args.quiet:
        return
    manifest, planned = report.manifest, report.planned
    total = sum(split.records for split in manifest.splits.values())
    if planned is not None and what == "image":
        plan = f"{number(total, what)}, {size_text(report.source_bytes)}, plan {manifest.fingerprint[:12]}"
        print(f"{plan}; damaged images are found during conversion")
    for key, names in manifest.schema.class_names.items():
        numbered = [f"{label} {escape(name)}" for label, name in enumerate(names)]
        print(f"{number(len(names), 'class', 'classes')} of {escape(key)}: {listing(numbered, _CLASSES_SHOWN)}")
    _print_splits(report, what)
    _print_pixels(report, args, total)
    if planned is not None and planned.objects is not None:
        _print_objects(report, planned.objects, planned.without_objects)
    if planned is not None and what == "image":
        features = manifest.schema.features.keys() - IMAGE_KEYS
        print(feature_table(manifest.schema, features) if features else "no labels, only images")
    _print_changes(report, deep=getattr(args, "keep_depth", False))
    warning = coloured("warning:", "warning", sys.stdout)
    for noted in report.warnings[:_SHOWN]:
        print(f"{warning} {escape(noted.key)}: {noted.why}")
    if len(report.warnings) > _SHOWN:
        print(f"{warning} and {len(report.warnings) - _SHOWN:,} more like this, in the report of --json")
    for note in report.notes:
        if note != shown:
            print(coloured("note:", "note", sys.stdout), note)
    where = f"{escape(report.out)}/{REJECTED}" if report.committed else "the report of --json"
    _print_listed(report.rejected, "input", "rejected", where)
    if report.account is not None:
        _print_account(report, report.account)
    if planned is not None:
        print("nothing was written (--dry-run)")
    if not report.committed:
        return
    rate = f"{report.images / report.seconds:,.0f} {what}s/s, {size_text(report.source_bytes / report.seconds)}/s"
    if report.images < total:
        rate = f"{number(report.images, what)} in this run, {rate}"
    how = f"{report.seconds:.1f} s, {rate}" if report.images else "all written by an earlier run"
    print(f"{escape(args.out)}: {number(total, what)} ({how})")


def print_failed(
    error: TooManyRejectedError, args: argparse.Namespace, *, shown: str = "", what: str = "image"
) -> None:
    """Print the rejected inputs or, if the conversion had begun, its whole report."""
    if error.report is not None:
        print_report(error.report, args, shown=shown, what=what)
    elif args.json:
        rejected = [noted_json(noted) for noted in error.rejected]
        print(json.dumps({"out": args.out, "committed": False, "images": 0, "rejected": rejected}))
    elif not args.quiet:
        _print_listed(error.rejected, "input", "rejected", "the output of --json")


def _print_listed(rejected: Sequence[Remark], what: str, done: str, where: str) -> None:
    """Print the number left out, by code, and the first ones; `where`: the file that lists all."""
    if not rejected:
        return
    codes = listing([f"{count:,} {code}" for code, count in counts_by_code(rejected).items()])
    print(f"{number(len(rejected), what)} {done} ({codes}):")
    for noted in rejected[:_SHOWN]:
        print(f"  {escape(noted.key)}: {noted.what}, {noted.why}")
    if len(rejected) > _SHOWN:
        print(f"  and {len(rejected) - _SHOWN:,} more, in {where}")


def _print_splits(report: Report, what: str) -> None:
    """Records, shards and bytes of each split; and counts of each class, in the same or a separate table."""
    splits, names = report.manifest.splits, report.manifest.schema.class_names.get(LABEL, ())
    order = in_usual_order(splits)
    heads = [*map(escape, names)] if len(names) <= _CLASS_HEADS else []
    rows: list[list[object]] = [["split", f"{what}s", "shards", *([] if report.planned else ["size"]), *heads]]
    for name in order:
        split = splits[name]
        row: list[object] = [name, split.records, len(split.shards)]
        row += [] if report.planned else [size_text(split.size)]
        rows.append([*row, *(split.class_counts.get(LABEL, [""] * len(heads)) if heads else ())])
    print(table(rows))
    counts = [splits[name].class_counts.get(LABEL, ()) for name in order]
    if len(order) > 1 and not heads and all(counts):
        _print_by_class("class", [*order], names, list(zip(*counts, strict=True)))


def _print_by_class(head: str, columns: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
    found: list[list[object]] = [[escape(name), *row] for name, row in zip(names, rows, strict=True)]
    print(table([[head, *columns], *found[:_CLASSES_SHOWN]]))
    if len(names) > _CLASSES_SHOWN:
        print(f"  and {len(names) - _CLASSES_SHOWN:,} more classes, in the report of --json")


def _print_objects(report: Report, objects: int, without: int) -> None:
    """Print how many objects of each class a dry run found, and how many images without objects."""
    print(f"{number(objects, 'object')}, before clipping and filtering; {number(without, 'image')} without")
    names = report.manifest.schema.class_names.get(OBJECT_LABEL, ())
    splits = in_usual_order(report.manifest.splits)
    counts = [report.manifest.splits[name].class_counts[OBJECT_LABEL] for name in splits] if names else []
    if names:
        columns = splits if len(splits) > 1 else ["objects"]
        _print_by_class("class", columns, names, list(zip(*counts, strict=True)))


def _print_account(report: Report, account: Account) -> None:
    """Print the account of the annotations, read = written + left out, and list those that were left out."""
    where = f"{escape(report.out)}/{LEFT_OUT}{'' if report.committed else ', once it is committed'}"
    if report.planned is not None:
        where = "the report of --json"
    elif account.read or account.left_out:
        clipped = f" ({account.clipped:,} clipped, by at most {account.farthest:.1f} px)" if account.clipped else ""
        left_out = f"{len(account.left_out):,} left out"
        line = f"annotations: {account.read:,} read = {account.written:,} written{clipped} + {left_out}"
        print(f"{line}, listed in {where}" if account.left_out else line)
    _print_listed(noted_of(account.left_out), "annotation", "left out", where)


def _print_pixels(report: Report, args: argparse.Namespace, images: int) -> None:
    """Print how many bytes raw pixels take, in all and per image; print nothing if images are stored as files."""
    planned, splits = report.planned, report.manifest.splits.values()
    raw = sum(split.formats.get("raw", 0) for split in splits) if planned is None else images
    size = sum(split.size for split in splits) if planned is None else planned.raw_bytes
    if not raw or size is None or "size" not in args:
        return
    each = f"height * width * 3 bytes per image, {size // raw:,} on average"
    if shape := ImageOptions(**options_given(args, ImageOptions)).shape:
        height, width = shape
        each = f"{height} * {width} * 3 = {height * width * 3:,} bytes per image"
    all_ = "" if planned is None else f"{'' if planned.exact else 'about '}{size_text(size)}, "
    print(f"raw pixels: {all_}{each}")


def _print_changes(report: Report, *, deep: bool) -> None:
    found = Counter((noted.what, noted.asked) for noted in report.normalised)
    reasons = [f"{what} {count:,}" for (what, asked), count in sorted(found.items()) if not asked]
    if reasons:
        changed = number(len({noted.key for noted in report.normalised if not noted.asked}), "image")
        if cut := sum(count for (what, asked), count in found.items() if Change.BITS_16 in what and not asked):
            reasons[-1] += f"; {cut:,} reduced from 16 to 8 bits: --keep-depth keeps those of PNG and TIFF"
        kind = "upright RGB or grey" if deep else "upright RGB or grey of 8 bits"
        print(f"{changed} stored as {kind}, so that all loaders agree: {', '.join(reasons)}")
    for (what, asked), count in sorted(found.items()):
        if asked:
            print(f"{count:,} {what}, as requested")


def feature_table(schema: Schema, keys: Iterable[str] | None = None) -> str:
    """A line for each feature, or for each of `keys`, sorted by key."""
    rows = [["feature", "dtype", "kind", "values", ""]]
    for key in sorted(schema.features if keys is None else keys):
        feature = schema.features[key]
        called = f"readers use the name {feature.alias}" if feature.alias else ""
        values = "one" if feature.scalar else "any number" if feature.ragged else "x".join(map(str, feature.shape))
        rows.append([escape(key), feature.dtype, schema.kind(key), values, called])
    return table(rows)
