"""Report of `salvage` for people and scripts: the records that it recovered, and those that it did not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shardfeed.manifest import Manifest


@dataclass(frozen=True)
class SalvagedShard:
    """Outcome for a damaged shard. `expected`: number of records that were written to it, None if unknown.

    `doubled`: whole records left out because they are in the new dataset already. `refused`: whole records left out
    because they do not conform to the schema, the first of them in `reasons`, each with its offset. `lost_bytes`: bytes
    written that did not come back; if the number written is unknown, the file's bytes outside of whole records.
    """

    name: str
    problem: str
    expected: int | None
    recovered: int
    doubled: int
    refused: int
    reasons: tuple[str, ...]
    lost_bytes: int

    @property
    def lost(self) -> int | None:
        """Number of records that the shard lost; None if the original number is unknown."""
        return None if self.expected is None else max(0, self.expected - self.recovered)

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        found = {**asdict(self), "lost": self.lost, "reasons": list(self.reasons)}
        return {"shard" if name == "name" else name: value for name, value in found.items()}


@dataclass(frozen=True)
class Salvaged:
    """Result of `salvage`. `expected`: records that the dataset had, None if unknown; `shards`: shards with losses.

    `size`: bytes of the shards that were written.

    Example:
        result = salvage("flowers", "repaired")
        print(result.recovered, result.lost)
    """

    out: str
    manifest: Manifest
    expected: int | None
    recovered: int
    shards: tuple[SalvagedShard, ...]
    notes: tuple[str, ...]
    size: int
    seconds: float

    @property
    def lost(self) -> int | None:
        """Number of records missing from all shards together; None if the original number is unknown."""
        return _lost(self.expected, self.shards)

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        kept = kept_json(self.expected, self.recovered, self.shards, self.notes)
        return {"out": self.out, **kept, "bytes": self.size, "seconds": round(self.seconds, 3)}


def kept_json(
    expected: int | None, recovered: int, shards: Sequence[SalvagedShard], notes: Sequence[str]
) -> dict[str, Any]:
    """Content of `salvaged.json`, which is kept with the new dataset: no time and no path in it."""
    return {
        "expected": expected,
        "recovered": recovered,
        "lost": _lost(expected, shards),
        "shards": [shard.to_json() for shard in shards],
        "notes": list(notes),
    }


def _lost(expected: int | None, shards: Sequence[SalvagedShard]) -> int | None:
    return None if expected is None else sum(shard.lost or 0 for shard in shards)
