"""Ground truth that is given back as predictions, in pixels of the source, is without a fault to COCO's evaluation.

So no object is lost, none has another class, image or place: through conversion, either framework, and back.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import shardfeed
import shardfeed.pipelines
import shardfeed.pipelines.torch
from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters import AnnotationOptions, ImageOptions, convert, export, open_source
from shardfeed.pipelines import boxes_to_source, masks_to_source
from shardfeed.pipelines.augment.operations.letterbox import letterboxed
from shardfeed.pipelines.augment.view import cropped
from shardfeed.pipelines.geometry import see_raster, to_source
from shardfeed.pipelines.windows import Window
from shardfeed.readers import Dataset, Split

from repository import ROOT

SCENES = 20
CATEGORIES = {3: "cat", 17: "dog", 44: "nothing has it", 90: "owl"}  # not in a row, and not in this order in the file
POINTS = ["nose", "left_ear", "right_ear"]
TURN = 0x0112
# From the upright image to what an EXIF orientation says of its file: fractions x, y, and pixels [height, width].
Move = tuple[Callable[[float, float], tuple[float, float]], Callable[[np.ndarray], np.ndarray]]
MOVES: dict[int, Move] = {
    1: (lambda x, y: (x, y), lambda mask: mask),
    6: (lambda x, y: (y, 1 - x), lambda mask: np.rot90(mask, 1)),
}


def scene(i: int) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """A file, its entry among "images", and its annotations.

    Some are without objects, every fourth is turned by its EXIF, and annotated upright or as the file has it: its
    size tells. Objects may overlap, and touch the border.
    """
    rng = np.random.default_rng(i)
    turned = (8, 6, 6, 8, 6)[i // 4] if i % 4 == 1 else 1
    as_file = i in (9, 17)
    height, width = (int(side) for side in rng.integers(260, 420, 2))  # of the file's image
    if turned != 1 and height == width:
        width += 1
    file = io.BytesIO()
    exif = Image.Exif()
    exif[TURN] = turned
    pixels = rng.integers(0, 256, (height // 20, width // 20, 3), np.uint8)
    Image.fromarray(pixels).resize((width, height)).save(file, "JPEG", exif=exif)
    if turned != 1 and not as_file:
        height, width = width, height  # of the annotated image
    image_id = 1000 - 7 * i
    count = 0 if i % 5 == 4 and turned == 1 else 1 + i % 4
    objects = [_object(rng, image_id, i, n, height, width) for n in range(count)]
    entry = {"id": image_id, "file_name": f"{i:02d}.jpg", "width": width, "height": height}
    return file.getvalue(), entry, objects


def _object(rng: np.random.Generator, image_id: int, i: int, n: int, height: int, width: int) -> dict[str, Any]:
    tall, wide = rng.uniform(90, 140, 2)
    top, left = rng.uniform(0, height - tall), rng.uniform(0, width - wide)
    if n == 1:
        left, top = 0.0, height - tall  # in a corner
    ring = [(0.5, 0.0), (1.0, 0.4), (0.8, 1.0), (0.2, 1.0), (0.0, 0.4)]
    polygon = [side for x, y in ring for side in (left + x * wide, top + y * tall)]
    segmentation: Any = [polygon]
    code: Any = coco_mask.merge(coco_mask.frPyObjects(segmentation, height, width))
    crowd = int(n == 2)
    if crowd:
        segmentation = {"size": [height, width], "counts": code["counts"].decode()}
    points = [(left + wide / 2, top + tall / 2), (left + wide / 4, top + 9), (left + wide * 0.75, top + 9)]
    seen = [2, 1 + (i + n) % 2, 0 if n == 3 else 2]
    return {
        "id": 100 * i + n + 1,  # 0 would be none to COCO's evaluation
        "image_id": image_id,
        "category_id": (3, 17, 90)[(i + n) % 3],
        "bbox": [left, top, wide, tall],
        "area": float(coco_mask.area(code)),
        "iscrowd": crowd,
        "segmentation": segmentation,
        "keypoints": [v for (x, y), s in zip(points, seen, strict=True) for v in ((x, y, s) if s else (0, 0, 0))],
        "num_keypoints": sum(s > 0 for s in seen),
    }


class Scenes:
    """Drawn scenes on the disk: "instances.json" with all classes, "keypoints.json" with one, which has key points."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "images").mkdir(parents=True)
        made = [scene(i) for i in range(SCENES)]
        self.turns = {}
        for file, entry, _ in made:
            (root / "images" / entry["file_name"]).write_bytes(file)
            image = Image.open(io.BytesIO(file))
            as_file = image.getexif().get(TURN, 1) == 6 and image.size == (entry["width"], entry["height"])
            self.turns[entry["id"]] = 6 if as_file else 1  # from what is stored to what was annotated
        images = [entry for _, entry, _ in made]
        objects = [one for _, _, annotations in made for one in annotations]
        categories = [{"id": own, "name": name} for own, name in sorted(CATEGORIES.items(), reverse=True)]
        with_points = [{"id": 17, "name": "dog", "keypoints": POINTS, "skeleton": [[1, 2]]}]
        self.write("instances.json", images, objects, categories)
        self.write("keypoints.json", images, [one | {"category_id": 17} for one in objects], with_points)

    def write(self, name: str, images: Any, annotations: Any, categories: Any) -> None:
        whole = {"images": images, "annotations": annotations, "categories": categories}
        (self.root / name).write_text(json.dumps(whole))

    def converted(self, name: str, out: Path, image: ImageOptions | None) -> Dataset:
        tasks: Any = frozenset({"boxes", "masks"} if name == "instances.json" else {"boxes", "keypoints"})
        options = AnnotationOptions(images=str(self.root / "images"), tasks=tasks)
        source = open_source(self.root / name, reader="coco", options=options)
        report = convert(source, out, image=image, workers=1)
        assert report.account is not None
        assert (report.account.read, report.account.left_out) == (report.account.written, ())
        return shardfeed.open(out)

    def scores(self, name: str, kind: Any, results: list[dict[str, Any]]) -> tuple[float, float]:
        """Average precision and recall, as COCO's own code has them."""
        with contextlib.redirect_stdout(io.StringIO()):
            truth: Any = COCO(str(self.root / name))
            evaluation = COCOeval(truth, truth.loadRes(results), kind)
            evaluation.params.kpt_oks_sigmas = np.full(len(POINTS), 0.02)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return float(evaluation.stats[0]), float(evaluation.stats[8 if kind != "keypoints" else 5])


