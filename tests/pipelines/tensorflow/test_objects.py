"""Detectors and segmentation for Keras: what is drawn in the pixels stays under its box, mask, raster and key point."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest
import tensorflow as tf
from object_images import encoded
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    OBJECT_AREA,
    OBJECT_LABEL,
    RASTER,
    RASTER_FORMAT,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, convert
from shardfeed.converters.sources.classes import Numbering
from shardfeed.converters.sources.rows.objects import ObjectGather
from shardfeed.converters.sources.source import MaskTable, RasterImage
from shardfeed.errors import UsageError
from shardfeed.kinds import KEYPOINTS
from shardfeed.pipelines import (
    Global,
    boxes_to_source,
    detection,
    distribute,
    distribute_eval,
    geometry,
    letterbox,
    make_batches,
    mix,
    random_resized_crop,
    resize_center_crop,
    segmentation,
)
from shardfeed.pipelines.augment.operations.letterbox import letterboxed
from shardfeed.pipelines.objects import BoxFormat
from shardfeed.pipelines.tensorflow.host_decoding import images_on_host
from shardfeed.pipelines.tensorflow.objects import formatted
from shardfeed.pipelines.windows import Window
from shardfeed.readers import Dataset
from shardfeed.readers.split import Split
from shardfeed.schema import Feature, Schema

COLORS = ((250, 20, 20), (20, 250, 20), (20, 20, 250))  # of object i of an image, whatever its class
SIZES = ((120, 90), (64, 100), (560, 700), (90, 90))  # (height, width)
VOID = 255
LONG = pytest.mark.long
KEYS = (*BOX, OBJECT_LABEL, OBJECT_AREA, IS_CROWD, *KEYPOINTS.features, RASTER)


MASKS = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
VALUES = MaskTable(tuple((value, value) for value in (0, 1, 2, 3, VOID)))


class Scenes:
    """Images with up to three rectangles of other colours, side by side, as objects and as a raster.

    A raster's class is that of the object; the upper quarter is void. Key points are the middles of the left
    and of the right side, and the object's centre.
    """

    def __init__(self, images: int, kind: str = "JPEG") -> None:
        self.images, self.kind = images, kind
        objects = ObjectGather(masks=True, keypoints=Keypoints(("left", "right", "centre"), (1, 0, 2)))
        self.rectangles: list[list[tuple[int, int, int, int]]] = []
        for i in range(images):
            self.rectangles.append(self._rectangles(i))
            height, width = SIZES[i % len(SIZES)]
            objects.set_size(i, width, height)
            for n, (x0, y0, x1, y1) in enumerate(self.rectangles[i]):
                y = (y0 + y1) / 2
                objects.add(
                    i, 10 * i + n, (x0, y0, x1, y1), str((i + n) % 3),
                    flags={IS_CROWD: int((i + n) % 4 == 3)}, area=(x1 - x0) * (y1 - y0),
                    points={"keypoints": (x0, y, 2, x1, y, 2, (x0 + x1) / 2, y, 1)},
                    outline=[[x0, y0, x1, y0, x1, y1, x0, y1]],
                )  # fmt: skip
        classes = Numbering(("cat", "dog", "eel"), {str(i): i for i in range(3)})
        self.table = objects.finish(classes, None, lambda *_: pytest.fail("left out"))
        self.schema = self.table.joined(Schema(MASKS, raster=Raster(("cat", "dog", "eel", "ground"), VOID)))

    def _rectangles(self, i: int) -> list[tuple[int, int, int, int]]:
        height, width = SIZES[i % len(SIZES)]
        rng, third = np.random.default_rng(i), width // 3
        found = []
        for n in range(i % 4):
            x0, x1 = n * third + rng.integers(0, third // 3), (n + 1) * third - rng.integers(1, third // 3)
            y0, y1 = rng.integers(2, height // 3), rng.integers(height // 2, height)
            found.append((int(x0), int(y0), int(x1), int(y1)))
        return found

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> Sample:
        if not 0 <= i < self.images:
            raise IndexError(i)
        height, width = SIZES[i % len(SIZES)]
        pixels, raster = np.full((height, width, 3), 20, np.uint8), np.full((height, width), 3, np.uint8)
        for n, (x0, y0, x1, y1) in enumerate(self.rectangles[i]):
            pixels[y0:y1, x0:x1] = COLORS[n]
            raster[y0:y1, x0:x1] = (i + n) % 3
        raster[: height // 4] = VOID
        image = encoded(pixels, self.kind, **({"quality": 95, "subsampling": 0} if self.kind == "JPEG" else {}))
        mask = RasterImage(encoded(raster), VALUES)
        return Sample(b"%03d" % i, image, objects=self.table.of_image(i), number=100 + i, raster=mask)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """24 images, a quarter without objects, in 3 shards."""
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(Scenes(24), out, shards=3, workers=2)
    return shardfeed.open(out)


@pytest.fixture(scope="module")
def train(scenes: Dataset) -> Split:
    return scenes["train"]


def samples(batches: tf.data.Dataset) -> Iterator[Any]:
    return batches.unbatch().as_numpy_iterator()


def drawn(image: np.ndarray, color: int) -> np.ndarray:
    """Which pixels have the colour of object number `color`: bool [height, width]."""
    image = image.astype(int)
    return np.delete(image, color, 2).max(2) + 100 < image[:, :, color]


CROPS = {
    "random": random_resized_crop(64, area=(0.2, 1.0)),
    "random, not square, small": random_resized_crop((20, 33), area=(0.5, 1.0)),
    "antialiased": random_resized_crop(64, area=(0.2, 1.0), antialias=True),
    "center": resize_center_crop((50, 40)),
    "letterbox": letterbox((40, 64)),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["random", "letterbox", *(pytest.param(name, marks=pytest.mark.long) for name in CROPS)]
)
def test_what_is_drawn_stays_under_its_box(train: Split, name: str) -> None:
    """Check the pixels themselves: each object's colour fills its box, and its mask, and joins its key points."""
    detect = detection(CROPS[name], max_objects=5, masks=True, keypoints=True, area=True, min_visible=0)
    seen = 0
    for sample in samples(make_batches(train, detect, batch_size=8, order="global", seed=3)):
        image, boxes = sample["images"], sample["bounding_boxes"]["boxes"]
        there = boxes[:, 0] >= 0
        assert sample["num_objects"] == there.sum()
        # Objects stand from left to right, in order of their colours; windows and flips may drop or turn them.
        colors = [color for color in range(3) if drawn(image, color).sum() > 3]
        masks = [sample["masks"][n].astype(bool) for n in np.flatnonzero(there)]
        for n, mask in enumerate(masks):
            x0, y0, x1, y1 = boxes[n]
            if min(x1 - x0, y1 - y0) < 3:
                continue
            (color,) = [color for color in colors if (drawn(image, color) & mask).any()]
            rows, columns = np.nonzero(drawn(image, color))
            found = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            np.testing.assert_allclose(found, boxes[n], atol=1.01)
            rows, columns = np.nonzero(mask)
            np.testing.assert_allclose(
                (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), boxes[n], atol=0.51
            )
            assert sample["area"][n] == pytest.approx((x1 - x0) * (y1 - y0), rel=1e-4)
            left, right, centre = sample["keypoints"][n]
            if left[2] and right[2]:
                np.testing.assert_allclose((left[0], right[0]), (x0, x1), atol=1e-3)
            if centre[2]:
                assert x0 - 1e-3 <= centre[0] <= x1 + 1e-3
            seen += 1
        assert (sample["masks"][len(masks) :] == 0).all()
        assert (boxes[len(masks) :] == -1).all()
        assert (sample["keypoints"][len(masks) :] == 0).all()
        assert (sample["area"][len(masks) :] == -1).all()
        assert (sample["bounding_boxes"]["labels"][len(masks) :] == -1).all()
    assert seen > 10


