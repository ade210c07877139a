"""Several workers and replicas: who gets what, for 1 to 4 workers and 1 to 7 shards, each worker's pipeline read.

One pipeline at a time: which worker it is for is what TensorFlow tells the dataset function, and told here. Real
workers are in test_multi_worker.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import Blocks, Feed, Global, distribute
from shardfeed.pipelines.orders.choices import OrderLike, OrderName
from shardfeed.pipelines.tensorflow.evaluate import EvalFeed, distribute_eval
from shardfeed.readers import Split

SAMPLES = 29
WORKERS = range(1, 5)
SHARDS = range(1, 8)


class Worker(tf.distribute.OneDeviceStrategy):
    """Builds the input pipeline of one of several workers as a dataset, as their strategy would."""

    def __init__(self, number: int, workers: int, replicas: int) -> None:
        super().__init__("CPU:0")
        self.context = tf.distribute.InputContext(workers, number, replicas)

    @property
    def cluster_resolver(self) -> tf.distribute.cluster_resolver.ClusterResolver:
        tasks = [f"worker{number}:1" for number in range(self.context.num_input_pipelines)]
        return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": tasks}))

    @property
    def num_replicas_in_sync(self) -> int:
        return self.context.num_replicas_in_sync

    def distribute_datasets_from_function(self, dataset_fn: Callable[..., Any], options: Any = None) -> Any:
        return dataset_fn(self.context)


def place(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
    """A sample's place in its split, nothing decoded."""
    return seed[1]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Split]:
    """The same samples in 1 to 7 shards. Classes of 24 and 5."""
    root = tmp_path_factory.mktemp("shares")
    for number in range(SAMPLES):
        folder = root / "images" / ("rare" if number < 5 else "usual")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number * 8, 0, 0)).save(folder / f"{number:02d}.jpg")
    found = {}
    for shards in SHARDS:
        out = root / str(shards)
        convert(ImageFolder(root / "images"), out, shards={"train": shards}, workers=1)
        found[shards] = shardfeed.open(out)["train"]
        assert len(found[shards].shard_slices()) == shards
    return found


def replica_batches(batches: Any, steps: int, replicas: int) -> list[list[Any]]:
    """By step, the batches of a pipeline's `replicas` replicas."""
    found = list(batches.take(steps * replicas).as_numpy_iterator())
    assert len(found) == steps * replicas
    return [found[start : start + replicas] for start in range(0, len(found), replicas)]


def train_steps(split: Split, workers: int, per_worker: int, steps: int, start: int = 0, **options: Any) -> np.ndarray:
    """The places of the samples, int64 [steps, workers, replicas of a worker, samples of a replica]."""
    by_worker = []
    for number in range(workers):
        replicas = workers * per_worker
        worker = Worker(number, workers, replicas)
        options = {"batch_size": 2 * replicas, "transform": place, "workers": 1, "seed": 3} | options
        feed = distribute(worker, split, **options).at(start)
        assert isinstance(feed, Feed)
        by_worker.append(replica_batches(feed.batches, steps, per_worker))
    return np.array(by_worker).swapaxes(0, 1)


