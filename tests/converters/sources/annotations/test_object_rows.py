"""Tables with one row an object: every dialect, its faults, and what is no such table."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_images import HEIGHT, SCENES, WIDTH, Objects, converted, draw, expected, image_file, put, stems
from PIL import Image
from pycocotools import mask as coco
from sources import reader

from shardfeed.annotations import BOX, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, OBJECT_TEXT, OBJECTS, XMIN
from shardfeed.converters.rejects import BadAnnotationError
from shardfeed.converters.sources.annotations.box_columns import region_of
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.testing.source import SourceContract

NONE = AnnotationOptions()
TENSORFLOW = "filename,width,height,class,xmin,ymin,xmax,ymax"
OPEN_IMAGES = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,"
OPEN_IMAGES += "IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"


recognise, read = reader("boxes-csv")


def rows(line: Callable[[str, str, tuple[int, int, int, int]], str], none: str | None = None) -> list[str]:
    """A row for each object of SCENES, the second image's first: rows of an image stand apart. `none`: for c."""
    made = [line(name, label, box) for name, objects in SCENES.items() for label, box in objects]
    return [*made[2:], *made[:2], *([] if none is None else [none])]


def tensorflow(root: Path) -> Path:
    def line(name: str, label: str, box: tuple[int, int, int, int]) -> str:
        return f"{name}.png,60,40,{label},{','.join(map(str, box))}"

    draw(root)
    return put(root / "labels.csv", "\n".join([TENSORFLOW, *rows(line, "c.png,60,40,,,,,")]))


def open_images(root: Path) -> Path:
    def line(name: str, label: str, box: tuple[int, int, int, int]) -> str:
        left, top, right, bottom = box
        sides = f"{left / WIDTH},{right / WIDTH},{top / HEIGHT},{bottom / HEIGHT}"
        return f"{name},xclick,/m/0{label},1,{sides},0,-1,1,0,0"

    draw(root / "images")
    put(root / "oidv6-class-descriptions.csv", "LabelName,DisplayName\n/m/0x,x\n")
    names = 'LabelName,DisplayName\n/m/0cat,cat\n/m/0dog,"dog"\n/m/0owl,owl\n'
    put(root / "class-descriptions-boxable.csv", names)
    return put(root / "boxes.csv", "\n".join([OPEN_IMAGES, *rows(line, "c,x,,,,,,,0,0,0,0,0")]))


def semicolons(root: Path) -> Path:
    table = tensorflow(root)
    text = table.read_text().replace(",", ";").replace("class", "Class").replace("filename", " FileName ")
    table.write_bytes(text.encode("utf-16"))
    return table


def runs_of(box: tuple[int, int, int, int]) -> str:
    """Kaggle's runs of a rectangle."""
    left, top, right, bottom = box
    return " ".join(f"{x * HEIGHT + top + 1} {bottom - top}" for x in range(left, right))


def kaggle_runs(root: Path) -> Path:
    def line(name: str, label: str, box: tuple[int, int, int, int]) -> str:
        return f"{name}.png,{label},{runs_of(box)}"

    draw(root)
    return put(root / "train.csv", "\n".join(["ImageId,class,EncodedPixels", *rows(line, "c.png,,-1")]))


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "tensorflow": tensorflow,
    "open_images": open_images,
    "semicolons": semicolons,
    "kaggle_runs": kaggle_runs,
}


class TestContract(SourceContract):
    """Contract of every source."""

    keys_are_sorted = True

    @pytest.fixture(params=BUILDERS)
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        path = BUILDERS[request.param](tmp_path / "rows")
        for image in (tmp_path / "rows").rglob("b.png"):
            image.unlink()
        return lambda: read(path)


