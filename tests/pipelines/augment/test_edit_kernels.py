"""Edits by the compiled module: the bytes of NumPy's reference, with AVX2 or not, and nothing outside the image."""

import io
import random

import numpy as np
import pytest
from any_edits import AnyEdits, any_image, any_numbers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seekable_images import drawn, jpeg

from shardfeed.native import library
from shardfeed.pipelines.augment import color_jitter, gaussian_blur, grayscale
from shardfeed.pipelines.augment.crops import Crop, Crops
from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits
from shardfeed.pipelines.augment.host import edit_compiled, edit_image, edited
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding.batch import Batch, BatchDecoder
from shardfeed.schema import Schema

from decoding_paths import COMPILED, FEATURES, PYTHON, built, path_taken, record

pytestmark = built

SIMCLR = (color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8), grayscale(p=0.2), gaussian_blur(23, p=0.5))
EVERY_KIND = (AnyEdits(), AnyEdits())
SEEDS = np.arange(48).reshape(24, 2)


def compiled(image: np.ndarray, kinds: np.ndarray, numbers: np.ndarray, plain: bool) -> np.ndarray:
    loaded, made = library(), image.copy()
    assert loaded is not None
    edit_compiled(loaded, made, kinds, numbers, plain=plain)
    return made


def check_same(image: np.ndarray, kinds: np.ndarray, numbers: np.ndarray) -> None:
    expected = edited(image, kinds, numbers)
    for plain in (True, False):
        np.testing.assert_array_equal(compiled(image, kinds, numbers, plain), expected, f"plain: {plain}")


@pytest.mark.parametrize("kind", Edit, ids=lambda kind: kind.name)
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 200), st.sampled_from([3, 3, 1]), st.integers(0, 2**32), st.booleans())
@example(1, 1, 3, 0, False)
@example(1, 1, 1, 1, True)
@example(2, 17, 3, 2, False)
@example(300, 1, 3, 3, False)
@example(1, 200, 3, 4, False)
def test_each_kind_has_the_bytes_of_the_reference(
    kind: Edit, width: int, height: int, channels: int, seed: int, square: bool
) -> None:
    rng = np.random.default_rng(seed)
    width = height if square else width
    image = any_image(rng, height, width, channels)
    check_same(image, np.array([kind], np.int32), any_numbers(kind, rng, height, width)[None])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.lists(st.sampled_from(Edit), max_size=6), st.integers(0, 2**32))
@example(30, 20, [Edit.EQUALIZE, Edit.SOLARIZE, Edit.AUTOCONTRAST, Edit.POSTERIZE, Edit.EQUALIZE], 5)
@example(30, 20, [Edit.SOLARIZE, Edit.NONE, Edit.EQUALIZE, Edit.MATRIX, Edit.EQUALIZE], 6)
def test_edits_that_follow_each_other(height: int, width: int, kinds: list[Edit], seed: int) -> None:
    """Tables become one, for which a histogram is taken before any of them."""
    rng = np.random.default_rng(seed)
    numbers = np.array([any_numbers(kind, rng, height, width) for kind in kinds]).reshape(-1, NUMBERS)
    check_same(any_image(rng, height, width, 3), np.array(kinds, np.int32), numbers)


@settings(max_examples=500, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([3, 1]),
    st.one_of(st.sampled_from(list(map(int, Edit))), st.integers(-(2**31), 2**31 - 1)),
    st.lists(st.one_of(st.floats(), st.floats(-50, 50), st.sampled_from([0.0, 1.0])), min_size=24, max_size=24),
)
def test_no_numbers_reach_outside_the_image(
    height: int, width: int, channels: int, kind: int, numbers: list[float]
) -> None:
    """Whatever they are; and the plain loops and those with AVX2 agree. ASan sees what is read: test_native_fuzz.py."""
    made = []
    for plain in (True, False):
        memory = np.full(height * width * channels + 256, 77, np.uint8)
        image = memory[128:-128].reshape(height, width, channels)
        image[:] = any_image(np.random.default_rng(0), height, width, channels)
        loaded = library()
        assert loaded is not None
        edit_compiled(loaded, image, np.array([kind], np.int32), np.array([numbers]), plain=plain)
        assert (memory[:128] == 77).all()
        assert (memory[-128:] == 77).all()
        made.append(image)
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("layout", ["uint8", "uint16", "every other column"])
def test_one_image_is_edited_in_place(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either way, and what the compiled module does not know by NumPy."""
    rng = np.random.default_rng(1)
    image = any_image(rng, 20, 60, 3)
    image = {"uint8": image, "uint16": image.astype(np.uint16) * 257, "every other column": image[:, ::2]}[layout]
    kind = Edit.MATRIX
    edits = Edits.of(kind, *any_numbers(kind, rng, 20, 60), count=1)
    expected = edited(image, edits.kinds[0], edits.numbers[0])
    for path in (COMPILED, PYTHON):
        monkeypatch.setenv("SHARDFEED_NATIVE", path)
        made = image.copy() if layout != "every other column" else np.repeat(image, 2, 1)[:, ::2]
        edit_image(made, edits, 0)
        np.testing.assert_array_equal(made, expected)


def crop_of(augment: tuple, size: tuple[int, int] = (32, 40)) -> Crop:
    return RandomCrop(size, RandomWindow((0.08, 1.0), (0.75, 1.33)), True, augment=augment)


def payloads() -> list[bytes]:
    """Records, some of which only Python decodes."""
    rng, out = random.Random(0), io.BytesIO()
    drawn(90, 120, 3).save(out, format="JPEG", progressive=True)
    files = [jpeg(drawn(90, 120, 4)), out.getvalue(), jpeg(drawn(50, 40, 5))]
    return [record(files[number % 3], b"", rng) for number in range(len(SEEDS))]


def batch(crop: Crop, path: str, threads: int) -> Batch:
    with path_taken(path):
        decode = BatchDecoder(crop, Schema(FEATURES), {"jpeg"}, threads)
        assert (decode._compiled is None) == (path == PYTHON)
        made = decode(payloads(), SEEDS)
        decode.close()
    return made


CROPS = {
    "SimCLR": crop_of(SIMCLR),
    "every kind": crop_of(EVERY_KIND),
    "square": crop_of(EVERY_KIND, (33, 33)),
    "views": Crops((crop_of(SIMCLR), crop_of(()), crop_of(EVERY_KIND, (17, 9)))),
    "letterbox": Letterbox((40, 30), 114, augment=EVERY_KIND),
}


@pytest.mark.promise(78)
@pytest.mark.parametrize("name", CROPS)
def test_batches_are_the_same_with_and_without_the_module_and_with_any_threads(name: str) -> None:
    pytest.importorskip("cv2")
    expected = batch(CROPS[name], PYTHON, 2)
    for threads in range(9):
        found = batch(CROPS[name], COMPILED, threads)
        assert len(found.images) == len(expected.images)
        for one, other in zip(found.images, expected.images, strict=True):
            np.testing.assert_array_equal(one, other)
        assert str(found.views) == str(expected.views)
