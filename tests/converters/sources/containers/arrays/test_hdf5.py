"""HDF5 files, each written by h5py."""

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image
from sources import reader

from shardfeed.converters import ColumnOptions, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files import parts as handles
from shardfeed.converters.sources.rare import hdf5
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.schema import LABEL
from shardfeed.testing.source import SourceContract

from pictures import image_bytes

PLAIN = ColumnOptions()


recognise, read = reader("hdf5")


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    return image_bytes(Image.fromarray(image), kind)


def save(path: Path, arrays: dict[str, Any], **options: Any) -> str:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **options)
    return str(path)


def save_encoded(path: Path, files: list[bytes], labels: np.ndarray) -> str:
    """One file a sample, of any length."""
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (len(files),), h5py.vlen_dtype(np.uint8))
        for i, data in enumerate(files):
            images[i] = np.frombuffer(data, np.uint8)
        file["labels"] = labels
    return str(path)


def read_file(path: str, options: ColumnOptions = PLAIN) -> Source:
    found = recognise(path, options)
    assert (found.name, found.missing) == ("hdf5", "")
    return read(path, options)


class TestPixels(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, pixels, labels) -> Callable[[], Source]:
        path = save(tmp_path / "a.h5", {"x_train": pixels, "y_train": labels}, chunks=True, compression="gzip")
        return lambda: read(path)


class TestEncoded(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path, pixels, labels) -> Callable[[], Source]:
        path = save_encoded(tmp_path / "a.h5", [encoded(image) for image in pixels], labels)
        return lambda: read(path)


