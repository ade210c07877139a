"""Detection and segmentation for PyTorch: what NumPy's reference says, under the image that was drawn."""

import copy
import importlib.util
import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from object_images import encoded
from PIL import Image

import shardfeed
import shardfeed.pipelines
from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    RASTER,
    RASTER_FORMAT,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, convert
from shardfeed.converters.sources.source import MaskTable, Objects, RasterImage
from shardfeed.errors import IntegrityError, MissingExtraError, UsageError
from shardfeed.pipelines import geometry, make_batches, mix
from shardfeed.pipelines.torch import (
    Target,
    Workers,
    detection,
    letterbox,
    random_resized_crop,
    resize_center_crop,
    segmentation,
    to_device,
    torch_loader,
)
from shardfeed.pipelines.torch.images import GeometricTransform
from shardfeed.readers import Dataset
from shardfeed.schema import Feature, Schema

BATCH, VOID = 5, 255
POINTS = Keypoints(("nose", "left", "right"), (0, 2, 1))
COLOURS = [(230, 30, 30), (30, 230, 30), (30, 30, 230), (230, 230, 30)]
RAGGED: tuple[None] = (None,)
SCHEMA = Schema(
    {
        **{key: Feature("float32", RAGGED, "box") for key in BOX},
        OBJECT_LABEL: Feature("int64", RAGGED, "label"),
        IS_CROWD: Feature("int64", RAGGED, "number"),
        OBJECT_AREA: Feature("float32", RAGGED, "number"),
        OBJECT_MASK: Feature("bytes", RAGGED, "mask"),
        KEYPOINT_X: Feature("float32", RAGGED, "keypoint"),
        KEYPOINT_Y: Feature("float32", RAGGED, "keypoint"),
        KEYPOINT_VISIBILITY: Feature("int64", RAGGED, "number"),
        RASTER: Feature("bytes", (), "raster"),
        RASTER_FORMAT: Feature("bytes", (), "text"),
    },
    {OBJECT_LABEL: ("cat", "dog")},
    keypoints=POINTS,
    raster=Raster(("ground", "cat", "dog"), VOID),
)
MASKS = MaskTable(tuple((value, value) for value in (0, 1, 2, VOID)))


