"""Mixtures whose weights change at a step, and runs that go on with another mixture: exact, and nothing again early."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardfeed
from shardfeed import array_batches
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.errors import OrderMismatchError, UsageError
from shardfeed.pipelines import Global, Position, Ranks, cached, mix, order_samples
from shardfeed.pipelines.orders.arithmetic import apportion
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.pipelines.orders.position import order_from_json
from shardfeed.pipelines.orders.strata import PhasedOrder, StratifiedOrder
from shardfeed.readers import Dataset, Split

BATCH = 8
HASHES = [f"{number:032x}" for number in range(9)]


def ordered(samples: Any, seed: int = 7, batch_size: int = BATCH, **options: Any) -> IndexedOrder:
    order = order_samples(samples, batch_size=batch_size, seed=seed, order=Global(**options))[1]
    assert isinstance(order, IndexedOrder)
    return order


@st.composite
def phased(draws: st.DrawFn) -> PhasedOrder:
    """Any order: some strata join later, a weight may be 0, and steps may be far within an epoch or beyond it."""
    strata = draws(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    steps, batch_size = draws(st.integers(1, 9)), draws(st.integers(1, 8))
    starts = [0, *sorted(draws(st.sets(st.integers(1, 40), max_size=4)))]
    known = [*sorted(draws(st.integers(1, len(strata))) for _ in starts[1:]), len(strata)]
    quotas = []
    for count in known:
        weights = draws(st.lists(st.sampled_from([0, 0.3, 1, 2, 7.5]), min_size=count, max_size=count))
        quotas.append(apportion(steps * batch_size, weights if any(weights) else [1] * count))
    common = (HASHES[0], sum(strata), batch_size, steps * batch_size, draws(st.integers(0, 2**63 - 1)))
    return PhasedOrder(*common, tuple(starts), tuple(HASHES[: len(starts)]), tuple(strata), tuple(quotas))


def check_order(order: PhasedOrder, step: int) -> None:
    """Quotas of each batch, every sample of a stratum before any again, counts up to `step`, and shares of it."""
    stratum_of, count = np.repeat(np.arange(len(order.strata)), order.strata), order.steps_per_epoch
    epochs = [order.draw(epoch, np.arange(order.epoch_samples)) for epoch in range(order.starts[-1] // count + 3)]
    indices, passes = (
        np.concatenate(each).reshape(-1, order.batch_size) for each in list(zip(*epochs, strict=True))[:2]
    )
    used = np.zeros(order.samples, np.int64)
    for number, (batch, before) in enumerate(zip(indices, passes, strict=True)):
        phase = sum(start <= number for start in order.starts) - 1
        counts = np.bincount(stratum_of[batch], minlength=len(order.strata))
        for found, quota in zip(counts, [*order.quotas[phase], *[0] * 9], strict=False):
            assert found in (quota // count, -(-quota // count))
        for index, times in sorted(zip(batch.tolist(), before.tolist(), strict=True)):
            assert used[index] == times  # so that it is cropped in another way each time
            used[index] += 1
        for of_stratum in np.split(used, np.cumsum(order.strata)[:-1]):
            assert of_stratum.max() - of_stratum.min() <= 1, "again before others of its epoch"
    step %= len(indices)
    for parts in (parts for parts in range(1, 9) if order.batch_size % parts == 0):
        shares = [order.batch(step, part, parts) for part in range(parts)]
        assert np.concatenate(shares).tolist() == indices[step].tolist()
    for _, alone in order.until(99):
        assert isinstance(alone, StratifiedOrder)
        drawn = np.concatenate(
            [alone.draw(epoch, np.arange(order.epoch_samples)).indices for epoch in range(len(epochs))]
        )
        counted = np.bincount(stratum_of[drawn[: step * order.batch_size]], minlength=len(alone.strata))
        assert alone.counts(step).tolist() == counted.tolist()


@pytest.mark.promise(29)
@given(phased(), st.integers(0, 200))
@settings(max_examples=15, deadline=None)
def test_quotas_of_each_batch_and_no_sample_again_early(order: PhasedOrder, step: int) -> None:
    check_order(order, step)


@pytest.mark.long
@given(phased(), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_many_orders(order: PhasedOrder, step: int) -> None:
    check_order(order, step)


@given(phased(), st.integers(0, 30), st.data())
@settings(max_examples=10, deadline=None)
def test_an_order_continued_is_the_same_before_and_its_own_line_after(
    order: PhasedOrder, step: int, data: st.DataObject
) -> None:
    """Twice: with another stratum and other quotas, each from the step at which a position was saved."""
    position = Position(step, order)
    for later in (0, data.draw(st.integers(1, 30))):
        done, before = position.step + later, position.order
        assert isinstance(before, PhasedOrder)
        kept = [phase for phase in zip(before.starts, before.datasets, before.quotas, strict=True) if phase[0] < done]
        if done == 0:
            return
        quotas = apportion(order.epoch_samples, [*kept[-1][2], order.batch_size])
        starts, datasets, all_quotas = zip(*kept, (done, HASHES[8], quotas), strict=True)
        strata = (*before.strata[: len(kept[-1][2])], 5)
        shape = {"strata": strata, "samples": sum(strata), "dataset": HASHES[7]}
        after = PhasedOrder(**{**vars_of(before), **shape}, starts=starts, datasets=datasets, quotas=all_quotas)
        position = Position.from_json(Position(done, before).continued_with(after).to_json())
        assert position == Position(done, after)
        assert position.continued_with(after) == position
        for epoch in range(done // order.steps_per_epoch + 1):
            positions = np.arange(min(order.epoch_samples, done * order.batch_size - epoch * order.epoch_samples))
            assert after.draw(epoch, positions).indices.tolist() == before.draw(epoch, positions).indices.tolist()
        with pytest.raises(OrderMismatchError, match=f"with other samples from step {done} on"):
            Position(done + 1, before).continued_with(after)


def vars_of(order: PhasedOrder) -> dict[str, Any]:
    return {name: getattr(order, name) for name in ("batch_size", "epoch_samples", "seed")}


def test_weights_that_do_not_change_are_plain_and_a_change_is_the_plain_order_until_then(flowers: Dataset) -> None:
    train, validation = flowers["train"], flowers["validation"][:20]
    both = mix([(train, 3), (validation, 1)])
    for weights in ({0: (3, 1)}, {0: (3, 1), 9: (3, 1)}, {np.int64(0): [3.0, np.float32(1)]}):
        same = mix([train, validation], weights)  # type: ignore[arg-type]  # NumPy numbers are numbers
        assert same == both
        assert ordered(same) == ordered(both)
    changed = ordered(mix([train, validation], {0: (3, 1), 9: (1, 1)}))
    assert changed.steps_per_epoch == ordered(both).steps_per_epoch
    assert changed.kind == "phased"
    assert "from step 0 on shares 0.75, 0.25; from step 9 on shares 0.5, 0.5" in str(changed)
    assert [changed.batch(step).tolist() for step in range(9)] == [
        ordered(both).batch(step).tolist() for step in range(9)
    ]
    for step in range(9, 80):
        assert (changed.batch(step) >= len(train)).sum() == BATCH / 2
    assert order_from_json(json.loads(json.dumps(changed.to_json()))) == changed


def test_a_part_that_joins_or_leaves(flowers: Dataset) -> None:
    train, validation, rest = flowers["train"], flowers["validation"][:20], flowers["validation"][20:]
    plain = ordered(mix([(train, 3), (validation, 1)]))
    joined = mix([train, validation, rest], {0: (3, 1, 0), 30: (2, 1, 1), 50: (0, 1, 1)})
    order = ordered(joined)
    assert order.steps_per_epoch == plain.steps_per_epoch, "an epoch keeps its length"
    starts = np.cumsum([0, len(train), 20])
    for step in range(70):
        shares = np.bincount(np.searchsorted(starts, order.batch(step), "right") - 1, minlength=3).tolist()
        assert shares == ([6, 2, 0] if step < 30 else [4, 2, 2] if step < 50 else [0, 4, 4])
        assert step >= 30 or order.batch(step).tolist() == plain.batch(step).tolist()
    balanced = ordered(joined, balance="class")
    assert [balanced.batch(step).tolist() for step in range(30)] != [order.batch(step).tolist() for step in range(30)]
    assert isinstance(balanced, PhasedOrder)
    assert [len(quotas) for quotas in balanced.quotas] == [6, 9, 9]


def test_what_a_run_saved_before_phases_existed_continues(flowers: Dataset) -> None:
    """The JSON of a plain mixture's position has not changed."""
    parts = [flowers["train"], flowers["validation"][:20]]
    plain = ordered(mix([(parts[0], 3), (parts[1], 1)]))
    assert sorted(plain.to_json()) == [
        *("batch_size", "dataset", "epoch_samples", "kind", "quotas", "samples", "seed", "strata"),
    ]
    position = Position.from_json(Position(30, plain).to_json())
    assert position.continued_with(plain) == position
    assert position.continued_with(ordered(mix(parts, {0: (3, 1), 30: (1, 1)}))).step == 30


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            lambda parts: ordered(mix(parts, {0: (3, 1), 40: (1, 1)}), seed=8),
            "step 0 on: seed was 7, now 8; a run keeps seed",
        ),
        (lambda parts: ordered(mix(parts, {0: (3, 1), 40: (1, 1)}), batch_size=4), "batch_size was 8, now 4"),
        (lambda parts: ordered(mix(parts, {0: (3, 1), 40: (1, 1)}), epoch_samples=80), "epoch_samples was .*, now 80"),
        (
            lambda parts: ordered(mix(parts, {0: (3, 1), 39: (1, 1)})),
            "from step 39 on: .*; new ones begin at step 40",
        ),
        (
            lambda parts: ordered(mix(parts, {0: (2, 1), 40: (1, 1)})),
            "step 0 on: .*; a run keeps seed, .* of step 0",
        ),
        (lambda parts: ordered(mix([*parts][::-1], {0: (1, 3), 40: (1, 1)})), "from step 0 on"),
        (lambda parts: ordered(mix([(parts[0], 1)]), epoch_samples=176), "from step 0 on"),
    ],
)
def test_another_run_is_not_continued(flowers: Dataset, made: Callable[..., IndexedOrder], problem: str) -> None:
    parts = [flowers["train"], flowers["validation"][:20]]
    position = Position(40, ordered(mix([(parts[0], 3), (parts[1], 1)])))
    with pytest.raises(OrderMismatchError, match=problem):
        position.continued_with(made(parts))


