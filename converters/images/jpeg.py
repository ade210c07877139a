"""Check a JPEG file by the bytes before its image data, without a decoder (ITU-T T.81, annex B).

Reading these bytes takes a fifth of the time of opening the file with a decoder, and gives two facts that a decoder
does not: the meaning of the colors, and which segments are metadata.
"""

from typing import Literal, NamedTuple

import numpy as np
import simplejpeg

from shardfeed.converters.images.exif import read_orientation
from shardfeed.converters.rejects import RejectCode, RejectedError, check_metadata, check_size
from shardfeed.formats.jpeg_markers import (
    APPS,
    COM,
    DAC,
    DHT,
    DNL,
    DQT,
    DRI,
    EOI,
    FRAMES,
    RESTARTS,
    SOS,
    MarkerError,
    header_segments,
    scan_markers,
)
from shardfeed.native import is_whole

# Warnings of libjpeg (jerror.h) after which pixels are missing or made up. After the others all pixels may be there:
# webcams leave bytes over before markers, old encoders write odd versions into their headers.
_DAMAGE = {
    "Premature end of JPEG file": RejectCode.TRUNCATED,
    "Corrupt JPEG data: premature end of data segment": RejectCode.CORRUPT,
    "Corrupt JPEG data: bad Huffman code": RejectCode.CORRUPT,
    "Corrupt JPEG data: found marker": RejectCode.CORRUPT,
}
_JFIF = slice(6, 11)  # position of its name if it is the first segment, as it should be; its version follows
_ODD_JFIF = "Warning: unknown JFIF revision"


def first_warning(data: bytes) -> str | None:
    """Return None if every bit was decoded without a warning, else libjpeg's first warning; the rest was not read.

    Another decoder must then decide. Raises RejectedError if the warning means that pixels are missing. `data` is a
    JPEG file of a gray or YCbCr image.
    """
    if is_whole(data):
        return None
    message = _first_words(data)
    if message is not None and message.startswith(_ODD_JFIF) and data[_JFIF] == b"JFIF\0":
        # It stopped before the image; with a known version it continues.
        return _first_words(data[: _JFIF.stop] + b"\x01\x01" + data[_JFIF.stop + 2 :]) or message
    return message


