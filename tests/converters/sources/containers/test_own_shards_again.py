"""Shards of every format that we write are converted again with their class names and splits."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import convert, from_dicts, open_source
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


def _named(record: Any, data: Any) -> tuple[str, bytes, bytes]:
    """The name of a record's class, and what it stores of it."""
    return data.class_names[record["image/class/label"]], record["image/class/text"], record["image/encoded"]
