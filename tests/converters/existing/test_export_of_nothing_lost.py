"""An export asks to drop only what the data has: areas that are not the boxes' areas, crowds, ids with gaps."""

import json
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import convert, export, open_source
from shardfeed.errors import UsageError

from pictures import image_bytes, waves


def coco(root: Path, first_id: int = 1, **more: Any) -> Path:
    """Plain COCO of four images in a dataset; `more`: of its first object, or the id of the last image."""
    last = more.pop("last_id", first_id + 3)
    ids = [first_id, first_id + 1, first_id + 2, last]
    for number, own in enumerate(ids):
        path = root / "in" / "images" / f"{own}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(waves(length=3 + number), "PNG"))
    usual = {"category_id": 1, "bbox": [1, 2, 10.5, 12], "area": 126, "iscrowd": 0}
    boxes: list[dict[str, Any]] = [{"id": n, "image_id": own} | usual for n, own in enumerate(ids, 1)]
    boxes[0] |= more
    images = [{"id": own, "file_name": f"{own}.png", "width": 70, "height": 45} for own in ids]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (root / "in" / "instances.json").write_text(json.dumps(content))
    convert(open_source(root / "in"), root / "out", workers=1)
    return root / "out"


def test_plain_coco_goes_to_yolo_and_back_without_a_word(tmp_path: Path) -> None:
    exported = export(coco(tmp_path), tmp_path / "yolo", to="yolo")
    assert exported.left_out == {}
    convert(open_source(tmp_path / "yolo"), tmp_path / "again", workers=1)
    assert sum(map(len, shardfeed.open(tmp_path / "again").values())) == 4


CROWD = {"iscrowd": 1, "segmentation": {"size": [45, 70], "counts": [100, 50, 3000]}}


@pytest.mark.parametrize(("more", "word"), [({"area": 60}, "areas"), (CROWD, "crowds"), ({"last_id": 99}, "ids")])
def test_what_would_be_lost_is_named_alone(tmp_path: Path, more: dict[str, Any], word: str) -> None:
    out = coco(tmp_path, **more)
    with pytest.raises(UsageError, match=f"yolo cannot store its {word}") as raised:
        export(out, tmp_path / "yolo", to="yolo")
    assert f"drop=['{word}']" in str(raised.value)
    assert [*export(out, tmp_path / "yolo", to="yolo", drop=[word]).left_out] == [word]
