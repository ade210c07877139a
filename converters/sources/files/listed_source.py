"""What the sources of listed files have in common: a listing, columns of labels, a report of what was left out."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.source import Findings, Sample
from shardfeed.schema import Feature, Schema, Value


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """Labels: features `<prefix>/label` (int64, 0-based) and `<prefix>/text` (bytes, the class name in UTF-8).

    `numbers` int64 [n], or, where a sample has any number of labels, [m] with `ends` int64 [n + 1]:
    sample i has `numbers[ends[i]:ends[i + 1]]`. `tags`: whether those are a set, in which none comes twice. `ids`: the
    numbers that classes have in their source, in label order, where those are others.
    """

    prefix: str
    names: tuple[str, ...]
    numbers: np.ndarray
    ends: np.ndarray | None = None
    tags: bool = False
    ids: tuple[int, ...] = ()

    @property
    def features(self) -> dict[str, Feature]:
        """The two features and their shapes."""
        shape = () if self.ends is None else (None,)
        return {
            f"{self.prefix}/label": Feature("int64", shape, "tags" if self.tags else "label"),
            f"{self.prefix}/text": Feature("bytes", shape, "text"),
        }

    def values(self, index: int) -> dict[str, Value]:
        """Label and text of sample `index`."""
        found = _at(self.numbers, self.ends, index)
        if isinstance(found, list):
            texts = [self.names[number].encode("utf-8") for number in found]
            return {f"{self.prefix}/label": found, f"{self.prefix}/text": texts}
        return {f"{self.prefix}/label": found, f"{self.prefix}/text": self.names[found].encode("utf-8")}


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Numbers that are no labels: one feature `key`. `numbers` int64 or float32; `ends` as in ClassColumn.

    `kind`: "number", or "place" where they say where something is in the image. `count`: how many every sample has,
    where there are `ends` and that is no accident.
    """

    key: str
    numbers: np.ndarray
    ends: np.ndarray | None = None
    kind: Literal["number", "place"] = "number"
    count: int | None = None

    @property
    def features(self) -> dict[str, Feature]:
        """The feature, its dtype and shape."""
        dtype = "int64" if self.numbers.dtype == np.int64 else "float32"
        return {self.key: Feature(dtype, () if self.ends is None else (self.count,), self.kind)}

    def values(self, index: int) -> dict[str, Value]:
        """The number or numbers of sample `index`."""
        return {self.key: _at(self.numbers, self.ends, index)}


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Texts that are no classes: one feature `key`, bytes, in UTF-8.

    `texts`: each different text once; `numbers` int64: places in it, with `ends` as in ClassColumn.
    """

    key: str
    texts: Sequence[bytes]
    numbers: np.ndarray
    ends: np.ndarray | None = None

    @classmethod
    def of_lists(cls, key: str, lists: Iterable[Iterable[bytes]]) -> "TextColumn":
        """Of any number of texts in each sample."""
        places: dict[bytes, int] = {}
        numbers = [[places.setdefault(text, len(places)) for text in texts] for texts in lists]
        return cls(key, list(places), *ragged(numbers, np.int64))

    @property
    def features(self) -> dict[str, Feature]:
        """The feature and its shape."""
        return {self.key: Feature("bytes", () if self.ends is None else (None,), "text")}

    def values(self, index: int) -> dict[str, Value]:
        """The text or texts of sample `index`."""
        found = _at(self.numbers, self.ends, index)
        return {self.key: [self.texts[n] for n in found] if isinstance(found, list) else self.texts[found]}


ListedColumn = ClassColumn | NumberColumn | TextColumn


def ragged(rows: Sequence[Sequence[Any]], dtype: type[np.generic]) -> tuple[np.ndarray, np.ndarray]:
    """The values of all rows, [m], and `ends` as of ClassColumn."""
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.array([item for row in rows for item in row], dtype), ends


def schema_of(columns: Sequence[ListedColumn]) -> Schema:
    """Their features, and the class names of those that are classes."""
    classes = {f"{column.prefix}/label": column for column in columns if isinstance(column, ClassColumn)}
    return Schema(
        {key: feature for column in columns for key, feature in column.features.items()},
        {key: column.names for key, column in classes.items()},
        {key: column.ids for key, column in classes.items() if column.ids},
    )


def values_at(columns: Sequence[ListedColumn], index: int) -> dict[str, Value]:
    """What they hold of sample `index`."""
    return {key: value for column in columns for key, value in column.values(index).items()}


def sample_number(index: int, count: int) -> int:
    """0 to count - 1, from what stands in the brackets of a source. Raises IndexError."""
    index = operator.index(index)
    if not -count <= index < count:
        raise IndexError(f"sample {index} of {count}")
    return index % count


def _at(numbers: np.ndarray, ends: np.ndarray | None, index: int) -> int | list[int]:
    # .item and .tolist give Python's own numbers: int for int64, float for float32.
    return numbers.item(index) if ends is None else numbers[ends[index] : ends[index + 1]].tolist()


@dataclass(frozen=True, eq=False)
class Splits:
    """The split of each sample: `names[numbers[i]]`, `numbers` int8 or int64 [n]. None: the plan decides."""

    names: tuple[str | None, ...]
    numbers: np.ndarray

    @classmethod
    def of(cls, said: Sequence[str | None]) -> "Splits":
        """From the name of each sample's split."""
        names = sorted(set(said), key=lambda name: (name is None, name))
        places = {name: place for place, name in enumerate(names)}
        return cls(tuple(names), np.array([places[name] for name in said], np.int64))


@dataclass(frozen=True, eq=False)
class ListedSource:
    """A Source (see source.py) over a listing; its samples are sorted by the bytes of their keys."""

    listing: Listing
    columns: Sequence[ListedColumn]
    splits: Splits | None = None
    findings: Findings = field(default_factory=Findings)

    @property
    def root(self) -> bytes:
        """The folder that keys are relative to: an absolute path."""
        return self.listing.root

    @property
    def schema(self) -> Schema:
        """The label features, and the class names of those that are classes."""
        return schema_of(self.columns)

    def __len__(self) -> int:
        return len(self.listing)

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self))
        split = self.splits.names[self.splits.numbers.item(index)] if self.splits else None
        return Sample(self.listing.key(index), self.listing.file(index), values_at(self.columns, index), split)
