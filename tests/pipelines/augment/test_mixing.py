"""MixUp and CutMix: the same batches in every framework, soft labels, draws of the batch's own seed."""

import logging
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines import array_batches, crop
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


@pytest.mark.promise(78)
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


@pytest.mark.promise(78)
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
        mixup()({"images": np.zeros((2, 4, 4, 3), np.uint8)}, 0)
    with pytest.raises(UsageError, match="classes"):
        mixup()((np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1])), 0)
    with pytest.raises(UsageError, match="got the label 7, expected 0 to 1"):
        mixup(classes=2)((np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 7])), 0)
    with pytest.raises(UsageError, match="alpha"):
        mixup(alpha=0)
    with pytest.raises(UsageError, match="batch_transform"):
        array_batches(flowers["train"], **options(lambda batch: batch))


def doors() -> dict[str, Any]:
    """The ways to batches, as functions of their samples and options."""
    import tensorflow as tf

    from shardfeed.pipelines import distribute, train_batches
    from shardfeed.pipelines.torch import to_device, torch_loader

    def on_device(split: Any, batch_transform: Any, **given: Any) -> Any:
        return to_device(torch_loader(split, **given), "cpu", batch_transform=batch_transform)

    return {
        "array_batches": array_batches,
        "torch_loader": torch_loader,
        "to_device": on_device,
        "train_batches": train_batches,
        "distribute": partial(distribute, tf.distribute.get_strategy()),
    }


DOORS = ["array_batches", "torch_loader", "to_device", "train_batches", "distribute"]


