"""COCO's files in any order and side by side; numbers and regions that cannot be meant."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.annotations import CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_LABEL
from shardfeed.converters import AnnotationOptions, Sample, convert, open_source
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.source import Objects
from shardfeed.errors import UsageError
from shardfeed.schema import Schema
from tests.converters.sources.annotations.test_coco import NAMES, PERSON, bad, left_out, of_coco, opened, plant, scene

from repository import ROOT


def said(source: Any) -> list[Any]:
    """All that a source says of its samples."""
    found = []
    for sample in (source[i] for i in range(len(source))):
        found.append((sample.key, sample.number, sample.features, sample.objects.digest(), sample.objects.names))
    return found


@pytest.mark.parametrize(
    "order",
    [("annotations", "categories", "images"), ("categories", "annotations", "images"), ("images", "annotations")],
)
def test_lists_come_in_any_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    content = bad(image_id=99)
    content["categories"] = [PERSON | {"keypoints": NAMES}, {"id": 18, "name": "dog", "keypoints": NAMES}]
    content["annotations"][0]["keypoints"] = [1, 2, 2, 3, 4, 1, 0, 0, 0]
    expected = opened(plant(tmp_path, content))
    turned = {key: content[key] for key in (*order, *content)}
    assert list(turned) != list(content)
    source = opened(plant(tmp_path, turned))
    assert said(source) == said(expected)
    assert source.schema == expected.schema
    assert left_out(source) == left_out(expected) == ["E_ORPHAN"]


def test_an_area_that_is_missing_beside_fractions_is_that_of_the_box_in_pixels(tmp_path: Path) -> None:
    content = scene()
    for entry in content["annotations"]:
        entry |= {"bbox": [0.25, 0.25, 0.5, 0.5], "area": 96}
    del content["annotations"][0]["area"]
    options = AnnotationOptions(images=plant(tmp_path, content).parent, unit="fractions")
    convert(open_source(tmp_path / "instances.json", options=options), tmp_path / "out", workers=1)
    areas = {area for record in shardfeed.open(tmp_path / "out")["train"] for area in record[OBJECT_AREA]}
    assert areas == {60 * 40 / 4}


def test_fractions_are_refused_until_the_unit_is_given(tmp_path: Path) -> None:
    content = scene()
    for i, entry in enumerate(content["annotations"]):
        entry |= {"bbox": [0.1 * i, 0.25, 0.5, 0.5], "area": 0.25}
    file = plant(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        opened(file)
    assert "unit='fractions'" in str(caught.value)
    assert "--unit pixels" in caught.value.format_message({"unit": "--unit"})
    source = open_source(file, options=AnnotationOptions(unit="fractions"))
    convert(source, tmp_path / "out", workers=1)
    records: Any = shardfeed.open(tmp_path / "out")["train"]
    assert sorted(area for record in records for area in record[OBJECT_AREA]) == [600, 600, 600]
    assert opened(file, unit="pixels")[0].objects is not None


@pytest.mark.parametrize(
    "region",
    [
        [[100, 100, 150, 100, 150, 150]],  # outside
        [[5, 5, 5, 5, 5, 5]],
        [[-9, -9, -2, -9, -2, -2]],
        [[0, 0, 1e15, 0, 1e15, 1e15]],
        [[-9e8, -9e8, 9e8, -9e8, 9e8, 9e8]],
        {"size": [40, 60], "counts": [2400]},
    ],
)
def test_a_region_without_a_pixel_is_listed(tmp_path: Path, region: Any) -> None:
    source = opened(plant(tmp_path, bad(segmentation=region)), "boxes", "masks")
    report = convert(source, tmp_path / "out", workers=1, max_bad={"objects": 1})
    assert [(one.key, one.code) for one in report.account.left_out] == [(b"a.png", "E_OUTLINE")]
    assert (report.account.read, report.account.written) == (4, 3)


class OwnSource:
    """A source of one image with three objects, whose values nobody has checked."""

    def __init__(self, image: bytes) -> None:
        objects = ObjectGather(flags=[IS_CROWD])
        objects.add(0, 0, (0, 0, 1, 1), area=1)
        self.image, self.schema = image, objects.finish(None, None, lambda *_: None).joined(Schema({}))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sample:
        if index:
            raise IndexError(index)
        boxes, areas = np.array([[1.0, 1, 9, 9]] * 4), np.array([1, np.nan, -1, 1])
        names = [f"box {i}" for i in range(4)]
        return Sample(b"a.png", self.image, {}, objects=Objects(boxes, {IS_CROWD: [1, 0, 0, 2]}, names, areas=areas))


def test_values_of_a_source_of_ones_own_are_checked(tmp_path: Path) -> None:
    plant(tmp_path, scene())
    source = OwnSource((tmp_path / "images" / "a.png").read_bytes())
    report = convert(source, tmp_path / "out", workers=1, max_bad={"objects": 3})
    assert [one.code for one in report.account.left_out] == ["E_VALUE"] * 3
    assert report.account.written == 1


def test_all_of_coco_side_by_side(tmp_path: Path) -> None:
    root = of_coco(tmp_path / "coco")
    for year in ("train2017", "val2017"):
        content = json.loads((root / "annotations" / f"instances_{year}.json").read_text())
        for word in ("person_keypoints", "stuff"):
            content["categories"] = [PERSON | {"keypoints": NAMES}, {"id": 18, "name": word, "keypoints": NAMES}]
            (root / "annotations" / f"{word}_{year}.json").write_text(json.dumps(content))
    source = open_source(root)
    assert source.schema.class_names[OBJECT_LABEL] == ("person", "dog", "toothbrush")
    notes = "\n".join(source.findings.notes)  # type: ignore[attr-defined]
    for name, task in (("person_keypoints_train2017.json", "boxes,keypoints"), ("captions_val2017.json", "captions")):
        (line,) = [note for note in notes.splitlines() if name in note and f"--tasks {task} " in note]
        assert "unused files: 2 (" in line
        taken = open_source(root, options=AnnotationOptions(tasks=task.split(",")))  # type: ignore[arg-type]
        assert len(taken) == 6
    assert "stuff_train2017.json, stuff_val2017.json); give one" in notes
    both = open_source(root, options=AnnotationOptions(tasks=["boxes", "captions"]))
    assert [both[i].features[CAPTION] for i in (0, 1, 3)] == [[b"train2017"], [], [b"val2017"]]
    assert sum(len(both[i].objects or ()) for i in range(6)) == 6


def test_pngs_of_segments_are_no_images(tmp_path: Path) -> None:
    root = of_coco(tmp_path / "coco")
    folder = root / "annotations" / "panoptic_val2017"
    folder.mkdir()
    (folder / "a.png").write_bytes((root / "val2017" / "a.png").read_bytes())
    source = opened(root / "annotations" / "instances_val2017.json", images=str(root))
    assert [source[i].key for i in range(3)] == [b"val2017/a.png", b"val2017/b.png", b"val2017/c.png"]
    assert source[0].split == "validation"
    assert not any("panoptic" in note for note in source.findings.notes)


@pytest.mark.parametrize("tasks", [[], ["boxes"], ["boxes", "masks"], ["boxes", "keypoints"], ["captions"]])
def test_the_scenes_of_this_project_as_coco(tasks: list[Any]) -> None:
    folder = ROOT / "data_samples" / "scenes"
    source = open_source(folder / "coco", options=AnnotationOptions(images=folder / "images", tasks=tasks))
    assert len(source) == 16
    points = "keypoints" in tasks
    names = ("triangle",) if points else ("circle", "square", "triangle")
    assert source.schema.class_names == ({} if tasks == ["captions"] else {OBJECT_LABEL: names})
    assert (source.schema.keypoints is not None) == points
