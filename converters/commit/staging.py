"""Directory in which a dataset is built before it has its name: a hidden sibling of the output.

.flowers.staging/plan.json      what is being built: options, versions, digest of the inputs; in the end, which manifest
                 inputs.jsonl   every input, to say what changed when some differ later
                 receipts/      one file for each shard that is durable
                 dataset/       the shards; renamed to `flowers` at commit, or exchanged with the one it replaces
                 earlier/       shards of inputs that have changed since; their images are taken over
                 tries/         where an engine on several machines has shards written before they count
.flowers.staging.partial/       the same before it is complete and while it is removed: it is there whole or not at all
.flowers.lock                   who is building it (an flock: it ends with its owner)
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.planning.samples import PlannedShard
from shardfeed.converters.planning.space import check_space
from shardfeed.converters.report import Report
from shardfeed.converters.shards.receipts import EarlierShards, load_receipt, receipt_count, receipt_path, still_whole
from shardfeed.converters.shards.task import Receipt, checkpoint_path, shard_paths
from shardfeed.errors import IntegrityError, PlanMismatchError, StorageError, UsageError, argument, escape
from shardfeed.naming import MANIFEST
from shardfeed.read_back import checked_text, json_text
from shardfeed.storage.local import (
    TEMPORARY,
    NewFile,
    discard,
    disk_errors,
    fsync_directory,
    hidden_sibling,
    link_or_copy,
    make_directory,
    publish,
    remove_file,
    remove_tree,
    storage_error,
    write_file,
)
from shardfeed.storage.storage import FileInfo
from shardfeed.text import listing, number

_ANEW = f"start over with {argument('restart', True)}"
_PLAN = "plan.json"
_INPUTS = "inputs.jsonl"
_NAMES = frozenset((_PLAN, _INPUTS, "dataset", "receipts", "earlier", "tries"))
_COMMIT = "commit"  # in plan.json: size and CRC-32C of the manifest of the dataset that is about to get its name


class Staging:
    """The staging directory of the output `out` (an absolute path without trailing slash)."""

    def __init__(self, out: str) -> None:
        self.root = hidden_sibling(out, "staging")
        self.dataset = os.path.join(self.root, "dataset")
        self.receipts = os.path.join(self.root, "receipts")
        self.earlier = os.path.join(self.root, "earlier")
        self.tries = os.path.join(self.root, "tries")
        self._plan = os.path.join(self.root, _PLAN)
        self._partial = self.root + TEMPORARY

    def committed(self, out: str) -> bool:
        """Whether an earlier run gave `out` its dataset and was stopped before it could clear up."""
        stored = self._stored()
        return stored is not None and _is_committed_as(stored, out)

    def is_of(self, plan: Plan) -> bool:
        """Whether the staging directory was made by the same plan."""
        stored = self._stored() or {}
        return {key: value for key, value in stored.items() if key != _COMMIT} == self._identity(plan)

    def _identity(self, plan: Plan) -> dict[str, Any]:
        """The identity of a plan as plan.json gives it back: a tuple in the options is a list there."""
        return json.loads(json_text(self._plan, plan.identity()))

    def _stored(self) -> dict[str, Any] | None:
        """plan.json, or None if nothing was begun."""
        try:
            with open(self._plan, "rb") as file:
                return _plan_of(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self._plan, "read", error) from error
        except (ValueError, RecursionError):
            problem = "damaged, so the unfinished conversion cannot be resumed"
            raise PlanMismatchError(self._plan, problem, _ANEW) from None

    def begin(self, plan: Plan) -> str:
        """Start, or take up what an earlier run left; in words, which inputs have changed since, "" for none.

        Raises as `left_by`.
        """
        stored, expected = self.left_by(plan), self._identity(plan)
        if stored is None:
            self.clear()
            for directory in ("", "dataset", "receipts"):
                make_directory(os.path.join(self._partial, directory).rstrip("/"))
            _write_inputs(os.path.join(self._partial, _INPUTS), plan)
            self._write_plan(os.path.join(self._partial, _PLAN), expected)
            publish(self._partial, self.root)
            return ""
        changed = "" if stored["inputs"] == expected["inputs"] else self._change_inputs(plan)
        if stored != expected:
            self._write_plan(self._plan, expected)
        self._sweep_unfinished()
        return changed

    def left_by(self, plan: Plan) -> dict[str, Any] | None:
        """Load plan.json of an unfinished conversion that a run of `plan` continues; None for a new one.

        A shard that was finished counts as long as its own digest agrees, so other inputs are no reason to refuse.
        Raises PlanMismatchError if options or versions differ: the shards may be hours of work, and the difference a
        typo. Raises as `check_ours`.
        """
        stored = self._stored()
        if stored is None or (_COMMIT in stored and not _is_committed_as(stored, self.dataset)):
            self.check_ours()  # a dataset that was committed and then moved away is no reason to refuse another
            return None
        if differing := other_manner(stored, self._identity(plan)):
            problem = f"holds an unfinished conversion with other options: {'; '.join(differing)}"
            raise PlanMismatchError(self.root, problem, f"use the same options, or {_ANEW}")
        return stored

    def _sweep_unfinished(self) -> None:
        """Remove files that were being written, except shards with a checkpoint to continue from."""
        with suppress(StorageError):  # a machine considered lost may still have a file open there
            remove_tree(self.tries)
        inside = [entry.path for entry in os.scandir(self.dataset) if entry.is_dir()]
        for directory in (self.dataset, *inside, self.receipts):
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if name.endswith(TEMPORARY) and not os.path.exists(checkpoint_path(path.removesuffix(TEMPORARY))):
                    remove_file(path)

    def _change_inputs(self, plan: Plan) -> str:
        """Replace the stored list of inputs by that of `plan`, and say in words how they differ."""
        path = os.path.join(self.root, _INPUTS)
        changed = ""
        damaged = suppress(ValueError, TypeError)  # the list only words a note
        with damaged, disk_errors(path, "read"), open(path, encoding="ascii") as file:
            changed = other_inputs(file, plan.inputs.lines())
        _write_inputs(path, plan)
        return changed or "other inputs"  # when it was stopped between this file and plan.json

    def note_commit(self) -> None:
        """Record which dataset is about to be renamed to its final name, so that a later run can tell whether it was.

        After an exchange the replaced dataset is where the new one was built. Its shards may have the same sizes, for
        example if only labels changed, and must not be taken for finished ones.
        """
        stored = self._stored() or {}
        stored[_COMMIT] = _manifest_checksum(self.dataset)
        self._write_plan(self._plan, stored)

    def _write_plan(self, path: str, content: Mapping[str, Any]) -> None:
        """Write plan.json at `path`.

        Raises StorageError, and UsageError for content that `_stored` would not return.
        """

        def write() -> bytes:
            return json_text(self._plan, content).encode()

        write_file(path, checked_text(self._plan, write, _plan_of, content))

    def check_ours(self) -> None:
        """Raise UsageError if the staging directories hold anything that no conversion made."""
        for root in (self.root, self._partial):
            for name in os.listdir(root) if os.path.isdir(root) else ():
                if name.removesuffix(TEMPORARY) not in _NAMES:
                    problem = f"holds {escape(name)}, which shardfeed did not write"
                    raise UsageError(root, problem, "move it away, or choose another output")

    def sweep(self) -> None:
        """Remove files that a killed run was making or removing."""
        remove_tree(self._partial)

    def clear(self) -> None:
        """Remove everything; stopped at any moment, nothing half removed is taken for an unfinished conversion."""
        discard(self.root, self._partial)


def _write_inputs(path: str, plan: Plan) -> None:
    with NewFile(path) as file:
        file.write_all(plan.inputs.blocks())


def _manifest_checksum(directory: str) -> list[int]:
    """Size and CRC-32C of the manifest, which has the checksums of all else. Empty if there is no manifest."""
    path = os.path.join(directory, MANIFEST)
    try:
        info = FileInfo.of_file(path)
    except StorageError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise  # not the same as []: a committed dataset would count as absent
    return [info.size, info.crc32c]


def _is_committed_as(stored: Mapping[str, Any], directory: str) -> bool:
    """Whether a directory holds the dataset that plan.json names as committed."""
    return stored.get(_COMMIT) == _manifest_checksum(directory)


def _plan_of(content: bytes) -> dict[str, Any]:
    """The content of plan.json. Raises ValueError for what no conversion wrote."""
    plan = json.loads(content)
    if not isinstance(plan, dict) or "inputs" not in plan:
        raise ValueError("not the plan of a conversion")
    return plan


_NAMED = 3  # images of each kind
_LISTED = 6  # options
_LONGEST = 60  # characters of a value


def other_manner(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the options and versions that differ, a phrase each, if they affect the stored images or their shards.

    `before`, `now`: as in `Plan.identity`. Features and class names are not compared, as they follow from the inputs: a
    folder that is gone is a class that is gone, and with other labels no image has to be made again.
    """
    changes = [change for kind in ("options", "made_by") for change in _differences(before.get(kind), now[kind])]
    return changes if len(changes) <= _LISTED else [*changes[:_LISTED], f"and {len(changes) - _LISTED} more"]


