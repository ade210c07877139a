"""The drawn scenes as files: images, and what is on them as COCO, YOLO, Pascal VOC, CSV, masks, captions and tags."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask

from scene import KINDS, SCENES, Figure, Scene, draw_scene, scene

coco: Any = mask  # its type hints leave out what it takes
IDS = {"circle": 3, "square": 7, "triangle": 18}  # of the classes in COCO's files: with gaps, as COCO's own
POINTS = ("top", "right", "left")  # of a triangle, in the order of its corners
VOID = 255  # of a pixel in a crowd
_EXIF_ORIENTATION, _QUARTER_TURN = 0x0112, 6  # the value: turn clockwise by 90 degrees to see it upright
_QUALITY = 80


def scene_files() -> Iterator[tuple[str, bytes]]:
    """(path below the folder of the scenes, content) of each file."""
    scenes = [scene(number) for number in range(1, SCENES + 1)]
    for one in scenes:
        image = _jpeg(one)
        split = split_of(one)
        classes = class_mask(one)
        yield f"images/{one.name}.jpg", image
        yield f"masks/{one.name}.png", _png(Image.fromarray(classes))
        yield f"yolo/images/{split}/{one.name}.jpg", image
        if one.figures:
            yield f"yolo/labels/{split}/{one.name}.txt", _yolo_lines(one).encode()
        yield f"voc/JPEGImages/{one.name}.jpg", image
        yield f"voc/Annotations/{one.name}.xml", _voc_xml(one).encode()
        coloured = Image.fromarray(classes)
        coloured.putpalette(_voc_palette())
        yield f"voc/SegmentationClass/{one.name}.png", _png(coloured)
    for split in ("train", "val"):
        names = "".join(f"{one.name}\n" for one in scenes if split_of(one) == split)
        yield f"voc/ImageSets/Main/{split}.txt", names.encode()
        yield f"voc/ImageSets/Segmentation/{split}.txt", names.encode()
    yield "yolo/data.yaml", _data_yaml().encode()
    yield "coco/instances.json", _coco(scenes, _instances, [{"id": IDS[k], "name": k} for k in KINDS])
    skeleton = {"id": 1, "name": "triangle", "keypoints": POINTS, "skeleton": [[1, 2], [2, 3], [3, 1]]}
    yield "coco/keypoints.json", _coco(scenes, _keypoints, [skeleton])
    yield "coco/captions.json", _coco(scenes, _captions, None)
    yield "masks.txt", "".join(f"{name}\n" for name in ("background", *KINDS)).encode()
    yield "boxes.csv", _boxes_csv(scenes)
    tags = [[f"{one.name}.jpg", " ".join(sorted({figure.kind for figure in one.figures}))] for one in scenes]
    yield "tags.csv", separated([["path", "tags"], *tags])


def split_of(one: Scene) -> str:
    """Where formats that have splits put a scene."""
    return "val" if one.number % 4 == 0 else "train"


def image_id(one: Scene) -> int:
    """Its number in COCO's files."""
    return 1000 + 7 * one.number


def figure_mask(one: Scene, figure: Figure) -> np.ndarray:
    """uint8 [height, width], 1 inside, as pycocotools fills polygons."""
    width, height = one.size
    polygons = [[float(side) for corner in part for side in corner] for part in figure.parts]
    return coco.decode(coco.merge(coco.frPyObjects(polygons, height, width)))


def class_mask(one: Scene) -> np.ndarray:
    """uint8 [height, width]: 0 the background, 1 and up the kinds, VOID a crowd."""
    width, height = one.size
    classes = np.zeros((height, width), np.uint8)
    for figure in one.figures:
        value = VOID if figure.crowd else 1 + KINDS.index(figure.kind)
        classes[figure_mask(one, figure) == 1] = value
    return classes


def _voc_palette() -> list[int]:
    """Red, green and blue of 256 values: Pascal VOC spreads the bits of a value, lowest first, over the three."""
    palette = []
    for value in range(256):
        bits = [[value >> (3 * place + channel) & 1 for place in range(3)] for channel in range(3)]
        palette += [sum(bit << (7 - place) for place, bit in enumerate(of_channel)) for of_channel in bits]
    return palette


def _jpeg(one: Scene) -> bytes:
    image, exif = draw_scene(one), Image.Exif()
    if one.turned:
        image = image.transpose(Image.Transpose.ROTATE_90)
        exif[_EXIF_ORIENTATION] = _QUARTER_TURN
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_QUALITY, optimize=True, **({"exif": exif} if one.turned else {}))
    return file.getvalue()


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _yolo_lines(one: Scene) -> str:
    """A line a shape, polygons in fractions; there is no way to say that something is a crowd."""
    width, height = one.size
    lines = []
    for figure in _single(one):
        places = [f"{x / width:.7g} {y / height:.7g}" for x, y in figure.parts[0]]
        lines.append(f"{KINDS.index(figure.kind)} {' '.join(places)}\n")
    return "".join(lines)


