"""What annotation tools save in forms of their own."""

import base64
from typing import Any

from tests.layouts.documents import SCENES, A, B
from tests.layouts.files import Files, picture
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Annotation tools")
BOXES = Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B})


def corners(box: tuple[int, int, int, int]) -> list[list[float]]:
    """Two corners of a box."""
    left, top, right, bottom = box
    return [[float(left), float(top)], [float(right), float(bottom)]]


def labelme(name: str, **more: Any) -> dict[str, Any]:
    """A file of LabelMe, rectangles."""
    shapes = [
        {"label": label, "points": corners(box), "group_id": None, "shape_type": "rectangle", "flags": {}}
        for label, box in SCENES[name]
    ]
    size = {"imageHeight": 40, "imageWidth": 60}
    return {
        "version": "5.4.1",
        "flags": {},
        "shapes": shapes,
        "imagePath": f"{name}.jpg",
        "imageData": None,
        **size,
        **more,
    }


@TOPIC.layout(
    "LabelMe: `a.json` beside `a.jpg`, rectangles",
    "convert photos out",
    BOXES,
    today="not read; the message is about file names",
)
def labelme_rectangles(to: Files) -> None:
    for name in "ab":
        to.images(f"photos/{name}.jpg")
        to.put(f"photos/{name}.json", labelme(name))


@TOPIC.layout(
    "LabelMe: outlines",
    "convert photos out --task boxes,masks",
    Gives("train 1", of="cat", objects=1, boxes={"a.jpg": "cat 6 4 36 24"}, masks={"a.jpg": [600]}),
    today="not read; the message is about file names",
)
def labelme_polygons(to: Files) -> None:
    to.images("photos/a.jpg")
    outline = [[6.0, 4.0], [36.0, 4.0], [36.0, 24.0], [6.0, 24.0]]
    shape = {"label": "cat", "points": outline, "group_id": None, "shape_type": "polygon", "flags": {}}
    to.put("photos/a.json", labelme("a", shapes=[shape]))


@TOPIC.layout(
    "LabelMe: the images inside the JSON (`imageData`)",
    "convert photos out",
    Gives("train 1", of="cat dog", objects=2),
    today="not read; the message says there is no image",
)
def labelme_inside(to: Files) -> None:
    to.put("photos/a.json", labelme("a", imageData=base64.b64encode(picture("a")).decode()))


@TOPIC.layout(
    "LabelMe: JSON and images in two folders",
    "convert json out --images photos",
    BOXES,
    today="not read; the message says that a folder of JSON is one of images",
)
def labelme_two_folders(to: Files) -> None:
    for name in "ab":
        to.images(f"photos/{name}.jpg")
        to.put(f"json/{name}.json", labelme(name, imagePath=f"..\\photos\\{name}.jpg"))


def cvat(images: str, prefix: str = "") -> str:
    """CVAT's "for images 1.1"."""
    found = []
    for number, name in enumerate(images.split()):
        boxes = "".join(
            f'<box label="{label}" source="manual" occluded="0" xtl="{left}.00" ytl="{top}.00" xbr="{right}.00" '
            f'ybr="{bottom}.00" z_order="0"></box>'
            for label, (left, top, right, bottom) in SCENES[name]
        )
        found.append(f'<image id="{number}" name="{prefix}{name}.jpg" width="60" height="40">{boxes}</image>')
    labels = "".join(f"<label><name>{name}</name><color>#ff0000</color></label>" for name in ("dog", "cat"))
    meta = f"<meta><job><id>1</id><labels>{labels}</labels></job></meta>"
    document = f"<annotations><version>1.1</version>{meta}{''.join(found)}</annotations>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{document}'


# CVAT lists its labels in the order in which they were made.
@TOPIC.layout(
    "CVAT for images 1.1: `annotations.xml`, `images/`",
    "convert cvat out",
    Gives("train 2", of={"cat", "dog"}, objects=3, boxes={"a.jpg": A, "b.jpg": B}),
    today="the class `images`, in silence",
)
def cvat_images(to: Files) -> None:
    to.images("cvat/images/{a,b}.jpg")
    to.put("cvat/annotations.xml", cvat("a b"))


