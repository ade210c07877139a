import numpy as np
import pytest
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines import eval_batches, make_batches, resize_center_crop
from shardfeed.pipelines.evaluation import last_batches
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
    with pytest.raises(UsageError, match=r"label: got 'x'.*'image/class/label'"):
        eval_batches(split, batch_size=4, image_size=8, label="x")
    with pytest.raises(UsageError, match="image_size: got 0"):
        eval_batches(split, batch_size=4, image_size=0)
