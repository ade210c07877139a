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
    assert number_classes(["00", "01"]).labels == {"00": 0, "01": 1}
    assert number_classes(["cafe\u0301"], ("dog", "caf\u00e9")).labels == {"cafe\u0301": 1}, "another Unicode form"


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
