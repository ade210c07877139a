import io
import struct

import pytest
from PIL import Image

from shardfeed.converters.images.jpeg import (
    MAX_SCANS,
    JpegHeader,
    check_end_marker,
    check_scans,
    read_jpeg_header,
    without_metadata,
)
from shardfeed.converters.rejects import MAX_METADATA_BYTES, MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes, waves


def jpeg(image: Image.Image | None = None, **options: object) -> bytes:
    return image_bytes(image or waves(), "JPEG", **{"quality": 92, **options})


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def with_segments(data: bytes, *segments: bytes) -> bytes:
    return data[:2] + b"".join(segments) + data[2:]


def read(data: bytes) -> JpegHeader:
    return read_jpeg_header(data, MAX_PIXELS)


def refused(data: bytes) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        check_scans(data, read(data))
    return caught.value.code


VARIANTS = {
    "4:2:0": jpeg(subsampling="4:2:0"),
    "4:2:2": jpeg(subsampling="4:2:2"),
    "4:4:4": jpeg(subsampling="4:4:4"),
    "gray": jpeg(waves("L")),
    "progressive": jpeg(progressive=True),
    "restarts": jpeg(restart_marker_blocks=3),
    "progressive restarts": jpeg(progressive=True, restart_marker_blocks=3),
    "optimized": jpeg(optimize=True),
    "RGB": jpeg(keep_rgb=True),
    "CMYK": jpeg(waves("CMYK")),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_header_of_every_variant(name: str) -> None:
    data = VARIANTS[name]
    header = read(data)
    assert (header.height, header.width, header.bits) == (45, 70, 8)
    assert header.process == (2 if "progressive" in name else 0)
    assert header.components == {"gray": 1, "CMYK": 4}.get(name, 3)
    assert header.color == (name if name in ("gray", "CMYK", "RGB") else "YCbCr")
    assert header.half_chroma == (name not in ("4:2:2", "4:4:4", "gray", "RGB", "CMYK"))
    assert header.adobe == (name in ("CMYK", "RGB"))
    assert (header.restart_interval > 0) == ("restarts" in name)
    assert (header.orientation, header.exif_problem) == (1, None)
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (header.width, header.height)
    check_end_marker(data, header)
    check_scans(data, header)


def adobe(transform: int) -> bytes:
    return segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))


@pytest.mark.promise(31)
def test_colors_are_understood_as_libjpeg_does() -> None:
    ycbcr, cmyk = VARIANTS["4:4:4"], VARIANTS["CMYK"]
    bare = ycbcr[:2] + ycbcr[20:]  # without the JFIF marker
    assert ycbcr[2:4] == b"\xff\xe0"
    assert bare[2:4] == b"\xff\xdb"
    assert read(with_segments(bare, adobe(0))).color == "RGB"
    assert read(with_segments(bare, adobe(1))).color == "YCbCr"
    assert read(with_segments(ycbcr, adobe(0))).color == "YCbCr", "JFIF comes before Adobe"
    frame = bare.index(b"\xff\xc0")
    assert bare[frame + 10 : frame + 19 : 3] == b"\1\2\3"
    named = bytearray(bare)
    named[frame + 10 : frame + 19 : 3] = b"RGB"
    assert read(bytes(named)).color == "RGB"
    at = cmyk.index(b"Adobe")
    assert cmyk[at + 11] == 0
    assert read(cmyk[: at + 11] + b"\2" + cmyk[at + 12 :]).color == "YCCK"


@pytest.mark.promise(32)
def test_exif_is_read_and_broken_exif_reported() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert read(jpeg(exif=exif)).orientation == 6
    header = read(with_segments(jpeg(), segment(0xE1, b"Exif\0\0nonsense")))
    assert header.orientation == 1
    assert header.exif_problem


@pytest.mark.promise(33)
@pytest.mark.parametrize("name", ["4:2:0", "progressive"])
def test_cut_anywhere(name: str) -> None:
    data = VARIANTS[name]
    for size in range(3, len(data)):
        with pytest.raises(RejectedError) as caught:
            check_end_marker(data[:size], read(data[:size]))
        assert caught.value.code is RejectCode.TRUNCATED, size


def test_bytes_after_the_end_are_no_fault() -> None:
    data = jpeg()
    for tail in (b"\0" * 100, jpeg(), b"SEFT"):
        check_end_marker(data + tail, read(data + tail))
        check_scans(data + tail, read(data + tail))


