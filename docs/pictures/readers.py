"""Draws readers.svg: every reader of "Reading for training" in docs/benchmarks.md as a bar.

`python docs/pictures/readers.py` draws the figures of readers.json beside this file; `--results
benchmarks/results/reading.json` takes them from a run of benchmarks/reading.py first.
"""

import argparse
import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from style import LIGHT, Look

HERE = Path(__file__).parent
DECODER = "decoder"
WIDTH, LEFT, TOP, PITCH = 1000, 470, 46, 26  # pixels; bars begin at LEFT
FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
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


def to_svg(found: dict[str, Any], look: Look) -> str:
    """Draw the bars of one look, the fastest on top."""
    rows = sorted((row for row in found["rows"] if row["name"] != DECODER), key=lambda row: row["cpu"])
    scale = (WIDTH - LEFT - 60) / max(row["cpu"] for row in rows)
    height, decoder = TOP + PITCH * len(rows), LEFT + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="{FONT}" font-size="12.5">',
        "<title>CPU time per image of each reader, divided by that of the JPEG decoder</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{look.paper}"/>',
        f'<g fill="{look.soft}">',
        '<text x="10" y="18">CPU time per image for training, less is better: photos of 500x375, random crops of 224. '
        f"{found['date']}, commit {found['commit']}</text>",
        '<text x="10" y="36">1.00 is the JPEG decoder alone, on the original photos. Outlined bars do other work, such '
        "as smaller photos or windows</text>",
        f'<text x="{decoder + 5:.0f}" y="{TOP + 17}">the JPEG decoder alone</text></g>',
        f'<path d="M{decoder:.0f} {TOP}V{height}" stroke="{look.soft}" stroke-dasharray="5 4"/>',
    ]
    for place, row in enumerate(rows):
        ours = row["name"].startswith("ours")
        edge = look.blue if ours else look.soft
        face = look.paper if any(mark in row["text"] for mark in OTHER_WORK) else edge
        label = escape(row["text"].replace("`", ""), quote=False)
        top, end = TOP + PITCH * place, LEFT + scale * row["cpu"]
        weight = ' font-weight="bold"' if ours else ""
        parts += [
            f'<rect x="{LEFT}" y="{top + 5}" width="{end - LEFT:.0f}" height="16" fill="{face}" stroke="{edge}"/>',
            f'<g fill="{look.ink}"><text x="{LEFT - 6}" y="{top + 17}" text-anchor="end"{weight}>{label}</text>'
            f'<text x="{end + 5:.0f}" y="{top + 17}">{row["cpu"]:.2f}</text></g>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description="Draw every reader of the benchmark as a bar.")
    parser.add_argument("--results", type=Path, help="reading.json of a run, to take the figures from")
    parser.add_argument("--out", type=Path, default=HERE / "readers.svg")
    args = parser.parse_args()
    kept = HERE / "readers.json"
    if args.results:
        kept.write_text(json.dumps(figures(args.results), indent=1) + "\n")
    args.out.write_text(to_svg(json.loads(kept.read_text()), LIGHT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
