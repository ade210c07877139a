import numpy as np
import pytest
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines import eval_batches, make_batches, random_resized_crop, resize_center_crop
from shardfeed.pipelines.orders.order import StoredOrder
from shardfeed.pipelines.tensorflow.evaluate import distribute_eval, last_batches
from shardfeed.readers import Dataset, Split
from shardfeed.schema import LABEL


@pytest.fixture(scope="module")
def split(flowers: Dataset) -> Split:
    return flowers["validation"]


def test_every_sample_once_in_stored_order(split: Split) -> None:
    dataset = eval_batches(split, batch_size=16, image_size=(20, 24))
    assert dataset.element_spec == (tf.TensorSpec([None, 20, 24, 3], tf.uint8), tf.TensorSpec([None], tf.int64))
    assert len(split) % 16
    for _ in range(2):
        batches = list(dataset.as_numpy_iterator())
        assert len(batches) == dataset.cardinality() == -(-len(split) // 16)
        assert [len(images) for images, _ in batches][:-1] == [16] * (len(batches) - 1)
        labels = np.concatenate([labels for _, labels in batches])
        assert labels.tolist() == [sample[LABEL] for sample in split]


def test_images_are_center_crops(split: Split) -> None:
    crop = resize_center_crop(16)
    general = make_batches(split, crop, batch_size=len(split), order="stored")
    (expected,) = general.as_numpy_iterator()
    found = [images for images, _ in eval_batches(split, batch_size=9, image_size=16).as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("replicas", [2, 3, 4])
@pytest.mark.long
def test_shared_batches_hold_the_same_samples(split: Split, replicas: int) -> None:
    for size in (replicas, 6 * replicas, 60):
        plain = eval_batches(split, batch_size=size, image_size=8)
        shared = eval_batches(split, batch_size=size, image_size=8, replicas=replicas)
        batches = list(shared.as_numpy_iterator())
        assert shared.cardinality() == len(batches)
        for part in (0, 1):
            np.testing.assert_array_equal(
                np.concatenate([batch[part] for batch in batches]),
                np.concatenate([batch[part] for batch in plain.as_numpy_iterator()]),
            )


def pieces(batch: int, replicas: int) -> list[int]:
    """How tf.distribute cuts a batch: see its `_LegacyRebatchDataset`."""
    piece = -(-batch // replicas)
    return [min(piece, max(0, batch - i * piece)) for i in range(replicas)]


def suit(batches: list[int], replicas: int) -> bool:
    """Whether all replicas get samples of each batch, and as many of the first one."""
    return len(set(pieces(batches[0], replicas))) == 1 and all(0 not in pieces(size, replicas) for size in batches)


@pytest.mark.parametrize("replicas", range(2, 9))
def test_last_batches(replicas: int) -> None:
    for batch_size in range(replicas, 12 * replicas, replicas):
        for samples in range(replicas, 4 * batch_size + 1):
            sizes = last_batches(samples, batch_size, replicas)
            assert len(sizes) <= 2
            assert all(0 < size <= batch_size for size in sizes)
            full, left = divmod(samples - sum(sizes), batch_size)
            assert left == 0
            batches = [batch_size] * full + sizes
            assert len(set(pieces(batches[0], replicas))) == 1
            assert suit(batches[:-1] or [replicas], replicas), "only the last batch may leave out replicas"
            if not suit(batches, replicas):  # then no other two would do
                for last in range(1, batch_size):
                    before = sum(sizes) - last if len(sizes) == 2 else sum(sizes) + batch_size - last
                    assert not (0 < before <= batch_size and suit([batch_size] * (full - 1) + [before, last], replicas))
            if samples % batch_size % replicas == 0:
                assert sizes == ([samples % batch_size] if samples % batch_size else [])


def test_two_replicas_can_share_nearly_always() -> None:
    for batch_size in range(4, 40, 2):
        for samples in range(2, 200):
            batches = [batch_size] * (samples // batch_size) + last_batches(samples, batch_size, 2)
            assert 0 not in pieces(batches[-1], 2) or samples == 3, (samples, batch_size)


def test_bad_arguments(split: Split) -> None:
    with pytest.raises(UsageError, match="batch_size: got 9, expected a multiple of the 2 replicas; use 8 or 10"):
        eval_batches(split, batch_size=9, image_size=8, replicas=2)
    with pytest.raises(UsageError, match="batch_size: got 1, expected a multiple of the 4 replicas; use 4"):
        eval_batches(split, batch_size=1, image_size=8, replicas=4)
    with pytest.raises(UsageError, match="replicas: got 4, expected at most 3"):
        eval_batches(split[:3], batch_size=4, image_size=8, replicas=4)
    with pytest.raises(UsageError, match="replicas: got 0"):
        eval_batches(split, batch_size=4, image_size=8, replicas=0)
    with pytest.raises(UsageError, match="it has no samples"):
        eval_batches(split[:0], batch_size=4, image_size=8)


ONE = tf.distribute.get_strategy()  # of one replica; several are in test_shares.py


def test_a_stored_epoch_may_start_again() -> None:
    for samples in range(1, 20):
        for batch_size in range(1, 12):
            steps = -(-samples // batch_size)
            order = StoredOrder("", samples, batch_size, steps * batch_size, 0)
            drawn = order.draw(0, np.arange(order.epoch_samples))
            assert order.steps_per_epoch == steps
            assert drawn.indices[drawn.passes == 0].tolist() == list(range(samples))
            assert drawn.indices.max() < samples
            again = order.draw(1, np.arange(order.epoch_samples))
            assert again.indices.tolist() == drawn.indices.tolist()
            assert again.passes.min() > drawn.passes.max()


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 9, 16, 100])
def test_under_the_mask_is_each_sample_once(split: Split, batch_size: int) -> None:
    feed = distribute_eval(ONE, split, batch_size=batch_size, image_size=(20, 24))
    assert feed.batches.element_spec == (
        tf.TensorSpec([batch_size, 20, 24, 3], tf.uint8),
        tf.TensorSpec([batch_size], tf.int64),
        tf.TensorSpec([batch_size], tf.bool),
    )
    assert isinstance(feed.batches, tf.data.Dataset)
    plain = list(eval_batches(split, batch_size=batch_size, image_size=(20, 24)).as_numpy_iterator())
    passes = [list(feed.batches.as_numpy_iterator()) for _ in range(2)]
    for batches in passes:
        assert len(batches) == feed.steps == len(plain)
        for part in (0, 1):
            np.testing.assert_array_equal(
                np.concatenate([batch[part][batch[2]] for batch in batches]),
                np.concatenate([batch[part] for batch in plain]),
            )
    filled = feed.steps * batch_size - len(split)
    first, (images, labels, mask) = passes[0][0], passes[1][-1]
    assert mask.tolist() == [True] * (batch_size - filled) + [False] * filled
    if batch_size < len(split):
        np.testing.assert_array_equal(images[~mask], first[0][:filled])
        np.testing.assert_array_equal(labels[~mask], first[1][:filled])


def test_a_transform_gets_the_seeds_it_gets_elsewhere(split: Split) -> None:
    crop = random_resized_crop(12)
    (expected,) = make_batches(split[:7], crop, batch_size=7, order="stored").as_numpy_iterator()
    feed = distribute_eval(ONE, split[:7], batch_size=4, transform=crop)
    found = [images[mask] for images, mask in feed.batches.as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(found), expected)


def test_fewer_samples_than_the_batch(split: Split) -> None:
    chosen = split.select([5])
    feed = distribute_eval(ONE, chosen, batch_size=4, transform=lambda features, seed: features["image/filename"])
    ((names, mask),) = feed.batches.as_numpy_iterator()
    assert names.tolist() == [split[5]["image/filename"]] * 4
    assert mask.tolist() == [True, False, False, False]


def test_ragged_features_are_padded(split: Split) -> None:
    def some(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        return tf.range(tf.math.floormod(seed[1], 3))

    feed = distribute_eval(ONE, split[:4], batch_size=3, transform=some, pad=-1)
    values = [values.tolist() for values, _ in feed.batches.as_numpy_iterator()]
    assert values == [[[-1, -1], [0, -1], [0, 1]], [[-1], [-1], [0]]]
    with pytest.raises(UsageError, match="transform: got a component of shape"):
        distribute_eval(ONE, split[:4], batch_size=3, transform=some)


def test_bad_arguments_of_distribute_eval(split: Split) -> None:
    with pytest.raises(UsageError, match="image_size, transform: expected exactly one of them"):
        distribute_eval(ONE, split, batch_size=4)
    with pytest.raises(UsageError, match="it has no samples"):
        distribute_eval(ONE, split[:0], batch_size=4, image_size=8)
