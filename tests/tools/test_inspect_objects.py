"""`shardfeed inspect` of datasets with objects, key points and rasters: the counts, and what they are counts of."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_TEXT,
    RASTER,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, convert
from shardfeed.converters.sources.source import Objects
from shardfeed.schema import Feature, Schema
from shardfeed.tools.cli import main
from shardfeed.tools.commands.inspect_command import meanings
from shardfeed.tools.object_counts import counts_text, object_counts

SIDES = (10, 31, 32, 95, 96, 100)  # of square boxes: two small, two medium, two large
FEATURES = {
    **{key: Feature("float32", (None,), "box") for key in BOX},
    OBJECT_LABEL: Feature("int64", (None,), "label"),
    OBJECT_TEXT: Feature("bytes", (None,), "text"),
    IS_CROWD: Feature("int64", (None,), "number"),
}


class Squares:
    """Images of 128 x 128 pixels: image 0 has all of SIDES, images 1 and 2 a crowd, images 3 and on nothing."""

    def __init__(self, images: int = 5, *, area: bool = False) -> None:
        self.images, self.area = images, area

    @property
    def schema(self) -> Schema:
        features = FEATURES | ({OBJECT_AREA: Feature("float32", (None,), "number")} if self.area else {})
        return Schema(features, {OBJECT_LABEL: ("cat", "dog")}, {OBJECT_LABEL: (3, 17)})

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self.images:
            raise IndexError(i)
        out = io.BytesIO()
        Image.new("RGB", (128, 128), (i % 256, 9, 9)).save(out, "PNG")
        boxes = [(0, 0, side, side) for side in SIDES] if i == 0 else [(0, 0, 50, 50)] if i < 3 else []
        labels = [1] * len(boxes)
        columns = {OBJECT_LABEL: labels, IS_CROWD: [int(i > 0)] * len(boxes)}
        areas = np.ones(len(boxes)) if self.area else None
        names = [f"box {n}" for n in range(len(boxes))]
        objects = Objects(np.array(boxes, np.float64).reshape(-1, 4), columns, names, (128, 128), areas=areas)
        return Sample(b"%04d.png" % i, out.getvalue(), {}, objects=objects)


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("squares") / "out"
    convert(Squares(), out, workers=1)
    return str(out)


def test_counts_are_of_objects_by_size_and_of_images_without(squares: str) -> None:
    counts = object_counts(shardfeed.open(squares)["train"])
    assert (counts.images, counts.read, counts.objects, counts.empty) == (5, 5, 8, 2)
    assert (counts.median, counts.most, counts.crowds) == (1, 6, 2)
    assert (counts.small, counts.medium, counts.large) == (2, 2, 2)  # crowds are of no size
    assert counts.by_class == (0, 8)


def test_the_area_of_a_region_is_taken_before_that_of_its_box(tmp_path: Path) -> None:
    convert(Squares(area=True), tmp_path / "out", workers=1)
    counts = object_counts(shardfeed.open(tmp_path / "out")["train"])
    assert (counts.small, counts.medium, counts.large) == (6, 0, 0)


def test_a_large_split_is_sampled_and_says_so(tmp_path: Path) -> None:
    convert(Squares(200), tmp_path / "out", workers=1)
    split = shardfeed.open(tmp_path / "out")["train"]
    counts = object_counts(split, most_read=20)
    assert (counts.images, counts.read) == (200, 20)
    assert counts.by_class == (0, 8)  # the manifest's, of all
    assert counts_text(counts).endswith("; of 20 images, sampled evenly from all 200")
    assert object_counts(split[:0]) is None


def test_it_is_printed_with_the_ids_of_the_source(squares: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", squares, "--details"]) == 0
    printed = capsys.readouterr().out
    assert "objects: 8 in the 5 images that were read, 2 of them without objects\n" in printed
    assert "objects of train: 8 objects in 5 images, 2 without any, 1 per image (median), 6 at most, 2 small" in printed
    assert "2 crowds\n" in printed
    lines = [line.split() for line in printed.splitlines()]
    assert ["label", "id", "class", "train"] in lines
    assert ["1", "17", "dog", "8"] in lines


def test_json_has_the_same(squares: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", squares, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["splits"]["train"]["objects"] == {
        "images": 5, "read": 5, "by_class": [0, 8], "objects": 8, "empty": 2, "median": 1.0, "most": 6,
        "small": 2, "medium": 2, "large": 2, "crowds": 2,
    }  # fmt: skip
    assert described["features"][OBJECT_LABEL]["class_ids"] == [3, 17]


def test_key_points_and_rasters_say_what_they_mean() -> None:
    features = FEATURES | {key: Feature("float32", (None,), "keypoint") for key in (KEYPOINT_X, KEYPOINT_Y)}
    features |= {KEYPOINT_VISIBILITY: Feature("int64", (None,), "number"), RASTER: Feature("bytes", (), "raster")}
    raster = Raster(("background", "sky"), 255)
    schema = Schema(features, keypoints=Keypoints(("left eye", "right eye"), (1, 0)), raster=raster)
    assert meanings(schema) == [
        "2 key points per object: left eye, right eye",
        "2 pixel classes: 0 background, 1 sky; 255 is void",
    ]
    unknown = Schema(features, keypoints=Keypoints(("tip",)), raster=Raster(("a",)))
    assert "are not paired, so they cannot be flipped" in meanings(unknown)[0]
    assert meanings(unknown)[1] == "1 pixel class: 0 a; no void"
    assert meanings(Schema({})) == []


def test_without_objects_nothing_is_read(tmp_path: Path) -> None:
    class Bare(Squares):
        schema = Schema({})  # type: ignore[assignment]

        def __getitem__(self, i: int) -> Sample:
            sample = super().__getitem__(i)
            return Sample(sample.key, sample.image, {})

    convert(Bare(), tmp_path / "out", workers=1)
    assert object_counts(shardfeed.open(tmp_path / "out")["train"]) is None
