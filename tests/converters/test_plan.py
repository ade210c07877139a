"""Assignment of samples to shards: a pure function of the samples and of the options that change bytes."""

import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from shardfeed.converters import ImageFolder, ImageOptions
from shardfeed.converters.planning import samples
from shardfeed.converters.planning.options import PlanOptions, Shares, SplitBy
from shardfeed.converters.planning.plan import Plan, make_plan
from shardfeed.converters.planning.split_shares import draw
from shardfeed.converters.sources.source import Sample, SourceFile, SourceInfo
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, Feature, Schema


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
    plan = make_plan(source, PlanOptions(split={"train": 0.7, "validation": 0.2, "extra": 0.1}, shards=3))
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
    plans = [make_plan(source, PlanOptions(split=dict(order))) for order in permutations(shares.items())]
    assert len({plan.fingerprint for plan in plans}) == 1
    assert all(members(plan) == members(plans[0]) for plan in plans)
    halves: list[Mapping[str, float]] = [{"train": 0.5, "validation": 0.5}, {"validation": 0.5, "train": 0.5}]
    one, other = (make_plan(source, PlanOptions(split=half)) for half in halves)
    assert members(one) == members(other)
    assert one.inputs.digest == other.inputs.digest
    assert json.dumps(one.options.to_json()) == json.dumps(other.options.to_json())


def test_shares_are_exact_and_each_class_has_its_own(source: ImageFolder) -> None:
    """Shares of 20 images per class are exact, whatever the seed."""
    for seed in range(5):
        plan = make_plan(source, PlanOptions(split={"train": 0.75, "validation": 0.15, "test": 0.1}, seed=seed))
        assert plan.split_sizes() == {"train": 45, "validation": 9, "test": 6}
        assert plan.class_counts == {"train": (15, 15, 15), "validation": (3, 3, 3), "test": (2, 2, 2)}
        labels = [source[i].features[LABEL] for i in members(plan)["test"]]
        assert Counter(labels) == {0: 2, 1: 2, 2: 2}


def test_shares_without_labels_are_exact_too(source: ImageFolder) -> None:
    class Unlabelled:
        schema = Schema({})

        def __len__(self) -> int:
            return len(source)

        def __getitem__(self, i: int) -> Sample:
            return Sample(source[i].key, source[i].image)

    plan = make_plan(Unlabelled(), PlanOptions(split={"train": 0.9, "validation": 0.1}))
    assert plan.split_sizes() == {"train": 54, "validation": 6}
    assert plan.class_counts == {}


