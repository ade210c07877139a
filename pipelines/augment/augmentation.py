"""The role of an augmentation, and what it draws from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import reduce
from operator import or_

import numpy as np

from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.orders.arithmetic import hashed
from shardfeed.pipelines.windows import uniform_numbers

_OWN_KEY = 0xA06E7  # so that augmentations draw other numbers than the crop


@dataclass(frozen=True)
class Draws:
    """What an augmentation of k images draws from: their seeds, and its own place among the augmentations.

    `seeds`: int64 [k, 2], of a view. `target`: (height, width) of the images, in pixels. `key`: of the place. So the
    numbers of an augmentation depend on the sample, the pass, the view and its place, and on nothing that comes later.
    """

    seeds: np.ndarray
    target: tuple[int, int]
    key: int = _OWN_KEY

    def __len__(self) -> int:
        return len(self.seeds)

    def uniform(self, count: int) -> np.ndarray:
        """Numbers of 0..1, without 1: float64 [k, count]. The first ones do not depend on `count`."""
        return uniform_numbers(self.seeds, self.key, -(-count // 4))[:, :count].astype(np.float64)

    def of(self, place: int) -> "Draws":
        """The draws of the augmentation at a place of a list within this one."""
        return replace(self, key=int(hashed(self.key, place)))


class Effect(IntFlag):
    """What edits may do to places, so that boxes, masks and key points must follow. docs of each: geometry.py."""

    NONE = 0
    ERASES = 1  # has an `Edit.ERASE`
    MOVES = 2  # pixels move: an `Edit.TURN` or `Edit.WARP`
    MIRRORS = 4  # left and right may be swapped, as by a flip
    UNCOVERS = 8  # pixels from outside of the image may be seen: an `Edit.WARP`


class Augmentation(ABC):
    """A change of images that is drawn for each of them: a value that pickles, compares and prints as its arguments.

    `effect`: all that its edits may do to places. One that is made of others has `joined_effect` of them.
    """

    effect: Effect = Effect.NONE

    @abstractmethod
    def edits(self, draws: Draws) -> Edits:
        """Draw the edits of k images."""


def joined_effect(augment: Sequence[Augmentation]) -> Effect:
    """All that some augmentations may do to places."""
    return reduce(or_, (each.effect for each in augment), Effect.NONE)


def drawn_edits(augment: Sequence[Augmentation], seeds: np.ndarray, target: tuple[int, int]) -> Edits:
    """The edits of k images of a batch. `seeds`: int64 [k, 2], of the view; `target`: (height, width)."""
    draws = Draws(seeds, target)
    parts = [each.edits(draws.of(place)) for place, each in enumerate(augment)]
    return Edits.joined(parts, len(seeds)).fused()
