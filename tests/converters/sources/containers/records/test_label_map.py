"""Label maps, as protobuf's text format has them."""

import pytest
from google.protobuf import text_encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.converters.sources.files.class_names import parse_label_map
from shardfeed.errors import LabelFileError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("item { id: 1 name: 'cat' }", {1: "cat"}),
        ("item: < id: 1; name: \"cat\", display_name: 'Cat' >\nitem{name:'dog'id:2}", {1: "Cat", 2: "dog"}),
        ("# item { id: 9 }\nitem {  # }\n id: 1 # one\n name: 'a # b } {'\n}", {1: "a # b } {"}),
        (r'item { id: 1 name: "caf\303\251 \"x\" \\ \x41" }', {1: 'café "x" \\ A'}),
        (r"item { id: 1 name: 'a' 'b' " + '"c" }', {1: "abc"}),
        ("item { id: 1 name: 'a' keypoints { id: 7 label: 'nose' } keypoints: { id: 8 } } ", {1: "a"}),
        ("item { ancestor_ids: [3, 4] id: 2 name: 'x' frequency: FREQUENT }", {2: "x"}),
    ],
)
def test_forms(text: str, expected: dict[int, str]) -> None:
    assert parse_label_map(text, "map.pbtxt") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "map.pbtxt: no `item"),
        ("\nitems { }", "map.pbtxt:2: no `item`, but 'items'"),
        ("item { id: 1 name: 'cat'", "1: an unterminated item"),
        ("item { name: 'cat' }", "1: an item without id"),
        ("item { id: -1 name: 'cat' }", "the id '-1', expected a number"),
        ("item { id: 1 }", "item 1 has no name"),
        ("item { id: 1 name: 'a' }\nitem { id: 1 name: 'b' }", "2: the number 1 is already that of 'a'"),
        ("item { id: 1 name: 'a' }\nitem { id: 2 name: 'a' }", "2: 'a' is already on line 1"),
        ("item { id: 1 name: 'a }", "an unterminated text"),
        (r"item { id: 1 name: '\377' }", "is not UTF-8"),
        (r"item { id: 1 name: 'a\nb' }", "expected UTF-8 text without control characters"),
        ("item 1", "no '{' after `item`"),
    ],
)
def test_faults(text: str, problem: str) -> None:
    with pytest.raises(LabelFileError) as caught:
        parse_label_map(text, "map.pbtxt")
    assert problem in str(caught.value)


names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12)


@settings(max_examples=50)
@given(st.dictionaries(st.integers(0, 10**6), names, min_size=1, max_size=5), st.booleans())
def test_names_come_back(classes: dict[int, str], utf8: bool) -> None:
    """However protobuf's own printer escapes them."""
    if len(set(classes.values())) < len(classes):
        return
    text = ""
    for number, name in classes.items():
        text += f'item {{\n  id: {number}\n  name: "{text_encoding.CEscape(name.encode(), as_utf8=utf8)}"\n}}\n'
    assert parse_label_map(text, "map.pbtxt") == classes


@given(st.text("item{}:<>'\"\\# \nd1n[],a", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_label_map(text, "map.pbtxt")
    except LabelFileError:
        return
    assert found
