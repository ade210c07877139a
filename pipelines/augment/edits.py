"""Edits: what augmentations do to the pixels of an image after its crop, as numbers that every backend carries out.

An augmentation draws a few numbers and turns them into edits; nothing else is random. The compiled module
(shardfeed/native/edit.cpp), NumPy (`values`, the reference) and PyTorch on a device carry the same edits out, in whole
numbers, to the same pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

NUMBERS = 24  # of an edit, at most


class Edit(IntEnum):
    """The kinds of edits, and the numbers that each has. edit.h has the same table.

    Pixels are 0..255; those of 16 bits are 257 times as many. Places are in pixels of the edited image.
    """

    NONE = 0
    # A linear change of colours: 0..8 the matrix, row by row; 9..17 a matrix for the mean colour of the image as it is
    # before; 18..20 what is added. out = matrix @ pixel + of_mean @ mean + added.
    MATRIX = 1
    POSTERIZE = 2  # 0: bits that are kept, 0..8
    SOLARIZE = 3  # 0: values from this on are inverted
    EQUALIZE = 4
    AUTOCONTRAST = 5
    BLUR = 6  # 0: sigma in pixels; 1: the largest distance of a pixel that counts
    SHARPNESS = 7  # 0: factor: 0 smooths, 1 changes nothing, 2 sharpens
    # 0..8 the homography, row by row, from a place (column, row, 1) of the new image to one of the old; 9: 0 for the
    # nearest pixel, 1 for bilinear interpolation; 10..12 the colour of what was outside.
    WARP = 8
    TURN = 9  # 0: quarter turns to the left, 0..3 (of a square 1 and 3, too); 1: whether rows are reversed after that
    ERASE = 10  # 0..3 top, left, height, width; 4..6 the colour


TABLES = (Edit.POSTERIZE, Edit.SOLARIZE, Edit.EQUALIZE, Edit.AUTOCONTRAST)  # each value by itself
MOVES = (Edit.WARP, Edit.TURN, Edit.ERASE)  # boxes, masks and key points follow these


@dataclass(frozen=True)
class Edits:
    """The edits of k images, in turn: `kinds` int32 [k, n], of `Edit`, and `numbers` float64 [k, n, NUMBERS]."""

    kinds: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, kind: Edit, *numbers: np.ndarray | float, count: int) -> "Edits":
        """One edit of each of `count` images. `numbers`: the first ones, each for all images or float64 [count]."""
        values = np.zeros((count, NUMBERS))
        for at, column in enumerate(numbers):
            values[:, at] = column
        return cls.each(kind, values)

    @classmethod
    def each(cls, kind: Edit, numbers: np.ndarray) -> "Edits":
        """One edit of each image, of one kind, by its numbers, float64 [k, NUMBERS]."""
        return cls(np.full((len(numbers), 1), kind, np.int32), numbers.reshape(-1, 1, NUMBERS))

    @classmethod
    def none(cls, count: int) -> "Edits":
        """No edit of `count` images."""
        return cls(np.zeros((count, 0), np.int32), np.zeros((count, 0, NUMBERS)))

    @classmethod
    def joined(cls, parts: Sequence["Edits"], count: int) -> "Edits":
        """The edits of one part after those of another."""
        parts = [cls.none(count), *parts]
        return cls(
            np.concatenate([part.kinds for part in parts], 1), np.concatenate([part.numbers for part in parts], 1)
        )

    @classmethod
    def chosen(cls, choice: np.ndarray, parts: Sequence["Edits"]) -> "Edits":
        """The edits of one part for each image: that of the number `choice`, int [k], if there is one."""
        longest = max((part.kinds.shape[1] for part in parts), default=0)
        kinds = np.zeros((len(choice), longest), np.int32)
        numbers = np.zeros((len(choice), longest, NUMBERS))
        for at, part in enumerate(parts):
            rows, slots = choice == at, slice(part.kinds.shape[1])
            kinds[rows, slots] = part.kinds[rows]
            numbers[rows, slots] = part.numbers[rows]
        return cls(kinds, numbers)

    def where(self, chosen: np.ndarray) -> "Edits":
        """The edits of some images, bool [k]; of the others none."""
        return Edits(np.where(chosen[:, None], self.kinds, np.int32(Edit.NONE)), self.numbers)

    def fused(self) -> "Edits":
        """The same with one matrix in place of those that follow each other, and without what no image has.

        Between two matrices nothing is then rounded, or clipped to 0..255.
        """
        kinds, numbers = self.kinds.copy(), self.numbers.copy()
        rows, before = np.arange(len(kinds)), np.full(len(kinds), -1)
        for at in range(kinds.shape[1]):
            follows = (kinds[:, at] == Edit.MATRIX) & (before >= 0)
            follows[follows] = kinds[rows[follows], before[follows]] == Edit.MATRIX
            if follows.any():
                first = rows[follows], before[follows]
                numbers[first] = composed(numbers[first], numbers[follows, at])
                kinds[follows, at] = Edit.NONE
            before = np.where(kinds[:, at] != Edit.NONE, at, before)
        used = (kinds != Edit.NONE).any(0)
        return Edits(np.ascontiguousarray(kinds[:, used], np.int32), np.ascontiguousarray(numbers[:, used], np.float64))

    def moves(self, row: int) -> "tuple[tuple[Edit, np.ndarray], ...]":
        """The edits of an image that boxes, masks and key points follow, in turn, each with its numbers."""
        kinds = self.kinds[row].tolist()
        return tuple((Edit(kind), self.numbers[row, at]) for at, kind in enumerate(kinds) if kind in MOVES)

    def __getitem__(self, rows: slice | np.ndarray) -> "Edits":
        """Those of some of the images."""
        return Edits(self.kinds[rows], self.numbers[rows])

    def __len__(self) -> int:
        return len(self.kinds)


def linear(matrix: np.ndarray, of_mean: np.ndarray | None = None, added: np.ndarray | None = None) -> np.ndarray:
    """The numbers of a `MATRIX`, float64 [k, NUMBERS], from [k, 3, 3], [k, 3, 3] and [k, 3]."""
    count = len(matrix)
    numbers = np.zeros((count, NUMBERS))
    numbers[:, :9] = matrix.reshape(count, 9)
    if of_mean is not None:
        numbers[:, 9:18] = of_mean.reshape(count, 9)
    if added is not None:
        numbers[:, 18:21] = added
    return numbers


def composed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The numbers of one `MATRIX` that does what `first` and then `second` do, float64 [k, NUMBERS] each."""
    one, two = (numbers[:, :18].reshape(-1, 2, 3, 3).copy() for numbers in (first, second))
    for parts in (one, two):  # from (matrix, that of the mean) to (matrix, sum of both), which changes the mean itself
        parts[:, 1] += parts[:, 0]
    made = two @ one
    added = (two[:, 1] @ first[:, 18:21, None])[:, :, 0] + second[:, 18:21]
    return linear(made[:, 0], made[:, 1] - made[:, 0], added)


def parts_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrix, that of the mean, and what is added: [k, 3, 3], [k, 3, 3] and [k, 3]."""
    count = len(numbers)
    return numbers[:, :9].reshape(count, 3, 3), numbers[:, 9:18].reshape(count, 3, 3), numbers[:, 18:21]
