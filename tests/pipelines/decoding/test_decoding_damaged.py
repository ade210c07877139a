"""Damaged JPEGs: Pillow's verdict and Pillow's pixels, and never memory that no decoder has written."""

import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile
from seekable_images import drawn, jpeg

from shardfeed.errors import IntegrityError
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.decoding.batch import BatchDecoder
from shardfeed.pipelines.decoding.pixels import PILLOW_ERRORS, _jpeg_shape, plan_view
from shardfeed.pipelines.windows import Window
from shardfeed.schema import ENCODED

from damaged_jpegs import DAMAGES, damaged_jpeg, warned_then_fatal
from decoding_paths import COMPILED, PYTHON, built, decoder, outcome, record
from poisoned_memory import same_under_poisons

pytest.importorskip("cv2")
pytestmark = [built, pytest.mark.promise(26)]


WHOLE = jpeg(drawn(90, 120, 1))


def by_pillow(data: bytes, ratio: int = 1) -> np.ndarray | None:
    """Pillow's pixels, shrunk by `ratio` as it decodes; None if it refuses the file."""
    try:
        image = Image.open(io.BytesIO(data))
        height, width = image.height // ratio, image.width // ratio
        if ratio > 1:
            image.draft("RGB", (width, height))
        return np.asarray(image.convert("RGB"))[:height, :width]  # sides are rounded up
    except PILLOW_ERRORS:
        return None


def by_us(data: bytes, window: Window | None = None, ratio: int = 1) -> bytes | None:
    """The pixels of a window, or of the whole image; None if they are refused."""

    def choose(height: int, width: int) -> View:
        chosen = window or Window(0, 0, height, width)
        return cropped((height, width), chosen, (chosen.height // ratio, chosen.width // ratio))

    try:
        return plan_view({ENCODED: data}, choose).pixels().tobytes()
    except IntegrityError:
        return None


def by_path(decode: BatchDecoder, payload: bytes, seeds: np.ndarray, byte: int) -> Any:
    """As `outcome`, after a foreign image of one colour, which all memory that is kept for reuse has then seen."""
    outcome(decode, _foreign(byte), seeds)
    return outcome(decode, payload, seeds)


def _foreign(byte: int) -> bytes:
    if byte not in _FOREIGN:
        picture = Image.new("RGB", (333, 333), (byte, 255 - byte, byte))
        _FOREIGN[byte] = record(jpeg(picture), b"", random.Random(0))
    return _FOREIGN[byte]


_FOREIGN: dict[int, bytes] = {}


def check(data: bytes, rng: random.Random, paths: tuple[BatchDecoder, BatchDecoder]) -> str:
    """Check a damaged JPEG; return "refused", "accepted", or "accepted above" if only a window above the damage is."""
    expected, ratio = by_pillow(data), 1
    silent = _jpeg_shape(data) is not None  # else Pillow decodes it, and `fit` shrinks it
    if silent and expected is not None and min(expected.shape[:2]) >= 8 and rng.random() < 0.5:
        ratio = rng.choice([2, 4, 8])
        expected = by_pillow(data, ratio)
    found = same_under_poisons(lambda _: by_us(data, None, ratio))
    assert (found is None) == (expected is None), "another verdict than Pillow's"
    assert expected is None or found == expected.tobytes(), "other pixels than Pillow's"

    payload = record(data, rng.choice([b"", row_lengths(data)]), rng)
    seeds = np.array([[rng.randrange(2**40), rng.randrange(2**40)]], np.int64)
    one, other = (same_under_poisons(lambda byte, path=path: by_path(path, payload, seeds, byte)) for path in paths)
    assert one == other, "the compiled module makes something else"
    accepted = isinstance(one[0], list)
    assert accepted or expected is None, "a window is refused of an image that is not"
    if accepted and expected is not None and ratio == 1:
        top, left, height, width = window = one[0][0].window
        cut = expected[top : top + height, left : left + width].tobytes()
        assert by_us(data, window) == cut, "not the window of Pillow's pixels"
    return "accepted" if expected is not None else "accepted above" if accepted else "refused"


def check_many(kind: str, count: int, seed: int) -> dict[str, int]:
    """Check so many JPEGs with this damage; return how many were refused and accepted."""
    rng = random.Random(f"{kind} {seed}")
    counts = dict.fromkeys(("refused", "accepted", "accepted above"), 0)
    crop: Crop = RandomCrop((20, 24), RandomWindow((0.05, 1.0), (0.75, 1.33)), True)
    paths = decoder(COMPILED, crop), decoder(PYTHON, crop)
    for turn in range(count):
        try:
            counts[check(damaged_jpeg(kind, rng), rng, paths)] += 1
        except AssertionError as error:
            raise AssertionError(f"{kind}, turn {turn}, seed {seed}: {error}") from error
    return counts


@pytest.mark.parametrize("path", [COMPILED, PYTHON])
def test_a_fatal_error_after_a_warning_is_an_error(path: str) -> None:
    payload = record(warned_then_fatal(WHOLE), b"", random.Random(0))
    decode = decoder(path, CenterCrop((90, 120), 1.0))
    kind, problem, named = same_under_poisons(lambda byte: by_path(decode, payload, np.zeros((1, 2), np.int64), byte))
    assert (kind, named) == (IntegrityError, True)
    assert "Huffman table" in problem


@pytest.mark.parametrize("kept", [300, len(WHOLE) // 2, len(WHOLE) - 40])
def test_a_truncated_jpeg_is_refused_whatever_pillow_was_told(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that lets Pillow fill in truncated images still gets no batch with pixels that were filled in."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert by_us(WHOLE[:kept]) is None


@pytest.mark.parametrize(("before", "behind"), [(40, b""), (40, b"behind"), (0, b"behind")])
def test_bytes_left_over_are_no_error(before: int, behind: bytes) -> None:
    data = WHOLE[:-2] + bytes(before) + WHOLE[-2:] + behind
    for ratio in (1, 4):
        expected = by_pillow(data, ratio)
        assert expected is not None
        assert by_us(data, None, ratio) == expected.tobytes()


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_jpegs_get_pillows_verdict_and_pixels(kind: str) -> None:
    counts = check_many(kind, 40, 1)
    assert counts["refused"] + counts["accepted"] > 30


@pytest.mark.torture
@pytest.mark.parametrize("kind", DAMAGES)
def test_two_thousand_of_each_kind_get_pillows_verdict_and_pixels(
    kind: str, seed: int, torture_result: Callable[..., None]
) -> None:
    counts = check_many(kind, 2000, seed)
    torture_result(f"JPEGs with damaged {kind}", trials=2000, failures=0, seed=seed, **counts)