@pytest.mark.parametrize("dialect", BUILDERS)
def test_every_dialect_gives_the_same_records(dialect: str, tmp_path: Path) -> None:
    path = str(BUILDERS[dialect](tmp_path / "rows"))
    evidence = recognise(path)
    assert (evidence.name, evidence.missing) == ("boxes-csv", "")
    source = read(path)
    assert getattr(source, "described", "").endswith(": 4 images, 6 objects of 3 classes")
    report, found = converted(source, tmp_path / "out")
    boxes = {*BOX, OBJECT_LABEL, OBJECT_TEXT}
    assert {
        name: {key: value for key, value in values.items() if key in boxes} for name, values in stems(found).items()
    } == expected()
    assert (report.account.read, report.account.written) == (6, 6)
    assert {values["split"] for values in found.values()} == {"train"}
    notes = " ".join(report.notes)
    assert ("matched without extension or folder: 4 ('b' is 'images/b.png')" in notes) == (dialect == "open_images")
    if dialect == "open_images":
        d = next(values for key, values in found.items() if key.endswith("d.png"))
        assert (d[f"{OBJECTS}group_of"], d[f"{OBJECTS}truncated"]) == ([1, 1, 1], [0, 0, 0])
        assert "flags of -1 (unknown), treated as 0: 6 (line 2, line 3, line 4, ...)" in notes
        assert "unused columns: 2 (Source, Confidence)" in notes
    if dialect == "kaggle_runs":
        d = next(values for key, values in found.items() if key.endswith("d.png"))
        assert d[OBJECT_AREA] == [400, 360, 24]
        masks = [coco.encode(np.asfortranarray(_pixels(data))) for data in d[OBJECT_MASK]]
        assert [coco.toBbox(mask).tolist() for mask in masks] == [[20, 10, 20, 20], [41, 10, 18, 20], [1, 1, 4, 6]]


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_open_images_without_names_keeps_its_codes(tmp_path: Path) -> None:
    table = open_images(tmp_path / "rows")
    names = table.parent / "class-descriptions-boxable.csv"
    assert read(table, AnnotationOptions(class_names=["/m/0owl", "/m/0cat", "/m/0dog"])).schema.class_names[
        OBJECT_LABEL
    ] == ("/m/0owl", "/m/0cat", "/m/0dog")
    put(names, "/m/0cat,pet\n/m/0dog,pet\n/m/0owl,owl\n")
    assert read(table).schema.class_names[OBJECT_LABEL] == ("owl", "pet (/m/0cat)", "pet (/m/0dog)")
    for file in table.parent.glob("*class-descriptions*"):
        file.unlink()
    assert read(table).schema.class_names[OBJECT_LABEL] == ("/m/0cat", "/m/0dog", "/m/0owl")


def test_without_a_column_of_classes_one_class_may_be_named(tmp_path: Path) -> None:
    draw(tmp_path / "rows", {"a": []})
    table = str(put(tmp_path / "rows" / "t.csv", 'image_id,bbox,source\na,"[1, 2, 3, 4]",usask_1\n'))
    assert OBJECT_LABEL not in read(table).schema.features
    _, found = converted(read(table, AnnotationOptions(class_names=["wheat"])), tmp_path / "out")
    assert found["a.png"][OBJECT_TEXT] == [b"wheat"]
    with pytest.raises(UsageError, match="got 2 classes, but the table has no class column"):
        read(table, AnnotationOptions(class_names=["a", "b"]))


def table(root: Path, text: str, options: AnnotationOptions = NONE, **files: Any) -> Source:
    """A table beside the drawn images a, b, c and d."""
    draw(root)
    return read(put(root / "t.csv", text), options, **files)


