"""RELIABILITY 3: the power is cut after any operation on storage; what was not fsynced is gone, torn or reordered."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters import ImageFolder
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.converters.shards import write_shard as shard_writer
from shardfeed.converters.shards.receipts import load_receipt
from shardfeed.errors import OutputExistsError
from shardfeed.foreign import Stop
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.storage.storage import file_checksum

import disk_model
import operation_kill_trials
import storage_ops
from in_process import convert_here
from kill_trials import leave_other_inputs
from trees import tree


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def images(folder: Callable[..., Path]) -> Path:
    """Twelve images of the same bytes under names of the same length: shards of any order have the same sizes."""
    root = folder(4, classes=("aaa", "bbb", "ccc"))
    for path in root.rglob("*.jpg"):
        path.write_bytes((root / "aaa" / "0000.jpg").read_bytes())
    return root


def recorded(place: Path, action: Callable[[], object]) -> tuple[dict[str, bytes], list[Any]]:
    """Files in `place` before `action`, and the operations of `action` on it."""
    before, operations = tree(place), []

    def note(operation: Any) -> None:
        if operation.name == "fsync" and operation.path.endswith(".array_record.partial"):  # a library wrote there
            content = Path(operation.path).read_bytes()
            operations.append(storage_ops.Operation("write", operation.path, "", content, 0))
        operations.append(operation)

    with storage_ops.watched(place, lambda operation: None, note):
        action()
    disk = disk_model.Disk(str(place), before)
    for operation in operations:
        disk.apply(operation)
    assert disk.after_power_cut("all kept", random.Random(0)) == tree(place), "the model lost track"
    return before, operations


def check_receipts(at: Path, expected: dict[str, bytes], digests: set[str]) -> int:
    """Every file of a receipt that counts is whole; the number of receipts. `digests`: of the shards in `expected`."""
    staging = at / ".out.staging"
    paths = list((staging / "receipts").glob("*.json"))
    if not (staging / "plan.json").exists() or b'"commit"' in (staging / "plan.json").read_bytes():
        return 0  # a run that finds it so starts afresh, or finds the dataset committed
    for path in paths:
        receipt = load_receipt(str(path))
        assert receipt is not None, f"{path.name} is split:"
        for name, info in (("{}.tfrecord", receipt.info.data), ("index/{}.tfindex", receipt.info.index)):
            file = staging / "dataset" / name.format(path.stem)
            assert file_checksum(str(file)) == (info.size, info.crc32c), f"{file.name} has a receipt and is not whole"
            assert receipt.digest not in digests or file.read_bytes() == expected[name.format(path.stem)]
    return len(paths)


SCENARIOS = {
    # name: what is there before, and what is recorded; each gets the place and the images
    "convert": (lambda place, images: None, {}),
    "convert, receipts late": (lambda place, images: None, {"workers": 2}),
    "replace": (lambda place, images: convert_here(images, place / "out", seed=1), {"replace": True}),
    "resume": (lambda place, images: leave_half(place, images), {}),
    "other inputs": (lambda place, images: leave_other_inputs(images, place), {}),
    "checkpoints": (lambda place, images: None, {"checkpoints": True}),
}


class PowerCut(Stop):
    """Stops a conversion where it is."""


def digests_of(images: Path) -> set[str]:
    plan = make_plan(ImageFolder(images), PlanOptions(shards=3))
    return {plan.shard_digest(shard) for shard in plan.shards}


def convert_with(root: Path, out: Path, *, checkpoints: bool = False, **options: Any) -> None:
    """`convert_here`; with `checkpoints` one before every image."""
    with pytest.MonkeyPatch.context() as patch:
        if checkpoints:
            patch.setattr(shard_writer, "CHECKPOINT_SECONDS", -1.0)
        convert_here(root, out, **options)


def leave_half(place: Path, images: Path) -> None:
    """Leave the files of a run that was stopped in its second shard."""

    def stop(operation: Any) -> None:
        if operation.name == "fsync" and "train-00001" in operation.path:
            raise PowerCut

    with pytest.raises(PowerCut), storage_ops.watched(place, stop):
        convert_here(images, place / "out")


def states(count: int, lengths: dict[str, int], rng: random.Random) -> list[tuple[str, int, str]]:
    """(scenario, operations done, loss): `count` of them at random, as many of each scenario, or all there are."""
    of_each = []
    for name, length in lengths.items():
        all_of_it = [(name, done, loss) for done in range(length + 1) for loss in disk_model.LOSSES]
        rng.shuffle(all_of_it)
        of_each.append(all_of_it[: -(-count // len(lengths))])
    return [state for one in of_each for state in one]


@pytest.mark.promise(3)
@pytest.mark.parametrize("count", [150, pytest.param(10**6, marks=pytest.mark.torture)])
def test_power_loss_then_resume(
    count: int, images: Path, place: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    rng = random.Random(seed)
    (place / "fresh").mkdir()
    convert_here(images, place / "fresh" / "out")
    new = tree(place / "fresh" / "out")
    recordings, old, digests = {}, {}, digests_of(images)
    for name, (prepare, options) in SCENARIOS.items():
        at = place / name
        at.mkdir()
        prepare(at, images)
        old[name] = tree(at / "out")
        recordings[name] = (
            at,
            *recorded(at, partial(convert_with, images, at / "out", **options)),
        )
    trials = receipts = 0
    for name, done, loss in states(count, {name: len(r[2]) for name, r in recordings.items()}, rng):
        at, before, operations = recordings[name]
        disk = disk_model.Disk(str(at), before)
        for operation in operations[:done]:
            disk.apply(operation)
        what = f"{name}, cut after {done} of {len(operations)} operations, {loss}"
        again = place / "again"
        disk_model.lay_out(disk.after_power_cut(loss, rng), again)
        try:
            found = tree(again / "out")
            assert (again / "out").exists() or not old[name], "the old dataset is gone"
            assert found in (old[name], new), "neither the old nor the new dataset"
            receipts += check_receipts(again, new, digests)
            finished = found == new and not (again / ".out.staging").exists()
            replace = name == "replace"
            if finished and not replace:
                with pytest.raises(OutputExistsError):
                    convert_here(images, again / "out")
            else:
                convert_with(images, again / "out", replace=replace, checkpoints=name == "checkpoints")
            assert tree(again) == {"out/": b"", **{f"out/{file}": data for file, data in new.items()}}
        except Exception as error:
            raise AssertionError(f"{what}: {error}") from error
        shutil.rmtree(again)
        trials += 1
    assert trials >= min(count, 500)
    assert receipts > trials / 4, "few states had receipts to check"
    torture_result("power cut after a disk operation, then resumed", trials=trials, failures=0, seed=seed)


def check_cuts(make: Callable[[Path], object], place: Path, seed: int, *, count: int | None = None) -> set[str]:
    """`make`, which makes the dataset whose path it gets, leaves it absent or whole, and gives the same when run again.

    `count`: so many cuts at random; None for all that there are. The kinds of operations that were recorded.
    """
    rng, at, again = random.Random(seed), place / "recorded", place / "again"
    at.mkdir()
    before, operations = recorded(at, partial(make, at / "out"))
    whole = tree(at / "out")
    everything = [(done, loss) for done in range(len(operations) + 1) for loss in disk_model.LOSSES]
    rng.shuffle(everything)
    for done, loss in everything[:count]:
        disk = disk_model.Disk(str(at), before)
        for operation in operations[:done]:
            disk.apply(operation)
        disk_model.lay_out(disk.after_power_cut(loss, rng), again)
        found = tree(again / "out")
        assert found in ({}, whole), f"{done}, {loss}: neither absent nor whole"
        try:
            make(again / "out")
        except OutputExistsError:
            assert found == whole
        assert tree(again) == {"out/": b"", **{f"out/{file}": data for file, data in whole.items()}}, f"{done}, {loss}"
        shutil.rmtree(again)
    return {operation.name for operation in operations}


@pytest.mark.promise(3)
@pytest.mark.parametrize("to", ["mds", *(pytest.param(to, marks=pytest.mark.long) for to in FORMATS if to != "mds")])
def test_power_loss_of_each_format(to: str, images: Path, place: Path, seed: int) -> None:
    """No shard counts that is not whole; some cuts, or in the long tier all."""
    check_cuts(partial(convert_here, images, to=to), place, seed, count=25 if to == "mds" else None)


CUTS = [
    *((name, NATIVE.name, 4) for name in operation_kill_trials.OPERATIONS),
    *(pytest.param(name, NATIVE.name, 400, marks=pytest.mark.long) for name in operation_kill_trials.OPERATIONS[1:]),
    *(pytest.param("append", to, 400, marks=pytest.mark.long) for to in FORMATS),
    *(pytest.param("append", to, None, marks=pytest.mark.torture) for to in FORMATS),
]


@pytest.mark.promise(3)
@pytest.mark.parametrize(("name", "to", "count"), CUTS)
def test_power_loss_of_each_operation(name: str, to: str, count: int | None, place: Path, seed: int) -> None:
    """The same, and what is only read stays as it is; append links shards, whatever their format.

    In the long tier a third of the cuts, in the torture tier all of append; the others are conversions like any.
    """
    (inputs := place / "inputs").mkdir()
    operation_kill_trials.make_inputs(inputs, to)
    before = tree(inputs)
    kinds = check_cuts(operation_kill_trials.operation(name, inputs), place, seed, count=count)
    assert ("link" in kinds) == (name == "append")
    assert tree(inputs) == before


def test_the_model_loses_what_was_not_synced(tmp_path: Path) -> None:
    """The corruptor corrupts: a writer that forgets either fsync is caught, one that does both is not."""

    def disk(*names: str) -> Any:
        found = disk_model.Disk("/d", {})
        all_of_them = {
            "create": ("create", "/d/a.partial", "", b""),
            "write": ("write", "/d/a.partial", "", b"whole"),
            "fsync": ("fsync", "/d/a.partial", "", b""),
            "rename": ("rename", "/d/a.partial", "/d/a", b""),
            "fsync directory": ("fsync directory", "/d", "", b""),
        }
        for name in names:
            found.apply(all_of_them[name])
        return found

    def outcomes(model: Any) -> set[tuple[tuple[str, bytes], ...]]:
        return {
            tuple(sorted(model.after_power_cut(loss, random.Random(seed)).items()))
            for loss in disk_model.LOSSES
            for seed in range(20)
        }

    whole = (("a", b"whole"),)
    assert outcomes(disk("create", "write", "fsync", "rename", "fsync directory")) == {whole}
    without_data = outcomes(disk("create", "write", "rename", "fsync directory"))
    assert {(("a", b""),), (("a", bytes(5)),), (("a", b"who"),), whole} <= without_data
    assert outcomes(disk("create", "write", "fsync", "rename")) == {(), (("a.partial", b"whole"),), whole}


@pytest.mark.promise(3)
@pytest.mark.parametrize("forgotten", ["fsync", "fsync directory"])
def test_an_fsync_less_is_found(forgotten: str, images: Path, place: Path) -> None:
    """A product that leaves out fsyncs fails the check of the receipts in some state."""
    place = place / "x"
    place.mkdir()
    before, operations = recorded(place, lambda: convert_here(images, place / "out"))
    kept = [o for o in operations if o.name != forgotten or "dataset" not in o.path]
    assert len(kept) < len(operations)
    out = place / "out"
    expected = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.tf*")}
    rng = random.Random(0)
    failed = 0
    for done in range(0, len(kept) + 1, 5):
        disk = disk_model.Disk(str(place), before)
        for operation in kept[:done]:
            disk.apply(operation)
        again = place.parent / "again"
        for loss in disk_model.LOSSES:
            disk_model.lay_out(disk.after_power_cut(loss, rng), again)
            try:
                check_receipts(again, expected, digests_of(images))
            except (AssertionError, FileNotFoundError):
                failed += 1
            shutil.rmtree(again)
    assert failed
