"""Edits of images on any device, by PyTorch's operations: the same pixels as `augment.values` gives.

All images with the same kind of edit at the same place of their lists are edited at once; what was drawn for each of
them is copied to the device as a few numbers. Nothing waits for the device.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from shardfeed.pipelines.augment.edits import TABLES, Edit, Edits, parts_of
from shardfeed.pipelines.augment.values import blur, matrix, sharpness, warp

_LEVELS = 256
_MOST_OFFSET = 2.0**29  # more than all pixels times their weights, so that sums fit into int32


def edit_with_operations(images: Tensor, edits: Edits) -> Tensor:
    """As `edit_batch`, on any device."""
    for slot in range(edits.kinds.shape[1]):
        kinds = edits.kinds[:, slot]
        for kind in sorted({*kinds.tolist()} - {Edit.NONE}):
            rows = np.flatnonzero(kinds == kind)
            edit = _table if kind in TABLES else _EDITS[Edit(kind)]
            numbers = edits.numbers[rows, slot]
            if len(rows) == len(images):
                images = edit(images, Edit(kind), numbers)
            else:
                at = moved(rows, images)
                images = images.index_copy(0, at, edit(images.index_select(0, at), Edit(kind), numbers))
    return images


def moved(array: np.ndarray, images: Tensor) -> Tensor:
    """A small array on the device of the images."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if images.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(images.device, non_blocking=True)


