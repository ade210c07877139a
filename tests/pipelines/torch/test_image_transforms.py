"""Transforms of torchvision and albumentations as they are: their inputs and results, their draws, and their boxes.

Most tests need the real library, and are skipped without it: it must match the installed PyTorch. test_torch_others.py
has stand-ins for both.
"""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import shardfeed
from shardfeed.annotations import Keypoints
from shardfeed.converters import convert, from_dicts, open_source
from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import detection, resize_center_crop, torch_eval_loader, torch_loader
from shardfeed.pipelines.torch import torch_predict_loader as predict
from shardfeed.readers import Dataset

from repository import ROOT

PAGE = ROOT / "docs" / "transforms.md"
HEADING = "## Boxes, masks and key points with torchvision or albumentations\n"
SIDE = 256  # of the images on the page


def torchvision() -> Any:
    return pytest.importorskip("torchvision", reason="torchvision is not installed; CI does without it")


def albumentations() -> Any:
    return pytest.importorskip("albumentations", reason="albumentations is not installed; CI does without it")


def v2() -> Any:
    torchvision()
    from torchvision.transforms import v2  # type: ignore[import-not-found]

    return v2


def v1() -> Any:
    return torchvision().transforms


def photo(seed: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(small).resize((40, 30 + seed), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 photos of two classes, one of them gray."""
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(12):
        path = folder / "photos" / ("cat", "dog")[seed % 2] / f"{seed}.{('png', 'jpg')[seed % 3 == 0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(seed).convert("L" if seed == 5 else "RGB").save(path)
    return folder / "photos"


@pytest.fixture(scope="module")
def photos(folder: Path) -> Dataset:
    convert(open_source(folder), folder.parent / "out", split={"train": 1.0})
    return shardfeed.open(folder.parent / "out")


@pytest.mark.parametrize(
    "make",
    [
        lambda: v2().Compose([v2().Resize((16, 16)), v2().ToTensor()]),
        lambda: v2().Compose([v2().Resize((16, 16)), v1().ToTensor()]),
        lambda: v2().Compose([v2().CenterCrop(24), v2().PILToTensor()]),
        lambda: v2().Compose([v2().Lambda(lambda image: image.convert("L")), v2().Resize((9, 8)), v2().ToImage()]),
        lambda: v2().Compose([v2().ToImage(), v2().Resize((16, 16)), v2().ToDtype(torch.float32, scale=True)]),
        lambda: v2().Compose(
            [v2().Resize((16, 16)), v2().ToImage(), v2().ToDtype(torch.float32, scale=True), v2().Normalize([0.5], [2])]
        ),
        lambda: v2().Compose([v2().Resize((16, 16)), v2().ToTensor(), v2().Normalize([0.5] * 3, [2] * 3)]),
        lambda: v1().Compose([v1().Resize((16, 16)), v1().Grayscale(), v1().ToTensor()]),
        lambda: v1().Compose([v1().CenterCrop(24), v2().PILToTensor(), v2().ToDtype(torch.float64, scale=True)]),
    ],
)
@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_as_under_torchvisions_image_folder(folder: Path, photos: Dataset, make: Callable[[], Any]) -> None:
    """The same tensors, bit for bit."""
    transform = make()
    theirs = torchvision().datasets.ImageFolder(folder, transform)
    wanted = {str(Path(path).relative_to(folder)): theirs[i][0] for i, (path, _) in enumerate(theirs.samples)}
    found = {}
    for images, names in predict(photos["train"], batch_size=5, image_transform=transform, workers=0):
        found |= dict(zip([name.decode() for name in names], images, strict=True))
    assert found.keys() == wanted.keys()
    for name, image in wanted.items():
        assert type(found[name]) is torch.Tensor
        assert found[name].dtype == image.dtype
        assert torch.equal(found[name], image), name


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pillow_image_is_no_result_of_torchvision(photos: Dataset, workers: int) -> None:
    """`ToDtype` does nothing to it, in silence. The advice: ToImage before."""
    steps: list[Any] = [v2().Resize((16, 16)), v2().ToDtype(torch.float32, scale=True)]

    def first(steps: list[Any]) -> torch.Tensor:
        options: dict[str, Any] = {"image_transform": v2().Compose(steps), "workers": workers}
        return next(iter(torch_eval_loader(photos["train"], batch_size=12, **options)))[0]

    with pytest.raises(UsageError, match=r"it returned a Pillow image, .*; put v2.ToImage\(\) into it, before v2.ToD"):
        first(steps)
    images = first([v2().ToImage(), *steps])
    assert images.dtype == torch.float32
    assert 0.5 < images.max() <= 1


def of_torchvision() -> Any:
    steps = [v2().RandomResizedCrop(16), v2().RandomHorizontalFlip(), v2().ColorJitter(0.3, 0.3), v2().RandAugment()]
    return v2().Compose([*steps, v2().ToImage(), v2().RandomErasing()])


def of_albumentations() -> Any:
    a = albumentations()
    return a.Compose([a.RandomResizedCrop((16, 16)), a.HorizontalFlip(), a.OneOf([a.ColorJitter(), a.GaussNoise()])])


@pytest.mark.parametrize("make", [of_torchvision, of_albumentations])
def test_the_same_draws_with_any_workers_and_after_a_resume(photos: Dataset, make: Callable[[], Any]) -> None:
    def loader(workers: int) -> Any:
        return torch_loader(photos["train"], batch_size=3, image_transform=make(), seed=3, workers=workers)

    first = loader(0)
    epochs = [[images for images, _ in first] for _ in range(2)]
    pictures = {image.numpy().tobytes() for batches in epochs for images in batches for image in images}
    assert len(pictures) == 24
    for workers in (0, 1, 2):
        again, resumed = loader(workers), loader(workers)
        resumed.load_state_dict(again.state_dict(step=4 + 1))
        for run, wanted in ((again, epochs[0]), (resumed, epochs[1][1:])):
            found = [images for images, _ in run]
            assert len(found) == len(wanted)
            assert all(map(torch.equal, found, wanted))


def test_steps_of_albumentations_draw_apart(photos: Dataset) -> None:
    """Two flips happen together for some images, and one without the other for others."""
    a = albumentations()
    flips = a.Compose([a.Resize(8, 8), a.HorizontalFlip(), a.VerticalFlip()])
    straight = a.Compose([a.Resize(8, 8)])
    found = set()
    options: dict[str, Any] = {"batch_size": 12, "seed": 3, "workers": 0}
    both = [torch_loader(photos["train"], image_transform=one, **options) for one in (flips, straight)]
    for _ in range(4):
        for image, other in zip(*(next(iter(loader))[0] for loader in both), strict=True):
            found |= {axes for axes in ((), (1,), (2,), (1, 2)) if torch.equal(image, other.flip(axes))}
    assert found == {(), (1,), (2,), (1, 2)}


POINTS = Keypoints(("centre", "corner"))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """32 images with bright rectangles on black, i % 4 each; their masks, and their centres and corners as points."""
    rows = []
    for i in range(32):
        rng = np.random.default_rng(i)
        width, height = 200 + int(rng.integers(50)), 150 + int(rng.integers(50))
        pixels = np.zeros((height, width, 3), np.uint8)
        boxes = [[10 + 60 * n, 20 + 9 * n, 50 + 60 * n, 70 + 30 * n] for n in range(i % 4)]
        for left, top, right, bottom in boxes:
            pixels[top:bottom, left:right] = 180
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "PNG")
        row = {"image": out.getvalue(), "key": f"{i:02}.png", "boxes": boxes}
        row["labels"] = ["cat", "dog", "cow"][: len(boxes)]
        row["segmentation"] = [[[x0, y0, x1, y0, x1, y1, x0, y1]] for x0, y0, x1, y1 in boxes]
        row["keypoints"] = [[(x0 + x1) / 2, (y0 + y1) / 2, 2, x0, y0, 1] for x0, y0, x1, y1 in boxes]
        rows.append(row)
    out = tmp_path_factory.mktemp("people") / "people"
    source = from_dicts(rows, class_names={"labels": ["cat", "cow", "dog"]}, keypoints=POINTS)
    convert(source, out, split={"train": 1.0}, shards=2)
    return shardfeed.open(out)


def on_the_page(people: Dataset, monkeypatch: pytest.MonkeyPatch, library: str = "") -> dict[str, Any]:
    """Names of the code in the page's section about boxes: of its first block, and of the block with `library`."""
    monkeypatch.chdir(Path(people.directory).parent)
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    first, *others = re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(first, names)
    if library:
        (block,) = (block for block in others if f" {library}" in block.partition("\n\n")[0])
        exec(block, names)
        del names["loader"]  # its workers end here; in a cycle with its namespace, each would be waited for
    return names


def test_the_objects_on_the_page(people: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to those of `detection` where it crops nothing."""
    objects = on_the_page(people, monkeypatch)["objects"]
    records: Any = people["train"]
    for record in records:
        image, boxes, labels, masks, points, visibilities = objects(record)
        whole = resize_center_crop(tuple(image.shape[1:]), crop_fraction=1.0)
        _, detect = detection(whole, masks=True, keypoints=True).bind(records.schema)
        same, target = detect(record, 0)
        assert torch.equal(image, same)
        assert np.allclose(boxes, target["boxes"], atol=1e-3)
        assert labels.tolist() == target["labels"].tolist()
        assert np.array_equal(masks, target["masks"])
        assert np.allclose(points, target["keypoints"][..., :2], atol=1e-3)
        assert np.array_equal(visibilities, target["keypoints"][..., 2])


@pytest.mark.parametrize("library", ["albumentations", "torchvision"])
def test_the_transforms_with_boxes_on_the_page(people: Dataset, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Boxes, masks and points follow the image, and keep their labels; the same with any workers, and resumed."""
    (albumentations if library == "albumentations" else v2)()
    made = on_the_page(people, monkeypatch, library)["Augmented"]

    def loader(workers: int) -> Any:
        return torch_loader(people["train"], batch_size=8, transform=made(), seed=5, workers=workers)

    first = loader(0)
    epochs = [list(first), list(first)]
    seen = set()
    for images, targets in [*epochs[0], *epochs[1]]:
        assert type(images) is torch.Tensor
        assert images.shape == (8, 3, SIDE, SIDE)
        for image, target in zip(images, targets, strict=True):
            bright = image.float().mean(0) > 60
            columns = [target[key] for key in ("labels", "masks", "keypoints", "visibilities")]
            for box, label, mask, points, visible in zip(target["boxes"], *columns, strict=True):
                rows, across = torch.nonzero(torch.as_tensor(mask), as_tuple=True)
                extent = torch.stack([across.min(), rows.min(), across.max() + 1, rows.max() + 1])
                assert (box.as_subclass(torch.Tensor) - extent).abs().max() < 4
                assert bright[rows, across].float().mean() > 0.9
                assert visible.tolist() == [2, 1]
                x, y = points[0].tolist()
                if 0 < x < SIDE and 0 < y < SIDE:
                    assert mask[int(y), int(x)] == 1
                seen.add(int(label))
    assert seen == {0, 1, 2}
    assert any(len(target["labels"]) == 0 for _, targets in epochs[0] for target in targets)
    if library == "torchvision":
        from torchvision import tv_tensors  # type: ignore[import-not-found]

        kinds = {type(target["boxes"]) for _, targets in loader(2) for target in targets}
        assert kinds == {tv_tensors.BoundingBoxes}
    for workers in (0, 1, 2):
        resumed = loader(workers)
        resumed.load_state_dict(loader(0).state_dict(step=4 + 2))
        for (images, targets), (others, theirs) in zip(resumed, epochs[1][2:], strict=True):
            assert torch.equal(images, others)
            for target, other in zip(targets, theirs, strict=True):
                assert target.keys() == other.keys()
                assert all(torch.equal(target[key], other[key]) for key in target)


def test_advice_about_boxes_names_the_page(people: Dataset) -> None:
    a = albumentations()
    with_boxes = a.Compose([a.HorizontalFlip()], bbox_params=a.BboxParams("coco", label_fields=["labels"]))
    with_points = a.Compose([a.HorizontalFlip()], keypoint_params=a.KeypointParams("xy"))
    for option in ("transform", "image_transform"):
        for transform in (with_boxes, with_points):
            with pytest.raises(UsageError, match=rf"^{option}: .*; for boxes, .* your own transform \(docs/transf"):
                torch_loader(people["train"], batch_size=2, **{option: transform})
    assert HEADING in PAGE.read_text()


def test_images_alone_of_a_dataset_with_boxes(people: Dataset) -> None:
    with pytest.raises(UsageError, match=r"^label: .*; docs/train-objects.md shows batches with boxes"):
        torch_loader(people["train"], batch_size=2, image_size=8)
