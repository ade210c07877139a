"""One image, checked, and normalised where some loader would read it wrong.

Kept byte for byte: JPEG, gray or YCbCr, 8 bits, sequential or progressive, upright; PNG, gray or RGB, 8 bits, without
transparency, upright. TensorFlow, DALI, Pillow and OpenCV agree on those. With `keep_depth` also PNG of 16 bits. The
rest is transcoded: to PNG, exactly, when the source is lossless or a JPEG of unusual colors (CMYK, YCCK, RGB: rare, and
worth the bytes); to JPEG of quality 92 when it is a turned JPEG, a lossy WebP or an AVIF, which as PNG would be four to
eight times their size. With `encode="raw"` nothing is kept and all of it becomes pixels. With `png_to_jpeg` all of it
is JPEG.
"""

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from shardfeed.converters.images import pixels as px
from shardfeed.converters.images.baseline import PROGRESSIVE, NotTranscodableError, to_baseline
from shardfeed.converters.images.deep import DeepImage
from shardfeed.converters.images.jpeg import (
    JpegHeader,
    check_end_marker,
    check_scans,
    is_one_plain_scan,
    read_jpeg_header,
)
from shardfeed.converters.images.options import Change, Check, ImageOptions
from shardfeed.converters.images.other_formats import load_other
from shardfeed.converters.images.pixels import Placement, fit_image
from shardfeed.converters.images.png import GRAY, PALETTE, RGB, Crcs, read_png_header
from shardfeed.converters.images.seekable import interval_for, to_seekable, whole_seekable
from shardfeed.converters.images.sniff import Kind, image_kind
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError
from shardfeed.errors import escape
from shardfeed.formats.jpeg_restarts import restarts_cost, row_lengths
from shardfeed.schema import PNG16, RESTARTS

DEFAULT_QUALITY = 92  # about 40 to 42 dB against the pixels it encodes, at the size of an original of that quality
_JPEG_SIDE = 65_535  # pixels
_MOST = 0.02  # share of the bytes that restart markers may add if not requested
_COLOR_CHANGES = {"CMYK": (Change.CMYK,), "YCCK": (Change.CMYK,), "RGB": (Change.RGB_JPEG,)}
_CRCS: dict[Check, Crcs] = {"decode": "all", "header": "header", "none": "none"}


@dataclass(frozen=True)
class StoredImage:
    """Image as its record holds it.

    encoded: the file, or the pixels. format: b"jpeg", b"png", b"png16" or b"raw". height, width: pixels.
    changes: why `encoded` is not the source byte for byte; empty if it is.
    warnings: sentences about oddities that changed nothing.
    placement: where the pixels of the source's file are in it.
    progressive: whether it is a JPEG that was kept and decodes slowly; there may be very many.
    restarts: lengths of the rows of a seekable JPEG (`jpeg.restarts`); b"" for other images.
    """

    encoded: bytes
    format: bytes
    height: int
    width: int
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    placement: Placement
    progressive: bool = False
    restarts: bytes = b""


def store_image(data: bytes, options: ImageOptions) -> StoredImage:
    """The image in `data`, an encoded file of any format. Raises RejectedError, and nothing else for any bytes."""
    kind = image_kind(data)
    if len(data) > options.max_bytes:
        raise RejectedError(RejectCode.TOO_LARGE, f"{len(data)} bytes, more than {options.max_bytes}")
    try:
        if kind == "jpeg":
            return _store_jpeg(data, options)
        if kind == "png":
            return _store_png(data, options)
        return _store_other(kind, data, options)
    except MemoryError as error:  # outside of the decoders, which report it themselves
        raise RejectedError(RejectCode.TOO_LARGE, f"{kind}: not enough memory") from error


def raw_size(read: Callable[[], bytes], options: ImageOptions) -> int | None:
    """Bytes of the pixels stored for the JPEG or PNG that `read` returns, by its header; None for any other image."""
    try:
        data = read()
        kind = image_kind(data)
        if kind == "jpeg":
            header = read_jpeg_header(data, options.max_pixels)
        elif kind == "png":
            header = read_png_header(data, options.max_pixels, "none")
        else:
            return None
    except RejectedError:
        return None
    fit = px.fit_image(header.height, header.width, options)
    width, height = fit.size if fit else (header.width, header.height)
    return height * width * 3


