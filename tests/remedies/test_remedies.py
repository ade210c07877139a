"""Advice of messages, typed: it works, or that of the next message does, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from remedies.table import ROWS
from remedies.typed import Box, Row, Way, follow

TYPED = [(row, way) for row in ROWS for way in row.ways]


def name(one: object) -> str:
    """A test's id: the input, and what is taken from the message."""
    if isinstance(one, Row):
        return one.make.__name__
    assert isinstance(one, Way)
    return (one.take or f"without {one.drop}").replace("shardfeed ", "").replace("--", "").replace(" ", "+")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the inputs of rows are made, each once."""
    return tmp_path_factory.mktemp("inputs")


@pytest.mark.parametrize(("row", "way"), TYPED, ids=name)
def test_advice_works_when_it_is_typed(
    row: Row,
    way: Way,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = inputs / row.make.__name__
    if not made.exists():
        made.mkdir()
        monkeypatch.chdir(made)
        try:
            row.make(Box(made))
        except BaseException:
            shutil.rmtree(made)
            raise
    copied = tmp_path / "box"
    shutil.copytree(made, copied, symlinks=True)
    monkeypatch.chdir(copied)
    capsys.readouterr()

    def printed() -> str:
        both = capsys.readouterr()
        return both.out + both.err

    follow(row, way, printed)
