"""JPEGs that get restart markers: the same pixels in every decoder, or the file stays as it is."""

import io
import random

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from PIL import Image
from seekable_images import any_jpeg, drawn, jpeg

from shardfeed.converters.images.baseline import NotTranscodableError
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.seekable import _have_same_pixels, interval_for, to_seekable
from shardfeed.converters.images.store import check_stored, store_image
from shardfeed.converters.planning.samples import made_by
from shardfeed.converters.rejects import MAX_PIXELS, RejectedError
from shardfeed.errors import UsageError
from shardfeed.formats.jpeg_restarts import grid_of, restarts_cost, row_lengths
from shardfeed.native import VARIABLE, library, path_in_use

from damaged_jpegs import warned_then_fatal
from poisoned_memory import POISONS, poisoned

SEEKABLE = ImageOptions(seekable=True)


needs_module = pytest.mark.skipif(library() is None, reason=f"no restart markers inserted: {path_in_use()}")


def seekable(data: bytes) -> bytes:
    return to_seekable(data, read_jpeg_header(data, MAX_PIXELS))


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def check_many(count: int, seed: int) -> int:
    """How many of so many drawn files were cut into pieces; all have the pixels that they had."""
    rng, cut = random.Random(seed), 0
    for _ in range(count):
        data, *_ = any_jpeg(rng)
        made = seekable(data)
        assert (pixels(made) == pixels(data)).all()
        simplejpeg.decode_jpeg(made, strict=True)  # without a warning
        cut += made != data and bool(row_lengths(made))
    return cut


@needs_module
def test_pixels_are_the_same() -> None:
    assert check_many(60, 1) > 30


@needs_module
@pytest.mark.torture
def test_pixels_of_many_are_the_same() -> None:
    assert check_many(4000, 2) > 2000


@needs_module
def test_tensorflow_reads_them() -> None:
    data = jpeg(drawn(375, 500, 3))
    found, expected = (
        tf.io.decode_jpeg(each, dct_method="INTEGER_ACCURATE").numpy() for each in (seekable(data), data)
    )
    assert (found == expected).all()


@needs_module
def test_what_is_kept() -> None:
    """EXIF, ICC profile and comment; nothing that follows the image."""
    exif = Image.Exif()
    exif[0x010E] = "a title"
    data = jpeg(drawn(200, 300, 4), exif=exif.tobytes(), icc_profile=b"profile", comment=b"said") + b"behind"
    made = Image.open(io.BytesIO(seekable(data)))
    assert made.getexif()[0x010E] == "a title"
    assert (made.info["icc_profile"], made.info["comment"]) == (b"profile", b"said")
    assert seekable(data).endswith(b"\xff\xd9")


@needs_module
def test_twice_changes_nothing() -> None:
    made = seekable(jpeg(drawn(200, 300, 5)))
    assert seekable(made) == made


@needs_module
def test_tables_that_lack_a_code() -> None:
    """A flat image with a gradient has few differences, and no table of it needs a code for large ones."""
    steps = np.repeat(np.arange(0, 250, dtype=np.uint8)[None], 160, 0)
    data = jpeg(Image.fromarray(np.stack([steps] * 3, 2)), optimize=True)
    made = seekable(data)
    assert row_lengths(made)
    assert made[: made.index(b"\xff\xda")].count(bytes(range(12))) >= 1  # the usual codes, for all categories
    assert (pixels(made) == pixels(data)).all()


@pytest.mark.parametrize(
    ("height", "width", "mcu", "expected"),
    [
        (375, 500, 16, 4),
        (480, 640, 16, 4),
        (375, 333, 16, 3),
        (256, 341, 16, 2),
        (3000, 4000, 16, 10),
        (300, 500, 8, 9),
    ],
)
def test_interval(height: int, width: int, mcu: int, expected: int) -> None:
    assert interval_for(height, width, (mcu, mcu)) == expected


def test_pieces_of_a_row_that_cannot_be_divided() -> None:
    assert interval_for(400, 16 * 31, (16, 16)) == 31
    assert interval_for(64, 64, (16, 16)) == 0  # too small to be worth it
    assert interval_for(256, 256, (16, 16)) == 4
    assert interval_for(256, 256, (16, 16), sparing=True) == 0
    assert interval_for(375, 500, (16, 16), sparing=True) == 4


@needs_module
def test_bytes() -> None:
    """Markers cost as many bytes of a photo as estimated, fewer of a drawn picture, and below 1.5 % of all bytes."""
    data = jpeg(drawn(375, 500, 6), quality=90, subsampling="4:2:0")
    made = seekable(data)
    lengths = row_lengths(made)
    assert 0.4 < (len(made) + len(lengths) - len(data)) / restarts_cost(made, lengths) < 1.1
    assert (len(made) + len(lengths)) / len(data) < 1.015


