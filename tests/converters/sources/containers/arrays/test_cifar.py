"""CIFAR's binary versions, written here as https://www.cs.toronto.edu/~kriz/cifar.html describes them."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sources import reader

from shardfeed.converters import ColumnOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.testing.source import SourceContract

PLAIN = ColumnOptions()


recognise, read = reader("cifar")


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (12, 32, 32, 3), np.uint8)


def records(images: np.ndarray, *labels: np.ndarray) -> bytes:
    """A label or two, 1024 bytes of red, of green, of blue."""
    data = b""
    for i, image in enumerate(images):
        data += bytes(int(column[i]) for column in labels)
        for colour in range(3):
            data += b"".join(bytes(int(image[row, column, colour]) for column in range(32)) for row in range(32))
    return data


def save_ten(folder: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(records(images[2 * i : 2 * i + 2], labels[2 * i : 2 * i + 2]))
    (folder / "test_batch.bin").write_bytes(records(images[10:], labels[10:]))
    (folder / "batches.meta.txt").write_bytes(b"airplane\nautomobile\nbird\n\n")  # which ends in an empty line
    return folder


def save_hundred(folder: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    coarse = labels // 2
    (folder / "train.bin").write_bytes(records(images[:8], coarse[:8], labels[:8]))
    (folder / "test.bin").write_bytes(records(images[8:], coarse[8:], labels[8:]))
    (folder / "fine_label_names.txt").write_text("apple\naquarium_fish\nbaby\n")
    (folder / "coarse_label_names.txt").write_text("aquatic_mammals\nfish\n")
    return folder


def read_folder(path: Path, options: ColumnOptions = PLAIN) -> Source:
    found = recognise(path, options)
    assert (found.name, found.missing) == ("cifar", "")
    return read(path, options)


class TestTen(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, images, labels) -> Callable[[], Source]:
        save_ten(tmp_path, images, labels)
        return lambda: read(tmp_path)


class TestHundred(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, images, labels) -> Callable[[], Source]:
        save_hundred(tmp_path, images, labels)
        return lambda: read(tmp_path)


def test_the_top_left_is_the_top_left(tmp_path: Path) -> None:
    """By hand: red in the first byte behind the label is the first pixel of the first row."""
    data = bytearray(3073)
    data[1], data[1 + 1024 + 1], data[1 + 2048 + 32] = 200, 100, 50
    (tmp_path / "test_batch.bin").write_bytes(bytes(data))
    source = read_folder(tmp_path)
    pixels = np.asarray(Image.open(io.BytesIO(source[0].image())))  # type: ignore[operator]
    assert pixels[[0, 0, 1], [0, 1, 0]].tolist() == [[200, 0, 0], [0, 100, 0], [0, 0, 50]]
    assert "missing, so not read: data_batch_1.bin, data_batch_2.bin" in str(info_of(source).findings.notes)


@pytest.mark.parametrize("names", [("batches.meta", "data_batch_1"), ("meta", "train")])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_the_python_version_is_pickles(tmp_path: Path, names: tuple[str, ...], protocol: int) -> None:
    for name in names:
        (tmp_path / name).write_bytes(pickle.dumps({b"data": [1]}, protocol=protocol))
    binary = "cifar-10" if "batches.meta" in names else "cifar-100"
    with pytest.raises(UsageError, match=rf"is the python version.*pickles.*{binary}-binary\.tar\.gz"):
        read(tmp_path)
    found = recognise(tmp_path)
    assert "pickles" in found.missing


def test_faults(tmp_path: Path, images, labels) -> None:
    path = save_ten(tmp_path, images, labels) / "data_batch_2.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(UsageError, match="is 6145 bytes long, expected a multiple of 3073"):
        read(tmp_path)
    path.write_bytes(b"\x07" + whole[1:])
    with pytest.raises(UsageError, match="got the label 7, expected 0 to 2, the numbers of the classes"):
        read(tmp_path)
    path.write_bytes(whole)
    (tmp_path / "batches.meta.txt").write_bytes(b"cat\ncat\ndog\n")
    with pytest.raises(LabelFileError, match=r"batches.meta.txt:2:1: 'cat' is already on line 1"):
        read(tmp_path)
    with pytest.raises(UsageError, match="columns is for named columns"):
        read(tmp_path, ColumnOptions(columns={"image": "x"}))
