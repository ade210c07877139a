"""What `shardfeed convert` prints when it is done, and before it starts."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping

from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.report import Report
from shardfeed.converters.sources.source import Source
from shardfeed.errors import escape
from shardfeed.schema import LABEL, image_features
from shardfeed.text import in_usual_order, listing, size_text, table
from shardfeed.tools.commands.feature_table import feature_table

_SHOWN = 20  # rejected inputs printed, all of which are in rejected.jsonl; classes of a plan


def print_plan(plan: Plan, source: Source, args: argparse.Namespace) -> None:
    """What a conversion with these arguments would do; nothing is written."""
    sizes = plan.split_sizes()
    shards = Counter(shard.split for shard in plan.shards)
    pixels, exact = plan.forecast.pixels, plan.forecast.exact
    if args.json:
        content = {
            "splits": sizes,
            "shards": dict(shards),
            "class_counts": {split: list(counts) for split, counts in plan.class_counts.items()},
            "source_bytes": plan.source_bytes,
            "raw_bytes": pixels,
            "fingerprint": plan.fingerprint,
            "features": plan.schema.to_json(),
        }
        print(
            json.dumps(content | {"class_names": {key: list(names) for key, names in plan.schema.class_names.items()}})
        )
        return
    print(f"{len(plan):,} images, {size_text(plan.source_bytes)}, plan {plan.fingerprint[:12]}")
    print(
        table([["split", "images", "shards"], *([name, sizes[name], shards[name]] for name in in_usual_order(sizes))])
    )
    if pixels is not None:
        print(f"raw pixels: {'' if exact else 'about '}{size_text(pixels)}, {_each(pixels, len(plan), args)}")
    _print_classes(plan.schema.class_names)
    _print_class_counts(plan)
    own = plan.schema.features.keys() - image_features(sha256=True).keys()
    print(feature_table(plan.schema, own) if own else "no labels: images alone")
    for note in [*plan.findings.notes, *plan.notes]:
        print(f"note: {note}")
    print("nothing was written (--dry-run)")


def _each(size: int, images: int, args: argparse.Namespace) -> str:
    """What an image takes as raw pixels, and why."""
    if args.size is None:
        return f"height * width * 3 bytes an image, {size // images:,} on average"
    height, width = args.size if isinstance(args.size, tuple) else (args.size, args.size)
    return f"{height} * {width} * 3 = {height * width * 3:,} bytes an image"


def _print_classes(class_names: Mapping[str, tuple[str, ...]]) -> None:
    for key, names in class_names.items():
        numbered = [f"{label} {escape(name)}" for label, name in enumerate(names)]
        print(f"{len(names)} classes of {key}: {listing(numbered)}")


def _print_class_counts(plan: Plan) -> None:
    """How many images of each class go to each split, where there is more than one of both."""
    splits = in_usual_order(plan.class_counts)
    names = plan.schema.class_names.get(LABEL, ())
    if len(splits) < 2 or len(names) < 2:
        return
    counts = [[plan.class_counts[split][label] for split in splits] for label in range(min(len(names), _SHOWN))]
    print(table([["class", *splits], *([escape(name), *row] for name, row in zip(names, counts, strict=False))]))
    if len(names) > _SHOWN:
        print(f"  and {len(names) - _SHOWN:,} more classes, in the plan of --json")


def print_report(report: Report, args: argparse.Namespace) -> None:
    """What a conversion did, and the lines of Python that come next."""
    if args.json:
        print(json.dumps(report.to_json()))
        return
    if args.quiet:
        return
    _print_classes(report.manifest.schema.class_names)
    rows: list[list[object]] = [["split", "images", "shards", "size", *_class_heads(report)]]
    for name in in_usual_order(report.manifest.splits):
        split = report.manifest.splits[name]
        counts = split.class_counts.get(LABEL, ())
        row: list[object] = [name, split.records, len(split.shards), size_text(split.size)]
        rows.append([*row, *(counts if len(rows[0]) > len(row) else ())])
    print(table(rows))
    _print_changes(report, args)
    for noted in report.warnings[:_SHOWN]:
        print(f"warning: {escape(noted.key)}: {noted.why}")
    for note in report.notes:
        print(f"note: {note}")
    if report.rejected:
        print(f"{len(report.rejected):,} inputs rejected:")
        for noted in report.rejected[:_SHOWN]:
            print(f"  {escape(noted.key)}: {noted.what}, {noted.why}")
        if len(report.rejected) > _SHOWN:
            where = f"{escape(report.out)}/rejected.jsonl" if report.committed else "the report of --json"
            print(f"  and {len(report.rejected) - _SHOWN:,} more, in {where}")
    if not report.committed:
        return
    total = sum(split.records for split in report.manifest.splits.values())
    rate = f"{report.images / report.seconds:,.0f} images/s, {size_text(report.source_bytes / report.seconds)}/s"
    how = f"{report.seconds:.1f} s, {rate}" if report.images else "all of them converted by an earlier run"
    print(f"{escape(args.out)}: {total:,} images ({how})")
    print(_next_lines(report, args.out))


def _print_changes(report: Report, args: argparse.Namespace) -> None:
    for (what, asked), count in sorted(Counter((noted.what, noted.asked) for noted in report.normalised).items()):
        if asked:
            print(f"{count:,} {what}, as asked")
        else:
            print(f"{count:,} stored with other bytes than the source's, which not every loader reads right: {what}")
    raw = sum(split.formats.get("raw", 0) for split in report.manifest.splits.values())
    if raw:
        size = sum(split.size for split in report.manifest.splits.values())
        print(f"raw pixels: {_each(size, raw, args)}")


def _class_heads(report: Report) -> tuple[str, ...]:
    names = report.manifest.schema.class_names.get(LABEL, ())
    return tuple(escape(name) for name in names) if len(names) <= 8 else ()


def _next_lines(report: Report, out: str) -> str:
    split = in_usual_order(report.manifest.splits)[0]
    return f"""
next, in Python:
  import shardfeed
  from shardfeed.pipelines import train_batches
  data = shardfeed.open({out!r})
  train = train_batches(data[{split!r}], batch_size=32, image_size=224)
or look at it:
  shardfeed preview {escape(out)} -o sheet.png"""
