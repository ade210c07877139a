"""Errors for an argument that is not the expected split, and for functions that do not take our arguments."""

import functools
import importlib
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import UsageError
from shardfeed.pipelines import order_samples
from shardfeed.pipelines.arguments import takes
from shardfeed.readers import Dataset

NOT_A_NUMBER = [True, 1.5, "8", np.zeros(2)]
DOORS = (
    *("train_batches", "make_batches", "eval_batches", "predict_batches", "distribute", "distribute_eval"),
    *("torch_loader", "torch_eval_loader", "torch_predict_loader"),
    *("array_batches", "eval_array_batches"),
)
CROPS = ("random_resized_crop", "resize_center_crop", "letterbox")


def called(make: str, samples: Any, **options: Any) -> Any:
    import tensorflow as tf

    from shardfeed import pipelines

    function = getattr(pipelines.torch if make.startswith("torch") else pipelines, make)
    if make.startswith("distribute"):
        function = functools.partial(function, tf.distribute.get_strategy())
    if make == "make_batches":
        return function(samples, lambda features, seed: features, **({"batch_size": 8} | options))
    return function(samples, **({"batch_size": 8, "image_size": 16} | options))


@pytest.mark.parametrize("make", DOORS)
def test_a_dataset_or_a_path_where_a_split_is_expected(flowers: Dataset, make: str) -> None:
    for samples, said in (
        (flowers, r"""got a dataset .*; give data\["train"\] or data\["validation"\]"""),
        ("flowers", r"""got the path 'flowers', .*; for example shardfeed.open\('flowers'\)\["train"\]"""),
        ([1, 2], "got list, expected a split"),
    ):
        with pytest.raises(UsageError, match=said):
            called(make, samples)


@pytest.mark.parametrize("make", DOORS)
def test_values_that_cannot_be_meant_are_refused_at_the_call(flowers: Dataset, make: str) -> None:
    values: dict[str, list[Any]] = {
        "damaged": [10, True, "text"],
        "batch_size": [*NOT_A_NUMBER, None, 0],
        "workers": [*NOT_A_NUMBER, -1, 4097, 10**30],
    }
    if not make.startswith("torch"):
        values["workers"].append(0)
    if "eval" not in make and "predict" not in make:
        values["seed"] = [*NOT_A_NUMBER, None, -1, 2**63]
        values["start_step"] = [1.5, -1] * (make != "distribute")
        values["order"] = ["shuffled"]
    if make != "make_batches":
        values["image_size"] = [*NOT_A_NUMBER[:3], 0, 65_536, 10**6, (224, 0), (224, True), (1, 2, 3)]
        if "predict" not in make:
            values["label"] = ["image/class/lable", "image/filename"]
    if make.startswith("torch"):
        values["ranks"] = [(0, 2), 0, "0"]
    for name, refused in values.items():
        for value in refused:
            with pytest.raises(UsageError, match=f"^{name}: got .*, expected "):
                called(make, flowers["train"], **{name: value})


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize("package", ["shardfeed.pipelines", "shardfeed.pipelines.torch"])
def test_options_of_a_view_that_cannot_be_meant_are_refused(package: str, crop: str) -> None:
    values: dict[str, list[Any]] = {"size": [0, -3, (3, 0), (1, 2, 3), 2.5, "224", (2.0, 2)]}
    if crop == "random_resized_crop":
        values |= {"area": [(0, 1), (0.5, 0.2), (0.5, 1.5), (-1, 1)], "aspect_ratio": [(0, 1)]}
    values |= {"crop_fraction": [0, 1.1, -1]} if crop == "resize_center_crop" else {}
    values |= {"fill": [-1, 256]} if crop == "letterbox" else {}
    for name, refused in values.items():
        for value in refused:
            with pytest.raises(UsageError, match=f"{name}: got"):
                getattr(importlib.import_module(package), crop)(**({"size": 8} | {name: value}))


@pytest.mark.parametrize("package", ["shardfeed.pipelines", "shardfeed.pipelines.torch"])
def test_options_of_targets_that_cannot_be_meant_are_refused(package: str) -> None:
    door = importlib.import_module(package)
    wrong: list[dict[str, Any]] = [
        {"boxes": "coco"}, {"min_visible": 1.5}, {"label_offset": -1}, {"crowd": "hide"},
        {"image": lambda record, seed: None}, *[{"max_objects": 0}] * ("torch" not in package),
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(UsageError, match=f"{next(iter(options))}: got"):
            door.detection(**({"image": door.letterbox(8)} | options))
    with pytest.raises(UsageError, match="image: got"):
        door.segmentation(lambda record, seed: None)


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
