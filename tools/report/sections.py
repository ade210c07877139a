"""Tables and charts of a dataset, as plain values for the page and for JSON."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.readers.dataset import Dataset
from shardfeed.text import number, size_text
from shardfeed.tools.image_sizes import NANOSECONDS, OTHER_NANOSECONDS
from shardfeed.tools.report.findings import Findings
from shardfeed.tools.report.image_numbers import KINDS
from shardfeed.tools.report.measure import Measured

_BARS = 24
_MOST_ROWS = 5_000
_PAIRS = 20
_LOGARITHMIC = 8  # largest value by smallest: above this, bars have equal ratios
# Titles and units of charts, by the field of NUMBERS.
_CHARTS = {
    "width": ("Width", "pixels"),
    "height": ("Height", "pixels"),
    "aspect": ("Aspect ratio", "width by height"),
    "bytes": ("File size", "bytes"),
    "quality": ("JPEG quality", "about"),
    "mean": ("Brightness", "mean gray level"),
    "spread": ("Contrast", "spread of gray levels"),
    "objects": ("Objects per image", ""),
    "caption": ("Longest caption", "characters"),
}


class Table(NamedTuple):
    """Rows of text and numbers, the first cell of each a heading. `search`: an id, if rows can be searched and
    sorted."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    search: str = ""


class Chart(NamedTuple):
    """Bars: the values of each as text, and its number in each series. `totals`: of each series."""

    title: str
    unit: str
    summary: str
    bars: Sequence[tuple[str, Sequence[int]]]
    totals: Sequence[int]


def histogram(title: str, unit: str, series: Sequence[np.ndarray]) -> Chart | None:
    """A chart of one or two arrays of values; None without any value."""
    every = np.concatenate(series)
    if not len(every):
        return None
    least, most, each = float(every.min()), float(every.max()), False
    if least == most:
        return Chart(title, unit, f"always {_figure(least)}", [], [])
    if least > 0 and most / least > _LOGARITHMIC:
        edges = np.geomspace(least, most, _BARS + 1)
        edges[-1] = most  # which rounding may have missed
    elif np.issubdtype(every.dtype, np.integer) and most - least < _BARS:
        edges, each = np.arange(least, most + 2), True  # a bar for each value
    else:
        edges = np.linspace(least, most, _BARS + 1)
    counts = np.stack([np.histogram(values, edges)[0] for values in series], axis=1).tolist()
    texts = [_figure(first) + f" to {_figure(last)}" * (not each) for first, last in pairwise(edges)]
    medians = " and ".join(_figure(float(np.median(values))) for values in series if len(values))
    summary = f"{_figure(least)} to {_figure(most)}, median {medians}"
    return Chart(title, unit, summary, list(zip(texts, counts, strict=True)), [len(values) for values in series])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def charts(*every: Measured) -> list[Chart]:
    """Histograms of the images of one or two datasets."""
    found = [histogram(*text, [_values(one, key) for one in every]) for key, text in _CHARTS.items()]
    return [chart for chart in found if chart is not None]


def _values(measured: Measured, key: str) -> np.ndarray:
    images = measured.images[measured.decoded]
    if key == "aspect":
        return images["width"] / np.maximum(1, images["height"])
    return images[key][images[key] >= (key == "quality")]


def options(data: Dataset) -> Table:
    """Options and versions that made a dataset."""
    return Table("Options and versions", ("option or package", "value"), sorted(options_of(data).items()))


def options_of(data: Dataset) -> dict[str, str]:
    """The options that made a dataset, except defaults that mean "no", and the versions of the packages."""
    stated = {key: value for key, value in data.manifest.options.items() if value not in (None, False, [], {})}
    return {**{key: json.dumps(value, ensure_ascii=False) for key, value in stated.items()}, **data.manifest.made_by}


