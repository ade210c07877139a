"""The stages are prefixes of the real pipeline: the same samples, the same windows."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import train_batches
from shardfeed.readers import Dataset, Split
from shardfeed.tools.bench.stages import STAGES, STAGES_ON_HOST, HeldImages, Workload, check_images


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """16 JPEGs of 600 x 500."""
    root = tmp_path_factory.mktemp("large")
    (root / "images" / "a").mkdir(parents=True)
    for number in range(16):
        colors = np.random.default_rng(number).integers(0, 256, (10, 12, 3), np.uint8)
        image = Image.fromarray(colors).resize((600, 500), Image.Resampling.BICUBIC)
        image.save(root / "images" / "a" / f"{number}.jpg", quality=90)
    convert(ImageFolder(root / "images"), root / "out", workers=1)
    return shardfeed.open(root / "out")["train"]


def work(split: Split, batch_size: int = 8, image_size: int = 32, **options: object) -> Workload:
    return Workload(split, batch_size, image_size, **({"order": "stream", "workers": 2} | options))  # type: ignore[arg-type]


@pytest.fixture
def without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are made in the graph."""
    monkeypatch.setitem(sys.modules, "cv2", None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "stages"), [("stream", STAGES), ("stream", STAGES_ON_HOST), ("global", STAGES_ON_HOST)]
)
def test_every_stage_goes_through_the_same_batches(
    flowers: Dataset, order: str, stages: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    if stages == STAGES:
        request.getfixturevalue("without_opencv")
    whole = work(flowers["train"], order=order)
    assert whole.stages == stages
    expected = len(flowers["train"]) // 8
    assert {stage: sum(1 for _ in whole.batches(stage)) for stage in stages} == dict.fromkeys(stages, expected)


@pytest.mark.parametrize("order", ["stream", "global"])
def test_the_last_stage_is_what_train_batches_gives(flowers: Dataset, order: Any) -> None:
    split = flowers["train"]
    ours = next(iter(work(split, order=order).batches()))
    theirs = next(iter(train_batches(split, batch_size=8, image_size=32, order=order)))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.long
@pytest.mark.usefixtures("without_opencv")
def test_a_stage_has_the_first_pixel_of_the_same_crop(flowers: Dataset) -> None:
    split = flowers["train"]
    images, _ = next(iter(work(split).batches()))
    pixels = next(iter(work(split).batches("augment")))
    np.testing.assert_array_equal(pixels[:, 0, 0, 0], images[:, 0, 0, 0])


@pytest.mark.long
@pytest.mark.parametrize("size", [64, 16])
def test_the_decoder_alone_gets_the_windows_of_the_pipeline(large: Split, size: int) -> None:
    import tensorflow as tf

    part = work(large, image_size=size)
    images, _ = next(iter(part.batches()))
    held = part.held()
    assert len(held) == 16
    assert set(held.ratios.tolist()) <= {1, 2, 4, 8}
    assert held.ratios.max() > 1
    for number in range(8):
        window = tf.image.decode_and_crop_jpeg(
            held.encoded[number], held.windows[number], channels=3, ratio=int(held.ratios[number])
        )
        # At that scale it still covers the crop, which is its resize, or the mirror image of that.
        assert min(window.shape[:2]) >= size or held.ratios[number] == 1
        crop = tf.image.resize(window, [size, size]).numpy()
        wanted = images[number].numpy().astype(np.float32)
        assert min(abs(crop - wanted).mean(), abs(crop[:, ::-1] - wanted).mean()) < 3


def test_the_decoder_alone_decodes_all_of_them(large: Split) -> None:
    held = work(large, image_size=16).held()
    sizes = np.concatenate(list(held.decoded(8, 2).take(2).as_numpy_iterator()))
    np.testing.assert_array_equal(sizes[:, :2], held.windows[:, 2:])


@pytest.mark.long
def test_pngs_are_held_too_and_pixels_are_not(folder: Callable[..., Path], tmp_path: Path) -> None:
    source = ImageFolder(folder(6, png_every=2))
    convert(source, tmp_path / "mixed", workers=1)
    mixed = work(shardfeed.open(tmp_path / "mixed")["train"], batch_size=6).held()
    assert len(mixed) == 18
    assert (mixed.ratios == 0).sum() == 9
    for encoded, ratio in zip(mixed.encoded, mixed.ratios, strict=True):
        assert Image.open(io.BytesIO(encoded)).format == ("JPEG" if ratio else "PNG")
    sizes = np.concatenate(list(mixed.decoded(9, 2).take(2).as_numpy_iterator()))
    jpegs = mixed.ratios > 0
    np.testing.assert_array_equal(sizes[jpegs, :2], mixed.windows[jpegs, 2:])

    convert(source, tmp_path / "raw", workers=1, image=ImageOptions(encode="raw"))
    raw = work(shardfeed.open(tmp_path / "raw")["train"], batch_size=6)
    assert raw.keys() == ["image/class/label", "image/encoded", "image/format", "image/height", "image/width"]
    assert len(raw.held()) == 0
    assert [sum(1 for _ in raw.batches(stage)) for stage in STAGES] == [3] * 5


def test_a_split_without_images_is_refused(flowers: Dataset) -> None:
    check_images(flowers["train"])
    with pytest.raises(UsageError, match="no samples"):
        check_images(flowers["train"][:0])
    assert isinstance(work(flowers["train"]).held(), HeldImages)
