"""The markers of a JPEG file (ITU-T T.81, annex B): a walk over its header, and one over its image data."""

import re
from collections.abc import Iterator

# T.81 table B.1. C4, C8, CC are no frames: Huffman tables, reserved, arithmetic conditioning.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
RESTARTS = frozenset(range(0xD0, 0xD8))
DHT, DAC, SOI, EOI, SOS, DQT, DNL, DRI, COM = 0xC4, 0xCC, 0xD8, 0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xFE
APPS = range(0xE0, 0xF0)

_TEM = 0x01
_ALONE = RESTARTS | {_TEM}  # markers without a segment
# Inside image data 0xFF is followed by 0, or begins a marker. Several 0xFF may precede a marker; a pattern for that is
# twenty times slower than this one.
_NEXT_MARKER = re.compile(rb"\xff[^\x00]")


SIGNATURE = b"\xff\xd8\xff"
_USUAL_FRAMES = (0xC0, 0xC1, 0xC2)  # sequential or progressive, Huffman coded: what all decoders read


class MarkerError(ValueError):
    """A required marker is missing, or its segment is invalid; `cut`: because the file ends before it."""

    def __init__(self, problem: str, *, cut: bool = False) -> None:
        super().__init__(problem)
        self.cut = cut


def header_segments(data: bytes | memoryview) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of each segment, up to and including the header of the first scan.

    The content of a segment is the bytes `start + 4` to `end`. `data` begins with 0xFFD8. Raises MarkerError.
    """
    at, size = 2, len(data)
    while True:
        if at + 4 > size:
            raise MarkerError(f"JPEG ends in its header, at byte {size}", cut=True)
        if data[at] != 0xFF:
            raise MarkerError(f"JPEG has stray bytes at byte {at}, expected a marker")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == EOI:
            raise MarkerError(f"JPEG ends before any image data, at byte {at}", cut=True)
        if marker < 0xC0 or 0xD0 <= marker <= SOI:  # restarts and the start: compared, as this is on a hot path
            raise MarkerError(f"JPEG has marker 0x{marker:02x} in its header, at byte {at}")
        end = at + 2 + (data[at + 2] << 8 | data[at + 3])
        if end < at + 4:
            raise MarkerError(f"JPEG has a segment of length {end - at - 2}, at byte {at}")
        if end > size:
            raise MarkerError(f"JPEG ends in its header, at byte {size}", cut=True)
        yield marker, at, end
        if marker == SOS:
            return
        at = end


def is_whole(data: bytes) -> bool:
    """Whether `data` is a JPEG of 8 bits with a header that decoders read, and ends with its end marker.

    Image data is not checked, and a file with bytes after its end is not accepted.
    """
    if not (data.startswith(SIGNATURE) and data.endswith(b"\xff\xd9")):
        return False
    framed = False
    try:
        for marker, start, end in header_segments(data):
            if marker in FRAMES:
                framed = marker in _USUAL_FRAMES and end >= start + 10 and data[start + 4] == 8
    except MarkerError:
        return False
    return framed


def scan_markers(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Find markers from byte `at` on, outside of segments: (marker, offset of the byte after it).

    `at` is in image data, or at the start of a segment. The end marker is the last one; without one, all markers until
    the end of the bytes.
    """
    while match := _NEXT_MARKER.search(data, at):
        at = match.end()
        marker = data[at - 1]
        if marker == 0xFF:
            at -= 1
            continue
        yield marker, at
        if marker == EOI:
            return
        if marker not in _ALONE:
            at += int.from_bytes(data[at : at + 2], "big")
