"""LabelFile: rows and files matched, and exact words for each way a label file goes wrong (RELIABILITY.md 35, 37)."""

import csv
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from object_images import image_file, put

from shardfeed.annotations import CAPTION, OBJECT_LABEL
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import AnnotationOptions, LabelOptions
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import LABEL, TEXT, Feature

from trees import plant


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """a.jpg, b.jpg and sub/c d.jpg."""
    return plant(tmp_path, "a.jpg", "b.jpg", "sub/c d.jpg")


def write(root: Path, content: bytes | str, name: str = "l.csv") -> Path:
    (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return root / name


def labels(source: LabelFile) -> dict[str, tuple[Any, Any]]:
    return {os.fsdecode(s.key): (s.features[LABEL], s.features[TEXT]) for s in source}


def refusal(root: Path, content: bytes | str, name: str = "l.csv", **options: Any) -> str:
    """Message that refuses a label file, without its path; its exit code must be 2."""
    path = write(root, content, name)
    with pytest.raises(LabelFileError) as caught:
        LabelFile(path, **options)
    assert caught.value.exit_code == 2
    line = str(caught.value)
    assert line.startswith(str(path))
    return line.removeprefix(str(path)).removeprefix(":").lstrip()


EXPECTED = {"a.jpg": (0, b"cat"), "b.jpg": (1, b"dog"), "sub/c d.jpg": (0, b"cat")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("l.csv", "path,label\na.jpg,cat\nb.jpg,dog\nsub/c d.jpg,cat\n"),
        ("l.csv", "a.jpg,cat\nb.jpg,dog\nsub/c d.jpg,cat\n"),
        ("l.csv", "label;Filename\ncat;a.jpg\ndog;b.jpg\ncat;sub/c d.jpg\n"),
        ("l.csv", 'path,label\n"a.jpg", cat \n./b.jpg,"dog"\nsub//../sub/c d.jpg,cat\n'),
        ("l.tsv", "image\tclass\na.jpg\tcat\nb.jpg\tdog\nsub/c d.jpg\tcat\n"),
        ("l.txt", "a.jpg cat\nb.jpg dog\nsub/c d.jpg cat\n"),
        ("l.txt", "path label\na.jpg   cat\nb.jpg\tdog\nsub/c d.jpg cat\n"),
        (
            "l.jsonl",
            '{"label":"cat","path":"a.jpg"}\n{"path":"b.jpg","label":"dog"}\n{"path":"sub/c d.jpg","label":"cat"}',
        ),
    ],
)
def test_formats(images: Path, name: str, content: str) -> None:
    source = LabelFile(write(images, content, name))
    assert labels(source) == EXPECTED
    assert source.schema.class_names == {LABEL: ("cat", "dog")}
    assert not source.findings.rejected
    assert not source.findings.notes


# --- RELIABILITY.md 37, in its order -------------------------------------------------------------------------------


@pytest.mark.promise(37)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks(images: Path, encoding: str) -> None:
    content = "path,label\na.jpg,cat\nb.jpg,dog\nsub/c d.jpg,cat\n"
    assert labels(LabelFile(write(images, content.encode(encoding)))) == EXPECTED
    assert refusal(images, "path,label\na.jpg,cat\nb.jpg,\n".encode(encoding)) == (
        "3, column 'label': got an empty cell, expected a label; fill it in, leave the row out, or give missing"
    )


@pytest.mark.promise(37)
def test_crlf_quotes_embedded_newline_blank_lines(tmp_path: Path) -> None:
    plant(tmp_path, "a\r\nb.jpg", 'q"q.jpg', "x,y.jpg")
    content = 'path,label\r\n\r\n"a\r\nb.jpg",cat\r\n"q""q.jpg",dog\r\n\r\n"x,y.jpg","cat"\r\n\r\n'
    assert labels(LabelFile(write(tmp_path, content))) == {
        "a\r\nb.jpg": (0, b"cat"),
        'q"q.jpg': (1, b"dog"),
        "x,y.jpg": (0, b"cat"),
    }
    # Said by the first line of its row.
    assert refusal(tmp_path, content.replace(",cat\r\n", ',""\r\n', 1)).startswith(
        "3, column 'label': got an empty cell"
    )


@pytest.mark.promise(37)
def test_header_or_none(images: Path) -> None:
    assert len(LabelFile(write(images, "x,y\na.jpg,cat\n"), header=True)) == 1
    assert LabelFile(write(images, "x,y\na.jpg,cat\n"), header=False).findings.rejected[0].key == b"x"
    assert LabelFile(write(images, "lost.jpg,cat\na.jpg,cat\n")).findings.rejected[0].reason == "l.csv:1: no such file"
    assert refusal(images, "x,y\na.jpg,cat\n") == (
        "1: the first row (x, y) has no file, and no column has a known name for paths; "
        "give header=True or header=False; path_column names the column of paths, in a file with a header"
    )
    plant(images, "path")  # a file called like a header's word is a file
    assert labels(LabelFile(write(images, "path,cat\na.jpg,dog\n"))) == {"a.jpg": (1, b"dog"), "path": (0, b"cat")}


@pytest.mark.promise(37)
def test_rows_that_say_the_same_are_a_note(images: Path) -> None:
    source = LabelFile(write(images, "a.jpg,cat\nb.jpg,dog\n./a.jpg,cat\nsub/c d.jpg,cat\na.jpg,cat\n"))
    assert labels(source) == EXPECTED
    assert source.findings.notes == ["duplicate rows: 2 (line 3, line 5)"]


@pytest.mark.promise(37)
def test_rows_that_contradict_each_other_are_an_error(images: Path) -> None:
    assert "expected 'cat' as in line 2" in refusal(images, "path,label\na.jpg,cat\nb.jpg,dog\n./a.jpg,dog\n")
    assert refusal(images, "path,label,split\na.jpg,cat,train\na.jpg,cat,test\n") == (
        "3, column 'split': got 'test', expected 'train' as in line 2 for the same file; remove one of the two rows"
    )
    # Also where there is no file: the label file contradicts itself.
    assert "3, column 1: got 'dog', expected 'cat'" in refusal(images, "a.jpg,cat\ngone.jpg,cat\ngone.jpg,dog\n")
    assert "(2 rows contradict earlier ones)" in refusal(images, "a.jpg,x\na.jpg,y\nb.jpg,x\nb.jpg,y\n")


@pytest.mark.promise(37)
def test_rows_without_file_are_rejected_and_counted(images: Path) -> None:
    content = "path,label\na.jpg,cat\ngone.jpg,dog\nb.jpg,cat\n.hidden.jpg,cat\n"
    source = LabelFile(write(plant(images, ".hidden.jpg"), content))
    assert [(s.key, s.code, s.reason) for s in source.findings.rejected] == [
        (b".hidden.jpg", "E_MISSING", "l.csv:5: hidden names are ignored"),
        (b"gone.jpg", "E_MISSING", "l.csv:3: no such file"),
    ]
    assert "paths in the label file without a file: 2 (gone.jpg, .hidden.jpg)" in source.findings.notes
    assert source.schema.class_names == {LABEL: ("cat", "dog")}  # a lost file shifts no label


@pytest.mark.promise(37)
def test_files_without_row_are_counted(images: Path) -> None:
    source = LabelFile(write(plant(images, "README"), "a.jpg,cat\n"))
    assert source.findings.notes == [
        "image files under the root without a row: 2 (b.jpg, sub/c d.jpg)",
        "other files under the root without a row: 1 (README)",
    ]
    assert not source.findings.rejected


def test_no_row_has_a_file(images: Path) -> None:
    assert refusal(images, "path,label\nimages/a.jpg,cat\nimages/b.jpg,dog\n") == (
        f"2, column 'path': none of 2 rows names a file under {images}: the first, 'images/a.jpg': no such file; "
        "a file there is 'a.jpg'; give the folder that paths are relative to as root"
    )
    path = write(images / "sub", "path,label\n/x/e.jpg,cat\n")
    with pytest.raises(LabelFileError, match=r"outside the root; a file .*; check that it is the folder of these"):
        LabelFile(path, images)
    assert refusal(images, "path,label\n") == "no rows after the header; write one row per image"
    assert refusal(images, "\n\n") == "no rows in it; write one row per image"


