"""Batches on a device: here the CPU, where nothing may change but the arithmetic that is asked for."""

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import Workers, to_device, torch_loader
from shardfeed.readers import Dataset


class Counted:
    """Batches that say how many were asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.taken = count, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[dict[str, object]]:
        for number in range(self.count):
            self.taken += 1
            images = torch.full((2, 3, 4, 5), number, dtype=torch.uint8).to(memory_format=torch.channels_last)
            yield {"image": images, "rest": (torch.tensor([number]), "text")}


def test_all_batches_come_in_order_a_few_ahead() -> None:
    loader = Counted(7)
    feed = to_device(loader, "cpu", ahead=3)
    assert len(feed) == 7
    for number, batch in enumerate(feed):
        assert batch["image"].dtype == torch.uint8
        assert batch["rest"][0].tolist() == [number]
        assert batch["rest"][1] == "text"
        assert loader.taken == min(7, number + 4)
    assert number == 6


def test_images_are_normalised() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    for number, batch in enumerate(to_device(Counted(3), "cpu", mean=mean, std=std)):
        assert batch["image"].is_contiguous(memory_format=torch.channels_last)
        expected = (number / 255 - np.array(mean)) / np.array(std)
        assert np.allclose(batch["image"][0, :, 0, 0].numpy(), expected, atol=1e-6)
        assert batch["rest"][0].dtype == torch.int64
    half = list(to_device(Counted(2), "cpu", dtype=torch.bfloat16))
    assert half[1]["image"].dtype == torch.bfloat16
    assert half[1]["image"].max().item() == pytest.approx(1 / 255, rel=0.01)


def test_its_state_is_that_of_the_batch_handed_out(flowers: Dataset) -> None:
    def batches() -> torch.utils.data.DataLoader:
        return torch_loader(flowers["train"], batch_size=16, image_size=16, seed=3, workers=0)

    whole = [labels.tolist() for _, labels in batches()]
    feed = to_device(batches(), "cpu", ahead=4)
    for number, _ in enumerate(feed, 1):
        assert feed.loader.step > number or number > len(whole) - 4
        again = to_device(batches(), "cpu")
        again.load_state_dict(feed.state_dict())
        assert [labels.tolist() for _, labels in again][: len(whole) - number] == whole[number:] or number == len(whole)
    assert number == len(whole)


def test_arrays_become_tensors() -> None:
    """As the prefetchers' batches have them; those of Ray are read-only."""
    images = np.full((2, 4, 5, 3), 51, np.uint8)
    images.flags.writeable = False
    batch = {"image": images.transpose(0, 3, 1, 2), "rest": (np.arange(2), np.array(["a", "b"]), np.array([None]))}
    (found,) = to_device([batch], "cpu", mean=(0, 0, 0), std=(1, 1, 1))
    assert torch.allclose(found["image"], torch.tensor(0.2))
    assert found["image"].is_contiguous(memory_format=torch.channels_last)
    assert found["rest"][0].tolist() == [0, 1]
    assert found["rest"][1:] == batch["rest"][1:]
    (found,) = to_device([UserDict(image=torch.zeros(2, 3, 4, 5, dtype=torch.uint8))], "cpu", dtype=torch.float16)
    assert found["image"].dtype == torch.float16


@pytest.mark.parametrize("channels", [1, 4])
def test_images_of_other_channels(channels: int) -> None:
    """A single one would be made three in silence."""
    batch = torch.zeros(2, channels, 4, 5, dtype=torch.uint8)
    with pytest.raises(UsageError, match=rf"mean, std: got images \[2, {channels}, 4, 5\] and 3 values"):
        list(to_device([batch], "cpu", mean=(0, 0, 0), std=(1, 1, 1)))
    (found,) = to_device([batch], "cpu", dtype=torch.float32)
    assert found.shape == batch.shape


@pytest.mark.parametrize("workers", [0, 1])
def test_an_endless_loader_left_early(flowers: Dataset, workers: int) -> None:
    """Batches that were on their way to the device come again, and no others."""

    def batches(**options: Any) -> Any:
        return torch_loader(flowers["train"], batch_size=16, image_size=16, seed=3, **({"start_step": 0} | options))

    expected = [labels.tolist() for _, (_, labels) in zip(range(20), batches(workers=0), strict=False)]
    feed = to_device(batches(workers=workers), "cpu", ahead=3)
    found = []
    for _ in range(4):
        for number, (_, labels) in enumerate(feed, 1):
            found.append(labels.tolist())
            if number == 4:
                break
    assert found == expected[:16]
    # Who moves the loader itself means that.
    feed.loader.load_state_dict(batches(workers=0, start_step=18).state_dict())
    assert next(iter(feed))[1].tolist() == expected[18]


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="mean, std"):
        to_device(Counted(1), "cpu", mean=(0.5,))
    with pytest.raises(UsageError, match="mean, std"):
        to_device(Counted(1), "cpu", mean=(0.5, 0.5, 0.5), std=(1, 1))
    with pytest.raises(UsageError, match="dtype"):
        to_device(Counted(1), "cpu", dtype=torch.int8)
    with pytest.raises(UsageError, match="ahead"):
        to_device(Counted(1), "cpu", ahead=0)
    with pytest.raises(UsageError, match="has no state"):
        to_device(Counted(1), "cpu").state_dict()


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@on_a_gpu
def test_on_a_gpu() -> None:
    feed = to_device(Counted(20), "cuda", mean=(0, 0, 0), std=(1, 1, 1))
    for number, batch in enumerate(feed):
        torch.cuda._sleep(10**6)
        assert batch["image"].is_cuda
        assert batch["image"].is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(batch["image"], torch.tensor(number / 255, device="cuda"))


@on_a_gpu
@pytest.mark.parametrize("start_method", [None, "fork", "spawn", "forkserver"])
def test_a_late_gpu_reads_the_batches_of_the_cpu(flowers: Dataset, start_method: str | None) -> None:
    """Steps that are queued far behind read batches after their tensors are gone and later ones were copied."""
    workers: int | Workers = Workers(2, start_method=start_method) if start_method else 0

    def batches(workers: int | Workers) -> Any:
        return torch_loader(flowers["train"], batch_size=4, image_size=64, seed=3, workers=workers)

    expected = list(batches(0))
    for _ in range(3):
        read = []
        for images, labels in to_device(batches(workers), "cuda", ahead=3):
            torch.cuda._sleep(10**7)
            read.append((images.clone(), labels.clone()))
        assert len(read) == len(expected) > 5
        for (images, labels), (image, label) in zip(read, expected, strict=True):
            assert torch.equal(images.cpu(), image)
            assert torch.equal(labels.cpu(), label)
