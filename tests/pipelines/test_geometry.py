"""Boxes, key points and rasters under a window: the reference, by what must be so, and TensorFlow against it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.operations.letterbox import letterboxed
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.geometry import (
    LEAST_SIDE,
    boxes_to_source,
    largest,
    see_areas,
    see_boxes,
    see_points,
    see_raster,
    to_source,
)
from shardfeed.pipelines.tensorflow import views
from shardfeed.pipelines.windows import Window

FLIP = (1, 0, 2)


def floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


@st.composite
def some_views(draw: Any) -> View:
    size, target = (draw(st.tuples(st.integers(1, 300), st.integers(1, 300))) for _ in range(2))
    if draw(st.booleans()):
        return letterboxed(size, target)
    height, width = draw(st.integers(1, size[0])), draw(st.integers(1, size[1]))
    window = Window(draw(st.integers(0, size[0] - height)), draw(st.integers(0, size[1] - width)), height, width)
    return cropped(size, window, target, draw(st.booleans()))


def some_boxes(seed: int, count: int) -> np.ndarray:
    """float32 [count, 4]: of many sizes, some on the border."""
    rng = np.random.default_rng(seed)
    centers, sides = rng.random((count, 2)), rng.random((count, 2)) ** 3
    boxes = np.concatenate([centers - sides / 2, centers + sides / 2], 1).clip(0, 1).astype(np.float32)
    return boxes[(boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])]


def as_tensors(view: View) -> views.ViewTensors:
    size, window, content = (tf.constant(list(part), tf.int32) for part in (view.size, view.window, view.content))
    return views.ViewTensors(size, window, content, view.target, tf.constant(view.mirrored))


@settings(max_examples=25)
@given(view=some_views(), seed=st.integers(0, 2**32), count=st.integers(0, 12), min_visible=st.floats(0, 1, width=32))
def test_tensorflow_computes_the_same_bits(view: View, seed: int, count: int, min_visible: float) -> None:
    rng, boxes, tensors = np.random.default_rng(seed), some_boxes(seed, count), as_tensors(view)
    expected = see_boxes(boxes, view, min_visible)
    found = views.see_boxes(tf.unstack(tf.constant(boxes), axis=1), tensors, min_visible)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)

    areas = (1e4 * rng.random(len(boxes))).astype(np.float32)
    np.testing.assert_array_equal(views.see_areas(tf.constant(areas), found, tensors), see_areas(areas, expected, view))
    np.testing.assert_array_equal(views.largest(found.boxes, 3), largest(expected.boxes, 3))

    x, y = (np.where(rng.random((5, 3)) < 0.1, 1, rng.random((5, 3))).astype(np.float32) for _ in range(2))
    visibility = rng.integers(0, 3, (5, 3))
    np.testing.assert_array_equal(
        views.see_points(tf.constant(x), tf.constant(y), tf.constant(visibility), tensors, FLIP),
        see_points(x, y, visibility, view, FLIP),
    )

    raster = rng.integers(0, 65536, view.size).astype(np.uint16)
    np.testing.assert_array_equal(views.see_raster(tf.constant(raster), tensors, 7), see_raster(raster, view, 7))
    if not view.mirrored:
        for one, other in zip(views.to_source(tensors), to_source(view), strict=True):
            np.testing.assert_array_equal(one, other)


@given(view=some_views(), seed=st.integers(0, 2**32), min_visible=st.floats(0, 1, width=32))
def test_seen_boxes_lie_within_the_target_and_have_an_area(view: View, seed: int, min_visible: float) -> None:
    boxes = some_boxes(seed, 20)
    seen = see_boxes(boxes, view, min_visible)
    assert seen.boxes.dtype == np.float32
    top, left, height, width = view.content
    x0, y0, x1, y1 = seen.boxes.T
    assert ((left <= x0) & (x0 < x1) & (x1 <= left + width)).all()
    assert ((top <= y0) & (y0 < y1) & (y1 <= top + height)).all()
    assert (seen.visible >= np.float32(min_visible)).all()
    assert (np.diff(seen.kept) > 0).all()
    whole = cropped(view.size, Window(0, 0, *view.size), view.target)
    tiny = (boxes[:, 2:] - boxes[:, :2] < 2 * LEAST_SIDE).any(1)
    assert set(np.flatnonzero(~tiny)) <= set(see_boxes(boxes, whole, min_visible=0.99).kept)


@given(
    size=st.tuples(st.integers(1, 5000), st.integers(1, 5000)), target=st.integers(16, 1024), seed=st.integers(0, 99)
)
def test_letterboxes_go_back_to_the_source(size: tuple[int, int], target: int, seed: int) -> None:
    view = letterboxed(size, (target, target))
    seen = see_boxes(some_boxes(seed, 9), view, 0)
    pixels = some_boxes(seed, 9)[seen.kept] * np.array([size[1], size[0]] * 2)
    found = boxes_to_source(seen.boxes, *to_source(view))
    np.testing.assert_allclose(found, pixels, atol=1e-5 * max(size))
    batch = boxes_to_source(np.stack([seen.boxes] * 2), *(np.stack([part] * 2) for part in to_source(view)))
    np.testing.assert_array_equal(batch, np.stack([found] * 2))


def test_a_box_is_cut_mirrored_and_scaled() -> None:
    """The window shows the image's columns 20 to 60, twice as large."""
    view = cropped((100, 100), Window(50, 20, 50, 40), (100, 80))
    boxes = np.array(
        [[0.1, 0.5, 0.3, 1.0], [0.5, 0.6, 0.55, 0.7], [0, 0, 0.1, 0.1], [0.15, 0.5, 0.21, 0.6]], np.float32
    )
    seen = see_boxes(boxes, view, 0.25)
    assert seen.kept.tolist() == [0, 1]  # of the last one a sixth is seen
    np.testing.assert_allclose(seen.boxes, [[0, 0, 20, 100], [60, 20, 70, 40]], rtol=1e-5)
    np.testing.assert_allclose(seen.visible, [0.5, 1], rtol=1e-5)
    assert see_boxes(boxes, view).kept.tolist() == [0, 1, 3]
    mirrored = see_boxes(boxes, view._replace(mirrored=True), 0.25)
    np.testing.assert_allclose(mirrored.boxes, [[60, 0, 80, 100], [10, 20, 20, 40]], rtol=1e-5)
    np.testing.assert_allclose(see_areas(floats([100, 7, 1, 1]), seen, view), [200, 28], rtol=1e-5)


