"""Our reader and writer beside TensorFlow's: the same verdict and the same records, but for a documented list.

TensorFlow runs in a child process, and is given no length that lies with a right CRC: that can end its process.

Where the verdicts differ, and why:
- A file that ends 1 to 11 bytes into a header: TensorFlow takes it for its end, we say that it is cut. (One that ends
  between two records nobody can tell from a shorter one without a manifest.)
- Groups (wire types 3 and 4) in an Example: protobuf passes over those that are closed, we refuse them; no Example has
  one.
- A map entry with a field besides key and value: protobuf for Python takes the whole entry for unknown, we pass over
  that field, as over unknown ones elsewhere.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import _fields, decode, encode
from shardfeed.formats.tfrecord import FRAME_BYTES, HEADER_BYTES, frame, payload_length, whole_records
from shardfeed.schema import Feature, Value

# One JSON line in, one out. {"file": path}: records, and whether it ended well. {"write": path, "payloads": [...]}: by
# TensorFlow's writer. {"examples": [...]}: each one's features by protobuf, or null where it is none.
TENSORFLOW = """
import json, sys
import tensorflow as tf

def features(data):
    try:
        example = tf.train.Example.FromString(data)
    except Exception as error:
        assert type(error).__name__ == "DecodeError", error
        return None
    found = {}
    for key, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind == "bytes_list":
            found[key] = ["bytes", [value.hex() for value in feature.bytes_list.value]]
        elif kind == "float_list":
            found[key] = ["float32", tf.constant(feature.float_list.value, tf.float32).numpy().tobytes().hex()]
        elif kind == "int64_list":
            found[key] = ["int64", list(feature.int64_list.value)]
    return found

for line in sys.stdin:
    task = json.loads(line)
    if "file" in task:
        records, well = [], True
        try:
            for record in tf.data.TFRecordDataset(task["file"]).as_numpy_iterator():
                records.append(record.hex())
        except tf.errors.DataLossError:
            well = False
        answer = [records, well]
    elif "write" in task:
        with tf.io.TFRecordWriter(task["write"]) as writer:
            for payload in task["payloads"]:
                writer.write(bytes.fromhex(payload))
        answer = None
    else:
        answer = [features(bytes.fromhex(data)) for data in task["examples"]]
    print(json.dumps(answer), flush=True)
