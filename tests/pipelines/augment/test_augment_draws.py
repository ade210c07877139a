"""Draws of augmentations: within their ranges, uniform, as often as asked, and of each sample alone."""

import pickle
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from augmentations import EACH, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.pipelines import augment as package
from shardfeed.pipelines.augment import (
    Augmentation,
    affine,
    autocontrast,
    color_jitter,
    equalize,
    erasing,
    gaussian_blur,
    grayscale,
    invert,
    one_of,
    perspective,
    policies,
    posterize,
    quarter_turns,
    rand_augment,
    random_apply,
    sharpness,
    solarize,
    trivial_augment_wide,
    vertical_flip,
)
from shardfeed.pipelines.augment.augmentation import Draws, drawn_edits
from shardfeed.pipelines.augment.auto_policies import CIFAR10, IMAGENET, SVHN
from shardfeed.pipelines.augment.edits import Edit, Edits
from shardfeed.pipelines.augment.host import edit_image

TARGET = (48, 64)
MANY = 10_000
DEVIATIONS = 4.5  # of a frequency from what is expected, at most, with fixed seeds

all_of_them = pytest.mark.parametrize("one", EACH.values(), ids=EACH)


def drawn(one: Augmentation, count: int = MANY, target: tuple[int, int] = TARGET) -> Edits:
    return one.edits(Draws(seeds(count), target))


def numbers_of(one: Augmentation, slot: int, target: tuple[int, int] = TARGET) -> np.ndarray:
    """One number of each edit that was drawn."""
    edits = drawn(one, target=target)
    return edits.numbers[:, 0, slot][edits.kinds[:, 0] != Edit.NONE]


def assert_as_often(counts: Sequence[int], shares: Sequence[float]) -> None:
    """Each of several counts is near its share of all."""
    total = sum(counts)
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - total * share) <= DEVIATIONS * np.sqrt(total * share * (1 - share)) + 1e-9


def assert_uniform(values: np.ndarray, least: float, most: float) -> None:
    assert least <= values.min()
    assert values.max() <= most
    counts, _ = np.histogram(values, 20, (least, most))
    assert_as_often(counts.tolist(), [1 / 20] * 20)
    expected = len(values) / 20
    assert ((counts - expected) ** 2 / expected).sum() < 60  # chi-square of 19 degrees: beyond with p of 4e-6


def equal(one: Edits, other: Edits) -> bool:
    return np.array_equal(one.kinds, other.kinds) and np.array_equal(one.numbers, other.numbers)


def test_each_public_augmentation_is_tested() -> None:
    assert set(EACH) == set(package.__all__) - {"Augmentation", "cutmix", "mixup", "recipes"}
    assert all(one.name == name for name, one in EACH.items())


@all_of_them
def test_is_a_value(one: Augmentation) -> None:
    again = eval(repr(one), {name: getattr(package, name) for name in package.__all__})
    assert again == one == pickle.loads(pickle.dumps(one))
    assert hash(again) == hash(one)
    assert repr(one).startswith(f"{one.name}(")
    assert one not in [other for other in EACH.values() if other is not one]
    with pytest.raises(AttributeError):
        one.p = 1.0  # type: ignore[attr-defined]


@all_of_them
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=9))
def test_draws_of_a_sample_are_its_own(one: Augmentation, pairs: list[tuple[int, int]]) -> None:
    """A sample's edits depend on its seed, and on nothing else of the batch."""
    batch = np.array(pairs, np.int64)
    together = one.edits(Draws(batch, TARGET))
    assert equal(together, one.edits(Draws(batch, TARGET)))
    for row in range(len(batch)):
        assert equal(together[row : row + 1], one.edits(Draws(batch[row : row + 1], TARGET)))
    assert np.isfinite(together.numbers).all()


