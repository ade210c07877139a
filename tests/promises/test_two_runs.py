"""Two at once: converters that want one output, and readers of a dataset that is being replaced."""

import hashlib
import itertools
import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert
from shardfeed.errors import IntegrityError
from shardfeed.schema import FILENAME
from shardfeed.storage.local import Lock, hidden_sibling

from processes import until
from repository import SUPPORT
from trees import tree

CHECKOUT_COMMAND = [sys.executable, "-m", "shardfeed.tools.cli", "convert"]


# Each start: as many processes as there are spellings of the output, let go at once. Who gets the lock goes on when the
# others have ended, so that a slow machine cannot have one of them start after the winner's end.
STARTER = """
import json, os, select, socket, sys, time
from shardfeed.converters import conversion as job
from shardfeed.tools import cli
import shardfeed.tools.commands.convert_command
root, starts = sys.argv[1], json.loads(sys.argv[2])
for place, spellings in starts:
    os.chdir(place)
    go, let_go = os.pipe()
    others, others_ended = os.pipe()
    children = {}
    for number, out in enumerate(spellings):
        child = os.fork()
        if not child:
            os.close(let_go)
            os.close(others_ended)
            plan = job.make_plan
            def make_plan(*args):
                select.select([others], [], [], 60)
                return plan(*args)
            job.make_plan = make_plan
            os.dup2(os.open(f"../{os.path.basename(place)}.{number}", os.O_WRONLY | os.O_CREAT), 2)
            os.read(go, 1)
            code = cli.main(["convert", root, out, "--shards", "2", "--workers", "1", "--quiet"])
            sys.stderr.flush()
            os._exit(code)
        children[child] = number
    os.close(let_go)
    began = time.monotonic()
    ended = []
    while len(ended) < len(spellings):
        child, status = os.wait()
        said = open(f"../{os.path.basename(place)}.{children[child]}").read()
        ended.append([child, os.waitstatus_to_exitcode(status), said, time.monotonic() - began])
        if len(ended) == len(spellings) - 1:
            os.close(others_ended)
    os.close(go)
    os.close(others)
    print(json.dumps(ended))
"""

LEFT_BEHIND = (None, b"process 1 on nowhere", b"\xff\xfe\0garbage\n\x1b[2J", b"")  # by an owner that was killed


def double_starts(root: Path, base: Path, count: int, rng: random.Random) -> None:
    """Start two to four converters at once on one output, again and again."""
    (base / "whole").mkdir()
    convert(ImageFolder(root), base / "whole" / "out", shards=2, workers=1)
    expected = tree(base / "whole")
    starts = []
    for number in range(count):
        place = base / f"start{number}"
        place.mkdir()
        link = base / f"link{number}"
        link.symlink_to(place)
        left = LEFT_BEHIND[number % len(LEFT_BEHIND)]
        if left is not None:
            (place / ".out.lock").write_bytes(left)
        ways = ["out", f"{place}/out", f"{link}/out", "./out//", f"{place}/../{place.name}/out/"]
        starts.append([str(place), rng.sample(ways, rng.randint(2, 4))])
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(root), json.dumps(starts)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == count
    for (place, spellings), line in zip(starts, lines, strict=True):
        ended = json.loads(line)
        assert sorted(code for _, code, _, _ in ended) == [0, *[6] * (len(spellings) - 1)], ended
        winner = next(child for child, code, _, _ in ended if code == 0)
        for _, code, said, seconds in ended:
            if code == 6:
                assert f"process {winner} on {socket.gethostname()} is writing this output" in said
                assert len(said.splitlines()) == 1
                assert seconds < 60, "it does not wait for the other"
        assert tree(Path(place)) == expected


@pytest.mark.promise(10)
def test_converters_started_at_once_leave_one_winner(folder: Callable[..., Path], tmp_path: Path, seed: int) -> None:
    double_starts(folder(3), tmp_path, 5, random.Random(seed))


