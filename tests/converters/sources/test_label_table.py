"""Label files as rows: encodings, formats, and the line of each."""

import codecs
import os
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.errors import LabelFileError, UsageError


def table(folder: Path, content: bytes | str, name: str = "l.csv", **options: Any) -> LabelTable:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return LabelTable(path, options.get("format"), options.get("delimiter"))


def rows(of: LabelTable) -> list[Any]:
    return [(record.line, record.cells) for record in of]


TEXT = "path,label\nä.jpg,cat\n"


@pytest.mark.promise(37)
@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
        TEXT.rstrip("\n").encode(),
    ],
    ids=["utf-8", "BOM", "utf-16", "utf-16-be", "utf-32", "CRLF", "CR", "no last line end"],
)
def test_encodings_and_line_ends(tmp_path: Path, content: bytes) -> None:
    assert rows(table(tmp_path, content)) == [(1, ["path", "label"]), (2, ["ä.jpg", "cat"])]


@pytest.mark.promise(35)
def test_bytes_that_are_not_utf8_survive(tmp_path: Path) -> None:
    (record,) = table(tmp_path, b"caf\xe9.jpg,cat\n")
    assert record.cells[0].encode("utf-8", "surrogateescape") == b"caf\xe9.jpg"  # type: ignore[index]


@pytest.mark.promise(37)
def test_blank_lines_count_but_are_no_rows(tmp_path: Path) -> None:
    assert rows(table(tmp_path, "\na,b\n\n \n,\nc,d\n\n")) == [(2, ["a", "b"]), (6, ["c", "d"])]
    assert [line for line, _ in rows(table(tmp_path, "\na b\n \nc d", "l.txt"))] == [2, 4]
    assert [line for line, _ in rows(table(tmp_path, '\n{"a": "b"}\n\n{}\n', "l.jsonl"))] == [2, 4]


@pytest.mark.promise(37)
def test_quotes_and_embedded_line_breaks(tmp_path: Path) -> None:
    of = table(tmp_path, 'path,label\n"a, ""b""\r\nc.jpg","x\ny",z\nd,e,f\n')
    assert rows(of)[1:] == [(2, ['a, "b"\r\nc.jpg', "x\ny", "z"]), (5, ["d", "e", "f"])]


@pytest.mark.parametrize(
    ("content", "options", "cells"),
    [
        ("a;b\n", {}, ["a", "b"]),
        ("a,b;c\n", {}, ["a", "b;c"]),
        ('"a,b";c\n', {}, ["a,b", "c"]),
        ("a\tb\n", {}, ["a", "b"]),
        ("a,x|b\n", {"delimiter": "|"}, ["a,x", "b"]),
        ("a,x\tb\n", {"format": "tsv"}, ["a,x", "b"]),
        ("a\n", {}, ["a"]),
    ],
)
def test_delimiters(tmp_path: Path, content: str, options: dict[str, Any], cells: list[str]) -> None:
    assert rows(table(tmp_path, content, **options)) == [(1, cells)]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.CSV", "csv"), ("a.tsv", "tsv"), ("a.jsonl", "jsonl"), ("a.ndjson", "jsonl"), ("a.txt", "text")],
)
def test_the_extension_tells_the_format(tmp_path: Path, name: str, format: str) -> None:
    assert table(tmp_path, "", name).format == format


@pytest.mark.promise(37)
def test_path_label_lines(tmp_path: Path) -> None:
    of = table(tmp_path, "a b.jpg 3\n c.jpg \t x  \n", "l.txt")
    assert rows(of) == [(1, ["a b.jpg", "3"]), (2, [" c.jpg", "x"])]


def test_json_lines(tmp_path: Path) -> None:
    text = '{"path": "a.jpg", "n": 1.50, "b": [true, 2, "x"], "no": null, "deep": {"label": 1}, "l": [[1]]}'
    of = table(tmp_path, " " + text, "l.jsonl")
    cells = {"path": "a.jpg", "n": "1.50", "b": ("true", "2", "x"), "no": "", "deep": None, "l": None}
    assert of.keys == [*cells]
    assert rows(of) == [(1, [*cells.values()])]


def test_a_place_is_a_line_and_a_column(tmp_path: Path) -> None:
    of = table(tmp_path, "")
    assert of.place(812) == f"{of.path}:812"
    flags = {"column": "column"}
    at = LabelFileError(of.place(812, 1), "bad")
    assert at.place == f"{of.path}:812, column 1"
    assert at.format_message(flags) == f"{of.path}:812, column 2: bad"  # typed columns count from 1
    assert of.place(812, "label") == f"{of.path}:812, column 'label'"


MISTAKES = [
    ("l.csv", b'a,b\nc,"d\ne,f\n', "2", "cannot be read as CSV: unexpected end of data"),
    ("l.csv", b'a,b\nc,"d"e\n', "2", "cannot be read as CSV: ',' expected after '\"'"),
    ("l.tsv", b'a\tb\nc\t"d"e\n', "2", "cannot be read as CSV: '\\t' expected after '\"'"),
    ("l.csv", b'a,"' + b"x\n" * 100_000, "1", "cannot be read as CSV: field larger than"),
    ("l.csv", b"a,b\nc\0,d\n", "2", "got a NUL character, expected text"),
    ("l.csv", codecs.BOM_UTF16_LE + "a,b\nc".encode("utf-16-le") + b"x", "2", "cannot be decoded as utf-16"),
    ("l.csv", b"x" * 2_000_000, "1", "more than 1048576 characters in one line"),
    ("l.txt", b"a b\nc.jpg\n", "2", "no space between path and label"),
    ("l.txt", b"  c.jpg\n", "1", "no space between path and label"),
    ("l.jsonl", b'{"path": "a"}\n{"path": "b",}\n', "2", "not JSON: "),
    ("l.jsonl", b'[{"path": "a"}]\n', "1", "not a JSON object, expected one on each line"),
    ("l.jsonl", b'{"a": 1, "a": 2}\n', "1", "the key 'a' appears twice"),
    ("l.jsonl", b'{"a": NaN}\n', "1", "not JSON: NaN is not a number"),
    ("l.jsonl", b"[" * 100_000, "1", "not JSON: nested too deep"),
]


@pytest.mark.promise(37)
@pytest.mark.parametrize(("name", "content", "place", "problem"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_have_their_line(tmp_path: Path, name: str, content: bytes, place: str, problem: str) -> None:
    with pytest.raises(LabelFileError) as caught:
        rows(table(tmp_path, content, name))
    assert caught.value.place == f"{tmp_path / name}:{place}"
    assert caught.value.problem.startswith(problem)
    assert str(caught.value).isprintable()


def test_not_a_label_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.csv")  # opening it would wait for ever
    for name, problem in [
        ("none.csv", "No such file"),
        ("fifo.csv", "not a regular file"),
        (".", "not a regular file"),
    ]:
        with pytest.raises(LabelFileError, match=problem):
            LabelTable(tmp_path / name, None, None)
    with pytest.raises(LabelFileError, match=r"is an image, .*; give its folder"):
        table(tmp_path, "", "a.JPG")
    with pytest.raises(LabelFileError, match=r"got the extension '.json', expected one of .csv, .tsv"):
        table(tmp_path, "{}", "l.json")
    with pytest.raises(UsageError, match="format: got 'xml'"):
        table(tmp_path, "", format="xml")
    for delimiter in ("", "ab", '"', "\n"):
        with pytest.raises(UsageError, match="delimiter: got"):
            table(tmp_path, "", delimiter=delimiter)
    with pytest.raises(UsageError, match="delimiter: got"):
        table(tmp_path, "", format="text", delimiter=",")
