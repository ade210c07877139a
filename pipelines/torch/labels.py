"""Labels of batches: the number of the image's class, its set of classes as a vector, or a caption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shardfeed.annotations import CAPTION
from shardfeed.declared import Classes, Int64, checked
from shardfeed.errors import UsageError, shown
from shardfeed.pipelines import objects
from shardfeed.pipelines.arguments import tag_count
from shardfeed.pipelines.windows import SPARE, SampleSeed, own_seed
from shardfeed.schema import Schema


@dataclass(frozen=True)
class Label:
    """A function from a record to the feature `key`, or for a set of classes to a vector of `classes`; pickles."""

    key: str
    classes: Classes | None = None

    @classmethod
    def of(cls, schema: Schema, key: str) -> "Label":
        """The label in feature `key`; with a number of classes if the schema says that it holds tags."""
        return cls(key, tag_count(schema, key))

    def __call__(self, record: Mapping[str, Any]) -> Any:
        return record[self.key] if self.classes is None else multi_hot(record[self.key], self.classes)


@checked
def multi_hot(labels: NDArray[np.integer] | Sequence[Int64], classes: Classes) -> torch.Tensor:
    """A set of classes as a vector: float32 [classes], 1 for each class in `labels`, else 0.

    Use it in your own transform; `torch_loader` does the same for a "tags" feature.

    Args:
        labels: integers [n], of one sample, each 0 to `classes` - 1; if empty, the vector is all 0.
        classes: number of classes: `len(split.class_names)`.

    Raises:
        UsageError: for fewer than one class.
        IntegrityError: for a label that is not 0 to `classes` - 1.

    Example:
        class ImageAndTags:  # a class, which is picklable for workers that are spawned
            crop, classes = random_resized_crop(224), len(data["train"].class_names)

            def __call__(self, record, seed):
                return self.crop(record, seed), multi_hot(record["image/class/label"], self.classes)

        loader = torch_loader(data["train"], batch_size=256, transform=ImageAndTags())
    """
    return torch.from_numpy(objects.multi_hot(labels, classes))


@checked
def draw_caption(record: Mapping[str, Any], seed: SampleSeed | Int64, key: str = CAPTION) -> bytes:
    """Draw one of the captions of a sample by its seed: bytes in UTF-8, empty if the sample has none.

    All captions are equally likely. A different epoch may draw a different caption; the same seed draws the same
    caption, here and with TensorFlow, and a resumed run draws the same captions as an uninterrupted run.

    Args:
        record: record of one sample, with `key`: a list of bytes, or one bytes object, which is returned unchanged.
        seed: the sample's own seed, as passed to a transform.
        key: key of the feature with the captions.

    Raises:
        UsageError: if the dataset has no text feature `key`.

    Example:
        class ImageAndCaption:  # a class, which is picklable for workers that are spawned
            crop = random_resized_crop(224)

            def __call__(self, record, seed):
                return self.crop(record, seed), draw_caption(record, seed)

        loader = torch_loader(data["train"], batch_size=256, transform=ImageAndCaption())
    """
    captions = record.get(key)
    if not isinstance(captions, bytes | list):
        texts = [name for name, value in record.items() if isinstance(value, bytes | list)]
        problem = f"got {shown(key)}, expected a text feature"
        raise UsageError("key", problem, f"there is {', '.join(map(repr, sorted(texts))) or 'none'}")
    if isinstance(captions, bytes):
        return captions
    place = int(own_seed(seed).uniform[SPARE] * np.float32(len(captions)))
    return bytes(captions[place]) if captions else b""