@pytest.mark.promise(29)
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.long
def test_evaluation_sees_each_sample_once(splits: dict[int, Split], workers: int, shards: int) -> None:
    per_worker = 1 + (workers + shards) % 2
    replicas = workers * per_worker
    size = 1 + shards % 3  # of a replica's batch
    split = splits[shards]
    if shards == 3:
        split = split[9:]  # the rest of a shard, and two more
    if shards == 7:
        split = split[4:5]  # fewer samples than replicas
    seen: list[int] = []
    for number in range(workers):
        feed = distribute_eval(
            Worker(number, workers, replicas), split, batch_size=size * replicas, transform=place, workers=1
        )
        assert isinstance(feed, EvalFeed)
        assert isinstance(feed.batches, tf.data.Dataset)
        assert feed.steps == -(-len(split) // (size * replicas))
        assert feed.batches.cardinality() == feed.steps * per_worker
        assert feed.batches.element_spec == (tf.TensorSpec([size], tf.int64), tf.TensorSpec([size], tf.bool))
        for step in replica_batches(feed.batches, feed.steps, per_worker):
            for places, mask in step:
                seen += places[mask].tolist()
                assert set(places) <= set(split.places(np.arange(len(split)))), "what fills up is a real sample"
    assert sorted(seen) == split.places(np.arange(len(split))).tolist()


@pytest.mark.promise(29)
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.long
def test_the_stream_is_cut_by_samples(splits: dict[int, Split], workers: int, shards: int) -> None:
    per_worker = 1 + (workers + shards) % 2
    split = splits[shards]
    steps = SAMPLES // (2 * workers * per_worker)
    found = train_steps(split, workers, per_worker, 2 * steps, order="stream")
    parts = [SAMPLES * number // workers for number in range(workers + 1)]
    for epoch in (found[:steps], found[steps:]):
        assert len(set(epoch.ravel())) == epoch.size, "no sample twice in an epoch"
        for number in range(workers):
            own = epoch[:, number]
            assert parts[number] <= own.min() <= own.max() < parts[number + 1]
    for number in range(workers):
        assert found[:steps, number].tolist() != found[steps:, number].tolist(), "epochs differ"


@pytest.mark.long
def test_the_grid_has_what_is_difficult(splits: dict[int, Split]) -> None:
    # Shards are cut between two workers, and there are more workers than shards.
    for shards in (1, 2, 7):
        starts = {piece.first for piece in splits[shards].shard_slices()}
        assert SAMPLES * 2 // 3 not in starts
    assert max(WORKERS) > min(SHARDS)
    assert all(SAMPLES % (2 * workers) for workers in WORKERS)


@pytest.mark.promise(29)
@pytest.mark.parametrize("order", ["global", Blocks(buffer=12), Global(balance="class")], ids=str)
@pytest.mark.parametrize(
    ("workers", "per_worker"),
    [(1, 2), (2, 2), (3, 1), *(pytest.param(*more, marks=pytest.mark.long) for more in ((2, 1), (4, 2)))],
)
def test_workers_share_the_steps_of_one(
    splits: dict[int, Split], workers: int, per_worker: int, order: OrderLike
) -> None:
    batch_size = 2 * workers * per_worker
    steps = SAMPLES // batch_size
    found = train_steps(splits[3], workers, per_worker, 2 * steps, order=order)
    alone = train_steps(splits[3], 1, 1, 2 * steps, batch_size=batch_size, order=order)
    assert found.reshape(2 * steps, -1).tolist() == alone.reshape(2 * steps, -1).tolist()
    if order != Global(balance="class"):
        for epoch in (found[:steps], found[steps:]):
            assert len(set(epoch.ravel())) == epoch.size
    else:
        rare = splits[3].column("image/class/label") == 0
        assert (np.abs(rare[found].sum(axis=(1, 2, 3)) - batch_size / 2) < 1).all()


@pytest.mark.long
@pytest.mark.parametrize("order", ["stream", "global"])
def test_each_worker_starts_anywhere(splits: dict[int, Split], order: OrderName) -> None:
    steps = SAMPLES // 6
    whole = train_steps(splits[2], 3, 1, 2 * steps, order=order)
    for start in (1, steps - 1, steps, steps + 2):
        rest = train_steps(splits[2], 3, 1, 2 * steps - start, start, order=order)
        assert rest.tolist() == whole[start:].tolist()


def test_a_position_is_for_any_number_of_workers(splits: dict[int, Split]) -> None:
    def feed(number: int, workers: int) -> Feed:
        return distribute(
            Worker(number, workers, workers), splits[5], batch_size=12, transform=place, order="global", workers=1
        )

    state = feed(0, 1).position(3)

    def resumed(workers: int) -> list[np.ndarray]:
        feeds = [feed(number, workers).at(state) for number in range(workers)]
        return [np.array(replica_batches(feed.batches, 2, 1))[:, 0] for feed in feeds]

    (alone,) = resumed(1)
    for workers in (2, 3, 4):
        assert np.concatenate(resumed(workers), axis=1).tolist() == alone.tolist()


def test_workers_with_other_numbers_of_replicas_are_refused(splits: dict[int, Split]) -> None:
    with pytest.raises(UsageError, match="strategy: got 3 replicas on 2 workers"):
        _ = distribute(Worker(0, 2, 3), splits[1], batch_size=6, transform=place).batches
    with pytest.raises(UsageError, match="strategy: got 3 replicas on 2 workers"):
        distribute_eval(Worker(0, 2, 3), splits[1], batch_size=6, transform=place)
