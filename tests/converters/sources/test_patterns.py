"""Patterns of paths: what each sign fits, and what a pattern of a folder means for what is in it."""

import fnmatch
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.converters.sources.files.listing import Choice, Patterns
from shardfeed.errors import UsageError

FITS = {
    "*.png": "x.png a/x.png a/b/.png a.png/x.jpg",
    "a/*.png": "a/x.png a/é.png",
    "./a/*.png": "a/x.png",
    "/x.png": "x.png",
    "a": "a a/x.png b/a/x.png b/a",
    "a/": "a/x.png b/a/c/x.png",
    "/a": "a a/b/x.png",
    "a/b": "a/b a/b/x.png",
    "**/a": "a a/x b/a b/c/a/x",
    "a/**": "a/x a/b/x",
    "a/**/x": "a/x a/b/x a/b/c/x a/b/x/y",
    "**": "x a/b/x",
    "**.png": "x.png a/x.png",
    "?.png": "x.png a/é.png",
    "[ab]?.png": "a1.png c/b2.png",
    "[!ab].png": "c.png a/c.png",
    "[a-c].png": "b.png",
    "[]].png": "].png",
    "[x.png": "[x.png a/[x.png",
    "x[^].png": "x^.png",
    "a b,c(d)+$.png": "a b,c(d)+$.png",
    "a\\b": "a\\b",
    "line\nbreak*": "line\nbreak\n2.png",
}
NOT = {
    "*.png": "x.PNG x.png2 xpng",
    "a/*.png": "b/a/x.png a/b/x.png a/x.jpg",
    "/x.png": "a/x.png",
    "a": "ab a.png b/ab/x",
    "a/": "a b/a",
    "/a": "b/a",
    "a/b": "b/a/b ab a",
    "a/**": "a b/a/x",
    "a/**/x": "ax a/bx",
    "?.png": "xx.png .png /.png",
    "[!ab].png": "a.png .png",
    "[a-c].png": "d.png -.png",
    "a[!x]b": "a/b",
    "a?b": "a/b",
    "a*b": "a/b",
}


def fits(glob: str, key: str) -> bool:
    return Patterns("include", glob).match(key.encode())


@pytest.mark.parametrize("glob", FITS)
def test_what_a_pattern_fits(glob: str) -> None:
    keys = FITS[glob].split(" ") if " " not in glob and "\n" not in glob else [FITS[glob]]
    assert [key for key in keys if not fits(glob, key)] == []


@pytest.mark.parametrize("glob", NOT)
def test_what_it_does_not_fit(glob: str) -> None:
    assert [key for key in NOT[glob].split() if fits(glob, key)] == []


def test_folders_are_keys_with_a_slash() -> None:
    for glob in ("a", "a/", "a/**", "/a"):
        assert fits(glob, "a/"), glob
    assert not fits("a/*.png", "a/")


def test_names_that_are_not_utf8() -> None:
    assert Patterns("include", "caf?.png").match(b"x/caf\xe9.png")


@settings(max_examples=300)
@given(st.text("ab.*?[]!-^", min_size=1, max_size=6), st.text("ab.!-^]", min_size=1, max_size=6))
def test_one_name_is_fitted_as_fnmatch_does(glob: str, name: str) -> None:
    try:
        found = fits(glob, name)
    except UsageError:
        assert not glob.strip(".") or "-" in glob, "nothing, or a range that ends before it begins"
        return
    assert found == fnmatch.fnmatchcase(name, glob)


def test_patterns_that_fitted_nothing_are_known() -> None:
    patterns = Patterns("exclude", ["a*", "b*", "ab*"])
    assert [patterns.match(key) for key in (b"abc", b"c")] == [True, False]
    assert patterns.unused() == ["b*"]


def test_a_choice() -> None:
    choice = pickle.loads(pickle.dumps(Choice.of("*.jpg", ["b*"])))
    assert [key for key in (b"a.jpg", b"b.jpg", b"a.png", b"b/a.jpg") if choice.wants(key)] == [b"a.jpg"]
    assert choice
    assert not Choice.of((), [])
    assert Choice.of((), []).wants(b"x")


def fits_slowly(glob: str, key: str) -> bool:
    """Whether an expression fits that tries all ways, for each `**` and star."""
    rooted, folders_only = "/" in glob[:-1], glob.endswith("/")
    names = glob.removeprefix("./").strip("/").split("/")
    written = "" if rooted else "(?:.*/)?"
    for i, name in enumerate(names):
        last = i == len(names) - 1
        signs = {"*": "[^/]*", "?": "[^/]"}
        one = "".join(signs.get(sign, re.escape(sign)) for sign in name)
        written += (".*" if last else "(?:.*/)?") if name == "**" else one + ("" if last else "/")
    return re.fullmatch(written + ("/.*" if folders_only else "(?:/.*)?"), key) is not None


@settings(max_examples=1000)
@given(st.text("ab*?/", min_size=1, max_size=9), st.text("ab/", min_size=1, max_size=12))
def test_a_pattern_fits_what_trying_all_ways_fits(glob: str, key: str) -> None:
    if glob.strip("/."):
        assert fits(glob, key) == fits_slowly(glob, key)


@pytest.mark.parametrize("glob", ["*a" * 40 + "z", "**/" + "*a*/**/" * 40 + "z", "?*" * 60 + "/z"])
def test_many_stars_take_no_power_of_the_time(glob: str) -> None:
    assert not fits(glob, "a" * 200 + "!")
    assert not fits(glob, "aaaa/" * 60 + "!")
