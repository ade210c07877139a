"""Receipts: whole or not there; so are the columns in them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardfeed.column import encode_column
from shardfeed.converters.shards.receipts import load_receipt, save_receipt, with_checksum
from shardfeed.converters.shards.task import Receipt, Remark
from shardfeed.errors import IntegrityError, StorageError
from shardfeed.formats.format import ShardInfo
from shardfeed.schema import FILENAME, LABEL
from shardfeed.storage.storage import FileInfo


@pytest.fixture
def receipt() -> Receipt:
    info = ShardInfo(4, FileInfo(100, 1), FileInfo(10, 2))
    noted = (Remark(b"a\xff", "E_X", "why"),)
    columns = {
        LABEL: encode_column([2, 0, 2, 2], np.dtype("<i4")),
        FILENAME: encode_column([b"a", b"\n", b"", b"\xff"], np.dtype("O")),
    }
    return Receipt("train", 3, info, {LABEL: (1, 0, 3)}, {"jpeg": 4}, columns, noted, noted, ())


def edited(path: Path, **changes: Any) -> Receipt | None:
    value = json.loads(path.read_bytes().splitlines()[0])
    before = dict(value)
    value.update({key: change for key, change in changes.items() if change is not None})
    for key, change in changes.items():
        if change is None:
            del value[key]
    assert value != before, "the corruptor changed nothing"
    columns = b"".join(path.read_bytes().splitlines(keepends=True)[2:])
    path.write_bytes(with_checksum(json.dumps(value).encode()) + columns)
    return load_receipt(str(path))


def test_round_trip(receipt: Receipt, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    saved = save_receipt(str(path), receipt)
    assert saved == load_receipt(str(path)) == receipt
    assert not isinstance(saved.columns, dict), "its columns stay in the file"
    assert load_receipt(str(tmp_path / "none.json")) is None


def test_a_receipt_of_an_older_version_has_no_columns(receipt: Receipt, tmp_path: Path) -> None:
    save_receipt(str(tmp_path / "r.json"), receipt)
    assert edited(tmp_path / "r.json", columns=None) is None


def test_any_changed_byte_is_noticed(receipt: Receipt, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save_receipt(str(path), receipt)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert load_receipt(str(path)) is None, place
    for other in (data[:-1], data + b"\0", data[: data.index(b"\n") + 10]):
        path.write_bytes(other)
        assert load_receipt(str(path)) is None


@pytest.mark.parametrize("table", [[], [[LABEL, -1, 0]], [[LABEL, 2**62, 0]], [[LABEL, "1", 0]], [[LABEL, 144]], {}])
def test_a_table_of_columns_that_does_not_fit(receipt: Receipt, tmp_path: Path, table: Any) -> None:
    save_receipt(str(tmp_path / "r.json"), receipt)
    assert edited(tmp_path / "r.json", columns=table) is None


def test_a_column_that_changes_later_is_refused(receipt: Receipt, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    saved = save_receipt(str(path), receipt)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert saved.columns[LABEL] == receipt.columns[LABEL]
    with pytest.raises(IntegrityError, match="the column of image/filename its CRC-32C is"):
        saved.columns[FILENAME]
    path.unlink()
    with pytest.raises(StorageError):
        saved.columns[LABEL]
