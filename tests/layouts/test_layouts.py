"""Layouts of known datasets and tools, converted by the command that a user types."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.tools import cli
from tests.layouts.checking import check
from tests.layouts.files import Files
from tests.layouts.layout import Layout, out_of
from tests.layouts.table import LAYOUTS

from repository import ROOT


def entries() -> list[object]:
    """Each layout as a case of the test, marked where it goes wrong today."""
    cases = []
    for layout in LAYOUTS:
        marks = [pytest.mark.xfail(strict=True, raises=AssertionError, reason=layout.today)] if layout.today else []
        cases.append(pytest.param(layout, id=layout.name, marks=marks))
    return cases


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the user is in."""
    monkeypatch.chdir(tmp_path)


def typed(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    try:
        code = cli.main([*shlex.split(command), "--workers", "1"])
    except Exception as error:  # in an entry that is expected to fail, an error of the test's own must not look like it
        raise AssertionError(f"a traceback: {error!r}") from error
    out, err = capsys.readouterr()
    return code, (out + err).replace(f"{Path.cwd()}/", "")  # which has the name of the test, and might say the word


def check_advised(first: str, then: str, said: str) -> None:
    """Each option of the next command must be in the message as it is typed, and the name of another source."""
    before = shlex.split(first)
    for at, word in enumerate(shlex.split(then)):
        if word not in before and (word.startswith("--") or at == 1):
            assert word.rsplit("/")[-1] in said, f"the message does not name {word}: {said}"


@pytest.mark.parametrize("layout", entries())
def test_layout(layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in layout.needs.split():
        pytest.importorskip(package)
    layout.build(Files(tmp_path))
    code, said = typed(layout.typed, capsys)
    if layout.says and not (layout.then and code == 0):  # right at once is better than after a refusal
        assert code == layout.code, said
        assert not out_of(layout.typed, tmp_path).exists()
        for words in layout.says:
            assert words in said, said
        if layout.then:
            check_advised(layout.typed, layout.then, said)
            code, said = typed(layout.then, capsys)
    if layout.gives is not None:
        assert code == 0, said
        check(out_of(layout.typed, tmp_path), layout.gives)


def test_there_are_enough_and_each_is_another() -> None:
    names = [layout.name for layout in LAYOUTS]
    assert len(set(names)) == len(names)
    assert len({(layout.have, layout.typed) for layout in LAYOUTS}) == len(names) >= 20


def test_the_page_is_what_the_table_says() -> None:
    made = subprocess.run([sys.executable, ROOT / "docs/recipes_table.py"], capture_output=True, text=True, check=True)
    page = (ROOT / "docs/recipes.md").read_text()
    shown = page.split("<!-- docs/recipes_table.py -->")[1].split("<!-- end -->")[0]
    assert shown.strip() == made.stdout.strip(), "run: python docs/recipes_table.py --write"
