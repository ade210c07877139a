"""Edits by PyTorch's operations give the pixels of the reference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from edit_cases import KINDS, by_numpy, some_edits
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import color_jitter, gaussian_blur, grayscale, vertical_flip
from shardfeed.pipelines.augment.edits import Edit, Edits
from shardfeed.readers import Dataset

torch = pytest.importorskip("torch")
from shardfeed.pipelines.torch import random_resized_crop  # noqa: E402  # behind the check that there is PyTorch
from shardfeed.pipelines.torch.edits import edit_batch  # noqa: E402  # likewise


def edits_agree(kinds: np.ndarray, seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256 // rng.integers(1, 9), (len(kinds), height, width, 3), dtype=np.uint8)
    edits = some_edits(kinds, rng, height, width)
    made = edit_batch(torch.from_numpy(images.copy()).permute(0, 3, 1, 2), edits).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(made.numpy(), by_numpy(images, edits))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=40)
@drawn(seed=st.integers(0, 2**32 - 1), height=st.integers(1, 40), width=st.integers(1, 40))
def test_each_kind(kind: Edit, seed: int, height: int, width: int) -> None:
    width = height if kind == Edit.TURN and seed % 2 else width
    edits_agree(np.array([[kind], [Edit.NONE], [kind]]), seed, height, width)


@settings(max_examples=25)
@drawn(st.integers(0, 2**32 - 1))
def test_several_in_turn(seed: int) -> None:
    edits_agree(np.random.default_rng(seed).choice([*Edit], (4, 5)), seed, 24, 24)


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e9, 1e15])
def test_colours_far_beyond_all_pixels(factor: float) -> None:
    """As factors of several augmentations may multiply to: sums of 32 bits do not turn around."""
    rng = np.random.default_rng(7)
    images = rng.integers(0, 256, (6, 9, 11, 3), dtype=np.uint8)
    edits = some_edits(np.full((6, 1), Edit.MATRIX), rng, 9, 11)
    edits = Edits(edits.kinds, edits.numbers * factor)
    made = edit_batch(torch.from_numpy(images.copy()).permute(0, 3, 1, 2), edits).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(made.numpy(), by_numpy(images, edits))


AUGMENT = [color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8), gaussian_blur(9), grayscale(0.2)]


def given(**more: Any) -> dict[str, Any]:
    return {"batch_size": 12, "seed": 5, **more}


@pytest.mark.promise(78)
def test_on_the_device_as_on_the_host(flowers: Dataset) -> None:
    """The list of the loader and that of to_device draw as one list would."""
    from shardfeed.pipelines.torch import to_device, torch_loader

    def loader(augment: list[Any]) -> Any:
        crop = random_resized_crop(32)
        crop = replace(crop, crop=crop.crop.augmented(augment))
        return torch_loader(flowers["train"], image_transform=crop, **given())

    whole = [images for images, _ in loader(AUGMENT)]
    parted = [images for images, _ in to_device(loader(AUGMENT[:2]), "cpu", augment=AUGMENT[2:])]
    alone = [images for images, _ in to_device(loader([]), "cpu", augment=AUGMENT)]
    plain = [images for images, _ in loader([])]
    for a, b, c, d in zip(whole, alone, parted, plain, strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0)
        torch.testing.assert_close(a, c, atol=0, rtol=0)
        assert (a != d).any()


def test_normalised_after_the_edits(flowers: Dataset) -> None:
    from shardfeed.pipelines.torch import to_device, torch_loader

    loaders = [torch_loader(flowers["train"], image_size=32, **given()) for _ in range(2)]
    edited_only = to_device(loaders[0], "cpu", augment=AUGMENT)
    both = to_device(loaders[1], "cpu", augment=AUGMENT, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    mean = torch.tensor([0.5, 0.4, 0.3]).reshape(3, 1, 1)
    for (images, _), (floats, _) in zip(edited_only, both, strict=True):
        torch.testing.assert_close(floats, (images / 255 - mean) / 0.2, atol=1e-4, rtol=1e-4)


def test_what_to_device_refuses(flowers: Dataset) -> None:
    from shardfeed.pipelines.torch import to_device, torch_loader

    def with_boxes(record: Any, seed: int) -> Any:
        return random_resized_crop(32)(record, seed), {"boxes": torch.zeros(1, 4)}

    boxes = torch_loader(flowers["train"], transform=with_boxes, batch_size=4, workers=0)
    with pytest.raises(UsageError, match="boxes or masks of the batch would not follow"):
        to_device(boxes, "cpu", augment=[vertical_flip()])
    with pytest.raises(UsageError, match="expected uint8"):
        next(iter(to_device([torch.zeros(2, 1, 4, 4, dtype=torch.uint8)], "cpu", augment=AUGMENT)))
    with pytest.raises(UsageError, match="augment"):
        to_device(boxes, "cpu", augment=["blur"])  # type: ignore[list-item]  # that is the test
