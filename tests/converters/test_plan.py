"""What goes where: a pure function of the samples and of the options that change bytes."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from shardfeed.converters import ImageFolder
from shardfeed.converters.planning.plan import Plan, PlanOptions, make_plan
from shardfeed.errors import UsageError


@pytest.fixture
def source(folder: Callable[..., Path]) -> ImageFolder:
    return ImageFolder(folder(20))


def members(plan: Plan) -> dict[str, list[int]]:
    """The samples of each split in stored order."""
    found: dict[str, list[int]] = {}
    for shard in plan.shards:
        found.setdefault(shard.split, []).extend(shard.samples.tolist())
    return found


def test_each_sample_has_one_place(source: ImageFolder) -> None:
    plan = make_plan(source, PlanOptions({"train": 0.7, "validation": 0.2, "extra": 0.1}, shards=3))
    assert (
        sorted(i for of_split in members(plan).values() for i in of_split) == list(range(len(source))) == [*range(60)]
    )
    assert len(plan) == 60
    assert Counter(shard.split for shard in plan.shards) == {"train": 3, "validation": 3, "extra": 3}
    for shard in plan.shards:
        before = sum(len(s.samples) for s in plan.shards if s.split == shard.split and s.number < shard.number)
        assert shard.first == before


def test_the_order_in_which_shares_are_given_says_nothing(source: ImageFolder) -> None:
    shares = {"train": 0.4, "validation": 0.3, "test": 0.2, "extra": 0.1}
    plans = [make_plan(source, PlanOptions(dict(order))) for order in permutations(shares.items())]
    assert len({plan.fingerprint for plan in plans}) == 1
    assert all(members(plan) == members(plans[0]) for plan in plans)
    halves: list[Mapping[str, float]] = [{"train": 0.5, "validation": 0.5}, {"validation": 0.5, "train": 0.5}]
    one, other = (make_plan(source, PlanOptions(half)) for half in halves)
    assert members(one) == members(other)
    assert one.inputs.digest == other.inputs.digest


@pytest.mark.parametrize(
    ("changed", "same_order"),
    [({"shards": 5}, True), ({"shard_size": 2000}, True), ({"sha256": False}, True), ({"seed": 1}, False)],
)
def test_an_option_changes_the_fingerprint_and_only_the_seed_the_order(
    source: ImageFolder, changed: dict[str, int], same_order: bool
) -> None:
    plan, other = make_plan(source, PlanOptions()), make_plan(source, PlanOptions(**changed))  # type: ignore[arg-type]
    assert plan.fingerprint != other.fingerprint
    assert (members(plan) == members(other)) is same_order


def test_shards_by_size(source: ImageFolder) -> None:
    plan = make_plan(source, PlanOptions(shard_size=5000))
    assert len(plan.shards) == -(-plan.source_bytes // 5000)
    lengths = [len(shard.samples) for shard in plan.shards]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)
    assert np.concatenate([shard.samples for shard in plan.shards]).tolist() == members(plan)["train"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (PlanOptions({"train": 1 - 1e-7, "test": 1e-7}), "split test: none of 60 samples falls into it"),
        (PlanOptions(shards={"test": 2}), "says nothing about the split 'train'"),
    ],
)
def test_what_cannot_be_planned(source: ImageFolder, options: PlanOptions, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make_plan(source, options)


@pytest.mark.parametrize(
    "options",
    [
        {"fractions": {}},
        {"fractions": {"train": 0.5}},
        {"fractions": {"train": 1.5, "test": -0.5}},
        {"fractions": {"a/b": 1.0}},
        {"shards": 0},
        {"shards": {"train": 100_000}},
        {"shard_size": 0},
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PlanOptions(**options)  # type: ignore[arg-type]
