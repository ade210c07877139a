"""Check a PNG file by its chunks, without a decoder (ISO/IEC 15948).

Every chunk carries a CRC, so one walk over them finds any change to any byte; decoders check only some.
"""

import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from shardfeed.converters.images.exif import read_orientation
from shardfeed.converters.rejects import RejectCode, RejectedError, check_metadata, check_size

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_INFLATED_BYTES = 1 << 20  # of one chunk: Pillow refuses to open an image that has more, so others would fail later

GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
_BITS = {GRAY: {1, 2, 4, 8, 16}, RGB: {8, 16}, PALETTE: {1, 2, 4, 8}, GRAY_ALPHA: {8, 16}, RGB_ALPHA: {8, 16}}
_PIXEL_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}

Crcs = Literal["all", "header", "none"]


class PngHeader(NamedTuple):
    """Header of a PNG file.

    height, width: pixels, as stored. bits: per channel. color_type: 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGBA.
    transparency: whether a palette entry or a color is declared transparent (tRNS). animated: more than one frame.
    orientation: EXIF, 1..8; exif_problem: None or why it was read as 1.
    pixel_chunks: (start, stop) in bytes of the chunks that a decoder needs.
    """

    height: int
    width: int
    bits: int
    color_type: int
    transparency: bool
    animated: bool
    orientation: int
    exif_problem: str | None
    pixel_chunks: tuple[tuple[int, int], ...]


def read_png_header(data: bytes, max_pixels: int, crcs: Crcs) -> PngHeader:
    """The header of a file that begins with the signature. Raises RejectedError: cut, corrupt, too large.

    `crcs`: "all" checks every chunk's; "header" all but those of the pixels; "none" checks nothing and stops at
    the first pixels, so that a missing end stays unnoticed and `pixel_chunks` is not complete.
    """
    at = len(SIGNATURE)
    end = len(data)
    ihdr = b""
    height = width = 0
    transparency = animated = False
    orientation, exif_problem = 1, None
    metadata_bytes = inflated_bytes = 0
    spans: list[tuple[int, int]] = []
    name = b""
    palette_bytes = 0
    while name != b"IEND":
        if at + 12 > end:
            raise RejectedError(RejectCode.TRUNCATED, f"PNG ends before its IEND chunk, at byte {end}")
        before, name = name, data[at + 4 : at + 8]
        body, stop = at + 8, at + 8 + int.from_bytes(data[at : at + 4], "big")
        if not name.isalpha():
            raise RejectedError(RejectCode.CORRUPT, f"PNG has a chunk named {name!r}, at byte {at}")
        if stop + 4 > end:
            raise RejectedError(RejectCode.TRUNCATED, f"PNG ends in its {name.decode()} chunk, at byte {end}")
        if not ihdr and (name != b"IHDR" or stop - body != 13):
            raise RejectedError(RejectCode.CORRUPT, "PNG does not begin with an IHDR chunk of 13 bytes")
        if not ihdr:
            ihdr = data[body:stop]
            width, height = int.from_bytes(ihdr[:4], "big"), int.from_bytes(ihdr[4:8], "big")
            check_size(height, width, max_pixels)
        elif name == b"IHDR":
            raise RejectedError(RejectCode.CORRUPT, f"PNG has a second IHDR chunk, at byte {at}")
        if name == b"IDAT" and before != b"IDAT" and any(data[s + 4 : s + 8] == b"IDAT" for s, _ in spans):
            # libpng stops at the gap. Pillow does, too, but only gets the pixels' chunks.
            raise RejectedError(RejectCode.CORRUPT, f"PNG has other chunks between its IDAT chunks, at byte {at}")
        if name == b"IDAT" and crcs == "none":
            break
        if crcs == "all" or (crcs == "header" and name != b"IDAT"):
            found = zlib.crc32(memoryview(data)[at + 4 : stop])
            if found != int.from_bytes(data[stop : stop + 4], "big"):
                problem = f"PNG has a wrong CRC in its {name.decode()} chunk at byte {at}"
                raise RejectedError(RejectCode.CORRUPT, problem)
        if name in _PIXEL_CHUNKS:
            transparency |= name == b"tRNS"
            palette_bytes = stop - body if name == b"PLTE" else palette_bytes
            spans.append((at, stop + 4))
        elif name[0] < 0x60:  # an upper-case first letter: decoders must support it
            raise RejectedError(RejectCode.CORRUPT, f"PNG has the unknown critical chunk {name!r}, at byte {at}")
        else:
            if name == b"acTL":
                animated = int.from_bytes(data[body : body + 4], "big") > 1
            elif name == b"eXIf":
                orientation, exif_problem = read_orientation(data[body:stop])
            elif crcs != "none":
                inflated_bytes += _inflated_size(name, data[body:stop])
            if name not in (b"fcTL", b"fdAT"):
                metadata_bytes += stop - body
            check_metadata("PNG", max(metadata_bytes, inflated_bytes))
        at = stop + 4
    bits, color_type, compression, filtering, interlace = ihdr[8:]
    if not height or not width:
        raise RejectedError(RejectCode.CORRUPT, f"PNG declares {height} x {width} pixels")
    if bits not in _BITS.get(color_type, ()) or compression or filtering or interlace > 1:
        raise RejectedError(RejectCode.CORRUPT, f"PNG has an invalid IHDR chunk: {ihdr[8:].hex(' ')}")
    if color_type == PALETTE and (not 3 <= palette_bytes <= 768 or palette_bytes % 3):
        raise RejectedError(RejectCode.CORRUPT, f"PNG needs a palette, and has one of {palette_bytes} bytes")
    return PngHeader(height, width, bits, color_type, transparency, animated, orientation, exif_problem, tuple(spans))


