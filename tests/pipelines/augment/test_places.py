"""Boxes, masks and key points after moves: there and back, and against the pixels of images that move alike."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import WAYS, Move, numbered

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import polygons
from shardfeed.pipelines.augment.edits import Edit
from shardfeed.pipelines.augment.host import edited
from shardfeed.pipelines.augment.operations.letterbox import letterboxed
from shardfeed.pipelines.augment.places import (
    are_mirrored,
    are_moved,
    move_boxes,
    move_points,
    move_raster,
    packed,
    unpacked,
)
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.geometry import see_areas, see_boxes, see_points, see_raster, to_source
from shardfeed.pipelines.windows import Window

GEOMETRIC = [way for way in WAYS if way != "erased"]
FLIP = (1, 0, 2)


@st.composite
def some_moves(draw: Any, target: tuple[int, int], ways: list[str], most: int = 3) -> list[Move]:
    """Up to `most` moves of these ways."""
    fractions = st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=8, max_size=8)
    chosen = draw(st.lists(st.sampled_from(ways), min_size=1, max_size=most))
    return [WAYS[way][1](np.array(draw(fractions)), target) for way in chosen]


@st.composite
def moved_targets(draw: Any, ways: list[str], most: int = 3, least: int = 16) -> tuple[tuple[int, int], list[Move]]:
    """A (height, width), square or not, and moves of it."""
    height = draw(st.integers(least, 160))
    target = (height, height if draw(st.booleans()) else draw(st.integers(least, 160)))
    return target, draw(some_moves(target, ways, most))


def inverse(move: Move, target: tuple[int, int]) -> Move:
    """The move that undoes another: by its own numbers, not by what `places` makes of them."""
    kind, numbers = move
    if kind == Edit.WARP:
        return numbered(Edit.WARP, *np.linalg.inv(numbers[:9].reshape(3, 3)).ravel(), *numbers[9:13])
    return numbered(Edit.TURN, numbers[0] if numbers[1] else -numbers[0] % 4, numbers[1])


def carried_out(image: np.ndarray, moves: list[Move]) -> np.ndarray:
    """An image, uint8 [height, width, channels], after the edits of the moves."""
    kinds = np.array([kind for kind, _ in moves], np.int32)
    return edited(image, kinds, np.array([numbers for _, numbers in moves]))


def boxes_within(target: tuple[int, int], seed: int, count: int = 8) -> np.ndarray:
    """float32 [count, 4] in pixels: from slivers to most of the image."""
    rng = np.random.default_rng(seed)
    low, high = rng.random((count, 2)), rng.random((count, 2))
    corners = np.concatenate([np.minimum(low, high), np.maximum(low, high)], 1)
    corners[:, 2:] += 0.02
    return (corners.clip(0, 1) * ([target[1], target[0]] * 2)).astype(np.float32)


@settings(max_examples=150)
@given(given_moves=moved_targets(GEOMETRIC), seed=st.integers(0, 2**32))
def test_points_come_back_by_the_inverse(given_moves: Any, seed: int) -> None:
    target, moves = given_moves
    points = (np.random.default_rng(seed).random((5, 3, 2)) * [target[1], target[0]]).astype(np.float32)
    back = [inverse(move, target) for move in reversed(moves)]
    there, inside = move_points(points, moves, target)
    returned, stayed = move_points(points, [*moves, *back], target)
    np.testing.assert_allclose(returned, points, atol=0.01)
    assert (stayed <= inside).all()
    again, _ = move_points(there[inside][None], back, target)
    np.testing.assert_allclose(again[0], points[inside], atol=0.05)
    assert not are_mirrored([*moves, *back], target)


@settings(max_examples=150)
@given(given_moves=moved_targets(GEOMETRIC), seed=st.integers(0, 2**32))
def test_boxes_come_back_by_the_inverse(given_moves: Any, seed: int) -> None:
    """Those that stay in the image; of others the part that is left lies within the box."""
    target, moves = given_moves
    boxes = boxes_within(target, seed)
    there = move_boxes(boxes, moves, target)
    returned = move_boxes(boxes, [*moves, *(inverse(move, target) for move in reversed(moves))], target)
    whole = there.visible > 1 - 1e-9
    np.testing.assert_allclose(returned.boxes[whole], boxes[whole], atol=0.05)
    np.testing.assert_allclose(returned.growth[whole], 1, rtol=1e-6)
    some = returned.visible > 1e-3
    assert (returned.boxes[some, :2] > boxes[some, :2] - 0.05).all()
    assert (returned.boxes[some, 2:] < boxes[some, 2:] + 0.05).all()
    assert (there.visible >= 0).all()
    assert (there.visible <= 1).all()


@settings(max_examples=150)
@given(given_moves=moved_targets(GEOMETRIC, least=48), seed=st.integers(0, 2**32))
def test_boxes_masks_and_points_agree_with_the_pixels(given_moves: Any, seed: int) -> None:
    """An object that fills its box is painted into an image, which is edited; its mask moves apart from that."""
    target, moves = given_moves
    rng = np.random.default_rng(seed)
    tall, wide = (int(rng.integers(side // 4, side // 2)) for side in target)
    top, left = (int(rng.integers(0, side - extent)) for side, extent in zip(target, (tall, wide), strict=True))
    mask = np.zeros(target, np.uint8)
    mask[top : top + tall, left : left + wide] = 1
    image = carried_out(np.repeat(40 + 200 * mask[:, :, None], 3, 2).astype(np.uint8), moves)
    moved = move_raster(mask, moves, 0)
    painted = image[:, :, 0] > 140
    both, either = (painted & (moved > 0)).sum(), (painted | (moved > 0)).sum()
    rim = 2 * (moved[1:] != moved[:-1]).sum() + 2 * (moved[:, 1:] != moved[:, :-1]).sum()
    assert either - both <= len(moves) * rim / 4 + 2

    boxes = move_boxes(np.array([[left, top, left + wide, top + tall]], np.float32), moves, target)
    area = boxes.visible[0] * boxes.growth[0] * wide * tall
    assert abs(moved.sum() - area) <= len(moves) * (rim / 4 + 2)
    if moved.any() and area > 30:
        rows, columns = np.nonzero(moved)
        extents = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
        beyond = np.array(extents) - boxes.boxes[0]
        assert (beyond[:2] > -len(moves) - 0.01).all()
        assert (beyond[2:] < len(moves) + 0.01).all()

    centre = np.array([[[left + wide / 2, top + tall / 2]]], np.float32)
    point, inside = move_points(centre, moves, target)
    if inside[0, 0]:
        column, row = np.floor(point[0, 0]).astype(int)
        margin = 2 * len(moves)  # a pixel of rounding for each move, and what later ones enlarge of it
        around = moved[max(0, row - margin) : row + margin + 1, max(0, column - margin) : column + margin + 1]
        assert around.any()


@settings(max_examples=50)
@given(given_moves=moved_targets(["affine", "perspective"], most=1), seed=st.integers(0, 2**32))
def test_masks_move_by_the_same_places_as_nearest_pixels(given_moves: Any, seed: int) -> None:
    target, [(kind, numbers)] = given_moves
    numbers[9], numbers[10:13] = 0, 77
    mask = np.random.default_rng(seed).integers(0, 256, target).astype(np.uint8)
    np.testing.assert_array_equal(
        move_raster(mask, [(kind, numbers)], 77), carried_out(mask[:, :, None], [(kind, numbers)])[:, :, 0]
    )


@given(given_moves=moved_targets(["turn", "upside_down"]), seed=st.integers(0, 2**32))
def test_turns_lose_nothing(given_moves: Any, seed: int) -> None:
    """Not a pixel of a raster, nor of a box."""
    target, moves = given_moves
    raster = np.random.default_rng(seed).integers(0, 65536, target).astype(np.uint16)
    back = [inverse(move, target) for move in reversed(moves)]
    np.testing.assert_array_equal(move_raster(move_raster(raster, moves, None), back, None), raster)
    boxes = np.floor(boxes_within(target, seed))
    boxes[:, 2:] += 1
    moved = move_boxes(boxes.clip(0, [target[1], target[0]] * 2), moves, target)
    assert (moved.visible == 1).all()
    assert (moved.growth == 1).all()
    np.testing.assert_array_equal(moved.boxes, np.rint(moved.boxes))


def test_an_erased_rectangle_hides_what_is_below() -> None:
    target, erase = (20, 40), numbered(Edit.ERASE, 5, 10, 10, 20, 1, 2, 3)
    boxes = np.array([[10, 5, 30, 15], [0, 0, 40, 20], [5, 0, 15, 10], [31, 0, 40, 20]], np.float32)
    moved = move_boxes(boxes, [erase], target)
    np.testing.assert_array_equal(moved.boxes, boxes)
    np.testing.assert_allclose(moved.visible, [0, 0.75, 0.75, 1])
    points = np.array([[[15, 10], [9, 10], [35, 10]]], np.float32)
    same, inside = move_points(points, [erase], target)
    np.testing.assert_array_equal(same, points)
    assert inside.tolist() == [[False, True, True]]
    raster = np.full(target, 3, np.uint8)
    void = move_raster(raster, [erase], 255)
    assert (void[5:15, 10:30] == 255).all()
    assert (void == 255).sum() == 200
    np.testing.assert_array_equal(move_raster(raster, [erase], None), raster)
    assert (raster == 3).all()
    assert not are_moved([erase])


@given(given_moves=moved_targets(list(WAYS)))
def test_moves_pack(given_moves: Any) -> None:
    _, moves = given_moves
    rows = np.concatenate([packed(moves), np.zeros((2, 25))])
    for (kind, numbers), (same, equal) in zip(moves, unpacked(rows), strict=True):
        assert kind is same
        np.testing.assert_array_equal(numbers, equal)
    assert packed(()).shape == (0, 25)


@given(given_moves=moved_targets(list(WAYS)), seed=st.integers(0, 2**32), min_visible=st.floats(0, 1, width=32))
def test_what_a_view_with_moves_shows(given_moves: Any, seed: int, min_visible: float) -> None:
    """Views of a crop, flipped or not, and of a letterbox. The moves come after it."""
    target, moves = given_moves
    rng, size = np.random.default_rng(seed), (90, 70)
    window = Window(10, 5, 60, 50)
    for view in (cropped(size, window, target, bool(seed % 2)), letterboxed(size, target)):
        then = view._replace(moves=tuple(moves))
        boxes = boxes_within((1, 1), seed)
        before, after = see_boxes(boxes, view, 0), see_boxes(boxes, then, min_visible)
        assert set(after.kept) <= set(before.kept)
        rows = np.searchsorted(before.kept, after.kept)
        moved = move_boxes(before.boxes[rows], moves, target)
        np.testing.assert_array_equal(after.boxes, moved.boxes)
        np.testing.assert_allclose(after.visible, before.visible[rows] * moved.visible, rtol=1e-6)
        assert (after.visible >= np.float32(min_visible)).all()
        assert (after.boxes[:, 2:] > after.boxes[:, :2]).all()
        assert (after.boxes >= 0).all()
        assert (after.boxes <= np.array([target[1], target[0]] * 2)).all()
        areas = (100 * rng.random(len(boxes))).astype(np.float32)
        scale = view.content.height * view.content.width / (view.window.height * view.window.width)
        expected = areas[after.kept] * scale * after.visible * moved.growth
        np.testing.assert_allclose(see_areas(areas, after, then), expected, rtol=1e-5)

        x, y, visibility = rng.random((4, 3)), rng.random((4, 3)), rng.integers(0, 3, (4, 3))
        columns = x.astype(np.float32), y.astype(np.float32)
        plain, outline = see_points(*columns, visibility, view, FLIP), see_points(*columns, None, view, FLIP)
        shown, corners = see_points(*columns, visibility, then, FLIP), see_points(*columns, None, then, FLIP)
        there, inside = move_points(plain[:, :, :2], moves, target)
        expected = np.where(((plain[:, :, 2] > 0) & inside)[:, :, None], np.dstack([there, plain[:, :, 2]]), 0)
        everywhere = move_points(outline, moves, target)[0]
        if are_mirrored(moves, target):
            expected, everywhere = expected[:, list(FLIP)], everywhere[:, list(FLIP)]
        np.testing.assert_array_equal(shown, expected.astype(np.float32))
        np.testing.assert_array_equal(corners, everywhere)

        raster = rng.integers(0, 5, size).astype(np.uint8)
        np.testing.assert_array_equal(
            see_raster(raster, then, 255), move_raster(see_raster(raster, view, 255), moves, 255)
        )


def test_a_mirrored_crop_that_is_mirrored_again_swaps_nothing() -> None:
    view = View((10, 10), Window(0, 0, 10, 10), (10, 10), Window(0, 0, 10, 10), True)
    x, y = np.array([[0.1, 0.3]], np.float32), np.array([[0.2, 0.2]], np.float32)
    visible = np.full((1, 2), 2)
    upright = numbered(Edit.TURN, 2, 1)  # half a turn and upside down: left and right are swapped
    found = see_points(x, y, visible, view._replace(moves=(upright,)), ())
    np.testing.assert_allclose(found, [[[1, 2, 2], [3, 2, 2]]], atol=1e-5)
    with pytest.raises(UsageError, match="augmentations that do not mirror"):
        see_points(x, y, visible, view._replace(mirrored=False, moves=(upright,)), ())


@pytest.mark.parametrize("factor", [1, -1, 1e9, -1e-9])
def test_a_multiple_of_a_homography_is_the_same(factor: float) -> None:
    target = (40, 60)
    for way in ("affine", "perspective"):
        _, numbers = WAYS[way][1](np.array([0.8, 0.3, 0.5, 0.7, 0.4, 0.2, 0.6, 0.1]), target)
        other = numbers.copy()
        other[:9] *= factor
        boxes = boxes_within(target, 3)
        moves, same = [(Edit.WARP, numbers)], [(Edit.WARP, other)]
        for one, two in zip(move_boxes(boxes, moves, target), move_boxes(boxes, same, target), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-4)
        assert are_mirrored(moves, target) == are_mirrored(same, target)


def test_points_on_the_border_stay_there() -> None:
    """A warp by nothing, whose rounding is of the size of a float's last bit."""
    target = (50, 70)
    angle = np.radians(30)
    turn_back = np.array([[np.cos(angle), -np.sin(angle), 7], [np.sin(angle), np.cos(angle), -3], [0, 0, 1]])
    nothing = numbered(Edit.WARP, *(np.linalg.inv(turn_back) @ turn_back).ravel())
    corners = np.array([[[0, 0], [70, 0], [70, 50], [0, 50]]], np.float32)
    moved, inside = move_points(corners, [nothing] * 3, target)
    assert inside.all()
    np.testing.assert_allclose(moved, corners, atol=1e-5)
    assert (moved >= 0).all()
    assert (moved <= [70, 50]).all()


