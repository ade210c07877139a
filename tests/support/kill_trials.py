"""Kills a conversion at chosen operations on storage, each time in a process of its own, and resumes it.

    python kill_trials.py IMAGES PLACE convert|replace|checkpoints|edited|objects|FORMAT EVERY SEED

A script, as it forks: the process that runs pytest may have threads. Every point before an operation, and the middle of
every write, is a trial; with EVERY > 1 one of so many, but at least one of each kind. Prints one line of JSON.
"""

import json
import os
import pickle
import random
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.shards import write_shard
from shardfeed.converters.shards.receipts import load_receipt, receipt_count
from shardfeed.errors import OutputExistsError, TooManyRejectedError
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.naming import is_shard, shard_file

from in_process import convert_here, source_of
from storage_ops import Operation, watched
from trees import tree


def in_child(action: Callable[[], None]) -> int:
    """The exit status of a fork that runs `action`; negative for the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_at(make: Callable[[Path], object], place: Path, stop: int, half: bool) -> None:
    """Make `place`/out, and die at the operation on storage of number `stop`: before it, or with half of its bytes.

    Several threads may write: which operation is the n-th then differs from run to run, how many there are does not.
    """
    count, lock = 0, threading.Lock()

    def before(operation: Operation) -> None:
        nonlocal count
        with lock:
            if count == stop:
                if half and operation.data:
                    with open(operation.path, "r+b") as file:
                        file.seek(*((0, os.SEEK_END) if operation.start is None else (operation.start, os.SEEK_SET)))
                        file.write(operation.data[: len(operation.data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    with watched(place, before):
        make(place / "out")


def fails_again(make: Callable[[Path], object], place: Path, expected: dict[str, bytes], done: bool, spare: str) -> str:
    """Make `place`/out again: what is wrong then with what is there; `spare` may be left behind."""

    def again() -> None:
        try:
            make(place / "out")
        except OutputExistsError:
            assert done, "refused, though it was not finished"

    if in_child(again):
        return "running again failed"
    left = tree(place)
    left.pop(spare, None)
    whole = {"out/": b"", **{f"out/{name}": data for name, data in expected.items()}}
    return "" if left == whole else f"other bytes or names: {sorted(left.items() ^ whole.items())}"[:300]


def anew(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()


def kill_everywhere(
    make: Callable[[Path], object],
    place: Path,
    operations: list[Operation],
    wrong: Callable[[Path], str],
    every: int,
    *,
    seed: int | None = None,
    prepare: Callable[[Path], object] = anew,
    kind: Callable[[int], str] | None = None,
    each_kind: bool = True,
) -> None:
    """Kill `make` at one of `every` of the points, and print a line of JSON.

    A point is before an operation, in the middle of a write, or after the last; `seed` shuffles them. `wrong` describes
    the promise broken at the place of a trial, empty if none is.
    """
    points = [(i, half) for i, each in enumerate(operations) for half in ((False, True)[: 1 + bool(each.data)])]
    points.append((len(operations), False))
    if seed is not None:
        random.Random(seed).shuffle(points)
    kinds: set[tuple[str, bool]] = set()
    failures, trials = [], 0
    for n, (i, half) in enumerate(points):
        of_kind = ((kind(i) if kind else operations[i].kind) if i < len(operations) else "end", half)
        if n % every and (of_kind in kinds or not each_kind):
            continue
        kinds.add(of_kind)
        trials += 1
        at = place / "trial"
        prepare(at)
        status = in_child(partial(die_at, make, at, i, half))
        expected = 0 if i == len(operations) else -signal.SIGKILL
        what = f"exit status {status}" if status != expected else wrong(at)
        if what:
            when = f"{'half of' if half else 'before'} {of_kind[0]}"
            failures.append(f"operation {i} of {len(operations)}, {when}: {what}")
    met = sorted({name for name, _ in kinds} | {each.kind for each in operations if kind})
    print(json.dumps({"operations": len(operations), "trials": trials, "kinds": met, "failures": failures}))


def recorded(root: Path, place: Path, options: Mapping[str, Any]) -> list[Operation]:
    """The operations of a conversion. It has a process of its own: a library's threads do not survive a fork."""
    noted = place.with_name("operations")

    def convert() -> None:
        operations: list[Operation] = []
        with watched(place, operations.append):
            convert_here(root, place / "out", **options)
        noted.write_bytes(pickle.dumps(operations))

    assert in_child(convert) == 0
    return pickle.loads(noted.read_bytes())