def _inflated_size(name: bytes, body: bytes) -> int:
    """Bytes that the compressed part of a metadata chunk inflates to. Raises RejectedError above the limit."""
    rest = body.partition(b"\0")[2]  # after the keyword or profile name
    if name in (b"zTXt", b"iCCP"):
        packed = rest[1:]  # after the method
    elif name == b"iTXt" and rest[:1] == b"\1":
        packed = rest[2:].partition(b"\0")[2].partition(b"\0")[2]  # after the method, the language, the translation
    else:
        return 0
    inflater = zlib.decompressobj()
    try:
        size = len(inflater.decompress(packed, MAX_INFLATED_BYTES))
    except zlib.error:
        return 0  # decoders drop such text; it does not affect the pixels
    if inflater.unconsumed_tail:
        problem = f"PNG has a {name.decode()} chunk that inflates to more than {MAX_INFLATED_BYTES} bytes"
        raise RejectedError(RejectCode.TOO_LARGE, problem)
    return size


def only_pixels(data: bytes, header: PngHeader) -> bytes:
    """The same image without the chunks that no decoder needs, so that they cannot disturb a decoder."""
    return SIGNATURE + b"".join([data[start:stop] for start, stop in header.pixel_chunks])


_CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
_FILTERS = 5  # types 0 to 4 (ISO/IEC 15948, 9.2)
_INTERLACE = 28  # offset of the last byte of the IHDR chunk's body
# Adam7 (8.2): first column, first row, columns from one pixel to the next, rows.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE = 1 << 20  # bytes inflated at a time
_PACKED_PIECE = 1 << 16


def check_rows(data: bytes, header: PngHeader) -> None:
    """Raise RejectedError unless the IDAT chunks of `data` hold each row of the image; up to 1 MiB more is accepted.

    `header` as read with every chunk (crcs "all" or "header"). Takes 1 MiB of memory, whatever the size of the image.
    """
    pieces = _inflated(data, header)
    piece = b""
    for rows, size in _row_sizes(header, interlaced=data[_INTERLACE] == 1):
        skip, left = 0, rows * size  # bytes to the next row's filter type; bytes of this pass that are to come
        while left:
            piece = piece or next(pieces, b"")
            if not piece:
                raise RejectedError(RejectCode.TRUNCATED, "PNG has fewer rows than its header declares")
            taken, piece = piece[:left], piece[left:]
            if max(taken[skip::size], default=0) >= _FILTERS:
                raise RejectedError(RejectCode.CORRUPT, "PNG has a row with an unknown filter")
            skip = (skip - len(taken)) % size
            left -= len(taken)
    more = len(piece)
    for piece in pieces:  # to the stream's end, with its checksum: libpng wants it, too
        more += len(piece)
        if more > _PIECE:
            raise RejectedError(RejectCode.TOO_LARGE, f"PNG has more than {_PIECE} bytes of pixels after its last row")


def _row_sizes(header: PngHeader, *, interlaced: bool) -> Iterator[tuple[int, int]]:
    """(rows, bytes of a row with its filter type) of each pass over the image."""
    pixel_bits = _CHANNELS[header.color_type] * header.bits
    for left, top, across, down in _PASSES if interlaced else ((0, 0, 1, 1),):
        columns = (header.width - left + across - 1) // across
        rows = (header.height - top + down - 1) // down
        if columns > 0 and rows > 0:
            yield rows, 1 + (columns * pixel_bits + 7) // 8


def _inflated(data: bytes, header: PngHeader) -> Iterator[bytes]:
    """The bytes of all rows, in pieces that are not empty. Raises RejectedError if the stream is damaged."""
    inflater = zlib.decompressobj()
    idats = [(start + 8, stop - 4) for start, stop in header.pixel_chunks if data[start + 4 : start + 8] == b"IDAT"]
    # In small pieces, because the unused rest of each is copied.
    for at, end in ((at, stop) for start, stop in idats for at in range(start, stop, _PACKED_PIECE)):
        packed = data[at : min(at + _PACKED_PIECE, end)]
        while packed and not inflater.eof:
            try:
                piece = inflater.decompress(packed, _PIECE)
            except zlib.error as error:
                raise RejectedError(RejectCode.CORRUPT, f"PNG has damaged image data: {error}") from error
            packed = inflater.unconsumed_tail
            if piece:
                yield piece
    if not inflater.eof:
        raise RejectedError(RejectCode.TRUNCATED, "PNG has image data that does not end")
