"""The stages of a training pipeline as pipelines of their own, each the real one cut off after that stage.

Each prefix is `make_batches` over the same samples in the same order with the same windows, and gives a number instead
of what the next stage would take: so what a stage costs is the difference of two prefixes. The decoder alone is
measured beside them, on the very images and windows of the first iteration, which lie in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.choices import OrderName
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, WIDTH

if TYPE_CHECKING:
    import tensorflow as tf

STAGES = ("read", "parse", "decode", "augment", "batch", "hand_over")
_HELD_BYTES = 256 << 20  # of encoded images that the decoder alone is measured on

Transform = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class Workload:
    """What is fed: `epochs` epochs of `split` in `order`, in batches of `batch_size` crops of `image_size` pixels."""

    split: Split
    batch_size: int
    image_size: int
    order: OrderName
    parallelism: int
    epochs: int = 1

    @property
    def images(self) -> int:
        """Images in all batches together: what does not fill an epoch's last batch is left out."""
        return len(self.split) // self.batch_size * self.batch_size * self.epochs

    def cut(self, images: int, epochs: int = 1) -> "Workload":
        """The same for the first `images` samples of the split only."""
        return replace(self, split=self.split[:images], epochs=epochs)

    def keys(self) -> list[str]:
        """The features that training on images and labels reads; the label where there is one."""
        wanted = {ENCODED, FORMAT}
        if self._label:
            wanted.add(LABEL)
        if not self.split.formats or "raw" in self.split.formats:
            wanted |= {HEIGHT, WIDTH}
        return sorted(wanted & self.split.schema.features.keys())

    @property
    def _label(self) -> bool:
        feature = self.split.schema.features.get(LABEL)
        return feature is not None and feature.scalar

    def batches(self, stage: str = "hand_over", *, endless: bool = False) -> "tf.data.Dataset":
        """The pipeline up to a stage of STAGES: its `epochs`, or without end."""
        from shardfeed.pipelines import make_batches

        made = make_batches(
            self.split,
            self._transform(stage),
            batch_size=self.batch_size,
            order=self.order,
            keys=[] if stage == "read" else self.keys(),
            start_step=0 if endless else None,
            parallelism=self.parallelism,
        )
        return made if endless or self.epochs == 1 else made.repeat(self.epochs)

    def _transform(self, stage: str) -> Transform:
        import tensorflow as tf

        from shardfeed.pipelines import random_resized_crop
        from shardfeed.pipelines.tensorflow.decode import decode_window

        crop = random_resized_crop(self.image_size)

        def one_pixel(image: Any) -> Any:
            return tf.slice(image, [0, 0, 0], [1, 1, 1])

        def full(features: dict[str, Any], seed: Any) -> Any:
            image = crop(features, seed)
            return (image, features[LABEL]) if self._label else image

        transforms: dict[str, Transform] = {
            "read": lambda features, seed: seed,
            "parse": lambda features, seed: tf.strings.length(features[ENCODED]),
            "decode": lambda features, seed: one_pixel(decode_window(features, self._choose(seed))[0]),
            "augment": lambda features, seed: one_pixel(crop(features, seed)),
        }
        return transforms.get(stage, full)

    def _choose(self, seed: Any) -> Callable[[Any], tuple[Any, Any]]:
        """From an image's shape to the window and target size that random_resized_crop chooses with `seed`."""
        import tensorflow as tf

        from shardfeed.pipelines.tensorflow.augment import random_windows

        window, _ = random_windows()(seed)  # its defaults are the crop's
        return lambda shape: (window(shape), tf.constant([self.image_size, self.image_size]))

    def held(self) -> "HeldImages":
        """The compressed images of the first iteration with their windows, up to 256 MB of them, in memory."""
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
            parallelism=self.parallelism,
        )
        found: list[Any] = []
        size = 0
        for batch in batches.repeat(self.epochs).as_numpy_iterator():
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

    def first(self, count: int) -> "HeldImages":
        """The first `count` of them."""
        return HeldImages(self.encoded[:count], self.windows[:count], self.ratios[:count])

    def decoded(self, batch_size: int, parallelism: int) -> "tf.data.Dataset":
        """Sizes of the decoded windows in batches: one op an image, the decoder, on `parallelism` threads."""
        import tensorflow as tf

        from shardfeed.pipelines.tensorflow.assembly import data_options

        def decode(ratio: int) -> Callable[[Any, Any], Any]:
            def jpeg(encoded: Any, window: Any) -> Any:
                return tf.shape(
                    tf.image.decode_and_crop_jpeg(
                        encoded, window, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE"
                    )
                )

            def png(encoded: Any, window: Any) -> Any:
                del window
                return tf.shape(tf.image.decode_png(encoded, channels=3))

            return jpeg if ratio else png

        parts = []
        for ratio in np.unique(self.ratios).tolist():
            chosen = self.ratios == ratio
            images = tf.data.Dataset.from_tensor_slices((self.encoded[chosen], self.windows[chosen]))
            parts.append(images.map(decode(ratio), num_parallel_calls=parallelism))
        sizes = parts[0]
        for part in parts[1:]:
            sizes = sizes.concatenate(part)
        return sizes.batch(batch_size).prefetch(2).with_options(data_options(parallelism))


def check_images(split: Split) -> None:
    """Raises UsageError unless the split's records hold an image each, and there are some."""
    if ENCODED not in split.schema.features:
        has = ", ".join(sorted(split.schema.features))
        raise UsageError(f"split {split.name}", f"its records have no feature {ENCODED!r}", f"they have {has}")
    if not len(split):
        raise UsageError(f"split {split.name}", "it has no samples", "nothing can be measured")
