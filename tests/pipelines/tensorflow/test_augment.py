import numpy as np
import pytest
import tensorflow as tf
from object_images import encoded

from shardfeed.pipelines import letterbox, random_resized_crop, resize_center_crop
from shardfeed.pipelines.tensorflow.augment import ImageTransform
from shardfeed.schema import ENCODED, FORMAT


def positions(height: int, width: int) -> np.ndarray:
    """An image whose pixels say where they are: red is x, green is y; at most 256 each way."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, 0 * x], -1).astype(np.uint8)


def applied(transform: ImageTransform, image: np.ndarray, seeds: range = range(1)) -> np.ndarray:
    """The transform's image for each seed, uint8 [n, h, w, 3], in a graph as in a pipeline."""
    features = {ENCODED: tf.constant(encoded(image)), FORMAT: tf.constant(b"png")}
    keys = tf.data.Dataset.from_tensor_slices([[7, seed] for seed in seeds]).map(lambda key: tf.cast(key, tf.int64))
    dataset = keys.map(lambda key: transform(features, key))
    assert dataset.element_spec.shape.is_fully_defined()
    assert dataset.element_spec.dtype == tf.uint8
    return np.stack(list(dataset.as_numpy_iterator()))


SQUARE = positions(200, 250)
SEEDS = range(300)