FAULTS = [
    ("a.png,60,40,dog,1,2,3", "t.csv", "E_LINE", "got 7 cells, expected 8"),
    (",60,40,dog,1,2,3,4", "t.csv", "E_LINE", "it has no image"),
    ("a.png,60,40,dog,x,2,3,4", "a.png", "E_VALUE", "got side of the box 'x', expected a number"),
    ("a.png,60,40,dog,,2,3,4", "a.png", "E_BOX_EMPTY", "no side of the box"),
    ("a.png,60,40,,1,2,3,4", "a.png", "E_CATEGORY", "it has no class"),
    ("a.png,60,40,dog,3,2,1,4", "a.png", "E_BOX_EMPTY", "without an area"),
    ("a.png,60,40,dog,1,2,99,4", "a.png", "E_BOX_OUTSIDE", "39.0 pixels outside"),
    ("a.png,60,40,cat,1,2,30,4", "a.png", "E_TWICE", "duplicate"),
    ("gone.png,60,40,cat,1,2,30,4", "gone.png", "E_IMAGE", "line 10: its image was left out"),
    ("../x.png,60,40,cat,1,2,30,4", "../x.png", "E_IMAGE", "its image was left out"),
    ("http://x/x.png,60,40,cat,1,2,30,4", "http://x/x.png", "E_IMAGE", "its image was left out"),
]


