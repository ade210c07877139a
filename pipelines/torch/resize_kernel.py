"""The views of a batch by one kernel, in Triton: import this module only where a CUDA device is.

Each program makes a tile of one image's view, in both directions at once: crops shrink by little, so few source pixels
are read more than a few times. The code is compiled for each dtype of the output, with and without a scale, and for no
size of images, targets or batches. With TRITON_INTERPRET=1 it runs on the CPU.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton  # type: ignore[import-not-found]  # it comes with PyTorch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

_ROWS, _COLUMNS = 16, 32  # of a tile: four pixels for each of 128 threads, whose reads wait together


def resize_with_kernel(
    images: Sequence[Tensor], places: Tensor, out: Tensor, fill: int, scale: Tensor | None, shift: Tensor | None
) -> None:
    """As `resize_views`, which checks the arguments, for at least one image."""
    count, _, height, width = out.shape
    # Where each image is, its strides, and its place. PyTorch keeps pinned memory until the copies from it are done.
    table = torch.empty((count, 13), dtype=torch.int64, pin_memory=out.is_cuda)
    table.numpy()[:, :4] = [(image.data_ptr(), *image.stride()) for image in images]
    table[:, 4:] = places[:, 2:]
    tiles = triton.cdiv(height, _ROWS) * triton.cdiv(width, _COLUMNS)
    with torch.cuda.device_of(out):
        table = table.to(out.device, non_blocking=True)
        launch: Any = _resize  # type checkers do not see what `jit` makes of it
        sizes = (height, width, _ROWS, _COLUMNS)
        # One value for all channels may have a stride of 0.
        scale, shift = scale if scale is None else scale.contiguous(), shift if shift is None else shift.contiguous()
        launch[(count * tiles,)](table, out, scale, shift, float(fill), *sizes, enable_fp_fusion=True)


@triton.jit(do_not_specialize=["height", "width"])
def _resize(table, out, scale, shift, fill, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Fill one tile of one image in `out`, [k, height, width, 3]; `table`: int64 [k, 13], see `resize_with_kernel`."""
    # The programs of one image run at the same time, so that the cache has its pixels.
    across = tl.cdiv(width, COLUMNS)
    tiles = tl.cdiv(height, ROWS) * across
    number, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    to_y = tile // across * ROWS + tl.arange(0, ROWS)[:, None]
    to_x = tile % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]

    row = table + number * 13
    channel, line, column = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    image = tl.load(row).to(tl.pointer_type(tl.uint8)) + tl.load(row + 4) * line + tl.load(row + 5) * column
    tall, wide = tl.load(row + 6), tl.load(row + 7)
    content_tall, content_wide = tl.load(row + 10), tl.load(row + 11)
    at_y, at_x = to_y - tl.load(row + 8), to_x - tl.load(row + 9)
    inside = (at_y >= 0) & (at_y < content_tall) & (at_x >= 0) & (at_x < content_wide)
    at_x = tl.where(tl.load(row + 12) != 0, content_wide - 1 - at_x, at_x)
    first_y, distance_y, slope_y, taps_y = _filter(at_y, content_tall, tall)
    first_x, distance_x, slope_x, taps_x = _filter(at_x, content_wide, wide)

    red = tl.zeros((ROWS, COLUMNS), tl.float32)
    green, blue, total = red, red, red
    for i in range(taps_y):
        # Sums of each line, and then of the lines: millions of pixels in one sum would not be exact.
        red_line = tl.zeros((ROWS, COLUMNS), tl.float32)
        green_line, blue_line = red_line, red_line
        total_line = tl.zeros((1, COLUMNS), tl.float32)
        y = first_y + i
        start = image + tl.minimum(y, tall - 1) * line
        for j in range(taps_x):
            x = first_x + j
            pixel = start + tl.minimum(x, wide - 1) * column
            weight = tl.where(x < wide, tl.maximum(1 - tl.abs(distance_x + j) * slope_x, 0.0), 0.0)
            red_line += weight * tl.load(pixel)
            green_line += weight * tl.load(pixel + channel)
            blue_line += weight * tl.load(pixel + 2 * channel)
            total_line += weight
        weight = tl.where(y < tall, tl.maximum(1 - tl.abs(distance_y + i) * slope_y, 0.0), 0.0)
        red += weight * red_line
        green += weight * green_line
        blue += weight * blue_line
        total += weight * total_line

    to = out + ((number * height + to_y) * width + to_x) * 3
    there = (to_y < height) & (to_x < width)
    _store(to, tl.where(inside, red / total, fill), scale, shift, 0, there)
    _store(to, tl.where(inside, green / total, fill), scale, shift, 1, there)
    _store(to, tl.where(inside, blue / total, fill), scale, shift, 2, there)


@triton.jit
def _filter(at, content, window):
    """First source pixel, its distance from the centre, slope and length of the filter of the output pixels `at`."""
    # Beyond the content, the filter is that of the nearest pixel within, so that every address is valid.
    scale = tl.div_rn(window.to(tl.float32), content.to(tl.float32))
    support = tl.maximum(scale, 1.0)
    centre = scale * (tl.minimum(tl.maximum(at, 0), content - 1).to(tl.float32) + 0.5)
    first = tl.maximum(centre - support + 0.5, 0.0).to(tl.int64)
    return first, first - centre + 0.5, 1 / support, tl.minimum(tl.ceil(2 * support).to(tl.int32), window.to(tl.int32))


@triton.jit
def _store(to, value, scale, shift, channel: tl.constexpr, there):
    """Store a channel of some pixels in the dtype of the output."""
    if scale is not None:
        value = value * tl.load(scale + channel) + tl.load(shift + channel)
    if to.dtype.element_ty == tl.uint8:
        value = tl.minimum(tl.maximum(value + 0.5, 0.0), 255.0)
    tl.store(to + channel, value.to(to.dtype.element_ty), there)
