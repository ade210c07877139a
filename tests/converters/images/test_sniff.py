import io

import pytest
from PIL import Image

from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.rejects import RejectCode, RejectedError


def code(data: bytes) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        image_kind(data)
    return caught.value.code


@pytest.mark.promise(31)
@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "AVIF", "MPO"])
def test_every_format_by_content(name: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, format=name)
    assert image_kind(file.getvalue()) == {"MPO": "jpeg"}.get(name, name.lower())


@pytest.mark.parametrize("start", [b"MM\0*\0\0\0\x08", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0"])
def test_the_other_tiffs(start: bytes) -> None:
    assert image_kind(start) == "tiff"


@pytest.mark.promise(30)
@pytest.mark.parametrize(
    "data",
    [
        b"plain text\n",
        b"<!DOCTYPE html><html><body>404</body></html>",
        b'{"error": "rate limit"}',
        b"\0\0\0\x01Bud1\0\0\x10\0",  # .DS_Store
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",  # Thumbs.db
        b"\0\x05\x16\x07\0\x02\0\0Mac OS X",  # ._name.jpg
        b"%PDF-1.7\n",
        b"BMW is a brand, and this is no bitmap",
        b"\0\0\0\x18ftypmp42\0\0\0\0isommp42",
        b"RIFF\x24\0\0\0WAVEfmt ",
        b"x",
        b"\n\xff\xd8\xff\xe0",
    ],
)
def test_what_is_no_image(data: bytes) -> None:
    assert code(data) is RejectCode.NOT_IMAGE


@pytest.mark.promise(30)
def test_no_bytes() -> None:
    assert code(b"") is RejectCode.EMPTY


@pytest.mark.promise(31)
@pytest.mark.parametrize(
    "data",
    [
        b"8BPS\0\x01",
        b"\0\0\x01\0\x01\0",
        b"\0\0\0\x0cjP  \r\n\x87\n",
        b"\xff\x0a\0",
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        b"P6\n4 4\n255\n",
    ],
)
def test_known_and_not_handled(data: bytes) -> None:
    assert code(data) is RejectCode.UNSUPPORTED


@pytest.mark.promise(31)
def test_an_image_sequence_is_animated() -> None:
    assert code(b"\0\0\0\x18ftypavis\0\0\0\0avifavis") is RejectCode.ANIMATED


def test_avif_by_a_compatible_brand() -> None:
    assert image_kind(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif") == "avif"


@pytest.mark.parametrize("start", [b"\xff\xd8", b"\x89PN", b"\x89PNG\r\n\x1a"])
def test_cut_within_the_signature(start: bytes) -> None:
    assert code(start) is RejectCode.TRUNCATED
