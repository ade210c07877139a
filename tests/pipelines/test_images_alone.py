"""`label=None`: every loader gives the images alone, the same as beside labels, of images that have none too."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import convert, from_dicts
from shardfeed.errors import UsageError
from shardfeed.pipelines import crop
from shardfeed.pipelines.arrays import array_batches, eval_array_batches

from pictures import image_bytes, waves

SIZE: dict[str, Any] = {"batch_size": 4, "image_size": 16}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same nine images with labels, and without."""
    root = tmp_path_factory.mktemp("alone")
    for name, more in (("labelled", {"class_names": ["a", "b"]}), ("bare", {})):
        rows = [
            {"image": image_bytes(waves(length=3 + n), "PNG"), "key": f"{n}.png"} | ({"label": n % 2} if more else {})
            for n in range(9)
        ]
        convert(from_dicts(rows, **more), root / name, workers=1)
    return root


def numpy_of(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def first(batch: Any) -> Any:
    return batch[0]


def loaders() -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    import tensorflow as tf

    from shardfeed.pipelines import distribute, distribute_eval, eval_batches, predict_batches, train_batches
    from shardfeed.pipelines.torch import (
        random_resized_crop,
        resize_center_crop,
        torch_eval_loader,
        torch_loader,
        torch_predict_loader,
    )

    strategy = tf.distribute.get_strategy()
    mine = {"batch_size": 4, "image_transform": random_resized_crop(16), "workers": 0}
    centred = {"batch_size": 4, "image_transform": resize_center_crop(16), "workers": 0}
    drawn = {"order": "global", **SIZE}
    return [
        ("label", array_batches, SIZE),
        ("label", eval_array_batches, SIZE),
        ("label", torch_loader, {**SIZE, "workers": 0}),
        ("label", torch_loader, mine),
        ("label", torch_loader, {**SIZE, "workers": 0, "decode": "like_cuda"}),
        ("label", torch_eval_loader, {**SIZE, "workers": 0}),
        ("label", torch_eval_loader, centred),
        ("key", torch_predict_loader, {**SIZE, "workers": 0}),
        ("label", train_batches, drawn),
        ("label", eval_batches, SIZE),
        ("key", predict_batches, SIZE),
        ("label", lambda split, **more: distribute(strategy, split, **more).batches.take(2), drawn),
        ("label", lambda split, **more: distribute_eval(strategy, split, **more).batches, SIZE),
    ]


def test_every_loader_gives_images_alone(root: Path) -> None:
    labelled, bare = (shardfeed.open(root / name)["train"] for name in ("labelled", "bare"))
    for number, (argument, make, options) in enumerate(loaders()):
        masked = number == len(loaders()) - 1  # distribute_eval, whose batches end with a mask
        expected = [numpy_of(first(batch)) for batch in make(labelled, **options)]
        for split in (labelled, bare):
            batches = list(make(split, **options, **{argument: None}))
            images = [numpy_of(first(batch) if masked else batch) for batch in batches]
            assert len(images) == len(expected) > 0, make
            assert all((a == b).all() for a, b in zip(images, expected, strict=True)), make
            assert not masked or all(len(batch) == 2 for batch in batches)


def test_views_without_labels_are_the_whole_batch(root: Path) -> None:
    from shardfeed.pipelines.torch import torch_loader

    split, views = shardfeed.open(root / "bare")["train"], [crop(16), crop(8)]
    for make, options in ((array_batches, {}), (torch_loader, {"workers": 0})):
        batch = next(iter(make(split, batch_size=4, views=views, label=None, **options)))
        assert [len(numpy_of(view)) for view in batch] == [4, 4]


def test_transforms_of_other_packages_need_no_label(root: Path) -> None:
    from shardfeed.pipelines.torch import torch_loader

    split = shardfeed.open(root / "bare")["train"]
    loader = torch_loader(
        split, batch_size=4, image_transform=lambda image: np.asarray(image.resize((16, 16))), label=None, workers=0
    )
    assert [batch.shape for batch in loader] == [(4, 3, 16, 16)] * 2


def test_features_and_targets_take_it_as_well(root: Path) -> None:
    split = shardfeed.open(root / "bare")["train"]
    batch = next(iter(array_batches(split, **SIZE, label=None, features=["image/filename"])))
    assert sorted(batch) == ["image/filename", "images"]


def test_keras_predicts_images_alone(root: Path) -> None:
    import keras

    from shardfeed.pipelines.keras import keras_batches

    split = shardfeed.open(root / "bare")["train"]
    model = keras.Sequential([keras.layers.GlobalAveragePooling2D()])
    made = model.predict(keras_batches(eval_array_batches(split, **SIZE, label=None)), verbose=0)
    expected = np.concatenate([batch.mean((1, 2)) for batch in eval_array_batches(split, **SIZE, label=None)])
    assert np.allclose(made, expected, atol=1e-3)


def test_without_it_the_error_names_it(root: Path) -> None:
    split = shardfeed.open(root / "bare")["train"]
    with pytest.raises(UsageError, match="label=None"):
        array_batches(split, **SIZE)


def test_a_wrong_order_is_told_only_those_that_the_loader_takes(root: Path) -> None:
    from shardfeed.pipelines.torch import torch_loader

    split, wrong = shardfeed.open(root / "labelled")["train"], ("random", "stream")
    for make in (array_batches, torch_loader):
        for order in wrong:
            with pytest.raises(UsageError, match=r"^order: ") as raised:
                make(split, batch_size=4, image_size=16, order=order)
            offered = re.findall(r"'(\w+)'", raised.value.problem.partition("expected")[2])
            assert offered == ["global", "blocks", "stored"]
            for name in offered:
                make(split, batch_size=4, image_size=16, order=name)
