"""Huffman codes read and written by the compiled module: libjpeg writes the same, and finds the same damage."""

import random

import pytest
import simplejpeg
from seekable_images import any_jpeg, any_picture, cut_jpeg, drawn, jpeg, several_jpegs

from shardfeed.converters.images.baseline import NotTranscodableError
from shardfeed.converters.images.jpeg import first_warning, read_jpeg_header
from shardfeed.converters.images.seekable import to_seekable
from shardfeed.converters.rejects import MAX_PIXELS, RejectedError
from shardfeed.formats.jpeg_restarts import grid_of, row_lengths
from shardfeed.native import VARIABLE, DamagedCodesError, have_same_codes, is_whole, library, path_in_use, recoded

needs_module = pytest.mark.skipif(library() is None, reason=path_in_use())


def damaged(data: bytes, draws: random.Random) -> bytes:
    """The file with one to three changes, half of them in its header."""
    broken = bytearray(data)
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(2, len(broken) if draws.random() < 0.5 else 600)
        match draws.randrange(5):
            case 0:
                broken[at] ^= 1 << draws.randrange(8)
            case 1:
                broken[at] = draws.randrange(256)
            case 2:
                broken[at - 1 : at + 1] = 0xFF, draws.randrange(0xC0, 0x100)
            case 3:
                del broken[at : at + draws.choice((1, 2, 30))]
            case _:
                return bytes(broken[:at]) + b"\xff\xd9"
    return bytes(broken)


def outcome(data: bytes) -> bytes | None:
    """The file with markers; None if it is refused."""
    try:
        return to_seekable(data, read_jpeg_header(data, MAX_PIXELS))
    except (NotTranscodableError, RejectedError):
        return None


def check_bytes(count: int, seed: int) -> int:
    """How many of so many drawn pictures get markers: the image data is what libjpeg writes with markers."""
    draws, cut = random.Random(seed), 0
    for _ in range(count):
        image, options = any_picture(draws)
        if options.pop("optimize", False):  # then libjpeg writes other tables
            continue
        data, expected = jpeg(image, **options), cut_jpeg(image, **options)
        made, grid = outcome(data), grid_of(expected)
        if grid and made not in (None, data):
            assert made.endswith(expected[grid.header.scan :])
            assert row_lengths(made) == row_lengths(expected)
            cut += 1
    return cut


@needs_module
def test_the_bytes_of_libjpeg() -> None:
    assert check_bytes(80, 21) > 25


@needs_module
@pytest.mark.long
def test_the_bytes_of_libjpeg_of_many() -> None:
    assert check_bytes(3000, 22) > 1000


def count_refused(count: int, seed: int) -> int:
    """How many of so many damaged files are refused; the others keep their pixels."""
    draws, files, refused = random.Random(seed), several_jpegs(seed), 0
    for _ in range(count):
        data = damaged(draws.choice(files), draws)
        made = outcome(data)
        refused += made is None
        if made not in (None, data):
            found, expected = (simplejpeg.decode_jpeg(each, strict=False) for each in (made, data))
            assert (found == expected).all()
    return refused


@needs_module
def test_damaged_files_are_refused_or_keep_their_pixels() -> None:
    assert 100 < count_refused(400, 23) < 390


@needs_module
@pytest.mark.long
def test_many_damaged_files_are_refused_or_keep_their_pixels() -> None:
    assert count_refused(10_000, 24)


def decoder_is_silent(data: bytes, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(VARIABLE, "0")
    try:
        return first_warning(data) is None
    except RejectedError:
        return False


def count_whole(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of so many damaged files are whole after all; the decoder has no word to say about them."""
    draws, files, found = random.Random(seed), several_jpegs(seed), 0
    for _ in range(count):
        data = damaged(draws.choice(files), draws)
        monkeypatch.delenv(VARIABLE, raising=False)
        if is_whole(data):
            found += 1
            assert decoder_is_silent(data, monkeypatch)
    return found


@needs_module
@pytest.mark.promise(33)
def test_no_damage_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 20 < count_whole(1000, 25, monkeypatch) < 500


@needs_module
@pytest.mark.long
@pytest.mark.promise(33)
def test_no_damage_of_many_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_whole(20_000, 26, monkeypatch)


@needs_module
def test_whole_files_need_no_other_decoder() -> None:
    draws = random.Random(27)
    for _ in range(60):
        assert is_whole(any_jpeg(draws)[0])
    assert not is_whole(jpeg(drawn(64, 64, 1), progressive=True))
    assert not is_whole(b"")


@needs_module
def test_a_change_of_a_copy_is_seen() -> None:
    draws, data = random.Random(28), jpeg(drawn(90, 333, 8))
    copy, same = outcome(data), 0
    assert copy is not None
    assert have_same_codes(data, copy)
    for _ in range(2000):
        broken = damaged(copy, draws)
        if have_same_codes(data, broken):
            same += 1
            found, expected = (simplejpeg.decode_jpeg(each, strict=True) for each in (broken, data))
            assert (found == expected).all()
    assert same  # of comments and the bits that fill the last byte


@needs_module
def test_too_little_room() -> None:
    data = jpeg(drawn(90, 333, 8))
    for room in (0, 1, len(data) // 2):
        with pytest.raises(MemoryError):
            recoded(data, 3, b"", room)
    with pytest.raises(DamagedCodesError, match="header"):
        recoded(b"\xff\xd8", 3, b"", 1000)


def test_without_the_module_a_decoder_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    data = jpeg(drawn(64, 64, 1))
    assert not is_whole(data)
    assert not have_same_codes(data, data)
    assert first_warning(data) is None
