"""A split behaves as a sequence of records; batches that are made once refuse to be searched, by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from argument_fuzz import Lying
from datasets import scenes

import shardfeed
from shardfeed import pipelines
from shardfeed.converters import ImageFolder, convert, from_dicts, merge, remove
from shardfeed.errors import UsageError
from shardfeed.pipelines import torch as torch_pipelines
from shardfeed.pipelines.prefetch import prefetch_threads
from shardfeed.readers import Dataset

TF: Any = pipelines
TORCH: Any = torch_pipelines


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Records with arrays, which NumPy compares element by element."""
    out = tmp_path_factory.mktemp("boxes") / "out"
    convert(scenes("boxes"), out)
    return shardfeed.open(out)


def test_a_record_is_found_in_its_split(boxes: Dataset, flowers: Dataset) -> None:
    for split in (boxes["train"], flowers["train"], flowers["train"][5:40:7], flowers["train"].select([9, 3, 9])):
        last = len(split) - 1
        assert split[last] in split
        assert dict(split[last]) in split
        assert split.index(split[last]) == (last if split.count(split[last]) == 1 else 0)
        assert {**split[0], "image/filename": b"other.jpg"} not in split
        assert {**split[0], "image/height": 3} not in split
        assert [*reversed(split)] == [*split][::-1]


def test_a_selection_with_a_record_twice_counts_it(flowers: Dataset) -> None:
    split = flowers["train"].select([9, 3, 9])
    assert split.count(split[0]) == 2
    assert split.index(split[2], 1) == 2
    assert split.index(split[2], -1) == 2
    with pytest.raises(UsageError):
        split.index(split[0], 1, 2)


OTHERS: list[Any] = [None, 3, float("nan"), "x", b"x", np.arange(3), [np.arange(3)], {}, {"x": np.arange(3)}, object()]


@pytest.mark.parametrize("value", OTHERS, ids=[type(value).__name__ + str(i) for i, value in enumerate(OTHERS)])
def test_what_is_no_record_is_not_found(boxes: Dataset, value: Any) -> None:
    split = boxes["train"]
    assert value not in split
    assert split.count(value) == 0
    assert (split == value) is False
    with pytest.raises(UsageError, match=r"^value: no sample of split train has the values of"):
        split.index(value)


def test_records_are_compared_by_their_values(boxes: Dataset) -> None:
    split, key = boxes["train"], "image/object/class/label"
    place = next(index for index in range(len(split)) if np.size(split[index][key]))
    one: Any = split[place]
    again: Any = split[place]
    assert one == again == dict(again)
    assert (one != again) is False
    assert one != split[place - 1]
    assert one != {**again, key: again[key] + 1}
    assert one != {**again, key: again[key][:-1]}
    assert one != {**again, key: "x"}
    assert again in [split[place - 1], one]


ONE_WAY: dict[str, Callable[[Dataset], Any]] = {
    "array_batches": lambda data: TF.array_batches(data["train"], batch_size=4, image_size=8),
    "eval_array_batches": lambda data: TF.eval_array_batches(data["train"], batch_size=4, image_size=8),
    "torch_loader": lambda data: TORCH.torch_loader(data["train"], batch_size=4, image_size=8, workers=0),
    "its samples": lambda data: TORCH.torch_loader(data["train"], batch_size=4, image_size=8, workers=0).dataset,
    "torch_eval_loader": lambda data: TORCH.torch_eval_loader(data["train"], batch_size=4, image_size=8, workers=0),
    "to_device": lambda data: TORCH.to_device(
        TORCH.torch_loader(data["train"], batch_size=4, image_size=8, workers=0), "cpu"
    ),
    "keras_batches": lambda data: TF.keras_batches(TF.array_batches(data["train"], batch_size=4, image_size=8)),
    "prefetch_threads": lambda _: prefetch_threads([[np.arange(3)]]),
}


@pytest.mark.parametrize("make", ONE_WAY.values(), ids=ONE_WAY.keys())
def test_a_search_in_batches_is_refused_and_takes_none(flowers: Dataset, make: Callable[[Dataset], Any]) -> None:
    batches = make(flowers)
    for value in (3, np.arange(3), (np.zeros((4, 8, 8, 3), np.uint8), np.zeros(4))):
        with pytest.raises(UsageError, match=r"^in: got a search in \w+"):
            assert value in batches
        assert (batches == value) is False
    with pytest.raises(UsageError, match=r"^reversed: got \w+"):
        reversed(batches)


class Endless(Lying):
    """Elements without an end."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.elements[0]

    def __getitem__(self, index: Any) -> Any:
        return self.elements[0]


DOORS: dict[str, tuple[str, Callable[[Dataset], Any], Callable[[Dataset, Any, Path], Any]]] = {
    "select": ("which", lambda data: [1, 2, 3], lambda data, given, _: data["train"].select(given)),
    "a batch of PyTorch": ("indices", lambda data: [1, 2], lambda data, given, _: data["train"].__getitems__(given)),
    "augment": (
        "augment",
        lambda data: [TF.augment.grayscale(), TF.augment.equalize()],
        lambda data, given, _: TF.array_batches(data["train"], batch_size=4, image_size=8, augment=given),
    ),
    "views": (
        "views",
        lambda data: [TF.crop(8), TF.crop(8)],
        lambda data, given, _: TF.array_batches(data["train"], batch_size=4, views=given),
    ),
    "one_of": (
        "transforms",
        lambda data: [TF.augment.mixup(), TF.augment.cutmix()],
        lambda data, given, _: TF.augment.one_of(given),
    ),
    "mean": (
        "mean",
        lambda data: [0.5, 0.5, 0.5],
        lambda data, given, _: TORCH.to_device(ONE_WAY["torch_loader"](data), "cpu", mean=given, std=[1.0, 1.0, 1.0]),
    ),
    "dicts": ("dicts", lambda data: [{"image": "x.jpg"}] * 2, lambda data, given, _: from_dicts(given)),
    "columns": ("numbers", lambda data: ["a", "b"], lambda data, given, _: from_dicts([{"a": 1}], numbers=given)),
    "keys": ("keys", lambda data: ["x.jpg", "y.jpg"], lambda data, given, out: remove(data, out, given)),
    "datasets": ("datasets", lambda data: [data, data], lambda data, given, out: merge(given, out)),
    "patterns": ("include", lambda data: ["*.jpg", "*.png"], lambda data, given, out: ImageFolder(out, include=given)),
}


@pytest.mark.promise(73)
@pytest.mark.parametrize(("place", "elements", "call"), DOORS.values(), ids=DOORS.keys())
def test_a_sequence_that_lies_about_its_length_is_named(
    flowers: Dataset, tmp_path: Path, place: str, elements: Any, call: Any
) -> None:
    right = elements(flowers)
    lies = [Lying(right, len(right) + 5), Lying(right, len(right) - 1), Lying(right, 0), Endless(right, len(right))]
    for given in lies:
        with pytest.raises(UsageError, match=rf"^{place}: got .* elements of a \w+ whose length is \d+"):
            call(flowers, given, tmp_path / "out")


def test_a_mapping_that_lies_about_its_length_is_named(flowers_folder: Path, tmp_path: Path) -> None:
    class LyingMapping(dict[str, float]):
        def __len__(self) -> int:
            return 7

    with pytest.raises(UsageError, match=r"^split: got 2 elements of a LyingMapping whose length is 7"):
        convert(flowers_folder, tmp_path / "out", split=LyingMapping(train=0.5, test=0.5))
