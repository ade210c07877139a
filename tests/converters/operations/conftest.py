"""Datasets that operations take from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import here
from foreign_tfrecords import picture

import shardfeed
from shardfeed.converters import ImageFolder, convert, reshard
from shardfeed.readers import Dataset


@pytest.fixture(scope="session")
def kept_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the whole run."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session")
def images_of_small(kept_path: Path) -> Path:
    """The folder that `small` is made of."""
    for number, name in enumerate(("daisy", "rose", "tulip")):
        (kept_path / "images" / name).mkdir(parents=True)
        for i in range(8):
            (kept_path / "images" / name / f"{i:04d}.jpg").write_bytes(picture(8 * number + i, size=(40, 40 + i)))
    return kept_path / "images"


@pytest.fixture(scope="session")
def small(images_of_small: Path, kept_path: Path) -> Dataset:
    """3 classes of 8 images: train (19) in 3 shards, validation (5) in one. Read only."""
    shares, shards = {"train": 0.8, "validation": 0.2}, {"train": 3, "validation": 1}
    convert(ImageFolder(images_of_small), kept_path / "small", split=shares, shards=shards, workers=here())
    return shardfeed.open(kept_path / "small")


@pytest.fixture(scope="session")
def of_format(small: Dataset, kept_path: Path) -> Callable[[str], Dataset]:
    """The small dataset in each format; read only."""
    made: dict[str, Dataset] = {}

    def give(name: str) -> Dataset:
        if name not in made:
            reshard(small, kept_path / name, to=name, shards={"train": 3, "validation": 1}, workers=here())
            made[name] = shardfeed.open(kept_path / name)
        return made[name]

    return give
