"""The same picture in two splits, or under two labels: found by the hashes of files, which are stored anyway.

A test image that is also in the training split measures memorisation; a picture in two classes teaches both. Neither is
an error, so the report lists the number and the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shardfeed.column import bytes_at, column_dtype, equally_long, parse_column
from shardfeed.converters.shards.task import Receipt
from shardfeed.errors import escape, name_text
from shardfeed.manifest import SplitInfo
from shardfeed.schema import FILENAME, LABEL, SHA256, Schema
from shardfeed.text import in_usual_order

_EXAMPLES = 3
_HEX_DIGITS = 64  # of a sha256


class StoredSplit(NamedTuple):
    """A split of the dataset that is appended to, as `same_pictures` takes it: like the receipt of one large shard."""

    split: str
    info: SplitInfo
    columns: Mapping[str, bytes]


class IdenticalInputs(NamedTuple):
    """Two inputs of equal bytes: their keys, and the names of their classes, None if they have none."""

    keys: tuple[bytes, bytes]
    classes: tuple[str, str] | None

    def __str__(self) -> str:
        names = [escape(key) for key in self.keys]
        if self.classes and self.classes[0] != self.classes[1]:
            names = [f"{name} ({escape(of)})" for name, of in zip(names, self.classes, strict=True)]
        return " = ".join(names)


@dataclass(frozen=True)
class InTwoSplits:
    """`images` of the `of` images of `split` are in `other` too, byte for byte."""

    split: str
    other: str
    images: int
    of: int
    examples: Sequence[IdenticalInputs]


@dataclass(frozen=True)
class InTwoClasses:
    """`pictures` are in more than one class each, in `images` files together."""

    pictures: int
    images: int
    examples: Sequence[IdenticalInputs]


@dataclass(frozen=True)
class SamePictures:
    """Pictures found twice: pairs of splits that share some, the usual one first, and those in two classes."""

    splits: Sequence[InTwoSplits] = ()
    classes: InTwoClasses | None = None

    def notes(self) -> list[str]:
        """A sentence for each."""
        found: list[str] = []
        for pair in self.splits:
            are = "is" if pair.images == 1 else "are"
            what = f"{pair.images:,} of {pair.of:,} images of {pair.split} {are} also in {pair.other}, byte for byte"
            found.append(_with_examples(what, pair.examples, pair.images))
        if self.classes is not None:
            one = self.classes.pictures == 1
            what = f"{self.classes.pictures:,} {'image is' if one else 'images are'} in more than one class"
            found.append(_with_examples(f"{what}, byte for byte", self.classes.examples, self.classes.pictures))
        return found

    def to_json(self) -> dict[str, Any]:
        """A JSON value; keys that are not UTF-8 with lone surrogates."""
        splits = [{**vars(pair), "examples": _keys(pair.examples)} for pair in self.splits]
        classes = self.classes and {**vars(self.classes), "examples": _keys(self.classes.examples)}
        return {"splits": splits, "classes": classes}


def same_pictures(schema: Schema, receipts: Sequence[Receipt | StoredSplit]) -> SamePictures:
    """Look for equal hashes in the columns of finished shards; none if hashes are not stored.

    Memory: 16 bytes per record, and about 100 for each repeated picture.
    """
    if not receipts or not all(SHA256 in receipt.columns for receipt in receipts):
        return SamePictures()
    prefixes = np.concatenate([_prefixes(receipt) for receipt in receipts])
    ordered = np.sort(prefixes)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    del ordered
    if not len(again):
        return SamePictures()
    return _Found(schema, receipts, prefixes, np.unique(again)).summary()


def _hashes(receipt: Receipt | StoredSplit) -> np.ndarray:
    """'S64' [records of the shard]: lower-case hexadecimal digits."""
    return equally_long(receipt.columns[SHA256], receipt.info.records, _HEX_DIGITS)


def _prefixes(receipt: Receipt | StoredSplit) -> np.ndarray:
    """uint64 [records of the shard]: the first 8 bytes of each hash."""
    whole = bytes.fromhex(_hashes(receipt).tobytes().decode("ascii"))
    return np.frombuffer(whole, "<u8").reshape(-1, _HEX_DIGITS // 16)[:, 0].copy()  # lets go of the rest


class _Found:
    """The records with equal beginnings of hashes; one array element for each, in stored order.

    `picture`: equal for equal whole hashes. `split`: an index into `splits`. `shard`, `place`: the record's location.
    """

    def __init__(
        self, schema: Schema, receipts: Sequence[Receipt | StoredSplit], prefixes: np.ndarray, again: np.ndarray
    ) -> None:
        self._receipts = receipts
        self._splits = in_usual_order({receipt.split for receipt in receipts})
        classes = schema.class_names.get(LABEL, ())
        self._classes = classes if all(LABEL in receipt.columns for receipt in receipts) else ()
        hashes, labels, splits, shards, places = [], [], [], [], []
        start = 0
        for number, receipt in enumerate(receipts):
            records = receipt.info.records
            of_shard = prefixes[start : start + records]
            start += records
            nearest = np.minimum(np.searchsorted(again, of_shard), len(again) - 1)
            found = np.flatnonzero(again[nearest] == of_shard)
            if not len(found):
                continue
            hashes.append(_hashes(receipt)[found])
            if self._classes:
                labels.append(parse_column(receipt.columns[LABEL], records, column_dtype(schema, LABEL), LABEL)[found])
            splits.append(np.full(len(found), self._splits.index(receipt.split)))
            shards.append(np.full(len(found), number))
            places.append(found)
        self._picture = np.unique(np.concatenate(hashes), return_inverse=True)[1]
        self._label = np.concatenate(labels) if labels else np.zeros(len(self._picture), np.int32)
        self._split, self._shard, self._place = map(np.concatenate, (splits, shards, places))

    def summary(self) -> SamePictures:
        pictures = int(self._picture.max()) + 1
        present = np.zeros((pictures, len(self._splits)), bool)
        present[self._picture, self._split] = True
        pairs: list[InTwoSplits] = []
        for split, name in enumerate(self._splits):
            total = sum(receipt.info.records for receipt in self._receipts if receipt.split == name)
            for other in range(split):
                rows = np.flatnonzero((self._split == split) & present[self._picture, other])
                if len(rows):
                    there = self._split == other
                    pairs.append(InTwoSplits(name, self._splits[other], len(rows), total, self._examples(rows, there)))
        least, most = np.full(pictures, 2**31 - 1), np.zeros(pictures, np.int64)
        np.minimum.at(least, self._picture, self._label)
        np.maximum.at(most, self._picture, self._label)
        rows = np.flatnonzero((least < most)[self._picture] & (self._label == least[self._picture]))
        if not len(rows):
            return SamePictures(pairs)
        there = self._label == most[self._picture]
        images = int((least < most)[self._picture].sum())
        return SamePictures(pairs, InTwoClasses(int((least < most).sum()), images, self._examples(rows, there)))

    def _examples(self, rows: np.ndarray, there: np.ndarray) -> list[IdenticalInputs]:
        """Some of `rows`, each of another picture, and with each the first of equal bytes that is `there`."""
        _, first = np.unique(self._picture[rows], return_index=True)
        twins: list[IdenticalInputs] = []
        for row in rows[np.sort(first)[:_EXAMPLES]]:
            other = np.flatnonzero(there & (self._picture == self._picture[row]))[0]
            names = (self._classes[self._label[row]], self._classes[self._label[other]]) if self._classes else None
            twins.append(IdenticalInputs((self._key(row), self._key(other)), names))
        return twins

    def _key(self, row: int) -> bytes:
        receipt = self._receipts[self._shard[row]]
        return bytes_at(receipt.columns[FILENAME], receipt.info.records, int(self._place[row]))


def _keys(examples: Sequence[IdenticalInputs]) -> list[list[str]]:
    return [[name_text(key) for key in twins.keys] for twins in examples]


def _with_examples(what: str, examples: Sequence[IdenticalInputs], count: int) -> str:
    return f"{what}: {', '.join(map(str, examples))}{', ...' if count > len(examples) else ''}"