def test_a_thumbnails_end_marker_does_not_count() -> None:
    data = with_segments(jpeg(), segment(0xE1, b"Exif\0\0" + jpeg(waves(height=8, width=8))))[:-2]
    with pytest.raises(RejectedError, match="no end marker"):
        check_end_marker(data, read(data))


def test_metadata_is_taken_away_and_nothing_else() -> None:
    plain = VARIANTS["CMYK"]
    noisy = with_segments(plain, segment(0xE1, b"Exif\0\0x"), segment(0xE2, b"MPF\0x"), segment(0xFE, b"a comment"))
    assert without_metadata(noisy, read(noisy)) == plain
    assert b"Adobe" in plain, "the colors depend on it"
    assert without_metadata(plain, read(plain)) is plain


@pytest.mark.promise(34)
def test_metadata_has_a_limit() -> None:
    one = segment(0xE1, bytes(65_533))
    count = MAX_METADATA_BYTES // len(one)
    read(with_segments(jpeg(), one * count))
    with pytest.raises(RejectedError) as caught:
        read(with_segments(jpeg(), one * (count + 1)))
    assert caught.value.code is RejectCode.TOO_LARGE


@pytest.mark.promise(34)
def test_too_many_pixels_are_refused_at_the_frame_header() -> None:
    data = jpeg()
    at = data.index(b"\xff\xc0") + 5
    huge = data[:at] + struct.pack(">HH", 30_000, 30_000) + data[at + 4 :]
    for cut in (huge, huge[: at + 20]):
        with pytest.raises(RejectedError) as caught:
            read(cut)
        assert caught.value.code is RejectCode.TOO_LARGE


@pytest.mark.promise(33)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d[:2] + b"\0\0" + d[2:], RejectCode.CORRUPT),  # stray bytes
        (lambda d: d[:2] + b"\xff\x01" + d[2:], RejectCode.CORRUPT),  # a marker that has no place there
        (lambda d: d[:2] + b"\xff\xe1\0\1" + d[2:], RejectCode.CORRUPT),  # a length that cannot be
        (lambda d: d[:2] + b"\xff\xd9" + d[2:], RejectCode.TRUNCATED),  # an end before the image
        (lambda d: d[:2] + d[d.index(b"\xff\xda") :], RejectCode.CORRUPT),  # no frame header
        (lambda d: with_segments(d, d[d.index(b"\xff\xc0") :][:19]), RejectCode.CORRUPT),  # two
        (lambda d: d.replace(struct.pack(">HH", 45, 70), bytes(4)), RejectCode.CORRUPT),  # no pixels
    ],
)
def test_broken_headers(change, code: RejectCode) -> None:
    data = change(jpeg())
    assert data != jpeg()
    with pytest.raises(RejectedError) as caught:
        read(data)
    assert caught.value.code is code


def test_fill_bytes_before_markers_are_legal() -> None:
    data = jpeg()
    padded = data[:2] + b"\xff\xff" + data[2:-2] + b"\xff\xff" + data[-2:]
    check_scans(padded, read(padded))
    assert read(padded).height == 45


@pytest.mark.promise(33)
def test_foreign_markers_in_image_data() -> None:
    data = VARIANTS["4:2:0"]
    middle = (read(data).scan + len(data)) // 2
    assert refused(data[:middle] + b"\xff\x05" + data[middle:]) is RejectCode.CORRUPT
    assert refused(data[:middle] + b"\xff\xd0" + data[middle:]) is RejectCode.CORRUPT, "restart without an interval"
    assert refused(data[:-2]) is RejectCode.TRUNCATED


@pytest.mark.promise(33)
def test_restart_markers_out_of_order() -> None:
    data = VARIANTS["restarts"]
    second = data.index(b"\xff\xd1", read(data).scan)
    assert refused(data[:second] + b"\xff\xd4" + data[second + 2 :]) is RejectCode.CORRUPT
    assert refused(data[:second] + data[second + 2 :]) is RejectCode.CORRUPT


@pytest.mark.promise(34)
def test_scans_have_a_limit() -> None:
    data = VARIANTS["progressive"]
    start = data.rindex(b"\xff\xda")
    last_scan = data[start:-2]
    many = data[:-2] + last_scan * MAX_SCANS + data[-2:]
    assert refused(many) is RejectCode.TOO_LARGE
