"""Pixels in the cells of CSV files."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import put
from PIL import Image

from shardfeed.converters import convert
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT
from shardfeed.testing.source import SourceContract

GRAY = np.arange(16, dtype=np.uint8).reshape(4, 4) * 9
RGB = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def table(path: Path, header: str, *rows: Any) -> Path:
    put(path, "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def numbered(count: int, first: int = 0) -> str:
    return ",".join(f"pixel{i}" for i in range(first, first + count))


def digits(root: Path) -> Path:
    table(root / "train.csv", f"label,{numbered(16)}", [0, *GRAY.ravel()], [1, *GRAY.ravel()])
    table(root / "test.csv", f"label,{numbered(16)}", [1, *GRAY.ravel()])
    return root


def faces(root: Path) -> Path:
    cell = " ".join(map(str, GRAY.ravel()))
    return table(root / "faces.csv", "emotion,pixels", [0, f'"{cell}"'], [1, cell])


class TestContract(SourceContract):
    @pytest.fixture(params=[digits, faces])
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        path = request.param(tmp_path / "set")
        return lambda: open_source(path)


def pixels(source: Source, index: int) -> np.ndarray:
    image: Any = source[index].image
    return np.asarray(Image.open(io.BytesIO(image())))


@pytest.mark.parametrize(
    ("header", "row", "image"),
    [
        (f"label,{numbered(16)}", [0, *GRAY.ravel()], GRAY),
        (f"{numbered(48, 1)},label", [*RGB.ravel(), 0], RGB),
        ("label," + ",".join(f"{y}x{x}" for y in range(4) for x in range(4)), [0, *GRAY.ravel()], GRAY),
        ("label,pixels", [0, " ".join(map(str, RGB.ravel()))], RGB),
    ],
)
def test_pixels_are_gray_or_colours_by_their_number(header: str, row: Any, image: np.ndarray, tmp_path: Path) -> None:
    source = open_source(table(tmp_path / "t.csv", header, row))
    assert (pixels(source, 0) == image).all()
    assert (source[0].features[LABEL], source[0].features[TEXT]) == (0, b"0")


def test_splits_by_files_and_columns(tmp_path: Path) -> None:
    assert [one.split for one in open_source(digits(tmp_path / "a"))] == ["test", "train", "train"]
    cell = " ".join(map(str, GRAY.ravel()))
    path = table(tmp_path / "t.csv", "emotion,pixels,Usage", [0, cell, "Training"], [1, cell, "PublicTest"])
    with pytest.raises(UsageError, match="emotion, Usage"):
        open_source(path)
    source = open_source(path, options=LabelOptions(split_column="Usage"))
    assert [(one.split, one.features[LABEL]) for one in source] == [("train", 0), ("PublicTest", 1)]


@pytest.mark.parametrize(
    ("column", "cells"),
    [("patient", "ppqq"), ("fold", "0011"), ("image_id", "5678"), ("score", (0.5, 0.25, 0.5, 0.75))],
)
def test_the_only_other_column_is_no_label_without_evidence(column: str, cells: Any, tmp_path: Path) -> None:
    rows = [[i, *([cell] * 16)] for cell, i in enumerate(cells)]
    with pytest.raises(UsageError, match=f"column {column}: "):
        open_source(table(tmp_path / "t.csv", f"{column},{numbered(16)}", *rows))
    rows = [["ab"[i % 2], *([i] * 16)] for i in range(4)]
    assert open_source(table(tmp_path / "u.csv", f"kind,{numbered(16)}", *rows)).schema.class_names[LABEL] == ("a", "b")


def test_a_file_without_the_label_is_listed_and_tables_of_other_things_are_noted(tmp_path: Path) -> None:
    root = digits(tmp_path / "set")
    table(root / "test.csv", numbered(16), [*GRAY.ravel()])
    table(root / "sample_submission.csv", "ImageId,Label", [1, 0])
    source = open_source(root)
    assert len(source) == 2
    assert [one.code for one in info_of(source).findings.rejected] == ["E_NO_LABEL"]
    assert "ignored tables without pixels: 1 (sample_submission.csv)" in info_of(source).findings.notes
    assert len(open_source(root, options=LabelOptions(unlabelled=True))) == 3


def test_rows_that_are_no_images_are_rejected(tmp_path: Path) -> None:
    rows = [[0, *GRAY.ravel()], [1, *([300] * 16)], [0, *(["x"] * 16)], [1, 2, 3]]
    source = open_source(table(tmp_path / "t.csv", f"label,{numbered(16)}", *rows))
    report = convert(source, tmp_path / "out", max_bad=3)
    assert report.manifest.splits["train"].records == 1
    assert {noted.what for noted in report.rejected} == {"E_CORRUPT"}
    assert len(report.rejected) == 3