@all_of_them
def test_of_a_batch_without_images(one: Augmentation) -> None:
    assert len(one.edits(Draws(np.zeros((0, 2), np.int64), TARGET))) == 0
    assert len(drawn_edits([one], np.zeros((0, 2), np.int64), TARGET)) == 0


@all_of_them
@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 3, 1), (5, 5, 3), (48, 64, 3)])
def test_images_of_any_size_can_be_edited(one: Augmentation, shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    edits = drawn_edits([one], seeds(40), shape[:2])
    for row in range(40):
        edit_image(image.copy(), edits, row)


@all_of_them
def test_one_more_moves_no_draw(one: Augmentation) -> None:
    """An augmentation at the end of a list, also within another, leaves the draws of the others as they are."""
    for other in EACH.values():
        both = random_apply([one, other], 1)
        alone = random_apply([one], 1)
        width = drawn(alone, 50).kinds.shape[1]
        edits = drawn(both, 50)
        assert equal(Edits(edits.kinds[:, :width], edits.numbers[:, :width]), drawn(alone, 50))


def test_a_list_of_a_loader_has_the_same_draws_with_one_more() -> None:
    some = [solarize(100), gaussian_blur(5, (0.5, 2.0)), affine(9, p=0.5)]
    before = drawn_edits(some, seeds(200), TARGET)
    after = drawn_edits([*some, erasing()], seeds(200), TARGET)
    assert equal(Edits(after.kinds[:, :3], after.numbers[:, :3]), before)
    assert (after.kinds[:, 3] == Edit.ERASE).any()


def test_the_same_twice_in_a_list_draws_twice() -> None:
    edits = drawn_edits([vertical_flip(), vertical_flip()], seeds(MANY), TARGET)
    both = (edits.kinds != Edit.NONE) @ [1, 2]
    assert_as_often(np.bincount(both, minlength=4).tolist(), [0.25] * 4)


WITH_P: dict[str, Callable[[float], Augmentation]] = {
    "affine": lambda p: affine(10, p=p),
    "autocontrast": autocontrast,
    "color_jitter": lambda p: color_jitter(0.4, p=p),
    "equalize": equalize,
    "erasing": lambda p: erasing(p, scale=(0.1, 0.2)),
    "gaussian_blur": lambda p: gaussian_blur(5, p=p),
    "grayscale": grayscale,
    "invert": invert,
    "perspective": lambda p: perspective(0.5, p),
    "posterize": lambda p: posterize(4, p),
    "random_apply": lambda p: random_apply([invert(1)], p),
    "sharpness": lambda p: sharpness(2, p),
    "solarize": lambda p: solarize(128, p),
    "vertical_flip": vertical_flip,
}


@pytest.mark.parametrize("make", WITH_P.values(), ids=WITH_P)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_as_often_as_asked(make: Callable[[float], Augmentation], p: float) -> None:
    edited = int((drawn(make(p)).kinds != Edit.NONE).any(1).sum())
    assert_as_often([edited, MANY - edited], [p, 1 - p])


def test_of_color_jitter() -> None:
    assert_uniform(numbers_of(color_jitter(brightness=(0.5, 1.5)), 0), 0.5, 1.5)
    assert_uniform(numbers_of(color_jitter(contrast=0.3), 0), 0.7, 1.3)
    assert numbers_of(color_jitter(brightness=3), 0).min() >= 0


def test_of_gaussian_blur() -> None:
    assert_uniform(numbers_of(gaussian_blur(9, (0.1, 2.0)), 0), 0.1, 2.0)
    assert set(numbers_of(gaussian_blur(9), 1)) == {4}


def test_turns_of_affine() -> None:
    edits = drawn(affine((-30, 10)))
    angles = np.degrees(np.arctan2(edits.numbers[:, 0, 1], edits.numbers[:, 0, 0]))
    assert_uniform(angles, -30, 10)


def test_shifts_of_affine_are_whole_pixels() -> None:
    numbers = drawn(affine(0, translate=(0.25, 0.5))).numbers[:, 0]
    across, down = -numbers[:, 2], -numbers[:, 5]
    assert np.array_equal(across, np.rint(across))
    assert np.array_equal(down, np.rint(down))
    assert (across.min(), across.max()) == (-16, 16)
    assert (down.min(), down.max()) == (-24, 24)


def test_sizes_and_shears_of_affine() -> None:
    assert_uniform(1 / drawn(affine(0, scale=(0.5, 2))).numbers[:, 0, 0], 0.5, 2)
    slants = np.degrees(np.arctan(drawn(affine(0, shear=20)).numbers[:, 0, 1]))
    assert_uniform(slants, -20, 20)
    rises = np.degrees(np.arctan(drawn(affine(0, shear=(0, 0, 5, 20))).numbers[:, 0, 3]))
    assert_uniform(rises, 5, 20)


def test_affine_holds_the_centre() -> None:
    numbers = drawn(affine(90, scale=(0.5, 2), shear=(-20, 20, -20, 20))).numbers[:, 0, :9].reshape(-1, 3, 3)
    centre = np.array([(TARGET[1] - 1) / 2, (TARGET[0] - 1) / 2, 1])
    assert np.allclose(numbers @ centre, centre)


def test_corners_of_perspective() -> None:
    """Each corner of the old image is where the new one has been drawn: inside, at most half of the way."""
    height, width = TARGET
    homographies = np.linalg.inv(drawn(perspective(0.5, 1)).numbers[:, 0, :9].reshape(-1, 3, 3))
    for column, row in ((0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)):
        places = homographies @ np.array([column - 0.5, row - 0.5, 1])
        x, y = (places[:, :2] / places[:, 2:] + 0.5).T
        across, down = np.abs(x - column), np.abs(y - row)
        assert np.allclose(across, np.rint(across), atol=1e-6)
        assert_as_often(np.bincount(np.rint(across).astype(int), minlength=17).tolist(), [1 / 17] * 17)
        assert_as_often(np.bincount(np.rint(down).astype(int), minlength=13).tolist(), [1 / 13] * 13)


def test_erased_rectangles() -> None:
    edits = drawn(erasing(1, (0.02, 0.33), (0.3, 3.3), (1, 2, 3)), target=(100, 100))
    assert (edits.kinds == Edit.ERASE).all()
    top, left, height, width = edits.numbers[:, 0, :4].T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 100).all()
    assert (left + width <= 100).all()
    assert (edits.numbers[:, 0, 4:7] == [1, 2, 3]).all()
    shares, ratios = height * width / 1e4, height / width
    assert shares.min() > 0.018
    assert shares.max() < 0.35
    assert ratios.min() > 0.25
    assert ratios.max() < 4
    small = drawn(erasing(1, (0.1, 0.1), (1, 1)), target=(100, 100)).numbers[:, 0, :4]
    assert set(small[:, 2]) == {32.0}
    assert set(small[:, 0]) == set(range(69))


