"""Batches by the compiled module: windows, pixels, other features and errors are those of Python's path."""

import gc
import io
import random
import sys
from typing import Any

import numpy as np
import pytest
from seekable_images import drawn, jpeg

from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.decoding.compiled import compiled_decoder
from shardfeed.pipelines.windows import uniform_numbers
from shardfeed.schema import ENCODED, FORMAT, RESTARTS

from decoding_paths import (
    COMPILED,
    PYTHON,
    built,
    check_damages,
    check_windows,
    decoder,
    is_compiled,
    outcome,
    path_taken,
    record,
)

pytest.importorskip("cv2")
pytestmark = built

CROP = RandomCrop((32, 40), RandomWindow((0.08, 1.0), (0.75, 1.33)), True)
SEEDS = np.arange(12).reshape(6, 2)


def test_windows_are_the_same() -> None:
    check_windows(2000, 1)


@pytest.mark.torture
def test_a_hundred_thousand_windows_are_the_same() -> None:
    check_windows(100_000, 2)


def test_damaged_records_give_the_same() -> None:
    errors, made = check_damages(400, 1)
    assert errors > 50
    assert made > 50


@pytest.mark.torture
def test_ten_thousand_damaged_records_give_the_same() -> None:
    check_damages(10_000, 2)


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "progressive": ("RGB", {"format": "JPEG", "progressive": True}),
    "CMYK": ("CMYK", {"format": "JPEG"}),
    "PNG": ("RGB", {"format": "PNG"}),
    "gray PNG": ("L", {"format": "PNG"}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_unknown_images_are_decoded_by_python(kind: str) -> None:
    mode, options = OTHERS[kind]
    out = io.BytesIO()
    drawn(90, 120, 3).convert(mode).save(out, **options)
    rng = random.Random(0)
    known = record(jpeg(drawn(90, 120, 4)), b"", rng)
    payload = record(out.getvalue(), b"", rng)
    one, other = decoder(COMPILED, CROP), decoder(PYTHON, CROP)
    assert not is_compiled(one, payload, SEEDS)
    assert outcome(one, payload, SEEDS) == outcome(other, payload, SEEDS)
    mixed = [known, payload, known, payload, payload, known]
    found, expected = one(mixed, SEEDS), other(mixed, SEEDS)
    assert (found.views, found.others) == (expected.views, expected.others)
    np.testing.assert_array_equal(found.images, expected.images)


def test_tables_of_the_file_before_are_not_used() -> None:
    """libjpeg keeps them, for files that have none of their own; which are damaged."""
    data = jpeg(drawn(60, 60, 5))
    at = data.index(b"\xff\xdb")
    without = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
    rng = random.Random(0)
    one, other = decoder(COMPILED, CROP), decoder(PYTHON, CROP)
    assert isinstance(outcome(one, record(data, b"", rng), SEEDS)[0], list)
    payload = record(without, b"", rng)
    assert outcome(one, payload, SEEDS) == outcome(other, payload, SEEDS)


def test_records_are_released_with_their_batch() -> None:
    """Not when garbage is collected, which in a worker is seldom: its memory grew by dozens of batches."""
    payload = record(jpeg(drawn(90, 120, 7)), b"", random.Random(0))
    decode = compiled_decoder(CROP, [ENCODED])
    assert decode is not None
    gc.disable()
    try:
        before = sys.getrefcount(payload)
        found = decode([payload] * 2, SEEDS[:2])
        found.make([np.empty((2, *CROP.target, 3), np.uint8)], False, [None])
        assert found.made.all()
        del found
        assert sys.getrefcount(payload) == before
    finally:
        gc.enable()


def test_windows_of_seekable_jpegs_are_those_of_plain_ones() -> None:
    data = jpeg(drawn(200, 320, 6), restart_marker_blocks=4)
    rng = random.Random(0)
    decode = decoder(COMPILED, CROP)
    found = [outcome(decode, record(data, lengths, rng), SEEDS) for lengths in (b"", row_lengths(data))]
    assert found[0][0] == found[1][0]
    assert found[0][2] == found[1][2]


def test_windows_drawn_at_once_are_those_drawn_one_by_one() -> None:
    rng = np.random.default_rng(1)
    numbers = uniform_numbers(rng.integers(0, 2**40, (3000, 2)))
    sizes = np.exp(rng.uniform(0, 9, (3000, 2))).astype(np.int64)
    for area, ratio in (((0.08, 1.0), (0.75, 4 / 3)), ((0.9, 1.0), (2.0, 3.0)), ((1e-4, 0.01), (0.1, 10.0))):
        draw = RandomWindow(area, ratio)
        expected = [draw.draw(row, *size) for row, size in zip(numbers, sizes.tolist(), strict=True)]
        np.testing.assert_array_equal(draw.draw_all(numbers, sizes), np.array(expected))


def test_compiled_decoder_is_off_without_module_or_for_raw_pixels() -> None:
    crop = CenterCrop((8, 8), 1.0)
    with path_taken(COMPILED):
        assert compiled_decoder(crop, [ENCODED]) is not None
        assert compiled_decoder(crop, [ENCODED, RESTARTS]) is not None
        assert compiled_decoder(crop, [ENCODED, FORMAT]) is None, "raw pixels may be among them"
    with path_taken(PYTHON):
        assert compiled_decoder(crop, [ENCODED]) is None
