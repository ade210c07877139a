"""Transforms of torchvision and albumentations as they are: their inputs, results and draws.

Most tests need the real library, and are skipped without it: it must match the installed PyTorch. test_torch_others.py
has stand-ins for both.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import shardfeed
from shardfeed.converters import convert, open_source
from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import torch_eval_loader, torch_loader
from shardfeed.pipelines.torch import torch_predict_loader as predict
from shardfeed.readers import Dataset


def torchvision() -> Any:
    return pytest.importorskip("torchvision", reason="torchvision is not installed; CI does without it")


def albumentations() -> Any:
    return pytest.importorskip("albumentations", reason="albumentations is not installed; CI does without it")


def v2() -> Any:
    torchvision()
    from torchvision.transforms import v2  # type: ignore[import-not-found]

    return v2


def v1() -> Any:
    return torchvision().transforms


def photo(seed: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(small).resize((40, 30 + seed), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 photos of two classes, one of them gray."""
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(12):
        path = folder / "photos" / ("cat", "dog")[seed % 2] / f"{seed}.{('png', 'jpg')[seed % 3 == 0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(seed).convert("L" if seed == 5 else "RGB").save(path)
    return folder / "photos"


@pytest.fixture(scope="module")
def photos(folder: Path) -> Dataset:
    convert(open_source(folder), folder.parent / "out", split={"train": 1.0})
    return shardfeed.open(folder.parent / "out")


@pytest.mark.parametrize(
    "make",
    [
        lambda: v2().Compose([v2().Resize((16, 16)), v2().ToTensor()]),
        lambda: v2().Compose([v2().Resize((16, 16)), v1().ToTensor()]),
        lambda: v2().Compose([v2().CenterCrop(24), v2().PILToTensor()]),
        lambda: v2().Compose([v2().Lambda(lambda image: image.convert("L")), v2().Resize((9, 8)), v2().ToImage()]),
        lambda: v2().Compose([v2().ToImage(), v2().Resize((16, 16)), v2().ToDtype(torch.float32, scale=True)]),
        lambda: v2().Compose(
            [v2().Resize((16, 16)), v2().ToImage(), v2().ToDtype(torch.float32, scale=True), v2().Normalize([0.5], [2])]
        ),
        lambda: v2().Compose([v2().Resize((16, 16)), v2().ToTensor(), v2().Normalize([0.5] * 3, [2] * 3)]),
        lambda: v1().Compose([v1().Resize((16, 16)), v1().Grayscale(), v1().ToTensor()]),
        lambda: v1().Compose([v1().CenterCrop(24), v2().PILToTensor(), v2().ToDtype(torch.float64, scale=True)]),
    ],
)
@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_as_under_torchvisions_image_folder(folder: Path, photos: Dataset, make: Callable[[], Any]) -> None:
    """The same tensors, bit for bit."""
    transform = make()
    theirs = torchvision().datasets.ImageFolder(folder, transform)
    wanted = {str(Path(path).relative_to(folder)): theirs[i][0] for i, (path, _) in enumerate(theirs.samples)}
    found = {}
    for images, names in predict(photos["train"], batch_size=5, image_transform=transform, workers=0):
        found |= dict(zip([name.decode() for name in names], images, strict=True))
    assert found.keys() == wanted.keys()
    for name, image in wanted.items():
        assert type(found[name]) is torch.Tensor
        assert found[name].dtype == image.dtype
        assert torch.equal(found[name], image), name


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pillow_image_is_no_result_of_torchvision(photos: Dataset, workers: int) -> None:
    """`ToDtype` does nothing to it, in silence. The advice: ToImage before."""
    steps: list[Any] = [v2().Resize((16, 16)), v2().ToDtype(torch.float32, scale=True)]

    def first(steps: list[Any]) -> torch.Tensor:
        options: dict[str, Any] = {"image_transform": v2().Compose(steps), "workers": workers}
        return next(iter(torch_eval_loader(photos["train"], batch_size=12, **options)))[0]

    with pytest.raises(UsageError, match=r"it returned a Pillow image, .*; put v2.ToImage\(\) into it, before v2.ToD"):
        first(steps)
    images = first([v2().ToImage(), *steps])
    assert images.dtype == torch.float32
    assert 0.5 < images.max() <= 1


def of_torchvision() -> Any:
    steps = [v2().RandomResizedCrop(16), v2().RandomHorizontalFlip(), v2().ColorJitter(0.3, 0.3), v2().RandAugment()]
    return v2().Compose([*steps, v2().ToImage(), v2().RandomErasing()])


def of_albumentations() -> Any:
    a = albumentations()
    return a.Compose([a.RandomResizedCrop((16, 16)), a.HorizontalFlip(), a.OneOf([a.ColorJitter(), a.GaussNoise()])])


@pytest.mark.parametrize("make", [of_torchvision, of_albumentations])
def test_the_same_draws_with_any_workers_and_after_a_resume(photos: Dataset, make: Callable[[], Any]) -> None:
    def loader(workers: int) -> Any:
        return torch_loader(photos["train"], batch_size=3, image_transform=make(), seed=3, workers=workers)

    first = loader(0)
    epochs = [[images for images, _ in first] for _ in range(2)]
    pictures = {image.numpy().tobytes() for batches in epochs for images in batches for image in images}
    assert len(pictures) == 24
    for workers in (0, 1, 2):
        again, resumed = loader(workers), loader(workers)
        resumed.load_state_dict(again.state_dict(step=4 + 1))
        for run, wanted in ((again, epochs[0]), (resumed, epochs[1][1:])):
            found = [images for images, _ in run]
            assert len(found) == len(wanted)
            assert all(map(torch.equal, found, wanted))


def test_steps_of_albumentations_draw_apart(photos: Dataset) -> None:
    """Two flips happen together for some images, and one without the other for others."""
    a = albumentations()
    flips = a.Compose([a.Resize(8, 8), a.HorizontalFlip(), a.VerticalFlip()])
    straight = a.Compose([a.Resize(8, 8)])
    found = set()
    options: dict[str, Any] = {"batch_size": 12, "seed": 3, "workers": 0}
    both = [torch_loader(photos["train"], image_transform=one, **options) for one in (flips, straight)]
    for _ in range(4):
        for image, other in zip(*(next(iter(loader))[0] for loader in both), strict=True):
            found |= {axes for axes in ((), (1,), (2,), (1, 2)) if torch.equal(image, other.flip(axes))}
    assert found == {(), (1,), (2,), (1, 2)}