@TOPIC.layout(
    "CVAT for images 1.1, the file alone",
    "convert annotations.xml out --images photos",
    Gives("train 2", of={"cat", "dog"}, objects=3, boxes={"a.jpg": A, "b.jpg": B}),
    today="not read; the message is about extensions of label files",
)
def cvat_file(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("annotations.xml", cvat("a b"))


@TOPIC.layout(
    "CVAT for images 1.1 of a project: subsets in `images/train`, `images/val`",
    "convert cvat out",
    Gives(
        "train 1, validation 1",
        of={"cat", "dog"},
        objects=3,
        boxes={"a.jpg": A, "b.jpg": B},
        where={"b.jpg": "validation"},
    ),
    today="not read; the message is about class folders",
)
def cvat_project(to: Files) -> None:
    to.images("cvat/images/train/a.jpg", "cvat/images/val/b.jpg")
    text = cvat("a b")
    for name, subset in (("a", "train"), ("b", "val")):
        text = text.replace(f'name="{name}.jpg"', f'name="{name}.jpg" subset="{subset}"')
    to.put("cvat/annotations.xml", text)


def label_studio(names: str = "a b") -> list[dict[str, Any]]:
    """An export as JSON: percent of the image."""
    tasks = []
    for number, name in enumerate(names.split(), 1):
        result = [
            {
                "id": f"r{number}",
                "type": "rectanglelabels",
                "from_name": "label",
                "to_name": "image",
                "original_width": 60,
                "original_height": 40,
                "image_rotation": 0,
                "value": {
                    "x": left / 60 * 100,
                    "y": top / 40 * 100,
                    "width": (right - left) / 60 * 100,
                    "height": (bottom - top) / 40 * 100,
                    "rotation": 0,
                    "rectanglelabels": [label],
                },
            }
            for label, (left, top, right, bottom) in SCENES[name]
        ]
        upload = f"/data/upload/1/5f3a9c21-{name}.jpg"
        tasks.append(
            {
                "id": number,
                "annotations": [{"id": number, "result": result, "was_cancelled": False}],
                "file_upload": f"5f3a9c21-{name}.jpg",
                "data": {"image": upload},
                "project": 1,
            }
        )
    return tasks


@TOPIC.layout(
    "Label Studio's JSON, and its uploads",
    "convert export out",
    Gives("train 2", of="cat dog", objects=3, boxes={"5f3a9c21-a.jpg": A, "5f3a9c21-b.jpg": B}),
    today="the class `images`, in silence",
)
def label_studio_json(to: Files) -> None:
    to.images("export/images/5f3a9c21-{a,b}.jpg")
    to.put("export/project-1-at-2026-01-01.json", label_studio())


@TOPIC.layout(
    "Label Studio's JSON alone, images by their own names",
    "convert project-1.json out --images photos",
    BOXES,
    today="not read; the message is about extensions of label files",
)
def label_studio_file(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("project-1.json", label_studio())


@TOPIC.layout(
    "Label Studio's JSON-MIN of a choice for each image",
    "convert project.json out --images photos",
    Gives("train 2", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
    today="not read; the message is about extensions of label files",
)
def label_studio_min(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    rows = [("a", "dog"), ("b", "cat")]
    to.put(
        "project.json",
        [
            {"id": n, "image": f"/data/upload/1/5f3a9c21-{name}.jpg", "choice": label, "annotator": 1}
            for n, (name, label) in enumerate(rows)
        ],
    )


@TOPIC.layout(
    "Label Studio's CSV of boxes: JSON in a cell",
    "convert project.csv out --images photos",
    BOXES,
    today="not read; paths of uploads are refused",
)
def label_studio_csv(to: Files) -> None:
    import csv
    import io
    import json

    to.images("photos/{a,b}.jpg")
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["image", "id", "label", "annotator"])
    for number, task in enumerate(label_studio(), 1):
        found = [
            {**one["value"], "original_width": 60, "original_height": 40} for one in task["annotations"][0]["result"]
        ]
        rows.writerow([task["data"]["image"], number, json.dumps(found), 1])
    to.put("project.csv", out.getvalue())


def via(names: str = "a b") -> dict[str, Any]:
    """Regions by image of the VGG Image Annotator 2."""
    found = {}
    for name in names.split():
        regions = [
            {
                "shape_attributes": {
                    "name": "rect",
                    "x": left,
                    "y": top,
                    "width": right - left,
                    "height": bottom - top,
                },
                "region_attributes": {"class": label},
            }
            for label, (left, top, right, bottom) in SCENES[name]
        ]
        size = len(picture(f"photos/{name}.jpg"))
        found[f"{name}.jpg{size}"] = {
            "filename": f"{name}.jpg",
            "size": size,
            "regions": regions,
            "file_attributes": {},
        }
    return found


@TOPIC.layout(
    "VIA: `via_region_data.json` beside the images",
    "convert photos out",
    BOXES,
    today="not read; the message is about file names",
)
def via_json(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/via_region_data.json", via())


@TOPIC.layout(
    "VIA: a saved project",
    "convert via_project.json out --images photos",
    BOXES,
    today="not read; the message is about extensions of label files",
)
def via_project(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("via_project.json", {"_via_settings": {}, "_via_img_metadata": via(), "_via_attributes": {}})


@TOPIC.layout(
    "VIA: polygons in `train/` and `val/` (the balloons of Mask R-CNN)",
    "convert balloon out --task boxes,masks",
    Gives("train 1, validation 1", objects=2, boxes={"a.jpg": "6 4 36 24"}, masks={"a.jpg": [600]}),
    today="not read; the message is about class folders",
)
def via_balloon(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"balloon/{split}/{name}.jpg")
        outline = {"name": "polygon", "all_points_x": [6, 36, 36, 6], "all_points_y": [4, 4, 24, 24]}
        regions = {"0": {"shape_attributes": outline, "region_attributes": {}}}
        entry = {"filename": f"{name}.jpg", "size": 1115004, "regions": regions, "fileref": "", "base64_img_data": ""}
        to.put(f"balloon/{split}/via_region_data.json", {f"{name}.jpg1115004": {**entry, "file_attributes": {}}})


@TOPIC.layout(
    "VIA's CSV: `region_shape_attributes`",
    "convert via_export_csv.csv out --images photos",
    BOXES,
    today="not read; the message asks for a label column",
)
def via_csv(to: Files) -> None:
    import csv
    import io
    import json

    to.images("photos/{a,b}.jpg")
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(
        [
            "filename",
            "file_size",
            "file_attributes",
            "region_count",
            "region_id",
            "region_shape_attributes",
            "region_attributes",
        ]
    )
    for entry in via().values():
        for number, region in enumerate(entry["regions"]):
            shape, attributes = (json.dumps(region[f"{what}_attributes"]) for what in ("shape", "region"))
            rows.writerow([entry["filename"], entry["size"], "{}", len(entry["regions"]), number, shape, attributes])
    to.put("via_export_csv.csv", out.getvalue())


def createml(names: str = "a b") -> list[dict[str, Any]]:
    """Apple's Create ML: centres and sizes in pixels."""
    return [
        {
            "image": f"{name}.jpg",
            "annotations": [
                {
                    "label": label,
                    "coordinates": {
                        "x": (left + right) / 2,
                        "y": (top + bottom) / 2,
                        "width": right - left,
                        "height": bottom - top,
                    },
                }
                for label, (left, top, right, bottom) in SCENES[name]
            ],
        }
        for name in names.split()
    ]


@TOPIC.layout(
    "Create ML: `annotations.json` beside the images",
    "convert photos out",
    BOXES,
    today="not read; the message is about file names",
)
def createml_folder(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/annotations.json", createml())


@TOPIC.layout(
    "Roboflow's Create ML: `train/_annotations.createml.json`",
    "convert roboflow out",
    Gives("train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
    today="not read; the message is about class folders",
)
def createml_roboflow(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.images(f"roboflow/{split}/{name}.jpg")
        to.put(f"roboflow/{split}/_annotations.createml.json", createml(name))


@TOPIC.layout(
    "Supervisely: `meta.json`, `ds0/ann/a.jpg.json`, `ds0/img/a.jpg`",
    "convert project out",
    BOXES,
    today="not read; the message is about class folders",
)
def supervisely(to: Files) -> None:
    classes = [{"title": name, "shape": "rectangle", "color": "#0F138A"} for name in ("cat", "dog")]
    to.put("project/meta.json", {"classes": classes, "tags": []})
    for name in "ab":
        to.images(f"project/ds0/img/{name}.jpg")
        objects = [
            {
                "classTitle": label,
                "geometryType": "rectangle",
                "tags": [],
                "points": {"exterior": [[int(v) for v in point] for point in corners(box)], "interior": []},
            }
            for label, box in SCENES[name]
        ]
        to.put(
            f"project/ds0/ann/{name}.jpg.json",
            {"description": "", "tags": [], "size": {"height": 40, "width": 60}, "objects": objects},
        )


@TOPIC.layout(
    "FiftyOneDataset: `metadata.json`, `samples.json`, `data/`",
    "convert export out",
    Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
    today="the class `data`, in silence",
)
def fiftyone_dataset(to: Files) -> None:
    samples = []
    for name in "ab":
        to.images(f"export/data/{name}.jpg")
        detections = [
            {
                "_cls": "Detection",
                "label": label,
                "tags": [],
                "attributes": {},
                "bounding_box": [left / 60, top / 40, (right - left) / 60, (bottom - top) / 40],
            }
            for label, (left, top, right, bottom) in SCENES[name]
        ]
        samples.append(
            {
                "filepath": f"data/{name}.jpg",
                "tags": [],
                "_media_type": "image",
                "ground_truth": {"_cls": "Detections", "detections": detections},
            }
        )
    to.put("export/metadata.json", {"name": "mine", "version": "1.0.0", "sample_fields": [], "info": {}})
    to.put("export/samples.json", {"samples": samples})


@TOPIC.layout(
    "FiftyOneImageDetectionDataset: `labels.json` with `classes`, `labels`, `data/`",
    "convert export out",
    BOXES,
    today="the class `data`, in silence",
)
def fiftyone_detections(to: Files) -> None:
    labels = {}
    for name in "ab":
        to.images(f"export/data/{name}.jpg")
        labels[name] = [
            {
                "label": ("cat", "dog").index(label),
                "bounding_box": [left / 60, top / 40, (right - left) / 60, (bottom - top) / 40],
            }
            for label, (left, top, right, bottom) in SCENES[name]
        ]
    to.put("export/labels.json", {"classes": ["cat", "dog"], "labels": labels})


@TOPIC.layout(
    "FiftyOneImageClassificationDataset: `labels.json`, `data/`",
    "convert export out",
    Gives("train 2", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
    today="the class `data`, in silence",
)
def fiftyone_classes(to: Files) -> None:
    to.images("export/data/{a,b}.jpg")
    to.put("export/labels.json", {"classes": ["cat", "dog"], "labels": {"a": 1, "b": 0}})


def kitti(name: str) -> str:
    """A label file of KITTI: 15 columns."""
    lines = [
        f"{label.title()} 0.00 0 -1.58 {left}.00 {top}.00 {right}.00 {bottom}.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59"
        for label, (left, top, right, bottom) in SCENES[name]
    ]
    return "\n".join([*lines, "DontCare -1 -1 -10 50.00 1.00 59.00 9.00 -1 -1 -1 -1000 -1000 -1000 -10"])


@TOPIC.layout(
    "KITTI: `training/image_2`, `training/label_2`, `testing/image_2`",
    "convert kitti out",
    Gives("train 2, test 1", of={"Cat", "Dog", "DontCare"}, objects=5),
    today="the class `image_2`, in silence",
)
def kitti_object(to: Files) -> None:
    to.images("kitti/training/image_2/{a,b}.png", "kitti/testing/image_2/c.png")
    for name in "ab":
        to.put(f"kitti/training/label_2/{name}.txt", kitti(name))


@TOPIC.layout(
    "KITTI of FiftyOne: `data/`, `labels/`",
    "convert kitti out",
    Gives("train 2", of={"Cat", "Dog", "DontCare"}, objects=5),
    today="the class `data`, in silence",
)
def kitti_fiftyone(to: Files) -> None:
    to.images("kitti/data/{a,b}.png")
    for name in "ab":
        to.put(f"kitti/labels/{name}.txt", kitti(name))


@TOPIC.layout(
    "BDD100K: `images/100k/train`, `labels/det_20/det_train.json`",
    "convert bdd100k out",
    Gives("train 1, validation 1"),
    says=(".json", "--unlabelled"),
    then="convert bdd100k out --unlabelled",
    today="the advised folder gives the classes train and val",
)
def bdd100k(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"bdd100k/images/100k/{split}/{name}.jpg")
        found = [
            {"id": str(n), "category": label, "box2d": {"x1": left, "y1": top, "x2": right, "y2": bottom}}
            for n, (label, (left, top, right, bottom)) in enumerate(SCENES[name])
        ]
        to.put(f"bdd100k/labels/det_20/det_{split}.json", [{"name": f"{name}.jpg", "attributes": {}, "labels": found}])


@TOPIC.layout(
    "Datumaro: `annotations/default.json`, `images/default/`",
    "convert datumaro out",
    Gives("train 2"),
    says=("default.json", "--unlabelled"),
    then="convert datumaro out --unlabelled",
    today="taken for COCO, and the advised ways lead nowhere",
)
def datumaro(to: Files) -> None:
    items = []
    for name in "ab":
        to.images(f"datumaro/images/default/{name}.jpg")
        found = [
            {
                "id": n,
                "type": "bbox",
                "label_id": ("cat", "dog").index(label),
                "attributes": {},
                "bbox": [left, top, right - left, bottom - top],
            }
            for n, (label, (left, top, right, bottom)) in enumerate(SCENES[name])
        ]
        items.append({"id": name, "annotations": found, "image": {"path": f"{name}.jpg", "size": [40, 60]}})
    labels = [{"name": name, "parent": "", "attributes": []} for name in ("cat", "dog")]
    categories = {"label": {"labels": labels, "attributes": []}}
    to.put("datumaro/annotations/default.json", {"info": {}, "categories": categories, "items": items})
