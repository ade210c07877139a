"""Which reader takes what, which sources stay what they were, and what is said where none or two fit."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from object_images import put

from shardfeed.converters import (
    AnnotationOptions,
    FileNames,
    ImageFolder,
    LabelFile,
    LabelOptions,
    convert,
    open_source,
)
from shardfeed.converters.sources.look import Evidence
from shardfeed.converters.sources.options import options_of
from shardfeed.converters.sources.readers import READERS, Reader
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError
from tests.converters.sources.annotations.test_coco import of_coco, plant, scene


def folders(root: Path, *keys: str) -> Path:
    for key in keys:
        put(root / key, b"x")
    return root


def test_a_coco_file_is_recognised_and_says_by_what(tmp_path: Path) -> None:
    source = open_source(plant(tmp_path, scene()))
    assert isinstance(source, ColumnarSource)
    assert source.described == (
        'recognised as coco: instances.json has "images" and "annotations" of objects, as in COCO; '
        "instances.json: 3 images, 3 objects of 3 classes"
    )
    assert source.findings.notes[0] == source.described
    report = convert(str(tmp_path / "instances.json"), tmp_path / "out", workers=1)
    assert source.described in report.notes


def test_a_folder_is_recognised(tmp_path: Path) -> None:
    source = open_source(of_coco(tmp_path / "coco"))
    assert isinstance(source, ColumnarSource)
    assert source.described.startswith(
        "recognised as coco: annotations/instances_train2017.json, annotations/instances_val2017.json has "
    )
    assert open_source(tmp_path / "coco", reader="coco").schema == source.schema
    assert len(open_source(tmp_path / "coco", options=AnnotationOptions(tasks=["captions"]))) == 6


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}], "these are predictions: give"),
        ({"images": [{"id": 1, "file_name": "a"}], "categories": []}, 'it has no "annotations", like a test set'),
    ],
)
def test_what_is_almost_one_is_refused_with_what_is_missing(tmp_path: Path, content: Any, said: str) -> None:
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path / "x.json")
    assert said in str(caught.value)
    assert "looks like a source for the reader coco: x.json has" in str(caught.value)


def test_a_broken_coco_file_is_told_with_its_byte(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(LabelFileError, match=r"instances.json, byte \d+: broken JSON"):
        open_source(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1}', "is JSON with the keys a, in no known annotation format"),
        ("[1, 2]", "is JSON without any key, in no known annotation format"),
        ("{}", "write CSV, or JSON Lines"),
        ("x", "give format='csv'"),
        ('{"path": "a.png", "label": 1}\n{"path"', "give format='jsonl' and path_column if each line is an image"),
    ],
)
def test_json_of_no_format_is_named_with_its_keys(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError, match=said):
        open_source(tmp_path / "x.json")


def test_json_that_is_not_in_utf_8_is_no_coco_file(tmp_path: Path) -> None:
    folders(tmp_path, "cat/1.png", "dog/2.png")
    (tmp_path / "notes.json").write_bytes('{"images": "é"}'.encode("latin-1"))
    assert [sample.key for sample in open_source(tmp_path)] == [b"cat/1.png", b"dog/2.png"]


def test_classes_of_objects_need_no_task(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="objects have their classes with the boxes"):
        open_source(plant(tmp_path, scene()), options=AnnotationOptions(tasks=["boxes", "classes"]))


def test_json_lines_in_a_json_file_are_read_where_it_is_said(tmp_path: Path) -> None:
    folders(tmp_path, "a.png", "b.png")
    (tmp_path / "x.json").write_text('{"path": "a.png", "label": "u"}\n{"path": "b.png", "label": "v"}\n')
    assert isinstance(open_source(tmp_path / "x.json", options=LabelOptions(format="jsonl")), LabelFile)


def test_plain_sources_open_as_before_and_no_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders(tmp_path, "classes/cat/1.jpg", "classes/dog/2.jpg", "flat/cat_1.jpg", "flat/dog_2.jpg")
    folders(tmp_path, "splits/train/a/1.jpg", "splits/val/a/2.jpg")
    (tmp_path / "labels.csv").write_text("path,label\ncat/1.jpg,a\ndog/2.jpg,b\n")
    before = os.open
    seen: list[str] = []
    monkeypatch.setattr(os, "open", lambda *args, **kwargs: seen.append(str(args[0])) or before(*args, **kwargs))
    assert type(open_source(tmp_path / "classes")) is ImageFolder
    assert type(open_source(tmp_path / "splits")) is ImageFolder
    assert type(open_source(tmp_path / "flat")) is FileNames
    assert type(open_source(tmp_path / "classes", options=LabelOptions(labels=tmp_path / "labels.csv"))) is LabelFile
    assert set(seen) <= {str(tmp_path / "labels.csv")}


def test_a_label_file_takes_the_folder_of_its_images(tmp_path: Path) -> None:
    folders(tmp_path, "p/1.jpg", "p/2.jpg")
    (tmp_path / "labels.csv").write_text("path,label\n1.jpg,a\n2.jpg,b\n")
    assert len(open_source(tmp_path / "labels.csv", options=AnnotationOptions(images=tmp_path / "p"))) == 2
    with pytest.raises(UsageError, match="images is for coco, yolo, voc and others"):
        open_source(tmp_path / "p", options=AnnotationOptions(images=tmp_path / "p"))


def test_class_folders_beside_annotations_are_not_guessed(tmp_path: Path) -> None:
    folders(tmp_path, "cat/1.jpg", "dog/2.jpg")
    content = scene()
    content["images"] = [{"id": 7, "file_name": "cat/1.jpg"}, {"id": 139, "file_name": "dog/2.jpg"}]
    plant(tmp_path, content, images=())
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path)
    flags = {"reader": "--reader"}
    assert caught.value.format_message(flags) == (
        f"{tmp_path}: 2 readers match it (folder: class folders (cat, dog); coco: instances.json has "
        '"images" and "annotations" of objects, as in COCO); '
        "choose one: --reader folder, or --reader coco"
    )
    assert type(open_source(tmp_path, reader="folder")) is ImageFolder
    assert type(open_source(tmp_path, options=AnnotationOptions(class_names=["cat", "dog"]))) is ImageFolder
    assert len(open_source(tmp_path, reader="coco")) == 2


def test_two_readers_that_fit_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = plant(tmp_path, scene())
    voc = next(one for one in READERS if one.name == "voc")
    module = SimpleNamespace(recognise=lambda *_: Evidence("voc", "it looks so"))
    load = Reader.load
    monkeypatch.setattr(Reader, "load", lambda one: module if one is voc else load(one))
    monkeypatch.setattr(Reader, "may_fit", lambda *_: True)
    with pytest.raises(UsageError, match=r"voc: it looks so\); choose one: reader='coco'"):
        open_source(file)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reader": "cocoa"}, "reader: got 'cocoa', expected one of webdataset, parquet"),
        ({"tasks": ["boxen"]}, "tasks: got 'boxen' in the list, expected 'boxes' or 'masks'"),
        ({"boxes_on": "up"}, "boxes_on: got 'up', expected 'upright' or 'stored'"),
        ({"voc_origin": 2}, "voc_origin: got 2"),
        ({"reader": "coco", "pattern": "x"}, "pattern is for folder, but this is read as coco"),
        ({"reader": "folder", "tasks": ["masks"]}, "tasks is for coco, yolo, voc and others"),
        ({"boxes_on": "stored"}, "boxes_on is for coco, yolo, voc and others"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    folders(tmp_path, "cat/1.jpg", "dog/2.jpg")
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path, reader=options.pop("reader", None), options=options_of(options))
    assert said in str(caught.value)


def test_a_folder_that_is_almost_one_says_why(tmp_path: Path) -> None:
    for name in ("instances_train2014.json", "instances_train2017.json"):
        (tmp_path / "annotations").mkdir(exist_ok=True)
        plant(tmp_path, scene(), f"annotations/{name}")
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path)
    assert "instances_train2014.json, instances_train2017.json are of the same split" in str(caught.value)
    folders(tmp_path, "cat/1.jpg", "dog/2.jpg")
    for file in (tmp_path / "images").iterdir():
        file.unlink()
    (tmp_path / "images").rmdir()
    assert type(open_source(tmp_path, exclude="annotations")) is ImageFolder


def test_a_file_an_image_is_another_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders(tmp_path, *(f"{'cat' if i % 2 else 'dog'}_{i}.{end}" for i in range(60) for end in ("jpg", "json")))
    layout = "shardfeed.converters.sources.annotations.coco_files"
    monkeypatch.setattr(f"{layout}.recognise_coco", lambda *_: pytest.fail("opened"))
    assert type(open_source(tmp_path)) is FileNames


def test_what_is_not_there(tmp_path: Path) -> None:
    each: list[dict[str, Any]] = [{}, {"reader": "coco"}, {"tasks": ["masks"]}]
    for options in each:
        with pytest.raises(UsageError, match="no such f"):
            open_source(tmp_path / "none", reader=options.pop("reader", None), options=options_of(options))
    folders(tmp_path, "cat/1.jpg")
    with pytest.raises(UsageError, match="no COCO file in it, nor in annotations, train, valid or test"):
        open_source(tmp_path, reader="coco")
