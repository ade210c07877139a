"""Images of 16 bits, from the file to the batch: no bit is lost, and all frameworks make the same pixels."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageOptions, adopt, convert, export, salvage, survey
from shardfeed.errors import UsageError
from shardfeed.readers.notebook import rgb_picture
from shardfeed.tools.cli import main

SIDE = 40


def deep_png(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits: gray [h, w], or RGB [h, w, 3]."""
    return cv2.imencode(".png", pixels if pixels.ndim == 2 else pixels[..., ::-1])[1].tobytes()


def noise(number: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 65_536, shape or (SIDE, SIDE)).astype(np.uint16)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Twelve gray images of 16 bits, PNG and TIFF, in two classes."""
    for number in range(12):
        file = tmp_path / "scans" / "ab"[number % 2] / f"{number}.{'png' if number % 3 else 'tif'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(number)).save(file)
    return tmp_path / "scans"


@pytest.fixture
def deep(scans: Path, tmp_path: Path) -> shardfeed.Dataset:
    convert(str(scans), tmp_path / "deep", image=ImageOptions(keep_depth=True), seed=1)
    return shardfeed.open(tmp_path / "deep")


def number_of(name: bytes) -> int:
    return int(Path(name.decode()).stem)


@pytest.mark.promise(31)
def test_every_bit_is_kept_from_the_file_to_the_export(deep: shardfeed.Dataset, tmp_path: Path) -> None:
    for record in deep["train"]:
        assert record["image/format"] == b"png16"
        stored = np.asarray(Image.open(io.BytesIO(record["image/encoded"])))  # type: ignore[arg-type]
        assert (stored == noise(number_of(record["image/filename"]))).all()  # type: ignore[arg-type]
    report = export(tmp_path / "deep", tmp_path / "files", to="folder")
    assert "--keep-depth" in report.convert_commands[0]
    files = [file for file in (tmp_path / "files").rglob("*.*") if file.suffix != ".txt"]
    assert len(files) == 12
    for file in files:
        assert (np.asarray(Image.open(file)) == noise(number_of(file.name.encode()))).all()


def test_a_dataset_of_16_bits_is_verified_and_shown(deep: shardfeed.Dataset, tmp_path: Path) -> None:
    assert main(["verify", str(tmp_path / "deep"), "--deep"]) == 0
    assert np.asarray(rgb_picture(deep["train"][0]["image/encoded"], None, SIDE)).mean() < 140  # not white


def test_salvaged_and_adopted_images_keep_16_bits(deep: shardfeed.Dataset, tmp_path: Path) -> None:
    salvage(tmp_path / "deep", tmp_path / "salvaged")
    (tmp_path / "bare").mkdir()
    for shard in (tmp_path / "deep").glob("*.tfrecord"):
        (tmp_path / "bare" / shard.name).write_bytes(shard.read_bytes())
    adopt(survey(tmp_path / "bare"))
    for name in ("salvaged", "bare"):
        split = shardfeed.open(tmp_path / name)["train"]
        assert split.formats == {"png16": 12}
        assert next(iter(shardfeed.array_batches(split, batch_size=4, image_size=8)))[0].dtype == np.uint16


def batches_of(framework: str, split: Any, channels: int, eval_: bool) -> list[np.ndarray]:
    """The images of an epoch, [b, height, width, channels]."""
    options: Any = {"batch_size": 4, "image_size": 24, "channels": channels}
    order: Any = {} if eval_ else {"seed": 3, "order": "global"}
    if framework == "numpy":
        make = shardfeed.eval_array_batches if eval_ else shardfeed.array_batches
        return [images.copy() for images, _ in make(split, **options, **order)]
    if framework == "tensorflow":
        from shardfeed.pipelines import eval_batches, train_batches

        found = (eval_batches if eval_ else train_batches)(split, **options, **order)
        return [images.numpy() for images, _ in found]
    from shardfeed.pipelines.torch import random_resized_crop, resize_center_crop, torch_eval_loader, torch_loader

    crop = (resize_center_crop if eval_ else random_resized_crop)(24, channels=channels, antialias=False)
    loader = (torch_eval_loader if eval_ else torch_loader)(split, batch_size=4, image_transform=crop, **order)
    return [images.permute(0, 2, 3, 1).numpy() for images, _ in loader]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("eval_", [False, True], ids=["train", "eval"])
def test_all_frameworks_make_the_same_batches_of_16_bits(deep: shardfeed.Dataset, channels: int, eval_: bool) -> None:
    ours, *others = (batches_of(name, deep["train"], channels, eval_) for name in ("numpy", "tensorflow", "torch"))
    for batch in ours:
        assert batch.dtype == np.uint16
        assert batch.shape == (4, 24, 24, channels)
        assert len(np.unique(batch)) > 1000  # more than 8 bits have
    for theirs in others:
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(ours, theirs, strict=True))


def test_a_view_of_the_whole_image_has_its_numbers(deep: shardfeed.Dataset) -> None:
    split = deep["train"]
    batches = shardfeed.eval_array_batches(
        split, batch_size=12, image_size=SIDE, crop_fraction=1, channels=1, features=["image/filename"]
    )
    (batch,) = batches
    for image, name in zip(batch["images"], batch["image/filename"], strict=True):
        assert (image[..., 0] == noise(number_of(name))).all()


def test_the_plan_of_workers_counts_both_bytes(deep: shardfeed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 workers have 6 batches in memory; the budget is four times that for one level."""
    from shardfeed.pipelines.torch import Workers, torch_eval_loader, workers

    monkeypatch.setattr(workers, "memory_budget", lambda: 4 * 6 * (4 * 3 * 24 * 24))
    loaders = [
        torch_eval_loader(deep["train"], batch_size=4, image_size=size, workers=Workers(2, processes=True))
        for size in (24, 16)
    ]
    assert [loader.prefetch_factor for loader in loaders] == [1, 2]