"""


class TensorFlow:
    """TensorFlow in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TENSORFLOW],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        )

    def ask(self, **task: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"TensorFlow ended with {self._process.wait()}"
        return json.loads(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[TensorFlow]:
    process = TensorFlow()
    yield process
    process.close()


class Verdict(NamedTuple):
    """The records before the first damage, and whether the file ended well."""

    records: list[bytes]
    well: bool


def ours(path: Path) -> Verdict:
    records: list[bytes] = []
    try:
        for piece in whole_records(str(path)):
            records.append(piece.payload)
    except RecordError:
        return Verdict(records, False)
    return Verdict(records, True)


def theirs(tensorflow: TensorFlow, path: Path) -> Verdict:
    records, well = tensorflow.ask(file=str(path))
    return Verdict(list(map(bytes.fromhex, records)), well)


def rest(path: Path, records: list[bytes]) -> int:
    """Bytes of a file behind its first records."""
    return path.stat().st_size - sum(len(record) + FRAME_BYTES for record in records)


FEATURES = {
    "label": Feature("int64"),
    "text": Feature("bytes"),
    "score": Feature("float32", (None,)),
    "boxes": Feature("int64", (None,)),
    "parts": Feature("bytes", (None,)),
}
VALUES: list[dict[str, Value]] = [
    {"label": 3, "text": b"cat", "score": [], "boxes": [], "parts": []},
    {"label": -1, "text": b"", "score": [0.5, -1.0], "boxes": [3, -1, 300, 2**62], "parts": [b"", b"ab"]},
    {"label": 0, "text": bytes(range(256)), "score": [1.0], "boxes": [7], "parts": [b"x" * 130]},
]
EXAMPLES = [encode(FEATURES, values) for values in VALUES]
PAYLOADS = [*EXAMPLES, b"", b"a", bytes(500)]


@pytest.mark.long
@pytest.mark.promise(28)
def test_each_reads_what_the_other_wrote(tensorflow: TensorFlow, tmp_path: Path) -> None:
    ours_path, theirs_path = tmp_path / "ours", tmp_path / "theirs"
    ours_path.write_bytes(b"".join(map(frame, PAYLOADS)))
    tensorflow.ask(write=str(theirs_path), payloads=[payload.hex() for payload in PAYLOADS])
    assert ours_path.read_bytes() == theirs_path.read_bytes()
    assert theirs(tensorflow, ours_path) == ours(theirs_path) == Verdict(PAYLOADS, True)


def mutant(rng: random.Random) -> bytes:
    """A file of records with a few bytes changed, cut, added, or records moved."""
    records = [frame(payload) for payload in rng.sample(PAYLOADS, rng.randint(1, len(PAYLOADS)))]
    whole = b"".join(records)
    while True:
        kind = rng.randrange(7)
        data = bytearray(whole)
        if kind == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            for _ in range(rng.randint(1, 5)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 2:  # most cuts near where a record ends
            at = sum(map(len, records[: rng.randrange(len(records) + 1)])) + rng.randint(-20, 20)
            del data[max(0, at) :]
        elif kind == 3:
            at = rng.randrange(len(data))
            del data[at : at + rng.randint(1, 30)]
        elif kind == 4:
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.randbytes(rng.randint(1, 30))
        elif kind == 5:
            data += bytes(rng.randint(1, 30)) if rng.random() < 0.5 else rng.randbytes(rng.randint(1, 30))
        else:
            changed = [*records]
            a, b = rng.randrange(len(records)), rng.randrange(len(records))
            changed[a], changed[b] = changed[b], changed[a] if rng.random() < 0.5 else b""
            data = bytearray(b"".join(changed))
        if data != whole and not _lies(bytes(data)):
            return bytes(data)


def _lies(data: bytes) -> bool:
    """Whether anywhere a right CRC stands behind a length that the file has no room for."""
    for at in range(len(data) - HEADER_BYTES + 1):
        try:
            payload_length(data[at : at + HEADER_BYTES], len(data) - at - HEADER_BYTES, "")
        except RecordError as error:
            if "does not fit" in error.problem:
                return True
    return False


def compare_files(tensorflow: TensorFlow, path: Path, rng: random.Random, count: int) -> dict[str, int]:
    """How often each verdict was given."""
    found = {"both accepted": 0, "both refused": 0, "documented": 0}
    for _ in range(count):
        path.write_bytes(data := mutant(rng))
        mine, other = ours(path), theirs(tensorflow, path)
        assert mine.records == other.records, data
        if mine.well == other.well:
            found["both accepted" if mine.well else "both refused"] += 1
        else:
            assert other.well, data
            assert 0 < rest(path, mine.records) < HEADER_BYTES, data
            found["documented"] += 1
    assert all(found.values()), found
    return found


@pytest.mark.long
@pytest.mark.promise(28)
def test_damaged_files_get_the_same_verdict(tensorflow: TensorFlow, tmp_path: Path, seed: int) -> None:
    compare_files(tensorflow, tmp_path / "mutant", random.Random(seed), 100)


@pytest.mark.torture
@pytest.mark.promise(28)
def test_thousands_of_damaged_files_get_the_same_verdict(
    tensorflow: TensorFlow, tmp_path: Path, seed: int, torture_result: Callable[..., None]
) -> None:
    found = compare_files(tensorflow, tmp_path / "mutant", random.Random(seed), 5_000)
    torture_result("damaged files read by TensorFlow and shardfeed", trials=5_000, failures=0, seed=seed, **found)


def our_features(data: bytes) -> dict[str, Any] | None:
    try:
        found = decode(data)
    except IntegrityError as error:
        if "wire type 3" in error.problem or "wire type 4" in error.problem:
            raise
        return None
    shown: dict[str, Any] = {}
    for key, (dtype, values) in found.items():
        if isinstance(values, list):
            shown[key] = [dtype, [value.hex() for value in values]]
        else:
            shown[key] = [dtype, values.tobytes().hex() if dtype == "float32" else values.tolist()]
    return shown


def foreign_field(data: bytes) -> bool:
    """Whether an entry of an Example's map has a field besides key and value."""
    return any(
        (part, part_wire) not in ((1, 2), (2, 2))
        for number, wire, start, end in _fields(data, 0, len(data))
        if (number, wire) == (1, 2)
        for entry, entry_wire, a, b in _fields(data, start, end)
        if (entry, entry_wire) == (1, 2)
        for part, part_wire, _, _ in _fields(data, a, b)
    )


PARTS = [
    b"\x0a\x00",
    b"\x12\x00",
    b"\x1a\x00",
    b"\x08\x01",
    b"\x0d\x00\x00\x80\x3f",
    b"\xff" * 9 + b"\x01",
    b"\x80\x00",
]
PARTS += [b"\x0b\x0c", b"\x2a\x01x", b"\xff" * 10, b"\x00", b"\xc3\x28", b"\xed\xa0\x80"]


def field(tag: int, content: bytes) -> bytes:
    """A length-delimited field."""
    size, length = len(content), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([tag, *length, size]) + content


def odd_example(rng: random.Random) -> bytes:
    """Lists, kinds, values, keys and maps that are there twice, not packed, or of another wire type."""
    lists = {
        0x0A: lambda: field(0x0A, rng.choice([b"", b"a", b"\xff"])),
        0x12: lambda: rng.choice([b"\x0d\x00\x00\x80\x3f", field(0x0A, bytes(rng.choice([0, 2, 4, 8])))]),
        0x1A: lambda: rng.choice([b"\x08\x05", field(0x0A, b"\x01\x80\x01"), field(0x0A, b"\x80")]),
    }

    def some(make: Callable[[], bytes], most: int) -> bytes:
        return b"".join(make() if rng.random() < 0.97 else rng.choice(PARTS) for _ in range(rng.randint(0, most)))

    def kind() -> bytes:
        tag = rng.choice([0x0A, 0x12, 0x1A])
        return field(tag, some(lists[rng.choice([tag, tag, tag, 0x0A])], 3))

    def part() -> bytes:
        return field(0x0A, rng.choice([b"a", b"b", b""])) if rng.random() < 0.4 else field(0x12, some(kind, 3))

    def entry() -> bytes:
        return field(0x0A, some(part, 4))

    return some(lambda: field(0x0A, some(entry, 4)), 2)


def mutated_example(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(EXAMPLES))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : at + rng.randint(1, 4)]
        elif kind == 3:
            data[at:at] = rng.choice(PARTS)
        else:
            del data[at if rng.random() < 0.2 else len(data) :]
    return bytes(data)


def compare_examples(tensorflow: TensorFlow, rng: random.Random, count: int) -> dict[str, int]:
    """How often each verdict was given."""
    found = {"both accepted": 0, "both refused": 0, "documented": 0}
    made = [(odd_example if rng.random() < 0.5 else mutated_example)(rng) for _ in range(count)]
    for start in range(0, count, 1_000):
        some = made[start : start + 1_000]
        for data, other in zip(some, tensorflow.ask(examples=[data.hex() for data in some]), strict=True):
            try:
                mine = our_features(data)
            except IntegrityError:
                found["documented"] += 1
                continue
            if mine != other:
                assert mine is not None, data
                assert other is not None, data
                assert foreign_field(data), data
                found["documented"] += 1
            else:
                found["both refused" if mine is None else "both accepted"] += 1
    assert all(found.values()), found
    assert found["documented"] < count / 10
    return found


@pytest.mark.promise(28)
def test_damaged_examples_get_the_same_verdict(tensorflow: TensorFlow, seed: int) -> None:
    compare_examples(tensorflow, random.Random(seed), 3_000)


@pytest.mark.torture
@pytest.mark.promise(28)
def test_many_damaged_examples_get_the_same_verdict(
    tensorflow: TensorFlow, seed: int, torture_result: Callable[..., None]
) -> None:
    found = compare_examples(tensorflow, random.Random(seed), 200_000)
    torture_result("damaged Examples parsed by protobuf and shardfeed", trials=200_000, failures=0, seed=seed, **found)
