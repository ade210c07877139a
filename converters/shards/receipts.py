"""Receipts on disk: one file for each finished shard, written after the shard is durable.

A receipt is a line of JSON, a line with its CRC-32C, and then the shard's columns, concatenated. The columns are read
when the dataset is put together, because all shards' columns may not fit in memory.

A receipt under its final name means: the shard and its index are complete for the task with this digest. A resume
writes all other shards. While a shard is written, a receipt of its durable part, the checkpoint, is kept beside it.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardfeed.converters.shards.task import Noted, Receipt
from shardfeed.converters.sources.objects import Account, LeftOut
from shardfeed.errors import IntegrityError, StorageError, name_bytes, name_text
from shardfeed.formats.format import ShardInfo, shard_stem
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import NewFile, disk_errors
from shardfeed.storage.storage import FileInfo

_CHECKSUM_BYTES = 9  # "89abcdef\n"


class StoredColumns(Mapping[str, bytes]):
    """The columns after a receipt's JSON; each is read, and its checksum compared, on access.

    `infos`: size and CRC-32C of each, in file order; they begin at byte `start`. Access raises StorageError, and
    IntegrityError for a damaged column.
    """

    def __init__(self, path: str, start: int, infos: Mapping[str, FileInfo]) -> None:
        self._path = path
        self._infos = infos
        self._starts: dict[str, int] = {}
        for key, info in infos.items():
            self._starts[key] = start
            start += info.size
        self.end = start  # of the file

    def __getitem__(self, key: str) -> bytes:
        info = self._infos[key]
        with disk_errors(self._path, "read"), open(self._path, "rb") as file:
            file.seek(self._starts[key])
            data = file.read(info.size)
        if problem := info.difference(FileInfo.of(data)):
            raise IntegrityError(self._path, f"the column of {key} {problem}", "remove the file, and run again")
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def whole(self) -> bool:
        """Whether every column is as it was written."""
        try:
            return all(self.values())
        except IntegrityError:
            return False


def _noted(entries: tuple[Noted, ...]) -> list[list[Any]]:
    return [[name_text(entry.key), entry.what, entry.why, entry.asked] for entry in entries]


def _from_noted(entries: list[list[Any]]) -> tuple[Noted, ...]:
    return tuple(Noted(name_bytes(key), what, why, asked) for key, what, why, asked in entries)


def _account(account: Account) -> list[Any]:
    lists = [[[name_text(one.key), one.code, one.reason] for one in of] for of in (account.left_out, account.clips)]
    return [account.read, account.written, account.clipped, account.farthest, *lists]


def _from_account(value: list[Any]) -> Account:
    read, written, clipped, farthest, *lists = value
    left_out, clips = (tuple(LeftOut(name_bytes(key), code, reason) for key, code, reason in of) for of in lists)
    return Account(read, written, clipped, farthest, left_out, clips)


def to_json(receipt: Receipt) -> dict[str, Any]:
    """A JSON value that `from_json` gives back; names that are not UTF-8 as lone surrogates."""
    info = receipt.info
    return {
        "split": receipt.split,
        "number": receipt.number,
        "records": info.records,
        "data": [info.data.size, info.data.crc32c],
        "index": [info.index.size, info.index.crc32c],
        "class_counts": {key: list(counts) for key, counts in receipt.class_counts.items()},
        "formats": dict(receipt.formats),
        "rejected": _noted(receipt.rejected),
        "normalised": _noted(receipt.normalised),
        "warnings": _noted(receipt.warnings),
        "progressive": receipt.progressive,
        "account": _account(receipt.account),
        "digest": receipt.digest,
    }


def from_json(value: dict[str, Any]) -> Receipt:
    """The inverse of `to_json`, without columns. Raises KeyError, TypeError, ValueError or AttributeError otherwise."""
    counts = {key: tuple(of_class) for key, of_class in value["class_counts"].items()}
    return Receipt(
        split=value["split"],
        number=value["number"],
        info=ShardInfo(value["records"], FileInfo(*value["data"]), FileInfo(*value["index"])),
        class_counts=counts,
        formats=value["formats"],
        columns={},
        rejected=_from_noted(value["rejected"]),
        normalised=_from_noted(value["normalised"]),
        warnings=_from_noted(value["warnings"]),
        progressive=value["progressive"],
        account=_from_account(value["account"]),
        digest=value["digest"],
    )


def receipts_below(url: str) -> str:
    """URL of the folder of receipts of an unfinished dataset in a bucket."""
    return f"{url}/.receipts"


def receipt_path(directory: str, split: str, number: int, count: int) -> str:
    """Path of the receipt of a shard."""
    return os.path.join(directory, shard_stem(split, number, count) + ".json")


def receipt_count(name: str) -> int:
    """Number of shards of the split, as the file name of a receipt states it; 0 for other names."""
    number = name.removesuffix(".json").rpartition("-of-")[2]
    return int(number) if number.isdecimal() else 0


def with_checksum(content: bytes) -> bytes:
    """The head of a receipt's file: one line of JSON, and a second one, the CRC-32C of the first without its end."""
    return content + b"\n%08x\n" % crc32c(content)


def save_receipt(path: str, receipt: Receipt) -> Receipt:
    """Write a receipt atomically and durably; return it with its columns in the file alone."""
    infos = {key: FileInfo.of(column) for key, column in receipt.columns.items()}
    columns = [[key, info.size, info.crc32c] for key, info in infos.items()]
    head = with_checksum(json.dumps({**to_json(receipt), "columns": columns}, sort_keys=True).encode())
    with NewFile(path) as file:
        file.write([head, *receipt.columns.values()])
    return replace(receipt, columns=StoredColumns(path, len(head), infos))


def load_receipt(path: str) -> Receipt | None:
    """Load a receipt; None if it is missing or damaged: then the shard is to be made again."""
    try:
        with open(path, "rb") as file:
            content = file.readline()[:-1]
            if with_checksum(content) != content + b"\n" + file.read(_CHECKSUM_BYTES):
                return None
        value = json.loads(content)
        infos = {key: FileInfo(size, crc) for key, size, crc in value["columns"]}
        columns = StoredColumns(path, len(content) + 1 + _CHECKSUM_BYTES, infos)
        if min((info.size for info in infos.values()), default=0) < 0:
            return None
        if os.path.getsize(path) != columns.end or not columns.whole:
            return None
        return replace(from_json(value), columns=columns)
    except (OSError, StorageError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_receipt(content: bytes) -> Receipt | None:
    """The receipt in the content of a file, with its columns in memory; None if it is damaged."""
    with tempfile.NamedTemporaryFile(prefix="shardfeed-receipt-") as file:
        file.write(content)
        file.flush()
        receipt = load_receipt(file.name)
        return receipt and replace(receipt, columns=dict(receipt.columns))


def still_whole(receipt: Receipt, data: str, index: str) -> bool:
    """Whether the files of a shard and its index still have the sizes of the receipt."""
    expected = ((data, receipt.info.data.size), (index, receipt.info.index.size))
    try:
        return all(os.path.getsize(path) == size for path, size in expected)
    except OSError:
        return False
