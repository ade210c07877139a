"""`shardfeed preview` of objects, masks, key points, rasters and captions: each where it must be, in its colour."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import encoded
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    RASTER,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, convert
from shardfeed.converters.sources.source import Objects
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL, TEXT, Feature, Schema
from shardfeed.tools.cli import main
from shardfeed.tools.commands.preview_command import contact_sheet
from shardfeed.tools.contact_sheet import WIDE_TILE, SheetRow, Tile, draw_sheet
from shardfeed.tools.overlay import class_colour, draw_annotations, has_annotations, raster_legend

PAPER = (40, 40, 40)  # of the pictures
BOXES = Schema(
    {
        **{key: Feature("float32", (None,), "box") for key in BOX},
        OBJECT_LABEL: Feature("int64", (None,), "label"),
        IS_CROWD: Feature("int64", (None,), "number"),
    },
    {OBJECT_LABEL: ("cat", "dog", "a very long name of a class that nobody would ever want to read to its end")},
)


def paper(width: int = 224, height: int = 112) -> Image.Image:
    return Image.new("RGB", (width, height), PAPER)


def objects(*boxes: tuple[float, float, float, float], labels: list[int], **more: Any) -> dict[str, Any]:
    sides = np.array(boxes, np.float32).reshape(-1, 4).T
    return {**dict(zip(BOX, sides, strict=True)), OBJECT_LABEL: np.array(labels), **more}


def where(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    return (np.asarray(picture) == colour).all(axis=2)


def joined(schema: Schema, features: dict[str, Feature], **more: Any) -> Schema:
    return Schema({**schema.features, **features}, schema.class_names, **more)


def test_a_box_has_its_edges_where_it_must() -> None:
    # 224 x 112 pixels: x from 56 to 168, y from 28 to 84; edges of two pixels, inside.
    drawn = draw_annotations(paper(), objects((0.25, 0.25, 0.75, 0.75), labels=[1]), BOXES)
    red = where(drawn, class_colour(1))
    rows, columns = np.flatnonzero(red[:, 110]), np.flatnonzero(red[56])
    assert columns.tolist() == [56, 57, 166, 167]
    assert rows.tolist() == [28, 29, 82, 83]
    assert red[28:84, 56].all()
    assert red[83, 56:168].all()
    assert not red[84:].any()
    assert not red[:, 168:].any()
    assert not red[:, :56].any()


def test_a_crowd_has_a_thin_box_and_is_called_so() -> None:
    one = objects((0.25, 0.25, 0.75, 0.75), labels=[1], **{IS_CROWD: np.array([1])})
    drawn = where(draw_annotations(paper(), one, BOXES), class_colour(1))
    plain = where(draw_annotations(paper(), {**one, IS_CROWD: np.array([0])}, BOXES), class_colour(1))
    assert np.flatnonzero(drawn[56]).tolist() == [56, 167]
    # the plate above the box is wider by ", crowd"
    assert np.flatnonzero(drawn[16]).max() > np.flatnonzero(plain[16]).max() + 20


def test_names_stay_in_the_picture_and_long_ones_are_cut() -> None:
    at_the_edge = objects((0.9, 0.0, 1.0, 0.5), labels=[2])
    plate = where(draw_annotations(paper(), at_the_edge, BOXES), class_colour(2))[8]
    assert 224 - 110 < np.flatnonzero(plate).min() < 150
    tiny = Schema(BOXES.features, {OBJECT_LABEL: ("x", "猫", "\x7f\u2028")})
    for width in (1, 3, 20):
        draw_annotations(paper(width, 5), objects((0, 0, 1, 1), labels=[1]), tiny)


def test_small_boxes_are_drawn_over_large_ones_and_names_need_no_classes() -> None:
    same = (0.25, 0.25, 0.5, 0.5)
    two = objects(same, (0.25, 0.25, 0.9, 0.9), labels=[0, 1])
    assert where(draw_annotations(paper(), two, BOXES), class_colour(0))[40, 56]
    nameless = Schema({key: Feature("float32", (None,), "box") for key in BOX})
    sides = {key: two[key] for key in BOX}
    assert where(draw_annotations(paper(), sides, nameless), class_colour(0))[40, 56]
    assert not where(draw_annotations(paper(), sides, nameless), class_colour(0))[20].any()


def test_colours_are_of_the_class_and_differ() -> None:
    colours = [np.array(class_colour(label)) for label in range(12)]
    assert min(np.abs(a - b).max() for i, a in enumerate(colours) for b in colours[:i]) > 30
    assert class_colour(7) == class_colour(7)


def test_a_mask_is_tinted_where_it_is_and_nowhere_else() -> None:
    schema = joined(BOXES, {OBJECT_MASK: Feature("bytes", (None,), "mask")})
    mask = np.zeros((10, 20), np.uint8)  # half the picture's size and less: it is fitted
    mask[5:8, 10:15] = 1
    whole = objects((0.5, 0.5, 0.75, 0.8), labels=[0], **{OBJECT_MASK: [encoded(mask)]})
    drawn = np.asarray(draw_annotations(paper(200, 100), whole, schema)).astype(int)
    tinted = tuple((a + b) // 2 for a, b in zip(class_colour(0), PAPER, strict=True))
    assert np.abs(drawn[60, 120] - tinted).max() <= 1
    assert drawn[40, 80].tolist() == list(PAPER)
    inside = np.abs(drawn[52:78, 102:148] - tinted).max(axis=2) <= 1
    assert inside.all()


def test_key_points_are_dots_rings_and_lines() -> None:
    features = {key: Feature("float32", (None,), "keypoint") for key in (KEYPOINT_X, KEYPOINT_Y)}
    features[KEYPOINT_VISIBILITY] = Feature("int64", (None,), "number")
    schema = joined(BOXES, features, keypoints=Keypoints(("a", "b", "c"), (), ((0, 1), (1, 2))))
    points = {
        KEYPOINT_X: np.array([0.25, 0.5, 0], np.float32), KEYPOINT_Y: np.array([0.5, 0.5, 0], np.float32),
        KEYPOINT_VISIBILITY: np.array([2, 1, 0]),
    }  # fmt: skip
    drawn = draw_annotations(paper(), objects((0.1, 0.2, 0.9, 0.9), labels=[0], **points), schema)
    colour = where(drawn, class_colour(0))
    assert colour[56, 56]  # visible: filled
    assert where(drawn, (255, 255, 255))[56, 112]  # occluded: a ring
    assert colour[56, 62:106].all()  # the line between them
    assert not colour[0:12, 0:12].any()  # the third is not there, nor is a line to it


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_raster_lies_over_the_picture_and_void_is_white(dtype: type) -> None:
    values = np.zeros((4, 8), dtype)
    values[:, 2:4], values[:, 4:6], values[:, 6:] = 1, 2, 255
    names = ("background", "sky", "road")
    schema = Schema({RASTER: Feature("bytes", (), "raster")}, raster=Raster(names, 255))
    drawn = np.asarray(draw_annotations(paper(80, 40), {RASTER: encoded(values)}, schema)).astype(int)
    wanted = [PAPER, class_colour(1), class_colour(2), (255, 255, 255)]
    for column, colour in zip((10, 30, 50, 70), wanted, strict=True):
        blended = colour if colour == PAPER else [(a + b) // 2 for a, b in zip(colour, PAPER, strict=True)]
        assert np.abs(drawn[20, column] - blended).max() <= 1


def test_a_mask_that_does_not_decode_is_a_cross() -> None:
    schema = joined(BOXES, {OBJECT_MASK: Feature("bytes", (None,), "mask")})
    one = objects((0, 0, 1, 1), labels=[0], **{OBJECT_MASK: [b"no png"]})
    tile = Tile.of(encoded(np.asarray(paper())), "", side=WIDE_TILE, drawn=lambda p: draw_annotations(p, one, schema))
    assert where(tile.image, (209, 36, 47)).sum() > 300


def test_texts_stand_below_in_lines_that_make_room() -> None:
    def sheet(*texts: str) -> Image.Image:
        return draw_sheet("t", [], [SheetRow("", "", "", [Tile(paper(96, 96), "name", texts)])], 1)

    plain, one, two = sheet(), sheet("short"), sheet("short", "a caption of more words than a line can hold " * 20)
    assert [one.height - plain.height, two.height - one.height] == [13, 26]
    assert plain.width == two.width
    below = np.asarray(two.convert("L"))[plain.height - 40 : -28]
    assert (below < 128).any()
    assert not (np.asarray(two.convert("L"))[:, -20:] < 128).any()


def test_places_of_older_datasets_are_not_drawn() -> None:
    places = Schema({key: Feature("float32", (None,), "place") for key in BOX})
    assert not has_annotations(places)
    assert not has_annotations(Schema({}))
    assert has_annotations(BOXES)


def test_a_legend_names_the_colours_of_pixels_and_void() -> None:
    schema = Schema({RASTER: Feature("bytes", (), "raster")}, raster=Raster(("background", "sky"), 255))
    assert raster_legend(schema) == [(class_colour(1), "sky"), ((255, 255, 255), "void")]
    assert raster_legend(BOXES) == []
    rows = [SheetRow("", "", "", [Tile(paper(96, 96), "")] * 3)]
    plain, named = draw_sheet("t", [], rows, 3), draw_sheet("t", [], rows, 3, legend=raster_legend(schema))
    assert named.height == plain.height + 18
    assert where(named, class_colour(1)).sum() > 60
    many = draw_sheet("t", [], rows, 3, legend=[(class_colour(i), f"class {i}") for i in range(100)])
    assert many.size == named.size


class Scenes:
    """Pictures of 60 x 30 pixels with a cat each, and a dog in every second one; captions and tags below."""

    schema = Schema(
        {
            **BOXES.features,
            OBJECT_TEXT: Feature("bytes", (None,), "text"),
            CAPTION: Feature("bytes", (None,), "text"),
            LABEL: Feature("int64", (None,), "label"),
            TEXT: Feature("bytes", (None,), "text"),
        },
        {**BOXES.class_names, LABEL: ("indoor", "outdoor")},
    )

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < len(self):
            raise IndexError(i)
        boxes = np.array([(6, 3, 30, 15), (40, 3, 50, 29)][: 1 + i % 2], np.float64)
        columns = {OBJECT_LABEL: [0, 1][: len(boxes)], IS_CROWD: [0] * len(boxes)}
        names = [f"object {n}" for n in range(len(boxes))]
        features = {CAPTION: [b"a cat", b"an animal"], LABEL: [1, 0], TEXT: [b"outdoor", b"indoor"]}
        image = encoded(np.full((30, 60, 3), PAPER[0], np.uint8))
        return Sample(b"%d.png" % i, image, features, objects=Objects(boxes, columns, names, (60, 30)))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Split:
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(Scenes(), out, workers=1)
    return shardfeed.open(out)["train"]


def test_the_sheet_of_a_dataset_shows_its_boxes(scenes: Split) -> None:
    sheet = contact_sheet(scenes)
    # A tile is 224 wide, the picture in it 224 x 112: a cat's box is 90 wide and 45 high, of two pixels a side.
    cats = where(sheet, class_colour(0))
    rows = np.flatnonzero(cats.sum(axis=1))
    assert len(rows)
    bottom = cats[: rows.max() + 1].sum(axis=1)
    assert bottom[-1] % 90 == bottom[-2] % 90 == 0  # whole bottom edges, of as many pictures as are in the last row
    assert where(sheet, class_colour(1)).any()


def test_rows_are_of_the_classes_that_are_asked_for(
    scenes: Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Schema({key: f for key, f in Scenes.schema.features.items() if key not in (LABEL, TEXT)}, BOXES.class_names)

    class Untagged(Scenes):
        schema = plain

        def __getitem__(self, i: int) -> Sample:
            sample = super().__getitem__(i)
            return Sample(sample.key, sample.image, {CAPTION: sample.features[CAPTION]}, objects=sample.objects)

    convert(Untagged(), tmp_path / "out", workers=1)
    assert main(["preview", str(tmp_path / "out"), "-o", str(tmp_path / "sheet.png")]) == 0
    assert "8 images, 12 objects, 3 classes" in capsys.readouterr().out
    arguments = ["--classes", "dog", "--columns", "2"]
    assert main(["preview", str(tmp_path / "out"), "-o", str(tmp_path / "dogs.png"), *arguments]) == 0
    assert "(1 of 3 classes shown" in capsys.readouterr().out
    with Image.open(tmp_path / "dogs.png") as image:
        assert where(image, class_colour(1)).any()
    assert main(["preview", str(tmp_path / "out"), "--classes", "bird"]) == 2
