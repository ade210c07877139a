"""Plan of a conversion: split and shard of each sample, decided before anything is written.

A plan is a pure function of the samples' keys, labels and sizes and of the options that change bytes. Every sample
draws two numbers from a keyed hash of its own key: one for its split, one for its position. So the order is random and
reproducible, independent of the source's listing, and adding files moves few others to another split.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardfeed.converters.planning.groups import GroupShares, Members
from shardfeed.converters.planning.inputs import Inputs, made_by
from shardfeed.converters.planning.onto import Onto
from shardfeed.converters.planning.options import PlanOptions, schema_of
from shardfeed.converters.planning.space import Forecast, make_forecast, shard_counts, stored_size, too_few_images
from shardfeed.converters.planning.split_shares import counts_of, draw, has_label, label_of
from shardfeed.converters.sources.guard import EVERY, tell
from shardfeed.converters.sources.source import Content, Findings, RecordedSource, Sample, Source, findings_of
from shardfeed.errors import UsageError, escape
from shardfeed.formats.registry import shard_format
from shardfeed.naming import check_split_name
from shardfeed.schema import LABEL, Schema


@dataclass(frozen=True)
class PlannedShard:
    """Shard `number` of `count` of a split: `samples` int64 [n], numbers of the source's samples in stored order.

    `first` is the position of its first sample in the split, from 0, or after the existing records.
    """

    split: str
    number: int
    count: int
    first: int
    samples: np.ndarray


@dataclass(frozen=True)
class Plan:
    """The shard and position of every sample. `shards` in order of split name, then number.

    `fingerprint`: of keys, sizes, labels and options, 32 hex digits; the same for a copy of the folder elsewhere.
    `source_bytes`: bytes of the images on disk, as far as the source knows. `drawn`: whether the split of any sample
    was drawn, not named by the source. `findings`: the source's. `class_counts[split][v]`: samples whose first label is
    `v`; empty if the source has no such label. `notes`: sentences about differences from the request. `forecast`:
    expected size of the dataset on disk. `inputs`: data to check later whether the samples are still the planned ones.
    `made_by`: versions that determine the bytes of the records. `annotations`: number of objects in all samples.
    `counted`: splits in which no sample has an id of its source. `groups`: the shares that could be reached with groups
    kept together.
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
    annotations: int
    counted: frozenset[str]
    groups: GroupShares | None

    def __len__(self) -> int:
        return sum(len(shard.samples) for shard in self.shards)

    def identity(self) -> dict[str, object]:
        """A JSON value of what must agree for the same bytes."""
        manner = {"options": self.options.to_json(), "schema": self.schema.to_json(), "made_by": dict(self.made_by)}
        return {**manner, "inputs": self.inputs.digest}

    @cached_property
    def _manner_digest(self) -> str:
        """32 hex digits of all that but the inputs, made once: thousands of class names are long."""
        manner = {**self.identity(), "inputs": None}
        return hashlib.blake2b(json.dumps(manner, sort_keys=True).encode(), digest_size=16).hexdigest()

    def shard_digest(self, shard: PlannedShard) -> str:
        """32 hex digits that differ when anything does that decides the bytes of one shard, or its name."""
        place = [self._manner_digest, shard.split, shard.number, shard.count, shard.first]
        digest = hashlib.blake2b(json.dumps(place).encode(), digest_size=16)
        digest.update(self.inputs.states(shard.samples))
        return digest.hexdigest()

    def split_sizes(self) -> dict[str, int]:
        """Samples planned for each split."""
        sizes: dict[str, int] = {}
        for shard in self.shards:
            sizes[shard.split] = sizes.get(shard.split, 0) + len(shard.samples)
        return sizes