@pytest.mark.promise(37)
@pytest.mark.parametrize("path", ["../secret.jpg", "sub/../../secret.jpg", "{parent}/secret.jpg", "..", "/etc/passwd"])
def test_leaving_the_root_is_an_escape(images: Path, path: str) -> None:
    root = plant(images / "root", "a.jpg")
    plant(images, "secret.jpg")
    path = path.format(parent=images)
    source = LabelFile(write(root, f"a.jpg,cat\n{path},dog\n"))
    assert [(os.fsdecode(s.key), s.code, s.reason) for s in source.findings.rejected] == [
        (path, "E_PATH_ESCAPE", "l.csv:2: it points outside the root")
    ]


@pytest.mark.promise(37)
def test_an_absolute_path_inside_the_root_is_fine(tmp_path: Path) -> None:
    plant(tmp_path / "real", "a.jpg", "b.jpg")
    (tmp_path / "link").symlink_to("real")
    content = f"{tmp_path}/real/a.jpg,cat\n{tmp_path}/link/b.jpg,dog\n"
    source = LabelFile(write(tmp_path, content), tmp_path / "link")
    assert labels(source) == {"a.jpg": (0, b"cat"), "b.jpg": (1, b"dog")}


@pytest.mark.promise(37)
def test_not_an_integer(images: Path) -> None:
    rows = "path,label\na.jpg,0\nb.jpg,{}\nsub/c d.jpg,1\n"
    assert refusal(images, rows.format("x")).startswith(
        "3, column 'label': got 'x', expected an integer as in other rows"
    )
    assert refusal(images, rows.format("1.5")).startswith("3, column 'label': got '1.5', expected an integer")
    assert "2, column 1: got '7', expected a name" in refusal(images, "a.jpg,cat\nb.jpg,7\nsub/c d.jpg,dog\n")
    assert refusal(images, rows.format("0.5\x08")).startswith("3, column 'label': got '0.5\\x08', expected an integer")


@pytest.mark.promise(37)
def test_negative_and_shifted_integers(images: Path) -> None:
    assert refusal(images, "path,label\na.jpg,0\nb.jpg, -1\n").startswith("3, column 'label': got the label -1")
    assert refusal(images, "path,label\na.jpg,2\nb.jpg,1\n").startswith(
        "3, column 'label': got 2 integer labels from 1 to 2, expected 0 to 1: labels start at 1, not at 0; "
    )
    assert refusal(images, "a.jpg,0\nb.jpg,2\n").startswith("2, column 1: got 2 integer labels from 0 to 2")


def test_a_class_list(images: Path) -> None:
    by_name = write(images, "a.jpg,dog\nb.jpg,cat\n")
    assert labels(LabelFile(by_name, class_names=["dog", "cow", "cat"])) == {"a.jpg": (0, b"dog"), "b.jpg": (2, b"cat")}
    (images / "classes").write_text("dog\ncow\ncat\n")
    assert labels(LabelFile(by_name, class_names=images / "classes"))["b.jpg"] == (2, b"cat")
    assert labels(LabelFile(by_name, class_names={"column2": ["cat", "dog"]}))["b.jpg"] == (0, b"cat")
    by_number = write(images, "a.jpg,2\nb.jpg,0\n")
    assert labels(LabelFile(by_number, class_names=["dog", "cow", "cat"])) == {
        "a.jpg": (2, b"cat"),
        "b.jpg": (0, b"dog"),
    }
    with pytest.raises(UsageError, match="class_names: got the column 'x', expected one of column2"):
        LabelFile(by_number, class_names={"x": ["a"]})


@pytest.mark.promise(37)
def test_an_unknown_class(images: Path) -> None:
    assert refusal(images, "path,label\na.jpg,dog\nb.jpg,cta\n", class_names=["cat", "dog"]) == (
        "3, column 'label': got the class 'cta', expected one of the class list (cat, dog); did you mean 'cat'?"
    )
    assert "got the label 2, expected 0 to 1" in refusal(images, "a.jpg,0\nb.jpg,2\n", class_names=["cat", "dog"])


@pytest.mark.promise(37)
def test_spaces_in_the_path_of_path_label(tmp_path: Path) -> None:
    plant(tmp_path, "my  photo 1.jpg", " lead.jpg")
    source = LabelFile(write(tmp_path, "my  photo 1.jpg 0\n lead.jpg\t1 \n", "l.txt"))
    assert labels(source) == {" lead.jpg": (1, b"1"), "my  photo 1.jpg": (0, b"0")}
    assert refusal(tmp_path, " lead.jpg 0\nx.jpg\n", "l.txt").startswith("2: no space between path and label")


@pytest.mark.promise(37)
def test_rows_of_another_width(images: Path) -> None:
    assert refusal(images, "path,label\na.jpg,cat\nx, y.jpg,cat\n") == (
        "3: got 3 cells, expected 2 as in the first row; quote cells that contain the delimiter"
    )
    assert refusal(images, "path,label\na.jpg\n").startswith("2: got 1 cells, expected 2")


@pytest.mark.parametrize("row", [",cat", '" ",cat'])
def test_an_empty_path(images: Path, row: str) -> None:
    assert refusal(images, f"a.jpg,cat\n{row}\n").startswith("2, column 0: got an empty path")


def test_labels_that_are_no_text(images: Path) -> None:
    assert refusal(images, b"a.jpg,cat\nb.jpg,d\xf6g\n").startswith("2, column 1: got the class name 'd\\udcf6g'")
    assert refusal(images, 'a.jpg,cat\nb.jpg,"d\nog"\n').startswith("2, column 1: got the class name 'd\\nog'")


# --- RELIABILITY.md 35: names --------------------------------------------------------------------------------------


@pytest.mark.promise(35)
def test_a_path_is_found_exactly_else_by_unique_unicode_form(tmp_path: Path) -> None:
    nfc, nfd = "caf\u00e9.jpg", "cafe\u0301.jpg"
    plant(tmp_path, f"one/{nfd}", f"two/{nfc}", f"two/{nfd}", "u\u0308/\u00e9.jpg", "\u00fc/e\u0301.jpg")
    source = LabelFile(write(tmp_path, f"one/{nfc},cat\ntwo/{nfc},dog\ntwo/{nfd},cat\n\u00fc/\u00e9.jpg,dog\n"))
    assert labels(source) == {f"one/{nfd}": (0, b"cat"), f"two/{nfc}": (1, b"dog"), f"two/{nfd}": (0, b"cat")}
    assert [(s.code, s.reason) for s in source.findings.rejected] == [
        ("E_MISSING", "l.csv:4: no such file, and 2 files that differ from it in Unicode form")
    ]
    # Two rows that mean the same file contradict each other whichever way they are written.
    assert "got 'dog', expected 'cat' as in line 1" in refusal(tmp_path, f"one/{nfc},cat\none/{nfd},dog\n")


@pytest.mark.promise(35)
def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    plant(tmp_path, b"caf\xe9.jpg", "b.jpg")
    assert LabelFile(write(tmp_path, b"caf\xe9.jpg,cat\nb.jpg,dog\n"))[1].key == b"caf\xe9.jpg"
    source = LabelFile(write(tmp_path, '{"path": "caf\\udce9.jpg", "label": "x"}\n', "l.jsonl"))
    assert source[0].key == b"caf\xe9.jpg"
    assert refusal(tmp_path, '{"path": "\\ud800.jpg", "label": "x"}\n', "l.jsonl").startswith(
        "1, column 'path': the path is not Unicode"
    )


# --- RELIABILITY.md 36: what the walk found ------------------------------------------------------------------------


