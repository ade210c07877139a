"""Labels that mean places in an image, when the image is turned or cut (RELIABILITY.md 32)."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import Sample, convert
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.errors import UsageError
from shardfeed.schema import Feature, Schema

from pictures import image_bytes

pytestmark = pytest.mark.promise(32)
BOXES = {"object/bbox/ymin": [0.0], "object/bbox/xmin": [0.0], "object/bbox/ymax": [0.5], "object/bbox/xmax": [0.25]}


def photo(orientation: int) -> bytes:
    """Upright 40 x 80 pixels (height x width); the box in its upper left corner is white, all else black."""
    image = Image.new("L", (80, 40))
    image.paste(255, (0, 0, 20, 20))
    back = {1: None, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270, 3: Image.Transpose.ROTATE_180}
    turn = back[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    return image_bytes(image.transpose(turn) if turn is not None else image, "JPEG", exif=exif, quality=95)


@pytest.fixture
def boxed(tmp_path: Path) -> LabelFile:
    rows = []
    for orientation in (1, 3, 6, 8):
        (tmp_path / f"{orientation}.jpg").write_bytes(photo(orientation))
        rows.append(json.dumps({"path": f"{orientation}.jpg", "label": "corner", **BOXES}))
    (tmp_path / "labels.jsonl").write_text("\n".join(rows))
    columns = ["label", *BOXES]
    return LabelFile(tmp_path / "labels.jsonl", label_columns=columns)


def test_boxes_are_those_of_the_upright_image_and_turned_ones_are_named(boxed: LabelFile, tmp_path: Path) -> None:
    report = convert(boxed, tmp_path / "out", workers=1)
    for record in shardfeed.open(tmp_path / "out")["train"]:
        pixels = np.asarray(Image.open(io.BytesIO(record["image/encoded"])).convert("L"))
        assert pixels.shape == (40, 80)
        top, left, bottom, right = (record[f"image/object/bbox/{side}"][0] for side in ("ymin", "xmin", "ymax", "xmax"))
        inside = pixels[int(40 * top) : int(40 * bottom), int(80 * left) : int(80 * right)]
        assert inside.mean() > 240, "the box is where the white is"
    assert [noted.key for noted in report.warnings] == [b"3.jpg", b"6.jpg", b"8.jpg"]
    assert all("image/object/bbox/xmax" in noted.why and "upright" in noted.why for noted in report.warnings)
    assert [line["code"] for line in report.to_json()["warnings"]] == ["warning"] * 3


def test_boxes_are_not_cut_silently(boxed: LabelFile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="image/object/bbox/xmax would be wrong") as caught:
        convert(boxed, tmp_path / "out", image=ImageOptions(size=16), workers=1)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()
    report = convert(boxed, tmp_path / "out", image=ImageOptions(resize_shorter=16), workers=1)
    assert report.committed, "fractions of a smaller image are the same"


class Measured:
    """Boxes with their areas, as detectors are trained on."""

    schema = Schema({"image/object/area": Feature("float32", (None,))})

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"0.jpg", photo(1), {"image/object/area": [400.0]})


def test_areas_in_pixels_are_not_left_of_larger_images(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="resize_shorter: image/object/area is in pixels of the original images"):
        convert(Measured(), tmp_path / "out", image=ImageOptions(resize_shorter=16), workers=1)
    assert convert(Measured(), tmp_path / "out", workers=1).committed


class Masked:
    """One turned photo with a mask, which a source of one's own says is one."""

    schema = Schema({"image/damage": Feature("bytes", kind="place"), "image/maskless": Feature("int64")})

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"0.jpg", photo(6), {"image/damage": b"mask", "image/maskless": 3})


def test_the_schema_says_what_means_a_place(tmp_path: Path) -> None:
    """No name of a key does, but TensorFlow's own."""
    (warning,) = convert(Masked(), tmp_path / "out", workers=1).warnings
    assert warning.why == "rotated upright as its EXIF says: image/damage must refer to the upright image"
    with pytest.raises(UsageError, match="image/damage would be wrong"):
        convert(Masked(), tmp_path / "cut", image=ImageOptions(size=16), workers=1)
    kinds = {key: shardfeed.open(tmp_path / "out").manifest.schema.kind(key) for key in Masked.schema.features}
    assert kinds == {"image/damage": "place", "image/maskless": "number"}


@pytest.mark.parametrize("column", ["bbox", "Face_Box", "object/bbox/xmin", "x/mask", "polygons"])
def test_columns_of_numbers_that_are_called_like_places(column: str, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(photo(1))
    rows = {"path": "1.jpg", "label": "corner", column: [0.5], "boxer": 0.5, "unmasked": [2]}
    (tmp_path / "labels.jsonl").write_text(json.dumps(rows))
    schema = LabelFile(tmp_path / "labels.jsonl", label_columns=["label", column, "boxer", "unmasked"]).schema
    assert schema.of_kind("place") == [f"image/{column}"]
    assert schema.of_kind("number") == ["image/boxer", "image/unmasked"]
