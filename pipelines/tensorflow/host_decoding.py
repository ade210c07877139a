"""Images made outside of the graph: whole batches, by Python's threads.

This takes less time than TensorFlow's operations: OpenCV resizes bytes in half the time of a cast, a resize and a
rounding, and records are decoded without a copy. The rest of a transform stays in the graph.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf

from shardfeed.budget import cpu_budget
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import check_crop
from shardfeed.pipelines.augment.augmentation import Effect
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.places import packed
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.decoding.pixels import has_opencv
from shardfeed.pipelines.engine import ImageMaker, Records
from shardfeed.pipelines.orders.order import Order
from shardfeed.pipelines.orders.shapes import ShapeOrder
from shardfeed.pipelines.samples import Samples, pixel_dtype
from shardfeed.pipelines.tensorflow.augment import GraphTransform
from shardfeed.pipelines.tensorflow.augmented import MOVE_NUMBERS
from shardfeed.pipelines.tensorflow.views import VIEW_NUMBERS, ViewTensors, row_view, static_sides
from shardfeed.readers.tensorflow.indexed import ParseSpec, python_map

_MOST_WAITING = 4  # batches read and made at once, all held in memory


@runtime_checkable
class HostTransform(Protocol):
    """A transform whose image comes from `image`, and which needs no pixels for the rest of a sample.

    `finish_batch` makes a batch instead of a sample: from features as `tf.io.parse_example` gives them
    (without the image), seeds, int64 [b, 2], and images, uint8 [b, height, width, 3].
    """

    image: Any

    def finish_batch(self, features: dict[str, Any], seeds: tf.Tensor, images: Any) -> Any: ...


@runtime_checkable
class ViewFollower(Protocol):
    """A transform whose image comes from `image`, and whose other outputs follow the image's view.

    `follow` makes them for a sample: from its features, except the image, its seed, image and view.
    """

    image: Any

    def follow(self, features: dict[str, Any], seed: tf.Tensor, image: tf.Tensor, view: ViewTensors) -> Any: ...


def images_on_host(samples: Samples, transform: Any, parallelism: int) -> "HostImages | None":
    """Return the maker of `transform`'s images outside of the graph, or None if that is not possible.

    The choice does not depend on `parallelism`: the same pixels must come from any number of threads. With thumbnails,
    many threads of the graph would be faster: Python's lock limits this to some 40,000 images per second, and to 15,000
    without the compiled module.
    """
    image = transform.image if isinstance(transform, HostTransform | ViewFollower) else None
    if not isinstance(image, GraphTransform) or image.antialias or not has_opencv():
        return None
    return HostImages(samples, transform, image.crop, parallelism)


def check_shapes(order: Order, transform: Any, on_host: "HostImages | None", samples: Samples) -> None:
    """Raise UsageError unless exactly one, the order or a crop, says how large images become, and it is possible."""
    image = getattr(transform, "image", None)
    if isinstance(image, GraphTransform):
        check_crop(order, image.crop, samples)
    several = isinstance(image, GraphTransform) and image.crop.several
    if on_host is not None or not (several or isinstance(order, ShapeOrder)):
        return
    remedy = "use array_batches or torch_loader"  # for formats that TensorFlow does not decode
    if not isinstance(image, GraphTransform):
        remedy = "give crops, detection or segmentation of this package, without a size, or use array_batches"
    elif image.antialias:
        remedy = "leave out antialias=True"
    elif not has_opencv():
        remedy = "pip install opencv-python-headless"
    got = "several" if several else "Global(shapes=...)"
    problem = f"got {got}, and TensorFlow's operations make the images, all of one size"
    raise UsageError("views" if several else "order", problem, remedy)


class HostImages:
    """Makes (seeds int64 [b, 2], serialized records without their images [b], images [b, height, width, channels]).

    For a transform that follows views (`follows`), also the views, int32 [b, 13], see `row_view`; and if augmentations
    may move pixels, their moves, float64 [b, n, 25], see `ViewTensors`. `keys`: the features that the records lack.
    `waiting`: number of TensorFlow's threads that wait for our threads meanwhile.
    """

    def __init__(self, samples: Samples, transform: HostTransform | ViewFollower, crop: Crop, parallelism: int) -> None:
        self._transform, self.follows = transform, isinstance(transform, ViewFollower)
        self._crop, self._dtype = crop, pixel_dtype(samples)
        self._moves = self.follows and crop.effect != Effect.NONE
        # One batch each: one is read, or its last images are made, while the threads work on another.
        self.waiting = max(2, min(parallelism // 2, _MOST_WAITING))
        # More threads than cores would only wait for the interpreter's lock: 16 on 2 cores made 0.7 times the images.
        threads = min(parallelism, cpu_budget())
        self._images = ImageMaker(samples, crop, threads=threads, dtype=self._dtype)
        self._images.start()  # not by TensorFlow's threads; they end with the last dataset and iterator
        self.keys = self._images.keys

    def finish(
        self,
        spec: ParseSpec,
        aliases: Mapping[str, str],
        seeds: tf.Tensor,
        records: tf.Tensor,
        *images: tf.Tensor,
    ) -> Any:
        """Apply the rest of the transform to a batch; if it follows views, to one sample, its image and its view.

        `images`: those of each view; of a sample its image, its view, and its moves, if there may be any. `spec`: parse
        spec of all features in use. `aliases`: other names of features, with their keys.
        """
        rest = {key: feature for key, feature in spec.items() if key not in self.keys}
        parse = tf.io.parse_single_example if self.follows else tf.io.parse_example
        features = parse(records, rest) if rest else {}
        features |= {alias: features[key] for alias, key in aliases.items() if key in features}
        if isinstance(self._transform, ViewFollower):
            image, view, *moves = images
            return self._transform.follow(features, seeds, image, row_view(view, self._crop, *moves))
        return self._transform.finish_batch(features, seeds, images if self._crop.several else images[0])

    def of_batches(
        self, numbers: tf.data.Dataset, read: Callable[..., Records], size: int | None, *, in_turn: bool
    ) -> tf.data.Dataset:
        """Make a batch of what `read` returns for each of `numbers`. `size`: b, None if it varies."""
        specs: list[Any] = [([size, 2], tf.int64), ([size], tf.string)]
        specs += [([size, *static_sides(each.target), each.channels], self._dtype) for each in self._crop.parts]
        if self.follows:
            specs.append(([size, VIEW_NUMBERS], tf.int32))
        if self._moves:
            specs.append(([size, None, MOVE_NUMBERS], tf.float64))
        types = tuple(tf.TensorSpec(*spec) for spec in specs)
        at_once = 1 if in_turn else self.waiting
        return python_map(numbers, lambda *number: self._made(read(*number)), types, parallelism=at_once)

    def _made(self, records: Records) -> tuple[np.ndarray, ...]:
        batch = self._images(records)
        images = batch.images if isinstance(batch.images, list) else [batch.images]
        made = records.seeds, np.array(batch.others, object), *images
        if not self.follows:
            return made
        rows = [(*view.size, *view.window, *view.content, *view.target, view.mirrored) for view in batch.views]
        made = *made, np.array(rows, np.int32).reshape(-1, VIEW_NUMBERS)
        return (*made, _packed_moves(batch.views)) if self._moves else made


def _packed_moves(views: Sequence[View]) -> np.ndarray:
    """The moves of all views, float64 [b, n, 25]; rows of zeros follow those of a view with fewer."""
    rows = np.zeros((len(views), max((len(view.moves) for view in views), default=0), MOVE_NUMBERS))
    for view, of_view in zip(views, rows, strict=True):
        of_view[: len(view.moves)] = packed(view.moves)
    return rows
