"""Any array of pixels, in any order of its sides, to a PNG and back."""

import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shardfeed.converters.sources.rare.array_pixels import PixelLayout, layout_of
from shardfeed.converters.sources.rare.array_source import split_of

AXES = [*itertools.permutations(range(3)), (0, 1), (1, 0)]


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]), st.sampled_from(AXES), st.data())
def test_png(height: int, width: int, channels: int, axes: tuple[int, ...], data: st.DataObject) -> None:
    sides = (height, width, channels)[: len(axes)]
    stored = tuple(sides[axes.index(place)] for place in range(len(axes)))
    layout = PixelLayout(stored, axes)
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    expected = np.frombuffer(raw, np.uint8).reshape(stored).transpose(axes)
    found = np.asarray(Image.open(io.BytesIO(layout.png(raw))))
    assert (found.reshape(sides) == expected).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.sampled_from(["u1", "<f4", "<i8", "?", "S3", "V2"]))
def test_any_shape_is_taken_or_refused(shape: list[int], dtype: str) -> None:
    """And the layout that is taken is of as many pixels."""
    try:
        layout, _ = layout_of("here", "x", tuple(shape), np.dtype(dtype))
    except ValueError:
        return
    assert layout.size == np.prod(shape[1:])


@pytest.mark.parametrize(
    ("name", "split"),
    [("mnist_train", "train"), ("Val", "validation"), ("test-set", "test"), ("train_test", None), ("trains", None)],
)
def test_splits_in_names(name: str, split: str | None) -> None:
    assert split_of(name) == split
