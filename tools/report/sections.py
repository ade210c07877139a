"""Figures of the page: tables and charts of one or two datasets."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, pairwise

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.text import number, size_text
from shardfeed.tools.image_sizes import NANOSECONDS, OTHER_NANOSECONDS
from shardfeed.tools.report.image_numbers import KINDS
from shardfeed.tools.report.measure import GRID, Measured
from shardfeed.tools.report.page import Chart, Map, Table

_BARS = 24
_MOST_ROWS = 5_000
_PAIRS = 20
_LOGARITHMIC = 8  # largest value by smallest: above this, bars have equal ratios
_LEAST_AREA = 0.01  # per cent of the image: smaller objects count as this large
# Titles and units of charts, by the field of NUMBERS.
_CHARTS = {
    "width": ("Width", "pixels"),
    "height": ("Height", "pixels"),
    "aspect": ("Aspect ratio", "width by height"),
    "bytes": ("File size", "bytes"),
    "quality": ("JPEG quality", "about"),
    "mean": ("Brightness", "mean grey level"),
    "spread": ("Contrast", "spread of grey levels"),
    "objects": ("Objects per image", ""),
    "caption": ("Longest caption", "characters"),
}


def histogram(title: str, unit: str, series: Mapping[str, np.ndarray]) -> Iterator[Chart]:
    """A chart of one or two arrays of values, by their names; none without any value."""
    every, names = np.concatenate([*series.values()]), [*series]
    if not len(every):
        return
    least, most, each = float(every.min()), float(every.max()), False
    if least == most:
        yield Chart(title, unit, f"always {_figure(least)}", [], names, [])
        return
    if least > 0 and most / least > _LOGARITHMIC:
        edges = np.geomspace(least, most, _BARS + 1)
        edges[-1] = most  # which rounding may have missed
    elif np.issubdtype(every.dtype, np.integer) and most - least < _BARS:
        edges, each = np.arange(least, most + 2), True  # a bar for each value
    else:
        edges = np.linspace(least, most, _BARS + 1)
    counts = np.stack([np.histogram(values, edges)[0] for values in series.values()], axis=1).tolist()
    texts = [_figure(first) + f" to {_figure(last)}" * (not each) for first, last in pairwise(edges)]
    medians = " and ".join(_figure(float(np.median(values))) for values in series.values() if len(values))
    summary = f"{_figure(least)} to {_figure(most)}, median {medians}"
    yield Chart(title, unit, summary, [*zip(texts, counts, strict=True)], names, [*map(len, series.values())])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def charts(measured: Mapping[str, Measured]) -> list[Chart]:
    """Histograms of the images of one or two datasets, by their names."""
    series = {key: {name: _values(one, key) for name, one in measured.items()} for key in _CHARTS}
    return [chart for key, values in series.items() for chart in histogram(*_CHARTS[key], values)]


def _values(measured: Measured, key: str) -> np.ndarray:
    images = measured.images[measured.decoded]
    if key == "aspect":
        return images["width"] / np.maximum(1, images["height"])
    return images[key][images[key] >= (key == "quality")]


def options(measured: Measured) -> dict[str, str]:
    """The options that made a dataset, except defaults that mean "no", and the versions of the packages."""
    manifest = measured.data.manifest
    stated = {key: value for key, value in manifest.options.items() if value not in (None, False, [], {})}
    return {**{key: json.dumps(value, ensure_ascii=False) for key, value in stated.items()}, **manifest.made_by}


def samples(measured: Measured) -> Iterator[Table]:
    """Splits; classes with the counts of each split, the largest first; classes that occur together."""
    infos = [measured.data.manifest.splits[name] for name in measured.splits]
    splits = [(info.name, info.records, len(info.shards), size_text(info.size)) for info in infos]
    yield Table("Splits", ("split", "images", "shards", "size"), splits)
    if names := measured.classes:
        counts, total = measured.counts, measured.counts.sum(axis=1)
        order = np.argsort(-total, kind="stable")[:_MOST_ROWS].tolist()
        what = number(len(names), "class", "classes") + " of objects" * (measured.class_key == OBJECT_LABEL)
        title = f"{what}{f', the {len(order):,} largest' * (len(order) < len(names))}"
        rows = [(names[i], i, *counts[i].tolist(), int(total[i])) for i in order]
        yield Table(title, ("class", "label", *measured.splits, "all"), rows, search=True)
    of_images = np.split(measured.of_several["label"], np.flatnonzero(np.diff(measured.of_several["image"])) + 1)
    pairs = Counter(chain.from_iterable(combinations(of.tolist(), 2) for of in of_images)).most_common(_PAIRS)
    names = measured.data.manifest.schema.class_names.get(OBJECT_LABEL, ()) if measured.labelled else measured.classes
    together = [(f"{names[a]}, {names[b]}", count) for (a, b), count in pairs if b < len(names)]
    if together:
        yield Table("Classes that occur together most often", ("classes", "images"), together)


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
            taken = f"{_figure(seconds)} s" if seconds >= 1 else "less than 1 s"
            rows.append((name, count, f"{count / len(images):.1%}", taken))
    return Table("Formats", ("format", "images", "share", "decoding on one core, about"), rows)


def objects(measured: Measured) -> Iterator[Chart | Map | Table]:
    """Charts and tables of boxes, masks and pixels; none without objects."""
    schema, found = measured.data.manifest.schema, measured.objects
    for title, areas in (("Size of boxes", found["box"]), ("Area of objects", found["mask"][found["mask"] >= 0])):
        percent = np.maximum(_LEAST_AREA, areas * 100)
        yield from histogram(title, "% of the image", {"number": percent})
    if len(found):
        cells = found["row"].astype(int) * GRID + found["column"]
        places = np.bincount(cells, minlength=GRID * GRID).reshape(GRID, GRID)
        parts = places[:, : GRID // 2], places[: GRID // 2], places[GRID // 4 : -GRID // 4, GRID // 4 : -GRID // 4]
        left, upper, inner = (f"{part.sum() / len(found):.0%}" for part in parts)
        middle = f"{left} in the left and {upper} in the upper half, {inner} in the middle quarter"
        yield Map("Centers of boxes", middle, places.tolist())
    if schema.raster is not None and measured.pixels.any():
        of_raster = dict(enumerate(schema.raster.class_names))
        shares = measured.pixels / measured.pixels.sum()
        order = np.argsort(-shares, kind="stable")[:_MOST_ROWS].tolist()
        rows = [(of_raster.get(i, "void"), f"{shares[i]:.2%}") for i in order if shares[i]]
        yield Table("Pixels of each class", ("class", "share of the pixels"), rows)
