"""What goes where: which split and shard each sample belongs to, decided before anything is written.

A plan is a pure function of the samples' keys, labels and sizes and of the options that change bytes. Every sample
draws two numbers from a keyed hash of its own key: one decides its split, one its place. So the
order is random and reproducible, independent of how the source lists, and adding files moves no other file
to another split.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.inputs import Inputs
from shardfeed.converters.planning.space import Forecast, make_forecast
from shardfeed.converters.planning.versions import made_by
from shardfeed.converters.signs import EVERY, tell
from shardfeed.converters.sources.source import Findings, Sample, Source, SourceFile, findings_of
from shardfeed.errors import UsageError, argument, escape
from shardfeed.naming import check_split_name
from shardfeed.schema import Schema, image_features
from shardfeed.text import in_usual_order

DEFAULT_SHARD_SIZE = 256_000_000  # bytes; long enough to read sequentially, short enough to redo after a crash


@dataclass(frozen=True)
class PlanOptions:
    """Every choice that changes the bytes of a dataset, besides the source itself.

    `fractions`: split name -> share in (0, 1], sum 1, for samples whose source names no split; None: all in "train".
    `shards`: number of shards of each split, or of each split by name; None: as many as `shard_size` asks for.
    `shard_size`: bytes a shard should hold, about: of source images, or of raw pixels where those have one size.
    `seed`: any integer; decides split by fraction and order. `sha256`: whether to store each source file's hash.
    """

    fractions: Mapping[str, float] | None = None
    shards: int | Mapping[str, int] | None = None
    shard_size: int = DEFAULT_SHARD_SIZE
    seed: int = 0
    sha256: bool = True
    image: ImageOptions = field(default_factory=ImageOptions)

    def __post_init__(self) -> None:
        fractions = {"train": 1.0} if self.fractions is None else self.fractions
        if not fractions:
            raise UsageError("split", "no split is named", "give for example train=0.9,validation=0.1")
        for name, share in fractions.items():
            check_split_name(name)
            if not 0 < share <= 1:
                raise UsageError(f"split {name}", f"got the share {share}, expected more than 0 and at most 1")
        if abs(sum(fractions.values()) - 1) > 1e-6:
            total = sum(fractions.values())
            raise UsageError("split", f"the shares add up to {total:g}, expected 1", "change one of them")
        counts = self.shards.values() if isinstance(self.shards, Mapping) else [self.shards]
        for count in counts:
            if count is not None and not 1 <= count <= 99_999:
                raise UsageError("shards", f"got {count}, expected 1 to 99999")
        if self.shard_size < 1:
            raise UsageError("shard_size", f"got {self.shard_size} bytes, expected at least 1")

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON value."""
        shards = dict(self.shards) if isinstance(self.shards, Mapping) else self.shards
        return {
            "split": None if self.fractions is None else dict(self.fractions),
            "shards": shards,
            "shard_size": self.shard_size,
            "seed": self.seed,
            "sha256": self.sha256,
            **self.image.to_json(),
        }


@dataclass(frozen=True)
class PlannedShard:
    """Shard `number` of `count` of a split: `samples` int64 [n], numbers of the source's samples in stored order.

    `first` is the place in the split, from 0, of its first sample.
    """

    split: str
    number: int
    count: int
    first: int
    samples: np.ndarray


@dataclass(frozen=True)
class Plan:
    """Where every sample goes. `shards` in order of split name, then number.

    `fingerprint`: of keys, sizes, labels and options, 32 hex digits; the same for a copy of the folder elsewhere.
    `source_bytes`: what the images take on disk, in bytes, as far as the source knows.
    `drawn`: whether the split of any sample was drawn, not named by the source. `findings`: the source's own.
    `forecast`: what the dataset will take on disk.
    `inputs`: what tells whether the samples are still those that were planned.
    `made_by`: versions of what will decide the bytes of its records.
    """

    schema: Schema
    options: PlanOptions
    shards: Sequence[PlannedShard]
    fingerprint: str
    source_bytes: int
    drawn: bool
    findings: Findings
    forecast: Forecast
    inputs: Inputs
    made_by: Mapping[str, str]

    def __len__(self) -> int:
        return sum(len(shard.samples) for shard in self.shards)

    def identity(self) -> dict[str, object]:
        """A JSON value of what must agree for a resume to give the same bytes."""
        return {
            "options": self.options.to_json(),
            "schema": self.schema.to_json(),
            "made_by": dict(self.made_by),
            "inputs": self.inputs.digest,
        }

    def split_sizes(self) -> dict[str, int]:
        """Samples planned for each split."""
        sizes: dict[str, int] = {}
        for shard in self.shards:
            sizes[shard.split] = sizes.get(shard.split, 0) + len(shard.samples)
        return sizes


def schema_of(source: Source, options: PlanOptions) -> Schema:
    """The schema of the records that `source` gives with `options`."""
    images = image_features(sha256=options.sha256)
    own = source.schema
    for key in own.features:
        if key in images:
            raise UsageError(
                f"source.schema.features[{key!r}]", "this key is written by the conversion itself", "rename it"
            )
    return Schema(images | dict(own.features), own.class_names).stated()


class Lots:
    """What a sample draws by its key, whatever the others: its place, and its split where the source names none."""

    def __init__(self, seed: int, fractions: Mapping[str, float]) -> None:
        self._secret = str(seed).encode()
        self._splits = in_usual_order(fractions)  # the same shares in another order are the same shares
        self._bounds = np.cumsum([fractions[name] for name in self._splits])[:-1].tolist()

    def draw(self, key: bytes) -> bytes:
        """16 bytes: 8 for the split, 8 for the place in it."""
        return hashlib.blake2b(key, digest_size=16, key=self._secret).digest()

    def split(self, draw: bytes) -> str:
        """The split that a sample with this draw falls into."""
        return self._splits[bisect_right(self._bounds, int.from_bytes(draw[:8], "little") / 2**64)]


