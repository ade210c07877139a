"""The same drawn scenes as COCO, YOLO, Pascal VOC, a table, and masks give the same records, where they can."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    RASTER,
)
from shardfeed.converters import convert
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.readers import BY_NAME
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import ENCODED, FILENAME

from repository import ROOT
from scene import CROWDED, EMPTY, KINDS, SCENES, TURNED, scene
from scene_files import IDS, VOID, class_mask, image_id

FOLDER = ROOT / "data_samples" / "scenes"
IMAGES = str(FOLDER / "images")
ALL = {scene(number).name: scene(number) for number in range(1, SCENES + 1)}
Records = Mapping[str, Mapping[str, Any]]


def converted(name: str, path: Path, out: Path, **options: Any) -> Dataset:
    """The dataset of a reader's source, with all that the sources say: nothing is left out."""
    report = convert(BY_NAME[name].read(Look(str(path)), options), out, workers=1)
    if report.account is not None:
        assert (report.account.read, report.account.clipped) == (report.account.written, 0)
    return shardfeed.open(out)


def records(data: Dataset) -> Records:
    """By the name of the scene, of all splits."""
    found = [record for split in data.values() for record in split]
    return {Path(bytes(record[FILENAME]).decode()).stem: record for record in found}  # type: ignore[arg-type]


