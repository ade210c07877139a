"""NumPy's files, each written by NumPy."""

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sources import reader

from shardfeed.converters import ColumnOptions
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL
from shardfeed.testing.source import SourceContract

PLAIN = ColumnOptions()


recognise, read = reader("npz")


def read_file(path: Path, options: ColumnOptions = PLAIN) -> Source:
    found = recognise(path, options)
    assert found.name == "npz"
    return read(path, options)


class TestStored(SourceContract):
    """As np.savez writes it: images are read where they lie in the file."""

    @pytest.fixture
    def build(self, tmp_path: Path, pixels: np.ndarray, labels: np.ndarray) -> Callable[[], Source]:
        path = tmp_path / "digits.npz"
        np.savez(path, x_train=pixels[:8], y_train=labels[:8], x_test=pixels[8:], y_test=labels[8:])
        return lambda: read(path)


class TestCompressed(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, pixels: np.ndarray, labels: np.ndarray) -> Callable[[], Source]:
        path = tmp_path / "digits.npz"
        np.savez_compressed(path, images=pixels, labels=labels)
        return lambda: read(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_test", "y_test"),  # Keras
        ("train_images", "train_labels", "test_images", "test_labels"),  # MedMNIST
        ("X_train", "Y_train", "X_test", "Y_test"),
        ("trainImg", "trainLabel", "testImg", "testLabel"),
        ("train_set_x", "train_set_y", "test_set_x", "test_set_y"),
    ],
)
def test_usual_names(tmp_path: Path, pixels, labels, check_samples, save, names: tuple[str, ...]) -> None:
    arrays = (pixels[:8], labels[:8, None], pixels[8:], labels[8:, None])
    save(tmp_path / "a.npz", **dict(zip(names, arrays, strict=True)))
    source = read_file(tmp_path / "a.npz")
    check_samples(source, pixels, labels)
    assert [source[i].split for i in (0, 7, 8, 11)] == ["train", "train", "test", "test"]
    assert (source[0].key, source[11].key) == (b"train/000000.png", b"test/000003.png")
    assert all(name in source.described for name in names)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (lambda x: x, "height, width, channels"),
        (lambda x: x.transpose(0, 3, 1, 2), "channels, height, width"),
        (lambda x: x[..., 0], "height, width"),
        (lambda x: x[..., :1], "height, width, channels"),
        (lambda x: x[..., :1].transpose(0, 3, 1, 2), "channels, height, width"),
    ],
)
def test_sides(tmp_path: Path, pixels, labels, check_samples, stored, said: str) -> None:
    np.savez(tmp_path / "a.npz", images=np.ascontiguousarray(stored(pixels)), labels=labels)
    source = read_file(tmp_path / "a.npz")
    gray = stored(pixels).size < pixels.size
    check_samples(source, pixels[..., 0] if gray else pixels, labels)
    assert f"axes of images: images, {said}" in info_of(source).findings.notes


@pytest.mark.parametrize("name", ["y_train", "labels_of_train"])
def test_one_npy_and_its_labels(tmp_path: Path, pixels, labels, check_samples, name: str) -> None:
    np.save(tmp_path / "x_train.npy", pixels)
    np.save(tmp_path / f"{name}.npy", labels)
    np.save(tmp_path / "y_test.npy", labels[:3])
    options = PLAIN if name == "y_train" else ColumnOptions(columns={"label": f"{name}.npy"})
    check_samples(read_file(tmp_path / "x_train.npy", options), pixels, labels)


def test_several_npz(tmp_path: Path, pixels, labels, check_samples) -> None:
    np.savez(tmp_path / "a_train.npz", images=pixels[:4], labels=labels[:4])
    np.savez(tmp_path / "b_train.npz", images=pixels[4:8], labels=labels[4:8])
    np.savez(tmp_path / "test.npz", images=pixels[8:], labels=labels[8:])
    source = read_file(tmp_path)
    check_samples(source, pixels, labels)
    assert [source[i].key for i in (0, 4, 8)] == [b"a_train/000000.png", b"b_train/000000.png", b"test/000000.png"]
    assert [source[i].split for i in (0, 4, 8)] == ["train", "train", "test"]