def make_plan(source: Source, options: PlanOptions) -> Plan:
    """Look at every sample once and decide its place.

    Raises UsageError when it cannot be done, or when a package that `options` ask for is not installed.

    Memory: about 80 bytes a sample, and the length of its key, beside the source itself.
    """
    versions = made_by(options.image)
    count = len(source)
    if not count:
        raise UsageError("source", "it has no sample", "check where it looks for them")
    schema = schema_of(source, options)
    _check_cut(schema, options.image)
    draws_bytes, digests, inputs = bytearray(), bytearray(), Inputs()
    sizes = np.zeros(count, np.int64)
    split_of = np.zeros(count, np.int16)
    names: dict[str, int] = {}
    fractions = {"train": 1.0} if options.fractions is None else options.fractions
    lots = Lots(options.seed, fractions)
    drawn = False
    for i in range(count):
        if not i % EVERY:
            tell("planning", i, count)
        sample = source[i]
        draw = lots.draw(sample.key)
        size = _size(sample)
        split = sample.split
        if split is None:
            drawn = True
            split = lots.split(draw)
        draws_bytes += draw
        digest = _digest(sample, split, size)
        digests += digest
        # Not part of the fingerprint, which a copy of the folder shares.
        mtime = sample.image.mtime_ns if isinstance(sample.image, SourceFile) else 0
        inputs.add(sample.key, digest + mtime.to_bytes(8, "little", signed=True))
        sizes[i] = size
        split_of[i] = names.setdefault(split, len(names))
    tell("planning", count, count)
    for name in names:
        check_split_name(name)
    draws = np.frombuffer(draws_bytes, "<u8").reshape(count, 2)
    _check_unique(source, draws)
    shards: list[PlannedShard] = []
    for name in sorted(names):
        members = np.flatnonzero(split_of == names[name])
        order = members[np.argsort(draws[members, 1], kind="stable")]
        shards += _cut(name, order, _shard_count(name, len(order), _stored_size(sizes[order], options), options))
    if options.fractions is not None and not drawn:
        raise UsageError("split", f"the source names the split of every sample ({', '.join(names)})", "leave it out")
    for name in fractions:
        if drawn and name not in names:
            raise UsageError(f"split {name}", f"none of {count} samples falls into it", "give it a larger share")
    by_key = np.lexsort((draws[:, 0], draws[:, 1]))  # not by the source's own numbering
    content = hashlib.blake2b(np.frombuffer(digests, "V16")[by_key].tobytes(), digest_size=16)
    content.update(json.dumps([options.to_json(), schema.to_json()], sort_keys=True).encode())
    size = int(sizes.sum())
    forecast = make_forecast(source, len(shards), size, schema, options.image)
    return Plan(
        schema=schema,
        options=options,
        shards=shards,
        fingerprint=content.hexdigest(),
        source_bytes=size,
        drawn=drawn,
        findings=findings_of(source),
        forecast=forecast,
        inputs=inputs,
        made_by=versions,
    )


def _check_cut(schema: Schema, image: ImageOptions) -> None:
    """Raises UsageError where images are to be cut and features mean places in them."""
    places = schema.of_kind("place")
    if image.shape is not None and places:
        problem = f"the middle of each image is cut out, and {escape(places[0])} would mean other places"
        remedy = f"use {argument('resize_shorter')}, which cuts nothing, or leave that label out"
        raise UsageError("size", problem, remedy)


def _size(sample: Sample) -> int:
    if isinstance(sample.image, SourceFile):
        return sample.image.size
    return len(sample.image) if isinstance(sample.image, bytes) else 0


def _digest(sample: Sample, split: str, size: int) -> bytes:
    """16 bytes that differ when anything about the sample differs that shows in the output."""
    content = hashlib.blake2b(sample.image).digest() if isinstance(sample.image, bytes) else size
    labels = sorted(sample.features.items())
    return hashlib.blake2b(repr((sample.key, split, content, labels)).encode(), digest_size=16).digest()


def _check_unique(source: Source, draws: np.ndarray) -> None:
    order = np.lexsort((draws[:, 0], draws[:, 1]))
    twins = np.flatnonzero((draws[order[1:]] == draws[order[:-1]]).all(axis=1))
    if len(twins):
        first, second = sorted((int(order[twins[0]]), int(order[twins[0] + 1])))
        key = escape(source[first].key)
        raise UsageError(f"source[{second}]", f"has the key {key!r} of source[{first}]", "keys must be unique")


def _stored_size(sizes: np.ndarray, options: PlanOptions) -> int:
    """What images of `sizes` bytes will take, in bytes, as far as that is known before they are read."""
    shape = options.image.shape
    if options.image.encode == "raw" and shape is not None:
        return len(sizes) * shape[0] * shape[1] * 3
    return int(sizes.sum())


def _shard_count(split: str, records: int, size: int, options: PlanOptions) -> int:
    if isinstance(options.shards, Mapping):
        if split not in options.shards:
            raise UsageError("shards", f"says nothing about the split {split!r}", f"add {split}=N")
        wanted = options.shards[split]
    else:
        wanted = options.shards or -(-size // options.shard_size)
    return max(1, min(wanted, records))


def _cut(split: str, order: np.ndarray, count: int) -> list[PlannedShard]:
    """`count` consecutive pieces whose lengths differ by one at most, longer ones first."""
    pieces = np.array_split(order, count)
    starts = np.cumsum([0, *map(len, pieces)])
    return [PlannedShard(split, i, count, int(starts[i]), piece) for i, piece in enumerate(pieces)]
