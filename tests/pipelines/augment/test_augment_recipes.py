"""Recipes: values that print as what one would type, and that loaders take."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from shardfeed.pipelines import augment
from shardfeed.pipelines.augment import Augmentation, erasing, recipes
from shardfeed.pipelines.augment.augmentation import drawn_edits
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.gaussian_blur import GaussianBlur

from repository import ROOT

NAMES = ["detection_photometric", "moco_v2", "simclr", "torchvision_classification"]


def test_each_is_named() -> None:
    assert sorted(recipes.__all__) == sorted([*NAMES, "dino"])


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_a_tuple_that_prints_what_it_does(name: str) -> None:
    recipe: tuple[Augmentation, ...] = getattr(recipes, name)
    assert all(isinstance(each, Augmentation) for each in recipe)
    functions = {public: getattr(augment, public) for public in augment.__all__}
    assert eval(repr(recipe), functions) == recipe == pickle.loads(pickle.dumps(recipe))
    changed = [*recipe, erasing(p=1)]
    seeds = np.stack([np.arange(40), np.arange(40)], 1)
    assert (drawn_edits(changed, seeds, (64, 64)).kinds != 0).any(0).all()


def test_dino_has_ten_views() -> None:
    assert [view.target for view in recipes.dino] == [(224, 224)] * 2 + [(96, 96)] * 8
    assert all(isinstance(view, Crop) for view in recipes.dino)
    blurs = [each.p for view in recipes.dino for each in view.augment if isinstance(each, GaussianBlur)]
    assert blurs == [1.0, 0.1, *[0.5] * 8]
    assert [[each.name for each in view.augment].count("solarize") for view in recipes.dino] == [0, 1, *[0] * 8]


@pytest.mark.parametrize("name", [*NAMES, "dino"])
def test_each_has_its_source(name: str) -> None:
    text = Path(ROOT / "pipelines" / "recipes.py").read_text()
    before, _, _ = text.partition(f"\n{name}: ")
    assert "Source: " in before[before.rindex("\n\n") :]
