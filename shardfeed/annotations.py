"""Objects and rasters in a record: their keys, and the meaning of their values; the table of them is `kinds`.

The keys are those of TensorFlow's Object Detection API and Model Garden. Each column of objects has one value per
object; a column of keypoints has one value per point name for each object, object by object.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.errors import UsageError

OBJECTS = "image/object/"
XMIN, YMIN, XMAX, YMAX = (f"{OBJECTS}bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax"))
BOX = (XMIN, YMIN, XMAX, YMAX)  # float32, fractions of the stored image's width and height, from its top left corner
OBJECT_LABEL = f"{OBJECTS}class/label"  # int64, 0-based index into the class names
OBJECT_TEXT = f"{OBJECTS}class/text"  # bytes: the class name, UTF-8
IS_CROWD = f"{OBJECTS}is_crowd"  # int64: 1 for a group of objects that one region stands for, else 0
OBJECT_AREA = f"{OBJECTS}area"  # float32, pixels squared of the stored image: of the region, not of its box
OBJECT_MASK = f"{OBJECTS}mask"  # bytes: a PNG as large as the stored image, one channel, 8 bits, 0 or 1
KEYPOINT_X, KEYPOINT_Y = f"{OBJECTS}keypoint/x", f"{OBJECTS}keypoint/y"  # float32, fractions as of boxes
KEYPOINT_VISIBILITY = f"{OBJECTS}keypoint/visibility"  # int64: 0 not there (its x and y are 0), 1 occluded, 2 visible
RASTER = "image/segmentation/class/encoded"  # bytes: a PNG as large as the stored image, one channel, a class a pixel
RASTER_FORMAT = "image/segmentation/class/format"  # bytes: b"png"
CAPTION = "image/caption"  # bytes: all captions of the image, UTF-8


def names_of(value: Iterable[Any]) -> tuple[str, ...]:
    """Names of classes or of keypoints out of JSON. Raises TypeError for what is not text."""
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is not text")
    return names


def ids_of(value: Iterable[Any]) -> tuple[int, ...]:
    """Ids of classes, or numbers of keypoints, out of JSON. Raises TypeError for what is not an integer."""
    ids = tuple(value)
    if not all(type(each) is int for each in ids):
        raise TypeError("an id is not an integer")
    return ids


@dataclass(frozen=True)
class Keypoints:
    """The keypoints that each object has, in their order.

    `flip[k]`: the keypoint that `k` becomes in the mirrored image (a left eye becomes a right one); empty if unknown,
    and then images cannot be mirrored. `skeleton`: pairs of keypoints, from 0, joined by a line.
    """

    names: tuple[str, ...]
    flip: tuple[int, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Keypoints":
        """The inverse of `dataclasses.asdict`, also from JSON."""
        pairs = tuple((int(a), int(b)) for a, b in value["skeleton"])
        return cls(names_of(value["names"]), ids_of(value["flip"]), pairs)


@dataclass(frozen=True)
class Raster:
    """Classes of a segmentation mask's values: `class_names[v]` is the name of value `v`.

    `void`: the value of pixels without a class, or with an unknown one; None if there are no such pixels.
    `class_ids[v]`: the source's number for value `v`; empty if that number is `v`.

    Raises UsageError if `void` is a class or does not fit in 16 bits, and unless each class has one name and one id.
    """

    class_names: tuple[str, ...]
    void: int | None = None
    class_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.class_names)
        if not 0 < count == len(set(self.class_names)) <= 1 << 16 or (self.class_ids and len(self.class_ids) != count):
            problem = f"got {count} class names and {len(self.class_ids)} ids"
            raise UsageError("Raster", problem, "give 1 to 65,536 classes, each with a different name")
        if self.void is not None and not count <= self.void < 1 << 16:
            problem = f"got {self.void}, expected {count} to 65535"
            raise UsageError("Raster.void", problem, "void must be larger than all class numbers")

    @property
    def bits(self) -> int:
        """Bits per pixel of the PNG: 8, or 16 if a value does not fit in 8."""
        return 8 if max(len(self.class_names) - 1, self.void or 0) < 256 else 16

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Raster":
        """The inverse of `dataclasses.asdict`, also from JSON."""
        return cls(names_of(value["class_names"]), value["void"], ids_of(value["class_ids"]))
