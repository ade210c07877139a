"""Whether the image data of a JPEG decodes whole, by a decoder that says so.

libjpeg fills what it cannot read with gray and warns. Pillow, OpenCV and TensorFlow do not pass the warning on;
simplejpeg, which is libjpeg-turbo, stops at it. So it sees a cut file whose end marker was put back, which the others
take for whole. Figures are in docs/design/008-decoder-of-the-check.md.
"""

import numpy as np
import simplejpeg

from shardfeed.converters.rejects import RejectCode, RejectedError

# Warnings of libjpeg (jerror.h) after which pixels are missing or made up. After the others all pixels may be there:
# webcams leave bytes over before markers, old encoders write odd versions into their headers.
_DAMAGE = {
    "Premature end of JPEG file": RejectCode.TRUNCATED,
    "Corrupt JPEG data: premature end of data segment": RejectCode.CORRUPT,
    "Corrupt JPEG data: bad Huffman code": RejectCode.CORRUPT,
    "Corrupt JPEG data: found marker": RejectCode.CORRUPT,
}
_JFIF = slice(6, 11)  # where its name stands if it is the first segment, as it should be; its version follows
_ODD_JFIF = "Warning: unknown JFIF revision"


def complaint(data: bytes) -> str | None:
    """None when every bit was decoded without a word; else what libjpeg said first, and what follows was not read.

    Another decoder must then decide. Raises RejectedError where what it said means that pixels are missing. `data` is a
    JPEG file of a gray or YCbCr image.
    """
    said = _first_words(data)
    if said is not None and said.startswith(_ODD_JFIF) and data[_JFIF] == b"JFIF\0":
        # It stopped there, before the image: with a version that it knows it goes on.
        return _first_words(data[: _JFIF.stop] + b"\x01\x01" + data[_JFIF.stop + 2 :]) or said
    return said


def clean_pixels(data: bytes, height: int, width: int, reduction: int, *, gray: bool) -> np.ndarray | None:
    """Pixels of a JPEG file of which `complaint` would say nothing; None where it would, or where memory is short.

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
        said = str(error)
        for beginning, code in _DAMAGE.items():
            if said.startswith(beginning):
                raise RejectedError(code, f"jpeg decoder: {said}") from error
        return said
    except MemoryError as error:
        raise RejectedError(RejectCode.TOO_LARGE, "jpeg decoder: not enough memory") from error
    return None
