"""Refusals, renamed files, left-out columns and messages of an export; no half-written output is ever visible."""

import csv
import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import SCENES, scenes
from PIL import Image
from reconverted_export import converted_again, records

import shardfeed
from shardfeed.annotations import BOX, OBJECT_LABEL, XMIN
from shardfeed.converters import (
    ImageFolder,
    LabelOptions,
    Sample,
    adopt,
    convert,
    export,
    from_dicts,
    open_source,
    survey,
)
from shardfeed.converters.existing import export_dataset as exporting
from shardfeed.converters.planning.samples import OwnSamples
from shardfeed.converters.sources.export_format import is_formula
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.source import Objects
from shardfeed.errors import BusyError, IntegrityError, OutputExistsError, RecordError, StorageError, UsageError
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.free_space import FreeSpace
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import ENCODED, LABEL, TEXT, Feature, Schema
from shardfeed.storage.local import locked
from shardfeed.tools.cli import main

import disk_model
import storage_ops
from pictures import image_bytes
from repository import SUPPORT
from trees import tree

# Each means something in one of the formats.
NAMES = (
    "no",
    "007",
    "null",
    "a: b",
    "#1",
    "- x",
    '"quoted"',
    "it's",
    "a,b;c|d",
    "<b>&amp;</b>",
    "\\n",
    "größe",
    "犬🐕",
    "%s",
)
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools


def picture(number: int, kind: str = "JPEG") -> bytes:
    return image_bytes(Image.new("RGB", (8 + number % 5, 8), (number % 256, 40, 90)), kind)


class Named:
    """A source of images with those keys, each of the class that `labels` says, in that split."""

    def __init__(
        self, keys: Sequence[bytes], labels: Sequence[int] = (), names: Sequence[str] = ("cat",), split: str = "train"
    ) -> None:
        self.keys, self.labels, self.split = keys, labels or [0] * len(keys), split
        self.schema = Schema({LABEL: Feature("int64"), TEXT: Feature("bytes")}, {LABEL: tuple(names)})

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, i: int) -> Sample:
        if i >= len(self.keys):
            raise IndexError(i)
        name = self.schema.class_names[LABEL][self.labels[i]].encode()
        return Sample(self.keys[i], picture(i), {LABEL: self.labels[i], TEXT: name}, self.split)


class Boxed:
    """One image with those boxes, in pixels of 8 x 8."""

    def __init__(self, boxes: Sequence[Sequence[float]], key: bytes = b"a.jpg") -> None:
        self.boxes, self.key = np.array(boxes, float).reshape(-1, 4), key
        self.labels = [0] * len(self.boxes)
        ragged = {side: Feature("float32", (None,), "box") for side in BOX}
        label = {OBJECT_LABEL: Feature("int64", (None,), "label")}
        self.schema = Schema({**ragged, **label}, {OBJECT_LABEL: ("cat",)})

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Sample:
        if i:
            raise IndexError(i)
        columns = {OBJECT_LABEL: self.labels}
        names = [str(n) for n in range(len(self.boxes))]
        return Sample(self.key, picture(0), objects=Objects(self.boxes, columns, names, upright=True))


def made(source: Any, tmp_path: Path) -> Dataset:
    convert(source, tmp_path / "dataset", workers=1)
    return shardfeed.open(tmp_path / "dataset")


@pytest.mark.parametrize(
    "key",
    [b"../a.jpg", b"/etc/a.jpg", b"a\0b.jpg", b"a//b.jpg", b"./a.jpg", b"a/../../b.jpg", b"a/", b"x" * 300 + b".jpg"],
)
@pytest.mark.parametrize("to", ["folder", "csv"])
def test_names_that_are_no_files_below_the_folder(
    key: bytes, to: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnSamples, "check", lambda *_: None)  # as in an older dataset, or one of a Parquet file
    data = made(Named([b"b.jpg", key]), tmp_path)
    before = tree(tmp_path)
    with pytest.raises(UsageError, match=r"its name .* so it is not a valid file name") as caught:
        export(data, tmp_path / "out", to)
    assert ".tfrecord, record" in str(caught.value)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("length", [247, 248, 255])
