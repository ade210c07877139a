"""The walks over a JPEG's markers: the segments of its header, the markers in its image data."""

import pytest
from PIL import Image

from shardfeed.formats.jpeg_markers import DQT, EOI, FRAMES, RESTARTS, SOS, MarkerError, header_segments, scan_markers

from pictures import image_bytes


def jpeg(**options: object) -> bytes:
    return image_bytes(Image.effect_noise((64, 48), 50), "JPEG", **options)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}, {"comment": b"x" * 999}])
def test_the_segments_fill_the_header(options: dict[str, object]) -> None:
    data = jpeg(**options)
    segments = list(header_segments(data))
    assert segments[0][1] == 2
    assert [end for _, _, end in segments[:-1]] == [start for _, start, _ in segments[1:]]
    assert all(data[start : start + 2] == bytes([0xFF, marker]) for marker, start, _ in segments)
    markers = [marker for marker, *_ in segments]
    assert markers[-1] == SOS
    assert markers.count(SOS) == sum(marker in FRAMES for marker in markers) == 1
    assert DQT in markers


def test_several_fill_bytes_before_a_marker() -> None:
    data = jpeg()
    filled = data[:2] + b"\xff\xff" + data[2:]
    assert [marker for marker, *_ in header_segments(filled)] == [marker for marker, *_ in header_segments(data)]


def test_the_markers_in_image_data() -> None:
    for options, scans, restarts in (({}, 0, 0), ({"progressive": True}, 5, 0), ({"restart_marker_blocks": 2}, 0, 23)):
        data = jpeg(**options)
        *_, (_, _, scan) = header_segments(data)
        found = list(scan_markers(data, scan))
        assert all(data[at - 2 : at] == bytes([0xFF, marker]) for marker, at in found)
        markers = [marker for marker, _ in found]
        assert markers[-1] == EOI
        assert markers.count(EOI) == 1
        assert markers.count(SOS) == scans
        assert sum(marker in RESTARTS for marker in markers) == restarts
        # From the start of the file on, segments are passed over: a thumbnail's markers are not found.
        assert [m for m, _ in scan_markers(data, 2)] == [m for m, *_ in header_segments(data)] + markers


def test_a_cut_file_ends_without_a_word_in_its_image_data() -> None:
    data = jpeg()[:-2]
    assert EOI not in [marker for marker, _ in scan_markers(data, 2)]


@pytest.mark.parametrize(
    ("change", "cut", "problem"),
    [
        (lambda data: data[:100], True, "ends in its header, at byte 100"),
        (lambda data: data[:3], True, "ends in its header"),
        (lambda data: data[:2] + b"x" + data[2:], False, "stray bytes at byte 2"),
        (lambda data: data[:2] + b"\xff\xd9\0\0", True, "ends before any image data, at byte 2"),
        (lambda data: data[:2] + b"\xff\xd0\0\2" + data[2:], False, "marker 0xd0 in its header, at byte 2"),
        (lambda data: data[:2] + b"\xff\xd8\0\2" + data[2:], False, "marker 0xd8 in its header"),
        (lambda data: data[:2] + b"\xff\x01\0\2" + data[2:], False, "marker 0x01 in its header"),
        (lambda data: data[:2] + b"\xff\xe0\0\1" + data[2:], False, "a segment of length 1, at byte 2"),
    ],
)
def test_what_is_no_header(change: object, cut: bool, problem: str) -> None:
    with pytest.raises(MarkerError, match=problem) as caught:
        list(header_segments(change(jpeg())))  # type: ignore[operator]  # each is a function
    assert caught.value.cut is cut


def test_every_cut_ends() -> None:
    data = jpeg(progressive=True)
    for size in range(2, len(data), 7):
        assert len(list(scan_markers(data[:size], 2))) < size
