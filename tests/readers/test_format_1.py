"""A dataset of format 1 stays what it was: all that one of today can do, it can, too.

It was made by the last commit that wrote format 1, of this repository's data_samples:

    shardfeed convert data_samples/shapes format1 --split train=0.6,validation=0.2,test=0.2 --shards 2 --seed 3

Indexes and label columns lie beside the shards; no other feature has a column.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from format_1 import unpack

import shardfeed
from shardfeed.converters import rebuild, salvage
from shardfeed.errors import IntegrityError
from shardfeed.readers import verify
from shardfeed.schema import FILENAME, HEIGHT, LABEL, TEXT

SPLITS = {"train": 146, "validation": 43, "test": 51}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def copy(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "format1"))


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_opens_and_reads(golden: Path) -> None:
    data = shardfeed.open(golden)
    assert data.manifest.version == 1
    assert {name: len(split) for name, split in data.items()} == SPLITS
    assert data.class_names == ("circle", "square", "triangle")
    for split in data.values():
        assert split.shards.info.columns.keys() == {LABEL}
        records = list(split)
        for key in (LABEL, HEIGHT, FILENAME, TEXT):
            assert split.column(key).tolist() == [record[key] for record in records]
        for record in records:
            assert bytes(record[FILENAME]).startswith(bytes(record[TEXT]) + b"/")  # type: ignore[arg-type]
            assert data.class_names[int(record[LABEL])].encode() == record[TEXT]  # type: ignore[call-overload]


def test_verifies(copy: Path) -> None:
    done = verify(copy)
    assert (done.damages, done.files, done.records) == ([], 18, 240)
    label = copy / "train.image.class.label.npy"
    label.write_bytes(label.read_bytes()[:-1] + b"\1")
    (copy / "index").mkdir()
    (copy / "train-00000-of-00003.tfrecord").write_bytes(b"")
    done = verify(copy)
    assert {damage.file for damage in done.damages} == {label.name, "train-00000-of-00003.tfrecord"}
    assert done.strangers == ["index"]
    with pytest.raises(IntegrityError, match=r"train-00000-of-00003\.tfrecord is not part of it"):
        shardfeed.open(copy)


def test_gives_a_batch(golden: Path) -> None:
    from shardfeed.pipelines import train_batches

    train = shardfeed.open(golden)["train"]
    for order in ("stream", "global"):
        images, labels = next(iter(train_batches(train, batch_size=8, image_size=32, order=order)))
        assert images.shape == (8, 32, 32, 3)
        assert set(labels.numpy().tolist()) <= {0, 1, 2}


def test_its_indexes_and_columns_are_made_again(copy: Path) -> None:
    whole = content(copy)
    made = [name for name in whole if name.endswith((".tfindex", ".npy"))]
    assert len(made) == 9
    for name in made:
        (copy / name).unlink()
    assert set(rebuild(copy).files) == set(made)
    assert content(copy) == whole


def test_salvage_makes_one_of_today(golden: Path, copy: Path, tmp_path: Path) -> None:
    shard = copy / "validation-00001-of-00002.tfrecord"
    data = shard.read_bytes()
    shard.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    result = salvage(copy, tmp_path / "out")
    assert result.recovered == 239
    assert verify(tmp_path / "out").damages == []
    found, before = shardfeed.open(tmp_path / "out"), shardfeed.open(golden)
    assert found.manifest.version == 2
    kept = set(found["validation"].column(FILENAME)) < set(before["validation"].column(FILENAME))
    assert kept
    for name in ("train", "test"):
        assert np.array_equal(found[name].column(FILENAME), before[name].column(FILENAME))
        assert found[name].fingerprint == before[name].fingerprint
