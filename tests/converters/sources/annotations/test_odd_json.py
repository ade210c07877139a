"""JSON with an odd value in any place: annotations are taken or listed, each of them, or the error is ours."""

import base64
import json
import math
import zlib
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from object_images import image_file, put
from PIL import Image

from shardfeed.annotations import CAPTION
from shardfeed.converters import open_source
from shardfeed.converters.rejects import Account
from shardfeed.converters.sources.guard import HostileError
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import ShardfeedError
from shardfeed.schema import LABEL

from pictures import image_bytes

ODD = (None, 7, 10**400, math.nan, "x", "", True, [], [None], ["x"], {}, {"x": {"y": None}})
Place = tuple[str | int, ...]
FOUR = [4, 5, 36, 25]
PAIRS = [[4, 5], [40, 5], [40, 30]]
LABELS = {"type": "choices", "value": {"choices": ["cat"]}}
PERCENT = {"x": 10, "y": 10, "width": 50, "height": 50, "rectanglelabels": ["cat"]}
REGION = {"shape_attributes": {"name": "rect", **dict(zip(("x", "y", "width", "height"), FOUR, strict=True))}}
SHAPE = {"classTitle": "cat", "geometryType": "polygon", "points": {"exterior": PAIRS, "interior": []}}
DETECTION = {"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.5]}
MASK = base64.b64encode(image_bytes(Image.new("1", (10, 6), 1), "PNG")).decode()
BITMAP = {
    "classTitle": "cat",
    "geometryType": "bitmap",
    "bitmap": {"data": base64.b64encode(zlib.compress(base64.b64decode(MASK))).decode(), "origin": [2, 3]},
}
SIZE = {"original_width": 60, "original_height": 40}
REGIONS = {
    "ellipse": {"x": 9, "y": 9, "radiusX": 5, "radiusY": 4, "rotation": 9, "ellipselabels": ["cat"]},
    "brush": {"format": "rle", "rle": [0, 0, 37, 128], "brushlabels": ["cat"]},
}
ELLIPSE = {"shape_attributes": {"name": "ellipse", "cx": 20, "cy": 20, "rx": 9, "ry": 5, "theta": 0.1}}
CHECKED = {"kind": {"cat": True, "dog": False}}
LINES = {
    "_cls": "Polylines",
    "polylines": [{"label": "cat", "closed": True, "points": [[[0, 0], [0.5, 0], [0.5, 0.5]]]}],
}
COCO = {
    "image_id": 1,
    "category_id": 1,
    "bbox": FOUR,
    "area": 900,
    "iscrowd": 0,
    "segmentation": [[4, 5, 40, 5, 40, 30]],
}


class Document(NamedTuple):
    """A document about `a.png` and `b.png`: its reader and place.

    `things`: the keys of what is said of `a.png`, a list or one class. `rest`: another file and its content.
    """

    reader: str
    path: str
    content: Any
    things: Place = ()
    images: str = "{}.png"
    rest: tuple[str, Any] = ("", None)


DOCUMENTS = {
    "coco": Document(
        "coco",
        "c.json",
        {
            "images": [{"id": i, "file_name": f"{n}.png", "width": 60, "height": 40} for i, n in enumerate("ab", 1)],
            "annotations": [{"id": 1, **COCO}],
            "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        },
        ("annotations",),
    ),
    "karpathy": Document(
        "captions",
        "c.json",
        {
            "images": [
                {"filename": f"{n}.png", "filepath": "", "split": "train", "cocoid": i, "sentences": [{"raw": "x"}]}
                for i, n in enumerate("ab")
            ]
        },
        ("images", 0, "sentences"),
    ),
    "imagefolder": Document(
        "imagefolder",
        "metadata.jsonl",
        [
            {"file_name": f"{n}.png", "width": 60, "objects": {"bbox": [FOUR], "categories": ["cat"]}, "text": "x"}
            for n in "ab"
        ],
        (0, "objects"),
    ),
    "imagefolder, labels": Document(
        "imagefolder",
        "metadata.jsonl",
        [{"file_name": f"{n}.png", "label": "cat", "split": "train"} for n in "ab"],
        (0, "label"),
    ),
    "labelme": Document(
        "labelme",
        "a.json",
        {
            "shapes": [{"label": "cat", "points": PAIRS, "shape_type": "polygon"}],
            "flags": {},
            "imagePath": "a.png",
            "imageWidth": 60,
            "imageHeight": 40,
        },
        ("shapes",),
        rest=("b.json", {"shapes": [], "flags": {}, "imagePath": "b.png"}),
    ),
    "labelme, images inside": Document(
        "labelme",
        "a.json",
        {
            "shapes": [{"label": "cat", "points": [[1, 2], [30, 20]], "shape_type": "rectangle"}],
            "imagePath": "a.png",
            "imageData": base64.b64encode(image_file(seed=0)).decode(),
        },
        ("shapes",),
        images="",
    ),
    "via": Document(
        "via",
        "via.json",
        {n: {"filename": f"{n}.png", "regions": [{**REGION, "region_attributes": {"class": "cat"}}]} for n in "ab"},
        ("a", "regions"),
    ),
    "via, a project": Document(
        "via",
        "via.json",
        {
            "_via_img_metadata": {
                n: {
                    "filename": f"{n}.png",
                    "regions": {
                        "0": {
                            "shape_attributes": {
                                "name": "polygon",
                                "all_points_x": [1, 20, 20],
                                "all_points_y": [1, 1, 9],
                            },
                            "region_attributes": {"class": "cat"},
                        }
                    },
                }
                for n in "ab"
            }
        },
        ("_via_img_metadata", "a", "regions"),
    ),
    "label-studio": Document(
        "label-studio",
        "p.json",
        [
            {
                "id": 1,
                "annotations": [{"result": [{"type": "rectanglelabels", "value": PERCENT}], "was_cancelled": False}],
                "data": {"image": f"/data/{n}.png"},
            }
            for n in "ab"
        ],
        (0, "annotations", 0, "result"),
    ),
    "label-studio, classes": Document(
        "label-studio",
        "p.json",
        [{"annotations": [{"result": [LABELS]}], "data": {"image": f"/data/{n}.png"}} for n in "ab"],
        (0, "annotations", 0, "result"),
    ),
    "label-studio, small": Document(
        "label-studio",
        "p.json",
        [{"id": 1, "image": f"/data/{n}.png", "annotator": 1, "label": [PERCENT]} for n in "ab"],
        (0, "label"),
    ),
    "createml": Document(
        "createml",
        "c.json",
        [
            {
                "image": f"{n}.png",
                "annotations": [{"label": "cat", "coordinates": {"x": 30, "y": 20, "width": 20, "height": 20}}],
            }
            for n in "ab"
        ],
        (0, "annotations"),
    ),
    "supervisely": Document(
        "supervisely",
        "ann/a.png.json",
        {"description": "", "size": {"width": 60, "height": 40}, "objects": [SHAPE]},
        ("objects",),
        "img/{}.png",
        ("ann/b.png.json", {"description": "", "size": {}, "objects": []}),
    ),
    "fiftyone": Document(
        "fiftyone",
        "samples.json",
        {
            "samples": [
                {
                    "filepath": f"data/{n}.png",
                    "tags": ["train"],
                    "truth": {"_cls": "Detections", "detections": [DETECTION]},
                }
                for n in "ab"
            ]
        },
        ("samples", 0, "truth", "detections"),
        "data/{}.png",
    ),
    "fiftyone, classes": Document(
        "fiftyone",
        "samples.json",
        {"samples": [{"filepath": f"data/{n}.png", "truth": {"_cls": "Classification", "label": "cat"}} for n in "ab"]},
        ("samples", 0, "truth", "label"),
        "data/{}.png",
    ),
    "labelme, a mask and flags": Document(
        "labelme",
        "a.json",
        {
            "shapes": [{"label": "cat", "points": [[2, 3], [11, 8]], "shape_type": "mask", "mask": MASK}],
            "flags": {"night": True},
            "imagePath": "a.png",
            "imageWidth": 60,
            "imageHeight": 40,
        },
        ("shapes",),
        rest=("b.json", {"shapes": [], "flags": {"night": True}, "imagePath": "b.png"}),
    ),
    "supervisely, a bitmap": Document(
        "supervisely",
        "ann/a.png.json",
        {"size": {"width": 60, "height": 40}, "objects": [BITMAP], "description": "", "tags": []},
        ("objects",),
        "img/{}.png",
        rest=("ann/b.png.json", {"size": {}, "objects": [], "description": ""}),
    ),
    **{
        f"label-studio, {name}": Document(
            "label-studio",
            "p.json",
            [
                {
                    "id": 1,
                    "annotations": [{"result": [{"id": "1", **SIZE, "value": value}], "was_cancelled": False}],
                    "data": {"image": f"/data/{n}.png"},
                }
                for n in "ab"
            ],
            (0, "annotations", 0, "result"),
        )
        for name, value in REGIONS.items()
    },
    "via, a checkbox": Document(
        "via",
        "via.json",
        {n: {"filename": f"{n}.png", "regions": [{**ELLIPSE, "region_attributes": CHECKED}]} for n in "ab"},
        ("a", "regions"),
    ),
    "fiftyone, polylines": Document(
        "fiftyone",
        "samples.json",
        {"samples": [{"filepath": f"data/{n}.png", "lines": LINES, "tags": []} for n in "ab"]},
        ("samples", 0, "lines", "polylines"),
        "data/{}.png",
    ),
    "fiftyone, labels": Document(
        "fiftyone",
        "labels.json",
        {"classes": ["cat", "dog"], "labels": {"a": [{**DETECTION, "label": 0}], "b": [{**DETECTION, "label": 1}]}},
        ("labels", "a"),
        "data/{}.png",
    ),
    "fiftyone, labels of images": Document(
        "fiftyone",
        "labels.json",
        {"classes": ["cat", "dog"], "labels": {"a": 0, "b": 1}},
        ("labels", "a"),
        "data/{}.png",
    ),
}


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The keys of every value in a document, the document itself too."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def changed(content: Any, place: Place, odd: Any) -> Any:
    """A document with another value in one place."""
    if not place:
        return odd
    found = json.loads(json.dumps(content))  # not copy.deepcopy: what is there twice would be changed twice
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = odd
    return found


def write(folder: Path, document: Document, content: Any) -> None:
    """The files of a document with that content."""
    lines = document.path.endswith(".jsonl") and isinstance(content, list)
    put(folder / document.path, "\n".join(map(json.dumps, content)) if lines else json.dumps(content))


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_odd_values(tmp_path: Path, name: str, step: int) -> None:
    """Each value in each place; by default every fifth of them all."""
    document = DOCUMENTS[name]
    for number, one in enumerate("ab" if document.images else ""):
        put(tmp_path / document.images.format(one), image_file(seed=number))
    if document.rest[0]:
        put(tmp_path / document.rest[0], json.dumps(document.rest[1]))
    write(tmp_path, document, document.content)
    total, images = counted(tmp_path, document)
    assert total >= 1
    assert "a" in images
    things = document.things
    wrong = []
    for place, odd in islice(product(places(document.content), ODD), 0, None, step):
        write(tmp_path, document, changed(document.content, place, odd))
        said: object = ""
        try:
            now, there = counted(tmp_path, document)
        except HostileError as error:
            said = error
        except ShardfeedError as error:
            said = "" if document.path in str(error) or "no file of this tool" in str(error) else error
        except Exception as error:  # whatever it is, it is none of ours
            said = error
        else:
            inside = bool(things) and place[: len(things)] == things and (len(place) > len(things) or odd)
            if not there >= images or (inside and now < total):
                said = f"{now} of {total}, images {there}"
        if said:
            wrong.append(f"{place} = {str(odd)[:40]}: {said!r}")
    assert not wrong, "\n".join(wrong)


def counted(folder: Path, document: Document) -> tuple[int, set[str]]:
    """How many things are in a source or listed, a rejected image as one; the images that are there or listed."""
    whole = document.reader in ("labelme", "supervisely")
    source = open_source(folder if whole else folder / document.path, reader=document.reader)
    findings = info_of(source).findings
    count = len((findings.account or Account()).left_out) + len(findings.rejected)
    count += sum("not read" in note for note in findings.notes)
    keys = [one.key for one in findings.rejected]
    for sample in source:
        keys.append(sample.key)
        count += (0 if sample.objects is None else len(sample.objects)) + (LABEL in sample.features)
        captions: Any = sample.features.get(CAPTION, ())
        count += len(captions)
    noted = {one for one in "ab" if any(f"{one}.png" in note for note in findings.notes)}
    return count, noted | {Path(key.decode()).name.partition(".")[0] for key in keys}
