"""Batches k, k + 1, ... of a run are those of the uninterrupted run, bit for bit, wherever and however it goes on."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.errors import OrderMismatchError, UsageError
from shardfeed.pipelines import (
    Blocks,
    Global,
    Position,
    Stream,
    make_batches,
    mix,
    order_samples,
    random_resized_crop,
    train_batches,
)
from shardfeed.pipelines.samples import Samples
from shardfeed.pipelines.tensorflow.assembly import assemble_batches
from shardfeed.readers import Dataset, Split

SIZE, SAMPLES, BATCH = 12, 45, 8
STEPS = SAMPLES // BATCH  # an epoch leaves 5 samples out
KINDS: dict[str, dict[str, Any]] = {
    "stream": {"order": Stream(buffer=11)},
    "global": {"order": "global"},
    "blocks": {"order": Blocks(buffer=12)},
    "stored": {"order": "stored"},
    "balanced": {"order": Global(balance="class")},
    "weights": {"order": Global(weights={"daisy": 5, "rose": 1, "tulip": 2})},
    "mixture": {},
    "changing": {},
    "selection": {},
}


def samples_of(dataset: Dataset, kind: str) -> Samples:
    train = dataset["train"]
    if kind == "mixture":
        return mix([(train[:40], 2), (dataset["validation"][:5], 1)])
    if kind == "changing":
        return mix([train[:40], dataset["validation"][:5]], {0: (2, 1), 7: (1, 1)})
    if kind == "selection":
        return train.select(np.arange(0, 2 * SAMPLES, 2)[::-1])
    return train[60 : 60 + SAMPLES]  # part of two shards


def fingerprint(batches: tf.data.Dataset, count: int) -> list[str]:
    """A hash of all that is in each of the first batches."""
    found = []
    for batch in batches.take(count).as_numpy_iterator():
        digest = hashlib.sha256()
        for part in tf.nest.flatten(batch):
            digest.update(np.ascontiguousarray(part).tobytes())
        found.append(digest.hexdigest())
    return found


def place_and_seed(features: Any, seed: tf.Tensor) -> tf.Tensor:
    return seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_every_step_of_three_epochs(flowers: Dataset, kind: str) -> None:
    """Each sample and its seed, the only inputs of the augmentation, are the same from any start step on."""
    samples = samples_of(flowers, kind)
    options: dict[str, Any] = {"batch_size": BATCH, "seed": 3, "keys": [], **KINDS[kind]}
    whole = fingerprint(make_batches(samples, place_and_seed, start_step=0, **options), 3 * STEPS + 3)
    assert len(set(whole)) == len(whole)
    for step in range(3 * STEPS):
        found = fingerprint(make_batches(samples, place_and_seed, start_step=step, **options), 3)
        assert found == whole[step : step + 3], step


@pytest.mark.parametrize(
    "kind", ["stream", "global", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("blocks", "balanced"))]
)
@pytest.mark.long
def test_images_bit_for_bit_with_any_number_of_workers(flowers: Dataset, kind: str) -> None:
    samples = samples_of(flowers, kind)
    options: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 3, **KINDS[kind]}
    whole = fingerprint(train_batches(samples, start_step=0, workers=1, **options), 2 * STEPS + 4)
    assert fingerprint(train_batches(samples, start_step=0, workers=8, **options), 2 * STEPS + 4) == whole
    for step in (1, STEPS - 1, STEPS, 2 * STEPS + 1):
        for workers in (1, 8):
            resumed = train_batches(samples, start_step=step, workers=workers, **options)
            assert fingerprint(resumed, 3) == whole[step : step + 3]


def test_far_from_the_start(flowers: Dataset) -> None:
    """A step of the millionth epoch, at once."""
    split = flowers["train"]
    start = 10**6 * (len(split) // 8)
    batches = make_batches(split, place_and_seed, batch_size=8, order="global", start_step=start, keys=[])
    _, order = order_samples(split, batch_size=8, order="global")
    found = next(iter(batches)).numpy()
    assert found[:, 1].tolist() == order.batch(start).tolist()  # type: ignore[attr-defined]  # a global order


def test_after_pickling_the_order_and_the_samples(flowers: Dataset) -> None:
    samples = samples_of(flowers, "mixture")
    arranged, order = order_samples(samples, batch_size=BATCH, seed=3, order=Global(balance="class"))
    crop = random_resized_crop(SIZE)
    options: dict[str, Any] = {"pad": None, "keys": None, "damaged": None, "parallelism": 2}
    found = []
    for image_identity in ((arranged, order), pickle.loads(pickle.dumps((arranged, order)))):
        found.append(fingerprint(assemble_batches(*image_identity, crop, start_step=7, **options), 3))
    assert found[0] == found[1]


def test_damage_names_its_record(flowers: Dataset, tmp_path: Any) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(flowers.directory, copy)
    path = copy / "train-00001-of-00004.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    batches = make_batches(
        shardfeed.open(copy)["train"], place_and_seed, batch_size=8, order="global", drop_remainder=False, keys=[]
    )
    with pytest.raises(tf.errors.OpError, match=r"train-00001-of-00004\.tfrecord, record \d+, offset \d+: record"):
        list(batches)


CHILD_STEPS = (0, 3, STEPS, 2 * STEPS + 2)


@pytest.mark.long
def test_other_replicas_and_a_new_process(flowers: Dataset) -> None:
    """Steps of 1, 2 and 4 replicas in another process hold the same images, in the same order, as here."""
    done = subprocess.run(
        [sys.executable, __file__, flowers.directory],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "11"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for kind in ("stream", "global", "blocks", "balanced"):
        options: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 3, **KINDS[kind]}
        whole = fingerprint(train_batches(samples_of(flowers, kind), start_step=0, **options), 2 * STEPS + 4)
        for replicas in ("1", "2", "4"):
            for step in CHILD_STEPS:
                assert found[kind][replicas][str(step)] == whole[step : step + 2], (kind, replicas, step)


def test_a_position_of_other_data_is_refused(flowers: Dataset) -> None:
    from shardfeed.pipelines import distribute

    def feed(split: Split, **options: Any) -> Any:
        options = {"batch_size": 8, "image_size": SIZE, "order": "global", **options}
        return distribute(tf.distribute.get_strategy(), split, **options)

    train = flowers["train"]
    state = feed(train).position(9)
    assert feed(train).at(state).start_step == feed(train).at(state.encode()).start_step == 9
    assert feed(train).at(4).start_step == 4
    for other in (feed(train[:-1]), feed(train, seed=1), feed(train, batch_size=4), feed(flowers["validation"])):
        with pytest.raises(OrderMismatchError, match="step 9 was saved with another order"):
            other.at(state)
    with pytest.raises(UsageError, match="start: got -3"):
        feed(train).at(-3)


@pytest.mark.promise(29)
def test_a_feed_continues_with_other_weights_and_a_part_that_joins(flowers: Dataset) -> None:
    """Fed, as batches from a step on, and as finite epochs: the samples of the order."""
    from shardfeed.pipelines import distribute

    parts = [flowers["train"][:40], flowers["validation"][:5], flowers["train"][40:60]]
    options: dict[str, Any] = {"batch_size": BATCH, "seed": 3}

    def feed(samples: Samples) -> Any:
        return distribute(tf.distribute.get_strategy(), samples, transform=named, **options)

    first, second = mix([(parts[0], 2), (parts[1], 1)]), mix(parts, {0: (2, 1, 0), 7: (1, 1, 2)})
    state = feed(first).position(7)
    after = feed(second)
    with pytest.raises(OrderMismatchError, match="continued_with"):
        after.at(state)
    after = after.at(Position.from_json(state).continued_with(after.order).to_json())
    names = [name for part in parts for name in part.column("image/filename")]
    expected = [[names[index] for index in after.order.batch(step)] for step in range(3 * STEPS)]
    found = [batch.numpy().tolist() for batch in feed(first).batches.take(7)]
    found += [batch.numpy().tolist() for batch in after.batches.take(3 * STEPS - 7)]
    assert found == expected
    finite = make_batches(second, named, **options)
    assert [batch.tolist() for _ in range(3) for batch in finite.as_numpy_iterator()] == expected


def named(features: Any, seed: tf.Tensor) -> tf.Tensor:
    return features["image/filename"]


@pytest.mark.long
def test_a_backup_continues_with_another_mixture(flowers: Dataset, tmp_path: Any) -> None:
    from shardfeed.pipelines import Backup, distribute

    parts = [flowers["train"][:40], flowers["validation"][:5], flowers["train"][40:60]]

    def backup(samples: Samples, **more: Any) -> Any:
        options: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 3}
        return Backup(tmp_path, distribute(tf.distribute.get_strategy(), samples, **options), **more)

    def fit(backup: Any, epochs: int) -> None:
        model = tf.keras.Sequential([tf.keras.layers.Input((SIZE, SIZE, 3)), tf.keras.layers.Flatten()])
        model.add(tf.keras.layers.Dense(3))
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        options: dict[str, Any] = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
        model.fit(backup.batches, epochs=epochs, callbacks=[backup], **options)

    first, second = mix([(parts[0], 2), (parts[1], 1)]), mix(parts, {0: (2, 1, 0), STEPS: (1, 1, 2)})
    fit(backup(first), 1)
    with pytest.raises(OrderMismatchError, match="continued_with"):
        backup(second)
    assert backup(second, continued=True).step == STEPS  # killed before it saved anything
    fit(backup(second, continued=True), 2)
    assert backup(second).step == backup(second, continued=True).step == 2 * STEPS
    with pytest.raises(OrderMismatchError, match=r"other samples from step 5 on: .*; new ones begin at step 10"):
        backup(first, continued=True)


def run_child(directory: str) -> dict[str, Any]:
    from shardfeed.pipelines import distribute

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    dataset = shardfeed.open(directory)
    found: dict[str, Any] = {}
    for kind in ("stream", "global", "blocks", "balanced"):
        found[kind] = {}
        for replicas in (1, 2, 4):
            strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
            options: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 3, **KINDS[kind]}
            feed = distribute(strategy, samples_of(dataset, kind), **options)
            found[kind][replicas] = {}
            for step in CHILD_STEPS:
                hashes = []
                for batch, _ in zip(feed.at(step).batches, range(2), strict=False):
                    digest = hashlib.sha256()
                    for value in batch:
                        for part in strategy.experimental_local_results(value):
                            digest.update(part.numpy().tobytes())
                    hashes.append(digest.hexdigest())
                found[kind][replicas][step] = hashes
    return found


if __name__ == "__main__":
    print(json.dumps(run_child(sys.argv[1])))
