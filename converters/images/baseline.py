"""Progressive JPEGs made baseline without loss: the same coefficients, so the same pixels, in one sequential scan.

A progressive file sends every coefficient in several passes; a decoder must keep them all until the last one, and takes
2.7 times as long. Here they are only coded again (libjpeg-turbo's lossless transform, by the package `turbojpeg`, which
has it built in), with the metadata kept.
"""

import importlib
import io
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from shardfeed.converters.images.jpeg import JpegHeader, read_jpeg_header, without_metadata
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.errors import MissingExtraError
from shardfeed.formats.jpeg_markers import SOS, scan_markers

if TYPE_CHECKING:
    from PIL import Image

PACKAGE = "turbojpeg"

PROGRESSIVE = 2  # n of its SOFn marker


class NotTranscodableError(Exception):
    """Raised to keep a file unchanged; the text is the reason."""


def tool_version() -> str:
    """Version of the package that transcodes. Raise MissingExtraError, with the install command, if it is missing."""
    _tool()
    return _version()


def _version() -> str:
    from importlib.metadata import version  # not above: every conversion would wait for what few need

    return version(PACKAGE)


@cache
def _tool() -> Any:
    try:
        _version()  # another package, PyTurboJPEG, has a module of the same name
        return importlib.import_module(PACKAGE)
    except ImportError as error:  # the module, or a description of its package
        remedy = f"pip install 'shardfeed[baseline]', which installs {PACKAGE}"
        problem = f"the package {PACKAGE}, which transcodes, is not installed"
        raise MissingExtraError("baseline", problem, remedy) from error


def to_baseline(data: bytes, header: JpegHeader) -> bytes:
    """The progressive JPEG `data` as a sequential one of a single scan, whose decoded pixels are the same bit for bit.

    EXIF, ICC profile and comments are kept; data after the image (a second picture, a camera's own data) is not. Both
    are decoded and compared. Raises NotTranscodableError, and nothing else for any bytes.
    """
    from PIL import ImageChops

    _check_complete(data, header)
    try:
        transcoded: bytes = _tool().transform(data)
        found = read_jpeg_header(transcoded, MAX_PIXELS)
        same = all(getattr(found, name) == getattr(header, name) for name in _SAME)
        if not same or found.process > 1 or sum(1 for _ in _scans(transcoded)) != 1:
            raise NotTranscodableError("the result is not the same image in one sequential scan")
        # A decoder fills in the missing parts of a damaged file, and differently for other bytes.
        if ImageChops.difference(_decoded(data, header), _decoded(transcoded, found)).getbbox():
            raise NotTranscodableError("the pixels would change, so it may be damaged")
    except NotTranscodableError:
        raise
    except Exception as error:  # RuntimeError by the tool; Pillow raises OSError, SyntaxError, ValueError and others
        raise NotTranscodableError(str(error) or type(error).__name__) from error
    return transcoded


def _decoded(data: bytes, header: JpegHeader) -> "Image.Image":
    from PIL.JpegImagePlugin import JpegImageFile

    image = JpegImageFile(io.BytesIO(without_metadata(data, header)))
    image.load()
    return image


_SAME = ("height", "width", "bits", "components", "color", "half_chroma", "orientation")


def _check_complete(data: bytes, header: JpegHeader) -> None:
    """Raise NotTranscodableError unless the scans give every coefficient to its last bit.

    Decoders guess missing bits: they smooth a progressive image between its blocks, a sequential one never.
    """
    missing: dict[int, list[int]] = {}
    for segment in _scans(data):
        count = segment[0] if segment else 0
        if len(segment) != 4 + 2 * count:
            raise NotTranscodableError("a scan header has a wrong length")
        first, last, low = segment[-3], min(segment[-2], 63), segment[-1] & 15
        for component in segment[1 : 1 + 2 * count : 2]:
            bits = missing.setdefault(component, [16] * 64)  # bits of each coefficient that have not come
            bits[first : last + 1] = [low] * len(bits[first : last + 1])
    if len(missing) != header.components or any(map(any, missing.values())):
        raise NotTranscodableError("its scans omit part of the image, which decoders then smooth")


def _scans(data: bytes) -> Iterator[bytes]:
    """The body of each scan header of the first image, in order."""
    for marker, at in scan_markers(data, 2):
        if marker == SOS:
            yield data[at + 2 : at + int.from_bytes(data[at : at + 2], "big")]