class Scenes:
    """Image i has i % 5 rectangles, of a colour each, one in each quarter; number 100 + i. The first is a crowd."""

    schema = SCHEMA

    def __init__(self, images: int) -> None:
        self.images = images

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self.images:
            raise IndexError(i)
        rng = np.random.default_rng(i)
        height, width = (int(side) for side in rng.integers(60, 120, 2))
        image, raster = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.uint8)
        raster[:3] = VOID
        boxes, outlines = [], []
        for n in range(i % 5):
            top, left = (n // 2) * height // 2 + rng.integers(1, 8), (n % 2) * width // 2 + rng.integers(1, 8)
            bottom, right = top + rng.integers(12, 20), left + rng.integers(12, 20)
            image[top:bottom, left:right] = COLOURS[n]
            raster[top:bottom, left:right] = 1 + n % 2
            boxes.append((left, top, right, bottom))
            outlines.append([[left, top, right, top, right, bottom, left, bottom]])
        found = np.array(boxes, np.float64).reshape(-1, 4)
        left, top, right, bottom = found.T
        points = np.stack([np.stack([x, y, np.full(len(found), 2.0)], 1) for x, y in (
            ((left + right) / 2, (top + bottom) / 2), (left, top), (right, top))], 1)  # fmt: skip
        columns = {OBJECT_LABEL: [n % 2 for n in range(len(found))], IS_CROWD: [int(n == 0) for n in range(len(found))]}
        names = [f"annotation {n}" for n in range(len(found))]
        objects = Objects(found, columns, names, (width, height), points={"keypoints": points}, outlines=outlines)
        mask = RasterImage(encoded(raster), MASKS)
        return Sample(b"%d.png" % i, encoded(image), objects=objects, number=100 + i, raster=mask)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """23 images in 2 shards."""
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(Scenes(23), out, shards=2, workers=2)
    return shardfeed.open(out)


CROP = random_resized_crop((48, 56), area=(0.2, 1.0))
FULL: dict[str, Any] = {"masks": True, "keypoints": True}


def made_by_numpy(record: Any, view: geometry.View, **options: Any) -> dict[str, np.ndarray]:
    """Targets of a record by the reference in NumPy."""
    seen = geometry.see_boxes(np.stack([record[key] for key in BOX], 1), view, **options)
    x, y, v = (np.asarray(record[key]).reshape(-1, 3) for key in (KEYPOINT_X, KEYPOINT_Y, KEYPOINT_VISIBILITY))
    masks = [np.asarray(Image.open(io.BytesIO(record[OBJECT_MASK][i]))) for i in seen.kept]
    return {
        "boxes": seen.boxes,
        "labels": record[OBJECT_LABEL][seen.kept] + 1,
        "iscrowd": record[IS_CROWD][seen.kept],
        "area": geometry.see_areas(record[OBJECT_AREA], seen, view),
        "masks": np.array([geometry.see_raster(mask, view) for mask in masks], np.uint8).reshape(-1, *view.target),
        "keypoints": geometry.see_points(x, y, v, view, POINTS.flip)[seen.kept],
    }


@pytest.mark.parametrize("image", [CROP, resize_center_crop((40, 30)), letterbox((64, 90), fill=3)], ids=type)
def test_a_target_is_what_numpy_says(scenes: Dataset, image: GeometricTransform) -> None:
    split: Any = scenes["train"]
    _, transform = detection(image, label_offset=1, **FULL).bind(split.schema)
    empty = 0
    for seed, record in enumerate(split):
        pixels, target = pickle.loads(pickle.dumps(transform))(record, seed)
        same, view = image.see(record, seed)
        assert torch.equal(pixels, same)
        expected = made_by_numpy(record, view)
        for key, values in expected.items():
            assert target[key].numpy().dtype == values.dtype, key
            assert np.array_equal(target[key].numpy(), values), key
        assert target["image_id"].item() == int(record["image/source_id"])
        assert ("scale" in target) != image.crop.mirrors
        empty += not len(target["boxes"])
    for number in (b"9" * 30, b"9" * 5000):  # no tensor holds them
        _, target = transform({**split[0], "image/source_id": number}, 0)
        assert "image_id" not in target
        assert target["masks"].shape[1:] == pixels.shape[1:]
        assert (target["boxes"][:, 2:] > target["boxes"][:, :2]).all()
    assert empty >= 5


def test_the_rectangles_in_the_pixels_are_under_their_boxes(scenes: Dataset) -> None:
    """Looked for in the pixels by their colour; the resize smears an edge over a pixel or two."""
    split: Any = scenes["train"]
    _, transform = detection(CROP, min_visible=0, **FULL).bind(split.schema)
    checked = 0
    for seed in range(3):
        for record in split:
            image, target = transform(record, seed)
            numbers = range(int(record["image/source_id"]) % 5)
            kept = geometry.see_boxes(np.stack([record[key] for key in BOX], 1), CROP.see(record, seed)[1], 0.0).kept
            for place, n in enumerate(kept.tolist()):
                assert n in numbers
                distance = (image.int() - torch.tensor(COLOURS[n])[:, None, None]).abs().amax(0)
                rows, columns = np.nonzero((distance < 90).numpy())
                left, top, right, bottom = target["boxes"][place].tolist()
                mask_rows, mask_columns = np.nonzero(target["masks"][place].numpy())
                if min(right - left, bottom - top) < 4:
                    continue
                checked += 1
                for found in ((columns, rows), (mask_columns, mask_rows)):
                    assert abs(found[0].min() - left) <= 2
                    assert abs(found[0].max() + 1 - right) <= 2
                    assert abs(found[1].min() - top) <= 2
                    assert abs(found[1].max() + 1 - bottom) <= 2
                for x, y, v in target["keypoints"][place].tolist():
                    assert v == 0 or (left - 1e-3 <= x <= right + 1e-3 and top - 1e-3 <= y <= bottom + 1e-3)
                _, (left_x, _, left_v), (right_x, _, right_v) = target["keypoints"][place].tolist()
                assert not (left_v and right_v) or left_x < right_x  # of a mirrored one, too
    assert checked > 50


sides = st.integers(1, 300)


@settings(max_examples=60)
@given(sides, sides, st.integers(1, 64), st.integers(1, 64), st.integers(0, 2**40), st.data())
def test_no_box_is_without_area(height: int, width: int, tall: int, wide: int, seed: int, data: st.DataObject) -> None:
    fraction = st.floats(0, 1, width=32)
    corners = data.draw(st.lists(st.tuples(fraction, fraction, fraction, fraction), max_size=4))
    rows = [(min(a, b), min(c, d), max(a, b), max(c, d)) for a, b, c, d in corners if a != b and c != d]
    columns = np.array(rows, np.float32).reshape(-1, 4).T
    record = dict(zip(BOX, columns, strict=True)) | {"image/encoded": encoded(np.zeros((height, width), np.uint8))}
    image = random_resized_crop((tall, wide))
    pixels, target = detection(image, min_visible=0)(record, seed)
    assert tuple(pixels.shape) == (3, tall, wide)
    boxes = target["boxes"]
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert (boxes >= 0).all()
    assert (boxes <= torch.tensor([wide, tall, wide, tall])).all()
    seen = geometry.see_boxes(columns.T, image.see(record, seed)[1], 0.0)
    assert np.array_equal(seen.boxes, boxes.numpy())
    assert target["labels"].tolist() == [0] * len(boxes)


def test_a_segmentation_is_what_numpy_says(scenes: Dataset) -> None:
    split: Any = scenes["train"]
    for image in (CROP, letterbox(64)):
        _, transform = pickle.loads(pickle.dumps(segmentation(image))).bind(split.schema)
        for seed, record in enumerate(split):
            pixels, raster = transform(record, seed)
            same, view = image.see(record, seed)
            assert torch.equal(pixels, same)
            whole = np.asarray(Image.open(io.BytesIO(record[RASTER])))
            assert raster.dtype == torch.int64
            assert np.array_equal(raster.numpy(), geometry.see_raster(whole, view, VOID))
            assert set(raster.unique().tolist()) <= {0, 1, 2, VOID}
    loader = torch_loader(split, batch_size=BATCH, transform=segmentation(CROP, dtype=torch.uint8), workers=0)
    images, rasters = next(iter(loader))
    assert (images.shape, rasters.shape, rasters.dtype) == ((BATCH, 3, 48, 56), (BATCH, 48, 56), torch.uint8)
    no_void = replace(split.schema, raster=Raster(("ground", "cat", "dog")))
    with pytest.raises(UsageError, match=r"no void value.*void=255"):
        segmentation(letterbox(64)).bind(no_void)
    _, transform = segmentation(letterbox(64), void=0).bind(no_void)
    assert transform(split[0], 0)[1].max() == VOID


def same(mine: Any, theirs: Any) -> bool:
    (images, targets), (other_images, others) = mine, theirs
    return torch.equal(images, other_images) and all(
        a.keys() == b.keys() and all(type(a[k]) is type(b[k]) and torch.equal(a[k], b[k]) for k in a)
        for a, b in zip(targets, others, strict=True)
    )


@pytest.mark.parametrize("workers", [2, pytest.param(Workers(2, start_method="spawn"), marks=pytest.mark.long)])
def test_batches_of_workers_are_those_of_none(scenes: Dataset, workers: Any) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "transform": detection(CROP, label_offset=1, **FULL), "seed": 3}
    alone, shared = (torch_loader(scenes["train"], workers=count, **options) for count in (0, workers))
    for _ in range(2):
        for mine, theirs in zip(alone, shared, strict=True):
            assert same(mine, theirs)
            images, targets = theirs
            assert (images.shape, images.dtype) == ((BATCH, 3, 48, 56), torch.uint8)
            assert images.is_contiguous(memory_format=torch.channels_last)
            assert isinstance(targets, list)
            assert [type(target) for target in targets] == [Target] * BATCH
            for target in targets:
                target["boxes"] += 1  # they are the user's, each


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({OBJECT_MASK: [encoded(np.zeros((2, 2), np.uint8))] * 4}, r"has the shape \[2, 2\], its image \[\d+, \d+\]"),
        ({OBJECT_MASK: [b"none"] * 4}, "it does not decode"),
        ({OBJECT_LABEL: np.zeros(3, np.int64)}, "image/object/class/label has 3 values for 4 objects"),
        ({BOX[1]: np.zeros(3, np.float32)}, "image/object/bbox/ymin has 3 values for 4 objects"),
        ({KEYPOINT_X: np.zeros(11, np.float32)}, "for 12 objects|has 12 values for 11 objects"),
    ],
)
def test_records_with_columns_of_wrong_length_are_refused(
    scenes: Dataset, changes: dict[str, Any], message: str
) -> None:
    split: Any = scenes["train"]
    _, transform = detection(letterbox(64), **FULL).bind(split.schema)
    record = next(record for record in split if len(record[OBJECT_LABEL]) == 4)
    with pytest.raises(IntegrityError, match=message):
        transform({**record, **changes}, 0)


