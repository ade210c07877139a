"""The manifest: canonical, round-trips, and notices every change."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from shardfeed.errors import IntegrityError, UsageError
from shardfeed.framing import crc32c
from shardfeed.manifest import FileInfo, Manifest, ShardInfo, SplitInfo, parse_manifest, read_manifest
from shardfeed.naming import check_split_name, dataset_name, shard_stem
from shardfeed.schema import LABEL, TEXT, Feature, Schema, image_features


def example(columns: Mapping[str, FileInfo] | None = None) -> Manifest:
    features = image_features(sha256=True) | {LABEL: Feature("int64"), TEXT: Feature("bytes")}
    schema = Schema(features, {LABEL: ("Gänse", "b")})
    shards = (
        ShardInfo(2, FileInfo(100, 1), FileInfo(10, 2)),
        ShardInfo(1, FileInfo(60, 0xFFFFFFFF), FileInfo(5, 4)),
    )
    split = SplitInfo("train", shards, {LABEL: (1, 2)}, {"jpeg": 3}, columns or {})
    return Manifest(
        "flowers", schema, {"train": split}, {"a.txt": FileInfo(3, 9)}, "ab" * 16, {"seed": 0}, {"E_X": 1}, {"p": "1"}
    )


def test_round_trip() -> None:
    manifest = example()
    again = parse_manifest(manifest.to_bytes(), "m")
    assert again == manifest
    assert again.splits["train"].records == 3
    assert again.splits["train"].size == 160
    assert again.files()["train-00001-of-00002.tfindex"] == FileInfo(5, 4)


def test_label_columns() -> None:
    manifest = example({LABEL: FileInfo(140, 7), "image/grade/label": FileInfo(140, 8)})
    again = parse_manifest(manifest.to_bytes(), "m")
    assert again == manifest
    assert again.splits["train"].columns[LABEL] == FileInfo(140, 7)
    assert again.files()["train.image.class.label.npy"] == FileInfo(140, 7)
    written = json.loads(manifest.to_bytes())["splits"]["train"]["columns"]["image/grade/label"]
    assert written == {"file": "train.image.grade.label.npy", "bytes": 140, "crc32c": "00000008"}


def test_a_manifest_without_columns_is_the_one_of_before() -> None:
    data = example().to_bytes()
    assert b"columns" not in data
    assert crc32c(data) == 0xD7C18A36, "as written before there were columns"
    assert parse_manifest(data, "m").to_bytes() == data


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    data = example().to_bytes()
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            parse_manifest(bytes(damaged), "m")
    for cut in range(len(data)):
        with pytest.raises(IntegrityError):
            parse_manifest(data[:cut], "m")
    with pytest.raises(IntegrityError):
        parse_manifest(data + b"\n", "m")


def test_a_newer_format_is_named() -> None:
    content = json.loads(example().to_bytes())
    content["format_version"] += 1
    with pytest.raises(IntegrityError, match="format version 2, this release reads 1; install a newer"):
        parse_manifest(json.dumps(content).encode(), "m")


def test_what_is_no_dataset_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no manifest\.json in it"):
        read_manifest(str(tmp_path))
    with pytest.raises(UsageError, match="no such directory"):
        read_manifest(str(tmp_path / "none"))


def test_names() -> None:
    assert shard_stem("train", 3, 8) == "train-00003-of-00008"
    assert dataset_name("my flowers-2") == "my_flowers_2"
    assert dataset_name("2024") == "dataset_2024"
    with pytest.raises(UsageError, match="rename the split"):
        check_split_name("train-1")


def test_schema_is_checked() -> None:
    with pytest.raises(UsageError, match="a class is named twice"):
        Schema({LABEL: Feature("int64")}, {LABEL: ("a", "a")})
    with pytest.raises(UsageError, match="belong to an int64 feature"):
        Schema({TEXT: Feature("bytes")}, {TEXT: ("a",)})
    with pytest.raises(UsageError, match="expected 'bytes'"):
        Feature("uint8")  # type: ignore[arg-type]  # what the check is for
