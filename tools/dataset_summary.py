"""The first screen of `shardfeed inspect`: a check of the dataset, in at most 24 lines."""

import sys
from collections.abc import Iterator, Sequence

from shardfeed.errors import escape
from shardfeed.naming import CLIPPED, LEFT_OUT, REJECTED
from shardfeed.readers.dataset import Dataset
from shardfeed.text import in_usual_order, listing, number, size_text, table
from shardfeed.tools.colour import coloured
from shardfeed.tools.image_sizes import image_sizes
from shardfeed.tools.object_counts import object_counts

_LINES = 24
_SPLITS_SHOWN = 4
_CLASSES_SHOWN = 8  # of all class features together
_NAME_SHOWN = 24  # characters of a class name
_BAR = 36  # characters of the longest bar


def summary(data: Dataset, *, details: bool = False) -> list[str]:
    """Lines: splits with their image sizes, formats, objects, classes with bars, missing data, and the files.

    `details`: whether details follow, so that no hint is needed.
    """
    manifest = data.manifest
    names = in_usual_order(manifest.splits)
    infos = [manifest.splits[name] for name in names]
    shown = names if len(names) <= _SPLITS_SHOWN else names[: _SPLITS_SHOWN - 1]
    made_by = manifest.made_by.get("shardfeed", "?")
    counted = f"{number(sum(info.records for info in infos), 'image')} in {number(len(infos), 'split')}"
    lines = [f"{manifest.name}: {counted}, {size_text(sum(info.size for info in infos))}, made by shardfeed {made_by}"]
    rows: list[list[object]] = [["split", "images", "shards", "size", "median", "largest"]]
    for name, info in zip(shown, infos, strict=False):
        sizes = image_sizes(data[name], info)
        sides = (sizes.median, sizes.largest) if sizes else ()
        pixels = [f"{width}x{height}" for height, width in sides] or ["?", "?"]
        rows.append([name, info.records, len(info.shards), size_text(info.size), *pixels])
    lines += table(rows).splitlines()
    if len(names) > len(shown):
        lines.append(f"  and {number(len(names) - len(shown), 'more split', 'more splits')}")
    formats = {kind: sum(info.formats.get(kind, 0) for info in infos) for info in infos for kind in info.formats}
    if formats:
        lines.append(f"formats: {', '.join(f'{kind} {count:,}' for kind, count in sorted(formats.items()))}")
    found = [counts for name in names if (counts := object_counts(data[name]))]
    if found:
        read, empty, objects = (sum(getattr(counts, key) for counts in found) for key in ("read", "empty", "objects"))
        images = number(read, "image")
        lines.append(f"objects: {objects:,} in the {images} that were read, {empty:,} of them without objects")
    keys = [key for key in manifest.schema.class_names if all(key in info.class_counts for info in infos)]
    warning = coloured("warning:", "warning", sys.stdout)
    last = [f"{warning} {problem}" for problem in _problems(data, shown, keys)]
    if not manifest.rejected and LEFT_OUT not in manifest.sidecars:
        last.append("no input was left out during conversion")
    if CLIPPED in manifest.sidecars:
        last.append(f"annotations were clipped at the borders of their images, see {CLIPPED}")
    there = number(len(manifest.files()), "file", "files")
    last.append(f"{there}, sizes as expected; `shardfeed verify DIR` reads every byte")
    if not details:
        last.append("more: --details (features, large images, classes by split), --records N, --json")
    room = _LINES - len(lines) - len(last)
    for key in keys[:2]:
        counts = [sum(of_class) for of_class in zip(*(info.class_counts[key] for info in infos), strict=True)]
        of_this = min(_CLASSES_SHOWN, room - 2 * len(keys[:2])) // len(keys[:2])  # next to a heading and the gap
        lines += _classes(key, manifest.schema.class_names[key], counts, of_this)
    return lines + last


def _classes(key: str, names: Sequence[str], counts: Sequence[int], shown: int) -> Iterator[str]:
    """A heading and a bar for each class, the largest first; of many classes the largest and the smallest ones."""
    order = sorted(range(len(names)), key=lambda label: -counts[label])
    few, most = (counts[order[-1]], counts[order[0]]) if order else (0, 0)
    each = f"{most:,} each" if few == most else f"{few:,} to {most:,} each"
    yield coloured(f"{number(len(names), 'class', 'classes')} of {escape(key)}, {each}:", "heading", sys.stdout)
    parts = [order] if len(order) <= shown else [order[: shown // 2], order[len(order) - shown // 2 :]]
    rows = []
    for label in (label for part in parts for label in part):
        name = escape(names[label])
        name = name if len(name) <= _NAME_SHOWN else f"{name[: _NAME_SHOWN - 3]}..."
        length = -(-counts[label] * _BAR // max(1, most))
        rows.append([name, counts[label], "#" * length])
    lines = table(rows).splitlines() if rows else []
    if len(parts) > 1:
        lines.insert(len(parts[0]), f"  ... {len(order) - shown:,} more classes, with counts between these")
    yield from lines


def _problems(data: Dataset, names: Sequence[str], keys: Sequence[str]) -> Iterator[str]:
    manifest = data.manifest
    if manifest.rejected:
        codes = listing([f"{count:,} {code}" for code, count in manifest.rejected.items()], 3)
        yield f"{number(sum(manifest.rejected.values()), 'input')} left out ({codes}), see {REJECTED}"
    if LEFT_OUT in manifest.sidecars:
        yield f"annotations were left out, see {LEFT_OUT}"
    for name in names:
        info = manifest.splits[name]
        if not info.records:
            yield f"split {name} has no images"
            continue
        for key in keys[:1]:
            counted = zip(manifest.schema.class_names[key], info.class_counts[key], strict=True)
            absent = [escape(one)[:_NAME_SHOWN] for one, count in counted if not count]
            if absent:
                yield f"{number(len(absent), 'class has', 'classes have')} no image in {name}: {listing(absent, 2)}"
