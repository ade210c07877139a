"""Chart of the figures of `shardfeed bench`: CPU time of the stages, images per second, waits of the steps."""

import os
import warnings
from typing import Any

import numpy as np

from shardfeed.errors import escape
from shardfeed.pipelines.waits import draw_waits
from shardfeed.storage.local import disk_errors
from shardfeed.tools.bench.report import STAGE_NAMES

# Okabe and Ito's colours, which colour-blind readers can distinguish; the decoder's colour is only for the decoder.
_COLORS = {
    "read": "#999999",
    "parse": "#CC79A7",
    "decode": "#0072B2",
    "augment": "#009E73",
    "batch": "#E69F00",
    "images": "#0072B2",
}
_DPI = 110
_LEAST_LABELLED = 0.04  # of the whole; a smaller piece has no space for its number


def draw(report: dict[str, Any], path: str) -> None:
    """Write `path`, a PNG: two or, with the waits of a model, three panels. Raises StorageError.

    `report` is the result of `bench.measure`, with the dataset's path. Needs matplotlib.
    """
    from matplotlib.figure import Figure

    panels = 3 if report["model"] else 2
    figure = Figure(figsize=(4.6 * panels, 4.6), dpi=_DPI, layout="constrained")
    axes = figure.subplots(1, panels, width_ratios=[1.15, 1.0, 1.25][:panels])
    _stages(axes[0], report)
    _rates(axes[1], report)
    if report["model"]:
        _waits(axes[2], report["model"])
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    # Only the name, because pictures are shared; "$" would begin a formula.
    name = escape(os.path.basename(os.path.normpath(report["dataset"]))).replace("$", r"\$")
    figure.suptitle(
        f"{name}, {report['split']}: {report['image_size_px']} px crops of {report['median_width_px']}x"
        f"{report['median_height_px']}, batches of {report['batch_size']}, {report['order']}, "
        f"{report['cores_granted']} cores",
        fontsize=11,
    )
    with disk_errors(path, "write"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about letters in the dataset's name that the font lacks
        figure.savefig(path)


def _stages(axis: Any, report: dict[str, Any]) -> None:
    """A stacked bar of the stages, and the decoder alone next to it."""
    bottom = 0.0
    whole = report["pipeline"]["cpu_us_per_image"]
    for stage in report["stages"]:
        cost = stage["cpu_us_per_image"]
        name = STAGE_NAMES[stage["name"]]
        axis.bar(0, cost, bottom=bottom, width=0.6, color=_COLORS[stage["name"]], label=name, edgecolor="white")
        if cost > _LEAST_LABELLED * whole:
            axis.text(0, bottom + cost / 2, f"{cost:,.0f}", ha="center", va="center", color="white", fontsize=9)
        bottom += cost
    axis.text(0, bottom, f"{whole:,.0f}", ha="center", va="bottom", fontweight="bold")
    ticks = ["pipeline"]
    if report["decoder"]:
        alone = report["decoder"]["cpu_us_per_image"]
        axis.bar(1, alone, width=0.6, color=_COLORS["decode"], alpha=0.55)
        axis.text(1, alone, f"{alone:,.0f}", ha="center", va="bottom", fontweight="bold")
        ticks.append("decoder alone")
    axis.set_xticks(range(len(ticks)), ticks)
    axis.set_xlim(-0.5, len(ticks) + 0.35)
    axis.set_ylim(0, max(bottom, whole) * 1.12)
    axis.set_ylabel("CPU µs per image")
    axis.set_title("Where the CPU time goes", fontsize=11)
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles[::-1], labels[::-1], loc="upper right", frameon=False, fontsize=8)  # in the bar's order


def _rates(axis: Any, report: dict[str, Any]) -> None:
    """Draw images per second: possible, measured and required."""
    bars = [("pipeline", report["pipeline"]["images_per_s"], "#0072B2")]
    if report["decoder"]:
        bars.append(("decoder alone,\nall cores", report["decoder"]["images_per_s"], "#9cc3e0"))
    bars.append(("disk alone", report["disk"]["images_per_s"], "#999999"))
    if model := report["model"]:
        bars.append((f"a model of\n{model['model_ms']:g} ms per step", model["images_per_s_wanted"], "#D55E00"))
    names, rates, colors = zip(*bars[::-1], strict=True)
    axis.barh(range(len(bars)), rates, color=colors, height=0.6)
    for place, rate in enumerate(rates):
        axis.text(rate, place, f" {rate:,.0f}", va="center", fontsize=9)
    axis.set_yticks(range(len(bars)), names)
    axis.set_xlim(0, max(rates) * 1.25)
    axis.set_xlabel("images per second")
    axis.set_title("How fast that is", fontsize=11)


def _waits(axis: Any, model: dict[str, Any]) -> None:
    """The wait of each step, one after the other; the steady state's mean across."""
    waits = np.array(model["waits_ms"])
    draw_waits(axis, waits)
    axis.set_ylim(0, max(waits.max(), waits.mean() * 1.3, model["model_ms"] * 0.1) * 1.1)
    lost = model["lost_share"]
    axis.set_title(f"Steps of {model['model_ms']:g} ms: {lost:.0%} of the time lost", fontsize=11)