def _single(one: Scene) -> list[Figure]:
    return [figure for figure in one.figures if not figure.crowd]


def _voc_xml(one: Scene) -> str:
    lines = ["<annotation>", f"  <filename>{one.name}.jpg</filename>"]
    lines.append("  <size><width>{}</width><height>{}</height><depth>3</depth></size>".format(*one.size))
    lines.append("  <segmented>1</segmented>")
    for figure in _single(one):
        sides = zip(("xmin", "ymin", "xmax", "ymax"), figure.box, strict=True)
        box = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
        lines.append(f"  <object><name>{figure.kind}</name><truncated>0</truncated><difficult>0</difficult>")
        lines.append(f"    <bndbox>{box}</bndbox></object>")
    return "\n".join([*lines, "</annotation>", ""])


def _data_yaml() -> str:
    names = "".join(f"  {label}: {kind}\n" for label, kind in enumerate(KINDS))
    return f"path: .\ntrain: images/train\nval: images/val\nnames:\n{names}"


def _coco(
    scenes: Sequence[Scene],
    annotations: Callable[[Scene], list[dict[str, Any]]],
    categories: list[dict[str, Any]] | None,
) -> bytes:
    """A file of COCO's, an annotation a line; `annotations`: of a scene, without their ids."""
    images = [
        {"id": image_id(one), "file_name": f"{one.name}.jpg", "width": one.size[0], "height": one.size[1]}
        for one in scenes
    ]
    of_all = [{"image_id": image_id(one), **found} for one in scenes for found in annotations(one)]
    parts = {"images": images, "annotations": [{"id": 1 + i, **found} for i, found in enumerate(of_all)]}
    parts |= {"categories": categories} if categories is not None else {}
    lists = []
    for name, rows in parts.items():
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        lists.append(f'"{name}":[\n{lines}\n]')
    return ("{" + ",\n".join(lists) + "}\n").encode()


def _instances(one: Scene) -> list[dict[str, Any]]:
    found = []
    for figure in one.figures:
        left, top, right, bottom = figure.box
        mask = figure_mask(one, figure)
        polygons = [[side for corner in part for side in corner] for part in figure.parts]
        outline: Any = {"size": list(mask.shape), "counts": _run_lengths(mask)} if figure.crowd else polygons
        found.append(
            {
                "category_id": IDS[figure.kind],
                "bbox": [left, top, right - left, bottom - top],
                "area": int(mask.sum()),
                "iscrowd": int(figure.crowd),
                "segmentation": outline,
            }
        )
    return found


def _run_lengths(mask: np.ndarray) -> list[int]:
    """Lengths of runs down the columns, the first of zeros."""
    flat = np.concatenate([[0], mask.ravel(order="F"), [2]])
    changes = np.flatnonzero(np.diff(flat)).tolist()
    return [end - start for start, end in zip([0, *changes], changes, strict=False)]


def _keypoints(one: Scene) -> list[dict[str, Any]]:
    """Corners of triangles. In every third scene the last one is occluded, in every fifth it is not there."""
    found = []
    for figure in _single(one):
        if figure.kind != "triangle":
            continue
        last = 1 if one.number % 3 == 0 else 0 if one.number % 5 == 0 else 2
        points = [[x, y, 2] for x, y in figure.parts[0]]
        points[-1] = [*points[-1][:2], last] if last else [0, 0, 0]
        left, top, right, bottom = figure.box
        found.append(
            {
                "category_id": 1,
                "bbox": [left, top, right - left, bottom - top],
                "area": int(figure_mask(one, figure).sum()),
                "iscrowd": 0,
                "num_keypoints": sum(seen > 0 for *_, seen in points),
                "keypoints": [value for point in points for value in point],
            }
        )
    return found


def _captions(one: Scene) -> list[dict[str, Any]]:
    kinds = [f"{'many small' if figure.crowd else 'a'} {figure.kind}{'s' * figure.crowd}" for figure in one.figures]
    texts = [" and ".join(kinds) or "nothing but a background", f"a drawing with {len(kinds)} things in it"]
    return [{"caption": text} for text in texts]


def _boxes_csv(scenes: Sequence[Scene]) -> bytes:
    """As TensorFlow's tutorial has it: a row a box; an image without objects has none."""
    rows: list[list[Any]] = [["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"]]
    rows += [[f"{one.name}.jpg", *one.size, figure.kind, *figure.box] for one in scenes for figure in _single(one)]
    return separated(rows)


def separated(rows: Sequence[Sequence[Any]], delimiter: str = ",") -> bytes:
    """The rows as a CSV or TSV file."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
