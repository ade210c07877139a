"""One table of words for masks: a folder of each is read, alone beside `images` and added to the name of the images."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters import AnnotationOptions, open_source
from shardfeed.converters.sources.files.listing import MASK_FOLDERS, MASK_WORDS

NAMED = AnnotationOptions(class_names=["a", "b", "c"])
# Folders of images and of their masks, as public datasets have them.
LAYOUTS = {
    "CamVid of SegNet": [(f"{split}/{{}}.png", f"{split}annot/{{}}.png") for split in ("train", "val", "test")],
    "CamVid of Kaggle": [(f"{split}/{{}}.png", f"{split}_labels/{{}}_L.png") for split in ("train", "val", "test")],
    "images and annot": [("images/{}.png", "annot/{}.png")],
    "Cityscapes": [
        (
            f"leftImg8bit/{split}/aachen/aachen_{{}}_leftImg8bit.png",
            f"gtFine/{split}/aachen/aachen_{{}}_gtFine_labelIds.png",
        )
        for split in ("train", "val")
    ],
    "ADE20K": [
        (f"images/{split}/ADE_{{}}.jpg", f"annotations/{split}/ADE_{{}}.png") for split in ("training", "validation")
    ],
    "trimaps": [("images/{}.jpg", "trimaps/{}.png")],
    "mattes": [("image/{}.jpg", "matte/{}.png")],
    "parts by an addition": [("train_images/{}.jpg", "train_segmentations/{}.png")],
}


def write(root: Path, places: list[tuple[str, str]], count: int = 3) -> int:
    """Images and their masks; return the number of images."""
    names = [f"{number:06d}" for number in range(count * len(places))]
    draw = np.random.default_rng(0)
    for number, name in enumerate(names):
        image, mask = places[number // count]
        for place, pixels in ((image, draw.integers(0, 256, (24, 24, 3))), (mask, draw.integers(0, 3, (24, 24)))):
            path = root / place.format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return len(names)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_public_layouts_are_images_and_masks(tmp_path: Path, layout: str) -> None:
    count = write(tmp_path / "set", LAYOUTS[layout])
    source = open_source(tmp_path / "set", options=NAMED)
    assert (len(source), source.schema.raster is not None) == (count, True)


@pytest.mark.parametrize("word", sorted(MASK_FOLDERS))
def test_a_folder_of_each_word_is_of_masks(tmp_path: Path, word: bytes) -> None:
    name = word.decode()
    assert len(open_source(_set(tmp_path / "alone", "images", name), options=NAMED)) == 3
    if word in MASK_WORDS:
        assert len(open_source(_set(tmp_path / "added", "train", f"train_{name}"), options=NAMED)) == 3


def _set(root: Path, images: str, masks: str) -> Path:
    write(root, [(f"{images}/{{}}.jpg", f"{masks}/{{}}.png")])
    return root
