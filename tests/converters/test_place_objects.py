"""The objects of an image, as its source says it, and as its record has them."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_images import encoded
from PIL import Image

from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    XMAX,
    XMIN,
    YMAX,
    YMIN,
    Keypoints,
)
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import Account, RejectCode, RejectedError
from shardfeed.converters.shards.place_objects import place_objects
from shardfeed.converters.sources.source import Objects
from shardfeed.errors import UsageError
from shardfeed.kinds import AREAS as OBJECT_AREAS
from shardfeed.kinds import CROWDS, KEYPOINTS, objects_problem
from shardfeed.schema import Feature, Schema

HEIGHT, WIDTH = 40, 60  # of the image in its file
BOXES = {key: Feature("float32", (None,), "box") for key in BOX}
CLASSES = {OBJECT_LABEL: Feature("int64", (None,), "label"), OBJECT_TEXT: Feature("bytes", (None,), "text")}
PLAIN = Schema(BOXES)
SCHEMA = Schema({**BOXES, **CLASSES}, {OBJECT_LABEL: ("cat", "dog")})
AREAS = Schema({**BOXES, OBJECT_AREA: Feature("float32", (None,), "number")})
MASKS = Schema({**AREAS.features, OBJECT_MASK: Feature("bytes", (None,), "mask")})


def exif_file(orientation: int, pixels: np.ndarray | None = None) -> bytes:
    """A PNG of 60 x 40 pixels with an EXIF orientation; gray [40, 60] where given."""
    return encoded(np.zeros((HEIGHT, WIDTH), np.uint8) if pixels is None else pixels, orientation=orientation)


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, np.float64).reshape(-1, 4)


def objects(*rows: tuple[float, float, float, float], **more: Any) -> Objects:
    names = [f"annotation {i}" for i in range(len(rows))]
    return Objects(boxes(*rows), names=names, **more)


def placed(found: Objects | None, schema: Schema = PLAIN, orientation: int = 1, **options: Any) -> tuple[Any, Account]:
    image = store_image(exif_file(orientation), ImageOptions(**options))
    return place_objects(b"a/1.png", found, image, schema)


def test_pixels_become_fractions_and_columns_follow() -> None:
    found = objects((6, 4, 30, 20), (0, 0, 60, 40), columns={OBJECT_LABEL: [1, 0]}, size=(60, 40))
    values, account = placed(found, SCHEMA)
    assert values[XMIN] == [np.float32(0.1), 0.0]
    assert (values[YMIN], values[XMAX], values[YMAX]) == ([np.float32(0.1), 0.0], [0.5, 1.0], [0.5, 1.0])
    assert (values[OBJECT_LABEL], values[OBJECT_TEXT]) == ([1, 0], [b"dog", b"cat"])
    assert (account.read, account.written, account.clipped, account.left_out) == (2, 2, 0, ())


def test_an_image_without_objects_has_none() -> None:
    for found in (None, objects()):
        values, account = placed(found, SCHEMA)
        assert not any(values.values())
        assert (account.read, account.written) == (0, 0)


@pytest.mark.promise(49)
def test_a_little_outside_is_clipped_and_counted_more_is_listed() -> None:
    found = objects((-0.5, 0, 30, 20), (0, 0, 61, 41), (10, 10, 61.5, 20), (-5, -5, -1, -1))
    values, account = placed(found)
    assert (values[XMIN], values[XMAX], values[YMAX]) == ([0.0, 0.0], [0.5, 1.0], [0.5, 1.0])
    assert (account.read, account.written, account.clipped) == (4, 2, 2)
    assert account.farthest == pytest.approx(1)
    assert [one.code for one in account.left_out] == ["E_BOX_OUTSIDE"] * 2
    assert "annotation 2, 10, 10 to 61.5, 20: 1.5 pixels outside of 60 x 40" in account.left_out[0].reason


def test_rounding_is_no_fault() -> None:
    values, account = placed(objects((0, 0, 1.0000000000000002, 0.5), fractions=True))
    assert (values[XMAX], account.written) == ([1.0], 1)


@pytest.mark.promise(49)
def test_what_is_no_box_is_listed() -> None:
    nan = float("nan")
    rows = [
        (5, 5, 5, 9),
        (9, 5, 5, 9),
        (nan, 0, 5, 5),
        (0, 0, float("inf"), 5),
        (59.9999999999, 0, 60, 5),
        (1, 1, 2, 2),
    ]
    values, account = placed(objects(*rows))
    assert len(values[XMIN]) == 1
    assert [one.code for one in account.left_out] == ["E_BOX_EMPTY"] * 4 + ["E_BOX_EMPTY"]
    assert [one.code for one in account.bad] == [one.code for one in account.left_out]
    account.check("x")


UPRIGHT_OF = {  # the box of the left upper 20 x 10 pixels of the file, in the upright image: fractions
    1: (0, 0, 1 / 3, 1 / 4), 2: (2 / 3, 0, 1, 1 / 4), 3: (2 / 3, 3 / 4, 1, 1), 4: (0, 3 / 4, 1 / 3, 1),
    5: (0, 0, 1 / 4, 1 / 3), 6: (3 / 4, 0, 1, 1 / 3), 7: (3 / 4, 2 / 3, 1, 1), 8: (0, 2 / 3, 1 / 4, 1),
}  # fmt: skip


@pytest.mark.promise(49)
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("options", [{}, {"resize_shorter": 20}])
def test_places_turn_with_the_pixels(orientation: int, options: dict[str, int]) -> None:
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[:10, :20] = 255
    image = store_image(exif_file(orientation, pixels), ImageOptions(**options))
    stored = np.asarray(Image.open(io.BytesIO(image.encoded)).convert("L")) > 127
    rows, columns = np.flatnonzero(stored.any(1)), np.flatnonzero(stored.any(0))
    seen = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    seen = [side / of for side, of in zip(seen, (image.width, image.height) * 2, strict=True)]
    assert seen == pytest.approx(UPRIGHT_OF[orientation], abs=0.026)
    size = (WIDTH, HEIGHT)
    for box, of_size, upright in (
        ((0, 0, 20, 10), size, False),
        (tuple(np.array(UPRIGHT_OF[orientation]) * ((40, 60) * 2 if orientation >= 5 else (60, 40) * 2)), None, True),
    ):
        found = objects(box, size=of_size, upright=upright, outlines=[[_polygon(box)]])
        made: tuple[Any, Account] = place_objects(b"a", found, image, MASKS)
        values, account = made
        assert account.written == 1
        assert [values[key][0] for key in BOX] == pytest.approx(UPRIGHT_OF[orientation], abs=1e-6)
        mask = np.asarray(Image.open(io.BytesIO(values[OBJECT_MASK][0])))
        assert mask.shape == stored.shape
        assert set(np.unique(mask)) == {0, 1}
        assert (mask.astype(bool) != stored).mean() < 0.03
        assert values[OBJECT_AREA] == [pytest.approx(200 * image.placement.scale)]


def _polygon(box: tuple[float, ...]) -> list[float]:
    left, top, right, bottom = box
    return [left, top, right, top, right, bottom, left, bottom]


def test_the_size_that_was_annotated_tells_which_image_is_meant() -> None:
    file_box, upright_box = (0, 0, 20, 10), (30, 0, 40, 20)
    for box, size in ((file_box, (60, 40)), (upright_box, (40, 60))):
        values, _ = placed(objects(box, size=size), orientation=6)
        assert [values[key][0] for key in BOX] == pytest.approx(UPRIGHT_OF[6])


def test_what_the_user_says_counts_whatever_the_size_tells() -> None:
    for upright, box in ((True, (30, 0, 40, 20)), (False, (0, 0, 20, 10))):
        assert [placed(objects(box, upright=upright), orientation=6)[0][key][0] for key in BOX] == pytest.approx(
            UPRIGHT_OF[6]
        )
        for size in ((60, 40), (40, 60)):
            values, _ = placed(objects(box, size=size, upright=upright), orientation=6)
            assert [values[key][0] for key in BOX] == pytest.approx(UPRIGHT_OF[6])


@pytest.mark.parametrize(
    ("found", "orientation"),
    [
        (objects((0, 0, 5, 5)), 6),  # no size, no word
        (objects((0, 0, 5, 5), size=(60, 40)), 3),  # both have it
        (objects((0, 0, 5, 5), size=(61, 40)), 1),
        (objects((0, 0, 5, 5), size=(61, 40), upright=True), 6),
        (objects(size=(40, 60)), 1),
    ],
)
def test_where_nothing_tells_the_image_is_refused(found: Objects, orientation: int) -> None:
    with pytest.raises(RejectedError) as caught:
        placed(found, orientation=orientation)
    assert caught.value.code is RejectCode.FRAME
    assert "boxes_on" in str(caught.value) or "61 x 40" in str(caught.value) or "40 x 60" in str(caught.value)


def test_the_middle_cut_out_takes_objects_along() -> None:
    found = objects((0, 0, 10, 40), (0, 0, 30, 40), (20, 10, 40, 30), areas=np.array([400.0, 1200.0, 300.0]))
    values, account = placed(found, AREAS, size=20)  # columns 10 to 50, halved
    assert values[XMIN] == [0.0, 0.25]
    assert values[XMAX] == [0.5, 0.75]
    assert values[OBJECT_AREA] == [200.0, 75.0]
    assert [(one.code, one.reason[:13]) for one in account.left_out] == [("E_CUT_OFF", "annotation 0,")]
    assert account.bad == []


def test_key_points_move_and_those_that_are_cut_off_are_not_there() -> None:
    schema = Schema(
        {**BOXES, **{key: Feature("float32", (None,), "keypoint") for key in (KEYPOINT_X, KEYPOINT_Y)},
         KEYPOINT_VISIBILITY: Feature("int64", (None,), "number")},
        keypoints=Keypoints(("eye", "ear"), (0, 1)),
    )  # fmt: skip
    points = np.array([[[15, 20, 2], [30, 20, 1]], [[5, 5, 2], [99, 99, 0]], [[80, 5, 2], [1, 1, 1]]], float)
    found = objects((0, 0, 60, 40), (0, 0, 30, 30), (0, 0, 9, 9), points={"keypoints": points})
    values, account = placed(found, schema)
    assert values[KEYPOINT_X] == pytest.approx([0.25, 0.5, 5 / 60, 0])
    assert values[KEYPOINT_Y] == pytest.approx([0.5, 0.5, 0.125, 0])
    assert values[KEYPOINT_VISIBILITY] == [2, 1, 2, 0]
    assert [one.code for one in account.left_out] == ["E_KEYPOINTS"]
    cut, _ = placed(found, schema, size=20)
    assert cut[KEYPOINT_VISIBILITY] == [2, 1, 0, 0]
    assert cut[KEYPOINT_X] == pytest.approx([0.125, 0.5, 0, 0])


@pytest.mark.parametrize(
    ("outline", "why"),
    [
        ([[1, 1, 5, 5]], "a polygon of 4 numbers"),
        ([], "no polygon"),
        ([[1, 1, 5, 5, float("nan"), 9]], "a value that is not a number"),
        ({"size": [60, 40], "counts": [2400]}, "of the size [60, 40], expected [40, 60]"),
        ({"size": [40, 60], "counts": [2401]}, "do not add up"),
        ({"size": [40, 60], "counts": [2500, -100]}, "do not add up"),
        ({"size": [40, 60], "counts": "123"}, "do not add up"),  # decoded, the rest is what the memory held
        ({"size": [40, 60], "counts": b"~~"}, "truncated"),
        ({"size": [40, 60], "counts": ""}, "truncated"),
    ],
)
def test_an_outline_that_is_none_is_listed(outline: object, why: str) -> None:
    found = objects((1, 1, 5, 5), (1, 1, 9, 9), outlines=[outline, [[1, 1, 9, 1, 9, 9]]])
    values, account = placed(found, MASKS)
    assert len(values[OBJECT_MASK]) == len(values[XMIN]) == 1
    assert [one.code for one in account.left_out] == ["E_OUTLINE"]
    assert why in account.left_out[0].reason


def test_columns_of_other_lengths_are_refused() -> None:
    for more in ({"columns": {OBJECT_LABEL: [1]}}, {"outlines": [None]}, {"columns": {}}):
        with pytest.raises(UsageError, match=r"1\.png, objects: "):
            placed(objects((1, 1, 2, 2), (1, 1, 3, 3), **more), SCHEMA)


sides = st.floats(-0.2, 1.2, width=64)


@pytest.mark.promise(49)
@given(st.lists(st.tuples(sides, sides, sides, sides), max_size=6), st.integers(1, 8), st.sampled_from([None, 13, 20]))
def test_whatever_is_given_is_written_right_or_listed(
    rows: list[tuple[float, float, float, float]], orientation: int, shorter: int | None
) -> None:
    found = Objects(np.array(rows).reshape(-1, 4), names=["box"] * len(rows), fractions=True, upright=False)
    values, account = placed(found, AREAS, orientation, resize_shorter=shorter)
    assert account.read == len(rows) == account.written + len(account.left_out)
    assert objects_problem(values, AREAS) == ""


def test_a_record_that_is_not_right_says_why() -> None:
    features = {**BOXES, **CROWDS.features, **OBJECT_AREAS.features, **KEYPOINTS.features}
    schema = Schema(features, keypoints=Keypoints(("nose",)))
    right = {**{key: [0.25, 0.25] for key in BOX[:2]}, **{key: [0.5, 1.0] for key in BOX[2:]}, IS_CROWD: [0, 1]}
    right |= {OBJECT_AREA: [2.0, 0.0], KEYPOINT_X: [0.5, 0.0], KEYPOINT_Y: [1.0, 0.0], KEYPOINT_VISIBILITY: [2, 0]}
    assert objects_problem(right, schema) == ""
    for key, values, why in (
        (XMIN, [0.5, 0.25], "object 0 has image/object/bbox/xmin 0.5 and image/object/bbox/xmax 0.5"),
        (YMAX, [0.5, 1.01], "object 1"),
        (YMIN, [float("nan"), 0], "object 0"),
        (IS_CROWD, [0], "1 value, expected 2"),
        (IS_CROWD, [0, 2], "expected 0 or 1"),
        (OBJECT_AREA, [-1.0, 0], "expected 0 or more"),
        (KEYPOINT_Y, [0.5, 1.5], "object 1 is 1.5, expected 0 to 1"),
        (KEYPOINT_VISIBILITY, [3, 0], "expected 0, 1 or 2"),
    ):
        assert why in objects_problem({**right, key: values}, schema)