def test_there_is_no_way_back_from_moved_places() -> None:
    view = cropped((6, 8), Window(0, 0, 6, 8), (6, 8))
    to_source(view._replace(moves=(numbered(Edit.ERASE, 0, 0, 2, 2),)))
    with pytest.raises(UsageError, match="evaluate without augmentations"):
        to_source(view._replace(moves=(numbered(Edit.TURN, 2, 0),)))


def test_a_homography_without_an_inverse_shows_nothing() -> None:
    flat = numbered(Edit.WARP, 1, 0, 0, 1, 0, 0, 0, 0, 1)
    moved = move_boxes(np.array([[1, 1, 5, 5]], np.float32), [flat], (8, 8))
    assert moved.visible.tolist() == [0]
    assert not move_points(np.ones((1, 1, 2), np.float32), [flat], (8, 8))[1].any()


@given(seed=st.integers(0, 2**32))
def test_polygons_are_cut_exactly(seed: int) -> None:
    """Against the share of many random places that are in both."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.random((3, 5)) * 2 * np.pi, 1)
    shapes = np.stack([np.cos(angles), np.sin(angles)], 2) * rng.uniform(0.3, 1.5, (3, 1, 1)) + rng.normal(
        0, 0.5, (3, 1, 2)
    )
    rectangle = np.array([-0.5, -0.7, 0.6, 0.4])
    cut = polygons.clipped(shapes, rectangle)
    places = rng.uniform(rectangle[:2], rectangle[2:], (4000, 2))
    ends = np.roll(shapes, -1, 1)
    sides = (ends - shapes)[:, None], places[None, :, None] - shapes[:, None]
    inside = (sides[0][..., 0] * sides[1][..., 1] - sides[0][..., 1] * sides[1][..., 0] >= 0).all(2)
    whole = np.prod(rectangle[2:] - rectangle[:2])
    np.testing.assert_allclose(polygons.areas(cut), inside.mean(1) * whole, atol=0.05)
    np.testing.assert_allclose(polygons.areas(cut[:, ::-1]), polygons.areas(cut))
