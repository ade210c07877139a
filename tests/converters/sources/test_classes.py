"""Class names and the numbers of labels."""

from pathlib import Path

import pytest

from shardfeed.converters.sources.classes import (
    BadLabelError,
    class_list,
    class_text,
    is_integer,
    number_classes,
    read_class_list,
)
from shardfeed.errors import LabelFileError, UsageError


def test_names_are_sorted_as_bytes() -> None:
    numbering = number_classes(["b", "é", "a", "Z", "z"])
    assert numbering.names == ("Z", "a", "b", "z", "é")
    assert numbering.labels == {"b": 2, "é": 4, "a": 1, "Z": 0, "z": 3}
    assert numbering.notes == ("classes that differ only in case: 1 (Z and z)",)


def test_unicode_twins_are_one_class() -> None:
    numbering = number_classes(["cafe\u0301", "caf\u00e9", "bar"])
    assert numbering.names == ("bar", "caf\u00e9")
    assert numbering.labels["cafe\u0301"] == numbering.labels["caf\u00e9"] == 1
    assert len(numbering.notes) == 1
    assert "Unicode form" in numbering.notes[0]


def test_integers_0_to_k_are_kept() -> None:
    numbering = number_classes([str(i) for i in range(11)])
    assert numbering.names == tuple(map(str, range(11)))  # sorted as text, 10 would be label 2
    assert numbering.labels["10"] == 10
    assert number_classes(["00", "01"]).labels == {"00": 0, "01": 1}


@pytest.mark.parametrize(
    ("values", "value", "words"),
    [
        (["1", "3", "2"], "1", "got 3 integer labels from 1 to 3, expected 0 to 2: labels start at 1, not at 0"),
        (["0", "1", "3"], "3", "got 3 integer labels from 0 to 3, expected 0 to 2: label 2 is missing"),
        (["0", "-1"], "-1", "got the label -1, expected 0 or more"),
        (["7"], "7", "got 1 integer labels from 7 to 7, expected 0 to 0: labels start at 7, not at 0"),
    ],
)
def test_other_integers_are_refused_loudly(values: list[str], value: str, words: str) -> None:
    with pytest.raises(BadLabelError) as caught:
        number_classes(values)
    assert caught.value.value == value
    assert caught.value.problem == words


def test_labels_from_1_offer_both_remedies() -> None:
    with pytest.raises(BadLabelError) as caught:
        number_classes(["1", "2", "3"])
    assert UsageError("place", "problem", caught.value.remedy).remedy == (
        "give class_names: '1' to '3' makes label 1 the class 0; 4 names, with 'background' first, keep the numbers"
    )
    # Both do what they say.
    assert number_classes(["1", "2", "3"], ("1", "2", "3")).labels == {"1": 0, "2": 1, "3": 2}
    assert number_classes(["1", "2", "3"], ("background", "a", "b", "c")).labels == {"1": 1, "2": 2, "3": 3}


def test_folders_may_be_named_by_other_integers_with_a_note() -> None:
    numbering = number_classes(["1", "2", "10"], integers="names")
    assert numbering.names == ("1", "10", "2")
    assert "label 1 is 10" in numbering.notes[0]
    assert number_classes(["1", "0"], integers="names").notes == ()


def test_a_class_list_sets_the_order() -> None:
    assert number_classes(["cat"], ("dog", "cat")).labels == {"cat": 1}
    assert number_classes(["cafe\u0301"], ("dog", "caf\u00e9")).labels == {"cafe\u0301": 1}
    assert number_classes(["cat"], ("dog", "cat")).names == ("dog", "cat")


@pytest.mark.promise(27)
def test_integers_index_a_class_list_unless_it_names_integers() -> None:
    assert number_classes(["1", "0"], ("dog", "cat")).labels == {"1": 1, "0": 0}
    assert number_classes(["1", "10"], ("10", "1")).labels == {"1": 1, "10": 0}
    with pytest.raises(BadLabelError, match="got the label 2, expected 0 to 1"):
        number_classes(["0", "2"], ("dog", "cat"))
    with pytest.raises(BadLabelError, match="got the label -1, expected 0 to 1"):
        number_classes(["-1"], ("dog", "cat"))
    with pytest.raises(BadLabelError, match="got the class '0'"):
        number_classes(["0"], ("1", "2"))


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(BadLabelError) as caught:
        number_classes(["dog", "cta"], ("cat", "dog"))
    assert caught.value.value == "cta"
    assert caught.value.problem == "got the class 'cta', expected one of the class list (cat, dog)"
    assert caught.value.remedy == "did you mean 'cat'?"


@pytest.mark.parametrize("text", ["a\nb", "a\u2028b", "\udce9", "a\0", ""])
def test_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadLabelError, match="class name"):
        number_classes([text, "ok"])


def test_joiners_and_spaces_of_other_scripts_are_text() -> None:
    names = ["می\u200cروم", "a\u00a0b", "犬\u3000猫"]
    assert set(number_classes(names).names) == set(names)


def test_is_integer() -> None:
    assert all(map(is_integer, ["0", "-1", "+2", "007", "9" * 30]))
    assert not any(map(is_integer, ["", "1.0", "1e3", "٣", "1 ", "0x1", "1_0", "9" * 5000]))


def test_class_text_of_any_folder() -> None:
    assert class_text("café".encode()) == "café"
    assert class_text(b"caf\xe9") == "caf\\xe9"
    assert class_text(b"a\nb") == "a\\nb"


@pytest.mark.parametrize("content", [b"dog\ncat\n", b"dog\r\ncat", b"\xef\xbb\xbfdog\r\ncat\r\n", b" dog \ncat\t\n"])
def test_read_class_list(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(content)
    assert read_class_list(path) == ("dog", "cat")
    assert class_list(path) == class_list(str(path)) == class_list(["dog", "cat"]) == ("dog", "cat")


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"dog\n\ncat\n", "2:1", "got the class name '', expected"),
        (b"dog\ncat\ndog\n", "3:1", "'dog' is already on line 1"),
        ("caf\u00e9\ncafe\u0301\n".encode(), "2:1", "is already on line 1"),
        (b"dog\nc\xc3\xa9\xe9\n", "2:3", "not UTF-8"),
        (b"dog\na\x07b\n", "2:1", "got the class name 'a\\x07b'"),
        (b"", "1:1", "no class"),
    ],
)
def test_a_class_list_with_a_mistake(tmp_path: Path, content: bytes, place: str, words: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(content)
    with pytest.raises(LabelFileError) as caught:
        read_class_list(path)
    assert str(caught.value).startswith(f"{path}:{place}: ")
    assert words in str(caught.value)


def test_a_class_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LabelFileError, match="cannot read the class list: No such file"):
        class_list(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["dog", ""], r"class_names\[1\]: got the class name ''"),
        (["dog", "dog"], r"class_names\[1\]: 'dog' is already class 0"),
        (["dog", 3], r"class_names\[1\]: got int, expected str"),
        ([], "class_names: got no class"),
    ],
)
def test_class_names_with_a_mistake(names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        class_list(names)
