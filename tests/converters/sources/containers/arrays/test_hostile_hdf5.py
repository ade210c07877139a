"""HDF5 files that declare, repeat or compress more than they hold: refused, or read, in bounded memory.

Each is opened, and its images are read, in a process of its own, whose memory is measured.
"""

import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from pictures import image_bytes

pytestmark = pytest.mark.promise(51)

MOST_MEMORY = 500 << 20  # bytes beside the imports
LARGE = 1600 << 20  # bytes that a lie would take
LIMIT = 3000 << 20  # bytes that the process gets at most, so that a failing test does not end the machine

# Prints the exception's class, or "read", and the most memory that it took, beside that of the imports.
PROGRAM = """
import re, resource, sys, warnings
import h5py, numpy, PIL.Image
from shardfeed.converters import open_source
from shardfeed.converters.rejects import RejectedError
from shardfeed.errors import UsageError
import shardfeed.converters.sources.rare.hdf5
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]),) * 2)
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10
before, said = peak(), "read"
try:
    source = open_source(sys.argv[1])
    for i in range(min(3, len(source))):
        try:
            source[i].image()
        except RejectedError as error:
            said = str(error)
except UsageError as error:
    said = str(error)
print(peak() - before, said)
"""


def png() -> np.ndarray:
    return np.frombuffer(image_bytes(Image.fromarray(np.zeros((5, 7, 3), np.uint8)), "PNG"), np.uint8)


@cache
def deflated(size: int) -> bytes:
    """DEFLATE of so many zeros, not made in one piece."""
    packing = zlib.compressobj(9)
    return b"".join(packing.compress(bytes(1 << 24)) for _ in range(size >> 24)) + packing.flush()


