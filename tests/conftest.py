"""Small real inputs that many tests share."""

import io
import os
from collections.abc import Callable
from pathlib import Path

# TensorFlow's start-up lines would drown what a failing test prints; the tests that look for warnings start children.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.readers import Dataset

CLASSES = ("daisy", "rose", "tulip")


def encoded(seed: int, width: int = 40, height: int = 32, kind: str = "JPEG") -> bytes:
    """A small image file of smooth random colours, different for each seed."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (4, 5, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, kind, **({"quality": 90} if kind == "JPEG" else {}))
    return out.getvalue()


def make_folder(root: Path, per_class: int, classes: tuple[str, ...] = CLASSES, png_every: int = 0) -> Path:
    """root/class/0000.jpg ...; every `png_every`th image is a PNG."""
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            png = png_every and i % png_every == 0
            data = encoded(label * 10_000 + i, kind="PNG" if png else "JPEG", width=36 + i % 9)
            (root / name / f"{i:04d}.{'png' if png else 'jpg'}").write_bytes(data)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A function that makes an image folder in the test's own directory."""
    return lambda per_class=8, **options: make_folder(tmp_path / "images", per_class, **options)


@pytest.fixture(scope="session")
def flowers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 classes of 67 images, about a tenth PNG. Read only."""
    return make_folder(tmp_path_factory.mktemp("source") / "images", 67, png_every=10)


@pytest.fixture(scope="session")
def flowers(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The folder converted: train (about 160) in 4 shards, validation (about 40) in 2. Read only."""
    out = tmp_path_factory.mktemp("dataset") / "flowers"
    shards = {"train": 4, "validation": 2}
    convert(ImageFolder(flowers_folder), out, split={"train": 0.8, "validation": 0.2}, shards=shards, workers=2)
    return shardfeed.open(out)