def test_rectangles_that_do_not_fit_are_not_erased() -> None:
    assert (drawn(erasing(1, (1, 1))).kinds == Edit.NONE).all()


@pytest.mark.parametrize(("target", "turns"), [((40, 40), [0.25] * 4), ((40, 60), [0.5, 0, 0.5, 0])])
def test_quarter_turns(target: tuple[int, int], turns: list[float]) -> None:
    edits = drawn(quarter_turns(), target=target)
    assert_as_often(np.bincount(edits.numbers[:, 0, 0].astype(int), minlength=4).tolist(), turns)
    assert ((edits.kinds[:, 0] == Edit.TURN) == (edits.numbers[:, 0, 0] > 0)).all()


def test_one_of_by_its_weights() -> None:
    some = one_of([posterize(1, 1), posterize(2, 1), posterize(3, 1), posterize(4, 1)], [3, 0, 1, 0])
    assert_as_often(np.bincount(numbers_of(some, 0).astype(int), minlength=5).tolist(), [0, 0.75, 0, 0.25, 0])
    equally = one_of([posterize(1, 1), posterize(2, 1), random_apply([])])
    edits = drawn(equally)
    counts = [int((edits.kinds == Edit.NONE).sum()), *(int((edits.numbers[:, 0, 0] == bits).sum()) for bits in (1, 2))]
    assert_as_often(counts, [1 / 3] * 3)