def test_missing_features_are_refused(scenes: Dataset, flowers: Dataset) -> None:
    def make(transform: Any, split: Any = flowers["train"]) -> Any:
        return torch_loader(split, batch_size=4, transform=transform, workers=0)

    with pytest.raises(UsageError, match="this dataset has no objects with classes: no feature image/object/bbox/xmin"):
        make(detection(CROP))
    without_classes = Schema({key: SCHEMA.features[key] for key in BOX} | {"image/encoded": Feature("bytes")})
    with pytest.raises(UsageError, match="this dataset has no objects with classes: no feature image/object/class/la"):
        detection(CROP).bind(without_classes)
    with pytest.raises(UsageError, match="this dataset has no rasters: no feature image/segmentation"):
        make(segmentation(CROP))
    boxes_only = Schema(
        {key: SCHEMA.features[key] for key in (*BOX, OBJECT_LABEL)} | {"image/encoded": Feature("bytes")}
    )
    for what, called in (("masks", "masks"), ("keypoints", "key points")):
        options: Any = {what: True}
        with pytest.raises(UsageError, match=f"this dataset has no {called}: no feature image/object"):
            detection(CROP, **options).bind(boxes_only)
    straight = random_resized_crop(32, flip=False)
    cannot_mirror = replace(SCHEMA, keypoints=Keypoints(POINTS.names))
    with pytest.raises(UsageError, match="cannot be flipped"):
        detection(CROP, keypoints=True).bind(cannot_mirror)
    detection(straight, keypoints=True).bind(cannot_mirror)
    with pytest.raises(UsageError, match="expected one of xyxy, xywh, center_xywh with tv=True"):
        detection(CROP, boxes="yxyx", tv=True)
    with pytest.raises(UsageError, match=r"dtype: got torch\.float32"):
        segmentation(CROP, dtype=torch.float32)
    with pytest.raises(UsageError, match="void: got 256"):
        segmentation(CROP, dtype=torch.uint8, void=256)