@pytest.mark.parametrize("how", [{}, {"chunks": (5, 2, 7, 3), "compression": "gzip"}, {"chunks": (1, 5, 7, 3)}])
def test_pixels(tmp_path: Path, pixels, labels, check_samples, how) -> None:
    """Stored in one piece, or in chunks of parts of several images."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("train/images", data=pixels[:8], **how)
        file["train/labels"] = labels[:8, None]
        file.create_dataset("test/images", data=pixels[8:].transpose(0, 3, 1, 2))
        file["test/labels"] = labels[8:, None]
    source = read_file(str(tmp_path / "a.h5"))
    check_samples(source, pixels, labels)
    assert (source[0].key, source[11].key) == (b"train/000000.png", b"test/000003.png")
    assert "axes of test/images: images, channels, height, width" in info_of(source).findings.notes


@pytest.mark.parametrize(("kind", "ending"), [("JPEG", ".jpg"), ("PNG", ".png"), ("WEBP", ".webp")])
def test_encoded_images(tmp_path: Path, pixels, labels, kind: str, ending: str) -> None:
    """Kept byte for byte; labels as text."""
    files = [encoded(image, kind) for image in pixels]
    source = read_file(save_encoded(tmp_path / "a.h5", files, np.array(["dog", "cat", "eel"], object)[labels]))
    assert [source[i].image() for i in range(12)] == files  # type: ignore[operator]
    assert source[3].key == f"000003{ending}".encode()
    assert source.schema.class_names[LABEL] == ("cat", "dog", "eel")
    assert [source[i].features[LABEL] for i in range(3)] == [1, 0, 2]


@pytest.mark.parametrize("dtype", ["S", "V"])
def test_images_as_bytes_of_one_length(tmp_path: Path, pixels, labels, dtype: str) -> None:
    files = [encoded(image) for image in pixels]
    longest = max(map(len, files))
    padded = [data.ljust(longest, b"\0") for data in files]
    array = np.array(padded, f"S{longest}") if dtype == "S" else np.frombuffer(b"".join(padded), f"V{longest}")
    source = read_file(save(tmp_path / "a.h5", {"images": array, "labels": labels}))
    for i in range(12):
        data = source[i].image()  # type: ignore[operator]
        assert data.rstrip(b"\0") == files[i].rstrip(b"\0")
        assert (np.asarray(Image.open(io.BytesIO(data))) == pixels[i]).all()


def test_columns_that_are_said(tmp_path: Path, pixels, labels, check_samples) -> None:
    path = save(tmp_path / "a.h5", {"data": pixels, "group/truth": labels, "mean": np.zeros(3)})
    with pytest.raises(UsageError, match=r"it has data uint8 \[12, 5, 7, 3\], group/truth int64 \[12\], mean"):
        read(path)
    source = read_file(path, ColumnOptions(columns={"image": "data", "label": "group/truth"}))
    check_samples(source, pixels, labels)
    assert "ignored arrays: mean float64 [3]" in info_of(source).findings.notes


def test_a_folder_of_files(tmp_path: Path, pixels, labels, check_samples) -> None:
    save(tmp_path / "test.hdf5", {"images": pixels[8:], "labels": labels[8:]})
    save(tmp_path / "train.h5", {"images": pixels[:8], "labels": labels[:8]})
    source = read_file(str(tmp_path))
    check_samples(source, np.concatenate([pixels[8:], pixels[:8]]), np.concatenate([labels[8:], labels[:8]]))
    assert [source[i].split for i in (0, 4)] == ["test", "train"]


def test_few_files_stay_open(tmp_path: Path, pixels) -> None:
    for i in range(12):
        save(tmp_path / f"{i:02}.h5", {"images": pixels[:1]})
    source = read_file(str(tmp_path))
    for i in range(12):
        source[i].image()  # type: ignore[operator]
    assert len(handles._open) <= handles._KEPT


class TestElsewhere:
    """Data in other files is not read, and a message says so."""

    def test_external_links(self, tmp_path: Path, pixels, labels) -> None:
        other = save(tmp_path / "other.h5", {"images": pixels})
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["images"] = h5py.ExternalLink(other, "images")
            file["labels"] = labels
        with pytest.raises(UsageError, match="no array is named like images"):
            read(tmp_path / "a.h5")
        with pytest.raises(UsageError, match="there is no array images"):
            read(tmp_path / "a.h5", ColumnOptions(columns={"image": "images"}))

    def test_virtual_datasets(self, tmp_path: Path, pixels) -> None:
        """Which would be zeros where their file is not there."""
        layout = h5py.VirtualLayout(pixels.shape, np.uint8)
        layout[:] = h5py.VirtualSource(str(tmp_path / "gone.h5"), "images", pixels.shape, np.uint8)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_virtual_dataset("images", layout)
        with pytest.raises(UsageError, match=r"no dataset, virtual datasets and links.*1 \(images\)"):
            read(tmp_path / "a.h5")

    def test_values_in_a_file_of_their_own(self, tmp_path: Path, pixels, labels) -> None:
        (tmp_path / "raw").write_bytes(pixels.tobytes())
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("x", pixels.shape, np.uint8, external=[(str(tmp_path / "raw"), 0, pixels.nbytes)])
            file["images"] = pixels
        source = read(tmp_path / "a.h5")
        assert any("not followed: 1 (x)" in note for note in info_of(source).findings.notes)


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (np.zeros((12, 5, 7, 3), np.float32), r"float32 \[12, 5, 7, 3\], expected uint8 .*\(x \* 255\)"),
        (np.zeros((12, 105), np.uint8), "105 numbers per image"),
        (np.array([b"photos/1.jpg"] * 12, "S20"), "no encoded images: the first begins with b'photos/1.jpg'"),
        (np.array([[b"a", b"b"]] * 12, "S20"), "expected one encoded image per sample"),
        (np.zeros(12, [("a", "u1"), ("b", "u1")]), "expected one encoded image per sample"),
    ],
)
def test_no_images(tmp_path: Path, labels, images, problem: str) -> None:
    path = save(tmp_path / "a.h5", {"images": images, "labels": labels})
    with pytest.raises(UsageError, match=problem):
        read(path)
    found = recognise(path)
    assert found.missing


def test_a_damaged_chunk_of_several_images(tmp_path: Path, pixels, labels) -> None:
    """One error of the file, and not one of each of its images."""
    path = save(tmp_path / "a.h5", {"images": pixels}, chunks=(4, 5, 7, 3), compression="gzip", fletcher32=True)
    with h5py.File(path, "a") as file:
        file["labels"] = labels
        at = file["images"].id.get_chunk_info(1).byte_offset  # type: ignore[union-attr]
    with open(path, "r+b") as file:
        file.seek(at + 20)
        byte = file.read(1)
        file.seek(at + 20)
        file.write(bytes([byte[0] ^ 0xFF]))
    with pytest.raises(UsageError, match=r"a\.h5: images .*; copy or save it again"):
        read(path)


def test_chunks_of_several_images(tmp_path: Path, pixels, labels, check_samples, monkeypatch) -> None:
    """Unpacked once; where that is too large, read as they are, and said; never what takes for ever."""
    path = save(tmp_path / "a.h5", {"images": pixels}, chunks=(4, 2, 3, 3), compression="gzip")
    with h5py.File(path, "a") as file:
        file["labels"] = labels
    source = read(path)
    check_samples(source, pixels, labels)
    assert any("unpacked for random access" in note for note in info_of(source).findings.notes)
    monkeypatch.setattr(hdf5, "_SLAB_BYTES", 300)  # two images at a time
    check_samples(read(path), pixels, labels)
    monkeypatch.setattr(hdf5, "MAX_UNPACKED_BYTES", 1259)
    source = read(path)
    check_samples(source, pixels, labels)
    assert any("4 images per chunk" in note and "CHUNK=1x5x7x3`" in note for note in info_of(source).findings.notes)
    monkeypatch.setattr(hdf5, "_SLOW", 3)
    with pytest.raises(UsageError, match=r"4 images per chunk.*and takes 1\.3 kB decompressed; `h5repack -l"):
        read(path)
    monkeypatch.setattr(hdf5, "MAX_CHUNK_BYTES", 71)
    with pytest.raises(UsageError, match=r"has chunks of 72 bytes, each read as a whole, expected 71 bytes at most"):
        read(path)


def test_a_compression_that_is_not_installed(tmp_path: Path, pixels, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.h5", {"images": pixels}, chunks=True, compression="lzf")
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    with pytest.raises(UsageError, match=r"compressed by lzf \(filter 32000\), which is not installed; `h5repack"):
        read(path)


def test_a_file_of_matlab(tmp_path: Path, pixels) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["images"] = pixels
    with open(tmp_path / "a.h5", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")
    with pytest.raises(UsageError, match="is a MATLAB file"):
        read(tmp_path / "a.h5")


def test_cut_files(tmp_path: Path, pixels) -> None:
    path = Path(save(tmp_path / "a.h5", {"images": pixels}))
    whole = path.read_bytes()
    for size in (len(whole) - 100, 100):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="is not an intact HDF5 file"):
            read(path)
    path.write_bytes(b"something else")
    assert recognise(path) is None


def test_damaged_chunks(tmp_path: Path, pixels) -> None:
    path = Path(save(tmp_path / "a.h5", {"images": pixels}, chunks=(1, 5, 7, 3), compression="gzip"))
    with h5py.File(path) as file:
        images: Any = file["images"]
        at = images.id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[at + 20] ^= 0xFF
    path.write_bytes(data)
    source = read(path)
    for i in range(12):
        image = source[i].image
        assert callable(image)
        if i == 2:
            with pytest.raises(RejectedError) as caught:
                image()
            assert caught.value.code == RejectCode.CORRUPT
        else:
            image()


def test_without_h5py(tmp_path: Path, pixels, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.h5", {"images": pixels})
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"h5py is not installed; pip install 'shardfeed\[formats\]'"):
        read(path)


@pytest.mark.parametrize("name", ["digits", "digits.nc", "DIGITS.H5"])
def test_a_file_by_any_name(tmp_path: Path, pixels: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Its first bytes say what it is."""
    save(tmp_path / name, {"images": pixels, "labels": labels})
    assert len(open_source(tmp_path / name)) == len(pixels)


