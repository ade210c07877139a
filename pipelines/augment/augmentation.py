"""The role of an augmentation, and what it draws from."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntFlag
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.orders.arithmetic import hashed
from shardfeed.pipelines.windows import uniform_numbers

_OWN_KEY = 0xA06E7  # so that augmentations draw other numbers than the crop
_BLOCKS = 6  # of four numbers each: no augmentation here needs more


@dataclass(frozen=True)
class Draws:
    """The numbers that an augmentation draws for k images, by their seeds and its own place among the augmentations.

    `seeds`: int64 [k, 2], of a view. `target`: (height, width) of the images, in pixels. `key`: of the place. So the
    numbers of an augmentation depend on the sample, the pass, the view and its place, and on nothing that comes later.
    `first`: the first numbers, float32 [k, 24], where they are drawn already.
    """

    seeds: np.ndarray
    target: tuple[int, int]
    key: int = _OWN_KEY
    first: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def uniform(self, count: int) -> np.ndarray:
        """Numbers of 0..1, without 1: float64 [k, count]. The first ones do not depend on `count`."""
        numbers = self.first
        if numbers is None or count > numbers.shape[1]:
            numbers = uniform_numbers(self.seeds, self.key, -(-count // 4))
        return numbers[:, :count].astype(np.float64)

    def coin(self, p: float) -> np.ndarray:
        """Whether the first of the numbers is below `p`, 0..1: bool [k]."""
        return self.uniform(1)[:, 0] < p

    def places(self, count: int, first: int = 0) -> "list[Draws]":
        """The draws of each of `count` augmentations in a list within this one, from the place `first` on.

        Their first numbers are drawn in one go, as a call of NumPy costs more than its numbers do.
        """
        keys = hashed(self.key, np.arange(first, first + count))
        numbers = uniform_numbers(self.seeds, keys, _BLOCKS)
        return [replace(self, key=key, first=own) for key, own in zip(keys.tolist(), numbers, strict=True)]


class Effect(IntFlag):
    """Possible effects of edits on places, which boxes, masks and key points follow: see pipelines/geometry.py."""

    NONE = 0
    ERASES = 1  # by an `Edit.ERASE`
    MOVES = 2  # by an `Edit.TURN` or `Edit.WARP`
    MIRRORS = 4  # left and right, or up and down, may be swapped
    UNCOVERS = 8  # pixels from outside of the image may be seen
    WARPS = MOVES | UNCOVERS  # all that an `Edit.WARP` does, without mirror images


class Augmentation(ABC):
    """A change of images that is drawn for each of them: a value that pickles, compares and prints as its arguments.

    Subclasses are frozen dataclasses with `repr=False`, whose fields are arguments of the function of their name.
    """

    name: ClassVar[str]  # of the function that makes it
    eight_bits: ClassVar[bool] = False  # whether it is defined for values of 0..255 only
    effect: ClassVar[Effect] = Effect.NONE  # all that its edits may do to places, apart from those of its `parts`

    def __init_subclass__(cls, name: str = "") -> None:
        cls.name = name or re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @abstractmethod
    def edits(self, draws: Draws) -> Edits:
        """Draw the edits of k images."""

    @property
    def parts(self) -> "Sequence[Augmentation]":
        """The augmentations that it draws from, if it is given any."""
        return ()

    def check(self, channels: int, dtype: np.dtype, target: tuple[int, int]) -> None:
        """Refuse images that this augmentation is not defined for. A loader calls it when it is made.

        Args:
            channels: of the images, 3 or 1.
            dtype: of their pixels, uint8 or uint16.
            target: their (height, width) in pixels; `crops.BY_ORDER` if an order gives each batch its own.

        Raises UsageError with the place "augment".
        """
        if self.eight_bits and dtype != np.uint8:
            problem = f"{self.name} is defined for 8 bits, got images of {dtype}"
            raise UsageError("augment", problem, f"leave {self.name} out")
        for part in self.parts:
            part.check(channels, dtype, target)

    def __repr__(self) -> str:
        values: Any = self
        arguments = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(values))
        return f"{self.name}({', '.join(arguments)})"


def joined_effect(augment: Sequence[Augmentation]) -> Effect:
    """All that some augmentations may do to places."""
    return reduce(or_, (each.effect | joined_effect(each.parts) for each in augment), Effect.NONE)


def edits_of_each(augment: Sequence[Augmentation], draws: Draws, first: int = 0) -> list[Edits]:
    """The edits of each augmentation of a list, by its own draws. `first`: as in `drawn_edits`."""
    return [each.edits(its) for each, its in zip(augment, draws.places(len(augment), first), strict=True)]


def drawn_edits(augment: Sequence[Augmentation], seeds: np.ndarray, target: tuple[int, int], first: int = 0) -> Edits:
    """The edits of k images of a batch. `seeds`: int64 [k, 2], of the view; `target`: (height, width).

    `first`: number of augmentations that came before these elsewhere, and drew from the same seeds.
    """
    parts = edits_of_each(augment, Draws(seeds, target), first)
    return Edits.joined(parts, len(seeds)).fused()
