"""Conditions as text: what they say, what they find, and what is refused; nothing of them is ever run."""

import operator
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import here, scenes
from hypothesis import given, settings
from hypothesis import strategies as st

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.existing.conditions import MOST, evaluate, parse
from shardfeed.errors import UsageError
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
numbers = st.integers(30, 60) | st.floats(30, 60).map(lambda number: round(number, 3))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Any]:
    """A condition as text, and a function of a record that says the same."""
    kind = draw(st.sampled_from(["number", "several", "class", "two", *(["and", "or", "not"] if depth else [])]))
    blank = draw(st.sampled_from([" ", "  "]))
    if kind == "number":
        name, sign, value = (
            draw(st.sampled_from(["height", "width"])),
            draw(st.sampled_from(list(COMPARE))),
            draw(numbers),
        )
        return f"{name}{blank}{sign}{value!r}", lambda r: COMPARE[sign](r[f"image/{name}"], value)
    if kind == "several":
        values = draw(st.lists(st.integers(38, 48), min_size=1, max_size=4))
        negated = draw(st.booleans())
        text = f"width {'not ' * negated}in{blank}({', '.join(map(str, values))})"
        return text, lambda r: (r["image/width"] in values) != negated
    if kind == "class":
        names = draw(st.lists(st.sampled_from(["daisy", "rose", "tulip"]), min_size=1, max_size=3))
        quote = draw(st.sampled_from(["", "'", '"']))
        text = f"class in ({','.join(f'{quote}{name}{quote}' for name in names)})"
        return text, lambda r: r["image/class/text"].decode() in names
    if kind == "two":
        return "height < image/width", lambda r: r["image/height"] < r["image/width"]
    one, says = draw(conditions(depth - 1))
    if kind == "not":
        return f"not{blank}({one})", lambda r: not says(r)
    other, also = draw(conditions(depth - 1))
    both = (lambda r: says(r) and also(r)) if kind == "and" else (lambda r: says(r) or also(r))
    return f"({one}){blank}{kind} ({other})", both


@pytest.fixture(scope="module")
def records(small: Dataset) -> list[Any]:
    return list(small["train"])


@settings(max_examples=60)
@given(found=conditions())
def test_what_is_found_is_what_it_says(found: tuple[str, Any], small: Dataset, records: list[Any]) -> None:
    text, says = found
    assert evaluate(parse(text), small["train"]).tolist() == [bool(says(record)) for record in records]


def test_a_word_of_digits_is_text_where_the_feature_is(images_of_small: Path, tmp_path: Path) -> None:
    for name, new in (("daisy", "001"), ("rose", "1e5")):
        shutil.copytree(images_of_small / name, tmp_path / "folder" / new)
    convert(tmp_path / "folder", tmp_path / "out", workers=here())
    split = shardfeed.open(tmp_path / "out")["train"]
    assert evaluate(parse("class == 001"), split).sum() == 8
    assert evaluate(parse("not text in (001, 1.0)"), split).sum() == 8
    assert evaluate(parse("class != 1e5"), split).sum() == 8


def test_and_binds_before_or_and_not_before_both(small: Dataset) -> None:
    split = small["train"]
    bare = evaluate(parse("not class == rose and width >= 44 or width < 41"), split)
    grouped = evaluate(parse("((not (class == rose)) and width >= 44) or width < 41"), split)
    assert bare.tolist() == grouped.tolist()
    for other in (
        "not (class == rose and width >= 44) or width < 41",
        "not class == rose and (width >= 44 or width < 41)",
    ):
        assert bare.tolist() != evaluate(parse(other), split).tolist()


