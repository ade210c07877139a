"""What a JPEG 2000 file declares, before any decoder is given it (ISO/IEC 15444-1, annexes A and I)."""

from shardfeed.converters.images.sniff import CODESTREAM_SIGNATURE
from shardfeed.converters.limits import check_size
from shardfeed.converters.rejects import RejectCode, RejectedError

_COD, _SOT, _EOC = b"\xff\x52", b"\xff\x90", b"\xff\xd9"
_MOST_COMPONENTS = 4  # more are no picture, and each takes the memory of one


def check_jpeg2000(data: bytes, max_pixels: int) -> bool:
    """Whether a JPEG 2000 is lossy. Raises RejectedError when its codestream is too large or cut.

    `data`: a JP2 file or a bare codestream. The decoder fills in what a cut file lacks: the end marker must be there.
    """
    start, stop = (0, len(data)) if data.startswith(CODESTREAM_SIGNATURE) else _codestream(data)
    if not data.startswith(CODESTREAM_SIGNATURE, start):
        raise RejectedError(RejectCode.CORRUPT, f"JPEG 2000 has no codestream at byte {start}")
    siz = data[start + 6 : start + 42]  # after the markers and the length
    if len(siz) < 36:
        raise RejectedError(RejectCode.TRUNCATED, f"JPEG 2000 ends in its header, at byte {len(data)}")
    right, bottom, left, top = (int.from_bytes(siz[at : at + 4], "big") for at in (2, 6, 10, 14))
    height, width = bottom - top, right - left
    if height < 1 or width < 1:
        raise RejectedError(RejectCode.CORRUPT, f"JPEG 2000 says it is {height} x {width} pixels")
    check_size(height, width, max_pixels)
    components = int.from_bytes(siz[34:36], "big")
    if components > _MOST_COMPONENTS:
        raise RejectedError(RejectCode.UNSUPPORTED, f"JPEG 2000 of {components} components")
    if stop > len(data) or data[start:stop].rstrip(b"\0")[-2:] != _EOC:
        raise RejectedError(RejectCode.TRUNCATED, f"JPEG 2000 ends before its end marker, at byte {len(data)}")
    return _is_lossy(data, start + 2)


def _codestream(data: bytes) -> tuple[int, int]:
    """(start, stop) in bytes of the first codestream of a JP2 file; `stop` may lie beyond a file that is cut."""
    at = 0
    while at + 8 <= len(data):
        size, head = int.from_bytes(data[at : at + 4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        stop = len(data) if size == 0 else at + size
        if data[at + 4 : at + 8] == b"jp2c":
            return at + head, stop
        if stop < at + head:
            raise RejectedError(RejectCode.CORRUPT, f"JPEG 2000 has a box of {size} bytes, at byte {at}")
        at = stop
    raise RejectedError(RejectCode.TRUNCATED, f"JPEG 2000 ends before its image, at byte {len(data)}")


def _is_lossy(data: bytes, at: int) -> bool:
    """Whether the wavelet is the one that rounds (9-7); `at`: the first marker after SOC."""
    while data[at : at + 1] == b"\xff" and data[at : at + 2] != _SOT:
        if data[at : at + 2] == _COD:
            return data[at + 13 : at + 14] == b"\0"
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return True
