"""Our own shards without a manifest are read like records of others: nothing that the records say is lost."""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import here, scenes
from foreign_tfrecords import picture, write
from object_images import encoded
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, KEYPOINT_X, KEYPOINT_Y, OBJECT_LABEL, OBJECT_MASK
from shardfeed.converters import convert, from_dicts
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.source import info_of
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, SOURCE_ID


def shards_alone(dataset: Path, folder: Path) -> Path:
    """Copy the shards of a dataset, and no other file, into a folder."""
    folder.mkdir()
    for shard in dataset.glob("*.tfrecord"):
        shutil.copy(shard, folder)
    return folder


def objects_by_name(data: Dataset) -> dict[bytes, dict[str, Any]]:
    """The objects of each record, without its image; masks as pixels."""
    found = {}
    for split in data.values():
        for record in split:
            own = {key: record[key] for key in split.schema.object_keys}
            if OBJECT_MASK in own:
                own[OBJECT_MASK] = [np.asarray(Image.open(io.BytesIO(png))).tolist() for png in own[OBJECT_MASK]]
            found[record[FILENAME]] = {key: list(values) for key, values in own.items()}
    return found


@pytest.mark.parametrize("task", ["masks", "keypoints"])
def test_objects_come_back(tmp_path: Path, task: str) -> None:
    convert(scenes(task), tmp_path / "own", workers=here())
    own = shardfeed.open(tmp_path / "own")
    source = open_source(shards_alone(tmp_path / "own", tmp_path / "in"))
    convert(source, tmp_path / "again", workers=here())
    again = shardfeed.open(tmp_path / "again")
    before = objects_by_name(own)
    assert objects_by_name(again) == before
    assert any(record[OBJECT_LABEL] for record in before.values())
    assert again.manifest.schema.class_names == own.manifest.schema.class_names
    notes = info_of(source).findings.notes
    assert not any(note.startswith("unused columns") for note in notes)
    if task == "keypoints":
        assert any("key points have no names" in note for note in notes)
        assert (again.manifest.schema.keypoints.names, again.manifest.schema.keypoints.flip) == (("0", "1", "2"), ())


def boxed(number: int, count: int, **more: Any) -> dict[str, Any]:
    sides = {side: [0.1 + 0.1 * i + (0.4 if "max" in side else 0) for i in range(count)] for side in BOX}
    return {"image/encoded": picture(number), FILENAME: b"%d.jpg" % number, **sides, **more}


def test_key_points_of_others(tmp_path: Path) -> None:
    """As the Object Detection API writes them: NaN where a point is not there, and no visibility."""
    rows = [
        boxed(0, 2, **{KEYPOINT_X: [0.2, float("nan"), 0.3, 0.4], KEYPOINT_Y: [0.2, float("nan"), 0.3, 0.4]}),
        boxed(1, 0),
        boxed(2, 2, **{KEYPOINT_X: [0.2, 0.2, 0.3], KEYPOINT_Y: [0.2, 0.2, 0.3]}),
    ]
    write(tmp_path / "a.tfrecord", rows)
    source = open_source(tmp_path)
    points = source[0].objects.points["keypoints"]  # type: ignore[union-attr]
    assert points is not None
    assert np.allclose(points, [[[0.2, 0.2, 2], [0, 0, 0]], [[0.3, 0.3, 2], [0.4, 0.4, 2]]])
    (rejected,) = info_of(source).findings.rejected
    assert rejected.key == b"2.jpg"
    assert "3 x, 3 y and 3 visibilities of key points for 2 boxes" in rejected.reason


def test_masks_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    good = encoded(np.pad(np.ones((10, 20), np.uint8) * 255, ((10, 20), (16, 20))))
    colours = encoded(np.arange(40 * 56 * 3, dtype=np.uint8).reshape(40, 56, 3))
    rows = [boxed(0, 3, **{OBJECT_MASK: [good, b"x", colours]}), boxed(1, 0), boxed(2, 1, **{OBJECT_MASK: [good]})]
    write(tmp_path / "in" / "a.tfrecord", rows)
    report = convert(open_source(tmp_path / "in"), tmp_path / "out", workers=here(), max_bad={"objects": 2})
    assert [(one.key, one.code) for one in report.account.left_out] == [(b"0.jpg", "E_OUTLINE")] * 2
    masks = {name: own[OBJECT_MASK] for name, own in objects_by_name(shardfeed.open(tmp_path / "out")).items()}
    assert [np.sum(masks[name]) for name in (b"0.jpg", b"1.jpg", b"2.jpg")] == [200, 0, 200]


@pytest.mark.parametrize("first", ["masked", "bare"])
def test_boxes_stay_where_only_some_have_masks(tmp_path: Path, first: str) -> None:
    mask = encoded(np.pad(np.ones((10, 20), np.uint8), ((10, 20), (16, 20))))
    masked, bare = boxed(0, 2, **{OBJECT_MASK: [mask, mask]}), boxed(1, 1)
    write(tmp_path / "in" / "a.tfrecord", [masked, bare] if first == "masked" else [bare, masked])
    report = convert(tmp_path / "in", tmp_path / "out", workers=here())
    assert (report.account.read, report.account.written) == (3, 3)
    assert "masks of objects are not read: 1 of 3 objects have none" in report.notes
    assert OBJECT_MASK not in shardfeed.open(tmp_path / "out").manifest.schema.features


def test_masks_of_records_need_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(scenes("masks"), tmp_path / "own", workers=here())
    monkeypatch.setitem(sys.modules, "pycocotools", None)  # importing it raises ModuleNotFoundError
    convert(shards_alone(tmp_path / "own", tmp_path / "in"), tmp_path / "again", workers=here())
    own, again = (objects_by_name(shardfeed.open(tmp_path / name)) for name in ("own", "again"))
    assert again == own


def test_large_ids_of_images_come_back(tmp_path: Path) -> None:
    rows = [{"image": picture(i), "key": f"{i}.jpg", "image_id": 2**24 + 5 * i} for i in range(4)]
    convert(from_dicts(rows), tmp_path / "own", workers=here())
    report = convert(shards_alone(tmp_path / "own", tmp_path / "in"), tmp_path / "again", workers=here())
    own, again = (shardfeed.open(tmp_path / name)["train"] for name in ("own", "again"))
    assert {record[FILENAME]: record[SOURCE_ID] for record in again} == {
        record[FILENAME]: record[SOURCE_ID] for record in own
    }
    assert any("ids of images are above 16,777,216" in note for note in report.notes)


def test_key_points_without_boxes_are_listed(tmp_path: Path) -> None:
    write(
        tmp_path / "a.tfrecord",
        [boxed(0, 1, **{KEYPOINT_X: [0.2], KEYPOINT_Y: [0.2]}), boxed(1, 0, **{KEYPOINT_X: [0.2], KEYPOINT_Y: [0.2]})],
    )
    (rejected,) = info_of(open_source(tmp_path)).findings.rejected
    assert rejected.key == b"1.jpg"
    assert "key points for 0 boxes" in rejected.reason
