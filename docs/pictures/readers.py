"""Draws readers.png and its dark twin: every reader of "Reading for training" in docs/benchmarks.md as a bar.

`python docs/pictures/readers.py` draws the figures of readers.json beside this file; `--results
benchmarks/results/reading.json` takes them from a run of benchmarks/reading.py first.
"""

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from style import LOOKS, Look

HERE = Path(__file__).parent
DECODER = "decoder"
# In the text of readers that do other work than a random crop of the original photo.
OTHER_WORK = ("smaller windows", "re-encoded", "--resize-shorter", "--encode raw", "cached decoded", "resize only")


def figures(results: Path) -> dict[str, Any]:
    """Return the date and commit of a run, and each reader with its CPU time divided by the decoder's."""
    run = json.loads(results.read_text())
    rows = [
        {
            "name": name,
            "text": one["text"],
            "cpu": round(one["summary"]["cpu_times_decoder"]["median"], 2),
        }
        for name, one in run["sets"][0]["contenders"].items()
        if "summary" in one
    ]
    return {"date": run["date"][:10], "commit": run["machine"]["commit"], "rows": rows}


def draw(found: dict[str, Any], look: Look, out: Path) -> None:
    """Write the picture of one look."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = sorted((row for row in found["rows"] if row["name"] != DECODER), key=lambda row: -row["cpu"])
    figure, axis = plt.subplots(figsize=(10, 0.3 + 0.27 * len(rows)), layout="constrained")
    axis.set_facecolor(look.paper)
    for place, row in enumerate(rows):
        ours = row["name"].startswith("ours")
        other = any(mark in row["text"] for mark in OTHER_WORK)
        face = look.paper if other else look.blue if ours else look.soft
        edge = look.blue if ours else look.soft
        axis.barh(place, row["cpu"], color=face, edgecolor=edge, height=0.62)
        axis.text(row["cpu"] + 0.02, place, f"{row['cpu']:.2f}", va="center", color=look.ink, fontsize=9)
    axis.axvline(1, color=look.soft, linewidth=1.2, linestyle=(0, (4, 3)))
    axis.text(1.02, len(rows) - 1, "the JPEG decoder alone", va="center", color=look.soft, fontsize=9)
    axis.set_yticks(range(len(rows)), [row["text"].replace("`", "") for row in rows], color=look.ink, fontsize=9)
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row["name"].startswith("ours") else "normal")
    axis.set_xlim(0, 1.1 * max(row["cpu"] for row in rows))
    axis.set_xticks([])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    title = (
        "CPU time per image for training, less is better: photos of 500x375, random crops of 224. "
        f"{found['date']}, commit {found['commit']}\n"
        "1.00 is the JPEG decoder alone. Outlined bars do other work, such as smaller photos or windows"
    )
    figure.suptitle(title, fontsize=9, color=look.soft, x=0.01, ha="left")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, facecolor=look.paper)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(24).save(out, optimize=True)


def main() -> int:
    """Write both pictures."""
    parser = argparse.ArgumentParser(description="Draw every reader of the benchmark as a bar.")
    parser.add_argument("--results", type=Path, help="reading.json of a run, to take the figures from")
    parser.add_argument("--out", type=Path, default=HERE / "readers.png")
    args = parser.parse_args()
    kept = HERE / "readers.json"
    if args.results:
        kept.write_text(json.dumps(figures(args.results), indent=1) + "\n")
    for look in LOOKS:
        draw(json.loads(kept.read_text()), look, look.beside(args.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