def samples(data: Dataset, measured: Measured, findings: Findings) -> list[Table]:
    """Splits, and classes with the counts of each split, the largest first; at most _MOST_ROWS of them."""
    infos = [data.manifest.splits[name] for name in measured.splits]
    splits = [(info.name, info.records, len(info.shards), size_text(info.size)) for info in infos]
    found = [Table("Splits", ("split", "images", "shards", "size"), splits)]
    if names := findings.classes:
        counts = np.stack([*findings.counts().values(), findings.total], axis=1)
        order = np.argsort(-findings.total, kind="stable")[:_MOST_ROWS].tolist()
        what = number(len(names), "class", "classes") + " of objects" * findings.of_objects
        title = f"{what}{f', the {len(order):,} largest' * (len(order) < len(names))}"
        rows = [(names[i], i, *counts[i].tolist()) for i in order]
        found.append(Table(title, ("class", "label", *measured.splits, "all"), rows, "classes"))
    return found


def formats(measured: Measured) -> Table:
    """Each format with its images, their share, and the approximate seconds of one core to decode them once."""
    images = measured.images
    pixels = images["height"].astype(np.int64) * images["width"]
    rows = []
    for kind, name in enumerate(KINDS):
        chosen = images["kind"] == kind
        if count := int(chosen.sum()):
            cost = NANOSECONDS.get(name.rpartition(" ")[2].encode(), OTHER_NANOSECONDS)
            seconds = float(pixels[chosen].sum()) * cost / 1e9
            taken = f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
            rows.append((name, count, f"{100 * count / len(images):.1f} %", taken))
    return Table("Formats", ("format", "images", "share", "decoding all images once on one core, about"), rows)


def objects(data: Dataset, measured: Measured) -> dict[str, Any]:
    """Charts and tables of boxes, masks, classes that occur together, pixels.

    `places`: the centers of boxes, [16][16] from the top left on; `middle`: the same in words.
    """
    schema, sums = data.manifest.schema, measured.objects
    octaves = [f"{f'1/{1 << i}' if i else 1} to 1/{2 << i}" for i in range(len(sums.boxes))]
    found = []
    for title, counts in (("Size of boxes", sums.boxes), ("Area of objects", sums.masks)):
        if total := int(counts.sum()):
            bars = [(text, [count]) for text, count in zip(octaves, counts.tolist(), strict=True)]
            found.append(Chart(title, "share of the image", f"{total:,} in all", bars, [total]))
    tables = []
    names, together = schema.class_names.get(OBJECT_LABEL, ()), np.triu(sums.together, 1)
    if together.any():
        order = np.argsort(together, axis=None)[::-1][:_PAIRS]
        pairs = [divmod(at, len(names)) for at in order.tolist()]
        rows = [(f"{names[a]}, {names[b]}", int(together[a, b])) for a, b in pairs if together[a, b]]
        tables.append(Table("Classes that occur together most often", ("classes", "images"), rows))
    if schema.raster is not None and sums.pixels.any():
        of_raster = dict(enumerate(schema.raster.class_names))
        shares = sums.pixels / sums.pixels.sum()
        order = np.argsort(-shares, kind="stable").tolist()
        rows = [(of_raster.get(i, "void"), f"{100 * shares[i]:.2f} %") for i in order if shares[i]]
        tables.append(Table("Pixels of each class", ("class", "share of the pixels"), rows[:_MOST_ROWS]))
    parts = sums.places[:, :8], sums.places[:8], sums.places[4:12, 4:12]
    left, upper, inner = (f"{part.sum() / max(1, sums.places.sum()):.0%}" for part in parts)
    middle = f"{left} in the left and {upper} in the upper half, {inner} in the middle quarter"
    places = sums.places.tolist() if sums.places.any() else []
    return {"charts": found, "tables": tables, "places": places, "middle": middle}


def headline(data: Dataset, measured: Measured) -> str:
    """Numbers of images, splits and bytes, on one line."""
    size = size_text(sum(info.size for info in data.manifest.splits.values()))
    return f"{number(len(measured.images), 'image')} in {number(len(measured.splits), 'split')}, {size}"


def shares(measured: Measured) -> Mapping[str, float]:
    """Share of each split that has images, in hundredths that add up to 1."""
    sizes = {name: part.stop - part.start for name, part in measured.splits.items() if part.stop > part.start}
    rounded = {name: max(1, round(100 * size / len(measured.images))) for name, size in sizes.items()}
    if rounded:
        rounded[max(rounded, key=rounded.__getitem__)] += 100 - sum(rounded.values())
    return {name: share / 100 for name, share in rounded.items()}
