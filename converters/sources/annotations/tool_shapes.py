"""Files of an annotation tool in a folder, and the shapes drawn with it: boxes, outlines, and masks of pixels."""

import base64
import binascii
import io
import math
import os
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL.PngImagePlugin import PngImageFile

from shardfeed.converters.images.pixels import strict_decoding
from shardfeed.converters.rejects import MAX_PIXELS, AnnotationCode, BadAnnotationError, RejectedError, check_size
from shardfeed.converters.sources.annotations.tool_signs import TOOLS
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import MOST, class_text, is_number, shown_value
from shardfeed.errors import UsageError, argument, escape, name_text
from shardfeed.text import some

TASKS: tuple[Task, ...] = ("boxes", "masks")
_CIRCLE = 32  # corners of the polygon that a circle becomes


def find(look: Look, tool: str) -> str:
    """The path of the file, or of the only one in the folder that begins like the tool's files.

    Raises UsageError if there is none, or more than one.
    """
    paths = [path for path, _ in all_of(look, tool)]
    if len(paths) > 1:
        names = some(os.path.relpath(path, look.path) for path in paths)
        raise UsageError(look.path, f"more than one file of this tool: {names}", "give one of them")
    return paths[0]


def all_of(look: Look, tool: str) -> Iterator[tuple[str, str]]:
    """Yield (path, folder relative to the root with "/" at its end) of every file of this tool, sorted.

    Raises UsageError if there is none.
    """
    if not look.is_folder:
        yield look.path, ""
        return
    sign, found = TOOLS[tool], 0
    for key in look.list_files(chosen=False):
        name = name_text(key)
        path = os.path.join(look.path, name)
        if name.lower().endswith(sign.suffixes) and sign.signature.begins.match(look.head(path)):
            found += 1
            yield path, name.rpartition("/")[0] + "/" if "/" in name else ""
    if not found:
        problem = f"no file of this tool among its {' and '.join(sign.suffixes)} files"
        raise UsageError(look.path, problem, "check the path")


def add_shape(
    found: Annotations,
    image: int,
    number: int,
    label: Any,
    points: Any,
    kind: str = "polygon",
    holes: Any = None,
    **known: Any,
) -> None:
    """One drawn object.

    `points` [[x, y], ...]: of a "polygon", two corners of a "rectangle", or centre and one border point of a "circle".
    Other shapes are listed with their code. `label`: None for no class. `holes`: points of polygons that are cut out.
    """
    try:
        label = None if label is None else class_text(label)
        outline = _outline(points, kind)
        holes = holes if isinstance(holes, list) else [holes] if holes else []
        cut = [_outline(hole, "polygon") for hole in holes]
    except BadAnnotationError as error:
        found.leave_out(image, error.code, f"{found.objects.what} {number}: {error.reason}")
        return
    x, y, start = outline[0::2], outline[1::2], outline[:2]
    # One polygon also goes around each hole, on a line from its start to the hole and back. Holes are outside for
    # pycocotools, which counts borders, and the line covers no area.
    whole = [*outline, *(value for hole in cut for value in (*start, *hole, *hole[:2])), *(start if cut else ())]
    found.object(image, number, (min(x), min(y), max(x), max(y)), label, outline=[whole], **known)


def ellipse(sides: Iterable[Any], angle: Any = 0.0) -> list[list[Any]]:
    """The corners of the polygon that an ellipse becomes.

    `sides`: x and y of the center, and the two radii. `angle`: radians, clockwise in an image.
    Values that are not numbers are returned as a point, for `add_shape` to refuse.
    """
    x, y, wide, high = sides
    if not all(is_number(value) and abs(value) < MOST for value in (x, y, wide, high, angle)):
        return [[x, y], [wide, high], [angle, angle]]
    turns = [2 * math.pi * i / _CIRCLE for i in range(_CIRCLE)]
    cos, sin = math.cos(angle), math.sin(angle)
    points = [(wide * math.cos(turn), high * math.sin(turn)) for turn in turns]
    return [[x + right * cos - down * sin, y + right * sin + down * cos] for right, down in points]


def choose_class(
    place: str, options: AnnotationOptions, what: str, names: Iterable[str], usual: Sequence[str] = ()
) -> str | None:
    """The name of the attribute, question or field that is the class: the user's, a `usual` one, or the only one.

    `what`: the word for these names. None without names. Raises UsageError if several remain, or the user's is missing.
    """
    names = list(dict.fromkeys(names))
    asked = list(map(str, options.label_columns or ()))
    preferred = [name for name in asked or usual if name in names]
    if asked and (len(asked) > 1 or not preferred):
        problem = f"got {some(asked)}, expected one of its {what}s: {some(names)}"
        raise UsageError("label_columns", problem, "name one of them")
    found = preferred[:1] or names
    if len(found) < 2:
        return found[0] if found else None
    give = [argument("label_columns", python=f"label_columns=[{name!r}]", typed=shlex.quote(name)) for name in found]
    problem = f"it has the {what}s {some(found)}, and each may be the class"
    raise UsageError(place, problem, f"give {' or '.join(give[:3])}")


def _outline(points: Any, kind: str) -> list[float]:
    """x, y, x, y, ... of the polygon that a shape is. Raises BadAnnotationError."""
    if not points:
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "it has no points")
    if not isinstance(points, list) or not all(isinstance(p, list | tuple) and len(p) >= 2 for p in points):
        raise BadAnnotationError(AnnotationCode.LINE, f"its points are {shown_value(points)}, expected [[x, y], ...]")
    pairs: Sequence[Sequence[Any]] = [point[:2] for point in points]
    if any(value is None or value != value for pair in pairs for value in pair):
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"its points are not numbers: {shown_value(points)}")
    if not all(is_number(value) and abs(value) < MOST for pair in pairs for value in pair):
        raise BadAnnotationError(AnnotationCode.VALUE, f"its points are {shown_value(points)}, expected numbers")
    if kind == "rectangle" and len(pairs) in (2, 4):
        (left, top), (right, bottom) = (map(f, zip(*pairs, strict=True)) for f in (min, max))
        return [left, top, right, top, right, bottom, left, bottom]
    if kind == "circle" and len(pairs) == 2:
        radius = math.dist(*pairs)
        return [value for point in ellipse((*pairs[0], radius, radius)) for value in point]
    if kind == "polygon" and len(pairs) >= 3:
        return [value for pair in pairs for value in pair]
    problem = f"a {escape(str(kind)[:40])} of {len(pairs)} points, expected a rectangle, a polygon or a circle"
    raise BadAnnotationError(AnnotationCode.OUTLINE, problem)


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
