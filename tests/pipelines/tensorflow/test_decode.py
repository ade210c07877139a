import io
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from shardfeed.pipelines.tensorflow.decode import ChooseWindow, decode_window, resized
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH

from damaged_jpegs import DAMAGES, damaged_jpeg, warned_then_fatal
from pictures import image_bytes
from poisoned_memory import same_under_poisons

RNG = np.random.default_rng(0)


def decode_resized(features: Any, choose: ChooseWindow, *, antialias: bool = False) -> Any:
    """The window of an image, resized as `choose` says."""
    decoded = decode_window(features, choose, antialias=antialias)
    return resized(decoded.pixels, decoded.target, antialias=antialias)


def photo(height: int, width: int) -> np.ndarray:
    """Smooth shapes with some noise, uint8 [height, width, 3]."""
    y, x = np.mgrid[:height, :width]
    waves = [127 + 90 * np.sin(x / (9 + 5 * c)) * np.cos(y / (13 + 3 * c)) for c in range(3)]
    return np.clip(np.stack(waves, -1) + RNG.normal(0, 9, (height, width, 3)), 0, 255).astype(np.uint8)


def saved(image: np.ndarray, kind: str, **options: int) -> bytes:
    return image_bytes(Image.fromarray(image), kind, **options)


def opened(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def fixed(top: int, left: int, height: int, width: int, target: tuple[int, int]) -> ChooseWindow:
    return lambda shape: (tf.constant([top, left, height, width]), tf.constant(target))


def decoded(data: bytes, choose: ChooseWindow, form: bytes | None = None, *, antialias: bool = False) -> np.ndarray:
    """In a graph, as in a pipeline; `form` None: the format is only known when it runs."""

    def run(encoded: tf.Tensor) -> tf.Tensor:
        known = {} if form is None else {FORMAT: tf.constant(form)}
        return decode_resized({ENCODED: encoded} | known, choose, antialias=antialias)

    (image,) = tf.data.Dataset.from_tensors(data).map(run)
    assert image.dtype == tf.uint8
    return image.numpy()


def bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear with half-pixel centres, edges repeated, in float64."""
    values = image.astype(np.float64)
    for axis, size in ((0, height), (1, width)):
        length = values.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        low = np.floor(at).astype(int)
        weight = (at - low).reshape([-1 if i == axis else 1 for i in range(3)])
        upper = np.minimum(low + 1, length - 1)
        values = values.take(low, axis) * (1 - weight) + values.take(upper, axis) * weight
    return values


def area_means(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mean over each pixel's area in the source, in float64."""
    values = image.astype(np.float64)
    for axis, size in ((0, height), (1, width)):
        sums = np.concatenate([np.zeros_like(values.take([0], axis)), values.cumsum(axis)], axis)
        edges = np.arange(size + 1) * values.shape[axis] / size
        low = np.minimum(np.floor(edges).astype(int), values.shape[axis] - 1)
        part = (edges - low).reshape([-1 if i == axis else 1 for i in range(3)])
        at = sums.take(low, axis) + part * values.take(low, axis)
        values = np.diff(at, axis=axis) * size / values.shape[axis]
    return values


def triangle(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The antialiased bilinear resize of Pillow, in float64: a triangle as wide as the scale, at least 1, each side."""
    values = image.astype(np.float64)
    for axis, size in ((0, height), (1, width)):
        length = values.shape[axis]
        scale = max(1.0, length / size)
        centers = (np.arange(size)[:, None] + 0.5) * length / size
        weights = np.maximum(0, 1 - np.abs(np.arange(length) + 0.5 - centers) / scale)
        weights /= weights.sum(1, keepdims=True)
        values = np.moveaxis(np.tensordot(weights, values, (1, axis)), 0, axis)
    return values


@pytest.mark.parametrize("subsampling", [0, 2])
@pytest.mark.parametrize("form", [b"jpeg", None])
def test_jpeg_pixels_are_pillows(subsampling: int, form: bytes | None) -> None:
    data = saved(photo(61, 83), "JPEG", quality=90, subsampling=subsampling)
    whole = fixed(0, 0, 61, 83, (61, 83))
    np.testing.assert_array_equal(decoded(data, whole, form), opened(data))


@pytest.mark.parametrize(("top", "left"), [(0, 0), (8, 16), (13, 7), (20, 33)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_a_cropped_jpeg_is_pillows_crop(top: int, left: int, subsampling: int) -> None:
    data = saved(photo(61, 83), "JPEG", quality=90, subsampling=subsampling)
    found = decoded(data, fixed(top, left, 40, 50, (40, 50)), b"jpeg")
    np.testing.assert_array_equal(found, opened(data)[top : top + 40, left : left + 50])


@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    window=st.tuples(*[st.floats(0, 1)] * 4),
    subsampling=st.sampled_from([0, 1, 2]),
    gray=st.booleans(),
)
@example(size=(3, 5), window=(1.0, 0.0, 1.0, 0.0), subsampling=2, gray=False)  # two columns are not smoothed
@settings(max_examples=150)
def test_any_window_of_a_jpeg_is_pillows_crop(
    size: tuple[int, int], window: tuple[float, ...], subsampling: int, gray: bool
) -> None:
    image = photo(*size)
    data = saved(image[..., 0], "JPEG") if gray else saved(image, "JPEG", quality=90, subsampling=subsampling)
    height, width = (max(1, round(side * share)) for side, share in zip(size, window[:2], strict=True))
    top, left = round((size[0] - height) * window[2]), round((size[1] - width) * window[3])
    found = decode_resized(
        {ENCODED: tf.constant(data), FORMAT: tf.constant(b"jpeg")}, fixed(top, left, height, width, (height, width))
    )
    np.testing.assert_array_equal(found, opened(data)[top : top + height, left : left + width])


@pytest.mark.parametrize("form", [b"png", None])
def test_png_pixels_are_pillows(form: bytes | None) -> None:
    image = photo(31, 47)
    found = decoded(saved(image, "PNG"), fixed(3, 5, 20, 30, (20, 30)), form)
    np.testing.assert_array_equal(found, image[3:23, 5:35])


@pytest.mark.parametrize("form", [b"raw", None])
def test_raw_pixels_are_those_stored(form: bytes | None) -> None:
    image = photo(31, 47)
    shape = {HEIGHT: tf.constant(31, tf.int64), WIDTH: tf.constant(47, tf.int64)}

    def run(data: tf.Tensor, kind: tf.Tensor) -> tf.Tensor:
        features = {ENCODED: data, FORMAT: kind if form is None else tf.constant(form)} | shape
        return decode_resized(features, fixed(3, 5, 20, 30, (20, 30)))

    files = [image.tobytes(), saved(image, "PNG")][: 2 if form is None else 1]
    for found in tf.data.Dataset.from_tensor_slices((files, [b"raw", b"png"][: len(files)])).map(run):
        np.testing.assert_array_equal(found, image[3:23, 5:35])


def test_raw_pixels_that_do_not_fill_their_shape_raise() -> None:
    features = {ENCODED: tf.constant(bytes(10)), FORMAT: tf.constant(b"raw"), HEIGHT: 2, WIDTH: 2}
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode_resized(features, fixed(0, 0, 2, 2, (2, 2)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_gray_becomes_rgb(kind: str) -> None:
    data = saved(photo(31, 47)[..., 0], kind)
    found = decoded(data, fixed(0, 0, 31, 47, (31, 47)), kind.lower().encode())
    np.testing.assert_array_equal(found, opened(data))


def test_the_format_is_read_from_the_bytes_where_it_is_not_known() -> None:
    images = [saved(photo(20, 20), kind) for kind in ("JPEG", "PNG", "JPEG")]
    whole = fixed(0, 0, 20, 20, (20, 20))
    dataset = tf.data.Dataset.from_tensor_slices(images).map(lambda data: decode_resized({ENCODED: data}, whole))
    for found, data in zip(dataset, images, strict=True):
        np.testing.assert_array_equal(found.numpy(), opened(data))


@pytest.mark.parametrize("form", [b"JPEG", b"jpeg"])
def test_both_spellings_of_jpeg(form: bytes) -> None:
    data = saved(photo(20, 20), "JPEG")
    assert decoded(data, fixed(0, 0, 20, 20, (20, 20)), form).shape == (20, 20, 3)


@pytest.mark.parametrize("target", [(30, 40), (61, 83), (100, 90), (31, 160), (1, 1), (45, 43)])
def test_resizing_is_within_one_level_of_a_float64_reference(target: tuple[int, int]) -> None:
    image = photo(61, 83)
    found = decoded(saved(image, "PNG"), fixed(0, 0, 61, 83, target), b"png")
    ratio = max(r for r in (1, 2, 4, 8) if r == 1 or min(61 // target[0], 83 // target[1]) >= r)
    shrunk = np.round(area_means(image, 61 // ratio, 83 // ratio))
    assert np.abs(found - np.round(bilinear(shrunk, *target))).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("target", [(30, 40), (55, 70), (61, 83), (100, 90), (20, 70)])
def test_antialiasing_is_within_one_level_of_a_float64_reference(kind: str, target: tuple[int, int]) -> None:
    """Without reduction, which starts where the window is four times the target."""
    data = saved(photo(61, 83), kind)
    found = decoded(data, fixed(0, 0, 61, 83, target), kind.lower().encode(), antialias=True)
    assert np.abs(found - np.round(triangle(opened(data), *target))).max() <= 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("scale", [4, 5.5, 8, 11, 16])
def test_antialiasing_after_a_reduction_is_close_to_the_exact(kind: str, scale: float) -> None:
    data = saved(photo(400, 440), kind, **({"quality": 95} if kind == "JPEG" else {}))
    target = (int(400 / scale), int(440 / scale))
    exact = triangle(opened(data), *target)
    choose, form = fixed(0, 0, 400, 440, target), kind.lower().encode()
    errors = [np.abs(decoded(data, choose, form, antialias=which) - exact).mean() for which in (True, False)]
    assert errors[0] < 1.5
    assert errors[0] < errors[1], "antialiasing made no difference"


def test_values_are_rounded_not_cut() -> None:
    image = np.zeros((2, 2, 3), np.uint8)
    image[:, 1] = 255
    assert decoded(saved(image, "PNG"), fixed(0, 0, 2, 2, (1, 1)), b"png").tolist() == [[[128, 128, 128]]]
    white = np.full((7, 5, 3), 255, np.uint8)
    assert (decoded(saved(white, "PNG"), fixed(0, 0, 7, 5, (13, 11)), b"png") == 255).all()


@pytest.mark.parametrize("ratio", [2, 4, 8])
def test_a_large_jpeg_is_scaled_down_while_it_is_decoded(ratio: int) -> None:
    """Noise is what aliases: an area mean removes it, picking pixels does not."""
    noise = np.repeat(RNG.integers(64, 192, (256, 192, 1)), 3, axis=2).astype(np.uint8)
    data = saved(noise, "JPEG", quality=95, subsampling=0)
    height, width = 128 // ratio, 64 // ratio
    found = decoded(data, fixed(64, 32, 128, 64, (height, width)), b"jpeg")
    window = opened(data)[64:192, 32:96].astype(np.float64)
    mean = window.reshape(height, ratio, width, ratio, 3).mean((1, 3))
    aliased = bilinear(window.astype(np.uint8), height, width)
    off = np.abs(found - mean).mean()
    assert off < 5
    if ratio > 2:  # a bilinear resize by exactly 2 is an area mean
        assert off < np.abs(aliased - mean).mean() / 2


@pytest.mark.long
@pytest.mark.parametrize(
    "size", [(97, 61), (1, 300), *(pytest.param(s, marks=pytest.mark.long) for s in ((300, 1), (17, 17)))]
)
def test_scaling_down_stays_inside_images_of_any_size(size: tuple[int, int]) -> None:
    """The scaled image's sides are rounded up, the window's down; a window at the very end must fit."""
    height, width = size
    data = saved(photo(height, width), "JPEG")
    for target in (1, 2, 3, 5):
        shape = (min(target, height), min(target, width))
        assert decoded(data, fixed(0, 0, height, width, shape), b"jpeg").shape == (*shape, 3)
        end = fixed(height // 2, width // 2, height - height // 2, width - width // 2, (1, 1))
        assert decoded(data, end, b"jpeg").shape == (1, 1, 3)


def test_damaged_images_raise() -> None:
    data = saved(photo(61, 83), "JPEG")
    for form in (b"jpeg", None):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decoded(data[: len(data) // 2], fixed(0, 0, 61, 83, (61, 83)), form)


@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.torture)])
def test_of_damaged_jpegs_no_pixels_come_that_nothing_wrote(count: int) -> None:
    """TensorFlow's verdicts are not all Pillow's: it takes no file that is cut, and none that names unknown colors."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def decoded(data: tf.Tensor) -> tf.Tensor:
        return decode_resized({ENCODED: data, FORMAT: tf.constant("jpeg")}, lambda shape: (_inner(shape), shape // 3))

    def outcome(data: bytes) -> bytes | None:
        try:
            return decoded(tf.constant(data)).numpy().tobytes()
        except tf.errors.InvalidArgumentError:
            return None

    def _inner(shape: tf.Tensor) -> tf.Tensor:
        return tf.concat([shape // 5, shape - shape // 4], 0)

    rng = random.Random(0)
    broken = [damaged_jpeg(kind, rng) for kind in DAMAGES for _ in range(count // 10)]
    refused = [same_under_poisons(lambda _, data=data: outcome(data)) is None for data in broken]
    assert 0 < sum(refused) < len(refused)
    assert outcome(warned_then_fatal(saved(photo(60, 80), "JPEG"))) is None
