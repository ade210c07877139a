"""JPEGs damaged in ten ways, each aimed at one part of the file; every damage changes its file."""

import random
from collections.abc import Callable
from contextlib import suppress

import simplejpeg
from seekable_images import several_jpegs

from shardfeed.formats.jpeg_markers import DHT, DQT, DRI, EOI, FRAMES, SOS, MarkerError, header_segments, scan_markers

Damage = Callable[[bytearray, random.Random], None]

_MOST_PIXELS = 1_000_000  # that a damaged header may declare: the tests fill the memory of each
_START, _LENGTH = 2, 4  # bytes: of the file's first marker, of a marker and the length behind it


def damaged_jpeg(kind: str, rng: random.Random) -> bytes:
    """A damaged JPEG, half of the time also with a scan header that decoders warn about."""
    while True:
        whole = rng.choice(_WHOLE)
        data = bytearray(whole)
        if rng.random() < 0.5:
            _warn(data)
        before = bytes(data)
        DAMAGES[kind](data, rng)
        if bytes(data) not in (before, whole) and _declared(data) <= _MOST_PIXELS:
            return bytes(data)


def warned_then_fatal(data: bytes) -> bytes:
    """The sequential JPEG with a scan header that is a warning, and then Huffman tables too full to be one."""
    broken = bytearray(data)
    for _, start, _ in _segments(data, {DHT}):
        counts = broken[start + _LENGTH + 1 : start + _LENGTH + 17]
        most = counts.index(max(counts))
        counts[most], counts[0] = counts[most] - 3, counts[0] + 3
        broken[start + _LENGTH + 1 : start + _LENGTH + 17] = counts
    _warn(broken)
    return bytes(broken)


def _warn(data: bytearray) -> None:
    """Let the scan end with coefficient 127, of 63: a warning where the file is sequential, else fatal."""
    data[_segments(data, {SOS})[0][2] - 2] = 127


def _declared(data: bytes | bytearray) -> int:
    """Pixels by the header; 0 if decoders refuse it."""
    with suppress(ValueError, KeyError):
        height, width, *_ = simplejpeg.decode_jpeg_header(data, strict=False)
        return int(height) * int(width)
    return 0


def _segments(data: bytes | bytearray, markers: set[int] | frozenset[int] | None = None) -> list[tuple[int, int, int]]:
    """(marker, start, end) of the header's segments with these markers, or of all."""
    found = header_segments(bytes(data))
    return [segment for segment in found if markers is None or segment[0] in markers]


def _scan(data: bytearray) -> int:
    return _segments(data)[-1][2]


def _change(data: bytearray, start: int, end: int, rng: random.Random) -> None:
    at = rng.randrange(start, end)
    data[at] = rng.choice([0, 255, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])


def _bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 2, 5])):
        data[rng.randrange(_START, len(data))] ^= 1 << rng.randrange(8)


def _header(data: bytearray, rng: random.Random) -> None:
    """Size, precision, components and their sampling, in the frame header."""
    _, start, end = _segments(data, FRAMES)[0]
    _change(data, start + _LENGTH, end, rng)


def _markers(data: bytearray, rng: random.Random) -> None:
    """Another marker or length of a segment, or a marker in the image data."""
    if rng.random() < 0.6:
        _, start, _ = rng.choice(_segments(data))
        _change(data, start, start + _LENGTH, rng)
    else:
        at = rng.randrange(_scan(data), len(data))
        data[at:at] = bytes([0xFF, rng.choice([*range(0xC0, 0x100), 1])]) + rng.randbytes(rng.choice([0, 0, 6]))


def _huffman(data: bytearray, rng: random.Random) -> None:
    """Counts of codes by length, mostly moved so that their number stays, or symbols."""
    _, start, end = rng.choice(_segments(data, {DHT}))
    counts = start + _LENGTH + 1
    fuller, emptier = rng.sample(range(16), 2)
    if rng.random() < 0.6 and data[counts + emptier]:
        moved = rng.randint(1, data[counts + emptier])
        data[counts + emptier] -= moved
        data[counts + fuller] = min(255, data[counts + fuller] + moved)
    else:
        _change(data, start + _LENGTH, end, rng)


