"""Exports of tools and datasets in their own formats."""

import json
from typing import Any

from tests.layouts.annotation_tools import corners
from tests.layouts.documents import SCENES, A, B
from tests.layouts.files import Files, picture
from tests.layouts.layout import Gives, Topic

TOPIC = Topic("Exports in a tool's own format")
BOXES = Gives("train 2", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B})


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


@TOPIC.layout("VIA: `via_region_data.json` beside the images", "convert photos out", BOXES)
def via_json(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/via_region_data.json", via())


@TOPIC.layout("VIA: a saved project", "convert via_project.json out --images photos", BOXES)
def via_project(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("via_project.json", {"_via_settings": {}, "_via_img_metadata": via(), "_via_attributes": {}})


@TOPIC.layout(
    "VIA: polygons in `train/` and `val/` (the balloons of Mask R-CNN)",
    "convert balloon out --tasks boxes,masks",
    Gives("train 1, validation 1", objects=2, boxes={"a.jpg": "6 4 36 24"}, masks={"a.jpg": [600]}),
)
def via_balloon(to: Files) -> None:
    for split, name in (("train", "a"), ("val", "b")):
        to.images(f"balloon/{split}/{name}.jpg")
        outline = {"name": "polygon", "all_points_x": [6, 36, 36, 6], "all_points_y": [4, 4, 24, 24]}
        regions = {"0": {"shape_attributes": outline, "region_attributes": {}}}
        entry = {"filename": f"{name}.jpg", "size": 1115004, "regions": regions, "fileref": "", "base64_img_data": ""}
        to.put(f"balloon/{split}/via_region_data.json", {f"{name}.jpg1115004": {**entry, "file_attributes": {}}})


@TOPIC.layout("VIA's CSV: `region_shape_attributes`", "convert via_export_csv.csv out --images photos", BOXES)
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


@TOPIC.layout("Create ML: `annotations.json` beside the images", "convert photos out", BOXES)
def createml_folder(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("photos/annotations.json", createml())


@TOPIC.layout(
    "Roboflow's Create ML: `train/_annotations.createml.json`",
    "convert roboflow out",
    Gives("train 1, validation 1", of="cat dog", objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def createml_roboflow(to: Files) -> None:
    for split, name in (("train", "a"), ("valid", "b")):
        to.images(f"roboflow/{split}/{name}.jpg")
        to.put(f"roboflow/{split}/_annotations.createml.json", createml(name))


@TOPIC.layout("Supervisely: `meta.json`, `ds0/ann/a.jpg.json`, `ds0/img/a.jpg`", "convert project out", BOXES)
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
    "FiftyOneImageDetectionDataset: `labels.json` with `classes`, `labels`, `data/`", "convert export out", BOXES
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
)
def kitti_object(to: Files) -> None:
    to.images("kitti/training/image_2/{a,b}.png", "kitti/testing/image_2/c.png")
    for name in "ab":
        to.put(f"kitti/training/label_2/{name}.txt", kitti(name))


@TOPIC.layout(
    "FiftyOne's KITTI: `data/`, `labels/`",
    "convert kitti out",
    Gives("train 2", of={"Cat", "Dog", "DontCare"}, objects=5),
)
def kitti_fiftyone(to: Files) -> None:
    to.images("kitti/data/{a,b}.png")
    for name in "ab":
        to.put(f"kitti/labels/{name}.txt", kitti(name))


@TOPIC.layout(
    "BDD100K (annotations are not read): `images/100k/train`, `labels/det_20/det_train.json`",
    "convert bdd100k out",
    Gives("train 1, validation 1"),
    says=(".json", "--unlabelled"),
    then="convert bdd100k out --unlabelled",
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
    "Datumaro (annotations are not read): `annotations/default.json`, `images/default/`",
    "convert datumaro out",
    Gives("train 2"),
    says=("default.json", "--unlabelled"),
    then="convert datumaro out --unlabelled",
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


def _manifest(of: dict[str, dict[str, Any]]) -> str:
    lines = [{"source-ref": f"s3://bucket/photos/{name}.jpg", **more} for name, more in of.items()]
    return "\n".join(map(json.dumps, lines))


@TOPIC.layout("SageMaker Ground Truth: a manifest with boxes", "convert output.manifest out --images photos", BOXES)
def sagemaker_boxes(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    about = {"class-map": {"0": "cat", "1": "dog"}, "type": "groundtruth/object-detection", "job-name": "x"}
    rows = {}
    for name, scene in SCENES.items():
        boxes = [
            {"class_id": ("cat", "dog").index(label), "left": x, "top": y, "width": right - x, "height": bottom - y}
            for label, (x, y, right, bottom) in scene
        ]
        size = [{"width": 60, "height": 40, "depth": 3}]
        rows[name] = {"pets": {"image_size": size, "annotations": boxes}, "pets-metadata": about}
    to.put("output.manifest", _manifest(rows))


@TOPIC.layout(
    "SageMaker Ground Truth: a manifest with a class for each image",
    "convert output.manifest out --images photos",
    Gives("train 2", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
)
def sagemaker_classes(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    about = {"type": "groundtruth/image-classification", "confidence": 0.9}
    rows = {name: {"pet": 0, "pet-metadata": {"class-name": of, **about}} for name, of in (("a", "dog"), ("b", "cat"))}
    to.put("output.manifest", _manifest(rows))


@TOPIC.layout(
    "V7's annotations (not read): `images/a.jpg`, `annotations/a.json`",
    "convert v7 out",
    Gives("train 2"),
    says=("V7's annotations", "--unlabelled"),
    then="convert v7 out --unlabelled",
)
def v7(to: Files) -> None:
    to.images("v7/images/{a,b}.jpg")
    for name in "ab":
        found = {"name": "cat", "bounding_box": {"x": 1, "y": 2, "w": 9, "h": 9}, "slot_names": ["0"]}
        to.put(
            f"v7/annotations/{name}.json", {"version": "2.0", "item": {"name": f"{name}.jpg"}, "annotations": [found]}
        )


@TOPIC.layout(
    "SA-1B (masks are not read): `sa_1.jpg`, `sa_1.json`",
    "convert sa_000020 out",
    Gives("train 2"),
    says=("SA-1B's masks", "--unlabelled"),
    then="convert sa_000020 out --unlabelled",
)
def sa_1b(to: Files) -> None:
    to.images("sa_000020/sa_{1..2}.jpg")
    for number in (1, 2):
        image = {"image_id": number, "width": 60, "height": 40, "file_name": f"sa_{number}.jpg"}
        found = {"segmentation": {"size": [40, 60], "counts": "abc"}, "bbox": [1, 1, 9, 9], "predicted_iou": 0.9}
        to.put(f"sa_000020/sa_{number}.json", {"image": image, "annotations": [found]})
