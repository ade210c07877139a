"""The state of a run's input: a step and the order it counts in; refused where that is another."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import IntegrityError, OrderMismatchError, UsageError
from shardfeed.pipelines import Global, Position, order_samples
from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder, StreamOrder
from shardfeed.pipelines.orders.strata import StratifiedOrder
from shardfeed.readers import Dataset

ORDER = GlobalOrder("ab" * 16, 1000, 8, 1000, 3)


@given(st.integers(0, 2**62))
def test_position_survives_json(step: int) -> None:
    position = Position(step, ORDER)
    text = position.to_json()
    assert "\n" not in text
    assert len(text) < 300
    assert Position.from_json(text) == Position.from_json(text.encode()) == position
    assert position.epoch * 125 + position.step_in_epoch == step
    assert position.step_in_epoch < 125


def test_position_survives_a_file(tmp_path: Path) -> None:
    path = tmp_path / "position.json"
    assert Position.load(path) is None
    Position(7, ORDER).save(path)
    Position(8, ORDER).save(str(path))
    assert Position.load(path) == Position(8, ORDER)
    assert [file.name for file in tmp_path.iterdir()] == ["position.json"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "position.json"
    good = Position(7, ORDER).to_json()
    for bad in (
        "",
        "{}",
        "[1]",
        "null",
        good[:-1],
        good.replace('"step": 7', '"step": -7'),
        good + "x",
        good.replace("7", "8"),
    ):
        assert bad != good
        path.write_text(bad)
        with pytest.raises(IntegrityError, match=r"position\.json: not a position"):
            Position.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(IntegrityError, match="not a position"):
        Position.load(path)
    path.write_text(json.dumps({**json.loads(good), "format": 2}))
    with pytest.raises(IntegrityError, match="its format is 2, this release reads 1"):
        Position.load(path)


def test_another_order_is_refused_and_says_why(flowers: Dataset) -> None:
    train = flowers["train"]
    _, order = order_samples(train, batch_size=8, order="global", seed=1)
    position = Position(40, order)
    position.check(order)
    position.check(order_samples(train[:], batch_size=8, order="global", seed=1)[1])
    others = {
        r"seed was 1, now 2": order_samples(train, batch_size=8, order="global", seed=2)[1],
        r"batch_size was 8, now 4": order_samples(train, batch_size=4, order="global", seed=1)[1],
        r"dataset was .*, now .*; samples was": order_samples(train[:-1], batch_size=8, order="global", seed=1)[1],
        r'kind was "global", now "stored"': order_samples(train, batch_size=8, order="stored", seed=1)[1],
        r"quotas was null, now \[": order_samples(train, batch_size=8, order=Global(balance="class"), seed=1)[1],
    }
    for message, other in others.items():
        with pytest.raises(OrderMismatchError, match=f"step 40 was saved with another order: .*{message}") as caught:
            position.check(other, "run/position.json")
        assert isinstance(caught.value, UsageError)
        assert caught.value.exit_code == 2
        assert str(caught.value).startswith("run/position.json: ")


def test_a_buffer_of_another_size_has_its_remedy() -> None:
    order = StreamOrder("ab" * 16, 100_000, 8, 100_000, 3, 16_384)
    with pytest.raises(
        OrderMismatchError, match=r"16384, now 4096; give order=Stream\(buffer=16384\): its default depends"
    ):
        Position(3, order).check(replace(order, shuffle_buffer=4096))


def test_another_default_has_its_remedy() -> None:
    """A run in a bucket goes on with a local copy, or on a machine with less memory."""
    blocks = BlockOrder("ab" * 16, 100_000, 8, 100_000, 3, 130, 1950)
    local = GlobalOrder("ab" * 16, 100_000, 8, 100_000, 3)
    for saved, now, remedy in (
        (blocks, local, r"give order=Blocks\(buffer=1950, block_bytes=\.\.\.\), with 8 << 20"),
        (blocks, replace(blocks, window=910), r"give order=Blocks\(buffer=1950, "),
        (local, blocks, 'give order="global": its default depends'),
    ):
        with pytest.raises(OrderMismatchError, match=remedy):
            Position(3, saved).check(now)
    with pytest.raises(OrderMismatchError, match="give the same dataset and arguments"):
        Position(3, blocks).check(replace(local, seed=4))


def test_a_stream_over_other_workers_is_another_order() -> None:
    order = StreamOrder("ab" * 16, 100_000, 8, 100_000, 3, 16_384, 2)
    with pytest.raises(OrderMismatchError, match=r"parts was 2, now 1; a run in the stream order keeps its number of"):
        Position(3, order).check(replace(order, parts=1))


def test_long_values_are_cut() -> None:
    order = StratifiedOrder("ab" * 16, 1000, 10, 1000, 3, (1,) * 1000, (1,) * 1000)
    with pytest.raises(OrderMismatchError) as caught:
        Position(3, order).check(replace(order, quotas=(2, 0, *(1,) * 998)))
    assert len(str(caught.value)) < 400
