"""Rotated boxes, from files to batches and back: DOTA and YOLO in, both frameworks, YOLO out.

The inputs follow the formats as documented: DOTA's `labelTxt`, and Ultralytics' OBB.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from datasets import here
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, OBJECT_AREA
from shardfeed.converters import AnnotationOptions, ImageOptions, Sample, Source, convert, export, open_source
from shardfeed.errors import UsageError
from shardfeed.kinds import ROTATED, objects_problem
from shardfeed.pipelines import detection, letterbox, random_resized_crop
from shardfeed.pipelines import torch as torch_pipelines
from shardfeed.pipelines.windows import sample_seeds
from shardfeed.readers import Dataset

CORNER_X, CORNER_Y = ROTATED.features
DOTA = """imagesource:GoogleEarth
gsd:0.146343590398
50.0 10.0 90.0 30.0 80.0 50.0 40.0 30.0 plane 0
180 60 240 90 230 110 170 80 large-vehicle 1
500 500 510 510 505 520 495 510 ship 0
1 2 3 plane
"""
# As Ultralytics documents it, and a corner outside of the image.
LINES = "0 0.780811 0.743961 0.782371 0.74686 0.777691 0.752174 0.776131 0.749758\n1 -0.1 0.5 0.3 0.25 0.4 0.5 0 0.75\n"


def picture(path: Path, orientation: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.full((100, 200, 3), 90, np.uint8)).save(path, exif=exif)


def dota(root: Path) -> Path:
    picture(root / "train" / "images" / "a.png")
    (root / "train" / "labelTxt").mkdir()
    (root / "train" / "labelTxt" / "a.txt").write_text(DOTA)
    return root


def obb(root: Path, more: str = "task: obb\n", orientation: int = 1) -> Path:
    picture(root / "images" / "train" / "a.jpg", orientation)
    (root / "labels" / "train").mkdir(parents=True)
    (root / "labels" / "train" / "a.txt").write_text(LINES)
    (root / "data.yaml").write_text(f"path: .\ntrain: images/train\nnames: [plane, ship]\n{more}")
    return root / "data.yaml"


def converted(path: Path, out: Path, *, image: ImageOptions | None = None, **options: object) -> Dataset:
    source = open_source(path, options=AnnotationOptions(**options))  # type: ignore[arg-type]
    convert(source, out, image=image, workers=here(), max_bad={"objects": 3})
    return shardfeed.open(out)


def test_dota_gives_corners_their_box_area_and_difficulty(tmp_path: Path) -> None:
    data = converted(dota(tmp_path / "dota"), tmp_path / "out")
    record = data["train"][0]
    assert np.allclose(np.multiply(record[CORNER_X], 200), [50, 90, 80, 40, 180, 240, 230, 170])
    assert np.allclose(np.multiply(record[CORNER_Y], 100), [10, 30, 50, 30, 60, 90, 110, 80])
    boxes = np.stack([record[side] for side in BOX], -1) * (200, 100, 200, 100)
    assert np.allclose(boxes, [[40, 10, 90, 50], [170, 60, 200, 100]])
    # A corner at a right angle to the next: of the second, the share that the image has of its box.
    assert np.allclose(record[OBJECT_AREA], [1000, 1500 * (30 * 40) / (70 * 50)])
    assert list(record["image/object/difficult"]) == [0, 1]
    account = (tmp_path / "out" / "left_out.jsonl").read_text()
    assert account.count("E_BOX_OUTSIDE") == account.count("E_LINE") == account.count("\n") / 2 == 1


def test_corners_that_do_not_go_around_an_area_are_listed(tmp_path: Path) -> None:
    """Crossed sides have areas of both signs, which add up to none."""
    path = dota(tmp_path / "dota")
    around = "50 10 90 30 80 50 40 30 plane 0\n50 10 40 30 80 50 90 30 plane 0\n10 10 50 12 90 10 50 90 plane 0\n"
    crossed = "50 10 80 50 90 30 40 30 plane 0\n10 10 90 80 90 10 12 80 plane 0\n10 10 20 20 30 30 40 40 plane 0\n"
    (path / "train" / "labelTxt" / "a.txt").write_text(around + crossed)
    areas = converted(path, tmp_path / "out")["train"][0][OBJECT_AREA]
    assert np.allclose(areas, [1000, 1000, 3120])
    account = (tmp_path / "out" / "left_out.jsonl").read_text()
    assert [account.count("E_OUTLINE"), *(f"line {n}," in account for n in (4, 5, 6))] == [3, True, True, True]


class OfOtherAreas:
    """The samples of a source, with areas of its own."""

    def __init__(self, source: Source) -> None:
        self._source, self.schema = source, source.schema

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, i: int) -> Sample:
        sample = self._source[i]
        assert sample.objects is not None
        return replace(sample, objects=replace(sample.objects, areas=np.full(len(sample.objects), 77.0)))


def test_areas_that_are_not_those_of_the_corners_are_a_loss_of_yolo(tmp_path: Path) -> None:
    source = open_source(dota(tmp_path / "dota"))
    for name, given in (("same", source), ("other", OfOtherAreas(source))):
        convert(given, tmp_path / name, workers=here(), max_bad={"objects": 3})
        result = export(
            shardfeed.open(tmp_path / name), tmp_path / f"{name} back", to="yolo", drop=["image/object/difficult"]
        )
        noted = [note for note in result.notes if "areas" in note]
        assert noted == [] if name == "same" else [note.endswith("not kept: 2") for note in noted] == [True]


def test_dota_of_editors_that_write_a_mark_or_capitals_is_dota(tmp_path: Path) -> None:
    for name, text in (("mark", "\ufeff" + DOTA), ("plain", "\ufeff" + DOTA[42:]), ("capitals", DOTA.title())):
        path = dota(tmp_path / name)
        (path / "train" / "labelTxt" / "a.txt").write_text(text.replace("\n", "\r\n"), newline="")
        data = converted(path, tmp_path / f"{name} out")
        assert len(data["train"][0][CORNER_X]) == 8


def test_boxes_alone_lose_their_corners(tmp_path: Path) -> None:
    for name, path in (("dota", dota(tmp_path / "d")), ("yolo", obb(tmp_path / "y"))):
        data = converted(path, tmp_path / name, tasks=("boxes",))
        assert not ROTATED.features.keys() & data.manifest.schema.features.keys()
        assert len(data["train"][0][BOX[0]]) == 1  # the other one leaves the image


def test_nine_numbers_are_rotated_boxes_where_they_are_asked_for(tmp_path: Path) -> None:
    data = converted(obb(tmp_path / "y", ""), tmp_path / "out", tasks=("rotated",))
    assert len(data["train"][0][CORNER_X]) == 8


def test_an_export_to_yolo_has_the_same_lines(tmp_path: Path) -> None:
    data = converted(obb(tmp_path / "y"), tmp_path / "out")
    export(data, tmp_path / "back", to="yolo")
    assert (tmp_path / "back" / "labels" / "train" / "a.txt").read_text() == LINES
    again = converted(tmp_path / "back" / "data.yaml", tmp_path / "again")
    assert again["train"].payloads(np.arange(1))[0] == data["train"].payloads(np.arange(1))[0]
    for to in ("coco", "voc"):
        with pytest.raises(UsageError, match="rotated"):
            export(data, tmp_path / to, to=to)
    from_dota = converted(dota(tmp_path / "d"), tmp_path / "d.out")
    export(from_dota, tmp_path / "d.back", to="yolo", drop=["image/object/difficult"])
    (labels,) = (tmp_path / "d.back").rglob("a.txt")
    assert labels.read_text().startswith("1 0.25 0.1 0.45 0.3 0.4 0.5 0.2 0.3\n")


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_corners_turn_with_their_image(tmp_path: Path, orientation: int) -> None:
    """YOLO's are of the upright image, as all that is stored; fractions do not change with the size of the image."""
    data = converted(
        obb(tmp_path / "y", orientation=orientation), tmp_path / "out", image=ImageOptions(resize_shorter=50)
    )
    expected = np.array(LINES.split(), np.float32).reshape(-1, 9)[:, 1:].reshape(-1, 2)
    found = np.stack([data["train"][0][key] for key in (CORNER_X, CORNER_Y)], -1)
    assert np.allclose(found, expected, atol=1e-6)