def test_an_earlier_change_of_weights_that_was_left_out_is_advised_and_then_continues(flowers: Dataset) -> None:
    parts = [flowers["train"], flowers["validation"][:20]]
    position = Position(40, ordered(mix(parts, {0: (3, 1), 10: (1, 1)})))
    with pytest.raises(
        OrderMismatchError, match=r"from step 10 on: .*; give the weights of all steps before as that run had them"
    ):
        position.continued_with(ordered(mix(parts, {0: (3, 1), 40: (1, 2)})))
    assert position.continued_with(ordered(mix(parts, {0: (3, 1), 10: (1, 1), 40: (1, 2)}))).step == 40


def test_a_position_of_another_mixture_is_refused_with_its_remedy(flowers: Dataset) -> None:
    parts = [flowers["train"], flowers["validation"][:20]]
    position = Position(40, ordered(mix([(parts[0], 3), (parts[1], 1)])))
    after = array_batches(mix(parts, {0: (3, 1), 40: (1, 1)}), batch_size=BATCH, image_size=16, seed=7)
    with pytest.raises(
        OrderMismatchError, match=r"starts was null, now \[0, 40\].*; position\.continued_with\(order\)"
    ):
        after.seek(position)
    after.seek(position.continued_with(after.order))
    with pytest.raises(UsageError, match="order: got 3, expected Order"):
        position.continued_with(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({}, r"got the steps \[\], expected them to begin at 0 and ascend; for example {0: \(3, 1\)"),
        ({3: (1, 1)}, r"got the steps \[3\], expected them to begin at 0"),
        ({0: (1, 1), 9: (1, 2), 5: (2, 1)}, r"got the steps \[0, 9, 5\]"),
        ({0: (1, 1), -5: (2, 1)}, "got the key -5"),
        ({0: (1, 1), 2.5: (2, 1)}, "got the key 2.5"),
        (
            {0: (1, 1), 2**63 - 1: (2, 1)},
            "got 9223372036854775807, expected an integer from 0 to 576,460,752,303,423,488",
        ),
        ({0: (1, 1), 5: (2, 1, 3)}, "got 3 for step 5, expected 2, one for each split"),
        ({0: (1,)}, "got 1 for step 0, expected 2"),
        ({0: (1, 1), 5: (2, -1)}, r"got \[2, -1\] for step 5, expected numbers of at least 0, and one above 0"),
        ({0: (float("nan"), 1)}, "for step 0, expected numbers"),
        ({0: (float("inf"), 1)}, "for step 0, expected numbers"),
        ({0: (1, 1), 5: (0, 0)}, r"got \[0, 0\] for step 5"),
        ({0: (1, 0), 5: (2, 0)}, "split validation has weight 0 at all steps; leave it out"),
        ({0: "ab"}, "got 'ab' for 0, expected a list of numbers"),
        ({0: 3}, "got 3 for 0"),
        ((3, 1), "expected a mapping"),
    ],
)
def test_weights_that_nobody_can_mean(flowers: Dataset, weights: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=f"weights: .*{problem}"):
        ordered(mix([flowers["train"], flowers["validation"]], weights))


