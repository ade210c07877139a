"""What goes where: which split and shard each sample belongs to, decided before anything is written.

A plan is a pure function of the samples' keys, labels and sizes and of the options that change bytes. Every sample
draws two numbers from a keyed hash of its own key: one for its split, one for its place. So the order is random and
reproducible, independent of how the source lists, and adding files moves few others to another split.
"""

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.inputs import Inputs
from shardfeed.converters.planning.shard_count import shard_counts, too_few_images
from shardfeed.converters.planning.space import Forecast, make_forecast
from shardfeed.converters.planning.split_shares import SPLIT_BY, SplitBy, draw_splits
from shardfeed.converters.planning.versions import made_by
from shardfeed.converters.signs import EVERY, tell
from shardfeed.converters.sources.source import Findings, Sample, Source, SourceFile, findings_of
from shardfeed.errors import UsageError, argument, escape
from shardfeed.naming import check_split_name
from shardfeed.schema import LABEL, OBJECT_AREA, Schema, image_features
from shardfeed.text import in_usual_order


@dataclass(frozen=True)
class PlanOptions:
    """Every choice that changes the bytes of a dataset, besides the source itself.

    `fractions`: split name -> share in (0, 1], sum 1, for samples whose source names no split; None: all in "train".
    `shards`: number of shards of each split, or of each split by name; None: as many as `shard_size` asks for.
    `shard_size`: bytes a shard should hold, about: of source images, or of raw pixels where those have one size; None:
    256 MB at most, and less where a dataset would have fewer than 16 shards (see shard_count.py).
    `seed`: any integer; decides split by fraction and order. `sha256`: whether to store each source file's hash.
    `split_by`: "exact", shares to the image, in each class too, or "hash", each sample's by its own key alone.
    """

    fractions: Mapping[str, float] | None = None
    shards: int | Mapping[str, int] | None = None
    shard_size: int | None = None
    seed: int = 0
    sha256: bool = True
    image: ImageOptions = field(default_factory=ImageOptions)
    split_by: SplitBy = "exact"

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
        if self.shard_size is not None and self.shard_size < 1:
            raise UsageError("shard_size", f"got {self.shard_size} bytes, expected at least 1")
        if self.split_by not in SPLIT_BY:
            raise UsageError("split_by", f"got {self.split_by!r}, expected {' or '.join(map(repr, SPLIT_BY))}")

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON value."""
        shards = dict(self.shards) if isinstance(self.shards, Mapping) else self.shards
        return {
            "split": self.fractions and {name: self.fractions[name] for name in in_usual_order(self.fractions)},
            "split_by": self.fractions and self.split_by,
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
    `class_counts[split][v]`: samples whose first label is `v`; empty where the source has no such label.
    `notes`: sentences about what was planned otherwise than asked. `forecast`: what the dataset will take on disk.
    `inputs`: what tells whether the samples are still those that were planned.
    `made_by`: versions of what will decide the bytes of its records.
    """

    schema: Schema
    options: PlanOptions
    shards: Sequence[PlannedShard]
    fingerprint: str
    source_bytes: int
    drawn: bool
    class_counts: Mapping[str, tuple[int, ...]]
    notes: Sequence[str]
    findings: Findings
    forecast: Forecast
    inputs: Inputs
    made_by: Mapping[str, str]

    def __len__(self) -> int:
        return sum(len(shard.samples) for shard in self.shards)

    def identity(self) -> dict[str, object]:
        """A JSON value of what must agree for the same bytes."""
        return {**self._manner, "inputs": self.inputs.digest}

    @cached_property
    def _manner(self) -> dict[str, object]:
        """What decides bytes besides the inputs, as a JSON value."""
        return {
            "options": self.options.to_json(),
            "schema": self.schema.to_json(),
            "made_by": dict(self.made_by),
        }

    def shard_digest(self, shard: PlannedShard) -> str:
        """32 hex digits that differ when anything does that decides the bytes of one shard, or its name."""
        place = [shard.split, shard.number, shard.count, shard.first]
        digest = hashlib.blake2b(json.dumps([self._manner, place], sort_keys=True).encode(), digest_size=16)
        digest.update(self.inputs.states(shard.samples))
        return digest.hexdigest()

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


