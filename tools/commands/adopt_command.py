"""`shardfeed adopt FOLDER [OUT]`: make a dataset of existing TFRecords without copying them."""

import argparse
import json
import time

from shardfeed.converters.commit.output import check_new_output
from shardfeed.converters.existing.adopt import adopt, check_names
from shardfeed.converters.existing.surveying import Survey, splits_of, survey
from shardfeed.converters.sources.files.class_names import read_named_classes
from shardfeed.errors import UsageError, escape
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST
from shardfeed.schema import ENCODED, LABEL
from shardfeed.storage.storage import local_output, local_path
from shardfeed.text import in_usual_order, listing, number, shell_quoted, size_text, table
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given, output_bar
from shardfeed.tools.convert_report import feature_table

_NAMES_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `adopt`."""
    add = parser.add_argument
    add("folder", help="folder of TFRecord files; none of them changes")
    add(
        "out",
        nargs="?",
        help="dataset directory to create, with links to the files (default: FOLDER becomes the dataset)",
    )
    add_options(parser, survey)
    add("--dry-run", action="store_true", help="read all records, print what they contain, write nothing")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Adopt, or only survey; exit code 0, or that of the error raised."""
    if has_manifest(args.folder):
        problem = f"holds a {MANIFEST}: a dataset already"
        raise UsageError(args.folder, problem, "`shardfeed rebuild DIR` restores its indexes")
    started = time.monotonic()
    options = options_given(args, survey)
    if args.class_names is not None:
        options["class_names"] = read_named_classes(args.class_names)
    if args.out is not None:
        check_new_output(local_output(args.out))  # before hours of reading
    elif not args.dry_run:
        check_names(args.folder, splits_of(local_path(args.folder), args.split_name, options.get("splits")))
    with output_bar(args) as bar:
        found = survey(args.folder, progress=bar.update, **options)
    manifest = None if args.dry_run else adopt(found, args.out)
    seconds = time.monotonic() - started
    if args.json:
        print(json.dumps(_as_json(found, (args.out or args.folder) if manifest else None, seconds)))
    elif not args.quiet:
        _print(found, args, seconds)
    return 0


def _as_json(found: Survey, out: str | None, seconds: float) -> dict[str, object]:
    """The result as JSON has it."""
    splits = {
        split.name: {"records": sum(len(t.sizes) for t in found.tallies[split.name]), "shards": len(split.files)}
        for split in found.splits
    }
    return {
        "out": out,
        "splits": splits,
        "features": found.schema.to_json(),
        "ignored_files": list(found.ignored_files),
        "image_key": found.schema.key(ENCODED),
        "label_key": found.schema.key(LABEL),
        "notes": list(found.notes),
        "records": found.records,
        "bytes": found.size,
        "seconds": round(seconds, 3),
    }


def _print(found: Survey, args: argparse.Namespace, seconds: float) -> None:
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
    if found.ignored_files:
        print(f"ignored, not named like TFRecord files: {listing([escape(name) for name in found.ignored_files])}")
    rate = f"{found.records / seconds:,.0f} records/s, {size_text(found.size / seconds)}/s"
    print(f"{escape(args.folder)}: {found.records:,} records, all intact ({seconds:.1f} s, {rate})")
    if not args.dry_run:
        print(f"\nnext: shardfeed verify {shell_quoted(args.out or args.folder)}")
    elif args.out or found.has_standard_names:
        where = " ".join(map(shell_quoted, filter(None, (args.folder, args.out))))
        print(f"\nnothing was written; next: shardfeed adopt {where}")
    else:
        command = f"shardfeed adopt {shell_quoted(args.folder)} OUT"
        print(f"\nnothing was written; next, with links to these files: {command}")
