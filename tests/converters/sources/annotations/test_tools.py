"""Files of annotation tools: what several files, several annotations of an image, and holes become."""

import base64
import io
import json
import re
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import HEIGHT, WIDTH, converted, draw, image_file, put
from PIL import Image

import shardfeed
from shardfeed.annotations import BOX, OBJECT_MASK, OBJECT_TEXT
from shardfeed.converters import AnnotationOptions, LabelOptions, convert, open_source
from shardfeed.converters.sources.source import info_of
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
BOX_OF_CREATEML = [{"label": "cat", "coordinates": {"x": 20, "y": 20, "width": 10, "height": 10}}]
DETECTION = {"_cls": "Detections", "detections": [{"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.5]}]}
# By the name of a file: its text, for paths of two images.
OF_PATHS: dict[str, Callable[[str, str], str]] = {
    "via.json": lambda a, b: json.dumps({n: {"filename": n, "size": 1, "regions": [SHAPE]} for n in (a, b)}),
    "createml.json": lambda a, b: json.dumps([{"image": n, "annotations": BOX_OF_CREATEML} for n in (a, b)]),
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
    source = open_source(file, options=kind(images=photos))
    assert [sample.key.decode() for sample in source] == ["2/b.png", "a.png"]
    notes = [note for note in info_of(source).findings.notes if "another machine" in note]
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
        open_source(file, options=kind(images=tmp_path / "photos"))
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
    assert any("repeated annotations of an image, left out: 1" in note for note in info_of(source).findings.notes)


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
    account = info_of(source).findings.account
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
    assert [one.code for one in report.account.left_out] == ["E_CATEGORY"]
    assert shardfeed.open(tmp_path / "out")["train"][0][OBJECT_TEXT] == [b"dog"]


# --- values that are not read, and whose answer is the class


def notes_of(source: Any) -> str:
    return "\n".join(info_of(source).findings.notes)


def listed(source: Any) -> list[tuple[str, str]]:
    account = info_of(source).findings.account
    return [(one.code, one.reason) for one in account.left_out]


def classes(source: Any) -> list[list[str]]:
    """The class or classes of each image."""
    texts = [sample.features.get(TEXT, []) for sample in source]
    return [[one.decode()] if isinstance(one, bytes) else [text.decode() for text in one] for one in texts]


def object_classes(source: Any) -> list[list[str]]:
    names = source.schema.class_names.get("image/object/class/label", ())
    return [[names[n] for n in sample.objects.columns["image/object/class/label"]] for sample in source if names]


OWN = {"annotator": 1, "annotation_id": 7, "lead_time": 3.2}
ANSWERS = {"a": "Dog", "b": "Cat", "c": "Dog"}


def _min(folder: Path, *, data: dict[str, list[Any]], answers: dict[str, list[Any]], id_first: bool = True) -> Path:
    """JSON-MIN of three tasks: the values of each key by task; the id before the data, or after it as in exports."""
    rows = []
    for n, name in enumerate("abc"):
        id, image = {"id": n}, {"image": f"/data/upload/1/5f3a9c21-{name}.png"}
        of_data, of_answers = ({key: values[n] for key, values in one.items()} for one in (data, answers))
        rows.append({**(id | image | of_data if id_first else image | of_data | id), **of_answers, **OWN})
        put(folder / f"photos/{name}.png", image_file(seed=n))
    return put(folder / "min.json", json.dumps(rows))


CHOICES = {"choice": [*ANSWERS.values()]}


@pytest.mark.parametrize("id_first", [True, False])
@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("patient", ["P12", "P13", "P14"]),
        ("site", ["north", "south", "north"]),
        ("comment", ["blurry", "", "blurry"]),
        ("thumbnail", ["https://x.org/1", "https://x.org/2", "https://x.org/2"]),
        ("report", ["There is a dog on the left.", "No sign of any dog here.", "A dog is seen at once."]),
        ("exposure", [0.5, 0.25, 1]),
    ],
)
def test_data_of_a_task_beside_the_answer_is_not_a_class(
    tmp_path: Path, key: str, values: list[Any], id_first: bool
) -> None:
    file = _min(tmp_path, data={key: values}, answers=CHOICES, id_first=id_first)
    source = open_source(file, options=AnnotationOptions(images=tmp_path / "photos"))
    assert classes(source) == [["Dog"], ["Cat"], ["Dog"]]
    assert f"not read: {key} (" in notes_of(source)


def test_data_that_looks_like_an_answer_is_told_from_it_by_its_place_before_the_id(tmp_path: Path) -> None:
    data = {"ward": ["A", "B", "A"]}
    source = open_source(
        _min(tmp_path, data=data, answers=CHOICES, id_first=False),
        options=AnnotationOptions(images=tmp_path / "photos"),
    )
    assert classes(source) == [["Dog"], ["Cat"], ["Dog"]]


@pytest.mark.parametrize("write", ["data", "answers"])
def test_of_two_keys_that_may_be_the_answer_the_user_names_one(tmp_path: Path, write: str) -> None:
    other = {"ward": ["A", "B", "A"]}
    both = {"data": other, "answers": CHOICES} if write == "data" else {"data": {}, "answers": {**CHOICES, **other}}
    file = _min(tmp_path, **both, id_first=write == "data")
    with pytest.raises(UsageError, match=r"questions .*choice.*give .*label_columns=\['choice'\]"):
        open_source(file, options=AnnotationOptions(images=tmp_path / "photos"))
    options = AnnotationOptions(images=tmp_path / "photos", label_columns=["choice"])
    assert classes(open_source(file, options=options)) == [["Dog"], ["Cat"], ["Dog"]]
    with pytest.raises(UsageError, match="got none, expected one of its questions: "):
        open_source(file, options=AnnotationOptions(images=tmp_path / "photos", label_columns=["none"]))


@pytest.mark.parametrize("name", ["p.json", "p.csv"])
def test_text_beside_boxes_is_not_a_class(tmp_path: Path, name: str) -> None:
    rows = [
        {"id": n, "image": f"/x/{one}.png", "site": "A", "label": [PERCENT], "annotator": 1}
        for n, one in enumerate("ab")
    ]
    for one in "ab":
        put(tmp_path / f"{one}.png", image_file())
    if name == "p.csv":
        cells = [json.dumps(row["label"]).replace('"', '""') for row in rows]
        lines = [f'{n},/x/{one}.png,A,"{cell}",1' for (n, one), cell in zip(enumerate("ab"), cells, strict=True)]
        put(tmp_path / name, "\n".join(["id,image,site,label,annotator", *lines, ""]))
    else:
        put(tmp_path / name, json.dumps(rows))
    source = open_source(tmp_path / name)
    assert classes(source) == [[], []]
    assert object_classes(source) == [["cat"], ["cat"]]
    assert "not read: site (2) of tasks" in notes_of(source)


def studio(folder: Path, *results: dict[str, Any], **task: Any) -> Path:
    """An export as JSON of one task."""
    put(folder / "a.png", image_file())
    size = {"original_width": WIDTH, "original_height": HEIGHT, "to_name": "image"}
    made = [{"result": [{**size, **result} for result in results], "was_cancelled": False}]
    return put(folder / "p.json", json.dumps([{"id": 1, "data": {"image": "/x/a.png"}, "annotations": made, **task}]))


def test_answers_for_a_region_are_not_classes_of_the_image(tmp_path: Path) -> None:
    place = {key: PERCENT[key] for key in ("x", "y", "width", "height")}
    results = [
        {"id": "r1", "type": "rectangle", "from_name": "box", "value": place},
        {"id": "r1", "type": "labels", "from_name": "kind", "value": {**place, "labels": ["cat"]}},
        {"id": "r1", "type": "choices", "from_name": "colour", "value": {**place, "choices": ["red"]}},
        {"id": "r2", "type": "textarea", "from_name": "remark", "value": {"text": ["dark"]}},
    ]
    source = open_source(studio(tmp_path, *results, predictions=[{"result": []}, {"score": 1}]))
    assert (classes(source), object_classes(source)) == ([[]], [["cat"]])
    assert "not read: choices (1) of regions" in notes_of(source)
    assert "not read: predictions (1), remark (1) of tasks" in notes_of(source)


def test_of_two_questions_the_user_names_the_one_with_the_classes(tmp_path: Path) -> None:
    results = [
        {"type": "choices", "from_name": name, "value": {"choices": [text]}}
        for name, text in (("kind", "cat"), ("light", "dark"))
    ]
    file = studio(tmp_path, *results)
    with pytest.raises(UsageError, match=r"questions kind, light, .*; give label_columns=\['kind'\] or "):
        open_source(file)
    assert classes(open_source(file, options=AnnotationOptions(label_columns=["light"]))) == [["dark"]]


def brushed(pixels: np.ndarray) -> list[int]:
    """Label Studio's bytes of a mask, uint8 [height, width] of 0 and 1: runs, and values as they are."""
    values = np.repeat(pixels.ravel() * 255, 4)
    values[3::4] = pixels.ravel() * 255
    values[0:12] = [7, 7, 7, 0] * 3  # colours are not the mask
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{size - 1:04b}" for size in (3, 4, 8, 16))
    bits += f"0{1:02b}{11:04b}" + "".join(f"{value:08b}" for value in values[:12])
    ends = [12, *(np.flatnonzero(np.diff(values[12:])) + 13).tolist(), len(values)]
    for start, end in pairwise(ends):
        bits += f"1{3:02b}{end - start - 1:016b}{values[start]:08b}"
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


def png(pixels: np.ndarray, mode: str = "L") -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(pixels * 255)
    if mode == "RGBA":
        alpha, image = image, Image.new("RGBA", image.size, (9, 9, 9, 0))
        image.putalpha(alpha)
    image.convert(mode).save(out, "PNG")
    return out.getvalue()


def _labelme_mask(folder: Path, pixels: np.ndarray) -> None:
    data = base64.b64encode(png(pixels[5:30, 10:50])).decode()
    shape = {"label": "cat", "points": [[10.0, 5.0], [49.0, 29.0]], "shape_type": "mask", "mask": data}
    sides = {"imageWidth": WIDTH, "imageHeight": HEIGHT}
    put(folder / "a.json", json.dumps({"flags": {}, "shapes": [shape], "imagePath": "a.png", **sides}))


def _supervisely_mask(folder: Path, pixels: np.ndarray, mode: str = "1") -> None:
    data = base64.b64encode(zlib.compress(png(pixels[5:30, 10:50], mode))).decode()
    one = {"classTitle": "cat", "geometryType": "bitmap", "bitmap": {"data": data, "origin": [10, 5]}}
    put(folder / "ds/img/a.png", (folder / "a.png").read_bytes())
    (folder / "a.png").unlink()
    document = {"description": "", "size": {"width": WIDTH, "height": HEIGHT}, "objects": [one]}
    put(folder / "ds/ann/a.png.json", json.dumps(document))


def _cvat_mask(folder: Path, pixels: np.ndarray) -> None:
    flat = pixels[5:30, 10:50].ravel()
    ends = [0, *(np.flatnonzero(np.diff(flat)) + 1).tolist(), len(flat)]
    counts = ", ".join(map(str, [0] * bool(flat[0]) + np.diff(ends).tolist()))
    mask = f'<mask label="cat" occluded="0" rle="{counts}" left="10" top="5" width="40" height="25" z_order="0"/>'
    image = f'<image id="0" name="a.png" width="{WIDTH}" height="{HEIGHT}">{mask}</image>'
    put(folder / "annotations.xml", f"<annotations><version>1.1</version><meta/>{image}</annotations>")


def _studio_mask(folder: Path, pixels: np.ndarray) -> None:
    value = {"format": "rle", "rle": brushed(pixels), "brushlabels": ["cat"]}
    studio(folder, {"type": "brushlabels", "from_name": "tag", "value": value})


MASKS: dict[str, Callable[[Path, np.ndarray], None]] = {
    "labelme": _labelme_mask,
    "supervisely": _supervisely_mask,
    "supervisely, rgba": lambda folder, pixels: _supervisely_mask(folder, pixels, "RGBA"),
    "cvat": _cvat_mask,
    "label-studio": _studio_mask,
}


@pytest.mark.parametrize("tool", MASKS)
def test_pixel_masks_become_boxes_and_masks(tmp_path: Path, tool: str) -> None:
    want = np.zeros((HEIGHT, WIDTH), np.uint8)
    want[8:20, 15:40] = 1
    want[10:12, 20:30] = 0
    want[25, 12] = 1
    put(tmp_path / "in/a.png", image_file())
    MASKS[tool](tmp_path / "in", want)
    options = AnnotationOptions(tasks=frozenset({"boxes", "masks"}))
    _, found = converted(open_source(tmp_path / "in", options=options), tmp_path / "out")
    (record,) = found.values()
    assert [record[key][0] for key in BOX] == pytest.approx([12 / WIDTH, 8 / HEIGHT, 40 / WIDTH, 26 / HEIGHT])
    assert record[OBJECT_TEXT] == [b"cat"]
    (mask,) = (np.asarray(Image.open(io.BytesIO(data))) for data in record[OBJECT_MASK])
    assert (mask == want).all()
    _, found = converted(open_source(tmp_path / "in"), tmp_path / "boxes")
    assert [found[name][OBJECT_TEXT] for name in found] == [[b"cat"]]


@pytest.mark.parametrize("tool", MASKS)
def test_pixel_masks_that_are_broken_are_listed(tmp_path: Path, tool: str) -> None:
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[8:20, 15:40] = 1
    put(tmp_path / "a.png", image_file())
    MASKS[tool](tmp_path, pixels)
    (file,) = (path for path in tmp_path.rglob("*") if path.suffix in (".json", ".xml"))
    text = file.read_text()
    for rest in ("", "7, 7, "):
        changed, count = re.subn(r'("mask": "|"data": "|rle="|"rle": \[)[^]"]{60}', rf"\g<1>{rest}", text)
        assert count == 1
        file.write_text(changed)
        source = open_source(tmp_path, options=AnnotationOptions(tasks=frozenset({"boxes", "masks"})))
        assert [code for code, _ in listed(source)] == ["E_OUTLINE"], changed


def via(folder: Path, *regions: tuple[dict[str, Any], dict[str, Any]], **entry: Any) -> Path:
    put(folder / "a.png", image_file())
    found = [{"shape_attributes": shape, "region_attributes": attributes} for shape, attributes in regions]
    return put(folder / "via.json", json.dumps({"a.png1": {"filename": "a.png", "size": 1, "regions": found, **entry}}))


def test_a_checkbox_of_via_is_the_class_that_is_checked(tmp_path: Path) -> None:
    checks = ({"x": True, "y": False}, {"x": False, "y": True}, {"x": True, "y": True}, {"x": False, "y": False})
    shapes = ({**RECT, "x": n} for n in range(4))
    file = via(tmp_path, *((shape, {"EAD": check}) for shape, check in zip(shapes, checks, strict=True)))
    source = open_source(file)
    assert object_classes(source) == [["x", "y"]]
    assert listed(source) == [
        ("E_CATEGORY", "object 2: got the classes x, y as EAD, expected one"),
        ("E_CATEGORY", "object 3: it has no class"),
    ]


def test_of_two_attributes_of_via_the_user_names_the_class(tmp_path: Path) -> None:
    file = via(tmp_path, (RECT, {"species": "cat", "age": "2", "note": ""}), file_attributes={"light": "dark"})
    with pytest.raises(UsageError, match=r"region attributes species, age, .*; give label_columns=\['species'\] or "):
        open_source(file)
    source = open_source(file, options=AnnotationOptions(label_columns=["species"]))
    assert object_classes(source) == [["cat"]]
    assert "not read: age (1) of regions" in notes_of(source)
    assert "not read: light (1) of images" in notes_of(source)


def fiftyone(folder: Path, **fields: Any) -> Path:
    put(folder / "data/a.png", image_file())
    return put(folder / "samples.json", json.dumps({"samples": [{"filepath": "data/a.png", "tags": [], **fields}]}))


def test_of_several_fields_of_fiftyone_the_user_names_one(tmp_path: Path) -> None:
    other = {"_cls": "Detections", "detections": [{"label": "dog", "bounding_box": [0.1, 0.1, 0.5, 0.5]}]}
    fiftyone(tmp_path, ground_truth=DETECTION, predictions=other, weather={"_cls": "Classification", "label": "rain"})
    with pytest.raises(UsageError, match="label fields ground_truth, predictions, and each may be the class; give "):
        open_source(tmp_path)
    source = open_source(tmp_path, options=AnnotationOptions(label_columns=["ground_truth"]))
    assert (classes(source), object_classes(source)) == ([[]], [["cat"]])
    assert "not read: predictions (1), weather (1) of samples" in notes_of(source)
    both = open_source(tmp_path, options=AnnotationOptions(label_columns=["predictions", "weather"]))
    assert (classes(both), object_classes(both)) == ([["rain"]], [["dog"]])


def test_the_kinds_of_labels_of_fiftyone(tmp_path: Path) -> None:
    names = ("night", "rain")
    tags = {"_cls": "Classifications", "classifications": [{"_cls": "Classification", "label": name} for name in names]}
    corners = [[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]
    line = {"label": "cat", "closed": True, "filled": True, "points": [corners], "confidence": 0.5, "tags": []}
    open_line = {**line, "closed": False, "filled": False}
    fields: dict[str, tuple[dict[str, Any], list[list[str]], list[list[str]], str]] = {
        "tags_": (tags, [["night", "rain"]], [], ""),
        "one": ({"_cls": "Detection", "label": "cat", "bounding_box": [0, 0, 0.5, 0.5]}, [[]], [["cat"]], ""),
        "lines": ({"_cls": "Polylines", "polylines": [line, open_line]}, [[]], [["cat"]], "confidence (2) of labels"),
        "points": ({"_cls": "Keypoints", "keypoints": [{"label": "x"}]}, [[]], [], "points (1) of samples"),
    }
    for name, (value, of_image, of_objects, note) in fields.items():
        fiftyone(tmp_path / name, **{name: value})
        source = open_source(tmp_path / name)
        assert (classes(source), object_classes(source)) == (of_image, of_objects), name
        assert note in notes_of(source)
    assert [code for code, _ in listed(open_source(tmp_path / "lines"))] == ["E_OUTLINE"]


def test_tracks_of_cvat_are_objects_of_their_frames(tmp_path: Path) -> None:
    for n in range(3):
        put(tmp_path / f"images/frame_00000{n}.PNG", image_file(seed=n))
    boxes = "".join(
        f'<box frame="{n}" keyframe="1" outside="{int(n == 2)}" occluded="{n}" xtl="{n}" ytl="1" xbr="20" ybr="20">'
        '<attribute name="color">red</attribute><attribute name="old">false</attribute></box>'
        for n in range(3)
    )
    track = f'<track id="4" label="cat" source="manual">{boxes}</track>'
    put(tmp_path / "annotations.xml", f"<annotations><version>1.1</version><meta/>{track}</annotations>")
    source = open_source(tmp_path)
    assert [(sample.key, sample.objects.boxes.tolist()) for sample in source] == [  # type: ignore[union-attr]
        (b"frame_000000.PNG", [[0, 1, 20, 20]]),
        (b"frame_000001.PNG", [[1, 1, 20, 20]]),
    ]
    assert "not read: color (2) of shapes" in notes_of(source)


def test_ellipses_are_outlines(tmp_path: Path) -> None:
    put(tmp_path / "cvat/a.png", image_file())
    shape = '<ellipse label="cat" cx="30" cy="20" rx="10" ry="5" rotation="90.0"/>'
    image = f'<image id="0" name="a.png" width="60" height="40">{shape}</image>'
    put(tmp_path / "cvat/annotations.xml", f"<annotations><version>1.1</version><meta/>{image}</annotations>")
    via(
        tmp_path / "via", ({"name": "ellipse", "cx": 30, "cy": 20, "rx": 10, "ry": 5, "theta": np.pi / 2}, {"k": "cat"})
    )
    value = {"x": 50, "y": 50, "radiusX": 100 / 6, "radiusY": 12.5, "rotation": 90, "ellipselabels": ["cat"]}
    studio(tmp_path / "studio", {"type": "ellipselabels", "value": value})
    for tool in ("cvat", "via", "studio"):
        _, found = converted(
            open_source(tmp_path / tool, options=AnnotationOptions(tasks=frozenset({"boxes", "masks"}))),
            tmp_path / f"{tool}.out",
        )
        record = found["a.png"]
        assert [record[key][0] for key in BOX] == pytest.approx([25 / 60, 10 / 40, 35 / 60, 30 / 40]), tool
        assert record["image/object/area"][0] == pytest.approx(np.pi * 50, rel=0.1)


def test_keys_that_no_tool_reads_are_counted_by_name(tmp_path: Path) -> None:
    for folder in ("labelme", "supervisely/ds/img", "createml", "voc"):
        put(tmp_path / folder / "a.png", image_file())
    shape = {**RECTANGLE, "group_id": 0, "flags": {"old": True}, "description": "", "score": None}
    put(tmp_path / "labelme/a.json", json.dumps({"flags": {}, "shapes": [shape], "imagePath": "a.png", "text": "x"}))
    one = {"classTitle": "cat", "geometryType": "rectangle", "points": {"exterior": [[1, 1], [9, 9]]}}
    tagged = {
        "description": "",
        "size": {},
        "tags": [{"name": "night"}],
        "objects": [{**one, "tags": [{"name": "old"}]}],
    }
    put(tmp_path / "supervisely/ds/ann/a.png.json", json.dumps(tagged))
    put(tmp_path / "createml/c.json", json.dumps([{"image": "a.png", "label": "x", "annotations": BOX_OF_CREATEML}]))
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    inside = f"<object><name>cat</name><pose>Left</pose>{box}<attributes><a>1</a></attributes></object>"
    inside += "<weather>rain</weather>"
    put(tmp_path / "voc/a.xml", f"<annotation><filename>a.png</filename>{inside}</annotation>")
    for tool, words in {
        "labelme": ("text (1) of files", "group_id (1), flags (1) of shapes"),
        "supervisely": ("tags (1) of images", "tags (1) of objects"),
        "createml": ("label (1) of images",),
        "voc": ("attributes (1) of objects", "weather (1) of files"),
    }.items():
        notes = notes_of(open_source(tmp_path / tool))
        assert all(f"not read: {word}" in notes for word in words), notes


def test_a_csv_of_choices_is_recognised_by_its_columns(tmp_path: Path) -> None:
    rows = "".join(f"/data/upload/1/5f3a9c21-{one}.png,P{n},A,{n},cat,1,{n}\n" for n, one in enumerate("ab"))
    file = put(tmp_path / "p.csv", f"image,patient,ward,id,choice,annotator,annotation_id\n{rows}")
    for one in "ab":
        put(tmp_path / f"photos/{one}.png", image_file())
    source = open_source(file, options=AnnotationOptions(images=tmp_path / "photos"))
    assert classes(source) == [["cat"], ["cat"]]
    assert "not read: patient (2), ward (2) of tasks" in notes_of(source)


def test_class_names_are_those_of_objects_if_only_objects_are_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "a.png", image_file())
    put(tmp_path / "a.json", json.dumps({"flags": {"night": True}, "shapes": [RECTANGLE], "imagePath": "a.png"}))
    options = AnnotationOptions(tasks=frozenset({"boxes"}), class_names=["dog", "cat"])
    source = open_source(tmp_path, options=options)
    assert (classes(source), object_classes(source)) == ([[]], [["cat"]])
    assert source.schema.class_names == {"image/object/class/label": ("dog", "cat")}


@pytest.mark.parametrize("names", [["ground_truth", "none"], ["none"]])
def test_a_field_that_is_asked_for_and_missing_is_refused(tmp_path: Path, names: list[str]) -> None:
    fiftyone(tmp_path, ground_truth=DETECTION)
    with pytest.raises(UsageError, match="none, expected one of its label fields: ground_truth"):
        open_source(tmp_path, options=AnnotationOptions(label_columns=names))


@pytest.mark.parametrize("first", [True, False])
def test_a_path_of_another_machine_never_is_an_image_that_another_path_names(tmp_path: Path, first: bool) -> None:
    for name in ("a.png", "b.png"):
        put(tmp_path / "photos" / name, image_file())
    names = ["a.png", "../a.png"] if first else ["../a.png", "a.png"]
    for name in ("createml.json", "labels.csv"):
        file = put(tmp_path / name, OF_PATHS[name](*names))
        kind = LabelOptions if name == "labels.csv" else AnnotationOptions
        source = open_source(file, options=kind(images=tmp_path / "photos"))
        assert [sample.key for sample in source] == [b"a.png"]
        assert [(one.key, one.code) for one in info_of(source).findings.rejected] == [(b"../a.png", "E_PATH_ESCAPE")]
