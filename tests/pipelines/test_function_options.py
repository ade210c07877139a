"""Options that take a function: what is none is refused when the loader is made, with what to write instead."""

from collections.abc import Callable
from typing import Any

import pytest

from shardfeed import pipelines
from shardfeed.errors import UsageError
from shardfeed.pipelines import torch as torch_pipelines
from shardfeed.pipelines.arguments import check_function
from shardfeed.pipelines.augment import cutmix, mixup, one_of
from shardfeed.readers import Dataset

TF: Any = pipelines
TORCH: Any = torch_pipelines


class Flips:
    """A class whose objects are functions."""

    def __call__(self, *arguments: object) -> object:
        return arguments[0]


def loader(data: Dataset, **options: Any) -> Any:
    return TORCH.torch_loader(data["train"], batch_size=4, workers=0, **options)


# The option, and a call that takes it.
OPTIONS: dict[str, tuple[str, Callable[[Dataset, Any], Any]]] = {
    "NumPy": (
        "batch_transform",
        lambda data, given: TF.array_batches(data["train"], batch_size=4, image_size=8, batch_transform=given),
    ),
    "PyTorch": ("batch_transform", lambda data, given: loader(data, image_size=8, batch_transform=given)),
    "on a device": (
        "batch_transform",
        lambda data, given: TORCH.to_device(loader(data, image_size=8), "cpu", batch_transform=given),
    ),
    "TensorFlow": (
        "batch_transform",
        lambda data, given: TF.train_batches(data["train"], batch_size=4, image_size=8, batch_transform=given),
    ),
    "images": ("image_transform", lambda data, given: loader(data, image_transform=given)),
    "images on a device": (
        "image_transform",
        lambda data, given: TORCH.to_device(loader(data, image_size=8), "cpu", image_transform=given),
    ),
    "images to evaluate": (
        "image_transform",
        lambda data, given: TORCH.torch_eval_loader(data["train"], batch_size=4, workers=0, image_transform=given),
    ),
    "records": ("transform", lambda data, given: loader(data, transform=given)),
    "records of TensorFlow": ("transform", lambda data, given: TF.make_batches(data["train"], given, batch_size=4)),
    "samples": ("collate_fn", lambda data, given: loader(data, image_size=8, collate_fn=given)),
    "samples of Collate": ("collate_fn", lambda _, given: TORCH.Collate(collate_fn=given)),
}
NO_FUNCTIONS = {
    "two mixings": [mixup(), cutmix()],
    "a tuple of functions": (Flips(), Flips()),
    "none": [],
    "text": "mixup",
    "a number": 3,
    "a dict": {"mixup": mixup()},
    "a class": Flips,
    "what makes a mixing": mixup,
}


@pytest.mark.promise(73)
@pytest.mark.parametrize(("place", "make"), OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("given", NO_FUNCTIONS.values(), ids=NO_FUNCTIONS.keys())
def test_what_is_no_function_is_refused_with_what_to_write(
    flowers: Dataset, place: str, make: Callable[[Dataset, Any], Any], given: Any
) -> None:
    with pytest.raises(UsageError) as caught:
        make(flowers, given)
    assert caught.value.place == place
    assert caught.value.remedy


@pytest.mark.parametrize("make", [make for place, make in OPTIONS.values() if place == "batch_transform"])
def test_two_mixings_are_one_of_them(flowers: Dataset, make: Callable[[Dataset, Any], Any]) -> None:
    with pytest.raises(UsageError, match=r"batch_transform=one_of\(\[mixup\(\), cutmix\(\)\]\)"):
        make(flowers, [mixup(), cutmix()])
    assert make(flowers, one_of([mixup(), cutmix()]))


def test_a_batch_may_be_the_list_of_its_samples(flowers: Dataset) -> None:
    batch = next(iter(loader(flowers, image_size=8, collate_fn=list)))
    assert (type(batch), len(batch)) == (list, 4)


@pytest.mark.parametrize(("given", "remedy"), [(mixup, "mixup()"), (Flips, "Flips()")])
def test_a_class_is_called_first(flowers: Dataset, given: Any, remedy: str) -> None:
    for place, make in OPTIONS.values():
        with pytest.raises(UsageError) as caught:
            make(flowers, given)
        assert caught.value.remedy == f"call it, as in {place}={remedy}"


def test_a_function_of_exec_which_has_no_module_is_taken() -> None:
    names: dict[str, Any] = {}
    exec("def mine(batch): return batch", names)
    assert names["mine"].__module__ is None or names["mine"].__module__ == "builtins"
    check_function("batch_transform", names["mine"], "batch")
