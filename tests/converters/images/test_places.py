"""Labels that mean places in an image, when the image is turned or cut (RELIABILITY.md 32)."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.places import box_warning, check_boxes, placed_features
from shardfeed.converters.sources.labels.label_file import LabelFile
from shardfeed.errors import UsageError

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
    out = io.BytesIO()
    (image.transpose(turn) if turn is not None else image).save(out, "JPEG", exif=exif, quality=95)
    return out.getvalue()


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
    with pytest.raises(UsageError, match="image/object/bbox/xmax would mean other places") as caught:
        convert(boxed, tmp_path / "out", image=ImageOptions(size=16), workers=1)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()
    report = convert(boxed, tmp_path / "out", image=ImageOptions(resize_shorter=16), workers=1)
    assert report.committed, "fractions of a smaller image are the same"


def test_which_features_mean_places() -> None:
    placed = [
        "image/bbox",
        "image/object/bbox/xmin",
        "image/segmentation/class/encoded",
        "image/Face_Box",
        "image/x/mask",
    ]
    assert placed_features([*placed, "image/class/label", "image/boxer", "image/unmasked"]) == sorted(placed)
    check_boxes(["image/class/label"], ImageOptions(size=16))
    assert box_warning("resized+exif-rotated", ["image/bbox"])
    for transform in (None, "resized", "cmyk"):
        assert box_warning(transform, ["image/bbox"]) is None
    assert box_warning("exif-rotated", []) is None