def _matrix(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    whole, bits, offsets = matrix_numbers(images, numbers)
    weights, shifts = moved(whole, images)[..., None, None], moved(bits, images)[:, None]
    wide = images.int()
    total = offsets[..., None, None].expand(-1, -1, *images.shape[2:]).clone()
    for channel in range(3):
        total += weights[:, :, channel] * wide[:, channel : channel + 1]
    return (total >> shifts[..., None, None]).clamp_(0, 255).to(torch.uint8)


def matrix_numbers(images: Tensor, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Matrices in whole numbers, int32 [k, 3, 3], their bits of fraction, int32 [k], and what is added, int32 [k, 3].

    The last is on the device, as it depends on the images' mean colours.
    """
    matrices, of_mean, added = parts_of(numbers)
    quantised = [matrix.quantised(each) for each in matrices]
    weights = np.stack([whole for whole, _ in quantised]).astype(np.int32)
    bits = np.array([shift for _, shift in quantised], np.int32)
    shifts = moved(bits, images)[:, None]
    mean = images.sum((2, 3), dtype=torch.int64).double() / (images.shape[2] * images.shape[3])
    offsets, parts = moved(added, images), moved(of_mean, images)
    for channel in range(3):  # in this order, as the reference adds them
        offsets = offsets + parts[:, :, channel] * mean[:, channel, None]
    offsets = torch.round(offsets * 2.0**shifts).clamp(-_MOST_OFFSET, _MOST_OFFSET)
    return weights, bits, offsets.int() + ((1 << shifts) >> 1)


def _table(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    """Each value becomes another, by a table for each channel of each image."""
    count, channels = images.shape[:2]
    tables = value_tables(images, kind, numbers)
    return tables.gather(2, images.reshape(count, channels, -1).long()).reshape(images.shape)


def value_tables(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    """The tables of images: uint8 [k, channels, 256]."""
    count, channels = images.shape[:2]
    values = torch.arange(_LEVELS, device=images.device)
    first = moved(numbers[:, 0], images)[:, None, None]
    if kind == Edit.POSTERIZE:
        tables = values & (0xFF << (8 - first.long()))
    elif kind == Edit.SOLARIZE:
        tables = torch.where(values >= first, 255 - values, values)
    else:
        tables = (_equalized if kind == Edit.EQUALIZE else _stretched)(_counts(images), values)
    return tables.clamp(0, 255).to(torch.uint8).expand(count, channels, _LEVELS)


def _counts(images: Tensor) -> Tensor:
    """How often each value is in each channel: int64 [k, channels, 256]."""
    count, channels = images.shape[:2]
    flat = images.reshape(count * channels, -1).long()
    flat = flat + _LEVELS * torch.arange(count * channels, device=images.device)[:, None]
    return torch.bincount(flat.ravel(), minlength=count * channels * _LEVELS).reshape(count, channels, _LEVELS)


def _equalized(counts: Tensor, values: Tensor) -> Tensor:
    """As `tables`, for many channels."""
    high = torch.where(counts > 0, values, 0).amax(2, keepdim=True)
    steps = (counts.sum(2, keepdim=True) - counts.gather(2, high)) // 255
    before = counts.cumsum(2) - counts
    return torch.where(steps > 0, (steps // 2 + before) // steps.clamp(min=1), values)


def _stretched(counts: Tensor, values: Tensor) -> Tensor:
    """As `tables`, for many channels."""
    low = torch.where(counts > 0, values, _LEVELS).amin(2, keepdim=True)
    span = torch.where(counts > 0, values, 0).amax(2, keepdim=True) - low
    made = torch.div(2 * 255 * (values - low) + span, 2 * span.clamp(min=1), rounding_mode="floor")
    return torch.where(span > 0, made, values)


def _blur(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    taps = moved(blur_taps(numbers), images)
    across = _blurred(images.int(), taps, 3, blur.BITS - blur.KEPT)
    return _blurred(across, taps, 2, blur.BITS + blur.KEPT).to(torch.uint8)


def blur_taps(numbers: np.ndarray) -> np.ndarray:
    """The weights of blurs, int32 [k, t], with zeros around those of the narrower ones."""
    kernels = [blur.kernel(sigma, int(most)) for sigma, most in numbers[:, :2]]
    radius = max(len(each) // 2 for each in kernels)
    weights = np.zeros((len(kernels), 2 * radius + 1), np.int32)
    for row, each in zip(weights, kernels, strict=True):
        spare = radius - len(each) // 2
        row[spare : spare + len(each)] = each
    return weights


def _blurred(values: Tensor, taps: Tensor, axis: int, shift: int) -> Tensor:
    """Sums of neighbours along an axis, weighted by the taps of each image, [k, taps]."""
    size, count = values.shape[axis], taps.shape[1]
    places = moved(blur.mirrored_places(size, count // 2), values)
    total = torch.full_like(values, 1 << (shift - 1))
    for tap in range(count):
        total += taps[:, tap, None, None, None] * values.index_select(axis, places[tap : tap + size])
    return total >> shift


def _sharpness(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    if min(images.shape[2:]) < 3:
        return images
    wide = images.int()
    inner = wide[:, :, 1:-1, 1:-1]
    rows = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]
    sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner
    smooth = torch.div(2 * sums + 13, 26, rounding_mode="floor")
    factors = moved(np.rint(numbers[:, 0] * (1 << sharpness.BITS)).astype(np.int32), images)[:, None, None, None]
    blended = smooth + ((factors * (inner - smooth) + (1 << (sharpness.BITS - 1))) >> sharpness.BITS)
    made = images.clone()
    made[:, :, 1:-1, 1:-1] = blended.clamp_(0, 255).to(torch.uint8)
    return made


def _warp(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    homography = moved(numbers[:, :9].reshape(-1, 3, 3), images)
    columns, rows = _places(homography, *images.shape[2:])
    fill = moved(numbers[:, 10:13], images).long()[:, :, None, None]
    nearest = _taken(images, torch.floor(rows + 0.5), torch.floor(columns + 0.5), fill)
    smooth = numbers[:, 9] != 0
    if not smooth.any():
        return nearest.to(torch.uint8)
    bilinear = _interpolated(images, rows, columns, fill)
    return torch.where(moved(smooth, images)[:, None, None, None], bilinear, nearest).to(torch.uint8)


def _places(homography: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The column and the row in the old image of each pixel of the new one: float64 [k, height, width] each."""
    column = torch.arange(width, dtype=torch.float64, device=homography.device)
    row = torch.arange(height, dtype=torch.float64, device=homography.device)[:, None]
    a, b, c = (homography[:, :, at, None, None] for at in range(3))
    x, y, scale = (a * column + (b * row + c)).unbind(1)
    far = torch.full_like(x, -float(warp.FAR))
    found = (torch.where((at / scale).abs() < warp.FAR, at / scale, far) for at in (x, y))
    return tuple(found)  # type: ignore[return-value]  # of two


def _interpolated(images: Tensor, rows: Tensor, columns: Tensor, fill: Tensor) -> Tensor:
    whole = 1 << warp.BITS
    top, left = torch.floor(rows), torch.floor(columns)
    down, right = (torch.round((at - low) * whole).long() for at, low in ((rows, top), (columns, left)))
    total = torch.full(images.shape, 1 << (2 * warp.BITS - 1), dtype=torch.int64, device=images.device)
    for row, tall in ((top, whole - down), (top + 1, down)):
        for column, wide in ((left, whole - right), (left + 1, right)):
            total += (tall * wide)[:, None] * _taken(images, row, column, fill)
    return total >> (2 * warp.BITS)


def _taken(images: Tensor, rows: Tensor, columns: Tensor, fill: Tensor) -> Tensor:
    """The pixels at whole places of each image, int64 [k, channels, height, width]."""
    count, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = torch.where(inside, rows * width + columns, 0).long().reshape(count, 1, -1).expand(-1, channels, -1)
    pixels = images.reshape(count, channels, -1).gather(2, at).reshape(images.shape).long()
    return torch.where(inside[:, None], pixels, fill)


def _turn(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    made = images.clone()
    for quarters, upside_down in sorted({(int(a), bool(b)) for a, b in numbers[:, :2]}):
        rows = moved(np.flatnonzero((numbers[:, 0] == quarters) & (numbers[:, 1] == upside_down)), images)
        turned = torch.rot90(images.index_select(0, rows), quarters, (2, 3))
        made.index_copy_(0, rows, turned.flip(2) if upside_down else turned)
    return made


def _erase(images: Tensor, kind: Edit, numbers: np.ndarray) -> Tensor:
    del kind
    top, left, height, width = (moved(column, images)[:, None, None] for column in numbers[:, :4].T)
    row = torch.arange(images.shape[2], device=images.device)[:, None]
    column = torch.arange(images.shape[3], device=images.device)
    inside = (row >= top) & (row < top + height) & (column >= left) & (column < left + width)
    colour = moved(numbers[:, 4:7].astype(np.uint8), images)[:, :, None, None]
    return torch.where(inside[:, None], colour, images)


_EDITS: dict[Edit, Callable[[Tensor, Edit, np.ndarray], Tensor]] = {
    Edit.MATRIX: _matrix,
    Edit.BLUR: _blur,
    Edit.SHARPNESS: _sharpness,
    Edit.WARP: _warp,
    Edit.TURN: _turn,
    Edit.ERASE: _erase,
}
