"""Stages of a training pipeline as separate pipelines, each the real one cut off after that stage.

Each prefix is `make_batches` over the same samples in the same order with the same windows, and returns a number
instead of the next stage's input: so the cost of a stage is the difference of two prefixes. Images that Python's
threads make outside of the graph (with OpenCV) are one stage.

The decoder alone is measured, too, on the same images and windows of the first iteration, from memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.choices import OrderName
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, WIDTH

if TYPE_CHECKING:
    import tensorflow as tf

STAGES = ("read", "parse", "decode", "augment", "batch")
STAGES_ON_HOST = ("read", "images")
_HELD_BYTES = 64 << 20  # of encoded images that the decoder alone is measured on

Transform = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class Workload:
    """A pipeline over `split` in `order`, in batches of `batch_size` crops of `image_size` pixels."""

    split: Split
    batch_size: int
    image_size: int
    order: OrderName
    workers: int

    def cut(self, images: int) -> "Workload":
        """The same for the first `images` samples of the split only."""
        return replace(self, split=self.split[:images])

    @property
    def labelled(self) -> bool:
        """Whether batches have labels: one for each image."""
        feature = self.split.schema.features.get(LABEL)
        return feature is not None and feature.scalar

    @property
    def on_host(self) -> bool:
        """Whether images are made outside of TensorFlow's graph."""
        from shardfeed.pipelines.tensorflow.host_decoding import images_on_host

        return images_on_host(self.split, self._transform("whole"), self.workers) is not None

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in order; the last is the whole pipeline."""
        return STAGES_ON_HOST if self.on_host else STAGES

    @property
    def ahead(self) -> int:
        """Maximum number of batches that the pipeline prefetches."""
        return 6 if self.on_host or self.order != "stream" else 3

    def keys(self) -> list[str]:
        """The features that training on images and labels reads, with the label if there is one."""
        wanted = {ENCODED, FORMAT}
        if self.labelled:
            wanted.add(LABEL)
        if not self.split.formats or "raw" in self.split.formats:
            wanted |= {HEIGHT, WIDTH}
        return sorted(wanted & self.split.schema.features.keys())

    def batches(self, stage: str = "whole", *, endless: bool = False) -> "tf.data.Dataset":
        """The pipeline up to a stage, or the whole one: one epoch, or endless."""
        from shardfeed.pipelines import make_batches

        return make_batches(
            self.split,
            self._transform(stage),
            batch_size=self.batch_size,
            order=self.order,
            keys=[] if stage == "read" else self.keys(),
            start_step=0 if endless else None,
            workers=self.workers,
        )

    def _transform(self, stage: str) -> Transform:
        import tensorflow as tf

        from shardfeed.pipelines import random_resized_crop
        from shardfeed.pipelines.tensorflow.decode import decode_window
        from shardfeed.pipelines.tensorflow.labels import labelled

        crop = random_resized_crop(self.image_size)

        def one_pixel(image: Any) -> Any:
            return tf.slice(image, [0, 0, 0], [1, 1, 1])

        transforms: dict[str, Transform] = {
            "read": lambda features, seed: seed,
            "parse": lambda features, seed: tf.strings.length(features[ENCODED]),
            "decode": lambda features, seed: one_pixel(decode_window(features, self._choose(seed))[0]),
            "augment": lambda features, seed: one_pixel(crop(features, seed)),
        }
        if stage in transforms:
            return transforms[stage]
        return labelled(crop, LABEL, self.split.schema) if self.labelled else crop  # as train_batches does

    def _choose(self, seed: Any) -> Callable[[Any], tuple[Any, Any]]:
        """Return the window and target size that random_resized_crop chooses for an image's shape with `seed`."""
        import tensorflow as tf

        from shardfeed.pipelines.tensorflow.augment import random_windows

        window, _ = random_windows()(seed)  # its defaults are the crop's
        return lambda shape: (window(shape), tf.constant([self.image_size, self.image_size]))

    def held(self) -> "HeldImages":
        """The compressed images of the first iteration with their windows, up to 64 MB of them, in memory."""
        import tensorflow as tf

        from shardfeed.pipelines import make_batches
        from shardfeed.pipelines.tensorflow.decode import RATIOS, ratio_branch

        def capture(features: dict[str, Any], seed: Any) -> Any:
            encoded = features[ENCODED]
            is_jpeg = tf.io.is_jpeg(encoded)
            is_raw = features[FORMAT] == b"raw" if FORMAT in features else tf.constant(False)

            def of_jpeg() -> tuple[Any, Any]:
                window, target = self._choose(seed)(tf.image.extract_jpeg_shape(encoded)[:2])
                ratio = tf.gather(tf.constant(RATIOS), ratio_branch(window, target))
                return window // ratio, ratio

            def of_other() -> tuple[Any, Any]:
                return tf.zeros([4], tf.int32), tf.where(is_raw, -1, 0)

            window, ratio = tf.cond(tf.logical_and(is_jpeg, tf.logical_not(is_raw)), of_jpeg, of_other)
            return encoded, tf.ensure_shape(window, [4]), tf.ensure_shape(ratio, [])

        batches = make_batches(
            self.split,
            capture,
            batch_size=self.batch_size,
            order=self.order,
            keys=sorted(set(self.keys()) - {LABEL}),
            workers=self.workers,
        )
        found: list[Any] = []
        size = 0
        for batch in batches.as_numpy_iterator():
            found.append(batch)
            size += sum(map(len, batch[0]))
            if size > _HELD_BYTES:
                break
        encoded, windows, ratios = (np.concatenate(part) for part in zip(*found, strict=True))
        compressed = ratios >= 0
        return HeldImages(encoded[compressed], windows[compressed], ratios[compressed])


