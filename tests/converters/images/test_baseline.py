"""Progressive JPEGs made baseline: identical pixels in two decoders, or the file stays as it is."""

import io
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.baseline import NotTranscodableError, to_baseline, tool_version
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import store_image
from shardfeed.converters.planning.samples import made_by
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError
from shardfeed.errors import UsageError

from pictures import image_bytes

turbojpeg = pytest.importorskip("turbojpeg", reason="no wheel for this Python or machine")

BASELINE = ImageOptions(baseline=True)


def picture(height: int = 45, width: int = 70, seed: int = 1) -> Image.Image:
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    noise = rng.normal(0, rng.choice([2, 20, 60]), (height, width, 3))
    waves = [128 + 110 * np.sin(x / rng.uniform(2, 40) + y / rng.uniform(2, 40)) for _ in range(3)]
    return Image.fromarray(np.clip(np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8))


def progressive(image: Image.Image, **options: object) -> bytes:
    return image_bytes(image, "JPEG", progressive=True, **({"quality": 92} | options))


def transcoded(data: bytes) -> bytes:
    return to_baseline(data, read_jpeg_header(data, MAX_PIXELS))


def pillow_pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def tensorflow_pixels(data: bytes) -> np.ndarray:
    return tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE").numpy()


def assert_same_but_sequential(before: bytes, after: bytes) -> None:
    assert before != after
    assert read_jpeg_header(before, MAX_PIXELS).process == 2
    assert read_jpeg_header(after, MAX_PIXELS).process in (0, 1)
    assert len(re.findall(rb"\xff\xda", after[read_jpeg_header(after, MAX_PIXELS).scan :])) == 0, "one scan"
    assert np.array_equal(pillow_pixels(before), pillow_pixels(after))
    assert np.array_equal(tensorflow_pixels(before), tensorflow_pixels(after))


def drawn(number: int) -> bytes:
    """A progressive file of its own kind for each number: sizes from 1 x 1, all subsamplings, gray, qualities."""
    draw = random.Random(number)
    sides = [
        draw.choice((1, 2, 7, 8, 9, 15, 16, 17, 31, 33, draw.randrange(1, 90), draw.randrange(1, 300))) for _ in "hw"
    ]
    image = picture(*sides, seed=number)
    quality = draw.choice((1, 10, 50, 75, 90, 92, 95, 100, draw.randrange(1, 101)))
    kind = draw.randrange(8)
    if kind == 0:
        return progressive(image.convert("L"), quality=quality)
    if kind in (1, 2):
        samp = draw.choice(("Y411", "Y440", "Y441", "Y422", "Y420", "Y444", "GRAY"))
        return turbojpeg.compress(np.asarray(image), quality, getattr(turbojpeg.SAMP, samp), progressive=True)
    options: dict[str, object] = {"subsampling": draw.choice(("4:4:4", "4:2:2", "4:2:0")), "quality": quality}
    if kind == 3:
        options["restart_marker_blocks"] = draw.randrange(1, 9)
    if kind == 4:
        options |= {"optimize": True, "icc_profile": draw.randbytes(200), "comment": b"words"}
    return progressive(image, **options)


@pytest.mark.parametrize("numbers", [range(80), pytest.param(range(1200), marks=pytest.mark.torture)], ids=len)
def test_pixels_are_the_same_to_the_bit(numbers: range) -> None:
    shapes = set()
    for number in numbers:
        data = drawn(number)
        assert_same_but_sequential(data, transcoded(data))
        shapes.add(pillow_pixels(data).shape)
    assert len(shapes) > len(numbers) / 3


def test_conversion_stores_it() -> None:
    data = progressive(picture())
    stored = store_image(data, BASELINE)
    assert (stored.changes, stored.warnings, stored.format) == (("baseline",), (), b"jpeg")
    assert (stored.height, stored.width) == (45, 70)
    assert_same_but_sequential(data, stored.encoded)
    assert store_image(data, BASELINE) == stored, "the same bytes each time"
    assert not store_image(stored.encoded, BASELINE).changes
    for check in ("header", "none"):
        options = ImageOptions(baseline=True, check=check)  # type: ignore[arg-type]
        assert store_image(data, options).encoded == stored.encoded


def test_others_are_left_alone() -> None:
    for options in ({}, {"quality": 40}, {"subsampling": "4:4:4"}):
        out = io.BytesIO()
        picture().save(out, "JPEG", **options)
        assert store_image(out.getvalue(), BASELINE).encoded == out.getvalue()
    out = io.BytesIO()
    picture().save(out, "PNG")
    assert store_image(out.getvalue(), BASELINE).encoded == out.getvalue()


