"""The same picture in two splits, or in two classes, is said: how often, and which."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardfeed.column import encode_column
from shardfeed.converters import ImageFolder, convert
from shardfeed.converters.shards.same_pictures import same_pictures
from shardfeed.converters.shards.task import Receipt
from shardfeed.formats.format import ShardInfo
from shardfeed.schema import FILENAME, LABEL, SHA256, Feature, Schema
from shardfeed.storage.storage import FileInfo
from shardfeed.tools.cli import main


@pytest.fixture
def leaking(folder: Callable[..., Path], tmp_path: Path) -> Path:
    """Folder where 2 of test's 18 images are also in train, one of them in another class, and one in validation."""
    root = tmp_path / "split"
    for name in ("train", "validation", "test"):
        shutil.copytree(folder(6), root / name)
    for path in root.rglob("*.jpg"):  # else every image would be there three times
        if path.parts[-3] != "train":
            path.write_bytes(path.read_bytes() + path.parts[-3].encode())  # bytes after its end are no fault
    for source, copy in (
        ("train/daisy/0000.jpg", "test/daisy/0001.jpg"),
        ("train/rose/0002.jpg", "test/tulip/0003.jpg"),
        ("validation/rose/0001.jpg", "test/rose/0004.jpg"),
        ("train/daisy/0004.jpg", "train/daisy/copy.jpg"),  # where it was before: nothing to say
    ):
        shutil.copyfile(root / source, root / copy)
    return root


@pytest.mark.promise(48)
def test_what_is_in_two_splits_or_classes_is_said(leaking: Path, tmp_path: Path) -> None:
    report = convert(ImageFolder(leaking), tmp_path / "out", shards=2, workers=1)
    assert [note for note in report.notes if "byte" in note] == [
        "2 of 18 images of test are also in train, byte for byte: test/daisy/0001.jpg = train/daisy/0000.jpg, "
        "test/tulip/0003.jpg (tulip) = train/rose/0002.jpg (rose)",
        "1 of 18 images of test is also in validation, byte for byte: test/rose/0004.jpg = validation/rose/0001.jpg",
        "1 image is in more than one class, byte for byte: train/rose/0002.jpg (rose) = test/tulip/0003.jpg (tulip)",
    ]


def test_convert_prints_it(leaking: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert", str(leaking), str(tmp_path / "out"), "--workers", "1"]
    assert main(arguments) == 0
    assert "note: 2 of 18 images of test are also in train, byte for byte: " in capsys.readouterr().out
    assert main([*arguments, "--replace", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["same_pictures"]
    assert [(pair["split"], pair["other"], pair["images"], pair["of"]) for pair in found["splits"]] == [
        ("test", "train", 2, 18),
        ("test", "validation", 1, 18),
    ]
    assert found["splits"][1]["examples"] == [["test/rose/0004.jpg", "validation/rose/0001.jpg"]]
    assert (found["classes"]["pictures"], found["classes"]["images"]) == (1, 2)
    assert main([*arguments, "--replace", "--no-hash", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same_pictures"] == {"splits": [], "classes": None}


def test_what_is_there_once_is_not_mentioned(folder: Callable[..., Path], tmp_path: Path) -> None:
    report = convert(ImageFolder(folder(4)), tmp_path / "out", split={"train": 0.5, "test": 0.5}, workers=1)
    assert report.notes == []
    assert report.same_pictures.to_json() == {"splits": [], "classes": None}


def receipt(split: str, hashes: list[bytes], labels: list[int]) -> Receipt:
    """Receipt of a shard of records with these hashes and labels."""
    texts, keys = np.dtype("O"), [b"%s/%d" % (split.encode(), i) for i in range(len(hashes))]
    columns = {
        SHA256: encode_column(hashes, texts),
        FILENAME: encode_column(keys, texts),
        LABEL: encode_column(labels, np.dtype("<i4")),
    }
    info = ShardInfo(len(hashes), FileInfo(0, 0), FileInfo(0, 0))
    return Receipt(split, 0, info, {}, {}, columns, (), (), ())


def test_hashes_that_begin_alike_are_other_pictures() -> None:
    schema = Schema({LABEL: Feature("int64")}, {LABEL: ("a", "b")})
    one, other, third = b"ab" * 8 + b"00" * 24, b"ab" * 8 + b"01" * 24, b"cd" * 32
    found = same_pictures(schema, [receipt("train", [one, third], [0, 0]), receipt("test", [other], [1])])
    assert (found.splits, found.classes) == ([], None)
    found = same_pictures(
        schema, [receipt("train", [one, third], [0, 0]), receipt("test", [other, one, one], [1, 1, 0])]
    )
    assert [(pair.images, pair.of) for pair in found.splits] == [(2, 3)]
    assert found.notes()[0].endswith(": test/1 (b) = train/0 (a), ..."), "of one picture one example is enough"
    assert (found.classes.pictures, found.classes.images) == (1, 3)


def test_shards_without_records_and_without_hashes() -> None:
    schema = Schema({LABEL: Feature("int64")}, {LABEL: ("a", "b")})
    hashes = [b"0a" * 32, b"0a" * 32]
    empty = receipt("train", [], [])
    assert same_pictures(schema, [empty]).notes() == []
    assert same_pictures(schema, [empty, receipt("test", hashes, [0, 1])]).classes is not None
    assert same_pictures(schema, []).notes() == []
