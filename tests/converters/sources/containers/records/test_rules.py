"""Nothing that records say is lost in silence: each through the door."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_tfrecords import picture, write

import shardfeed
from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_TEXT
from shardfeed.converters import convert, survey
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.errors import UsageError
from shardfeed.readers import verify
from shardfeed.schema import FILENAME, LABEL, TEXT
from shardfeed.tools.commands.verify_command import check_image

from in_process import OwnEngine

NAMES = (b"ant", b"bee", b"cat")


def boxed(number: int, count: int = 2, **features: Any) -> dict[str, Any]:
    """A record with `count` boxes, in fractions."""
    sides = [[0.1 * i + side for i in range(count)] for side in (0.1, 0.1, 0.3, 0.4)]
    own = {"image/encoded": picture(number), "image/filename": b"%d.jpg" % number}
    return own | dict(zip(BOX, sides, strict=True)) | {key.replace("__", "/"): v for key, v in features.items()}


def codes(source: Any) -> list[str]:
    return [one.code for one in source.findings.account.left_out]


def test_texts_without_numbers_are_classes(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [boxed(n) | {OBJECT_TEXT: [NAMES[n], b"ant"]} for n in range(3)])
    source = open_source(tmp_path)
    assert source.schema.class_names[OBJECT_LABEL] == ("ant", "bee", "cat")
    assert [sample.objects.columns[OBJECT_LABEL] for sample in source] == [[0, 0], [1, 0], [2, 0]]  # type: ignore[union-attr]


@pytest.mark.parametrize("files", [1, 3])
def test_keys_that_are_met_late(tmp_path: Path, files: int) -> None:
    """1,500 images without boxes first, then one with; in one file or in several."""
    image = picture(0)
    rows: list[dict[str, Any]] = [{"image/encoded": image, "image/filename": b"%d.jpg" % n} for n in range(1500)]
    rows += [boxed(1500) | {OBJECT_LABEL: [0, 1], OBJECT_TEXT: [b"ant", b"bee"]}]
    for i in range(files):
        write(tmp_path / "in" / f"part_{i}.tfrecord", rows[i * 501 : (i + 1) * 501] if files > 1 else rows)
    source = open_source(tmp_path / "in")
    assert len(source) == 1501
    assert source.schema.class_names[OBJECT_LABEL] == ("ant", "bee")
    assert len(source[1500].objects.boxes) == 2  # type: ignore[union-attr]
    assert any("1,500 samples without objects" in note for note in source.findings.notes)  # type: ignore[attr-defined]


@pytest.mark.parametrize("odd", [b"Cat", None])
def test_one_odd_text_takes_no_name_away(tmp_path: Path, odd: bytes | None) -> None:
    rows = [{"image": picture(n), LABEL: n % 3, TEXT: NAMES[n % 3]} for n in range(9)]
    if odd is None:
        del rows[5][TEXT]
    else:
        rows[5][TEXT] = odd
    write(tmp_path / "a.tfrecord", rows)
    source = open_source(tmp_path)
    assert source.schema.class_names[LABEL] == ("ant", "bee", "cat")
    notes = source.findings.notes  # type: ignore[attr-defined]
    assert any("2: 'Cat', not 'cat'" in note for note in notes) == (odd is not None)


def test_values_that_no_object_has(tmp_path: Path) -> None:
    """Each object is listed with its code; its image and the other objects stay, and the dataset is whole."""
    own = {OBJECT_LABEL: [0, 1], OBJECT_TEXT: [b"ant", b"bee"], OBJECT_AREA: [9.0, 9.0], IS_CROWD: [0, 1]}
    changes: list[dict[str, Any]] = [
        {},
        {OBJECT_AREA: [math.nan, 1.0]},
        {OBJECT_AREA: [1.0, -2.0]},
        {IS_CROWD: [2, 0]},
        {BOX[0]: [math.nan, 0.1]},
        {BOX[0]: [1e30, 0.1], BOX[2]: [2e30, 0.4]},
        {side: [value, value] for side, value in zip(BOX, (0.1, 0.1, 0.5, 0.5), strict=True)}
        | {OBJECT_LABEL: [0, 0], OBJECT_TEXT: [b"ant"] * 2, IS_CROWD: [0, 0]},
    ]
    write(tmp_path / "in" / "a.tfrecord", [boxed(n) | own | change for n, change in enumerate(changes)])
    source = open_source(tmp_path / "in")
    assert sorted(codes(source)) == ["E_BOX_EMPTY", "E_TWICE", "E_VALUE", "E_VALUE", "E_VALUE", "E_VALUE"]
    report = convert(source, tmp_path / "out", workers=OwnEngine(1), max_bad={"objects": 6})
    assert verify(tmp_path / "out", check_image).damages == []
    counts = {record[FILENAME]: len(record[OBJECT_LABEL]) for record in shardfeed.open(tmp_path / "out")["train"]}
    assert [counts[b"%d.jpg" % n] for n in range(len(changes))] == [2, 1, 1, 1, 1, 1, 1]
    assert report.manifest is not None


def test_lists_of_unequal_length(tmp_path: Path) -> None:
    rows = [boxed(n) | {OBJECT_LABEL: [0, 1]} for n in range(3)]
    rows[1][OBJECT_LABEL] = [1]
    write(tmp_path / "a.tfrecord", rows)
    source = open_source(tmp_path)
    assert codes(source) == ["E_LINE"] * 2
    assert [(one.key, one.code) for one in source.findings.rejected] == [(b"1.jpg", "E_NO_LABEL")]  # type: ignore[attr-defined]
    assert [len(sample.objects.boxes) for sample in source] == [2, 2]  # type: ignore[union-attr]


def test_pixels_are_no_fractions(tmp_path: Path) -> None:
    """The remedy works when it is typed."""
    rows = [{**boxed(0), **{side: [value] for side, value in zip(BOX, (4.0, 5.0, 30.0, 25.0), strict=True)}}]
    write(tmp_path / "a.tfrecord", rows)
    with pytest.raises(UsageError, match="give unit='pixels'"):
        open_source(tmp_path)
    source = open_source(tmp_path, options=ColumnOptions(unit="pixels"))
    assert source[0].objects.boxes.tolist() == [[4, 5, 30, 25]]  # type: ignore[union-attr]


def test_a_class_of_objects_is_no_label_of_the_image(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [boxed(n, 1) | {OBJECT_LABEL: [n]} for n in range(2)])
    assert LABEL not in open_source(tmp_path).schema.features
    assert survey(tmp_path).schema.key(LABEL) is None


def test_boxes_among_the_keys_of_the_image(tmp_path: Path) -> None:
    """`image/bbox` makes the other keys of the image no keys of objects."""
    rows = [{"image/encoded": picture(n), "image/label": n, "image/bbox": [0.1, 0.2, 0.5, 0.6]} for n in range(2)]
    write(tmp_path / "a.tfrecord", rows)
    source = open_source(tmp_path)
    assert [sample.features[LABEL] for sample in source] == [0, 1]
    assert np.allclose(source[0].objects.boxes, [[0.2, 0.1, 0.6, 0.5]])  # type: ignore[union-attr]