def test_a_row_gets_the_code_of_what_it_names(images: Path) -> None:
    (images / "out.jpg").symlink_to("/etc/passwd")
    (images / "outside").symlink_to("/etc")
    os.mkfifo(images / "fifo.jpg")
    os.mkfifo(images / "other.jpg")
    source = LabelFile(write(images, "a.jpg,x\nout.jpg,x\nfifo.jpg,x\noutside/passwd,x\n"))
    assert {s.key: s.code for s in source.findings.rejected} == {
        b"fifo.jpg": "E_NOT_REGULAR",
        b"out.jpg": "E_PATH_ESCAPE",
        b"outside/passwd": "E_PATH_ESCAPE",
    }
    assert source.findings.notes[-1] == (
        "unreadable inputs under the root, in no row: 2 (other.jpg: E_NOT_REGULAR, outside: E_PATH_ESCAPE)"
    )


def test_a_row_may_go_through_a_link_to_a_folder(images: Path) -> None:
    (images / "alias").symlink_to("sub")
    (images / "here").symlink_to(".")
    source = LabelFile(write(images, "alias/c d.jpg,cat\nhere/a.jpg,dog\n"))
    assert [s.key for s in source] == [b"a.jpg", b"sub/c d.jpg"]
    assert "got 'dog', expected 'cat' as in line 1" in refusal(images, "alias/c d.jpg,cat\nsub/c d.jpg,dog\n")


# --- columns -------------------------------------------------------------------------------------------------------

TABLE = "id_,path,label,breed,age,score,split\n1,a.jpg,cat,siam,3,0.5,train\n2,b.jpg,dog,pug,7,2,val\n"


def test_several_label_columns(images: Path) -> None:
    source = LabelFile(write(images, TABLE), label_columns=["label", "breed", "age", "score"])
    assert source.schema.features == {
        LABEL: Feature("int64", (), "label"),
        TEXT: Feature("bytes", (), "text"),
        "image/breed/label": Feature("int64", (), "label"),
        "image/breed/text": Feature("bytes", (), "text"),
        "image/age": Feature("int64", (), "number"),
        "image/score": Feature("float32", (), "number"),
    }
    assert source[0].features == {
        LABEL: 0,
        TEXT: b"cat",
        "image/breed/label": 1,
        "image/breed/text": b"siam",
        "image/age": 3,
        "image/score": 0.5,
    }
    assert source.schema.class_names == {LABEL: ("cat", "dog"), "image/breed/label": ("pug", "siam")}
    assert [s.split for s in source] == ["train", "validation"]
    assert source.findings.notes[:2] == [
        "column age: integers that are not 0 to K-1 are stored as numbers, not as classes",
        "unused columns: 1 (id_)",
    ]


def test_columns_by_number_and_without_header(images: Path) -> None:
    content = TABLE.partition("\n")[2]
    source = LabelFile(write(images, content), path_column=1, label_columns=[2, 3], split_column=6)
    assert set(source.schema.features) == {LABEL, TEXT, "image/column4/label", "image/column4/text"}
    assert source[1].split == "validation"
    assert refusal(images, content, path_column=1).startswith("1: got the columns 0, 1, 2, ")


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("path,x,y\na.jpg,1,2\n", {}, "1: got the columns path, x, y: none of them has a known name for labels; give"),
        ("path,label,class\na.jpg,1,2\n", {}, "2 of them has a known name for labels; give label_columns"),
        ("path\na.jpg\n", {}, "there is only the path column; give delimiter or format, or"),
        ("path,label\na.jpg,1\n", {"label_columns": ["lable"]}, "there is no column 'lable'; name one of these"),
        ("path,label\na.jpg,1\n", {"label_columns": [2]}, "there is no column 2;"),
        ("path,label\na.jpg,1\n", {"label_columns": [-1]}, "there is no column -1;"),
        ("path,label,label\na.jpg,1,2\n", {}, "1: two columns are named 'label'; rename one"),
        (
            "path,label,height\na.jpg,0,1.5\n",
            {"label_columns": ["label", "height"]},
            "1: the column 'height' cannot be",
        ),
        ("path,label,class\na.jpg,0,x\n", {"label_columns": ["label", "class"]}, "1: the column 'class' cannot be"),
        ("path,label,split\na.jpg,x,1st\n", {}, "2, column 'split': the split: got the name '1st', expected a letter"),
        ("path,label,split\na.jpg,x,\n", {}, "2, column 'split': the split: got the name ''"),
    ],
)
def test_columns_that_cannot_be_meant(images: Path, content: str, options: dict[str, Any], words: str) -> None:
    assert words in refusal(images, content, **options)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("l.csv", {"label_columns": "label"}, "label_columns: got 'label', expected a list of "),
        ("l.csv", {"label_columns": ["path"]}, "label_columns: the columns in use are path, path;"),
        ("l.jsonl", {"header": True}, "header: JSON Lines and Parquet"),
    ],
)
def test_arguments_that_cannot_be_meant(images: Path, name: str, options: dict[str, Any], words: str) -> None:
    content = "path,label\na.jpg,x\n" if name == "l.csv" else '{"path": "a.jpg", "label": "x"}'
    with pytest.raises(UsageError) as caught:
        LabelFile(write(images, content, name), **options)
    assert str(caught.value).startswith(words)


def test_numbers_in_the_first_label_column(images: Path) -> None:
    source = LabelFile(write(images, "a.jpg,1.5\nb.jpg,-2e-1\nsub/c d.jpg,3\n"))
    assert source.schema.features == {"image/class/value": Feature("float32", (), "number")}
    assert source.schema.class_names == {}
    assert [s.features["image/class/value"] for s in source] == [1.5, float(np.float32(-0.2)), 3.0]
    assert "got 1e+39, expected a number that fits float32" in refusal(images, "a.jpg,1.5\nb.jpg,1e39\n")


