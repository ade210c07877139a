"""Pixels and labels that tests of arrays save, and what their samples must then be."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters.sources.source import Source

COUNT, HEIGHT, WIDTH = 12, 5, 7

Checked = Callable[[Source, np.ndarray, np.ndarray], None]


@pytest.fixture
def pixels() -> np.ndarray:
    """[12, 5, 7, 3], no two sides alike."""
    return np.random.default_rng(7).integers(0, 256, (COUNT, HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture
def labels() -> np.ndarray:
    """[12], three classes."""
    return np.arange(COUNT, dtype=np.int64) % 3


@pytest.fixture
def check_samples() -> Checked:
    """A function that asserts that a source has these images, exactly, and labels, in this order."""

    def check(source: Source, images: np.ndarray, labels: np.ndarray) -> None:
        assert len(source) == len(images)
        for i in range(len(source)):
            sample = source[i]
            assert callable(sample.image)
            assert (np.asarray(Image.open(io.BytesIO(sample.image()))) == images[i]).all()
            assert sample.features["image/class/label"] == labels[i]

    return check
