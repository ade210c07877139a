"""Transforms for detection and segmentation: objects and rasters of a sample, in the view that its image shows.

They look at the schema first: `bind` declares which features they need, and raises an error if the dataset lacks them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tensorflow as tf

from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, RASTER, Keypoints
from shardfeed.declared import Fraction, Positive, Range, checked
from shardfeed.errors import UsageError
from shardfeed.kinds import KEYPOINTS, ROTATED, RecordKind
from shardfeed.pipelines.geometry import MIN_VISIBLE
from shardfeed.pipelines.objects import BoxFormat, LabelOffset, box_columns, object_keys, raster_keys
from shardfeed.pipelines.tensorflow import views
from shardfeed.pipelines.tensorflow.assembly import Transform
from shardfeed.pipelines.tensorflow.augment import GraphTransform
from shardfeed.pipelines.tensorflow.augmented import move_rasters
from shardfeed.pipelines.tensorflow.views import SeenBoxTensors, ViewTensors, see_raster
from shardfeed.schema import SOURCE_ID, Schema

Crowd = Literal["keep", "flag", "drop"]

_PADDING = -1  # of boxes and of columns, as Keras has it
_GRAY = 0  # PNG's colour type for pixels that are the values themselves


Windowed = Annotated[
    GraphTransform, "random_resized_crop(512), resize_center_crop(512) or letterbox(512) of shardfeed.pipelines"
]


@checked
def detection(
    image: Windowed,
    *,
    boxes: BoxFormat = "xyxy",
    max_objects: Positive = 100,
    min_visible: Fraction = MIN_VISIBLE,
    label_offset: LabelOffset = 0,
    crowd: Crowd = "keep",
    masks: bool = False,
    keypoints: bool = False,
    area: bool = False,
    image_id: bool = False,
) -> "GraphDetection":
    """A transform for detectors: the cropped image, and the objects in the crop, padded to a fixed number.

    It returns a dict as Keras' own layers expect it, here for `max_objects` = m and images of height x width:

    - "images": uint8 [height, width, 3].
    - "bounding_boxes": {"boxes": float32 [m, 4], "labels": int64 [m]}, both -1 in rows without an object.
    - "num_objects": int32 [], number of objects in the window. If there are more than m, the m largest are returned.
    - "scale", "offset", unless the image's transform flips or moves pixels by an augmentation: float32 [2] each, x and
      y, which map pixel coordinates back to the stored image; see `boxes_to_source`.
    - "masks", "keypoints", "crowd", "area", "image_id", if requested.

    Objects are in stored order. Boxes are clipped to the window; an object whose box then has no area is dropped. Its
    label, mask, keypoints, crowd flag and area are dropped with it. A box that an augmentation turns is the box around
    what of the turned one is in the image.

    Args:
        image: `random_resized_crop(...)`, `resize_center_crop(...)` or `letterbox(...)`.
        boxes: one of Keras' formats: "xyxy", "yxyx", "xywh", "center_xywh" and "center_yxhw" in pixels of the output of
            `image`; "rel_xyxy", "rel_yxyx", "rel_xywh" and "rel_center_xywh" as fractions of it. "xyxyxyxy" gives
            rotated boxes, float32 [m, 8]: x and y of four corners, in pixels, which may be outside of the window.
        max_objects: maximum number per image, 1 or more.
        min_visible: the fraction of an object's box, 0..1, that must be inside the window, and after augmentations
            inside the image and not erased; else the object is dropped.
        label_offset: added to the labels, 0 or more: 1 for models that use 0 as the background.
        crowd: treatment of objects that stand for a group: "keep" treats them like any other object; "flag" adds
            "crowd", int64 [m]: 1 for groups, 0 for other objects, -1 in rows without an object; "drop" leaves them out.
            In a dataset without crowd flags, no object counts as a group.
        masks: adds "masks", uint8 [m, height, width], 1 inside of the object, else 0.
        keypoints: adds "keypoints", float32 [m, K, 3]: x and y, in pixels, and visibility. All three are 0 for points
            that are missing, erased or outside of the window. Flipping swaps left and right keypoints, as the dataset
            defines; so do augmentations that mirror.
        area: adds "area", float32 [m]: the area of the object's region in the output of `image`, in pixels squared; -1
            in rows without an object. If the window cuts an object, or an augmentation erases a part, its area shrinks
            in proportion to its box, which is an estimate. If the dataset has no areas, the area of the box is used.
        image_id: adds "image_id", int64: the id in `image/source_id`, as COCO's evaluation needs it.

    Raises:
        UsageError: for values out of range; and when batches are made, if the dataset has no objects or lacks a
            requested feature, or if keypoints cannot be flipped.

    Example:
        train = make_batches(
            data["train"], detection(random_resized_crop(512), boxes="rel_yxyx", max_objects=50), batch_size=16
        )
        model.fit(train.map(lambda batch: (batch["images"], batch["bounding_boxes"])), epochs=3)

        # Inside your own transform:
        keys, detect = detection(letterbox(512)).bind(data["train"].schema)
    """
    return GraphDetection(
        image, boxes, max_objects, float(min_visible), label_offset, crowd, masks, keypoints, area, image_id
    )


@dataclass(frozen=True)
class GraphDetection:
    """Transform that `detection` returns; usable once `bind` has set the schema."""

    image: GraphTransform
    boxes: BoxFormat
    max_objects: Positive
    min_visible: float
    label_offset: int
    crowd: Crowd
    masks: bool
    keypoints: bool
    area: bool
    image_id: bool

    @checked
    def bind(self, schema: Schema) -> tuple[list[str], Transform]:
        """Return the features to parse and the transform. Raises UsageError if the dataset lacks something it needs."""
        optional = [IS_CROWD] * (self.crowd != "keep") + [OBJECT_AREA] * self.area
        asked: Any = {"form": self.boxes, "masks": self.masks, "keypoints": self.keypoints, "image_id": self.image_id}
        keys, meaning = object_keys(schema, *optional, **asked, mirrors=self.image.crop.swaps_sides)

        def sample(features: Mapping[str, tf.Tensor], image: tf.Tensor, view: ViewTensors) -> dict[str, Any]:
            return self._sample(features, image, view, meaning)

        return keys, _BoundTransform(self.image, sample)

    def __call__(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict[str, Any]:
        """Raise UsageError: `bind` must set the schema first."""
        raise _unbound("detection")

    def _sample(
        self, features: Mapping[str, tf.Tensor], image: tf.Tensor, view: ViewTensors, meaning: Keypoints | None
    ) -> dict[str, Any]:
        """The dict. `meaning`: that of its keypoints."""
        columns = [features[key] for key in BOX]
        crowd = _crowd(features, tf.shape(columns[0])[0])
        seen = views.see_boxes(columns, view, self.min_visible)
        if self.crowd == "drop":
            seen = seen.chosen(tf.where(tf.gather(crowd, seen.kept) == 0)[:, 0])
        count = tf.shape(seen.kept)[0]
        seen = seen.chosen(views.largest(seen.boxes, self.max_objects))
        if self.boxes == "xyxyxyxy":
            boxes = tf.reshape(_points(ROTATED, None, features, seen, view), [-1, 8])
        else:
            boxes = formatted(seen.boxes, self.boxes, view.target)
        labels = tf.gather(features[OBJECT_LABEL], seen.kept) + self.label_offset
        sample: dict[str, Any] = {
            "images": image,
            "bounding_boxes": {"boxes": self._padded(boxes), "labels": self._padded(labels)},
            "num_objects": count,
        }
        if self.image.crop.goes_back:
            sample["scale"], sample["offset"] = views.to_source(view)
        if self.masks:
            sample["masks"] = self._padded(_masks(tf.gather(features[OBJECT_MASK], seen.kept), view), 0)
        if self.keypoints:
            sample["keypoints"] = self._padded(_points(KEYPOINTS, meaning, features, seen, view), 0)
        if self.crowd == "flag":
            sample["crowd"] = self._padded(tf.gather(crowd, seen.kept))
        if self.area:
            found = OBJECT_AREA in features
            areas = views.see_areas(features[OBJECT_AREA], seen, view) if found else views.box_areas(seen.boxes)
            sample["area"] = self._padded(areas)
        if self.image_id:
            sample["image_id"] = tf.strings.to_number(features[SOURCE_ID], tf.int64)
        return sample

    def _padded(self, values: tf.Tensor, padding: int = _PADDING) -> tf.Tensor:
        """[k, ...] as [max_objects, ...]."""
        rest = values.shape[1:]
        missing = tf.stack([0, self.max_objects - tf.shape(values)[0]])
        margins = tf.stack([missing, *[tf.zeros_like(missing)] * len(rest)])
        values = tf.pad(values, margins, constant_values=tf.cast(padding, values.dtype))
        return tf.ensure_shape(values, [self.max_objects, *rest])


@checked
def segmentation(
    image: Windowed, *, sample_weight: bool = False, void: Annotated[int, Range(0, 65_535)] | None = None
) -> "GraphSegmentation":
    """A transform for semantic segmentation: (image, mask), where the mask has a class for each pixel of the image.

    Image uint8 [height, width, 3], mask uint8 [height, width, 1]; uint16 if the dataset has too many classes for uint8.
    The mask is resized with nearest-neighbour interpolation. The void value is kept: pass it to the loss,
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)`.

    Args:
        image: `random_resized_crop(...)`, `resize_center_crop(...)` or `letterbox(...)`. The padding of a letterbox is
            void, and so are pixels that an augmentation erases or takes from outside of the image. Without a void
            value, erased pixels keep their class.
        sample_weight: adds a third element, float32 [height, width], 0 where the mask is void, else 1; void pixels of
            the mask then become 0, a class that every loss accepts.
        void: the value of pixels without a class. None: the dataset's void value.

    Raises:
        UsageError: for values out of range; and when batches are made, if the dataset has no segmentation masks, or
            lacks a void value that is needed.

    Example:
        train = make_batches(data["train"], segmentation(random_resized_crop(512)), batch_size=16)
        model.fit(train, epochs=3)
    """
    return GraphSegmentation(image, sample_weight, void)


@dataclass(frozen=True)
class GraphSegmentation:
    """Transform that `segmentation` returns; usable once `bind` has set the schema."""

    image: GraphTransform
    sample_weight: bool
    void: int | None

    @checked
    def bind(self, schema: Schema) -> tuple[list[str], Transform]:
        """Return the features to parse and the transform. Raises UsageError if the dataset lacks something it needs."""
        keys, void = raster_keys(schema, self.void, self.image.crop, weighted=self.sample_weight)
        classes, padding = 0 if schema.raster is None else len(schema.raster.class_names), void or 0
        dtype = tf.uint16 if max(classes - 1, padding) > 255 else tf.uint8

        def sample(features: Mapping[str, tf.Tensor], image: tf.Tensor, view: ViewTensors) -> tuple[tf.Tensor, ...]:
            raster = see_raster(_values(features[RASTER], view, dtype), view, void)
            if not self.sample_weight:
                return image, raster[:, :, None]
            classed = raster != tf.cast(padding, dtype)
            return image, tf.where(classed, raster, 0)[:, :, None], tf.cast(classed, tf.float32)

        return keys, _BoundTransform(self.image, sample)

    def __call__(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Raise UsageError: `bind` must set the schema first."""
        raise _unbound("segmentation")


@dataclass(frozen=True)
class _BoundTransform:
    """A transform that makes the image and its view, and leaves the rest to `sample`."""

    image: GraphTransform
    sample: Callable[[Mapping[str, tf.Tensor], tf.Tensor, ViewTensors], Any]

    @tf.autograph.experimental.do_not_convert  # needs no conversion, which takes a while
    def __call__(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> Any:
        return self.sample(features, *self.image.see(features, seed))

    @tf.autograph.experimental.do_not_convert
    def follow(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor, image: tf.Tensor, view: ViewTensors) -> Any:
        """Apply the transform to a sample whose image is finished."""
        del seed
        return self.sample(features, image, view)


def _unbound(name: str) -> UsageError:
    problem = "it was called before it was bound to a schema"
    return UsageError(name, problem, f"keys, transform = {name}(...).bind(split.schema), and call that")


def _points(
    kind: RecordKind,
    meaning: Keypoints | None,
    features: Mapping[str, tf.Tensor],
    seen: SeenBoxTensors,
    view: ViewTensors,
) -> tf.Tensor:
    """The points of a kind of the objects seen: float32 [k, K, 2 or 3]."""
    each = kind.each(meaning)
    columns = [tf.gather(tf.reshape(features[key], [-1, each]), seen.kept) for key in kind.features]
    x, y, visibility = columns if kind.visible else (*columns, None)
    return views.see_points(x, y, visibility, view, kind.flip(meaning))


def _crowd(features: Mapping[str, tf.Tensor], count: tf.Tensor) -> tf.Tensor:
    """Whether each object is a crowd, int64 [n]: 0 if the record has no flag."""
    found = features.get(IS_CROWD)
    if found is None:
        return tf.zeros([count], tf.int64)
    return tf.concat([found, tf.zeros([count - tf.shape(found)[0]], tf.int64)], 0)


def formatted(boxes: tf.Tensor, form: str, target: tuple[Any, Any]) -> tf.Tensor:
    """xmin, ymin, xmax, ymax in pixels as one of Keras' formats."""
    if form.startswith("rel_"):
        height, width = target
        boxes = boxes / tf.cast(tf.stack([width, height, width, height]), tf.float32)
    return tf.stack(box_columns(form, *tf.unstack(boxes, axis=1)), 1)


def _masks(encoded: tf.Tensor, view: ViewTensors) -> tf.Tensor:
    """PNGs, [k], as uint8 [k, height, width] of the target, 0 or 1; 255, as other programs write, becomes 1."""
    in_crop = view._replace(moves=None)  # all masks move at once, which takes less time

    def mask(png: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_png(png, 1)[:, :, 0]
        with tf.control_dependencies([_same_size(pixels, view)]):
            return tf.cast(see_raster(pixels, in_crop, 0) > 0, tf.uint8)

    signature = tf.TensorSpec(views.static_sides(view.target), tf.uint8)
    none = tf.zeros([0, *view.target], tf.uint8)  # `map_fn` cannot make it of sides that an order decides
    masks = tf.cond(tf.size(encoded) > 0, lambda: tf.map_fn(mask, encoded, fn_output_signature=signature), lambda: none)
    return masks if view.moves is None else move_rasters(masks, view.moves, 0)


def _values(png: tf.Tensor, view: ViewTensors, dtype: tf.DType) -> tf.Tensor:
    """A raster's values, [height, width] of the image."""
    # A PNG read as the wrong type silently gives other values: the brightness of colours, the upper 8 of 16 bits. Its
    # header has the type: one byte for the bits, one for the colour type.
    bits, colour = tf.unstack(tf.io.decode_raw(tf.strings.substr(png, 24, 2), tf.uint8), 2)
    gray = tf.debugging.Assert(
        tf.equal(colour, _GRAY), [f"{RASTER} is not a gray PNG of class numbers; its colour type is", colour]
    )
    with tf.control_dependencies([] if gray is None else [gray]):
        pixels = tf.cond(
            bits > 8,
            lambda: tf.cast(tf.io.decode_png(png, 1, tf.uint16), dtype),
            lambda: tf.cast(tf.io.decode_png(png, 1), dtype),
        )[:, :, 0]
    with tf.control_dependencies([_same_size(pixels, view)]):
        return tf.identity(pixels)


def _same_size(pixels: tf.Tensor, view: ViewTensors) -> Any:
    message = "a mask or raster differs in size from its image: convert the dataset again"
    return tf.debugging.assert_equal(tf.shape(pixels), view.size, message)
