"""Files of an annotation tool in a folder, and the boxes and outlines of the shapes drawn with it."""

import math
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.rare.signs import TOOLS
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
        if name.lower().endswith(sign.suffixes) and sign.marks.begins.match(look.head(path)):
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
