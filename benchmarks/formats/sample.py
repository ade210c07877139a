"""Some images of a dataset or of a source, from all over it, as a source of their own."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from one_reading import SPLIT

from shardfeed.converters import open_source
from shardfeed.converters.existing.dataset_source import DatasetSource
from shardfeed.converters.sources.source import Sample, Source, SourceInfo, info_of
from shardfeed.errors import UsageError, escape
from shardfeed.naming import MANIFEST
from shardfeed.schema import Schema


@dataclass(frozen=True)
class Part:
    """The samples at `places`, ascending, of a source, in one split. See `Source`."""

    source: Source
    places: Sequence[int]

    @property
    def schema(self) -> Schema:
        """That of the source."""
        return self.source.schema

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Sample:
        return replace(self.source[self.places[index]], split=SPLIT)


@dataclass(frozen=True)
class RecordedPart(Part):
    """The same of a source whose samples are records already. See `SourceInfo.made_with`."""

    def info(self) -> SourceInfo:
        """That of the source, in this order."""
        return replace(info_of(self.source), keeps_order=True, fingerprint=None)


def sample_of(path: str, images: int, size: int) -> Part:
    """`images` samples of a dataset, or of what `open_source` takes, at most; and about `size` bytes at most.

    The same ones each time. Raises UsageError, IntegrityError as opening it does, UsageError where it has none.
    """
    if os.path.isfile(os.path.join(path, MANIFEST)):
        source: Source = DatasetSource(path)
    else:
        source = open_source(path)
    if not len(source):
        raise UsageError(escape(path), "it has no images", "check where they are looked for")
    places = np.unique(np.linspace(0, len(source) - 1, min(len(source), images)).astype(np.int64))
    np.random.default_rng(0).shuffle(places)  # so that those which come first are from all over it, too
    chosen: list[int] = []
    for place in places.tolist():
        size -= _size(source[place])
        if chosen and size < 0:
            break
        chosen.append(place)
    part = RecordedPart if isinstance(source, DatasetSource) else Part
    return part(source, tuple(sorted(chosen)))


def _size(sample: Sample) -> int:
    """Approximate size of an image in bytes."""
    image = sample.image
    if isinstance(image, bytes):
        return len(image)
    size = getattr(image, "size", None)
    return len(image()) if size is None and callable(image) else int(size or 0)
