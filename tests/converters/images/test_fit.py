"""The arithmetic of sizes: what is asked for is what comes out, and the part that is kept lies in the middle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.pixels import Fit, fit_image

SIDES = st.integers(1, 65_535)


@given(SIDES, SIDES, st.integers(1, 13_000), st.integers(1, 13_000))
def test_a_size_is_covered_by_the_middle(height: int, width: int, goal_height: int, goal_width: int) -> None:
    fit = fit_image(height, width, ImageOptions(size=(goal_height, goal_width)))
    if fit is None:
        assert (height, width) == (goal_height, goal_width)
        return
    assert fit.size == (goal_width, goal_height)
    left, top, right, bottom = fit.box
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    unscaled = (bottom - top, right - left) == (goal_height, goal_width)
    assert abs(left - (width - right)) <= (1 if unscaled else 1e-6)
    assert abs(top - (height - bottom)) <= (1 if unscaled else 1e-6)
    assert (left, right) == (0, width) or (top, bottom) == (0, height), "no more is cut than must be"
    assert np.isclose((right - left) / (bottom - top), goal_width / goal_height), "nothing is stretched"
    assert np.isclose(fit.scale, max(goal_height / height, goal_width / width))
    if unscaled:
        assert left == int(left)
        assert top == int(top)


@given(SIDES, SIDES, SIDES)
def test_the_shorter_side(height: int, width: int, goal: int) -> None:
    fit = fit_image(height, width, ImageOptions(resize_shorter=goal))
    if min(height, width) <= goal:
        assert fit is None
        return
    assert fit.box == (0, 0, width, height)
    assert min(fit.size) == goal
    assert abs(max(fit.size) - max(height, width) * goal / min(height, width)) <= 0.5
    assert fit.scale < 1


def test_a_lying_image_is_cut_as_it_will_stand() -> None:
    options = ImageOptions(size=(30, 20))
    assert fit_image(45, 70, options, sideways=True) == Fit((30, 20), (1.25, 0, 68.75, 45))
    assert fit_image(20, 30, options, sideways=True) is None
    assert fit_image(20, 30, options) is not None


@pytest.mark.parametrize(
    ("height", "width", "size", "box"),
    [
        (45, 70, (45, 41), (14, 0, 55, 45)),
        (45, 70, (90, 82), (14.5, 0, 55.5, 45)),
        (45, 70, (70, 70), (12.5, 0, 57.5, 45)),
        (1, 9, (3, 3), (4, 0, 5, 1)),
    ],
)
def test_by_hand(height: int, width: int, size: tuple[int, int], box: tuple[float, ...]) -> None:
    fit = fit_image(height, width, ImageOptions(size=size))
    assert fit.box == box


def test_nothing_is_asked_for() -> None:
    assert fit_image(45, 70, ImageOptions()) is None