def test_random_apply_is_all_or_none() -> None:
    edits = drawn(random_apply([posterize(1, 1), invert(1), solarize(9, 1)], 0.3))
    assert set((edits.kinds != Edit.NONE).sum(1)) == {0, 3}


def test_nested_ones_draw_by_their_own_place() -> None:
    """Coins of the same augmentation at different places, and at different depths, are independent."""
    flips = random_apply([vertical_flip(), random_apply([vertical_flip()], 1)], 1)
    edits = drawn_edits([vertical_flip(), flips], seeds(MANY), TARGET)
    assert_as_often(np.bincount((edits.kinds != Edit.NONE) @ [1, 2, 4], minlength=8).tolist(), [1 / 8] * 8)


def test_changes_of_trivial_augment_wide() -> None:
    """Each of fourteen equally often; each magnitude, too, and half of them negative."""
    edits = drawn(trivial_augment_wide(), 3 * MANY)
    kinds = edits.kinds[:, 0]
    counts = np.bincount(kinds, minlength=len(Edit))
    expected = {Edit.NONE: 1, Edit.WARP: 5, Edit.MATRIX: 3, Edit.SHARPNESS: 1, Edit.POSTERIZE: 1}
    expected |= {Edit.SOLARIZE: 1, Edit.EQUALIZE: 1, Edit.AUTOCONTRAST: 1}
    assert_as_often(counts.tolist(), [expected.get(kind, 0) / 14 for kind in Edit])
    factors = edits.numbers[kinds == Edit.SHARPNESS, 0, 0]
    bins, often = np.unique(np.rint((factors - 1) / 0.033).astype(int), return_counts=True)
    assert bins.tolist() == list(range(-30, 31))
    assert_as_often(often.tolist(), [1 / 31 if each == 0 else 1 / 62 for each in bins])
    assert sorted(set(edits.numbers[kinds == Edit.POSTERIZE, 0, 0])) == [2, 3, 4, 5, 6, 7, 8]


def test_changes_of_rand_augment() -> None:
    edits = drawn(rand_augment(2, 30))
    for slot in range(2):
        bits = edits.numbers[edits.kinds[:, slot] == Edit.POSTERIZE, slot, 0]
        assert set(bits) == {4}
        assert_as_often([len(bits), MANY - len(bits)], [1 / 14, 13 / 14])
    assert drawn(rand_augment(0)).kinds.shape == (MANY, 0)


@pytest.mark.parametrize("pairs", [IMAGENET, CIFAR10, SVHN])
def test_pairs_of_auto_augment(pairs: Sequence[Sequence[tuple[str, float, int | None]]]) -> None:
    assert len(pairs) == 25
    for name, often, magnitude in (step for pair in pairs for step in pair):
        assert 0 <= often <= 1
        first, last = policies.AUTO[name]
        assert (magnitude is None) == (first == last)


def test_auto_augment_draws_its_pairs() -> None:
    edits = drawn(package.auto_augment("imagenet"))
    share = np.mean([often_in(pair)["posterize"] for pair in IMAGENET])
    found = int((edits.kinds == Edit.POSTERIZE).sum())
    assert abs(found / MANY - share) < 0.02


def often_in(pair: Sequence[tuple[str, float, int | None]]) -> dict[str, float]:
    """How often a pair makes each change, in both of its places."""
    often = dict.fromkeys(policies.CHANGES, 0.0)
    for name, share, _ in pair:
        often[name] += share
    return often
