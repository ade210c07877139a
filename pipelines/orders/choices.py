"""The user's choice of the order of samples: `order="global"`, or an object with its own options, `Global(...)`.

From it, the samples and the batch size, `order_samples` makes an order in which every step is determined.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Literal

from shardfeed.declared import Positive, Text, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.shapes import Shapes, by_ratio

Weights = Mapping[str | Literal[""], float] | Sequence[float]


@checked
@dataclass(frozen=True)
class Stream:
    """Shards in random order, with their records shuffled in a buffer.

    Several shards are read at a time, each one sequentially. This is the fastest order on disks and networks where
    sequential reads are fast; for TensorFlow only. With your own transform, records on a local disk are read by a plain
    tf.data graph; records in a bucket are read from 16 shards, 8 MiB at a time. Records of a shard stay close together
    unless the buffer is large.

    Args:
        buffer: number of records that are shuffled, 1 or more. None: 16,384, or fewer if these would take more than a
            quarter of the available memory. `buffer` is part of the order: set it to get the same order on a machine
            with less memory.
        epoch_samples: number of samples in an epoch, from 1 to all of them. None: all.

    Raises UsageError for numbers below 1.

    Example:
        train_batches(data["train"], batch_size=256, image_size=224, order=Stream(buffer=50_000))
    """

    buffer: Positive | None = None
    epoch_samples: Positive | None = None


@checked
@dataclass(frozen=True)
class Global:
    """A permutation of all samples, different in each epoch, read at random: any sample may come at any position.

    With `balance` or `weights`, and for a `mix`, samples are drawn by class (or by part) instead: each class fills its
    share of each batch, rounded down or up, and all samples of a class are used before any of them repeats.

    Args:
        balance: give all classes of a label the same share. "class": the label `image/class/label`, or
            `image/object/class/label` if it is missing; or the key of another label. If samples have several classes,
            from objects or tags, a sample counts for its rarest class, and samples without a class form their own
            class; to find the classes, all records are read once. None: classes are ignored, unless there are weights.
        weights: the shares of the classes, by name, or in the order of the labels; 0 leaves a class out. Samples
            without a class form the class named "", the last in this order.
        epoch_samples: number of samples in an epoch, from 1 to all of them; if drawn by class or by part, any number.
            None: the number of all samples.
        shapes: each batch has images of one of these (height, width), 1 to 65,535 pixels; an image's aspect ratio
            decides in which. Loaders then get no size: see docs/orders.md. None: all batches are of one size.

    Raises UsageError for weights that are negative, not finite or all 0, for an epoch of fewer than 1 sample, for two
    shapes of one aspect ratio, and for shapes together with another option.

    Example:
        train_batches(data["train"], batch_size=256, image_size=224, order=Global(balance="class"))
        train_batches(data["train"], batch_size=256, image_size=224, order=Global(weights={"cat": 3, "dog": 1}))
        train_batches(data["train"], batch_size=64, order=Global(shapes=[(512, 768), (768, 512), (640, 640)]))
    """

    balance: Text | None = None
    weights: Weights | None = None
    epoch_samples: Positive | None = None
    shapes: Shapes | None = None

    def __post_init__(self) -> None:
        if self.shapes is not None:
            object.__setattr__(self, "shapes", tuple(by_ratio(self.shapes)))
            if (self.balance, self.weights, self.epoch_samples) != (None, None, None):
                problem = (
                    "got shapes together with balance, weights or epoch_samples: with shapes, every image comes once"
                )
                raise UsageError("shapes", problem, "leave the others out, or the shapes")
        if self.weights is not None:
            numbers = list(self.weights.values() if isinstance(self.weights, Mapping) else self.weights)
            sound = all(isinstance(number, Real) and 0 <= number < math.inf for number in numbers)
            if not sound or not any(numbers):
                shown = f"got {numbers[:8]}, expected numbers of at least 0, and one above 0"
                raise UsageError("weights", shown)


@checked
@dataclass(frozen=True)
class Blocks:
    """Blocks of adjacent records in random order, shuffled within a window: for spinning disks, and for buckets.

    Args:
        block_bytes: size of a block in bytes, read in one request; default 1 MiB. Larger blocks pay off for buckets:
            there, the default order has blocks of 8 MiB.
        buffer: number of records in a window, 1 or more; the next window is read while one is used. None: a quarter of
            the default of `Stream`. `buffer` is part of the order: set it to get the same order on machines with less
            memory.
        epoch_samples: number of samples in an epoch, from 1 to all of them. None: all.

    Raises UsageError for numbers below 1.

    Example:
        train_batches(data["train"], batch_size=256, image_size=224, order=Blocks(buffer=10_000))
    """

    buffer: Positive | None = None
    epoch_samples: Positive | None = None
    block_bytes: Positive = 1 << 20


@dataclass(frozen=True)
class Stored:
    """Stored order in each epoch: for evaluation.

    Example:
        batches = make_batches(data["test"], letterbox(512), batch_size=16, order=Stored(), drop_remainder=False)
    """


OrderObject = Stream | Global | Blocks | Stored
OrderName = Literal["stream", "global", "blocks", "stored"]
OrderLike = OrderObject | OrderName
# The orders of loaders that read by index.
IndexedOrderLike = Annotated[
    Global | Blocks | Stored | Literal["global", "blocks", "stored"],
    'only TensorFlow\'s batches have "stream": use "global", or "blocks" where random reads are slow',
]

_BY_NAME: Mapping[str, type[OrderObject]] = {"stream": Stream, "global": Global, "blocks": Blocks, "stored": Stored}


def order_object(order: OrderLike) -> OrderObject:
    """Return the order object for a name, or the object unchanged."""
    return _BY_NAME[order]() if isinstance(order, str) else order


def gives_sizes(order: OrderLike | None) -> bool:
    """Whether the order gives each batch its size."""
    return isinstance(order, Global) and order.shapes is not None