def test_boxes_without_area_are_dropped() -> None:
    view = cropped((10, 10), Window(0, 0, 10, 5), (10, 10))
    boxes = floats([[0.5, 0, 1, 1], [0.2, 0.3, 0.2, 0.4], [0.1, 0.5, 0.4, 0.4], [np.nan, 0, 1, 1], [0, 0, 0.5, 1]])
    with np.errstate(invalid="ignore"):
        assert see_boxes(boxes, view, 0).kept.tolist() == [4]
    assert views.see_boxes(tf.unstack(tf.constant(boxes), axis=1), as_tensors(view), 0.0).kept.numpy().tolist() == [4]


def test_keypoints_outside_are_gone_and_sides_are_swapped() -> None:
    view = cropped((10, 10), Window(0, 0, 10, 5), (20, 10), mirrored=True)
    x, y = floats([[0.1, 0.3, 0.9], [0, 0, 0.5]]), floats([[0.2, 0.4, 0.5], [0, 0, 1]])
    found = see_points(x, y, np.array([[2, 1, 2], [0, 0, 2]]), view, FLIP)
    np.testing.assert_allclose(found[0], [[4, 8, 1], [8, 4, 2], [0, 0, 0]], atol=1e-5)
    np.testing.assert_allclose(found[1], [[0, 0, 0], [0, 0, 0], [0, 20, 2]], atol=1e-5)
    with pytest.raises(UsageError, match="cannot be flipped"):
        see_points(x, y, np.zeros((2, 3), np.int64), view, ())


def test_rasters_are_cut_exactly() -> None:
    pixels = np.arange(48, dtype=np.uint16).reshape(6, 8) * 300
    window = Window(1, 2, 4, 5)
    same = see_raster(pixels, cropped((6, 8), window, (4, 5)))
    np.testing.assert_array_equal(same, pixels[1:5, 2:7])
    np.testing.assert_array_equal(see_raster(pixels, cropped((6, 8), window, (4, 5), True)), pixels[1:5, 2:7][:, ::-1])
    twice = see_raster(pixels, cropped((6, 8), window, (8, 10)))
    np.testing.assert_array_equal(twice, np.kron(pixels[1:5, 2:7], np.ones((2, 2), np.uint16)))
    boxed = see_raster(pixels, letterboxed((6, 8), (8, 8)), 9)
    np.testing.assert_array_equal(boxed[1:7], pixels)
    assert (boxed[[0, 7]] == 9).all()
    with pytest.raises(UsageError, match="expected the image's, 6 x 9"):
        see_raster(pixels, letterboxed((6, 9), (8, 8)))


def test_the_largest_are_kept_in_their_order() -> None:
    boxes = floats([[0, 0, 1, 1], [0, 0, 3, 1], [5, 5, 6, 6], [0, 0, 2, 2], [0, 0, 1, 1]])
    assert largest(boxes, 2).tolist() == [1, 3]
    assert largest(boxes, 3).tolist() == [0, 1, 3]
    assert largest(boxes, 9).tolist() == [0, 1, 2, 3, 4]


def test_a_mirrored_view_has_no_way_back() -> None:
    with pytest.raises(UsageError, match="evaluate without a flip"):
        to_source(cropped((6, 8), Window(0, 0, 6, 8), (6, 8), True))
