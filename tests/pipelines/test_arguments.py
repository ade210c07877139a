"""Errors for an argument that is not the expected split, and for functions that do not take our arguments."""

import functools
from typing import Any

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipelines import order_samples
from shardfeed.pipelines.arguments import takes
from shardfeed.readers import Dataset


@pytest.mark.parametrize("make", ["train_batches", "eval_batches", "distribute", "distribute_eval", "make_batches"])
def test_a_dataset_or_a_path_where_a_split_is_expected(flowers: Dataset, make: str) -> None:
    import tensorflow as tf

    from shardfeed import pipelines

    function = getattr(pipelines, make)
    first = [tf.distribute.get_strategy()] if make.startswith("distribute") else []
    last = [lambda features, seed: features] if make == "make_batches" else []
    options: dict[str, Any] = {"batch_size": 8} | ({} if last else {"image_size": 16})
    with pytest.raises(UsageError, match=r"""got a dataset .*; give data\["train"\] or data\["validation"\]"""):
        function(*first, flowers, *last, **options)
    with pytest.raises(
        UsageError, match=r"""got the path 'flowers', .*; for example shardfeed.open\('flowers'\)\["train"\]"""
    ):
        function(*first, "flowers", *last, **options)


def test_what_has_no_schema(flowers: Dataset) -> None:
    with pytest.raises(UsageError, match="samples: got int, expected a split"):
        order_samples(3, batch_size=8)  # type: ignore[arg-type]
    assert order_samples(flowers["train"], batch_size=8)


def two(a: Any, b: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (two, [2]),
        (functools.partial(two, b=1), [1]),
        (lambda *arguments: None, [0, 1, 2, 3]),
        (lambda image, *, size=3: None, [1]),
        (lambda *, image: None, []),
        (int, [0, 1, 2, 3]),  # of C code, about which nobody can tell
    ],
)
def test_with_how_many_arguments(function: Any, counts: list[int]) -> None:
    assert [count for count in range(4) if takes(function, count)] == counts
