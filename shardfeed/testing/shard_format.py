"""The tests of what a shard format promises (`shardfeed.formats.format.ShardFormat`), for yours to inherit.

from shardfeed.testing.shard_format import ShardFormatContract


class TestMine(ShardFormatContract):
    @pytest.fixture
    def shard_format(self):
        return Mine()
"""

import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.errors import IntegrityError, RecordError, StorageError
from shardfeed.formats.format import ShardFormat, ShardInfo, ShardView
from shardfeed.schema import Feature, Value
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local_reading import LOCAL
from shardfeed.storage.storage import OpenFile, whole

FEATURES = {
    "bytes": Feature("bytes"),
    "float": Feature("float32"),
    "int": Feature("int64"),
    "many": Feature("bytes", (None,)),
    "numbers": Feature("int64", (None,)),
    "parts": Feature("float32", (None,)),
    "three": Feature("int64", (3,)),
}


def _record(number: int) -> dict[str, Value]:
    """Values of every dtype and shape: empty, negative, large, and bytes that look like anything."""
    return {
        "bytes": bytes([number]) * (number * number * 100 % 9001),
        "float": -(1.5**number),
        "int": (-1) ** number * 3**number,
        "many": [b"\0" * i for i in range(number % 4)],
        "numbers": [number - i for i in range(number % 3)],
        "parts": [number / 4] * (number % 5),
        "three": [number, -number, 0],
    }


RECORDS = [_record(number) for number in range(12)]