def clean_pixels(data: bytes, height: int, width: int, reduction: int, *, gray: bool) -> np.ndarray | None:
    """Pixels of a JPEG file for which `first_warning` is empty; None if it is not, or if memory is short.

    `height`, `width`: of the image. Its sides are divided by `reduction`, 1, 2, 4 or 8, and rounded up: uint8
    [height, width, 1], or [height, width, 4], red, green, blue, and a byte without meaning. Pillow makes the same of
    the file bit for bit, and takes longer.
    """
    try:
        return simplejpeg.decode_jpeg(
            data,
            "GRAY" if gray else "RGBX",
            min_height=-(-height // reduction),
            min_width=-(-width // reduction),
            min_factor=reduction,
        )
    except (ValueError, MemoryError):
        return None


def _first_words(data: bytes) -> str | None:
    try:
        # Gray, at an eighth of the size: every bit is read, and the transform and the colors, which cannot fail, are
        # mostly left out. Two thirds of the time of a full decode, the same verdicts.
        simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, min_factor=8)
    except ValueError as error:
        message = str(error)
        for beginning, code in _DAMAGE.items():
            if message.startswith(beginning):
                raise RejectedError(code, f"jpeg decoder: {message}") from error
        return message
    except MemoryError as error:
        raise RejectedError(RejectCode.TOO_LARGE, "jpeg decoder: not enough memory") from error
    return None


MAX_SCANS = 500  # a progressive file with thousands of tiny scans makes every decoder walk the image once for each

_APP0, _APP1, _APP14 = APPS[0], APPS[1], APPS[14]
_BETWEEN_SCANS = {DHT, DAC, DQT, DNL, DRI, COM, *APPS}

Color = Literal["gray", "YCbCr", "RGB", "CMYK", "YCCK"]


class JpegHeader(NamedTuple):
    """Header of the first image of a JPEG file.

    height, width: pixels, as stored (before `orientation` is applied). process: n of its SOFn marker: 0 baseline, 1
    extended, 2 progressive, others are rare. bits: per component. components: 1 to 255. color: how libjpeg and its
    users interpret them; None if they do not. adobe: whether it has an Adobe marker; CMYK values are inverted exactly
    then. half_chroma: 4:2:0, chroma of half the height and width. orientation: EXIF, 1..8; exif_problem: None or why it
    was read as 1. restart_interval: MCUs between restart markers, 0 for none. scan: offset in bytes of the first image
    data. metadata: (start, stop) of segments that no decoder needs.
    """

    height: int
    width: int
    process: int
    bits: int
    components: int
    color: Color | None
    adobe: bool
    half_chroma: bool
    orientation: int
    exif_problem: str | None
    restart_interval: int
    scan: int
    metadata: tuple[tuple[int, int], ...]


def read_jpeg_header(data: bytes, max_pixels: int) -> JpegHeader:
    """The header of a file that begins with 0xFFD8FF. Raises RejectedError: cut, corrupt, too large."""
    try:
        return _read_header(data, max_pixels)
    except MarkerError as error:
        raise RejectedError(RejectCode.TRUNCATED if error.cut else RejectCode.CORRUPT, str(error)) from None


def _read_header(data: bytes, max_pixels: int) -> JpegHeader:
    """Like `read_jpeg_header`, but let MarkerError through."""
    frame = b""
    height = width = process = restart_interval = 0
    transform: int | None = None
    jfif = False
    exif: bytes | None = None
    metadata: list[tuple[int, int]] = []
    metadata_bytes = 0
    after = 0
    for marker, at, after in header_segments(data):
        if marker == SOS:
            break
        if marker in FRAMES:
            if frame:
                raise RejectedError(RejectCode.CORRUPT, f"JPEG has a second frame header, at byte {at}")
            frame, process = data[at + 4 : after], marker - 0xC0
            if len(frame) < 9 or len(frame) != 6 + 3 * frame[5]:
                raise RejectedError(RejectCode.CORRUPT, f"JPEG has a frame header of a wrong length, at byte {at}")
            height, width = frame[1] << 8 | frame[2], frame[3] << 8 | frame[4]
            check_size(height, width, max_pixels)
        elif marker == DRI:
            restart_interval = int.from_bytes(data[at + 4 : after], "big")
        elif marker == _APP0 and data.startswith(b"JFIF\0", at + 4):
            jfif = True
        elif marker == _APP14 and data.startswith(b"Adobe", at + 4) and after - at >= 16:
            transform = data[at + 15]
        elif marker in APPS or marker == COM:
            if exif is None and marker == _APP1 and data.startswith(b"Exif\0", at + 4):
                exif = data[at + 10 : after]
            metadata.append((at, after))
            metadata_bytes += after - at
            check_metadata("JPEG", metadata_bytes)
    if not frame:
        raise RejectedError(RejectCode.CORRUPT, "JPEG has no frame header before its image data")
    if not height or not width:
        raise RejectedError(RejectCode.CORRUPT, f"JPEG declares {height} x {width} pixels")
    orientation, exif_problem = (1, None) if exif is None else read_orientation(exif)
    return JpegHeader(
        height,
        width,
        process,
        frame[0],
        frame[5],
        _color(frame[6::3], jfif, transform),
        transform is not None,
        frame[7::3] == b"\x22\x11\x11",
        orientation,
        exif_problem,
        restart_interval,
        after,
        tuple(metadata),
    )


def _color(ids: bytes, jfif: bool, transform: int | None) -> Color | None:
    """Color space as libjpeg decides it (default_decompress_parms), so that every decoder built on it agrees."""
    if len(ids) == 1:
        return "gray"
    if len(ids) == 3:
        if not jfif and (transform == 0 or (transform is None and ids == b"RGB")):
            return "RGB"
        return "YCbCr"
    if len(ids) == 4:
        return "CMYK" if not transform else "YCCK"
    return None


def without_metadata(data: bytes, header: JpegHeader) -> bytes:
    """The same image without the segments that no decoder needs, so that they cannot disturb a decoder."""
    if not header.metadata:
        return data
    parts: list[bytes] = []
    at = 0
    for start, stop in header.metadata:
        parts.append(data[at:start])
        at = stop
    return b"".join((*parts, data[at:]))


def check_end_marker(data: bytes, header: JpegHeader) -> None:
    """Raise RejectedError if no end marker follows the image data: the file is truncated."""
    # From the end, where it usually is; bytes may follow it (a second image, a camera's own data).
    if data.rfind(b"\xff\xd9", header.scan) < 0:
        raise RejectedError(RejectCode.TRUNCATED, "JPEG has no end marker")


def is_one_plain_scan(data: bytes, header: JpegHeader) -> bool:
    """Whether `check_scans` need not look at the file if a strict decoder, for which any marker is an end, is silent.

    One sequential scan of all components, no restart markers, and an end marker where the file ends. Of what
    `check_scans` refuses, only a restart marker between whole image data and another segment would be passed over.
    """
    count = header.components
    if header.process > 1 or header.restart_interval or count > 4 or data[-2:] != b"\xff\xd9" or data[-4] == 0xFF:
        return False
    return data.startswith(b"\xff\xda\0%c%c" % (6 + 2 * count, count), header.scan - 8 - 2 * count)


def check_scans(data: bytes, header: JpegHeader) -> None:
    """Raise RejectedError if the image data has a marker that no encoder writes there, or no end marker.

    A decoder fills the rest with gray there, and Pillow does not pass on that it warned.
    """
    scans, restarts, interval = 1, 0, header.restart_interval
    for marker, at in scan_markers(data, header.scan):
        if marker == EOI:
            return
        if marker in RESTARTS:
            if not interval or marker - 0xD0 != restarts % 8:
                raise RejectedError(RejectCode.CORRUPT, f"JPEG has a restart marker out of order, at byte {at - 2}")
            restarts += 1
        elif marker == SOS:
            scans, restarts = scans + 1, 0
            if scans > MAX_SCANS:
                raise RejectedError(RejectCode.TOO_LARGE, f"JPEG has more than {MAX_SCANS} scans")
        elif marker not in _BETWEEN_SCANS:
            raise RejectedError(RejectCode.CORRUPT, f"JPEG has marker 0x{marker:02x} in image data, at byte {at - 2}")
        elif marker == DRI:
            interval = int.from_bytes(data[at + 2 : at + 4], "big")
    raise RejectedError(RejectCode.TRUNCATED, "JPEG has no end marker")
