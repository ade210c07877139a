"""MixUp and CutMix: the same batches in every framework, soft labels, draws of the batch's own seed."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines import array_batches
from shardfeed.pipelines.augment import cutmix, mixup, one_of
from shardfeed.readers import Dataset

BATCH = 12
MIXINGS = {
    "mixup": mixup(0.4),
    "cutmix": cutmix(),
    "by turns": one_of([mixup(0.4), cutmix()]),
    "half of the batches": mixup(p=0.5),
}


def options(mixing: Any) -> dict[str, Any]:
    return {"batch_size": BATCH, "image_size": 32, "seed": 5, "order": "global", "batch_transform": mixing}


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_the_same_batches_in_each_framework(flowers: Dataset, mixing: Any) -> None:
    torch, tf = pytest.importorskip("torch"), pytest.importorskip("tensorflow")
    from shardfeed.pipelines import train_batches
    from shardfeed.pipelines.torch import random_resized_crop, to_device, torch_loader

    split = flowers["train"]
    arrays = [(images.copy(), labels) for images, labels in array_batches(split, **options(mixing))]
    crop = random_resized_crop(32, antialias=False)
    given: Any = options(mixing) | {"image_transform": crop}
    del given["image_size"]
    tensors = list(torch_loader(split, **given))
    moved = list(to_device(torch_loader(split, **given | {"batch_transform": None}), "cpu", batch_transform=mixing))
    graph = list(train_batches(split, **options(mixing)))
    for (images, labels), (a, b), (c, d), (e, f) in zip(arrays, tensors, moved, graph, strict=True):
        assert labels.dtype == np.float32
        assert labels.shape == (BATCH, len(split.class_names))
        np.testing.assert_allclose(labels.sum(1), 1, rtol=1e-6)
        for others, softened in ((a.permute(0, 2, 3, 1), b), (c.permute(0, 2, 3, 1), d), (e, f)):
            np.testing.assert_array_equal(images, others.numpy())
            np.testing.assert_allclose(labels, softened.numpy(), atol=1e-6)
    assert torch.float32 == tensors[0][1].dtype
    assert tf.float32 == graph[0][1].dtype


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_run_that_goes_on_mixes_the_same(flowers: Dataset, workers: int) -> None:
    pytest.importorskip("torch")
    from shardfeed.pipelines.torch import torch_loader

    whole = list(torch_loader(flowers["train"], **options(cutmix()), workers=workers))
    late = torch_loader(flowers["train"], **options(cutmix()))
    late.load_state_dict(torch_loader(flowers["train"], **options(None)).state_dict(2))
    for (images, labels), (again, soft) in zip(whole[2:], late, strict=True):
        assert bool((images == again).all())
        assert bool((labels == soft).all())


def test_images_and_labels_are_mixed_alike(flowers: Dataset) -> None:
    plain = list(array_batches(flowers["train"], **options(None)))
    for (images, labels), (mixed, soft) in zip(plain, array_batches(flowers["train"], **options(mixup())), strict=True):
        hot = np.eye(len(flowers.class_names), dtype=np.float32)[labels]
        apart = labels != np.roll(labels, 1)
        share = soft[apart, labels[apart]].mean()
        np.testing.assert_allclose(soft, share * hot + (1 - share) * np.roll(hot, 1, 0), atol=1e-5)
        expected = share * images + (1 - share) * np.roll(images, 1, 0).astype(np.float64)
        assert np.abs(mixed - expected).max() < 0.51


@given(st.integers(0, 2**63 - 1), st.integers(1, 300), st.integers(1, 300))
def test_the_share_of_cutmix_is_that_of_the_area(seed: int, height: int, width: int) -> None:
    share, box = cutmix().draw(seed, height, width)
    assert box is not None
    assert 0 <= box.top <= box.top + box.height <= height
    assert 0 <= box.left <= box.left + box.width <= width
    assert share == 1 - box.height * box.width / (height * width)


def test_how_often() -> None:
    drawn = [mixup(p=0.3).draw(seed, 8, 8).share < 1 for seed in range(4000)]
    assert 0.27 < np.mean(drawn) < 0.33


def test_a_function_of_the_users_runs_in_threads(flowers: Dataset) -> None:
    pytest.importorskip("torch")
    import threading

    from shardfeed.pipelines.torch import torch_loader

    ran: list[tuple[str, int]] = []

    def note(batch: Any, seed: int) -> Any:
        ran.append((threading.current_thread().name, seed))
        return batch

    given: Any = options(note)
    assert len(list(array_batches(flowers["train"], **given))) == len(ran)
    of_arrays = {seed for _, seed in ran}
    ran.clear()
    assert len(list(torch_loader(flowers["train"], **given))) == len(ran)
    assert {seed for _, seed in ran} == of_arrays
    assert threading.main_thread().name not in {name for name, _ in ran}


def test_an_error_of_a_users_function_names_the_batch(flowers: Dataset) -> None:
    def fail(batch: Any, seed: int) -> Any:
        raise ValueError("my own")

    with pytest.raises(ValueError, match="my own") as raised:
        next(iter(array_batches(flowers["train"], **options(fail))))
    assert "batch of step 0" in "".join(raised.value.__notes__)


def test_what_cannot_be_mixed(flowers: Dataset) -> None:
    with pytest.raises(UsageError, match="expected a batch of \\(images, labels\\)"):
        next(iter(array_batches(flowers["train"], **options(mixup()), features=["image/filename"])))
    with pytest.raises(UsageError, match="classes"):
        mixup()((np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1])), 0)
    with pytest.raises(UsageError, match="got the label 7, expected 0 to 1"):
        mixup(classes=2)((np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 7])), 0)
    with pytest.raises(UsageError, match="alpha"):
        mixup(alpha=0)
    with pytest.raises(UsageError, match="batch_transform"):
        array_batches(flowers["train"], **options(lambda batch: batch))


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_a_mixing_pickles_and_compares(mixing: Any) -> None:
    assert pickle.loads(pickle.dumps(mixing)) == mixing