def test_a_class_for_every_row_is_told(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{i}.jpg" for i in range(21)))
    rows = "".join(f"{i}.jpg,caption {i}\n" for i in range(21))
    said = refusal(tmp_path, rows)
    assert said.startswith("1, column 1: not known to be classes: 21 of 21 values differ")
    assert LabelFile(write(tmp_path, rows), text_columns=[1]).schema.features == {
        "image/column2": Feature("bytes", (), "text")
    }
    assert not LabelFile(write(tmp_path, rows), label_columns=[]).schema.features
    source = LabelFile(write(tmp_path, rows), label_columns=[1])
    option = "--text-column (in Python text_columns) keeps them as text"
    assert source.findings.notes == [f"column column2: 21 classes in 21 rows; {option}"]


LEFT_OVER = {
    "addresses": ("link", ["https://a.org/1", "https://a.org/2", "https://a.org/1"]),
    "documents": ("extra", ['{"x": 1}', '{"x": 1}', '{"y": 2}']),
    "run lengths": ("rle", ["1 3 10 5", "2 4", "1 3 10 5"]),
    "runs all different": ("runs", ["1 3 10 5", "2 4 9 2", "3 1 7 7"]),
    "paths": ("mask", ["m/a.png", "m/b.png", "m/c.png"]),
    "times": ("taken", ["2024-01-02", "2024-01-02", "2024-03-04"]),
    "hashes": ("checksum", ["0123456789abcdef", "0123456789abcdef", "f" * 16]),
    "patients": ("patient_id", ["P1", "P1", "P2"]),
    "subjects, in camel case": ("subjectId", ["S-1", "S-1", "S-2"]),
    "studies, of DICOM": ("StudyInstanceUID", ["P1", "P1", "P2"]),
    "series, in one word": ("seriesuid", ["1.2.840.1", "1.2.840.1", "1.2.840.2"]),
    "remarks": ("comment", ["blurry", "good", "good"]),
    "sentences": ("about", ["a dog on a red sofa", "two cats sleep in the sun", "a man rides a horse"]),
    "one class for each image": ("thing", ["ant", "bee", "cat"]),
}


@pytest.mark.parametrize(
    ("column", "file"),
    [*((column, "l.csv") for column in LEFT_OVER), ("documents", "l.jsonl"), ("sentences", "l.parquet")],
)
def test_a_column_left_over_is_no_class_without_evidence(images: Path, column: str, file: str) -> None:
    """Each way of the remedy works as typed: texts, classes, groups, or without it."""
    name, cells = LEFT_OVER[column]
    paths = ["a.jpg", "b.jpg", "sub/c d.jpg"]
    rows = [{"path": path, name: cell} for path, cell in zip(paths, cells, strict=True)]
    path = images / file
    if file == "l.csv":
        with open(path, "w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif file == "l.jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    with pytest.raises(LabelFileError, match=f"column '{name}': not known to be classes: ") as caught:
        open_source(path)
    line = str(caught.value)
    for way in (
        f"text_columns=['{name}'] for texts",
        f"label_columns=['{name}'] for classes",
        "label_columns=[] to leave",
    ):
        assert way in line
    assert f"group_column='{name}' with split for groups" in line
    text = open_source(path, options=LabelOptions(text_columns=[name]))
    assert [text[i].features[f"image/{name}"] for i in range(3)] == [cell.encode() for cell in cells]
    label = open_source(path, options=LabelOptions(label_columns=[name]))
    assert LABEL in label.schema.features
    group = open_source(path, options=LabelOptions(group_column=name))
    assert group.schema.features == {f"image/{name}": Feature("bytes", (), "text")}
    assert not open_source(path, options=LabelOptions(unlabelled=True)).schema.features


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("breed", ["pug", "boxer", "pug"]),
        ("grade", ["2", "0", "1"]),
        ("kind", ["a", "b"]),
        ("mask", ["worn", "none", "worn"]),
    ],
)
def test_a_column_of_few_classes_is_the_label(images: Path, name: str, cells: list[str]) -> None:
    rows = zip(["a.jpg", "b.jpg", "sub/c d.jpg"], cells, strict=False)
    source = LabelFile(write(images, f"path,{name}\n" + "".join(f"{path},{cell}\n" for path, cell in rows)))
    assert source.schema.class_names[LABEL] == tuple(sorted({*cells}))


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
@pytest.mark.parametrize(
    ("name", "cells", "key"),
    [
        ("breed", ["pug", "boxer", "pug"], LABEL),
        ("label", ["2", "0", "1"], LABEL),
        ("caption", ["a dog that runs", "a dog that sits", "a cat in the rain"], CAPTION),
    ],
)
def test_the_index_of_pandas_is_no_column(images: Path, index: str, name: str, cells: list[str], key: str) -> None:
    rows = zip(range(3), ["a.jpg", "b.jpg", "sub/c d.jpg"], cells, strict=True)
    lines = [f"{index},path,{name}", *(",".join(map(str, row)) for row in rows)]
    source = open_source(write(images, "\n".join(lines) + "\n"))
    assert [key in one.features for one in source] == [True] * 3
    assert f"unused columns: 1 ({index or 'column1'})" in info_of(source).findings.notes


def test_lists_that_are_left_over_need_evidence_too(images: Path) -> None:
    rows = [
        {"path": "a.jpg", "remark": ["a red dog on a sofa", "it is very blurry here"]},
        {"path": "b.jpg", "remark": ["a cat"]},
    ]
    said = refusal(images, "".join(json.dumps(row) + "\n" for row in rows), "l.jsonl")
    assert "column 'remark': not known to be classes: its values are sentences" in said
    rows = [{"path": "a.jpg", "things": ["cat", "dog"]}, {"path": "b.jpg", "things": ["dog"]}]
    source = LabelFile(write(images, "".join(json.dumps(row) + "\n" for row in rows), "l.jsonl"))
    assert source.schema.class_names[LABEL] == ("cat", "dog")


def test_a_label_whose_values_are_files_is_refused(images: Path) -> None:
    """Masks in the column `label`: a known name is no evidence against the values."""
    assert "its values are paths, such as 'm/a.png'" in refusal(images, "image,label\na.jpg,m/a.png\nb.jpg,m/b.png\n")
    assert "its values are addresses" in refusal(images, "image,label\na.jpg,https://x.org/a\nb.jpg,https://x.org/b\n")


def test_lines_of_two_paths_are_no_classes(images: Path) -> None:
    """DeepLab's train_aug.txt: an image and its mask in each line."""
    lines = "a.jpg masks/a.png\nb.jpg masks/b.png\n"
    said = refusal(images, lines, "train_aug.txt")
    assert "column 1: not known to be classes: its values are paths, such as 'masks/a.png'" in said
    path = images / "train_aug.txt"
    for options in ({"label_columns": []}, {"text_columns": [1]}, {"label_columns": [1]}):
        assert len(LabelFile(path, **options)) == 2