def objects(record: Mapping[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    """Columns of the objects that are no crowd, object by object."""
    count = len(record[BOX[0]])
    crowds = record.get(IS_CROWD, np.zeros(count, int))
    columns = [[None] * count if key not in record else list(record[key]) for key in keys]
    return [row for row, crowd in zip(zip(*columns, strict=True), crowds, strict=True) if not crowd]


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image)


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    tasks = frozenset({"boxes", "masks"})
    out = tmp_path_factory.mktemp("coco") / "out"
    return converted("coco", FOLDER / "coco" / "instances.json", out, images=IMAGES, tasks=tasks)


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("yolo") / "out"
    return converted("yolo", FOLDER / "yolo" / "data.yaml", out, tasks=frozenset({"boxes", "masks"}))


@pytest.fixture(scope="module")
def voc(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return converted("voc", FOLDER / "voc", tmp_path_factory.mktemp("voc") / "out")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return converted("boxes-csv", FOLDER / "boxes.csv", tmp_path_factory.mktemp("table") / "out", images=IMAGES)


def test_coco_says_what_was_drawn(coco: Dataset) -> None:
    found = records(coco)
    assert found.keys() == ALL.keys()
    schema = coco.manifest.schema
    assert schema.class_names[OBJECT_LABEL] == KINDS
    assert schema.class_ids[OBJECT_LABEL] == tuple(IDS.values())
    for name, one in ALL.items():
        width, height = one.size
        boxes = [tuple(np.float32(side) for side in figure.box) for figure in one.figures]
        sides = zip(*(found[name][key] for key in BOX), strict=True)
        assert [(x * width, y * height, right * width, low * height) for x, y, right, low in sides] == boxes
        assert [text.decode() for text in found[name][OBJECT_TEXT]] == [figure.kind for figure in one.figures]
        assert int(found[name]["image/source_id"]) == image_id(one)
        masks = [pixels(mask) for mask in found[name][OBJECT_MASK]]
        assert [mask.sum() for mask in masks] == found[name][OBJECT_AREA].tolist()
        painted = np.zeros((height, width), np.uint8)
        for mask, figure in zip(masks, one.figures, strict=True):
            painted[mask == 1] = VOID if figure.crowd else 1 + KINDS.index(figure.kind)
        assert np.array_equal(painted, class_mask(one)), name
        assert pixels(found[name][ENCODED]).shape[:2] == (height, width)
    assert found[f"scene_{CROWDED:03d}"][IS_CROWD].tolist() == [0, 1, 0]
    assert len(found[f"scene_{EMPTY:03d}"][OBJECT_LABEL]) == 0


@pytest.mark.parametrize("other", ["yolo", "voc", "table"])
def test_others_say_the_same_boxes_of_the_same_pixels(
    other: str, coco: Dataset, request: pytest.FixtureRequest
) -> None:
    data: Dataset = request.getfixturevalue(other)
    ours, theirs = records(coco), records(data)
    assert data.manifest.schema.class_names[OBJECT_LABEL] == KINDS
    # A table has no row for an image without objects.
    empty = {f"scene_{EMPTY:03d}"} if other == "table" else set()
    assert theirs.keys() | empty == ours.keys()
    for name, record in theirs.items():
        keys = (*BOX, OBJECT_LABEL, OBJECT_TEXT)
        assert objects(record, *keys) == objects(ours[name], *keys), name
        assert record[ENCODED] == ours[name][ENCODED], name


def test_yolo_gives_the_same_masks_and_areas(coco: Dataset, yolo: Dataset) -> None:
    ours, theirs = records(coco), records(yolo)
    for name in ours:
        assert objects(theirs[name], OBJECT_AREA) == objects(ours[name], OBJECT_AREA), name
        masks = [[pixels(mask) for (mask,) in objects(of[name], OBJECT_MASK)] for of in (theirs, ours)]
        assert all(np.array_equal(a, b) for a, b in zip(*masks, strict=True)), name


@pytest.mark.parametrize("which", ["masks", "voc"])
def test_mask_folders_give_the_same_classes(which: str, coco: Dataset, tmp_path: Path) -> None:
    if which == "masks":
        names = str(FOLDER / "masks.txt")
        options: dict[str, Any] = {"images": IMAGES, "class_names": names}
        data = converted("masks", FOLDER / "masks", tmp_path / "out", **options)
    else:
        options = {"tasks": frozenset({"rasters"}), "class_names": str(FOLDER / "masks.txt")}
        data = converted("masks", FOLDER / "voc", tmp_path / "out", **options)
    raster = data.manifest.schema.raster
    assert raster.class_names == ("background", *KINDS)
    assert raster.void == VOID
    found, ours = records(data), records(coco)
    assert found.keys() == ours.keys()
    for name, record in found.items():
        assert np.array_equal(pixels(record[RASTER]), class_mask(ALL[name])), name
        assert record[ENCODED] == ours[name][ENCODED], name
    assert pixels(found[f"scene_{TURNED:03d}"][RASTER]).shape == (128, 64)


def test_key_points_are_the_corners_of_triangles(coco: Dataset, tmp_path: Path) -> None:
    tasks = frozenset({"boxes", "keypoints"})
    data = converted("coco", FOLDER / "coco" / "keypoints.json", tmp_path / "out", images=IMAGES, tasks=tasks)
    points = data.manifest.schema.keypoints
    assert points.names == ("top", "right", "left")
    assert points.flip == (0, 2, 1)
    assert points.skeleton == ((0, 1), (1, 2), (2, 0))
    for name, record in records(data).items():
        one = ALL[name]
        triangles = [figure for figure in one.figures if figure.kind == "triangle" and not figure.crowd]
        places = np.stack([record[KEYPOINT_X], record[KEYPOINT_Y]], axis=-1).reshape(-1, 3, 2) * one.size
        seen = record[KEYPOINT_VISIBILITY].reshape(-1, 3)
        corners = np.array([figure.parts[0] for figure in triangles], float).reshape(-1, 3, 2)
        assert np.array_equal(places[seen > 0], corners[seen > 0]), name
        assert not places[seen == 0].any()
        assert objects(record, *BOX) == [
            row for row, figure in zip(objects(records(coco)[name], *BOX), _single(one), strict=True)
            if figure.kind == "triangle"
        ]  # fmt: skip


def _single(one: Any) -> list[Any]:
    return [figure for figure in one.figures if not figure.crowd]


def test_captions_are_two_an_image(tmp_path: Path) -> None:
    data = converted("coco", FOLDER / "coco" / "captions.json", tmp_path / "out", images=IMAGES)
    found = records(data)
    assert found.keys() == ALL.keys()
    assert all(len(record[CAPTION]) == 2 for record in found.values())
    assert found[f"scene_{EMPTY:03d}"][CAPTION][0] == b"nothing but a background"
