"""Layouts of known datasets and tools, as a part of docs/recipes.md: `python docs/recipes_table.py --write`.

They come from tests/layouts, which runs each command. Without `--write` the text is printed.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests/support"))

from tests.layouts.layout import Layout  # noqa: E402
from tests.layouts.table import TOPICS  # noqa: E402

PAGE = ROOT / "docs/recipes.md"
START, END = "<!-- docs/recipes_table.py -->\n", "<!-- end -->\n"


def cell(text: str) -> str:
    """Text of a cell: a bar would end it."""
    return text.replace("|", r"\|")


def layout_row(layout: Layout) -> str:
    """A line of the table."""
    typed = f"`shardfeed {layout.then or layout.typed}`"
    if layout.gives is not None:
        return f"| {cell(layout.have)} | {cell(typed)} |"
    said = " and ".join(f"`{words}`" for words in layout.says)
    return f"| {cell(layout.have)} | {cell(typed)}: an error that mentions {cell(said)} |"


def tables() -> str:
    """A heading and a table for each topic, without layouts that go wrong today or repeat another's command."""
    lines = []
    for topic in TOPICS:
        typed = {layout.typed for layout in topic.layouts}
        rows = [layout_row(one) for one in topic.layouts if not one.today and one.then not in typed]
        if rows:
            lines += [f"### {topic.title}", "", "| I have | I type |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/recipes.md")
    if not parser.parse_args().write:
        print(tables(), end="")
        return
    before, rest = PAGE.read_text().split(START)
    PAGE.write_text(f"{before}{START}\n{tables()}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