def prepare(place: Path, old: Path | None, left: Path) -> None:
    """A place with a dataset that is to be replaced, and with what an earlier run left, where there is that."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if old is not None:
        shutil.copytree(old, place / "out")
    if left.exists():
        shutil.copytree(left, place / ".out.staging")


def leave_other_inputs(root: Path, place: Path) -> Path:
    """Leave the staging directory of a run over other images: one rejected and gone since, one of another mtime."""
    images = place / "images"
    shutil.copytree(root, images)
    first, *_ = sorted(images.rglob("*.jpg"))
    shutil.copy(first, first.with_name("more.jpg"))
    first.with_name("bad.jpg").write_bytes(b"no image")
    os.utime(first, ns=(1, 1))
    with suppress(TooManyRejectedError):
        convert_here(images, place / "out")
    shutil.rmtree(images)
    return place / ".out.staging"


def finished_shards(place: Path, committed: bool, digests: set[str], to: str) -> dict[str, int]:
    """Inode of every shard that must not be made again, by name; `digests`: of those that are to be made."""
    staging = place / ".out.staging"
    if committed:
        files = tree(place / "out") if staging.exists() else {}
        return {name: (place / "out" / name).stat().st_ino for name in files if is_shard(name)}
    receipts = {path.name: load_receipt(str(path)) for path in (staging / "receipts").glob("*.json")}
    names = [
        shard_file(receipt.split, receipt.number, receipt_count(name) or 0, to)
        for name, receipt in receipts.items()
        if receipt is not None and receipt.digest in digests
    ]
    return {name: (staging / "dataset" / name).stat().st_ino for name in names}


def wrong(
    root: Path,
    place: Path,
    old: dict[str, bytes] | None,
    new: dict[str, bytes],
    digests: set[str],
    options: Mapping[str, Any],
) -> str:
    """Describe the promise broken after a kill and after running again; empty if none is."""
    found = tree(place / "out") if (place / "out").exists() else None
    if found not in (old, new):
        return "the output is neither absent nor complete" if old is None else "the output is neither old nor new"
    done = found == new and not (place / ".out.staging").exists()

    finished = finished_shards(place, found == new, digests, options["to"])
    if failure := fails_again(partial(convert_here, root, **options), place, new, done, ""):
        return failure
    redone = [name for name, inode in finished.items() if (place / "out" / name).stat().st_ino != inode]
    return f"made again: {redone}" if redone else ""


def main(root: Path, place: Path, mode: str, every: int, seed: int) -> None:
    place.mkdir()
    replace = mode == "replace"
    if mode in ("checkpoints", "objects"):
        write_shard.CHECKPOINT_SECONDS = -1  # before every image
    old = place / "old" if replace else None
    if old is not None:
        convert_here(root, old, shards=2)
    left = leave_other_inputs(root, place) if mode == "edited" else place / "nothing"
    options = {"replace": replace, "to": mode if mode in FORMATS else NATIVE.name}
    plan = make_plan(source_of(root), PlanOptions(shards=3, to=options["to"]))
    digests = {plan.shard_digest(shard) for shard in plan.shards}
    whole = place / "whole"
    prepare(whole, old, left)
    operations = recorded(root, whole, options)
    old_tree, new_tree = tree(old) if old is not None else None, tree(whole / "out")
    kill_everywhere(
        partial(convert_here, root, **options),
        place,
        operations,
        lambda at: wrong(root, at, old_tree, new_tree, digests, options),
        every,
        seed=seed,
        prepare=lambda at: prepare(at, old, left),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
