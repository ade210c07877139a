"""Files of annotation tools: what several files, several annotations of an image, and holes become."""

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import HEIGHT, WIDTH, draw, image_file, put
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECT_MASK, OBJECT_TEXT
from shardfeed.converters import AnnotationOptions, LabelOptions, convert, open_source
from shardfeed.converters.sources.source import findings_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import ENCODED, FILENAME, TEXT

RECTANGLE = {"label": "cat", "points": [[1, 2], [30, 20]], "shape_type": "rectangle"}
PERCENT = {"x": 10, "y": 10, "width": 50, "height": 50, "rectanglelabels": ["cat"]}
FILES: dict[str, tuple[str, str]] = {
    "label-studio": ("p.json", json.dumps([{"id": 1, "image": "/x/a.png", "annotator": 1, "label": [PERCENT]}])),
    "cvat": ("annotations.xml", '<annotations><meta/><image id="0" name="a.png"/></annotations>'),
    "fiftyone": ("samples.json", json.dumps({"samples": [{"filepath": "data/a.png"}]})),
}


RECT = {"name": "rect", "x": 1, "y": 2, "width": 9, "height": 9}
SHAPE = {"shape_attributes": RECT, "region_attributes": {"k": "cat"}}
BOX = [{"label": "cat", "coordinates": {"x": 20, "y": 20, "width": 10, "height": 10}}]
DETECTION = {"_cls": "Detections", "detections": [{"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.5]}]}
# By the name of a file: its text, for paths of two images.
OF_PATHS: dict[str, Callable[[str, str], str]] = {
    "via.json": lambda a, b: json.dumps({n: {"filename": n, "size": 1, "regions": [SHAPE]} for n in (a, b)}),
    "createml.json": lambda a, b: json.dumps([{"image": n, "annotations": BOX} for n in (a, b)]),
    "samples.json": lambda a, b: json.dumps({"samples": [{"filepath": n, "ground_truth": DETECTION} for n in (a, b)]}),
    "annotations.xml": lambda a, b: (
        f'<annotations><meta/><image id="0" name="{a}"/><image id="1" name="{b}">'
        '<box label="cat" xtl="1" ytl="1" xbr="9" ybr="9"/></image></annotations>'
    ),
    "boxes.csv": lambda a, b: f"filename,class,xmin,ymin,xmax,ymax\n{a},cat,2,2,9,9\n{b},cat,2,2,9,9\n",
    "labels.csv": lambda a, b: f"path,label\n{a},cat\n{b},dog\n",
}
FOLDERS = ("/home/me/x/", "C:\\Users\\me\\x\\", "\\\\server\\x\\", "http://localhost:8080/x/", "..\\..\\x\\", "../x/")


@pytest.mark.parametrize("name", OF_PATHS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_paths_of_another_machine_are_found_by_their_ends_in_the_folder_of_the_images(
    tmp_path: Path, name: str, folder: str
) -> None:
    photos = tmp_path / "photos"
    for image in ("a.png", "1/b.png", "2/b.png"):
        put(photos / image, image_file())
    deeper = f"{folder}2\\b.png" if "\\" in folder else f"{folder}2/b.png"
    file = put(tmp_path / name, OF_PATHS[name](f"{folder}a.png", deeper))
    if name == "labels.csv" and "://" in folder:
        return  # which are read, one by one
    kind = LabelOptions if name == "labels.csv" else AnnotationOptions
    source = open_source(file, reader="fiftyone" if name == "samples.json" else None, options=kind(images=photos))
    assert [sample.key.decode() for sample in source] == ["2/b.png", "a.png"]
    notes = [note for note in findings_of(source).notes if "another machine" in note]
    assert [note.partition(" (")[0] for note in notes] == ["paths of another machine, found by their ends: 2"]


@pytest.mark.parametrize("name", OF_PATHS)
def test_a_path_of_another_machine_without_its_image_is_not_told_to_give_the_folder_again(
    tmp_path: Path, name: str
) -> None:
    put(tmp_path / "photos/1/c.png", image_file())
    put(tmp_path / "photos/2/c.png", image_file())
    file = put(tmp_path / name, OF_PATHS[name]("/home/me/a.png", "C:\\c.png"))
    kind = LabelOptions if name == "labels.csv" else AnnotationOptions
    with pytest.raises(UsageError, match="check that it is the folder") as caught:
        reader = "fiftyone" if name == "samples.json" else None
        open_source(file, reader=reader, options=kind(images=tmp_path / "photos"))
    assert "images=" not in str(caught.value)


@pytest.mark.parametrize("reader", FILES)
def test_of_several_files_none_is_passed_over(tmp_path: Path, reader: str) -> None:
    name, text = FILES[reader]
    for folder in ("one", "two"):
        put(tmp_path / folder / name, text)
        put(tmp_path / folder / "data" / "a.png", image_file())
    with pytest.raises(UsageError, match=f"one/{name}.*two/{name}"):
        open_source(tmp_path, reader=reader)


@pytest.mark.parametrize("reader", FILES)
def test_without_a_file_the_folder_is_named(tmp_path: Path, reader: str) -> None:
    draw(tmp_path / "photos")
    with pytest.raises(UsageError, match="photos"):
        open_source(tmp_path / "photos", reader=reader)


def _rows(folder: Path, labels: list[str]) -> Path:
    rows = [{"id": n, "image": "/x/a.png", "annotator": n, "label": label} for n, label in enumerate(labels)]
    return put(folder / "p.json", json.dumps([*rows, {"id": 9, "image": "/x/b.png", "annotator": 1, "label": "owl"}]))


def _table(folder: Path, labels: list[str]) -> Path:
    rows = "".join(f"{n},/x/a.png,{n},{label}\n" for n, label in enumerate(labels))
    return put(folder / "p.csv", f"id,image,annotator,label\n{rows}9,/x/b.png,1,owl\n")


def _tasks(folder: Path, labels: list[str]) -> Path:
    def said(label: str) -> dict[str, Any]:
        return {"result": [{"type": "choices", "value": {"choices": [label]}}]}

    tasks = [{"data": {"image": "/x/a.png"}, "annotations": [*map(said, labels)]}]
    return put(folder / "p.json", json.dumps([*tasks, {"data": {"image": "/x/b.png"}, "annotations": [said("owl")]}]))


@pytest.mark.parametrize("write", [_rows, _table, _tasks])
def test_of_several_annotations_of_an_image_the_first_counts(tmp_path: Path, write: Any) -> None:
    draw(tmp_path / "photos", {"a": [], "b": []})
    source = open_source(write(tmp_path / "photos", ["cat", "dog"]), reader="label-studio")
    assert [one.features[TEXT] for one in source] == [b"cat", b"owl"]
    assert any("repeated annotations of an image, left out: 1" in note for note in findings_of(source).notes)


@pytest.mark.parametrize("name", ["via.csv", "VIA.CSV"])
def test_via_by_rows(tmp_path: Path, name: str) -> None:
    draw(tmp_path / "photos", {"a": [], "b": []})
    head = "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes\n"
    shape = '"{""name"":""rect"",""x"":1,""y"":2,""width"":9,""height"":9}"'
    rows = f'a.png,1,"{{}}",2,0,{shape},"{{""class"":""cat""}}"\na.png,1,"{{}}",2,1,7,7\n'
    rows += 'b.png,1,"{}",0,0,"{}","{}"\n'
    put(tmp_path / "photos" / name, head + rows)
    source = open_source(tmp_path / "photos", reader="via")
    assert [len(one.objects or ()) for one in source] == [1, 0]
    account = findings_of(source).account
    assert account is not None
    assert [(one.key, one.code) for one in account.left_out] == [(b"a.png", "E_LINE")]


def test_images_inside_of_labelme_files_of_one_name(tmp_path: Path) -> None:
    images = [image_file(seed=seed) for seed in range(2)]
    for folder, image in zip(("x", "y"), images, strict=True):
        document = {"shapes": [RECTANGLE], "imagePath": "a.png", "imageData": base64.b64encode(image).decode()}
        put(tmp_path / folder / "a.json", json.dumps(document))
    convert(open_source(tmp_path), tmp_path / "out", workers=1)
    records = sorted(shardfeed.open(tmp_path / "out")["train"], key=lambda record: bytes(record[FILENAME]))  # type: ignore[arg-type]
    assert [(record[FILENAME], record[ENCODED]) for record in records] == [
        (b"x/a.png", images[0]),
        (b"y/a.png", images[1]),
    ]


def test_holes_of_supervisely_are_no_pixels_of_the_object(tmp_path: Path) -> None:
    def corners(left: int, top: int, right: int, bottom: int) -> list[list[int]]:
        want[top:bottom, left:right] ^= 1
        return [[left, top], [right, top], [right, bottom], [left, bottom]]

    want = np.zeros((HEIGHT, WIDTH), np.uint8)
    points = {"exterior": corners(10, 5, 50, 35), "interior": [corners(20, 12, 40, 28), corners(42, 30, 48, 33)]}
    entries = [{"classTitle": "cat", "geometryType": "polygon", "points": points}]
    put(tmp_path / "in/ds/img/a.png", image_file())
    put(tmp_path / "in/ds/ann/a.png.json", json.dumps({"description": "", "size": {}, "objects": entries}))
    source = open_source(tmp_path / "in", options=AnnotationOptions(tasks=frozenset({"boxes", "masks"})))
    convert(source, tmp_path / "out", workers=1)
    (record,) = shardfeed.open(tmp_path / "out")["train"]
    masks: Any = record[OBJECT_MASK]
    assert [(np.asarray(Image.open(io.BytesIO(mask))) == want).all() for mask in masks] == [True]


def test_labels_of_fiftyone_name_one_image_each(tmp_path: Path) -> None:
    put(tmp_path / "labels.json", json.dumps({"classes": ["cat", "dog"], "labels": {"a": 1, "b.c": 0}}))
    for name in ("a.png", "b.c.png"):
        put(tmp_path / "data" / name, image_file())
    assert [(one.key, one.features[TEXT]) for one in open_source(tmp_path)] == [
        (b"data/a.png", b"dog"),
        (b"data/b.c.png", b"cat"),
    ]
    put(tmp_path / "data/a.jpg", image_file())
    with pytest.raises(LabelFileError, match=r"a\.jpg or data/a\.png"):
        open_source(tmp_path)


def test_a_number_beyond_the_classes_of_fiftyone_is_no_class(tmp_path: Path) -> None:
    detections = [{"label": label, "bounding_box": [0.1, 0.1, 0.5, 0.5]} for label in (1, 7)]
    put(tmp_path / "labels.json", json.dumps({"classes": ["cat", "dog"], "labels": {"a": detections}}))
    put(tmp_path / "data/a.png", image_file())
    report = convert(open_source(tmp_path), tmp_path / "out", workers=1, max_bad={"objects": 1})
    assert report.account is not None
    assert [one.code for one in report.account.left_out] == ["E_CATEGORY"]
    assert shardfeed.open(tmp_path / "out")["train"][0][OBJECT_TEXT] == [b"dog"]
