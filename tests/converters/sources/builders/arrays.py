"""Images and their labels as arrays. Labels that are texts have the empty one for null."""

import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import put
from PIL import Image

from tests.converters.sources.builders.builder import Builder, Files, Row


def _arrays(rows: Sequence[Row]) -> dict[str, Any]:
    """Pixels of all images, and all labels where a row has one: numbers, texts, or ones in a column a class."""
    files = [io.BytesIO(row["image"]) for row in rows if row["image"] is not None]
    arrays = {"images": np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])}
    if any("tags" in row for row in rows):
        arrays["labels"] = np.array([[name in row["tags"] for name in ("cat", "dog")] for row in rows], np.uint8)
    elif any("label" in row for row in rows):
        labels = [row.get("label") for row in rows]
        arrays["labels"] = np.array(["" if label is None else label for label in labels])
    return arrays


def _numbers(rows: Sequence[Row]) -> np.ndarray:
    """Labels as bytes."""
    return np.array([row["label"] for row in rows if "label" in row], np.uint8)


def npz(folder: Path, files: Files) -> None:
    """An array of images, and one of labels."""
    for name, rows in files.items():
        np.savez(folder / f"{name}.npz", **_arrays(rows))


def hdf5(folder: Path, files: Files) -> None:
    """Likewise, as datasets."""
    module = pytest.importorskip("h5py", reason="the extra of HDF5 is missing")
    for name, rows in files.items():
        with module.File(folder / f"{name}.h5", "w") as file:
            for key, array in _arrays(rows).items():
                file[key] = array.astype("S") if array.dtype.kind == "U" else array


def mat(folder: Path, files: Files) -> None:
    """Likewise, the images along the last side; labels are a column of numbers."""
    module = pytest.importorskip("scipy.io", reason="the extra of MATLAB's files is missing")
    for name, rows in files.items():
        arrays = _arrays(rows)
        arrays["images"] = np.moveaxis(arrays["images"], 0, -1)
        if "labels" in arrays and arrays["labels"].ndim == 2:
            arrays["labels"] = arrays["labels"].T
        module.savemat(folder / f"{name}.mat", arrays)


def idx(folder: Path, files: Files) -> None:
    """MNIST's names: a file that is called like a test is `t10k`."""
    for name, rows in files.items():
        split = "t10k" if name.startswith("test") else "train"
        images = _arrays([row for row in rows if row["image"]])["images"][..., 0]
        put(folder / f"{split}-images-idx3-ubyte", struct.pack(">HBB3I", 0, 8, 3, *images.shape) + images.tobytes())
        if any("label" in row for row in rows):
            data = struct.pack(">HBBI", 0, 8, 1, len(_numbers(rows))) + _numbers(rows).tobytes()
            put(folder / f"{split}-labels-idx1-ubyte", data)


def cifar(folder: Path, files: Files) -> None:
    """A label and 3,072 bytes of pixels an image."""
    for rows in files.values():
        put(folder / "data_batch_1.bin", b"".join(bytes([label]) + bytes(3072) for label in _numbers(rows).tolist()))


def stl10(folder: Path, files: Files) -> None:
    """Images and labels apart, labels from 1."""
    for rows in files.values():
        put(folder / "train_X.bin", bytes(3 * 96 * 96 * sum(row["image"] is not None for row in rows)))
        put(folder / "train_y.bin", (_numbers(rows) + 1).astype(np.uint8).tobytes())


_NUMBERED = frozenset({"label", "class names", "unlabelled"})
_APART = _NUMBERED | {"lengths"}
_NAMED = _APART | {"files", "int", "float", "tags"}
BUILDERS = {
    "npz": Builder(npz, _NAMED | {"name", "none"}),
    "hdf5": Builder(hdf5, _NAMED | {"name", "none"}),
    "mat": Builder(mat, _NAMED),
    "idx": Builder(idx, _APART | {"files"}),
    "cifar": Builder(cifar, _NUMBERED),
    "stl10": Builder(stl10, _APART),
}
