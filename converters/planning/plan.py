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
    Inputs,
    PlannedShard,
    PlanRows,
    SplitMembers,
    cut,
    made_by,
    share_out,
)
from shardfeed.converters.planning.space import Forecast, make_forecast, shard_counts, stored_size, too_few_images
from shardfeed.converters.planning.split_shares import Drawn, SplitDraw
from shardfeed.converters.planning.survey import PlanSurvey
from shardfeed.converters.sources.foreign import known, place_of
from shardfeed.converters.sources.source import Findings, Source, info_of
from shardfeed.errors import UsageError, escape
from shardfeed.formats.registry import shard_format
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
    source = known(source)
    if not len(source):
        raise UsageError("source", "it has no samples", "check the path that it reads")
    schema = schema_of(source, options)
    shard_format(options.to).check(schema)
    surveyed = PlanSurvey(source, schema, options, no_leaks=no_leaks, directory=directory, buckets=buckets)
    surveyed.read()
    placed = _Placement(surveyed, directory)
    placed.check()
    notes = _notes(surveyed, placed)
    splits = placed.filled()
    images = {name: split.images for name, split in splits.items()}
    shards = _shards(splits, options)
    size = sum(split.size for split in splits.values())
    placed.content.update(json.dumps([options.to_json(), schema.to_json()], sort_keys=True).encode())
    info = info_of(source)
    return Plan(
        schema=schema,
        options=options,
        shards=shards,
        fingerprint=info.fingerprint or placed.content.hexdigest(),
        source_bytes=size,
        drawn=bool(surveyed.unnamed),
        class_counts={name: tuple(split.class_counts.tolist()) for name, split in splits.items() if placed.classes},
        notes=[*notes, *too_few_images(images, options.number)],
        findings=info.findings,
        forecast=make_forecast(source, len(shards), size, schema, options.image),
        inputs=surveyed.inputs,
        made_by=versions,
        annotations=surveyed.annotations,
        counted=frozenset(name for name, split in splits.items() if not split.own_id),
        groups=None if surveyed.related is None else surveyed.related.shares,
    )


class _Placement:
    """The split and the place of each sample, from the numbers that it drew.

    `content`: a hash of the samples in the order of their draws. `split_of`: of rows, their split numbers.
    """

    def __init__(self, surveyed: PlanSurvey, directory: str | None) -> None:
        source, rows, options = surveyed.source, surveyed.rows, surveyed.options
        self._unnamed, self._options = surveyed.unnamed, options
        self.split_of: Callable[[np.ndarray], np.ndarray] = itemgetter("split")
        if surveyed.unnamed:
            self.split_of = _split_rule(source, rows, surveyed.names, surveyed.related, options)
        self.classes = len(surveyed.schema.class_names.get(LABEL, ())) if surveyed.labelled else 0
        self.splits = {name: SplitMembers(directory, self.classes) for name in surveyed.names}
        self.content = hashlib.blake2b(digest_size=16)
        keeps_order = info_of(source).keeps_order
        for bucket in rows.by_place():
            self.content.update(_digests_by_draw(source, bucket))
            if not keeps_order:
                share_out(bucket, self.split_of(bucket), self.splits.values())
        for block in rows.by_number() if keeps_order else ():
            share_out(block, self.split_of(block), self.splits.values())

    def check(self) -> None:
        """Raise UsageError if a split has no sample, or if all samples name one and shares were asked for."""
        onto = self._options.onto
        for name, split in self.splits.items():
            if not split.images and not (onto and onto.shards(name)):
                problem = f"none of {self._unnamed} samples is in it"
                raise UsageError(f"split {name}", problem, "give it a larger share")
        if self._options.fractions is not None and not self._unnamed and onto is None:
            problem = f"the source already sets the split of every sample ({', '.join(self.splits)})"
            raise UsageError("split", problem, "leave it out; `shardfeed split` changes the splits of a dataset")

    def filled(self) -> dict[str, SplitMembers]:
        """The splits that have samples, sorted by name."""
        return {name: self.splits[name] for name in sorted(self.splits) if self.splits[name].images}


def _notes(surveyed: PlanSurvey, placed: _Placement) -> list[str]:
    """Sentences about groups. Raises LeakError if one is in two splits, and that is refused."""
    if surveyed.related is None:
        return []
    split_of = np.concatenate([placed.split_of(block) for block in surveyed.rows.by_number()])
    return surveyed.related.notes(surveyed.source, split_of, [*surveyed.names])


def _shards(splits: Mapping[str, SplitMembers], options: PlanOptions) -> list[PlannedShard]:
    images = {name: split.images for name, split in splits.items()}
    stored = {name: stored_size(split.images, split.size, options) for name, split in splits.items()}
    counts = shard_counts(images, stored, options.number, options.shard_size)
    return [shard for name, split in splits.items() for shard in cut(name, split, counts[name], options.onto)]


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
            problem = f"has the key {escape(source[first].key)!r} of {place_of(source, first)}"
            raise UsageError(place_of(source, second), problem, "keys must be unique")
    return rows["stored"]["state"]["digest"].tobytes()
