"""Where a dataset is built before it has its name: a hidden sibling of the output.

.flowers.staging/plan.json      what is being built: options, versions, digest of the inputs; in the end, which manifest
                 inputs.jsonl   every input, to say what changed when a resume is refused
                 receipts/      one file for each shard that is durable
                 dataset/       the shards; renamed to `flowers` at commit, or exchanged with the one it replaces
                 tries/         where an engine on several machines has shards written before they count
.flowers.staging.partial/       the same before it is complete and while it is removed: it is there whole or not at all
.flowers.lock                   who is building it (an flock: it ends with its owner)
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from shardfeed.converters.planning.plan import Plan
from shardfeed.errors import PlanMismatchError, StorageError, escape
from shardfeed.naming import MANIFEST
from shardfeed.storage.building import discard, hidden_sibling
from shardfeed.storage.local import (
    TEMPORARY,
    NewFile,
    make_directory,
    publish,
    remove_file,
    remove_tree,
    storage_error,
    write_file,
)
from shardfeed.storage.local_reading import file_checksum
from shardfeed.text import listing

_REMOVE = "remove the folder that it is in"
_BATCH = 10_000  # lines written at once
_PLAN = "plan.json"
_INPUTS = "inputs.jsonl"
_COMMIT = "commit"  # in plan.json: size and CRC-32C of the manifest of the dataset that is about to get its name


class Staging:
    """The staging directory of the output `out` (an absolute path without trailing slash)."""

    def __init__(self, out: str) -> None:
        self.root = hidden_sibling(out, "staging")
        self.dataset = os.path.join(self.root, "dataset")
        self.receipts = os.path.join(self.root, "receipts")
        self.tries = os.path.join(self.root, "tries")
        self._plan = os.path.join(self.root, _PLAN)
        self._partial = self.root + TEMPORARY

    def committed(self, out: str) -> bool:
        """Whether an earlier run gave `out` its dataset and was stopped before it could clear up."""
        stored = self._stored()
        return stored is not None and _is_committed_as(stored, out)

    def is_of(self, plan: Plan) -> bool:
        """Whether what is here was made by the same plan."""
        return _without_commit(self._stored() or {}) == plan.identity()

    def _stored(self) -> dict[str, Any] | None:
        """plan.json, or None where nothing was begun."""
        try:
            with open(self._plan, "rb") as file:
                return json.load(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self._plan, "read", error) from error
        except ValueError:
            raise PlanMismatchError(self._plan, "damaged, so nothing beside it can be used", _REMOVE) from None

    def begin(self, plan: Plan) -> None:
        """Start, or take up what an identical plan left. Raises PlanMismatchError when it was another plan."""
        stored = self._stored()
        if stored is None or (_COMMIT in stored and not _is_committed_as(stored, self.dataset)):
            self.clear()  # what was committed, and then moved away, is no reason to refuse another
            self._start(plan)
            return
        if _COMMIT in stored:  # it was stopped just before the dataset got its name
            stored = _without_commit(stored)
            write_file(self._plan, _plan_bytes(stored))
        expected = plan.identity()
        differing = sorted(key for key in stored.keys() | expected.keys() if stored.get(key) != expected.get(key))
        if differing:
            what = "; ".join(_difference(key, stored.get(key), expected.get(key)) for key in differing)
            if differing == ["inputs"]:
                what = self._changed_inputs(plan.inputs.lines())
            raise PlanMismatchError(
                self.root,
                f"holds an unfinished conversion of something else: {what}",
                "undo that, or remove the folder",
            )
        with suppress(StorageError):  # a machine that was given up may still hold a file there
            remove_tree(self.tries)
        for directory in (self.dataset, self.receipts):
            for name in os.listdir(directory):
                if name.endswith(TEMPORARY):
                    remove_file(os.path.join(directory, name))

    def _start(self, plan: Plan) -> None:
        for directory in ("", "dataset", "receipts"):
            make_directory(os.path.join(self._partial, directory).rstrip("/"))
        with NewFile(os.path.join(self._partial, _INPUTS)) as file:
            lines = plan.inputs.lines()
            while batch := "".join(f"{line}\n" for line in islice(lines, _BATCH)):
                file.write([batch.encode()])
        write_file(os.path.join(self._partial, _PLAN), _plan_bytes(plan.identity()))
        publish(self._partial, self.root)

    def _changed_inputs(self, inputs: Iterable[str]) -> str:
        with open(os.path.join(self.root, _INPUTS), encoding="ascii") as file:
            before: dict[str, str] = dict(json.loads(line) for line in file)
        after: dict[str, str] = dict(json.loads(line) for line in inputs)
        kinds = {
            "added": sorted(after.keys() - before.keys()),
            "removed": sorted(before.keys() - after.keys()),
            "changed": sorted(key for key in after.keys() & before.keys() if after[key] != before[key]),
        }
        return "; ".join(
            f"{len(names)} {kind}: {listing(list(map(escape, names)), 5)}" for kind, names in kinds.items() if names
        )

    def note_commit(self) -> None:
        """Write down which dataset is about to get its name, so that a later run sees whether it did.

        After an exchange the dataset that was replaced lies where the new one was built. Its shards may have the same
        sizes, when labels alone changed, say, and must not be taken for finished ones.
        """
        stored = self._stored() or {}
        stored[_COMMIT] = _manifest_checksum(self.dataset)
        write_file(self._plan, _plan_bytes(stored))

    def sweep(self) -> None:
        """Remove what was being made, or removed, when a run was killed."""
        remove_tree(self._partial)

    def clear(self) -> None:
        """Remove everything; stopped at any moment, nothing half removed is taken for an unfinished conversion."""
        discard(self.root, self._partial)


def _manifest_checksum(directory: str) -> list[int]:
    """Size and CRC-32C: a manifest has the checksums of all else. Empty where there is none."""
    path = os.path.join(directory, MANIFEST)
    try:
        return list(file_checksum(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:  # not the same as none: what is committed would be taken for nothing
        raise storage_error(path, "read", error) from error


def _is_committed_as(stored: Mapping[str, Any], directory: str) -> bool:
    """Whether a directory holds the dataset whose commit plan.json speaks of."""
    return stored.get(_COMMIT) == _manifest_checksum(directory)


def _without_commit(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stored.items() if key != _COMMIT}


def _plan_bytes(plan: Mapping[str, Any]) -> bytes:
    return json.dumps(plan, sort_keys=True).encode()


def _difference(key: str, before: object, after: object) -> str:
    if key == "inputs":
        return "inputs differ"
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
        return "; ".join(_difference(f"{key}.{k}", before.get(k), after.get(k)) for k in keys)
    return f"{key} was {before!r}, now {after!r}"