def lzf_of_zeros(size: int) -> bytes:
    """LZF of so many zeros: one, and repetitions of 264 bytes."""
    return b"\0\0" + b"\xe0\xff\0" * (size // 264)


def pixels(file: h5py.File, side: int, stored: bytes, **options: Any) -> None:
    """Three square images, of which the first is stored as is given, and the others are blank."""
    images = file.create_dataset("images", (3, side, side, 3), np.uint8, chunks=(1, side, side, 3), **options)
    images.id.write_direct_chunk((0, 0, 0, 0), stored)
    file["labels"] = np.arange(3)


def small(file: h5py.File) -> None:
    file["images"] = np.zeros((3, 5, 7, 3), np.uint8)


def texts(file: h5py.File, count: int, size: int, **options: Any) -> None:
    """Labels of a length, whose rows all refer to the bytes of the first one."""
    file["images"] = np.zeros((count, 5, 7, 3), np.uint8)
    labels = file.create_dataset("labels", (count,), h5py.string_dtype(), chunks=(count,), **options)
    labels[0] = "x" * size
    file.flush()
    mask, row = labels.id.read_direct_chunk((0,))
    row = zlib.decompress(row)[:16] if "compression" in options else row[:16]
    labels.id.write_direct_chunk((0,), zlib.compress(row * count) if "compression" in options else row * count, mask)


def long_row(file: h5py.File, length: int, pack: Callable[[bytes], bytes], mask: int = 0, **options: Any) -> None:
    """Encoded images, of which the first says that it has more bytes."""
    plain = file.create_dataset("plain", (3,), h5py.vlen_dtype(np.uint8), chunks=(3,))
    for number in range(3):
        plain[number] = png()
    file.flush()
    rows = plain.id.read_direct_chunk((0,))[1]
    assert int.from_bytes(rows[:4], "little") == len(png())
    del file["plain"]
    images = file.create_dataset("images", (3,), h5py.vlen_dtype(np.uint8), chunks=(3,), **options)
    images.id.write_direct_chunk((0,), pack(length.to_bytes(4, "little") + rows[4:]), mask)
    file["labels"] = np.arange(3)


def lzf(data: bytes) -> bytes:
    """The data as LZF that repeats nothing."""
    pieces = [data[start : start + 32] for start in range(0, len(data), 32)]
    return b"".join(bytes([len(piece) - 1]) + piece for piece in pieces)


GZIP: dict[str, Any] = {"compression": "gzip"}


def chunk_of_labels(file: h5py.File) -> None:
    """Three labels in a chunk of 4 GB, which is a few megabytes when it is stored."""
    small(file)
    labels = file.create_dataset("labels", (3,), np.int64, maxshape=(None,), chunks=(LARGE // 8,), **GZIP)
    labels.id.write_direct_chunk((0,), deflated(LARGE))


def chunk_of_images(file: h5py.File) -> None:
    images = file.create_dataset(
        "images", (3,), h5py.vlen_dtype(np.uint8), maxshape=(None,), chunks=(LARGE // 16,), **GZIP
    )
    images.id.write_direct_chunk((0,), deflated(LARGE))


def twice_compressed(file: h5py.File) -> None:
    """An image whose chunk is compressed to three kilobytes."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((1, 300, 300, 3))
    settings.set_deflate(9)
    settings.set_filter(1, 1, (9,))
    space = h5py.h5s.create_simple((3, 300, 300, 3))
    images = h5py.h5d.create(file.id, b"images", h5py.h5t.STD_U8LE, space, settings)
    images.write_direct_chunk((0, 0, 0, 0), zlib.compress(deflated(LARGE)))
    file["labels"] = np.arange(3)


def checked(data: bytes) -> bytes:
    """The data with the checksum that the filter fletcher32 compares."""
    one = two = 0
    for word in np.frombuffer(data[: len(data) // 2 * 2], ">u2").tolist():
        one = (one + word) % 65535
        two = (two + one) % 65535
    if len(data) % 2:
        one = (one + (data[-1] << 8)) % 65535
        two = (two + one) % 65535
    return data + (two << 16 | one).to_bytes(4, "little")


def wide_labels(file: h5py.File) -> None:
    """Labels of a billion classes, none of which is stored."""
    small(file)
    file.create_dataset("labels", (3, 10**9), np.int8, chunks=(1, 1 << 20), fillvalue=1)


def many_elements(file: h5py.File) -> None:
    file.create_dataset("images", (3, 10**6, 10**6), np.uint8, chunks=(1, 1000, 1000))
    file["labels"] = np.arange(3)


def long_texts(file: h5py.File) -> None:
    small(file)
    file.create_dataset("labels", (3,), f"S{LARGE}")


def blank_images(file: h5py.File) -> None:
    """Images of many pixels, none of which is stored."""
    file.create_dataset("images", (3, 12_000, 12_000, 4), np.uint8)
    file["labels"] = np.arange(3)


HOSTILE: dict[str, Callable[[h5py.File], None]] = {
    "gzip": lambda file: pixels(file, 1000, deflated(LARGE), **GZIP),
    "gzip, more than the pixels": lambda file: pixels(file, 300, deflated(LARGE), **GZIP),
    "gzip, twice": twice_compressed,
    "shuffle, gzip": lambda file: pixels(file, 1000, deflated(LARGE), shuffle=True, **GZIP),
    "gzip, fletcher32": lambda file: pixels(file, 1000, checked(deflated(LARGE)), fletcher32=True, **GZIP),
    "lzf": lambda file: pixels(file, 3000, lzf_of_zeros(LARGE), compression="lzf"),
    "shuffle, lzf": lambda file: pixels(file, 3000, lzf_of_zeros(LARGE), compression="lzf", shuffle=True),
    "a chunk of labels": chunk_of_labels,
    "a chunk of images": chunk_of_images,
    "wide labels": wide_labels,
    "1e12 elements": many_elements,
    "long texts": long_texts,
    "blank images": blank_images,
    "texts": lambda file: texts(file, 500, 10 << 20),
    "compressed texts": lambda file: texts(file, 500, 10 << 20, **GZIP),
    "a row": lambda file: long_row(file, LARGE, bytes),
    "a row, gzip": lambda file: long_row(file, LARGE, zlib.compress, **GZIP),
    "a row, gzip, shuffle": lambda file: long_row(file, LARGE, zlib.compress, 0b01, shuffle=True, **GZIP),
    "a row, shuffle": lambda file: long_row(file, LARGE, bytes, 0b1, shuffle=True),
    "a row, lzf": lambda file: long_row(file, LARGE, lzf, compression="lzf"),
}


def opened_in_a_process(path: Path) -> tuple[int, str]:
    """Bytes of memory beside the imports, and what was said."""
    command = [sys.executable, "-c", PROGRAM, str(path), str(LIMIT)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    memory, _, said = ended.stdout.strip().partition(" ")
    return int(memory), said


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_asks_for_more_memory_than_it_may(tmp_path: Path, make: Callable[[h5py.File], None]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    memory, said = opened_in_a_process(tmp_path / "a.h5")
    print(f"{(tmp_path / 'a.h5').stat().st_size:,} bytes, {memory / 2**20:,.0f} MB: {said}")
    assert said != "read"
    assert "\n" not in said
    assert memory < MOST_MEMORY
