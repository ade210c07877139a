"""Batches of bytes, which a device decodes. Here that is the CPU: benchmarks/gpu_checks.py does the same on a GPU.

Only the check that there is a GPU is left out. Pixels are compared with those of `decode="like_cuda"`.
"""

import importlib.util
import pickle
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECT_LABEL, RASTER, RASTER_FORMAT, Raster
from shardfeed.converters import ImageFolder, ImageOptions, Sample, convert
from shardfeed.converters.sources.source import MaskTable, Objects, RasterImage
from shardfeed.errors import MissingExtraError, RecordError, UsageError
from shardfeed.pipelines.augment import color_jitter, gaussian_blur, grayscale
from shardfeed.pipelines.torch import (
    Ranks,
    Workers,
    detection,
    letterbox,
    loaders,
    random_resized_crop,
    resize_center_crop,
    segmentation,
    to_device,
    torch_eval_loader,
    torch_loader,
    torch_predict_loader,
)
from shardfeed.pipelines.torch.encoded import EncodedImages, check_decode
from shardfeed.readers import Dataset, Skip
from shardfeed.schema import LABEL, Feature, Schema

from pictures import image_bytes

COUNT = 46
KINDS: tuple[dict[str, Any], ...] = (
    {},  # 4:2:0
    {"progressive": True},
    {"subsampling": 0},
    {"gray": True},
    {"restart_marker_blocks": 3},
    {"kind": "PNG"},
)
CROP = random_resized_crop((40, 56), area=(0.2, 1.0))
BOXED = letterbox((40, 70), fill=9)
WAYS = [0, 2, Workers(2, processes=True)]