@pytest.mark.long
def test_a_graph_makes_the_pixels_of_the_threads_within_a_level(deep: shardfeed.Dataset) -> None:
    from shardfeed.pipelines import make_batches, resize_center_crop

    options: Any = {"batch_size": 4, "order": "stored", "drop_remainder": False}
    for channels in (1, 3):
        crop = resize_center_crop(24, channels=channels)
        graph = make_batches(deep["train"], lambda features, seed, crop=crop: crop(features, seed), **options)
        for ours, theirs in zip(make_batches(deep["train"], crop, **options), graph, strict=True):
            assert theirs.dtype.name == "uint16"
            assert np.abs(ours.numpy().astype(int) - theirs.numpy().astype(int)).max() <= 1


def test_antialiased_crops_keep_16_bits_and_to_device_scales_white_to_one(deep: shardfeed.Dataset) -> None:
    import torch

    from shardfeed.pipelines.torch import decode_image, letterbox, to_device, torch_eval_loader, torch_loader

    loader = torch_loader(deep["train"], batch_size=4, image_size=24, seed=3)
    images, _ = next(iter(loader))
    assert images.dtype == torch.uint16
    floats, _ = next(
        iter(
            to_device(
                torch_loader(deep["train"], batch_size=4, image_size=24, seed=3), "cpu", mean=[0.0] * 3, std=[1.0] * 3
            )
        )
    )
    assert torch.allclose(floats, images.float() / 65_535, atol=1e-6)
    box = letterbox((24, 48), fill=255)
    padded, _ = next(iter(torch_eval_loader(deep["train"], batch_size=4, image_transform=box)))
    assert (padded[..., :8].numpy() == 65_535).all()
    assert decode_image(deep["train"][0]).dtype == torch.uint16


def test_a_split_with_both_depths_is_refused_and_the_remedy_works(scans: Path, tmp_path: Path) -> None:
    Image.new("RGB", (SIDE, SIDE)).save(scans / "a" / "99.jpg")
    report = convert(str(scans), tmp_path / "both", image=ImageOptions(keep_depth=True))
    assert any("12 of 13 images have 16 bits" in note for note in report.notes)
    split = shardfeed.open(tmp_path / "both")["train"]
    for make in [partial(batches_of, name, channels=3, eval_=True) for name in ("numpy", "tensorflow", "torch")]:
        with pytest.raises(UsageError, match="12 of 13 images have 16 bits"):
            make(split)
        assert {batch.dtype for batch in make(split.select(split.column("image/format") == b"png16"))} == {
            np.dtype("u2")
        }
        assert {batch.dtype for batch in make(split.select(split.column("image/format") != b"png16"))} == {
            np.dtype("u1")
        }