def test_forms_of_boxes() -> None:
    record = dict(zip(BOX, np.array([[0.25], [0.25], [0.5], [1.0]], np.float32), strict=True))
    record["image/encoded"] = encoded(np.zeros((20, 40), np.uint8))
    for form, expected in {
        "xyxy": [20, 10, 40, 40],
        "yxyx": [10, 20, 40, 40],
        "xywh": [20, 10, 20, 30],
        "center_xywh": [30, 25, 20, 30],
        "center_yxhw": [25, 30, 30, 20],
        "rel_xyxy": [0.25, 0.25, 0.5, 1],
        "rel_yxyx": [0.25, 0.25, 1, 0.5],
        "rel_xywh": [0.25, 0.25, 0.25, 0.75],
        "rel_center_xywh": [0.375, 0.625, 0.25, 0.75],
    }.items():
        form: Any
        _, target = detection(resize_center_crop((40, 80), crop_fraction=1.0), boxes=form)(record, 0)
        assert target["boxes"].dtype == torch.float32
        assert target["boxes"].tolist() == [expected], form


def test_what_the_decoder_shrinks_keeps_its_boxes(tmp_path: Path) -> None:
    """A JPEG of which the window is cut in pixels that are 2, 4 or 8 times as large."""
    pixels = np.zeros((700, 900, 3), np.uint8)
    pixels[201:463, 307:611] = 255
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=95)
    sides = np.array([[307 / 900], [201 / 700], [611 / 900], [463 / 700]], np.float32)
    record = dict(zip(BOX, sides, strict=True)) | {"image/encoded": out.getvalue()}
    ratios = set()
    for seed in range(40):
        image = random_resized_crop((60, 70), area=(0.02, 1.0))
        decoded, target = detection(image, min_visible=0)(record, seed)
        view = image.see(record, seed)[1]
        ratios.add(min(view.window.height // 60, view.window.width // 70))
        for left, top, right, bottom in target["boxes"].tolist():
            if min(right - left, bottom - top) > 3:
                rows, columns = np.nonzero((decoded[1] > 127).numpy())
                found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert np.abs(np.subtract(found, [left, top, right, bottom])).max() <= 1.01, seed
    assert {1, 2, 4, 8} <= ratios


def test_crowds_and_columns_that_are_not_there(scenes: Dataset) -> None:
    split: Any = scenes["train"]
    box = letterbox(64)
    for record in split:
        _, target = detection(box)(record, 0)
        left, top, right, bottom = target["boxes"].T
        _, alone = detection(box, crowd="drop", masks=True)(record, 0)
        single = target["iscrowd"] == 0
        assert len(single) == 0 or not single[0]
        for key in ("boxes", "labels", "area", "iscrowd"):
            assert torch.equal(alone[key], target[key][single])
        assert len(alone["masks"]) == int(single.sum())
        without = {key: values for key, values in record.items() if key not in (OBJECT_AREA, IS_CROWD, OBJECT_LABEL)}
        _, bare = detection(box)(without, 0)
        assert torch.equal(bare["area"], (right - left) * (bottom - top))
        assert bare["labels"].tolist() == bare["iscrowd"].tolist() == [0] * len(left)


def test_predictions_lead_back_to_the_stored_image(scenes: Dataset) -> None:
    split: Any = scenes["train"]
    for image in (letterbox((64, 200)), resize_center_crop(300, crop_fraction=1.0)):
        for record in split:
            _, target = detection(image, min_visible=1.0)(record, 0)
            back = geometry.boxes_to_source(target["boxes"].numpy(), target["scale"].numpy(), target["offset"].numpy())
            sides = np.array([record["image/width"], record["image/height"]] * 2)
            kept = geometry.see_boxes(np.stack([record[k] for k in BOX], 1), image.see(record, 0)[1], 1.0).kept
            assert np.allclose(back, (np.stack([record[key] for key in BOX], 1) * sides)[kept], atol=1e-3)


def test_splits_that_are_mixed(scenes: Dataset, photos: Dataset) -> None:
    both = mix([(scenes["train"], 1), (photos["train"], 1)])
    assert (both.schema.keypoints, both.schema.raster) == (POINTS, None)
    loader = torch_loader(both, batch_size=4, transform=detection(CROP, keypoints=True), workers=0)
    assert sum(len(targets) for _, targets in loader) == 40
    alone = mix([(scenes["train"][:9], 1), (scenes["train"][9:], 1)])
    assert alone.schema.raster == SCHEMA.raster
    assert len(list(torch_loader(alone, batch_size=4, transform=segmentation(CROP), workers=0))) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keypoints": Keypoints(POINTS.names)}, "the keypoints of"),
        ({"raster": Raster(("a", "b", "c"))}, "the raster of"),
    ],
)
def test_splits_that_mean_other_things_are_not_mixed(scenes: Dataset, change: dict[str, Any], message: str) -> None:
    split = scenes["train"]
    other = copy.copy(split)
    object.__setattr__(other, "schema", replace(split.schema, **change))
    with pytest.raises(UsageError, match=message):
        mix([(split, 1), (other, 1)])


