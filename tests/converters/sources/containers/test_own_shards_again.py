"""Shards of every format that we write are converted again with their class names and splits."""

import io
import json
import re
import shutil
import tarfile
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


_SIDES: dict[str, Any] = {
    "image/object/bbox/xmin": [0.1],
    "image/object/bbox/ymin": [0.2],
    "image/object/bbox/xmax": [0.5],
    "image/object/bbox/ymax": [0.6],
}


def _tar(path: Path, *samples: dict[str, Any]) -> Path:
    """A tar of images with these values in JSON."""
    with tarfile.open(path, "w") as tar:
        for n, values in enumerate(samples):
            image = image_bytes(waves(length=8 + n), "PNG")
            for ending, content in (("png", image), ("json", json.dumps(values).encode())):
                member = tarfile.TarInfo(f"{n}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"image/object/bbox/xmin": [0.1, 0.3]}, "different lengths, 1 to 2"),
        ({"image/object/bbox/xmin": ["left"]}, "not lists of values"),
        ({"image/object/bbox/xmin": 0.1}, "not lists of values"),
        ({"image/object/class/label": [0, 1]}, "2 values of classes for 1 box"),
        ({"image/object/class/label": [1 << 70]}, "not lists of values"),
        ({"image/object/mask": [7]}, "not lists of values"),
        ({"image/object/corner/x": [0.5]}, "1 x and 4 y of rotated boxes for 1 boxes"),
    ],
)
def test_objects_of_one_sample_that_cannot_be_told_apart_are_listed(
    tmp_path: Path, said: dict[str, Any], reason: str
) -> None:
    sound = _SIDES | {"image/object/class/label": [0]}
    if "corner" in str(said):
        sound |= {f"image/object/corner/{axis}": [0.1, 0.2, 0.3, 0.4] for axis in "xy"}
    if "mask" in str(said):
        sound |= {"image/object/mask": []}
    source = open_source(_tar(tmp_path / "a.tar", sound, sound | said))
    assert len(source) == 1
    assert any(reason in str(one) for one in source.findings.rejected), source.findings


def test_objects_of_ours_that_are_not_read_are_named(tmp_path: Path) -> None:
    _tar(tmp_path / "a.tar", _SIDES | {"image/object/mood": [1]})
    with pytest.raises(UsageError, match=r"image/object/mood cannot be read.*`shardfeed reshard DIR OUT`"):
        open_source(tmp_path / "a.tar")


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