@pytest.mark.parametrize("name", [name for name in CROPS if not CROPS[name].antialias])
@pytest.mark.parametrize("task", ["segmentation", "detection"])
@pytest.mark.long
def test_where_images_are_made_outside_of_the_graph_the_rest_follows(train: Split, task: str, name: str) -> None:
    """Boxes, key points, masks and rasters to the last bit, images within a level."""
    pytest.importorskip("cv2")
    if task == "segmentation":
        whole = segmentation(CROPS[name])
    else:
        whole = detection(CROPS[name], max_objects=2, masks=True, keypoints=True, area=True, crowd="flag")
    keys, transform = whole.bind(train.schema)
    assert images_on_host(train, transform, 1) is not None
    options: dict[str, Any] = {"batch_size": 5, "seed": 3, "order": "global", "keys": keys}
    graph = make_batches(train, lambda *sample: transform(*sample), **options)
    apart = make_batches(train, whole, **options)
    assert apart.element_spec == graph.element_spec
    for found, expected in zip(apart.as_numpy_iterator(), graph.as_numpy_iterator(), strict=True):
        tf.nest.assert_same_structure(found, expected)
        for part, same in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            level = 1 if part.shape[1:] == (*CROPS[name].target, 3) else 0
            np.testing.assert_allclose(part.astype(float), same.astype(float), rtol=0, atol=level)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("random", "JPEG"),
        *(pytest.param(name, "JPEG", marks=LONG) for name in CROPS if name != "random"),
        *(pytest.param(name, "PNG", marks=LONG) for name in CROPS),
    ],
)
def test_batches_equal_the_reference(train: Split, tmp_path: Path, name: str, kind: str) -> None:
    """To the last bit, in the graph that a pipeline runs; of the same records, and of the view that was drawn."""
    if kind == "PNG":
        convert(Scenes(8, kind), tmp_path / "out", shards=1, workers=1)
        train = shardfeed.open(tmp_path / "out")["train"]
    crop = CROPS[name]
    options: dict[str, Any] = {"masks": True, "keypoints": True, "area": True, "crowd": "flag", "image_id": True}
    _, detect = detection(crop, max_objects=2, min_visible=0.3, **options).bind(train.schema)
    _, segment = segmentation(crop).bind(train.schema)

    def everything(features: Any, seed: tf.Tensor) -> Any:
        view = crop.see(features, seed)[1]._replace(target=tf.constant(crop.target))
        view = view._replace(mirrored=tf.constant(False) if view.mirrored is None else view.mirrored)
        assert view.moves is None
        view = view._replace(moves=tf.zeros([0]))
        stored = {key: features[key] for key in KEYS}
        return detect(features, seed), segment(features, seed), view, stored, features["image/object/mask"]

    batches = make_batches(train, everything, batch_size=1, seed=3, pad=-7, order="stored")
    for batch in batches.as_numpy_iterator():
        found, segmented, tensors, record, masks = tf.nest.map_structure(lambda values: values[0], batch)
        view = geometry.View(
            tuple(tensors.size.tolist()), Window(*tensors.window.tolist()), crop.target,
            Window(*tensors.content.tolist()), bool(tensors.mirrored),
        )  # fmt: skip
        if name == "letterbox":
            assert view.content == letterboxed(view.size, view.target).content
        else:
            assert view.content == Window(0, 0, *view.target)
        boxes = np.stack([record[key] for key in BOX], 1)
        seen = geometry.see_boxes(boxes, view, 0.3)
        assert found["num_objects"] == len(seen.kept)
        chosen = geometry.largest(seen.boxes, 2)
        seen = seen.chosen(chosen)
        count = len(seen.kept)
        np.testing.assert_array_equal(found["bounding_boxes"]["boxes"][:count], seen.boxes)
        np.testing.assert_array_equal(found["bounding_boxes"]["labels"][:count], record[OBJECT_LABEL][seen.kept])
        np.testing.assert_array_equal(found["crowd"][:count], record[IS_CROWD][seen.kept])
        np.testing.assert_array_equal(found["area"][:count], geometry.see_areas(record[OBJECT_AREA], seen, view))
        x, y, visibility = (record[key].reshape(-1, 3)[seen.kept] for key in KEYPOINTS.features)
        points = geometry.see_points(x, y, visibility, view, (1, 0, 2))
        np.testing.assert_array_equal(found["keypoints"][:count], points)
        for n, kept in enumerate(seen.kept):
            mask = np.array(Image.open(io.BytesIO(masks[kept])))
            np.testing.assert_array_equal(found["masks"][n], geometry.see_raster(mask, view))
        raster = np.array(Image.open(io.BytesIO(record[RASTER])))
        np.testing.assert_array_equal(segmented[1][:, :, 0], geometry.see_raster(raster, view, VOID))
        np.testing.assert_array_equal(segmented[0], found["images"])


