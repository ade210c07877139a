"""Forecast of the disk space of a dataset, made before the first image is converted: hours later is too late."""

import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from shardfeed.annotations import RASTER, RASTER_FORMAT
from shardfeed.column import column_keys
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.split_shares import largest_remainders
from shardfeed.converters.sources.foreign import FaultyImage
from shardfeed.converters.sources.reading import checked_values, own_features, read_image
from shardfeed.converters.sources.source import FinishedRecord, Sample, Source
from shardfeed.errors import SpaceWarning, StorageError, UsageError, escape
from shardfeed.formats.registry import NATIVE
from shardfeed.naming import is_shard
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, RESTARTS, SHA256, SOURCE_ID, WIDTH, Schema, Value
from shardfeed.split_words import renamed_splits
from shardfeed.storage.local import free_space
from shardfeed.storage.storage import LOCAL, sizes_by_name
from shardfeed.text import number
from shardfeed.user_warnings import warn_user

MOST_BYTES = 256_000_000  # of a shard: long enough to read sequentially, short enough to redo after a crash
# A shard is what one process works at, so a small dataset has several too: enough for the cores of most machines, but
# none so small that opening, syncing and listing it costs more than it brings. One that is large enough has MOST_BYTES.
_LEAST_SHARDS = 16
_WORTHWHILE_BYTES = 8_000_000
_WORTHWHILE_IMAGES = 512


