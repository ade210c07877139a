"""The outcome of a reading: counts of images, splits and classes, from the rows of a source and without its pixels."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.rows.columns import CLASS, ClassColumn
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.schema import LABEL
from shardfeed.text import number, some

_LOOKED_AT = 100_000  # keys that are compared with each other


@dataclass(frozen=True)
class Outcome:
    """The dataset that a source would become. `images`: how many."""

    source: ColumnarSource

    @property
    def images(self) -> int:
        """How many images it has."""
        return len(self.source)

    @cached_property
    def keys(self) -> list[str]:
        """The names of its first 100,000 images, paths where they are files."""
        keys = self.source.keys
        return [keys[i].decode("utf-8", "surrogateescape") for i in range(min(len(keys), _LOOKED_AT))]

    @cached_property
    def folders(self) -> list[str]:
        """The folder of each of `keys`, such as `train/cat`; "" for none."""
        return [key.rpartition("/")[0] for key in self.keys]

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The names in each of the different `folders`, from the top."""
        return {folder: tuple(folder.split("/")) if folder else () for folder in self.folders}

    @cached_property
    def splits(self) -> dict[str | None, int]:
        """The images of each split; empty if the source has none."""
        splits = self.source.splits
        if splits is None:
            return {}
        counts = np.bincount(splits.numbers, minlength=len(splits.names)).tolist()
        return {name: count for name, count in zip(splits.names, counts, strict=True) if count}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes of images; empty if they have none."""
        return tuple((self.source.schema.class_names or {}).get(LABEL, ()) or ())

    @cached_property
    def is_labelled(self) -> bool:
        """Whether images have classes."""
        return LABEL in self.source.schema.features

    @cached_property
    def without_label(self) -> int:
        """Images of the source that its reading cannot label, and so leaves out."""
        codes = Counter(one.code for one in self.source.info().findings.rejected)
        return codes[RejectCode.NO_LABEL.value]

    @cached_property
    def labels(self) -> list[int]:
        """The class of each of `keys`; empty where images have none, or several."""
        for column in self.source.columns:
            if isinstance(column, ClassColumn) and column.prefix == CLASS and column.ends is None:
                return column.numbers[: len(self.keys)].tolist()
        return []

    def __str__(self) -> str:
        """`3 classes (a, b, c), 1,200 images, train 1,000, test 200`."""
        parts = []
        if self.is_labelled:
            parts.append(f"{number(len(self.classes), 'class', 'classes')} ({some(self.classes)})")
        if self.source.objects is not None:
            parts.append(number(len(self.source.objects), "object"))
        if self.source.rasters is not None:
            parts.append("masks")
        parts.append(number(self.images, "image"))
        splits = islice(self.splits.items(), 4)
        parts += [f"{name or 'no split'} {count:,}" for name, count in splits]
        return ", ".join(parts)
