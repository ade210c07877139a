"""Where samples come from: the one extension point of conversion.

A source answers `len(source)` and `source[i]`, nothing else. Converting asks for each sample twice, once to
plan (key, split, labels) and once to write, so `source[i]` must be cheap and say the same each time: give a
`SourceFile` or a callable for the image, and its bytes are only fetched by the worker that writes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from shardfeed.schema import Feature, Value


@dataclass(frozen=True)
class SourceFile:
    """An image file: `path` to open, its `size` in bytes and `mtime_ns` when it was listed.

    The worker compares both when it reads, and rejects a file that changed in between (`E_SOURCE_CHANGED`).
    """

    path: bytes
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Sample:
    """One image and what is known about it.

    `key` is the unique, relative name of the sample: it decides the sample's split and place, and is stored as
    `image/filename`. Bytes, because a file name need not be UTF-8.
    `image` is the encoded file: where to read it, its bytes, or a picklable callable that returns them.
    `features` holds the sample's labels by feature key: exactly the keys of `source.features`.
    `split` names the split, or is None where the plan's fractions decide.
    """

    key: bytes
    image: SourceFile | bytes | Callable[[], bytes]
    features: Mapping[str, Value] = field(default_factory=dict)
    split: str | None = None


@dataclass(frozen=True)
class Skipped:
    """An input that is not a sample, found while listing: its relative name, a code of RejectCode, and why."""

    key: bytes
    code: str
    reason: str


@runtime_checkable
class Source(Protocol):
    """Samples by number. Deterministic, picklable, random access; used from one thread of one process.

    `features` gives the dtype and shape of every label feature a sample carries (not of the image itself),
    `class_names` the names of classes for those that are labels, in label order (0-based).
    A source that lists files may also have `rejected: Sequence[Skipped]`, inputs it could not offer, and
    `notes: Sequence[str]`, sentences for the report (hidden files skipped, doubled rows).
    """

    @property
    def features(self) -> Mapping[str, Feature]: ...

    @property
    def class_names(self) -> Mapping[str, tuple[str, ...]]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...
