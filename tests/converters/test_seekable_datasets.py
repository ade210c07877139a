"""Datasets of seekable JPEGs: what loaders give is what it was, in every format, and lies in a record are its error."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch
from PIL import Image
from seekable_images import drawn, jpeg

import shardfeed
from shardfeed.converters import ImageOptions, adopt, append, convert, reshard, survey
from shardfeed.errors import RecordError
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.native import library, path_in_use
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers.dataset import Dataset
from shardfeed.tools.cli import main
from shardfeed.tools.next_steps import next_steps

pytestmark = pytest.mark.skipif(library() is None, reason=f"no restart markers inserted: {path_in_use()}")

KINDS = {"cut": 8, "png": 2, "progressive": 2, "tiny": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of two classes, most of which can be cut."""
    root = tmp_path_factory.mktemp("folder") / "images"
    for number, (kind, count) in enumerate(KINDS.items()):
        for each in range(count):
            path = root / "ab"[each % 2] / f"{kind}-{each}.{'png' if kind == 'png' else 'jpg'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture = drawn(*((40, 30) if kind == "tiny" else (200, 320)), seed=10 * number + each)
            if kind == "png":
                picture.save(path)
            else:
                path.write_bytes(jpeg(picture, progressive=kind == "progressive"))
    return root


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return made(folder, tmp_path_factory.mktemp("plain") / "out", None)


@pytest.fixture(scope="module")
def cut(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return made(folder, tmp_path_factory.mktemp("cut") / "out", True)


def made(folder: Path, out: Path, seekable: bool | None) -> Dataset:
    convert(folder, out, shards=2, workers=1, image=ImageOptions(seekable=seekable))
    return shardfeed.open(out)


def batches(dataset: Dataset) -> list[torch.Tensor]:
    loader = torch_loader(dataset["train"], batch_size=4, image_size=64, seed=5, workers=0)
    return [images for images, *_ in loader]


def pieces(dataset: Dataset) -> dict[bytes, bytes]:
    """Row lengths stored in the records, by file name; each is checked against its image."""
    records: list[Any] = list(dataset["train"])
    for record in records:
        assert record["image/restarts"] in (b"", row_lengths(record["image/encoded"]))
    return {record["image/filename"]: record["image/restarts"] for record in records}


def test_crops_are_the_same(plain: Dataset, cut: Dataset) -> None:
    for ours, theirs in zip(batches(cut), batches(plain), strict=True):
        assert torch.equal(ours, theirs)
    assert sum(map(bool, pieces(cut).values())) == KINDS["cut"]
    assert "image/restarts" not in plain.manifest.schema.features


def test_what_is_printed_next_reads_by_position(cut: Dataset, plain: Dataset) -> None:
    assert "order='global'" in next_steps(str(cut.directory), cut.manifest)
    assert "order=" not in next_steps(str(plain.directory), plain.manifest)


def test_verify(cut: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(cut.directory), "--deep"]) == 0
    assert "every image decodes" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("form", ["webdataset", "parquet", "mds", "arrayrecord"])
def test_every_format_carries_the_pieces(cut: Dataset, tmp_path: Path, form: str) -> None:
    reshard(cut.directory, tmp_path / "other", to=form, shards=3)
    assert pieces(shardfeed.open(tmp_path / "other")) == pieces(cut)


@pytest.mark.long
def test_operations_carry_the_pieces(cut: Dataset, folder: Path, tmp_path: Path) -> None:
    shardfeed.filter(cut.directory, tmp_path / "some", keys=["a/cut-0.jpg", "b/cut-1.jpg"])
    some = pieces(shardfeed.open(tmp_path / "some"))
    assert some.items() < pieces(cut).items()
    more = tmp_path / "more" / "a"
    more.mkdir(parents=True)
    (more / "new.jpg").write_bytes(jpeg(drawn(200, 320, 77)))
    (more.parent / "b").mkdir()
    (more.parent / "b" / "new.jpg").write_bytes(jpeg(drawn(200, 320, 78)))
    append(cut.directory, more.parent, tmp_path / "grown")
    grown = pieces(shardfeed.open(tmp_path / "grown"))
    assert grown.items() > pieces(cut).items()


def test_lies_are_an_error_of_their_record(cut: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split, path = cut["train"], tmp_path / "shards" / "lies-train-00000-of-00001.tfrecord"
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in split.payloads(np.arange(len(split))):
            example = tf.train.Example.FromString(payload)
            told = example.features.feature["image/restarts"].bytes_list
            told.value[0] = told.value[0][4:] + told.value[0][:4]
            writer.write(example.SerializeToString())
    adopt(survey(path.parent), tmp_path / "adopted")
    dataset = shardfeed.open(tmp_path / "adopted")
    with pytest.raises(RecordError, match=r"record \d+.*cut-\d.jpg.*image/restarts"):
        for images, *_ in torch_loader(dataset["train"], batch_size=4, image_size=32, seed=5, workers=0):
            assert len(images)
    assert main(["verify", str(dataset.directory), "--deep"]) == 4
    assert "image/restarts" in capsys.readouterr().out


def test_photos_encoded_again_are_cut_without_being_asked(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "out", workers=1, image=ImageOptions(size=(256, 448)))
    dataset = shardfeed.open(tmp_path / "out")
    assert sum(map(bool, pieces(dataset).values())) >= KINDS["cut"]
    record: Any = next(record for record in dataset["train"] if record["image/restarts"])
    assert np.asarray(Image.open(io.BytesIO(record["image/encoded"]))).shape == (256, 448, 3)
