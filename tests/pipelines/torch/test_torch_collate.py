"""Samples to batches: dtypes, shapes, padding, memory format."""

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.data._utils.pin_memory import pin_memory

from shardfeed.errors import StorageError, UsageError
from shardfeed.pipelines.torch.collate import Collate, DamagedBatch, Target
from shardfeed.pipelines.torch.samples import FetchedBatch


class Pair(NamedTuple):
    x: int
    y: float


def test_numbers_and_nests() -> None:
    samples = [
        {
            "n": n,
            "f": n / 2,
            "b": n > 0,
            "s": b"%d" % n,
            "l": [b"a"] * n,
            "t": (np.float64(n), [n, "x"]),
            "p": Pair(n, 1),
        }
        for n in range(3)
    ]
    batch = Collate()(samples)
    assert batch["n"].dtype == torch.int64
    assert batch["f"].dtype == torch.float32
    assert batch["f"].tolist() == [0, 0.5, 1]
    assert batch["b"].dtype == torch.bool
    assert batch["s"] == [b"0", b"1", b"2"]
    assert batch["l"] == [[], [b"a"], [b"a", b"a"]]
    assert batch["t"][0].dtype == torch.float64
    assert batch["t"][1][0].tolist() == [0, 1, 2]
    assert batch["t"][1][1] == ["x"] * 3
    assert isinstance(batch["p"], Pair)
    assert batch["p"].x.tolist() == [0, 1, 2]


def test_images_become_channels_last_batches() -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (5, 7, 3), np.uint8) for _ in range(4)]
    batch = Collate()([torch.from_numpy(image).permute(2, 0, 1) for image in images])
    assert batch.shape == (4, 3, 5, 7)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert (batch.permute(0, 2, 3, 1).numpy() == np.stack(images)).all()
    other = Collate()([torch.zeros(3, 5, 7), torch.ones(3, 5, 7)])
    assert other.is_contiguous()
    assert Collate()(images).shape == (4, 5, 7, 3)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8, bool])
def test_ragged_values_are_padded(dtype: type) -> None:
    samples = [np.ones(n, dtype) for n in (2, 0, 3)]
    batch = pickle.loads(pickle.dumps(Collate(pad=0)))(samples)
    assert batch.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert batch.dtype == torch.from_numpy(samples[0]).dtype
    boxes = Collate(pad=-1)([np.ones((2, 4), np.float32), np.ones((1, 4), np.float32)])
    assert boxes[1].tolist() == [[1] * 4, [-1] * 4]


def test_read_only_and_foreign_arrays() -> None:
    read_only = np.frombuffer(np.arange(3, dtype=">i4").tobytes(), ">i4")
    assert Collate()([read_only, read_only]).tolist() == [[0, 1, 2]] * 2
    mirrored = np.arange(6).reshape(2, 3)[:, ::-1]
    assert Collate()([mirrored, mirrored]).tolist() == [[[2, 1, 0], [5, 4, 3]]] * 2
    image = np.zeros((5, 7, 3), np.uint8)
    image.flags.writeable = False
    assert Collate()([image.transpose(2, 0, 1)] * 2).is_contiguous(memory_format=torch.channels_last)