class TestLabels:
    @pytest.fixture
    def saved(self, tmp_path: Path, pixels) -> Callable[..., Source]:
        def save(labels: np.ndarray, **options) -> Source:
            np.savez(tmp_path / "a.npz", images=pixels, labels=labels)
            return read(tmp_path / "a.npz", ColumnOptions(**options))

        return save

    @pytest.mark.parametrize("dtype", ["uint8", "int32", ">i4", "uint64", "float32"])
    def test_numbers_of_any_type(self, saved, labels, dtype: str) -> None:
        source = saved(labels.astype(dtype))
        assert [source[i].features[LABEL] for i in range(12)] == labels.tolist()
        assert source.schema.class_names[LABEL] == ("0", "1", "2")

    def test_minus_one_and_nothing_are_no_labels(self, saved, labels) -> None:
        for source in (saved(np.where(labels == 1, -1, labels // 2)), saved(np.array(["a", "", "b"])[labels])):
            assert [source[i].key for i in range(3)] == [b"000000.png", b"000002.png", b"000003.png"]
            assert [source[i].features[LABEL] for i in range(3)] == [0, 1, 0]
            rejected = info_of(source).findings.rejected
            assert [(found.key, found.code) for found in rejected] == [
                (b"%06d.png" % i, "E_NO_LABEL") for i in (1, 4, 7, 10)
            ]

    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, bool])
    def test_one_hot(self, saved, labels, dtype) -> None:
        source = saved(np.eye(3)[labels].astype(dtype))
        assert [source[i].features[LABEL] for i in range(12)] == labels.tolist()
        assert any("one-hot" in note for note in info_of(source).findings.notes)

    @pytest.mark.parametrize(
        ("change", "options", "problem"),
        [
            (lambda y: y + 0.5, {}, "labels has 0.5, expected labels: integers"),
            (lambda y: np.eye(3)[y] * 2, {}, "has 2.0, expected one label per sample, or zeros and ones"),
            (lambda y: np.eye(3)[y], {"label_offset": 1}, "from which label_offset=1 cannot be subtracted"),
            (lambda y: np.eye(3)[y], {"class_names": ["a", "b"]}, "got 2 names for 3 classes"),
            (lambda y: y[:-1], {}, "labels has 11 labels, and images 12 images, expected a label for each"),
            (lambda y: y.astype(object), {}, "labels is pickled"),
            (lambda y: y + 1j, {}, "labels is complex128"),
            (lambda y: y.reshape(-1, 1)[:, :0], {}, r"labels is int64 \[12, 0\], expected labels"),
            (lambda y: np.stack([np.eye(3)[y]] * 2, 1), {}, "expected labels"),
            (lambda y: np.array([b"a", b"\xff"])[y % 2], {}, "not UTF-8"),
        ],
    )
    def test_faults(self, saved, labels, change, options, problem: str) -> None:
        with pytest.raises(UsageError, match=problem):
            saved(change(labels), **options)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda x: x / 255, r"float64 \[12, 5, 7, 3\], expected uint8 .*\(x \* 255\)\.round\(\)"),
        (lambda x: x.astype(np.uint16), r"save x\.astype\('uint8'\) if its values are 0 to 255"),
        (lambda x: x > 3, r"x\.astype\('uint8'\) \* 255"),
        (lambda x: x.reshape(12, -1), "105 numbers per image are flattened rows"),
        (lambda x: x[0], "looks like one image"),
        (lambda x: np.moveaxis(x, 0, -1).copy(), r"save np\.moveaxis\(x, -1, 0\)"),
        (lambda x: x[:, :3, :, :].copy(), r"\[12, 3, 7, 3\], expected"),  # which side has the channels?
        (lambda x: np.asfortranarray(x), "stored in Fortran order, so.*ascontiguousarray"),
        (lambda x: x[:0], "no image|expected a label for each"),
        (lambda x: x[:, :0], "0 x 7 pixels per image"),
        (lambda x: np.stack([x] * 2), r"\[2, 12, 5, 7, 3\], expected"),
        (lambda x: x.astype(object), "images is pickled"),
        (lambda x: np.array([b"abc"] * 12), "give the array that holds the pixels"),
    ],
)
def test_no_images(tmp_path: Path, pixels, labels, change, problem: str) -> None:
    """And what is almost ours is recognised so, with what it lacks."""
    np.savez(tmp_path / "a.npz", images=change(pixels), labels=labels)
    with pytest.raises(UsageError, match=problem):
        read(tmp_path / "a.npz")
    found = recognise(tmp_path / "a.npz")
    assert found.missing