def test_formats_of_a_selection_are_counted_once_a_loader(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in each epoch, and with two depths before there is a batch."""
    from shardfeed.pipelines import array_batches
    from shardfeed.pipelines.torch import torch_loader
    from shardfeed.readers import split as module

    Image.new("RGB", (SIDE, SIDE)).save(scans / "a" / "99.jpg")
    convert(str(scans), tmp_path / "both", image=ImageOptions(keep_depth=True), workers=1, split={"train": 1.0})
    split = shardfeed.open(tmp_path / "both")["train"]
    some, read, plain = split.select(split.column("image/format") == b"png16"), [], module.read_column
    monkeypatch.setattr(module, "read_column", lambda *given: read.append(given[2]) or plain(*given))
    for make in (array_batches, partial(torch_loader, workers=0)):
        loader = make(some, batch_size=4, image_size=24)
        assert read.count("image/format") == 1
        assert [len(list(loader)) for _ in range(3)] == [3, 3, 3]
        assert read.count("image/format") == 1
        with pytest.raises(UsageError, match="12 of 13 images have 16 bits"):
            make(split, batch_size=4, image_size=24)
        read.clear()


@pytest.mark.parametrize("inside", [False, True])
def test_the_graph_of_tensorflow_keeps_16_bits_of_a_selection(scans: Path, tmp_path: Path, inside: bool) -> None:
    from shardfeed.pipelines import make_batches, resize_center_crop

    Image.new("RGB", (SIDE, SIDE)).save(scans / "a" / "99.jpg")
    convert(str(scans), tmp_path / "both", image=ImageOptions(keep_depth=True), workers=1)
    split = shardfeed.open(tmp_path / "both")["train"]
    crop = resize_center_crop(24, antialias=not inside)  # either way, TensorFlow's operations decode
    transform = (lambda features, seed: crop(features, seed)) if inside else crop
    for chosen, dtype, least in ((b"png16", np.uint16, 256), (b"jpeg", np.uint8, -1)):
        part = split.select(split.column("image/format") == chosen)
        for batch in make_batches(part, transform, batch_size=4, order="stored", drop_remainder=False):
            assert (batch.dtype, batch.numpy().max() > least) == (dtype, True)


def test_what_has_8_bits_only_is_refused_for_images_of_16(deep: shardfeed.Dataset, tmp_path: Path) -> None:
    from shardfeed.pipelines import Cache, cached
    from shardfeed.pipelines.torch import torch_loader

    split = deep["train"]
    with pytest.raises(UsageError, match="16 bits") as caught:
        torch_loader(split, batch_size=4, image_transform=lambda image: image)
    assert caught.value.args[0] == "image_transform"
    with pytest.raises(UsageError, match="16 bits"):
        torch_loader(split, batch_size=4, image_size=24, decode="like_cuda")
    with pytest.raises(UsageError, match="decoded=False"):
        cached(split, Cache(tmp_path / "cache", decoded=True))


@pytest.mark.parametrize("kind", ["jpeg", "png", "raw"])
def test_one_channel_of_colours_is_their_brightness(kind: str, tmp_path: Path) -> None:
    """A JPEG's own, of other images what Pillow makes of it; all frameworks alike."""
    folder = tmp_path / "colours" / "a"
    folder.mkdir(parents=True)
    for number in range(4):
        pixels = cv2.resize((noise(number, 4, 4, 3) >> 8).astype(np.uint8), (SIDE, SIDE))
        Image.fromarray(pixels).save(folder / f"{number}.{'jpg' if kind == 'jpeg' else 'png'}", quality=95)
    convert(str(folder.parent), tmp_path / "out", image=ImageOptions(encode="raw" if kind == "raw" else "keep"))
    split = shardfeed.open(tmp_path / "out")["train"]
    whole: Any = {"batch_size": 4, "image_size": SIDE, "crop_fraction": 1, "channels": 1}
    ((images, _),) = shardfeed.eval_array_batches(split, **whole)
    for image, record in zip(images, split, strict=True):
        file = record["image/encoded"]
        opened = Image.frombytes("RGB", (SIDE, SIDE), file) if kind == "raw" else Image.open(io.BytesIO(file))  # type: ignore[arg-type]
        opened.draft("L", opened.size) if kind == "jpeg" else None
        assert (image[..., 0] == np.asarray(opened.convert("L"))).all()
    for eval_ in (False, True):
        ours, *others = (batches_of(name, split, 1, eval_) for name in ("numpy", "tensorflow", "torch"))
        assert ours[0].shape == (4, 24, 24, 1)
        assert all((ours[0] == theirs[0]).all() for theirs in others)