def test_parts_that_do_not_fit_their_weights(flowers: Dataset) -> None:
    train, validation = flowers["train"], flowers["validation"]
    with pytest.raises(
        UsageError, match=r"parts: got a split alone, expected splits and weights, or .* for example mix"
    ):
        mix([(train, 1), validation])
    with pytest.raises(UsageError, match="parts: got pairs and weights, expected splits and weights"):
        mix([train, (validation, 1)], {0: (1, 1)})
    with pytest.raises(UsageError, match="parts: split validation has no samples"):
        mix([train, validation[:0]], {0: (1, 1)})


def test_a_part_that_joins_may_not_take_a_feature_away(folder: Callable[..., Path], tmp_path: Path) -> None:
    images, splits = folder(), []
    for name in ("hashed", "plain"):
        convert(ImageFolder(images), tmp_path / name, workers=1, image=ImageOptions(sha256=name == "hashed"))
        splits.append(shardfeed.open(tmp_path / name)["train"])
    with pytest.raises(
        UsageError, match="parts: the splits drawn from at step 0 share image/key/sha256, which one that"
    ):
        mix(splits, {0: (1, 0), 5: (1, 1)})
    assert mix(splits[::-1], {0: (1, 0), 5: (1, 1)}).schema == splits[1].schema
    assert mix(splits, {0: (1, 2), 5: (1, 1)}).schema == splits[1].schema