def shard_counts(
    images: Mapping[str, int], stored: Mapping[str, int], shards: int | Mapping[str, int] | None, shard_size: int | None
) -> dict[str, int]:
    """The number of shards of each split.

    A shard has 256 MB at most. A dataset has at least 16 shards, divided among its splits by their images, as long as
    each has at least 8 MB or at least 512 images.

    Args:
        images: number of each split's images.
        stored: bytes that they will take, if known.
        shards: number for each split, or by split; takes precedence.
        shard_size: bytes per shard; takes precedence if `shards` is None.
    """
    if shards is not None:
        wanted = asked(images, shards)
    elif shard_size is not None:
        wanted = {split: -(-size // shard_size) for split, size in stored.items()}
    else:
        count = sum(images.values())  # shards of each split so that all cores have work
        worthwhile = max(sum(stored.values()) // _WORTHWHILE_BYTES, count // _WORTHWHILE_IMAGES)
        shares = [Fraction(of_split, count) for of_split in images.values()]
        least = dict(zip(images, largest_remainders(min(_LEAST_SHARDS, worthwhile), shares), strict=True))
        wanted = {split: max(least[split], -(-size // MOST_BYTES)) for split, size in stored.items()}
    return {split: max(1, min(wanted[split], count)) for split, count in images.items()}


def asked(images: Mapping[str, int], shards: int | Mapping[str, int]) -> dict[str, int]:
    """The number of shards of each split as set by `shards`. Raises UsageError unless it names just these splits."""
    if not isinstance(shards, Mapping):
        return dict.fromkeys(images, shards)
    names = renamed_splits(shards, images)
    if unknown := [given for given, split in names.items() if split not in images]:
        raise UsageError("shards", f"got the split {unknown[0]!r}, expected {' and '.join(map(repr, images))}")
    wanted = {names[given]: count for given, count in shards.items()}
    for split in images:
        if split not in wanted:
            raise UsageError("shards", f"has no value for the split {split!r}", f"add {split}=N")
    return {split: wanted[split] for split in images}


def too_few_images(images: Mapping[str, int], shards: int | Mapping[str, int] | None) -> Iterator[str]:
    """A sentence for each split that has fewer images than it was to have shards."""
    for split, wanted in asked(images, shards).items() if shards is not None else ():
        if wanted > images[split]:
            has, gets = number(images[split], "image"), number(images[split], "shard")
            yield f"split {split} has {has}, so it gets {gets} instead of {wanted:,}"


def stored_size(images: int, size: int, options: PlanOptions) -> int:
    """Estimated size of the stored images, in bytes, if the source images have `size` bytes in total."""
    shape = options.image.shape
    if options.image.encode == "raw" and shape is not None:
        return images * shape[0] * shape[1] * 3
    return size


_NUMBER_BYTES = 8  # of a number in a column, or of where a value of bytes ends
_LINE_BYTES = 64  # of a record stored unchanged: its frame, its line in the index and its values in columns
_LOOKED_AT = 200  # images with headers read for an estimate; their mean is a few percent off
_FILES_A_SHARD = 3  # records, index, receipt
_MORE_FILES = 64  # directories, manifest, sidecars, the columns of a few splits, a temporary file


class Forecast(NamedTuple):
    """Disk space that `images` in `shards` will take: `size` bytes, indexes and columns included.

    `size` is None if images are re-encoded.

    `pixels`: bytes of raw pixels in it, height * width * 3 per image; None if files are stored, or if no image's size
    is known. `exact`: whether `size` is a lower bound, because all images have the same size in pixels. Otherwise both
    are estimates, and off by a few percent; more if files are not stored unchanged, or if the source makes images
    itself.
    """

    images: int
    shards: int
    size: int | None
    pixels: int | None
    exact: bool


def make_forecast(source: Source, shards: int, source_bytes: int, schema: Schema, image: ImageOptions) -> Forecast:
    """Forecast for the images of `source`, of `source_bytes` in all; for raw pixels up to 200 of them are read."""
    images, first = len(source), source[0]
    exact = image.encode == "raw" and image.shape is not None
    pixels = content = _pixels(source, image) if image.encode == "raw" else None
    if image.encode != "raw" and not (image.shape or image.resize_shorter or image.quality):
        content = source_bytes or None
    known_later = isinstance(first.image, FinishedRecord | FaultyImage)
    beside = _LINE_BYTES if known_later else _beside(first, schema)
    size = None if content is None else content + images * beside
    return Forecast(images, shards, size, pixels, exact)


def _pixels(source: Source, image: ImageOptions) -> int | None:
    """Bytes of the raw pixels of all images; None if no image has a known size."""
    if image.shape is not None:
        return len(source) * image.shape[0] * image.shape[1] * 3
    from shardfeed.converters.images.store import raw_size  # not above: it loads Pillow's decoders

    looked_at = [source[i] for i in range(0, len(source), -(-len(source) // _LOOKED_AT))]
    sizes = [size for sample in looked_at if (size := raw_size(partial(read_image, sample), image)) is not None]
    return round(len(source) * sum(sizes) / len(sizes)) if sizes else None


def _beside(sample: Sample, schema: Schema) -> int:
    """Bytes of a record that are not its image, of its line in the index, and of its values in columns.

    Those are there twice in the end: with the receipts of shards, which go when all is done, and in their files.
    """
    known: dict[str, Value] = {ENCODED: b"", FORMAT: b"jpeg", HEIGHT: 1, WIDTH: 1, FILENAME: sample.key}
    known |= {RESTARTS: bytes(128), SOURCE_ID: b"0", SHA256: bytes(64)}
    known |= {RASTER: b"", RASTER_FORMAT: b"png"}  # masks are with the images
    objects: dict[str, Value] = {key: [] for key in schema.object_keys}  # too few bytes to look for
    values = {**known, **objects, **checked_values(sample, own_features(schema))}
    record = NATIVE.encoder(schema.features)({key: values[key] for key in schema.features})
    columns = [values[key] for key in column_keys("train", schema)]
    in_columns = sum(_NUMBER_BYTES + (len(value) if isinstance(value, bytes) else 0) for value in columns)
    return sum(map(len, record)) + len("0 0\n") + 2 * in_columns


def check_space(forecast: Forecast, out: str, begun: str) -> None:
    """Warn with SpaceWarning where the disk of `out` seems to have too little room, for bytes or for files.

    `begun`: the directory in which an earlier run may have finished shards, which are there already. Raises
    StorageError where `forecast` is exact: then the end is certain.
    """
    where = os.path.dirname(out)
    free, finished = free_space(where), _finished(begun)
    needed = 0 if forecast.size is None else forecast.size - sum(finished)
    files = _FILES_A_SHARD * (forecast.shards - len(finished)) + _MORE_FILES
    if needed > free.size:
        problem = f"{forecast.images} images need {needed} bytes of disk, {free.size} are free in {escape(where)}"
        if forecast.exact:
            raise StorageError(out, problem, "free some, choose a smaller size, or store files instead of raw pixels")
        warn_user(f"{escape(out)}: by a forecast {problem}", SpaceWarning)
    elif free.files is not None and files > free.files:
        problem = f"{files} files are needed, {free.files} (inodes) are free in {escape(where)}"
        warn_user(f"{escape(out)}: {problem}", SpaceWarning)


def _finished(directory: str) -> list[int]:
    """The bytes of each shard that has its final name."""
    try:
        below = [entry.name for entry in LOCAL.entries(directory) if entry.size < 0]
        return [size for name, size in sizes_by_name(LOCAL, directory, below).items() if is_shard(name)]
    except OSError:
        return []