@pytest.mark.parametrize("form", [form for form in get_args(BoxFormat) if form != "xyxyxyxy"])
def test_keras_reads_every_format(form: BoxFormat) -> None:
    rng = np.random.default_rng(0)
    boxes = np.concatenate([40 * rng.random((9, 2)), 40 + 20 * rng.random((9, 2))], 1).astype(np.float32)
    found = formatted(tf.constant(boxes), form, (60, 80)).numpy()
    convert_format = keras.utils.bounding_boxes.convert_format
    np.testing.assert_allclose(found, np.array(convert_format(boxes, "xyxy", form, 60, 80)), rtol=1e-5)
    np.testing.assert_allclose(np.array(convert_format(found, form, "xyxy", 60, 80)), boxes, atol=1e-4)


@pytest.mark.long
def test_more_objects_than_fit_crowds_and_offsets(train: Split) -> None:
    def stored(**options: Any) -> Any:
        detect = detection(letterbox(48), image_id=True, **options)
        batches = make_batches(train, detect, batch_size=24, order="stored", keys=None)
        return next(iter(batches.as_numpy_iterator()))

    every, one = stored(max_objects=3, crowd="flag"), stored(max_objects=1, label_offset=1)
    count = (every["bounding_boxes"]["labels"] >= 0).sum(1)
    assert sorted(every["image_id"].tolist()) == list(range(100, 124))
    assert count.tolist() == every["num_objects"].tolist() == one["num_objects"].tolist()
    assert count.tolist() == [(number - 100) % 4 for number in every["image_id"].tolist()]
    boxes = every["bounding_boxes"]["boxes"]
    areas = np.where(every["bounding_boxes"]["labels"] < 0, -1, np.prod(boxes[:, :, 2:] - boxes[:, :, :2], 2))
    for i in np.flatnonzero(count):
        largest = areas[i].argmax()
        np.testing.assert_array_equal(one["bounding_boxes"]["boxes"][i, 0], boxes[i, largest])
        assert one["bounding_boxes"]["labels"][i, 0] == every["bounding_boxes"]["labels"][i, largest] + 1
    assert (one["bounding_boxes"]["labels"][count == 0] == -1).all()
    assert ((every["crowd"] == -1) == (every["bounding_boxes"]["labels"] == -1)).all()
    assert (every["crowd"] == 1).any()
    dropped = stored(max_objects=3, crowd="drop")
    assert dropped["num_objects"].tolist() == (every["crowd"] == 0).sum(1).tolist()
    assert {1, 0, -1} == set(every["crowd"].ravel().tolist())


