"""Receipts: whole or not there; labels that are not those that were counted count as not there."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardfeed.converters.shards.receipts import load_receipt, save_receipt, with_checksum
from shardfeed.converters.shards.task import Noted, Receipt
from shardfeed.label_column import label_bytes
from shardfeed.manifest import FileInfo, ShardInfo
from shardfeed.schema import LABEL


@pytest.fixture
def receipt() -> Receipt:
    info = ShardInfo(4, FileInfo(100, 1), FileInfo(10, 2))
    noted = (Noted(b"a\xff", "E_X", "why"),)
    return Receipt(
        "train", 3, info, {LABEL: (1, 0, 3)}, {"jpeg": 4}, {LABEL: label_bytes([2, 0, 2, 2])}, noted, noted, ()
    )


def edited(path: Path, **changes: Any) -> Receipt | None:
    value = json.loads(path.read_text().splitlines()[0])
    before = dict(value)
    value.update({key: change for key, change in changes.items() if change is not None})
    for key, change in changes.items():
        if change is None:
            del value[key]
    assert value != before, "the corruptor changed nothing"
    path.write_bytes(with_checksum(json.dumps(value).encode()))
    return load_receipt(str(path))


def test_round_trip(receipt: Receipt, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save_receipt(str(path), receipt)
    assert load_receipt(str(path)) == receipt
    assert load_receipt(str(tmp_path / "none.json")) is None


def test_a_receipt_of_an_older_version_has_no_labels(receipt: Receipt, tmp_path: Path) -> None:
    save_receipt(str(tmp_path / "r.json"), receipt)
    assert edited(tmp_path / "r.json", columns=None) is None


@pytest.mark.parametrize(
    "labels",
    [
        "AgAAAAAAAAACAAAA",  # three
        "AgAAAAAAAAACAAAAAgAAAAIAAAA=",  # five
        "AgAAAAAAAAACAAAAAQAAAA==",  # another class
        "AgAAAAAAAAACAAAAAgAAQA==",  # no class: one that must not be counted by its value
        "AgAAAAAAAAACAAAA/////w==",  # -1
        "AgAAAAAAAAACAAAAAgAA",  # a cut number
        "AgAAAAAAAAACAAAAAg=",  # no base64
        "",
        "?",
    ],
)
def test_labels_that_were_not_counted(receipt: Receipt, tmp_path: Path, labels: str) -> None:
    save_receipt(str(tmp_path / "r.json"), receipt)
    assert '"AgAAAAAAAAACAAAAAgAAAA=="' in (tmp_path / "r.json").read_text()
    assert edited(tmp_path / "r.json", columns={LABEL: labels}) is None
