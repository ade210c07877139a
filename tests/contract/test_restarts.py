"""The grid that restart markers cut a JPEG into, and what a record says of it."""

import io

import numpy as np
import pytest
from PIL import Image

from shardfeed.formats.jpeg_restarts import grid_of, restart_codes, row_lengths

from pictures import image_bytes


def jpeg(mode: str = "RGB", size: tuple[int, int] = (320, 100), **options: object) -> bytes:
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return image_bytes(Image.fromarray(noise).convert(mode), "JPEG", **options)


@pytest.mark.parametrize(
    ("mode", "subsampling", "mcu", "rows", "pieces"),
    [
        ("RGB", "4:2:0", (16, 16), 7, 5),
        ("RGB", "4:2:2", (8, 16), 13, 5),
        ("RGB", "4:4:4", (8, 8), 13, 10),
        ("L", "4:2:0", (8, 8), 13, 10),
    ],
)
def test_grid(mode: str, subsampling: str, mcu: tuple[int, int], rows: int, pieces: int) -> None:
    data = jpeg(mode, subsampling=subsampling, restart_marker_blocks=4)
    grid = grid_of(data)
    assert grid is not None
    assert (grid.header.height, grid.header.width, (grid.mcu_height, grid.mcu_width)) == (100, 320, mcu)
    assert (grid.rows, grid.pieces, grid.header.interval) == (rows, pieces, 4)
    lengths = np.frombuffer(row_lengths(data), "<u4")
    assert len(lengths) == rows
    assert grid.header.scan + lengths.sum() == len(data)
    ends = grid.header.scan + lengths.cumsum()
    assert [data[end - 2 : end] for end in ends] == [
        bytes((0xFF, 0xD0 + ((row + 1) * pieces - 1) % 8 if row < rows - 1 else 0xD9)) for row in range(rows)
    ]
    small = Image.open(
        io.BytesIO(grid.header.needed + data[grid.header.scan :])
    )  # what it leaves out of the header is not needed
    assert (np.asarray(small) == np.asarray(Image.open(io.BytesIO(data)))).all()


@pytest.mark.parametrize(
    "data",
    [
        jpeg(),
        jpeg(restart_marker_blocks=3),  # 20 MCUs
        jpeg(restart_marker_blocks=4, progressive=True),
        jpeg(restart_marker_blocks=4)[:-2],
        jpeg(restart_marker_blocks=4) + b"behind",
        jpeg(restart_marker_blocks=4).replace(b"\xff\xd3", b"\xff\xd4"),
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8",
        b"",
    ],
)
def test_without_a_grid(data: bytes) -> None:
    assert row_lengths(data) == b""


def test_any_header() -> None:
    data = jpeg(size=(64, 40), restart_marker_blocks=1)
    for at in range(len(data)):
        for value in (0, 1, 0xFF, data[at] ^ 0x10):
            row_lengths(data[:at] + bytes((value,)) + data[at + 1 :])
        row_lengths(data[:at])


def test_codes() -> None:
    assert restart_codes(10, 6).tolist() == [0xD6, 0xD7, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7]
    assert restart_codes(10_000, 3).tolist() == [0xD0 + (3 + n) % 8 for n in range(10_000)]