def test_numpys_text() -> None:
    batch = Collate()([{"text": np.str_("a"), "bytes": np.bytes_(b"b")}] * 2)
    assert batch == {"text": ["a", "a"], "bytes": [b"b", b"b"]}


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([np.ones(2), np.ones(3)], "shapes vary"),
        ([torch.ones(2), torch.ones(2, 2)], "shapes vary"),
        ([{"a": np.ones(2)}, {"a": np.ones(3)}], r"sample\['a'\]: shapes vary"),
        ([{"a": 1}, {"b": 1}], "different keys"),
        ([(1,), (1, 2)], "different lengths"),
        ([1, b"x"], "bytes, int"),
        ([None, None], "NoneType"),
        # In a worker PyTorch would take the first's, in which 70,000 is another number.
        ([np.array([1], np.int16), np.array([70_000])], r"got torch\.int16, torch\.int64 in one batch"),
        ([{"a": torch.ones(1)}, {"a": torch.ones(1, dtype=torch.float64)}], r"sample\['a'\]: .* expected one dtype"),
        ([np.ones(2), np.ones(3, np.float32)], "expected one dtype"),
    ],
)
def test_samples_of_different_structure_are_refused(samples: list[object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Collate()(samples)


@pytest.mark.parametrize("pad", [0.5, -1, 256])
def test_padding_that_the_dtype_cannot_hold(pad: float) -> None:
    with pytest.raises(UsageError, match=r"pad: got .* cannot hold"):
        Collate(pad=pad)([np.ones(2, np.uint8), np.ones(3, np.uint8)])


@pytest.mark.parametrize("pad", [0.5, -1, 2])
def test_padding_that_is_neither_true_nor_false(pad: float) -> None:
    with pytest.raises(UsageError, match=r"pad: got .* torch\.bool of sample cannot hold"):
        Collate(pad=pad)([np.ones(2, bool), np.ones(3, bool)])
    assert Collate(pad=1)([np.zeros(1, bool), np.zeros(2, bool)]).tolist() == [[False, True], [False, False]]


def test_shared_memory_is_checked_until_a_batch_fits() -> None:
    asked = []

    def check(size: int) -> None:
        asked.append(size)
        if len(asked) < 3:
            raise StorageError("/dev/shm", "full")

    collate = Collate()
    collate.check_room = check
    for number in range(4):
        batch = collate(FetchedBatch([(np.zeros(10), 1)] * 2))
        assert isinstance(batch, DamagedBatch) == (number < 2)
    assert asked == [160] * 3


def test_shared_memory_is_checked_for_a_batch_that_a_transform_has_made() -> None:
    """By its own bytes, which may be more than the samples', and nothing of it is sent if it does not fit."""

    def check(size: int) -> int:
        raise StorageError("/dev/shm", f"no room for {size}")

    collate, fetched = Collate(), FetchedBatch([(np.zeros(1), 1)])
    fetched.made = torch.zeros(25), torch.zeros(10, dtype=torch.int64)
    collate.check_room = check
    batch = collate(fetched)
    assert isinstance(batch, DamagedBatch)
    assert batch.batch is None
    assert "no room for 180" in str(batch.error)


class Named(torch.Tensor):
    """A tensor of another class that knows something, as torchvision's do."""


def named(values: list[list[float]], canvas: tuple[int, int]) -> torch.Tensor:
    tensor: Any = torch.tensor(values, dtype=torch.float32).reshape(-1, 2).as_subclass(Named)
    tensor.__dict__["canvas"] = canvas
    return tensor


def test_targets_are_listed_and_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [
        (torch.zeros(3, 2, 2), Target(boxes=named([[n, 1]] * n, (n, 2)), labels=torch.arange(n), id=torch.tensor(n)))
        for n in range(3)
    ]
    samples[1][1]["text"] = "only here"
    images, targets = Collate()(samples)
    assert images.shape == (3, 3, 2, 2)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.as_subclass(torch.Tensor).clone())
    as_torch_does = pin_memory(pickle.loads(pickle.dumps(targets)))
    mapped = tree_map(lambda leaf: leaf, targets[2])
    assert type(mapped) is Target
    for found in (targets, pickle.loads(pickle.dumps(targets)), copy.copy(targets), as_torch_does):
        assert isinstance(found, list)
        assert [target["id"].item() for target in found] == [0, 1, 2]
        for n, target in enumerate(found):
            assert type(target["boxes"]) is Named
            assert target["boxes"].__dict__ == {"canvas": (n, 2)}
            assert target["boxes"].shape == (n, 2)
            assert target["labels"].tolist() == list(range(n))
            assert ("text" in target) == (n == 1)
    assert type(pickle.loads(pickle.dumps(targets))) is list


def test_the_targets_of_a_batch_are_few_tensors() -> None:
    """One for each would take a file descriptor each, between processes."""
    targets = Collate()([Target(boxes=torch.zeros(n, 4), labels=torch.arange(n)) for n in range(50)])
    _, (count, columns) = targets.__reduce__()
    assert count == 50
    assert [values.shape for values, _ in columns.values()] == [(4 * 1225,), (1225,)]
