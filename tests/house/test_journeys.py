"""docs/code.md says how a sample travels: a tiny run of each journey is followed, and compared with the page."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from repository import ROOT

CONDUCTS = 6  # other files: a file that calls so many decides where a sample goes next
SECTIONS = {
    "folder": ["From a folder to shards"],
    "coco": ["From a COCO file to shards", "From a folder to shards"],
    "torch": ["From shards to a batch of `torch_loader`"],
}


@pytest.fixture(scope="module")
def journeys() -> Any:
    """For each journey and each file that it enters: the files that this file calls."""
    command = [sys.executable, ROOT / "benchmarks" / "journey.py", "--json", *SECTIONS]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def named(section: str) -> set[str]:
    """The files that a section of the page names in its table."""
    text = (ROOT / "docs" / "code.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return set(re.findall(r"`([\w/]+/\w+\.py)`", "\n".join(rows)))


@pytest.mark.parametrize("journey", SECTIONS)
def test_a_journey_enters_each_file_that_the_page_names(journey: str, journeys: Any) -> None:
    files = named(SECTIONS[journey][0])
    assert files
    assert sorted(files - set(journeys[journey])) == [], "the page names files that the journey does not enter"


@pytest.mark.parametrize("journey", SECTIONS)
def test_the_page_names_each_file_that_conducts_a_journey(journey: str, journeys: Any) -> None:
    conductors = {file for file, called in journeys[journey].items() if len(called) >= CONDUCTS}
    assert "converters/conversion.py" in conductors or journey == "torch"
    lacking = conductors - set().union(*map(named, SECTIONS[journey]))
    assert sorted(lacking) == [], f"docs/code.md lacks files that call {CONDUCTS} others: see journey.py --list"
