"""A window of a seekable JPEG as a separate JPEG: only the pieces that it needs, under a header of its size.

A decoder normally reads the image data before a window to find where the window begins. Here that data is absent. The
pixels are those of the whole image bit for bit, because the data is the same, and the margin includes the pixels that
colours are smoothed with.
"""

from typing import NamedTuple

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.jpeg.markers import EOI
from shardfeed.jpeg.restarts import are_in_turn, grid_of, piece_ends, restart_codes
from shardfeed.pipelines.windows import Window

# Pixels around a window that are decoded, too: the decoder smooths subsampled colour with the neighbours that it has.
# One is enough, but it does not smooth a strip of two columns at all.
MARGIN = 2
_WORTH = 0.9  # of the MCUs read by a decoder that stops below the window: with more, joining does not pay off


class Spliced(NamedTuple):
    """A JPEG of `height` x `width` pixels of the image, from row `top` and column `left` on."""

    data: bytes | bytearray
    top: int
    left: int
    height: int
    width: int


def splice(data: bytes | memoryview, restarts: bytes, window: Window, ratio: int) -> Spliced | None:
    """Cut out the part of a JPEG that shows `window`, for a decoder that shrinks it by `ratio`, 1, 2, 4 or 8.

    `restarts`: the record's `image/restarts`. None if decoding the whole image takes no longer. Raises IntegrityError
    if `restarts` do not match `data`.
    """
    grid = grid_of(data)
    if grid is None or len(restarts) != 4 * grid.rows:
        raise _wrong_restarts()
    found = grid.header
    margin = MARGIN * ratio
    piece_width = found.interval * grid.mcu_width
    first_row = max(0, window.top - margin) // grid.mcu_height
    last_row = min(grid.rows, -(-(window.top + window.height + margin) // grid.mcu_height))
    first = max(0, window.left - margin) // piece_width
    last = min(grid.pieces, -(-(window.left + window.width + margin) // piece_width))
    if (last_row - first_row) * (last - first) > _WORTH * last_row * grid.pieces:
        return None

    top, left = first_row * grid.mcu_height, first * piece_width
    height = min(found.height - top, (last_row - first_row) * grid.mcu_height)
    width = min(found.width - left, (last - first) * piece_width)
    row_ends = np.frombuffer(restarts, "<u4").cumsum(dtype=np.int64)
    before = int(row_ends[first_row - 1]) if first_row else 0
    start, end = found.scan + before, found.scan + int(row_ends[last_row - 1])
    if end > len(data):
        raise _wrong_restarts()
    ends, codes = piece_ends(data, start, end)
    count = last_row - first_row
    if len(ends) != count * grid.pieces or not are_in_turn(codes, grid, first_row):
        raise _wrong_restarts()
    ends += start
    ends = ends.reshape(count, grid.pieces)
    row_ends += found.scan
    if (ends[:, -1] != row_ends[first_row:last_row]).any():
        raise _wrong_restarts()

    # From the file: the bytes of each row from its first piece to the end of its last.
    if first:
        begins = ends[:, first - 1]
    else:
        begins = np.empty(count, np.int64)
        begins[0], begins[1:] = start, ends[:-1, -1]
    behind = ends[:, last - 1]
    at = found.size_at
    header = found.needed[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + found.needed[at + 4 :]
    parts = [data[a:b] for a, b in zip(begins.tolist(), behind.tolist(), strict=True)]
    joined = bytearray().join([header, *parts])

    # Number the markers, each the last byte of its piece, from zero again.
    lengths = behind - begins
    moved = lengths.cumsum() - behind + (len(header) - 1)
    markers = (ends[:, first:last] + moved[:, None]).ravel()
    codes = np.frombuffer(joined, np.uint8)
    codes[markers] = restart_codes(len(markers))
    codes[-1] = EOI
    return Spliced(joined, top, left, height, width)


def _wrong_restarts() -> IntegrityError:
    problem = "image/restarts does not match the restart markers of this JPEG"
    return IntegrityError("image", problem, "`shardfeed verify DIR --deep` names all such records")
