"""Damage that other decoders fill with gray is refused; what is only odd is passed, with a word."""

import io
import random
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters.images.jpeg import first_warning, read_jpeg_header
from shardfeed.converters.images.pixels import check_pixels
from shardfeed.converters.images.store import ImageOptions, store_image
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes

KINDS: dict[str, dict[str, object]] = {
    "baseline": {},
    "full chroma": {"subsampling": "4:4:4"},
    "half width chroma": {"subsampling": "4:2:2"},
    "gray": {},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_rows": 1},
}


def jpeg(kind: str = "baseline", height: int = 120, width: int = 160) -> bytes:
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8))
    image = small.resize((width, height), Image.Resampling.BICUBIC).convert("L" if kind == "gray" else "RGB")
    return image_bytes(image, "JPEG", quality=90, **KINDS[kind])


def scan_of(data: bytes) -> int:
    return read_jpeg_header(data, MAX_PIXELS).scan


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_pass_without_a_word(kind: str) -> None:
    assert first_warning(jpeg(kind)) is None
    assert first_warning(jpeg(kind) + b"after the end") is None
    for height, width in ((1, 1), (8, 8), (17, 9), (1, 3000), (3000, 1)):
        assert first_warning(jpeg(kind, height, width)) is None


@pytest.mark.promise(33)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_an_odd_version_does_not_hide_damage(share: float) -> None:
    """The decoder stops at its first word, which is about the header."""
    data = jpeg()
    odd = data[:11] + b"\x09" + data[12:]
    assert data[6:11] == b"JFIF\0"
    assert "unknown JFIF revision" in (first_warning(odd) or "")
    cut = odd[: scan_of(odd) + int(share * (len(odd) - scan_of(odd)))].rstrip(b"\xff") + b"\xff\xd9"
    with pytest.raises(RejectedError, match="premature end"):
        first_warning(cut)


def passes(data: bytes) -> bool:
    """Neither refused nor with a word said about it."""
    try:
        return first_warning(data) is None
    except RejectedError:
        return False


@pytest.mark.promise(33)
@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_seen_with_its_end_marker_put_back(kind: str) -> None:
    data = jpeg(kind)
    ends = np.linspace(scan_of(data) + 1, len(data) - 40, 20).astype(int).tolist()
    assert not any(passes(data[:end]) for end in ends)
    missed = sum(passes(data[:end] + b"\xff\xd9") for end in ends)
    assert missed <= (2 if kind == "progressive" else 0)  # between two scans: a whole file of fewer scans
    with pytest.raises(RejectedError, match="premature end of data segment") as caught:
        first_warning(data[: ends[5]] + b"\xff\xd9")
    assert caught.value.code is RejectCode.CORRUPT
    # Pillow takes it for whole, which is why there is this check.
    Image.open(io.BytesIO(data[: ends[5]] + b"\xff\xd9")).load()


@pytest.mark.promise(33)
@pytest.mark.parametrize("kind", KINDS)
def test_most_overwritten_files_are_refused_or_noted(kind: str) -> None:
    data, draws = jpeg(kind), random.Random(5)
    passed = 0
    for _ in range(60):
        at = draws.randrange(scan_of(data), len(data) - 700)
        damaged = data[:at] + bytes(512) + data[at + 512 :]
        assert damaged != data
        passed += passes(damaged)
    assert passed <= 20


@pytest.mark.parametrize("pad", [bytes(1), bytes(7), b"\x01\x02\x03"])
def test_bytes_before_the_end_marker_are_noted_and_kept(pad: bytes) -> None:
    data = jpeg()[:-2] + pad + b"\xff\xd9"
    stored = store_image(data, ImageOptions())
    assert stored.encoded == data
    if first_warning(data):  # a decoder's read-ahead may swallow the first of them
        (warning,) = stored.warnings
        assert "extraneous bytes before marker 0xd9" in warning
    else:
        assert len(pad) == 1


def test_another_decoder_decides_on_unusual_subsampling() -> None:
    data = jpeg("full chroma")
    at = data.index(b"\xff\xc0")
    tall = bytearray(data)
    tall[at + 11] = 0x31  # three luma samples beside each other for one of each chroma
    assert "subsampling" in (first_warning(bytes(tall)) or "")
    (warning,) = check_pixels(bytes(tall), read_jpeg_header(bytes(tall), MAX_PIXELS))
    assert "truncation" in warning


def test_a_word_of_the_first_decoder_does_not_hide_what_follows() -> None:
    odd = bytearray(jpeg("restarts"))
    at = odd.index(b"JFIF\0")
    odd[at + 5] = 9  # an unknown version: a warning before any image data
    assert "JFIF" in (first_warning(bytes(odd)) or "")
    header = read_jpeg_header(bytes(odd), MAX_PIXELS)
    (warning,) = check_pixels(bytes(odd), header)
    assert "JFIF" in warning
    with pytest.raises(RejectedError):
        check_pixels(bytes(odd[: len(odd) // 2]), header)


def flipped(data: bytes, draws: random.Random) -> bytes:
    at = draws.randrange(2, len(data) - 2)
    return data[:at] + bytes((data[at] ^ 1 << draws.randrange(8),)) + data[at + 1 :]


def removed(data: bytes, draws: random.Random) -> bytes:
    at = draws.randrange(2, len(data) - 40)
    return data[:at] + data[at + draws.choice((1, 2, 30)) :]


@pytest.mark.promise(33)
@pytest.mark.parametrize("spoil", [flipped, removed])
def test_what_passes_tensorflow_decodes(spoil: Callable[[bytes, random.Random], bytes]) -> None:
    import tensorflow as tf

    draws, passed = random.Random(11), 0
    for kind in KINDS:
        data = jpeg(kind)
        for _ in range(60):
            damaged = spoil(data, draws)
            assert damaged != data
            try:
                stored = store_image(damaged, ImageOptions())
            except RejectedError:
                continue
            passed += 1
            assert tf.io.decode_image(stored.encoded).shape[:2] == (stored.height, stored.width)
    assert passed
