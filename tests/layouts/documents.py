"""Documents that several layouts hold: COCO's JSON and VOC's XML, of the same two images."""

from typing import Any

# Image -> objects: class; left, top, right, bottom, in pixels of images of 60 x 40.
SCENES = {"a": [("dog", (4, 5, 40, 30)), ("cat", (0, 0, 20, 40))], "b": [("cat", (10, 10, 50, 30))]}
BOXES = {"a": "dog 4 5 40 30; cat 0 0 20 40", "b": "cat 10 10 50 30"}
A, B = BOXES["a"], BOXES["b"]


def coco(
    names: str = "a b", suffix: str = ".jpg", *, ids: tuple[int, int] = (1, 3), prefix: str = "", **more: Any
) -> dict[str, Any]:
    """Instances of these images: cat and dog have the given ids. `more` goes into each annotation."""
    images, annotations = [], []
    numbers = dict(zip(("cat", "dog"), ids, strict=True))
    for number, name in enumerate(names.split(), 1):
        images.append({"id": number, "file_name": f"{prefix}{name}{suffix}", "width": 60, "height": 40})
        for label, (left, top, right, bottom) in SCENES.get(name, []):
            box = [left, top, right - left, bottom - top]
            area = {"area": float(box[2] * box[3]), "iscrowd": 0, **more}
            place = {"image_id": number, "category_id": numbers[label], "bbox": box}
            annotations.append({"id": len(annotations) + 1, **place, **area})
    categories = [{"id": id, "name": name, "supercategory": "animal"} for name, id in numbers.items()]
    return {"info": {}, "licenses": [], "images": images, "annotations": annotations, "categories": categories}


def captions(names: str = "a b", suffix: str = ".jpg", prefix: str = "") -> dict[str, Any]:
    """COCO captions: two of each image."""
    images, annotations = [], []
    for number, name in enumerate(names.split(), 1):
        images.append({"id": number, "file_name": f"{prefix}{name}{suffix}", "width": 60, "height": 40})
        for which in ("first", "second"):
            text = {"caption": f"The {which} of {name}."}
            annotations.append({"id": len(annotations) + 1, "image_id": number, **text})
    return {"info": {}, "licenses": [], "images": images, "annotations": annotations}


def person_keypoints(names: str = "a b", suffix: str = ".jpg", prefix: str = "") -> dict[str, Any]:
    """COCO keypoints, three of one person an image."""
    found = coco("", ids=(1, 2))
    for number, name in enumerate(names.split(), 1):
        found["images"].append({"id": number, "file_name": f"{prefix}{name}{suffix}", "width": 60, "height": 40})
        points = {"num_keypoints": 2, "keypoints": [10, 8, 2, 20, 12, 1, 0, 0, 0]}
        place = {"image_id": number, "category_id": 1, "bbox": [4, 5, 36, 25], "area": 900.0, "iscrowd": 0}
        found["annotations"].append({"id": number, **place, **points})
    parts = {"keypoints": ["nose", "left_eye", "right_eye"], "skeleton": [[1, 2], [1, 3]]}
    found["categories"] = [{"id": 1, "name": "person", "supercategory": "person", **parts}]
    return found


POINTS = ((10, 8, 2), (20, 12, 1), (0, 0, 0))


def voc(name: str, suffix: str = ".jpg", *, origin: int = 0, folder: str = "JPEGImages", more: str = "") -> str:
    """A file of annotations of one image."""
    objects = "".join(
        f"<object><name>{label}</name>{more}<bndbox><xmin>{left + origin}</xmin><ymin>{top + origin}</ymin>"
        f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for label, (left, top, right, bottom) in SCENES.get(name, [])
    )
    return (
        f"<annotation><folder>{folder}</folder><filename>{name}{suffix}</filename>"
        f"<size><width>60</width><height>40</height><depth>3</depth></size>{objects}</annotation>"
    )


def yolo(name: str, classes: str = "cat dog") -> str:
    """A label file of one image: class, centre and size in fractions."""
    lines = []
    for label, (left, top, right, bottom) in SCENES.get(name, []):
        middle = (left + right) / 120, (top + bottom) / 80
        size = (right - left) / 60, (bottom - top) / 40
        lines.append(" ".join(map(str, (classes.split().index(label), *middle, *size))))
    return "\n".join(lines)
