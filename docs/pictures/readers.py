"""Draws docs/pictures/readers.png, eight readers as bars: `python docs/pictures/readers.py`.

The figures are in readers.csv beside this file; they are rows of "Reading for training" in docs/benchmarks.md.
"""

import argparse
import csv
import sys
from pathlib import Path

HERE = Path(__file__).parent
DECODER = 2337  # images/s of `decode_and_crop_jpeg` alone, same table
INK, GREY, BLUE, PALE = "#1f2933", "#6b7785", "#0072b2", "#c3cbd3"


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description="Draw eight readers as bars.")
    parser.add_argument("--out", type=Path, default=HERE / "readers.png")
    args = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(HERE / "readers.csv", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["images_per_s"]))
    rates = [int(row["images_per_s"]) for row in rows]
    ours = [row["ours"] == "yes" for row in rows]
    figure, axis = plt.subplots(figsize=(9, 3.7), layout="constrained")
    axis.barh(range(len(rows)), rates, color=[BLUE if mine else PALE for mine in ours], height=0.62)
    for place, (rate, mine) in enumerate(zip(rates, ours, strict=True)):
        weight = "bold" if mine else "normal"
        axis.text(rate + 25, place, f"{rate:,}", va="center", color=INK, fontweight=weight, fontsize=11)
    axis.axvline(DECODER, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    axis.text(DECODER + 25, len(rows) - 1.5, f"the decoder\nalone: {DECODER:,}", va="center", color=GREY, fontsize=10)
    axis.set_yticks(range(len(rows)), [row["reader"] for row in rows], color=INK, fontsize=11)
    for label, mine in zip(axis.get_yticklabels(), ours, strict=True):
        label.set_fontweight("bold" if mine else "normal")
    axis.set_xlim(0, DECODER * 1.24)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    title = "Images per second for training, 2 CPU cores: 4,000 photos of 500x375, random crops of 224, flipped"
    figure.suptitle(title, fontsize=11, color=GREY, x=0.01, ha="left")
    figure.savefig(args.out, dpi=170, facecolor="white", metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
