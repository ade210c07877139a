"""Whatever bytes a file holds, reading it gives right values or one of our errors, soon and in little memory.

Mutants are made by a seeded generator, so a failure is found again with its SHARDFEED_SEED; its bytes are printed, and
belong into tests/support/crashers/<target>/, whose files are read by every run.
"""

import io
import json
import os
import random
import re
import resource
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.column import check_labels, encode_column, parse_column
from shardfeed.converters.shards.receipts import load_receipt, save_receipt, with_checksum
from shardfeed.converters.shards.task import Receipt, Remark
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.errors import IntegrityError, LabelFileError, ShardfeedError
from shardfeed.formats.example import decode, encode
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import FRAME_BYTES, Index, found_pieces, frame, mask, unframe
from shardfeed.manifest import FileInfo, Manifest, SplitInfo, parse_manifest
from shardfeed.naming import MANIFEST
from shardfeed.readers import Dataset, verify
from shardfeed.schema import LABEL, TEXT, Feature, Schema, Value
from shardfeed.shard_table import ShardTable
from shardfeed.storage.checksum import crc32c

from damages import signed
from repository import SUPPORT

CRASHERS = SUPPORT / "crashers"
SLOWEST = 10.0  # seconds of CPU time for one mutant, which takes milliseconds: a loop over what a length says
MEMORY = 256 << 20  # bytes that a sweep may take beyond what the process has: no mutant is larger than a few KiB
NUMBERS = [0, 1, -1, 15, 16, 127, 128, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
TEXTS = [
    b'"',
    b"\n",
    b"\r\n",
    b",",
    b"\0",
    b"\xff",
    b"[",
    b"{",
    b"[" * 40_000,
    b"..",
    b"/",
    b"-",
    b"\\u",
    b"\xef\xbb\xbf",
]
TEXTS += [b"9" * 5_000, b"1e999", b"NaN", b"null", b"\xe2\x80\xa8", b"\xed\xa0\x80", b" ", b"\t", b"_", b"0x1"]
BINARY = [n.to_bytes(size, "little") for size in (4, 8) for n in NUMBERS if 0 <= n < 1 << 8 * size]
BINARY += [
    b"\xff" * 9 + b"\x01",
    b"\xff" * 11,
    b"\x80\x80\x01",
    b"\x0a\x00",
    b"\x12\x00",
    b"\x1a\x00",
    b"\x0b",
    b"\x0c",
]
DIGITS = re.compile(rb"\d+")

Check = Callable[[bytes], bool]


@dataclass
class Target:
    """Reader of mutants of `seeds`: `check` returns whether it took one, or raises an error with `exit_code`.

    `forge(rng)` makes mutants that no checksum reveals; a `share` of all mutants is made so.
    """

    seeds: list[bytes]
    check: Check
    tokens: list[bytes] = field(default_factory=lambda: TEXTS)
    forge: Callable[[random.Random], bytes] | None = None
    share: float = 0.5
    exit_code: int = IntegrityError.exit_code


def mutate(rng: random.Random, target: Target) -> bytes:
    """A seed changed in one to four places; never the seed itself."""
    draw = rng.random
    seed = target.seeds[int(draw() * len(target.seeds))]
    while True:
        data = bytearray(seed)
        for _ in range(1 + int(draw() * draw() * 4)):
            at = int(draw() * (len(data) + 1))
            kind = int(draw() * 9)
            if kind <= 1 and at < len(data):
                data[at] ^= 1 << int(draw() * 8)
            elif kind == 2 and at < len(data):
                data[at] = int(draw() * 256)
            elif kind == 3:
                del data[at : at + 1 + int(draw() * 8)]
            elif kind == 4:
                data[at:at] = target.tokens[int(draw() * len(target.tokens))]
            elif kind == 5:
                token = target.tokens[int(draw() * len(target.tokens))]
                data[at : at + len(token)] = token
            elif kind == 6:
                other = target.seeds[int(draw() * len(target.seeds))]
                start = int(draw() * len(other))
                data[at:at] = other[start : start + 1 + int(draw() * 40)]
            elif kind == 7:
                if draw() < 0.3:
                    del data[at:]
            elif number := DIGITS.search(data, at):
                value = (
                    NUMBERS[int(draw() * len(NUMBERS))] if draw() < 0.5 else int(number[0][:20]) + int(draw() * 3) - 1
                )
                data[number.start() : number.end()] = b"%d" % value
        if data != seed:
            return bytes(data)


@contextmanager
def little_memory() -> Iterator[None]:
    """Allocations beyond MEMORY fail; a MemoryError is none of ours."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@dataclass
class Swept:
    """Counts of a sweep: mutants, how many were taken, and CPU seconds of the slowest."""

    mutants: int = 0
    taken: int = 0
    slowest: float = 0.0


def sweep(name: str, target: Target, count: int, seed: int) -> Swept:
    """Let `target` read `count` mutants."""
    rng, found, clock = random.Random(f"{name} {seed}"), Swept(), time.process_time
    with little_memory():
        while found.mutants < count:
            forged = target.forge is not None and rng.random() < target.share
            data = target.forge(rng) if forged and target.forge else mutate(rng, target)
            refusal, started = None, clock()
            try:
                found.taken += target.check(data)
            except ShardfeedError as error:
                refusal = error
            except BaseException as error:
                error.add_note(f"the mutant, for tests/support/crashers/{name}/{zlib.crc32(data):08x}: {data!r}")
                raise
            if refusal is not None:
                assert refusal.exit_code == target.exit_code, data
                assert found.mutants % 16 or str(refusal).isprintable(), data
            found.slowest = max(found.slowest, clock() - started)
            found.mutants += 1
    assert found.slowest < SLOWEST
    return found


# What mutants are made of, and what is right.

RAGGED = (None,)
FEATURES = {
    LABEL: Feature("int64"),
    TEXT: Feature("bytes"),
    "score": Feature("float32", RAGGED),
    "boxes": Feature("int64", RAGGED),
}
VALUES: list[dict[str, Value]] = [
    {LABEL: 0, TEXT: b"cat", "score": [], "boxes": []},
    {LABEL: 1, TEXT: b"", "score": [0.5, -1.0], "boxes": [3, -1, 300, 2**62]},
    {LABEL: 0, TEXT: "Gänse".encode() * 9, "score": [1.0], "boxes": [7]},
]
PAYLOADS = [encode(FEATURES, values) for values in VALUES]
SCHEMA = Schema(FEATURES, {LABEL: ("cat", "dog")})
LABELS = np.dtype("<i4")
WEIRD: list[Any] = [
    *(None, True, False, "", "x", "../x", "a/b", "a\0b", "\ud800", "é\u2028", "-0000001", "100000000", "manifest.json"),
    *NUMBERS,
    *(1.5, -0.0, 1e308, [], [None], [[]], [1, 2], {}, {"a": 1}, {"": []}, "y" * 300, [[[[[[[[[]]]]]]]]]),
]


def whole_dataset(directory: Path) -> tuple[Path, Manifest]:
    """Three records in one shard, with all their files; the shard's path and the manifest."""
    (directory / "index").mkdir(parents=True)
    data = b"".join(map(frame, PAYLOADS))
    index = Index.from_sizes([len(payload) + FRAME_BYTES for payload in PAYLOADS]).to_bytes()
    column = encode_column([0, 1, 0], LABELS)
    files = {
        "train-00000-of-00001.tfrecord": data,
        "index/train-00000-of-00001.tfindex": index,
        "index/train.image.class.label.npy": column,
        "notes.txt": b"hello\n",
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    info = {name: FileInfo(len(content), crc32c(content)) for name, content in files.items()}
    shard = ShardInfo(len(PAYLOADS), *(info[name] for name in list(files)[:2]))
    columns = {LABEL: info["index/train.image.class.label.npy"]}
    split = SplitInfo("train", ShardTable.of([shard]), {LABEL: (2, 1)}, {}, columns)
    sidecars = {"notes.txt": info["notes.txt"]}
    options = {"seed": 0, "split": {"train": 1.0}}
    manifest = Manifest("fuzzed", SCHEMA, {"train": split}, sidecars, "ab" * 16, options, {"E_X": 1}, {"p": "1"})
    (directory / MANIFEST).write_bytes(manifest.to_bytes())
    assert verify(directory).damages == []
    return directory / "train-00000-of-00001.tfrecord", manifest


class Rewritten:
    """A file that is written again and again without being opened each time."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT)

    def __call__(self, data: bytes) -> None:
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def __del__(self) -> None:
        os.close(self._fd)


def shard(scratch: Path) -> Target:
    path, _ = whole_dataset(scratch / "data")
    directory, whole, write = path.parent, path.read_bytes(), Rewritten(path)
    split = shardfeed.open(directory)["train"]
    numbers = {None, *range(len(PAYLOADS))}

    def check(data: bytes) -> bool:
        write(data)
        damages = verify(directory).damages
        assert damages
        assert all(damage.file == path.name and damage.record in numbers for damage in damages), damages
        seen = 0
        for record, payload in enumerate(PAYLOADS):  # a split that was open before
            try:
                read = split.payload(record)
            except IntegrityError:
                seen += 1
            else:
                assert read == payload or frame(read) in data
        found = list(found_pieces(str(path)))
        assert sum(piece.end - piece.start for piece in found) == len(data)
        assert all(piece.framed is None or unframe(piece.framed, "") == piece.payload for piece in found)
        if len(data) != len(whole):
            shardfeed.open(directory)  # raises
            raise AssertionError("opened with a shard of another size")
        return not seen

    def forge(rng: random.Random) -> bytes:
        """Right checksums around wrong lengths and payloads."""
        records = [frame(payload) for payload in PAYLOADS]
        at = rng.randrange(len(records))
        if rng.random() < 0.5:
            length = rng.choice([*BINARY_LENGTHS, rng.randrange(len(whole) + 20)])
            prefix = length.to_bytes(8, "little")
            records[at] = prefix + mask(crc32c(prefix)).to_bytes(4, "little") + records[at][12:]
        else:
            records[at] = frame(mutate(rng, example(scratch)))
        made = b"".join(records)
        return made if made != whole else made + b"\0"

    return Target([whole], check, BINARY, forge, 0.25)


BINARY_LENGTHS = [n for n in NUMBERS if 0 <= n < 1 << 64]


def index(scratch: Path) -> Target:
    def check(data: bytes) -> bool:
        offsets = Index.parse(data, "i").offsets
        assert Index(offsets).to_bytes() == data
        assert not offsets[0]
        assert (np.diff(offsets) >= FRAME_BYTES).all()
        return True

    def forge(rng: random.Random) -> bytes:
        """Sound but for what large sizes do to their sum."""
        sizes = [max(16, n) for n in rng.choices(NUMBERS, k=rng.randint(1, 5)) if n < 2**63]
        starts = np.cumsum([0, *sizes[:-1]], dtype=np.int64).tolist() if sizes else []
        return "".join(f"{a} {b}\n" for a, b in zip(starts, sizes, strict=True)).encode()

    sizes = [[16, 100, 40, 9_999], [2**40, 17], [16]]
    return Target([Index.from_sizes(of).to_bytes() for of in sizes], check, TEXTS, forge, 0.1)


def tree_forger(content: dict[str, Any], sign: Callable[[dict[str, Any]], bytes]) -> Callable[[random.Random], bytes]:
    """JSON whose values are changed, with a checksum that is right."""
    text = json.dumps(content)
    original = sign(json.loads(text))

    def forge(rng: random.Random) -> bytes:
        while True:
            made = json.loads(text)
            for _ in range(rng.randint(1, 3)):
                at: Any = made
                while True:  # down a random way to a container and a key of it
                    key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
                    if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.15:
                        break
                    at = at[key]
                kind = rng.random()
                if kind < 0.7:
                    at[key] = rng.choice(WEIRD)
                elif kind < 0.85:
                    del at[key]
                elif isinstance(at, dict):
                    at[str(rng.choice(WEIRD))] = at[key]
                else:
                    at.append(at[key])
                if not made:
                    break
            try:
                data = sign(made)
            except (ValueError, TypeError):  # no JSON any more
                continue
            if data != original:
                return data

    return forge


def use_manifest(manifest: Manifest) -> None:
    """Use a manifest as opening a dataset does, but without looking at its files."""
    for name in manifest.files():
        assert os.path.basename(name) == name.removeprefix("index/")
        assert name not in ("", ".", "..", MANIFEST)
        os.fsencode(name)
    dataset = Dataset("d", manifest)
    assert str(dataset)
    for split in dataset.values():
        assert len(split) >= 0
        assert split.record_bytes >= len(split) * FRAME_BYTES
        split.shard_slices()


def manifest(scratch: Path) -> Target:
    whole = whole_dataset(scratch / "data")[1].to_bytes()

    def check(data: bytes) -> bool:
        parse_manifest(data, "m")
        raise AssertionError("a changed manifest was taken")

    return Target([whole], check)


def signed_manifest(scratch: Path) -> Target:
    whole = whole_dataset(scratch / "data")[1].to_bytes()
    assert signed(json.loads(whole)) == whole

    def check(data: bytes) -> bool:
        found = parse_manifest(data, "m")
        use_manifest(found)
        if found.to_bytes() != data:
            with pytest.raises(IntegrityError, match="its content belongs in other bytes"):
                parse_manifest(data, "m", exact=True)
        return True

    return Target([whole], check, forge=tree_forger(json.loads(whole), signed), share=1.0)


def a_receipt() -> Receipt:
    info = ShardInfo(4, FileInfo(100, 1), FileInfo(20, 2))
    noted = (Remark(b"a\xff", "E_X", "why"),)
    return Receipt(
        "train",
        3,
        info,
        {LABEL: (1, 0, 3)},
        {"jpeg": 4},
        {LABEL: encode_column([2, 0, 2, 2], LABELS)},
        noted,
        noted,
        (),
    )


def receipt(scratch: Path) -> Target:
    path = scratch / "receipt.json"
    save_receipt(str(path), a_receipt())
    whole = path.read_bytes()
    assert load_receipt(str(path)) == a_receipt()
    write = Rewritten(path)

    def check(data: bytes) -> bool:
        write(data)
        assert load_receipt(str(path)) is None, data
        return False

    return Target([whole], check)


def signed_receipt(scratch: Path) -> Target:
    path = scratch / "receipt.json"
    save_receipt(str(path), a_receipt())
    whole = path.read_bytes()
    write = Rewritten(path)

    def check(data: bytes) -> bool:
        write(data)
        found = load_receipt(str(path))
        assert found is None or isinstance(found, Receipt)
        return found is not None

    def sign(content: dict[str, Any]) -> bytes:
        return with_checksum(json.dumps(content, sort_keys=True).encode()) + a_receipt().columns[LABEL]

    return Target([whole], check, forge=tree_forger(json.loads(whole.splitlines()[0]), sign), share=1.0)


def example(scratch: Path) -> Target:
    def check(data: bytes) -> bool:
        for key, (dtype, values) in decode(data).items():
            key.encode()
            assert isinstance(values, list if dtype == "bytes" else np.ndarray)
            assert len(values) <= len(data)
        return True

    return Target(PAYLOADS, check, BINARY)


def label_column(scratch: Path) -> Target:
    labels = [0, 4, 2, 2, 1]
    whole = encode_column(labels, LABELS)

    def check(data: bytes) -> bool:
        found = parse_column(data, len(labels), LABELS, "c")
        check_labels(found, 5, "c")
        assert found.tolist() == np.load(io.BytesIO(data), allow_pickle=False).tolist()
        assert all(0 <= label < 5 for label in found.tolist())
        return True

    def forge(rng: random.Random) -> bytes:
        made = whole
        while made == whole:
            at = rng.randrange(128, len(whole))
            made = whole[:at] + bytes([rng.choice([0, 1, 2, 4, 5, 127, 128, 255])]) + whole[at + 1 :]
        return made

    return Target([whole], check, BINARY, forge)


def bytes_column(scratch: Path) -> Target:
    values = [b"a.jpg", b"", b"\0\0", bytes(40)]
    dtype = np.dtype("O")
    whole = encode_column(values, dtype)

    def check(data: bytes) -> bool:
        found = parse_column(data, len(values), dtype, "c")
        assert b"".join(found.tolist()) == data[-sum(map(len, found)) :]
        return True

    def forge(rng: random.Random) -> bytes:
        made = whole
        while made == whole:
            at = rng.randrange(128, 128 + 8 * len(values))
            made = whole[:at] + bytes([rng.choice([0, 1, 2, 5, 127, 128, 255])]) + whole[at + 1 :]
        return made

    return Target([whole], check, BINARY, forge)


LABEL_FILES = {
    "l.csv": b'path,label,split\na.jpg,cat,train\n"b.jpg","dog",test\nsub/c d.jpg,cat,train\n',
    "l.tsv": b"a.jpg\t0\nb.jpg\t1\n",
    "l.txt": b"a.jpg 0\nb.jpg 1\nsub/c d.jpg 1\n",
    "l.jsonl": b'{"path": "a.jpg", "label": [1, 0]}\n{"path": "b.jpg", "label": [2, 1], "x": {"y": 1.5}}\n',
    "utf16.csv": "path,label\na.jpg,caté\n".encode("utf-16"),
    "numbers.csv": b"path;label;w\na.jpg;0.5;3\nb.jpg;1e3;-7\n",
    "kinds.csv": b'id,tags,age,note,cat,dog,rgb,fold\na,x y,3,"hi, you",1,0,1 2,0\nb,y,,yo,0,1,[3 4],1\n',
}
LABEL_OPTIONS: dict[str, dict[str, Any]] = {
    "kinds.csv": {
        "label_columns": ["tags"],
        "label_separator": {"tags": " "},
        "text_columns": ["note"],
        "number_columns": {"age": None, "rgb": Feature("float32", (2,))},
        "one_hot": ["cat", "dog"],
        "missing": {"age": "nan"},
        "split_column": "fold",
        "encoding": "utf-8",
    }
}


def label_file(name: str) -> Callable[[Path], Target]:
    def target(scratch: Path) -> Target:
        images = scratch / "images"
        keys = {b"a.jpg", b"b.jpg", b"sub/c d.jpg"}
        (images / "sub").mkdir(parents=True)
        for key in keys:
            (images / os.fsdecode(key)).write_bytes(b"an image")
        (scratch / "labels").mkdir()
        path, options = scratch / "labels" / name, LABEL_OPTIONS.get(name, {})
        write = Rewritten(path)

        def check(data: bytes) -> bool:
            write(data)
            assert {sample.key for sample in LabelFile(path, images, **options)} <= keys
            return True

        write(LABEL_FILES[name])
        assert LabelFile(path, images, **options)
        return Target([LABEL_FILES[name]], check, exit_code=LabelFileError.exit_code)

    return target


TARGETS: dict[str, Callable[[Path], Target]] = {
    "shard": shard,
    "index": index,
    "manifest": manifest,
    "signed_manifest": signed_manifest,
    "receipt": receipt,
    "signed_receipt": signed_receipt,
    "example": example,
    "label_column": label_column,
    "bytes_column": bytes_column,
    **{f"label_file_{name}": label_file(name) for name in LABEL_FILES},
}
# Mutants of a quick run where one takes long.
QUICK = {"shard": 1_000, "signed_manifest": 1_000} | {f"label_file_{name}": 2_500 for name in LABEL_FILES}
NEVER_TAKEN = {"manifest", "receipt"}  # a checksum of the whole file is in it


def mutants(name: str, count: int) -> int:
    """How many mutants a target gets: the formats of label files share theirs."""
    return -(-count // len(LABEL_FILES)) if name.startswith("label_file") else count


def swept_as_it_should(name: str, scratch: Path, count: int, seed: int) -> Swept:
    found = sweep(name, TARGETS[name](scratch), count, seed)
    assert found.mutants == count
    if name in NEVER_TAKEN:
        assert not found.taken
    else:
        assert 0 < found.taken < count  # mutants are neither all harmless nor all noise
    return found


@pytest.mark.promise(22)
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_give_our_errors_only(name: str, tmp_path: Path, seed: int) -> None:
    swept_as_it_should(name, tmp_path, mutants(name, QUICK.get(name, 5_000)), seed)


@pytest.mark.torture
@pytest.mark.promise(22)
@pytest.mark.parametrize("name", TARGETS)
def test_a_million_damaged_files(name: str, tmp_path: Path, seed: int, torture_result: Callable[..., None]) -> None:
    count = mutants(name, 1_000_000)
    started = time.monotonic()
    found = swept_as_it_should(name, tmp_path, count, seed)
    torture_result(
        f"fuzzed {name}",
        trials=count,
        failures=0,
        accepted=found.taken,
        slowest_ms=round(found.slowest * 1e3),
        seconds=round(time.monotonic() - started),
        seed=seed,
    )


@pytest.mark.promise(22)
@pytest.mark.parametrize("path", sorted(CRASHERS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_crashed(path: Path, tmp_path: Path) -> None:
    target = TARGETS[path.parent.name](tmp_path)
    with little_memory():
        try:
            target.check(path.read_bytes())
        except ShardfeedError:
            pass
