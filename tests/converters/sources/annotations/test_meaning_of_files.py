"""Files of tools: images that nobody annotated, boxes under other names, numbers that mean something else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from object_images import converted, image_file, put

from shardfeed.annotations import BOX, OBJECT_LABEL, OBJECT_TEXT
from shardfeed.converters import AnnotationOptions, ColumnOptions, open_source
from shardfeed.converters.sources.annotations.box_columns import DisorderedRunsError, region_of
from shardfeed.converters.sources.rows.objects import box_of
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import LabelFileError, ShardfeedError, TooManyRejectedError, UsageError

PERCENT = {"x": 10, "y": 10, "width": 50, "height": 50, "rectanglelabels": ["cat"]}
REGION = {"id": "r", "type": "rectanglelabels", "from_name": "label", "value": PERCENT}
DETECTION = {"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.5]}
CORNERS = {"left": 4, "top": 3, "width": 20, "height": 10, "class_id": 0}
ABOUT = {"type": "groundtruth/object-detection", "class-map": {"0": "cat"}}
OF_COCO = {"categories": [{"id": 1, "name": "cat"}]}
BOX_OF_COCO = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [4, 3, 20, 10]}


def studio(*made: Any) -> str:
    """An export of Label Studio, of the annotations of each task."""
    names = "abcd"
    tasks = [{"id": n, "data": {"image": f"/x/{names[n]}.png"}, "annotations": one} for n, one in enumerate(made)]
    return json.dumps(tasks)


def done(result: list[Any], **more: Any) -> list[Any]:
    return [{"id": 1, "result": result, **more}]


def manifest(*rows: dict[str, Any]) -> str:
    named = [{"source-ref": f"s3://x/{name}.png", **row} for name, row in zip("abcd", rows, strict=False)]
    return "\n".join(map(json.dumps, named))


def of_coco(**fields: Any) -> str:
    images = [{"id": n, "file_name": f"{name}.png", "width": 60, "height": 40} for n, name in enumerate("abcd")]
    for n in (0, 3):
        images[n] |= fields
    return json.dumps({"images": images, "annotations": [BOX_OF_COCO], **OF_COCO})


# By the name of a file: its text. "b" has an object, "c" is annotated as empty, nobody has annotated "a" and "d".
OPEN: dict[str, tuple[str, str]] = {
    "Label Studio": ("p.json", studio([], done([REGION]), done([]), done([REGION], was_cancelled=True))),
    "Label Studio, a draft": (
        "p.json",
        studio([], done([REGION]), done([]), []).replace('"id": 0', '"id": 0, "predictions": [{"result": []}]'),
    ),
    "JSON-MIN": (
        "p.json",
        json.dumps(
            [
                {"image": "/x/a.png", "id": 1, "annotator": "", "annotation_id": None},
                {"image": "/x/b.png", "id": 2, "label": [PERCENT], "annotator": 1, "annotation_id": 7},
                {"image": "/x/c.png", "id": 3, "annotator": 1, "annotation_id": 8},
                {"image": "/x/d.png", "id": 4, "annotator": None, "annotation_id": None},
            ]
        ),
    ),
    "Label Studio's CSV": (
        "p.csv",
        "annotation_id,annotator,id,image,label\n,,1,/x/a.png,\n"
        f'7,1,2,/x/b.png,"{json.dumps([PERCENT]).replace(chr(34), chr(34) * 2)}"\n8,1,3,/x/c.png,\n,,4,/x/d.png,\n',
    ),
    "FiftyOne": (
        "samples.json",
        json.dumps(
            {
                "samples": [
                    {"filepath": "a.png", "ground_truth": None},
                    {"filepath": "b.png", "ground_truth": {"_cls": "Detections", "detections": [DETECTION]}},
                    {"filepath": "c.png", "ground_truth": {"_cls": "Detections", "detections": []}},
                    {"filepath": "d.png"},
                ]
            }
        ),
    ),
    "SageMaker": (
        "output.manifest",
        manifest(
            {},
            {"boxes": {"annotations": [CORNERS]}, "boxes-metadata": ABOUT},
            {"boxes": {"annotations": []}, "boxes-metadata": ABOUT},
            {"boxes-metadata": ABOUT | {"failure-reason": "no worker"}},
        ),
    ),
    "COCO, annotated": ("a.json", of_coco(annotated=False)),
    "COCO, status": ("a.json", of_coco(status="To Do")),
    "COCO, skipped": ("a.json", of_coco(skipped=True)),
}


def photos(root: Path, names: str = "abcd") -> Path:
    for name in names:
        put(root / "photos" / f"{name}.png", image_file())
    return root / "photos"


@pytest.mark.parametrize("name", OPEN)
def test_an_image_that_nobody_has_annotated_is_no_image_without_objects(tmp_path: Path, name: str) -> None:
    images = photos(tmp_path)
    file = put(tmp_path / OPEN[name][0], OPEN[name][1])
    source = open_source(file, options=AnnotationOptions(images=images))
    assert [sample.key.decode() for sample in source] == ["b.png", "c.png"]
    notes = [note for note in info_of(source).findings.notes if "nobody has annotated them" in note]
    assert sum(int(note.rpartition("): ")[2].split()[0]) for note in notes) == 2, notes


def test_an_image_with_a_flag_and_an_object_stays(tmp_path: Path) -> None:
    images = photos(tmp_path)
    file = put(tmp_path / "a.json", of_coco(annotated=False).replace('"image_id": 1', '"image_id": 0'))
    source = open_source(file, options=AnnotationOptions(images=images))
    assert [sample.key.decode() for sample in source] == ["a.png", "b.png", "c.png"]


def test_a_file_without_any_annotation_says_so(tmp_path: Path) -> None:
    file = put(tmp_path / "p.json", studio([], [{"id": 1, "was_cancelled": True, "result": []}]))
    with pytest.raises(LabelFileError, match=r"nobody has annotated any of its 2 images"):
        open_source(file, options=AnnotationOptions(images=photos(tmp_path)))


OF_CVAT = """<annotations><meta/><image id="0" name="a.png"/><image id="1" name="b.png">
<box label="cat" xtl="1" ytl="1" xbr="9" ybr="9"/></image></annotations>"""


def test_a_format_that_does_not_tell_them_apart_notes_the_images_without_objects(tmp_path: Path) -> None:
    file = put(tmp_path / "annotations.xml", OF_CVAT)
    source = open_source(file, options=AnnotationOptions(images=photos(tmp_path, "ab")))
    assert len(source) == 2
    assert any("or that nobody has annotated" in note and "a.png" in note for note in info_of(source).findings.notes)


RUNS: dict[str, Any] = {"size": [40, 60], "counts": [3 * 40 + 5, 4, 36, 6, 40 * 60 - 171]}


@pytest.mark.parametrize("bbox", [{}, {"bbox": None}, {"bbox": []}], ids=["missing", "null", "empty"])
@pytest.mark.parametrize(
    ("outline", "box"),
    [
        ([[6, 4, 36, 4, 36, 24, 6, 24]], (6, 4, 36, 24)),
        ([[6, 4, 36, 4, 36, 24], [1, 2, 3, 2, 3, 5]], (1, 2, 36, 24)),
        (RUNS, (3, 5, 5, 11)),
        ([[6, 4]], None),
        ([[6, 4, 8]], None),
        ([], None),
        ({"size": [40, 60], "counts": [2400]}, None),
        ({"size": [40, 60], "counts": "PX"}, None),
    ],
)
def test_an_outline_without_a_box_has_the_box_around_it(outline: Any, box: Any, bbox: dict[str, Any]) -> None:
    found = box_of({"segmentation": outline, **bbox})
    assert (tuple(found) if found else None) == box


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


TWO = [[6, 4, 30, 20], [30, 4, 16, 20]]
OBJECTS_OF: dict[str, Callable[[], dict[str, Any]]] = {
    "digits": lambda: {"digits": {"bbox": TWO, "label": [4, 6]}},
    "detections": lambda: {"detections": [{"bbox": one, "category": 1} for one in TWO]},
    "faces, with bboxes": lambda: {"faces": {"bboxes": TWO, "labels": [4, 6]}},
}


@pytest.mark.parametrize("name", OBJECTS_OF)
def test_objects_are_known_by_their_boxes_whatever_the_column_is_called(tmp_path: Path, name: str) -> None:
    write(tmp_path / "in/train.parquet", [{"image": image_file(), **OBJECTS_OF[name]()}] * 2)
    source = open_source(tmp_path / "in")
    assert {*BOX} <= source.schema.features.keys()
    assert f"objects from {name.partition(',')[0]}" in info_of(source).findings.notes[0]


def test_of_two_columns_of_boxes_one_is_asked_for(tmp_path: Path) -> None:
    both = {"digits": {"bbox": TWO, "label": [4, 6]}, "words": {"bbox": TWO, "label": [1, 2]}}
    write(tmp_path / "in/train.parquet", [{"image": image_file(), **both}] * 2)
    with pytest.raises(UsageError, match="several columns may be the objects: digits, words"):
        open_source(tmp_path / "in")
    source = open_source(tmp_path / "in", options=ColumnOptions(columns={"objects": "words"}))
    assert "objects from words" in info_of(source).findings.notes[0]


def test_lists_of_classes_beside_lists_of_boxes_are_of_objects(tmp_path: Path) -> None:
    write(tmp_path / "in/train.parquet", [{"image": image_file(), "bboxes": TWO, "labels": [0, 1]}] * 2)
    with pytest.raises(UsageError, match="'labels' stand beside boxes in 'bboxes'"):
        open_source(tmp_path / "in")
    assert len(open_source(tmp_path / "in", options=ColumnOptions(columns={"label": "labels"}))) == 2


@pytest.mark.parametrize(
    ("folders", "asked"),
    [(("default/train", "small/train"), True), (("part-0/train", "part-1/train"), False), (("train", "test"), False)],
)
def test_configurations_of_the_hub_are_asked_about(tmp_path: Path, folders: tuple[str, ...], asked: bool) -> None:
    for folder in folders:
        write(tmp_path / f"hub/{folder}/0000.parquet", [{"image": image_file(), "label": n} for n in (0, 1)])
    if not asked:
        assert len(open_source(tmp_path / "hub")) == 4
        return
    with pytest.raises(UsageError, match=r"default, small have files of the split train each") as caught:
        open_source(tmp_path / "hub")
    assert f"give one of them: {tmp_path}/hub/default" in caught.value.remedy
    assert len(open_source(tmp_path / "hub/default")) == 2


OF_TOOLS = {
    "Azure ML": '{"image_url": "azureml://x/a.jpg", "label": [{"label": "can", "topX": 0.1, "topY": 0.1}]}',
    "Vertex AI": '{"imageGcsUri": "gs://b/a.jpg", "boundingBoxAnnotations": [{"displayName": "can"}]}',
    "Prodigy": '{"image": "a.jpg", "spans": [{"label": "can"}], "answer": "accept", "_input_hash": 17}',
    "VoTT": '{"asset": {"name": "a.jpg"}, "regions": [{"tags": ["a"], "boundingBox": {"left": 1}}], "version": "2"}',
    "Kili": '[{"externalId": "a.jpg", "labels": [{"jsonResponse": {}}]}]',
    "SuperAnnotate": '{"metadata": {"name": "a.jpg"}, "instances": [{"type": "bbox", "className": "a"}]}',
}


@pytest.mark.parametrize("tool", OF_TOOLS)
@pytest.mark.parametrize("ends", [".jsonl", ".json"])
def test_files_of_tools_that_are_not_read_are_named(tmp_path: Path, tool: str, ends: str) -> None:
    file = put(tmp_path / f"export{ends}", f"{OF_TOOLS[tool]}\n" * (2 if ends == ".jsonl" else 1))
    with pytest.raises(UsageError, match=tool):
        open_source(file, options=AnnotationOptions(images=photos(tmp_path)))


def yolo(root: Path, form: str) -> Path:
    """Labels of a and b, which a tool has exported without the images."""
    labels = root / form / ("obj_train_data" if form == "darknet" else "labels/train")
    for number, name in enumerate("ab"):
        put(labels / f"{name}.txt", f"{number} 0.35 0.35 0.5 0.5\n")
    if form == "darknet":
        put(root / form / "obj.data", "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\n")
        put(root / form / "obj.names", "cat\ndog\n")
        put(root / form / "train.txt", "data/obj_train_data/a.png\ndata/obj_train_data/b.png\n")
        return root / form
    train = "train.txt" if form == "list" else "images/train"
    put(root / form / "data.yaml", f"names:\n  0: cat\n  1: dog\npath: .\ntrain: {train}\n")
    if form == "list":
        put(root / form / "train.txt", "images/train/a.png\nimages/train/b.png\n")
    return root / form


@pytest.mark.parametrize("form", ["list", "folder", "darknet"])
def test_labels_of_yolo_that_were_exported_without_images_find_them(tmp_path: Path, form: str) -> None:
    folder, images = yolo(tmp_path, form), photos(tmp_path, "ab")
    with pytest.raises(UsageError) as caught:
        open_source(folder)
    assert caught.value.remedy.endswith(": images")
    source = open_source(folder, options=AnnotationOptions(images=images))
    _, found = converted(source, tmp_path / "out")
    assert [found[name][OBJECT_TEXT] for name in sorted(found)] == [[b"cat"], [b"dog"]]


def test_an_image_of_two_folders_that_labels_may_mean_is_not_guessed(tmp_path: Path) -> None:
    folder = yolo(tmp_path, "list")
    for name in ("x/a", "y/a", "x/b"):
        put(tmp_path / "photos" / f"{name}.png", image_file())
    source = open_source(folder, options=AnnotationOptions(images=tmp_path / "photos"))
    assert [sample.key.decode() for sample in source] == ["photos/x/b.png"]
    rejected = info_of(source).findings.rejected
    assert any("2 images of this name" in one.reason for one in rejected)


def relative(mask: np.ndarray) -> str:
    """The runs of a mask [height, width], each start counted from the end of the run before."""
    flat, last, made = mask.T.ravel(), 0, list[int]()
    for start, stop in np.flatnonzero(np.diff(np.concatenate([[0], flat, [0]]))).reshape(-1, 2).tolist():
        made += [start - last, stop - start]
        last = stop
    return " ".join(map(str, made))


def test_runs_relative_to_the_last_are_doubted_and_never_put_in_order(tmp_path: Path) -> None:
    rows = ["ImageId,EncodedPixels"]
    for seed, name in enumerate("abcd"):
        mask = np.zeros((40, 60), int)
        top, left = 3 + seed, 5 + 3 * seed
        mask[top : top + 8, left : left + 6] = 1
        rows.append(f"{name}.png,{relative(mask)}")
        with pytest.raises(DisorderedRunsError, match="relative"):
            region_of(relative(mask), (60, 40))
    file = put(tmp_path / "t.csv", "\n".join(rows))
    photos(tmp_path)
    with pytest.raises(LabelFileError, match=r"in 4 of 4 rows with several runs .* relative"):
        open_source(file, options=AnnotationOptions(images=tmp_path / "photos"))


def boxes_of_coco(root: Path, boxes: list[list[int]]) -> Any:
    image = {"id": 1, "file_name": "a.png", "width": 60, "height": 40}
    annotations = [{**BOX_OF_COCO, "id": n, "bbox": box} for n, box in enumerate(boxes)]
    file = put(root / "a.json", json.dumps({"images": [image], "annotations": annotations, **OF_COCO}))
    return open_source(file, options=AnnotationOptions(images=photos(root, "a")))


def test_corners_in_the_place_of_sizes_are_refused(tmp_path: Path) -> None:
    corners = [[1, 1, 9, 9], [10, 20, 55, 38], [30, 10, 50, 30], [5, 6, 40, 30], [20, 20, 45, 39]]
    with pytest.raises(UsageError, match=r"3 of 5 boxes leave their images as \[left, top, width, height\]"):
        boxes_of_coco(tmp_path / "corners", corners)
    sizes = [[x, y, right - x, bottom - y] for x, y, right, bottom in corners]
    assert len(boxes_of_coco(tmp_path / "sizes", sizes)) == 1
    assert len(boxes_of_coco(tmp_path / "one", [*sizes, [50, 30, 40, 20]])) == 1  # one bad box is a bad box


@pytest.mark.parametrize("bad", [1, 5])
def test_where_most_annotations_fail_alike_no_number_is_advised(tmp_path: Path, bad: int) -> None:
    boxes = [[40 + n, 4, 50, 9] if n < bad else [4 + n, 30, 1, 3] for n in range(7)]
    with pytest.raises(TooManyRejectedError) as caught:
        converted(boxes_of_coco(tmp_path, boxes), tmp_path / "out")
    advised = "max_bad" in caught.value.remedy or "--max-bad-objects" in caught.value.remedy
    assert advised == (bad == 1)
    assert ("the file means something else than is read" in caught.value.remedy) == (bad == 5)


@pytest.mark.parametrize(("numbers", "refused"), [("1212", True), ("1111", False), ("0122", False), ("1113", False)])
def test_classes_of_yolo_that_begin_at_1_are_refused(tmp_path: Path, numbers: str, refused: bool) -> None:
    put(tmp_path / "data.yaml", "names: [cat, dog]\ntrain: images/train\n")
    for name, number in zip("abcd", numbers, strict=True):
        put(tmp_path / f"images/train/{name}.png", image_file())
        put(tmp_path / f"labels/train/{name}.txt", f"{number} 0.5 0.5 0.2 0.2\n")
    if refused:
        with pytest.raises(UsageError, match="classes up to 2 and none of 0"):
            open_source(tmp_path)
    else:
        assert len(open_source(tmp_path)) == 4


HEAD = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n"


def open_images(root: Path) -> Path:
    for split in ("train", "val"):
        put(root / f"images/{split}/{split}0.png", image_file())
        put(root / f"annotations/{split}-annotations-bbox.csv", f"{HEAD}{split}0,,/m/1,1,0.1,0.6,0.1,0.6,0,0,0,0,0\n")
    put(root / "annotations/class-descriptions.csv", "/m/1,Cat\n")
    put(root / "annotations/bbox_labels_600_hierarchy.json", '{"LabelName": "/m/1", "Subcategory": []}')
    return root


def test_a_folder_of_open_images_is_read_and_is_no_dataset_of_coco(tmp_path: Path) -> None:
    source = open_source(open_images(tmp_path / "whole"))
    assert [(sample.key.decode(), sample.split) for sample in source] == [
        ("images/train/train0.png", "train"),
        ("images/val/val0.png", "validation"),
    ]
    assert source.schema.class_names[OBJECT_LABEL] == ("Cat",)
    bare = open_images(tmp_path / "bare")
    for split in ("train", "val"):
        (bare / f"annotations/{split}-annotations-bbox.csv").unlink()
        for image in (bare / f"images/{split}").iterdir():
            image.rename(bare / f"images/{image.name}")
    with pytest.raises(ShardfeedError) as caught:
        open_source(bare)
    assert "COCO dataset" not in str(caught.value)


def test_left_img_8_bit_alone_is_not_cityscapes(tmp_path: Path) -> None:
    for n in range(2):
        put(tmp_path / f"leftImg8bit/train/a/{n}_leftImg8bit.png", image_file())
        put(tmp_path / f"gtFine/train/a/{n}_gtFine_labellevel3Ids.png", image_file())
    try:
        said = " ".join(info_of(open_source(tmp_path)).findings.notes)
    except ShardfeedError as error:
        said = str(error)
    assert "Cityscapes" not in said
