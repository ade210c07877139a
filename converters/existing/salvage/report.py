"""What `salvage` recovered and what it did not, for people and scripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardfeed.manifest import Manifest


@dataclass(frozen=True)
class LostRecord:
    """A record that was not recovered: its `number` in the shard as it was written, and what names it, if known.

    `filename` is what its damaged bytes say.
    """

    number: int
    source_id: str | None = None
    filename: str | None = None


@dataclass(frozen=True)
class SalvagedShard:
    """What became of a shard that was not whole. `expected`: records it was written with, None if nothing tells.

    `lost`: which are gone, as far as that can be told. `left_out`: where whole records lie that are not taken, and why.
    """

    name: str
    problem: str
    expected: int | None
    recovered: int
    lost: tuple[LostRecord, ...]
    left_out: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether no record is gone and none was left out."""
        return self.recovered == self.expected and not self.left_out

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        return {
            "shard": self.name,
            "problem": self.problem,
            "expected": self.expected,
            "recovered": self.recovered,
            "lost": None if self.expected is None else self.expected - self.recovered,
            "lost_records": [
                {"number": lost.number, "source_id": lost.source_id, "filename": lost.filename} for lost in self.lost
            ],
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True)
class Salvaged:
    """The outcome of `salvage`. `expected`: records the dataset had, None if nothing tells; `shards`: those not whole.

    `size`: bytes of the shards that were written.
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
        """Records that are gone; None if nothing tells how many there were."""
        return None if self.expected is None else self.expected - self.recovered

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        told = told_json(self.expected, self.recovered, self.shards, self.notes)
        return {"out": self.out, **told, "bytes": self.size, "seconds": round(self.seconds, 3)}


def told_json(
    expected: int | None, recovered: int, shards: Sequence[SalvagedShard], notes: Sequence[str]
) -> dict[str, Any]:
    """What is kept with the new dataset, as `salvaged.json`: neither time nor place."""
    return {
        "expected": expected,
        "recovered": recovered,
        "lost": None if expected is None else expected - recovered,
        "shards": [shard.to_json() for shard in shards],
        "notes": list(notes),
    }