def test_names_as_long_as_a_file_system_takes(length: int, tmp_path: Path) -> None:
    keys = [b"%d" % i + b"x" * (length - 5) + b".jpg" for i in range(3)]
    data = made(Named(keys), tmp_path)
    for to in ("csv", "folder"):
        export(data, tmp_path / to, to)  # type: ignore[arg-type]
        assert sorted(path.name.encode() for path in (tmp_path / to).rglob("*.jpg")) == keys
    assert not list(tmp_path.rglob("*.partial"))


def test_two_samples_of_one_name(tmp_path: Path) -> None:
    data = made(Named([b"cat/1.jpg", b"1.jpg"]), tmp_path)
    with pytest.raises(UsageError, match=r"would be written as (train/)?cat/1.jpg, like an earlier sample"):
        export(data, tmp_path / "out", "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
    assert export(data, tmp_path / "out", "csv").renamed == 0


def test_a_name_that_is_the_folder_of_another(tmp_path: Path) -> None:
    for keys in ([b"a.jpg", b"a.jpg/b.jpg"], [b"x.jpg/y/b.jpg", b"x.jpg"]):
        shutil.rmtree(tmp_path / "dataset", ignore_errors=True)
        data = made(Named(keys), tmp_path)
        for dry_run in (True, False):
            with pytest.raises(UsageError, match=r"an earlier sample|which is the file of another sample"):
                export(data, tmp_path / "out", "csv", dry_run=dry_run)


def test_names_that_differ_in_case_alone_are_told(tmp_path: Path) -> None:
    data = made(Named([b"a.jpg", b"A.jpg", b"b.jpg"]), tmp_path)
    notes = export(data, tmp_path / "out", "folder").notes
    assert [note for note in notes if "differ only in case: 1" in note]


def test_names_that_conversions_would_pass_over(tmp_path: Path) -> None:
    """Hidden ones, and those without an image's extension, get others, and are counted."""
    data = made(Named([b".hidden/a.jpg", b"number 7", b"Thumbs.db", b"caf\xe9.jpg", b"plain.jpg"]), tmp_path)
    report = export(data, tmp_path / "out", "folder", dry_run=True)
    assert report.renamed == 5
    report = export(data, tmp_path / "out", "folder")
    again = records(converted_again(report, tmp_path / "again"))["train"]
    assert again.keys() == {
        b"train/cat/" + name
        for name in (b"_.hidden/a.jpg", b"number 7.jpg", b"_Thumbs.db.jpg", b"caf\xe9.jpg", b"plain.jpg")
    }
    assert (tmp_path / "out" / "train" / "cat" / "number 7.jpg").read_bytes() in [
        record[ENCODED] for record in again.values()
    ]
    with pytest.raises(UsageError, match="its name is not UTF-8, which this format cannot store"):
        export(data, tmp_path / "csv", "csv")


def test_classes_that_no_folder_can_be_called(tmp_path: Path) -> None:
    names = ["z/../z", "..", ".git", "a b", "thumbs.db"]
    data = made(Named([b"%d.jpg" % i for i in range(5)], range(5), names), tmp_path)
    report = export(data, tmp_path / "out", "folder")
    assert "z%2F..%2Fz" in report.notes[0]
    folders = sorted(path.name for path in (tmp_path / "out" / "train").iterdir())
    assert folders == sorted(["z%2F..%2Fz", "%2E.", "%2Egit", "a b", "%74humbs.db"])
    again = records(converted_again(report, tmp_path / "again"))["train"]
    assert {key.rpartition(b"/")[2]: record[LABEL] for key, record in again.items()} == {
        b"%d.jpg" % i: i for i in range(5)
    }


@pytest.mark.parametrize("to", ["folder", "yolo", "voc"])
def test_splits_that_a_layout_has_no_word_for(to: Any, tmp_path: Path) -> None:
    source = Named([b"a.jpg"], split="fold_3") if to == "folder" else Boxed([[1, 1, 2, 2]])
    convert(source, tmp_path / "dataset", workers=1, split=None if to == "folder" else {"fold_3": 1.0})
    with pytest.raises(UsageError, match=f"got the split fold_3, whose name {to} cannot keep; "):
        export(tmp_path / "dataset", tmp_path / "out", to)


@pytest.mark.parametrize("to", ["coco", "csv"])
def test_splits_of_any_name(to: Any, tmp_path: Path) -> None:
    convert(
        open_source(SCENES / "boxes.csv", options=LabelOptions(images=str(SCENES / "images"))),
        tmp_path / "dataset",
        workers=1,
        split={"fold_1": 0.5, "fold_2": 0.5},
    )
    report = export(tmp_path / "dataset", tmp_path / "out", to)
    again = converted_again(report, tmp_path / "again")
    ours = records(shardfeed.open(tmp_path / "dataset"))
    assert {name: split.keys() for name, split in records(again).items()} == {n: s.keys() for n, s in ours.items()}


def test_what_a_format_cannot_hold_is_refused_by_its_name(tmp_path: Path) -> None:
    data = made(scenes("boxes"), tmp_path)
    place = "cannot store its areas (image/object/area), crowds (image/object/is_crowd), ids (image/source_id)"
    with pytest.raises(UsageError) as caught:
        export(data, tmp_path / "out", "yolo")
    assert place in str(caught.value)
    assert "drop=['areas', 'crowds', 'ids']" in str(caught.value)
    with pytest.raises(UsageError, match=r"cannot store its ids \(image/source_id\); "):
        export(data, tmp_path / "out", "yolo", drop=["areas", "crowds"])
    with pytest.raises(UsageError, match="got 'captions': yolo leaves out only areas, crowds, ids"):
        export(data, tmp_path / "out", "yolo", drop=["areas", "crowds", "ids", "captions"])
    with pytest.raises(UsageError, match="got 'masks': coco can store all of it"):
        export(data, tmp_path / "out", "coco", drop="masks")
    with pytest.raises(UsageError, match=r"folder needs one class per image .*; it can be exported to coco, yolo"):
        export(data, tmp_path / "out", "folder")
    with pytest.raises(UsageError, match=r"got 'parquet', .*shardfeed reshard DATASET OUT --to parquet"):
        export(data, tmp_path / "out", "parquet")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="got 'pets', expected one of folder, coco"):
        export(data, tmp_path / "out", "pets")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_second_label(kept: bool, tmp_path: Path) -> None:
    """It is held where the table tells its classes; else it is refused by its key, and goes with its text."""
    rows = "path,class,breed,weight\nscene_001.jpg,dog,x,3.5\nscene_002.jpg,cat,z,4.25\n"
    (tmp_path / "t.csv").write_text(rows)
    asked: dict[str, Any] = {"label_columns": ["class", "breed"], "number_columns": ["weight"]}
    if not kept:
        asked["class_names"] = {"breed": ["z", "x"]}
    data = made(
        open_source(tmp_path / "t.csv", options=options_of({"images": str(SCENES / "images"), **asked})), tmp_path
    )
    if not kept:
        with pytest.raises(UsageError, match="csv cannot store its image/breed/label; "):
            export(data, tmp_path / "out", "csv")
    report = export(data, tmp_path / "out", "csv", drop=[] if kept else ["image/breed/label"])
    assert report.left_out == ({} if kept else {"image/breed/label": 2})
    again = converted_again(report, tmp_path / "again")
    assert sorted(record["image/weight"] for record in again["train"]) == [3.5, 4.25]  # type: ignore[type-var]
    if kept:
        assert records(again) == records(data)
        assert again.manifest.schema == data.manifest.schema
    else:
        assert "image/breed/text" not in again.manifest.schema.features


