"""Errors for an argument that is not the expected split, and for functions that do not take our arguments."""

import functools
from typing import Any

import numpy as np
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


NOT_A_NUMBER = [True, 1.5, "8", np.zeros(2)]


@pytest.mark.parametrize(
    "make",
    [
        *("train_batches", "make_batches", "eval_batches", "predict_batches", "distribute", "distribute_eval"),
        *("torch_loader", "torch_eval_loader", "torch_predict_loader"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_at_the_call(flowers: Dataset, make: str) -> None:
    import tensorflow as tf

    from shardfeed import pipelines

    function = getattr(pipelines.torch if make.startswith("torch") else pipelines, make)
    first = [tf.distribute.get_strategy()] if make.startswith("distribute") else []
    last = [lambda features, seed: features] if make == "make_batches" else []
    values: dict[str, list[Any]] = {
        "damaged": [10, True, "text"],
        "batch_size": [*NOT_A_NUMBER, None],
        "workers": [*NOT_A_NUMBER, -1, 4097, 10**30],
    }
    if "eval" not in make and "predict" not in make:
        values["seed"] = [*NOT_A_NUMBER, None, -1, 2**63]
    if make != "make_batches":
        values["image_size"] = [*NOT_A_NUMBER[:3], 0, 65_536, 10**6, (224, 0), (224, True), (1, 2, 3)]
    if make.startswith("torch"):
        values["ranks"] = [(0, 2), 0, "0"]
    for name, refused in values.items():
        for value in refused:
            options: dict[str, Any] = {"batch_size": 8} | ({} if last else {"image_size": 16}) | {name: value}
            with pytest.raises(UsageError, match=f"^{name}: got .*, expected "):
                function(*first, flowers["train"], *last, **options)


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