def test_a_row_that_cannot_be_used_is_listed(tmp_path: Path) -> None:
    text = "\n".join([TENSORFLOW, *(line for line, *_ in FAULTS), "a.png,60,40,cat,1,2,30,4", "b.png,,,dog,0,0,9,9"])
    source = table(tmp_path / "rows", text)
    report, found = converted(source, tmp_path / "out", max_bad={"images": 3, "objects": 7})
    account = report.account
    assert (account.read, account.written) == (len(FAULTS) + 2, 2)
    left_out = {(one.key.decode(), one.code): one.reason for one in account.left_out}
    for line, key, code, why in FAULTS:
        assert any(why in one.reason for one in account.left_out if (one.key.decode(), one.code) == (key, code)), line
    assert len(left_out) == 9  # two E_LINE and two E_BOX_EMPTY
    assert len(found["a.png"][XMIN]) == 1
    assert [(noted.key, noted.what) for noted in report.rejected] == [
        (b"../x.png", "E_PATH_ESCAPE"), (b"gone.png", "E_MISSING"), (b"http://x/x.png", "E_PATH_ESCAPE"),
    ]  # fmt: skip
    assert "images without a row, left out; add" in " ".join(report.notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{TENSORFLOW}\na.png,60,40,dog,0.1,0.2,0.3,1\n", "no coordinate of its 1 box is larger than 1"),
        (f"{OPEN_IMAGES}\na,x,/m/1,1,10,30,5,25,0,0,0,0,0\n", "1 of 1 boxes have coordinates beyond 2"),
        (
            f"{TENSORFLOW}\na.png,60,40,dog,1,2,3,4\na.png,61,40,dog,1,2,3,4\n",
            "line 3: got 61 x 40 pixels for a.png, expected 60 x 40",
        ),
        (f"{TENSORFLOW}\nx.png,60,40,dog,1,2,3,4\n", "none of its 1 image is below"),
        (f"{TENSORFLOW}\n", "no rows after the header"),
        (f'{TENSORFLOW}\n"a.png,60\n', "cannot be read as CSV"),
        (f"{TENSORFLOW},split\na.png,60,40,dog,1,2,3,4,train\na.png,60,40,cat,1,2,3,4,val\n", "expected 'train' as"),
        (f"{TENSORFLOW},split\na.png,60,40,dog,1,2,3,4,a/b\n", "the split: "),
        ("filename,class,xmin,ymin,xmax\na.png,dog,1,2,3\n", "no column ymax"),
        ("class,xmin,ymin,xmax,ymax\ndog,1,2,3,4\n", "no column with the image"),
        ("ImageID,Source,LabelName,Confidence\na,x,/m/1,1\n", "its tables of objects have no known format"),
        ("path,label\na.png,dog\n", "its tables of objects have no known format"),
        ("a.png,dog\n", "its tables of objects have no known format"),
        ("", "its tables of objects have no known format"),
        ("TRAIN,gs://x/1/a.png,dog,0,0,,,1,1,,\nTRAIN,gs://x/2/a.png,dog,0,0,,,1,1,,\n", "end alike"),
        ("TRAIN,gs://x/a.png,dog,9,9,,,30,30,,\n", "fractions"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(why)) as caught:
        table(tmp_path / "rows", text)
    assert "t.csv" in caught.value.place


def test_what_is_no_such_table_is_not_recognised(tmp_path: Path) -> None:
    draw(tmp_path)
    for name, text in (
        ("a.csv", "path,label\na.png,dog\n"),
        ("b.csv", "a.png,1,2,3,4,x\nb,x,y,z,z,z\n"),
        ("c.csv", b"\xff\xfe\x00"),
        ("d.csv", ""),
        ("e.txt", f"{TENSORFLOW}\n"),
        ("f.jsonl", "{}"),
        ("g.csv", "TRAIN,gs://x/a.png,daisy\nTEST,gs://x/b.png,rose\n"),
    ):
        assert recognise(put(tmp_path / name, text)) is None, name
    assert recognise(tmp_path) is None
    assert recognise(tmp_path / "gone.csv") is None
    almost = recognise(put(tmp_path / "h.csv", "class,xmin,ymin,xmax,ymax\n"))
    assert almost.missing.startswith("no column with the image")


def test_automl_as_it_comes(tmp_path: Path) -> None:
    text = "\n".join(
        [
            ",gs://x/a.png,dog,0,0,,,0.5,0.5,,",
            "VALIDATE,gs://x/b.png",
            "TEST,gs://x/c.png,dog,0,0,0.5,0,0.5,0.5,0.1,0.5",
            "TEST,gs://x/c.png,dog,0,0,0.5,0,0.5,0.5,,",
            "TEST,gs://x/c.png,dog,0,0,0.5,0,0.5,0.5,0,0.5",
            "UNASSIGNED,gs://x/d.png,dog,0,0,,,0.5,0.5,,",
        ]
    )
    report, found = converted(table(tmp_path / "rows", text), tmp_path / "out", max_bad={"objects": 2})
    assert {key: (values["split"], len(values[XMIN])) for key, values in found.items()} == {
        "a.png": ("train", 1), "b.png": ("validation", 0), "c.png": ("test", 1), "d.png": ("train", 1),
    }  # fmt: skip
    assert [one.code for one in report.account.left_out] == ["E_LINE", "E_LINE"]
    assert "got 4 corners that are not an upright box" in report.account.left_out[0].reason
    without_use = "\n".join(line.partition(",")[2] for line in text.splitlines() if "b.png" not in line)
    assert len(table(tmp_path / "again", without_use)) == 3


def test_rows_without_coordinates_keep_an_image(tmp_path: Path) -> None:
    text = "image_id,class_name,x_min,y_min,x_max,y_max\na,No finding,,,,\nb,mass,1,2,30,4\n"
    source = table(tmp_path / "rows", text)
    assert source.schema.class_names[OBJECT_LABEL] == ("mass",)
    assert len(source) == 2
    notes = info_of(source).findings.notes
    assert "rows with a class but no coordinates, treated as images without objects: 1 (line 2)" in notes


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("image,x,y,w,h", "4,5,36,25"),
        ("image,left,top,width,height", "4,5,36,25"),
        ("image,width,height,bbox_x,bbox_y,bbox_width,bbox_height", "60,40,4,5,36,25"),
        ("image,xmin,ymin,width,height", "4,5,36,25"),
        ("image,x_center,y_center,width,height", "22,17.5,36,25"),
        ("image,left,top,right,bottom", "4,5,40,30"),
        ("image,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2", "4,5,40,30"),
        ("image,x0,y0,x1,y1", "4,5,40,30"),
    ],
)
def test_headers_tell_corners_from_sizes_and_middles(header: str, cells: str, tmp_path: Path) -> None:
    _, found = converted(table(tmp_path / "rows", f"{header},label\na.png,{cells},dog\n"), tmp_path / "out")
    assert [found["a.png"][key][0] for key in BOX] == pytest.approx([4 / 60, 5 / 40, 40 / 60, 30 / 40])