Target = dict[str, np.ndarray]  # of one image: its objects in pixels of what a model gets, and what leads back


def of_torch(split: Split, keypoints: bool) -> Iterator[Target]:
    torch_side = shardfeed.pipelines.torch
    transform = torch_side.detection(
        torch_side.letterbox((448, 512)), label_offset=1, masks=not keypoints, keypoints=keypoints
    )
    for _, targets in torch_side.torch_eval_loader(split, batch_size=4, transform=transform, workers=0):
        for target in targets:
            yield {key: value.numpy() for key, value in target.items()} | {"labels": target["labels"].numpy() - 1}


def of_tensorflow(split: Split, keypoints: bool) -> Iterator[Target]:
    pipelines = shardfeed.pipelines
    transform = pipelines.detection(
        pipelines.letterbox((448, 512)), max_objects=7, image_id=True, masks=not keypoints, keypoints=keypoints
    )
    batches = pipelines.make_batches(split, transform, batch_size=4, order="stored", drop_remainder=False)
    for batch in batches.as_numpy_iterator():
        for row, count in enumerate(batch["num_objects"]):
            columns = batch["bounding_boxes"] | {key: batch[key] for key in ("masks", "keypoints") if key in batch}
            target = {key: values[row][:count] for key, values in columns.items()}
            yield target | {key: batch[key][row] for key in ("scale", "offset", "image_id")}


