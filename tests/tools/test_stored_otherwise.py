"""Images stored otherwise: what is made of them, and that the cheaper one measures as cheaper."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.tools.bench.stored_otherwise import (
    StoredSample,
    measure_variants,
    sample_images,
    stored_side,
    variants,
)


def jpeg(width: int, height: int, seed: int = 0, **options: object) -> StoredSample:
    colors = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(colors).resize((width, height)).save(out, "JPEG", quality=90, **options)
    return StoredSample(out.getvalue(), "jpeg", height, width, bool(options.get("progressive")))


def test_the_usual_side_is_a_little_larger_than_the_crop() -> None:
    assert stored_side(224) == 256
    assert stored_side(112) == 128


def test_samples_come_from_all_over_the_split(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(ImageFolder(folder(60, png_every=2)), tmp_path / "out", workers=1)
    split = shardfeed.open(tmp_path / "out")["train"]
    samples = sample_images(split, 128)
    assert len(samples) == 128
    places = {record["image/encoded"]: place for place, record in enumerate(split)}
    found = sorted(places[sample.encoded] for sample in samples)
    assert len(set(found)) == 128
    assert found[0] == 0
    assert found[-1] == 179
    record = split[places[samples[0].encoded]]
    assert (samples[0].height, samples[0].width) == (record["image/height"], record["image/width"])
    assert {sample.form for sample in samples} == {"jpeg", "png"}


def test_small_baseline_jpegs_could_only_be_pixels() -> None:
    samples = [jpeg(64, 48, seed) for seed in range(3)]
    found = variants(samples, 42)
    assert set(found) == {"raw"}
    for before, after in zip(samples, found["raw"], strict=True):
        assert len(after.encoded) == 64 * 48 * 3
        pixels = np.asarray(Image.open(io.BytesIO(before.encoded)))
        np.testing.assert_array_equal(np.frombuffer(after.encoded, np.uint8).reshape(48, 64, 3), pixels)
    assert variants(found["raw"], 42) == {}
    assert variants(found["raw"], 4) == {}  # of pixels, no smaller ones are offered


def test_large_ones_are_shrunk() -> None:
    found = variants([jpeg(160, 120)], 42)
    assert set(found) == {"resized", "resized_raw", "raw"}
    (resized,) = found["resized"]
    assert (resized.height, resized.width, resized.form) == (48, 64, "jpeg")
    assert Image.open(io.BytesIO(resized.encoded)).size == (64, 48)
    assert len(found["resized_raw"][0].encoded) == 64 * 48 * 3


def test_progressive_ones_become_baseline() -> None:
    samples = [jpeg(64, 48, 1, progressive=True), jpeg(64, 48, 2)]
    (changed, kept) = variants(samples, 42)["baseline"]
    assert Image.open(io.BytesIO(samples[0].encoded)).info.get("progressive")
    image = Image.open(io.BytesIO(changed.encoded))
    assert not image.info.get("progressive")
    assert image.size == (64, 48)
    assert kept is samples[1]


def test_large_jpegs_are_cut_into_pieces() -> None:
    samples = [jpeg(448, 300, 1), jpeg(448, 300, 2, progressive=True), jpeg(64, 48, 3)]
    changed, *kept = variants(samples, 42)["seekable"]
    assert [*kept] == samples[1:]
    assert changed.restarts
    (found,) = measure_variants(samples, {"seekable": [changed, *kept]}, 64, 2, rounds=1, windows=30)
    assert found.name == "seekable"
    assert found.original_us > 0 < found.cpu_us


def test_pngs_become_jpegs() -> None:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (10, 200, 30)).save(out, "PNG")
    (changed,) = variants([StoredSample(out.getvalue(), "png", 30, 40)], 28)["jpeg"]
    image = Image.open(io.BytesIO(changed.encoded))
    assert image.format == "JPEG"
    assert abs(np.asarray(image, int) - [10, 200, 30]).max() < 4


@pytest.mark.long
def test_each_is_measured_beside_the_original() -> None:
    """How much less work each is depends on the machine: docs/bench.md says it of one."""
    samples = [jpeg(160, 120, seed, progressive=seed == 0) for seed in range(4)]
    others = variants(samples, 64)
    found = measure_variants(samples, others, 64, 2, rounds=1, windows=1000)
    assert {variant.name for variant in found} == {*others} >= {"resized", "baseline", "raw"}
    for variant in found:
        assert variant.original_bytes == pytest.approx(np.mean([len(sample.encoded) for sample in samples]))
        assert variant.bytes_per_image == pytest.approx(
            np.mean([len(sample.encoded) for sample in others[variant.name]])
        )
        assert variant.cpu_us > 0
        assert variant.original_us > 0
