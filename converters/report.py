"""What a conversion did, for people and scripts: counts, what was left out and why, and how long it took."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.images.store import ASKED, PROGRESSIVE_KEPT
from shardfeed.converters.shards.task import Noted, Receipt
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import UsageError, name_text
from shardfeed.manifest import Manifest


@dataclass(frozen=True)
class Report:
    """The outcome of `convert`.

    `out`: the output directory. `committed`: whether it exists now. `manifest`: of the dataset, also when it was not
    committed. `rejected`: inputs left out, `normalised`: stored with other bytes, `warnings`: stored but odd, each
    sorted by key. `notes`: sentences about the source and the run. `images`, `source_bytes`: read in this run,
    `seconds`: of this run.
    """

    out: str
    committed: bool
    manifest: Manifest
    rejected: Sequence[Noted]
    normalised: Sequence[Noted]
    warnings: Sequence[Noted]
    notes: Sequence[str]
    images: int
    source_bytes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        splits: dict[str, Any] = {}
        for name, split in self.manifest.splits.items():
            splits[name] = {
                "records": split.records,
                "bytes": split.size,
                "shards": len(split.shards),
                "class_counts": {key: list(counts) for key, counts in split.class_counts.items()},
            }
        return {
            "out": self.out,
            "committed": self.committed,
            "splits": splits,
            "class_names": {key: list(names) for key, names in self.manifest.schema.class_names.items()},
            "rejected": [noted_json(noted) for noted in self.rejected],
            "normalised": dict(Counter(noted.what for noted in self.normalised)),
            "warnings": [noted_json(noted) for noted in self.warnings],
            "notes": list(self.notes),
            "images": self.images,
            "source_bytes": self.source_bytes,
            "seconds": round(self.seconds, 3),
        }


def noted_json(noted: Noted) -> dict[str, str]:
    """A line of `rejected.jsonl` or `normalised.jsonl`; bytes that are not UTF-8 become lone surrogates."""
    return {"key": name_text(noted.key), "code": noted.what, "reason": noted.why}


def noted_lines(entries: Sequence[Noted]) -> bytes:
    """The content of `rejected.jsonl` and `normalised.jsonl`: an object a line, in the order given."""
    return b"".join(json.dumps(noted_json(noted), sort_keys=True).encode() + b"\n" for noted in entries)


def unasked(normalised: Sequence[Noted]) -> list[Noted]:
    """Those that were changed for another reason than the options asking for it: only they are worth a list."""
    return [noted for noted in normalised if not asked_for(noted.what)]


def asked_for(what: str) -> bool:
    """Whether a change, words joined by "+", is only what the options ask for."""
    return ASKED.issuperset(what.split("+"))


def without_counted(warnings: Iterable[Noted]) -> tuple[list[Noted], list[str]]:
    """Warnings sorted by key, and instead of those that may be very many a sentence with their number."""
    listed: list[Noted] = []
    progressive = 0
    for noted in warnings:
        if noted.why == PROGRESSIVE_KEPT:
            progressive += 1
        else:
            listed.append(noted)
    notes = []
    if progressive:
        images = "1 progressive JPEG was" if progressive == 1 else f"{progressive:,} progressive JPEGs were"
        notes.append(f"{images} kept, which decode 2.7 times slower than others: --baseline changes that without loss")
    return sorted(listed, key=lambda noted: (noted.key, noted.what, noted.why)), notes


def all_rejected(skipped: Sequence[Skipped], receipts: Sequence[Receipt]) -> list[Noted]:
    """Everything that was left out, while listing and while converting, sorted by key."""
    found = [Noted(entry.key, str(entry.code), entry.reason) for entry in skipped]
    return sorted([*found, *(noted for receipt in receipts for noted in receipt.rejected)], key=lambda noted: noted.key)


def rejections_allowed(max_bad: int | str, inputs: int) -> int:
    """How many of `inputs` may be rejected: a count, or text like "12" or "0.5%" (rounded down)."""
    text = str(max_bad).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else 0.0
        allowed = int(share * inputs) if text.endswith("%") else int(text)
    except ValueError:
        raise UsageError("max_bad", f"got {text!r}, expected a count or a percentage like 0.5%") from None
    if allowed < 0 or not 0 <= share <= 1:
        raise UsageError("max_bad", f"got {text!r}, expected 0 or more, at most 100%")
    return allowed


def counts_by_code(rejected: Sequence[Noted]) -> Mapping[str, int]:
    """Number of rejected inputs by code, codes sorted."""
    return dict(sorted(Counter(noted.what for noted in rejected).items()))
