"""An augmentation declares all that its edits do to places: loaders ask it before the first image."""

import numpy as np
import pytest
from augmentations import EACH

from shardfeed.pipelines.augment import (
    affine,
    auto_augment,
    color_jitter,
    erasing,
    one_of,
    perspective,
    quarter_turns,
    rand_augment,
    random_apply,
    trivial_augment_wide,
    vertical_flip,
)
from shardfeed.pipelines.augment.augmentation import Augmentation, Effect, drawn_edits, joined_effect
from shardfeed.pipelines.augment.edits import Edit
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop, RandomWindow
from shardfeed.pipelines.augment.places import are_mirrored, are_moved

TARGET = (48, 48)
MOVING = [
    affine(170, (0.5, 0.5), (0.2, 5.0), (-80, 80, -80, 80)),
    perspective(1.0, p=1.0),
    quarter_turns(),
    vertical_flip(),
    erasing(p=1.0),
    rand_augment(3, 30),
    trivial_augment_wide(),
    auto_augment(),
    random_apply([quarter_turns(), color_jitter(0.5)]),
    one_of([vertical_flip(), random_apply([affine(10), erasing()])]),
]
STRONG = {each.name for each in MOVING}
OTHERS = [each for name, each in EACH.items() if name not in STRONG]


@pytest.mark.parametrize("augmentation", MOVING + OTHERS, ids=lambda each: each.name)
def test_edits_do_what_is_declared_and_no_more(augmentation: Augmentation) -> None:
    seeds = np.stack([np.arange(600), np.full(600, 3)], 1)
    edits, found = drawn_edits([augmentation], seeds, TARGET), Effect.NONE
    for row in range(len(seeds)):
        moves = edits.moves(row)
        kinds = {kind for kind, _ in moves}
        found |= Effect.ERASES if Edit.ERASE in kinds else Effect.NONE
        found |= Effect.MOVES if are_moved(moves) else Effect.NONE
        found |= Effect.UNCOVERS if Edit.WARP in kinds else Effect.NONE
        found |= Effect.MIRRORS if are_mirrored(moves, TARGET) else Effect.NONE
    assert found == joined_effect([augmentation])


def test_a_crop_knows_what_its_augmentations_do() -> None:
    plain = CenterCrop(TARGET, 1.0)
    flipped = RandomCrop(TARGET, RandomWindow((0.5, 1.0), (1.0, 1.0)), flip=True)
    assert (plain.swaps_sides, plain.goes_back) == (False, True)
    assert (flipped.swaps_sides, flipped.goes_back) == (True, False)
    for augmentation, swaps, goes_back in (
        (color_jitter(0.5), False, True),
        (erasing(), False, True),
        (affine(10), False, False),
        (quarter_turns(), False, False),
        (vertical_flip(), True, False),
        (random_apply([one_of([vertical_flip()])]), True, False),
    ):
        crop = Letterbox(TARGET, 0).augmented([color_jitter(0.1), augmentation])
        assert (crop.swaps_sides, crop.goes_back) == (swaps, goes_back), augmentation
        assert flipped.augmented([augmentation]).swaps_sides
