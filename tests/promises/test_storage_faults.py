"""Storage that fails: full disks, errors of every writing call, places that cannot be written, sources unreadable."""

import ctypes
import errno
import hashlib
import importlib.util
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, Sample, SourceFile, convert
from shardfeed.converters.commit import output
from shardfeed.converters.rejects import RejectCode
from shardfeed.errors import OutputExistsError, PlanMismatchError, ShardfeedError, StorageError, TooManyRejectedError
from shardfeed.readers import verify
from shardfeed.schema import Schema

from in_process import OwnEngine
from repository import SUPPORT
from trees import tree

FAULTS = SUPPORT / "faults"
COMMAND = [sys.executable, "-m", "shardfeed.tools.cli", "convert"]
OPTIONS: Mapping[str, Any] = {"shards": {"train": 2, "validation": 1}, "split": {"train": 0.6, "validation": 0.4}}
ARGUMENTS = ["--shards", "train=2,validation=1", "--split", "train=0.6,validation=0.4", "--workers", "1"]


def injector() -> ModuleType:
    """tests/faults/sitecustomize.py as a module, without its effect on the process."""
    spec = importlib.util.spec_from_file_location("faults", FAULTS / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def open_below(place: Path) -> list[str]:
    """The files in a directory that this process has open; what other tests left to be closed is not counted."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(f"{place}/")]


def fail_every_call(kind: str, base: Path, root: Path, *, replace: bool, step: int, first: int = 1) -> tuple[int, int]:
    """Fail call `first`, `first + step`, ... until the run succeeds; (trials, calls of a whole run).

    After each: the output is as before or complete, no file descriptor is left, and the next run makes it byte by byte
    what it is without failures.
    """
    faults = injector()
    source, old = ImageFolder(root), ImageFolder(root)
    fresh = base / "fresh"
    fresh.mkdir()
    convert(source, fresh / "out", workers=OwnEngine(1), **OPTIONS)
    expected = tree(fresh)
    (base / "before").mkdir()
    if replace:
        convert(old, base / "before" / "out", seed=5, shards=3)
    before = tree(base / "before")
    assert before != expected
    for trials, at in enumerate(itertools.count(first, step)):
        place = base / f"{kind}{at}"
        shutil.copytree(base / "before", place)
        fault = faults.Fault(kind, at, str(place), partial(next, itertools.count(1)), sync=False)
        failed = None
        fault.install()
        try:
            convert(source, place / "out", workers=OwnEngine(1), replace=replace, **OPTIONS)
        except ShardfeedError as error:
            failed = error
        finally:
            fault.remove()
        said = f"{kind} at call {at}, {fault.fired}: {failed}"
        assert not open_below(place), f"left open: {said}"
        assert not fault.repeated, f"fsync again: {said}"
        if not fault.fired:
            assert failed is None, said
            assert tree(place) == expected, said
            shutil.rmtree(place)
            return trials, at
        found = {name: data for name, data in tree(place).items() if name.startswith("out/")}
        assert found in (expected, before), f"a mix: {said}"
        if failed is None:
            assert found == expected, said
        else:
            assert isinstance(failed, StorageError), said
            assert failed.exit_code == 5, said
            assert kind != "short", said
        try:
            convert(source, place / "out", workers=OwnEngine(1), replace=replace, **OPTIONS)
        except OutputExistsError:
            assert failed is None, said
            assert not replace, said
        assert tree(place) == expected, said
        shutil.rmtree(place)
    raise AssertionError("unreachable")


@pytest.fixture
def small(folder: Callable[..., Path]) -> Path:
    """Eight images of two classes."""
    return folder(4, classes=("a", "b"))


KINDS = ("ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "fsync", "short")


@pytest.mark.promise(16)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_some_failing_calls(kind: str, replace: bool, small: Path, tmp_path: Path) -> None:
    first = 1 + KINDS.index(kind)
    trials, calls = fail_every_call(
        kind, tmp_path, small, replace=replace, step=3 if kind == "short" else 7, first=first
    )
    assert trials >= 2
    assert calls > 10


@pytest.mark.torture
@pytest.mark.promise(16)
def test_every_failing_call(small: Path, tmp_path: Path, torture_result: Callable[..., None]) -> None:
    total = {}
    for kind, replace in itertools.product(KINDS, (False, True)):
        base = tmp_path / f"{kind}-{replace}"
        base.mkdir()
        trials, calls = fail_every_call(kind, base, small, replace=replace, step=1)
        assert trials == calls - 1 > 10
        total[kind] = total.get(kind, 0) + trials
    print(total)
    torture_result("each call that writes fails in turn", trials=sum(total.values()), failures=0, by_kind=total)


def command_with_faults(
    small: Path, place: Path, kind: str, at: int, count: Path
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PYTHONPATH": os.pathsep.join([str(FAULTS), os.environ.get("PYTHONPATH", "")]),
        "FAULT_KIND": kind,
        "FAULT_AT": str(at),
        "FAULT_UNDER": str(place),
        "FAULT_COUNT": str(count),
    }
    command = [*COMMAND, str(small), str(place / "out"), *ARGUMENTS, "--quiet"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def fail_calls_of_the_command(small: Path, base: Path, choices: Sequence[tuple[str, float]]) -> int:
    """Fail the call at each (kind, share of all calls) of the real command with its workers; how many were failures."""
    (base / "fresh").mkdir()
    convert(ImageFolder(small), base / "fresh" / "out", workers=1, **OPTIONS)
    expected = tree(base / "fresh")
    calls: dict[str, int] = {}
    failures = 0
    for number, (kind, share) in enumerate(choices):
        if kind not in calls:  # one run to count them
            (base / kind).mkdir()
            assert command_with_faults(small, base / kind, kind, 10**9, base / f"{kind}.count").returncode == 0
            calls[kind] = (base / f"{kind}.count").stat().st_size
            assert calls[kind] > 10
        place = base / f"trial{number}"
        place.mkdir()
        at = 1 + int(share * calls[kind])
        done = command_with_faults(small, place, kind, at, base / f"{number}.count")
        said = f"{kind} at call {at} of {calls[kind]}: {done.returncode} {done.stderr}"
        assert (base / f"{number}.count").stat().st_size >= at, said
        assert "Traceback" not in done.stderr, said
        assert done.returncode in (0, 5), said
        failures += done.returncode == 5
        if done.returncode == 5:
            assert len(done.stderr.splitlines()) == 1, said
            assert done.stderr.startswith("shardfeed: "), said
        if (place / "out").exists():
            assert not verify(place / "out").damages, said
        again = subprocess.run(
            [*COMMAND, str(small), str(place / "out"), *ARGUMENTS], capture_output=True, text=True, check=False
        )
        assert again.returncode == 0 or (done.returncode == 0 and again.returncode == 2), f"{said} {again.stderr}"
        assert tree(place) == expected, said
    return failures


@pytest.mark.long
@pytest.mark.promise(16)
def test_failing_calls_of_the_command(small: Path, tmp_path: Path) -> None:
    assert fail_calls_of_the_command(small, tmp_path, [("EIO", 0.5), ("fsync", 0.4)]) == 2


@pytest.mark.torture
@pytest.mark.promise(16)
@pytest.mark.timeout(1200)
def test_failing_calls_of_the_command_at_random(
    small: Path, tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    rng = random.Random(seed)
    choices = [(kind, rng.random()) for kind in KINDS for _ in range(15)]
    failed = fail_calls_of_the_command(small, tmp_path, choices)
    assert failed > len(choices) // 2
    torture_result("random calls of the command fail", trials=len(choices), failures=0, seed=seed)


@pytest.mark.promise(12, 16)
def test_a_swap_that_fails_costs_no_shard(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that cannot swap directories: what was made is taken up by the next run."""
    convert(ImageFolder(small), tmp_path / "out", shards=2, workers=1)
    before = tree(tmp_path / "out")

    class NoSwap:
        def __init__(self, *args: object, **named: object) -> None:
            pass

    real = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", NoSwap)
    with pytest.raises(StorageError, match="cannot swap in the new dataset"):
        convert(ImageFolder(small), tmp_path / "out", shards=3, workers=1, replace=True)
    monkeypatch.setattr(ctypes, "CDLL", real)
    assert tree(tmp_path / "out") == before
    report = convert(ImageFolder(small), tmp_path / "out", shards=3, workers=1, replace=True)
    assert report.images == 0, "all shards were there"
    assert len(shardfeed.open(tmp_path / "out").manifest.splits["train"].shards) == 3
    assert sorted(os.listdir(tmp_path)) == ["images", "out"]


@pytest.mark.promise(2, 12)
@pytest.mark.parametrize("shards", [2, 3])
def test_replace_after_a_kill_between_commit_and_clearing(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    def killed(staging: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(output, "_clear", killed)
        convert(ImageFolder(small), tmp_path / "out", shards=2, workers=1)
    assert (tmp_path / ".out.staging").exists()
    report = convert(ImageFolder(small), tmp_path / "out", shards=shards, workers=1, replace=True)
    assert report.images == (0 if shards == 2 else 8)
    assert len(shardfeed.open(tmp_path / "out").manifest.splits["train"].shards) == shards
    assert sorted(os.listdir(tmp_path)) == ["images", "out"]


@pytest.mark.promise(11)
def test_a_damaged_plan_is_no_reason_to_guess(small: Path, tmp_path: Path) -> None:
    (small / "a" / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(TooManyRejectedError):
        convert(ImageFolder(small), tmp_path / "out", workers=1)
    plan = tmp_path / ".out.staging" / "plan.json"
    plan.write_bytes(plan.read_bytes()[:-3])
    with pytest.raises(PlanMismatchError, match=r"plan\.json: damaged"):
        convert(ImageFolder(small), tmp_path / "out", workers=1, max_bad=1)


# A disk of one's own: a tmpfs in a mount namespace, where neither root nor a quota is needed.

NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def in_namespace(script: str, *arguments: object) -> Any:
    """Run a script that may mount file systems, and return the JSON that it prints. Skips where nobody may mount."""
    probe = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("no mount namespaces here: a disk of one's own cannot be made")
    command = [*NAMESPACE, sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FULL_DISK = """
import hashlib, json, os, subprocess, sys
from pathlib import Path
from trees import tree
root, place, small, large, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", small, "none", place], check=True)
def run():
    done = subprocess.run([*command, root, place + "/out"], capture_output=True, text=True)
    return [done.returncode, done.stderr]
first = run()
receipts = len(os.listdir(place + "/.out.staging/receipts"))
out = os.path.exists(place + "/out")
subprocess.run(["mount", "-o", "remount," + large, place], check=True)
second = run()
found = {name: hashlib.sha256(data).hexdigest() for name, data in tree(Path(place)).items()}
print(json.dumps([first, receipts, out, second, found]))
"""


@pytest.mark.promise(15)
@pytest.mark.parametrize("limit", ["40%", *(pytest.param(each, marks=pytest.mark.long) for each in ("95%", "inodes"))])
def test_a_disk_that_fills_up(flowers_folder: Path, tmp_path: Path, limit: str) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "disk").mkdir()
    command = [*COMMAND, "--shards", "8", "--workers", "2", "--quiet"]
    convert(ImageFolder(flowers_folder), tmp_path / "whole" / "out", shards=8, workers=2)
    expected = {name: hashlib.sha256(data).hexdigest() for name, data in tree(tmp_path / "whole").items()}
    need = sum(path.stat().st_size for path in (tmp_path / "whole" / "out").glob("train*"))
    small = "nr_inodes=24" if limit == "inodes" else f"size={need * int(limit[:-1]) // 100}"
    large = "nr_inodes=1000" if limit == "inodes" else "size=8m"
    (code, errors), receipts, out, second, found = in_namespace(
        FULL_DISK, flowers_folder, tmp_path / "disk", small, large, *command
    )
    assert code == 5, errors
    warning, error = errors.splitlines()
    assert warning.startswith("shardfeed: warning: ")
    assert "(inodes)" in warning if limit == "inodes" else "bytes of disk" in warning
    assert "No space left on device (ENOSPC); " in error
    assert " are free: make room, then run the same command again to resume" in error
    assert ("and 0 files (inodes) are free" in error) == (limit == "inodes")
    assert not out
    assert 0 < receipts < 8
    assert second == [0, ""]
    assert found == expected


class Watched:
    """Samples whose images leave a mark when they are read."""

    schema = Schema({})

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Sample:
        return Sample(b"%d" % i, partial(os.mkdir, str(self.mark)))  # type: ignore[arg-type]  # what is read is no image


def without_root_rights() -> None:
    """In a child about to start: root obeys permissions like everybody."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if os.geteuid() == 0 and libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "prctl")


OUTPUTS: dict[str, tuple[Callable[[Path], str], int, str]] = {
    "a file": (lambda p: ((p / "f").write_text("x"), str(p / "f"))[1], 2, "exists and is not a directory"),
    "a folder": (lambda p: ((p / "d").mkdir(), str(p / "d"))[1], 2, "exists already"),
    "a dangling symlink": (lambda p: ((p / "l").symlink_to(p / "none"), str(p / "l"))[1], 2, "is not a directory"),
    "a device": (lambda p: "/dev/null", 2, "is not a directory"),
    "no parent": (lambda p: str(p / "none" / "out"), 2, "parent directory does not exist"),
    "the parent is a file": (lambda p: ((p / "f").write_text("x"), str(p / "f" / "out"))[1], 2, "parent directory"),
    "the parent dangles": (lambda p: ((p / "l").symlink_to(p / "none"), str(p / "l" / "out"))[1], 2, "parent"),
    "a name too long": (lambda p: str(p / ("n" * 255)), 5, "File name too long"),
    "a path too long": (lambda p: str(p / "/".join(["n" * 200] * 30)), 2, "parent directory does not exist"),
    "where no file may be": (lambda p: "/proc/out", 5, "cannot"),
    "the root": (lambda p: "/", 2, "exists already"),
    "a lock that is a folder": (lambda p: ((p / ".out.lock").mkdir(), str(p / "out"))[1], 5, "Is a directory"),
    "a staging that is a file": (lambda p: ((p / ".out.staging").write_text("x"), str(p / "out"))[1], 5, "cannot"),
}


@pytest.mark.promise(17)
@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_that_cannot_be_is_refused_before_any_image_is_read(case: str, tmp_path: Path) -> None:
    make, code, said = OUTPUTS[case]
    (tmp_path / "place").mkdir()
    out = make(tmp_path / "place")
    before = sorted(path.name for path in (tmp_path / "place").iterdir())
    with pytest.raises(ShardfeedError, match=said) as caught:
        convert(Watched(tmp_path / "read"), out, workers=1)
    assert caught.value.exit_code == code
    assert not (tmp_path / "read").exists()
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == before
    if case == "a folder":  # the other cases would show that images are read, if they were
        with pytest.raises(TooManyRejectedError):
            convert(Watched(tmp_path / "read"), tmp_path / "place" / "good", workers=1)
        assert (tmp_path / "read").exists()


def as_everybody(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=without_root_rights)
    except subprocess.SubprocessError:
        pytest.skip("root's rights cannot be dropped here")


@pytest.mark.promise(17)
def test_a_folder_without_permission(small: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    done = as_everybody([*COMMAND, str(small), str(tmp_path / "locked" / "out")])
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith(f"shardfeed: {tmp_path}/locked: cannot be written")
    assert list((tmp_path / "locked").iterdir()) == []


READ_ONLY = """
import json, subprocess, sys
place, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place], check=True)
done = subprocess.run([*command, place + "/out"], capture_output=True, text=True)
print(json.dumps([done.returncode, done.stderr]))
"""


@pytest.mark.promise(17)
def test_a_read_only_file_system(small: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    code, errors = in_namespace(READ_ONLY, tmp_path / "disk", *COMMAND, small)
    assert code == 5, errors
    assert len(errors.splitlines()) == 1
    assert errors.startswith(f"shardfeed: {tmp_path}/disk")


@pytest.mark.promise(18)
def test_a_file_without_permission_is_no_corrupt_one(small: Path, tmp_path: Path) -> None:
    (small / "a" / "0001.jpg").chmod(0)
    (small / "b" / "0002.jpg").write_bytes((small / "b" / "0002.jpg").read_bytes()[:200])
    command = [*COMMAND, str(small), str(tmp_path / "out"), "--workers", "1", "--json"]
    done = as_everybody(command)
    assert done.returncode == 3, done.stderr
    rejected = {entry["key"]: (entry["code"], entry["reason"]) for entry in json.loads(done.stdout)["rejected"]}
    assert rejected["a/0001.jpg"] == ("E_UNREADABLE", f"Permission denied (errno {errno.EACCES})")
    assert rejected["b/0002.jpg"][0] == "E_TRUNCATED"
    # Once it can be read, the next run reads it: what was rejected for that is not for ever.
    (small / "a" / "0001.jpg").chmod(0o644)
    done = as_everybody([*command, "--max-bad", "1"])
    assert done.returncode == 0, done.stderr
    assert [entry["key"] for entry in json.loads(done.stdout)["rejected"]] == ["b/0002.jpg"]
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 7


class OneFile:
    """A folder's samples, and one file more."""

    def __init__(self, root: Path, file: SourceFile) -> None:
        self.folder, self.file = ImageFolder(root), file
        self.schema = self.folder.schema

    def __len__(self) -> int:
        return len(self.folder) + 1

    def __getitem__(self, i: int) -> Sample:
        if i < len(self.folder):
            return self.folder[i]
        return Sample(b"more", self.file, self.folder[0].features)


@pytest.mark.promise(18)
def test_a_file_that_fails_while_it_is_read(small: Path, tmp_path: Path) -> None:
    """/proc/self/mem is a regular file whose first byte cannot be read: EIO, from a real kernel."""
    source = OneFile(small, SourceFile(b"/proc/self/mem", 1000, 0))
    with pytest.raises(TooManyRejectedError) as caught:
        convert(source, tmp_path / "out", workers=1)
    expected = (b"more", RejectCode.UNREADABLE.value, f"Input/output error (errno {errno.EIO})")
    assert [(noted.key, noted.what, noted.why) for noted in caught.value.report.rejected] == [expected]
    assert convert(source, tmp_path / "out", workers=1, max_bad=1).manifest.rejected == {"E_UNREADABLE": 1}


@pytest.mark.promise(18)
def test_a_machine_without_file_descriptors_blames_no_image(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def exhausted(path: Any, *rest: Any, **named: Any) -> int:
        if os.fsencode(path).endswith(b"a/0002.jpg"):
            raise OSError(errno.EMFILE, "")
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(StorageError, match=r"0002.jpg: cannot read: Too many open files \(EMFILE\)"):
        convert(ImageFolder(small), tmp_path / "out", workers=OwnEngine(1), **OPTIONS)
    monkeypatch.undo()
    report = convert(ImageFolder(small), tmp_path / "out", workers=1, **OPTIONS)
    assert report.rejected == []
