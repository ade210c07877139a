"""MATLAB's files, written by SciPy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters import open_source
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.testing.source import SourceContract

io = pytest.importorskip("scipy.io")


def save(path: Path, images: np.ndarray, labels: np.ndarray, compressed: bool = True) -> Path:
    """As SVHN has them: the images are the last side, labels a column of numbers."""
    io.savemat(path, {"X": np.moveaxis(images, 0, -1), "y": labels[:, None]}, do_compression=compressed)
    return path


class TestMat(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, pixels: np.ndarray, labels: np.ndarray) -> Callable[[], Source]:
        path = save(tmp_path / "a.mat", pixels, labels)
        return lambda: open_source(path)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("gray", [True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_splits(tmp_path: Path, pixels, labels, check_samples, compressed: bool, gray: bool, dtype: type) -> None:
    """Labels may be doubles, as MATLAB's numbers are."""
    pixels = pixels[..., 0] if gray else pixels
    save(tmp_path / "train_32x32.mat", pixels[:8], labels[:8].astype(dtype), compressed)
    save(tmp_path / "test_32x32.mat", pixels[8:], labels[8:].astype(dtype), compressed)
    source = open_source(tmp_path)
    order = [*range(8, 12), *range(8)]
    check_samples(source, pixels[order], labels[order])
    assert [source[i].split for i in (3, 4)] == ["test", "train"]


def test_what_holds_no_images(tmp_path: Path, pixels) -> None:
    io.savemat(tmp_path / "a.mat", {"names": np.array(["a", "b"], object), "z": pixels})
    with pytest.raises(UsageError, match=r"no array is named like images; it has z uint8 \[3, 7, 5, 12\]"):
        open_source(tmp_path / "a.mat", reader="mat")


def test_lists_of_images_beside(tmp_path: Path, pixels) -> None:
    """As Oxford's flowers have them: nothing is made a class of, and the way in is named."""
    (tmp_path / "jpg").mkdir()
    Image.fromarray(pixels[0]).save(tmp_path / "jpg" / "image_00001.jpg")
    io.savemat(tmp_path / "imagelabels.mat", {"labels": np.array([[1]])})
    with pytest.raises(UsageError, match=r"imagelabels\.mat lists image files.*; save it as a CSV .*give that"):
        open_source(tmp_path)


def test_damaged_files(tmp_path: Path, pixels, labels) -> None:
    path = save(tmp_path / "a.mat", pixels, labels)
    whole = path.read_bytes()
    for size in (130, 200, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError):
            open_source(path, reader="mat")
    path.write_bytes(b"MATLAB 7.3 MAT-file" + whole[19:])
    with pytest.raises(UsageError, match=r"version 7\.3, which is HDF5"):
        open_source(path)


def test_unpacked_once(tmp_path: Path, pixels, labels) -> None:
    source = open_source(save(tmp_path / "a.mat", pixels, labels))
    assert any("2 compressed files were unpacked" in note for note in info_of(source).findings.notes)


def test_without_scipy(tmp_path: Path, pixels, labels, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.mat", pixels, labels)
    modules = __import__("sys").modules
    for name in [name for name in modules if name.startswith("scipy")]:
        monkeypatch.delitem(modules, name)
    monkeypatch.setitem(modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"SciPy is not installed; pip install 'shardfeed\[formats\]'"):
        open_source(path, reader="mat")
