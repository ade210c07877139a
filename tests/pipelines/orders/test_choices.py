"""Choice of an order by name or by object, and choices that are refused before any samples are read."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipelines import Blocks, Global, Stored, Stream
from shardfeed.pipelines.orders.choices import OrderName, order_object


@pytest.mark.parametrize(
    ("name", "order"), [("stream", Stream()), ("global", Global()), ("blocks", Blocks()), ("stored", Stored())]
)
def test_a_name_is_short_for_an_object(name: OrderName, order: Any) -> None:
    assert order_object(name) == order
    assert order_object(order) is order


def test_objects_are_values() -> None:
    assert Stream(7) == Stream(buffer=7) != Stream(8)
    assert repr(Global(balance="class")) == "Global(balance='class', weights=None, epoch_samples=None)"
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
def test_what_cannot_be_meant_is_refused_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
