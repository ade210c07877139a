"""Random images, windows and targets for what resizes views, and what must come of them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import interpolate

LEVEL = 0.01  # how far apart two ways of computing a view in float32 may be
DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
Resize = Callable[..., None]  # as `resize_views`


class Views(NamedTuple):
    """Arguments of `resize_views`: images, places, the height and width of the target, and the fill."""

    images: list[torch.Tensor]
    places: torch.Tensor
    target: tuple[int, int]
    fill: int


def some_views(rng: np.random.Generator, count: int, longest: int = 24, shrink: float = 4) -> Views:
    """Return `count` views in a target of at most `longest` pixels a side, shrunk at most `shrink` times."""
    target = rng.integers(1, longest, 2, endpoint=True)
    images, places = [], []
    for _ in range(count):
        content = target if rng.random() < 0.5 else rng.integers(1, target, endpoint=True)
        corner = rng.integers(0, target - content, endpoint=True)
        # From eight times as large to `shrink` times as small, and just as often of the same size in one direction.
        ratio = np.where(rng.random(2) < 0.1, 1, np.exp(rng.uniform(np.log(1 / 8), np.log(shrink), 2)))
        window = np.maximum(1, np.round(content * ratio).astype(int))
        before, after = rng.integers(0, 9, 2), rng.integers(0, 9, 2)
        height, width = size = before + window + after
        # Noise from 0 to 255 is the hardest: neighbours have nothing in common.
        pixels = torch.from_numpy(rng.integers(0, 256, (height + 3, width + 5, 3), np.uint8))[2:-1, 1:-4]
        planar = pixels.permute(2, 0, 1)
        images.append(planar if rng.random() < 0.5 else planar.contiguous())
        places.append([*size, *before, *window, *corner, *content, rng.integers(0, 2)])
    return Views(
        images, torch.tensor(np.array(places), dtype=torch.int32), tuple(target.tolist()), int(rng.integers(256))
    )


def made(
    resize: Resize, views: Views, dtype: torch.dtype, device: str = "cpu", scale: float | None = None
) -> torch.Tensor:
    """Return [k, 3, height, width] by `resize`; `scale`: of the first channel, the others have multiples of it."""
    whole = torch.full((len(views.images) + 2, *views.target, 3), 77, dtype=dtype, device=device).permute(0, 3, 1, 2)
    factors = None if scale is None else torch.tensor([scale, 2 * scale, 3 * scale], device=device)
    images = [image.to(device) for image in views.images]
    shift = None if factors is None else factors - 1
    resize(images, views.places, whole[1:-1], fill=views.fill, scale=factors, shift=shift)
    assert (whole[0] == 77).all()
    assert (whole[-1] == 77).all(), "it wrote beyond its part of the batch"
    return whole[1:-1].cpu()


def interpolated(views: Views, dtype: torch.dtype) -> torch.Tensor:
    """Return the same, [k, 3, height, width] of `dtype`, by `interpolate` alone."""
    made = torch.full((len(views.images), 3, *views.target), views.fill, dtype=dtype)
    for image, place, view in zip(views.images, views.places.tolist(), made, strict=True):
        _, _, top, left, tall, wide, to_top, to_left, to_tall, to_wide, mirrored = place
        window = image[None, :, top : top + tall, left : left + wide].to(dtype)
        if to_wide > 1:
            content = interpolate(window, (to_tall, to_wide), mode="bilinear", antialias=True)[0]
        else:  # PyTorch 2.13 fills a column with its first row, or raises, and resizes a row rightly
            turned = interpolate(window.mT.double(), (1, to_tall), mode="bilinear", antialias=True)[0].mT
            content = turned if dtype.is_floating_point else turned.round()
        view[:, to_top : to_top + to_tall, to_left : to_left + to_wide] = content.flip(2) if mirrored else content
    return made


def assert_near(found: torch.Tensor, exact: torch.Tensor, scale: float | None = None) -> None:
    """Check pixels of any dtype against those in floating point, which `scale` has not changed yet."""
    factors = torch.tensor([1.0, 2, 3])[:, None, None].double() * (scale or 1)
    exact = exact.double() if scale is None else exact.double() * factors + factors - 1
    least = LEVEL * (1 if scale is None else factors)
    if found.dtype == torch.uint8:
        apart, least = (found.double() - exact.clamp(0, 255)).abs(), least + 0.5
    else:
        # A GPU rounds to the nearest; to bfloat16, Triton's interpreter rounds down.
        unit = torch.finfo(found.dtype).eps / (1 if found.dtype == torch.bfloat16 else 2)
        apart, least = (found.double() - exact).abs(), least + exact.abs() * unit
    assert (apart <= least).all(), f"{(apart - least).max()} beyond what rounding explains"
