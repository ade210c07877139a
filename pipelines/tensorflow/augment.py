"""Transforms: functions from one sample's features and its seed to an image of fixed size, passed as objects.

Every transform is called as `transform(features, seed)`: `features` are the parsed features (at least `image/encoded`),
`seed` is int64 [2], a function of the run's seed, the epoch and the sample, so that the same sample in the same epoch
is always cut the same way. It returns uint8 [height, width, 3]. Boxes, keypoints and rasters follow the view that the
transform drew: see `see`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from shardfeed.declared import Range, checked
from shardfeed.pipelines.arguments import WHOLE, Augment, Channels, Size, image_size
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import (
    AREA,
    ASPECT_RATIO,
    ATTEMPTS,
    RandomCrop,
    RandomWindow,
)
from shardfeed.pipelines.tensorflow.augmented import edited
from shardfeed.pipelines.tensorflow.decode import ChooseWindow, decode_window, resized
from shardfeed.pipelines.tensorflow.views import ViewTensors
from shardfeed.pipelines.windows import OWN_KEY

ImageTransform = Callable[[Mapping[str, tf.Tensor], tf.Tensor], tf.Tensor]
# From a seed to the choice of a window, and to whether the image is mirrored, bool []; None: never.
Draw = Callable[[tf.Tensor], tuple[ChooseWindow, tf.Tensor | None]]

_PHILOX = 1  # TensorFlow's number of that generator, the same on every device


class GraphTransform:
    """An image transform that can also return its view: the window of the image, and its place in the output.

    Args:
        crop: the window that it cuts, as arithmetic.
        draw: the same as operations of a graph: the choice of the window, from a sample's seed. None: there are none.
        antialias: as of `decode_window`.
    """

    def __init__(self, crop: Crop, draw: Draw | None, *, antialias: bool = False) -> None:
        self.crop, self.antialias = crop, antialias
        self.target, self._draw = crop.target, draw

    def __call__(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        """The image: uint8 [height, width, channels], of 16 bits uint16."""
        return self.see(features, seed)[0]

    def augmented(self, augment: Sequence[Augmentation]) -> "GraphTransform":
        """The same with other augmentations."""
        return GraphTransform(self.crop.augmented(augment), self._draw, antialias=self.antialias)

    @property
    def image(self) -> "GraphTransform":
        """The transform itself, as for `HostTransform`."""
        return self

    def finish_batch(self, features: Mapping[str, Any], seeds: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
        """Return `images`, the finished images of a batch."""
        del features, seeds
        return images

    def see(self, features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, ViewTensors]:
        """The image, and its view: the window of the stored image that it shows. Raises UsageError without a size."""
        self.crop.at(None)
        assert self._draw is not None
        choose, mirrored = self._draw(seed)
        decoded = decode_window(features, choose, antialias=self.antialias, channels=self.crop.channels)
        image = resized(decoded.pixels, decoded.target, antialias=self.antialias)
        content = tf.constant([0, 0, *self.target])
        if self.crop.letterboxes:
            spare = self.target - decoded.target
            before = spare // 2
            margins = tf.concat([tf.stack([before, spare - before], 1), [[0, 0]]], 0)
            fill = self.crop.fill if image.dtype == tf.uint8 else 257 * self.crop.fill
            image = tf.pad(image, margins, constant_values=tf.cast(fill, image.dtype))
            content = tf.concat([before, decoded.target], 0)
        if mirrored is not None:
            image = tf.cond(mirrored, lambda: tf.reverse(image, [1]), lambda: image)
        image, moves = tf.ensure_shape(image, [*self.target, self.crop.channels]), None
        if self.crop.augment:
            self.crop.check_pixels(np.dtype(image.dtype.as_numpy_dtype))
            image, moves = edited(image, seed, self.crop)
        return image, ViewTensors(decoded.shape, decoded.window, content, self.target, mirrored, moves)


@checked
def random_resized_crop(
    size: Size | None = None,
    *,
    area: tuple[float, float] = AREA,
    aspect_ratio: tuple[float, float] = ASPECT_RATIO,
    flip: bool = True,
    antialias: bool = False,
    channels: Channels = 3,
    augment: Augment = (),
) -> GraphTransform:
    """Crop a random window of the image, resize it to `size`, and flip it half of the time: the usual training crop.

    Returns uint8 [height, width, channels], of 16 bits uint16. The same seed gives the same window, here and in
    `pipelines.torch`. Source: Szegedy et al. 2015, section 6, in the form of torchvision's RandomResizedCrop.

    Args:
        size: pixels, one side or (height, width). None: the shape of the batch, with `order=Global(shapes=...)`;
            `aspect_ratio` is then relative to it.
        area: the window's fraction of the image area, (min, max) within 0..1, drawn uniformly.
        aspect_ratio: the window's width over its height, (min, max), drawn uniformly on a logarithmic scale. If ten
            draws do not fit into the image (because it is very long), the window is centred and as large as possible
            with an aspect ratio in that range.
        flip: flip left and right, half of the time.
        antialias: shrink exactly as the bilinear filters of Pillow and torchvision (triangle filters) do, which takes
            more time than decoding. False: the last step of shrinking, by less than a factor of 2, may alias.
        channels: 3, or 1 for gray images, of which then no copies are made; of colours it is their brightness.
        augment: what changes the image after the crop, in turn: values of `shardfeed.pipelines.augment`. `detection`
            and `segmentation` follow. In a transform of your own, NumPy makes the changes, called from the graph.

    Raises:
        UsageError: for a size that is not positive, or a range that is empty or out of bounds.

    Example:
        crop = random_resized_crop(224, area=(0.25, 1.0))

        def image_and_label(features, seed):
            return crop(features, seed), features["image/class/label"]

        batches = make_batches(data["train"], image_and_label, batch_size=256, seed=7)
    """
    crop = RandomCrop(image_size(size), RandomWindow(area, aspect_ratio), flip, channels, tuple(augment))
    windows = random_windows(area, aspect_ratio)

    def draw(seed: tf.Tensor) -> tuple[ChooseWindow, tf.Tensor | None]:
        window, coin = windows(seed)
        return lambda shape: (window(shape), tf.constant(crop.target)), coin < 0.5 if flip else None

    return GraphTransform(crop, draw, antialias=antialias)


def usual_crop(size: Size | None, channels: Channels = 3, augment: Augment = ()) -> GraphTransform:
    """The crop of training batches that are asked for by a size; None: the whole image, as far as a shape allows."""
    return random_resized_crop(size, channels=channels, augment=augment, **(WHOLE if size is None else {}))


def random_windows(
    area: tuple[float, float] = AREA, aspect_ratio: tuple[float, float] = ASPECT_RATIO
) -> Callable[[tf.Tensor], tuple[Callable[[tf.Tensor], tf.Tensor], tf.Tensor]]:
    """Make, from a seed, int64 [2], a window function and one more number of 0..1, float32 [], to flip by.

    The function takes an image's shape, int32 [2], to its window, int32 [4] (top, left, height, width). It has as few
    operations as possible: each costs about a microsecond per image.
    """
    low, high = math.log(aspect_ratio[0]) / 2, math.log(aspect_ratio[1]) / 2
    # Columns of numbers: shares, logarithms of half the aspect ratio, position of the window (top, left), coin flip.
    counts = [ATTEMPTS, ATTEMPTS, 2, 1]
    least = np.repeat([area[0], low, 0.0, 0.0], counts)[:, None].astype(np.float32)
    spans = np.repeat([area[1] - area[0], high - low, 1.0, 1.0], counts)[:, None].astype(np.float32)
    halves = np.array([[-1.0, 1.0]], np.float32)  # height and width
    farthest = np.array([[1 / aspect_ratio[0], aspect_ratio[1]]], np.float32)

    def draw(seed: tf.Tensor) -> tuple[Callable[[tf.Tensor], tf.Tensor], tf.Tensor]:
        shares, stretches, place, coin = tf.split(least + spans * own_uniforms(seed, least.shape), counts)

        def window(shape: tf.Tensor) -> tf.Tensor:
            size = tf.cast(tf.reshape(shape, [1, 2]), tf.float32)
            drawn = tf.round(tf.sqrt(shares * tf.reduce_prod(size)) * tf.exp(stretches * halves))
            # The last candidate always fits: the image, cut in one direction to the nearest aspect ratio allowed.
            largest = tf.maximum(1.0, tf.round(tf.minimum(size, tf.reverse(size, [1]) * farthest)))
            candidates = tf.concat([drawn, largest], 0)
            fits = tf.reduce_all(tf.equal(candidates, tf.clip_by_value(candidates, 1.0, size)), 1)
            first = tf.argmax(fits)
            extent = tf.gather(candidates, first)
            # The largest window is centred, others are anywhere.
            begin = tf.floor((size[0] - extent + 1) * tf.where(first == ATTEMPTS, 0.5, tf.reshape(place, [2])))
            return tf.cast(tf.concat([begin, extent], 0), tf.int32)

        return window, tf.reshape(coin, [])

    return draw


def own_uniforms(seed: tf.Tensor, shape: Sequence[int] | tf.TensorShape) -> tf.Tensor:
    """The numbers of 0..1 that a sample draws by its seed, as by tf.random.stateless_uniform, without its checks."""
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed + tf.constant([OWN_KEY, 0], tf.int64))
    return tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.float32)


@checked
def resize_center_crop(
    size: Size | None = None,
    *,
    crop_fraction: float = 0.875,
    antialias: bool = False,
    channels: Channels = 3,
    augment: Augment = (),
) -> GraphTransform:
    """Crop the centre of the image and resize it to `size`: the usual evaluation crop. The crop does not use the seed.

    Returns uint8 [height, width, channels], of 16 bits uint16. The window is centred and as large as possible with the
    aspect ratio of `size`, then scaled by `crop_fraction`.

    Args:
        size: pixels, one side or (height, width). None: the shape of the batch, with `order=Global(shapes=...)`.
        crop_fraction: more than 0, at most 1. 0.875 is the same as resizing the image to cover 256 x 256 and cropping
            the centre 224 x 224.
        antialias, channels, augment: as in `random_resized_crop`.

    Raises:
        UsageError: for a size that is not positive, or a fraction that is not within 0..1.

    Example:
        crop = resize_center_crop(224)
        images = make_batches(data["validation"], crop, batch_size=256, order="stored", drop_remainder=False)
    """
    crop = CenterCrop(image_size(size), crop_fraction, channels, tuple(augment))

    def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        target = tf.constant(crop.target)
        scale = tf.reduce_min(shape / target) * crop_fraction
        window = tf.maximum(1, tf.cast(tf.round(tf.cast(target, tf.float64) * scale), tf.int32))
        return tf.concat([(shape - window) // 2, window], 0), target

    return GraphTransform(crop, lambda seed: (choose, None), antialias=antialias)


@checked
def letterbox(
    size: Size | None = None,
    *,
    fill: Annotated[int, Range(0, 255)] = 0,
    antialias: bool = False,
    channels: Channels = 3,
    augment: Augment = (),
) -> GraphTransform:
    """Resize the whole image to fit into `size`, keeping its aspect ratio; centre and pad it.

    Returns uint8 [height, width, channels], of 16 bits uint16. An image of h x w is resized to h' x w' = round(h * s) x
    round(w * s) pixels with s = min(height / h, width / w), each at least 1, with (height - h') // 2 rows of padding
    above and (width - w') // 2 columns to the left. `detection` and `segmentation` transform boxes and segmentation
    masks in the same way.

    Args:
        size: pixels, one side or (height, width). None: the shape of the batch, with `order=Global(shapes=...)`.
        fill: the padding's value in all channels, 0 to 255.
        antialias, channels, augment: as in `random_resized_crop`.

    Raises:
        UsageError: for a size that is not positive, or a fill that is not within 0..255.

    Example:
        images = make_batches(data["train"], letterbox(512, fill=128), batch_size=16)
    """
    crop = Letterbox(image_size(size), fill, channels, tuple(augment))

    def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scale = tf.reduce_min(crop.target / shape)
        target = tf.maximum(1, tf.cast(tf.round(tf.cast(shape, tf.float64) * scale), tf.int32))
        return tf.concat([[0, 0], shape], 0), target

    return GraphTransform(crop, lambda seed: (choose, None), antialias=antialias)
