"""Detectors and segmentation with augmentations: what is painted stays under its box, mask and key points.

The same in NumPy, PyTorch and TensorFlow, through the loaders.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from object_images import encoded

import shardfeed
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
from shardfeed.errors import UsageError
from shardfeed.kinds import ROTATED
from shardfeed.pipelines import Global, make_batches
from shardfeed.pipelines import detection as detection_of_tensorflow
from shardfeed.pipelines import letterbox as letterbox_of_tensorflow
from shardfeed.pipelines import random_resized_crop as crop_of_tensorflow
from shardfeed.pipelines import segmentation as segmentation_of_tensorflow
from shardfeed.pipelines.arrays import array_batches
from shardfeed.pipelines.augment import (
    affine,
    color_jitter,
    erasing,
    perspective,
    quarter_turns,
    rand_augment,
    random_apply,
    vertical_flip,
)
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.places import are_mirrored, move_points, unpacked
from shardfeed.pipelines.tensorflow.views import ViewTensors
from shardfeed.pipelines.torch import detection, letterbox, random_resized_crop, segmentation, torch_loader
from shardfeed.pipelines.windows import sample_seeds
from shardfeed.readers.split import Split
from shardfeed.schema import Feature, Schema

pytest.importorskip("cv2")

COUNT, BATCH, VOID, SIDE = 12, 4, 255, 64
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
        **ROTATED.features,
        RASTER: Feature("bytes", (), "raster"),
        RASTER_FORMAT: Feature("bytes", (), "text"),
    },
    {OBJECT_LABEL: ("red", "green", "blue")},
    keypoints=Keypoints(("left", "right", "centre"), (1, 0, 2)),
    raster=Raster(("ground", "red", "green", "blue"), VOID),
)
VALUES = MaskTable(tuple((value, value) for value in (0, 1, 2, 3, VOID)))


class Scenes:
    """Black images with three bright rectangles: object n, of class n, is bright in channel n alone.

    The fourth quarter is empty. Its upper rows are void in the raster.
    """

    schema = SCHEMA

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < COUNT:
            raise IndexError(i)
        rng = np.random.default_rng(i)
        height, width = (int(side) for side in rng.integers(90, 160, 2))
        image, raster, boxes = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.uint8), []
        raster[:3] = VOID
        for n in range(3):
            top, left = (n // 2) * height // 2 + rng.integers(4, 12), (n % 2) * width // 2 + rng.integers(4, 12)
            bottom, right = top + rng.integers(22, 32), left + rng.integers(22, 32)
            image[top:bottom, left:right, n] = 255
            raster[top:bottom, left:right] = 1 + n
            boxes.append((left, top, right, bottom))
        found = np.array(boxes, np.float64)
        left, top, right, bottom = found.T
        middle, visible = (top + bottom) / 2, np.full(3, 2.0)
        points = [np.stack([x, middle, visible], 1) for x in (left + 1, right - 1, (left + right) / 2)]
        corners = np.stack([left, top, right, top, right, bottom, left, bottom], 1).reshape(3, 4, 2)
        objects = Objects(
            found,
            {OBJECT_LABEL: [0, 1, 2], IS_CROWD: [0, 0, 1]},
            ["a", "b", "c"],
            (width, height),
            points={"keypoints": np.stack(points, 1), "rotated": corners},
            outlines=[[box.ravel().tolist()] for box in corners],
        )
        return Sample(b"%d.png" % i, encoded(image), objects=objects, raster=RasterImage(encoded(raster), VALUES))


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Split:
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(Scenes(), out, shards=1, workers=1)
    return shardfeed.open(out)["train"]


AUGMENT: dict[str, list[Augmentation]] = {
    "affine": [affine(30, (0.1, 0.1), (0.8, 1.3), 15, interpolation="bilinear")],
    "perspective": [color_jitter(0.1), perspective(0.5, p=0.8)],
    "turns": [quarter_turns(), vertical_flip()],
    "erasing": [erasing(p=0.8)],
    "all": [affine(20, interpolation="bilinear"), vertical_flip(), perspective(0.3), random_apply([erasing(p=1.0)])],
    "rand_augment": [rand_augment(2, 9)],
}
ALL = list(AUGMENT)
CROPS = {"crop": {"area": (0.3, 1.0)}, "letterbox": {}}


def of_torch(kind: str, augment: Sequence[Augmentation]) -> Any:
    make: Any = random_resized_crop if kind == "crop" else letterbox
    return make(SIDE, antialias=False, augment=augment, **CROPS[kind])


def of_tensorflow(kind: str, augment: Sequence[Augmentation]) -> Any:
    make: Any = crop_of_tensorflow if kind == "crop" else letterbox_of_tensorflow
    return make(SIDE, augment=augment, **CROPS[kind])


def of_numpy(train: Split, kind: str, augment: Sequence[Augmentation], **options: Any) -> list[dict[str, Any]]:
    options |= {"letterbox": True} if kind == "letterbox" else CROPS[kind]
    return list(array_batches(train, batch_size=BATCH, image_size=SIDE, seed=5, augment=augment, **options))


def torch_batches(train: Split, transform: Any, workers: int = 0) -> list[Any]:
    return list(torch_loader(train, batch_size=BATCH, transform=transform, workers=workers, seed=5))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CROPS for name in ALL if name != "rand_augment"])
def test_what_is_painted_stays_under_its_mask_box_and_points(train: Split, kind: str, name: str) -> None:
    """Channel n of the pixels is object n: its mask, box and key points must be there."""
    detect = detection(of_torch(kind, AUGMENT[name]), masks=True, keypoints=True, min_visible=0.02)
    seen, overlaps, swapped = 0, [], 0
    for _ in range(2):
        for images, targets in torch_batches(train, detect):
            for image, target in zip(images.numpy(), targets, strict=True):
                for n, label in enumerate(target["labels"].tolist()):
                    mask, box = target["masks"][n].numpy() > 0, target["boxes"][n].numpy()
                    painted = image[label] > 127
                    painted &= np.delete(image, label, 0).max(0) < 64
                    if mask.sum() < 60:
                        continue
                    overlaps.append((painted & mask).sum() / (painted | mask).sum())
                    rows, columns = np.nonzero(mask)
                    extents = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
                    inside = np.array([*(extents[:2] - box[:2]), *(box[2:] - extents[2:])])
                    assert (inside > -2.01).all(), "the mask is inside of the box"
                    if name not in ("erasing", "all"):
                        assert (inside < 2.51).all(), "the box is around the mask"
                        area = target["area"][n].item()
                        assert abs(mask.sum() - area) < 2.5 * (box[2] - box[0] + box[3] - box[1])
                    left, right, centre = target["keypoints"][n].numpy()
                    if left[2] and right[2] and centre[2]:
                        np.testing.assert_allclose((left + right)[:2] / 2, centre[:2], atol=4)
                        swapped += left[0] > right[0]
                    for x, y, visible in (left, right, centre):
                        around = mask[max(0, int(y) - 2) : int(y) + 3, max(0, int(x) - 2) : int(x) + 3]
                        assert not visible or around.any(), "key points are on the object"
                    seen += 1
    assert seen > 25
    assert min(overlaps) > 0.75
    assert np.mean(overlaps) > 0.9


@pytest.mark.parametrize(
    ("kind", "name"), [("crop", "all"), ("letterbox", "all"), *(("crop", name) for name in ALL if name != "all")]
)
def test_three_frameworks_see_the_same_objects(train: Split, kind: str, name: str) -> None:
    """Images, boxes, areas, masks, key points and rotated boxes, bit for bit, in every sample of an epoch."""
    augment = AUGMENT[name]
    of_arrays = of_numpy(train, kind, augment, targets=["boxes", "masks", "keypoints"])
    full: Any = {"masks": True, "keypoints": True}
    tensors = torch_batches(train, detection(of_torch(kind, augment), **full))
    corners = torch_batches(train, detection(of_torch(kind, augment), boxes="xyxyxyxy"))
    asked: Any = {"batch_size": BATCH, "seed": 5, "order": "global"}
    detect = detection_of_tensorflow(of_tensorflow(kind, augment), max_objects=3, area=True, **full)
    in_graph = make_batches(train, detect, **asked).as_numpy_iterator()
    detect = detection_of_tensorflow(of_tensorflow(kind, augment), max_objects=3, boxes="xyxyxyxy")
    rotated = make_batches(train, detect, **asked).as_numpy_iterator()
    moved = 0
    for batch, (images, targets), (_, cornered), graph, turned in zip(
        of_arrays, tensors, corners, in_graph, rotated, strict=True
    ):
        np.testing.assert_array_equal(batch["images"], graph["images"])
        np.testing.assert_array_equal(batch["images"], images.permute(0, 2, 3, 1).numpy())
        assert ("scale" in batch) == ("scale" in graph) == ("scale" in targets[0])
        for n, (target, outlined) in enumerate(zip(targets, cornered, strict=True)):
            count = len(target["boxes"])
            assert graph["num_objects"][n] == count
            columns = {"boxes": graph["bounding_boxes"]["boxes"], "labels": graph["bounding_boxes"]["labels"]}
            columns |= {key: graph[key] for key in ("masks", "keypoints", "area")}
            for key, values in columns.items():
                np.testing.assert_array_equal(values[n, :count], target[key].numpy(), err_msg=key)
                np.testing.assert_array_equal(batch[key][n], target[key].numpy(), err_msg=key)
            np.testing.assert_array_equal(turned["bounding_boxes"]["boxes"][n, :count], outlined["boxes"].numpy())
            x, y = (outlined["boxes"].numpy()[:, axis::2].reshape(-1, 4) for axis in (0, 1))
            ends = np.roll(x, -1, 1), np.roll(y, -1, 1)
            clockwise = (x * ends[1] - ends[0] * y).sum(1)
            assert (clockwise > 0).all(), "corners go around the same way, mirrored or not"
            moved += count
    assert moved > 15


def test_batches_of_several_shapes_follow_too(train: Split) -> None:
    """A shape is chosen by the order: also for one image in a transform of the user's."""
    order: Any = Global(shapes=[(48, 64), (64, 48)])
    augment = AUGMENT["all"]
    image, in_graph = random_resized_crop(antialias=False, augment=augment), crop_of_tensorflow(augment=augment)
    full: Any = {"masks": True, "keypoints": True}
    keys, own = detection(image, **full).bind(train.schema)
    loaders = [
        torch_loader(train, batch_size=BATCH, transform=transform, workers=0, seed=5, order=order)
        for transform in (detection(image, **full), lambda record, seed: own(record, seed))
    ]
    detect = detection_of_tensorflow(in_graph, max_objects=3, **full)
    graph = make_batches(train, detect, batch_size=BATCH, seed=5, order=order).as_numpy_iterator()
    assert keys
    shapes = set()
    for (images, targets), (others, same), batch in zip(*loaders, graph, strict=True):
        np.testing.assert_array_equal(images.numpy(), others.numpy())
        np.testing.assert_array_equal(batch["images"], images.permute(0, 2, 3, 1).numpy())
        shapes.add(tuple(images.shape[2:]))
        for n, (target, equal) in enumerate(zip(targets, same, strict=True)):
            count = len(target["boxes"])
            for key in ("boxes", "masks", "keypoints"):
                np.testing.assert_array_equal(target[key].numpy(), equal[key].numpy(), err_msg=key)
                found = batch["bounding_boxes"]["boxes"] if key == "boxes" else batch[key]
                np.testing.assert_array_equal(found[n, :count], target[key].numpy(), err_msg=key)
    assert shapes == {(48, 64), (64, 48)}


