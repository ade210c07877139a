"""`shardfeed preview --augment` and `shardfeed.preview`: what training would show, with its annotations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters import convert
from shardfeed.errors import UsageError
from shardfeed.pipelines import array_batches, crop
from shardfeed.pipelines.augment import affine, erasing, grayscale, recipes, vertical_flip
from shardfeed.readers import Dataset, Split
from shardfeed.tools.cli import main

SIDE, GAP, LEFT = 224, 8, 28


@pytest.fixture(scope="module")
def train(flowers: Dataset) -> Split:
    return flowers["train"]


@pytest.fixture(scope="module", params=["masks", "keypoints", "rasters"])
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """The drawn scenes with objects that have masks or key points, or with a class for each pixel."""
    out = tmp_path_factory.mktemp("scenes") / "out"
    convert(scenes(request.param), out, split={"train": 1.0}, workers=1)
    return shardfeed.open(out)["train"]


def tiles_of(sheet: Image.Image) -> list[np.ndarray]:
    """The twelve pictures of a sheet of three rows of four, after its heading."""
    pixels = np.asarray(sheet)
    rule = np.flatnonzero((pixels[:, LEFT : LEFT + SIDE] == (0xDF, 0xE2, 0xE6)).all((1, 2)))
    starts = [LEFT + column * (SIDE + GAP) for column in range(4)]
    return [pixels[top + GAP : top + GAP + SIDE, left : left + SIDE] for top in rule[-3:] for left in starts]


def drawn_again(split: Split, index: int, **options: Any) -> list[np.ndarray]:
    """The images of twelve epochs by `array_batches`."""
    one = split[index : index + 1]
    batches = array_batches(one, batch_size=1, order="stored", start_step=0, label=None, image_size=SIDE, **options)
    return [images[0].copy() for images, _ in zip(batches, range(12), strict=False)]


def test_a_sheet_has_twelve_draws_of_the_loader(train: Split) -> None:
    sheet = shardfeed.preview(train, augment=recipes.simclr, index=5, seed=9)
    expected = drawn_again(train, 5, augment=recipes.simclr, seed=9)
    assert len({image.tobytes() for image in expected}) == 12
    assert all(np.array_equal(tile, image) for tile, image in zip(tiles_of(sheet), expected, strict=True))
    again = shardfeed.preview(train, augment=recipes.simclr, index=5, seed=9)
    assert again.tobytes() == sheet.tobytes()
    assert shardfeed.preview(train, seed=9).tobytes() != shardfeed.preview(train, seed=10).tobytes()


def test_annotations_follow(drawn: Split) -> None:
    """Where they are drawn, and only there, a tile differs from the image."""
    index = next((n for n in range(len(drawn)) if len(drawn[n].get(OBJECT_LABEL, ())) > 1), 2)  # type: ignore[arg-type]
    void = drawn.schema.raster is None or drawn.schema.raster.void is not None
    augment = [vertical_flip(), erasing(), *([affine(30)] if void else [])]
    flips = drawn.schema.keypoints is None or bool(drawn.schema.keypoints.flip)
    tiles = tiles_of(shardfeed.preview(drawn, augment=augment, index=index))
    images = drawn_again(drawn, index, augment=augment, flip=flips)
    differ = [(tile != image).any(2) for tile, image in zip(tiles, images, strict=True)]
    assert sum(where.any() for where in differ) > 6
    if drawn.schema.raster is not None:
        return
    one = drawn[index : index + 1]
    options: Any = {"order": "stored", "start_step": 0, "image_size": SIDE, "flip": flips, "targets": ["boxes"]}
    for batch, where in zip(array_batches(one, batch_size=1, augment=augment, **options), differ, strict=False):
        near = np.zeros_like(where)
        for left, top, right, bottom in np.rint(batch["boxes"][0]).astype(int).tolist():
            near[max(0, top - 14) : bottom + 4, max(0, left - 4) : max(right, left + 110) + 4] = True
            near[max(0, top - 14) : bottom + 4, max(0, min(left, SIDE - 110)) : right + 4] = True
        assert not (where & ~near).any()
        assert where.any() == bool(len(batch["boxes"][0]))


def test_views_have_a_row_for_each_epoch(train: Split) -> None:
    sheet = shardfeed.preview(train, views=[crop(64), crop(32, augment=[grayscale(1.0)])], index=0)
    pixels = np.asarray(sheet)
    assert (pixels == (0xDF, 0xE2, 0xE6)).all(2)[:, LEFT : LEFT + 50].all(1).sum() == 3
    assert sheet.width < shardfeed.preview(train, views=recipes.dino, index=0).width


def test_the_command_writes_what_the_function_draws(
    flowers: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "draws.png"
    for name in recipes.__all__:
        assert main(["preview", str(flowers.directory), "--augment", name, "-o", str(out), "--seed", "3"]) == 0
        assert capsys.readouterr().out.endswith(f"pixels, split train: draws of {name}\n")
        given = {"views" if name == "dino" else "augment": getattr(recipes, name)}
        with Image.open(out) as sheet:
            assert sheet.tobytes() == shardfeed.preview(flowers["train"], seed=3, **given).tobytes()


def test_what_cannot_be_shown_is_refused(flowers: Dataset, train: Split, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--augment", "simclear"], "got 'simclear', expected a recipe; there is detection_photometric, dino"),
        (["--augment", "simclr", "--classes", "0"], "got --classes, too"),
        (["--augment", "simclr", "--columns", "3"], "got --columns, too"),
    ):
        assert main(["preview", str(flowers.directory), *arguments]) == 2
        assert said in capsys.readouterr().err
    for options, said in (
        ({"index": 161}, "index: got 161, expected less than 161"),
        ({"augment": "simclr"}, "augment: got 'simclr'"),
        ({"augment": recipes.simclr, "views": recipes.dino}, "each view has augmentations of its own"),
    ):
        with pytest.raises(UsageError, match=said):
            shardfeed.preview(train, **options)  # type: ignore[arg-type]  # wrong ones
    with pytest.raises(UsageError, match="index: got a split without samples"):
        shardfeed.preview(train[:0])
