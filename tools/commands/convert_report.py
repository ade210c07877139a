"""What `shardfeed convert` prints when it is done, and before it starts."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence

from shardfeed.converters.commit.reject_limit import RejectLimits
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.report import Report, counts_by_code, listed_rejects, noted_json
from shardfeed.converters.shards.task import Noted
from shardfeed.converters.sources.account import NOTHING, Account
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.errors import TooManyRejectedError, escape
from shardfeed.naming import LEFT_OUT, REJECTED
from shardfeed.schema import IMAGE_KEYS, LABEL
from shardfeed.text import in_usual_order, listing, number, size_text, table
from shardfeed.tools.commands.feature_table import feature_table
from shardfeed.tools.next_steps import next_steps

_SHOWN = 8  # rejected inputs printed, all of which are in rejected.jsonl
_CLASSES_SHOWN = 20


def print_plan(
    plan: Plan, limits: RejectLimits, objects: ObjectTable | None, args: argparse.Namespace, told: str = ""
) -> None:
    """What a conversion with these arguments would do, and what planning rejected; nothing is written.

    `objects`: of the images, where the source has any. `told`: a note that the user has seen.
    """
    sizes = plan.split_sizes()
    shards = Counter(shard.split for shard in plan.shards)
    pixels, exact = plan.forecast.pixels, plan.forecast.exact
    rejected = listed_rejects(plan)
    account = plan.findings.account or NOTHING
    left_out = [Noted(one.key, one.code, one.reason) for one in account.left_out]
    if args.json:
        content = {
            "splits": sizes,
            "shards": dict(shards),
            "class_counts": {split: list(counts) for split, counts in plan.class_counts.items()},
            "source_bytes": plan.source_bytes,
            "raw_bytes": pixels,
            "fingerprint": plan.fingerprint,
            "features": plan.schema.to_json(),
            "class_names": {key: list(names) for key, names in plan.schema.class_names.items()},
            "rejected": [noted_json(noted) for noted in rejected],
            "left_out": [noted_json(noted) for noted in left_out],
            "notes": [*plan.findings.notes, *plan.notes],
        }
        if objects is not None:
            counts = dict(zip(objects.class_names or (), objects.class_counts(), strict=True))
            without = objects.images_without(len(plan))
            content["objects"] = {"count": len(objects), "by_class": counts, "images_without": without}
        print(json.dumps(content))
        return
    images = f"{number(len(plan), 'image')}, {size_text(plan.source_bytes)}, plan {plan.fingerprint[:12]}"
    print(f"{images}; broken ones are found when they are converted")
    print(
        table([["split", "images", "shards"], *([name, sizes[name], shards[name]] for name in in_usual_order(sizes))])
    )
    if pixels is not None:
        print(f"raw pixels: {'' if exact else 'about '}{size_text(pixels)}, {_each(pixels, len(plan), args)}")
    _print_classes(plan.schema.class_names)
    _print_class_counts(plan)
    if objects is not None:
        _print_objects(objects, len(plan))
    own = plan.schema.features.keys() - IMAGE_KEYS
    print(feature_table(plan.schema, own) if own else "no labels: images alone")
    for note in [*plan.findings.notes, *plan.notes]:
        if note != told:
            print(f"note: {note}")
    print_rejected(rejected, "--json")
    _print_left_out(left_out, "--json")
    allowed = limits.images.allowed(len(plan) + len(rejected))
    if len(rejected) > allowed:
        print(f"the conversion would stop here: {allowed:,} allowed; repair them, or give --max-bad {len(rejected)}")
    allowed = limits.annotations.allowed(account.read + plan.annotations)
    if (bad := len(account.bad)) > allowed:
        print(f"the conversion would stop here: {allowed:,} allowed; repair them, or give --max-bad-objects {bad}")
    print("nothing was written (--dry-run)")


def _print_objects(objects: ObjectTable, images: int) -> None:
    """How many objects each class has, and how many images none."""
    without = number(objects.images_without(images), "image")
    print(f"{number(len(objects), 'object')}, before any is clipped or left out; {without} without")
    names, counts = objects.class_names or (), objects.class_counts()
    if names:
        rows = [[escape(name), count] for name, count in zip(names, counts, strict=True)][:_CLASSES_SHOWN]
        print(table([["class", "objects"], *rows]))
    if len(names) > _CLASSES_SHOWN:
        print(f"  and {len(names) - _CLASSES_SHOWN:,} more classes, in the plan of --json")


def _print_account(account: Account, where: str) -> None:
    """What became of the annotations: the sentence that adds up; `where`: those that were left out are listed there."""
    clipped = f" ({account.clipped:,} clipped, by at most {account.farthest:.1f} px)" if account.clipped else ""
    left_out = f"{len(account.left_out):,} left out"
    line = f"annotations: {account.read:,} read = {account.written:,} written{clipped} + {left_out}"
    print(f"{line}, listed in {where}" if account.left_out else line)
    _print_left_out([Noted(one.key, one.code, one.reason) for one in account.left_out], where)


def _print_left_out(left_out: Sequence[Noted], where: str) -> None:
    _print_listed(left_out, "annotation", "left out", where)


def print_rejected(rejected: Sequence[Noted], where: str) -> None:
    """How many inputs were rejected, with which codes, and the first of them; `where`: all are listed there."""
    _print_listed(rejected, "input", "rejected", where)


def _print_listed(rejected: Sequence[Noted], what: str, done: str, where: str) -> None:
    if not rejected:
        return
    codes = listing([f"{count:,} {code}" for code, count in counts_by_code(rejected).items()])
    print(f"{number(len(rejected), what)} {done} ({codes}):")
    for noted in rejected[:_SHOWN]:
        print(f"  {escape(noted.key)}: {noted.what}, {noted.why}")
    if len(rejected) > _SHOWN:
        print(f"  and {len(rejected) - _SHOWN:,} more, in {where}")


def print_unplanned(error: TooManyRejectedError, args: argparse.Namespace) -> None:
    """What the source rejected, where that stopped the conversion before it began."""
    if args.json:
        rejected = [noted_json(noted) for noted in error.rejected]
        print(json.dumps({"out": args.out, "committed": False, "images": 0, "rejected": rejected}))
    elif not args.quiet:
        print_rejected(error.rejected, "the output of --dry-run --json")


def _each(size: int, images: int, args: argparse.Namespace) -> str:
    """What an image takes as raw pixels, and why."""
    if args.size is None:
        return f"height * width * 3 bytes an image, {size // images:,} on average"
    height, width = args.size if isinstance(args.size, tuple) else (args.size, args.size)
    return f"{height} * {width} * 3 = {height * width * 3:,} bytes an image"


def _print_classes(class_names: Mapping[str, tuple[str, ...]]) -> None:
    for key, names in class_names.items():
        numbered = [f"{label} {escape(name)}" for label, name in enumerate(names)]
        print(f"{number(len(names), 'class', 'classes')} of {key}: {listing(numbered)}")


def _print_class_counts(plan: Plan) -> None:
    """How many images of each class go to each split, where there is more than one of both."""
    splits = in_usual_order(plan.class_counts)
    names = plan.schema.class_names.get(LABEL, ())
    if len(splits) < 2 or len(names) < 2:
        return
    counts = [[plan.class_counts[split][label] for split in splits] for label in range(min(len(names), _CLASSES_SHOWN))]
    print(table([["class", *splits], *([escape(name), *row] for name, row in zip(names, counts, strict=False))]))
    if len(names) > _CLASSES_SHOWN:
        print(f"  and {len(names) - _CLASSES_SHOWN:,} more classes, in the plan of --json")


def print_report(report: Report, args: argparse.Namespace, told: str = "") -> None:
    """What a conversion did, and the lines of Python that come next; `told`: a note that the user has seen."""
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
    if len(report.warnings) > _SHOWN:
        print(f"warning: and {len(report.warnings) - _SHOWN:,} more like these, in the report of --json")
    for note in report.notes:
        if note != told:
            print(f"note: {note}")
    print_rejected(report.rejected, f"{escape(report.out)}/{REJECTED}" if report.committed else "the report of --json")
    if report.account is not None and (report.account.read or report.account.left_out):
        once = "" if report.committed else ", once it is committed"
        _print_account(report.account, f"{escape(report.out)}/{LEFT_OUT}{once}")
    if not report.committed:
        return
    total = sum(split.records for split in report.manifest.splits.values())
    rate = f"{report.images / report.seconds:,.0f} images/s, {size_text(report.source_bytes / report.seconds)}/s"
    how = f"{report.seconds:.1f} s, {rate}" if report.images else "all of them converted by an earlier run"
    print(f"{escape(args.out)}: {number(total, 'image')} ({how})")
    print(next_steps(args.out, report.manifest))


def _print_changes(report: Report, args: argparse.Namespace) -> None:
    found = Counter((noted.what, noted.asked) for noted in report.normalised)
    reasons = [f"{what} {count:,}" for (what, asked), count in sorted(found.items()) if not asked]
    if reasons:
        changed = number(len({noted.key for noted in report.normalised if not noted.asked}), "image")
        print(f"{changed} stored as plain RGB or gray, upright, so that every loader reads alike: {', '.join(reasons)}")
    for (what, asked), count in sorted(found.items()):
        if asked:
            print(f"{count:,} {what}, as asked")
    raw = sum(split.formats.get("raw", 0) for split in report.manifest.splits.values())
    if raw:
        size = sum(split.size for split in report.manifest.splits.values())
        print(f"raw pixels: {_each(size, raw, args)}")


def _class_heads(report: Report) -> tuple[str, ...]:
    names = report.manifest.schema.class_names.get(LABEL, ())
    return tuple(escape(name) for name in names) if len(names) <= 8 else ()
