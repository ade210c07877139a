"""One picture of what `shardfeed bench --formats` measured: how fast each format is read, beside the decoder; bytes."""

import os
import warnings
from typing import Any

from shardfeed.errors import escape
from shardfeed.storage.local import storage_error
from shardfeed.tools.bench.formats.places import CACHE, DISK, MAPPED, PRELOADED

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLORS = {DISK: "#999999", CACHE: "#0072B2", MAPPED: "#009E73", PRELOADED: "#E69F00"}
_PACKED, _OVERHEAD = "#CC79A7", "#D55E00"
_DPI = 110


def draw(report: dict[str, Any], path: str) -> None:
    """Write `path`, a PNG: records a second at random by format and mode, and bytes an image. Raises StorageError.

    `report` is what `formats.measure` gave, with the source's path. Needs matplotlib.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.8), dpi=_DPI, layout="constrained")
    rates, sizes = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
    _rates(rates, report)
    _sizes(sizes, report)
    for axis in (rates, sizes):
        axis.spines[["top", "right"]].set_visible(False)
    # The name alone, as pictures are shown to others; "$" would begin a formula.
    name = escape(os.path.basename(os.path.normpath(report["source"]))).replace("$", r"\$")
    figure.suptitle(f"{name}: {report['images']:,} images in each format, one thread", fontsize=11)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of letters in the name that the font has not
            figure.savefig(path)
    except OSError as error:
        raise storage_error(path, "write", error) from error


def _rates(axis: Any, report: dict[str, Any]) -> None:
    """Bars for each way to read, in groups by format; the decoder across."""
    found = report["formats"]
    width = 0.8 / len(_COLORS)
    for number, (mode, color) in enumerate(_COLORS.items()):
        rates = [one["modes"][mode]["random"]["images_per_s"] for one in found.values()]
        places = [place + (number - (len(_COLORS) - 1) / 2) * width for place in range(len(found))]
        axis.bar(places, rates, width, color=color, label=mode)
    decoder = report["decode"]["images_per_s"]
    axis.axhline(decoder, color="black", linewidth=1.2, linestyle="--", label="the decoder alone")
    axis.set_yscale("log")
    axis.set_xticks(range(len(found)), list(found))
    axis.set_ylabel("records per second, at random")
    axis.set_title("How fast they are read", fontsize=11)
    axis.legend(frameon=False, fontsize=8, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.08))


def _sizes(axis: Any, report: dict[str, Any]) -> None:
    """Bytes of images and beside them, and of what the format's library compressed."""
    names, images = list(report["formats"]), report["images"]
    packed = {one["format"]: one for one in report["libraries"]}
    own = report["image_bytes"] / images / 1e3
    beside = [report["formats"][name]["overhead_bytes"] / images / 1e3 for name in names]
    axis.barh(range(len(names)), own, 0.35, color=_COLORS[CACHE], label="images")
    axis.barh(range(len(names)), beside, 0.35, left=own, color=_OVERHEAD, label="beside them")
    for row, name in enumerate(names):
        if name in packed:
            size = packed[name]["compressed"]["bytes"] / images / 1e3
            axis.barh(row + 0.36, size, 0.25, color=_PACKED, label="compressed" if row == 0 else None)
            axis.text(size, row + 0.36, f" {packed[name]['codec']}", va="center", fontsize=8)
        axis.text(own + beside[row], row, f" {own + beside[row]:,.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, (own + max(beside)) * 1.2)
    axis.set_xlabel("kB per image")
    axis.set_title("What they take", fontsize=11)
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
