"""Two real workers of a MultiWorkerMirroredStrategy, two processes on this machine: training, evaluation, resume.

A cluster is set up once in a process, so each worker is a process of its own: this file, run as a script, or the
script that docs/many-machines.md shows. What a worker prints last is JSON.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.pipelines import distribute

from pictures import colour_images
from repository import ROOT, SUPPORT

DOCS = ROOT / "docs" / "many-machines.md"
WORKER = re.compile(r"^```py\n(# worker\.py\n.*?)^```", re.MULTILINE | re.DOTALL)

LIMIT = 120  # seconds; a pair takes about 5
TRAIN, VALIDATION = 53, 13  # samples
SIZE, BATCH = 16, 8  # pixels, samples of both workers
STEPS = TRAIN // BATCH  # of an epoch
STOP = STEPS + 2  # where a checkpoint is written: within the second epoch


def run_workers(workers: int, command: list[str], cwd: Path) -> list[str]:
    """Run so many workers and return the output of each. One worker is a process without a cluster.

    If one fails, or all take too long, none is left running.
    """
    sockets = [socket.socket() for _ in range(workers)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    children: list[subprocess.Popen[bytes]] = []
    logs = [cwd / f"worker{number}.log" for number in range(workers)]
    try:
        for number, log in enumerate(logs):
            cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}}
            environment = os.environ | {"PYTHONPATH": str(SUPPORT)}
            environment |= {"TF_CONFIG": json.dumps(cluster)} if workers > 1 else {}
            with open(log, "wb") as errors, open(log.with_suffix(".out"), "wb") as output:
                child = subprocess.Popen(
                    [sys.executable, *command], cwd=cwd, env=environment, stdout=output, stderr=errors
                )
            children.append(child)
        end = time.monotonic() + LIMIT
        while any(child.poll() is None for child in children):
            failed = [child for child in children if child.poll()]
            if failed or time.monotonic() > end:
                break
            time.sleep(0.05)
        codes = [child.poll() for child in children]
        assert codes == [0] * workers, f"{codes}: " + "\n---\n".join(log.read_text()[-2000:] for log in logs)
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [log.with_suffix(".out").read_text() for log in logs]


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that a small model learns, red, green and blue images, in one shard a split."""
    root = tmp_path_factory.mktemp("colours")
    colour_images(root / "images", {"train": TRAIN, "validation": VALIDATION})
    convert(ImageFolder(root / "images"), root / "out", shards={"train": 1, "validation": 1}, workers=1)
    return root


@pytest.fixture(scope="module")
def whole(colours: Path) -> list[dict[str, Any]]:
    """Results of both workers in two whole epochs."""
    return [json.loads(text.splitlines()[-1]) for text in run_workers(2, [__file__, "whole"], colours)]


