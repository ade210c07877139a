"""From arguments to an order: what is chosen, what is recorded, what is refused."""

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.budget import memory_budget
from shardfeed.errors import UsageError
from shardfeed.pipelines import Blocks, Global, Stored, Stream, cached, mix, order_samples
from shardfeed.pipelines.orders.choices import OrderName, order_object
from shardfeed.pipelines.orders.choose_order import shuffle_buffer_records
from shardfeed.pipelines.orders.order import (
    BlockOrder,
    GlobalOrder,
    IndexedOrder,
    StoredOrder,
    StreamOrder,
)
from shardfeed.pipelines.orders.strata import StratifiedOrder
from shardfeed.readers import Dataset, Split
from shardfeed.schema import FILENAME, LABEL
from shardfeed.storage.storage import LocalStorage


def classes(split: Any, order: IndexedOrder, step: int) -> list[int]:
    """Labels of a step, from the records themselves."""
    from shardfeed.formats.example import decode

    return [int(decode(payload)[LABEL][1][0]) for payload in split.payloads(order.batch(step))]


def test_each_choice_makes_its_order(train: Split) -> None:
    common = (train.fingerprint, len(train), 8, len(train) // 8 * 8, 3)
    buffer = shuffle_buffer_records(len(train), train.record_bytes, memory_budget())
    arranged, order = order_samples(train, batch_size=8, seed=3)
    assert arranged is train
    assert order == StreamOrder(*common, buffer)
    assert order_samples(train, batch_size=8, seed=3, order=Stream(buffer=7))[1] == StreamOrder(*common, 7)
    assert order_samples(train, batch_size=8, seed=3, order="global")[1] == GlobalOrder(*common)
    assert order_samples(train, batch_size=8, seed=3, order="stored")[1] == StoredOrder(*common)
    part = order_samples(train, batch_size=8, order=Global(epoch_samples=30))[1]
    assert (part.epoch_samples, part.steps_per_epoch) == (24, 3)
    rest = order_samples(train, batch_size=50, order="global", drop_remainder=False)[1]
    assert (rest.epoch_samples, rest.steps_per_epoch) == (len(train), -(-len(train) // 50))


class Other(LocalStorage):
    """A storage of which nobody knows that its paths are files."""


def test_another_storage_has_another_default(flowers: Dataset, tmp_path: Path) -> None:
    train = shardfeed.open(flowers.directory, storage=Other())["train"]
    again = pickle.loads(pickle.dumps(flowers["train"]))
    assert isinstance(order_samples(again, batch_size=8)[1], StreamOrder)
    assert (
        order_samples(train, batch_size=8)[1]
        == order_samples(train, batch_size=8, order=Blocks(block_bytes=8 << 20))[1]
    )
    stream = order_samples(flowers["train"], batch_size=8, order="stream")[1]
    assert order_samples(train, batch_size=8, order="stream")[1] == stream
    copy = cached(train, tmp_path)
    assert isinstance(order_samples(copy, batch_size=8)[1], BlockOrder), "a cache does not change the order"
    assert isinstance(order_samples(copy, batch_size=8, order="stream")[1], StreamOrder)
    assert len(copy.shard_slices()) == 4


def test_blocks_follow_the_size_of_records(train: Split) -> None:
    order = order_samples(train, batch_size=8, order=Blocks(buffer=80))[1]
    assert isinstance(order, BlockOrder)
    assert (order.block, order.window) == (20, 80), "small records: a window has four blocks at least"

    default = order_samples(train, batch_size=8, order="blocks")[1]
    stream = order_samples(train, batch_size=8, order="stream")[1]
    assert isinstance(default, BlockOrder)
    assert isinstance(stream, StreamOrder)
    assert default.window <= stream.shuffle_buffer // 4, "it takes several times its size while it is read"

    class Photos:
        """A million records of 100 kB: only what they say of themselves is looked at."""

        name, schema, formats, fingerprint = "train", train.schema, train.formats, "0" * 32
        record_bytes = 100_000 * 10**6

        def __len__(self) -> int:
            return 10**6

        payloads = places = staticmethod(lambda indices: indices)

    order = order_samples(Photos(), batch_size=8, order=Blocks(buffer=1000))[1]
    assert isinstance(order, BlockOrder)
    assert (order.block, order.window) == (11, 990)


def test_selection_without_order_is_drawn_at_random(train: Split) -> None:
    assert isinstance(order_samples(train[20:80], batch_size=8)[1], StreamOrder)
    assert isinstance(order_samples(train[::2], batch_size=8)[1], GlobalOrder)
    assert isinstance(order_samples(train.select([5, 3, 1]), batch_size=2)[1], GlobalOrder)
    assert isinstance(order_samples(train, batch_size=8, order=Global(balance="class"))[1], StratifiedOrder)
    assert isinstance(order_samples(train, batch_size=8, order=Global(weights=[1, 1, 2]))[1], StratifiedOrder)
    assert isinstance(order_samples(mix([(train, 1)]), batch_size=8)[1], StratifiedOrder)
    with pytest.raises(UsageError, match=r"consecutive.*order=\"global\""):
        train[::2].shard_slices()


def test_classes_in_balance(train: Split) -> None:
    rare = train.select([i for i in range(len(train)) if train[i][LABEL] != 1 or i % 10 == 0])
    sizes = np.bincount(rare.column(LABEL), minlength=3)
    assert sizes[1] < 10 < min(sizes[0], sizes[2])
    arranged, order = order_samples(rare, batch_size=9, order=Global(balance="class"))
    assert isinstance(order, StratifiedOrder)
    assert order.strata == tuple(sizes)
    assert sorted(arranged.places(np.arange(len(arranged)))) == sorted(rare.places(np.arange(len(rare))))
    for step in range(2 * order.steps_per_epoch):
        assert sorted(classes(arranged, order, step)) == [0] * 3 + [1] * 3 + [2] * 3
    same = order_samples(rare, batch_size=9, order=Global(balance=LABEL))[1]
    assert same == order


@pytest.mark.parametrize("weights", [{"daisy": 2, "tulip": 1, "rose": 1}, [2, 1, 1]])
def test_weights_by_name_or_in_order(train: Split, weights: Any) -> None:
    arranged, order = order_samples(train, batch_size=8, order=Global(weights=weights))
    assert isinstance(order, IndexedOrder)
    assert sorted(classes(arranged, order, 3)) == [0] * 4 + [1] * 2 + [2] * 2


def test_a_weight_of_zero_leaves_a_class_out(train: Split) -> None:
    arranged, order = order_samples(train, batch_size=8, order=Global(weights={"daisy": 1, "rose": 0, "tulip": 1}))
    assert isinstance(order, StratifiedOrder)
    assert len(order.strata) == 2
    assert set(np.unique(arranged.column(LABEL))) == {0, 2}  # type: ignore[attr-defined]  # it is a Split


def test_an_epoch_may_be_longer_than_the_samples(train: Split) -> None:
    order = order_samples(train, batch_size=10, order=Global(balance="class", epoch_samples=1000))[1]
    assert order.steps_per_epoch == 100
    with pytest.raises(UsageError, match="epoch_samples: got 1000, expected at most"):
        order_samples(train, batch_size=10, order=Global(epoch_samples=1000))


def test_classes_within_the_parts_of_a_mixture(flowers: Dataset) -> None:
    train, validation = flowers["train"], flowers["validation"]
    arranged, order = order_samples(mix([(train, 3), (validation, 1)]), batch_size=12, order=Global(balance="class"))
    assert isinstance(order, StratifiedOrder)
    counts = [np.bincount(split.column(LABEL)).tolist() for split in (train, validation)]
    assert order.strata == (*counts[0], *counts[1])
    from_validation = {record[FILENAME] for record in validation}
    for step in range(order.steps_per_epoch):
        assert sorted(classes(arranged, order, step)) == [0] * 4 + [1] * 4 + [2] * 4
        from shardfeed.formats.example import decode

        names = [decode(payload)[FILENAME][1][0] for payload in arranged.payloads(order.batch(step))]
        assert sum(name in from_validation for name in names) == 3


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Global(balance="classes"), r"balance: got 'classes', expected a label .*there is \['image/class/label'\]"),
        (Global(balance="image/height"), "balance: got 'image/height'"),
        (Global(weights=[1, 1]), "weights: got 2, expected 3"),
        (Global(weights={"daisy": 1, "rose": 1}), "weights: no weight for tulip; give one for each class; 0 leaves"),
        (
            Global(weights={"daisy": 1, "rose": 1, "tulip": 1, "lily": 1}),
            "weights: got 'lily', which is not a class; .*daisy, rose",
        ),
        (Global(balance="class", epoch_samples=7), "batch_size: got 8, expected at most 7"),
        (Global(balance="class", epoch_samples=10**30), "epoch_samples: got 10+, .* from 1 to 17,179,"),
        ("random", r"order: got 'random', expected Stream or .* or 'stream' or "),
        (Global, "order: got <class"),
        ({"balance": "class"}, "order: got {'balance'"),
    ],
)
def test_bad_orders(train: Split, order: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_samples(train, batch_size=8, order=order)


def test_bad_arguments(train: Split) -> None:
    with pytest.raises(UsageError, match="drop_remainder: got False"):
        order_samples(train, batch_size=8, order=Global(balance="class"), drop_remainder=False)
    for flag in ("False", 0, None):
        with pytest.raises(UsageError, match=r"drop_remainder: got .*, expected True or False"):
            order_samples(train, batch_size=8, drop_remainder=flag)  # type: ignore[arg-type]
    both = mix([(train, 1), (train[:50], 1)])
    with pytest.raises(UsageError, match=r"epoch_samples: got 10+, expected"):
        order_samples(both, batch_size=2**40, order=Global(epoch_samples=10**30))
    for order in (Stream(), "blocks", Stored()):
        with pytest.raises(UsageError, match=r"order: got .*, expected 'global', or Global\(...\): a mixture"):
            order_samples(both, batch_size=8, order=order)
    none = train.select([i for i in range(len(train)) if train[i][LABEL] != 1])
    with pytest.raises(UsageError, match="weights: no class with samples has a weight"):
        order_samples(none, batch_size=8, order=Global(weights=[0, 1, 0]))


def test_no_tensorflow_is_needed(flowers: Dataset) -> None:
    code = (
        "import sys, shardfeed\n"
        "from shardfeed.pipelines import Global, Position, mix, order_samples\n"
        f"train = shardfeed.open({flowers.directory!r})['train']\n"
        "samples, order = order_samples(mix([(train, 1)]), batch_size=8, order=Global(balance='class'))\n"
        "print(len(samples.payloads(order.batch(3))), Position(3, order).step)\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "8 3\n"


@pytest.mark.parametrize(
    ("name", "order"), [("stream", Stream()), ("global", Global()), ("blocks", Blocks()), ("stored", Stored())]
)
def test_a_name_is_short_for_an_object(name: OrderName, order: Any) -> None:
    assert order_object(name) == order
    assert order_object(order) is order


def test_objects_are_values() -> None:
    assert Stream(7) == Stream(buffer=7) != Stream(8)
    assert repr(Global(balance="class")) == "Global(balance='class', weights=None, epoch_samples=None, shapes=None)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Blocks().buffer = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stream(buffer=0), "buffer: got 0, expected an integer of at least 1"),
        (lambda: Blocks(buffer=1.5), "buffer: got 1.5"),  # type: ignore[arg-type]
        (lambda: Stream(epoch_samples=0), "epoch_samples: got 0"),
        (lambda: Global(epoch_samples=-1), "epoch_samples: got -1"),
        (lambda: Global(balance=3), "balance: got 3, expected text"),  # type: ignore[arg-type]
        (lambda: Global(balance=""), "balance: got '', expected text"),
        (lambda: Global(weights=[1, -1, 1]), r"weights: got \[1, -1, 1\], expected numbers of at least 0"),
        (lambda: Global(weights=[0, 0]), "weights: got .* and one above 0"),
        (lambda: Global(weights=[]), "weights: got"),
        (lambda: Global(weights={"daisy": float("nan")}), "weights: got"),
        (lambda: Global(weights={"daisy": float("inf")}), "weights: got"),
        (lambda: Global(weights=["1"]), "weights: got"),  # type: ignore[list-item]
    ],
)
def test_invalid_order_options_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
