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


def captioned(caption: str) -> list[Path]:
    """Return the pages of the site under a caption of docs/index.md; notebooks left out."""
    (names,) = re.findall(rf"^:caption: {caption}\n\n((?:.+\n)+)```", (DOCS / "index.md").read_text(), re.MULTILINE)
    return [DOCS / f"{name}.md" for name in names.split() if (DOCS / f"{name}.md").exists()]


TASK_PAGES = [ROOT / "README.md", DOCS / "index.md", *captioned("Start"), *captioned("Tasks")]
# What a script has written into a page, what is typed or printed, and addresses: none of them is a sentence of ours.
NOT_PROSE = re.compile(
    r"<!-- made by .*?<!-- the end of what it makes -->|^ {4}[^\n]*$|`[^`\n]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
# What only concerns who works on shardfeed. It belongs to docs/benchmarks.md, docs/design/ or benchmarks/.
NOTES = {
    "a row of reliability.md": r"\bpromise of row \d+|\brow \d+ of reliability",
    "the length of our code": r"\b\d+ (?:more |fewer )?lines (?:more|fewer|of (?:our )?code)\b",
    "work still to do": r"\bmust be (?:repeated|measured again|run again)\b|\b(?:not|were) looked (?:at|into)\b",
    "a version that nobody has": r"\bearlier (?:version|commit)s?\b",
    "a date": r"\b20\d\d-\d\d-\d\d\b",
    "a commit": r"\bcommit [0-9a-f]{7,}",
    "microseconds": r"\d ?(?:µs|us)\b|\bmicroseconds?\b|\bµs\b",
}
REASONS = {
    ("formats.md", "microseconds"): "its tables compare formats by what an image costs",
    ("large-data.md", "microseconds"): "the page multiplies them: hours and cores of large datasets follow from them",
}


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


@pytest.mark.parametrize("page", TASK_PAGES, ids=[page.stem for page in TASK_PAGES])
def test_pages_for_users_have_no_notes_of_developers(page: Path) -> None:
    text = NOT_PROSE.sub("", prose(page))
    for what, pattern in NOTES.items():
        if (page.name, what) not in REASONS:
            assert not re.findall(rf".{{0,40}}(?:{pattern}).{{0,20}}", text), f"{page.name} tells users {what}"


def test_exceptions_for_notes_are_needed() -> None:
    for (name, what), reason in REASONS.items():
        assert re.search(NOTES[what], NOT_PROSE.sub("", prose(DOCS / name))), f"{name}: {what}: {reason}"


def test_the_list_of_commands_is_complete() -> None:
    """The list that docs/cli.md begins with has the commands in the order of `shardfeed --help`."""
    listed = re.findall(r"^ {4}shardfeed (\w+) ", CLI.read_text().split("\n## ")[0], re.MULTILINE)
    assert listed == [*COMMANDS, "help"]


def test_first_pages_show_keras_in_one_way() -> None:
    """README.md's program is the beginning of that in docs/quickstart.md, and works on each backend of Keras."""
    programs = [
        re.findall(r"^```py(?:thon)?\n(import keras\n.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for page in (ROOT / "README.md", DOCS / "quickstart.md")
    ]
    readme, quickstart = ([line for line in program.splitlines() if line] for (program,) in programs)
    assert quickstart[: len(readme)] == readme
    for page in (ROOT / "README.md", DOCS / "quickstart.md", DOCS / "index.md"):
        assert "train_batches" not in "".join(FENCED.findall(page.read_text())), page.name


def test_git_ignores_what_first_commands_write() -> None:
    ignored = (ROOT / ".gitignore").read_text().split("\n")
    for page in (ROOT / "README.md", DOCS / "quickstart.md"):
        text = page.read_text()
        made = re.findall(r"^ {4}\$ shardfeed convert data_samples/\S+ (\w+)", text, re.MULTILINE)
        assert made, page.name
        for folder in made:
            assert f"/{folder}/" in ignored, folder
        for file in re.findall(r"^ {4}\$ shardfeed preview \S+ -o (\S+)|\.save\(\"([^\"]+)\"\)", text, re.MULTILINE):
            assert f"/{''.join(file)}" in ignored, file


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
    assert sum(len(text.splitlines()) for text in texts) <= 3750


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
