"""HEIF, as telephones write it: stored as what pillow-heif shows, upright, or refused with the extra named."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.pixels import upright
from shardfeed.converters.images.store import StoredImage, store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.errors import TooManyRejectedError
from shardfeed.schema import ENCODED

from in_process import OwnEngine

heif = pytest.importorskip("pillow_heif")
WIDTH, HEIGHT = 96, 64


def picture(mode: str = "RGB") -> Image.Image:
    """A dark half above a bright one, smooth as photos are, with a corner that shows how it is turned."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    pixels = np.stack([x * 2, y * 3, np.full_like(x, 90)], -1).astype(np.uint8)
    pixels[:16, :24] = 250
    return Image.fromarray(pixels).convert(mode)


def encode(*images: Image.Image, **options: Any) -> bytes:
    made, out = heif.HeifFile(), io.BytesIO()
    for image in images:
        made.add_from_pillow(image)
    made.save(out, quality=-1, **options)
    return out.getvalue()


def decoded(stored: StoredImage | bytes) -> np.ndarray:
    data = stored if isinstance(stored, bytes) else stored.encoded
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def shown(data: bytes) -> np.ndarray:
    """As pillow-heif itself shows it."""
    image = heif.open_heif(data).to_pillow()
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.promise(31)
@pytest.mark.parametrize(("mode", "changes"), [("RGB", ["heif"]), ("L", ["heif"]), ("RGBA", ["heif", "alpha"])])
def test_it_is_stored_as_jpeg(mode: str, changes: list[str]) -> None:
    image = picture(mode)
    if mode == "RGBA":
        image.putalpha(Image.new("L", image.size, 128))
    data = encode(image)
    stored = store_image(data, ImageOptions())
    assert (stored.format, stored.height, stored.width) == (b"jpeg", HEIGHT, WIDTH)
    assert list(stored.changes) == changes
    assert heif.options.DECODE_THREADS == 1  # a worker has one core
    assert np.abs(decoded(stored) - shown(data)).mean() < 2
    raw = store_image(data, ImageOptions(encode="raw"))
    np.testing.assert_array_equal(np.frombuffer(raw.encoded, np.uint8).reshape(HEIGHT, WIDTH, 3), shown(data))


@pytest.mark.promise(32)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_turned_once(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    data = encode(picture(), exif=exif.tobytes())
    stored = store_image(data, ImageOptions())
    found, expected = decoded(stored), shown(data)
    assert found.shape == expected.shape == ((HEIGHT, WIDTH, 3) if orientation < 5 else (WIDTH, HEIGHT, 3))
    assert np.abs(found - expected).mean() < 2
    turned = np.asarray(upright(picture(), orientation)).astype(int)
    assert np.abs(found - turned).mean() < 6, "which is how EXIF means it"


@pytest.mark.promise(31)
def test_ten_bits_become_eight() -> None:
    pixels = (np.asarray(picture()).astype(np.uint16) * 257).tobytes()
    made, out = heif.from_bytes("RGB;16", (WIDTH, HEIGHT), pixels), io.BytesIO()
    made.save(out, quality=-1)
    stored = store_image(out.getvalue(), ImageOptions())
    assert list(stored.changes) == ["heif", "16-bit"]
    assert np.abs(decoded(stored) - np.asarray(picture()).astype(int)).mean() < 6


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (lambda: encode(picture())[:-20], RejectCode.TRUNCATED),
        (lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", RejectCode.CORRUPT),
        (lambda: encode(picture(), picture()), RejectCode.ANIMATED),
    ],
    ids=["cut", "nothing in it", "two images"],
)
def test_what_cannot_be_read_is_refused(data: Callable[[], bytes], code: RejectCode) -> None:
    with pytest.raises(RejectedError) as caught:
        store_image(data(), ImageOptions())
    assert caught.value.code is code, caught.value.reason


@pytest.mark.promise(34)
def test_a_large_one_is_refused_by_its_header() -> None:
    with pytest.raises(RejectedError) as caught:
        store_image(encode(picture()), ImageOptions(max_pixels=WIDTH * HEIGHT - 1))
    assert caught.value.code is RejectCode.TOO_LARGE


FILE = encode(picture())


@given(st.data())
def test_damage_is_refused_or_gives_an_image(data: st.DataObject) -> None:
    damaged = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(FILE) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        store_image(bytes(damaged), ImageOptions())
    except RejectedError:
        pass


@pytest.mark.parametrize("there", [True, False])
def test_the_extra_is_named_where_it_is_missing(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/IMG_0001.HEIC").write_bytes(encode(picture()))
    source = open_source(tmp_path / "in", options=LabelOptions(unlabelled=True))
    if there:
        convert(source, tmp_path / "out", workers=OwnEngine(1))
        (record,) = shardfeed.open(tmp_path / "out")["train"]
        assert decoded(bytes(record[ENCODED])).shape == (HEIGHT, WIDTH, 3)  # type: ignore[arg-type]
        return
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(TooManyRejectedError) as caught:
        convert(source, tmp_path / "out", workers=OwnEngine(1))
    (one,) = caught.value.rejected
    assert (one.what, "pip install 'shardfeed[heic]'" in one.why) == ("E_UNSUPPORTED", True)