def test_a_letterbox_says_the_way_back(train: Split) -> None:
    """Ground truth as predictions, in pixels of the stored image: what was annotated, to a thousandth of a pixel."""
    rectangles = {100 + i: found for i, found in enumerate(Scenes(24).rectangles)}
    for size in (96, (40, 64)):
        detect = detection(letterbox(size), image_id=True, max_objects=3)
        for batch in make_batches(train, detect, batch_size=8, order="stored").as_numpy_iterator():
            found = boxes_to_source(batch["bounding_boxes"]["boxes"], batch["scale"], batch["offset"])
            for number, boxes, count in zip(batch["image_id"], found, batch["num_objects"], strict=True):
                expected = np.reshape(rectangles[int(number)], (-1, 4))
                np.testing.assert_allclose(boxes[:count], expected, atol=2e-3)


@pytest.mark.long
def test_replicas_share_what_one_device_gets(train: Split) -> None:
    strategy = tf.distribute.get_strategy()
    detect = detection(random_resized_crop(24), max_objects=3)
    feed = distribute(strategy, train, batch_size=6, transform=detect, order="global", seed=5)
    alone = make_batches(train, detect, batch_size=6, order="global", seed=5, start_step=0)
    tf.nest.map_structure(np.testing.assert_array_equal, next(iter(feed.batches)), next(iter(alone)))
    evaluated = distribute_eval(
        strategy, train, batch_size=10, transform=detection(letterbox(24), image_id=True, max_objects=3)
    )
    numbers: list[int] = []
    for batch, mask in evaluated.batches:
        assert batch["bounding_boxes"]["boxes"].shape == (10, 3, 4)
        numbers += batch["image_id"].numpy()[mask.numpy()].tolist()
    assert sorted(numbers) == list(range(100, 124))