def test_groups_that_contain_each_other_are_visited_once(tmp_path: Path, pixels) -> None:
    """By their paths there would be more of them than atoms."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        groups = [file.create_group(f"group{n}") for n in range(60)]
        for group in groups:
            for n, other in enumerate(groups):
                group[f"to{n}"] = other
        groups[0]["root"] = file["/"]
        file["images"] = pixels
        file["again"] = file["images"]
    assert len(read_file(tmp_path / "a.h5", ColumnOptions(unlabelled=True))) == len(pixels)


def test_more_links_than_a_file_of_images_has(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        groups = [file.create_group(f"group{n}") for n in range(101)]
        for group in groups:
            for n, other in enumerate(groups):
                group[f"to{n}"] = other
    with pytest.raises(UsageError, match="more than 10,000 objects"):
        read(tmp_path / "a.h5")


@pytest.mark.parametrize("storage", [{}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip"}])
def test_a_row_that_declares_more_bytes_than_the_file_has(tmp_path: Path, pixels, storage: dict) -> None:
    """HDF5 would allocate them first."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("images", (12,), dtype=h5py.vlen_dtype(np.uint8), **storage)
        for n, image in enumerate(pixels):
            data[n] = np.frombuffer(encoded(image), np.uint8)
        compressed = "compression" in storage
        at = data.id.get_chunk_info(0).byte_offset if data.chunks else data.id.get_offset()
        if compressed:  # the references of a chunk, written again
            rows = bytearray(zlib.decompress(data.id.read_direct_chunk((0,))[1]))
            rows[:4] = (1_600_000_000).to_bytes(4, "little")
            data.id.write_direct_chunk((0,), zlib.compress(bytes(rows)))
    if not compressed:
        raw = bytearray(path.read_bytes())
        assert int.from_bytes(raw[at : at + 4], "little") == len(encoded(pixels[0])), "the length of the first row"
        raw[at : at + 4] = (1_600_000_000).to_bytes(4, "little")
        path.write_bytes(raw)
    with pytest.raises(UsageError, match="has a row of 1600000000 bytes"):
        read(path, ColumnOptions(unlabelled=True))


def test_an_array_for_each_image(tmp_path: Path, pixels: np.ndarray) -> None:
    """As in files with a group for each class: no choice of two arrays would help."""
    path = save(tmp_path / "a.h5", {f"{'cat' if i % 2 else 'dog'}/{i}": image for i, image in enumerate(pixels)})
    with pytest.raises(UsageError, match=r"each of its \d+ arrays is one image, .*; write one array of all images"):
        open_source(path)


@pytest.mark.parametrize("option", [{"class_names": ("a", "b")}, {"label_offset": 1}])
def test_names_of_classes_without_labels(tmp_path: Path, pixels: np.ndarray, option: dict[str, Any]) -> None:
    path = save(tmp_path / "a.h5", {"images": pixels})
    with pytest.raises(UsageError, match="is for labels, and no column is known to have them"):
        open_source(path, options=ColumnOptions(**option))