class ShardFormatContract:
    """A format gives records back as they were written, and never one that has changed since.

    Override the fixture `shard_format`: the format.
    """

    @pytest.fixture
    def shard_format(self) -> ShardFormat:
        """The format."""
        raise NotImplementedError("override the fixture `shard_format`: the format")

    def written(
        self, shard_format: ShardFormat, directory: Path, records: Sequence[Mapping[str, Value]] = RECORDS
    ) -> tuple[ShardInfo, OpenFile, bytes]:
        """A shard of `records`: what was written, the file and the content of its index."""
        data, index = directory / f"a{shard_format.data_suffix}", directory / "index" / f"a{shard_format.index_suffix}"
        with shard_format.sink(str(data), str(index), FEATURES) as sink:
            for record in records:
                sink.write(record)
        return sink.info, LOCAL.open(str(data)), index.read_bytes()

    def test_names(self, shard_format: ShardFormat) -> None:
        """A shard and its index have suffixes of their own, and the format has a name."""
        assert shard_format.name.isidentifier()
        assert shard_format.data_suffix[:1] == shard_format.index_suffix[:1] == "."
        assert shard_format.data_suffix != shard_format.index_suffix

    def test_values_come_back(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Each by its row, any run of them, and those features alone that are asked for."""
        info, file, index = self.written(shard_format, tmp_path)
        view = shard_format.view(info, index, "index")
        assert len(view) == info.records == len(RECORDS)
        payloads = view.read(file, 0, len(view))
        for row, expected in enumerate(RECORDS):
            assert view.read(file, row, 1) == [payloads[row]]
            _check_equal(shard_format.decode(payloads[row]), expected)
            _check_equal(shard_format.decode(payloads[row], {"int", "many"}), {k: expected[k] for k in ("int", "many")})
        assert view.read(file, 3, 5) == payloads[3:8]
        assert view.read(file, 4, 0) == []

    def test_the_same_values_give_the_same_bytes(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Whatever the order of keys, and whether records are encoded before or by the sink."""
        for place in ("a", "b", "c"):
            (tmp_path / place).mkdir()
        first, file, _ = self.written(shard_format, tmp_path / "a")
        turned = [dict(reversed(record.items())) for record in RECORDS]
        second, *_ = self.written(shard_format, tmp_path / "b", turned)
        encode = shard_format.encoder(FEATURES)
        paths = [str(tmp_path / "c" / f"x{end}") for end in (shard_format.data_suffix, shard_format.index_suffix)]
        with shard_format.sink(paths[0], paths[1], FEATURES) as sink:
            for record in RECORDS:
                sink.append(encode(record))
        assert first == second == sink.info
        assert whole(file) == b"".join(b"".join(encode(record)) for record in RECORDS)

    def test_what_was_read_can_be_written(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Byte for byte, without decoding it."""
        info, file, index = self.written(shard_format, tmp_path)
        payloads = shard_format.view(info, index, "index").read(file, 0, len(RECORDS))
        assert b"".join(b"".join(shard_format.stored(payload)) for payload in payloads) == whole(file)

    def test_says_what_was_written(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Sizes and checksums are those of the files, and a record's size is its share of the file."""
        info, file, index = self.written(shard_format, tmp_path)
        assert info.data == FileInfo.of(whole(file))
        assert info.index == FileInfo.of(index)
        view = shard_format.view(info, index, "index")
        assert view.sizes.dtype == np.int64
        assert view.sizes.sum() <= info.data.size
        assert (view.sizes > 0).all()
        assert shard_format.may_hold(info)
        assert not shard_format.may_hold(ShardInfo(1 << 40, info.data, info.index))

    def test_an_empty_shard(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """It is a shard."""
        info, file, index = self.written(shard_format, tmp_path, [])
        assert info.records == len(shard_format.view(info, index, "index")) == 0
        assert list(shard_format.walk(file, None, 0)) == []

    def test_an_error_leaves_no_file(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Neither under the names it was to have, nor under another."""
        data, index = tmp_path / "a.data", tmp_path / "a.index"
        with pytest.raises(ZeroDivisionError), shard_format.sink(str(data), str(index), FEATURES) as sink:
            sink.write(RECORDS[1])
            raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []

    def test_goes_on_behind_a_checkpoint(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Whoever wrote it, and whatever came after it: the files are those of a sink that was not stopped."""
        (tmp_path / "whole").mkdir()
        whole_info, file, index = self.written(shard_format, tmp_path / "whole")
        for stop in range(len(RECORDS)):
            paths = str(tmp_path / f"{stop}.data"), str(tmp_path / f"{stop}.index")
            killed = shard_format.sink(*paths, FEATURES)
            killed.__enter__()
            for record in RECORDS[:stop]:
                killed.write(record)
            checkpoint = killed.checkpoint()
            killed.write(RECORDS[-1])  # it may reach the disk or not
            if stop % 2:
                killed.checkpoint()
            with shard_format.sink(*paths, FEATURES, checkpoint) as sink:
                payloads = list(sink.payloads())
                for record in RECORDS[stop:]:
                    sink.write(record)
            assert checkpoint.records == len(payloads) == stop
            for payload, record in zip(payloads, RECORDS, strict=False):
                _check_equal(shard_format.decode(payload), record)
            assert sink.info == whole_info
            assert (Path(paths[0]).read_bytes(), Path(paths[1]).read_bytes()) == (whole(file), index)

    def test_goes_on_behind_a_checkpoint_of_a_finished_shard(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """It was killed before anybody heard that it was finished."""
        paths = str(tmp_path / "a.data"), str(tmp_path / "a.index")
        with shard_format.sink(*paths, FEATURES) as sink:
            sink.write(RECORDS[1])
            checkpoint = sink.checkpoint()
            sink.write(RECORDS[2])
        with shard_format.sink(*paths, FEATURES, checkpoint) as again:
            again.write(RECORDS[2])
        assert again.info == sink.info
        assert again.info.data == FileInfo.of(Path(paths[0]).read_bytes())

    def test_a_changed_beginning_is_not_gone_on_from(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """A flipped bit, a cut; and nothing at all."""
        paths = str(tmp_path / "a.data"), str(tmp_path / "a.index")
        with shard_format.sink(*paths, FEATURES) as sink:
            for record in RECORDS[:3]:
                sink.write(record)
            checkpoint = sink.checkpoint()
        data = Path(paths[0]).read_bytes()
        flipped = bytes([*data[:-1], data[-1] ^ 1])
        for changed in (flipped, data[:-1], b""):
            Path(paths[0]).write_bytes(changed)
            with pytest.raises(IntegrityError):
                shard_format.sink(*paths, FEATURES, checkpoint)
            for path in tmp_path.iterdir():
                path.unlink()
        with pytest.raises(StorageError):
            shard_format.sink(*paths, FEATURES, checkpoint)

    def test_every_changed_byte_is_noticed(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """By reading the records: those that are read are right. By a walk too, which says where."""
        records = RECORDS[:4]
        info, file, index = self.written(shard_format, tmp_path, records)
        view = shard_format.view(info, index, "index")
        data, payloads = whole(file), view.read(file, 0, len(records))
        path = tmp_path / "damaged"
        for place in range(len(data)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
            damaged = LOCAL.open(str(path))
            noticed = _noticed(view, damaged, payloads)
            assert noticed, f"a changed byte {place} was not noticed"
            found = [walked.record for walked in shard_format.walk(damaged, view, len(records)) if walked.error]
            assert found == noticed

    def test_a_cut_file_is_noticed(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """At whatever byte."""
        records = RECORDS[:4]
        info, file, index = self.written(shard_format, tmp_path, records)
        view = shard_format.view(info, index, "index")
        data, payloads = whole(file), view.read(file, 0, len(records))
        path = tmp_path / "cut"
        for size in range(len(data)):
            path.write_bytes(data[:size])
            assert _noticed(view, LOCAL.open(str(path)), payloads), size

    def test_every_changed_index_is_refused(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """Each flipped bit, each cut, and the index of another shard."""
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
        """It finds what it can, in order."""
        info, file, index = self.written(shard_format, tmp_path)
        payloads = shard_format.view(info, index, "index").read(file, 0, len(RECORDS))
        walked = list(shard_format.walk(file, None, len(RECORDS)))
        assert [record.payload for record in walked] == payloads
        assert [record.record for record in walked] == list(range(len(RECORDS)))

    def test_an_error_names_the_place(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """File, record and offset."""
        info, file, index = self.written(shard_format, tmp_path)
        place = shard_format.view(info, index, "index").place(file, 2)
        assert place.startswith(f"{file.path}, record 2, offset ")

    def test_nonsense_is_no_record(self, shard_format: ShardFormat) -> None:
        """It is an error, or a record without the features that are wanted."""
        for payload in (b"\xff", b"\0" * 40, b"{}", b"\x0a\x05ab"):
            try:
                assert not FEATURES.keys() <= shard_format.decode(payload).keys()
            except IntegrityError:
                continue

    def test_pickles(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """A format travels to other processes."""
        again = pickle.loads(pickle.dumps(shard_format))
        info, file, index = self.written(again, tmp_path)
        assert len(shard_format.view(info, index, "index").read(file, 0, 12)) == 12

    def test_threads_read_at_once(self, shard_format: ShardFormat, tmp_path: Path) -> None:
        """One view and one file serve them all."""
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


def _noticed(view: ShardView, file: OpenFile, payloads: Sequence[bytes]) -> list[int]:
    """The rows that are refused; all others are as they were."""
    refused = []
    for row, payload in enumerate(payloads):
        try:
            assert view.read(file, row, 1) == [payload]
        except RecordError:
            refused.append(row)
    return refused