def check_stored(data: bytes, kind: bytes | None, height: int, width: int, restarts: bytes = b"") -> None:
    """Raise RejectedError unless `data` has the format and size that its record states, and decodes completely.

    `kind`: b"jpeg", b"png", b"png16" or b"raw"; None if the record does not state which of the first two it is.
    `height`, `width`: -1 if not stated. `restarts`: lengths that the record states for the pieces of a seekable JPEG.
    """
    if restarts and restarts != row_lengths(data):
        raise RejectedError(RejectCode.CORRUPT, f"{RESTARTS} does not match the restart markers of the JPEG")
    if kind == b"raw":
        if len(data) != 3 * height * width:
            expected = f"{3 * height * width} bytes of {height} x {width} pixels"
            raise RejectedError(RejectCode.CORRUPT, f"raw pixels: got {len(data)} bytes, expected {expected}")
        return
    found = image_kind(data)
    if found == "jpeg":
        header = read_jpeg_header(data, MAX_PIXELS)
        _check_jpeg_variant(header)
        check_scans(data, header)
    elif found == "png":
        header = read_png_header(data, MAX_PIXELS, "all")
    else:
        raise RejectedError(RejectCode.UNSUPPORTED, f"expected JPEG, PNG or raw pixels, got {found}")
    if kind == PNG16.encode() and found == "png" and header.bits == 16:
        found = PNG16
    declared = (kind or found.encode(), header.height if height < 0 else height, header.width if width < 0 else width)
    if (found.encode(), header.height, header.width) != declared:
        shape = f"{found} of {header.height} x {header.width} pixels"
        stated = f"{escape(declared[0])} of {declared[1]} x {declared[2]}"
        raise RejectedError(RejectCode.CORRUPT, f"got {shape}, its record declares {stated}")
    px.check_pixels(data, header)


def _store_jpeg(data: bytes, options: ImageOptions) -> StoredImage:
    header = read_jpeg_header(data, options.max_pixels)
    _check_jpeg_variant(header)
    warnings = (header.exif_problem,) if header.exif_problem else ()
    changes = list(_COLOR_CHANGES.get(header.color or "", ()))
    exact = bool(changes)
    plain = not exact and is_one_plain_scan(data, header)
    if options.check == "decode" and not plain:
        check_scans(data, header)
    elif options.check == "header":
        check_end_marker(data, header)
    if header.orientation != 1:
        changes.append(Change.TURNED)
    fit = fit_image(header.height, header.width, options, sideways=header.orientation >= 5)
    if fit:
        changes.append(Change.RESIZED)
    elif options.quality is not None:
        changes.append(Change.REENCODED)
    keeps, pixels = not changes and options.encode == "keep", None
    if not keeps:
        with px.strict_decoding("jpeg"):
            pixels = px.load_clean_jpeg(data, header, fit)
    # Every code of an image was read and compared if this inserts restart markers: no decoder needs to check it again.
    cut = whole_seekable(data, header) if keeps and options.seekable else None
    if pixels is None and options.check == "decode" and not exact and cut is None:
        # Stricter than the decoder below, which fills in missing data.
        warnings += _check_pixels(data, header, plain)
    if keeps:
        return _kept_jpeg(data, header, warnings, options, cut)
    placement = Placement(header.height, header.width, header.orientation, fit)
    with px.strict_decoding("jpeg"):
        pixels = px.upright(pixels or px.load_jpeg(data, header, fit), header.orientation)
        lossy = not exact or fit is not None or options.quality is not None
        return _stored(pixels, changes, warnings, placement, options, lossy=lossy, half_chroma=header.half_chroma)


def _check_pixels(data: bytes, header: JpegHeader, plain: bool) -> tuple[str, ...]:
    """List oddities in a JPEG's image data, or raise RejectedError. `plain`: its scan has not been walked yet."""
    try:
        odd = px.check_pixels(data, header)
    except RejectedError:
        if plain:
            check_scans(data, header)  # with a more precise message
        raise
    if odd and plain:
        check_scans(data, header)
    return odd


def _kept_jpeg(
    data: bytes, header: JpegHeader, warnings: tuple[str, ...], options: ImageOptions, cut: bytes | None
) -> StoredImage:
    """Return the file itself, or if requested its baseline or seekable version, which may be known as `cut`."""
    changes: tuple[Change, ...] = ()
    progressive = header.process == PROGRESSIVE and not options.baseline
    if header.process == PROGRESSIVE and options.baseline:
        try:
            data, changes = to_baseline(data, header), (Change.BASELINE,)
        except NotTranscodableError as problem:
            warnings = (*warnings, f"progressive, not converted to baseline: {problem}")
    if options.seekable and not progressive:
        try:
            made = cut or to_seekable(data, read_jpeg_header(data, options.max_pixels) if changes else header)
            changes, data = (*changes, Change.SEEKABLE) if made != data else changes, made
        except NotTranscodableError as problem:
            warnings = (*warnings, f"not converted to seekable: {problem}")
    restarts = row_lengths(data) if options.restarts else b""
    placement = Placement(header.height, header.width)
    return StoredImage(data, b"jpeg", header.height, header.width, changes, warnings, placement, progressive, restarts)


