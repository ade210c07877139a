"""Classes of objects in balance, from a COCO file to batches: the same in TensorFlow and in PyTorch, resumed too."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters import LabelOptions, convert, open_source
from shardfeed.errors import OrderMismatchError
from shardfeed.pipelines import Global, detection, distribute, make_batches, order_samples, random_resized_crop
from shardfeed.pipelines.torch import Ranks, torch_loader
from shardfeed.pipelines.torch import detection as torch_detection
from shardfeed.pipelines.torch import random_resized_crop as torch_crop
from shardfeed.readers import Split
from shardfeed.readers.columns import rarest_classes

from repository import ROOT

BATCH, STEPS = 4, 12  # of 4 strata, circle, square, triangle and nothing, and of three epochs
BALANCED: dict[str, Any] = {"batch_size": BATCH, "seed": 5, "order": Global(balance="class")}
SCENES = ROOT / "data_samples" / "scenes"


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """16 images, of which one has no objects."""
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(
        open_source(SCENES / "coco" / "instances.json", options=LabelOptions(images=SCENES / "images")), out, workers=1
    )
    return shardfeed.open(out)["train"]


@pytest.fixture(scope="module")
def expected(train: Split) -> list[list[int]]:
    """image/source_id, of each step."""
    arranged, order = order_samples(train, **BALANCED)
    return [[int(arranged[i]["image/source_id"]) for i in order.batch(step)] for step in range(STEPS)]  # type: ignore


def test_there_is_one_of_each_class_in_each_batch(train: Split, expected: list[list[int]]) -> None:
    rarest = dict(
        zip(
            train.column("image/source_id").tolist(),
            rarest_classes(train.shards, train.schema, OBJECT_LABEL, np.arange(len(train))).tolist(),
            strict=True,
        )
    )
    assert all(sorted(rarest[b"%d" % number] for number in batch) == [0, 1, 2, 3] for batch in expected)


def keras_batches(train: Split, start_step: int, steps: int) -> list[Any]:
    crop = detection(random_resized_crop(24, area=(0.5, 1.0)), max_objects=5, image_id=True)
    batches = make_batches(train, crop, start_step=start_step, workers=2, **BALANCED)
    return list(batches.take(steps).as_numpy_iterator())  # type: ignore[attr-defined]


def test_tensorflow(train: Split, expected: list[list[int]]) -> None:
    whole = keras_batches(train, 0, STEPS)
    assert [batch["image_id"].tolist() for batch in whole] == expected
    for step in (1, 4, 7):
        for resumed, batch in zip(keras_batches(train, step, 3), whole[step:], strict=False):
            tf.nest.map_structure(np.testing.assert_array_equal, resumed, batch)


def test_tensorflow_distributed(train: Split, expected: list[list[int]]) -> None:
    crop = detection(random_resized_crop(24), max_objects=5, image_id=True)
    feed = distribute(tf.distribute.get_strategy(), train, transform=crop, **BALANCED)
    assert feed.steps_per_epoch == len(train) // BATCH
    assert [batch["image_id"].numpy().tolist() for batch in islice(feed.batches, 5)] == expected[:5]
    resumed = feed.at(feed.position(7)).batches
    assert [batch["image_id"].numpy().tolist() for batch in islice(resumed, 2)] == expected[7:9]


def numbers(targets: Any) -> list[int]:
    return [int(target["image_id"]) for target in targets]


def loader_of(train: Split, **options: Any) -> Any:
    crop = torch_detection(torch_crop(24, area=(0.5, 1.0)))
    given: dict[str, Any] = {"workers": 0} | BALANCED | options
    return torch_loader(train, transform=crop, **given)


def test_torch(train: Split, expected: list[list[int]]) -> None:
    whole = [numbers(targets) for _, targets in islice(loader_of(train, start_step=0), STEPS)]
    assert whole == expected
    resumed = loader_of(train, start_step=7, workers=2)
    assert [numbers(targets) for _, targets in islice(resumed, 3)] == expected[7:10]

    loader = loader_of(train)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    again = loader_of(train)
    again.load_state_dict(state)
    assert [numbers(targets) for _, targets in again] == expected[1:4]
    other = loader_of(train[:15])
    with pytest.raises(OrderMismatchError):
        other.load_state_dict(state)


def test_torch_ranks_share_each_batch(train: Split, expected: list[list[int]]) -> None:
    ranks = [loader_of(shardfeed.open(Path(train.shards.directory))["train"], ranks=Ranks(n, 2)) for n in range(2)]
    for batch, (_, first), (_, second) in zip(expected, *ranks, strict=False):
        assert numbers(first) + numbers(second) == batch
