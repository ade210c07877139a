"""Files of another kind are left to other readers: no reader raises, and none waits."""

import os
from pathlib import Path

import pytest

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.readers import BY_NAME

NAMES = ("npz", "hdf5", "idx", "cifar", "stl10", "lmdb")


@pytest.fixture
def others(tmp_path: Path) -> list[Path]:
    """Paths, some called like files of these formats."""
    for i, name in enumerate(("data.mdb", "batches.meta", "meta", "fine_label_names.txt")):
        (tmp_path / f"pipe{i}").mkdir()
        os.mkfifo(tmp_path / f"pipe{i}" / name)
    for name in ("x.npy", "x.npz", "x.h5", "x.lmdb", "train-images-idx3-ubyte", "train.bin", "data_batch_1.bin"):
        (tmp_path / f"of {name}" / name).mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x.npz")
    os.mkfifo(tmp_path / "pipe")
    return [*tmp_path.iterdir(), tmp_path, tmp_path / "nothing"]


@pytest.mark.parametrize("name", NAMES)
def test_others_are_left_alone(others: list[Path], name: str) -> None:
    assert [path for path in others if BY_NAME[name].recognise(Look(str(path)), {})] == []


@pytest.mark.parametrize("name", ["npz", "hdf5", "idx"])
def test_empty_files_are_almost_ours(tmp_path: Path, name: str) -> None:
    """HDF5 says so in its first bytes; the others are known by their names."""
    path = tmp_path / {"npz": "a.npz", "hdf5": "a.h5", "idx": "train-images-idx3-ubyte"}[name]
    path.write_bytes(b"\x89HDF\r\n\x1a\n" if name == "hdf5" else b"")
    found = BY_NAME[name].recognise(Look(str(path)), {})
    assert found.missing