def test_targets_on_a_device(scenes: Dataset) -> None:
    loader = torch_loader(scenes["train"], batch_size=BATCH, transform=detection(CROP, masks=True), workers=0)
    for images, targets in to_device(loader, "cpu", mean=(0.5,) * 3, std=(0.2,) * 3):
        assert images.dtype == torch.float32
        assert [type(target) for target in targets] == [Target] * BATCH
        assert all(target["masks"].dtype == torch.uint8 for target in targets)


def test_without_torchvision_it_is_said() -> None:
    if importlib.util.find_spec("torchvision") is None:
        with pytest.raises(MissingExtraError, match="tv=True: torchvision is not installed; pip install torchvision"):
            detection(CROP, tv=True)


def test_a_step_of_torchvisions_detector(scenes: Dataset) -> None:
    """tv_tensors come through workers as what they are, and a detector takes them as they come."""
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed; CI does without it")
    from torchvision import tv_tensors  # type: ignore[import-not-found]
    from torchvision.transforms import v2  # type: ignore[import-not-found]

    transform = detection(CROP, label_offset=1, crowd="drop", masks=True, tv=True)
    options: dict[str, Any] = {"batch_size": BATCH, "transform": transform, "seed": 3}
    alone, loader = (torch_loader(scenes["train"], workers=count, **options) for count in (0, 2))
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=96
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    for (images, targets), theirs in zip(loader, alone, strict=True):
        assert same((images, targets), theirs)
        for target in targets:
            assert type(target["boxes"]) is tv_tensors.BoundingBoxes
            assert target["boxes"].canvas_size == (48, 56)
            assert target["boxes"].format == tv_tensors.BoundingBoxFormat.XYXY
            assert type(target["masks"]) is tv_tensors.Mask
            assert type(target["labels"]) is torch.Tensor
    images, targets = next(iter(loader))
    mirrored = v2.RandomHorizontalFlip(p=1)(targets[-1])
    assert torch.equal(mirrored["boxes"][:, 0], 56 - targets[-1]["boxes"][:, 2])
    losses = model(list(images / 255), targets)
    total = torch.stack(list(losses.values())).sum()
    assert torch.isfinite(total)
    total.backward()
    optimiser.step()


