"""Damaged shards, indexes and manifests: each change is found and placed, and no reader gives a wrong record."""

import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import encode
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, Index, frame, mask
from shardfeed.manifest import FileInfo, Manifest, SplitInfo
from shardfeed.naming import index_file, shard_file
from shardfeed.readers import Split, verify
from shardfeed.readers.tensorflow.stream import serialized_records
from shardfeed.schema import Feature, Schema
from shardfeed.shard_table import ShardTable
from shardfeed.storage.checksum import crc32c
from shardfeed.tools.cli import main

SHARD_BYTES = 64 << 10
KEY = "x"
FEATURES = {KEY: Feature("bytes")}
SIZES = [0, 1, 15, 15, 200, 1_000, 1_000, 5_000, 13_000, 40_000]  # of values; the last record fills the shard


@dataclass
class Damaged:
    """A dataset of one split; `payloads[s][r]`, `offsets[s][r]` (and the end) of record r of shard s."""

    directory: Path
    payloads: list[list[bytes]]

    @property
    def offsets(self) -> list[list[int]]:
        return [np.cumsum([0, *(len(p) + FRAME_BYTES for p in shard)]).tolist() for shard in self.payloads]

    def name(self, shard: int, suffix: str = "tfrecord") -> str:
        named = shard_file if suffix == "tfrecord" else index_file
        return named("train", shard, len(self.payloads))

    def path(self, shard: int, suffix: str = "tfrecord") -> Path:
        return self.directory / self.name(shard, suffix)

    def open(self) -> Split:
        return shardfeed.open(self.directory)["train"]


def example(rng: random.Random, size: int) -> bytes:
    return encode(FEATURES, {KEY: rng.randbytes(size)})


def write_dataset(directory: Path, payloads: list[list[bytes]]) -> Damaged:
    """The files that `convert` would write for records with these payloads, without images."""
    (directory / "index").mkdir(parents=True)
    made = Damaged(directory, payloads)
    shards = []
    for number, shard in enumerate(payloads):
        data = b"".join(map(frame, shard))
        index = Index.from_sizes([len(payload) + FRAME_BYTES for payload in shard]).to_bytes()
        made.path(number).write_bytes(data)
        made.path(number, "tfindex").write_bytes(index)
        shards.append(ShardInfo(len(shard), FileInfo(len(data), crc32c(data)), FileInfo(len(index), crc32c(index))))
    split = SplitInfo("train", ShardTable.of(shards))
    manifest = Manifest("damaged", Schema(FEATURES, {}), {"train": split}, {}, "0" * 32, {}, {}, {})
    (directory / "manifest.json").write_bytes(manifest.to_bytes())
    assert verify(directory).damages == []
    return made


@pytest.fixture
def dataset(tmp_path: Path) -> Damaged:
    """Two shards, the first of exactly 64 KiB in ten records from the smallest on, the second of a few."""
    rng = random.Random(0)
    values = [example(rng, size) for size in SIZES[:-1]]
    rest = SHARD_BYTES - sum(len(payload) + FRAME_BYTES for payload in values)
    last = example(rng, SIZES[-1])
    last = example(rng, SIZES[-1] + rest - FRAME_BYTES - len(last))
    made = write_dataset(tmp_path / "data", [[*values, last], [example(rng, size) for size in (15, 1_000, 0)]])
    assert made.path(0).stat().st_size == SHARD_BYTES
    return made


