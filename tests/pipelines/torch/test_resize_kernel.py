"""The kernel that resizes views: by Triton's interpreter (`make kernel`), or on a GPU if there is one."""

import os
from typing import Any

import numpy as np
import pytest
import torch

from shardfeed.pipelines.torch.encoded import resize_views

from resize_cases import DTYPES, Views, assert_near, interpolated, made, some_views

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("TRITON_INTERPRET=1 is not set, and no GPU is visible", allow_module_level=True)
pytest.importorskip("triton", reason="Triton takes 1 GB; `make kernel` runs this file where it is installed")

from shardfeed.pipelines.torch.resize_kernel import resize_with_kernel  # noqa: E402  # it needs Triton

DEVICE = "cpu" if INTERPRETED else "cuda"


def by_kernel(images: Any, places: Any, out: Any, *, fill: int, scale: Any, shift: Any) -> None:
    """Call the kernel as `resize_views` does on a GPU."""
    resize_with_kernel(images, places, out, fill, scale, shift)


def check(views: Views, dtype: torch.dtype, scale: float | None) -> None:
    found = made(by_kernel, views, dtype, DEVICE, scale)
    assert_near(found, made(resize_views, views, torch.float32), scale)
    if scale is None and dtype == torch.uint8:
        assert (found.int() - interpolated(views, torch.uint8).int()).abs().max() <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_some_windows(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    for scale in (None, 0.017, 1.3):
        check(some_views(rng, 3), dtype, scale)


def test_one_scale_for_all_channels() -> None:
    """As without a mean: values that `expand` repeats have a stride of 0."""
    images, places, target, fill = some_views(np.random.default_rng(6), 3)
    scale, shift = (torch.tensor([value, 5, 7], device=DEVICE)[:1].expand(3) for value in (0.5, -2.0))
    out = [torch.empty(3, *target, 3, device=device).permute(0, 3, 1, 2) for device in (DEVICE, "cpu")]
    by_kernel([image.to(DEVICE) for image in images], places, out[0], fill=fill, scale=scale, shift=shift)
    resize_views(images, places, out[1], fill, scale.cpu(), shift.cpu())
    assert (out[0].cpu() - out[1]).abs().max() < 0.01


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("part", range(5))
def test_ten_thousand_windows(part: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng((4, part, DTYPES.index(dtype)))
    for turn in range(50):
        check(some_views(rng, 10), dtype, (None, None, 0.017, 1.3)[turn % 4])


@pytest.mark.long
@pytest.mark.parametrize(
    ("window", "target"),
    [
        ((1, 1), (1024, 3)),
        ((1, 1), (1, 1)),
        ((700, 3), (2, 90)),
        ((2, 999), (70, 1)),
        ((60, 60), (1, 1)),
        ((375, 500), (224, 224)),
        ((1023, 1025), (1024, 33)),
    ],
    ids=str,
)
def test_extremes(window: tuple[int, int], target: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    image = torch.from_numpy(rng.integers(0, 256, (3, *window), np.uint8))
    place = torch.tensor([[*window, 0, 0, *window, 0, 0, *target, 1]], dtype=torch.int32)
    check(Views([image], place, target, 0), torch.float32, None)