def make_plan(source: Source, options: PlanOptions) -> Plan:
    """Look at every sample once and decide its place.

    Raises UsageError when it cannot be done, or when a package that `options` ask for is not installed.

    Memory: about 90 bytes a sample, and the length of its key, beside the source itself.
    """
    versions = made_by(options.image)
    count = len(source)
    if not count:
        raise UsageError("source", "it has no sample", "check where it looks for them")
    schema = schema_of(source, options)
    _check_cut(schema, options.image)
    labelled = _has_label(schema)
    features = sorted(source.schema.features)
    draws_bytes, digests, inputs = bytearray(), bytearray(), Inputs()
    sizes = np.zeros(count, np.int64)
    split_of = np.full(count, -1, np.int16)  # -1: to be drawn
    labels = np.zeros(count, np.int32)
    names: dict[str, int] = {}
    secret = str(options.seed).encode()
    for i in range(count):
        if not i % EVERY:
            tell("planning", i, count)
        sample = source[i]
        size = _size(sample)
        # Of 16 bytes 8 are for the split and 8 for the place in it.
        draws_bytes += hashlib.blake2b(sample.key, digest_size=16, key=secret).digest()
        digest = _digest(sample, size, features)
        digests += digest
        # Not part of the fingerprint, which a copy of the folder shares.
        mtime = sample.image.mtime_ns if isinstance(sample.image, SourceFile) else 0
        inputs.add(sample.key, digest + mtime.to_bytes(8, "little", signed=True))
        sizes[i] = size
        if sample.split is not None:
            split_of[i] = names.setdefault(sample.split, len(names))
        if labelled:
            labels[i] = _label(sample)
    tell("planning", count, count)
    for name in names:
        check_split_name(name)
    draws = np.frombuffer(draws_bytes, "<u8").reshape(count, 2)
    _check_unique(source, draws)
    drawn = _draw(split_of, names, draws[:, 0], labels, options)
    if options.fractions is not None and not drawn:
        raise UsageError("split", f"the source names the split of every sample ({', '.join(names)})", "leave it out")
    orders: dict[str, np.ndarray] = {}
    for name in sorted(names):
        members = np.flatnonzero(split_of == names[name])
        orders[name] = members[np.argsort(draws[members, 1], kind="stable")]
    images = {name: len(order) for name, order in orders.items()}
    stored = {name: _stored_size(sizes[order], options) for name, order in orders.items()}
    shard_count = shard_counts(images, stored, options.shards, options.shard_size)
    shards = [shard for name, order in orders.items() for shard in _cut(name, order, shard_count[name])]
    classes = len(schema.class_names.get(LABEL, ())) if labelled else 0
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
        class_counts={name: _class_counts(labels[order], classes) for name, order in orders.items() if classes},
        notes=list(too_few_images(images, options.shards)),
        findings=findings_of(source),
        forecast=forecast,
        inputs=inputs,
        made_by=versions,
    )


def _draw(
    split_of: np.ndarray, names: dict[str, int], draws: np.ndarray, labels: np.ndarray, options: PlanOptions
) -> bool:
    """Whether there was any sample of which the source names no split; those have one in `split_of` and `names` now."""
    open_ = np.flatnonzero(split_of < 0)
    if not len(open_):
        return False
    if options.fractions is None:
        split_of[open_] = names.setdefault("train", len(names))
        return True
    for name, members in draw_splits(draws[open_], labels[open_], options.fractions, options.split_by).items():
        if not len(members) and name not in names:
            problem = f"none of {len(open_)} samples falls into it"
            raise UsageError(f"split {name}", problem, "give it a larger share")
        split_of[open_[members]] = names.setdefault(name, len(names))
    return True


def _check_cut(schema: Schema, image: ImageOptions) -> None:
    """Raises UsageError where images are to be cut or shrunk and features mean places or pixels in them."""
    places = schema.of_kind("place")
    if image.shape is not None and places:
        problem = f"the middle of each image is cut out, and {escape(places[0])} would mean other places"
        remedy = f"use {argument('resize_shorter')}, which cuts nothing, or leave that label out"
        raise UsageError("size", problem, remedy)
    if image.resize_shorter is not None and OBJECT_AREA in schema.features:
        problem = f"{OBJECT_AREA} counts pixels of the images as they are, and would be wrong of smaller ones"
        raise UsageError("resize_shorter", problem, "leave that label out: the boxes, shares of the image, give it")


def _size(sample: Sample) -> int:
    if isinstance(sample.image, SourceFile):
        return sample.image.size
    return len(sample.image) if isinstance(sample.image, bytes) else 0


def _has_label(schema: Schema) -> bool:
    """Whether every sample has one label by which its split can be drawn."""
    feature = schema.features.get(LABEL)
    return feature is not None and feature.scalar and schema.kind(LABEL) == "label"


def _label(sample: Sample) -> int:
    """The first label; -1 for what cannot be one, which whoever encodes it refuses."""
    try:
        label = operator.index(sample.features[LABEL])  # type: ignore[arg-type]  # NumPy's integers are labels too
    except (KeyError, TypeError):
        return -1
    return label if 0 <= label < 2**31 else -1


def _class_counts(labels: np.ndarray, classes: int) -> tuple[int, ...]:
    """How many of `labels`, int32 [n], are 0, 1, ... `classes` - 1."""
    return tuple(np.bincount(labels[(labels >= 0) & (labels < classes)], minlength=classes).tolist())


def _digest(sample: Sample, size: int, features: Sequence[str]) -> bytes:
    """16 bytes that differ when anything about the sample differs that shows in the output; `features`: its keys."""
    content = hashlib.blake2b(sample.image).digest() if isinstance(sample.image, bytes) else size
    labels = [sample.features.get(key) for key in features]
    return hashlib.blake2b(repr((sample.key, sample.split, content, labels)).encode(), digest_size=16).digest()


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


def _cut(split: str, order: np.ndarray, count: int) -> list[PlannedShard]:
    """`count` consecutive pieces whose lengths differ by one at most, longer ones first."""
    pieces = np.array_split(order, count)
    starts = np.cumsum([0, *map(len, pieces)])
    return [PlannedShard(split, i, count, int(starts[i]), piece) for i, piece in enumerate(pieces)]
