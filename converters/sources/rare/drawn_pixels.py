"""Pixel masks in files of annotation tools: PNGs, and the run lengths of each tool, as regions of whole images."""

import base64
import binascii
import io
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from PIL.PngImagePlugin import PngImageFile

from shardfeed.converters.images.pixels import strict_decoding
from shardfeed.converters.rejects import MAX_PIXELS, RejectedError, check_size
from shardfeed.converters.sources.objects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import class_text

_MOST_BYTES = 1 << 28  # of a PNG that zlib inflates
_WORD = 8  # bits of a value in Label Studio's run lengths


def add_pixels(
    found: Annotations,
    image: int,
    number: int,
    label: Any,
    decode: Callable[[], np.ndarray],
    corner: Sequence[Any] = (0, 0),
    size: tuple[Any, Any] | None = None,
    **known: Any,
) -> None:
    """Add one object of a mask, or list it with its code.

    `decode`: called for the mask, bool [height, width]; may raise BadAnnotationError, RejectedError, ValueError.
    `corner`: left and top of the mask in the image. `size`: (width, height) of the image, if it is not noted.
    """
    try:
        label = None if label is None else class_text(label)
        pixels = decode()
        left, top = (int(value) for value in corner)
        rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
        if not len(rows):
            raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "its mask has no pixel")
        box = left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1
        width, height = found.objects.size(image) or size or (0, 0)
        if found.objects.unit == "fractions" or found.masks:
            if not width or not height:
                raise BadAnnotationError(AnnotationCode.OUTLINE, "a mask, but the size of its image is not stated")
            check_size(height, width, MAX_PIXELS)
        if found.masks:
            if min(left, top) < 0 or left + pixels.shape[1] > width or top + pixels.shape[0] > height:
                raise BadAnnotationError(AnnotationCode.BOX_OUTSIDE, f"its mask leaves the {width} x {height} pixels")
            whole = np.zeros((width, height), bool)  # by columns, as in COCO
            whole[left : left + pixels.shape[1], top : top + pixels.shape[0]] = pixels.T
            inside = whole.ravel()
            ends = [0, *(np.flatnonzero(inside[1:] != inside[:-1]) + 1).tolist(), len(inside)]
            counts = [0] * bool(inside[0]) + np.diff(ends).tolist()  # of pixels outside first
            known["outline"] = {"size": [height, width], "counts": counts}
        if found.objects.unit == "fractions":
            box = box[0] / width, box[1] / height, box[2] / width, box[3] / height
    except (BadAnnotationError, RejectedError) as error:
        code = error.code if isinstance(error, BadAnnotationError) else AnnotationCode.OUTLINE
        found.leave_out(image, code, f"{found.objects.what} {number}: {error.reason}")
        return
    except (ValueError, TypeError, OverflowError, binascii.Error, zlib.error) as error:
        reason = f"its mask cannot be decoded: {type(error).__name__}"
        found.leave_out(image, AnnotationCode.OUTLINE, f"{found.objects.what} {number}: {reason}")
        return
    found.object(image, number, tuple(map(float, box)), label, **known)


def of_png(text: Any, *, deflated: bool = False) -> np.ndarray:
    """Bool [height, width] of a PNG in base64: its opaque pixels, or, without transparency, those that are not 0.

    `deflated`: whether zlib has compressed it again, as Supervisely does.
    """
    data = base64.b64decode(text, validate=True)
    if deflated:
        data = zlib.decompressobj().decompress(data, _MOST_BYTES)
    with strict_decoding("png"):
        image = PngImageFile(io.BytesIO(data))
        check_size(image.height, image.width, MAX_PIXELS)
        image.load()
        if "A" in image.getbands() or "transparency" in image.info:
            return np.asarray(image.convert("RGBA"))[..., 3] > 0
        pixels = np.asarray(image.convert("RGB") if image.mode == "P" else image)
        return pixels.reshape(image.height, image.width, -1).max(2) > 0


def of_counts(counts: Iterable[int], width: int, height: int) -> np.ndarray:
    """Bool [height, width] of run lengths by rows, of pixels outside first, as in CVAT."""
    counts = list(counts)
    check_size(height, width, MAX_PIXELS)
    if min(counts) < 0 or sum(counts) != width * height:
        raise BadAnnotationError(AnnotationCode.OUTLINE, "its run lengths do not add up to the pixels of its mask")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(height, width)


def of_brush(numbers: Sequence[int], width: int, height: int) -> np.ndarray:
    """Bool [height, width] of Label Studio's bytes: runs of the values of RGBA pixels, of which alpha is the mask.

    A count of values, 32 bits; bits of a value less 1, 5 bits; four sizes less 1, 4 bits each; then runs: a bit, 1 if
    one value is repeated; which size, 2 bits; the length less 1, in that size; the value or values.
    """
    check_size(height, width, MAX_PIXELS)
    bits = np.unpackbits(np.frombuffer(bytes(numbers), np.uint8))
    text = bits.tobytes().translate(bytes.maketrans(b"\0\1", b"01"))
    at = 0

    def read(length: int) -> int:
        nonlocal at
        at += length
        if at > len(text):
            raise BadAnnotationError(AnnotationCode.OUTLINE, "its run lengths end too early")
        return int(text[at - length : at], 2)

    count, word = read(32), read(5) + 1
    sizes = [read(4) + 1 for _ in range(4)]
    if count != 4 * width * height or word != _WORD:
        problem = f"its mask has {count} values of {word} bits, expected {4 * width * height} of {_WORD}"
        raise BadAnnotationError(AnnotationCode.OUTLINE, problem)
    values = np.zeros(count, np.uint8)
    done = 0
    while done < count:
        repeated, length = read(1), read(sizes[read(2)]) + 1
        if repeated:
            values[done : done + length] = read(word)
        else:
            ends = at + word * length
            if ends > len(text) or done + length > count:
                raise BadAnnotationError(AnnotationCode.OUTLINE, "its run lengths end too early")
            values[done : done + length] = np.packbits(bits[at:ends])
            at = ends
        done += length
    return values.reshape(height, width, 4)[..., 3] > 0
