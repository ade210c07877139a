"""Check the sizes and frames that GIF, WebP, AVIF and JPEG 2000 files declare, before decoding them.

Pillow may allocate a WebP's canvas when it opens the file, answers "how many frames?" by walking them, and calls an
AVIF that is too large corrupt.
"""

from shardfeed.converters.images.sniff import CODESTREAM_SIGNATURE
from shardfeed.converters.rejects import RejectCode, RejectedError, check_size


def check_gif(data: bytes, max_pixels: int) -> None:
    """Raise RejectedError if a GIF is too large, animated or truncated. Walk to the second frame or the trailer."""
    cut = RejectedError(RejectCode.TRUNCATED, f"GIF ends before its trailer, at byte {len(data)}")
    if len(data) < 13:
        raise cut
    check_size(int.from_bytes(data[8:10], "little"), int.from_bytes(data[6:8], "little"), max_pixels)
    at = 13 + _color_table_bytes(data[10])
    frames = 0
    while True:
        if at >= len(data):
            raise cut
        block = data[at]
        if block == 0x3B:  # trailer
            if not frames:
                raise RejectedError(RejectCode.CORRUPT, "GIF has no image in it")
            return
        if block == 0x2C:  # image descriptor, color table, LZW code size, sub-blocks
            frames += 1
            if frames > 1:
                raise RejectedError(RejectCode.ANIMATED, "GIF with more than one frame")
            if at + 11 > len(data):
                raise cut
            at += 11 + _color_table_bytes(data[at + 9])
        elif block == 0x21:  # extension, label, sub-blocks
            at += 2
        else:
            raise RejectedError(RejectCode.CORRUPT, f"GIF has an unknown block 0x{block:02x} at byte {at}")
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1


def _color_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def check_webp(data: bytes, max_pixels: int) -> bool:
    """Whether a still WebP is lossy. Raises RejectedError when it is too large, animated or cut."""
    lossy: bool | None = None
    frames = 0
    at = 12
    while lossy is None and at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 18]
        if name == b"VP8X":
            check_size(int.from_bytes(body[7:10], "little") + 1, int.from_bytes(body[4:7], "little") + 1, max_pixels)
        elif name == b"VP8 ":
            lossy = True  # 14 bits each for height and width; the other two bits request enlarging
            height, width = int.from_bytes(body[8:10], "little"), int.from_bytes(body[6:8], "little")
            check_size(height & 0x3FFF, width & 0x3FFF, max_pixels)
        elif name == b"VP8L":
            lossy = False
            bits = int.from_bytes(body[1:5], "little")
            check_size((bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1, max_pixels)
        elif name == b"ANMF":
            frames += 1
            if frames > 1:
                raise RejectedError(RejectCode.ANIMATED, "WebP with more than one frame")
        at += 8 + size + size % 2
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        raise RejectedError(RejectCode.TRUNCATED, f"WebP ends before its declared size, at byte {len(data)}")
    if lossy is None and not frames:
        raise RejectedError(RejectCode.CORRUPT, "WebP has no image in it")
    return bool(lossy)


def check_avif(data: bytes, max_pixels: int) -> None:
    """Raise RejectedError if any image of an AVIF file declares too many pixels (ISO/IEC 23008-12, ispe)."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"meta":
            for declared in data[at : at + size].split(b"ispe")[1:]:  # then version, flags, width, height
                width, height = int.from_bytes(declared[4:8], "big"), int.from_bytes(declared[8:12], "big")
                check_size(height, width, max_pixels)
        if size < 8:  # 0: to the end of the file, 1: more than 4 GiB
            return
        at += size


_COD, _SOT, _EOC = b"\xff\x52", b"\xff\x90", b"\xff\xd9"
_MOST_COMPONENTS = 4  # more are no picture, and each takes the memory of one


def check_jpeg2000(data: bytes, max_pixels: int) -> bool:
    """Whether a JPEG 2000 is lossy. Raises RejectedError if its codestream is too large or truncated.

    `data`: a JP2 file or a bare codestream. The end marker is required, because the decoder fills in the missing part
    of a truncated file.
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
        raise RejectedError(RejectCode.CORRUPT, f"JPEG 2000 declares {height} x {width} pixels")
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
