"""`Global(shapes=...)`: batches of one shape, every image once, in each framework, with what follows the images."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes
from foreign_tfrecords import write
from hypothesis import given, settings
from hypothesis import strategies as st
from object_images import encoded

import shardfeed
from shardfeed.converters import adopt, convert, from_dicts, survey
from shardfeed.errors import OrderMismatchError, UsageError
from shardfeed.pipelines import Global, Position, Ranks, array_batches, mix, order_samples, shapes_of_area
from shardfeed.pipelines.orders.position import order_from_json
from shardfeed.pipelines.orders.shapes import ShapeOrder, by_ratio, fits, nearest
from shardfeed.readers import Split
from shardfeed.tools.cli import main

from decoding_paths import COMPILED, PYTHON, built, path_taken

SHAPES = [(16, 24), (24, 16), (20, 20)]
BATCH = 8


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """83 JPEGs of all ratios: the left half is dark, and a box is around it."""
    draw, dicts = np.random.default_rng(4), []
    for number in range(83):
        height, width = (int(side) for side in draw.integers(24, 72, 2))
        pixels = draw.integers(180, 220, (height, width, 3), np.uint8)
        pixels[:, : width // 2] //= 4
        half, outline = width // 2, [0, 0, width // 2, 0, width // 2, height, 0, height]
        objects = {"boxes": [[0, 0, half, height]], "labels": ["half"], "segmentation": [[outline]]}
        image = encoded(pixels, "JPEG", quality=95)
        dicts.append({"key": f"{number}.jpg", "image": image, "label": f"{number % 3}", **objects})
    out = tmp_path_factory.mktemp("shapes") / "out"
    convert(from_dicts(dicts), out, split={"train": 1.0}, workers=1)
    return shardfeed.open(out)["train"]


def orders(**options: Any) -> dict[str, Any]:
    return {"batch_size": BATCH, "seed": 3, "order": Global(shapes=SHAPES), **options}


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12),
    st.integers(1, 8),
    st.integers(1, 8),
    st.booleans(),
    st.integers(0, 2**63 - 1),
)
@settings(deadline=None, max_examples=12)
def test_every_sample_once_and_one_shape_on_all_ranks(
    strata: list[int], ranks: int, share: int, whole: bool, seed: int
) -> None:
    samples, batch = sum(strata), ranks * share
    length = samples // batch * batch if whole else samples
    if not length:
        return
    sides = tuple(range(1, len(strata) + 1))
    order = ShapeOrder("ab" * 16, samples, batch, length, seed, sides[::-1], sides, tuple(strata))
    of, found = np.repeat(np.arange(len(strata)), strata), []
    resumed: Any = order_from_json(Position.from_json(Position(3, order).to_json()).order.to_json())
    for epoch in (0, 4):
        drawn, mixed = [], 0
        for step in range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch):
            parts = [resumed.drawn(step, rank, ranks) for rank in range(ranks)]
            (shape,) = {part.shape for part in parts}
            indices = np.concatenate([part.indices for part in parts])
            assert np.array_equal(indices, order.batch(step))
            assert len(indices) == batch or step % order.steps_per_epoch == samples // batch
            assert shape[1] - 1 == sorted(of[indices])[len(indices) // 2], "that of the middle sample"
            mixed += len({*of[indices]}) > 1 and len(indices) == batch
            drawn.append(indices)
        assert len({*np.concatenate(drawn).tolist()}) == sum(map(len, drawn)) == length
        assert mixed < len(strata)
        found.append(np.concatenate(drawn).tolist())
    assert found[0] != found[1] or length < 12


sizes = st.tuples(st.integers(1, 3000), st.integers(1, 3000))


@given(
    st.lists(sizes, min_size=1, max_size=40), st.lists(sizes, min_size=1, max_size=9, unique_by=lambda s: s[0] / s[1])
)
@settings(deadline=None, max_examples=60)
def test_no_other_shape_would_cut_less_away(images: list[tuple[int, int]], shapes: list[tuple[int, int]]) -> None:
    heights, widths = np.array(images).T
    ordered = by_ratio(shapes)
    each = np.array(
        [[fits(heights[[n]], widths[[n]], [shape])[0].cut for shape in ordered] for n in range(len(images))]
    )
    chosen = nearest(heights, widths, ordered)
    assert np.allclose(each[np.arange(len(images)), chosen], each.min(1), atol=1e-9)
    together = fits(heights, widths, ordered)
    assert [fit.images for fit in together] == np.bincount(chosen, minlength=len(ordered)).tolist()
    assert np.isclose(sum(fit.cut * fit.images for fit in together), each.min(1).sum())


def test_shapes_of_an_area() -> None:
    assert shapes_of_area(512 * 512, step=128) == [(640, 384), (512, 512), (384, 640)]
    many = shapes_of_area(1024 * 1024, ratios=(1 / 3, 3))
    assert many == by_ratio(many)
    assert Global(shapes=np.array([[1, 2], [3, 1]])).shapes == ((3, 1), (1, 2))  # type: ignore[arg-type]
    assert {type(side) for shape in by_ratio([(np.int64(3), np.int32(4))]) for side in shape} == {int}
    assert all(height % 64 == width % 64 == 0 and 0.9 * 2**20 <= height * width <= 2**20 for height, width in many)
    with pytest.raises(UsageError, match=r"^area: got 100, expected at least 4,096 for a step of 64; use a smaller"):
        shapes_of_area(100)
    with pytest.raises(UsageError, match=r"^ratios: no shape of at most 4096 pixels"):
        shapes_of_area(4096, ratios=(3, 4))
    assert shapes_of_area(1, step=1) == [(1, 1)]
    assert shapes_of_area(65_535**2, step=65_535) == [(65_535, 65_535)]
    thin = shapes_of_area(10**6, step=1, ratios=(0, 10**6))
    assert max(max(shape) for shape in thin) == 65_535
    assert Global(shapes=thin).shapes == tuple(thin)


HUGE = 10**400
ABSURD: dict[str, dict[str, Any]] = {
    "no pixel": {"area": 0},
    "less": {"area": -1},
    "one pixel": {"area": 1},
    "not a number": {"area": float("nan")},
    "endless": {"area": float("inf")},
    "a fraction": {"area": 1e6},
    "a text": {"area": "1000"},
    "true": {"area": True},
    "10**16": {"area": 10**16},
    "2**63": {"area": 2**63 - 1},
    "400 digits": {"area": HUGE},
    "400 digits of a step, too": {"area": HUGE**2, "step": HUGE},
    "a wide step": {"area": 10**16, "step": 10**7},
    "steps of one": {"area": 65_537**2, "step": 1},
    "no step": {"area": 10**6, "step": 0},
    "a large step": {"area": 10**6, "step": 10**30},
    "ratios that are none": {"area": 10**6, "ratios": (float("nan"), float("nan"))},
    "ratios the wrong way round": {"area": 10**6, "ratios": (2, 1 / 2)},
    "one ratio": {"area": 10**6, "ratios": (1,)},
}


@pytest.mark.promise(73)
@pytest.mark.parametrize("arguments", ABSURD.values(), ids=ABSURD)
def test_an_absurd_area_is_refused_at_once(arguments: dict[str, Any]) -> None:
    """Before anything that takes as long as the area is large."""
    with pytest.raises(UsageError) as raised:
        shapes_of_area(**arguments)
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


@pytest.mark.promise(73)
@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [(1, 2)] * 131_071,
        [(0, 1)],
        [(65_536, 1)],
        [(float("nan"), 1)],
        [(10**400, 1)],
        [(1, 1), (2, 2)],
        np.ones((131_071, 2), np.int64),
        np.ones((2, 3), np.int64),
    ],
    ids=["none", "many", "0", "65,536", "NaN", "400 digits", "one ratio", "an array of many", "triples"],
)
def test_absurd_shapes_are_refused(shapes: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Global(shapes=shapes)
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("path", [pytest.param(COMPILED, marks=built), PYTHON])
def test_the_same_bytes_on_any_ranks_and_after_a_resume(pictures: Split, path: str) -> None:
    with path_taken(path):
        whole = list(array_batches(pictures, **orders()))
        assert len(whole) == 83 // BATCH
        assert {images.shape[1:3] for images, _ in whole} == {*SHAPES}
        later = array_batches(pictures, **orders())
        later.seek(Position.from_json(Position(4, later.order).to_json()))
        for (images, labels), (same, numbers) in zip(whole[4:], later, strict=True):
            assert np.array_equal(images, same)
            assert np.array_equal(labels, numbers)
        parts = [array_batches(pictures, ranks=Ranks(rank, 4), **orders()) for rank in range(4)]
        for (images, labels), *of_ranks in zip(whole, *parts, strict=True):
            assert np.array_equal(images, np.concatenate([part[0] for part in of_ranks]))
            assert np.array_equal(labels, np.concatenate([part[1] for part in of_ranks]))
    other = array_batches(pictures, **orders(order=Global(shapes=SHAPES[:2])))
    with pytest.raises(OrderMismatchError, match=r"heights was \[24, 20, 16\], now \[24, 16\]"):
        other.seek(later.position)


def test_the_same_bytes_in_each_framework(pictures: Split) -> None:
    pytest.importorskip("cv2")
    from shardfeed.pipelines import train_batches
    from shardfeed.pipelines.torch import random_resized_crop, torch_loader

    crop = random_resized_crop(area=(1, 1), aspect_ratio=(1, 1), antialias=False)
    of_torch = torch_loader(pictures, image_transform=crop, workers=2, **orders())
    of_tensorflow = train_batches(pictures, **orders())
    assert of_tensorflow.element_spec[0].shape.as_list() == [BATCH, None, None, 3]
    ours = array_batches(pictures, **orders())
    for batch, torchs, tensors in zip(ours, of_torch, of_tensorflow.as_numpy_iterator(), strict=True):
        assert np.array_equal(batch[0], torchs[0].permute(0, 2, 3, 1))
        assert np.array_equal(batch[1], torchs[1])
        assert all(map(np.array_equal, batch, tensors))
    smooth = torch_loader(pictures, workers=0, **orders())
    assert [images.shape[2:] for images, _ in smooth] == [images.shape[1:3] for images, _ in ours.rest_of_epoch(0)]


def dark(images: Any) -> np.ndarray:
    """Which pixels are of the left half of a picture, bool [..., height, width], but at its edge."""
    gray = np.asarray(images).mean(-1)
    return (gray > 20) & (gray < 100)


@pytest.mark.parametrize("letterbox", [False, True])
def test_boxes_and_masks_follow(pictures: Split, letterbox: bool) -> None:
    """Masks are where the pixels are dark, and the same in each framework."""
    pytest.importorskip("cv2")
    from shardfeed import pipelines as tensorflow
    from shardfeed.pipelines import torch

    options = orders(seed=6)
    name = "letterbox" if letterbox else "random_resized_crop"
    of_tensorflow = tensorflow.detection(getattr(tensorflow, name)(), masks=True, max_objects=1, boxes="rel_xyxy")
    of_torch = torch.detection(getattr(torch, name)(antialias=False), masks=True)
    plain: dict[str, Any] = {"letterbox": True} if letterbox else {"area": (0.08, 1), "aspect_ratio": (3 / 4, 4 / 3)}
    for batch, tensors, (images, targets) in zip(
        array_batches(pictures, targets=["boxes", "masks"], **plain, **options),
        tensorflow.make_batches(pictures, of_tensorflow, pad=-1, **options).as_numpy_iterator(),
        torch.torch_loader(pictures, transform=of_torch, workers=0, **options),
        strict=True,
    ):
        assert np.array_equal(batch["images"], images.permute(0, 2, 3, 1))
        assert np.array_equal(batch["images"], tensors["images"])
        height, width = batch["images"].shape[1:3]
        for row, mask in enumerate(batch["masks"]):
            assert np.array_equal(mask, targets[row]["masks"])
            assert np.array_equal(batch["boxes"][row], targets[row]["boxes"])
            if len(mask):
                assert np.array_equal(mask, tensors["masks"][row])
                box = tensors["bounding_boxes"]["boxes"][row] * np.float32([width, height, width, height])
                assert np.allclose(box, batch["boxes"][row], atol=1e-3)
                assert np.mean(dark(batch["images"][row]) == mask[0]) > 0.8


def test_rasters_follow(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from shardfeed import pipelines as tensorflow
    from shardfeed.pipelines import torch

    convert(scenes("rasters"), tmp_path / "out", split={"train": 1.0}, workers=1)
    train, options = shardfeed.open(tmp_path / "out")["train"], orders(batch_size=3)
    ours = array_batches(train, targets=["raster"], letterbox=True, **options)
    theirs = tensorflow.make_batches(train, tensorflow.segmentation(tensorflow.letterbox()), **options)
    torchs = torch.torch_loader(train, transform=torch.segmentation(torch.letterbox()), workers=0, **options)
    for batch, (_, tensors), (_, masks) in zip(ours, theirs.as_numpy_iterator(), torchs, strict=True):
        assert batch["raster"].shape == batch["images"].shape[:3]
        assert np.array_equal(batch["raster"], tensors[..., 0])
        assert np.array_equal(batch["raster"], masks)


class Own:
    """A transform of the user's, which draws a crop to its batch's shape."""

    def __init__(self, crop: Any) -> None:
        self.crop = crop

    def __call__(self, record: Any, seed: Any) -> Any:
        return self.crop(record, seed), seed.shape[0], record["image/filename"]


def test_own_transforms_of_pytorch_know_the_shape(pictures: Split) -> None:
    from shardfeed.pipelines.torch import letterbox, torch_loader

    loader = torch_loader(pictures, transform=Own(letterbox()), workers=1, **orders())
    names = set()
    for images, heights, keys in loader:
        assert {*heights.tolist()} == {images.shape[2]}
        names |= {*keys}
    assert len(names) == len(loader) * BATCH
    with pytest.raises(UsageError, match="size: the crop has no size, and this batch has no shape"):
        next(iter(torch_loader(pictures, batch_size=8, transform=Own(letterbox()), workers=0)))
    assert letterbox(20)(pictures[0], np.int64(5)).shape == (3, 20, 20)
    with pytest.raises(UsageError, match="size: the crop has no size, and this batch has no shape"):
        letterbox()(pictures[0], np.int64(5))


def test_the_last_batch_and_no_evaluation(pictures: Split) -> None:
    from shardfeed.pipelines import letterbox, make_batches
    from shardfeed.pipelines.torch import letterbox as of_torch
    from shardfeed.pipelines.torch import torch_eval_loader

    batches = list(make_batches(pictures, letterbox(), drop_remainder=False, **orders()))
    assert sum(map(len, batches)) == 83
    assert len(batches[-1]) == 83 % BATCH
    with pytest.raises(UsageError, match=r"image_size: got none, .* as in letterbox\(224\)$"):  # no other order
        torch_eval_loader(pictures, batch_size=8, image_transform=of_torch())


def test_what_does_not_go_together(pictures: Split) -> None:
    from shardfeed import pipelines as tensorflow
    from shardfeed.pipelines import torch

    train, one, box = {"image_size": 20}, {"batch_size": 8}, torch.letterbox(20)
    for refused, call in {
        r"image_size: got 20 x 20 .* leave the size out": lambda: array_batches(pictures, **orders(**train)),
        r"image_size: got 20 x 20 .* leave the size out, ": lambda: torch.torch_loader(pictures, **orders(**train)),
        r"image_size: got 20 x 20 .* as in letterbox\(\)": lambda: torch.torch_loader(
            pictures, transform=torch.detection(box), **orders()
        ),
        r"image_size: got 20 x 20": lambda: tensorflow.train_batches(pictures, **orders(**train)),
        r"image_size: got none, .* for example 224": lambda: array_batches(pictures, **one),
        r"image_size: got none, .* give one": lambda: tensorflow.train_batches(pictures, **one),
        r"image_size: got none, .*; or give order=Global": lambda: torch.torch_loader(
            pictures, image_transform=torch.letterbox(), **one
        ),
        r"image_transform: got Flip .* seed.shape": lambda: torch.torch_loader(
            pictures, image_transform=Flip(), **orders()
        ),
        r"decode: got 'like_cuda'": lambda: torch.torch_loader(pictures, decode="like_cuda", **orders()),
        r"order: got Global.* give crops": lambda: tensorflow.make_batches(pictures, lambda one, _: one, **orders()),
        r"order: .* leave out antialias=True": lambda: tensorflow.make_batches(
            pictures, tensorflow.letterbox(antialias=True), **orders()
        ),
        r"shapes: got a mixture": lambda: order_samples(mix([(pictures, 1)]), **orders()),
        r"shapes: .* have one aspect ratio": lambda: Global(shapes=[(2, 4), (3, 1), (4, 8)]),
        r"shapes: got \(1, 65536\) .* 1 to 65,535": lambda: Global(shapes=[(2, 2), (1, 65_536)]),
        r"shapes: got \(0, 5\) .* 1 to 65,535": lambda: Global(shapes=[(0, 5)]),
        r"shapes: got \[\], expected pairs": lambda: Global(shapes=[]),
        r"shapes: got shapes together with balance": lambda: Global(shapes=SHAPES, balance="class"),
        r"batch_size: got 84, expected at most 83": lambda: order_samples(pictures, **orders(batch_size=84)),
    }.items():
        with pytest.raises(UsageError, match=refused):
            call()


class Flip:
    def __call__(self, image: Any) -> Any:
        return image


def test_records_that_do_not_say_their_size(tmp_path: Path) -> None:
    write(
        tmp_path / "in" / "train.tfrecord",
        [{"image": encoded(np.zeros((4, 6, 3), np.uint8)), "label": n} for n in range(4)],
    )
    adopt(survey(tmp_path / "in"), tmp_path / "out")
    with pytest.raises(UsageError, match="shapes: the records have no 'image/height'"):
        order_samples(shardfeed.open(tmp_path / "out")["train"], **orders(batch_size=2))


def test_inspect_shows_what_shapes_cut_away(pictures: Split, capsys: pytest.CaptureFixture[str]) -> None:
    place = pictures.shards.directory
    assert main(["inspect", place, "--shapes", "16x24,24x16,20x20"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()[-4:-1]]
    assert [row[0] for row in rows] == ["24x16", "20x20", "16x24"]
    _, order = order_samples(pictures, **orders())
    assert isinstance(order, ShapeOrder)
    assert [int(row[2]) for row in rows] == list(order.strata)
    assert "cuts away 14.1% of an image on average; to a square 28.3%" in shown
    assert main(["inspect", place, "--json", "--shapes", "1024x1024/64"]) == 0
    found = json.loads(capsys.readouterr().out)["splits"]["train"]["shapes"]
    assert [tuple(each["shape"]) for each in found] == shapes_of_area(1024 * 1024)
    assert sum(each["images"] for each in found) == 83
    for wrong in ("16", "16x", "0x5", "70000x3", "16x24,", "16x24/0", "16x24,2x3/4"):
        assert main(["inspect", place, "--shapes", wrong]) == 2
        assert "--shapes: got" in capsys.readouterr().err