def _differences(before: object, now: Mapping[str, Any]) -> list[str]:
    known = before if isinstance(before, dict) else {}
    if len(one := known.get("appended", ())) == len(other := now.get("appended", ())) > 0:
        # Of an append it is the last entry that differs.
        known, now = {**known, **one[-1], "appended": None}, {**now, **other[-1], "appended": None}
    keys = sorted(key for key in known.keys() | now.keys() if known.get(key) != now.get(key))
    return [f"{key} was {_short(known.get(key))}, now {_short(now.get(key))}" for key in keys]


def _short(value: object) -> str:
    text = escape(repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def other_inputs(before: Iterable[str], now: Iterable[str]) -> str:
    """Compare the lines of two `Inputs`: "1 image gone (a/bad.jpg), 2 new (b/1.jpg, b/2.jpg)"; "" if none differs."""
    old: dict[str, str] = dict(json.loads(line) for line in before)
    new: dict[str, str] = dict(json.loads(line) for line in now)
    kinds = {
        "gone": old.keys() - new.keys(),
        "new": new.keys() - old.keys(),
        "changed": {key for key in new.keys() & old.keys() if new[key] != old[key]},
    }
    changes: list[str] = []
    for kind, keys in kinds.items():
        if keys:
            count = f"{len(keys):,}" if changes else number(len(keys), "image")
            changes.append(f"{count} {kind} ({listing(list(map(escape, sorted(keys))), _NAMED)})")
    return ", ".join(changes)


_REMEDY = "the original dataset has changed: run `shardfeed verify DIR` on it"


class _StagedFile(NamedTuple):
    """File that stays: its present path, its path in the new dataset, and its size and checksum."""

    path: str
    final: str
    info: FileInfo


def new_counts(plan: Plan) -> dict[str, int]:
    """Number of shards of each split of the new dataset, including those that stay."""
    onto = plan.options.onto
    counts = {} if onto is None else {name: len(info.shards) for name, info in onto.manifest.splits.items()}
    return counts | {shard.split: shard.count for shard in plan.shards}


def keep_shards(plan: Plan, directory: str, *, every_byte: bool) -> list[str]:
    """Link the shards that are kept, and their indexes, into `directory`, or copy them if links are impossible.

    Returns a sentence about this; "" if there is nothing to append to. After a kill, a second call finishes the work.
    Sizes are compared with the manifest; with `every_byte`, all bytes of each file. Raises IntegrityError,
    StorageError.
    """
    onto = plan.options.onto
    if onto is None:
        return []
    linked = copied = 0
    folders: dict[str, None] = {}
    for file in _files(onto, plan, directory):
        folder = os.path.dirname(file.final)
        if folder not in folders:
            folders[folder] = None
            if not os.path.isdir(folder):
                make_directory(folder)
        if link_or_copy(file.path, file.final):
            linked += 1
        else:
            copied += 1
        if problem := file.info.problem(file.final, every_byte=every_byte):
            raise IntegrityError(file.path, problem, _REMEDY)
    for folder in folders:
        fsync_directory(folder)
    shards = sum(len(info.shards) for info in onto.manifest.splits.values())
    unlinked = f"copied: its disk does not support links ({linked} of their files linked)"
    how = unlinked if copied else "linked, not copied"
    return [f"{number(shards, 'shard')} of {onto.manifest.name} {'is' if shards == 1 else 'are'} {how}"]


def _files(onto: AppendTarget, plan: Plan, directory: str) -> Iterator[_StagedFile]:
    counts = new_counts(plan)
    for name, info in onto.manifest.splits.items():
        for shard in range(len(info.shards)):
            final = shard_paths(directory, name, shard, counts[name], info.format)
            names = info.shard_file(shard), info.index_file(shard)
            paths = [os.path.join(onto.directory, name) for name in names]
            yield from map(_StagedFile, paths, final, (info.shards[shard].data, info.shards[shard].index))


class Finished(NamedTuple):
    """Reusable work of an earlier run: receipts by (split, shard number), and shards from which images can be taken."""

    receipts: dict[tuple[str, int], Receipt]
    others: EarlierShards


def finished_shards(plan: Plan, staging: Staging, *, anew: bool = True) -> Finished:
    """Find the intact shards of an earlier run that have the bytes of this plan's shards; and other shards.

    `anew`: shards with an image that could not be read do not count, because they are to be tried again.

    A receipt of different content is removed durably: its shard will be overwritten, and later inputs may match the
    receipt again.
    """
    found = Finished({}, EarlierShards(staging.earlier))
    stale = [_take_finished(plan, staging, shard, found, anew=anew) for shard in plan.shards]
    _set_aside_unplanned(plan, staging, found)
    if any(stale):
        fsync_directory(staging.receipts)
    return found


def _take_finished(plan: Plan, staging: Staging, shard: PlannedShard, found: Finished, *, anew: bool) -> bool:
    """Add a planned shard to `found` if it is finished. Returns whether its receipt was removed or set aside."""
    path = receipt_path(staging.receipts, shard.split, shard.number, shard.count)
    receipt = load_receipt(path)
    files = shard_paths(staging.dataset, shard.split, shard.number, shard.count, plan.options.to)
    if receipt is None or not still_whole(receipt, *files):
        there = os.path.lexists(path)
        if there:
            remove_file(path)
        return there
    if receipt.digest == plan.shard_digest(shard) and not (anew and receipt.retry_may_help):
        found.receipts[shard.split, shard.number] = receipt
        return False
    found.others.set_aside(receipt, path, *files)
    return True


def _set_aside_unplanned(plan: Plan, staging: Staging, found: Finished) -> None:
    """Set aside the whole shards of an earlier run that had another number of shards."""
    planned = {receipt_path("", shard.split, shard.number, shard.count) for shard in plan.shards}
    for name in sorted(set(os.listdir(staging.receipts)) - planned):
        path = os.path.join(staging.receipts, name)
        receipt, count = load_receipt(path), receipt_count(name)
        if receipt is None or not count:
            continue
        files = shard_paths(staging.dataset, receipt.split, receipt.number, count, plan.options.to)
        if still_whole(receipt, *files):
            found.others.set_aside(receipt, path, *files)


def check_shards(receipts: Sequence[Receipt], plan: Plan, directory: str, *, every_byte: bool) -> None:
    """Compare the files on disk with the receipts: sizes and index, and with `every_byte` all bytes.

    Raises IntegrityError, StorageError.
    """
    for shard, receipt in zip(plan.shards, receipts, strict=True):
        data, index = shard_paths(directory, shard.split, shard.number, shard.count, plan.options.to)
        for path, info, whole in ((data, receipt.info.data, every_byte), (index, receipt.info.index, True)):
            if problem := info.problem(path, every_byte=whole):
                remedy = "check the disk, remove the file, run again"
                raise IntegrityError(path, problem, remedy)


class LocalOutput:
    """Output on the local disk: `local` is its absolute path."""

    def __init__(self, local: str) -> None:
        self.local = local

    def may_replace(self, asked: bool) -> bool:
        """Whether an existing dataset at `local` may be replaced; `asked`: whether the user asked for it."""
        return asked

    def check_space(self, plan: Plan, staging: Staging) -> None:
        """Raise StorageError if the dataset does not fit on the disk."""
        check_space(plan.forecast, self.local, staging.dataset)

    def shards_go_to(self, staging: Staging) -> str:
        """The directory or URL to which workers write shards."""
        return staging.dataset

    def finished(self, plan: Plan, staging: Staging, *, anew: bool) -> Finished:
        """The finished shards in the output, as `finished_shards`."""
        return finished_shards(plan, staging, anew=anew)

    def check_shards(self, receipts: Sequence[Receipt], plan: Plan, staging: Staging, *, every_byte: bool) -> None:
        """Compare the shards that are there with the receipts, as `check_shards`."""
        check_shards(receipts, plan, staging.dataset, every_byte=every_byte)

    def send(self) -> None:
        """Send the finished dataset to where it belongs: it is there already."""

    @contextmanager
    def folder(self) -> Iterator[None]:
        """A block in which the folder of `local` exists; a temporary one is removed afterwards if nothing is left."""
        yield

    def reported(self, report: Report) -> Report:
        """The report for the user."""
        return report