@pytest.mark.parametrize("named", [0, 1, 2])
def test_samples_whose_split_is_named_have_no_part_in_the_shares(source: ImageFolder, named: int) -> None:
    """Nor do their classes."""

    class Some:
        schema = source.schema

        def __len__(self) -> int:
            return len(source)

        def __getitem__(self, i: int) -> Sample:
            return replace(source[i], split="test" if i // 20 == named else None)

    plan = make_plan(Some(), PlanOptions(split={"train": 0.8, "validation": 0.2}))
    for split, drawn, whole in (("test", 0, 20), ("train", 16, 0), ("validation", 4, 0)):
        assert plan.class_counts[split] == tuple(whole if i == named else drawn for i in range(3))


def test_a_small_dataset_has_work_for_several_processes() -> None:
    """B1 of the trials: below 256 MB all was one shard, and one core made it."""

    class Icons:
        schema = Schema({LABEL: Feature("int64")}, {LABEL: ("a", "b")})

        def __len__(self) -> int:
            return 12_000

        def __getitem__(self, i: int) -> Sample:
            return Sample(b"%d.png" % i, SourceFile(b"/%d.png" % i, 2_000, 0), {LABEL: np.int64(i % 2)})  # type: ignore[dict-item]  # works too

    plan = make_plan(Icons(), PlanOptions(split={"train": 0.9, "validation": 0.1}))
    assert Counter(shard.split for shard in plan.shards) == {"train": 14, "validation": 2}
    assert plan.class_counts == {"train": (5400, 5400), "validation": (600, 600)}
    assert len(make_plan(Icons(), PlanOptions(shards="256000000B")).shards) == 1


class Many:
    """Samples with labels, and with splits for some; more than one run of rows."""

    schema = Schema({LABEL: Feature("int64")}, {LABEL: tuple("abcdefg")})

    def __init__(self, count: int = 20_000) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Sample:
        if i >= self.count:
            raise IndexError(i)
        file = SourceFile(b"/%d" % i, 1000 + i % 900, i)
        return Sample(b"%d.jpg" % (i * 7919), file, {LABEL: i * i % 7}, "test" if i % 11 == 0 else None)


class ManyRecords(Many):
    def info(self) -> SourceInfo:
        return SourceInfo(made_with={}, keeps_order=True)


@pytest.mark.parametrize(("source", "by"), [(Many(), "exact"), (Many(), "hash"), (ManyRecords(), "exact")])
def test_the_number_of_buckets_changes_nothing(source: Many, by: SplitBy, tmp_path: Path) -> None:
    """The samples of each split are sorted by their second draw, as if all were in memory."""
    options = PlanOptions(split=Shares({"train": 0.7, "validation": 0.2, "extra": 0.1}, by), shards="3000000B")
    plans = [make_plan(source, options, False, str(tmp_path), buckets) for buckets in (None, 7, 1024)]
    assert not [*tmp_path.iterdir()]
    assert len({plan.fingerprint for plan in plans}) == 1
    found = members(plans[0])
    assert all(members(plan) == found for plan in plans)
    digests = [[plan.shard_digest(shard) for shard in plan.shards] for plan in plans]
    assert digests == [digests[0]] * 3
    for of_split in found.values():
        places = [draw(source[i].key, 0)[8:][::-1] for i in of_split]
        assert (of_split if isinstance(source, ManyRecords) else places) == sorted(
            of_split if isinstance(source, ManyRecords) else places
        )
    for shard in plans[0].shards[:3]:
        states = b"".join(json.loads(line)[1].encode() for line in numbered(plans[0], shard.samples))
        assert shard.states.hex().encode() == states


def numbered(plan: Plan, samples: np.ndarray) -> list[str]:
    lines = [*plan.inputs.lines()]
    return [lines[i] for i in samples.tolist()]


def test_equal_keys_far_apart_are_found() -> None:
    class Twice(Many):
        def __getitem__(self, i: int) -> Sample:
            return super().__getitem__(35 if i == 19_000 else i)

    problem = r"source\[19000\]: has the key '277165.jpg' of source\[35\]"
    for buckets in (None, 7):
        with pytest.raises(UsageError, match=problem):
            make_plan(Twice(), PlanOptions(), buckets=buckets)


def test_a_column_of_names_that_is_taken_for_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(Many):
        def __getitem__(self, i: int) -> Sample:
            return replace(super().__getitem__(i), split=f"s{i}")

    assert np.iinfo(samples._ROW["split"]).max == samples.MOST_SPLITS - 1
    monkeypatch.setattr("shardfeed.converters.planning.survey.MOST_SPLITS", 1000)
    with pytest.raises(UsageError, match=r"source\[1000\]: names one more split, 's1000'; there may be 1,000"):
        make_plan(Named(1001), PlanOptions())


@pytest.mark.long
def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """Nothing that a plan holds, or needs while it is made, grows with the samples: 64 bytes each were 3 MB more."""

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            plan = make_plan(Many(count), PlanOptions(split={"train": 0.8, "validation": 0.2}), False, str(tmp_path))
            assert len(plan) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(120_000) < peak(70_000) + 1_600_000


def test_by_hash_splits_are_what_they_always_were() -> None:
    """As version 0.1 drew them before shares were exact: a dataset made then can be made again."""

    class Keys:
        schema = Schema({LABEL: Feature("int64")}, {LABEL: ("a", "b", "c")})

        def __len__(self) -> int:
            return 60

        def __getitem__(self, i: int) -> Sample:
            return Sample(b"%c/%04d.jpg" % (b"abc"[i // 20], i % 20), b"x", {LABEL: i // 20})

    options = PlanOptions(split=Shares({"train": 0.7, "validation": 0.2, "extra": 0.1}, "hash"), seed=3)
    found = members(make_plan(Keys(), options))
    assert found["validation"] == [18, 5, 50, 28, 58, 48, 7, 41, 22, 14, 17, 2]
    assert found["extra"] == [39, 34, 55, 38]
    assert sorted(found["train"]) == sorted(set(range(60)) - {*found["validation"], *found["extra"]})


def test_how_the_split_is_drawn_matters_only_where_one_is() -> None:
    assert PlanOptions(split=Shares(None, "hash")).to_json() == PlanOptions().to_json()
    half = {"train": 0.5, "test": 0.5}
    assert PlanOptions(split=Shares(half, "hash")).to_json() != PlanOptions(split=half).to_json()


def test_a_split_with_fewer_images_than_shards_is_said(source: ImageFolder) -> None:
    plan = make_plan(source, PlanOptions(split={"train": 0.97, "test": 0.03}, shards=5))
    assert Counter(shard.split for shard in plan.shards) == {"train": 5, "test": 2}
    assert plan.notes == ["split test has 2 images, so it gets 2 shards instead of 5"]


@pytest.mark.parametrize(
    ("changed", "same_order"),
    [
        ({"shards": 5}, True),
        ({"shards": "2000B"}, True),
        ({"image": ImageOptions(sha256=False)}, True),
        ({"seed": 1}, False),
    ],
)
def test_an_option_changes_the_fingerprint_and_only_the_seed_the_order(
    source: ImageFolder, changed: dict[str, int], same_order: bool
) -> None:
    plan, other = make_plan(source, PlanOptions()), make_plan(source, PlanOptions(**changed))  # type: ignore[arg-type]
    assert plan.fingerprint != other.fingerprint
    assert (members(plan) == members(other)) is same_order


def test_shards_by_size(source: ImageFolder) -> None:
    plan = make_plan(source, PlanOptions(shards="5000B"))
    assert len(plan.shards) == -(-plan.source_bytes // 5000)
    lengths = [len(shard.samples) for shard in plan.shards]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)
    assert np.concatenate([shard.samples for shard in plan.shards]).tolist() == members(plan)["train"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (PlanOptions(split={"train": 1 - 1e-7, "test": 1e-7}), "split test: none of 60 samples is in it"),
        (PlanOptions(shards={}), "has no value for the split 'train'"),
        (PlanOptions(shards={"train": 2, "tarin": 3}), "shards: got the split 'tarin', expected 'train'"),
    ],
)
def test_what_cannot_be_planned(source: ImageFolder, options: PlanOptions, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make_plan(source, options)


@pytest.mark.parametrize(
    "options",
    [
        {"split": {}},
        {"split": {"train": 0.5}},
        {"split": {"train": 1.5, "test": -0.5}},
        {"split": {"a/b": 1.0}},
        {"shards": 0},
        {"shards": {"train": 100_000}},
        {"shards": {"train": None}},
        {"shards": "0B"},
        {"to": "zip"},
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PlanOptions(**options)  # type: ignore[arg-type]
