"""`augment=` of each loader and crop: the same pixels everywhere, targets that follow, and refusals by name."""

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes

import shardfeed
from shardfeed.converters import convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import Global, Ranks, array_batches, crop, keras_batches, make_batches, train_batches
from shardfeed.pipelines import detection as graph_detection
from shardfeed.pipelines import random_resized_crop as graph_crop
from shardfeed.pipelines import segmentation as graph_segmentation
from shardfeed.pipelines.augment import (
    affine,
    color_jitter,
    equalize,
    erasing,
    gaussian_blur,
    grayscale,
    quarter_turns,
    recipes,
    vertical_flip,
)
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.augment.operations.grayscale import Grayscale
from shardfeed.pipelines.torch import (
    detection,
    letterbox,
    random_resized_crop,
    resize_center_crop,
    segmentation,
    torch_eval_loader,
    torch_loader,
)
from shardfeed.readers import Split

SIZE = 32
AUGMENT = [
    color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    affine(15, (0.1, 0.1)),
    gaussian_blur(5, p=0.5),
    *recipes.torchvision_classification,
]
OPTIONS: dict[str, Any] = {"batch_size": 8, "seed": 3, "order": "global"}
MOVES = [vertical_flip(), quarter_turns(), erasing()]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    """The drawn scenes with masks of objects, and with rasters."""
    root = tmp_path_factory.mktemp("scenes")
    for task in ("masks", "rasters"):
        convert(scenes(task), root / task, split={"train": 1.0}, workers=1)
    return {task: shardfeed.open(root / task)["train"] for task in ("masks", "rasters")}


def arrays(split: Split, **options: Any) -> list[np.ndarray]:
    return [images.copy() for images, _ in array_batches(split, **OPTIONS | options)]


def tensors(split: Split, **options: Any) -> list[np.ndarray]:
    """PyTorch's, as [b, height, width, channels]."""
    return [images.permute(0, 2, 3, 1).numpy() for images, _ in torch_loader(split, **OPTIONS | options)]


def of_tensorflow(split: Split, **options: Any) -> list[np.ndarray]:
    return [images for images, _ in train_batches(split, **OPTIONS | options).as_numpy_iterator()]