def edit(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Change a file; what it was before."""
    before = path.read_bytes()
    after = change(before)
    assert after != before, "the corruptor changed nothing"
    path.write_bytes(after)
    return before


def places(directory: Path) -> list[tuple[str, int | None, int | None]]:
    return [(damage.file, damage.record, damage.offset) for damage in verify(directory).damages]


def flips(path: Path, bits: Iterable[int]) -> Iterator[int]:
    """Each of `bits` of a file, while it is flipped; afterwards the file is as it was."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        whole = bytes(data)
        for bit in bits:
            data[bit // 8] ^= 1 << bit % 8
            yield bit
            data[bit // 8] ^= 1 << bit % 8
        assert bytes(data) == whole


def frame_bits(offsets: Sequence[int]) -> set[int]:
    """Every bit of each record's header and footer."""
    found: set[int] = set()
    for start, end in pairwise(offsets):
        found |= set(range(start * 8, (start + HEADER_BYTES) * 8)) | set(range((end - FOOTER_BYTES) * 8, end * 8))
    return found


def flip_bits(dataset: Damaged, bits: Iterable[int]) -> int:
    """Flip each bit of the first shard: `verify` and readers must place it, and readers give everything else."""
    offsets, payloads, name = dataset.offsets[0], dataset.payloads[0], dataset.name(0)
    starts = np.array(offsets[:-1])
    split, count = dataset.open(), 0
    for bit in flips(dataset.path(0), bits):
        record = int(np.searchsorted(starts, bit // 8, "right")) - 1
        offset = offsets[record]
        assert places(dataset.directory) == [(name, None, None), (name, record, offset)], bit
        with pytest.raises(RecordError) as caught:
            split.payload(record)
        assert caught.value.place.endswith(f"{name}, record {record}, offset {offset}"), bit
        others = np.array([i for i in range(len(payloads)) if i != record])
        assert split.payloads(others) == [payloads[i] for i in others], bit
        count += 1
    assert verify(dataset.directory).damages == []
    return count


@pytest.mark.promise(19)
def test_a_flipped_bit_is_found_and_placed(dataset: Damaged) -> None:
    bits = frame_bits(dataset.offsets[0]) | set(range(0, SHARD_BYTES * 8, 517))
    assert flip_bits(dataset, sorted(bits)) > 2_000


@pytest.mark.torture
@pytest.mark.promise(19)
def test_every_flipped_bit_is_found_and_placed(dataset: Damaged, torture_result: Callable[..., None]) -> None:
    started = time.monotonic()
    count = flip_bits(dataset, range(SHARD_BYTES * 8))
    assert count == 524_288
    torture_result("single-bit flips of a 64 KiB shard", trials=count, failures=0, seconds=_since(started))


def _since(started: float) -> int:
    return round(time.monotonic() - started)


def streamed(split: Split) -> tuple[list[bytes], type[Exception] | None]:
    """Records that tf.data yields before it ends or raises, and the type of its error."""
    found: list[bytes] = []
    try:
        for _, record in serialized_records(split).as_numpy_iterator():
            found.append(record)
    except (tf.errors.DataLossError, tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError) as error:
        return found, type(error)
    return found, None


def stream_flips(dataset: Damaged, bits: Iterable[int]) -> int:
    split, starts, count = dataset.open(), np.array(dataset.offsets[0][:-1]), 0
    for bit in flips(dataset.path(0), bits):
        record = int(np.searchsorted(starts, bit // 8, "right")) - 1
        assert streamed(split) == (dataset.payloads[0][:record], tf.errors.DataLossError), bit
        count += 1
    assert streamed(split) == ([payload for shard in dataset.payloads for payload in shard], None)
    return count


@pytest.mark.promise(19)
def test_tf_data_stops_at_a_flipped_bit(dataset: Damaged) -> None:
    offsets = dataset.offsets[0]
    assert stream_flips(
        dataset, [3, offsets[4] * 8 + 70, offsets[7] * 8 + 2_000, offsets[8] * 8 - 1, SHARD_BYTES * 8 - 1]
    )


@pytest.mark.torture
@pytest.mark.promise(19)
def test_tf_data_stops_at_many_flipped_bits(dataset: Damaged, seed: int, torture_result: Callable[..., None]) -> None:
    started = time.monotonic()
    bits = frame_bits(dataset.offsets[0]) | set(random.Random(seed).sample(range(SHARD_BYTES * 8), 2_000))
    count = stream_flips(dataset, sorted(bits))
    torture_result("single-bit flips read by tf.data", trials=count, failures=0, seed=seed, seconds=_since(started))


def cut(dataset: Damaged, lengths: Sequence[int]) -> int:
    """Cut the first shard at each of `lengths`, which fall."""
    path, name, offsets, payloads = dataset.path(0), dataset.name(0), dataset.offsets[0], dataset.payloads[0]
    split = dataset.open()
    for length in lengths:
        os.truncate(path, length)
        whole = sum(end <= length for end in offsets[1:])
        assert places(dataset.directory)[:2] == [(name, None, None), (name, whole, offsets[whole])], length
        with pytest.raises(IntegrityError, match=f"{name} has {length} bytes, expected {SHARD_BYTES}"):
            dataset.open()
        # A split that was opened before the shard was cut.
        assert split.payloads(np.arange(whole)) == payloads[:whole]
        for record in {whole, len(payloads) - 1}:
            with pytest.raises(RecordError, match=f"{name}, record {record}, offset {offsets[record]}"):
                split.payload(record)
    return len(lengths)


@pytest.mark.promise(20)
def test_a_cut_is_found_and_placed(dataset: Damaged) -> None:
    ends = {end + by for end in dataset.offsets[0] for by in range(-FOOTER_BYTES - 1, HEADER_BYTES + 2)}
    lengths = ends | set(range(0, SHARD_BYTES, 1_031))
    assert cut(dataset, sorted((n for n in lengths if 0 <= n < SHARD_BYTES), reverse=True)) > 150


@pytest.mark.torture
@pytest.mark.promise(20)
def test_a_cut_at_every_length(dataset: Damaged, torture_result: Callable[..., None]) -> None:
    started = time.monotonic()
    count = cut(dataset, range(SHARD_BYTES - 1, -1, -1))
    torture_result("a 64 KiB shard truncated to every length", trials=count, failures=0, seconds=_since(started))


@pytest.mark.promise(20)
def test_tf_data_notices_a_cut_between_records(dataset: Damaged) -> None:
    """TensorFlow alone takes that, and a few bytes of the next header, for the end of a shorter file."""
    split, offsets = dataset.open(), dataset.offsets[0]
    for length in (offsets[8], offsets[8] + 7, offsets[5], offsets[3] + 30, 0):
        os.truncate(dataset.path(0), length)
        found, error = streamed(split)
        assert error is not None, length
        assert found == dataset.payloads[0][: len(found)]


@pytest.mark.promise(20)
@pytest.mark.parametrize("extra", [b"\0", bytes(12), bytes(16), b"x" * 4096, frame(b""), frame(b"abc")])
def test_appended_bytes_are_found(dataset: Damaged, extra: bytes) -> None:
    edit(dataset.path(0), lambda data: data + extra)
    assert dataset.name(0) in {file for file, *_ in places(dataset.directory)}
    with pytest.raises(IntegrityError, match=f"{dataset.name(0)} has {SHARD_BYTES + len(extra)} bytes"):
        dataset.open()


def rearranged(rng: random.Random, shards: list[list[bytes]]) -> list[list[bytes]]:
    """Records removed, doubled, swapped, or moved between shards."""
    made = [list(shard) for shard in shards]
    for _ in range(rng.randint(1, 3)):
        a, b = rng.choice(made), rng.choice(made)
        if not a or not b:
            continue
        i, j = rng.randrange(len(a)), rng.randrange(len(b))
        kind = rng.randrange(5)
        if kind == 0:
            del a[i]
        elif kind == 1:
            b.insert(j, a[i])
        elif kind == 2:
            a[i], b[j] = b[j], a[i]
        elif kind == 3:
            b.insert(min(j, len(b)), a.pop(i))
        else:
            b[j] = a[i]
    return made


def rearrange(dataset: Damaged, rng: random.Random, count: int) -> int:
    """Change the order or number of records `count` times; how often no size changed."""
    known = {payload for shard in dataset.payloads for payload in shard}
    whole = [b"".join(map(frame, shard)) for shard in dataset.payloads]
    unseen = 0
    for _ in range(count):
        shards = dataset.payloads
        while shards == dataset.payloads:
            shards = rearranged(rng, dataset.payloads)
        files = [b"".join(map(frame, shard)) for shard in shards]
        for number, data in enumerate(files):
            dataset.path(number).write_bytes(data)
        changed = {dataset.name(n) for n, data in enumerate(files) if data != whole[n]}
        assert {file for file, *_ in places(dataset.directory)} == changed
        resized = {dataset.name(n) for n, data in enumerate(files) if len(data) != len(whole[n])}
        if resized:
            with pytest.raises(IntegrityError) as caught:
                dataset.open()
            assert all(f"{name} has" in caught.value.problem for name in resized)
        else:  # only `verify` can tell a record from another one of its length; what a reader gives is a record
            split, unseen = dataset.open(), unseen + 1
            for record in range(len(split)):
                try:
                    assert split.payload(record) in known
                except RecordError:
                    pass
    return unseen


@pytest.mark.promise(20)
def test_records_removed_doubled_swapped_or_moved_are_found(dataset: Damaged, seed: int) -> None:
    assert rearrange(dataset, random.Random(seed), 200) > 5


@pytest.mark.torture
@pytest.mark.promise(20)
def test_a_thousand_structural_changes(dataset: Damaged, seed: int, torture_result: Callable[..., None]) -> None:
    rearrange(dataset, random.Random(seed), 1_000)
    torture_result("records removed, duplicated, swapped, moved between shards", trials=1_000, failures=0, seed=seed)


# Runs in a process of its own, whose memory is measured: what this one has used before would hide what is added.
READ_LIES = """
import json, resource, sys, time
import shardfeed
from shardfeed.errors import IntegrityError
from shardfeed.readers import verify

directory, path, record, offset, headers = json.loads(sys.stdin.read())

def attempts():
    split = shardfeed.open(directory)["train"]
    for read in (lambda: split.payload(record), lambda: split.column("x"), lambda: list(split)):
        try:
            read()
            yield "read"
        except IntegrityError as error:
            yield error.place + ": " + error.problem
    yield str([(d.record, d.offset) for d in verify(directory).damages if d.record is not None])

list(attempts())  # what is imported and kept once
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = []
for header in map(bytes.fromhex, headers):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(header)
    said.append(list(attempts()))
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
print(json.dumps({"grown_kib": grown, "said": said}))
"""


@pytest.mark.promise(21)
@pytest.mark.parametrize("index", ["whole", "damaged"])
def test_a_length_that_lies_is_refused_before_allocating(dataset: Damaged, index: str) -> None:
    record = 5
    offset = dataset.offsets[0][record]
    fits = SHARD_BYTES - offset - FRAME_BYTES  # the longest record that the file has room for
    powers = [2**bits + by for bits in (31, 32, 40, 48, 62, 63) for by in (-17, -16, -1, 0, 1)]
    lengths = [fits + 1, fits + FOOTER_BYTES, fits + FRAME_BYTES, *powers, 2**64 - 17, 2**64 - 16, 2**64 - 1]
    prefixes = [struct.pack("<Q", length) for length in lengths]
    headers = [(prefix + struct.pack("<I", mask(crc32c(prefix)))).hex() for prefix in prefixes]
    if index == "damaged":
        edit(dataset.path(0, "tfindex"), lambda data: b"1" + data[1:])
    task = json.dumps([str(dataset.directory), str(dataset.path(0)), record, offset, headers])
    done = subprocess.run([sys.executable, "-c", READ_LIES], input=task, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["grown_kib"] < 16 << 10
    assert len(found["said"]) == len(lengths)
    for length, (*read, verified) in zip(lengths, found["said"], strict=True):
        assert verified == f"[({record}, {offset})]", length
        for said in read:
            if index == "whole":
                assert f"record {record}, offset {offset}: record of {length} bytes does not fit" in said
            else:
                assert "the index is not the one that was written" in said


@pytest.fixture
def sixteen(tmp_path: Path) -> Damaged:
    rng = random.Random(1)
    return write_dataset(tmp_path / "sixteen", [[example(rng, 40), example(rng, 60 + n)] for n in range(16)])


@pytest.mark.promise(23)
def test_missing_extra_stale_and_swapped_shards_are_all_listed(sixteen: Damaged, tmp_path: Path) -> None:
    rng = random.Random(2)
    old = write_dataset(tmp_path / "old", [[example(rng, 50)] for _ in range(8)])
    stale = {str(path.relative_to(old.directory)) for path in old.directory.rglob("*.tf*")}
    for name in stale:
        shutil.copy(old.directory / name, sixteen.directory / name)
    missing = {sixteen.name(3), sixteen.name(4, "tfindex")}
    for name in missing:
        (sixteen.directory / name).unlink()
    strange = "odd\nname.tfrecord"
    (sixteen.directory / strange).write_bytes(b"")
    a, b = sixteen.path(7), sixteen.path(8)
    first = edit(a, lambda _: b.read_bytes())
    edit(b, lambda _: first)
    damages = verify(sixteen.directory).damages
    assert {d.file for d in damages if d.problem == "missing"} == missing
    assert {d.file for d in damages if d.problem == "not part of the dataset"} == stale | {strange}
    assert {d.file for d in damages} == missing | stale | {strange, a.name, b.name}
    with pytest.raises(IntegrityError, match=r"and \d+ more") as caught:
        sixteen.open()
    assert str(caught.value).isprintable()
    assert caught.value.exit_code == 4
    for name in stale | {strange}:
        (sixteen.directory / name).unlink()
    with pytest.raises(IntegrityError) as caught:
        sixteen.open()
    for name, problem in {**dict.fromkeys(missing, "is missing"), a.name: "has", b.name: "has"}.items():
        assert f"{name} {problem}" in caught.value.problem


@pytest.mark.promise(23)
def test_what_is_not_a_file_is_not_a_shard(sixteen: Damaged, tmp_path: Path) -> None:
    for number, make in enumerate((os.mkfifo, os.mkdir, lambda path: os.symlink(tmp_path / "none", path))):
        sixteen.path(number).unlink()
        make(sixteen.path(number))
    with pytest.raises(IntegrityError) as caught:
        sixteen.open()
    for number in range(3):
        what = f"a link to {tmp_path}/none, which no longer exists" if number == 2 else "not a file"
        assert f"{sixteen.name(number)} is {what}" in caught.value.problem
    assert places(sixteen.directory) == [(sixteen.name(number), None, None) for number in range(3)]


@pytest.mark.promise(23, 24)
@pytest.mark.parametrize("with_index", [False, True])
def test_swapped_shards_of_equal_size(tmp_path: Path, with_index: bool) -> None:
    """Names and sizes are right, so opening cannot tell; reading can where the records are of other lengths."""
    rng = random.Random(3)
    sizes = [[100, 300, 40], [300, 100, 40]]
    made = write_dataset(tmp_path / "swapped", [[example(rng, size) for size in shard] for shard in sizes])
    for suffix in ("tfrecord", "tfindex") if with_index else ("tfrecord",):
        a, b = made.path(0, suffix), made.path(1, suffix)
        first = edit(a, lambda _, b=b: b.read_bytes())
        edit(b, lambda _, first=first: first)
        assert a.stat().st_size == b.stat().st_size
    assert {made.name(0), made.name(1)} <= {file for file, *_ in places(made.directory)}
    split = made.open()
    for record in (0, 1, 3, 4):
        with pytest.raises(IntegrityError):
            split.payload(record)


@pytest.mark.promise(24)
def test_every_bit_of_an_index_is_checked(dataset: Damaged) -> None:
    path = dataset.path(0, "tfindex")
    for _ in flips(path, range(path.stat().st_size * 8)):
        assert places(dataset.directory) == [(dataset.name(0, "tfindex"), None, None)]
        with pytest.raises(IntegrityError, match=f"{path.name}: the index is not the one that was written"):
            dataset.open().payload(0)


@pytest.mark.promise(24)
def test_a_cut_stale_or_foreign_index_is_refused(dataset: Damaged) -> None:
    path = dataset.path(0, "tfindex")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert places(dataset.directory) == [(dataset.name(0, "tfindex"), None, None)]
        with pytest.raises(IntegrityError, match=f"{path.name} has {length} bytes, expected {len(whole)}"):
            dataset.open()
    path.write_bytes(whole)
    # Indexes that are sound, but of the records in another order.
    records = [len(payload) + FRAME_BYTES for payload in dataset.payloads[0]]
    for sizes in ([records[1], records[0], *records[2:]], [*records[:4], records[5], records[4], *records[6:]]):
        edit(path, lambda _, sizes=sizes: Index.from_sizes(sizes).to_bytes())
        assert dataset.name(0, "tfindex") in {file for file, *_ in places(dataset.directory)}
        with pytest.raises(IntegrityError, match=path.name):
            dataset.open().payload(0)


@pytest.mark.promise(25)
def test_a_damaged_manifest_is_said_to_be(dataset: Damaged, capsys: pytest.CaptureFixture[str]) -> None:
    path = dataset.directory / "manifest.json"
    whole = path.read_bytes()
    for bit in flips(path, range(0, len(whole) * 8, 3)):
        assert places(dataset.directory) == [("manifest.json", None, None)], bit
        with pytest.raises(IntegrityError, match=r"manifest\.json: "):
            dataset.open()
    for length in range(0, len(whole), 5):
        path.write_bytes(whole[:length])
        assert places(dataset.directory) == [("manifest.json", None, None)], length
        with pytest.raises(IntegrityError, match=r"manifest\.json: "):
            dataset.open()
    assert main(["verify", str(dataset.directory)]) == 4
    assert "manifest.json: changed since it was written: its checksum does not match" in capsys.readouterr().out
    path.write_bytes(whole)
    assert main(["verify", str(dataset.directory)]) == 0


@pytest.mark.promise(19, 20, 24)
@pytest.mark.parametrize("suffix", ["tfrecord", "tfindex"])
def test_the_command_says_what_is_damaged(dataset: Damaged, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    path = dataset.path(0, suffix)
    edit(path, lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert main(["verify", str(dataset.directory)]) == IntegrityError.exit_code == 4
    record = int(np.searchsorted(dataset.offsets[0], 40, "right")) - 1
    place = (
        f"{path.name}, record {record}, offset {dataset.offsets[0][record]}: " if suffix == "tfrecord" else path.name
    )
    assert place in capsys.readouterr().out