MARKS = {
    "lists": ("l.jsonl", [[0, 1, 0], [1, 0, 1], [0, 0, 0]]),
    "floats": ("l.jsonl", [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    "booleans": ("l.jsonl", [[False, True, False], [True, False, True], [False, False, False]]),
    "pandas": ("l.csv", ["[0, 1, 0]", "[1, 0, 1]", "[0, 0, 0]"]),
    "numpy": ("l.csv", ["[0. 1. 0.]", "[1. 0. 1.]", "[0. 0. 0.]"]),
    "blanks": ("l.csv", ["0 1 0", "1 0 1", "0 0 0"]),
}


@pytest.mark.parametrize("form", MARKS)
def test_a_number_for_each_class_is_a_set_of_classes(images: Path, form: str) -> None:
    name, cells = MARKS[form]
    paths = ["a.jpg", "b.jpg", "sub/c d.jpg"]
    if name == "l.csv":
        path = write(images, "path,labels\n" + "".join(f'{p},"{c}"\n' for p, c in zip(paths, cells, strict=True)))
    else:
        rows = [{"path": p, "labels": c} for p, c in zip(paths, cells, strict=True)]
        path = write(images, "".join(json.dumps(row) + "\n" for row in rows), name)
    source = LabelFile(path)
    assert [source[i].features[LABEL] for i in range(3)] == [[1], [0, 2], []]
    assert source.schema.class_names[LABEL] == ("0", "1", "2")
    assert LabelFile(path, class_names=["x", "y", "z"])[1].features[TEXT] == [b"x", b"z"]
    assert source.findings.notes[0].startswith("column labels, lists of 0 and 1: 0 to 2 ones per row, so a sample has")
    with pytest.raises(LabelFileError, match="got 3 numbers of 0 and 1 for 2 class names"):
        LabelFile(path, class_names=["x", "y"])


@pytest.mark.parametrize(
    ("name", "other", "third"),
    [("val.txt", "train.txt", "x.txt"), ("labels_val.csv", "labels_train.csv", "labels.csv")],
)
def test_label_files_of_other_splits_are_named(images: Path, name: str, other: str, third: str) -> None:
    content = "a.jpg 0\nb.jpg 0\n" if name.endswith(".txt") else "path,label\na.jpg,0\nb.jpg,0\n"
    for file in (name, other, third):
        write(images, content, file)
    notes = open_source(images, options=LabelOptions(labels=images / name)).findings.notes
    assert any(f"label files of other splits beside this one, not read: 1 ({other});" in note for note in notes)
    assert not [note for note in LabelFile(images / third).findings.notes if "other splits" in note]


def test_the_remedy_asks_for_another_folder_than_the_one_that_was_given(images: Path) -> None:
    path = write(images, "path,label\nimages/a.jpg,cat\nimages/b.jpg,dog\n")
    with pytest.raises(LabelFileError, match="give the folder that paths are relative to as root, instead of"):
        LabelFile(path, images)


def test_json_lines_in_a_json_file(images: Path) -> None:
    rows = '{"source": "a.jpg", "target": "b.jpg", "prompt": "a red dog"}\n' * 2
    path = write(images, rows, "prompt.json")
    options = LabelOptions(labels=path, path_column="target", text_columns=["prompt"])
    for source in (
        open_source(images, options=options),
        LabelFile(path, path_column="target", text_columns=["prompt"]),
    ):
        assert [sample.features for sample in source] == [{"image/prompt": b"a red dog"}]
    with pytest.raises(LabelFileError, match="no key has a known name for the path; give path_column"):
        open_source(images, options=LabelOptions(labels=path))
    assert labels(LabelFile(write(images, '{"path": "a.jpg", "label": "x"}\n' * 2, "l.json"))) == {"a.jpg": (0, b"x")}


def test_lists_of_class_numbers_stay_class_numbers(images: Path) -> None:
    rows = [{"path": "a.jpg", "labels": [0, 2]}, {"path": "b.jpg", "labels": [1]}]
    source = LabelFile(write(images, "".join(json.dumps(row) + "\n" for row in rows), "l.jsonl"))
    assert [source[i].features[LABEL] for i in range(2)] == [[0, 2], [1]]
    rows = [{"path": "a.jpg", "labels": [0, 0, 1]}, {"path": "b.jpg", "labels": [1, 0]}]
    said = refusal(images, "".join(json.dumps(row) + "\n" for row in rows), "l.jsonl")
    assert "got a list of 0 and 1 that repeats one, and lists of other lengths" in said


# --- JSON Lines ----------------------------------------------------------------------------------------------------


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_lists_are_ragged_features(images: Path) -> None:
    content = jsonl(
        {"path": "a.jpg", "label": "cat", "box": [1, 2, 30], "weights": [1, 0.5], "tags": ["b", "a"], "extra": {}},
        {"path": "b.jpg", "label": "dog", "box": [], "weights": [], "tags": [], "extra": 0},
        {"path": "sub/c d.jpg", "label": "dog", "box": [-(2**63)], "weights": [2], "tags": ["a"]},
    )
    source = LabelFile(write(images, content, "l.jsonl"), label_columns=["label", "box", "weights", "tags"])
    assert source.schema.features["image/box"] == Feature("int64", (None,), "place")
    assert source.schema.features["image/weights"] == Feature("float32", (None,), "number")
    assert source.schema.features["image/tags/label"] == Feature("int64", (None,), "label")
    assert source.schema.features["image/tags/text"] == Feature("bytes", (None,), "text")
    assert source.schema.class_names["image/tags/label"] == ("a", "b")
    assert source[0].features == {
        LABEL: 0,
        TEXT: b"cat",
        "image/box": [1, 2, 30],
        "image/weights": [1.0, 0.5],
        "image/tags/label": [1, 0],
        "image/tags/text": [b"b", b"a"],
    }
    assert source[1].features["image/box"] == source[1].features["image/tags/text"] == []
    assert source[2].features["image/box"] == [-(2**63)]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ('{"path": "b.jpg"}', "2: the object has no key 'label'; add it"),
        ('{"path": "b.jpg", "label": null}', "2, column 'label': got an empty cell, expected a label"),
        (
            '{"path": "b.jpg", "label": {"a": 1}}',
            "2, column 'label': got an object or a list in a list, expected a value or",
        ),
        ('{"path": "b.jpg", "label": ["x"]}', "2, column 'label': got a list, expected a value as in other rows"),
        (
            '{"path": ["b.jpg"], "label": "x"}',
            "2, column 'path': got a list or an object, expected the path of an image",
        ),
        ('{"path": "", "label": "x"}', "2, column 'path': got an empty path"),
    ],
)
def test_json_that_is_no_row(images: Path, second: str, words: str) -> None:
    assert refusal(images, '{"path": "a.jpg", "label": "x"}\n' + second, "l.jsonl").startswith(words)


def test_json_columns_that_cannot_be_numbers(images: Path) -> None:
    assert refusal(images, jsonl({"path": "a.jpg", "label": []}), "l.jsonl").startswith(
        "1, column 'label': every list is empty"
    )
    big = jsonl({"path": "a.jpg", "label": "x", "n": [2**63]})
    said = refusal(images, big, "l.jsonl", label_columns=["label", "n"])
    assert said.startswith("1, column 'n': got 9223372036854775808, expected a number that fits int64")
    assert refusal(images, jsonl({"where": "a.jpg", "label": "x"}), "l.jsonl").endswith(
        "known name for the path; give path_column"
    )
    found = LabelFile(write(images, jsonl({"where": "a.jpg", "label": True}), "l.jsonl"), path_column="where")
    assert found[0].features[TEXT] == b"true"


# --- ids without extension -----------------------------------------------------------------------------------------


def test_ids_without_extension(images: Path) -> None:
    source = LabelFile(write(images, "id,label\na,cat\nb,dog\nsub/c d,cat\n"))
    assert labels(source) == EXPECTED
    assert source.findings.notes == ["image names matched without extension or folder: 3 ('a' is 'a.jpg')"]
    headless = LabelFile(write(images, "a,cat\nb,dog\ngone,cat\n"))
    assert labels(headless) == {"a.jpg": (0, b"cat"), "b.jpg": (1, b"dog")}
    assert [skipped.key for skipped in headless.findings.rejected] == [b"gone"]


def test_ids_below_a_folder(tmp_path: Path) -> None:
    plant(tmp_path, "train/0a.jpg", "train/0b.v2.jpg", "train/0a.json", "test/0c.jpg")
    source = LabelFile(write(tmp_path, "id_code,diagnosis\n0a,cat\n0b.v2,dog\n"))
    assert [s.key for s in source] == [b"train/0a.jpg", b"train/0b.v2.jpg"]
    with_extension = LabelFile(write(tmp_path, "id,label\n0a.jpg,cat\n0c.jpg,dog\n"))
    assert [s.key for s in with_extension] == [b"test/0c.jpg", b"train/0a.jpg"]
    # From the root on comes first, whatever lies below.
    plant(tmp_path, "0a.jpg", "other/0a.jpg")
    assert [s.key for s in LabelFile(write(tmp_path, "id,label\n0a,cat\n"))] == [b"0a.jpg"]


def test_an_id_of_two_images_is_an_error(tmp_path: Path) -> None:
    plant(tmp_path, "train/0a.jpg", "masks/0a.png", "train/0b.jpg")
    assert refusal(tmp_path, "id,label\n0b,dog\n0a,cat\n") == (
        "3, column 'id': '0a' may be masks/0a.png or train/0a.jpg; "
        "write the path, or give the folder of these images as root"
    )


def test_a_table_with_one_whole_path_has_no_ids(images: Path) -> None:
    """It is decided for the whole table, not row by row."""
    source = LabelFile(write(images, "id,label\na.jpg,cat\nb,dog\n"))
    assert [s.key for s in source] == [b"a.jpg"]
    assert [(skipped.key, skipped.code) for skipped in source.findings.rejected] == [(b"b", "E_MISSING")]


# --- several labels ------------------------------------------------------------------------------------------------


def test_a_class_that_a_cell_names_twice_is_once_in_the_set(images: Path) -> None:
    rows = "path,label,parts\na.jpg,haze haze caf\u00e9 cafe\u0301,x|x|y|\nb.jpg,haze,y\nsub/c d.jpg,,\n"
    options: dict[str, Any] = {"label_columns": ["label", "parts"], "label_separator": {"label": " ", "parts": "|"}}
    source = LabelFile(write(images, rows), **options)
    assert [s.features[LABEL] for s in source] == [[1, 0], [1], []]
    assert source[0].features[TEXT] == [b"haze", "caf\u00e9".encode()]
    assert [s.features["image/parts/label"] for s in source] == [[0, 1], [1], []]
    assert source.schema.of_kind("tags") == [LABEL, "image/parts/label"]
    twice = [note for note in source.findings.notes if "repeat a class" in note]
    assert twice == [
        "column label: 1 of 3 cells repeat a class, which is stored once",
        "column parts: 1 of 3 cells repeat a class, which is stored once",
    ]


