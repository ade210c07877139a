"""Contract tests for a shard format (`shardfeed.formats.format.ShardFormat`), for your own class to inherit.

from shardfeed.testing.shard_format import ShardFormatContract


class TestMine(ShardFormatContract):
    @pytest.fixture
    def shard_format(self):
        return Mine()
"""

import os
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import IntegrityError, RecordError, StorageError
from shardfeed.formats.example import decode, encode
from shardfeed.formats.format import ShardFormat, ShardInfo, ShardView
from shardfeed.schema import ENCODED, FORMAT, LABEL, Feature, Schema, Value
from shardfeed.storage.storage import LOCAL, FileInfo, OpenFile, whole

FEATURES = {
    ENCODED: Feature("bytes"),
    FORMAT: Feature("bytes"),
    LABEL: Feature("int64"),
    "bytes": Feature("bytes"),
    "float": Feature("float32"),
    "int": Feature("int64"),
    "many": Feature("bytes", (None,)),
    "numbers": Feature("int64", (None,)),
    "parts": Feature("float32", (None,)),
    "three": Feature("int64", (3,)),
}

SCHEMA = Schema(FEATURES, {LABEL: ("no", "yes")})


def _record(number: int) -> dict[str, Value]:
    """Values of every dtype and shape: empty, negative, large, and bytes that look like anything."""
    return {
        ENCODED: b"\xff\xd8" + bytes([number, 255 - number]) * (number * 700),
        FORMAT: b"jpeg",
        LABEL: number % 2,
        "bytes": bytes([number]) * (number * number * 100 % 9001),
        "float": -(1.5**number),
        "int": (-1) ** number * 3**number,
        "many": [b"\0" * i for i in range(number % 4)],
        "numbers": [number - i for i in range(number % 3)],
        "parts": [number / 4] * (number % 5),
        "three": [number, -number, 0],
    }


_MANY_BYTES = 1 << 13  # of a larger file some are changed, evenly

RECORDS = [_record(number) for number in range(12)]


