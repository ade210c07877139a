"""Several views of one decode: each is what a single crop with its seeds would be, in every framework."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageOptions, LabelOptions, convert, open_source
from shardfeed.errors import UsageError
from shardfeed.pipelines import Global, Position, Ranks, crop
from shardfeed.pipelines.augment import affine, color_jitter, grayscale, recipes
from shardfeed.pipelines.augment.crops import Crops
from shardfeed.pipelines.decoding.batch import BatchDecoder, UndecodableError
from shardfeed.pipelines.torch import random_resized_crop, to_device, torch_loader
from shardfeed.pipelines.windows import view_seeds

VIEWS = [
    crop(48),
    crop((40, 24), area=(0.3, 0.6), augment=[color_jitter(0.4, 0.4, 0.4, 0.1), affine(20)]),
    crop(16, area=(0.05, 0.3), flip=False, augment=recipes.torchvision_classification),
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve images of many sizes: plain and seekable JPEGs, a gray one and a PNG."""
    root = tmp_path_factory.mktemp("views")
    draw = np.random.default_rng(5)
    for number in range(12):
        height, width = (int(side) for side in draw.integers(60, 420, 2))
        pixels = draw.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3)).astype(np.uint8)
        image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
        file = root / "photos" / "ab"[number % 2] / f"{number}.{'png' if number == 7 else 'jpg'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        image.convert("L" if number == 3 else "RGB").save(file, quality=85)
    for name, seekable in (("plain", False), ("seekable", True)):
        convert(str(root / "photos"), root / name, image=ImageOptions(seekable=seekable), workers=1)
    return root


def train(photos: Path, name: str = "plain") -> Any:
    return shardfeed.open(photos / name)["train"]