def _quantisation(data: bytearray, rng: random.Random) -> None:
    _, start, end = rng.choice(_segments(data, {DQT}))
    for _ in range(rng.choice([1, 1, 4])):
        _change(data, start + _LENGTH, end, rng)


def _cut(data: bytearray, rng: random.Random) -> None:
    """The end is missing, or some of the middle."""
    at = rng.randrange(_START, len(data))
    end = rng.choice([len(data), len(data) - 2, min(len(data), at + rng.randint(1, 2000))])
    del data[at : max(at, end)]


def _moved(data: bytearray, rng: random.Random) -> None:
    """A segment, with its marker, is missing, twice, of another file, or elsewhere; or a part of the image data is."""
    other = rng.choice(_WHOLE) if rng.random() < 0.3 else bytes(data)
    _, start, end = rng.choice(_segments(other))
    piece = other[start:end]
    if rng.random() < 0.3:
        start = rng.randrange(_scan(data), len(data))
        end = min(len(data), start + rng.randint(1, 500))
        piece = bytes(data[start:end])
    if other == data and rng.random() < 0.5:
        del data[start:end]
    if rng.random() < 0.7:
        into = rng.choice([*(start for _, start, _ in _whole_segments(data)), rng.randrange(_START, len(data))])
        data[into:into] = piece


def _whole_segments(data: bytearray) -> list[tuple[int, int, int]]:
    try:
        return _segments(data)
    except MarkerError:
        return []


def _restarts(data: bytearray, rng: random.Random) -> None:
    """Restart markers: other, missing, twice or new ones, or another interval."""
    at = _scan(data)
    found = [end for marker, end in scan_markers(bytes(data), at) if 0xD0 <= marker <= 0xD7]
    kind = rng.randrange(5)
    if found and kind < 3:
        end = rng.choice(found)
        data[end - 2 : end] = [b"", bytes(data[end - 2 : end]) * 2, bytes([0xFF, rng.randint(0xD0, 0xD7)])][kind]
    elif kind == 3 and (intervals := _segments(data, {DRI})):
        _, start, end = intervals[0]
        _change(data, start + _LENGTH, end, rng)
    elif kind == 4:
        start = _segments(data, {SOS})[0][1]
        data[start:start] = bytes([0xFF, DRI, 0, 4, 0, rng.randint(1, 40)])
    else:
        at = rng.randrange(at, len(data))
        data[at:at] = bytes([0xFF, rng.randint(0xD0, 0xD7)])


def _scans(data: bytearray, rng: random.Random) -> None:
    """First and last coefficient, bits, components or tables, in the header of a scan: any of a progressive file's."""
    starts = [end for marker, end in scan_markers(bytes(data), _START) if marker == SOS]
    start = rng.choice(starts)
    end = start + int.from_bytes(data[start : start + 2], "big")
    _change(data, rng.choice([start + 2, end - 3]), end, rng)


def _codes(data: bytearray, rng: random.Random) -> None:
    """Garbage in the image data."""
    at = rng.randrange(_scan(data), len(data))
    size = rng.choice([1, 4, 40, 400])
    garbage = rng.choice([bytes(size), b"\xff" * size, b"\xff\0" * size, rng.randbytes(size)])
    data[at : at + (size if rng.random() < 0.7 else 0)] = garbage
    if rng.random() < 0.5:
        data += bytes([0xFF, EOI])


DAMAGES: dict[str, Damage] = {
    "bits": _bits,
    "frame headers": _header,
    "markers": _markers,
    "Huffman tables": _huffman,
    "quantisation tables": _quantisation,
    "cut": _cut,
    "moved segments": _moved,
    "restart markers": _restarts,
    "scan headers": _scans,
    "image data": _codes,
}
_WHOLE = several_jpegs(7)