def test_what_is_encoded_again_is_baseline_anyway() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for data, words in ((progressive(picture(), exif=exif), "exif-rotated"), (progressive(picture(90, 90)), "resized")):
        stored = store_image(data, ImageOptions(baseline=True, resize_shorter=60))
        assert "+".join(stored.changes) == (words or "")
        assert read_jpeg_header(stored.encoded, MAX_PIXELS).process == 0


def test_metadata_is_kept() -> None:
    exif = Image.Exif()
    exif[0x010E] = "a title"
    profile = bytes(range(256)) * 400
    data = progressive(picture(), exif=exif, icc_profile=profile, comment=b"words")
    with Image.open(io.BytesIO(transcoded(data))) as image:
        assert image.getexif()[0x010E] == "a title"
        assert image.info["icc_profile"] == profile
        assert image.info["comment"] == b"words"
        assert "progressive" not in image.info


def without_scans(data: bytes, kept: int) -> bytes:
    """The first `kept` scans of a file, each with the tables that belong to it."""
    places = [match.start() for match in re.finditer(rb"\xff[\xda\xc4]", data)]
    scans = [place for place in places if data[place + 1] == 0xDA]
    assert len(scans) > kept
    after = next(place for place in places if place > scans[kept - 1])
    return data[:after] + b"\xff\xd9"


@pytest.mark.parametrize("kept", [1, 3, 5, 9])
def test_an_image_whose_last_scans_were_left_out_stays(kept: int) -> None:
    """It is legal, and decoders smooth it between its blocks as long as it is progressive."""
    data = without_scans(progressive(picture()), kept)
    with pytest.raises(NotTranscodableError, match="omit part"):
        transcoded(data)
    if kept == 1:
        assert not np.array_equal(pillow_pixels(data), pillow_pixels(turbojpeg.transform(data))), "that is why"
    stored = store_image(data, BASELINE)
    assert (stored.encoded, stored.changes) == (data, ())
    assert "not converted to baseline" in stored.warnings[0]


def test_a_cut_file_stays_where_it_is_not_rejected() -> None:
    data = progressive(picture())
    cut = data[: len(data) - 40] + b"\xff\xd9"
    stored = store_image(cut, ImageOptions(baseline=True, check="none"))
    assert stored.encoded == cut
    assert len(stored.warnings) == 1
    with pytest.raises(RejectedError):
        store_image(data[:-40], BASELINE)


def test_arithmetic_coding_is_rejected_before() -> None:
    data = turbojpeg.compress(np.asarray(picture()), 90, turbojpeg.SAMP.Y420, progressive=True, arithmetic=True)
    assert read_jpeg_header(data, MAX_PIXELS).process == 10
    with pytest.raises(RejectedError) as caught:
        store_image(data, BASELINE)
    assert caught.value.code is RejectCode.UNSUPPORTED


def test_inks_become_png_as_ever() -> None:
    stored = store_image(progressive(picture().convert("CMYK")), BASELINE)
    assert (stored.format, stored.changes) == (b"png", ("cmyk",))


@pytest.mark.parametrize("rounds", [300, pytest.param(20_000, marks=pytest.mark.torture)])
def test_damage_is_refused_or_gives_the_pixels_of_the_damaged_file(rounds: int) -> None:
    draw = random.Random(rounds)
    data = progressive(picture(), comment=b"words")
    refused = 0
    for _ in range(rounds):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 1, 3))):
            changed[draw.randrange(2, len(changed))] ^= 1 << draw.randrange(8)
        damaged = bytes(changed)
        try:
            header = read_jpeg_header(damaged, 10**6)
        except RejectedError:
            continue
        try:
            after = to_baseline(damaged, header)
        except NotTranscodableError:
            refused += 1
        else:
            assert np.array_equal(pillow_pixels(damaged), pillow_pixels(after))
    assert refused > rounds / 10


def test_threads_do_not_meet() -> None:
    files = [drawn(number) for number in range(24)]
    alone = [transcoded(data) for data in files]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(transcoded, files * 4)) == alone * 4


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool_version() == version("turbojpeg")
    transcode._tool.cache_clear()
    monkeypatch.setitem(sys.modules, "turbojpeg", None)
    with pytest.raises(UsageError, match=r"pip install 'shardfeed\[baseline\]'") as caught:
        made_by(ImageOptions(baseline=True))
    assert caught.value.place == "baseline"
    assert "turbojpeg" not in made_by(ImageOptions()), "nothing else needs it"
    transcode._tool.cache_clear()
