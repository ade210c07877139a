"""A TIFF's pages and bands.

Microscopes, scanners and satellites write more into a TIFF than a picture: smaller versions of it for fast display
(pyramids, Cloud Optimized GeoTIFF), and bands beyond red, green and blue. The former are not needed; the latter are
named.
"""

import io
import struct
from typing import NamedTuple

from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

from shardfeed.converters.rejects import RejectCode, RejectedError

# Tags of TIFF 6.0, and of DNG.
_NEW_SUBFILE_TYPE, _BITS, _PHOTOMETRIC, _SAMPLES, _EXTRA_SAMPLES = 254, 258, 262, 277, 338
_DNG_VERSION = 50706
_REDUCED, _MASK = 1, 4  # bits of _NEW_SUBFILE_TYPE: a smaller version of another page; what is transparent
_COLORS = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3, 8: 3}  # bands of the color itself, by _PHOTOMETRIC
_PREMULTIPLIED = 1
_ALPHA = (_PREMULTIPLIED, 2)  # values of _EXTRA_SAMPLES
_MOST_OVERVIEWS = 64  # each has half of the sides of the one before


class Bands(NamedTuple):
    """`bits` of a value, sentences about bands that are not stored, and whether colours are stored times alpha."""

    bits: int
    dropped: tuple[str, ...]
    premultiplied: bool = False


def read_bands(data: bytes) -> Bands | None:
    """Read the bands of the first page; None if its directory is damaged, which the decoder reports.

    Raises RejectedError for gray with bands that are no alpha: which of them would be the picture?
    """
    try:
        head = data[:16] if data[2:3] == b"+" or data[3:4] == b"+" else data[:8]  # 43: BigTIFF
        tags, file = ImageFileDirectory_v2(head), io.BytesIO(data)
        file.seek(tags.next)
        tags.load(file)
        samples, extra = int(tags.get(_SAMPLES, 1)), tags.get(_EXTRA_SAMPLES, ())
        photometric, bits = int(tags.get(_PHOTOMETRIC, 1)), tags.get(_BITS, (1,))
        bits = int(bits[0] if isinstance(bits, tuple) else bits)
        extra = extra if isinstance(extra, tuple) else (extra,)
    except (SyntaxError, ValueError, TypeError, IndexError, OSError, struct.error):
        return None
    color = _COLORS.get(photometric, samples)
    alpha = int(samples > color and bool(extra) and extra[0] in _ALPHA)
    if samples <= color + alpha:
        return Bands(bits, (), premultiplied=bool(alpha) and extra[0] == _PREMULTIPLIED)
    if color != 3:
        problem = f"TIFF of {samples} bands of {bits} bits, expected gray or RGB: save the bands of the picture as RGB"
        raise RejectedError(RejectCode.UNSUPPORTED, problem)
    left = f"bands {color + alpha + 1} to {samples} are" if samples > color + alpha + 1 else f"band {samples} is"
    return Bands(bits, (f"TIFF of {samples} bands: red, green and blue are stored, {left} left out",))


def has_only_overviews(image: TiffImageFile) -> bool:
    """Whether all later pages are smaller versions of the first, or masks; the first is the current page afterwards."""
    if image.n_frames > _MOST_OVERVIEWS:
        return False
    kinds = []
    for page in range(1, image.n_frames):
        image.seek(page)
        kinds.append(image.tag_v2.get(_NEW_SUBFILE_TYPE, 0))
    image.seek(0)
    return all(isinstance(kind, int) and kind & (_REDUCED | _MASK) for kind in kinds)


def check_first_page(image: TiffImageFile) -> None:
    """Raise RejectedError if the first page is a smaller version of another one."""
    tags = image.tag_v2
    if _DNG_VERSION in tags or tags.get(_NEW_SUBFILE_TYPE, 0) & _REDUCED:
        problem = "TIFF whose first image is a thumbnail, as in camera RAW files"
        raise RejectedError(RejectCode.UNSUPPORTED, problem)


def white_is_zero(image: TiffImageFile) -> bool:
    """Whether the image is gray of 16 bits in which 0 is white, which Pillow inverts in images of 8 bits alone."""
    return image.mode.startswith("I;16") and image.tag_v2.get(_PHOTOMETRIC, 1) == 0