@pytest.mark.parametrize(
    ("names", "columns", "problem"),
    [
        (("arr_0", "arr_1"), {}, r"no array is named like images; it has arr_0 uint8 .*image=arr_0|columns="),
        (("images", "img"), {}, "two arrays are named like images: images and img"),
        (("images", "labels"), {"image": "pictures"}, "there is no array pictures; it has images uint8"),
        (("images", "labels"), {"text": "labels"}, "got 'text' in columns"),
    ],
)
def test_names_that_do_not_tell(tmp_path: Path, pixels, labels, names, columns, problem: str) -> None:
    np.savez(tmp_path / "a.npz", **dict(zip(names, (pixels, labels), strict=True)))
    with pytest.raises(UsageError, match=problem):
        read(tmp_path / "a.npz", ColumnOptions(columns=columns))


def test_labels_of_one_kind(tmp_path: Path, pixels, labels) -> None:
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=np.eye(3)[labels])
    with pytest.raises(UsageError, match="labels of different kinds"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_pickles_are_not_loaded(tmp_path: Path, name: str) -> None:
    """Neither is what calls itself an array."""
    (tmp_path / name).write_bytes(pickle.dumps({"images": [1]}, protocol=4))
    with pytest.raises(UsageError, match="is pickled, and loading a pickle can run arbitrary code:"):
        read(tmp_path / name)


def test_cut_files(tmp_path: Path, pixels, labels) -> None:
    np.savez(tmp_path / "a.npz", images=pixels, labels=labels)
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[:-40])
    with pytest.raises(UsageError, match=r"is not an intact .npz file"):
        read(tmp_path / "a.npz")
    np.save(tmp_path / "x.npy", pixels)
    whole = (tmp_path / "x.npy").read_bytes()
    no_array = r"not an intact .npy file"
    for size, problem in ((len(whole) - 1, "1259 bytes of values, expected 1260"), (20, no_array), (0, no_array)):
        (tmp_path / "x.npy").write_bytes(whole[:size])
        with pytest.raises(UsageError, match=problem):
            read(tmp_path / "x.npy")


def test_a_compressed_file_is_unpacked_once(tmp_path: Path, pixels, labels, check_samples) -> None:
    """Into a folder that lives as long as the source."""
    np.savez_compressed(tmp_path / "a.npz", images=pixels, labels=labels)
    source = read(tmp_path / "a.npz")
    (tmp_path / "a.npz").unlink()
    check_samples(source, pixels, labels)
    (note,) = [note for note in info_of(source).findings.notes if "2 compressed files were unpacked" in note]
    folder = Path(note.partition(" into ")[2].partition(":")[0])
    assert folder.is_dir()
    del source
    assert not folder.exists()


def test_a_damaged_member(tmp_path: Path, pixels, labels) -> None:
    """One error of the file, and not one of each of its images."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=np.tile(pixels, (1, 5, 5, 1)), labels=labels)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("images.npy")
        at = info.header_offset + info.compress_size - 50
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    assert recognise(path) is not None  # a look unpacks nothing
    with pytest.raises(UsageError, match=r"a.npz: images cannot be decompressed: "):
        read(path)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, pixels) -> None:
    np.save(tmp_path / "images.npy", pixels)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "images.npy").symlink_to(tmp_path / "images.npy")
    assert recognise(tmp_path / "inner") is None