@pytest.mark.long
def test_a_mixture_knows_what_its_splits_know(train: Split) -> None:
    """So images of a rare class come more often, with all that belongs to them."""
    rare = train.select([i for i in range(len(train)) if 2 in np.atleast_1d(train[i][OBJECT_LABEL])])
    assert 0 < len(rare) < len(train)
    both = mix([(train, 1), (rare, 1)])
    assert (both.schema.keypoints, both.schema.raster) == (train.schema.keypoints, train.schema.raster)
    detect = detection(random_resized_crop(16, area=(1, 1)), keypoints=True, max_objects=3)
    counts = np.zeros(3, int)
    for batch in make_batches(both, detect, batch_size=8, order=Global(epoch_samples=48)).as_numpy_iterator():
        labels = batch["bounding_boxes"]["labels"]
        counts += np.bincount(labels[labels >= 0], minlength=3)
    assert counts[2] > 1.2 * counts[:2].max()


def test_splits_whose_rasters_mean_other_things_do_not_mix(tmp_path: Path) -> None:
    parts = []
    for name in ("cat", "dog"):
        convert(Rasters(np.zeros((6, 8), np.uint8), Raster((name,))), tmp_path / name, workers=1)
        parts.append((shardfeed.open(tmp_path / name)["train"], 1))
    with pytest.raises(UsageError, match="the raster of splits train and train have different meanings"):
        mix(parts)


def test_only_what_is_needed_is_parsed(train: Split) -> None:
    keys, _ = detection(letterbox(8)).bind(train.schema)
    assert sorted(keys) == sorted(["image/encoded", "image/format", *BOX, OBJECT_LABEL])
    keys, _ = segmentation(letterbox(8)).bind(train.schema)
    assert sorted(keys) == sorted(["image/encoded", "image/format", RASTER])