def _store_png(data: bytes, options: ImageOptions) -> StoredImage:
    header = read_png_header(data, options.max_pixels, _CRCS[options.check])
    if header.animated:
        raise RejectedError(RejectCode.ANIMATED, "PNG with more than one frame")
    warnings = (header.exif_problem,) if header.exif_problem else ()

    changes: list[Change] = []
    deep = options.keep_depth and header.bits == 16
    if header.color_type == PALETTE:
        changes.append(Change.PALETTE)
    elif header.bits != 8 and not deep:
        changes.append(Change(f"{header.bits}-bit"))
    if header.color_type not in (GRAY, RGB, PALETTE) or header.transparency:
        changes.append(Change.ALPHA)
    if header.orientation != 1:
        changes.append(Change.TURNED)
    fit = fit_image(header.height, header.width, options, sideways=header.orientation >= 5)
    if fit:
        changes.append(Change.RESIZED)
    if not changes and options.encode == "keep" and not options.png_to_jpeg:
        if options.check == "decode":
            px.check_pixels(data, header)
        placement = Placement(header.height, header.width)
        kind = PNG16.encode() if deep else b"png"
        return StoredImage(data, kind, header.height, header.width, (), warnings, placement)
    placement = Placement(header.height, header.width, header.orientation, fit)
    with px.strict_decoding("png"):
        header = read_png_header(data, options.max_pixels, "header")  # with check="none" it stops before the pixels
        pixels, odd = px.load_png(data, header, options.background_rgb, options.bits, deep=deep)
        warnings += odd
        if fit:
            pixels = px.fitted(pixels, fit)
        pixels = px.upright(pixels, header.orientation)
        return _stored(pixels, changes, warnings, placement, options, lossy=False)


def _store_other(kind: Kind, data: bytes, options: ImageOptions) -> StoredImage:
    how = options.background_rgb, options.bits
    loaded = load_other(kind, data, options.max_pixels, *how, keep_depth=options.keep_depth)
    changes, warnings = list(loaded.changes), loaded.warnings
    pixels = loaded.pixels
    with px.strict_decoding(kind):
        fit = fit_image(pixels.height, pixels.width, options, sideways=loaded.orientation >= 5)
        placement = Placement(pixels.height, pixels.width, loaded.orientation, fit)
        if fit:
            changes.append(Change.RESIZED)
            pixels = px.fitted(pixels, fit)
        pixels = px.upright(pixels, loaded.orientation)
        half = kind == "webp"
        return _stored(pixels, changes, warnings, placement, options, lossy=loaded.lossy, half_chroma=half)


def _stored(
    pixels: Image.Image | DeepImage,
    changes: list[Change],
    warnings: tuple[str, ...],
    placement: Placement,
    options: ImageOptions,
    *,
    lossy: bool,
    half_chroma: bool = False,
) -> StoredImage:
    """The pixels themselves, if asked for; else a PNG, or a JPEG if the source is `lossy`, and with `png_to_jpeg`.

    `half_chroma`: as in the lossy source: 4:4:4 would make a 4:2:0 source a fifth larger for detail it does not have.
    Of another source the JPEG has full colour resolution.
    """
    height, width = pixels.height, pixels.width
    if isinstance(pixels, DeepImage):
        return StoredImage(pixels.png(), PNG16.encode(), height, width, tuple(changes), warnings, placement)
    if options.encode == "raw":
        return StoredImage(px.raw_bytes(pixels), b"raw", height, width, (*changes, Change.RAW), warnings, placement)
    if not lossy and not options.png_to_jpeg:
        return StoredImage(px.encode_png(pixels), b"png", height, width, tuple(changes), warnings, placement)
    if not lossy:
        if max(height, width) > _JPEG_SIDE:
            problem = f"{height} x {width} pixels, a JPEG has at most {_JPEG_SIDE} along a side"
            raise RejectedError(RejectCode.TOO_LARGE, problem)
        changes, half_chroma = [*changes, Change.JPEG], False
    quality = options.quality or DEFAULT_QUALITY
    side = 16 if half_chroma and pixels.mode != "L" else 8
    sparing = not options.seekable
    interval = interval_for(height, width, (side, side), sparing=sparing) if options.restarts else 0
    encoded = px.encode_jpeg(pixels, quality, half_chroma=half_chroma, interval=interval)
    restarts = row_lengths(encoded) if interval else b""
    if restarts and sparing and restarts_cost(encoded, restarts) > _MOST * len(encoded):
        plain = px.encode_jpeg(pixels, quality, half_chroma=half_chroma)
        if len(encoded) + len(restarts) > (1 + _MOST) * len(plain):
            encoded, restarts = plain, b""
    return StoredImage(encoded, b"jpeg", height, width, tuple(changes), warnings, placement, restarts=restarts)


def _check_jpeg_variant(header: JpegHeader) -> None:
    if header.process > 2 or header.bits != 8 or header.color is None:
        what = f"process SOF{header.process}, {header.bits} bits, {header.components} components"
        raise RejectedError(RejectCode.UNSUPPORTED, f"JPEG of a kind that common decoders do not read: {what}")