def test_classes_of_objects_are_no_set(images: Path) -> None:
    """There each is of an object, beside its box: two cups are two."""
    rows = "path,object/class\na.jpg,cup cup\nb.jpg,\n"
    source = LabelFile(write(images, rows), label_columns=["object/class"], label_separator={"object/class": " "})
    assert source.schema.kind("image/object/class/label") == "label"
    assert source[0].features["image/object/class/label"] == [0, 0]
    listed = jsonl(
        {"path": "a.jpg", "names": "cup cup", "xmin": [0.1, 0.5]}, {"path": "b.jpg", "names": "", "xmin": []}
    )
    source = LabelFile(
        write(images, listed, "l.jsonl"), label_columns=["names"], number_columns=["xmin"], label_separator=" "
    )
    assert source.schema.of_kind("tags") == []
    assert source[0].features[LABEL] == [0, 0]


def test_a_separator_of_another_column(images: Path) -> None:
    rows = "path,label,parts\na.jpg,x,0 5\nb.jpg,y,5\nsub/c d.jpg,x,0\n"
    options: dict[str, Any] = {"label_columns": ["label", "parts"]}
    said = refusal(images, rows, **options)
    assert said.startswith("2, column 'parts': got '0 5', expected an integer as in other rows")
    source = LabelFile(write(images, rows.replace("5", "1")), label_separator={"parts": " "}, **options)
    assert [s.features["image/parts/label"] for s in source] == [[0, 1], [1], [0]]
    assert source[0].features[LABEL] == 0
    with pytest.raises(UsageError, match="label_separator: got the column 'tags', expected one of label, parts"):
        LabelFile(write(images, rows), label_separator={"tags": " "}, **options)


def test_cells_that_look_like_several_labels_are_told(tmp_path: Path) -> None:
    tags = ["clear", "haze", "road", "clear haze", "clear road", "haze road", "road haze", "clear haze road"]
    plant(tmp_path, *(f"{i}.jpg" for i in range(len(tags))))
    rows = "".join(f"{i}.jpg,{tag}\n" for i, tag in enumerate(tags))
    assert LabelFile(write(tmp_path, rows)).findings.notes == [
        "column column2: 8 classes look like combinations of 3 (clear, haze, road); "
        "--label-separator ' ' (in Python label_separator=' ') splits them"
    ]
    numbers = "".join(f"{i}.jpg,{tag}\n" for i, tag in enumerate(["0", "1", "2", "0 1", "0 2", "1 2", "2 1"]))
    said = refusal(tmp_path, "path,label\n" + numbers)
    assert said.endswith("several labels in a cell: give label_separator=' '")
    breeds = ["golden retriever", "labrador retriever", "great dane", "pug", "basset hound", "afghan hound"]
    source = LabelFile(write(tmp_path, "".join(f"{i}.jpg,{breed}\n" for i, breed in enumerate(breeds))))
    assert not any("combinations" in note for note in source.findings.notes)


def test_one_hot_columns(images: Path) -> None:
    rows = "path,cat,dog,site\na.jpg,1,0,x\nb.jpg,0,1,y\nsub/c d.jpg,1.0,0.0,x\n"
    source = LabelFile(write(images, rows), one_hot=["cat", "dog"], label_columns=["site"])
    assert labels(source) == EXPECTED
    assert source.schema.features[LABEL] == Feature("int64", (), "label")
    assert source.schema.class_names["image/site/label"] == ("x", "y")
    several = LabelFile(write(images, rows.replace("b.jpg,0,1", "b.jpg,1,1")), one_hot=["cat", "dog"])
    assert several.schema.features[LABEL] == Feature("int64", (None,), "tags")
    assert [s.features[LABEL] for s in several] == [[0], [0, 1], [0]]
    assert several.findings.notes[0].startswith("2 columns: 1 to 2 ones per row, so a sample has several classes")
    renamed = LabelFile(write(images, rows), one_hot=["cat", "dog"], class_names=["Felis", "Canis"])
    assert renamed.schema.class_names[LABEL] == ("Felis", "Canis")
    assert refusal(images, rows.replace("b.jpg,0", "b.jpg,2"), one_hot=["cat", "dog"]) == (
        "3, column 'cat': got '2', expected 0 or 1; correct it, or leave the column out"
    )
    uncertain = LabelFile(write(images, rows.replace("b.jpg,0", "b.jpg,")), one_hot=["cat", "dog"], missing={"cat": 0})
    assert labels(uncertain) == EXPECTED
    assert refusal(images, "path,cat,dog\na.jpg,1,0\n").endswith(
        "give one_hot with the columns of 0 and 1 (or -1 and 1), or label_columns"
    )


# --- what is no class ----------------------------------------------------------------------------------------------


def test_texts_stay_texts(images: Path) -> None:
    content = jsonl(
        {"path": "a.jpg", "caption": "two\ndogs", "id": 1.50, "said": ["x", "y"]},
        {"path": "b.jpg", "caption": "", "id": "P-7", "said": []},
    )
    source = LabelFile(write(images, content, "l.jsonl"), text_columns=["caption", "id", "said"])
    assert source.schema.features == {
        "image/caption": Feature("bytes", (), "text"),
        "image/id": Feature("bytes", (), "text"),
        "image/said": Feature("bytes", (None,), "text"),
    }
    assert source.schema.class_names == {}
    assert source[0].features == {"image/caption": b"two\ndogs", "image/id": b"1.5", "image/said": [b"x", b"y"]}
    assert source[1].features["image/caption"] == b""
    # A label by its usual name stays the class.
    both = LabelFile(write(images, "path,label,caption\na.jpg,cat,one\nb.jpg,dog,two\n"), text_columns=["caption"])
    assert set(both.schema.features) == {LABEL, TEXT, "image/caption"}
    assert refusal(images, b"path,caption\na.jpg,caf\xe9\n", text_columns=["caption"]) == (
        "2, column 'caption': got 'caf\\udce9', which is not UTF-8; give encoding='latin-1', or another encoding"
    )


def test_several_texts_of_an_image_are_a_list(images: Path) -> None:
    said = refusal(images, "path,caption\na.jpg,one\na.jpg,two\n", text_columns=["caption"])
    assert said.endswith(
        "remove one of the two rows; several texts per image are a list in one row (JSON Lines), "
        "or reader='captions' converts only the texts"
    )


