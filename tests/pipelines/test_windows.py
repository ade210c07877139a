"""The windows that PyTorch's crop draws are those that TensorFlow's draws."""

import numpy as np
import pytest
import tensorflow as tf

from shardfeed.pipelines.augment.operations import horizontal_flip
from shardfeed.pipelines.augment.operations.center_crop import center_window
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomWindow
from shardfeed.pipelines.tensorflow.augment import random_windows
from shardfeed.pipelines.windows import SampleSeed, sample_seeds, uniform_numbers

DRAWS = 400


@pytest.mark.parametrize(
    ("area", "aspect_ratio", "least", "most"),
    [
        ((0.08, 1.0), (3 / 4, 4 / 3), 100, 700),
        ((0.3, 0.9), (0.5, 1.0), 1, 12),  # where most draws do not fit
        ((0.08, 1.0), (3 / 4, 4 / 3), 1, 3),
    ],
)
def test_windows_are_tensorflows(
    area: tuple[float, float], aspect_ratio: tuple[float, float], least: int, most: int
) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.integers(-(2**63), 2**63 - 1, (DRAWS, 2))
    shapes = rng.integers(least, most + 1, (DRAWS, 2)).astype(np.int32)
    draw = random_windows(area, aspect_ratio)

    @tf.function
    def both(seed: tf.Tensor, shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        window, coin = draw(seed)
        return window(shape), coin

    mine = RandomWindow(area, aspect_ratio)
    differing = fallbacks = 0
    for seed, shape, numbers in zip(seeds, shapes, uniform_numbers(seeds), strict=True):
        window, coin = both(tf.constant(seed), tf.constant(shape))
        height, width = shape.tolist()
        found = mine.draw(numbers, height, width)
        assert numbers[22] == coin.numpy()
        assert horizontal_flip.drawn(numbers) == bool(coin < 0.5)
        assert 0 <= found.top <= height - found.height
        assert 0 <= found.left <= width - found.width
        assert min(found.height, found.width) >= 1
        differing += tuple(window.numpy().tolist()) != tuple(found)
        fallbacks += found.top == (height - found.height + 1) // 2
    assert differing <= 1  # a side halfway between two pixels, where exp may differ in its last bit
    assert fallbacks


def test_seeds_are_ints_of_their_own() -> None:
    pairs = np.array([[7, 0], [7, 1], [-8, 0], [7, 0]], np.int64)
    seeds = sample_seeds(pairs)
    assert all(isinstance(seed, SampleSeed) and 0 <= seed < 2**63 for seed in seeds)
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3]
    assert (seeds[0].uniform == seeds[3].uniform).all()
    assert (seeds[0].uniform != seeds[1].uniform).any()


@pytest.mark.parametrize(
    ("shape", "target", "fraction", "expected"),
    [
        ((100, 200), (50, 50), 1.0, (0, 50, 100, 100)),
        ((100, 200), (50, 50), 0.875, (6, 56, 88, 88)),
        ((3, 300), (2, 2), 0.5, (0, 149, 2, 2)),
        ((1, 1), (224, 224), 0.875, (0, 0, 1, 1)),
    ],
)
def test_center_window(
    shape: tuple[int, int], target: tuple[int, int], fraction: float, expected: tuple[int, ...]
) -> None:
    assert center_window(*shape, target, fraction) == expected