def predictions(scenes: Scenes, name: str, data: Dataset, targets: Iterator[Target]) -> dict[str, list[dict[str, Any]]]:
    """COCO's results of each kind, for the images as they were annotated."""
    annotated = {entry["id"]: entry for entry in json.loads((scenes.root / name).read_text())["images"]}
    stored: Any = data["train"]
    sizes = {int(record["image/source_id"]): (record["image/height"], record["image/width"]) for record in stored}
    ids = data.manifest.schema.class_ids[OBJECT_LABEL]
    found: dict[str, list[dict[str, Any]]] = {"bbox": [], "segm": [], "keypoints": []}
    for target in targets:
        image_id = int(target["image_id"])
        turn_point, turn_mask = MOVES[scenes.turns[image_id]]
        width, height = annotated[image_id]["width"], annotated[image_id]["height"]
        upright = (width, height) if scenes.turns[image_id] == 6 else (height, width)
        # From the stored image to the one that was annotated: it may be larger, and was perhaps not turned.
        ratio = np.divide(upright[::-1], sizes[image_id][::-1]).astype(np.float32)
        scale, offset = target["scale"] * ratio, target["offset"] * ratio

        def back(
            points: np.ndarray, turn: Any = turn_point, upright: Any = upright, side: Any = (width, height)
        ) -> Any:
            """Pixels [n, 2] of the upright image as those of the annotated one."""
            turned = [turn(x / upright[1], y / upright[0]) for x, y in points.tolist()]
            return np.array(turned).reshape(-1, 2) * side

        boxes = boxes_to_source(target["boxes"], scale, offset)
        masks = masks_to_source(target["masks"], scale, offset, upright) if "masks" in target else None
        for n, label in enumerate(target["labels"].tolist()):
            result = {"image_id": image_id, "category_id": ids[label], "score": 1.0}
            corners = turned(boxes[n].reshape(2, 2), turn_point, upright, (height, width))
            low, high = corners.min(0), corners.max(0)
            found["bbox"].append(result | {"bbox": [*low.tolist(), *(high - low).tolist()]})
            if masks is not None:
                code: Any = coco_mask.encode(np.asfortranarray(turn_mask(masks[n])))
                found["segm"].append(result | {"segmentation": code | {"counts": code["counts"].decode()}})
            if "keypoints" in target:
                points = target["keypoints"][n]
                places = turned(points[:, :2] * scale + offset, turn_point, upright, (height, width))
                moved = np.concatenate([places, points[:, 2:]], 1)
                found["keypoints"].append(result | {"keypoints": moved.ravel().tolist()})
    return found


def turned(points: np.ndarray, turn: Any, size: tuple[int, int], annotated: tuple[int, int]) -> np.ndarray:
    """Pixels [n, 2] of an upright image as those of the annotated one; sizes are (height, width)."""
    places = [turn(x / size[1], y / size[0]) for x, y in points.tolist()]
    return np.array(places).reshape(-1, 2) * annotated[::-1]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    return Scenes(tmp_path_factory.mktemp("scenes") / "coco")


@pytest.mark.parametrize(
    ("framework", "shorter"),
    [
        (of_torch, None),
        (of_tensorflow, 230),
        pytest.param(of_torch, 230, marks=pytest.mark.long),
        pytest.param(of_tensorflow, None, marks=pytest.mark.long),
    ],
)
def test_ground_truth_scores_one(scenes: Scenes, shorter: int | None, framework: Any, tmp_path: Path) -> None:
    image = None if shorter is None else ImageOptions(resize_shorter=shorter)
    for name, kinds in (("instances.json", ("bbox", "segm")), ("keypoints.json", ("keypoints",))):
        data = scenes.converted(name, tmp_path / name[:-5], image)
        results = predictions(scenes, name, data, framework(data["train"], "keypoints" in kinds))
        for kind in kinds:
            assert scenes.scores(name, kind, results[kind]) == (1.0, 1.0), kind


