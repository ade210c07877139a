"""Pascal VOC: the devkit, LabelImg, Roboflow; and files that are no annotations."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_images import SCENES, Objects, converted, draw, expected, image_file, put, stems
from sources import reader

from shardfeed.annotations import BOX, OBJECT_LABEL, OBJECTS, XMAX, XMIN
from shardfeed.converters import open_source
from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, TooManyRejectedError, UsageError
from shardfeed.testing.source import SourceContract

NONE = AnnotationOptions()


recognise, read = reader("voc")


def xml(objects: Objects, name: str = "a.png", size: tuple[int, int] | None = (60, 40), inside: str = "") -> str:
    """A file of Pascal VOC; `inside`: what stands in each object beside name and box."""
    said = f"<annotation>\n<folder>x</folder><filename>{name}</filename>\n"
    said += f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>\n" if size else ""
    for label, (left, top, right, bottom) in objects:
        box = f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax>"
        said += f"<object><name>{label}</name>{inside}<bndbox>{box}</bndbox></object>\n"
    return said + "</annotation>\n"


def devkit(root: Path, scenes: dict[str, Objects] | None = None) -> Path:
    """Annotations, JPEGImages, and lists of splits."""
    draw(root / "JPEGImages", scenes or SCENES)
    for name, objects in (scenes or SCENES).items():
        put(root / "Annotations" / f"{name}.xml", xml(objects, f"{name}.png"))
    put(root / "ImageSets" / "Main" / "train.txt", "a\nb\nc\n")
    put(root / "ImageSets" / "Main" / "val.txt", "d\n")
    put(root / "ImageSets" / "Main" / "trainval.txt", "a\nb\nc\nd\n")
    put(root / "ImageSets" / "Main" / "dog_train.txt", "a  1\nb -1\nc -1\n")
    return root


def beside(root: Path, scenes: dict[str, Objects] | None = None, **of_xml: Any) -> Path:
    """XML files beside the images, as LabelImg writes them; an image without objects has none."""
    draw(root, scenes or SCENES)
    for name, objects in (scenes or SCENES).items():
        if objects:
            put(root / f"{name}.xml", xml(objects, f"{name}.png", **of_xml))
    return root


def apart(root: Path) -> Path:
    """annotations/xmls and images, as the Oxford pets have it."""
    draw(root / "images")
    for name, objects in SCENES.items():
        put(root / "annotations" / "xmls" / f"{name}.xml", xml(objects, f"{name}.png"))
    return root


BUILDERS: dict[str, Callable[[Path], Path]] = {"devkit": devkit, "beside": beside, "apart": apart}


class TestContract(SourceContract):
    """Contract of every source."""

    keys_are_sorted = True

    @pytest.fixture(params=BUILDERS)
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        root = BUILDERS[request.param](tmp_path / "voc")
        lost = root / "Annotations" if request.param == "devkit" else root
        put(lost / "lost.xml", xml(SCENES["a"]))
        return lambda: read(root)


@pytest.mark.parametrize("layout", BUILDERS)
def test_every_layout_gives_the_same_records(layout: str, tmp_path: Path) -> None:
    root = str(BUILDERS[layout](tmp_path / "voc"))
    evidence = recognise(root)
    assert (evidence.name, evidence.missing) == ("voc", "")
    source = read(root)
    assert "<annotation>" in evidence.found
    assert source.described.endswith("4 images, 6 objects of 3 classes")
    report, found = converted(source, tmp_path / "out")
    assert stems(found) == expected()
    assert (report.account.read, report.account.written) == (6, 6)
    splits = {Path(key).stem: values["split"] for key, values in found.items()}
    assert splits == dict.fromkeys("abcd", "train") | ({"d": "validation"} if layout == "devkit" else {})
    notes = " ".join(report.notes)
    assert ("images without an XML file, treated as images without objects: 1 (c.png)" in notes) == (layout == "beside")


def test_keys_are_relative_to_the_folder_of_the_images(tmp_path: Path) -> None:
    root = devkit(tmp_path / "voc")
    assert [sample.key for sample in read(root)] == [b"a.png", b"b.png", b"c.png", b"d.png"]
    moved = tmp_path / "elsewhere"
    shutil.move(root / "JPEGImages", moved)
    evidence = recognise(root)
    assert "JPEGImages" in evidence.missing
    with pytest.raises(UsageError, match="JPEGImages or images next to it"):
        read(root)
    options = AnnotationOptions(images=str(moved))
    assert (found := recognise(root, options)) is not None
    assert found.missing == ""
    assert len(read(root, options)) == 4
    assert len(read(root / "Annotations", options)) == 4


def test_what_is_no_voc_is_not_recognised(tmp_path: Path) -> None:
    draw(tmp_path / "images")
    put(tmp_path / "pom.xml", "<project/>")
    put(tmp_path / "cvat.xml", "<annotations><image/></annotations>")
    assert recognise(tmp_path) is None
    assert recognise(tmp_path / "pom.xml") is None
    assert recognise(tmp_path / "gone") is None
    with pytest.raises(UsageError, match="no XML file of Pascal VOC"):
        read(tmp_path)
    put(tmp_path / "labels" / "a.xml", xml([]))
    shutil.rmtree(tmp_path / "images")
    assert (found := recognise(tmp_path)) is not None
    assert found.missing


def test_devkits_of_several_years_are_one_dataset(tmp_path: Path) -> None:
    first, second = ({name: SCENES[name] for name in names} for names in ("ab", "acd"))
    for year, scenes, splits in (("VOC2007", first, ("a\nb\n", "")), ("VOC2012", second, ("a\nc\n", "d\n"))):
        root = devkit(tmp_path / "kit" / year, scenes)
        draw(root / "SegmentationClass", scenes)
        for name, names in zip(("train", "val", "trainval"), (*splits, "".join(splits)), strict=True):
            put(root / "ImageSets" / "Main" / f"{name}.txt", names)
        (root / "ImageSets" / "Main" / "dog_train.txt").unlink()
    with pytest.raises(UsageError, match=r"voc: devkits of Pascal VOC in VOC2007, VOC2012.*masks"):
        open_source(tmp_path / "kit")
    report, found = converted(open_source(tmp_path / "kit", reader="voc"), tmp_path / "out")
    assert {key: values["split"] for key, values in found.items()} == {
        "VOC2007/JPEGImages/a.png": "train",
        "VOC2007/JPEGImages/b.png": "train",
        "VOC2012/JPEGImages/a.png": "train",
        "VOC2012/JPEGImages/c.png": "train",
        "VOC2012/JPEGImages/d.png": "validation",
    }
    assert (report.account.read, report.account.written) == (8, 8)
    shutil.rmtree(tmp_path / "kit" / "VOC2007")
    assert [sample.key for sample in read(tmp_path / "kit")] == [b"a.png", b"c.png", b"d.png"]


def test_a_year_without_a_file_of_annotations_is_not_passed_over(tmp_path: Path) -> None:
    for year in ("VOC2007", "VOC2012"):
        devkit(tmp_path / "kit" / year, {"a": SCENES["a"]})
    put(tmp_path / "kit/VOC2012/Annotations/a.xml", "<other/>")
    found = info_of(read(tmp_path / "kit")).findings
    assert [(one.key, one.code) for one in found.rejected if "a.xml" in one.reason] == [
        (b"VOC2012/JPEGImages/a.png", "E_NO_LABEL")
    ]
    assert [one.key for one in found.account.left_out] == [b"VOC2012/a.xml"]


def test_parts_floats_and_flags(tmp_path: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    flags = "<difficult>1</difficult><truncated>0.4</truncated><pose>Left</pose>"
    root = draw(tmp_path / "voc", {"a": [], "b": []})
    text = xml([("dog", (10, 5, 30, 25))], inside=flags + part).replace("<xmin>10<", "<xmin> 9.900000000001 <")
    put(root / "a.xml", text)
    put(root / "b.xml", xml([("cat", (1, 1, 9, 9))], "b.png", (0, 0)))
    _, found = converted(read(root), tmp_path / "out")
    a, b = found["a.png"], found["b.png"]
    assert a[XMIN] == pytest.approx([9.9 / 60])
    assert (a[f"{OBJECTS}difficult"], a[f"{OBJECTS}truncated"]) == ([1], [1])
    assert (b[f"{OBJECTS}difficult"], b[f"{OBJECTS}truncated"]) == ([0], [0])
    assert f"{OBJECTS}occluded" not in a
    assert a[OBJECT_LABEL] == [1]


def test_the_origin(tmp_path: Path) -> None:
    scenes: dict[str, Objects] = {"a": [("dog", (1, 1, 60, 40)), ("dog", (11, 5, 30, 25))]}
    root = str(beside(tmp_path / "one", scenes))
    source = read(root)
    assert "--voc-origin 1" in " ".join(info_of(source).findings.notes)
    source = read(root, AnnotationOptions(voc_origin=1))
    assert not [note for note in info_of(source).findings.notes if "origin" in note]
    report, found = converted(source, tmp_path / "out")
    assert [found["a.png"][key][0] for key in BOX] == [0, 0, 1, 1]
    assert found["a.png"][XMIN][1] == pytest.approx(10 / 60)
    assert found["a.png"][XMAX][1] == pytest.approx(0.5)
    assert report.account.clipped == 0
    zero = str(beside(tmp_path / "zero"))
    assert not [note for note in info_of(read(zero)).findings.notes if "origin" in note]
    assert "boxes begin at 0, as if pixels counted from 0: 1" in " ".join(
        info_of(read(zero, AnnotationOptions(voc_origin=1))).findings.notes
    )


def test_a_class_list_gives_the_order_and_what_is_not_in_it_is_listed(tmp_path: Path) -> None:
    root = str(beside(tmp_path / "voc"))
    source = read(root, AnnotationOptions(class_names=["owl", "dog"]))
    report, found = converted(source, tmp_path / "out", max_bad={"objects": 2})
    assert found["d.png"][OBJECT_LABEL] == [1, 1, 0]
    account = report.account
    assert (account.read, account.written) == (6, 4)
    assert {one.code for one in account.left_out} == {"E_CATEGORY"}
    assert "object 2: got the class 'cat', expected one of owl, dog" in account.left_out[0].reason


def test_integers_as_classes_keep_their_numbers(tmp_path: Path) -> None:
    root = beside(tmp_path / "voc", {"a": [("10", (1, 2, 3, 4)), ("9", (2, 2, 9, 9))]})
    schema = read(root).schema
    assert schema.class_names[OBJECT_LABEL] == ("9", "10")
    assert schema.class_ids[OBJECT_LABEL] == (9, 10)


BOX_1 = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"


NUMBER = BOX_1.replace(">9<", ">{}<", 1)
FAULTS = [
    ("<object><name>dog</name></object>", "E_BOX_EMPTY", "got no <bndbox>"),
    (f"<object><name>dog</name>{BOX_1}{BOX_1}</object>", "E_LINE", "got 2 <bndbox>, expected one"),
    (f"<object>{BOX_1}</object>", "E_CATEGORY", "has no class"),
    (f"<object><name>do&#10;g</name>{BOX_1}</object>", "E_CATEGORY", "'do\\ng', expected one that is plain text"),
    (f"<object><name>dog</name>{NUMBER.format('x9')}</object>", "E_VALUE", "<xmax> 'x9'"),
    (f"<object><name>dog</name>{NUMBER.format('1_0')}</object>", "E_VALUE", "<xmax> '1_0'"),
    (f"<object><name>dog</name>{NUMBER.format('')}</object>", "E_BOX_EMPTY", "no <xmax>"),
    (f"<object><name>dog</name>{NUMBER.format('nan')}</object>", "E_BOX_EMPTY", "no <xmax>"),
    (f"<object><name>dog</name>{NUMBER.format('inf')}</object>", "E_VALUE", "inf"),
    (f"<object><name>dog</name>{NUMBER.format('0')}</object>", "E_BOX_EMPTY", "without an area"),
    (f"<object><name>dog</name>{NUMBER.format('99')}</object>", "E_BOX_OUTSIDE", "39.0 pixels"),
    (f"<object><name>dog</name><difficult>maybe</difficult>{BOX_1}</object>", "E_VALUE", "<difficult> 'maybe'"),
    (f"<object><name>cat</name>{BOX_1}</object>", "E_TWICE", "it is an exact"),
]


def test_an_object_that_cannot_be_used_is_listed(tmp_path: Path) -> None:
    scenes: dict[str, Objects] = {f"{i:02}": [("cat", (1, 1, 9, 9))] for i in range(len(FAULTS))}
    root = beside(tmp_path / "voc", scenes)
    for name, (entry, _, _) in zip(scenes, FAULTS, strict=True):
        text = xml(scenes[name]).replace("</annotation>", f"{entry}</annotation>")
        put(root / f"{name}.xml", text)
    report, found = converted(read(root), tmp_path / "out", max_bad={"objects": len(FAULTS)})
    account = report.account
    assert (account.read, account.written) == (2 * len(FAULTS), len(FAULTS))
    for name, one, (entry, code, why) in zip(scenes, account.left_out, FAULTS, strict=True):
        assert (one.key, one.code) == (f"{name}.png".encode(), code), entry
        assert one.reason.startswith("object 2")
        assert why in one.reason
    assert all(len(values[XMIN]) == 1 for values in found.values())


BOMB = '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">]><annotation>&lol;</annotation>'


FILES = [
    (b"<annotation><object>", "not XML"),
    (b"", "not XML"),
    (b"<annotations/>", "its root is <annotations>"),
    (BOMB.encode(), "a DOCTYPE or an ENTITY"),
    (BOMB.encode("utf-16"), "a DOCTYPE or an ENTITY"),
    (b'<?xml version="1.0" encoding="klingon"?><annotation/>', "declares the encoding"),
    (b'<?xml version="1.0" encoding="utf-7"?><annotation/>', "declares the encoding"),
    (b"<annotation>\xff</annotation>", "not UTF-8; as cp1252 it has"),
    (b"<annotation>" + b" " * 16_000_000 + b"</annotation>", "more than 16,000,000 bytes"),
]


def test_a_file_that_cannot_be_read_is_one_annotation_and_costs_its_image(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(len(FILES))]
    root = beside(tmp_path / "voc")
    draw(root, {name: [] for name in names})
    for name, (data, _) in zip(names, FILES, strict=True):
        put(root / f"{name}.xml", data)
    source = read(root)
    with pytest.raises(TooManyRejectedError, match="nothing was written"):
        converted(source, tmp_path / "out")
    report, found = converted(source, tmp_path / "out", max_bad={"images": len(FILES), "objects": len(FILES)})
    assert stems(found) == expected()
    account = report.account
    assert (account.read, account.written) == (6 + len(FILES), 6)
    for name, one, (_, why) in zip(names, account.left_out, FILES, strict=True):
        assert (one.key, one.code) == (f"{name}.xml".encode(), AnnotationCode.LINE.value)
        assert why in one.reason
    assert [noted.key for noted in report.rejected] == [f"{name}.png".encode() for name in names]
    assert {noted.what for noted in report.rejected} == {"E_NO_LABEL"}


def test_an_image_that_is_not_there_is_named_and_its_objects_are_listed(tmp_path: Path) -> None:
    root = devkit(tmp_path / "voc")
    (root / "JPEGImages" / "a.png").unlink()
    put(root / "ImageSets" / "Main" / "val.txt", "d\ngone\n")
    report, found = converted(read(root), tmp_path / "out", max_bad=2)
    assert sorted(found) == ["b.png", "c.png", "d.png"]
    assert [(noted.key, noted.what) for noted in report.rejected] == [(b"a.png", "E_MISSING"), (b"gone", "E_MISSING")]
    assert [one.code for one in report.account.left_out] == ["E_IMAGE", "E_IMAGE"]
    assert (report.account.read, report.account.written) == (6, 4)


def test_a_file_called_otherwise_is_of_the_image_that_it_names(tmp_path: Path) -> None:
    root = beside(tmp_path / "voc", {"a": SCENES["a"], "b": SCENES["b"]})
    (root / "a.xml").rename(root / "a (1).xml")
    put(root / "other.xml", xml(SCENES["d"], "b.png"))  # that one has an XML file of its own
    report, found = converted(read(root), tmp_path / "out", max_bad=1)
    assert stems(found) == expected({"a": SCENES["a"], "b": SCENES["b"]})
    assert "another name, given by <filename>: 1 (a (1).xml)" in " ".join(report.notes)
    assert [noted.key for noted in report.rejected] == [b"other"]


def test_two_images_of_one_name_are_refused(tmp_path: Path) -> None:
    root = beside(tmp_path / "voc")
    put(root / "a.jpg", image_file())
    with pytest.raises(UsageError, match=r"a\.xml: it may belong to a\.jpg, a\.png"):
        read(root)
    assert len(read(root, NONE, exclude="*.jpg")) == 4


def test_lists_of_splits(tmp_path: Path) -> None:
    root = devkit(tmp_path / "voc")
    lists = root / "ImageSets" / "Main"
    put(lists / "train.txt", "a 1\nb.png\n")
    put(lists / "trainval.txt", "")
    source = read(root)
    assert {sample.key: sample.split for sample in source} == {
        b"a.png": "train", b"b.png": "train", b"d.png": "validation",
    }  # fmt: skip
    assert "images in no list of a split: 1 (c.png)" in " ".join(info_of(source).findings.notes)
    put(lists / "val.txt", "d\na\n")
    with pytest.raises(LabelFileError, match=r"val.txt:2: 'a' is already in the split train \(train.txt:1\)"):
        read(root)
    for name in ("train.txt", "val.txt"):
        (lists / name).unlink()
    put(lists / "trainval.txt", "a\nb\nd\n")
    assert {sample.split for sample in read(root)} == {"train"}
    (lists / "trainval.txt").rename(lists / "default.txt")
    assert {sample.split for sample in read(root)} == {None}


def test_an_image_of_a_list_without_a_file_has_no_objects(tmp_path: Path) -> None:
    root = devkit(tmp_path / "voc")
    (root / "Annotations" / "c.xml").unlink()
    source = read(root)
    assert len(source) == 4
    assert "images without an XML file, treated as images without objects: 1 (c.png)" in info_of(source).findings.notes


def test_patterns_are_of_images(tmp_path: Path) -> None:
    root = beside(tmp_path / "voc")
    source = read(root, NONE, include="[ab].png", exclude="nothing")
    assert [sample.key for sample in source] == [b"a.png", b"b.png"]
    notes = info_of(source).findings.notes
    assert "images left out by include and exclude: 2 (c.png, d.png)" in notes
    assert "nothing matched the exclude pattern 'nothing'" in notes
    with pytest.raises(UsageError, match="no matching image"):
        read(root, NONE, exclude="*.png")


@pytest.mark.long
def test_the_size_tells_which_image_was_annotated(tmp_path: Path) -> None:
    box: Objects = [("dog", (0, 0, 20, 10))]
    for name, size in (("stored", (60, 40)), ("upright", (40, 60))):
        root = tmp_path / name
        put(root / "a.png", image_file(orientation=6))
        put(root / "a.xml", xml(box, size=size))
        _, found = converted(read(root), tmp_path / f"{name}.out")
        assert [found["a.png"][key][0] for key in BOX] == pytest.approx(
            [0.75, 0, 1, 1 / 3] if name == "stored" else [0, 0, 0.5, 1 / 6]
        )
    put(tmp_path / "none" / "a.png", image_file(orientation=6))
    put(tmp_path / "none" / "a.xml", xml(box, size=None))
    with pytest.raises(TooManyRejectedError, match="E_FRAME"):
        converted(read(tmp_path / "none"), tmp_path / "none.out")
    options = AnnotationOptions(boxes_on="upright")
    _, found = converted(read(tmp_path / "none", options), tmp_path / "said.out")
    assert found["a.png"][XMAX] == [0.5]


@pytest.mark.parametrize("tool", ["voc", "coco", "labelme"])
@pytest.mark.parametrize("size", [(60, 40), (40, 60)])
def test_boxes_on_decides_whatever_size_a_file_states(tmp_path: Path, tool: str, size: tuple[int, int]) -> None:
    put(tmp_path / "a.png", image_file(orientation=6))
    if tool == "voc":
        put(tmp_path / "a.xml", xml([("dog", (0, 0, 20, 10))], size=size))
    elif tool == "coco":
        image = {"id": 1, "file_name": "a.png", "width": size[0], "height": size[1]}
        one = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 20, 10], "area": 200, "iscrowd": 0}
        document = {"images": [image], "annotations": [one], "categories": [{"id": 1, "name": "dog"}]}
        put(tmp_path / "_annotations.coco.json", json.dumps(document))
    else:
        shape = {"label": "dog", "points": [[0, 0], [20, 10]], "shape_type": "rectangle"}
        sides = {"imageWidth": size[0], "imageHeight": size[1]}
        document = {"version": "5.4.1", "flags": {}, "shapes": [shape], "imagePath": "a.png", **sides}
        put(tmp_path / "a.json", json.dumps(document))
    for boxes_on, box in (("upright", [0, 0, 0.5, 1 / 6]), ("stored", [0.75, 0, 1, 1 / 3])):
        source = open_source(tmp_path, options=AnnotationOptions(boxes_on=boxes_on))  # type: ignore[arg-type]
        _, found = converted(source, tmp_path / f"{boxes_on}.out")
        assert [found["a.png"][key][0] for key in BOX] == pytest.approx(box)


def test_masks_are_not_to_be_had(tmp_path: Path) -> None:
    root = str(beside(tmp_path / "voc"))
    with pytest.raises(UsageError, match="got the task 'masks', expected boxes"):
        read(root, AnnotationOptions(tasks=frozenset({"masks"})))


def test_links_that_leave_the_root_are_not_followed(tmp_path: Path) -> None:
    root = beside(tmp_path / "voc", {"a": SCENES["a"]})
    put(tmp_path / "secret.xml", xml(SCENES["d"], "b.png"))
    put(tmp_path / "secret.png", image_file())
    (root / "b.png").symlink_to(tmp_path / "secret.png")
    (root / "b.xml").symlink_to(tmp_path / "secret.xml")
    source = read(root)
    assert [sample.key for sample in source] == [b"a.png"]
    assert [(one.key, one.code) for one in info_of(source).findings.rejected] == [(b"b.png", "E_PATH_ESCAPE")]
