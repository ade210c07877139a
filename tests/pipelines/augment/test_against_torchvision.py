"""Each augmentation beside torchvision's function with the same parameters: within the bounds of the table of cases.

What torchvision makes of a small image is stored. Where torchvision is installed (CI does without it), it is asked,
too, with a larger one.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from torchvision_cases import CASES, GOLDEN, Case, Difference, small_photo

from shardfeed.pipelines.augment import policies

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cache
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as stored:
        images = np.cumsum(stored["steps"], axis=2, dtype=np.uint8)
        return dict(zip(stored["names"].tolist(), images, strict=True))


@cache
def large_photo() -> np.ndarray:
    """A smooth image with edges and noise, uint8 [224, 224, 3]."""
    draw = np.random.default_rng(4)
    rows, columns = np.mgrid[:224, :224]
    shades = np.stack([rows, columns, 255 - (rows + columns) / 2], -1)
    shades[60:150, 40:120] += (40, -60, 80)
    return np.clip(shades + draw.normal(0, 12, shades.shape), 0, 255).astype(np.uint8)


def torchvision() -> Any:
    return pytest.importorskip("torchvision", reason="torchvision is not installed; CI does without it")


def assert_within(case: Case, made: np.ndarray, theirs: np.ndarray) -> None:
    apart = Difference.of(made, theirs, case.largest)
    assert apart.beyond <= case.moved, apart
    assert apart.mean <= case.mean, apart


@each_case
def test_of_what_torchvision_made(case: Case) -> None:
    assert_within(case, case.made_by_us(small_photo()), golden()[case.name])


@each_case
def test_of_what_torchvision_makes(case: Case) -> None:
    torchvision()
    assert np.array_equal(case.made_by_torchvision(small_photo()), golden()[case.name])
    assert_within(case, case.made_by_us(large_photo()), case.made_by_torchvision(large_photo()))


def test_the_stored_images_are_those_of_the_cases() -> None:
    assert set(golden()) == {case.name for case in CASES}


@pytest.mark.parametrize(("policy", "space"), [("RandAugment", policies.RAND), ("TrivialAugmentWide", policies.WIDE)])
@pytest.mark.parametrize("bins", [2, 10, 31])
def test_every_magnitude_is_torchvisions(policy: str, space: policies.Space, bins: int) -> None:
    v2: Any = pytest.importorskip(
        "torchvision.transforms.v2", reason="torchvision is not installed; CI does without it"
    )
    theirs = getattr(v2, policy)._AUGMENTATION_SPACE
    assert len(space) == len(theirs)
    for (name, (first, last)), (magnitudes, signed) in zip(space.items(), theirs.values(), strict=True):
        assert policies.CHANGES[name].signed == signed, name
        found = magnitudes(bins, 224, 300)
        if found is None:
            assert first == last
            continue
        side = {"translate_x_share": 300, "translate_y_share": 224}.get(name, 1)
        for place, value in enumerate(found.tolist()):
            ours = side * (first + (last - first) * (place / (bins - 1)))
            assert math.isclose(round(ours) if name == "posterize" else ours, value, abs_tol=2e-5), (name, place)
