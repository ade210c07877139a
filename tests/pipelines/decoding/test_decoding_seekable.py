"""Windows of seekable JPEGs: the pixels of the whole image, or an error that says what does not fit."""

import random
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from seekable_images import any_picture, cut_jpeg, drawn, jpeg

from shardfeed.errors import IntegrityError
from shardfeed.formats.jpeg_restarts import grid_of, row_lengths
from shardfeed.pipelines.augment.view import ChooseView, View, cropped
from shardfeed.pipelines.decoding.pixels import join_pieces, plan_view
from shardfeed.pipelines.windows import Window

PHOTO, CUT = jpeg(drawn(375, 500, 1)), cut_jpeg(drawn(375, 500, 1))
MIDDLE = Window(100, 150, 120, 130)


def chosen(window: Window, target: tuple[int, int], height: int, width: int) -> View:
    return cropped((height, width), window, target)


def window_pixels(record: Mapping[str, Any], choose: ChooseView) -> tuple[np.ndarray, View]:
    planned = plan_view(record, choose)
    return planned.pixels(), planned.view


def check_windows(files: int, windows: int, seed: int) -> tuple[int, int]:
    """(windows, those that were joined of pieces): all are as of the file that has no pieces."""
    rng, checked, joined = random.Random(seed), 0, 0
    for _ in range(files):
        image, options = any_picture(rng)
        data, made = jpeg(image, **options), cut_jpeg(image, **options)
        height, width, restarts = image.height, image.width, row_lengths(made)
        for _ in range(windows):
            tall, wide = rng.randint(1, height), rng.randint(1, width)
            window = Window(rng.randint(0, height - tall), rng.randint(0, width - wide), tall, wide)
            ratio = rng.choice([1, 1, 2, 4, 8])
            target = max(1, tall // ratio), max(1, wide // ratio)
            choose = partial(chosen, window, target)
            expected, view = window_pixels({"image/encoded": data}, choose)
            found, seen = window_pixels({"image/encoded": made, "image/restarts": restarts}, choose)
            assert seen == view
            assert np.array_equal(found, expected), (height, width, window, target)
            checked += 1
            joined += bool(restarts) and join_pieces(made, restarts, window, 1) is not None
    return checked, joined


def test_windows_are_those_of_the_whole_image() -> None:
    checked, joined = check_windows(60, 8, 1)
    assert joined > checked / 4


@pytest.mark.torture
def test_ten_thousand_windows_are_those_of_the_whole_image() -> None:
    checked, joined = check_windows(1700, 6, 2)
    assert checked > 10_000
    assert joined > checked / 4


def test_a_window_of_nearly_everything_is_decoded_whole() -> None:
    restarts = row_lengths(CUT)
    assert join_pieces(CUT, restarts, Window(0, 0, 375, 500), 1) is None
    assert join_pieces(CUT, restarts, Window(0, 0, 100, 500), 1) is None  # what is below is left out as ever
    part = join_pieces(CUT, restarts, MIDDLE, 1)
    assert part is not None
    assert len(part.data) < 0.3 * len(CUT)


def test_wrong_lengths_of_pieces_are_an_error() -> None:
    """Lengths that are not those of the image: never other pixels, never another error."""
    restarts = row_lengths(CUT)
    numbers = list(struct.unpack("<24I", restarts))
    lies = [restarts[:-4], restarts + restarts[:4], restarts[:-1], b"\0" * 96, b"\xff" * 96, b"x"]
    rng = random.Random(3)
    for _ in range(200):
        other = [*numbers]
        for at in rng.sample(range(24), rng.randint(1, 3)):
            other[at] = max(0, other[at] + rng.choice([-1, 1, 2, 300, -300, 10**9]))
        if rng.random() < 0.5:  # the sum stays
            other[-1] = max(0, other[-1] + sum(numbers) - sum(other)) % 2**32
        lies.append(struct.pack("<24I", *(number % 2**32 for number in other)))
    truth, _ = window_pixels({"image/encoded": PHOTO}, lambda *size: cropped(size, MIDDLE, (120, 130)))
    refused = 0
    for lie in lies:
        record = {"image/encoded": CUT, "image/restarts": lie}
        try:
            found, _ = window_pixels(record, lambda *size: cropped(size, MIDDLE, (120, 130)))
        except IntegrityError as error:
            refused += "image/restarts" in str(error)
        else:
            assert (found == truth).all()  # rows that were not looked at
    assert refused > 100


def test_lengths_of_an_image_without_pieces_are_an_error() -> None:
    with pytest.raises(IntegrityError, match="image/restarts"):
        join_pieces(PHOTO, row_lengths(CUT), MIDDLE, 1)


def test_hostile_markers() -> None:
    """Bytes changed in the header, in markers and between: our errors, whatever it is."""
    restarts, rng = row_lengths(CUT), random.Random(4)
    grid = grid_of(CUT)
    assert grid is not None
    markers = [at for at in range(grid.header.scan, len(CUT) - 1) if CUT[at] == 0xFF and CUT[at + 1]]
    assert len(markers) == 8 * 24
    refused = 0
    for turn in range(600):
        at = (rng.randrange(2, grid.header.scan), rng.choice(markers) + rng.randint(0, 1), rng.randrange(len(CUT)))[
            turn % 3
        ]
        broken = bytearray(CUT)
        broken[at] = (broken[at] + rng.randrange(1, 256)) % 256
        assert broken != CUT
        record = {"image/encoded": bytes(broken), "image/restarts": restarts}
        try:
            found, view = window_pixels(record, lambda *size: cropped(size, Window(0, 0, 8, 8), (8, 8)))
            assert found.shape[:2] == view.window[2:]
        except IntegrityError:
            refused += 1
    assert refused > 40