def assert_same(batches: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(batches) == len(expected) > 0
    assert all(np.array_equal(one, other) for one, other in zip(batches, expected, strict=True))


@pytest.mark.promise(78)
def test_the_same_pixels_in_each_framework_with_any_number_of_threads(train: Split) -> None:
    expected = arrays(train, image_size=SIZE, augment=AUGMENT)
    plain = arrays(train, image_size=SIZE)
    assert not any(np.array_equal(one, other) for one, other in zip(plain, expected, strict=True))
    aliased = random_resized_crop(SIZE, antialias=False)
    for threads in (1, 2, 8):
        assert_same(arrays(train, image_size=SIZE, augment=AUGMENT, workers=threads), expected)
        assert_same(tensors(train, image_transform=aliased, augment=AUGMENT, workers=threads), expected)
        assert_same(of_tensorflow(train, image_size=SIZE, augment=AUGMENT, workers=threads), expected)
    assert_same(tensors(train, image_transform=aliased, augment=AUGMENT, workers=0), expected)


def sorted_images(batches: Iterable[np.ndarray]) -> list[bytes]:
    """The images of some batches of one step, in an order of their own."""
    return sorted(image.tobytes() for batch in batches for image in batch)


@pytest.mark.promise(78)
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_same_pixels_on_any_number_of_ranks(train: Split, ranks: int) -> None:
    aliased = random_resized_crop(SIZE, antialias=False, augment=AUGMENT)
    expected = arrays(train, image_size=SIZE, augment=AUGMENT)
    each = [Ranks(rank, ranks) for rank in range(ranks)]
    shares = [arrays(train, image_size=SIZE, augment=AUGMENT, ranks=rank) for rank in each]
    of_torch = [tensors(train, image_transform=aliased, ranks=rank) for rank in each]
    for step, whole in enumerate(expected):
        assert sorted_images([share[step] for share in shares]) == sorted_images([whole])
        assert sorted_images([share[step] for share in of_torch]) == sorted_images([whole])


@pytest.mark.promise(78)
def test_a_resumed_run_draws_the_same_and_another_list_goes_on(train: Split) -> None:
    given: Any = OPTIONS | {"image_size": SIZE}
    expected = arrays(train, image_size=SIZE, augment=AUGMENT)
    stopped = array_batches(train, **given, augment=AUGMENT)
    for _, _step in zip(stopped, range(2), strict=False):
        position = stopped.position
    for augment in (AUGMENT, [*AUGMENT, vertical_flip()], []):
        resumed = array_batches(train, **given, augment=augment)
        resumed.seek(position)
        rest = [images.copy() for images, _ in resumed]
        assert len(rest) == len(expected) - position.step
        if augment == AUGMENT:
            assert_same(rest, expected[position.step :])


def test_it_is_the_same_given_to_the_crop(train: Split) -> None:
    expected = tensors(train, image_size=SIZE, augment=AUGMENT)
    given = random_resized_crop(SIZE, augment=AUGMENT)
    assert pickle.loads(pickle.dumps(given)).crop.augment == given.crop.augment
    assert_same(tensors(train, image_transform=given), expected)
    assert_same(tensors(train, transform=own_transform), expected)


def own_transform(record: Any, seed: int) -> Any:
    """A function of the user's that calls our crop."""
    return random_resized_crop(SIZE, augment=AUGMENT)(record, seed), record["image/class/label"]


def test_keras_gets_augmented_images(train: Split) -> None:
    images, _ = keras_batches(array_batches(train, image_size=SIZE, augment=AUGMENT, **OPTIONS))[0]
    assert np.array_equal(images, arrays(train, image_size=SIZE, augment=AUGMENT)[0])


def test_a_graph_carries_out_the_same_edits(train: Split) -> None:
    def both(features: Any, seed: Any) -> Any:
        return graph_crop(SIZE)(features, seed), with_edits(features, seed), seed

    with_edits = graph_crop(SIZE, augment=AUGMENT)
    for plain, made, seeds in make_batches(train, both, **OPTIONS).take(3).as_numpy_iterator():
        edits = with_edits.crop.edits(seeds)
        assert edits is not None
        for row, image in enumerate(plain):
            expected = image.copy()
            edit_image(expected, edits, row)
            assert np.array_equal(made[row], expected)


def test_like_cuda_is_the_plain_crop_with_the_same_edits(train: Split) -> None:
    plain = tensors(train, image_size=SIZE, decode="like_cuda", workers=0)
    assert not any(
        np.array_equal(one, other)
        for one, other in zip(
            plain, tensors(train, image_size=SIZE, decode="like_cuda", augment=AUGMENT, workers=0), strict=True
        )
    )
    flipped = tensors(train, image_size=SIZE, decode="like_cuda", augment=[vertical_flip(1.0)], workers=0)
    assert_same([images[:, ::-1] for images in flipped], plain)


def test_shapes_of_an_order_are_the_targets(train: Split) -> None:
    options: dict[str, Any] = {"order": Global(shapes=[(24, 32), (32, 24), (28, 28)]), "augment": AUGMENT}
    expected = arrays(train, **options)
    assert len({images.shape for images in expected}) > 1
    assert_same(of_tensorflow(train, **options), expected)
    aliased = random_resized_crop(antialias=False, area=(1, 1), aspect_ratio=(1, 1))
    assert_same(tensors(train, **options, image_transform=aliased), expected)


def test_targets_follow_what_a_loader_is_given(photos: dict[str, Split]) -> None:
    split, options = photos["masks"], {"batch_size": 4, "seed": 5, "order": "global"}
    aliased = random_resized_crop(48, antialias=False)
    expected = array_batches(split, image_size=48, augment=MOVES, targets=["boxes", "masks"], **options)
    ours = torch_loader(split, transform=detection(aliased, masks=True), augment=MOVES, **options)
    theirs = make_batches(split, graph_detection(graph_crop(48), masks=True), augment=MOVES, **options)
    for batch, (images, targets), graph in zip(expected, ours, theirs.as_numpy_iterator(), strict=True):
        assert np.array_equal(batch["images"], images.permute(0, 2, 3, 1).numpy())
        assert np.array_equal(batch["images"], graph["images"])
        for row, target in enumerate(targets):
            count = len(batch["boxes"][row])
            assert np.array_equal(batch["boxes"][row], target["boxes"].numpy())
            assert np.array_equal(batch["masks"][row], target["masks"].numpy())
            assert np.array_equal(batch["boxes"][row], graph["bounding_boxes"]["boxes"][row][:count])
            assert "scale" not in target
    rasters = photos["rasters"]
    expected = array_batches(rasters, image_size=48, augment=MOVES, targets=["raster"], **options)
    ours = torch_loader(rasters, transform=segmentation(aliased), augment=MOVES, **options)
    theirs = make_batches(rasters, graph_segmentation(graph_crop(48)), augment=MOVES, **options)
    for batch, (_, masks), (_, graph) in zip(expected, ours, theirs.as_numpy_iterator(), strict=True):
        assert np.array_equal(batch["raster"], masks.numpy())
        assert np.array_equal(batch["raster"], graph[..., 0])


def test_an_evaluation_with_an_augmented_crop_is_the_same_each_time(train: Split) -> None:
    for given in (resize_center_crop(SIZE, augment=AUGMENT), letterbox(SIZE, augment=AUGMENT)):
        loader = torch_eval_loader(train, batch_size=64, image_transform=given)
        first, second = ([images.clone() for images, _ in loader] for _ in range(2))
        assert_same([images.numpy() for images in first], [images.numpy() for images in second])
        (plain, _), *_ = torch_eval_loader(train, batch_size=64, image_transform=given.augmented(()))
        assert not np.array_equal(plain.numpy(), first[0].numpy())


def test_gray_images_and_images_of_16_bits(train: Split, tmp_path: Path) -> None:
    gray = arrays(train, image_size=SIZE, channels=1, augment=AUGMENT)
    assert gray[0].shape == (8, SIZE, SIZE, 1)
    assert_same(of_tensorflow(train, image_size=SIZE, channels=1, augment=AUGMENT), gray)
    from PIL import Image

    from shardfeed.converters import ImageOptions

    for number in range(8):
        file = tmp_path / "scans" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 65_536, (40, 40)).astype(np.uint16)).save(file)
    convert(str(tmp_path / "scans"), tmp_path / "deep", image=ImageOptions(keep_depth=True), split={"train": 1.0})
    deep = shardfeed.open(tmp_path / "deep")["train"]
    colours = [color_jitter(0.4, 0.4), *MOVES]
    assert arrays(deep, image_size=SIZE, augment=colours)[0].dtype == np.uint16
    assert_same(of_tensorflow(deep, image_size=SIZE, augment=colours), arrays(deep, image_size=SIZE, augment=colours))
    makers: list[Callable[[], Any]] = [
        lambda: array_batches(deep, image_size=SIZE, augment=[equalize()], **OPTIONS),
        lambda: torch_loader(deep, image_size=SIZE, augment=[equalize()], **OPTIONS),
        lambda: train_batches(deep, image_size=SIZE, augment=[equalize()], **OPTIONS),
        lambda: array_batches(deep, views=[crop(8), crop(8, augment=[equalize()])], **OPTIONS),
        lambda: random_resized_crop(8, augment=[equalize()])(deep[0], 1),
    ]
    for make in makers:
        with pytest.raises(UsageError, match="augment: equalize is defined for 8 bits"):
            make()
    tables = graph_crop(8, augment=[equalize()])
    with pytest.raises(Exception, match="augment: equalize is defined for 8 bits"):  # of TensorFlow, which traces it
        make_batches(deep, lambda features, seed: tables(features, seed), **OPTIONS)


