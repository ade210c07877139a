"""Labels of batches: the number of the image's class, its set of classes as a vector, or a caption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from shardfeed.annotations import CAPTION
from shardfeed.declared import Classes, Int64, checked
from shardfeed.errors import UsageError, shown
from shardfeed.pipelines.arguments import tag_count
from shardfeed.pipelines.tensorflow.augment import ImageTransform, own_uniforms
from shardfeed.pipelines.windows import SPARE, UNIFORMS
from shardfeed.schema import Schema


def labelled(transform: ImageTransform, label: str | None, schema: Schema) -> "Labelled | ImageTransform":
    """Make a transform to (image, label): `transform`'s image, and the feature `label`, multi-hot for tags.

    None: `transform` itself, which makes the image alone.
    """
    return transform if label is None else Labelled(transform, label, tag_count(schema, label))


@dataclass(frozen=True)
class Labelled:
    """Transform that `labelled` returns. `classes`: number of classes of tags; None: a label is one number."""

    image: ImageTransform
    label: str
    classes: Classes | None

    def __call__(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return image and label of one sample."""
        found = features[self.label]
        return self.image(features, seed), found if self.classes is None else multi_hot(found, self.classes)

    def finish_batch(
        self, features: Mapping[str, Any], seeds: tf.Tensor, images: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return images and labels of a batch whose images are finished; tags come in as a `tf.RaggedTensor`."""
        del seeds
        found = features[self.label]
        if self.classes is None:
            return images, found
        places = tf.stack([tf.cast(found.value_rowids(), tf.int64), found.values], 1)
        first = tf.nest.flatten(images)[0]
        hot = tf.zeros([tf.shape(first)[0], self.classes])
        hot = tf.tensor_scatter_nd_update(hot, places, tf.ones_like(found.values, tf.float32))
        return images, tf.ensure_shape(hot, [first.shape[0], self.classes])


@checked
def multi_hot(labels: tf.Tensor | NDArray[np.integer] | Sequence[Int64], classes: Classes) -> tf.Tensor:
    """A set of classes as a vector: float32 [classes], 1 for each class in `labels`, else 0.

    Use it in your own transform; `train_batches` does the same for a "tags" feature.

    Args:
        labels: integers [n], of one sample, each 0 to `classes` - 1; if empty, the vector is all 0.
        classes: number of classes: `len(split.class_names)`.

    Raises:
        UsageError: for fewer than one class, and for a label, not in a tensor, that is not 0 to `classes` - 1.
        tf.errors.InvalidArgumentError: while iterating, for a label in a tensor that is not 0 to `classes` - 1.

    Example:
        classes = len(data["train"].class_names)
        crop = random_resized_crop(224)

        def image_and_tags(features, seed):
            return crop(features, seed), multi_hot(features["image/class/label"], classes)

        batches = make_batches(data["train"], image_and_tags, batch_size=256)
    """
    found: Any = labels if tf.is_tensor(labels) else tf.constant(_numbers_of_classes(labels, classes), tf.int64)
    # An update, not a sum: a class named twice, in records of other programs, is also 1.
    hot = tf.tensor_scatter_nd_update(tf.zeros([classes]), found[:, None], tf.ones_like(found, tf.float32))
    return tf.ensure_shape(hot, [classes])


def _numbers_of_classes(labels: Any, classes: int) -> np.ndarray:
    """The labels, int64 [n]. Raises UsageError for one that is not 0 to `classes` - 1."""
    numbers = np.asarray(labels, np.int64)
    if numbers.ndim != 1:
        raise UsageError("labels", f"got an array of shape {numbers.shape}, expected integers [n]")
    wrong = numbers[(numbers < 0) | (numbers >= classes)]
    if len(wrong):
        raise UsageError("labels", f"got {wrong[0]}, expected 0 to {classes - 1}")
    return numbers


@checked
def draw_caption(features: Mapping[str, tf.Tensor], seed: tf.Tensor, key: str = CAPTION) -> tf.Tensor:
    """Draw one of the captions of a sample by its seed: a string [], empty if the sample has none.

    All captions are equally likely. A different epoch may draw a different caption; the same seed draws the same
    caption, here and in `pipelines.torch`, and a resumed run draws the same captions as an uninterrupted run.

    Args:
        features: features of one sample, with `key`: strings [n], or one string, which is returned unchanged.
        seed: int64 [2], the sample's own seed, as passed to a transform.
        key: key of the feature with the captions.

    Raises:
        UsageError: if the dataset has no feature `key` of strings.

    Example:
        crop = random_resized_crop(224)

        def image_and_caption(features, seed):
            return crop(features, seed), draw_caption(features, seed)

        batches = make_batches(data["train"], image_and_caption, batch_size=256)
    """
    if key not in features or features[key].dtype != tf.string:
        texts = [name for name, value in features.items() if value.dtype == tf.string]
        problem = f"got {shown(key)}, expected a text feature"
        raise UsageError("key", problem, f"there is {', '.join(map(repr, sorted(texts))) or 'none'}")
    captions = features[key]
    if captions.shape.rank == 0:
        return captions
    uniform = own_uniforms(seed, [UNIFORMS])[SPARE]  # the crop's numbers, whose last one the crop does not use
    place = tf.cast(uniform * tf.cast(tf.shape(captions)[0], tf.float32), tf.int32)
    return tf.concat([captions, [b""]], 0)[place]
