"""STL-10's binary version, written here as https://cs.stanford.edu/~acoates/stl10 describes it."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sources import reader

from shardfeed.converters import ColumnOptions
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError
from shardfeed.testing.source import SourceContract

recognise, read = reader("stl10")


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (6, 96, 96, 3), np.uint8)


@pytest.fixture
def folder(tmp_path: Path, images: np.ndarray) -> Path:
    for split, part in (("train", slice(4)), ("test", slice(4, 6))):
        by_columns = [image[..., colour].tobytes(order="F") for image in images[part] for colour in range(3)]
        (tmp_path / f"{split}_X.bin").write_bytes(b"".join(by_columns))
        (tmp_path / f"{split}_y.bin").write_bytes(bytes([1, 2, 3, 1, 2, 3][part]))
    (tmp_path / "unlabeled_X.bin").write_bytes(b"")
    (tmp_path / "class_names.txt").write_text("airplane\nbird\ncar\n")
    return tmp_path


class TestStl10(SourceContract):
    @pytest.fixture
    def build(self, folder: Path) -> Callable[[], Source]:
        return lambda: read(folder)


def test_columns_come_first(folder: Path) -> None:
    """By hand: the second byte is the first pixel of the second row, in red."""
    data = bytearray(27648 * 2)
    data[1], data[96] = 200, 100
    (folder / "test_X.bin").write_bytes(bytes(data))
    pixels = np.asarray(Image.open(io.BytesIO(read(folder)[4].image())))  # type: ignore[operator]
    assert (pixels[1, 0].tolist(), pixels[0, 1].tolist()) == ([200, 0, 0], [100, 0, 0])


def test_faults(folder: Path) -> None:
    (folder / "test_y.bin").write_bytes(b"\1")
    with pytest.raises(UsageError, match=r"has 1 label, and test_X\.bin 2 images"):
        read(folder)
    (folder / "test_y.bin").write_bytes(b"\0\1")
    with pytest.raises(UsageError, match="got the label 0, expected 1 to 3, the numbers of the classes"):
        read(folder)
    (folder / "test_X.bin").write_bytes(b"cut")
    with pytest.raises(UsageError, match="is 3 bytes long, expected a multiple of 27648"):
        read(folder)
    with pytest.raises(UsageError, match="columns is for named columns"):
        read(folder, ColumnOptions(columns={"image": "x"}))
    (folder / "train_y.bin").unlink()
    (folder / "test_y.bin").unlink()
    assert recognise(folder) is None
    with pytest.raises(UsageError, match=r"neither train_X\.bin"):
        read(folder)
