"""Odd values for every writer: what is written is read back by its own reader before it counts.

Each row either writes something that its reader gives back, or raises an error of ours and leaves nothing behind.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_values import BAD_STEPS, GOOD_STEPS, ODD
from PIL import Image

import shardfeed
from shardfeed import array_batches
from shardfeed.annotations import KEYPOINT_X, RASTER, Keypoints, Raster
from shardfeed.converters import adopt, convert, salvage, shard_tasks, survey
from shardfeed.converters.report import listed_entries, noted_json, noted_lines
from shardfeed.converters.shards.receipts import load_receipt, save_receipt
from shardfeed.converters.shards.task import Receipt, Remark
from shardfeed.converters.sources.source import FinishedRecord, Sample, SourceInfo
from shardfeed.errors import IntegrityError, StorageError, UsageError
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import Index
from shardfeed.manifest import parse_manifest, write_manifest, written_manifest
from shardfeed.naming import MANIFEST
from shardfeed.pipelines import Position
from shardfeed.pipelines.caching.sparse import CacheSpace, SparseCopy, _log_of, _logged
from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder, Order, StoredOrder, StreamOrder
from shardfeed.pipelines.orders.shapes import ShapeOrder
from shardfeed.pipelines.orders.strata import MOST_DRAWN, PhasedOrder, StratifiedOrder
from shardfeed.readers import Dataset, Split
from shardfeed.schema import LABEL, Feature, Schema
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.own_files import OwnFiles, created_files
from shardfeed.storage.storage import FileInfo

from pictures import image_bytes

pytestmark = pytest.mark.promise(72)


WRONG = [value for value in ODD if not isinstance(value, np.ndarray) and value]  # others count as not given


def shown(value: object) -> str:
    return type(value).__name__


# --- the manifest

IMAGE = image_bytes(Image.new("RGB", (16, 16)), "JPEG")


class OwnSource:
    """Four images of somebody's own source."""

    def __init__(self, info: SourceInfo, schema: Schema) -> None:
        self._info, self.schema = info, schema

    def info(self) -> SourceInfo:
        return self._info

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"%d.jpg" % index, IMAGE, dict.fromkeys(self.schema.features, 1))


def named(*names: Any) -> Schema:
    return Schema({LABEL: Feature("int64")}, {LABEL: names})


@pytest.mark.parametrize("fingerprint", WRONG, ids=shown)
def test_a_fingerprint_that_nobody_could_read_is_refused_before_an_image_is_converted(
    fingerprint: Any, tmp_path: Path
) -> None:
    def source() -> OwnSource:
        return OwnSource(SourceInfo(fingerprint=fingerprint), Schema({}, {}))

    for run in (
        lambda: convert(source(), tmp_path / "out", workers=1),
        lambda: convert(source(), tmp_path / "out", dry_run=True),
        lambda: shard_tasks(source(), tmp_path / "out"),
    ):
        with pytest.raises(UsageError, match="fingerprint"):
            run()
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("names", [(5, "b"), (None, "b"), (True, "b"), (b"a", "b"), ([], "b")], ids=repr)
def test_class_names_that_nobody_could_read_are_refused(names: tuple[Any, ...], tmp_path: Path) -> None:
    with pytest.raises((UsageError, TypeError)):  # the latter by Schema itself, for a list
        convert(OwnSource(SourceInfo(), named(*names)), tmp_path / "out", workers=1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["\ud800", "\ud83d\ude00", "a\nb", "a\0b", "", "x" * 100_000])
def test_class_names_of_any_text_are_read_back(name: str, tmp_path: Path) -> None:
    convert(OwnSource(SourceInfo(), named(name, "b")), tmp_path / "out", workers=1)
    read_back = shardfeed.open(tmp_path / "out")["train"].schema.class_names[LABEL]
    # JSON makes one character of two halves.
    assert [each.encode("utf-16", "surrogatepass") for each in read_back] == [
        each.encode("utf-16", "surrogatepass") for each in (name, "b")
    ]


