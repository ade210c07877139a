"""Layouts of annotation tools that save in their own formats."""

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


@TOPIC.layout("LabelMe: `a.json` beside `a.jpg`, rectangles", "convert photos out", BOXES)
def labelme_rectangles(to: Files) -> None:
    for name in "ab":
        to.images(f"photos/{name}.jpg")
        to.put(f"photos/{name}.json", labelme(name))


@TOPIC.layout(
    "LabelMe: outlines",
    "convert photos out --tasks boxes,masks",
    Gives("train 1", of="cat", objects=1, boxes={"a.jpg": "cat 6 4 36 24"}, masks={"a.jpg": [600]}),
)
def labelme_polygons(to: Files) -> None:
    to.images("photos/a.jpg")
    outline = [[6.0, 4.0], [36.0, 4.0], [36.0, 24.0], [6.0, 24.0]]
    shape = {"label": "cat", "points": outline, "group_id": None, "shape_type": "polygon", "flags": {}}
    to.put("photos/a.json", labelme("a", shapes=[shape]))


@TOPIC.layout(
    "LabelMe: images stored in the JSON (`imageData`)", "convert photos out", Gives("train 1", of="cat dog", objects=2)
)
def labelme_inside(to: Files) -> None:
    to.put("photos/a.json", labelme("a", imageData=base64.b64encode(picture("a")).decode()))


@TOPIC.layout("LabelMe: JSON and images in two folders", "convert json out --images photos", BOXES)
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
)
def cvat_images(to: Files) -> None:
    to.images("cvat/images/{a,b}.jpg")
    to.put("cvat/annotations.xml", cvat("a b"))


@TOPIC.layout(
    "CVAT for images 1.1, only the file",
    "convert annotations.xml out --images photos",
    Gives("train 2", of={"cat", "dog"}, objects=3, boxes={"a.jpg": A, "b.jpg": B}),
)
def cvat_file(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("annotations.xml", cvat("a b"))


@TOPIC.layout(
    "CVAT for images 1.1, a project: subsets in `images/train`, `images/val`",
    "convert cvat out",
    Gives(
        "train 1, validation 1",
        of={"cat", "dog"},
        objects=3,
        boxes={"a.jpg": A, "b.jpg": B},
        where={"b.jpg": "validation"},
    ),
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
    "Label Studio's JSON and its uploads",
    "convert export out",
    Gives("train 2", of="cat dog", objects=3, boxes={"5f3a9c21-a.jpg": A, "5f3a9c21-b.jpg": B}),
)
def label_studio_json(to: Files) -> None:
    to.images("export/images/5f3a9c21-{a,b}.jpg")
    to.put("export/project-1-at-2026-01-01.json", label_studio())


@TOPIC.layout(
    "Label Studio's JSON, with your images under their original names",
    "convert project-1.json out --images photos",
    BOXES,
)
def label_studio_file(to: Files) -> None:
    to.images("photos/{a,b}.jpg")
    to.put("project-1.json", label_studio())


@TOPIC.layout(
    "Label Studio's JSON-MIN, one choice per image",
    "convert project.json out --images photos",
    Gives("train 2", "cat dog", {"a.jpg": "dog", "b.jpg": "cat"}),
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


@TOPIC.layout("Label Studio's CSV of boxes: JSON in a cell", "convert project.csv out --images photos", BOXES)
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