def windows(transform: ImageTransform, image: np.ndarray = SQUARE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """About the height and width of the window of each seed, and whether it is mirrored."""
    found = applied(transform, image, SEEDS).astype(int)
    x, y = found[:, 0, :, 0], found[:, :, 0, 1]
    # The outermost samples lie half a step inside of the window.
    steps = found.shape[1]
    height = (y[:, -1] - y[:, 0]) * steps / (steps - 1)
    width = np.abs(x[:, -1] - x[:, 0]) * steps / (steps - 1)
    return height, width, x[:, -1] < x[:, 0]


@pytest.mark.long
def test_random_windows_keep_to_their_ranges() -> None:
    height, width, mirrored = windows(random_resized_crop(32))
    area = height * width / (200 * 250)
    assert 0.07 < area.min() < 0.2
    assert 0.7 < area.max() <= 1.02
    assert 0.72 < (width / height).min() < 0.85
    assert 1.2 < (width / height).max() < 1.38
    assert 110 < mirrored.sum() < 190  # of 300: three standard deviations are 26


def test_random_windows_lie_everywhere() -> None:
    found = applied(random_resized_crop(16, area=(0.1, 0.2), flip=False), SQUARE, SEEDS)
    left, top = found[:, 0, 0, 0], found[:, 0, 0, 1]
    assert left.min() < 10
    assert left.max() > 120
    assert top.min() < 10
    assert top.max() > 80


def test_area_and_aspect_ratio_bound_the_windows() -> None:
    height, width, mirrored = windows(random_resized_crop(32, area=(0.25, 0.25), aspect_ratio=(1, 1), flip=False))
    np.testing.assert_allclose(height, np.sqrt(0.25 * 200 * 250), atol=3)
    np.testing.assert_allclose(width, height, atol=3)
    assert not mirrored.any()


def test_draws_are_even() -> None:
    """All windows of these ranges fit into the image, so that quartiles show how they are drawn."""
    height, width, _ = windows(random_resized_crop(32, area=(0.1, 0.4), aspect_ratio=(0.5, 2)))
    area = height * width / (200 * 250)
    np.testing.assert_allclose(np.quantile(area, [0.25, 0.5, 0.75]), [0.175, 0.25, 0.325], atol=0.03)
    ratio = np.log2(width / height)
    np.testing.assert_allclose(np.quantile(ratio, [0.25, 0.5, 0.75]), [-0.5, 0, 0.5], atol=0.2)


def test_a_window_that_cannot_fit_is_the_largest_in_the_middle() -> None:
    (found,) = applied(random_resized_crop(16, area=(0.9, 1), flip=False), positions(30, 240))
    step = 40 / 16  # 30 high, at most 4/3 as wide
    np.testing.assert_allclose(found[0, :, 0], 100 + step / 2 - 0.5 + step * np.arange(16), atol=0.51)
    assert found[0, 0, 1] == 0
    assert found[-1, 0, 1] == 29


def test_flipping_mirrors_the_same_window() -> None:
    plain = applied(random_resized_crop((20, 24), flip=False), SQUARE, SEEDS)
    flipped = applied(random_resized_crop((20, 24)), SQUARE, SEEDS)
    same = (plain == flipped).all((1, 2, 3))
    mirrored = (plain[:, :, ::-1] == flipped).all((1, 2, 3))
    assert (same ^ mirrored).all()
    assert 110 < mirrored.sum() < 190


def test_flipping_is_independent_of_the_window() -> None:
    height, width, mirrored = windows(random_resized_crop(32))
    area = height * width
    small = area < np.median(area)
    assert abs(mirrored[small].mean() - mirrored[~small].mean()) < 0.25  # four standard deviations


def test_the_crop_does_not_use_up_the_callers_seed() -> None:
    """A transform may give its seed to one more random op: that must not follow the crop."""
    _, _, mirrored = windows(random_resized_crop(32))
    drawn = np.array([tf.random.stateless_uniform([23], tf.constant([7, seed], tf.int64)).numpy() for seed in SEEDS])
    assert not any(((column < 0.5) == mirrored).all() for column in drawn.T)


def test_the_same_seed_gives_the_same_image() -> None:
    transform = random_resized_crop(24)
    first = applied(transform, SQUARE, range(20))
    np.testing.assert_array_equal(applied(transform, SQUARE, range(20)), first)
    np.testing.assert_array_equal(applied(random_resized_crop(24), SQUARE, range(19, 20))[0], first[19])
    assert len(np.unique(first, axis=0)) == 20


@pytest.mark.long
@pytest.mark.parametrize("size", [(1, 1), (1, 200), (200, 1), (2, 3), (3, 255)])
@pytest.mark.parametrize("make", [random_resized_crop, resize_center_crop, letterbox])
def test_images_of_any_size(make: type, size: tuple[int, int]) -> None:
    assert applied(make((24, 32)), positions(*size), range(8)).shape == (8, 24, 32, 3)


def test_center_crop_without_resize_is_a_crop() -> None:
    image = positions(64, 90)
    np.testing.assert_array_equal(applied(resize_center_crop(56), image)[0], image[4:60, 17:73])
    np.testing.assert_array_equal(applied(resize_center_crop(64, crop_fraction=1), image)[0], image[:, 13:77])
    np.testing.assert_array_equal(applied(resize_center_crop((64, 32), crop_fraction=1), image)[0], image[:, 29:61])


@pytest.mark.parametrize(
    ("height", "width", "target"), [(200, 250, (32, 32)), (250, 200, (32, 32)), (200, 250, (20, 40))]
)
def test_center_crop_keeps_aspect_ratio_and_middle(height: int, width: int, target: tuple[int, int]) -> None:
    found = applied(resize_center_crop(target), positions(height, width))[0].astype(float)
    scale = min(height / target[0], width / target[1]) * 0.875
    np.testing.assert_allclose(np.diff(found[0, :, 0]).mean(), scale, rtol=0.03)
    np.testing.assert_allclose(np.diff(found[:, 0, 1]).mean(), scale, rtol=0.03)
    np.testing.assert_allclose(found[..., 0].mean(), (width - 1) / 2, atol=1)
    np.testing.assert_allclose(found[..., 1].mean(), (height - 1) / 2, atol=1)


@pytest.mark.parametrize(
    ("height", "width", "inner"),
    [
        (100, 100, (0, 10, 40, 40)),
        (50, 100, (5, 0, 30, 60)),
        (200, 50, (0, 25, 40, 10)),
        (10, 15, (0, 0, 40, 60)),
        (255, 1, (0, 29, 40, 1)),
    ],
)
def test_letterbox(height: int, width: int, inner: tuple[int, int, int, int]) -> None:
    image = np.full((height, width, 3), 200, np.uint8)
    found = applied(letterbox((40, 60), fill=9), image)[0]
    top, left, h, w = inner
    expected = np.full((40, 60, 3), 9, np.uint8)
    expected[top : top + h, left : left + w] = 200
    np.testing.assert_array_equal(found, expected)


def test_letterbox_shows_the_whole_image() -> None:
    found = applied(letterbox(50), SQUARE)[0]
    assert found[5:45, :, 0].min() <= 2
    assert found[..., 0].max() >= 246
    assert found[..., 1].max() >= 196