@pytest.mark.long
@settings(max_examples=60)
@given(text=st.text(max_size=40) | st.text("()andornti =<>!,'\"\\height1.5", max_size=40))
def test_any_text_is_a_condition_or_an_error_with_its_place(text: str) -> None:
    said = ""
    try:
        parse(text)
    except UsageError as error:
        said = str(error)
    assert not said or (said.startswith("where: ") and "\n" not in said)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it ends, expected the name of a feature"),
        ("height", "it ends, expected == !="),
        ("height = 3", r"got '=' at character 8 \(== compares\)"),
        ("height == 3 4", "got '4' at character 13, expected and, or, or the end"),
        ("(height == 3", "it ends, expected [)]"),
        ("height in 3", "got '3' at character 11, expected [(] and values"),
        ("height not 3", "got '3' at character 12, expected in"),
        ("3 == height", "got '3' at character 1, expected the name of a feature"),
        ("__import__('os').system('id') == 1", "got '[.]' at character 17"),
        ("height == 'x", 'got "\'" at character 11'),
        ("(" * 60 + "height == 1" + ")" * 60, "more than 50 nested groups"),
        ("not " * 60 + "height == 1", "more than 50 nested groups"),
        ("height == 1 or " * 2000, f"expected at most {MOST:,}"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("heigth > 3", "'heigth' at character 1 is not a feature of the dataset; did you mean height"),
        ("class in (daisy, ross)", r"'ross' is not a class; did you mean rose\?"),
        ("class > rose", "a class has no order"),
        ("height == tall", "'tall' at character 1 is not a feature"),
        ("height in (tall, 3)", "'tall' is not a number"),
        ("height == 'width'", "'width' is not a number"),
        ("height < class", "image/class/label is not one number per record"),
        ("encoded == x", "image/encoded contains images"),
        ("filename < a", "text has no order"),
        ("split >= train", "a split has no order"),
    ],
)
def test_what_the_dataset_does_not_have_is_refused(text: str, problem: str, small: Dataset) -> None:
    with pytest.raises(UsageError, match=problem):
        evaluate(parse(text), small["train"])


def test_objects_of_a_dataset_without_objects(
    small: Dataset, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in (["--where", "objects >= 1"], ["--min-objects", "1"]):
        assert main(["filter", small.directory, str(tmp_path / "out"), *asked]) == 2
        said = capsys.readouterr().err
        assert ("objects at character 1" if asked[0] == "--where" else "--min-objects") in said
        assert ": the dataset has no objects" in said
        assert "did you mean" not in said


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("split == train", 19),
        ("split != train", 0),
        ("image/class/label == rose", 6),
        ("format == jpeg", 19),
        ("source_id == 17", 1),
        ("source_id in (17, '3', 99)", 2),
        ("filename == 'tulip/0000.jpg' or filename == rose/0001.jpg", 2),
        ("height == 1e400 or height >= 99999999999999999999", 0),
        ("height > -99999999999999999999", 19),
    ],
)
def test_names_and_values(text: str, count: int, small: Dataset) -> None:
    assert int(evaluate(parse(text), small["train"]).sum()) == count


def test_of_several_values_one_is_enough(tmp_path: Any) -> None:
    convert(scenes("masks"), tmp_path / "coco", workers=here())
    split = shardfeed.open(tmp_path / "coco")["train"]
    records: list[Any] = list(split)
    texts = [[bytes(text).decode() for text in record["image/object/class/text"]] for record in records]
    name = Counter(name for found in texts for name in set(found)).most_common(1)[0][0]
    assert evaluate(parse(f"class == {name}"), split).tolist() == [name in found for found in texts]
    assert evaluate(parse(f"class != {name}"), split).tolist() == [name not in found for found in texts]
    assert evaluate(parse("objects >= 2"), split).tolist() == [len(found) >= 2 for found in texts]
    large = [bool((np.asarray(record["image/object/area"]) > 500).any()) for record in records]
    assert evaluate(parse("area > 500"), split).tolist() == large
    with pytest.raises(UsageError, match="'xmi' at character 1 is not a feature"):
        evaluate(parse("xmi > 1"), split)
    with pytest.raises(UsageError, match="contains images"):
        evaluate(parse("mask == 1"), split)
