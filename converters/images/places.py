"""Labels that say where something is in an image: what happens to them when the image is turned or cut.

Boxes are stored as they are given, fractions of the upright image (`image/object/bbox/xmin`, ...). Whether an
annotator saw an image upright or as its file has it, no file says; so for a turned one the report names it.
"""

import re
from collections.abc import Iterable

from shardfeed.converters.images.options import ImageOptions
from shardfeed.errors import UsageError, escape

# One word of a key is enough: TensorFlow's own (image/object/bbox/xmin, image/segmentation/class/encoded) and what
# people call columns of their own.
_WORD = re.compile(r"bbox(es)?|box(es)?|[xy](min|max)|masks?|segmentation|keypoints?|polygons?")
_TURNED = "exif-rotated"


def placed_features(keys: Iterable[str]) -> list[str]:
    """Those of the label features `keys` that mean places in the image, sorted."""
    return sorted(key for key in keys if any(map(_WORD.fullmatch, re.split("[/_]", key.lower()))))


def check_boxes(keys: Iterable[str], options: ImageOptions) -> None:
    """Raises UsageError where `options` cut images and the label features `keys` mean places in them."""
    placed = placed_features(keys)
    if options.shape is not None and placed:
        problem = f"the middle of each image is cut out, and {escape(placed[0])} would mean other places"
        raise UsageError("size", problem, "use resize_shorter, which cuts nothing, or leave that label out")


def box_warning(transform: str | None, placed: list[str]) -> str | None:
    """The warning about an image stored with `transform` (see StoredImage) whose features `placed` mean places."""
    if not placed or transform is None or _TURNED not in transform.split("+"):
        return None
    return f"turned upright as its EXIF says: {', '.join(map(escape, placed))} must mean the upright image"
