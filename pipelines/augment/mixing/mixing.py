"""The role of a mixing, a batch transform: each sample is mixed with its neighbour in the batch.

One share is drawn for the whole batch, as by torchvision. Arithmetic is in whole numbers, so that the pixels are the
same in every framework.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardfeed.errors import UsageError, shown
from shardfeed.pipelines.augment.mixing.arithmetic import Mixed, check_images, mixed
from shardfeed.pipelines.windows import own_seed
from shardfeed.schema import Schema


@dataclass(frozen=True, repr=False)
class Mixing(ABC):
    """A batch transform, called as `mixing(batch, seed)` with a batch of (images, labels); pickles.

    Images are NumPy arrays [b, height, width, channels], PyTorch's tensors [b, channels, height, width] on any device,
    or TensorFlow's tensors; uint8, uint16 or float. Labels are int64 [b], which become float32 [b, classes], or float32
    already: sets of classes [b, classes], or any numbers. Arrays and tensors of the CPU are mixed in their own memory.

    `classes`: their number; None: that of the dataset's class names, which the loader knows. `p`: how often.
    """

    alpha: float
    classes: int | None
    p: float

    @abstractmethod
    def drawn(self, chance: random.Random, height: int, width: int) -> Mixed:
        """Draw for one batch of images of this size."""

    def draw(self, seed: int, height: int, width: int) -> Mixed:
        """Draw what is done to a batch with this seed: a `SampleSeed`, or any integer."""
        # Python's own generator, whose numbers are the same in every release; and it has beta distributions.
        chance = random.Random(int(own_seed(seed)))
        if chance.random() >= self.p:
            return Mixed(1.0)
        return self.drawn(chance, height, width)

    def share(self, chance: random.Random) -> float:
        """The share of a sample's own part, of a symmetric beta distribution."""
        return chance.betavariate(self.alpha, self.alpha)

    def for_labels(self, schema: Schema, label: str | None) -> "Mixing":
        """The same with the number of classes of a label. Raises UsageError if that is unknown, or given as too few."""
        if label is None:
            raise UsageError("batch_transform", "got no label to mix, as label=None", "leave label out")
        key = schema.key(label) or label
        names = schema.class_names.get(key, ())
        if self.classes is not None and self.classes < len(names):
            problem = f"got {self.classes}, and {key} has {len(names)} class names"
            raise UsageError("classes", problem, "leave it out")
        if self.classes is not None or schema.features[key].dtype == "float32":
            return self
        if not names:
            problem = f"{key} has no class names, so that the number of classes is unknown"
            raise UsageError("classes", problem, "give it, for example mixup(classes=1000)")
        return replace(self, classes=len(names))

    def __repr__(self) -> str:
        values = f"alpha={self.alpha}, classes={self.classes}, p={self.p}"
        return f"{type(self).__name__.lower()}({values})"

    def __call__(self, batch: Any, seed: Any) -> Any:
        images, labels = _pair(batch)
        check_images(images)
        return mixed(images, labels, seed, self.draw, self.classes)


@dataclass(frozen=True, repr=False)
class OneMixing(Mixing):
    """One of several mixings, drawn for each batch: `parts`, with relative `weights`."""

    parts: tuple[Mixing, ...]
    weights: tuple[float, ...]

    def drawn(self, chance: random.Random, height: int, width: int) -> Mixed:
        (part,) = chance.choices(self.parts, self.weights)
        return part.draw(chance.getrandbits(63), height, width)

    def __repr__(self) -> str:
        return f"one_of({list(self.parts)!r}, weights={list(self.weights)!r})"

    @classmethod
    def of(cls, parts: Sequence[Mixing], weights: Sequence[float]) -> "OneMixing":
        """The choice of some. Raises UsageError if they differ in their number of classes."""
        classes = {part.classes for part in parts}
        if len(classes) > 1:
            problem = f"got mixings of {' and '.join(map(str, classes))} classes, expected the same number"
            raise UsageError("classes", problem, "leave it out, and the loader finds it")
        return cls(1.0, classes.pop(), 1.0, tuple(parts), tuple(weights))


def _pair(batch: Any) -> tuple[Any, Any]:
    """The images and labels of a batch. Raises UsageError for another batch."""
    if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(hasattr(part, "dtype") for part in batch)):
        got = f"a dict with {', '.join(map(repr, batch))}" if isinstance(batch, dict) else shown(batch)
        remedy = "leave out features, targets, views and transforms of boxes; or mix in a batch transform of your own"
        raise UsageError("batch_transform", f"got {got}, expected a batch of (images, labels)", remedy)
    return batch[0], batch[1]
