"""The role of an augmentation, and what it draws from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

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


class Augmentation(ABC):
    """A change of images that is drawn for each of them: a value that pickles, compares and prints as its arguments."""

    @abstractmethod
    def edits(self, draws: Draws) -> Edits:
        """Draw the edits of k images."""


Augment = Annotated[Sequence[Augmentation], "for example augment=[grayscale(0.2)] of shardfeed.pipelines.augment"]


def drawn_edits(augment: Sequence[Augmentation], seeds: np.ndarray, target: tuple[int, int], first: int = 0) -> Edits:
    """The edits of k images of a batch. `seeds`: int64 [k, 2], of the view; `target`: (height, width).

    `first`: number of augmentations that came before these elsewhere, and drew from the same seeds.
    """
    draws = Draws(seeds, target)
    parts = [each.edits(draws.of(place)) for place, each in enumerate(augment, first)]
    return Edits.joined(parts, len(seeds)).fused()