class Photos(Scenes):
    """As large as photos, and JPEGs, for a decoder to shrink."""

    schema = replace(SCHEMA, features={key: SCHEMA.features[key] for key in SCHEMA.object_keys}, raster=None)

    def __getitem__(self, i: int) -> Sample:
        small = super().__getitem__(i)
        assert isinstance(small.image, bytes)
        image = Image.open(io.BytesIO(small.image))
        factor = 1 + 5 * (i % 2)
        out = io.BytesIO()
        image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST).save(out, "JPEG")
        objects: Any = small.objects
        fractions = objects.boxes / np.array([image.width, image.height] * 2)
        points = objects.points["keypoints"] / np.array([image.width, image.height, 1])
        outlines: Any = [[[v / (image.width, image.height)[n % 2] for n, v in enumerate(part)] for part in outline]
                    for outline in objects.outlines or ()]  # fmt: skip
        objects = replace(
            objects,
            boxes=fractions,
            points={"keypoints": points},
            outlines=outlines,
            size=None,
            fractions=True,
            upright=True,
        )
        return Sample(small.key, out.getvalue(), {}, objects=objects, number=small.number)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("photos") / "out"
    convert(Photos(20), out, shards=2, workers=2)
    return shardfeed.open(out)


@pytest.mark.parametrize(
    ("which", "form"), [("photos", "rel_center_xywh"), pytest.param("scenes", "xyxy", marks=pytest.mark.long)]
)
def test_the_same_targets_as_tensorflow(which: str, form: Any, request: pytest.FixtureRequest) -> None:
    """Bit for bit, of the same samples at the same steps."""
    split = request.getfixturevalue(which)["train"]
    options: dict[str, Any] = {"boxes": form, "label_offset": 1, **FULL}
    run: dict[str, Any] = {"batch_size": BATCH, "seed": 7}
    mirrored = shardfeed.pipelines.random_resized_crop((48, 56), area=(0.2, 1.0))
    straight = shardfeed.pipelines.letterbox((64, 90), fill=3)
    for theirs, mine in ((mirrored, CROP), (straight, letterbox((64, 90), fill=3))):
        transform = shardfeed.pipelines.detection(
            theirs, max_objects=6, area=True, image_id=True, crowd="flag", **options
        )
        batches = make_batches(split, transform, start_step=0, order="global", **run).take(8).as_numpy_iterator()
        loader = iter(torch_loader(split, transform=detection(mine, **options), start_step=0, workers=0, **run))
        for batch, (images, targets) in zip(batches, loader, strict=False):
            apart = np.abs(images.permute(0, 2, 3, 1).numpy().astype(int) - batch["images"]).mean((1, 2, 3))
            assert apart.max() < 20  # the resize, which has antialiasing here
            for row, target in enumerate(targets):
                count = batch["num_objects"][row]
                assert target["image_id"].item() == batch["image_id"][row]
                columns = {"boxes": batch["bounding_boxes"]["boxes"], "labels": batch["bounding_boxes"]["labels"]}
                columns |= {key: batch[key] for key in ("masks", "keypoints")} | {"iscrowd": batch["crowd"]}
                # TensorFlow's graph may multiply in another order.
                assert np.allclose(target["area"].numpy(), batch["area"][row][:count], rtol=1e-6)
                for key, values in columns.items():
                    assert np.array_equal(target[key].numpy(), values[row][:count]), key
                for key in ("scale", "offset"):
                    assert (key in target) == (key in batch)
                    assert key not in target or np.array_equal(target[key].numpy(), batch[key][row])


def test_the_same_rasters_as_tensorflow(scenes: Dataset) -> None:
    split: Any = scenes["train"]
    run: dict[str, Any] = {"batch_size": BATCH, "seed": 7}
    theirs = shardfeed.pipelines.segmentation(shardfeed.pipelines.random_resized_crop((48, 56), area=(0.2, 1.0)))
    batches = make_batches(split, theirs, start_step=0, order="global", **run).take(8).as_numpy_iterator()
    loader = torch_loader(split, transform=segmentation(CROP), start_step=0, workers=0, **run)
    for (_, expected), (_, rasters) in zip(batches, loader, strict=False):
        assert np.array_equal(rasters.numpy(), expected[..., 0])