def test_numbers_that_begin_as_a_count_and_are_none(tmp_path: Path) -> None:
    """The first of them is 0, as where a conversion counts: what is lost turns up later, and is refused there."""

    class Numbered(Named):
        def __getitem__(self, i: int) -> Sample:
            sample = super().__getitem__(i)
            return Sample(sample.key, sample.image, sample.features, sample.split, number=[0, 17, 18][i])

    data = made(Numbered([b"a.jpg", b"b.jpg", b"c.jpg"]), tmp_path)
    with pytest.raises(UsageError, match=r"cannot store its ids \(image/source_id\)"):
        export(data, tmp_path / "out", "folder")
    assert export(data, tmp_path / "out", "folder", drop=["ids"]).left_out["ids"] >= 2


def test_equal_objects(tmp_path: Path) -> None:
    data = made(Boxed([[1, 1, 4, 4], [1, 1, 4, 4], [2, 2, 4, 4]]), tmp_path)
    for to in ("yolo", "voc", "csv"):
        with pytest.raises(UsageError, match=r"cannot store its twins \(identical objects\)"):
            export(data, tmp_path / to, to)  # type: ignore[arg-type]
        report = export(data, tmp_path / to, to, drop=["twins"])  # type: ignore[arg-type]
        assert report.left_out == {"twins": 1}
        again = converted_again(report, tmp_path / f"again-{to}")
        assert [len(record[XMIN]) for record in again["train"]] == [2]  # type: ignore[arg-type]
    again = converted_again(export(data, tmp_path / "coco", "coco"), tmp_path / "again-coco")
    assert [len(record[XMIN]) for record in again["train"]] == [3]  # type: ignore[arg-type]


