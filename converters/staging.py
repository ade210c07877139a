"""Where a dataset is built before it has its name: a hidden sibling of the output.

.flowers.staging/plan.json      what is being built: options, versions, digest of the inputs
                 inputs.jsonl   every input, to say what changed when a resume is refused
                 receipts/      one file for each shard that is durable
                 dataset/       the shards; renamed to `flowers` at commit, so its absence means: committed
.flowers.lock                   who is building it (an flock: it ends with its owner)
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shardfeed.errors import PlanMismatchError, escape
from shardfeed.files import NewFile, make_directory, remove_file, remove_tree, write_file

_BATCH = 10_000  # lines written at once


class Staging:
    """The staging directory of the output `out` (an absolute path without trailing slash)."""

    def __init__(self, out: str) -> None:
        parent, name = os.path.split(out)
        self.root = os.path.join(parent, f".{name}.staging")
        self.lock = os.path.join(parent, f".{name}.lock")
        self.dataset = os.path.join(self.root, "dataset")
        self.receipts = os.path.join(self.root, "receipts")
        self._plan = os.path.join(self.root, "plan.json")
        self._inputs = os.path.join(self.root, "inputs.jsonl")

    def exists(self) -> bool:
        """Whether an earlier run got as far as saying what it builds."""
        return os.path.exists(self._plan)

    def committed(self) -> bool:
        """Whether an earlier run renamed the dataset and was stopped before it could clear up."""
        return os.path.isdir(self.root) and not os.path.isdir(self.dataset)

    def begin(self, plan: Mapping[str, Any], inputs: Callable[[], Iterable[str]]) -> None:
        """Start, or take up what an identical plan left. Raises PlanMismatchError when it was another plan.

        `plan` is a JSON value of everything that must agree, `inputs` gives a line for each input.
        """
        if not self.exists():
            self._start(plan, inputs())
            return
        with open(self._plan, "rb") as file:
            stored = json.load(file)
        expected = {**plan, "inputs": _digest(inputs())}
        differing = sorted(key for key in stored.keys() | expected.keys() if stored.get(key) != expected.get(key))
        if differing:
            what = "; ".join(_difference(key, stored.get(key), expected.get(key)) for key in differing)
            if differing == ["inputs"]:
                what = self._changed_inputs(inputs())
            raise PlanMismatchError(
                self.root,
                f"holds an unfinished conversion of something else: {what}",
                "undo that, or remove the folder",
            )
        for directory in (self.dataset, self.receipts):
            for name in os.listdir(directory):
                if name.endswith(".partial"):
                    remove_file(os.path.join(directory, name))

    def _start(self, plan: Mapping[str, Any], inputs: Iterable[str]) -> None:
        remove_tree(self.root)  # a run that was killed before plan.json had nothing to keep
        for directory in (self.root, self.dataset, self.receipts):
            make_directory(directory)
        digest = hashlib.blake2b(digest_size=16)
        with NewFile(self._inputs) as file:
            batch: list[bytes] = []
            for line in inputs:
                batch.append(line.encode() + b"\n")
                digest.update(batch[-1])
                if len(batch) == _BATCH:
                    file.write([b"".join(batch)])
                    batch.clear()
            file.write([b"".join(batch)])
        content = {**plan, "inputs": digest.hexdigest()}
        write_file(self._plan, json.dumps(content, sort_keys=True).encode())

    def _changed_inputs(self, inputs: Iterable[str]) -> str:
        with open(self._inputs, encoding="ascii") as file:
            before: dict[str, str] = dict(json.loads(line) for line in file)
        after: dict[str, str] = dict(json.loads(line) for line in inputs)
        kinds = {
            "added": sorted(after.keys() - before.keys()),
            "removed": sorted(before.keys() - after.keys()),
            "changed": sorted(key for key in after.keys() & before.keys() if after[key] != before[key]),
        }
        return "; ".join(_listing(kind, names) for kind, names in kinds.items() if names)

    def forget(self) -> None:
        """Make a later run start afresh, whatever else is still here."""
        remove_file(self._plan)

    def clear(self) -> None:
        """Remove everything."""
        self.forget()  # first, so that a killed clean-up is not taken for an unfinished conversion
        remove_tree(self.root)


def _digest(inputs: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for line in inputs:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _difference(key: str, before: object, after: object) -> str:
    if key == "inputs":
        return "inputs differ"
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
        return "; ".join(_difference(f"{key}.{k}", before.get(k), after.get(k)) for k in keys)
    return f"{key} was {before!r}, now {after!r}"


def _listing(kind: str, names: list[str]) -> str:
    shown = ", ".join(escape(name) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{len(names)} {kind}: {shown}{more}"