FIELDS = ("name", "fingerprint", "options", "rejected", "made_by", "sidecars", "splits", "schema", "version", "format")


@pytest.mark.parametrize("name", FIELDS)
def test_a_manifest_is_read_back_or_refused(name: str, flowers: Dataset, tmp_path: Path) -> None:
    """Whatever its fields hold: the door of a source of one's own is not the only one."""
    good, refused = flowers.manifest, 0
    for value in ODD:
        for odd in (value, {"x": value}, {"../x" if name == "sidecars" else "a\0b": value}):
            manifest = replace(good, **{name: odd})
            try:
                write_manifest(str(tmp_path), manifest)
            except UsageError:
                refused += 1
                assert os.listdir(tmp_path) == []
            else:
                data = (tmp_path / MANIFEST).read_bytes()
                assert parse_manifest(data, "x", exact=True).to_bytes() == data == written_manifest(manifest)
                (tmp_path / MANIFEST).unlink()
    assert refused


def test_the_error_names_the_field_and_the_file(flowers: Dataset, tmp_path: Path) -> None:
    for changes, said in (
        ({"fingerprint": 5}, "its fingerprint: TypeError: 5 is not text"),
        ({"options": {"x": float("nan")}}, "its options cannot be written as JSON"),
        ({"made_by": {"x": 1}}, "its made_by: TypeError: 1 is not text"),
        ({"rejected": {"x": -1}}, "its rejected: ValueError: -1 is not a count"),
        ({"schema": named(5)}, "its features: TypeError: a name is not text"),
    ):
        with pytest.raises(UsageError) as caught:
            write_manifest(str(tmp_path), replace(flowers.manifest, **changes))  # type: ignore[arg-type]
        assert said in str(caught.value)
        assert caught.value.place == str(tmp_path / MANIFEST)
        assert "correct the source" in caught.value.remedy


@pytest.mark.parametrize(
    "schema",
    [
        lambda: replace(named("a", "b"), class_ids={LABEL: (1.5, 2)}),
        lambda: replace(named("a", "b"), class_ids={LABEL: ("a", "b")}),
        lambda: replace(named("a", "b"), class_ids={LABEL: (True, 2)}),
        lambda: Schema({RASTER: Feature("bytes")}, raster=Raster((5, "b"))),  # type: ignore[arg-type]
        lambda: Schema({RASTER: Feature("bytes")}, raster=Raster(("a",), class_ids=("x",))),  # type: ignore[arg-type]
        lambda: Schema({KEYPOINT_X: Feature("float32", (None,))}, keypoints=Keypoints((1, 2))),  # type: ignore[arg-type]
        lambda: Schema({KEYPOINT_X: Feature("float32", (None,))}, keypoints=Keypoints(("a",), ("b",))),  # type: ignore[arg-type]
    ],
)
def test_names_and_ids_that_readers_could_not_use_are_refused(
    schema: Callable[[], Schema], flowers: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(UsageError):
        write_manifest(str(tmp_path), replace(flowers.manifest, schema=schema()))
    assert os.listdir(tmp_path) == []


# --- the plan of an unfinished conversion


class Numbered(FinishedRecord):
    """A record that another program made."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self.size = payload, len(payload)

    @property
    def digest(self) -> bytes:
        return self._payload[:16]

    @property
    def counted(self) -> bool:
        return False

    def __call__(self, number: int) -> bytes:
        return self._payload


class OwnRecords:
    """The records of a split, as somebody's own source says that they were made."""

    def __init__(self, split: Split, made_with: Mapping[str, Any]) -> None:
        self._payloads = split.payloads(np.arange(len(split)))
        self._made_with = made_with
        self._labels = split.column(LABEL)
        self.schema = split.schema

    def info(self) -> SourceInfo:
        return SourceInfo(made_with=self._made_with)

    def __len__(self) -> int:
        return len(self._payloads)

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"%d" % index, Numbered(self._payloads[index]), {LABEL: int(self._labels[index])})