class Mixed:
    """JPEGs of each kind, and PNGs; a label, a box and a raster for each."""

    schema = Schema(
        {
            LABEL: Feature("int64", (), "label"),
            **{
                f"image/object/bbox/{side}": Feature("float32", (None,), "box")
                for side in ("ymin", "xmin", "ymax", "xmax")
            },
            OBJECT_LABEL: Feature("int64", (None,), "label"),
            RASTER: Feature("bytes", (), "raster"),
            RASTER_FORMAT: Feature("bytes", (), "text"),
        },
        {LABEL: ("a", "b", "c"), OBJECT_LABEL: ("thing",)},
        raster=Raster(("ground", "thing"), 255),
    )

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < COUNT:
            raise IndexError(i)
        rng = np.random.default_rng(i)
        width, height = (int(side) for side in rng.integers(60, 160, 2))
        options = {"quality": 90, **KINDS[i % len(KINDS)]}
        image = Image.fromarray(rng.integers(0, 256, (9, 11, 3), np.uint8)).resize(
            (width, height), Image.Resampling.BICUBIC
        )
        image = image.convert("L") if options.pop("gray", False) else image
        kind = options.pop("kind", "JPEG")
        data = image_bytes(image, kind, **options) if kind == "JPEG" else image_bytes(image, kind)
        raster = np.full((height, width), i % 2, np.uint8)
        mask = RasterImage(image_bytes(Image.fromarray(raster), "PNG"), MaskTable(((0, 0), (1, 1), (255, 255))))
        box = np.array([[3, 5, width - 7, height - 4]], np.float64)
        objects = Objects(box, {OBJECT_LABEL: [0]}, ["the box"], (width, height))
        return Sample(b"%d" % i, data, {LABEL: i % 3}, objects=objects, raster=mask, number=i)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("mixed") / "out"
    convert(Mixed(), out, shards=2)
    return shardfeed.open(out)


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the check that there is one."""
    monkeypatch.setattr(loaders, "check_decode", lambda decode: None)


def check_same(found: Any, expected: Any) -> None:
    """Images may differ by a level: one resize rounds once, the other after each direction."""
    if isinstance(found, EncodedImages):
        assert found.shape == expected.shape
        images = found.to("cpu")
        assert images.dtype == torch.uint8
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (images.int() - expected.int()).abs().max() <= 1
    elif isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key, value in found.items():
            assert torch.equal(value, expected[key]), key
    elif isinstance(found, tuple | list):
        for one, other in zip(found, expected, strict=True):
            check_same(one, other)
    else:
        assert torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected


LOADERS: dict[str, Callable[..., Any]] = {
    "train": lambda split, **options: torch_loader(split, image_size=(40, 56), seed=3, **options),
    "our crop": lambda split, **options: torch_loader(split, image_transform=CROP, **options),
    "evaluation": lambda split, **options: torch_eval_loader(split, image_size=48, **options),
    "whole": lambda split, **options: torch_eval_loader(
        split, image_transform=resize_center_crop(32, crop_fraction=1.0), **options
    ),
    "letterbox": lambda split, **options: torch_eval_loader(
        split, image_transform=letterbox((40, 70), fill=9), **options
    ),
    "prediction": lambda split, **options: torch_predict_loader(split, image_size=32, **options),
    "detection": lambda split, **options: torch_loader(split, transform=detection(CROP), **options),
    "segmentation": lambda split, **options: torch_loader(split, transform=segmentation(letterbox(48)), **options),
}


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("name", LOADERS)
def test_the_same_batches(mixed: Dataset, name: str) -> None:
    expected = list(LOADERS[name](mixed["train"], batch_size=8, decode="like_cuda", workers=0))
    assert len(expected) in (COUNT // 8, -(-COUNT // 8))
    for workers in WAYS if name in ("train", "detection") else WAYS[:-1]:  # processes, for tensors and for targets
        found = list(LOADERS[name](mixed["train"], batch_size=8, decode="cuda", workers=workers))
        check_same(found, expected)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("workers", WAYS)
def test_a_feed_goes_on_where_it_was(mixed: Dataset, workers: Any) -> None:
    def feed() -> Any:
        loader = torch_loader(mixed["train"], batch_size=8, image_size=32, seed=5, workers=workers, decode="cuda")
        return to_device(loader, "cpu", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), ahead=3)

    unbroken = feed()
    expected = [batch for _ in range(2) for batch in unbroken]
    assert expected[0][0].dtype == torch.float32
    found, state = [], None
    while len(found) < len(expected):
        again = feed()
        if state is not None:
            again.load_state_dict(state)
        for batch in again:
            found.append(batch)
            state = again.state_dict()
            if len(found) % 3 == 0:
                break
    for (images, labels), (same, same_labels) in zip(found, expected, strict=True):
        assert torch.equal(images, same)
        assert torch.equal(labels, same_labels)


@pytest.mark.usefixtures("without_gpu")
def test_a_feed_normalises_what_it_decodes(mixed: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "workers": 2}
    factors: dict[str, Any] = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)}
    for dtype, near in ((None, 0.03), (torch.bfloat16, 0.06)):
        mine = to_device(torch_loader(mixed["train"], decode="cuda", **options), "cpu", dtype=dtype, **factors)
        theirs = to_device(torch_loader(mixed["train"], decode="like_cuda", **options), "cpu", dtype=dtype, **factors)
        for (images, _), (same, _) in zip(mine, theirs, strict=True):
            assert images.dtype == same.dtype
            assert (images - same).abs().max() < near  # a level is 1 / 255 / 0.2
    with pytest.raises(UsageError, match=r"mean, std: got images \[8, 3, 32, 32\] and 2 values"):
        next(iter(to_device(torch_loader(mixed["train"], decode="cuda", **options), "cpu", mean=(0, 0), std=(1, 1))))


@pytest.mark.usefixtures("without_gpu")
def test_ranks_share_each_batch(mixed: Dataset) -> None:
    def batches(ranks: Ranks) -> list[Any]:
        options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "workers": 2, "decode": "cuda"}
        return [(images.to("cpu"), labels) for images, labels in torch_loader(mixed["train"], ranks=ranks, **options)]

    for (whole, labels), *parts in zip(batches(Ranks(0, 1)), *(batches(Ranks(n, 2)) for n in range(2)), strict=True):
        assert torch.equal(torch.cat([images for images, _ in parts]), whole)
        assert torch.equal(torch.cat([mine for _, mine in parts]), labels)


@pytest.mark.usefixtures("without_gpu")
def test_an_image_that_does_not_decode_is_named(tmp_path: Path, mixed: Dataset) -> None:
    """As on the CPU, whichever way it takes."""
    source = Mixed()
    folder = tmp_path / "folder" / "a"
    folder.mkdir(parents=True)
    for i in range(12):
        data = source[i].image
        suffix = "png" if data[1:4] == b"PNG" else "jpg"
        (folder / f"{i:02}.{suffix}").write_bytes(data if i != 6 else data[: len(data) // 2])
    convert(ImageFolder(folder.parent), tmp_path / "out", image=ImageOptions(check="none"), split={"train": 1})
    split = shardfeed.open(tmp_path / "out")["train"]
    errors = []
    for decode in ("cpu", "cuda"):
        for workers in WAYS:
            with pytest.raises(RecordError, match=r"06\.jpg.*does not decode") as caught:
                list(torch_eval_loader(split, batch_size=4, image_size=32, workers=workers, decode=decode))
            errors.append(str(caught.value))
    assert len({*errors}) == 1


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("workers", WAYS)
def test_damaged_records_are_left_out(mixed: Dataset, tmp_path: Path, workers: Any) -> None:
    shutil.copytree(mixed.directory, tmp_path / "out")
    split = shardfeed.open(tmp_path / "out")["train"]
    for index in (5, 17):
        shard = Path(split.shards.path(0))
        content = bytearray(shard.read_bytes())
        content[content.index(split[index]["image/encoded"]) + 50] ^= 0xFF
        shard.write_bytes(content)
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "workers": workers}
    with pytest.raises(RecordError):
        list(torch_loader(split, decode="cuda", **options))
    found = list(torch_loader(split, decode="cuda", damaged=Skip(2), **options))
    check_same(found, list(torch_loader(split, decode="like_cuda", damaged=Skip(2), **options)))


class Drawing:
    """A transform that draws from the generators of torch, random and NumPy, once for a batch."""

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        assert images.dtype == torch.uint8
        return images.flip(3) if torch.rand(1) < 0.5 else images.roll(int(np.random.randint(9)), 3)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("decode", ["cpu", "cuda"])
def test_a_transform_of_batches_draws_the_same_again(mixed: Dataset, decode: Any) -> None:
    def feed(transform: Any = None) -> Any:
        loader = torch_loader(mixed["train"], batch_size=8, image_size=32, seed=5, workers=2, decode=decode)
        return to_device(loader, "cpu", image_transform=transform or Drawing(), mean=(0.5,) * 3, std=(0.5,) * 3)

    torch.manual_seed(1)
    plain = [images for images, _ in feed(lambda images: images)]
    after = torch.rand(1)
    torch.manual_seed(1)
    expected = [images for images, _ in feed()]
    assert torch.rand(1) == after  # nothing was drawn from the user's generator
    again = feed()
    for number, _ in enumerate(again):
        if number == 2:
            break
    later = feed()
    later.load_state_dict(again.state_dict())
    for (images, _), same in zip(later, expected[3:], strict=True):
        assert images.dtype == torch.float32
        assert torch.equal(images, same)
    assert not all(torch.equal(*pair) for pair in zip(plain, expected, strict=True))


def drawn(loader: Any) -> list[torch.Tensor]:
    """Numbers that a transform of the images draws for each batch."""
    found: list[torch.Tensor] = []
    list(to_device(loader, "cpu", image_transform=lambda images: (found.append(torch.rand(3)), images)[1]))
    return found


def test_each_rank_draws_its_own(mixed: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image_size": 32, "workers": 0}
    one, other = (drawn(torch_loader(mixed["train"], ranks=Ranks(n, 2), **options)) for n in range(2))
    assert not any(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_loader_of_others_draws_from_the_users_generator() -> None:
    loader = [torch.zeros(2, 3, 4, 4, dtype=torch.uint8)] * 3
    torch.manual_seed(5)
    once, again = drawn(loader), drawn(loader)
    torch.manual_seed(5)
    assert all(torch.equal(each, torch.rand(3)) for each in once + again)


def test_a_transform_whose_images_would_not_be_normalised_is_refused(mixed: Dataset) -> None:
    def feed(**options: Any) -> Any:
        loader = torch_loader(mixed["train"], batch_size=8, image_size=32, workers=0)
        return to_device(loader, "cpu", image_transform=lambda images: images / 255, **options)

    assert next(iter(feed()))[0].max() <= 1
    with pytest.raises(UsageError, match=r"image_transform: it returned \[8, 3, 32, 32\] of torch.float32, expected"):
        next(iter(feed(mean=(0.5,) * 3, std=(0.5,) * 3)))


@pytest.mark.usefixtures("without_gpu")
def test_the_memory_on_the_device_is_known_before(mixed: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image_size": (32, 40), "workers": 0}
    for ranks in (1, 2):
        loader = torch_loader(mixed["train"], decode="cuda", ranks=Ranks(0, ranks), **options)
        one = 8 // ranks * 3 * 32 * 40
        assert to_device(loader, "cpu", ahead=3).device_bytes == 5 * one + (256 + 64 << 20)
        assert to_device(loader, "cpu", dtype=torch.float32).device_bytes == 4 * 4 * one + (256 + 64 << 20)
    with pytest.raises(UsageError, match='expected a loader with decode="cuda"'):
        _ = to_device(torch_loader(mixed["train"], **options), "cpu").device_bytes


@pytest.mark.usefixtures("without_gpu")
def test_a_large_batch_is_decoded_in_parts(mixed: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardfeed.pipelines.torch import encoded

    loader = torch_loader(mixed["train"], batch_size=8, image_size=32, workers=0, decode="cuda")
    expected = [images.to("cpu") for images, _ in loader]
    parts = []
    resize = encoded.resize_views

    def counted(images: Any, *rest: Any, **options: Any) -> None:
        parts.append(len(images))
        resize(images, *rest, **options)

    monkeypatch.setattr(encoded, "DECODED", 60_000)
    monkeypatch.setattr(encoded, "resize_views", counted)
    loader.set_epoch(0)
    assert all(torch.equal(images.to("cpu"), same) for (images, _), same in zip(loader, expected, strict=True))
    assert sum(parts) == COUNT // 8 * 8
    assert max(parts) < 8


@pytest.mark.usefixtures("without_gpu")
def test_parts_of_a_large_batch_are_in_memory_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardfeed.pipelines.torch import encoded

    (tmp_path / "folder" / "a").mkdir(parents=True)
    for i in range(8):
        image = Image.new("RGB", (700, 500), (i, 2, 3))
        (tmp_path / "folder" / "a" / f"{i}.jpg").write_bytes(image_bytes(image, "JPEG"))
    convert(ImageFolder(tmp_path / "folder"), tmp_path / "out", split={"train": 1})
    split = shardfeed.open(tmp_path / "out")["train"]
    images, _ = next(iter(torch_eval_loader(split, batch_size=8, image_size=32, decode="cuda", workers=0)))
    images.to("cpu")
    one = 3 * 700 * 500
    monkeypatch.setattr(encoded, "DECODED", 2 * one)
    tracemalloc.start()
    try:
        images.to("cpu")
        assert tracemalloc.get_traced_memory()[1] < 3 * one
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("without_gpu")
def test_harmless_faults_of_jpegs_decode_as_on_the_cpu(tmp_path: Path) -> None:
    """Bytes that a decoder skips with a warning: `convert` has accepted the image."""
    (tmp_path / "folder" / "a").mkdir(parents=True)
    data = image_bytes(Image.new("RGB", (90, 70), (200, 30, 9)), "JPEG")
    (tmp_path / "folder" / "a" / "odd.jpg").write_bytes(data[:-2] + b"123456789" + data[-2:])
    convert(ImageFolder(tmp_path / "folder"), tmp_path / "out", split={"train": 1})
    split = shardfeed.open(tmp_path / "out")["train"]
    options: dict[str, Any] = {"batch_size": 1, "image_size": 32, "workers": 0}
    found = list(torch_eval_loader(split, decode="cuda", **options))
    check_same(found, list(torch_eval_loader(split, decode="like_cuda", **options)))


@pytest.mark.usefixtures("without_gpu")
def test_the_images_of_a_batch_pickle(mixed: Dataset) -> None:
    images, _ = next(iter(torch_loader(mixed["train"], batch_size=8, image_size=32, workers=0, decode="cuda")))
    assert (len(images), images.shape) == (8, (8, 3, 32, 32))
    assert torch.equal(pickle.loads(pickle.dumps(images)).to("cpu"), images.to(torch.device("cpu"), non_blocking=True))
    assert torch.equal(images.cuda("cpu", non_blocking=True), images.to("cpu"))


def test_decode_cuda_is_refused_where_python_needs_pixels(mixed: Dataset) -> None:
    """Before there is a loader; the remedies are typed."""
    split = mixed["train"]
    options: dict[str, Any] = {"batch_size": 8}
    with pytest.raises(UsageError, match="decode: got 'gpu', expected 'cpu' or 'cuda' or 'like_cuda'"):
        torch_loader(split, image_size=32, decode="gpu", **options)  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match='got "cuda", but PyTorch finds no CUDA GPU here') as caught:
            torch_loader(split, image_size=32, decode="cuda", **options)
        assert 'decode="like_cuda"' in str(caught.value)
        torch_loader(split, image_size=32, decode="like_cuda", **options)
    options["decode"] = "like_cuda"
    with pytest.raises(UsageError, match="got 'like_cuda' and a transform of yours"):
        torch_loader(split, transform=lambda record, seed: record, **options)
    with pytest.raises(UsageError, match="got 'like_cuda' and a transform of yours"):
        torch_loader(split, image_transform=lambda image: image, **options)
    with pytest.raises(UsageError, match="got 'like_cuda' and a collate_fn"):
        torch_loader(split, image_size=32, collate_fn=list, **options)
    with pytest.raises(UsageError, match="got 'like_cuda' and antialias=False"):
        torch_loader(split, image_transform=random_resized_crop(32, antialias=False), **options)


@pytest.mark.skipif(importlib.util.find_spec("torchcodec") is not None, reason="TorchCodec is here")
def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(MissingExtraError, match=r"TorchCodec cannot be imported.*pip install 'shardfeed\[gpu\]'"):
        check_decode("cuda")


@pytest.mark.parametrize(("found", "fits"), [("0.16.1", False), ("0.17.0+cu130", True), ("1.0", True)])
def test_a_torchcodec_that_overwrites_what_is_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str, fits: bool
) -> None:
    """Packages in name only: what is installed is asked for its version."""
    for name in ("torchcodec", "triton"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(sys.modules, "torchcodec.decoders", raising=False)
    (tmp_path / "torchcodec" / "decoders.py").touch()
    (tmp_path / "torchcodec-0.dist-info").mkdir()
    (tmp_path / "torchcodec-0.dist-info" / "METADATA").write_text(f"Name: torchcodec\nVersion: {found}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if fits:
        check_decode("cuda")
    else:
        with pytest.raises(UsageError, match=r"got TorchCodec 0\.16\.1, expected 0\.17 or newer"):
            check_decode("cuda")
    for name in ("torchcodec.decoders", "torchcodec", "triton"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("workers", WAYS, ids=str)
def test_what_augments_the_images(mixed: Dataset, workers: Any) -> None:
    """The edits of the same draws, after the crop, before images are normalised."""
    augment = [color_jitter(0.4, 0.4, 0.4, 0.1), gaussian_blur(9, p=0.5), grayscale(0.3)]
    crop = replace(CROP, crop=CROP.crop.augmented(augment))
    options: dict[str, Any] = {"batch_size": 8, "image_transform": crop, "seed": 5, "workers": workers}
    expected = list(torch_loader(mixed["train"], decode="like_cuda", **options))
    encoded = torch_loader(mixed["train"], decode="cuda", **options)
    for (images, _), (seen, _) in zip(expected, to_device(encoded, "cpu"), strict=True):
        apart = (images.int() - seen.int()).abs()
        assert apart.max() <= 4  # a level of the crop, times what the contrast makes of it
        assert apart.float().mean() < 0.3