def image_of(record: Any, seed: int) -> Any:
    """A function of the user's, which makes images itself."""
    return random_resized_crop(SIZE)(record, seed)


NO_AUGMENTATIONS = {
    "a function": ([lambda image: image], "expected Augmentation; for example augment="),
    "the name of a recipe": ("simclr", "augment=recipes.simclr"),
    "crops": (recipes.dino, "give crops as views="),
    "a class": ([Grayscale], "expected Augmentation"),
    "a function that makes one": ([grayscale], "expected Augmentation"),
    "a list in a list": ([recipes.simclr], "join lists"),
    "a generator": ((each for each in AUGMENT), "give a list"),
    "one alone": (grayscale(), "give a list"),
    "None": (None, "got None, expected a list"),
    "a mapping": ({"grayscale": 0.1}, "expected a list"),
}


@pytest.mark.parametrize("what", NO_AUGMENTATIONS)
def test_other_values_are_refused_in_each_place(train: Split, what: str) -> None:
    augment: Any
    augment, said = NO_AUGMENTATIONS[what]
    makers: list[Callable[[], Any]] = [
        *(lambda make=make: make(train, image_size=SIZE, augment=augment, **OPTIONS) for make in LOADERS),
        *(lambda make=make: make(SIZE, augment=augment) for make in (crop, random_resized_crop, graph_crop, letterbox)),
    ]
    for make in makers:
        with pytest.raises(UsageError, match=said) as caught:
            make()
        assert caught.value.place == "augment"


LOADERS: tuple[Callable[..., Any], ...] = (array_batches, torch_loader, train_batches)


def of_transform(split: Split, transform: Any, **options: Any) -> Any:
    return make_batches(split, transform, **options)


def test_torchvisions_transforms_are_refused(train: Split) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    with pytest.raises(UsageError, match="expected Augmentation"):
        torch_loader(train, image_size=SIZE, augment=[v2.ColorJitter(0.4)], **OPTIONS)
    with pytest.raises(UsageError, match=r"augment: got it with image_transform=.*ColorJitter"):
        torch_loader(train, image_transform=v2.ColorJitter(0.4), augment=[grayscale()], **OPTIONS)


def test_a_loader_refuses_what_it_cannot_augment(train: Split) -> None:
    views, twice = [crop(SIZE), crop(SIZE)], random_resized_crop(SIZE, augment=[grayscale()])
    cases: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        *((make, {"views": views}, "got views, too.*give them to each") for make in LOADERS),
        (torch_loader, {"transform": image_of}, "got it with transform=.*give image_size= instead"),
        (torch_loader, {"image_transform": twice}, "augmentations of its own; give all of them in one place"),
        (of_transform, {"transform": image_of}, "got it with transform="),
        (of_transform, {"transform": graph_crop(SIZE, augment=[grayscale()])}, "in one place"),
    ]
    for make, options, said in cases:
        with pytest.raises(UsageError, match=said) as caught:
            make(train, augment=[grayscale()], **OPTIONS, **options)
        assert caught.value.place == "augment"