def test_options_that_json_changes_are_the_same_in_the_next_run(
    flowers: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuple is a list in plan.json: the conversion could not be resumed, because `crop was [1, 2], now (1, 2)`."""
    source = OwnRecords(flowers["train"], {**flowers.manifest.options, "crop": (1, 2)})
    stopped = StorageError("disk", "full")

    def stop(*_: Any) -> Any:
        raise stopped

    with monkeypatch.context() as patch:
        patch.setattr("shardfeed.converters.conversion.finish", stop)
        with pytest.raises(StorageError):
            convert(source, tmp_path / "out", workers=1)
    report = convert(source, tmp_path / "out", workers=1)
    assert report.kept > 0, "no shard was written again"
    assert shardfeed.open(tmp_path / "out").manifest.options["crop"] == [1, 2]


@pytest.mark.parametrize("content", [b"[1]", b"{}", b"5", b"null", b"\xff", b"[" * 5000])
def test_a_plan_that_no_conversion_wrote_is_damaged(content: bytes, flowers: Dataset, tmp_path: Path) -> None:
    (tmp_path / ".out.staging").mkdir()
    (tmp_path / ".out.staging" / "plan.json").write_bytes(content)
    with pytest.raises(shardfeed.errors.PlanMismatchError, match="damaged"):
        convert(OwnRecords(flowers["train"], flowers.manifest.options), tmp_path / "out", workers=1)


# --- receipts


def a_receipt() -> Receipt:
    info = ShardInfo(4, FileInfo(100, 1), FileInfo(20, 2))
    noted = (Remark(b"a\xff", "E_X", "why"),)
    return Receipt("train", 3, info, {LABEL: (1, 0, 3)}, {"jpeg": 4}, {LABEL: b"column"}, noted, noted, ())


@pytest.mark.parametrize("name", [field.name for field in fields(Receipt) if field.name != "columns"])
def test_a_receipt_is_read_back_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for value in ODD:
        for odd in (value, {"x": value}, (Remark(value, "E_X", "why"),) if isinstance(value, bytes) else value):
            try:
                save_receipt(str(path), replace(a_receipt(), **{name: odd}))
            except UsageError:
                assert os.listdir(tmp_path) == []
            except (TypeError, AttributeError) as error:
                pytest.fail(f"{name}={odd!r}: {error!r}")
            else:
                assert load_receipt(str(path)) is not None, (name, odd)
                path.unlink()


# --- positions, orders, and states of loaders

COMMON = ("ab" * 16, 60, 8, 56, 3)
ORDERS: list[Order] = [
    StreamOrder(*COMMON, 40),
    StoredOrder(*COMMON),
    GlobalOrder(*COMMON),
    BlockOrder(*COMMON, 3, 12),
    StratifiedOrder(*COMMON, (40, 20), (30, 26)),
    PhasedOrder(*COMMON, (0, 4), ("ab" * 16, "cd" * 16), (40, 20), ((56,), (30, 26))),
    ShapeOrder(*COMMON, (30, 20), (10, 20), (40, 20)),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.kind)
def test_positions_are_read_back(order: Order, tmp_path: Path) -> None:
    for step in GOOD_STEPS:
        position = Position(step, order)
        assert type(position.step) is int
        position.save(tmp_path / "p.json")
        assert Position.load(tmp_path / "p.json") == Position.from_json(position.to_json()) == position
    for step in BAD_STEPS:
        with pytest.raises(UsageError, match="step"):
            Position(step, order)


def test_an_order_of_somebody_else_is_no_position() -> None:
    class Own(GlobalOrder):
        kind = "own"

    for order in ({}, None, 5, "global", GlobalOrder):
        with pytest.raises(UsageError, match="order"):
            Position(1, order)  # type: ignore[arg-type]
    for order in (Own(*COMMON), replace(ORDERS[2], dataset="\ud83d\ude00")):
        with pytest.raises(UsageError, match="position: "):
            Position(1, order).to_json()
    half = Position(1, replace(ORDERS[2], dataset="\ud800"))
    assert Position.from_json(half.to_json()) == half


def forged(order: Order, **changes: Any) -> str:
    """A position with a right checksum, of an order that nobody has made."""
    content = {"format": 1, "step": 20, "order": {**order.to_json(), **changes}}
    return json.dumps({**content, "crc32c": f"{crc32c(json.dumps(content, sort_keys=True).encode()):08x}"})


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.kind)
def test_an_order_that_is_impossible_is_damage(order: Order) -> None:
    numbers: list[Any] = [0, -1, 1, 2, 59, 61, 2**40, 2**40 + 1, 2**62, 2**63, 1.0, True, None, "1"]
    odd = [*numbers, {}, [], [0], [1, 2], [-1], [[1]], [[-1]], [0, 2**62], ["x"], [[]], {"a": 1}, [1.5, 2]]
    assert Position.from_json(forged(order)) == Position(20, order)
    for field in fields(order):
        for value in odd:
            try:
                position = Position.from_json(forged(order, **{field.name: value}))
            except IntegrityError:
                continue
            assert position.epoch * position.order.steps_per_epoch + position.step_in_epoch == 20, (field.name, value)
    for changes in ({"batch_size": 0}, {"epoch_samples": -1}, {"samples": 0}, {"seed": -1}, {"kind": "own"}, {"x": 1}):
        with pytest.raises(IntegrityError, match="not a position"):
            Position.from_json(forged(order, **changes))


def test_numbers_that_no_order_has() -> None:
    for made in (
        lambda: GlobalOrder("ab", 10, 2, 20, 0),
        lambda: BlockOrder("ab", 10, 2, 10, 0, 3, 4),
        lambda: PhasedOrder(*COMMON, (0, MOST_DRAWN), ("a", "b"), (40, 20), ((56,), (30, 26))),
        lambda: PhasedOrder(*COMMON, (0, 4), ("a",), (40, 20), ((56,), (30, 26))),
        lambda: StoredOrder("ab", 10, 2, 10, 2**63),
        lambda: StreamOrder("ab", 10, 2, 10, 0, 0),
    ):
        with pytest.raises(UsageError):
            made()
    order = GlobalOrder("ab", np.int64(10), np.int32(2), np.int64(10), np.uint8(7))  # type: ignore[arg-type]
    assert {type(value) for value in vars(order).values()} == {str, int}


def test_a_position_is_in_a_file_and_in_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"kept")
    with open(tmp_path / "kept", "rb") as kept:
        for place in (kept.fileno(), True, None, 2.5, b"x", [], ""):
            with pytest.raises(UsageError, match="path"):
                Position.load(place)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="path"):
                Position(1, ORDERS[0]).save(place)  # type: ignore[arg-type]
        assert kept.read() == b"kept", "it was closed"
    for directory in (tmp_path, tmp_path / "kept" / "x"):
        with pytest.raises(StorageError):
            Position.load(directory)
        with pytest.raises(StorageError):
            Position(1, ORDERS[0]).save(directory)
    for other in (5, None, {}, "global"):
        with pytest.raises(UsageError, match="order"):
            Position(1, ORDERS[0]).check(other)  # type: ignore[arg-type]


def test_array_batches_have_steps_that_are_read_back(flowers: Dataset, tmp_path: Path) -> None:
    train = flowers["train"]
    batches = array_batches(train, batch_size=8, image_size=16)
    for step in GOOD_STEPS:
        batches.step = step
        batches.position.save(tmp_path / "p.json")
        saved = Position.load(tmp_path / "p.json")
        assert saved is not None
        batches.seek(saved)
        assert batches.step == saved.step == int(step)
    for step in BAD_STEPS:
        with pytest.raises(UsageError, match="step"):
            batches.step = step
        with pytest.raises(UsageError):
            batches.rest_of_epoch(step)
    for position in (5, None, "x", {}):
        with pytest.raises(UsageError, match="position"):
            batches.seek(position)  # type: ignore[arg-type]


# --- caches and indexes


@pytest.mark.parametrize("present", ["", "0", "1", "0110", "1001", "10101", "1" * 70])
def test_a_cache_log_is_read_back(present: str) -> None:
    records = np.array([*map(int, present)], bool)
    assert _logged(_log_of(records), len(records)).tolist() == records.tolist()
    assert _logged(_log_of(records) + b"\x01" * 15, len(records)).tolist() == records.tolist(), "a torn entry"


def test_a_damaged_cache_log_says_nothing_of_other_records(flowers: Dataset, tmp_path: Path) -> None:
    count = len(flowers["train"])
    entries = np.array([[-5, 5], [count, 1], [count - 1, 2], [2**62, 2**62], [3, 0], [-1, -1], [0, -(2**63)]], np.int64)
    assert not _logged(entries.tobytes(), count).any()
    copy = SparseCopy(str(tmp_path), flowers, "train", CacheSpace(1 << 30, {}, hard=True))
    copy.fill(np.arange(4))
    (log,) = [path for path in Path(copy.directory).iterdir() if "log" in path.name or "fetched" in path.name]
    with open(log, "ab") as file:
        file.write(entries.tobytes())
    again = SparseCopy(str(tmp_path), flowers, "train", CacheSpace(1 << 30, {}, hard=True))
    assert np.flatnonzero(again.present).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["a\nb", "a\x0bb", "a\u2028b"])
def test_a_name_that_a_cache_could_not_list_is_refused(name: str, tmp_path: Path) -> None:
    files = OwnFiles(str(tmp_path / "copy"))
    with pytest.raises(UsageError):
        files.write(name, b"content")
    assert "content" not in " ".join(created_files(str(tmp_path / "copy")))
    files.write("a b", b"content")
    assert "a b" in created_files(str(tmp_path / "copy"))


def test_an_index_is_read_back_or_refused() -> None:
    for sizes in ([], [16], [16, 2**40], [16] * 1000):
        index = Index.from_sizes(sizes)
        assert Index.parse(index.written("x"), "x").offsets.tolist() == index.offsets.tolist()
    for sizes in ([15], [0], [-16], [2**62, 2**62, 2**62]):
        with pytest.raises(UsageError):
            Index.from_sizes(sizes).written("x")


@pytest.mark.parametrize("content", [b"mine", b"\xff", b"[" * 5000, b"[" * 900 + b"]" * 900, b'{"lost": 3}'])
def test_a_list_of_losses_of_another_program_is_kept(content: bytes, flowers: Dataset, tmp_path: Path) -> None:
    """`salvaged.json` in a folder that was adopted: salvage took it for its own, and raised an error of `json`."""
    shards = sorted(Path(flowers.directory).glob("*.tfrecord"))
    records = tmp_path / "records"
    records.mkdir()
    for shard in shards:
        (records / shard.name).write_bytes(shard.read_bytes())
    (records / "salvaged.json").write_bytes(content)
    adopt(survey(records))
    damaged = records / shards[0].name
    damaged.write_bytes(damaged.read_bytes()[:40] + b"?" + damaged.read_bytes()[41:])
    salvage(records, tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "salvaged.json").read_bytes())["earlier"]
    assert kept == ({"lost": 3} if b"lost" in content else kept)
    assert isinstance(kept, dict | list | str)


def test_lists_of_what_was_left_out_are_read_line_by_line() -> None:
    """A file of another program by this name, in a folder that was adopted, ended the report or its list."""
    reasons = ("why", "\ud800", "a\nb\u2028c")
    noted = [Remark(key, "E_X", reason) for key in (b"a", b"\xff\n", b"") for reason in reasons]
    entries = [noted_json(one) for one in noted]
    foreign = [b"", b"mine", b"[1]", b"5", b"{}", b'{"key": 1, "code": "E", "reason": "r"}', b"\xff", b"[" * 9000]
    foreign += [b'{"key": "\\ud800", "code": "E", "reason": "r"}', b'{"key": "k", "code": 5, "reason": "r"}', b"null"]
    assert [*listed_entries(b"\n".join([*foreign, noted_lines(noted), *foreign]))] == entries
