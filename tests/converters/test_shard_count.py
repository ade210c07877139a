"""How many shards a dataset has: all cores have work, no shard is a crumb, and the machine has no say."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.converters.planning.space import asked, shard_counts, too_few_images
from shardfeed.errors import UsageError

MB = 10**6


@pytest.mark.parametrize(
    ("images", "size", "shards"),
    [
        (1, 3 * MB, 1),
        (240, 347_600, 1),
        (600, 30 * MB, 3),
        (1_000, 100 * MB, 12),  # photos of 100 kB
        (2_000, 4 * MB, 3),
        (12_000, 24 * MB, 16),  # icons
        (300_000, 600 * MB, 16),
        (40_000, 4_096 * MB, 16),
        (40_000, 4_097 * MB, 17),
        (1_281_167, 150_000 * MB, 586),
        (100_000, 0, 16),  # of sizes that no one knows
    ],
)
def test_shards_of_one_split(images: int, size: int, shards: int) -> None:
    assert shard_counts({"train": images}, {"train": size}, None, None) == {"train": shards}


def test_splits_share_the_shards_by_their_images() -> None:
    images = {"test": 1_200, "train": 10_800}
    assert shard_counts(images, {"test": 3 * MB, "train": 21 * MB}, None, None) == {"test": 2, "train": 14}
    assert shard_counts({"a": 10, "b": 9_990}, {"a": 1, "b": 1}, None, None) == {"a": 1, "b": 16}


def test_what_is_asked_for_decides() -> None:
    images, stored = {"a": 1_000, "b": 10}, {"a": 100 * MB, "b": MB}
    assert shard_counts(images, stored, 5, None) == {"a": 5, "b": 5}
    assert shard_counts(images, stored, {"a": 2, "b": 30}, 7) == {"a": 2, "b": 10}
    assert shard_counts(images, stored, None, 30 * MB) == {"a": 4, "b": 1}
    assert shard_counts(images, stored, None, 256 * MB) == {"a": 1, "b": 1}


def test_fewer_images_than_shards_are_said() -> None:
    images = {"a": 2, "b": 1, "c": 9}
    assert list(too_few_images(images, 5)) == [
        "split a has 2 images, so it gets 2 shards instead of 5",
        "split b has 1 image, so it gets 1 shard instead of 5",
    ]
    assert list(too_few_images(images, {"a": 2, "b": 1, "c": 9})) == list(too_few_images(images, None)) == []
    with pytest.raises(UsageError, match="has no value for the split 'c'"):
        asked(images, {"a": 1, "b": 1})


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(1, 10**7), st.integers(0, 10**12)), min_size=1))
def test_any_dataset(splits: Mapping[str, tuple[int, int]]) -> None:
    images = {name: count for name, (count, _) in splits.items()}
    stored = {name: size for name, (_, size) in splits.items()}
    counts = shard_counts(images, stored, None, None)
    assert list(counts) == list(images)
    total, size = sum(images.values()), sum(stored.values())
    worthwhile = max(size // (8 * MB), total // 512)
    assert sum(counts.values()) >= min(16, worthwhile, total)
    for name, count in counts.items():
        assert 1 <= count <= images[name]
        assert count == images[name] or stored[name] <= count * 256 * MB
        # A crumb only where a split is one, or where 256 MB are too much.
        assert count <= max(1, -(-16 * images[name] // total), -(-stored[name] // (256 * MB)))