def make_plan(source: Source, options: PlanOptions, no_leaks: bool = False) -> Plan:
    """Inspect every sample once, and decide its split and position.

    Raises UsageError if that is impossible, or if a package that `options` need is not installed. With `no_leaks`,
    LeakError if a file or a group would be in two splits.

    Memory: about 90 bytes per sample, and the length of its key, in addition to the source.
    """
    versions = made_by(options.image, options.to)
    count = len(source)
    if not count:
        raise UsageError("source", "it has no samples", "check the path that it reads")
    schema = schema_of(source, options)
    shard_format(options.to).check(schema)
    labelled = has_label(schema)
    recorded = source if isinstance(source, RecordedSource) else None
    keeps_order = recorded is not None and recorded.keeps_order
    features = sorted(source.schema.features)
    draws_bytes, inputs = bytearray(), Inputs()
    sizes = np.zeros(count, np.int64)
    split_of = np.full(count, -1, np.int16)  # -1: to be drawn
    labels = np.zeros(count, np.int32)
    own_id = np.zeros(count, bool)
    names: dict[str, int] = {}
    related = Members(options, source.schema, no_leaks=no_leaks)
    annotations = 0
    for i in range(count):
        if not i % EVERY:
            tell("planning", i, count)
        sample = source[i]
        size = _size(sample)
        draws_bytes += draw(sample.key, options.seed)
        related.add(sample)
        inputs.add(sample.key, _digest(sample, size, features) + _mtimes(sample))
        sizes[i] = size
        annotations += len(sample.objects or ())
        own_id[i] = not sample.record.counted if sample.record is not None else sample.number is not None
        if sample.split is not None:
            split_of[i] = names.setdefault(sample.split, len(names))
        if labelled:
            labels[i] = label_of(sample)
    tell("planning", count, count)
    for name in names:
        check_split_name(name)
    draws = np.frombuffer(draws_bytes, "<u8").reshape(count, 2)
    by_key = np.lexsort((draws[:, 0], draws[:, 1]))  # not by the source's own numbering
    _check_unique(source, draws, by_key)
    found = related.draw(source, split_of, [*names], draws[:, 0], labels)
    drawn = _take(found, split_of, names, options)
    if options.fractions is not None and not drawn and options.onto is None:
        problem = f"the source already sets the split of every sample ({', '.join(names)})"
        raise UsageError("split", problem, "leave it out; `shardfeed split` changes the splits of a dataset")
    notes = related.notes(source, split_of, [*names])
    orders: dict[str, np.ndarray] = {}
    for name in sorted(names):
        members = np.flatnonzero(split_of == names[name])
        orders[name] = members if keeps_order else members[np.argsort(draws[members, 1], kind="stable")]
    images = {name: len(order) for name, order in orders.items()}
    stored = {name: stored_size(sizes[order], options) for name, order in orders.items()}
    shard_count = shard_counts(images, stored, options.shards, options.shard_size)
    shards = [shard for name, order in orders.items() for shard in _cut(name, order, shard_count[name], options.onto)]
    classes = len(schema.class_names.get(LABEL, ())) if labelled else 0
    content = hashlib.blake2b(inputs.digests(by_key), digest_size=16)
    content.update(json.dumps([options.to_json(), schema.to_json()], sort_keys=True).encode())
    size = int(sizes.sum())
    forecast = make_forecast(source, len(shards), size, schema, options.image)
    return Plan(
        schema=schema,
        options=options,
        shards=shards,
        fingerprint=recorded.fingerprint if recorded and recorded.fingerprint else content.hexdigest(),
        source_bytes=size,
        drawn=drawn,
        class_counts={name: counts_of(labels[order], classes) for name, order in orders.items() if classes},
        notes=[*notes, *too_few_images(images, options.shards)],
        findings=findings_of(source),
        forecast=forecast,
        inputs=inputs,
        made_by=versions,
        annotations=annotations,
        counted=frozenset(name for name, order in orders.items() if not own_id[order].any()),
        groups=related.shares,
    )


def _take(found: Mapping[str, np.ndarray], split_of: np.ndarray, names: dict[str, int], options: PlanOptions) -> bool:
    """Note, in `split_of` and `names`, the splits drawn for samples without one; return whether there was any."""
    open_ = np.flatnonzero(split_of < 0)
    for name, members in found.items():
        if len(members):
            split_of[open_[members]] = names.setdefault(name, len(names))
        elif name not in names and not (options.onto and options.onto.shards(name)):
            raise UsageError(f"split {name}", f"none of {len(open_)} samples is in it", "give it a larger share")
    return bool(found)


def _size(sample: Sample) -> int:
    """Bytes of the image, and of its mask, which a record holds in about as many."""
    if sample.record is not None:
        return sample.record.size
    return _bytes(sample.image) + (_bytes(sample.raster.mask) if sample.raster is not None else 0)


def _bytes(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else getattr(content, "size", 0)


def _mtimes(sample: Sample) -> bytes:
    """8 bytes that differ when the modification time of the image or of its mask does."""
    found = getattr(sample.image, "mtime_ns", 0).to_bytes(8, "little", signed=True)
    if sample.raster is not None and (mtime := getattr(sample.raster.mask, "mtime_ns", None)) is not None:
        found = hashlib.blake2b(found + repr(mtime).encode(), digest_size=8).digest()
    return found


def _digest(sample: Sample, size: int, features: Sequence[str]) -> bytes:
    """16 bytes that differ when anything about the sample differs that shows in the output; `features`: its keys."""
    content = hashlib.blake2b(sample.image).digest() if isinstance(sample.image, bytes) else size
    labels = [sample.features.get(key) for key in features]
    if sample.objects is not None or sample.number is not None:
        labels += [sample.number, sample.objects and sample.objects.digest()]
    if sample.record is not None:
        labels.append(sample.record.digest)
    if sample.raster is not None:
        mask, upright = sample.raster.mask, sample.raster.upright
        labels += [hashlib.blake2b(mask).digest() if isinstance(mask, bytes) else _bytes(mask), upright]
        labels += [sample.raster.table.digest]
    return hashlib.blake2b(repr((sample.key, sample.split, content, labels)).encode(), digest_size=16).digest()


def _check_unique(source: Source, draws: np.ndarray, order: np.ndarray) -> None:
    """Raise UsageError if two samples drew the same numbers. `order`: int64 [n], in which these would be neighbours."""
    places = draws[order, 1]
    alike = np.flatnonzero(places[1:] == places[:-1])
    twins = alike[draws[order[alike], 0] == draws[order[alike + 1], 0]]
    if len(twins):
        first, second = sorted((int(order[twins[0]]), int(order[twins[0] + 1])))
        key = escape(source[first].key)
        raise UsageError(f"source[{second}]", f"has the key {key!r} of source[{first}]", "keys must be unique")


def _cut(split: str, order: np.ndarray, count: int, onto: Onto | None) -> list[PlannedShard]:
    """`count` consecutive pieces with lengths that differ by one at most, longer ones first; after those of `onto`."""
    pieces = np.array_split(order, count)
    before, first = (0, 0) if onto is None else (onto.shards(split), onto.numbers.get(split, 0))
    starts = np.cumsum([first, *map(len, pieces)])
    numbered = enumerate(pieces, before)
    return [PlannedShard(split, i, before + count, int(starts[i - before]), piece) for i, piece in numbered]