@pytest.mark.parametrize("door", DOORS)
def test_what_cannot_be_mixed_is_refused_when_the_loader_is_made(flowers: Dataset, door: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    make, split, given = doors()[door], flowers["train"], options(one_of([mixup(), cutmix()]))
    with pytest.raises(UsageError, match="batch_transform: got no label to mix, as label=None; leave label out"):
        make(split, **given, label=None)
    with pytest.raises(UsageError, match=r"batch_transform: got .* and views, and it mixes .*; leave views out"):
        make(split, **given | {"image_size": None}, views=[crop(32), crop(32)])
    with pytest.raises(UsageError, match="classes: got 2, and image/class/label has 3 class names; leave it out"):
        make(split, **given | {"batch_transform": mixup(classes=2)})


@pytest.mark.parametrize("given", [{"features": ["image/filename"]}, {"features": [], "label": None}])
def test_dicts_are_not_mixed(flowers: Dataset, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"batch_transform: got .* and features, and it mixes .*; leave features out"):
        array_batches(flowers["train"], **options(mixup()), **given)


@pytest.mark.parametrize("make", [mixup, cutmix])
def test_more_classes_than_a_vector_has_numbers_are_refused(make: Any) -> None:
    """NumPy's error was raised when the first batch was made."""
    with pytest.raises(UsageError, match=r"^classes: got 10{30}, expected an integer from 1 to 100,000,000"):
        make(classes=10**30)


def test_a_label_above_the_classes_is_refused_in_a_graph(flowers: Dataset) -> None:
    tf = pytest.importorskip("tensorflow")
    from shardfeed.pipelines import make_batches

    def gray(features: Any, seed: Any) -> Any:
        return tf.zeros([4, 4, 3], tf.uint8), features["image/class/label"]

    given: Any = {"batch_size": BATCH, "seed": 5}
    batches = make_batches(flowers["train"], gray, **given, batch_transform=mixup(classes=2))
    with pytest.raises(tf.errors.OpError, match="got the label 2, expected 0 to 1; give the number of all classes"):
        list(batches)


@pytest.mark.parametrize("mixing", [mixup(classes=3), cutmix(classes=3)], ids=["mixup", "cutmix"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_images_that_are_floats_already(mixing: Any, dtype: str) -> None:
    torch, tf = pytest.importorskip("torch"), pytest.importorskip("tensorflow")
    import shardfeed.pipelines.tensorflow.mixing
    import shardfeed.pipelines.torch.mixing  # noqa: F401

    images = np.random.default_rng(3).normal(size=(5, 8, 6, 3)).astype(dtype)
    labels = np.arange(5) % 3
    seed = 11
    drawn = mixing.draw(seed, 8, 6)
    others = np.roll(images, 1, 0)
    expected = drawn.share * images.astype(np.float64) + (1 - drawn.share) * others
    if drawn.box is not None:
        top, left, height, width = drawn.box
        expected = images.copy()
        part = np.s_[:, top : top + height, left : left + width]
        expected[part] = others[part]
    arrays, _ = mixing((images.copy(), labels), seed)
    tensors, _ = mixing((torch.from_numpy(images.copy()).permute(0, 3, 1, 2), torch.from_numpy(labels)), seed)
    near: Any = {"atol": 1e-6 if dtype == "float32" else 5e-3}
    np.testing.assert_allclose(arrays, expected, **near)
    np.testing.assert_allclose(tensors.permute(0, 2, 3, 1), expected, **near)
    graph, _ = mixing((tf.constant(images), tf.constant(labels)), tf.constant([0, seed], tf.int64))
    assert graph.dtype.name == dtype
    assert images.min() < 0 < float(tf.reduce_max(tf.abs(graph - tf.round(graph))))  # no whole numbers


@pytest.mark.parametrize("images", [np.zeros((4, 3), np.uint8), np.zeros((4, 8, 8, 3), np.int32)])
def test_other_arrays_are_no_images(images: np.ndarray) -> None:
    with pytest.raises(UsageError, match=r"batch_transform: got images \[4, .* of u?int\d+, expected 4 dimensions"):
        mixup(classes=3)((images, np.zeros(4, np.int64)), 0)


def test_the_memory_of_a_users_own_batches_stays_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    from shardfeed.pipelines.torch import to_device

    tensor = torch.arange(4 * 3 * 8 * 8).reshape(4, 3, 8, 8).to(torch.uint8)
    before, labels = tensor.numpy().copy(), torch.arange(4)
    for images in (tensor, tensor.numpy()):
        (mixed, _), *_ = to_device([(images, labels)], "cpu", batch_transform=mixup(classes=4))
        assert (mixed.numpy() != before).any()
        np.testing.assert_array_equal(tensor.numpy(), before)


def nothing(batch: Any, seed: Any) -> None:
    """Change a batch in place, and forget to return it."""


def ended(batch: Any, seed: Any) -> Any:
    """Raise StopIteration, as a forgotten default of `next` does; an iteration would take it for its end."""
    return next(iter([]))


@pytest.mark.parametrize("door", DOORS[:3])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_that_returns_nothing_is_named(flowers: Dataset, door: str, workers: int) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    make = doors()[door]
    with pytest.raises(UsageError, match="batch_transform: nothing returned None, expected a batch; return the batch"):
        list(make(flowers["train"], **options(nothing), workers=workers))
    with pytest.raises(RuntimeError, match="the batch_transform raised StopIteration at the batch of step 0"):
        list(make(flowers["train"], **options(ended), workers=workers))


def test_a_function_of_a_graph_that_returns_nothing_is_named(flowers: Dataset) -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(Exception, match="batch_transform: nothing returned None, expected a batch; return the batch"):
        doors()["train_batches"](flowers["train"], **options(nothing))


def test_a_mixing_in_a_graph_warns_of_nothing(flowers: Dataset) -> None:
    tf = pytest.importorskip("tensorflow")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    tf.get_logger().addHandler(handler)
    try:
        next(iter(doors()["train_batches"](flowers["train"], **options(one_of([mixup(), cutmix()])))))
    finally:
        tf.get_logger().removeHandler(handler)
    assert not said


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_a_mixing_pickles_and_compares(mixing: Any) -> None:
    assert pickle.loads(pickle.dumps(mixing)) == mixing