class Detector(keras.Model):
    """For tests: one box and its class from the mean of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.body = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(8, 3, 2, activation="relu")])
        self.pool, self.box, self.label = keras.layers.GlobalMaxPool2D(), keras.layers.Dense(4), keras.layers.Dense(3)

    def call(self, inputs: Any) -> Any:
        seen = self.pool(self.body(inputs))
        return {"boxes": self.box(seen), "labels": self.label(seen)}

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *rest: Any, **others: Any) -> Any:
        there = tf.cast(y["labels"][:, 0] >= 0, tf.float32)
        boxes = tf.reduce_mean(tf.abs(y["boxes"][:, 0] - y_pred["boxes"]), 1)
        labels: Any = keras.losses.sparse_categorical_crossentropy(
            tf.maximum(y["labels"][:, 0], 0), y_pred["labels"], from_logits=True
        )
        losses: Any = there * (boxes + labels)
        return tf.reduce_sum(losses) / tf.reduce_sum(there)


@pytest.mark.long
def test_a_keras_detector_learns(train: Split) -> None:
    detect = detection(random_resized_crop(32, area=(0.5, 1)), boxes="rel_yxyx", max_objects=1)
    batches = make_batches(
        train, detect, batch_size=12, order="global",
        batch_transform=lambda batch, seed: (batch["images"], batch["bounding_boxes"]),
    )  # fmt: skip
    keras.utils.set_random_seed(1)
    model = Detector()
    model.compile(keras.optimizers.Adam(0.05), jit_compile=False)  # type: ignore[arg-type]
    losses = model.fit(batches, epochs=4, verbose=0).history["loss"]  # type: ignore[arg-type]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
def test_a_keras_segmenter_learns(train: Split, weighted: bool) -> None:
    segment = segmentation(random_resized_crop(32, area=(0.5, 1)), sample_weight=weighted)
    batches = make_batches(train, segment, batch_size=12, order="global")
    if weighted:
        for _, raster, weight in batches.as_numpy_iterator():
            assert raster.max() < 4
            assert weight.dtype == np.float32
            assert (weight == 0).any()
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(4, 1)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=None if weighted else VOID)
    model.compile(keras.optimizers.Adam(0.2), loss, weighted_metrics=[], jit_compile=False)  # type: ignore[arg-type]
    losses = model.fit(batches, epochs=3, verbose=0).history["loss"]  # type: ignore[arg-type]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


class Rasters:
    """One gray image, and a raster as it is given."""

    def __init__(self, raster: np.ndarray | Image.Image, schema: Raster | None) -> None:
        out = io.BytesIO()
        (raster if isinstance(raster, Image.Image) else Image.fromarray(raster)).save(out, "PNG")
        values = np.unique(np.asarray(raster)).tolist()
        table = MaskTable(tuple((value, value) for value in values))
        self.mask = None if schema is None else RasterImage(out.getvalue(), table)
        self.own = {RASTER: out.getvalue()} if schema is None else {}  # as records of others have it
        self.schema = Schema(MASKS if schema else {RASTER: MASKS[RASTER]}, raster=schema)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Sample:
        if i:
            raise IndexError(i)
        return Sample(b"0", encoded(np.zeros((6, 8, 3), np.uint8)), self.own, raster=self.mask)


def segmented(tmp_path: Path, source: Rasters, **options: Any) -> Any:
    convert(source, tmp_path, workers=1)
    data = shardfeed.open(tmp_path)
    batches = make_batches(data["train"], segmentation(letterbox((6, 8)), **options), batch_size=1, order="stored")
    return next(iter(batches))[1].numpy()[0, :, :, 0]


@pytest.mark.long
def test_rasters_of_sixteen_bits(tmp_path: Path) -> None:
    values = (np.arange(48, dtype=np.uint16) * 1000).reshape(6, 8)
    found = segmented(tmp_path / "large", Rasters(values, Raster(tuple(map(str, range(48_000))), 65_535)))
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, values)
    small = segmented(tmp_path / "small", Rasters(values // 1000, Raster(tuple(map(str, range(48))), 255)))
    assert small.dtype == np.uint8
    np.testing.assert_array_equal(small, values // 1000)


@pytest.mark.long
def test_rasters_that_would_be_read_wrong_are_refused(tmp_path: Path) -> None:
    palette = Image.fromarray(np.zeros((6, 8), np.uint8)).convert("P")
    small = np.zeros((3, 4), np.uint8)
    for number, raster, problem in ((1, palette, "not a gray PNG"), (2, small, "in size from its image")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=problem):
            segmented(tmp_path / str(number), Rasters(raster, None), void=255)
    with pytest.raises(UsageError, match="this dataset has no void value, and pixels around a letterbox become void"):
        segmented(tmp_path / "3", Rasters(small, None))


def test_what_a_dataset_lacks_is_said_when_batches_are_made(train: Split, flowers: Dataset) -> None:
    def made(split: Split, transform: Any) -> Any:
        return make_batches(split, transform, batch_size=2)

    with pytest.raises(UsageError, match="this dataset has no objects with classes"):
        made(flowers["train"], detection(letterbox(8)))
    with pytest.raises(UsageError, match="this dataset has no objects with classes: no feature image/object/class/la"):
        detection(letterbox(8)).bind(Schema({key: train.schema.features[key] for key in BOX}))
    with pytest.raises(UsageError, match="this dataset has no rasters"):
        made(flowers["train"], segmentation(letterbox(8)))
    boxes = Schema({key: train.schema.features[key] for key in (*BOX, OBJECT_LABEL)})
    wanted: list[dict[str, Any]] = [{"masks": True}, {"keypoints": True}, {"image_id": True}]
    for options in wanted:
        with pytest.raises(UsageError, match="this dataset has no"):
            detection(letterbox(8), **options).bind(boxes)
    schema = train.schema
    names = Keypoints(("left", "right", "centre"))
    unknown = Schema(schema.features, schema.class_names, {}, names, schema.raster)
    with pytest.raises(UsageError, match=r"cannot be flipped.*flip=False"):
        detection(random_resized_crop(8), keypoints=True).bind(unknown)
    detection(random_resized_crop(8, flip=False), keypoints=True).bind(unknown)
    with pytest.raises(UsageError, match="has no names of key points"):
        detection(letterbox(8), keypoints=True).bind(Schema(schema.features, schema.class_names))


def test_transforms_that_have_not_seen_the_schema_say_so() -> None:
    for transform in (detection(letterbox(8)), segmentation(letterbox(8))):
        with pytest.raises(UsageError, match="bind"):
            transform({}, tf.zeros([2], tf.int64))
    with pytest.raises(UsageError, match="void"):
        segmentation(letterbox(8), void=70_000)
