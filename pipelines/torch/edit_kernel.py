"""Edits of a batch by Triton: import this module only where a CUDA device is.

For each place in the lists of edits there is one launch, in which each program edits a tile of one image by the edit
of that image; a blur has a launch for rows before. The pixels are those of `edit_operations.py`, and of NumPy. With
TRITON_INTERPRET=1 it runs on the CPU.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton  # type: ignore[import-not-found]  # it comes with PyTorch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from shardfeed.pipelines.augment.edits import TABLES, Edit, Edits
from shardfeed.pipelines.augment.values import blur, sharpness, warp
from shardfeed.pipelines.torch.edit_operations import blur_taps, matrix_numbers, moved, value_tables

_ROWS, _COLUMNS = 16, 32  # of a tile
_WHOLE, _REAL = 16, 9  # numbers of an edit, as the kernel reads them

_MATRIX, _TABLE, _BLUR = tl.constexpr(int(Edit.MATRIX)), tl.constexpr(int(Edit.POSTERIZE)), tl.constexpr(int(Edit.BLUR))
_SHARPNESS, _WARP = tl.constexpr(int(Edit.SHARPNESS)), tl.constexpr(int(Edit.WARP))
_TURN, _ERASE = tl.constexpr(int(Edit.TURN)), tl.constexpr(int(Edit.ERASE))
_ACROSS, _HALF_ACROSS = tl.constexpr(blur.BITS - blur.KEPT), tl.constexpr(1 << (blur.BITS - blur.KEPT - 1))
_DOWN, _HALF_DOWN = tl.constexpr(blur.BITS + blur.KEPT), tl.constexpr(1 << (blur.BITS + blur.KEPT - 1))
_FACTOR, _HALF_FACTOR = tl.constexpr(sharpness.BITS), tl.constexpr(1 << (sharpness.BITS - 1))
_PLACES, _AREA = tl.constexpr(1 << warp.BITS), tl.constexpr(2 * warp.BITS)
_HALF_AREA, _FAR = tl.constexpr(1 << (2 * warp.BITS - 1)), tl.constexpr(float(warp.FAR))


class _PlaceNumbers(NamedTuple):
    """The edits of k images at one place of their lists, on the device.

    `kinds`: int32 [k], all tables as POSTERIZE. `whole`: int32 [k, 16]. `real`: float64 [k, 9], homographies.
    `offsets`: int32 [k, 3], of matrices. `tables`: uint8 [k, 3, 256]. `taps`: int32 [k, t], of blurs; `rows`: int16
    [k, height, width, 3], what they give across. The last three have no elements where no image needs them.
    """

    kinds: Tensor
    whole: Tensor
    real: Tensor
    offsets: Tensor
    tables: Tensor
    taps: Tensor
    rows: Tensor


def edit_with_kernel(images: Tensor, edits: Edits) -> Tensor:
    """As `edit_batch`, for at least one image."""
    count, _, height, width = images.shape
    tiles = triton.cdiv(height, _ROWS) * triton.cdiv(width, _COLUMNS)
    across: Any = _blur_across  # type checkers do not see what `jit` makes of it
    launch: Any = _edit
    for slot in range(edits.kinds.shape[1]):
        images = images.contiguous(memory_format=torch.channels_last)
        numbers = _numbers(images, edits.kinds[:, slot], edits.numbers[:, slot])
        made = torch.empty_like(images, memory_format=torch.channels_last)
        sizes = (height, width, numbers.taps.shape[1], _ROWS, _COLUMNS)
        with torch.cuda.device_of(images):
            if numbers.rows.numel():
                across[(count * tiles,)](images, *numbers, *sizes)
            launch[(count * tiles,)](images, made, *numbers, *sizes, enable_fp_fusion=False)
        images = made
    return images


def _numbers(images: Tensor, kinds: np.ndarray, numbers: np.ndarray) -> _PlaceNumbers:
    count = len(kinds)
    codes = np.where(np.isin(kinds, TABLES), np.int32(Edit.POSTERIZE), kinds).astype(np.int32)
    whole, real = np.zeros((count, _WHOLE), np.int32), np.ascontiguousarray(numbers[:, :_REAL])
    for kind, fill in _WHOLE_NUMBERS.items():
        rows = kinds == kind
        whole[rows, : fill.stop - fill.start] = numbers[rows, fill]
    rows = kinds == Edit.SHARPNESS
    whole[rows, 0] = np.rint(numbers[rows, 0] * (1 << sharpness.BITS))
    offsets = torch.zeros((count, 3), dtype=torch.int32, device=images.device)
    if (rows := np.flatnonzero(kinds == Edit.MATRIX)).size:
        at = moved(rows, images)
        weights, shifts, of_rows = matrix_numbers(images.index_select(0, at), numbers[rows])
        whole[rows, :9], whole[rows, 9] = weights.reshape(-1, 9), shifts
        offsets.index_copy_(0, at, of_rows)
    return _PlaceNumbers(
        moved(codes, images),
        moved(whole, images),
        moved(real, images),
        offsets,
        _tables(images, kinds, numbers),
        *_blurs(images, kinds, numbers),
    )


# Which numbers of an edit the kernel reads as whole ones.
_WHOLE_NUMBERS = {Edit.WARP: slice(9, 13), Edit.TURN: slice(0, 2), Edit.ERASE: slice(0, 7)}


def _tables(images: Tensor, kinds: np.ndarray, numbers: np.ndarray) -> Tensor:
    """The tables of the images that have one: uint8 [k, 3, 256]."""
    if not np.isin(kinds, TABLES).any():
        return torch.empty(0, dtype=torch.uint8, device=images.device)
    tables = torch.empty((len(kinds), 3, 256), dtype=torch.uint8, device=images.device)
    for kind in TABLES:
        if (rows := np.flatnonzero(kinds == kind)).size:
            at = moved(rows, images)
            tables.index_copy_(0, at, value_tables(images.index_select(0, at), kind, numbers[rows]))
    return tables


def _blurs(images: Tensor, kinds: np.ndarray, numbers: np.ndarray) -> tuple[Tensor, Tensor]:
    """The weights of blurs, int32 [k, t], and room for the rows that they are blurred across."""
    rows = np.flatnonzero(kinds == Edit.BLUR)
    if not rows.size:
        nothing = torch.empty((0, 1), dtype=torch.int32, device=images.device)
        return nothing, nothing
    of_rows = blur_taps(numbers[rows])
    taps = np.zeros((len(kinds), of_rows.shape[1]), np.int32)
    taps[rows] = of_rows
    count, channels, height, width = images.shape
    room = torch.empty((count, height, width, channels), dtype=torch.int16, device=images.device)
    return moved(taps, images), room


@triton.jit(do_not_specialize=["height", "width", "count"])
def _blur_across(
    source, kinds, whole, real, offsets, tables, taps, rows, height, width, count,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill one tile of `rows` of an image that is blurred."""
    number, y, x, there = _tile(height, width, ROWS, COLUMNS)
    if tl.load(kinds + number) == _BLUR:
        image = source + number * height * width * 3
        to = rows + ((number * height + y) * width + x) * 3
        for channel in tl.static_range(3):
            total = tl.zeros((ROWS, COLUMNS), tl.int32) + _HALF_ACROSS
            for tap in range(count):
                at = _mirrored(x + tap - count // 2, width)
                value = tl.load(image + (y * width + at) * 3 + channel, there, 0).to(tl.int32)
                total += tl.load(taps + number * count + tap) * value
            tl.store(to + channel, (total >> _ACROSS).to(tl.int16), there)


@triton.jit(do_not_specialize=["height", "width", "count"])
def _edit(
    source, made, kinds, whole, real, offsets, tables, taps, rows, height, width, count,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill one tile of an image in `made`, [k, height, width, 3], by its edit."""
    number, y, x, there = _tile(height, width, ROWS, COLUMNS)
    image = source + number * height * width * 3
    here = image + (y * width + x) * 3
    to = made + ((number * height + y) * width + x) * 3
    numbers = whole + number * 16
    kind = tl.load(kinds + number)
    if kind == _MATRIX:
        _by_matrix(here, to, numbers, offsets + number * 3, there)
    elif kind == _TABLE:
        _by_table(here, to, tables + number * 768, there)
    elif kind == _BLUR:
        of_image = rows + number * height * width * 3
        _blur_down(of_image, to, taps + number * count, y, x, height, width, count, there, ROWS, COLUMNS)
    elif kind == _SHARPNESS:
        _sharpen(here, to, numbers, y, x, height, width, there)
    elif kind == _WARP:
        _warp(image, to, numbers, real + number * 9, y, x, height, width, there, ROWS, COLUMNS)
    elif kind == _TURN:
        _turn(image, to, numbers, y, x, height, width, there)
    elif kind == _ERASE:
        _erase(here, to, numbers, y, x, there)
    else:
        _copy(here, to, there)


@triton.jit
def _copy(here, to, there):
    for channel in tl.static_range(3):
        tl.store(to + channel, tl.load(here + channel, there, 0), there)


@triton.jit
def _by_matrix(here, to, numbers, offsets, there):
    red, green, blue = _pixel(here, there)
    for channel in tl.static_range(3):
        weights = numbers + 3 * channel
        total = tl.load(weights) * red + tl.load(weights + 1) * green + tl.load(weights + 2) * blue
        _store(to + channel, (total + tl.load(offsets + channel)) >> tl.load(numbers + 9), there)


@triton.jit
def _by_table(here, to, tables, there):
    for channel in tl.static_range(3):
        value = tl.load(here + channel, there, 0).to(tl.int32)
        tl.store(to + channel, tl.load(tables + channel * 256 + value), there)


@triton.jit
def _blur_down(rows, to, taps, y, x, height, width, count, there, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    for channel in tl.static_range(3):
        total = tl.zeros((ROWS, COLUMNS), tl.int32) + _HALF_DOWN
        for tap in range(count):
            at = _mirrored(y + tap - count // 2, height)
            value = tl.load(rows + (at * width + x) * 3 + channel, there, 0).to(tl.int32)
            total += tl.load(taps + tap) * value
        _store(to + channel, total >> _DOWN, there)


@triton.jit
def _sharpen(here, to, numbers, y, x, height, width, there):
    inner = there & (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
    for channel in tl.static_range(3):
        value = tl.load(here + channel, there, 0).to(tl.int32)
        total = 4 * value
        for neighbour in tl.static_range(9):
            beside = here + ((neighbour // 3 - 1) * width + neighbour % 3 - 1) * 3
            total += tl.load(beside + channel, inner, 0).to(tl.int32)
        smooth = (2 * total + 13) // 26
        blended = smooth + ((tl.load(numbers) * (value - smooth) + _HALF_FACTOR) >> _FACTOR)
        _store(to + channel, tl.where(inner, blended, value), there)


@triton.jit
def _warp(image, to, numbers, homography, y, x, height, width, there, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column, row = _source(homography, x, y)
    if tl.load(numbers) != 0:
        _interpolate(image, to, numbers + 1, column, row, height, width, there, ROWS, COLUMNS)
    else:
        top, left = tl.floor(row + 0.5).to(tl.int32), tl.floor(column + 0.5).to(tl.int32)
        for channel in tl.static_range(3):
            fill = tl.load(numbers + 1 + channel)
            _store(to + channel, _taken(image, top, left, channel, fill, height, width, there), there)


@triton.jit
def _interpolate(image, to, fills, column, row, height, width, there, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    top, left = tl.floor(row), tl.floor(column)
    down, right = _rounded((row - top) * _PLACES), _rounded((column - left) * _PLACES)
    top, left = top.to(tl.int32), left.to(tl.int32)
    for channel in tl.static_range(3):
        fill = tl.load(fills + channel)
        total = tl.zeros((ROWS, COLUMNS), tl.int32) + _HALF_AREA
        for corner in tl.static_range(4):
            tall = down if corner >= 2 else _PLACES - down
            wide = right if corner % 2 else _PLACES - right
            value = _taken(image, top + corner // 2, left + corner % 2, channel, fill, height, width, there)
            total += tall * wide * value
        _store(to + channel, total >> _AREA, there)


@triton.jit
def _turn(image, to, numbers, y, x, height, width, there):
    quarters, reversed_rows = tl.load(numbers), tl.load(numbers + 1)
    row = tl.where(reversed_rows != 0, height - 1 - y, y) + 0 * x
    column = x + 0 * y
    # `rot90` by one quarter to the left: the pixel comes from row `column`, and column `width - 1 - row`.
    from_row = tl.where(quarters == 1, column, tl.where(quarters == 2, height - 1 - row, row))
    from_row = tl.where(quarters == 3, height - 1 - column, from_row)
    from_column = tl.where(quarters == 1, width - 1 - row, tl.where(quarters == 2, width - 1 - column, column))
    from_column = tl.where(quarters == 3, row, from_column)
    for channel in tl.static_range(3):
        tl.store(to + channel, tl.load(image + (from_row * width + from_column) * 3 + channel, there, 0), there)


@triton.jit
def _erase(here, to, numbers, y, x, there):
    top, left = tl.load(numbers), tl.load(numbers + 1)
    inside = (y >= top) & (y < top + tl.load(numbers + 2)) & (x >= left) & (x < left + tl.load(numbers + 3))
    for channel in tl.static_range(3):
        value = tl.load(here + channel, there, 0).to(tl.int32)
        _store(to + channel, tl.where(inside, tl.load(numbers + 4 + channel), value), there)


@triton.jit
def _tile(height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The image of this program, the rows and columns of its tile, and which of these pixels there are."""
    across = tl.cdiv(width, COLUMNS)
    tiles = tl.cdiv(height, ROWS) * across
    number, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    y = tile // across * ROWS + tl.arange(0, ROWS)[:, None]
    x = tile % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return number, y, x, (y < height) & (x < width)


@triton.jit
def _pixel(here, there):
    red = tl.load(here, there, 0).to(tl.int32)
    green = tl.load(here + 1, there, 0).to(tl.int32)
    blue = tl.load(here + 2, there, 0).to(tl.int32)
    return red, green, blue


@triton.jit
def _store(to, value, there):
    """Store values as bytes, within 0..255."""
    tl.store(to, tl.minimum(tl.maximum(value, 0), 255).to(tl.uint8), there)


@triton.jit
def _mirrored(place, size):
    """A place within 0..size - 1, mirrored at both ends without the end itself twice."""
    period = tl.maximum(2 * (size - 1), 1)
    turns = (tl.abs(place) // period + 1) * period  # so that the remainder is of a positive number
    beyond = (place + size - 1 + turns) % period
    return tl.where(size > 1, tl.abs(beyond - (size - 1)), 0)


@triton.jit
def _source(homography, x, y):
    """The column and the row of the old image, float64; far outside where there is none."""
    column, row = x.to(tl.float64), y.to(tl.float64)
    h = homography
    scale = tl.load(h + 6) * column + (tl.load(h + 7) * row + tl.load(h + 8))
    at_x = (tl.load(h) * column + (tl.load(h + 1) * row + tl.load(h + 2))) / scale
    at_y = (tl.load(h + 3) * column + (tl.load(h + 4) * row + tl.load(h + 5))) / scale
    at_x = tl.where(tl.abs(at_x) < _FAR, at_x, -_FAR)
    return at_x, tl.where(tl.abs(at_y) < _FAR, at_y, -_FAR)


@triton.jit
def _rounded(value):
    """To the nearest whole number, of two the even one, as NumPy does: value of 0 or more."""
    low = tl.floor(value)
    rest = value - low
    odd = low.to(tl.int32) % 2
    return low.to(tl.int32) + tl.where((rest > 0.5) | ((rest == 0.5) & (odd == 1)), 1, 0)


@triton.jit
def _taken(image, row, column, channel: tl.constexpr, fill, height, width, there):
    """The values at places of an image, or the fill outside of it: int32."""
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    at = tl.where(inside, row * width + column, 0)
    return tl.where(inside, tl.load(image + at * 3 + channel, there, 0).to(tl.int32), fill)
