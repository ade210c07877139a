"""A measured dataset: numbers of every image and object, with their splits, keys and classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.operations.dataset_source import Opened
from shardfeed.errors import escape
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import LABEL
from shardfeed.text import in_usual_order, number, size_text

_NAME = 60  # characters of a class in a sentence


@dataclass(frozen=True)
class Measured:
    """`images`: NUMBERS of all images [n], split after split in their usual order, each in stored order. `objects`:
    OBJECT of all their objects. `pixels`: int64 [values], how often rasters have each value.
    """

    data: Dataset
    images: np.ndarray
    objects: np.ndarray
    pixels: np.ndarray

    @cached_property
    def splits(self) -> Mapping[str, slice]:
        """The range of each split."""
        names = in_usual_order(self.data)
        borders = np.cumsum([0, *(len(self.data[name]) for name in names)]).tolist()
        return {name: slice(*part) for name, part in zip(names, pairwise(borders), strict=True)}

    @cached_property
    def split(self) -> np.ndarray:
        """uint8 [n]: the split of each image, in the order of `splits`."""
        sizes = [part.stop - part.start for part in self.splits.values()]
        return np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)

    @property
    def decoded(self) -> np.ndarray:
        """bool [n]: whether each image decodes."""
        return self.images["kind"] > 0

    @cached_property
    def keys(self) -> np.ndarray:
        """bytes as objects [n]: the key of each image, as `shardfeed remove` takes it."""
        records = Opened(self.data).splits
        return np.concatenate([np.zeros(0, object), *(records[name].keys for name in self.splits)])

    def where(self, place: int) -> tuple[str, int]:
        """The split of an image, and its position in it."""
        name = [*self.splits][self.split[place]]
        return name, place - self.splits[name].start

    @property
    def class_key(self) -> str:
        """The feature with the classes: of images, or, where images have none, of objects."""
        schema = self.data.manifest.schema
        key = schema.key(LABEL) or LABEL
        return key if key in schema.class_names else OBJECT_LABEL

    @property
    def labelled(self) -> bool:
        """Whether each image has one class."""
        return self.class_key != OBJECT_LABEL and self.data.manifest.schema.features[self.class_key].scalar

    @property
    def classes(self) -> Sequence[str]:
        """Names of all classes."""
        return self.data.manifest.schema.class_names.get(self.class_key, ())

    def class_name(self, label: int) -> str:
        """The name of a class, escaped and shortened; "" if there is no such class."""
        return escape(self.classes[label])[:_NAME] if 0 <= label < len(self.classes) else ""

    @cached_property
    def counts(self) -> np.ndarray:
        """int64 [classes, splits]: images of each class, or objects where only they have classes."""
        infos = [self.data.manifest.splits[name] for name in self.splits]
        none = [0] * len(self.classes)
        return np.array([info.class_counts.get(self.class_key, none) for info in infos], np.int64).T

    @property
    def headline(self) -> str:
        """Numbers of images, splits and bytes, on one line."""
        size = size_text(sum(info.size for info in self.data.manifest.splits.values()))
        return f"{number(len(self.images), 'image')} in {number(len(self.splits), 'split')}, {size}"