@pytest.mark.parametrize("kind", CROPS)
def test_rasters_are_void_where_there_is_no_image(train: Split, kind: str) -> None:
    augment = AUGMENT["all"]
    of_arrays = of_numpy(train, kind, augment, targets=["raster"])
    tensors = torch_batches(train, segmentation(of_torch(kind, augment)))
    segment = segmentation_of_tensorflow(of_tensorflow(kind, augment), sample_weight=True)
    graph = make_batches(train, segment, batch_size=BATCH, seed=5, order="global").as_numpy_iterator()
    for batch, (images, rasters), (_, classes, weights) in zip(of_arrays, tensors, graph, strict=True):
        rasters = rasters.numpy()
        np.testing.assert_array_equal(batch["raster"], rasters)
        np.testing.assert_array_equal(classes[..., 0], np.where(rasters == VOID, 0, rasters))
        np.testing.assert_array_equal(weights, rasters != VOID)
        bright = images.numpy() > 200
        for n in range(3):
            alone = bright[:, n] & (np.delete(images.numpy(), n, 1).max(1) < 40)
            assert (rasters[alone] == n + 1).mean() > 0.97
        assert (rasters == VOID).mean() > 0.05


def test_erased_pixels_of_a_raster_without_void_keep_their_class(train: Split) -> None:
    """And pixels from outside of the image need a void value, which is said when the loader is made."""
    assert train.schema.raster is not None
    schema = replace(train.schema, raster=replace(train.schema.raster, void=None))
    plain, erased = (
        segmentation(of_torch("crop", augment)).bind(schema)[1] for augment in ([], [erasing(p=1.0, value=77)])
    )
    for seed in range(5):
        (image, raster), (other, same) = plain(train[seed], seed), erased(train[seed], seed)
        assert (image != other).any()
        np.testing.assert_array_equal(raster.numpy(), same.numpy())
    for make, bound in ((segmentation, of_torch), (segmentation_of_tensorflow, of_tensorflow)):
        image = bound("crop", [random_apply([affine(10)]), vertical_flip()])
        with pytest.raises(
            UsageError, match=r"no void value.*outside of the image, which random_apply shows.*void=255"
        ):
            make(image).bind(schema)
        make(image, void=255).bind(schema)