@pytest.mark.torture
@pytest.mark.promise(10)
def test_fifty_double_starts(
    folder: Callable[..., Path], tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    double_starts(folder(3), tmp_path, 50, random.Random(seed))
    torture_result("two conversions started at once: exactly one runs", trials=50, failures=0, seed=seed)


@pytest.mark.promise(10)
def test_a_killed_owner_is_taken_over(folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(10)
    command = [*CHECKOUT_COMMAND, str(root), str(tmp_path / "out"), "--shards", "8", "--workers", "2", "--quiet"]
    hangs = {"PYTHONPATH": str(SUPPORT / "deaths"), "DEATH_AT": "open rose/0001.jpg", "DEATH_HOW": "hang"}
    # One of its workers never comes to an end: the owner is at work until it is killed.
    process = subprocess.Popen([*command, "--start-method", "spawn"], start_new_session=True, env=os.environ | hangs)
    lock = Path(hidden_sibling(str(tmp_path / "out"), "lock"))
    until(lambda: any((tmp_path / ".out.staging" / "receipts").glob("*.json")))
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 6
    assert f"process {process.pid} on {socket.gethostname()} is writing this output" in second.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert lock.exists()
    lock.write_bytes(os.urandom(100))
    third = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (third.returncode, third.stderr) == (0, "")
    assert not lock.exists()
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 30


@pytest.mark.promise(10)
def test_garbage_in_a_lock_is_escaped(tmp_path: Path) -> None:
    lock = Lock(str(tmp_path / "lock"), "me\n\x1b[2J")
    with pytest.raises(shardfeed.errors.BusyError) as caught:
        Lock(str(tmp_path / "lock"), "you")
    lock.release()
    assert r"me\n\x1b[2J is writing" in str(caught.value)
    assert str(caught.value).isprintable()


# Reads a dataset by its path until a file says stop; prints each that is new, then what it saw, and every error.
READER = """
import collections, hashlib, json, os, sys
import shardfeed
from shardfeed.errors import IntegrityError
out, stop = sys.argv[1:]
seen, errors = collections.Counter(), collections.Counter()
while not os.path.exists(stop):
    try:
        data = shardfeed.open(out)
        names = [record["image/filename"].decode() for record in data["train"]]
        key = f"{len(data.manifest.splits['train'].shards)} {hashlib.sha256(repr(names).encode()).hexdigest()}"
        if not seen[key]:
            print(key, flush=True)
        seen[key] += 1
    except IntegrityError as error:
        errors[error.problem] += 1
print(json.dumps([seen, errors]))
"""


def swap_under_a_reader(root: Path, base: Path, shards: list[int]) -> tuple[int, int]:
    """Replace a dataset by others while it is read all the time; (whole readings, readings that were cut off)."""
    expected: list[str] = []
    source = ImageFolder(root)
    process: subprocess.Popen[str] | None = None
    for seed, count in enumerate(shards):
        # Pixels of one size: shards of one number have the same sizes and indexes, and only the records differ.
        options: dict[str, Any] = {"image": ImageOptions(encode="raw", size=8), "shards": count, "seed": seed}
        convert(source, base / "out", **options, workers=1, replace=True)
        if process is None:
            process = subprocess.Popen(
                [sys.executable, "-c", READER, str(base / "out"), str(base / "stop")], stdout=subprocess.PIPE, text=True
            )
        names = [record[FILENAME].decode() for record in shardfeed.open(base / "out")["train"]]  # type: ignore[union-attr]
        assert sorted(names) == sorted(os.fsdecode(source[i].key) for i in range(len(source)))
        expected.append(f"{count} {hashlib.sha256(repr(names).encode()).hexdigest()}")
        assert process.stdout.readline().strip() == expected[-1], "each is read, and the next comes while it is"
    (base / "stop").touch()
    assert process is not None
    seen, errors = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    assert list(seen) == expected, "a mix"
    assert set(errors) <= {"replaced by another dataset since it was opened"} | {
        problem for problem in errors if problem.startswith("differs from its manifest: ")
    }, errors
    return sum(seen.values()), sum(errors.values())


@pytest.mark.promise(12)
def test_a_reader_sees_the_old_dataset_or_the_new_one(folder: Callable[..., Path], tmp_path: Path) -> None:
    _, cut_off = swap_under_a_reader(folder(20), tmp_path, [16, 8, 32, 32])
    assert cut_off <= 3, "one at each swap, at most"


@pytest.mark.torture
@pytest.mark.promise(12)
def test_many_swaps_under_a_reader(
    folder: Callable[..., Path], tmp_path: Path, torture_result: Callable[..., None]
) -> None:
    shards = list(itertools.islice(itertools.cycle([16, 8, 32, 32]), 100))
    whole, cut_off = swap_under_a_reader(folder(20), tmp_path, shards)
    print(f"{whole} whole readings, {cut_off}truncated")
    assert cut_off <= len(shards)
    what = "the dataset replaced while it is read"
    torture_result(what, trials=99, failures=0, complete_readings=whole, readings_with_an_error=cut_off)


@pytest.fixture
def swapped(folder: Callable[..., Path], tmp_path: Path) -> Callable[[], None]:
    """A dataset of equal records, and a function that puts another of the same shape in its place."""
    source = ImageFolder(folder(20, classes=("a", "b", "c")))  # names of one length
    options: dict[str, Any] = {"image": ImageOptions(encode="raw", size=8), "shards": 3, "workers": 1}
    convert(source, tmp_path / "out", **options)

    def swap() -> None:
        before = tree(tmp_path / "out")
        convert(source, tmp_path / "out", seed=1, replace=True, **options)
        after = tree(tmp_path / "out")
        changed = {name for name in before if before[name] != after.get(name)}
        assert {name for name in changed if name.endswith(".tfrecord")} == {
            f"train-0000{i}-of-00003.tfrecord" for i in range(3)
        }
        assert all(len(before[name]) == len(after[name]) for name in changed if name.endswith(".tfrecord"))

    return swap


@pytest.mark.promise(12)
def test_a_reader_that_opened_before_the_swap_never_mixes(swapped: Callable[[], None], tmp_path: Path) -> None:
    split = shardfeed.open(tmp_path / "out")["train"]
    before = [split[i][FILENAME] for i in range(20)]  # the first shard: its file stays open
    assert split.shards.view(1) is not None  # the index of the second is known, and the same in the new dataset
    sent = pickle.dumps(split)
    swapped()
    assert [split[i][FILENAME] for i in range(20)] == before, "a file that is open is the old one"
    for reader in (split, pickle.loads(sent)):
        for place in (25, 45):
            with pytest.raises(IntegrityError, match="replaced by another dataset since it was opened; open it again"):
                reader[place]
    again = shardfeed.open(tmp_path / "out")["train"]
    assert len({record[FILENAME] for record in again}) == 60  # type: ignore[arg-type]  # a name is bytes


@pytest.mark.promise(12)
def test_a_reader_whose_dataset_is_gone(swapped: Callable[[], None], tmp_path: Path) -> None:
    split = shardfeed.open(tmp_path / "out")["train"]
    (tmp_path / "out").rename(tmp_path / "moved")
    with pytest.raises((IntegrityError, FileNotFoundError), match=r"deleted|No such file"):
        split[0]
    (tmp_path / "moved").rename(tmp_path / "out")
    assert split[0]
    shard = tmp_path / "out" / "train-00002-of-00003.tfrecord"
    shard.unlink()
    with pytest.raises(IntegrityError, match="missing: the manifest has this shard"):
        split[59]


@pytest.mark.promise(12)
def test_a_stream_never_mixes(swapped: Callable[[], None], tmp_path: Path) -> None:
    import tensorflow as tf

    from shardfeed.readers.tensorflow.stream import serialized_records

    split = shardfeed.open(tmp_path / "out")["train"]
    stream = serialized_records(split)
    expected = [record.numpy() for _, record in stream]
    assert expected == split.payloads(np.arange(60))
    iterator = iter(stream)
    found = [next(iterator)[1].numpy() for _ in range(5)]
    swapped()
    replaced = "replaced by another dataset since it was opened"
    with pytest.raises(tf.errors.InvalidArgumentError, match=replaced):
        for _, record in iterator:  # by the end of the epoch under way
            found.append(record.numpy())
    assert found[:20] == expected[:20], "a file that is open is the old one"
    with pytest.raises(tf.errors.InvalidArgumentError, match=replaced):
        next(iter(stream))  # and before anything of the next one
    with pytest.raises(IntegrityError, match="replaced by another dataset"):
        serialized_records(split)
    again = serialized_records(shardfeed.open(tmp_path / "out")["train"])
    assert sorted(record.numpy() for _, record in again) != sorted(expected)


@pytest.mark.promise(12)
@pytest.mark.parametrize("part", [slice(None), slice(50), slice(5, 45)], ids=str)
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_swap_within_an_epoch_raises_before_its_last_batch(
    swapped: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: slice, shuffled: bool
) -> None:
    """All shards from the second on are the other dataset's; training takes no more batches than there are."""
    import tensorflow as tf

    from shardfeed.pipelines import Stream, make_batches
    from shardfeed.readers.tensorflow import stream

    openings = itertools.count(1)

    def swap(path: bytes) -> bytes:
        if next(openings) == 2:
            swapped()
        return path

    whole = stream._shard_records

    def shard_records(shard: dict[str, Any]) -> Any:
        path = tf.ensure_shape(tf.numpy_function(swap, [shard["path"]], tf.string), [])
        return whole(shard | {"path": path})

    monkeypatch.setattr(stream, "_shard_records", shard_records)
    split = shardfeed.open(tmp_path / "out")["train"][part]
    with pytest.raises(tf.errors.InvalidArgumentError, match="replaced by another dataset"):
        if shuffled:
            order = Stream(buffer=4)
            batches = make_batches(split, lambda features, seed: seed, batch_size=3, order=order, keys=[])
            list(batches.take(int(batches.cardinality())))
        else:
            list(stream.serialized_records(split))