def test_both_frameworks_move_corners_alike(tmp_path: Path) -> None:
    data = converted(dota(tmp_path / "d"), tmp_path / "out")
    split, seeds = data["train"], [(7, n) for n in range(12)]
    mirrored = 0
    for crop, like in (
        (random_resized_crop(64, area=(0.5, 1.0)), torch_pipelines.random_resized_crop(64, area=(0.5, 1.0))),
        (letterbox(64), torch_pipelines.letterbox(64)),
    ):
        keys, transform = detection(crop, boxes="xyxyxyxy", max_objects=4).bind(split.schema)
        _, plain = detection(crop, max_objects=4).bind(split.schema)
        needed, other = torch_pipelines.detection(like, boxes="xyxyxyxy").bind(split.schema)
        assert {*ROTATED.features} <= {*keys} & {*needed}
        record = split[0]
        features = {key: tf.constant(record[key]) for key in keys}
        for seed in seeds:
            sample = transform(features, tf.constant(seed, tf.int64))
            count = int(sample["num_objects"])
            found = sample["bounding_boxes"]["boxes"].numpy()[:count]
            (drawn,) = sample_seeds(np.array([seed], np.int64))
            _, target = other(record, drawn)
            np.testing.assert_array_equal(found, target["boxes"].numpy())
            assert target["labels"].tolist() == sample["bounding_boxes"]["labels"].numpy()[:count].tolist()
            assert found.shape == (count, 8)
            upright = plain(features, tf.constant(seed, tf.int64))["bounding_boxes"]["boxes"].numpy()[:count]
            around = np.stack(
                [found[:, ::2].min(1), found[:, 1::2].min(1), found[:, ::2].max(1), found[:, 1::2].max(1)], 1
            )
            # The box in the crop is the part of the box around the corners that image and crop show.
            assert (upright[:, :2] >= around[:, :2] - 1e-3).all()
            assert (upright[:, 2:] <= around[:, 2:] + 1e-3).all()
            x, y = found[:, ::2], found[:, 1::2]
            turn = (x * np.roll(y, -1, 1) - np.roll(x, -1, 1) * y).sum(1)
            assert (turn > 0).all(), "the corners go around clockwise, also in a mirrored crop"
            mirrored += bool(count) and found[0, 1] > found[0, 3]  # the first corner of a mirrored crop was the second
    assert mirrored


def test_a_transform_that_needs_corners_says_so(tmp_path: Path) -> None:
    data = converted(dota(tmp_path / "d"), tmp_path / "out", tasks=("boxes",))
    for transform in (
        detection(letterbox(64), boxes="xyxyxyxy"),
        torch_pipelines.detection(torch_pipelines.letterbox(64), boxes="xyxyxyxy"),
    ):
        with pytest.raises(UsageError, match="no rotated boxes: no feature image/object/corner/x; convert it again"):
            transform.bind(data["train"].schema)


def test_a_corner_that_is_no_number_is_a_problem(tmp_path: Path) -> None:
    data = converted(dota(tmp_path / "d"), tmp_path / "out")
    values = {key: np.array(data["train"][0][key]) for key in data.manifest.schema.object_keys}
    assert objects_problem(values, data.manifest.schema) == ""
    values[CORNER_Y][5] = np.inf
    assert "corner/y of object 1 is inf" in objects_problem(values, data.manifest.schema)
    values[CORNER_Y] = values[CORNER_Y][:7]
    assert "7 values, expected 8" in objects_problem(values, data.manifest.schema)