def test_many_captions_as_classes_are_an_error(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{i}.jpg" for i in range(1001)))
    rows = "path,label\n" + "".join(f"{i}.jpg,picture {i}\n" for i in range(1001))
    assert refusal(tmp_path, rows).startswith("2, column 'label': got 1001 classes in 1001 rows, the first 'picture 0'")
    assert len(LabelFile(write(tmp_path, rows), label_columns=["label"])) == 1001
    assert len(LabelFile(write(tmp_path, rows), class_names=[f"picture {i}" for i in range(1001)])) == 1001


def test_numbers_stay_numbers(images: Path) -> None:
    rows = "path,age,score\na.jpg,31,1\nb.jpg,0,0.5\nsub/c d.jpg,2,7\n"
    source = LabelFile(write(images, rows), number_columns=["age", "score"])
    assert source.schema.features == {
        "image/age": Feature("int64", (), "number"),
        "image/score": Feature("float32", (), "number"),
    }
    assert [s.features["image/age"] for s in source] == [31, 0, 2]
    as_float = LabelFile(write(images, rows), number_columns={"age": Feature("float32")})
    assert as_float.schema.features == {"image/age": Feature("float32", (), "number")}
    said = refusal(images, rows, label_columns=["age"])
    assert said.endswith("the number and name of each class; for numeric values give number_columns")
    assert refusal(images, rows.replace("31", "old"), number_columns=["age"]).startswith("2, column 'age': got 'old'")
    with pytest.raises(UsageError, match="number_columns: got Feature"):
        LabelFile(write(images, rows), number_columns={"age": Feature("bytes")})


def test_missing_numbers_and_labels(images: Path) -> None:
    rows = "path,label,age\na.jpg,cat,31\nb.jpg,,\nsub/c d.jpg,cat,NA\n"
    options: dict[str, Any] = {"number_columns": ["age"], "missing": {"age": "nan", "label": "unknown"}}
    source = LabelFile(write(images, rows), **options)
    ages = [s.features["image/age"] for s in source]
    assert ages[0] == 31.0
    assert np.isnan(ages[1:]).all()
    assert source.schema.features["image/age"] == Feature("float32", (), "number")
    assert source.schema.class_names[LABEL] == ("cat", "unknown")
    assert "column age: 2 empty cells are set to nan" in source.findings.notes
    whole = LabelFile(write(images, rows), number_columns={"age": Feature("int64")}, missing={"age": -1, "label": "x"})
    assert [s.features["image/age"] for s in whole] == [31, -1, -1]
    said = refusal(images, rows, number_columns=["age"], missing={"label": "x"})
    assert said.startswith("3, column 'age': got an empty cell, expected a number; give missing={'age': 'nan'}, or")
    said = refusal(images, "path,age\na.jpg,1\nb.jpg,nan\n", number_columns=["age"])
    assert said.startswith("3, column 'age': got 'nan', expected a number; give missing={'age': 'nan'}")
    said = refusal(images, rows, number_columns={"age": Feature("int64")}, missing={"label": "x", "age": "nan"})
    assert said.startswith("3, column 'age': got nan, expected a number that fits int64")
    objects = jsonl({"path": "a.jpg", "age": 3}, {"path": "b.jpg"}, {"path": "sub/c d.jpg", "age": None})
    found = LabelFile(write(images, objects, "l.jsonl"), number_columns=["age"], missing={"age": -1})
    assert [s.features["image/age"] for s in found] == [3, -1, -1]


def test_lists_of_one_length(images: Path) -> None:
    colour = {"colour": Feature("float32", (3,))}
    content = jsonl({"path": "a.jpg", "colour": [1, 0, 0.5]}, {"path": "b.jpg", "colour": [0, 0, 1]})
    source = LabelFile(write(images, content, "l.jsonl"), number_columns=colour)
    assert source.schema.features == {"image/colour": Feature("float32", (3,), "number")}
    assert source[0].features == {"image/colour": [1.0, 0.0, 0.5]}
    in_cells = write(images, 'path,colour\na.jpg,"[1, 0, 0.5]"\nb.jpg,0 0 1\n')
    assert [s.features["image/colour"] for s in LabelFile(in_cells, number_columns=colour)] == [[1, 0, 0.5], [0, 0, 1]]
    bad = content.replace("[0, 0, 1]", "[0, 1]")
    assert "got 2 numbers, expected 3" in refusal(images, bad, "l.jsonl", number_columns=colour)


# --- objects -------------------------------------------------------------------------------------------------------


def objects(*names: str) -> str:
    return jsonl(*({"path": path} | {name: [1, 0] for name in names} for path in ("a.jpg", "b.jpg")))


def test_columns_of_objects_have_no_class_of_the_image(images: Path) -> None:
    names = ["object/bbox/xmin", "image/object/area", "object/class/text"]
    content = objects("object/bbox/xmin", "image/object/area").replace("}", ', "object/class/text": ["cup"]}')
    source = LabelFile(
        write(images, content, "l.jsonl"),
        label_columns=[names[0], names[2]],
        number_columns={names[1]: Feature("float32")},
    )
    assert source.schema.features == {
        "image/object/bbox/xmin": Feature("int64", (None,), "place"),
        "image/object/class/label": Feature("int64", (None,), "label"),
        "image/object/class/text": Feature("bytes", (None,), "text"),
        "image/object/area": Feature("float32", (None,), "number"),
    }
    plain = LabelFile(write(images, objects("xmin", "names"), "l.jsonl"), label_columns=["xmin", "names"])
    assert set(plain.schema.features) == {"image/xmin", "image/names"}
    turned = LabelFile(write(images, objects("names", "xmin"), "l.jsonl"), label_columns=["names", "xmin"])
    assert set(turned.schema.features) == {"image/xmin", "image/names"}
    tags = LabelFile(write(images, objects("labels", "tags"), "l.jsonl"), label_columns=["labels", "tags"])
    assert LABEL in tags.schema.features  # no place among them: the labels of the image


@pytest.mark.parametrize("cells", [("worn", "none"), ("0", "1")])
def test_a_class_may_be_called_like_a_place(images: Path, cells: tuple[str, str]) -> None:
    source = LabelFile(write(images, f"path,mask\na.jpg,{cells[0]}\nb.jpg,{cells[1]}\n"))
    assert set(source.schema.features) == {LABEL, TEXT}
    places = LabelFile(write(images, "path,xmin\na.jpg,60\nb.jpg,0.5\n"))
    assert places.schema.features == {"image/xmin": Feature("float32", (), "place")}


@pytest.mark.parametrize("used", [[], ["label", "x_min"]])
def test_one_row_for_each_box_is_an_error(images: Path, used: list[str]) -> None:
    rows = "path,label,x_min\na.jpg,cat,1\nb.jpg,dog,3\na.jpg,cat,5\n"
    said = refusal(images, rows, label_columns=used or ["label"])
    assert said.startswith("4: rows that name a file again (1, the first here) differ in x_min: one row per box")
    same = LabelFile(write(images, rows.replace("5", "1")), label_columns=["label"])
    assert "duplicate rows: 1 (line 4)" in same.findings.notes


# --- splits, encodings, no labels ----------------------------------------------------------------------------------


def test_an_encoding(images: Path) -> None:
    rows = "path,label\na.jpg,Café\nb.jpg,thé\n".encode("latin-1")
    assert refusal(images, rows).endswith("give encoding='cp1252' if it is 'Café', or another encoding")
    source = LabelFile(write(images, rows), encoding="latin-1")
    assert source.schema.class_names == {LABEL: ("Café", "thé")}
    unmarked = "path,label\na.jpg,cat\nb.jpg,dog\n".encode("utf-16-le")
    assert len(LabelFile(write(images, unmarked))) == 2
    assert len(LabelFile(write(images, unmarked), encoding="utf-16-le")) == 2
    with pytest.raises(UsageError, match="encoding: got 'latin-7000', expected a text encoding"):
        LabelFile(write(images, rows), encoding="latin-7000")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("test.txt", "a.jpg\nsub/c d.jpg\n"),
        ("test.csv", "path,width\na.jpg,3\nsub/c d.jpg,4\n"),
        ("test.csv", "a.jpg\nsub/c d.jpg\n"),
        ("test.jsonl", '{"path": "a.jpg"}\n{"path": "sub/c d.jpg"}\n'),
    ],
)
def test_a_list_of_images_without_labels(images: Path, name: str, content: str) -> None:
    source = LabelFile(write(images, content, name), label_columns=[])
    assert [(s.key, s.features) for s in source] == [(b"a.jpg", {}), (b"sub/c d.jpg", {})]
    assert source.schema.features == {}


def test_messages_count_columns_as_their_reader_does(images: Path) -> None:
    """Numbers are from 0 in Python, and from 1 where a command was typed."""
    flags = {"column": "column", "label_columns": "--label-column", "label_separator": "--label-separator"}
    for content, options, python, typed in [
        ("path,label\na.jpg,1\n", {"label_columns": [2]}, "there is no column 2", "there is no column 3"),
        ("a.jpg,cat\nb.jpg,\n", {}, "l.csv:2, column 1: got an empty cell", "l.csv:2, column 2: got an empty cell"),
        ("path,x,y\na.jpg,1,2\n", {}, "give label_columns", "give --label-column"),
    ]:
        with pytest.raises(LabelFileError) as caught:
            LabelFile(write(images, content), **options)
        assert python in str(caught.value)
        assert typed in caught.value.format_message(flags)


