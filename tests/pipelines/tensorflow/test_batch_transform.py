"""A step on whole batches: MixUp and the like, drawn by a seed of the batch's own."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines import distribute, make_batches, train_batches
from shardfeed.readers import Dataset

BATCH = 12


def number(features: Any, seed: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_number(features["image/source_id"], tf.int64)


def drawn(batch: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return batch, tf.random.stateless_uniform([], seed)


def mixup(batch: Any, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    images, labels = batch
    share = tf.random.stateless_uniform([tf.shape(images)[0], 1, 1, 1], seed, 0.5, 1.0)
    images = tf.cast(images, tf.float32)
    targets = tf.one_hot(labels, 3)
    return share * images + (1 - share) * images[::-1], share[:, 0, 0] * targets + (1 - share[:, 0, 0]) * targets[::-1]


def shares(batches: Any) -> list[tuple[tuple[int, ...], float]]:
    return [(tuple(numbers.numpy().tolist()), float(share)) for numbers, share in batches]


@pytest.mark.parametrize("order", ["stream", "global", "blocks", "stored"])
def test_a_batch_draws_the_same_wherever_a_run_goes_on(flowers: Dataset, order: Any) -> None:
    split, steps = flowers["train"], len(flowers["train"]) // BATCH

    def endless(start: int, threads: int = 2) -> Any:
        options: dict[str, Any] = {"batch_size": BATCH, "seed": 5, "order": order, "workers": threads}
        made = make_batches(split, number, start_step=start, batch_transform=drawn, **options)
        assert made.cardinality() == tf.data.INFINITE_CARDINALITY
        return made.take(2 * steps - start)

    run = shares(endless(0))
    assert len({share for _, share in run}) == 2 * steps
    assert shares(endless(steps + 2, threads=1)) == run[steps + 2 :]


def test_epochs_that_end(flowers: Dataset) -> None:
    made = make_batches(
        flowers["train"], number, batch_size=BATCH, seed=5, order="global", batch_transform=drawn, drop_remainder=True
    )
    assert made.cardinality() == len(flowers["train"]) // BATCH
    first, second = shares(made), shares(made)
    assert len({share for _, share in first + second}) == 2 * len(first)
    # Its seed is none of a sample's.
    plain = make_batches(flowers["train"], lambda f, s: tf.random.stateless_uniform([], s), batch_size=BATCH, seed=5)
    assert not {share for _, share in first} & {float(x) for batch in plain for x in batch}


def test_mixup_for_keras(flowers: Dataset) -> None:
    plain = train_batches(flowers["train"], batch_size=BATCH, image_size=16, seed=5, order="global")
    mixed = train_batches(
        flowers["train"], batch_size=BATCH, image_size=16, seed=5, order="global", batch_transform=mixup
    )
    assert mixed.element_spec[0] == tf.TensorSpec([BATCH, 16, 16, 3], tf.float32)
    for (images, labels), (made, targets) in zip(plain.take(2), mixed.take(2), strict=True):
        assert np.allclose(targets.numpy().sum(1), 1)
        share = targets.numpy()[np.arange(BATCH), labels.numpy()]
        assert (share >= 0.5).all()
        assert made.shape == images.shape
        expected = share[0] * images[0].numpy().astype(np.float32) + (1 - share[0]) * images[-1].numpy()
        if labels[0] != labels[-1]:
            assert np.allclose(made[0], expected, atol=1e-2)


def test_transforms_with_wrong_arguments_are_refused(flowers: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "image_size": 16}
    one: Any = lambda batch: batch  # noqa: E731
    with pytest.raises(
        UsageError, match=r"batch_transform: got .* expected a function: batch_transform\(batch, seed\)"
    ):
        train_batches(flowers["train"], **options, batch_transform=one)
    with pytest.raises(UsageError, match=r"batch_transform: got"):
        distribute(tf.distribute.get_strategy(), flowers["train"], **options, batch_transform=one)
    with pytest.raises(UsageError, match=r"transform: got .* expected a function: transform\(features, seed\)"):
        make_batches(flowers["train"], one, batch_size=BATCH)


@pytest.fixture(scope="module")
def two_devices(flowers: Dataset) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, flowers.directory], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_feed_goes_on_with_the_same(flowers: Dataset) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "transform": number, "seed": 5, "order": "global"}
    feed = distribute(tf.distribute.get_strategy(), flowers["train"], **options, batch_transform=drawn)
    run, rest = shares(feed.batches.take(6)), shares(feed.at(3).batches.take(3))
    assert len({share for _, share in run}) == 6
    assert rest == run[3:]


@pytest.mark.long
def test_replicas_draw_each_their_own_and_the_same_again(two_devices: dict[str, Any]) -> None:
    run, rest = two_devices["run"], two_devices["rest"]
    assert len({share for step in run for _, share in step}) == 2 * len(run)
    assert rest == run[3:]


@pytest.mark.long
def test_a_model_trains_on_what_the_step_gave(two_devices: dict[str, Any]) -> None:
    assert np.isfinite(two_devices["loss"])


def main(directory: str) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    import keras

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    split = shardfeed.open(directory)["train"]
    feed = distribute(
        strategy, split, batch_size=BATCH, transform=number, seed=5, order="global", batch_transform=drawn
    )

    def steps(feed: Any, count: int) -> list[Any]:
        found = []
        for _, (numbers, share) in zip(range(count), feed.batches, strict=False):
            values = zip(numbers.values, share.values, strict=True)
            found.append([[n.numpy().tolist(), float(s)] for n, s in values])
        return found

    result: dict[str, Any] = {"run": steps(feed, 8), "rest": steps(feed.at(3), 5)}
    with strategy.scope():
        model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
        model.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    trained = distribute(strategy, split, batch_size=BATCH, image_size=16, seed=5, batch_transform=mixup)
    result["loss"] = model.fit(trained.batches, steps_per_epoch=3, verbose=0).history["loss"][0]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
