"""The results of `make torture` as the table in docs/reliability.md.

    python benchmarks/torture_table.py [--write]

Reads benchmarks/results/torture.jsonl, a line for each sweep: the promises it tests, what was done, counts, seed, date,
version and machine. `--write` puts the table into the page; without it, it is printed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "torture.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
START, END = "<!-- make torture -->\n", "<!-- end -->\n"
ABOUT = ("rows", "what", "date", "version", "machine", "cores")  # the rest are counts


def row(result: dict[str, Any]) -> str:
    counts = {key: value for key, value in result.items() if key not in ABOUT and key != "seed"}
    shown = ", ".join(f"{key.replace('_', ' ')} {_text(value)}" for key, value in counts.items())
    rows = ", ".join(map(str, result["rows"]))
    return f"| {rows} | {result['what']} | {shown} | {result.get('seed', '')} |"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_text(of_key)}" for key, of_key in value.items()) + ")"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def table(results: list[dict[str, Any]]) -> str:
    made_on = sorted({(r["date"], r["version"], r["machine"], r["cores"]) for r in results})
    where = "; ".join(
        f"{date}, shardfeed {version}, {machine}, {cores} cores" for date, version, machine, cores in made_on
    )
    order = sorted(results, key=lambda r: ([str(n).rjust(3) for n in r["rows"]], r["what"]))
    lines = ["| promise | event | counts | seed |", "|---|---|---|---:|", *map(row, order)]
    return f"{where}:\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/reliability.md")
    args = parser.parse_args()
    results = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    made = table([result for result in results if result["rows"]])  # others are no promises of the page
    if not args.write:
        print(made)
        return
    page = PAGE.read_text()
    before, rest = page.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{START}\n{made}\n{END}{after}")


if __name__ == "__main__":
    main()