@settings(max_examples=80)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(40, 90), st.integers(40, 90), st.integers(0, 99))
def test_a_mask_that_was_enlarged_comes_back_whole(height: int, width: int, tall: int, wide: int, seed: int) -> None:
    mask = np.random.default_rng(seed).integers(0, 2, (height, width), np.uint8)
    view = letterboxed((height, width), (tall, wide))
    shown = see_raster(mask, view)
    scale, offset = to_source(view)
    assert np.array_equal(masks_to_source(shown[None], scale, offset, (height, width)), mask[None])
    top, left, content_height, content_width = view.content
    assert shown.sum() == shown[top : top + content_height, left : left + content_width].sum()


def test_masks_are_empty_where_the_model_saw_nothing() -> None:
    """Pixels around a crop of the middle half are 0."""
    view = cropped((8, 8), Window(2, 2, 4, 4), (4, 4))
    scale, offset = to_source(view)
    expected = np.zeros((8, 8), np.uint8)
    expected[2:6, 2:6] = 1
    assert np.array_equal(masks_to_source(np.ones((1, 4, 4), np.uint8), scale, offset, (8, 8))[0], expected)


DRAWN = ROOT / "data_samples" / "scenes"


def sparse_coco(folder: Path) -> str:
    """The scenes' COCO file with ids that have gaps, and not in the order of the names."""
    whole = json.loads((DRAWN / "coco" / "instances.json").read_text())
    own = {one["id"]: number for one, number in zip(whole["categories"], (90, 3, 17), strict=True)}
    for one in whole["categories"]:
        one["id"] = own[one["id"]]
    for one in whole["annotations"]:
        one["category_id"] = own[one["category_id"]]
    (folder / "sparse.json").write_text(json.dumps(whole))
    return str(folder / "sparse.json")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
@pytest.mark.parametrize("form", ["coco", "yolo", "voc", "boxes.csv"])
def test_the_ids_of_categories_are_those_of_the_export(form: str, tmp_path: Path) -> None:
    """As docs/train-objects.md evaluates: a dataset from any format has the ground truth that `export` writes."""
    path = sparse_coco(tmp_path) if form == "coco" else str(DRAWN / form)
    images = None if form == "yolo" else str(DRAWN / "images")
    tasks: Any = frozenset({"boxes"})
    options = AnnotationOptions(images=None if form == "voc" else images, tasks=tasks)
    convert(open_source(path, options=options), tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")
    export(data, tmp_path / "coco", "coco", drop=["all"])
    results = []
    torch_side = shardfeed.pipelines.torch
    transform = torch_side.detection(torch_side.letterbox(128), label_offset=1)
    (name, split), *_ = data.items()
    ids = split.schema.category_ids
    for _, targets in torch_side.torch_eval_loader(split, batch_size=4, transform=transform, workers=0):
        for target in targets:
            boxes = boxes_to_source(target["boxes"].numpy(), target["scale"].numpy(), target["offset"].numpy())
            for (x0, y0, x1, y1), label in zip(boxes.tolist(), target["labels"].tolist(), strict=True):
                box = {"bbox": [x0, y0, x1 - x0, y1 - y0], "score": 1.0}
                results.append({"image_id": int(target["image_id"]), "category_id": ids[label - 1], **box})
    truths = [tmp_path / "coco" / "annotations" / f"instances_{'val' if name == 'validation' else name}.json"]
    for file in [*truths, *([Path(path)] if form == "coco" else [])]:
        assert ap(file, results) == pytest.approx((1.0, 1.0), abs=1e-6), file


def ap(truth: Path, results: list[dict[str, Any]]) -> tuple[float, float]:
    """Average precision and recall of boxes."""
    with contextlib.redirect_stdout(io.StringIO()):
        coco: Any = COCO(str(truth))
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0]), float(evaluation.stats[8])
