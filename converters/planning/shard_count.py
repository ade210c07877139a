"""How many shards each split gets: a function of the samples and the options alone, whatever machine converts them."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.split_shares import largest_remainders
from shardfeed.errors import UsageError

MOST_BYTES = 256_000_000  # of a shard: long enough to read sequentially, short enough to redo after a crash
# A shard is what one process works at, so a small dataset has several too: enough for the cores of most machines, but
# none so small that opening, syncing and listing it costs more than it brings. One that is large enough has MOST_BYTES.
_LEAST_SHARDS = 16
_WORTHWHILE_BYTES = 8_000_000
_WORTHWHILE_IMAGES = 512


def shard_counts(
    images: Mapping[str, int],
    stored: Mapping[str, int],
    shards: int | Mapping[str, int] | None,
    shard_size: int | None,
) -> dict[str, int]:
    """The number of shards of each split.

    A shard has 256 MB at most. A dataset has 16 shards at least, shared out to its splits by their images, as long as
    each has 8 MB or 512 images.

    Args:
        images: number of each split's images.
        stored: bytes that they will take, as far as that is known.
        shards: of each split, or by split; decides alone where it is given.
        shard_size: bytes a shard should hold; else decides alone where it is given.
    """
    if shards is not None:
        wanted = asked(images, shards)
    elif shard_size is not None:
        wanted = {split: -(-size // shard_size) for split, size in stored.items()}
    else:
        least = _least(images, stored)
        wanted = {split: max(least[split], -(-size // MOST_BYTES)) for split, size in stored.items()}
    return {split: max(1, min(wanted[split], count)) for split, count in images.items()}


def asked(images: Mapping[str, int], shards: int | Mapping[str, int]) -> dict[str, int]:
    """The number of shards of each split that `shards` asks for. Raises UsageError where it leaves a split out."""
    if not isinstance(shards, Mapping):
        return dict.fromkeys(images, shards)
    for split in images:
        if split not in shards:
            raise UsageError("shards", f"says nothing about the split {split!r}", f"add {split}=N")
    return {split: shards[split] for split in images}


def too_few_images(images: Mapping[str, int], shards: int | Mapping[str, int] | None) -> Iterator[str]:
    """A sentence for each split that has fewer images than it was to have shards."""
    for split, wanted in asked(images, shards).items() if shards is not None else ():
        if wanted > images[split]:
            has = "1 image, and so 1 shard" if images[split] == 1 else f"{images[split]:,} images, and as many shards"
            yield f"split {split} has {has}: {wanted:,} were asked for"


def _least(images: Mapping[str, int], stored: Mapping[str, int]) -> dict[str, int]:
    """Shards of each split so that all cores have work."""
    count = sum(images.values())
    worthwhile = max(sum(stored.values()) // _WORTHWHILE_BYTES, count // _WORTHWHILE_IMAGES)
    shares = [Fraction(of_split, count) for of_split in images.values()]
    return dict(zip(images, largest_remainders(min(_LEAST_SHARDS, worthwhile), shares), strict=True))


def stored_size(sizes: np.ndarray, options: PlanOptions) -> int:
    """What images of `sizes` bytes will take, in bytes, as far as that is known before they are read."""
    shape = options.image.shape
    if options.image.encode == "raw" and shape is not None:
        return len(sizes) * shape[0] * shape[1] * 3
    return int(sizes.sum())