@dataclass(frozen=True)
class HeldImages:
    """Images for the decoder alone. `encoded`: objects [k], JPEGs and PNGs.

    `windows`: int32 [k, 4], (top, left, height, width) at the scale that is decoded. `ratios`: int32 [k], the scale is
    1 / ratio; 0 for a PNG, which is decoded whole.
    """

    encoded: np.ndarray
    windows: np.ndarray
    ratios: np.ndarray

    def __len__(self) -> int:
        return len(self.encoded)

    def decoded(self, batch_size: int, workers: int) -> "tf.data.Dataset":
        """Sizes of the decoded windows in batches, without end: the decoder alone, on `workers` threads."""
        import tensorflow as tf

        from shardfeed.pipelines.tensorflow.assembly import data_options
        from shardfeed.pipelines.tensorflow.decode import RATIOS

        def jpeg(encoded: Any, window: Any, ratio: int) -> Any:
            options: dict[str, Any] = {"channels": 3, "ratio": ratio, "dct_method": "INTEGER_ACCURATE"}
            return tf.shape(tf.image.decode_and_crop_jpeg(encoded, window, **options))

        def decode(encoded: Any, window: Any, branch: Any) -> Any:
            jpegs = [partial(jpeg, encoded, window, ratio) for ratio in RATIOS]
            return tf.switch_case(branch, [lambda: tf.shape(tf.image.decode_png(encoded, channels=3)), *jpegs])

        branches = np.searchsorted([0, *RATIOS], self.ratios).astype(np.int32)
        images = tf.data.Dataset.from_tensor_slices((self.encoded, self.windows, branches)).repeat()
        sizes = images.map(decode, num_parallel_calls=workers)
        return sizes.batch(batch_size).prefetch(2).with_options(data_options(workers))


def check_images(split: Split) -> None:
    """Raise UsageError unless the split has records and each of them holds an image."""
    if ENCODED not in split.schema.features:
        has = ", ".join(sorted(split.schema.features))
        raise UsageError(f"split {split.name}", f"its records have no feature {ENCODED!r}", f"they have {has}")
    if not len(split):
        raise UsageError(f"split {split.name}", "it has no samples", "use another split")