def test_voc_says_by_how_much_boxes_are_rounded(tmp_path: Path) -> None:
    data = made(Boxed([[1, 1, 4, 4], [0.3, 2.75, 4, 8], [5.1, 5.1, 5.3, 5.3], [7.9, 7.9, 8, 8]]), tmp_path)
    report = export(data, tmp_path / "out", "voc")
    assert "boxes are in whole pixels: 3 of 4 were rounded, by 0.9 pixels at most" in report.notes
    xml = (tmp_path / "out" / "Annotations" / "a.xml").read_text()
    assert "<xmin>6</xmin><ymin>6</ymin><xmax>6</xmax><ymax>6</ymax>" in xml
    assert "<xmin>8</xmin><ymin>8</ymin><xmax>8</xmax><ymax>8</ymax>" in xml


def test_any_box_is_the_same_to_the_float32(tmp_path: Path) -> None:
    """Boxes of an image whose sides are no powers of two are read as the numbers that were written."""
    rng = np.random.default_rng(7)
    low, high = np.sort(rng.random((2, 200, 2)), axis=0)
    boxes = np.concatenate([low * 8, high * 8], axis=1)
    boxes[0] = 0, 0, 8, 8
    data = made(Boxed(boxes), tmp_path)
    ours = next(iter(data["train"]))
    for to in ("coco", "yolo", "csv"):
        again = converted_again(export(data, tmp_path / to, to), tmp_path / f"again-{to}")  # type: ignore[arg-type]
        theirs = next(iter(again["train"]))
        for side in BOX:
            assert np.array_equal(ours[side], theirs[side]), (to, side)  # type: ignore[arg-type]


@pytest.mark.parametrize("to", ["coco", "yolo", "voc", "csv"])
def test_any_class_name(to: Any, tmp_path: Path) -> None:
    """Whatever YAML, XML, JSON and CSV mean by it."""
    source = Boxed([[i / 4, 0, 8, 8] for i in range(len(NAMES))])
    source.schema = Schema(source.schema.features, {OBJECT_LABEL: NAMES})
    source.labels = list(range(len(NAMES)))
    data = made(source, tmp_path)
    again = converted_again(export(data, tmp_path / "out", to), tmp_path / "again")
    assert again.manifest.schema.class_names[OBJECT_LABEL] == NAMES
    ours, theirs = next(iter(data["train"])), next(iter(again["train"]))
    assert np.array_equal(ours[OBJECT_LABEL], theirs[OBJECT_LABEL])  # type: ignore[arg-type]


