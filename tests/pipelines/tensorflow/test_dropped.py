"""Datasets of tf.data that nothing refers to: no thread is left of them, nor what they have read from."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.pipelines import Blocks, WaitRecorder, distribute, eval_batches, make_batches, train_batches
from shardfeed.pipelines.augment import grayscale
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.tensorflow.augment import resize_center_crop
from shardfeed.readers import Dataset, Split
from shardfeed.schema import LABEL

from processes import until_gone

pytest.importorskip("cv2")
OPTIONS: dict[str, Any] = {"batch_size": 8, "image_size": 16}


def own_batches(split: Split) -> tf.data.Dataset:
    crop = resize_center_crop(16)
    return make_batches(split, lambda features, seed: (crop(features, seed), features[LABEL]), batch_size=8)


def distributed(split: Split) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    return distribute(strategy, split, **OPTIONS).batches


MADE: dict[str, Callable[[Split], Any]] = {
    "train": lambda split: train_batches(split, **OPTIONS),
    "start_step": lambda split: train_batches(split, start_step=3, **OPTIONS),
    "blocks": lambda split: train_batches(split, order=Blocks(buffer=16), **OPTIONS),
    "eval": lambda split: eval_batches(split, **OPTIONS),
    "own transform": own_batches,
    "distribute": distributed,
    "watched": lambda split: WaitRecorder().watch(train_batches(split, **OPTIONS)),
}


@pytest.mark.promise(77)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_dropped_dataset_leaves_no_thread_and_no_split(flowers: Dataset, make: Callable[[Split], Any]) -> None:
    before = set(threading.enumerate())
    splits: list[weakref.ref[Split]] = []
    for _ in range(3):
        split = shardfeed.open(flowers.directory)["train"]
        splits.append(weakref.ref(split))
        batches = make(split)
        iterator = iter(batches)
        next(iterator)
        del split, batches, iterator

    def left() -> list[Any]:
        gc.collect()
        threads = [thread.name for thread in set(threading.enumerate()) - before]
        return [*threads, *(each for each in splits if each() is not None)]

    until_gone(left)


@pytest.mark.promise(77)
def test_a_dropped_graph_leaves_no_augmented_crop(flowers: Dataset) -> None:
    """TensorFlow would keep a function that it calls for ever, and what that refers to."""
    crops: list[weakref.ref[Crop]] = []
    for _ in range(3):
        crop = resize_center_crop(16, augment=[grayscale()])
        crops.append(weakref.ref(crop.crop))
        batches = make_batches(flowers["train"], lambda features, seed, crop=crop: crop(features, seed), batch_size=8)
        next(iter(batches))
        del crop, batches

    def left() -> list[Any]:
        gc.collect()
        return [each for each in crops if each() is not None]

    until_gone(left)


@pytest.mark.promise(77)
def test_an_iterator_reads_on_when_its_dataset_is_gone(flowers: Dataset) -> None:
    batches = train_batches(flowers["train"], start_step=0, seed=3, **OPTIONS)
    expected = [images for images, _ in batches.take(6).as_numpy_iterator()]
    variant, spec = tf.data.experimental.to_variant(batches), batches.element_spec
    again = tf.data.experimental.from_variant(variant, spec)  # without the object that made it
    iterator = iter(again)
    del batches, again, variant
    gc.collect()
    for images in expected:
        np.testing.assert_array_equal(images, next(iterator)[0])