@needs_module
def test_damaged_files_keep_their_pixels_or_stay() -> None:
    rng = random.Random(7)
    data = jpeg(drawn(90, 333, 8))
    stayed = made = 0
    for _ in range(400):
        broken = bytearray(data)
        at = rng.randrange(2, len(data))
        broken[at] ^= 1 << rng.randrange(8)
        assert broken != data
        try:
            found = to_seekable(bytes(broken), read_jpeg_header(bytes(broken), MAX_PIXELS))
            if found != broken:
                made += 1
                expected = simplejpeg.decode_jpeg(bytes(broken), strict=False)
                assert (simplejpeg.decode_jpeg(found, strict=False) == expected).all()
        except (NotTranscodableError, RejectedError):
            stayed += 1
    assert made > 50
    assert stayed > 20


@needs_module
def test_a_cut_file_stays() -> None:
    data = jpeg(drawn(200, 300, 9))
    with pytest.raises(NotTranscodableError):
        seekable(data[: len(data) // 2])
    with pytest.raises(NotTranscodableError, match="markers"):
        seekable(data[: len(data) // 2] + b"\xff\xd3" + data[len(data) // 2 :])


@needs_module
def test_progressive_stays_unless_made_baseline() -> None:
    pytest.importorskip("turbojpeg", reason="no wheel for this Python or machine")
    data = jpeg(drawn(200, 300, 10), progressive=True)
    kept = store_image(data, SEEKABLE)
    assert (kept.encoded, kept.restarts, kept.changes) == (data, b"", ())
    made = store_image(data, ImageOptions(seekable=True, baseline=True))
    assert [*made.changes] == ["baseline", "seekable"]
    assert made.restarts == row_lengths(made.encoded) != b""
    assert (pixels(made.encoded) == pixels(data)).all()


@needs_module
def test_a_record_says_where_the_rows_begin() -> None:
    data = jpeg(drawn(375, 500, 11))
    stored = store_image(data, SEEKABLE)
    assert [*stored.changes] == ["seekable"]
    assert len(stored.restarts) == 4 * 24
    check_stored(stored.encoded, b"jpeg", 375, 500, stored.restarts)
    with pytest.raises(RejectedError, match="image/restarts"):
        check_stored(stored.encoded, b"jpeg", 375, 500, stored.restarts[:-4] + b"\1\0\0\0")
    with pytest.raises(RejectedError, match="image/restarts"):
        check_stored(data, b"jpeg", 375, 500, stored.restarts)
    assert store_image(data, ImageOptions()).encoded == data


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_what_is_encoded_again_is_cut_by_default(mode: str) -> None:
    data = jpeg(drawn(375, 500, 12).convert(mode), quality=95)
    cut, plain = (store_image(data, ImageOptions(size=(300, 448), seekable=asked)) for asked in (None, False))
    assert cut.restarts == row_lengths(cut.encoded) != b""
    assert plain.restarts == row_lengths(plain.encoded) == b""
    assert (pixels(cut.encoded) == pixels(plain.encoded)).all()
    assert len(cut.encoded) + len(cut.restarts) < 1.022 * len(plain.encoded)


def test_what_would_cost_more_than_two_percent_is_not() -> None:
    data = jpeg(drawn(375, 500, 13))
    small = ImageOptions(quality=5)
    stored = store_image(data, small)
    assert (stored.restarts, grid_of(stored.encoded)) == (b"", None)
    assert store_image(data, ImageOptions(quality=5, seekable=True)).restarts


def test_raw_pixels_have_no_pieces() -> None:
    with pytest.raises(UsageError, match="seekable"):
        ImageOptions(encode="raw", seekable=True)
    assert not ImageOptions(encode="raw", size=64).restarts


def test_a_conversion_is_refused_when_it_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(UsageError, match=f"seekable: needs the compiled module, .*; unset {VARIABLE}"):
        made_by(SEEKABLE)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("shardfeed.native._loaded", lambda: (None, "was not built"))
    with pytest.raises(UsageError, match=r"got Python: compiled module was not built; .*pip install"):
        made_by(SEEKABLE)


def test_pixels_that_nothing_wrote_are_not_the_same() -> None:
    data = warned_then_fatal(jpeg(drawn(90, 120, 1)))
    with poisoned(POISONS[0]), pytest.raises(NotTranscodableError, match="Huffman table"):
        _have_same_pixels(data, data, read_jpeg_header(data, MAX_PIXELS))
