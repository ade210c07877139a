"""Plan of a conversion: split and shard of each sample, decided before anything is written.

A plan is a pure function of the samples' keys, labels and sizes and of the options that change bytes. Every sample
draws two numbers from a keyed hash of its own key: one for its split, one for its position. So the order is random and
reproducible, independent of the source's listing, and adding files moves few others to another split.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from shardfeed.converters.planning.groups import GroupShares, Members
from shardfeed.converters.planning.options import PlanOptions, schema_of
from shardfeed.converters.planning.samples import (
    MOST_SPLITS,
    Inputs,
    OwnSamples,
    PlannedShard,
    PlanRows,
    SplitMembers,
    cut,
    made_by,
    sample_size,
    sample_state,
    share_out,
)
from shardfeed.converters.planning.space import Forecast, make_forecast, shard_counts, stored_size, too_few_images
from shardfeed.converters.planning.split_shares import Drawn, SplitDraw, draw, has_label, label_of
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.source import Findings, FinishedRecord, Source, info_of
from shardfeed.errors import UsageError, escape
from shardfeed.formats.registry import shard_format
from shardfeed.naming import check_split_name
from shardfeed.schema import LABEL, Schema


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
        return sum(map(len, self.shards))

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
        digest.update(shard.states)
        return digest.hexdigest()

    def split_sizes(self) -> dict[str, int]:
        """Samples planned for each split."""
        sizes: dict[str, int] = {}
        for shard in self.shards:
            sizes[shard.split] = sizes.get(shard.split, 0) + len(shard)
        return sizes


def make_plan(
    source: Source,
    options: PlanOptions,
    no_leaks: bool = False,
    directory: str | None = None,
    buckets: int | None = None,
) -> Plan:
    """Inspect every sample once, and decide its split and position.

    Raises UsageError if that is impossible, or if a package that `options` need is not installed. With `no_leaks`,
    LeakError if a file or a group would be in two splits.

    This takes about 50 MB of memory in addition to the source, for any number of samples; only groups and `no_leaks`
    take more for more samples. The rest goes to temporary files in `directory`, about 190 bytes per sample. Raises
    StorageError if its disk is full. `buckets`: number of parts in which samples are sorted; the plan stays the same.
    """
    versions = made_by(options.image, options.to)
    count = len(source)
    if not count:
        raise UsageError("source", "it has no samples", "check the path that it reads")
    schema = schema_of(source, options)
    shard_format(options.to).check(schema)
    labelled = has_label(schema)
    info = info_of(source)
    features = sorted(source.schema.features)
    rows, inputs = PlanRows(count, directory, buckets), Inputs(directory)
    names: dict[str, int] = {}
    related = Members(options, source.schema, no_leaks=no_leaks) if options.groups or no_leaks else None
    annotations = open_ = 0
    own = OwnSamples(source)
    for i in range(count):
        if not i % EVERY:
            report_progress("planning", i, count)
        sample = source[i]
        own.check(i, sample)
        size = sample_size(sample)
        state = sample_state(sample, size, features)
        if related is not None:
            related.add(sample)
        inputs.add(sample.key, state)
        annotations += len(sample.objects or ())
        made = sample.image
        own_id = not made.counted if isinstance(made, FinishedRecord) else sample.number is not None
        split = -1 if sample.split is None else names.setdefault(sample.split, len(names))
        if split >= MOST_SPLITS:
            problem = f"names one more split, {sample.split!r}; there may be {MOST_SPLITS:,}"
            raise UsageError(f"source[{i}]", problem, "take a column with few values, such as train and test")
        open_ += split < 0
        label = label_of(sample) if labelled else 0
        rows.add(draw(sample.key, options.seed), i, state, size, label, split, own_id)
    report_progress("planning", count, count)
    rows.end()
    own.check_unique(source)
    for name in names:
        check_split_name(name)
    if related is not None:
        related.read_hashes(source)
    split_of = _split_rule(source, rows, names, related, options) if open_ else itemgetter("split")
    classes = len(schema.class_names.get(LABEL, ())) if labelled else 0
    splits = {name: SplitMembers(directory, classes) for name in names}
    content = hashlib.blake2b(digest_size=16)
    for bucket in rows.by_place():
        content.update(_digests_by_draw(source, bucket))
        if not info.keeps_order:
            share_out(bucket, split_of(bucket), splits.values())
    for block in rows.by_number() if info.keeps_order else ():
        share_out(block, split_of(block), splits.values())
    for name, split in splits.items():
        if not split.images and not (options.onto and options.onto.shards(name)):
            raise UsageError(f"split {name}", f"none of {open_} samples is in it", "give it a larger share")
    if options.fractions is not None and not open_ and options.onto is None:
        problem = f"the source already sets the split of every sample ({', '.join(names)})"
        raise UsageError("split", problem, "leave it out; `shardfeed split` changes the splits of a dataset")
    notes = []
    if related is not None:
        notes = related.notes(source, np.concatenate([split_of(block) for block in rows.by_number()]), [*names])
    splits = {name: splits[name] for name in sorted(names) if splits[name].images}
    images = {name: split.images for name, split in splits.items()}
    stored = {name: stored_size(split.images, split.size, options) for name, split in splits.items()}
    shard_count = shard_counts(images, stored, options.number, options.shard_size)
    shards = [shard for name, split in splits.items() for shard in cut(name, split, shard_count[name], options.onto)]
    content.update(json.dumps([options.to_json(), schema.to_json()], sort_keys=True).encode())
    size = sum(split.size for split in splits.values())
    forecast = make_forecast(source, len(shards), size, schema, options.image)
    return Plan(
        schema=schema,
        options=options,
        shards=shards,
        fingerprint=info.fingerprint or content.hexdigest(),
        source_bytes=size,
        drawn=bool(open_),
        class_counts={name: tuple(split.class_counts.tolist()) for name, split in splits.items() if classes},
        notes=[*notes, *too_few_images(images, options.number)],
        findings=info.findings,
        forecast=forecast,
        inputs=inputs,
        made_by=versions,
        annotations=annotations,
        counted=frozenset(name for name, split in splits.items() if not split.own_id),
        groups=None if related is None else related.shares,
    )


def _split_rule(
    source: Source, rows: PlanRows, names: dict[str, int], related: Members | None, options: PlanOptions
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of rows that returns the split number of each row; `names` gets the names of drawn splits."""
    if related is not None and options.groups:
        split_of = rows.column("split")
        found = related.draw(source, split_of, [*names], rows.column("draw"), rows.column("label"))
        open_ = np.flatnonzero(split_of < 0)
        for name, members in found.items():
            split_of[open_[members]] = names.setdefault(name, len(names))
        return lambda rows: split_of[rows["stored"]["number"]]

    def drawn(rows: np.ndarray) -> Drawn:
        return rows["draw"], rows["label"], rows["stored"]["number"]

    def blocks() -> Iterator[Drawn]:
        return (drawn(block[block["split"] < 0]) for block in rows.by_number())

    draws = SplitDraw(blocks, options.fractions or {"train": 1.0}, options.split_by)
    numbers = np.array([names.setdefault(name, len(names)) for name in draws.names])

    def named_or_drawn(rows: np.ndarray) -> np.ndarray:
        found = rows["split"].astype(np.int64)
        found[found < 0] = numbers[draws.places(drawn(rows[found < 0]))]
        return found

    return named_or_drawn


def _digests_by_draw(source: Source, rows: np.ndarray) -> bytes:
    """The digests of samples in the order of both draws, which does not depend on the source's own numbering.

    `rows` are in the order of their places. Raises UsageError if two samples drew the same numbers.
    """
    if (rows["place"][1:] == rows["place"][:-1]).any():
        rows = rows[np.lexsort((rows["draw"], rows["place"]))]
        twins = np.flatnonzero(rows[["draw", "place"]][1:] == rows[["draw", "place"]][:-1])
        if len(twins):
            first, second = sorted(rows["stored"]["number"][twins[0] : twins[0] + 2].tolist())
            key = escape(source[first].key)
            raise UsageError(f"source[{second}]", f"has the key {key!r} of source[{first}]", "keys must be unique")
    return rows["stored"]["state"]["digest"].tobytes()
