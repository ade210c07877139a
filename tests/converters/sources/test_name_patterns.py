"""Regular expressions for names: the result is that of `re`, and a match without an end is an error that says so."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.converters.sources.files.name_patterns import NamePattern
from shardfeed.errors import UsageError

ENDLESS = ["(a+)+", "(a|aa)+", "(?:a*)*", "a?" * 40 + "a" * 40, r"(a)\2*(a*)*", "(.*a){20}"]
HOSTILE = "a" * 60 + "!.jpg"


def named(expression: str) -> NamePattern:
    return NamePattern("pattern", expression, needs="label", example="'(?P<label>.*)'")


@pytest.mark.parametrize("expression", [*ENDLESS, "a+", "[^_]+", "a|b", "(?:ab)*", "(?=a).{1,3}", "(?i:A*?)b{2,}"])
@pytest.mark.parametrize("name", ["", "aaa", "abab", "ab\nb", "b\udcff", "aé"])
def test_a_name_matches_as_with_re(expression: str, name: str) -> None:
    whole = f"(?P<label>{expression})(?P<rest>b*)"
    expected, found = re.fullmatch(whole, name), pickle.loads(pickle.dumps(named(whole))).fullmatch(name)
    assert (found is None) == (expected is None)
    if expected is not None and found is not None:
        assert [found["label"], found["rest"]] == [expected["label"], expected["rest"]]


@pytest.mark.parametrize("expression", ["(a+)+", pytest.param("(a|aa)+", marks=pytest.mark.long)])
def test_a_match_without_an_end_is_refused(expression: str) -> None:
    pattern = named(f"(?P<label>{expression})$")
    with pytest.raises(UsageError, match=r"pattern: .* takes more than 5 s to match the name 'aaaa"):
        pattern.fullmatch(HOSTILE)
    found = pattern.fullmatch("aaa")  # another process
    assert found is not None
    assert found["label"] == "aaa"


@pytest.mark.long
@pytest.mark.parametrize("options", [["--pattern", "(?P<label>(a+)+)$"], ["--group-pattern", "(?P<group>(a+)+)$"]])
def test_convert_names_the_pattern_and_the_file(
    options: list[str], folder: Callable[..., Path], tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    photos = folder(per_class=2)
    first = sorted(photos.rglob("*.jpg"))[0]
    first.rename(first.with_name(HOSTILE))
    code, _, error = run("convert", photos, tmp_path / "out", *options)
    assert code == 2
    assert options[1] in error
    assert HOSTILE in error
    assert not (tmp_path / "out").exists()