def test_targets_say_the_same(train: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.schema.raster is not None
    without_void = replace(train.schema, raster=replace(train.schema.raster, void=None))
    monkeypatch.setattr(train, "schema", without_void)
    asked: Any = {"targets": ["raster"]}
    with pytest.raises(UsageError, match=r"^targets: .*which affine shows, become void; leave affine out$"):
        of_numpy(train, "crop", AUGMENT["affine"], **asked)
    assert "raster" in of_numpy(train, "crop", AUGMENT["turns"], **asked)[0]


def test_points_that_cannot_be_flipped_refuse_augmentations_that_mirror(train: Split) -> None:
    schema = replace(train.schema, keypoints=Keypoints(("left", "right", "centre"), ()))
    for make, bound in ((detection, of_torch), (detection_of_tensorflow, of_tensorflow)):
        make(bound("letterbox", AUGMENT["affine"]), keypoints=True).bind(schema)
        with pytest.raises(UsageError, match="augmentations that do not mirror"):
            make(bound("letterbox", [random_apply([vertical_flip()])]), keypoints=True).bind(schema)


def test_augment_of_a_loader_reaches_the_objects(train: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of the crop within `detection`; and what the dataset lacks for it is said when the loader is made."""
    augment, full = AUGMENT["all"], {"masks": True, "keypoints": True}
    inside = torch_batches(train, detection(of_torch("crop", augment), **full))
    transform: Any = detection(of_torch("crop", []), **full)
    given: Any = {"batch_size": BATCH, "workers": 0, "seed": 5}
    outside = list(torch_loader(train, transform=transform, augment=augment, **given))
    for (images, targets), (others, same) in zip(inside, outside, strict=True):
        np.testing.assert_array_equal(images.numpy(), others.numpy())
        for target, equal in zip(targets, same, strict=True):
            assert target.keys() == equal.keys()
            for key, values in target.items():
                np.testing.assert_array_equal(values.numpy(), equal[key].numpy(), err_msg=key)
    unpaired = replace(train.schema, keypoints=Keypoints(("left", "right", "centre"), ()))
    monkeypatch.setattr(train, "schema", unpaired)
    upright: Any = detection(of_torch("letterbox", []), keypoints=True)
    torch_loader(train, transform=upright, augment=[affine(10)], **given)
    with pytest.raises(UsageError, match="augmentations that do not mirror"):
        torch_loader(train, transform=upright, augment=[vertical_flip()], **given)


@pytest.mark.parametrize("name", ALL)
def test_an_image_alone_is_edited_as_in_its_batch(train: Split, name: str) -> None:
    """By a transform of the user's, that calls ours: the same pixels and targets as without Python of the user's."""
    for kind in CROPS:
        image = of_torch(kind, AUGMENT[name])
        keys, detect = detection(image, masks=True).bind(train.schema)

        def own(record: Any, seed: int, detect: Any = detect) -> Any:
            return detect(record, seed)

        for (images, targets), (others, same) in zip(
            torch_batches(train, detection(image, masks=True)), torch_batches(train, own), strict=True
        ):
            np.testing.assert_array_equal(images.numpy(), others.numpy())
            for target, equal in zip(targets, same, strict=True):
                assert target.keys() == equal.keys()
                for key, values in target.items():
                    np.testing.assert_array_equal(values.numpy(), equal[key].numpy(), err_msg=key)
        assert keys
        pixels, view = image.see(train[0], 3)
        again, same_view = image.see(train[0], sample_seeds(np.array([[3, 0]]))[0])
        np.testing.assert_array_equal(pixels.numpy(), again.numpy())
        assert [kind for kind, _ in view.moves] == [kind for kind, _ in same_view.moves]


def test_a_transform_in_the_graph_follows_moves_too(train: Split) -> None:
    """The user's own function: its pixels are within a level before the edits, and boxes are equal."""
    image = of_tensorflow("crop", AUGMENT["all"])
    keys, detect = detection_of_tensorflow(image, max_objects=3, masks=True, keypoints=True).bind(train.schema)
    asked: Any = {"batch_size": BATCH, "seed": 5, "order": "global"}
    whole = detection_of_tensorflow(image, max_objects=3, masks=True, keypoints=True)
    outside = make_batches(train, whole, **asked)
    inside = make_batches(train, lambda *sample: detect(*sample), keys=keys, **asked)
    assert outside.element_spec == inside.element_spec
    for found, expected in zip(inside.as_numpy_iterator(), outside.as_numpy_iterator(), strict=True):
        difference = np.abs(found.pop("images").astype(int) - expected.pop("images"))
        assert difference.mean() < 0.5
        tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def test_a_view_in_the_graph_has_its_moves(train: Split) -> None:
    image = of_tensorflow("crop", [vertical_flip(p=1.0)])

    def corner(features: Any, seed: tf.Tensor) -> Any:
        view: ViewTensors = image.see(features, seed)[1]
        return tf.ensure_shape(view.moves, [1, 25])

    batches = make_batches(train, corner, batch_size=BATCH, seed=5, order="stored")
    for moves in batches.unbatch().as_numpy_iterator():
        assert are_mirrored(unpacked(moves), (SIDE, SIDE))
        point, _ = move_points(np.array([[[1, 2]]], np.float32), unpacked(moves), (SIDE, SIDE))
        assert point.tolist() == [[[1, SIDE - 2]]]


def test_colours_move_nothing_and_leave_the_way_back(train: Split) -> None:
    augment = [color_jitter(0.4), erasing()]
    (batch, *_) = of_numpy(train, "letterbox", augment, targets=["boxes"])
    assert {"scale", "offset"} <= batch.keys()
    (_, targets), *_ = torch_batches(train, detection(of_torch("letterbox", augment)))
    assert {"scale", "offset"} <= targets[0].keys()
    detect = detection_of_tensorflow(of_tensorflow("letterbox", augment))
    assert {"scale", "offset"} <= make_batches(train, detect, batch_size=BATCH).element_spec.keys()
    detect = detection_of_tensorflow(of_tensorflow("letterbox", [affine(10)]))
    assert not {"scale", "offset"} & make_batches(train, detect, batch_size=BATCH).element_spec.keys()


def test_erasing_hides_an_object_whose_share_is_gone(train: Split) -> None:
    """min_visible counts the erased share: a box of which a half is erased goes at 0.9, and stays as it is at 0.1."""
    plain, erased = (of_torch("letterbox", augment) for augment in ([], [erasing(1.0, (0.3, 0.3), (1.0, 1.0))]))
    dropped = kept = 0
    for seed in range(20):
        record = train[seed % COUNT]
        (_, every), (_, strict), (_, loose) = (
            detection(image, min_visible=least)(record, seed)
            for image, least in ((plain, 0.1), (erased, 0.9), (erased, 0.1))
        )
        boxes = {tuple(box) for box in every["boxes"].tolist()}
        assert (
            {tuple(box) for box in strict["boxes"].tolist()} <= {tuple(box) for box in loose["boxes"].tolist()} <= boxes
        )
        dropped += len(loose["boxes"]) - len(strict["boxes"])
        kept += len(strict["boxes"])
    assert dropped
    assert kept