@pytest.mark.parametrize("name", ["plain", "seekable"])
@pytest.mark.parametrize("native", ["1", "0"])
def test_each_view_is_that_of_a_single_crop_with_its_seeds(
    photos: Path, name: str, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDFEED_NATIVE", native)
    split = train(photos, name)
    payloads, seeds = split.payloads(np.arange(12)), np.stack([np.arange(12) * 77, np.arange(12)], 1)
    many = BatchDecoder(Crops(tuple(VIEWS)), split.schema, split.formats, 2)
    found = many(payloads, seeds)
    many.close()
    for number, one in enumerate(VIEWS):
        single = BatchDecoder(one, split.schema, split.formats, 0)(payloads, view_seeds(seeds, number))
        assert (found.images[number] == single.images).all()
        assert number or (found.views, found.others) == (single.views, single.others)
        plain = BatchDecoder(one.augmented(()), split.schema, split.formats, 0)(payloads, view_seeds(seeds, number))
        assert (single.images == plain.images).all() == (not one.augment)
    assert (view_seeds(seeds, 0) == seeds).all()
    assert len({tuple(view_seeds(seeds, number)[5]) for number in range(9)}) == 9


def test_one_view_is_todays_batch_and_frameworks_agree(photos: Path) -> None:
    from shardfeed.pipelines import train_batches

    split, same = train(photos), {"batch_size": 4, "seed": 7, "order": "global"}
    plain = [images.copy() for images, _ in shardfeed.array_batches(split, image_size=48, **same)]
    for options in ({"views": VIEWS[:1]}, {"views": VIEWS}):
        ours = [(images, labels) for images, labels in shardfeed.array_batches(split, **options, **same)]
        firsts = [images[0] for images, _ in ours]
        assert {len(images) for images, _ in ours} == {len(options["views"])}
        assert all((a == b).all() for a, b in zip(plain, firsts, strict=True))
    for (images, labels), (tensors, their_labels) in zip(ours, train_batches(split, views=VIEWS, **same), strict=True):
        assert [part.shape for part in images] == [(4, 48, 48, 3), (4, 40, 24, 3), (4, 16, 16, 3)]
        assert all((a == b.numpy()).all() for a, b in zip(images, tensors, strict=True))
        assert (labels == their_labels.numpy()).all()
    single = [images for images, _ in torch_loader(split, image_transform=random_resized_crop(48), **same)]
    views = [images for images, _ in to_device(torch_loader(split, views=VIEWS, **same), "cpu")]
    assert all((a == b[0]).all() for a, b in zip(single, views, strict=True))
    bare = [*torch_loader(split, views=VIEWS, label=None, workers=0, **same)]
    assert all((a == b).all() for one, two in zip(views, bare, strict=True) for a, b in zip(one, two, strict=True))


@pytest.mark.promise(29)
def test_views_go_on_where_a_run_was_killed_on_any_number_of_ranks(photos: Path) -> None:
    split, options = train(photos), {"batch_size": 4, "views": VIEWS, "seed": 3}
    whole = [[part.copy() for part in images] for images, _ in shardfeed.array_batches(split, **options)]
    before = shardfeed.array_batches(split, **options)
    next(iter(before))
    for ranks in (1, 2):
        parts = []
        for rank in range(ranks):
            again = shardfeed.array_batches(split, ranks=Ranks(rank, ranks), **options)
            again.seek(Position(before.step, before.order))
            parts.append([[part.copy() for part in images] for images, _ in again])
        for step, expected in enumerate(whole[1:]):
            shares = zip(*(part[step] for part in parts), strict=True)
            assert all((np.concatenate(share) == view).all() for share, view in zip(shares, expected, strict=True))


def test_two_views_of_one_recipe_draw_different_numbers(photos: Path) -> None:
    whole: dict[str, Any] = {"area": (1, 1), "aspect_ratio": (1e-9, 1e9), "flip": False}
    views = [crop(24, **whole, augment=[color_jitter(0.4)])] * 2
    (first, second), _ = next(iter(shardfeed.array_batches(train(photos), batch_size=12, views=views)))
    assert (first != second).any((1, 2, 3)).all()


def test_several_views_have_what_their_parts_have() -> None:
    gray, plain = (crop(8, flip=flip, channels=channels) for flip, channels in ((True, 1), (False, 3)))
    for views, channels, mirrors in (((gray, plain), 1, True), ((plain, gray), 3, True), ((plain,), 3, False)):
        made = Crops(views)
        assert (made.target, made.channels, made.draws, made.mirrors) == ((8, 8), channels, True, mirrors)


def test_what_is_for_one_view_is_refused(photos: Path) -> None:
    from shardfeed.pipelines import train_batches

    split, views = train(photos), {"batch_size": 4, "views": VIEWS}
    cases: list[tuple[Any, Any, str]] = [
        (shardfeed.array_batches, {**views, "image_size": 48}, "image_size"),
        (shardfeed.array_batches, {**views, "letterbox": True}, "letterbox"),
        (shardfeed.array_batches, {**views, "targets": ["boxes"]}, "targets"),
        (shardfeed.array_batches, {**views, "augment": [grayscale()]}, "each view has augmentations of its own"),
        (shardfeed.array_batches, {**views, "views": []}, "no view"),
        (shardfeed.array_batches, {**views, "order": Global(shapes=[(48, 48)])}, "views: got views, which have sizes"),
        (torch_loader, {**views, "image_transform": random_resized_crop(48)}, "image_transform"),
        (torch_loader, {**views, "decode": "like_cuda"}, "views"),
        (train_batches, {**views, "image_size": 48}, "image_size"),
    ]
    for make, options, said in cases:
        with pytest.raises(UsageError, match=said):
            make(split, **options)
    with pytest.raises(UsageError, match="crop"):
        shardfeed.array_batches(split, batch_size=4, views=[random_resized_crop(48)])  # type: ignore[list-item]


def test_images_without_labels_have_views(photos: Path, tmp_path: Path) -> None:
    import tensorflow as tf

    from shardfeed.pipelines import distribute, train_batches

    convert(open_source(photos / "photos", options=LabelOptions(unlabelled=True)), tmp_path / "bare", workers=1)
    split, same = train(tmp_path, "bare"), {"batch_size": 4, "views": VIEWS, "seed": 3, "order": "global"}
    for make in (shardfeed.array_batches, train_batches, torch_loader):
        with pytest.raises(UsageError, match="label=None gives only images"):
            make(split, **same)
    expected = [batch["images"] for batch in shardfeed.array_batches(split, features=[], **same)]
    fed = distribute(tf.distribute.get_strategy(), split, label=None, **same)
    for ours in ([*train_batches(split, label=None, **same)], [*fed.batches.take(len(expected))]):
        pairs = [pair for both in zip(ours, expected, strict=True) for pair in zip(*both, strict=True)]
        assert all((a.numpy() == b).all() for a, b in pairs)


def test_a_damaged_image_is_named_as_with_one_view(photos: Path) -> None:
    split = train(photos)
    payloads, file = split.payloads(np.arange(12)), split[0]["image/encoded"]
    payloads[0] = payloads[0].replace(file[-200:], bytes(200))
    said = []
    for of in (VIEWS[0], Crops(tuple(VIEWS))):
        with pytest.raises(UndecodableError) as caught:
            BatchDecoder(of, split.schema, split.formats, 0)(payloads, np.zeros((12, 2), np.int64))
        assert caught.value.payload == payloads[0]
        said.append(str(caught.value.why))
    assert said[0] == said[1]