# --- all of it -----------------------------------------------------------------------------------------------------


def test_the_root_is_the_label_files_folder_or_as_given(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(images, "a.jpg,cat\n")
    monkeypatch.chdir(images)
    assert LabelFile("l.csv").root == LabelFile(path).root == os.fsencode(images)
    assert LabelFile(write(images, "c d.jpg,cat\n"), "sub")[0].key == b"c d.jpg"


def test_nothing_in_the_root(images: Path) -> None:
    (images / "empty").mkdir()
    with pytest.raises(UsageError, match=r"/empty: no file in it"):
        LabelFile(write(images, "a.jpg,cat\n"), images / "empty")


NAME = st.binary(min_size=1, max_size=12).map(lambda name: b"f" + name.replace(b"/", b"").replace(b"\0", b""))
WORD = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Nd"]), min_size=1, max_size=8).map(str.strip)


@settings(max_examples=60)
@given(
    st.dictionaries(NAME, WORD.filter(bool), min_size=1, max_size=8),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([",", ";", "\t"]),
)
def test_any_paths_and_labels_round_trip_through_csv(rows: dict[bytes, str], quoting: Any, end: str, mark: str) -> None:
    if any(b"\r" in name or b"\n" in name for name in rows):
        quoting = csv.QUOTE_ALL  # Python's writer leaves a line break that is not its own unquoted
    with tempfile.TemporaryDirectory() as folder:
        root = plant(Path(folder) / "images", *rows)
        with open(f"{folder}/l.csv", "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            writer = csv.writer(file, quoting=quoting, lineterminator=end, delimiter=mark)
            writer.writerow(["path", "label"])
            writer.writerows([name.decode("utf-8", "surrogateescape"), label] for name, label in rows.items())
        names = sorted(set(rows.values()), key=str.encode)
        source = LabelFile(f"{folder}/l.csv", root, delimiter=mark, class_names=names)
        assert [(s.key, s.features[TEXT]) for s in source] == sorted((k, v.encode()) for k, v in rows.items())
        assert not source.findings.rejected


# --- forms of known datasets ---------------------------------------------------------------------------------------


def test_classes_with_blanks_behind_ids(images: Path) -> None:
    source = LabelFile(write(images, "a Boeing 717\nb 707-320\n", "l.txt"))
    assert [one.features[TEXT] for one in source] == [b"Boeing 717", b"707-320"]
    assert "lines are split at the first space: classes contain spaces" in source.findings.notes
    source = LabelFile(write(images, "a.jpg x\nsub/c d.jpg y\n", "l.txt"))
    assert [one.features[TEXT] for one in source] == [b"x", b"y"]


def test_a_leading_slash_is_relative_to_the_root_where_a_file_is_there(images: Path) -> None:
    source = LabelFile(write(images, "/a.jpg 0\n/sub/c.jpg 1\n/b.jpg 1\n", "l.txt"))
    assert [one.key for one in source] == [b"a.jpg", b"b.jpg"]
    assert "paths that begin with /, treated as relative to the root: 2 (/a.jpg, /b.jpg)" in source.findings.notes
    assert [one.code for one in source.findings.rejected] == ["E_PATH_ESCAPE"]


def test_the_id_may_be_kept_as_a_text(images: Path) -> None:
    source = LabelFile(write(images, "id\na\nb\n"), label_columns=[], text_columns=["id"])
    assert [one.features["image/id"] for one in source] == [b"a", b"b"]


def test_numbers_that_are_missing_are_columns_of_numbers(images: Path) -> None:
    table = "path,age\na.jpg,3.5\nb.jpg,\n"
    said = refusal(images, table, label_columns=["age"], missing={"age": "nan"})
    assert "give number_columns instead of label_columns" in said
    assert "number_columns" in refusal(images, table, label_columns=["age"])
    source = LabelFile(write(images, table), number_columns=["age"], missing={"age": "nan"})
    assert "column age: 1 empty cells are set to nan" in source.findings.notes


def test_an_integer_beside_fractions_must_fit_float32(images: Path) -> None:
    said = refusal(images, "path,n\na.jpg,16777217\nb.jpg,0.5\n", number_columns=["n"])
    assert said.startswith("2, column 'n': got 16777217 among fractions")


def test_keys_that_only_later_objects_have_are_columns(images: Path) -> None:
    rows = '{"path": "a.jpg", "x": 1}\n{"path": "b.jpg", "x": 2, "label": "cat"}\n'
    assert "the object has no key 'label'" in refusal(images, rows, "l.jsonl")


def test_a_table_of_boxes_that_is_given_as_labels_is_read_as_boxes(tmp_path: Path) -> None:
    photos = plant(tmp_path / "photos", "a.jpg")
    table = write(tmp_path, "image,xmin,ymin,xmax,ymax,label\na.jpg,1,2,3,4,cat\na.jpg,5,6,7,8,dog\n")
    source = open_source(photos, options=LabelOptions(labels=table))
    assert source.schema.class_names == {OBJECT_LABEL: ("cat", "dog")}
    assert info_of(source).findings.notes[0].startswith("recognised as boxes-csv: ")
    write(tmp_path, "image,xmin,ymin,xmax,ymax,label\na.jpg,1,2,3,4,cat\n")
    source = open_source(photos, options=LabelOptions(labels=table, label_columns=["label"]))
    assert source.schema.class_names == {LABEL: ("cat",)}


COCO = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 24, "height": 16}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}],
    "categories": [{"id": 1, "name": "cat"}],
}
TASKS = [{"id": 1, "data": {"image": "a.jpg"}, "annotations": [{"result": [
    {"type": "rectanglelabels", "value": {"x": 1, "y": 2, "width": 3, "height": 4, "rectanglelabels": ["cat"]}}
]}]}]  # fmt: skip
CVAT = (
    '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version><meta></meta>\n'
    '<image id="0" name="a.jpg" width="24" height="16"><box label="cat" xtl="1" ytl="1" xbr="5" ybr="5"/></image>'
    "</annotations>"
)


@pytest.mark.parametrize(
    ("name", "content"), [("coco.json", json.dumps(COCO)), ("tasks.json", json.dumps(TASKS)), ("cvat.xml", CVAT)]
)
def test_annotations_that_are_given_as_labels_are_refused_with_what_reads_them(
    tmp_path: Path, name: str, content: str
) -> None:
    photos, path = plant(tmp_path / "photos", "a.jpg"), write(tmp_path, content, name)
    with pytest.raises(UsageError) as caught:
        open_source(photos, options=LabelOptions(labels=path))
    assert caught.value.remedy.startswith(f"give {path} instead of the folder")
    source = open_source(path, options=AnnotationOptions(images=photos))
    assert source.schema.class_names == {OBJECT_LABEL: ("cat",)}


@pytest.mark.parametrize(("name", "content", "said"), [("l.json", '{"a.jpg": 1}', "JSON"), ("l.xml", "<a/>", "XML")])
def test_json_and_xml_that_nobody_knows_are_no_label_files(tmp_path: Path, name: str, content: str, said: str) -> None:
    photos, path = plant(tmp_path / "photos", "a.jpg"), write(tmp_path, content, name)
    with pytest.raises(UsageError, match=f"is {said}.* in no known annotation format,"):
        open_source(photos, options=LabelOptions(labels=path))


def test_several_numbers_after_a_path_are_no_class(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / "images" / f"{name}.png", image_file())
    put(tmp_path / "trainval.txt", "a 1 1 1\nb 2 2 1\n")
    with pytest.raises(LabelFileError) as caught:
        LabelFile(tmp_path / "trainval.txt", root=tmp_path / "images")
    assert caught.value.place == f"{tmp_path}/trainval.txt:1"
    options = {"delimiter": " ", "header": False, "label_columns": [2], "class_names": ["x", "y", "z"]}
    assert len(LabelFile(tmp_path / "trainval.txt", root=tmp_path / "images", **options)) == 2
