"""Which keys of records that nobody described hold the image, its label, its name, its objects.

What is not taken is said: an annotation must not be lost in silence.

    image/encoded, image/class/label, image/filename ...    TensorFlow's own keys, and ours
    image/object/bbox/xmin, image/object/class/label ...    the Object Detection API's
    image, label, objects/bbox, objects/label ...           TFDS's; its boxes are ymin, xmin, ymax, xmax
    image_raw, height, width, depth, label                  pixels as they are, of an early example of TensorFlow's
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_TEXT,
    OBJECTS,
)
from shardfeed.converters.sources.containers.records.image_look import image_formats
from shardfeed.converters.sources.containers.records.roles import LABEL_WORDS, image_feature, label_feature, last_word
from shardfeed.errors import UsageError, argument, escape
from shardfeed.formats.format import Fields
from shardfeed.schema import (
    ENCODED,
    FILENAME,
    FORMAT,
    HEIGHT,
    LABEL,
    RESTARTS,
    SHA256,
    SOURCE_ID,
    TEXT,
    WIDTH,
    Dtype,
    Feature,
    image_features,
)
from shardfeed.text import listing

FLAGS = tuple(OBJECTS + name for name in ("difficult", "truncated", "occluded", "group_of"))  # 0 or 1, of each object
_ROLES = ("image", "label", "key", "text", "split")  # what `columns` may name besides keys
_NAMES = (FILENAME, "filename", "file_name", "image_name", "image_id", "id")  # of the image, in the order of trust
_NUMBERS = (SOURCE_ID, "image/id", "image_id")
_CAPTIONS = (CAPTION, "caption", "captions")
_TEXT_LABELS = (TEXT, "label", "class")
# Of the stored image, made anew; or of the file that it was. Their loss is none.
_MADE_ANEW = {
    FORMAT,
    HEIGHT,
    WIDTH,
    RESTARTS,
    SHA256,
    SOURCE_ID,
    "image/colorspace",
    "image/channels",
    "height",
    "width",
    "depth",
}
_TFDS_COLUMNS = {"label": OBJECT_LABEL, "area": OBJECT_AREA, "is_crowd": IS_CROWD}
_TFDS_COLUMNS |= {f"is_{key.removeprefix(OBJECTS)}": key for key in FLAGS}


class HeadLook:
    """The first records of all files, in by `add`: their features, and which of those are images."""

    def __init__(self) -> None:
        self.records = 0
        self.images: dict[str, int] = {}
        self._dtypes: dict[str, Dtype] = {}
        self._counts: dict[str, set[int]] = {}
        self._seen: dict[str, int] = {}

    def add(self, features: Fields) -> None:
        """One record."""
        self.records += 1
        for key, (dtype, values) in features.items():
            self._dtypes.setdefault(key, dtype)
            self._counts.setdefault(key, set()).add(min(len(values), 2))
            self._seen[key] = self._seen.get(key, 0) + 1
        for key, form in image_formats(features).items():
            if form != "raw":
                self.images[key] = self.images.get(key, 0) + 1

    def features(self) -> dict[str, Feature]:
        """One that never has several values has the shape (): where some record lacks it, that record is at fault."""
        ones = {key: max(counts) == 1 for key, counts in self._counts.items()}
        return {key: Feature(dtype, () if ones[key] else (None,)) for key, dtype in sorted(self._dtypes.items())}


@dataclass(frozen=True)
class ObjectKeys:
    """Where objects are. `box`: the key of each side, in the order of BOX, or of ymin, xmin, ymax, xmax in one list.

    `columns`: our key -> theirs, of what else is known of each.
    """

    box: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """What the keys of records mean; "" where there is none. `features`: all that were seen.

    `pixels`: height, width and depth, where the image is raw pixels. `label`, `label_text`: the number of the class,
    and its name; `many_labels`: any number of them. `others`: our key -> theirs. `left`: keys that are not taken.
    """

    features: Mapping[str, Feature]
    image: str
    pixels: tuple[str, str, str] | None = None
    label: str = ""
    label_text: str = ""
    key: str = ""
    split: str = ""
    captions: str = ""
    number: str = ""
    objects: ObjectKeys | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """All keys of records that something is taken from."""
        own = {self.image, self.label, self.label_text, self.key, self.split, self.captions, self.number}
        own |= {*self.others.values(), *(self.pixels or ())}
        if self.objects is not None:
            own |= {*self.objects.box, *self.objects.columns.values()}
        return frozenset(own - {""})

    @property
    def many_labels(self) -> bool:
        """Whether an image may have any number of labels."""
        return bool(self.label) and not self.features[self.label].scalar


def find_layout(
    look: HeadLook,
    columns: Mapping[str, str],
    place: str,
    *,
    said: tuple[str | None, str | None] = (None, None),
    image: str | None = None,
) -> Layout:
    """What the keys mean, by what `columns` say (see ContainerOptions), else by their names and their values.

    `said`: image and label by a file beside the records. `image`: that of a format that knows its images. Raises
    UsageError where there is no image, or several and none is said, or a key is not there.
    """
    features = look.features()
    for role, key in columns.items():
        if key not in features:
            there = listing([escape(key) for key in features]) or "nothing"
            problem = f"no record, of the {look.records} looked at, has {escape(key)}, which {escape(role)} is to be"
            raise UsageError(place, problem, f"there is {there}: {argument('columns', typed='image=KEY,label=KEY')}")
        if role in image_features(sha256=True).keys() - {ENCODED, FILENAME, SOURCE_ID}:
            raise UsageError("columns", f"{escape(role)} is made of the image that is stored", "leave it out")
    images = columns.get("image", columns.get(ENCODED, image))
    pixels = None
    if images is None:
        images = image_feature(features, look.images, None, said[0])
    if images is None or (images not in look.images and image is None):
        pixels = _raw_pixels(features, images)
        images = images or (_raw_key(features) if pixels else None)
    if images is None or features[images].dtype != "bytes":
        raise _no_image(look, features, images, place)
    label = _label(features, columns, said[1], place)
    text = columns.get(TEXT, label.removesuffix("label") + "text" if label.endswith("/label") else "")
    if not label:
        text = next((key for key in _TEXT_LABELS if _is(features, key, "bytes") and key != images), "")
    elif features[label].dtype == "bytes":
        label, text = "", label
    objects = _objects(features, columns)
    found = Layout(
        features,
        images,
        pixels,
        label,
        text if text in features and features[text].dtype == "bytes" else "",
        columns.get("key", columns.get(FILENAME, "")) or next((key for key in _NAMES if _is_name(features, key)), ""),
        columns.get("split", ""),
        columns.get("text", columns.get(CAPTION, ""))
        or next((key for key in _CAPTIONS if key in features and features[key].dtype == "bytes"), ""),
        columns.get(SOURCE_ID, "") or next((key for key in _NUMBERS if _is_name(features, key)), ""),
        objects,
        {ours: theirs for ours, theirs in columns.items() if _is_other(ours, objects)},
    )
    return Layout(**{**found.__dict__, "left": _left(found)})


def _is_other(key: str, objects: ObjectKeys | None) -> bool:
    known = {*_ROLES, ENCODED, LABEL, TEXT, FILENAME, CAPTION, SOURCE_ID}
    return key not in known and not (key.startswith(OBJECTS) and objects is not None)


def _is(features: Mapping[str, Feature], key: str, dtype: Dtype) -> bool:
    return key in features and features[key].dtype == dtype and features[key].scalar


def _is_name(features: Mapping[str, Feature], key: str) -> bool:
    return _is(features, key, "bytes") or _is(features, key, "int64")


def _label(features: Mapping[str, Feature], columns: Mapping[str, str], said: str | None, place: str) -> str:
    """The key of the label, a number or a text; "" where nothing is one. Raises UsageError for a float."""
    given = columns.get("label", columns.get(LABEL, ""))
    if given and features[given].dtype == "float32":
        raise UsageError(place, f"the label {escape(given)} is a float, expected an integer or text")
    if given:
        return given
    if LABEL in features and features[LABEL].dtype == "int64":
        return LABEL
    found = label_feature(features, None, said) or ""
    if found and features[found].dtype == "int64":
        return found
    several = [key for key in LABEL_WORDS if key in features and features[key] == Feature("int64", (None,))]
    return several[0] if several else ""


def _raw_key(features: Mapping[str, Feature]) -> str | None:
    return next((key for key in (ENCODED, "image_raw", "image/raw", "image") if _is(features, key, "bytes")), None)


def _raw_pixels(features: Mapping[str, Feature], image: str | None) -> tuple[str, str, str] | None:
    """Height, width and depth, where records have those and the image is none by its bytes."""
    if image is None and _raw_key(features) is None:
        return None
    for prefix, depths in (("image/", ("image/depth", "image/channels")), ("", ("depth", "channels"))):
        height, width = prefix + "height", prefix + "width"
        if _is(features, height, "int64") and _is(features, width, "int64"):
            return height, width, next((depth for depth in depths if _is(features, depth, "int64")), "")
    return None


def _objects(features: Mapping[str, Feature], columns: Mapping[str, str]) -> ObjectKeys | None:
    """The boxes and what belongs to them; None where there are none."""
    sides = tuple(columns.get(side, side) for side in BOX)
    if all(side in features and features[side].dtype == "float32" for side in sides):
        area = next((key for key in (OBJECT_AREA, f"{OBJECTS}segment/area") if key in features), OBJECT_AREA)
        known = {key: key for key in (OBJECT_LABEL, OBJECT_TEXT, IS_CROWD, *FLAGS)} | {OBJECT_AREA: area}
        found = {ours: columns.get(ours, theirs) for ours, theirs in known.items()}
        return ObjectKeys(sides, _fitting(features, found))
    boxes = [key for key, feature in features.items() if key.endswith("/bbox") and feature.dtype == "float32"]
    if len(boxes) != 1:
        return None
    prefix = boxes[0].removesuffix("bbox")
    found = {ours: columns.get(ours, prefix + name) for name, ours in _TFDS_COLUMNS.items()}
    return ObjectKeys((boxes[0],), _fitting(features, found))


def _fitting(features: Mapping[str, Feature], found: Mapping[str, str]) -> dict[str, str]:
    """Those that are there, with the dtype that they must have; an area may be a whole number."""
    dtypes: dict[str, tuple[Dtype, ...]] = {OBJECT_TEXT: ("bytes",), OBJECT_AREA: ("float32", "int64")}
    return {
        ours: theirs
        for ours, theirs in found.items()
        if theirs in features and features[theirs].dtype in dtypes.get(ours, ("int64",))
    }


def _left(layout: Layout) -> tuple[str, ...]:
    """Keys of records that nothing here takes, sorted."""
    return tuple(sorted(layout.features.keys() - layout.keys - _MADE_ANEW))


def _no_image(look: HeadLook, features: Mapping[str, Feature], given: str | None, place: str) -> UsageError:
    texts: Iterable[str] = look.images or [key for key, feature in features.items() if feature.dtype == "bytes"]
    there = listing([escape(key) for key in sorted(texts)]) or "no feature of bytes"
    if given is not None:
        return UsageError(place, f"{escape(given)} is {features[given].dtype}, expected the bytes of images")
    if look.images:
        problem = f"several features hold images: {there}"
    else:
        shown = listing([escape(last_word(key)) if len(key) > 40 else escape(key) for key in features])
        problem = f"no feature of the {look.records} records looked at is an image by its bytes; there is {shown}"
    return UsageError(place, problem, f"say which is the image: {argument('columns', typed='image=KEY')}")