def test_fractions_are_what_the_user_says_and_a_middle_is_never_guessed(tmp_path: Path) -> None:
    corners = "image,xmin,ymin,xmax,ymax\na.png,0.1,0.2,0.3,1\n"
    with pytest.raises(UsageError, match="'fractions'"):
        table(tmp_path / "rows", corners)
    _, found = converted(table(tmp_path / "rows", corners, AnnotationOptions(unit="fractions")), tmp_path / "out")
    assert [found["a.png"][key][0] for key in BOX] == pytest.approx([0.1, 0.2, 0.3, 1])
    sizes = "image,x,y,width,height\na.png,0.1,0.2,0.2,0.4\n"
    for options in (NONE, AnnotationOptions(unit="fractions")):
        with pytest.raises(LabelFileError, match="x_center,y_center or left,top"):
            table(tmp_path / "rows", sizes, options)
    text = sizes.replace("x,y", "left,top")
    _, found = converted(table(tmp_path / "rows", text, AnnotationOptions(unit="fractions")), tmp_path / "again")
    assert [found["a.png"][key][0] for key in BOX] == pytest.approx([0.1, 0.2, 0.3, 0.6])
    with pytest.raises(LabelFileError, match="rename it to box_width or image_width"):
        table(tmp_path / "rows", "image,width,height,xmin,ymin\na.png,60,40,1,2\n")


def test_lines_of_faces(tmp_path: Path) -> None:
    text = (
        "a.png\n2\n4 5 36 25 0 0 0 0 0 0\n1 2 3\nb.png\n0\n0 0 0 0 0 0 0 0 0 0\nc.png\nd.png\n1\n1 2 9 9 2 0 0 1 0 0\n"
    )
    draw(tmp_path)
    report, found = converted(
        read(put(tmp_path / "x_bbx_gt.txt", text)), tmp_path / "out", max_bad={"images": 0, "objects": 2}
    )
    assert {key: (len(values[XMIN]), values[f"{OBJECTS}invalid"]) for key, values in found.items()} == {
        "a.png": (1, [0]), "b.png": (0, []), "d.png": (1, [1]),
    }  # fmt: skip
    assert [(one.code, one.reason) for one in report.account.left_out] == [
        ("E_LINE", "x_bbx_gt.txt:4: got 3 numbers, expected 10"),
        ("E_LINE", "x_bbx_gt.txt:9: expected the image path, the number of faces, and one line per face"),
    ]


def test_several_boxes_in_a_line_or_a_cell(tmp_path: Path) -> None:
    draw(tmp_path)
    lines = "a.png 4,5,40,30,1 0,0,20,40,0\nb.png\n"
    names = AnnotationOptions(class_names=["cat", "dog"])
    _, found = converted(read(put(tmp_path / "t.txt", lines), names), tmp_path / "out")
    assert found["a.png"][OBJECT_TEXT] == [b"dog", b"cat"]
    assert found["b.png"][XMIN] == []
    with pytest.raises(UsageError, match="it has class numbers"):
        read(tmp_path / "t.txt")
    cells = "ImageId,PredictionString\na,n1 4 5 40 30 n2 0 0 20 40 \nb,\n"
    _, found = converted(read(put(tmp_path / "t.csv", cells)), tmp_path / "cells")
    assert (found["a.png"][OBJECT_TEXT], found["b.png"][OBJECT_TEXT]) == ([b"n1", b"n2"], [])


@pytest.mark.parametrize(
    "lines",
    [
        ("ImageId,PredictionString", "a", "a,n1 4 5 40 30"),
        ("image_id,annotations", "a", "a,\"[{'x': 4, 'y': 5, 'width': 36, 'height': 25}]\""),
    ],
)
def test_a_row_that_is_too_short_is_listed(tmp_path: Path, lines: tuple[str, ...]) -> None:
    report, found = converted(table(tmp_path / "rows", "\n".join(lines)), tmp_path / "out", max_bad={"objects": 1})
    assert [one.code for one in report.account.left_out] == ["E_LINE"]
    assert len(found["a.png"][XMIN]) == 1


