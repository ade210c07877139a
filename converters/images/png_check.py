"""Whether the image data of a PNG is whole: it inflates to its end and to every row, and each row has a known filter.

That is all a decoder can find out, and more than Pillow says: it takes a stream that ends early for a whole one and
leaves the rest black, where libpng, and so TensorFlow, refuses it. No pixel is made here, which saves time, too.
"""

import zlib
from collections.abc import Iterator

from shardfeed.converters.images.png import GRAY, GRAY_ALPHA, PALETTE, RGB, RGB_ALPHA, PngHeader
from shardfeed.converters.rejects import RejectCode, RejectedError

_CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
_FILTERS = 5  # types 0 to 4 (ISO/IEC 15948, 9.2)
_INTERLACE = 28  # offset of the last byte of the IHDR chunk's body
# Adam7 (8.2): first column, first row, columns from one pixel to the next, rows.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE = 1 << 20  # bytes inflated at a time
_PACKED_PIECE = 1 << 16


def check_rows(data: bytes, header: PngHeader) -> None:
    """Raises RejectedError unless the IDAT chunks of `data` hold each row of the image; up to 1 MiB more is no fault.

    `header` as read with every chunk (crcs "all" or "header"). Takes 1 MiB of memory, whatever the size of the image.
    """
    pieces = _inflated(data, header)
    piece = b""
    for rows, size in _row_sizes(header, interlaced=data[_INTERLACE] == 1):
        skip, left = 0, rows * size  # bytes to the next row's filter type; bytes of this pass that are to come
        while left:
            piece = piece or next(pieces, b"")
            if not piece:
                raise RejectedError(RejectCode.TRUNCATED, "PNG has fewer rows than its header says")
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
    """The bytes of all rows, in pieces that are not empty. Raises RejectedError where the stream is broken."""
    inflater = zlib.decompressobj()
    idats = [(start + 8, stop - 4) for start, stop in header.pixel_chunks if data[start + 4 : start + 8] == b"IDAT"]
    # In small pieces, as what is not taken of one is copied each time.
    for at, end in ((at, stop) for start, stop in idats for at in range(start, stop, _PACKED_PIECE)):
        packed = data[at : min(at + _PACKED_PIECE, end)]
        while packed and not inflater.eof:
            try:
                piece = inflater.decompress(packed, _PIECE)
            except zlib.error as error:
                raise RejectedError(RejectCode.CORRUPT, f"PNG has image data that is broken: {error}") from error
            packed = inflater.unconsumed_tail
            if piece:
                yield piece
    if not inflater.eof:
        raise RejectedError(RejectCode.TRUNCATED, "PNG has image data that does not end")
