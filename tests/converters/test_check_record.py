"""Faults that `verify --deep` finds in objects and masks: each one that a record can have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    RASTER,
    RASTER_FORMAT,
    XMAX,
    YMIN,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, convert
from shardfeed.converters.shards import check_annotations as check_record
from shardfeed.converters.sources.source import MaskTable, RasterImage
from shardfeed.errors import IntegrityError
from shardfeed.formats.example import encode
from shardfeed.schema import HEIGHT, WIDTH, Feature, Schema
from shardfeed.tools.cli import main
from shardfeed.tools.commands.verify_command import check_annotations

from pictures import image_bytes

RAGGED = (None,)
SCHEMA = Schema(
    {
        HEIGHT: Feature("int64"),
        WIDTH: Feature("int64"),
        **{key: Feature("float32", RAGGED, "box") for key in BOX},
        OBJECT_LABEL: Feature("int64", RAGGED, "label"),
        OBJECT_TEXT: Feature("bytes", RAGGED, "text"),
        IS_CROWD: Feature("int64", RAGGED, "number"),
        OBJECT_MASK: Feature("bytes", RAGGED, "mask"),
        KEYPOINT_X: Feature("float32", RAGGED, "keypoint"),
        KEYPOINT_Y: Feature("float32", RAGGED, "keypoint"),
        KEYPOINT_VISIBILITY: Feature("int64", RAGGED, "number"),
        RASTER: Feature("bytes", (), "raster"),
        RASTER_FORMAT: Feature("bytes", (), "text"),
    },
    {OBJECT_LABEL: ("cat", "dog")},
    keypoints=Keypoints(("nose",)),
    raster=Raster(("sky", "road", "car"), 255),
)


def png(*rows: tuple[int, ...], dtype: Any = np.uint8, mode: str = "", kind: str = "PNG") -> bytes:
    image = Image.fromarray(np.array(rows, dtype))
    return image_bytes(image.convert(mode) if mode else image, kind)


RIGHT: dict[str, Any] = {
    HEIGHT: 2, WIDTH: 3,
    **{key: [0.0, 0.25] for key in BOX[:2]}, **{key: [0.5, 1.0] for key in BOX[2:]},
    OBJECT_LABEL: [1, 0], OBJECT_TEXT: [b"dog", b"cat"], IS_CROWD: [0, 1],
    OBJECT_MASK: [png((0, 1, 0), (0, 0, 0)), png((0, 0, 0), (1, 1, 1))],
    KEYPOINT_X: [0.0, 0.5], KEYPOINT_Y: [0.0, 0.5], KEYPOINT_VISIBILITY: [0, 2],
    RASTER: png((0, 1, 2), (255, 0, 0)), RASTER_FORMAT: b"png",
}  # fmt: skip


def payload(values: Mapping[str, Any]) -> bytes:
    return encode({key: SCHEMA.features[key] for key in values}, values)


def test_a_record_that_is_right() -> None:
    check_annotations(payload(RIGHT), SCHEMA)
    empty = {key: [] for key in SCHEMA.object_keys}
    check_annotations(payload(RIGHT | empty), SCHEMA)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (XMAX, [0.5], "1 value, expected 2 for 2 objects"),
        (YMIN, [0.5, 0.25], "object 0 has image/object/bbox/ymin 0.5"),
        (XMAX, [0.5, 1.5], "expected 0 <= min < max <= 1"),
        (IS_CROWD, [0, 7], "expected 0 or 1"),
        (KEYPOINT_X, [0.5], "1 value, expected 2"),
        (KEYPOINT_VISIBILITY, [0, 3], "expected 0, 1 or 2"),
        (OBJECT_LABEL, [1, 2], "is 2, expected 0 to 1"),
        (OBJECT_TEXT, [b"dog", b"dog"], "of object 1 is not 'cat'"),
        (OBJECT_MASK, [RIGHT[OBJECT_MASK][0]], "1 value, expected 2"),
        (OBJECT_MASK, [RIGHT[OBJECT_MASK][0], png((0, 1))], "of object 1: 2 x 1 pixels (width x height)"),
        (OBJECT_MASK, [png((0, 255, 0), (0, 0, 0)), png((0, 0, 0), (0, 0, 0))], "the value 255 at column 1, row 0"),
        (OBJECT_MASK, [png((0, 1, 0), (0, 0, 0), mode="1")] * 2, "a PNG of 1 bits and color type 0"),
        (OBJECT_MASK, [RIGHT[OBJECT_MASK][0][:40], b""], "it does not decode"),
        (OBJECT_MASK, [RIGHT[OBJECT_MASK][0], b"\xff\xd8"], "not a PNG"),
        (RASTER, png((0, 1, 3), (255, 0, 0)), "the value 3 at column 2, row 0, expected 0 to 2, or 255 for void"),
        (RASTER, png((0, 1), (0, 1), (0, 1)), "2 x 3 pixels (width x height), the image has 3 x 2"),
        (RASTER, png((0, 1, 2), (0, 0, 0), mode="P"), "color type 3"),
        (RASTER, png((0, 1, 2), (0, 0, 0), mode="RGB"), "color type 2"),
        (RASTER, png((0, 1, 2), (0, 0, 0), dtype=np.uint16), "a PNG of 16 bits"),
        (RASTER, png((0, 1, 2), (0, 0, 0), kind="TIFF"), "not a PNG"),
        (RASTER, RIGHT[RASTER][:-20], "it does not decode: E_"),
        (RASTER, RIGHT[RASTER][:45] + b"\0" + RIGHT[RASTER][46:], "it does not decode: E_CORRUPT"),
        (RASTER_FORMAT, b"jpeg", "is not png"),
    ],
)  # fmt: skip
def test_each_fault_is_told(key: str, value: Any, why: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        check_annotations(payload(RIGHT | {key: value}), SCHEMA)
    assert why in caught.value.problem
    assert key in caught.value.problem


def test_a_record_without_its_raster() -> None:
    lacking = {key: value for key, value in RIGHT.items() if key != RASTER}
    with pytest.raises(IntegrityError, match=f"{RASTER} is not one value"):
        check_annotations(payload(lacking), SCHEMA)


class Photos:
    schema = Schema({key: SCHEMA.features[key] for key in (RASTER, RASTER_FORMAT)}, raster=SCHEMA.raster)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < 3:
            raise IndexError(i)
        table = MaskTable(values=((0, 0), (1, 1), (2, 2)))
        photo = png(((9, 9, 9), (8, 8, 8), (7, 7, 7)), ((9, 9, 9),) * 3)  # type: ignore[arg-type]  # rows of colours
        return Sample(b"%d.png" % i, photo, raster=RasterImage(png((0, 1, 2), (i, i, i)), table))


def test_verify_looks_at_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    convert(Photos(), tmp_path / "out", shards=1, workers=1)
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
    assert "every image decodes, and its annotations fit it" in capsys.readouterr().out
    seen: list[Any] = []
    monkeypatch.setattr(check_record, "annotations_problem", lambda *args: seen.append(args) or "a bug")
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert not seen
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 4
    assert len(seen) == 3
    assert "a bug" in capsys.readouterr().out