# --- The doors: each gives the samples of the order, before and after, and goes on from where it was killed


STEPS = 40


def parts_of(flowers: Dataset) -> list[Split]:
    return [flowers["train"][:60], flowers["validation"][:13], flowers["train"][60:100]]


FIRST, SECOND, THIRD = {0: (3, 1)}, {0: (3, 1, 0), 15: (2, 1, 1)}, {0: (3, 1, 0), 15: (2, 1, 1), 27: (0, 3, 1)}


def expected_names(flowers: Dataset) -> list[list[bytes]]:
    parts = parts_of(flowers)
    names = [name for part in parts for name in part.column("image/filename")]
    order = ordered(mix(parts, THIRD))
    return [[names[index] for index in order.batch(step)] for step in range(STEPS)]


def lives(flowers: Dataset, change: Callable[[Split], Split] = lambda part: part) -> list[tuple[Any, int, int]]:
    """The mixture of each life of a run, its first step, and that of the next: killed before, at and after changes."""
    parts = [change(part) for part in parts_of(flowers)]
    first, second, third = mix([*zip(parts, (3, 1), strict=False)]), mix(parts, SECOND), mix(parts, THIRD)
    return [(first, 0, 6), (first, 6, 15), (second, 15, 21), (second, 21, 24), (third, 24, 33), (third, 33, STEPS)]


@pytest.mark.promise(29)
@pytest.mark.parametrize("copied", [False, True])
def test_arrays_killed_and_continued_twice_on_other_numbers_of_ranks(
    flowers: Dataset, tmp_path: Path, copied: bool
) -> None:
    def change(part: Split) -> Split:
        return cached(part, tmp_path / "cache") if copied else part

    found: list[list[bytes]] = []
    for life, (mixture, start, end) in enumerate(lives(flowers, change)):
        ranks = (1, 2, 4)[life % 3]
        shares = []
        for rank in range(ranks):
            options = {"batch_size": BATCH, "image_size": 8, "seed": 7, "features": ["image/filename"]}
            batches = array_batches(mixture, ranks=Ranks(rank, ranks), **options)
            if (saved := Position.load(tmp_path / f"{life}.json")) is not None:
                batches.seek(saved.continued_with(batches.order))
            assert batches.step == start
            names = []
            while batches.step < end:
                for batch in batches:
                    names.append(batch["image/filename"])
                    if batches.step == end:
                        break
            batches.position.save(tmp_path / f"{life + 1}.json")
            batches.close()
            shares.append(names)
        found += [list(chain(*step)) for step in zip(*shares, strict=True)]
    assert found == expected_names(flowers)


def test_a_torch_loaders_state_is_continued(flowers: Dataset) -> None:
    from shardfeed.pipelines.torch import torch_loader

    def names(record: Any, seed: int) -> Any:
        return record["image/filename"]

    found: list[list[bytes]] = []
    state: dict[str, str] = {}
    for mixture, start, end in lives(flowers):
        loader = torch_loader(mixture, transform=names, batch_size=BATCH, seed=7, workers=0)
        if state:
            saved = Position.from_json(state["position"])
            state["position"] = saved.continued_with(loader.order).to_json()
            loader.load_state_dict(state)
        assert loader.step == start
        while loader.step < end:
            for batch in loader:
                found.append(list(batch))
                if loader.step == end:
                    break
        state = loader.state_dict()
    assert found == expected_names(flowers)
