import io

import pytest
from PIL import Image

from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image, image_kind
from shardfeed.converters.rejects import RejectCode, RejectedError


def code(data: bytes) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        image_kind(data)
    return caught.value.code


@pytest.mark.promise(31)
@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "AVIF", "MPO", "JPEG2000", "PPM"])
def test_every_format_by_content(name: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, format=name)
    assert image_kind(file.getvalue()) == {"MPO": "jpeg", "PPM": "pnm"}.get(name, name.lower())


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
        b"\0\0\x01\0\x01\0\x10\x10\0\0",
        b"\xff\x0a\0",
        b"P7\nWIDTH 4\n",
        bytes(50) + b"TRUEVISION-XFILE.\0",
    ],
)
def test_known_and_not_handled(data: bytes) -> None:
    assert code(data) is RejectCode.UNSUPPORTED


@pytest.mark.promise(31)
def test_an_image_sequence_is_animated() -> None:
    assert code(b"\0\0\0\x18ftypavis\0\0\0\0avifavis") is RejectCode.ANIMATED


def test_avif_and_heif_by_a_compatible_brand() -> None:
    assert image_kind(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif") == "avif"
    assert image_kind(b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic") == "heif"


@pytest.mark.parametrize("start", [b"\xff\xd8", b"\x89PN", b"\x89PNG\r\n\x1a"])
def test_cut_within_the_signature(start: bytes) -> None:
    assert code(start) is RejectCode.TRUNCATED


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "AVIF", "JPEG2000", "PPM", "ICO"])
def test_an_image_is_told_by_its_first_bytes(name: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (300, 300), "red").save(file, format=name)
    assert begins_as_image(file.getvalue()[:HEAD_BYTES])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"x",
        b"\xff\xd8",
        b"P6 or P5, who knows?",
        b"P7 is a paragraph",
        b"\0\0\1\0\0\0\0\x07\0\x01",  # a table of 32-bit numbers
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\0\0\0\x18ftypmp42\0\0\0\0isommp42",
        b"PK\3\4",
        b"{}",
    ],
)
def test_what_does_not_begin_as_an_image(head: bytes) -> None:
    assert not begins_as_image(head)


def test_a_sequence_begins_as_an_image_and_is_refused_as_one_later() -> None:
    assert begins_as_image(b"\0\0\0\x18ftypavis\0\0\0\0avifavis")
