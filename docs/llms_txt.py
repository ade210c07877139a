"""docs/llms.txt, the list of pages for language models, from docs/index.md: `python docs/llms_txt.py --write`.

It follows https://llmstxt.org: what this is, then the pages under the headings of the site, each with what the table of
docs/index.md or its own heading says of it. Without `--write` the text is printed.
"""

import argparse
import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
FILE = DOCS / "llms.txt"


def heading(page: Path) -> str:
    """The first heading of a page or a notebook."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return re.findall(r"^# (.+)$", text, re.MULTILINE)[0]


def llms_txt() -> str:
    """The text of the file."""
    index = (DOCS / "index.md").read_text()
    title, claim, about = re.findall(r"\A# (.+)\n\n\*\*(.+)\*\*\n\n((?:.+\n)+)", index)[0]
    uses: dict[str, list[str]] = {}
    for use, links in re.findall(r"^\| ([a-z].+?) \| (.+) \|$", index, re.MULTILINE):
        for page in re.findall(r"\]\(([^)#]+)", links):
            uses.setdefault(page, []).append(use)
    lines = [f"# {title}", "", f"> {claim}", "", about]
    for caption, names in re.findall(r"^:caption: (.+)\n\n((?:.+\n)+)```", index, re.MULTILINE):
        lines += [f"## {caption}", ""]
        for name in names.split():
            page = next(f"{name}{end}" for end in (".md", ".ipynb") if (DOCS / f"{name}{end}").exists())
            use = uses.get(page)
            lines.append(f"- [{heading(DOCS / page)}]({page})" + (f": to {'; to '.join(use)}" if use else ""))
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Print the text, or write it into docs/llms.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/llms.txt")
    if parser.parse_args().write:
        FILE.write_text(llms_txt())
    else:
        print(llms_txt(), end="")


if __name__ == "__main__":
    main()
