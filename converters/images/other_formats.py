"""GIF, BMP, TIFF, WebP, AVIF, JPEG 2000, PNM and, by an extra, HEIF to pixels."""

import io
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from shardfeed.converters.images.exif import ORIENTATION_TAG, read_orientation
from shardfeed.converters.images.options import WHITE, Change, Rgb
from shardfeed.converters.images.other_headers import check_avif, check_gif, check_jpeg2000, check_webp
from shardfeed.converters.images.pixels import gray_or_rgb, kept_depth, strict_decoding
from shardfeed.converters.images.pnm import load_pnm
from shardfeed.converters.images.sniff import Kind
from shardfeed.converters.images.tiff import check_first_page, has_only_overviews, read_bands, white_is_zero
from shardfeed.converters.rejects import RejectCode, RejectedError, check_size
from shardfeed.errors import MissingExtraError, needing_extra

# The plugins' classes, not Image.open: the format is known, and no other plugin may try to open the file.
_FILES: dict[Kind, type[ImageFile.ImageFile]] = {
    "gif": GifImageFile,
    "bmp": BmpImageFile,
    "tiff": TiffImageFile,
    "webp": WebPImageFile,
    "avif": AvifImageFile,
    "jpeg2000": Jpeg2KImageFile,
}
_BITS = {1: (Change.BITS_1,), 16: (Change.BITS_16,)}


class LoadedImage(NamedTuple):
    """Pixels of mode L or RGB, or a `DeepImage`, not upright yet, and what was found on the way.

    changes: what makes the format unusual. orientation: EXIF, 1..8, still to be applied.
    warnings: sentences about oddities and what was lost. lossy: whether the source stores pixels with loss.
    """

    pixels: Any
    changes: tuple[Change, ...]
    orientation: int
    warnings: tuple[str, ...]
    lossy: bool


def load_other(
    kind: Kind,
    data: bytes,
    max_pixels: int,
    background: Rgb | None = WHITE,
    bits: int = 16,
    *,
    keep_depth: bool = False,
) -> LoadedImage:
    """Decode one still image of `kind`; `background`, `bits` as in `gray_or_rgb`, `keep_depth` as in `ImageOptions`.

    Raises RejectedError, on animations too.
    """
    if kind == "pnm":
        image, bits = load_pnm(data, max_pixels)
        return LoadedImage(image, (Change.PNM, *_BITS.get(bits, ())), 1, (), lossy=False)
    if kind == "heif":
        return _load_heif(data, max_pixels, background)
    lossy = kind == "avif"
    if kind == "gif":
        check_gif(data, max_pixels)
    elif kind == "webp":
        lossy = check_webp(data, max_pixels)
    elif kind == "avif":
        check_avif(data, max_pixels)
    elif kind == "jpeg2000":
        lossy = check_jpeg2000(data, max_pixels)
    bands = read_bands(data) if kind == "tiff" else None
    with strict_decoding(kind):
        image = _FILES[kind](io.BytesIO(data))
        check_size(image.height, image.width, max_pixels)
        # GIF answers by reading on to its second frame, and our own walk has done that.
        animated = kind != "gif" and getattr(image, "is_animated", False)
        if animated and not (isinstance(image, TiffImageFile) and has_only_overviews(image)):
            raise RejectedError(RejectCode.ANIMATED, f"{kind} with more than one image")
        exif = image.info.get("exif")
        orientation, problem = read_orientation(exif) if exif else (1, None)
        turned = orientation != 1
        if isinstance(image, TiffImageFile):
            check_first_page(image)
            turned = image.tag_v2.get(ORIENTATION_TAG, 1) in range(2, 9)  # Pillow applies it while it loads
        changes, deep = [Change(kind)], False
        if image.mode == "P" and kind != "gif":
            changes.append(Change.PALETTE)
        elif image.mode == "CMYK":
            changes.append(Change.CMYK)
        elif image.mode == "1":
            changes.append(Change.BITS_1)
        elif image.mode.startswith("I;16") or (bands is not None and bands.bits == 16):
            deep = keep_depth and kind == "tiff"
            changes += [] if deep else [Change.BITS_16]
        if image.has_transparency_data:
            changes.append(Change.ALPHA)
        if turned:
            changes.append(Change.TURNED)
        image.load()
        pixels: Any = image
        inverted = isinstance(image, TiffImageFile) and white_is_zero(image)
        if deep:
            if inverted:
                pixels = Image.fromarray(np.uint16(65_535) - np.asarray(image))
            premultiplied = bands is not None and bands.premultiplied
            pixels, odd = kept_depth(pixels, data, background, premultiplied=premultiplied)
        else:
            pixels, odd = gray_or_rgb(image, background, bits, wide=Change.BITS_16 in changes, inverted=inverted)
        warnings = (*((problem,) if problem else ()), *(bands.dropped if bands else ()), *odd)
        return LoadedImage(pixels, tuple(changes), orientation, warnings, lossy)


def _load_heif(data: bytes, max_pixels: int, background: Rgb | None) -> LoadedImage:
    """One HEIF image, as telephones write it. Its own boxes give its rotation; its EXIF orientation is ignored."""
    try:
        with needing_extra("HEIF"):
            import pillow_heif
    except MissingExtraError as error:
        raise RejectedError(RejectCode.UNSUPPORTED, f"a HEIF image, but {error.problem}: {error.remedy}") from None
    with strict_decoding("heif"):
        pillow_heif.options.DECODE_THREADS = 1  # as for all formats: each process decodes on one core
        found = pillow_heif.open_heif(data)
        check_size(found.size[1], found.size[0], max_pixels)
        if len(found) > 1:
            raise RejectedError(RejectCode.ANIMATED, "heif with more than one image")
        image = found.to_pillow()
        changes = [Change.HEIF, *_BITS.get(16 if found.info["bit_depth"] > 8 else 8, ())]
        if image.has_transparency_data:
            changes.append(Change.ALPHA)
        pixels, warnings = gray_or_rgb(image, background)
        return LoadedImage(pixels, tuple(changes), 1, warnings, lossy=True)
