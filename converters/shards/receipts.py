"""Receipts on disk: one small JSON file for each finished shard, written after the shard is durable.

A receipt under its final name means: that shard and its index are whole. A resume redoes the others.
"""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.converters.shards.task import Noted, Receipt
from shardfeed.errors import name_bytes, name_text
from shardfeed.label_column import read_labels
from shardfeed.manifest import FileInfo, ShardInfo
from shardfeed.naming import INDEX_SUFFIX, RECORD_SUFFIX, shard_stem
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import write_file

_CHECKSUM_BYTES = 9  # "89abcdef\n"


def _noted(entries: tuple[Noted, ...]) -> list[list[Any]]:
    return [[name_text(entry.key), entry.what, entry.why, entry.asked] for entry in entries]


def _from_noted(entries: list[list[Any]]) -> tuple[Noted, ...]:
    return tuple(Noted(name_bytes(key), what, why, asked) for key, what, why, asked in entries)


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
        "columns": {key: base64.b64encode(labels).decode() for key, labels in receipt.columns.items()},
        "rejected": _noted(receipt.rejected),
        "normalised": _noted(receipt.normalised),
        "warnings": _noted(receipt.warnings),
        "progressive": receipt.progressive,
    }


def from_json(value: dict[str, Any]) -> Receipt:
    """The inverse of `to_json`. Raises KeyError, TypeError, ValueError or AttributeError on anything else."""
    counts = {key: tuple(of_class) for key, of_class in value["class_counts"].items()}
    return Receipt(
        split=value["split"],
        number=value["number"],
        info=ShardInfo(value["records"], FileInfo(*value["data"]), FileInfo(*value["index"])),
        class_counts=counts,
        formats=value["formats"],
        columns=_from_columns(value["columns"], counts),
        rejected=_from_noted(value["rejected"]),
        normalised=_from_noted(value["normalised"]),
        warnings=_from_noted(value["warnings"]),
        progressive=value["progressive"],
    )


def _from_columns(value: Mapping[str, str], counts: Mapping[str, Sequence[int]]) -> dict[str, bytes]:
    columns = {key: base64.b64decode(text, validate=True) for key, text in value.items()}
    for key, data in columns.items():
        # Nothing else checks these bytes: a changed digit in the receipt would become a wrong label in the dataset.
        labels, expected = read_labels(data), counts[key]
        in_range = not len(labels) or 0 <= labels.min() <= labels.max() < len(expected)
        if not in_range or np.bincount(labels, minlength=len(expected)).tolist() != list(expected):
            raise ValueError(f"the labels of {key} are not those that were counted")
    return columns


def receipt_path(directory: str, split: str, number: int, count: int) -> str:
    """Where the receipt of a shard lies."""
    return os.path.join(directory, shard_stem(split, number, count) + ".json")


def with_checksum(content: bytes) -> bytes:
    """A receipt's file: one line of JSON, and a second one, the CRC-32C of the first without its end."""
    return content + b"\n%08x\n" % crc32c(content)


def save_receipt(path: str, receipt: Receipt) -> None:
    """Write a receipt atomically and durably."""
    write_file(path, with_checksum(json.dumps(to_json(receipt), sort_keys=True).encode()))


def load_receipt(path: str) -> Receipt | None:
    """The receipt, or None when there is none that is whole: then the shard is to be made again."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        content = data[: -_CHECKSUM_BYTES - 1]
        return from_json(json.loads(content)) if with_checksum(content) == data else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def still_whole(receipt: Receipt, stem: str) -> bool:
    """Whether shard and index at `stem` still have the sizes of the receipt."""
    expected = ((stem + RECORD_SUFFIX, receipt.info.data.size), (stem + INDEX_SUFFIX, receipt.info.index.size))
    try:
        return all(os.path.getsize(path) == size for path, size in expected)
    except OSError:
        return False
