"""Roboflow's `_classes.csv`: one file or one a split, a set of classes or one of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import recognise as recognise_all
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import FILENAME, LABEL, TEXT, Feature
from shardfeed.testing.source import SourceContract

TRAIN = "filename, cat, dog, wet\na.jpg, 1, 0, 1\nb.jpg, 0, 0, 0\nb.jpg, 0, 0, 0\ngone.jpg, 1, 1, 1\n"
VALID = "filename, dog, cat, wet\na.jpg, 1, 0, 0\n"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """train with a.jpg, b.jpg and one without a row, and valid with another a.jpg."""
    for split, content, names in (("train", TRAIN, "abc"), ("valid", VALID, "a")):
        (tmp_path / split).mkdir()
        (tmp_path / split / "_classes.csv").write_text(content)
        for i, name in enumerate(names):
            Image.new("RGB", (24, 16), (i, 9, len(split))).save(tmp_path / split / f"{name}.jpg")
    return tmp_path


def read(path: Path, **options: Any) -> Any:
    return open_source(path, reader="classes-csv", options=AnnotationOptions(**options))


def recognise(path: str | Path) -> Evidence | None:
    return next((one for one in recognise_all(Look(str(path)), {}) if one.name == "classes-csv"), None)


class TestClassesCsv(SourceContract):
    @pytest.fixture(params=["", "train", "train/_classes.csv"])
    def build(self, request: pytest.FixtureRequest, export: Path) -> Callable[[], Any]:
        return lambda: read(export / request.param)


def test_splits_have_one_list_of_classes_in_any_order(export: Path, tmp_path: Path) -> None:
    source = read(export)
    assert [(s.key, s.split, s.features[LABEL], s.features[TEXT]) for s in source] == [
        (b"train/a.jpg", "train", [0, 2], [b"cat", b"wet"]),
        (b"train/b.jpg", "train", [], []),
        (b"valid/a.jpg", "validation", [1], [b"dog"]),
    ]
    assert source.schema.features[LABEL] == Feature("int64", (None,), "tags")
    assert source.schema.class_names == {LABEL: ("cat", "dog", "wet")}
    assert [(s.key, s.code) for s in source.findings.rejected] == [(b"train/gone.jpg", "E_MISSING")]
    assert source.findings.rejected[0].reason == "train/_classes.csv:5: no such file"
    assert source.findings.notes[1:] == ["duplicate rows: 1 (line 4)", "image files without a row: 1 (train/c.jpg)"]
    convert(source, tmp_path / "out", workers=1, max_bad=1)
    data: Any = shardfeed.open(tmp_path / "out")
    found = {record[FILENAME]: record[LABEL].tolist() for record in data["train"]}
    assert found == {b"train/a.jpg": [0, 2], b"train/b.jpg": []}
    assert data["train"].class_counts[LABEL] == (1, 0, 1)


def test_one_class_each_is_a_class(export: Path) -> None:
    (export / "train" / "_classes.csv").write_text("filename,cat,dog\na.jpg,1,0\nb.jpg,0,1.0\n")
    source = read(export / "train", class_names=["Felis", "Canis"])
    assert source.schema.features[LABEL] == Feature("int64", (), "label")
    assert [(s.key, s.split, s.features[TEXT]) for s in source] == [
        (b"a.jpg", "train", b"Felis"), (b"b.jpg", "train", b"Canis")
    ]  # fmt: skip


def test_images_may_be_elsewhere_and_the_split_be_said(export: Path, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (export / "valid" / "_classes.csv").rename(tmp_path / "csv" / "_classes.csv")
    source = read(tmp_path / "csv", images=str(export / "train"))
    assert [s.key for s in source] == [b"a.jpg"]
    assert source.described.endswith(": 1 image, one class each")


def test_it_is_recognised_by_its_name_and_header(export: Path) -> None:
    evidence = recognise(str(export))
    assert (evidence.found, evidence.missing) == ("Roboflow's _classes.csv of train, validation, 3 classes", "")
    assert recognise(str(export / "train" / "a.jpg")) is None
    assert recognise(str(export / "nowhere")) is None
    (export / "train" / "_classes.csv").write_text("image,cat\n")
    evidence = recognise(str(export / "train"))
    assert evidence.missing == "its first column is not named filename"
    with pytest.raises(UsageError, match=r"no _classes\.csv in it, in train, valid or test"):
        read(export.parent)
    with pytest.raises(UsageError, match="got the task 'boxes', expected classes"):
        read(export, tasks=frozenset({"boxes"}))


HEAD = "filename, cat, dog\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ": no rows in it"),
        (HEAD, ": no rows after the header"),
        ("path,cat\na.jpg,1\n", ":1: got the columns path, cat, expected filename and one column per class"),
        ("filename,cat,cat\na.jpg,1,1\n", ":1: got the class 'cat', expected unique plain-text names"),
        (HEAD + "a.jpg, 1\n", ":2: got 2 cells, expected 3, the first an image name"),
        (HEAD + "a.jpg, 1, 2\n", ":2, column 'dog': got '2', expected 0 or 1"),
        (HEAD + "a.jpg, 1, \n", ":2, column 'dog': got '', expected 0 or 1"),
        (HEAD + "a.jpg, 1, 0\na.jpg, 1, 1\n", ":3: got other classes for 'a.jpg' than in line 2"),
        (HEAD + "gone.jpg, 1, 0\n", ": none of its 1 image is below "),
    ],
)
def test_what_is_not_clear_is_told_with_its_place(export: Path, content: str, said: str) -> None:
    path = export / "train" / "_classes.csv"
    path.write_text(content)
    with pytest.raises(LabelFileError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{said}")


def test_class_lists_that_differ_between_splits_are_refused(export: Path) -> None:
    (export / "valid" / "_classes.csv").write_text("filename,cat,dog,cow\na.jpg,1,0,0\n")
    with pytest.raises(LabelFileError, match=r"valid/_classes.csv:1: its classes differ .*: cow, wet in only one"):
        read(export)
    with pytest.raises(UsageError, match="class_names: got 1 name for 3 classes"):
        read(export / "train", class_names=["cat"])