def test_runs_that_are_none_are_listed(tmp_path: Path) -> None:
    bad = ["1 0", "0 5", "1 2 2 3", "2400 2", "1", "1 x", "9999999999999999999 1", "9223372036854775807 9", "1_0 1"]
    lines = ["ImageId,EncodedPixels", "a.png,1 2400", "b.png,", "c.png,nan", *(f"a.png,{cell}" for cell in bad)]
    source = table(tmp_path / "rows", "\n".join(lines))
    report, found = converted(source, tmp_path / "out", max_bad={"objects": len(bad)})
    account = report.account
    assert (account.read, account.written) == (len(bad) + 1, 1)
    assert {one.code for one in account.left_out} == {"E_OUTLINE"}
    assert [found["a.png"][key] for key in BOX] == [[0], [0], [1], [1]]
    assert len(found) == 3
    boxes_only = table(tmp_path / "rows", "\n".join(lines[:4]), AnnotationOptions(tasks=frozenset({"boxes"})))
    assert OBJECT_MASK not in boxes_only.schema.features
    with pytest.raises(UsageError, match="expected boxes or masks"):
        table(tmp_path / "rows", "\n".join(lines), AnnotationOptions(tasks=frozenset({"captions"})))


@pytest.mark.long
def test_runs_of_a_turned_image_are_of_the_one_that_is_said(tmp_path: Path) -> None:
    root = tmp_path / "rows"
    put(root / "a.png", image_file(orientation=6))
    path = str(put(root / "t.csv", "ImageId,EncodedPixels\na.png,1 60\n"))
    for boxes_on, right in (("upright", 1 / 40), ("stored", None)):
        _, found = converted(read(path, AnnotationOptions(boxes_on=boxes_on)), tmp_path / boxes_on)  # type: ignore[arg-type]
        box = [found["a.png"][key][0] for key in BOX]
        assert box == pytest.approx([0, 0, right, 1] if right else [0, 0, 1, 2 / 60])


@given(st.integers(1, 12), st.integers(1, 9), st.data())
def test_runs_are_what_pycocotools_takes_them_for(width: int, height: int, data: st.DataObject) -> None:
    pixels = np.array(data.draw(st.lists(st.booleans(), min_size=width * height, max_size=width * height)))
    if not pixels.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[0], pixels.astype(int), [0]])))
    pairs = [f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True)]
    region = region_of(" ".join(pairs), (width, height))
    outline: Any = region.outline
    mask: Any = coco.decode(coco.frPyObjects(outline, height, width))
    assert (mask == pixels.reshape(width, height).T).all()
    left, top, wide, high = coco.toBbox(coco.encode(np.asfortranarray(mask)))
    assert region.box == (left, top, left + wide, top + high)
    assert region.area == mask.sum()


@given(st.text(st.sampled_from("0123456789 -.x"), max_size=12))
def test_any_cell_is_a_region_or_refused(cell: str) -> None:
    try:
        region = region_of(cell, (7, 5))
    except BadAnnotationError:
        return
    assert sum(region.outline["counts"]) == 35


def test_two_files_that_an_id_may_mean_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "rows"
    put(root / "x" / "a.png", image_file())
    put(root / "y" / "a.png", image_file())
    path = str(put(root / "t.csv", 'image_id,bbox\na,"[1, 2, 3, 4]"\n'))
    with pytest.raises(LabelFileError, match=r"'a' may be x/a\.png or y/a\.png"):
        read(path)
    assert len(read(path, AnnotationOptions(images=str(root / "x")))) == 1


def test_an_unreadable_image_takes_its_runs_along(tmp_path: Path) -> None:
    scenes: dict[str, Objects] = {"a": []}
    root = draw(tmp_path / "rows", scenes)
    put(root / "b.png", b"no image")
    path = str(put(root / "t.csv", "ImageId,EncodedPixels\na.png,1 60\nb.png,1 60\n"))
    report, _ = converted(read(path), tmp_path / "out", max_bad={"images": 1, "objects": 1})
    assert (report.account.read, report.account.written) == (2, 1)
