"""Keras and tf.distribute on two logical CPU devices.

Logical devices must be set up before TensorFlow starts, so everything on two devices runs in one child process: this
file, run as a script. What it prints is JSON; what TensorFlow and Keras print beside it is looked at too.
"""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import UsageError
from shardfeed.readers import Split

TRAIN, VALIDATION = 109, 41  # samples
SIZE = 16  # pixels


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that a small model learns: red, green and blue images."""
    from pictures import colour_images  # not above: this file is a program, too, without the helpers of tests

    root = tmp_path_factory.mktemp("colours")
    colour_images(root / "images", {"train": TRAIN, "validation": VALIDATION})
    convert(ImageFolder(root / "images"), root / "out", shards={"train": 3, "validation": 2}, workers=1)
    return root / "out"


@pytest.fixture(scope="module")
def child(colours: Path) -> tuple[dict[str, Any], str]:
    """Result of the child process, and the text that `fit` wrote to standard error."""
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, __file__, str(colours)], capture_output=True, text=True, env=environment, timeout=550
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, errors, _ = re.split("--- started\n|--- fitted\n", done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), errors


FITS = [  # name, samples, batch size
    ("one device", TRAIN, 16),
    ("one device", 96, 16),
    ("plain", TRAIN, 16),
    ("plain", 96, 16),
    ("feed", TRAIN, 16),
    ("feed", 96, 16),
]
"""How `fit` gets its batches: on one device; under a strategy from train_batches; under a strategy from distribute."""

EVALUATIONS = [(VALIDATION, 16), (VALIDATION, 40), (VALIDATION, 60), (40, 20), (33, 16), (2, 2)]


@pytest.mark.parametrize(("kind", "samples", "batch_size"), FITS)
@pytest.mark.long
def test_fit(child: tuple[dict[str, Any], str], kind: str, samples: int, batch_size: int) -> None:
    found = child[0]["fits"][f"{kind} {samples} {batch_size}"]
    steps = samples // batch_size
    assert found["steps announced"] == [steps] * 3
    assert found["steps run"] == [steps] * 3
    assert found["loss"][2] < found["loss"][0] * 0.95
    assert found["validation samples"] == [VALIDATION] * 3


@pytest.mark.long
def test_no_warning(child: tuple[dict[str, Any], str]) -> None:
    found, errors = child
    assert found["warnings"] == []
    # TensorFlow's own about its iterators over devices: how it optimises them, and that it cancels what is prefetched.
    expected = re.compile(r"GeneratorDatasetOp::Dataset will not be optimized|was cancelled|MultiDeviceIteratorGetNext")
    lines = [line for line in errors.splitlines() if not re.match(r"I\d{4} ", line)]
    assert [line for line in lines if not expected.search(line)] == []


@pytest.mark.parametrize(("samples", "batch_size"), EVALUATIONS)
@pytest.mark.long
def test_evaluate_sees_each_sample_once(child: tuple[dict[str, Any], str], samples: int, batch_size: int) -> None:
    one, two = child[0]["evaluations"][f"{samples} {batch_size}"]
    assert one["samples"] == two["samples"] == samples
    assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
    assert one["accuracy"] == pytest.approx(two["accuracy"], rel=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.long
def test_an_epoch_is_different_samples(child: tuple[dict[str, Any], str], replicas: int) -> None:
    epochs = child[0]["epochs"][str(replicas)]
    for epoch in epochs:
        assert len(epoch) == TRAIN // 16
        assert all(len(step) == 16 for step in epoch)
        numbers = [number for step in epoch for number in step]
        assert len(set(numbers)) == len(numbers)
    assert epochs[0] != epochs[1]


@pytest.mark.long
def test_a_step_has_the_same_samples_for_any_number_of_replicas(child: tuple[dict[str, Any], str]) -> None:
    epochs = child[0]["epochs"]
    assert epochs["1"] == epochs["2"] == epochs["make_batches"]


@pytest.mark.long
def test_each_replica_gets_its_share(child: tuple[dict[str, Any], str]) -> None:
    assert child[0]["shares"] == [[[8, SIZE, SIZE, 3], [8, SIZE, SIZE, 3]], [[8], [8]]]
    assert child[0]["views"] == [[[8, 9, 9, 3]] * 2, [[8, 5, 7, 3]] * 2]


@pytest.mark.long
def test_uneven_batches_are_refused(child: tuple[dict[str, Any], str]) -> None:
    errors = child[0]["errors"]
    assert errors["7"] == "batch_size: got 7, expected a multiple of the 2 replicas; use 6 or 8"
    assert errors["1"] == "batch_size: got 1, expected a multiple of the 2 replicas; use 2"
    assert errors["1000"].startswith(f"batch_size: got 1000, expected at most {TRAIN}")


@pytest.fixture(scope="module")
def split(colours: Path) -> Split:
    return shardfeed.open(colours)["train"]


def test_image_size_or_transform(split: Split) -> None:
    import tensorflow as tf

    from shardfeed.pipelines import distribute

    for options in ({}, {"image_size": 8, "transform": lambda features, seed: seed}):
        with pytest.raises(UsageError, match="image_size, transform: expected exactly one"):
            distribute(tf.distribute.get_strategy(), split, batch_size=4, **options)


def test_views_and_channels_are_those_of_train_batches(split: Split) -> None:
    import tensorflow as tf

    from shardfeed.pipelines import crop, distribute, train_batches

    def batches(made: Any) -> list[np.ndarray]:
        return tf.nest.flatten(list(made.take(3).as_numpy_iterator()))

    for options in ({"views": [crop(SIZE), crop((6, 9), channels=1)]}, {"image_size": 8, "channels": 1}):
        feed = distribute(tf.distribute.get_strategy(), split, batch_size=4, seed=2, **options)
        expected = train_batches(split, batch_size=4, seed=2, start_step=0, **options)
        for ours, theirs in zip(batches(feed.batches), batches(expected), strict=True):
            assert np.array_equal(ours, theirs)
    for said, options in {
        "views: got transform, too": {"views": [crop(8)], "transform": lambda features, seed: seed},
        "views: got image_size, too": {"views": [crop(8)], "image_size": 8},
        "channels: got 1 and a transform": {"channels": 1, "transform": lambda features, seed: seed},
    }.items():
        with pytest.raises(UsageError, match=said):
            distribute(tf.distribute.get_strategy(), split, batch_size=4, **options)


def test_workers_with_different_numbers_of_replicas_are_refused() -> None:
    import tensorflow as tf

    from shardfeed.pipelines.tensorflow.distribute import pipeline_share

    with pytest.raises(UsageError, match="strategy: got 3 replicas on 2 workers; give each worker the same number"):
        pipeline_share(tf.distribute.InputContext(num_input_pipelines=2, num_replicas_in_sync=3), 3)


# --- What follows runs in the child.


def run_child(directory: str) -> dict[str, Any]:
    import keras
    import tensorflow as tf

    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = {1: tf.distribute.get_strategy(), 2: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])}
    print("--- started", file=sys.stderr, flush=True)

    from shardfeed.pipelines import crop, distribute, eval_batches, make_batches, train_batches

    dataset = shardfeed.open(directory)
    train, validation = dataset["train"], dataset["validation"]

    class Samples(keras.metrics.Sum):
        """How many samples were seen, over all replicas."""

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            return super().update_state(tf.ones_like(y_true, tf.float32))

    class Steps(keras.callbacks.Callback):
        """The steps that Keras announced, and those it ran, by epoch."""

        def __init__(self) -> None:
            super().__init__()
            self.announced: list[int] = []
            self.run: list[int] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.announced.append(self.params["steps"])
            self.run.append(0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.run[-1] += 1

    def model(replicas: int) -> keras.Model:
        keras.utils.set_random_seed(1)
        layers = keras.layers
        with strategies[replicas].scope():
            made = keras.Sequential(
                [
                    layers.Input((SIZE, SIZE, 3)),
                    layers.Rescaling(1 / 255),
                    layers.Conv2D(8, 3, activation="relu"),
                    layers.GlobalAveragePooling2D(),
                    layers.Dense(3),
                ]
            )
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            made.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy", Samples(name="samples")])
        return made

    def fit(kind: str, samples: int, batch_size: int) -> dict[str, Any]:
        replicas = 1 if kind == "one device" else 2
        part, steps = train[:samples], Steps()
        batches, steps_per_epoch = train_batches(part, batch_size=batch_size, image_size=SIZE, seed=3), None
        if kind == "feed":
            feed = distribute(strategies[2], part, batch_size=batch_size, image_size=SIZE, seed=3)
            batches, steps_per_epoch = feed.batches, feed.steps_per_epoch
        history = model(replicas).fit(
            batches,
            steps_per_epoch=steps_per_epoch,
            validation_data=eval_batches(validation, batch_size=16, image_size=SIZE, replicas=replicas),
            epochs=3,
            verbose=2,
            shuffle=False,  # the order is ours; Keras warns that it cannot shuffle a tf.data.Dataset
            callbacks=[steps],
        )
        return {
            "steps announced": steps.announced,
            "steps run": steps.run,
            "loss": history.history["loss"],
            "validation samples": history.history["val_samples"],
        }

    def evaluate(samples: int, batch_size: int) -> list[dict[str, float]]:
        found = []
        for replicas in (1, 2):
            batches = eval_batches(validation[:samples], batch_size=batch_size, image_size=SIZE, replicas=replicas)
            found.append(model(replicas).evaluate(batches, return_dict=True, verbose=0))
        return found

    def place(features: Any, seed: Any) -> Any:
        return seed[1]

    def epochs(replicas: int) -> list[list[list[int]]]:
        strategy = strategies[replicas]
        feed = distribute(strategy, train, batch_size=16, transform=place, seed=5)
        steps = []
        for batch, _ in zip(feed.batches, range(2 * feed.steps_per_epoch), strict=False):
            local = strategy.experimental_local_results(batch)
            steps.append([int(number) for part in local for number in part])
        return [steps[: feed.steps_per_epoch], steps[feed.steps_per_epoch :]]

    def error(batch_size: int) -> str:
        try:
            distribute(strategies[2], train, batch_size=batch_size, image_size=SIZE)
        except UsageError as found:
            return str(found)
        return "none"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fits = {f"{kind} {samples} {size}": fit(kind, samples, size) for kind, samples, size in FITS}
    print("--- fitted", file=sys.stderr, flush=True)
    with warnings.catch_warnings(record=True) as caught_later:
        warnings.simplefilter("always")
        found: dict[str, Any] = {
            "fits": fits,
            "evaluations": {f"{samples} {size}": evaluate(samples, size) for samples, size in EVALUATIONS},
            "epochs": {replicas: epochs(replicas) for replicas in (1, 2)},
            "errors": {size: error(size) for size in (7, 1, 1000)},
        }
        whole = make_batches(train, place, batch_size=16, start_step=0, seed=5).take(2 * (TRAIN // 16))
        steps = [batch.tolist() for batch in whole.as_numpy_iterator()]
        found["epochs"]["make_batches"] = [steps[: TRAIN // 16], steps[TRAIN // 16 :]]
        images, labels = next(iter(distribute(strategies[2], train, batch_size=16, image_size=SIZE).batches))
        found["shares"] = [
            [list(part.shape) for part in strategies[2].experimental_local_results(value)] for value in (images, labels)
        ]
        views, _ = next(iter(distribute(strategies[2], train, batch_size=16, views=[crop(9), crop((5, 7))]).batches))
        found["views"] = [
            [list(part.shape) for part in strategies[2].experimental_local_results(value)] for value in views
        ]
    found["warnings"] = [str(warning.message) for warning in caught + caught_later]
    return found


if __name__ == "__main__":
    print(json.dumps(run_child(sys.argv[1])))
