"""Docs hold together: links lead somewhere, and the command line's reference has every option."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from shardfeed.tools.command_list import COMMANDS
from shardfeed.version import __version__

from repository import ROOT

DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"\bdocs/[\w/-]+\.(?:md|png|py|svg|webp)\b")
OURS = re.compile(r"`((?:shardfeed|converters|readers|pipelines|tools|tests|benchmarks(?!/results)|docs)/[\w/.-]+)`")
CLI = DOCS / "cli.md"
EXAMPLES = re.compile(r"^( +)Example:\n(?:\1    .*\n|\n)+", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Anchors that `page.md#anchor` may name: headings as GitHub and myst-parser spell them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_of_ours_that_a_page_names_are_there(page: Path) -> None:
    for name in OURS.findall(page.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_on_the_site() -> None:
    listed = "\n".join(path.read_text() for path in (DOCS / "index.md", DOCS / "api" / "index.md"))
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    for name in pages:
        if name != "index" and not re.match(r"design/\d", name):  # notes are found by their numbers
            assert re.search(rf"^{re.escape(name.removeprefix('api/'))}$|^{re.escape(name)}$", listed, re.MULTILINE), (
                name
            )


def test_the_version_is_one_everywhere() -> None:
    for name in ("setup.cfg", "CITATION.cff"):
        stated = re.findall(r"^version(?: =|:) (.+)$", (ROOT / name).read_text(), re.MULTILINE)
        assert stated == [__version__], name


def test_what_one_must_read_stays_short() -> None:
    files = re.findall(r"\*\*`([\w/]+\.py)`\*\*", (DOCS / "code.md").read_text())
    assert 15 <= len(files) <= 20
    texts = [EXAMPLES.sub("", (ROOT / name).read_text()) for name in files]  # examples shorten the way
    assert sum(len(text.splitlines()) for text in texts) <= 3500


def test_what_code_says_of_docs_is_there() -> None:
    folders = ("shardfeed", "converters", "readers", "pipelines", "tools", "tests", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if "results" not in path.parts]
    for path in [*files, *PAGES, ROOT / "Makefile", ROOT / "pyproject.toml"]:
        for mention in MENTION.findall(path.read_text()):
            assert (ROOT / mention).exists(), f"{path}: {mention}"


def test_the_command_line_reference_is_what_the_parsers_say() -> None:
    made = subprocess.run([sys.executable, DOCS / "cli_reference.py"], capture_output=True, text=True, check=True)
    assert made.stdout in CLI.read_text(), "run: python docs/cli_reference.py --write"


def test_the_list_of_pages_for_language_models_is_current() -> None:
    made = subprocess.run([sys.executable, DOCS / "llms_txt.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (DOCS / "llms.txt").read_text(), "run: python docs/llms_txt.py --write"
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("*.md")}
    assert pages - set(LINK.findall(made.stdout)) == {"index.md"}


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_reference(command: str) -> None:
    asked = [sys.executable, "-m", "shardfeed.tools.cli", command, "--help"]
    offered = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    section = CLI.read_text().split(f"\n## shardfeed {command}\n")[1].split("\n## ")[0]
    options = set(re.findall(r"^  +(?:-\w(?: \w+)?, )?(--[\w-]+)", offered, re.MULTILINE)) - {"--help"}
    assert options or command == "completion"
    for option in options:
        assert re.search(rf"`[^`]*{option}\b", section), option


@pytest.mark.parametrize("page", ["converters", "pipelines"])
def test_the_reference_has_every_public_name(page: str) -> None:
    """These pages list their names, in the order in which you meet them."""
    listed = re.findall(r"auto(?:function|class):: (\w+)", (ROOT / "docs" / "api" / f"{page}.md").read_text())
    assert sorted(listed) == sorted(import_module(f"shardfeed.{page}").__all__)


CODE = ("shardfeed", "converters", "readers", "pipelines", "tools", "tests", "benchmarks", "data_samples", "docs")


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.body[0].lineno}"
        for folder in CODE
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "results" not in path.relative_to(ROOT).parts  # of benchmarks: environments with other people's code
        if re.search(r'"""(What|Of|Whose|Raises)\b', text := path.read_text())  # few have to be parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and re.match(r"(What|Of|Whose|Raises)\b", ast.get_docstring(node) or "")
    ]
    assert not found, "begin it with a verb or a noun phrase"


def test_drawings_are_what_their_script_draws(tmp_path: Path) -> None:
    pictures = DOCS / "pictures"
    subprocess.run([sys.executable, pictures / "drawings.py", "--out", tmp_path], check=True)
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 5
    for drawing in drawn:
        assert drawing.read_text() == (pictures / drawing.name).read_text(), drawing.name
