"""The drawn scenes: their kinds are all there, nothing touches or leaves, and their files are what formats ask for."""

import json
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageOps
from pycocotools import mask as coco

from repository import ROOT
from scene import CROWDED, EMPTY, KINDS, SCENES, TURNED, draw_scene, scene
from scene_files import IDS, VOID, class_mask, figure_mask, scene_files

STORED = ROOT / "data_samples" / "scenes"
ALL = [scene(number) for number in range(1, SCENES + 1)]


def test_every_kind_and_every_oddity_is_there() -> None:
    assert {figure.kind for one in ALL for figure in one.figures} == set(KINDS)
    assert [one.number for one in ALL if any(figure.crowd for figure in one.figures)] == [CROWDED]
    assert [one.number for one in ALL if not one.figures] == [EMPTY]
    assert [one.number for one in ALL if one.turned] == [TURNED]
    assert scene(7) == scene(7) != scene(7 + SCENES)


@pytest.mark.parametrize("number", range(1, 3 * SCENES))
def test_shapes_neither_touch_nor_leave(number: int) -> None:
    one = scene(number)
    width, height = one.size
    boxes = [figure.box for figure in one.figures]
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert min(right - left, bottom - top) >= 10
    for a, b in combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


def test_pictures_show_the_shapes_where_they_are() -> None:
    for one in ALL:
        pixels = np.asarray(draw_scene(one)).max(axis=2)
        for figure in one.figures:
            inside = figure_mask(one, figure) == 1
            assert np.median(pixels[inside]) > np.median(pixels[class_mask(one) == 0]), one.name


def test_the_turned_image_is_upright_after_its_exif() -> None:
    with Image.open(STORED / "images" / f"{ALL[TURNED - 1].name}.jpg") as image:
        assert image.size == (128, 64)
        upright = np.asarray(ImageOps.exif_transpose(image), np.int16)
    assert np.abs(upright - np.asarray(draw_scene(ALL[TURNED - 1]), np.int16)).mean() < 8


def test_coco_files_hold_together_as_pycocotools_sees_them() -> None:
    found = json.loads((STORED / "coco" / "instances.json").read_text())
    sizes = {image["id"]: (image["height"], image["width"]) for image in found["images"]}
    assert len(sizes) == SCENES
    assert {row["id"] for row in found["categories"]} == set(IDS.values())
    for row in found["annotations"]:
        code = coco.frPyObjects(row["segmentation"], *sizes[row["image_id"]])  # type: ignore[reportArgumentType]
        code = code if row["iscrowd"] else coco.merge(code)  # type: ignore[reportArgumentType]
        assert coco.area(code) == row["area"]
    assert sum(row["iscrowd"] for row in found["annotations"]) == 1
    points = json.loads((STORED / "coco" / "keypoints.json").read_text())["annotations"]
    assert {tuple(row["keypoints"][2::3]) for row in points} == {(2, 2, 2), (2, 2, 1), (2, 2, 0)}


def test_masks_are_classes_and_the_crowd_is_void() -> None:
    values = set()
    for one in ALL:
        with Image.open(STORED / "masks" / f"{one.name}.png") as gray:
            assert (gray.mode, gray.size) == ("L", one.size)
            classes = np.asarray(gray)
        with Image.open(STORED / "voc" / "SegmentationClass" / f"{one.name}.png") as palette:
            assert palette.mode == "P"
            assert np.array_equal(np.asarray(palette), classes)
        values |= set(np.unique(classes).tolist())
    assert values == {0, 1, 2, 3, VOID}


def test_yolo_and_voc_say_the_boxes_of_the_scenes() -> None:
    for one in ALL:
        single = [figure for figure in one.figures if not figure.crowd]
        tree = ElementTree.parse(STORED / "voc" / "Annotations" / f"{one.name}.xml")
        boxes = [[int(side.text or "") for side in box] for box in tree.iter("bndbox")]
        assert boxes == [list(figure.box) for figure in single]
        (label,) = list((STORED / "yolo" / "labels").rglob(f"{one.name}.txt")) or [None]
        lines = label.read_text().splitlines() if label else []
        places = [[float(place) for place in line.split()[1:]] for line in lines]
        corners = [[(x * one.size[0], y * one.size[1]) for x, y in list(pairwise(line))[::2]] for line in places]
        assert corners == [list(figure.parts[0]) for figure in single]


def test_files_are_the_same_each_time() -> None:
    assert dict(scene_files()) == dict(scene_files())
