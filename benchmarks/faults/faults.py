"""Small datasets of which one thing is wrong, or looks so and is right: COCO, YOLO and Pascal VOC.

Each has three images of 100 x 80 pixels, `scene_a` and `scene_b` with two objects each, `scene_c` without. A fault is a
function that changes the files; most add an object to `scene_b`. What is said of it is looked for by the names below.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

IMAGE, IMAGE_ID, ANNOTATION_ID = "scene_b", 4711, 90210
WIDTH, HEIGHT = 100, 80
BOX = (30, 20, 30, 20)  # left, top, width, height, of the object that most faults add
OBJECTS, IMAGES = 4, 3
_BOXES = ((10, 10, 20, 20), (50, 40, 30, 30))  # of scene_a and of scene_b


@dataclass(frozen=True)
class Fault:
    """`objects`, `images`: in the files, with what is at fault. `sound`: it is right, and belongs into the dataset.

    `named`: any of it in a message says which one is meant. `masks`: it is of masks, and is read with
    them.
    """

    name: str
    format: str
    make: Callable[[Path], None]
    objects: int
    images: int
    sound: bool
    named: tuple[str, ...] = ()
    masks: bool = False


FAULTS: list[Fault] = []


def _fault(
    format: str,
    name: str,
    *,
    objects: int = OBJECTS + 1,
    images: int = IMAGES,
    sound: bool = False,
    named: tuple[str, ...] = (),
    masks: bool = False,
) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def add(make: Callable[[Path], None]) -> Callable[[Path], None]:
        known = (IMAGE, str(IMAGE_ID), str(ANNOTATION_ID), *named)
        FAULTS.append(Fault(name, format, make, objects, images, sound, known, masks))
        return make

    return add


def make_dataset(fault: Fault, root: Path) -> None:
    """The dataset of a fault, in `root`."""
    {"COCO": _make_coco, "YOLO": _make_yolo, "VOC": _make_voc}[fault.format](root)
    fault.make(root)


def _images(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(("scene_a", IMAGE, "scene_c")):
        Image.new("RGB", (WIDTH, HEIGHT), (40 * number, 90, 120)).save(folder / f"{name}.jpg")


# COCO ----------------------------------------------------------------------------------------------------------------

JSON = "annotations/instances_train.json"


def _annotation(number: int, image: int, box: tuple[float, ...] = BOX, **more: Any) -> dict[str, Any]:
    left, top, width, height = box
    corners = [left, top, left + width, top, left + width, top + height, left, top + height]
    found = {"id": number, "image_id": image, "category_id": 3, "bbox": list(box), "area": width * height}
    return found | {"iscrowd": 0, "segmentation": [corners]} | more


def _make_coco(root: Path) -> None:
    _images(root / "images/train")
    (root / "annotations").mkdir()
    names = (("scene_a", 12), (IMAGE, IMAGE_ID), ("scene_c", 99))
    images = [{"id": n, "file_name": f"{name}.jpg", "width": WIDTH, "height": HEIGHT} for name, n in names]
    objects = [
        _annotation(10 * image + i, image, box, category_id=(3, 7)[i])
        for image in (12, IMAGE_ID)
        for i, box in enumerate(_BOXES)
    ]
    categories = [{"id": 3, "name": "cat", "supercategory": "x"}, {"id": 7, "name": "dog", "supercategory": "x"}]
    data = {"info": {}, "licenses": [], "images": images, "annotations": objects, "categories": categories}
    (root / JSON).write_text(json.dumps(data))


def _coco(name: str, **more: Any) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    """A fault whose function changes the JSON value."""

    def add(change: Callable[[dict[str, Any]], None]) -> None:
        def make(root: Path) -> None:
            data = json.loads((root / JSON).read_text())
            change(data)
            (root / JSON).write_text(json.dumps(data))

        _fault("COCO", name, **more)(make)

    return add


def _one_more(name: str, *, without: str = "", sound: bool = False, masks: bool = False, **values: Any) -> None:
    """A fault of one more annotation of scene_b, whose `values` are those."""

    def change(data: dict[str, Any]) -> None:
        found = _annotation(ANNOTATION_ID, IMAGE_ID) | values
        found.pop(without, None)
        data["annotations"].append(found)

    _coco(name, sound=sound, masks=masks)(change)


def _of_box(name: str, *box: float, sound: bool = False) -> None:
    found = _annotation(ANNOTATION_ID, IMAGE_ID, box)
    _one_more(name, sound=sound, **{key: found[key] for key in ("bbox", "area", "segmentation")})


_of_box("a box extends 30 pixels beyond the image", 90, 20, 40, 20)
_of_box("a box extends 0.002 pixels beyond the image", 60.002, 20, 40, 20, sound=True)
_of_box("a box lies outside the image", 300, 20, 40, 20)
_of_box("a box starts 20 pixels left of the image", -20, 20, 40, 20)
_of_box("a box has width 0", 30, 20, 0, 20)
_of_box("a box has a negative width", 60, 20, -30, 20)
_one_more("`bbox` is `[]`", bbox=[])
_one_more("no `bbox`", without="bbox")
_one_more("`bbox` has 3 numbers", bbox=[30, 20, 30])
_one_more("`bbox` contains NaN", bbox=[30, float("nan"), 30, 20])
_one_more("`bbox` contains Infinity", bbox=[30, 20, float("inf"), 20])
_one_more("`bbox` contains strings", bbox=["30", "20", "30", "20"])
_one_more("`category_id` matches no category", category_id=5)
_one_more("`category_id` is null", category_id=None)
_one_more("no `category_id`", without="category_id")
_one_more("`image_id` matches no image", image_id=31337)
_one_more('`image_id` is a string, `"4711"`', image_id="4711")
_one_more("no `iscrowd`", without="iscrowd", sound=True)
_one_more("`iscrowd` is 5", iscrowd=5)
_one_more("`segmentation` is `[]`", segmentation=[], sound=True)
_one_more("a polygon of 2 points", masks=True, segmentation=[[30, 20, 60, 40]])
_one_more("a polygon of 7 numbers", masks=True, segmentation=[[30, 20, 60, 20, 60, 40, 30]])
_one_more(
    "a crowd with an RLE mask",
    masks=True,
    iscrowd=1,
    sound=True,
    segmentation={"size": [80, 100], "counts": [2420, 20, 5560]},
)
_one_more(
    "an RLE mask with the wrong size",
    masks=True,
    iscrowd=1,
    segmentation={"size": [100, 80], "counts": [2420, 20, 5560]},
)
_one_more("an RLE mask that ends early", masks=True, iscrowd=1, segmentation={"size": [80, 100], "counts": [2420, 20]})
_one_more("`area` is negative", area=-600)


@_coco("an annotation appears twice with the same `id`", objects=OBJECTS + 2)
def _twice(data: dict[str, Any]) -> None:
    data["annotations"] += [_annotation(ANNOTATION_ID, IMAGE_ID)] * 2


@_coco("two different annotations share an `id`", objects=OBJECTS + 2)
def _same_id(data: dict[str, Any]) -> None:
    data["annotations"] += [_annotation(ANNOTATION_ID, IMAGE_ID), _annotation(ANNOTATION_ID, IMAGE_ID, (5, 5, 9, 9))]


@_coco("two images share an `id`", objects=OBJECTS)
def _same_image_id(data: dict[str, Any]) -> None:
    data["images"][2]["id"] = IMAGE_ID


@_coco("one file under two image ids", objects=OBJECTS + 1, images=IMAGES + 1, named=("99001",))
def _same_file(data: dict[str, Any]) -> None:
    data["images"].append(data["images"][1] | {"id": 99001})
    data["annotations"].append(_annotation(ANNOTATION_ID, 99001))


@_coco("two categories share an `id`", objects=OBJECTS, named=("bird",))
def _same_category(data: dict[str, Any]) -> None:
    data["categories"].append({"id": 3, "name": "bird", "supercategory": "x"})


@_coco("two categories share a name", objects=OBJECTS + 1, named=("5500", "'cat'", '"cat"'))
def _same_name(data: dict[str, Any]) -> None:
    data["categories"].append({"id": 5500, "name": "cat", "supercategory": "x"})
    data["annotations"].append(_annotation(ANNOTATION_ID, IMAGE_ID, category_id=5500))


@_coco("a category without objects, id 0", objects=OBJECTS, sound=True)
def _no_objects(data: dict[str, Any]) -> None:
    data["categories"].insert(0, {"id": 0, "name": "things", "supercategory": "none"})


@_coco("`width` and `height` do not match the image", objects=OBJECTS)
def _other_size(data: dict[str, Any]) -> None:
    data["images"][1] |= {"width": 640, "height": 480}


@_coco("an image is missing", objects=OBJECTS + 1, named=("scene_d", "99001"))
def _no_image(data: dict[str, Any]) -> None:
    data["images"].append({"id": 99001, "file_name": "scene_d.jpg", "width": WIDTH, "height": HEIGHT})
    data["annotations"].append(_annotation(ANNOTATION_ID, 99001))


@_coco("`file_name` points outside the folder: `../../scene_d.jpg`", objects=OBJECTS + 1, named=("scene_d",))
def _outside(data: dict[str, Any]) -> None:
    data["images"].append({"id": 99001, "file_name": "../../scene_d.jpg", "width": WIDTH, "height": HEIGHT})
    data["annotations"].append(_annotation(ANNOTATION_ID, 99001))


@_fault("COCO", "an image file is truncated", objects=OBJECTS)
def _cut_image(root: Path) -> None:
    path = root / f"images/train/{IMAGE}.jpg"
    path.write_bytes(path.read_bytes()[:400])


_FILE = ("instances_train.json",)


@_fault("COCO", "the JSON is truncated", objects=OBJECTS, named=_FILE)
def _cut_json(root: Path) -> None:
    text = (root / JSON).read_text()
    (root / JSON).write_text(text[: len(text) // 2])


@_fault("COCO", "the JSON starts with a byte order mark", objects=OBJECTS, sound=True, named=(*_FILE, "BOM"))
def _bom(root: Path) -> None:
    (root / JSON).write_bytes(b"\xef\xbb\xbf" + (root / JSON).read_bytes())


@_fault("COCO", "the JSON is a list of results", objects=OBJECTS, named=_FILE)
def _results(root: Path) -> None:
    boxes = [{"image_id": IMAGE_ID, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}]
    (root / JSON).write_text(json.dumps(boxes))


# YOLO ----------------------------------------------------------------------------------------------------------------

LINE = "0 0.45 0.375 0.3 0.25"  # a sound one: class, middle, sides


def _make_yolo(root: Path) -> None:
    _images(root / "images/train")
    (root / "labels/train").mkdir(parents=True)
    (root / "data.yaml").write_text("path: .\ntrain: images/train\nnc: 2\nnames: [cat, dog]\n")
    lines = [
        f"{i} {(x + w / 2) / WIDTH} {(y + h / 2) / HEIGHT} {w / WIDTH} {h / HEIGHT}\n"
        for i, (x, y, w, h) in enumerate(_BOXES)
    ]
    for name in ("scene_a", IMAGE):
        (root / f"labels/train/{name}.txt").write_text("".join(lines))
    (root / "labels/train/scene_c.txt").write_text("")


def _line(name: str, *lines: str, sound: bool = False) -> None:
    """A fault of more lines in the labels of scene_b."""

    def make(root: Path) -> None:
        with open(root / f"labels/train/{IMAGE}.txt", "a") as file:
            file.writelines(f"{line}\n" for line in lines)

    _fault("YOLO", name, objects=OBJECTS + len(lines), sound=sound)(make)


_line("the class number exceeds the number of names", "9 0.45 0.375 0.3 0.25")
_line("the class number is negative", "-1 0.45 0.375 0.3 0.25")
_line("the class number is 0.5", "0.5 0.45 0.375 0.3 0.25")
_line("the class is a name", "cat 0.45 0.375 0.3 0.25")
_line("a line of 4 numbers", "0 0.45 0.375 0.3")
_line("a line of 6 numbers", "0 0.45 0.375 0.3 0.25 0.9")
_line("a line contains NaN", "0 0.45 nan 0.3 0.25")
_line("a line contains text", "0 0.45 0.375 wide 0.25")
_line("coordinates are in pixels", "0 45 30 30 20")
_line("decimal commas", "0 0,45 0,375 0,3 0,25")
_line("the width is 0", "0 0.45 0.375 0 0.25")
_line("the width is negative", "0 0.45 0.375 -0.3 0.25")
_line("a box extends 10 % beyond the image", "0 0.95 0.375 0.3 0.25")
_line("a box extends 1e-7 beyond the image", "0 0.8500001 0.375 0.3 0.25", sound=True)
_line("a duplicate line", LINE, LINE)
_line("a polygon among boxes", "0 0.1 0.1 0.4 0.1 0.4 0.4 0.1 0.4")


@_fault("YOLO", "labels for a missing image", named=("scene_d",))
def _orphan(root: Path) -> None:
    (root / "labels/train/scene_d.txt").write_text(LINE + "\n")


@_fault("YOLO", "an image without a label file", objects=OBJECTS, sound=True)
def _no_file(root: Path) -> None:
    (root / "labels/train/scene_c.txt").unlink()


@_fault("YOLO", "labels in UTF-16", objects=OBJECTS)
def _utf16(root: Path) -> None:
    path = root / f"labels/train/{IMAGE}.txt"
    path.write_text(path.read_text(), encoding="utf-16")


@_fault("YOLO", "`nc` differs from the number of names", objects=OBJECTS, named=("data.yaml", "nc"))
def _nc(root: Path) -> None:
    path = root / "data.yaml"
    path.write_text(path.read_text().replace("nc: 2", "nc: 5"))


# Pascal VOC ----------------------------------------------------------------------------------------------------------


def _object(name: str = "cat", box: str = "<xmin>30</xmin><ymin>20</ymin><xmax>60</xmax><ymax>40</ymax>") -> str:
    return (
        f"<object><name>{name}</name><pose>Left</pose><truncated>0</truncated><difficult>0</difficult>"
        f"<bndbox>{box}</bndbox></object>"
    )


def _make_voc(root: Path) -> None:
    _images(root / "JPEGImages")
    for folder in ("Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True)
    (root / "ImageSets/Main/train.txt").write_text(f"scene_a\n{IMAGE}\nscene_c\n")
    boxes = [f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>" for x, y, w, h in _BOXES]
    objects = _object("cat", boxes[0]) + _object("dog", boxes[1])
    for name in ("scene_a", IMAGE, "scene_c"):
        (root / f"Annotations/{name}.xml").write_text(
            f"<annotation><folder>x</folder><filename>{name}.jpg</filename><size><width>{WIDTH}</width>"
            f"<height>{HEIGHT}</height><depth>3</depth></size><segmented>0</segmented>"
            f"{objects if name != 'scene_c' else ''}</annotation>"
        )


XML = f"Annotations/{IMAGE}.xml"


def _in_xml(name: str, old: str, new: str, *, objects: int = OBJECTS + 1, sound: bool = False) -> None:
    """A fault of a text that is another in the XML of scene_b."""

    def make(root: Path) -> None:
        text = (root / XML).read_text()
        assert old in text, old
        (root / XML).write_text(text.replace(old, new))

    _fault("VOC", name, objects=objects, sound=sound)(make)


def _added(name: str, added: str, *, sound: bool = False) -> None:
    _in_xml(name, "</annotation>", f"{added}</annotation>", sound=sound)


def _sides(left: object, top: object, right: object, bottom: object) -> str:
    return f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax>"


_added("xmax is below xmin", _object(box=_sides(60, 20, 30, 40)))
_added("xmin equals xmax", _object(box=_sides(30, 20, 30, 40)))
_added("a box extends 30 pixels beyond the image", _object(box=_sides(90, 20, 130, 40)))
_added("an object without `bndbox`", "<object><name>cat</name><difficult>0</difficult></object>")
_added("a `bndbox` without `ymax`", _object(box="<xmin>30</xmin><ymin>20</ymin><xmax>60</xmax>"))
_added("a coordinate is `abc`", _object(box=_sides("abc", 20, 60, 40)))
_added("a coordinate is `nan`", _object(box=_sides("nan", 20, 60, 40)))
_added("a coordinate is `30.5`", _object(box=_sides("30.5", 20, 60, 40)), sound=True)
_added(
    "an object without a name", f"<object><difficult>0</difficult><bndbox>{_sides(30, 20, 60, 40)}</bndbox></object>"
)
_added("an empty name", _object(name=""))
_added(
    "only a name and a box, as some tools write",
    f"<object><name>cat</name><bndbox>{_sides(30, 20, 60, 40)}</bndbox></object>",
    sound=True,
)
_added(
    "an object with a part that has its own box",
    _object().replace("</object>", f"<part><name>head</name><bndbox>{_sides(31, 21, 40, 30)}</bndbox></part></object>"),
    sound=True,
)
_in_xml("`size` does not match the image", "<width>100</width>", "<width>640</width>", objects=OBJECTS)
_in_xml(
    "`size` is 0 x 0",
    "<width>100</width><height>80</height>",
    "<width>0</width><height>0</height>",
    objects=OBJECTS,
    sound=True,
)
_in_xml("the file is truncated", "</bndbox></object></annotation>", "", objects=OBJECTS)
_in_xml(
    "a DOCTYPE with an entity",
    "<annotation>",
    '<!DOCTYPE annotation [<!ENTITY e "cat">]><annotation>',
    objects=OBJECTS,
)
_in_xml("`filename` without its extension", f"{IMAGE}.jpg", IMAGE, objects=OBJECTS, sound=True)


@_fault("VOC", "annotations for a missing image", objects=OBJECTS + 2, named=("scene_d",))
def _voc_orphan(root: Path) -> None:
    text = (root / XML).read_text().replace(IMAGE, "scene_d")
    (root / "Annotations/scene_d.xml").write_text(text)
    with open(root / "ImageSets/Main/train.txt", "a") as file:
        file.write("scene_d\n")
