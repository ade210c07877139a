"""Shards of every format that we write are converted again with their class names and splits."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import convert, from_dicts, open_source
from shardfeed.errors import UsageError
from shardfeed.formats.registry import FORMATS
from shardfeed.naming import MANIFEST

from pictures import image_bytes, waves


@pytest.mark.parametrize("form", FORMATS)
def test_class_names_and_splits_of_our_shards_are_kept(tmp_path: Path, form: Any) -> None:
    rows = [
        {"image": image_bytes(waves(length=3 + n), "PNG"), "key": f"{n}.png", "label": ["owl", "cat"][n % 2]}
        | {"split": "train" if n % 3 else "validation"}
        for n in range(8)
    ]
    convert(from_dicts(rows), tmp_path / "out", to=form, workers=1)
    expected = shardfeed.open(tmp_path / "out")
    shards = shutil.copytree(tmp_path / "out", tmp_path / "shards")
    for path in [*shards.rglob("*.shardidx"), shards / MANIFEST, *shards.glob("*.json"), *shards.glob("*.txt")]:
        path.unlink(missing_ok=True)
    convert(open_source(shards), tmp_path / "again", workers=1)
    again = shardfeed.open(tmp_path / "again")
    assert set(again) == set(expected)
    for split in expected:
        before, after = ([_named(record, data) for record in data[split]] for data in (expected, again))
        assert sorted(after) == sorted(before)


_ANNOTATION = re.compile("image/(object/|caption|class/)")
_OBJECTS = {"boxes": [[0, 0, 2, 2], [1, 1, 3, 3]], "labels": ["owl", "cat"]}


@pytest.mark.parametrize("alone", [True, False], ids=["a file", "a folder"])
@pytest.mark.parametrize("annotation", [_OBJECTS, {"captions": ["a bird", "an owl"]}], ids=["boxes", "captions"])
@pytest.mark.parametrize("form", FORMATS)
def test_annotations_of_our_shards_come_back_or_are_refused(
    tmp_path: Path, form: Any, annotation: dict[str, Any], alone: bool
) -> None:
    rows = [{"image": image_bytes(waves(length=8 + n), "PNG"), "key": f"{n}.png"} | annotation for n in range(4)]
    convert(from_dicts(rows), tmp_path / "out", to=form, workers=1)
    expected = shardfeed.open(tmp_path / "out")["train"]
    shards = shutil.copytree(tmp_path / "out", tmp_path / "shards")
    for path in [*shards.rglob("*.shardidx"), shards / MANIFEST, *shards.glob("*.json"), *shards.glob("*.txt")]:
        path.unlink(missing_ok=True)
    files = [path for path in shards.rglob("*") if path.is_file() and path.name.startswith("train-")]
    given = files[0] if alone and form != "mds" else shards  # a shard of MDS is read with its index
    convert(open_source(given), tmp_path / "again", workers=1)
    again = shardfeed.open(tmp_path / "again")["train"]
    keys, keys_again = ({*filter(_ANNOTATION.match, split.schema.features)} for split in (expected, again))
    assert keys_again == keys
    before, after = ([_values(record, keys) for record in split] for split in (expected, again))
    assert sorted(after) == sorted(before)


def _values(record: Any, keys: set[str]) -> tuple[bytes, list[str]]:
    """The image of a record, and its annotations."""
    return record["image/encoded"], [f"{key} {[*record[key]]}" for key in sorted(keys)]


def _named(record: Any, data: Any) -> tuple[str, bytes, bytes]:
    """The name of a record's class, and what it stores of it."""
    return data.class_names[record["image/class/label"]], record["image/class/text"], record["image/encoded"]