class ShardFormatContract:
    """A format returns records as they were written, and never a record that has changed since.

    Override the fixture `shard_format`: the format. `can_continue`: whether a sink can continue after a checkpoint.
    `walks_alone`: whether records can be found without the index. `all_records`: whether every byte of a shard's file
    belongs to a record; False if some bytes are framing that only other programs read.
    """

    can_continue = True
    walks_alone = True
    all_records = True

    @pytest.fixture
    def shard_format(self) -> ShardFormat:
        """Return the format; override this fixture."""
        raise NotImplementedError("override the fixture `shard_format`: the format")

    def written(
        self, shard_format: ShardFormat, directory: Path, records: Sequence[Mapping[str, Value]] = RECORDS
    ) -> tuple[ShardInfo, OpenFile, bytes]:
        """Write a shard of `records`; return its ShardInfo, the file and the content of its index."""
        data, index = directory / f"a{shard_format.data_suffix}", directory / "index" / f"a{shard_format.index_suffix}"
        with shard_format.sink(str(data), str(index), SCHEMA, len(records)) as sink:
            for record in records:
                sink.write(record)
        return sink.info, shard_format.open(LOCAL, str(data), str(index)), index.read_bytes()

    def index_path(self, shard_format: ShardFormat, directory: Path) -> str:
        """Return the path of the index that `written` creates."""
        return str(directory / "index" / f"a{shard_format.index_suffix}")

    def damageable(self, shard_format: ShardFormat, directory: Path) -> tuple[ShardView, bytes, list[bytes], Path]:
        """Write a shard of four records; return its view, bytes and payloads, and a copy of its file to damage."""
        info, file, index = self.written(shard_format, directory, RECORDS[:4])
        view, data, path = shard_format.view(info, index, "index"), whole(file), directory / "damaged"
        path.write_bytes(data)
        return view, data, view.read(file, 0, len(view)), path

    def test_names(self, shard_format: ShardFormat) -> None:
        """Check that a shard and its index have different suffixes, and that the format has a name."""
        assert shard_format.name.isidentifier()
        assert shard_format.data_suffix[:1] == shard_format.index_suffix[:1] == "."
        assert shard_format.data_suffix != shard_format.index_suffix

    def test_values_come_back(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that records come back by row, in runs, and with only the requested features."""
        info, file, index = self.written(shard_format, tmp_path)
        view = shard_format.view(info, index, "index")
        assert len(view) == info.records == len(RECORDS)
        payloads = view.read(file, 0, len(view))
        for row, expected in enumerate(RECORDS):
            assert view.read(file, row, 1) == [payloads[row]]
            assert payloads[row] == encode(FEATURES, expected)
            _check_equal(decode(payloads[row]), expected)
        assert view.read(file, 3, 5) == payloads[3:8]
        assert view.read(file, 4, 0) == []

    def test_the_same_values_give_the_same_bytes(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that the bytes do not depend on the order of keys, nor on whether values or payloads are written."""
        for place in ("a", "b", "c"):
            (tmp_path / place).mkdir()
        first, file, _ = self.written(shard_format, tmp_path / "a")
        turned = [dict(reversed(record.items())) for record in RECORDS]
        second, *_ = self.written(shard_format, tmp_path / "b", turned)
        paths = [str(tmp_path / "c" / f"a{end}") for end in (shard_format.data_suffix, shard_format.index_suffix)]
        with shard_format.sink(paths[0], paths[1], SCHEMA, len(RECORDS)) as sink:
            for record in RECORDS:
                sink.write_payload(encode(FEATURES, record))
        assert first == second == sink.info
        assert whole(file) == Path(paths[0]).read_bytes()

    def test_has_room_for_more(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a shard may hold fewer records than it was opened for."""
        paths = str(tmp_path / f"a{shard_format.data_suffix}"), str(tmp_path / f"a{shard_format.index_suffix}")
        with shard_format.sink(*paths, SCHEMA, 10) as sink:
            sink.write(RECORDS[3])
        view = shard_format.view(sink.info, Path(paths[1]).read_bytes(), "index")
        assert view.read(shard_format.open(LOCAL, *paths), 0, 1) == [encode(FEATURES, RECORDS[3])]

    def test_says_what_was_written(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that sizes and checksums match the files, and that record sizes match the format's own figures."""
        info, file, index = self.written(shard_format, tmp_path)
        assert info.data == FileInfo.of(whole(file))
        assert info.index == FileInfo.of(index)
        view = shard_format.view(info, index, "index")
        assert view.sizes.dtype == np.int64
        payloads = view.read(file, 0, len(view))
        assert view.sizes.tolist() == [shard_format.size(payload) for payload in payloads]
        records, sizes, index_sizes = np.array(
            [[count, info.data.size, info.index.size] for count in (info.records, 1 << 40)]
        ).T
        assert shard_format.may_hold(records, sizes, index_sizes).tolist() == [True, False]

    def test_an_empty_shard(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a shard without records can be written and read."""
        info, file, index = self.written(shard_format, tmp_path, [])
        assert info.records == len(shard_format.view(info, index, "index")) == 0
        assert list(shard_format.walk(file, None, 0)) == []

    def test_an_error_leaves_no_file(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a failed write leaves no file, neither under the final names nor under others."""
        data, index = tmp_path / "a.data", tmp_path / "a.index"
        with pytest.raises(ZeroDivisionError), shard_format.sink(str(data), str(index), SCHEMA, 2) as sink:
            sink.write(RECORDS[1])
            raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []

    def test_continues_after_a_checkpoint(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a sink can continue after a checkpoint, and gives the same files as one that was never stopped."""
        if not self.can_continue:
            with shard_format.sink(str(tmp_path / "a.data"), str(tmp_path / "a.index"), SCHEMA, 2) as sink:
                sink.write(RECORDS[1])
                assert sink.checkpoint() is None
            return
        (tmp_path / "whole").mkdir()
        whole_info, file, index = self.written(shard_format, tmp_path / "whole")
        for stop in range(len(RECORDS)):
            paths = str(tmp_path / f"{stop}.data"), str(tmp_path / f"{stop}.index")
            killed = shard_format.sink(*paths, SCHEMA, len(RECORDS))
            killed.__enter__()
            for record in RECORDS[:stop]:
                killed.write(record)
            checkpoint = killed.checkpoint()
            killed.write(RECORDS[-1])  # it may reach the disk or not
            if stop % 2:
                killed.checkpoint()
            with shard_format.sink(*paths, SCHEMA, len(RECORDS), checkpoint) as sink:
                payloads = list(sink.payloads())
                for record in RECORDS[stop:]:
                    sink.write(record)
            assert checkpoint is not None
            assert checkpoint.records == len(payloads) == stop
            for payload, record in zip(payloads, RECORDS, strict=False):
                _check_equal(decode(payload), record)
            assert sink.info == whole_info
            assert (Path(paths[0]).read_bytes(), Path(paths[1]).read_bytes()) == (whole(file), index)

    def test_continues_after_a_checkpoint_of_a_finished_shard(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a finished shard can be continued from a checkpoint: a kill may come before it is reported."""
        if not self.can_continue:
            return
        paths = str(tmp_path / "a.data"), str(tmp_path / "a.index")
        with shard_format.sink(*paths, SCHEMA, len(RECORDS)) as sink:
            sink.write(RECORDS[1])
            checkpoint = sink.checkpoint()
            sink.write(RECORDS[2])
        with shard_format.sink(*paths, SCHEMA, len(RECORDS), checkpoint) as again:
            again.write(RECORDS[2])
        assert again.info == sink.info
        assert again.info.data == FileInfo.of(Path(paths[0]).read_bytes())

    def test_a_changed_beginning_is_not_continued(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a sink does not continue after a flipped bit, in a truncated file, or in an empty one."""
        if not self.can_continue:
            return
        paths = str(tmp_path / "a.data"), str(tmp_path / "a.index")
        with shard_format.sink(*paths, SCHEMA, len(RECORDS)) as sink:
            for record in RECORDS[:3]:
                sink.write(record)
            checkpoint = sink.checkpoint()
        data = Path(paths[0]).read_bytes()
        flipped = bytes([*data[:-1], data[-1] ^ 1])
        for changed in (flipped, data[:-1], b""):
            Path(paths[0]).write_bytes(changed)
            with pytest.raises(IntegrityError):
                shard_format.sink(*paths, SCHEMA, len(RECORDS), checkpoint)
            for path in tmp_path.iterdir():
                path.unlink()
        with pytest.raises(StorageError):
            shard_format.sink(*paths, SCHEMA, len(RECORDS), checkpoint)

    def test_every_changed_byte_is_noticed(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that reading and walking detect each changed byte, and that the walk reports its position."""
        changes = 0
        view, data, payloads, path = self.damageable(shard_format, tmp_path)
        step = 1 + len(data) // _MANY_BYTES
        for place in range(0, len(data), step):
            _put(path, place, data[place] ^ 1 << place % 8)
            damaged = shard_format.open(LOCAL, str(path), self.index_path(shard_format, tmp_path))
            noticed = _noticed(view, damaged, payloads)
            assert noticed or not self.all_records, f"a changed byte {place} was not noticed"
            found = [walked.record for walked in shard_format.walk(damaged, view, len(view)) if walked.error]
            assert found == noticed
            changes += len(noticed)
            _put(path, place, data[place])
        assert changes >= sum(len(record[ENCODED]) for record in RECORDS[:4]) // step  # type: ignore[arg-type]  # bytes

    def test_a_cut_file_is_noticed(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a truncated file is detected, at any byte."""
        view, data, payloads, path = self.damageable(shard_format, tmp_path)
        for size in range(len(data) - 1, -1, -1 - len(data) // _MANY_BYTES):
            os.truncate(path, size)
            cut = shard_format.open(LOCAL, str(path), self.index_path(shard_format, tmp_path))
            assert _noticed(view, cut, payloads) or (not self.all_records and size), size

    def test_every_changed_index_is_refused(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that an index is refused after a flipped bit, if truncated, or if it belongs to another shard."""
        info, _, index = self.written(shard_format, tmp_path, RECORDS[:4])
        (tmp_path / "other").mkdir()
        *_, other = self.written(shard_format, tmp_path / "other", RECORDS[4:8])
        flipped = (
            index[: bit // 8] + bytes([index[bit // 8] ^ 1 << bit % 8]) + index[bit // 8 + 1 :]
            for bit in range(len(index) * 8)
        )
        for changed in [*flipped, *(index[:size] for size in range(len(index))), index + b"\n", other]:
            with pytest.raises(IntegrityError, match="the place"):
                shard_format.view(info, changed, "the place")

    def test_a_walk_without_an_index(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that a walk without an index finds the records that it can, in order."""
        info, file, index = self.written(shard_format, tmp_path)
        if not self.walks_alone:
            assert not list(shard_format.walk(file, None, len(RECORDS)))
            return
        payloads = shard_format.view(info, index, "index").read(file, 0, len(RECORDS))
        walked = list(shard_format.walk(file, None, len(RECORDS)))
        assert [record.payload for record in walked] == payloads
        assert [record.record for record in walked] == list(range(len(RECORDS)))

    def test_an_error_names_the_place(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that an error names the file, the record and the offset."""
        info, file, index = self.written(shard_format, tmp_path)
        place = shard_format.view(info, index, "index").place(file, 2)
        assert place.startswith(f"{file.path}, record 2, offset ")

    def test_pickles(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that the format can be pickled: it is sent to other processes."""
        again = pickle.loads(pickle.dumps(shard_format))
        info, file, index = self.written(again, tmp_path)
        assert len(shard_format.view(info, index, "index").read(file, 0, 12)) == 12

    def test_threads_read_at_once(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Check that many threads can read from one view and one file."""
        info, file, index = self.written(shard_format, tmp_path)
        view = shard_format.view(info, index, "index")
        payloads = view.read(file, 0, len(RECORDS))
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda row: view.read(file, row, 1)[0], list(range(len(RECORDS))) * 50)
            assert list(found) == payloads * 50


def _check_equal(found: Mapping[str, tuple[str, Any]], expected: Mapping[str, Value]) -> None:
    for key, value in expected.items():
        dtype, values = found.get(key, (FEATURES[key].dtype, []))
        wanted: list[Any] = [*value] if isinstance(value, list) else [value]
        if wanted:
            assert dtype == FEATURES[key].dtype
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
        assert listed == (np.array(wanted, np.float32).tolist() if dtype == "float32" else wanted), key


def _put(path: Path, place: int, value: int) -> None:
    with open(path, "r+b", 0) as file:
        file.seek(place)
        file.write(bytes([value]))


def _noticed(view: ShardView, file: OpenFile, payloads: Sequence[bytes]) -> list[int]:
    """The rows that are refused; all others are as they were."""
    refused = []
    for row, payload in enumerate(payloads):
        try:
            assert view.read(file, row, 1) == [payload]
        except RecordError:
            refused.append(row)
    return refused
