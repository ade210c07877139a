"""IDX files, written here as the format is described: http://yann.lecun.com/exdb/mnist."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sources import reader

from shardfeed.converters import ColumnOptions, open_source
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL
from shardfeed.testing.source import SourceContract

PLAIN = ColumnOptions()


recognise, read = reader("idx")


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    sides = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, kind, array.ndim]) + sides + array.tobytes()


def save(folder: Path, name: str, array: np.ndarray) -> Path:
    data = idx(array.astype(np.uint8))
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name


def save_mnist(folder: Path, images: np.ndarray, labels: np.ndarray, end: str = "", before: str = "") -> Path:
    for word, part in (("train", slice(8)), ("t10k", slice(8, 12))):
        save(folder, f"{before}{word}-images-idx3-ubyte{end}", images[part])
        save(folder, f"{before}{word}-labels-idx1-ubyte{end}", labels[part])
    return folder


def read_folder(path: Path, options: ColumnOptions = PLAIN) -> Source:
    found = recognise(path, options)
    assert (found.name, found.missing) == ("idx", "")
    return read(path, options)


@pytest.fixture
def gray(pixels: np.ndarray) -> np.ndarray:
    return pixels[..., 0]


class TestPlain(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, gray, labels) -> Callable[[], Source]:
        save_mnist(tmp_path, gray, labels)
        return lambda: read(tmp_path)


class TestGzipped(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, gray, labels) -> Callable[[], Source]:
        save_mnist(tmp_path, gray, labels, ".gz")
        return lambda: read(tmp_path)


def test_torchvision_leaves_both(tmp_path: Path, gray, labels, check_samples) -> None:
    """A compressed file is passed over if it is there decompressed, too."""
    save_mnist(tmp_path, gray, labels, ".gz")
    save_mnist(tmp_path, gray, labels)
    source = read_folder(tmp_path)
    check_samples(source, gray, labels)
    assert sum("ignored, as it is also" in note for note in info_of(source).findings.notes) == 4


def test_one_file(tmp_path: Path, gray, labels, check_samples) -> None:
    """With its labels; a dot for the dash, as some mirrors have it."""
    path = save(tmp_path, "train-images.idx3-ubyte", gray)
    save(tmp_path, "train-labels.idx1-ubyte", labels)
    source = read_folder(path)
    check_samples(source, gray, labels)
    assert (source[0].key, source[0].split) == (b"000000.png", "train")


def test_emnist_is_said_to_lie_on_its_side(tmp_path: Path, gray, labels) -> None:
    save_mnist(tmp_path, gray, labels + 1, before="emnist-letters-")
    with pytest.raises(UsageError, match=r"3 integer labels from 1 to 3.*label_offset=1"):
        read(tmp_path)
    source = read_folder(tmp_path, ColumnOptions(label_offset=1))
    assert source[1].features[LABEL] == 1
    assert any("rows and columns of each image swapped:" in note for note in info_of(source).findings.notes)


def test_without_labels(tmp_path: Path, gray) -> None:
    source = read_folder(save(tmp_path, "train-images-idx3-ubyte", gray))
    assert not source.schema.features
    assert any("no labels" in note for note in info_of(source).findings.notes)


def test_two_data_sets(tmp_path: Path, gray, labels, check_samples) -> None:
    for before in ("emnist-digits-", "emnist-letters-"):
        save_mnist(tmp_path, gray, labels, before=before)
    with pytest.raises(UsageError, match="several data sets"):
        read(tmp_path)
    check_samples(read(tmp_path / "emnist-digits-train-images-idx3-ubyte"), gray[:8], labels[:8])


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("images-idx3", lambda d: b"\1" + d[1:], r"begins with b'\\x01\\x00\\x08\\x03', expected 00 00 08"),
        ("images-idx3", lambda d: d[:2] + b"\x0d" + d[3:], "values of float32, expected unsigned bytes"),
        ("images-idx3", lambda d: d[:2] + b"\x77" + d[3:], "values of type 0x77"),
        ("images-idx3", lambda d: d[:3] + b"\2" + d[4:], "2 dimensions, expected 3: the magic number 0x00000803"),
        ("labels-idx1", lambda d: d[:3] + b"\3" + d[4:], "3 dimensions, expected 1: the magic number 0x00000801"),
        ("images-idx3", lambda d: d[:-1], "is 295 bytes long, expected 296 for 8 x 5 x 7 values"),
        ("images-idx3", lambda d: d[:9], "dimensions, expected 3"),
        ("images-idx3", lambda d: d[:3], "begins with"),
        ("labels-idx1", lambda d: idx(np.zeros(7, np.uint8)), "has 7 labels, and train-images-idx3-ubyte 8 images"),
        ("images-idx3", lambda d: idx(np.zeros((8, 0, 7), np.uint8)), "0 x 7 pixels"),
        ("images-idx3", lambda d: idx(np.zeros((0, 5, 7), np.uint8)), "has no image"),
    ],
)
def test_faults(tmp_path: Path, gray, labels, name: str, damage, problem: str) -> None:
    path = save_mnist(tmp_path, gray, labels) / f"train-{name}-ubyte"
    whole = path.read_bytes()
    assert damage(whole) != whole
    path.write_bytes(damage(whole))
    with pytest.raises(UsageError, match=problem):
        read(tmp_path)


def test_a_cut_gzip_file(tmp_path: Path, gray, labels) -> None:
    """One error of the file, and not one of each of its images."""
    path = save_mnist(tmp_path, gray, labels, ".gz") / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    found = recognise(tmp_path)
    assert found is not None  # a look unpacks nothing
    with pytest.raises(UsageError, match=r"train-images-idx3-ubyte.gz cannot be decompressed: .*; copy or save it"):
        open_source(tmp_path)
    path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(UsageError, match=r"cannot be decompressed: .*incorrect data check"):
        open_source(tmp_path)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-1]))
    with pytest.raises(UsageError, match="does not decompress to the declared 296 bytes"):
        open_source(tmp_path)
    path.write_bytes(whole)
    labels_path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    labels_path.write_bytes(labels_path.read_bytes()[:-6])
    with pytest.raises(UsageError, match=r"t10k-labels-idx1-ubyte.gz cannot be decompressed"):
        read(tmp_path)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, gray, labels) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "inner").mkdir()
    for path in sorted(save_mnist(tmp_path / "outside", gray, labels).iterdir()):
        (tmp_path / "inner" / path.name).symlink_to(path)
    assert recognise(tmp_path / "inner") is None
    with pytest.raises(UsageError, match="no file named like train-images"):
        read(tmp_path / "inner")


def test_columns_are_refused(tmp_path: Path, gray, labels) -> None:
    with pytest.raises(UsageError, match="columns is for named columns"):
        read(save_mnist(tmp_path, gray, labels), ColumnOptions(columns={"image": "x"}))


def test_names_of_classes_without_labels_advise_no_column(tmp_path: Path, gray) -> None:
    save(tmp_path, "train-images-idx3-ubyte", gray)
    with pytest.raises(UsageError, match="class_names is for labels, and no image has any; leave the option out"):
        open_source(tmp_path, options=ColumnOptions(class_names=["a"]))