@pytest.fixture(scope="module")
def resumed(colours: Path, whole: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of two other processes, which resumed at step STOP."""
    assert whole
    return [json.loads(text.splitlines()[-1]) for text in run_workers(2, [__file__, "resumed"], colours)]


def steps_of_both(found: list[dict[str, Any]], name: str) -> list[list[int]]:
    return [first + second for first, second in zip(found[0][name], found[1][name], strict=True)]


def steps_of_one(colours: Path, start: int | str = 0) -> list[list[int]]:
    """The places that one process without a cluster draws, from `start` to the end of the second epoch."""
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    train = shardfeed.open(colours / "out")["train"]
    feed = distribute(
        strategy, train, batch_size=BATCH, transform=lambda features, seed: seed[1], order="global", seed=5
    ).at(start)
    batches = zip(feed.batches, range(2 * STEPS - feed.start_step), strict=False)
    return [batch.numpy().tolist() for batch, _ in batches]


@pytest.mark.promise(29)
@pytest.mark.long
def test_steps_are_those_of_one_process(colours: Path, whole: list[dict[str, Any]]) -> None:
    both = steps_of_both(whole, "places")
    assert len(both) == 2 * STEPS
    assert all(len(found) == BATCH // 2 for found in whole[0]["places"] + whole[1]["places"])
    assert both == steps_of_one(colours)


@pytest.mark.long
def test_workers_learn_the_same(whole: list[dict[str, Any]]) -> None:
    assert whole[0]["weights"] == whole[1]["weights"]
    assert whole[0]["losses"] == whole[1]["losses"]
    losses = whole[0]["losses"]
    assert np.mean(losses[STEPS:]) < 0.9 * np.mean(losses[:STEPS])


@pytest.mark.promise(29)
@pytest.mark.long
def test_evaluation_counts_each_sample_once(whole: list[dict[str, Any]]) -> None:
    for found in whole:
        assert found["counted"] == [VALIDATION, VALIDATION], "in each of two passes"
        assert len(found["evaluated"]) == 2 * found["evaluation steps"] == 2 * 2
        assert found["evaluation shapes"] == [[BATCH // 2]]
        assert found["iterated in a graph"] == VALIDATION
    both = steps_of_both(whole, "evaluated")
    assert sorted(both[0] + both[1]) == sorted(both[2] + both[3]) == list(range(VALIDATION))


@pytest.mark.long
def test_a_stream_of_one_shard_feeds_both(whole: list[dict[str, Any]]) -> None:
    both = steps_of_both(whole, "streamed")
    for epoch in (both[:STEPS], both[STEPS:]):
        numbers = [number for step in epoch for number in step]
        assert len(numbers) == len(set(numbers)) == STEPS * BATCH
    assert max(number for step in whole[0]["streamed"] for number in step) < TRAIN // 2
    assert min(number for step in whole[1]["streamed"] for number in step) >= TRAIN // 2


@pytest.mark.long
def test_resumed_as_if_never_stopped(whole: list[dict[str, Any]], resumed: list[dict[str, Any]]) -> None:
    for before, after in zip(whole, resumed, strict=True):
        assert after["places"] == before["places"][STOP:]
        assert after["weights at start"] != before["weights"]
        np.testing.assert_allclose(after["losses"], before["losses"][STOP:], rtol=1e-4)
        np.testing.assert_allclose(after["weights"], before["weights"], rtol=1e-3, atol=1e-5)
    assert resumed[0]["weights"] == resumed[1]["weights"]


@pytest.mark.long
def test_one_worker_goes_on_where_two_stopped(colours: Path, whole: list[dict[str, Any]]) -> None:
    state = (colours / "position.json").read_text()
    assert steps_of_one(colours, state) == steps_of_both(whole, "places")[STOP:]


@pytest.mark.long
def test_the_script_of_the_docs(tmp_path: Path) -> None:
    """One epoch on two workers; then from that checkpoint a second one, on two workers and on one."""
    (script,) = WORKER.findall(DOCS.read_text())
    assert script.count("EPOCHS, BATCH_SIZE = 2, 32 ") == 1
    source = ImageFolder(ROOT / "data_samples" / "shapes")
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    two, one = tmp_path / "two", tmp_path / "one"
    two.mkdir()
    convert(source, two / "shapes", split=shares, workers=1)
    (two / "worker.py").write_text(script.replace("EPOCHS, BATCH_SIZE = 2, 32 ", "EPOCHS, BATCH_SIZE = 1, 32 "))
    line = re.compile(r"step (\d+): loss (\d\.\d+), (\d+) of 24 right\n")

    first = run_workers(2, ["worker.py"], two)
    assert first[0] == first[1]
    assert [step for step, _, _ in line.findall(first[0])] == ["6"]
    (two / "worker.py").write_text(script)
    shutil.copytree(two, one)

    (second, other), (alone,) = run_workers(2, ["worker.py"], two), run_workers(1, ["worker.py"], one)
    assert second == other
    ((step, loss, _),), ((step_alone, loss_alone, _),) = line.findall(second), line.findall(alone)
    assert step == step_alone == "12"
    assert float(loss) == pytest.approx(float(loss_alone), abs=2e-4)


# --- What follows runs in each worker.


def run_worker(kind: str) -> dict[str, Any]:
    import keras
    import tensorflow as tf

    from shardfeed.pipelines import random_resized_crop
    from shardfeed.pipelines.tensorflow.evaluate import distribute_eval

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 2
    task = strategy.cluster_resolver.task_id
    data = shardfeed.open("out")
    crop = random_resized_crop(SIZE)

    def place(features: Any, seed: Any) -> Any:
        return seed[1]

    def image_label_place(features: Any, seed: Any) -> Any:
        return crop(features, seed), features["image/class/label"], seed[1]

    def local(value: Any) -> list[int]:
        (own,) = strategy.experimental_local_results(value)
        return own.numpy().tolist()

    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((SIZE, SIZE, 3)),
                keras.layers.Rescaling(1 / 255),
                keras.layers.Conv2D(8, 3, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(3),
            ]
        )
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(model.trainable_variables)
        # Typed for every backend of Keras, of which only one gives tensors.
        losses: Any = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)

    def weights() -> list[float]:
        return np.concatenate([np.ravel(value) for value in model.get_weights()]).tolist()

    @tf.function
    def train_step(batch: Any) -> Any:
        def replica_step(images: Any, labels: Any, _: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(losses(labels, model(images, training=True))) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    feed = distribute(strategy, data["train"], batch_size=BATCH, transform=image_label_place, order="global", seed=5)
    found: dict[str, Any] = {"places": [], "losses": []}
    if kind == "resumed":
        checkpoint.restore("checkpoint-0")
        feed = feed.at(Path("position.json").read_text())
        found["weights at start"] = weights()
    batches = iter(feed.batches)
    for step in range(feed.start_step, 2 * STEPS):
        if step == STOP and kind == "whole":
            checkpoint.write(f"checkpoint-{task}")
            if task == 0:
                Path("position.json").write_text(feed.position(step))
        batch = next(batches)
        found["losses"].append(float(train_step(batch)))
        found["places"].append(local(batch[2]))
    found["weights"] = weights()
    if kind == "resumed":
        return found

    shapes: list[list[int]] = []

    @tf.function
    def count(places: Any, mask: Any) -> Any:
        def replica_count(places: Any, mask: Any) -> Any:
            shapes.append(list(mask.shape))
            return tf.math.count_nonzero(mask)

        return strategy.reduce("SUM", strategy.run(replica_count, args=(places, mask)), axis=None)

    @tf.function
    def count_all(batches: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for _, mask in batches:
            total += strategy.reduce("SUM", strategy.run(tf.math.count_nonzero, args=(mask,)), axis=None)
        return total

    evaluation = distribute_eval(strategy, data["validation"], batch_size=BATCH, transform=place)
    found |= {"evaluation steps": evaluation.steps, "evaluation shapes": shapes, "evaluated": [], "counted": []}
    for _ in range(2):
        total = 0
        for places, mask in evaluation.batches:
            total += int(count(places, mask))
            kept = zip(local(places), local(mask), strict=True)
            found["evaluated"].append([number for number, real in kept if real])
        found["counted"].append(total)
    found["iterated in a graph"] = int(count_all(evaluation.batches))

    stream = distribute(strategy, data["train"], batch_size=BATCH, transform=place, order="stream", seed=5)
    found["streamed"] = [local(batch) for batch, _ in zip(stream.batches, range(2 * STEPS), strict=False)]
    return found


if __name__ == "__main__":
    print(json.dumps(run_worker(sys.argv[1])))