def test_pycocotools_finds_ground_truth_as_predictions_perfect(tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    data = made(scenes("masks"), tmp_path)
    export(data, tmp_path / "out", "coco")
    file = str(tmp_path / "out" / "annotations" / "instances_train.json")
    truth = coco.COCO(file)
    assert len(truth.imgs) == 16
    assert [category["name"] for category in truth.loadCats(truth.getCatIds())] == ["circle", "square", "triangle"]
    said = json.loads((SCENES / "coco" / "instances.json").read_text())
    assert len(truth.anns) == len(said["annotations"])
    predicted = [
        {**{key: one[key] for key in ("image_id", "category_id", "bbox", "segmentation")}, "score": 1.0}
        for one in truth.anns.values()
        if not one["iscrowd"]
    ]
    for what in ("bbox", "segm"):
        found = evaluation.COCOeval(truth, truth.loadRes([dict(one) for one in predicted]), what)
        found.evaluate()
        found.accumulate()
        found.summarize()
        assert f"{found.stats[0]:.3f}" == "1.000", what
    # The same pixels as in the file that the dataset was made of.
    first = coco.COCO(str(SCENES / "coco" / "instances.json"))
    for ours in truth.anns.values():
        theirs = [one for one in first.imgToAnns[ours["image_id"]] if one["bbox"] == ours["bbox"]]
        assert len(theirs) == 1
        assert np.array_equal(truth.annToMask(ours), first.annToMask(theirs[0]))


def test_an_output_that_cannot_be(folder: Callable[..., Path], tmp_path: Path) -> None:
    data = made(ImageFolder(folder(2)), tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputExistsError, match="exists already"):
        export(data, tmp_path / "there", "folder")
    with pytest.raises(UsageError, match=r"is inside the dataset .*, which is only read"):
        export(data, tmp_path / "dataset" / "out", "folder")
    with pytest.raises(UsageError, match="its parent directory does not exist"):
        export(data, tmp_path / "no" / "out", "folder")
    with locked(str(tmp_path / "out")), pytest.raises(BusyError):
        export(data, tmp_path / "out", "folder")
    with pytest.raises(UsageError, match="is a URL,"):
        export(data, "s3://bucket/out", "folder")


def test_no_room(folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(ImageFolder(folder(2)), tmp_path)
    monkeypatch.setattr(exporting, "room_in", lambda parent, kept_share: FreeSpace(parent, 10, "in its file system"))
    with pytest.raises(StorageError, match="are needed, 10 bytes are free in its file system"):
        export(data, tmp_path / "out", "folder")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("at", [0, 1, 5])
def test_a_disk_that_is_full(
    at: int, folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail to write any file, in whichever thread: the error is the disk's, and no file stays."""
    data = made(ImageFolder(folder(2)), tmp_path)
    before = tree(tmp_path)
    real, count = os.writev, iter(range(1000))

    def full(fd: int, parts: Any) -> int:
        if ".out.building/" in os.readlink(f"/proc/self/fd/{fd}") and next(count) == at:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, parts)

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StorageError, match="ENOSPC"):
        export(data, tmp_path / "out", "folder")
    assert tree(tmp_path) == before
    export(data, tmp_path / "out", "folder")


@pytest.mark.parametrize("at", ["first", "last"])
def test_a_damaged_record_stops_it_with_its_place(at: str, folder: Callable[..., Path], tmp_path: Path) -> None:
    made(ImageFolder(folder(4)), tmp_path)
    shard = sorted((tmp_path / "dataset").glob("*.tfrecord"))[0 if at == "first" else -1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(RecordError, match=r"\.tfrecord, record \d+, offset \d+"):
        export(tmp_path / "dataset", tmp_path / "out", "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "images"]


def test_what_would_be_read_as_another_is_not_published(tmp_path: Path) -> None:
    """Texts lose the blanks at their ends in a table."""
    (tmp_path / "images").mkdir()

    class Told(Named):
        def __init__(self) -> None:
            super().__init__([b"a.jpg", b"b.jpg"])
            self.schema = Schema({"image/said": Feature("bytes", (), "text")})

        def __getitem__(self, i: int) -> Sample:
            if i > 1:
                raise IndexError(i)
            return Sample(self.keys[i], picture(i), {"image/said": [b"plain", b" blank "][i]})

    data = made(Told(), tmp_path)
    with pytest.raises(IntegrityError, match="reading the export gives a different dataset: names, splits or labels"):
        export(data, tmp_path / "out", "csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "images"]


def test_a_dry_run_counts_the_same_and_writes_nothing(tmp_path: Path) -> None:
    data = made(scenes("masks"), tmp_path)
    before = tree(tmp_path)
    for to in ("coco", "yolo", "voc", "csv"):
        drop = [] if to == "coco" else ["all"]
        would = export(data, tmp_path / to, to, drop=drop, dry_run=True)  # type: ignore[arg-type]
        assert tree(tmp_path) == before
        does = export(data, tmp_path / to, to, drop=drop)  # type: ignore[arg-type]
        for key in ("splits", "files", "size", "left_out", "renamed", "notes", "convert_commands"):
            assert getattr(would, key) == getattr(does, key), (to, key)
        before = tree(tmp_path)


def test_tfrecords_of_others(tmp_path: Path) -> None:
    """Adopted, with names of their own for everything, and none for the images."""
    theirs = {"jpg": Feature("bytes"), "cls": Feature("int64")}
    (tmp_path / "theirs").mkdir()
    shard = b"".join(frame(encode(theirs, {"jpg": picture(i), "cls": i % 2})) for i in range(4))
    (tmp_path / "theirs" / "train-00000-of-00001.tfrecord").write_bytes(shard)
    adopt(survey(tmp_path / "theirs", label_key="cls", class_names=["cat", "dog"]), tmp_path / "dataset")
    report = export(tmp_path / "dataset", tmp_path / "out", "folder")
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.jpg"))
    assert names == [f"train/{['cat', 'dog'][i % 2]}/train-{i:08d}.jpg" for i in (0, 2, 1, 3)]
    assert (tmp_path / "out" / names[0]).read_bytes() == picture(0)
    assert report.renamed == 4


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(scenes("boxes"), tmp_path)
    dataset, out = str(tmp_path / "dataset"), str(tmp_path / "out")
    assert main(["export", dataset, out, "--to", "yolo"]) == 2
    assert "--drop areas,crowds,ids" in capsys.readouterr().err
    assert main(["export", dataset, out, "--to", "yolo", "--drop", "areas, crowds,ids", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would write: 16 images as yolo (train: 16)\nLEFT OUT, as yolo cannot")
    assert not os.path.exists(out)
    assert main(["export", dataset, out, "--to", "yolo", "--drop", "all"]) == 0
    said = capsys.readouterr().out
    assert "LEFT OUT, as yolo cannot store it: crowds: 1\n" in said
    assert f"convert it again:\n  shardfeed convert {out}/data.yaml NEW --reader yolo\n" in said
    assert main(["export", dataset, f"{out}-coco", "--to", "coco", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["splits"], found["left_out"], found["files"]) == ({"train": 16}, {}, 17)
    assert main(["export", dataset, out, "--to", "coco"]) == 2


@pytest.mark.long
@pytest.mark.parametrize("every", [57, pytest.param(1, marks=pytest.mark.torture)])
@pytest.mark.parametrize("to", ["coco", *(pytest.param(to, marks=pytest.mark.long) for to in ("yolo", "voc", "csv"))])
def test_killed_at_every_operation(to: str, every: int, tmp_path: Path) -> None:
    """Absent or complete, and running again gives the same bytes and leaves nothing else."""
    made(scenes("boxes"), tmp_path)
    place = tmp_path / "place"
    command = [sys.executable, str(SUPPORT / "export_kill_trials.py"), str(tmp_path / "dataset"), str(place), to]
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    done = subprocess.run(
        [*command, str(every)], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not result["failures"], "\n".join(result["failures"])
    assert result["trials"] > (result["operations"] if every == 1 else 9)
    kinds = " ".join(result["kinds"])
    for kind in (
        "mkdir whole/.out.building",
        "rename whole/.out.building",
        "unlink whole/.out.lock",
        "fsync directory",
    ):
        assert kind in kinds


@pytest.mark.parametrize("to", ["coco", pytest.param("voc", marks=pytest.mark.long)])
def test_the_power_is_cut_after_every_operation(to: Any, tmp_path: Path) -> None:
    """Whatever was not fsynced is lost: the export is absent or complete."""
    data = made(scenes("boxes"), tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    operations: list[Any] = []
    with storage_ops.watched(place, lambda operation: None, operations.append):
        export(data, place / "out", to, drop=[] if to == "coco" else "all")
    expected = {"out/": b"", **{f"out/{name}": content for name, content in tree(place / "out").items()}}
    disk, rng, there = disk_model.Disk(str(place), {}), random.Random(0), 0
    for operation in operations:
        disk.apply(operation)
        for loss in disk_model.LOSSES:
            left = disk.after_power_cut(loss, rng)
            found = {name: content for name, content in left.items() if name.startswith("out/")}
            assert found in ({}, expected), f"{loss} after {operation.kind}"
            there += bool(found)
    assert there
    assert disk.after_power_cut("all lost", rng).keys() >= expected.keys()


def test_boxes_of_voc_count_from_1_as_in_the_devkit(tmp_path: Path) -> None:
    """Read as others read it: 1 is taken from xmin and ymin, and xmax and ymax are as they stand."""
    boxes = [[0, 0, 8, 8], [0, 0, 1, 1], [2, 3, 5, 8], [7, 7, 8, 8]]
    data = made(Boxed(boxes), tmp_path)
    report = export(data, tmp_path / "out", "voc")
    text = (tmp_path / "out" / "Annotations" / "a.xml").read_text()
    sides = [[int(side) for side in re.findall(rf"<{name}>(\d+)<", text)] for name in ("xmin", "ymin", "xmax", "ymax")]
    found = [[left - 1, top - 1, right, bottom] for left, top, right, bottom in zip(*sides, strict=True)]
    assert found == boxes
    assert report.convert_commands[0].endswith("--voc-origin 1")
    again = converted_again(report, tmp_path / "again")
    for key in BOX:
        assert again["train"][0][key].tolist() == data["train"][0][key].tolist()  # type: ignore[union-attr]


def test_voc_has_the_list_of_classes_that_datumaro_asks_for(tmp_path: Path) -> None:
    data = made(Boxed([[0, 0, 4, 4]]), tmp_path)
    export(data, tmp_path / "out", "voc")
    names = data.manifest.schema.class_names[OBJECT_LABEL]
    lines = (tmp_path / "out" / "labelmap.txt").read_text().splitlines()
    assert lines == ["# label:color_rgb:parts:actions", *(f"{name}:::" for name in names)]


def test_yolo_has_the_two_splits_that_ultralytics_asks_for(tmp_path: Path) -> None:
    report = export(made(Boxed([[0, 0, 4, 4]]), tmp_path), tmp_path / "out", "yolo")
    lines = (tmp_path / "out" / "data.yaml").read_text().splitlines()
    assert lines[:2] == ['train: "images/train"', 'val: "images/train"']
    assert any("no validation split for val in data.yaml" in note for note in report.notes)
    assert list(converted_again(report, tmp_path / "again")) == ["train"]


FORMULAS = ("=cmd|'C calc'!A0", "+1+1", "@SUM(1)", "-2+3", '=HYPERLINK("http://x","y")')


def test_texts_that_a_spreadsheet_evaluates_are_counted_and_unchanged(tmp_path: Path) -> None:
    names = (*FORMULAS[1:], "a")
    image = SCENES / "images/scene_001.jpg"
    samples = [{"key": f"{number}.jpg", "image": image, "label": name} for number, name in enumerate(names)]
    convert(from_dicts(samples), tmp_path / "data")
    done = export(tmp_path / "data", tmp_path / "out", "csv")
    assert [note.partition(":")[0] for note in done.notes if "spreadsheet" in note] == [
        "4 rows have texts that a spreadsheet evaluates as a formula, as it is"
    ]
    with (tmp_path / "out/labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["label"] for row in rows) == sorted(names)


def test_numbers_and_usual_texts_are_no_formulas() -> None:
    assert all(map(is_formula, (*FORMULAS, "\t=1", "\r1", "-", "- x", "+49 30")))
    assert not any(map(is_formula, ("", "-1", "-1.5e-3", "+2", "a=b", "1-2", "cat", "nan", "-inf")))
