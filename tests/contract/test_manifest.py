"""The manifest: canonical, round-trips, and notices every change."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.format import ShardInfo
from shardfeed.manifest import FileInfo, Manifest, SplitInfo, parse_manifest, read_manifest
from shardfeed.naming import check_split_name, dataset_name, shard_stem
from shardfeed.schema import LABEL, TEXT, Feature, Schema, image_features
from shardfeed.shard_table import ShardTable
from shardfeed.storage.checksum import crc32c

from damages import signed


def example(columns: Mapping[str, FileInfo] | None = None, version: int = 2) -> Manifest:
    features = image_features(sha256=True) | {LABEL: Feature("int64"), TEXT: Feature("bytes")}
    schema = Schema(features, {LABEL: ("Gänse", "b")})
    shards = ShardTable.of(
        [ShardInfo(2, FileInfo(100, 1), FileInfo(10, 2)), ShardInfo(1, FileInfo(60, 0xFFFFFFFF), FileInfo(5, 4))]
    )
    split = SplitInfo("train", shards, {LABEL: (1, 2)}, {"jpeg": 3}, columns or {}, version)
    return Manifest(
        "flowers",
        schema,
        {"train": split},
        {"a.txt": FileInfo(3, 9)},
        "ab" * 16,
        {"seed": 0},
        {"E_X": 1},
        {"p": "1"},
        version,
    )


def test_round_trip() -> None:
    manifest = example()
    again = parse_manifest(manifest.to_bytes(), "m")
    assert again == manifest
    assert again.splits["train"].records == 3
    assert again.splits["train"].size == 160
    assert again.files()["index/train-00001-of-00002.tfindex"] == FileInfo(5, 4)


def test_columns() -> None:
    manifest = example({LABEL: FileInfo(140, 7), "image/grade/label": FileInfo(140, 8)})
    again = parse_manifest(manifest.to_bytes(), "m")
    assert again == manifest
    assert again.splits["train"].columns[LABEL] == FileInfo(140, 7)
    assert again.files()["index/train.image.class.label.npy"] == FileInfo(140, 7)
    written = json.loads(manifest.to_bytes())["splits"]["train"]["columns"]["image/grade/label"]
    assert written == {"file": "index/train.image.grade.label.npy", "bytes": 140, "crc32c": "00000008"}


def test_a_manifest_without_columns_is_the_one_of_before() -> None:
    data = example(version=1).to_bytes()
    assert b"columns" not in data
    assert crc32c(data) == 0xD7C18A36, "as written before there were columns"
    assert parse_manifest(data, "m").to_bytes() == data


def test_format_1_has_all_files_beside_each_other() -> None:
    manifest = example({LABEL: FileInfo(140, 7)}, version=1)
    again = parse_manifest(manifest.to_bytes(), "m")
    assert again == manifest != example({LABEL: FileInfo(140, 7)})
    assert sorted(again.files()) == [
        "a.txt",
        "train-00000-of-00002.tfindex",
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfindex",
        "train-00001-of-00002.tfrecord",
        "train.image.class.label.npy",
    ]


@pytest.mark.promise(25)
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


@pytest.mark.promise(25)
def test_a_newer_format_is_named() -> None:
    content = json.loads(example().to_bytes())
    assert signed(dict(content)) == example().to_bytes()
    content["format_version"] += 1
    with pytest.raises(IntegrityError, match="format version 3, this release reads 2; install a newer") as caught:
        parse_manifest(signed(content), "m")
    assert caught.value.exit_code == 4
    content["what"] = {"is": "not known yet"}
    del content["splits"]
    with pytest.raises(IntegrityError, match="format version 3, this release reads 2; install a newer"):
        parse_manifest(signed(content), "m")


@pytest.mark.promise(25)
def test_a_changed_version_is_damage_not_a_newer_format() -> None:
    data = example().to_bytes()
    changed = data.replace(b'"format_version": 2', b'"format_version": 3')
    assert changed != data
    with pytest.raises(IntegrityError, match="changed since it was written") as caught:
        parse_manifest(changed, "m")
    assert "newer" not in str(caught.value)


SHARD: list[str | int] = ["splits", "train", "shards", 0]
IMPOSSIBLE: list[tuple[list[str | int], Any]] = [
    (["name"], 5),
    (["fingerprint"], None),
    (["rejected", "E_X"], "1"),
    (["made_by", "p"], 1),
    (["sidecars", "../a.txt"], {"bytes": 3, "crc32c": "00000009"}),
    (["sidecars", "manifest.json"], {"bytes": 3, "crc32c": "00000009"}),
    (["sidecars", "a.txt", "crc32c"], "-0000001"),
    (["sidecars", "a.txt", "crc32c"], "100000000"),
    (["sidecars", "a.txt", "bytes"], 10**30),
    (["splits", "train", "formats", "jpeg"], -1),
    (["splits", "train", "class_counts", "image/class/label"], [1]),
    (["splits", "train", "class_counts", "image/class/label"], [1, 1, 1]),
    (["splits", "train", "class_counts", "image/class/label"], [-1, 2]),
    (["splits", "train", "class_counts", "image/class/label"], [2, 2]),
    (["splits", "train", "class_counts", "image/class/label"], {}),
    (["splits", "train", "class_counts", "image/unknown"], [1, 2]),
    ([*SHARD, "records"], 10**9),
    ([*SHARD, "records"], 10**30),
    ([*SHARD, "bytes"], 2**63 - 1),
    (["features", "image/class/label", "class_names"], [1, 2]),
    (["features", "a\ud800"], {"dtype": "int64", "shape": []}),
]


@pytest.mark.promise(22)
@pytest.mark.parametrize(("where", "value"), IMPOSSIBLE, ids=map(str, range(len(IMPOSSIBLE))))
def test_a_checksum_that_is_right_does_not_make_it_a_manifest(where: list[str | int], value: Any) -> None:
    """Refuse values that would later cause an OverflowError, a file outside the directory or gigabytes of zeros."""
    content: Any = json.loads(example().to_bytes())
    at = content
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    if where[-1] in ("records", "bytes"):  # their sums are right too
        split = content["splits"]["train"]
        split |= {total: sum(shard[total] for shard in split["shards"]) for total in ("records", "bytes")}
    with pytest.raises(IntegrityError, match="not a manifest"):
        parse_manifest(signed(content), "m")


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


def in_webdataset() -> Manifest:
    """A manifest of the same shards in another format."""
    old = example()
    shards = ShardTable.of(
        ShardInfo(shard.records, shard.data, FileInfo(120, 2)) for shard in old.splits["train"].shards
    )
    splits = {"train": replace(old.splits["train"], shards=shards, version=3, format="webdataset")}
    return replace(old, splits=splits, version=3, format="webdataset")


def test_the_format_of_shards_is_kept() -> None:
    manifest = in_webdataset()
    assert parse_manifest(manifest.to_bytes(), "m") == manifest
    assert "data/train-00000-of-00002.tar" in manifest.files()
    assert "index/train-00000-of-00002.index" in manifest.files()
    assert b"shard_format" not in example().to_bytes(), "manifests of TFRecords keep their bytes"


def test_a_format_of_shards_that_is_not_known_is_a_newer_one() -> None:
    content = json.loads(in_webdataset().to_bytes())
    content["shard_format"] = "scroll"
    with pytest.raises(IntegrityError, match="format version 3 with shards in scroll, this release reads 3; install"):
        parse_manifest(signed(content), "m")


@pytest.mark.promise(25)
def test_every_flipped_bit_of_another_format_is_found() -> None:
    data = in_webdataset().to_bytes()
    for bit in range(0, len(data) * 8, 7):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            parse_manifest(bytes(damaged), "m")


@pytest.mark.parametrize("name", ["../train", "a/../../train", "/tmp/train", ".."])
def test_no_name_leaves_the_directory(name: str) -> None:
    """Names of splits and shards are parts of paths, in caches too."""
    content: Any = json.loads(example().to_bytes())
    content["splits"][name] = content["splits"]["train"]
    with pytest.raises(IntegrityError, match="expected a letter"):
        parse_manifest(signed(content), "m")
    del content["splits"][name]
    content["splits"]["train"]["shards"][0]["file"] = name
    assert parse_manifest(signed(content), "m").files() == example().files(), "names are computed"
    with pytest.raises(IntegrityError, match="its content belongs in other bytes"):
        parse_manifest(signed(content), "m", exact=True)


def test_a_list_of_shards_elsewhere_is_not_one() -> None:
    """Options are any JSON, so that they may look like a split."""
    options = {"splits": {"shards": [{"bytes": 1}], "train": {"shards": []}}, 'a "splits": {': 1}
    manifest = replace(example(), options=options, splits={"a": SplitInfo("a", ShardTable.of([])), **example().splits})
    assert parse_manifest(manifest.to_bytes(), "m", exact=True) == manifest


def test_the_numbers_of_shards() -> None:
    """Each width of a number, more shards than are parsed together, and the greatest values."""
    shards = [
        ShardInfo(i % 100, FileInfo(10**18 - 1 if i == 7 else 7 * i * i + 1600, i), FileInfo(i + 600, i * 9))
        for i in range(9000)
    ]
    manifest = replace(example(), splits={"train": SplitInfo("train", ShardTable.of(shards))})
    again = parse_manifest(manifest.to_bytes(), "m", exact=True).splits["train"].shards
    assert list(again) == shards
    assert again == ShardTable.of(shards) != ShardTable.of(shards[1:])
    assert list(again[10:12]) == shards[10:12]
    assert again[-1] == shards[-1]
    assert again.rows.nbytes == 32 * len(shards)
    with pytest.raises(IndexError):
        again[9000]


@pytest.mark.promise(22)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"bytes": 100,', b'"bytes": ,'),
        (b'"bytes": 100,', b'"bytes": -100,'),
        (b'"bytes": 100,', b'"bytes": 1e2,'),
        (b'"bytes": 100,', b'"bytes": "100",'),
        (b'"crc32c": "00000001"', b'"crc32c": 1'),
        (b'"crc32c": "00000001"', b'"crc32c": "0000000G"'),
        (b'"crc32c": "00000001"', b'"crc32c": "000000001"'),
        (b'     "records": 2', b'     "records": 2,\n     "more": 2'),
        (b'     "records": 2\n', b'     "records": 2 '),
        (b'\n   "shards": [', b'\n    "shards": ['),
        (b"\n   ]", b"\n   "),
    ],
)
def test_shards_in_another_form_are_not_taken(old: bytes, new: bytes) -> None:
    """With a checksum that is right, as another program could write them."""
    data = example().to_bytes()
    assert old in data
    changed = data[24:].replace(old, new, 1)
    with pytest.raises(IntegrityError, match="not a manifest"):
        parse_manifest(b'{\n "crc32c": "%08x",' % crc32c(b"{" + changed) + changed, "m")
