"""`like_cuda`: the window of a JPEG that repeats subsampled colours, as GPUs do: bit for bit, by both paths."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from seekable_images import any_picture, cut_jpeg, drawn, jpeg

import shardfeed
from shardfeed.converters import convert, from_dicts
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.decoding.batch import BatchDecoder
from shardfeed.pipelines.decoding.pixels import plan_view
from shardfeed.pipelines.engine import ImageMaker, Records
from shardfeed.pipelines.torch.images import shrunk
from shardfeed.pipelines.windows import Window
from shardfeed.schema import ENCODED, LABEL, Schema

from decoding_paths import COMPILED, FEATURES, is_compiled, path_fixture, record
from pictures import image_bytes

path = path_fixture()
SEEDS = np.zeros((1, 2), np.int64)


@dataclass(frozen=True)
class Shown(Crop):
    """A window of every image."""

    window: Window
    target: tuple[int, int]

    def view(self, height: int, width: int) -> View:
        return cropped((height, width), self.window, self.target)


def decoder(crop: Crop, **options: Any) -> BatchDecoder:
    return BatchDecoder(crop, Schema(FEATURES), {"jpeg"}, 0, like_cuda=True, **options)


def repeated(data: bytes) -> np.ndarray:
    return simplejpeg.decode_jpeg(data, fastupsample=True)


def any_file(rng: random.Random) -> tuple[bytes, bytes, bool]:
    """A JPEG of any kind, its `image/restarts`, and whether it is progressive."""
    image, options = any_picture(rng)
    kind = rng.randrange(10)
    if kind < 3:
        made = cut_jpeg(image, **options)
        return made, row_lengths(made), False
    if kind < 5:
        return jpeg(image, **options, progressive=True), b"", True
    if kind < 7:
        sampling = rng.choice(["440", "420", "422", "444"])
        return simplejpeg.encode_jpeg(np.array(image.convert("RGB")), colorsubsampling=sampling), b"", False
    return jpeg(image, **options), b"", False


def any_window(rng: random.Random, height: int, width: int) -> Window:
    """A window of any size, often at the image's border."""
    (top, tall), (left, wide) = (
        sorted(rng.choice([0, side, rng.randint(0, side)]) for _ in range(2)) for side in (height, width)
    )
    top, left = min(top, height - 1), min(left, width - 1)
    return Window(top, left, max(1, tall - top), max(1, wide - left))


def check_windows(files: int, seed: int, path: str) -> None:
    rng = random.Random(seed)
    for _ in range(files):
        data, restarts, progressive = any_file(rng)
        payload, whole = record(data, restarts, rng), repeated(data)
        for _ in range(8):
            window = any_window(rng, *whole.shape[:2])
            decode = decoder(Shown(window, window[2:]))
            top, left, tall, wide = window
            found = decode([payload], SEEDS).images[0]
            assert np.array_equal(found, whole[top : top + tall, left : left + wide]), (whole.shape, window)
            assert path != COMPILED or is_compiled(decode, payload, SEEDS) == (not progressive)


def test_windows_are_cut_from_the_whole_image(path: str) -> None:
    check_windows(100, 1, path)


@pytest.mark.long
def test_many_windows_are_cut_from_the_whole_image(path: str) -> None:
    check_windows(3000, 2, path)


def test_nothing_is_scaled_and_no_window_rounded() -> None:
    """A decoder would shrink this window by 8, and begin and end it at multiples of 8."""
    data, window = jpeg(drawn(337, 451, 1)), Window(3, 5, 331, 441)
    view = cropped((337, 451), window, (20, 30))
    planned = plan_view({ENCODED: data}, lambda height, width: view, like_cuda=True)
    expected = repeated(data)[3:334, 5:446]
    assert planned.view == view
    assert np.array_equal(planned.pixels(), expected)
    batch = decoder(Shown(window, (20, 30)), shrink=shrunk)([record(data, b"", random.Random(0))], SEEDS)
    assert batch.views == [view]
    assert np.array_equal(batch.images[0], shrunk(expected, (20, 30)))


def test_a_letterboxed_image() -> None:
    data = jpeg(drawn(120, 90, 2))
    found = decoder(Letterbox((60, 60), 7), shrink=shrunk)([record(data, b"", random.Random(0))], SEEDS).images[0]
    assert np.array_equal(found[:, 7:52], shrunk(repeated(data), (60, 45)))
    assert (found[:, :7] == 7).all()
    assert (found[:, 52:] == 7).all()


def test_a_file_with_a_harmless_fault() -> None:
    """Bytes before a restart marker are a warning: Pillow judges, and would interpolate colours."""
    data = jpeg(drawn(90, 120, 3), restart_marker_blocks=8)
    broken = data.replace(b"\xff\xd0", b"\x12\x34\xff\xd0", 1)
    with pytest.raises(ValueError, match="extraneous bytes"):
        repeated(broken)
    found = decoder(Shown(Window(0, 0, 90, 120), (90, 120)))([record(broken, b"", random.Random(0))], SEEDS).images[0]
    assert np.array_equal(found, repeated(data))


def test_the_engine_makes_them(tmp_path: Path) -> None:
    """From plain, progressive and seekable JPEGs, and from a PNG, which is as ever."""
    image = drawn(64, 48, 4)
    files = [jpeg(image), jpeg(image, progressive=True), cut_jpeg(image), image_bytes(image, "PNG")]
    samples = [{"image": data, "key": f"{n}", "label": n} for n, data in enumerate(files)]
    convert(from_dicts(samples), tmp_path / "out", split={"train": 1.0})
    split = shardfeed.open(tmp_path / "out")["train"]
    maker = ImageMaker(split, CenterCrop((64, 48), 1.0), threads=1, decode="like_cuda")
    made = maker(Records(split.payloads(np.arange(4)), np.zeros((4, 2), np.int64), str)).images
    for row, found in enumerate(made):
        label = split[row][LABEL]
        expected = np.array(image) if label == 3 else repeated(files[label])
        assert np.array_equal(found, expected), label
