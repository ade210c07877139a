"""Prediction: each image of a dataset without labels once, with its name, for TensorFlow and for PyTorch."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines import make_batches, resize_center_crop
from shardfeed.pipelines.torch import Ranks, torch_eval_loader
from shardfeed.pipelines.torch import resize_center_crop as torch_center_crop
from shardfeed.readers import Dataset, Skip, Split
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID
from shardfeed.tools.cli import main

Rows = list[tuple[bytes, bytes]]  # name and pixels of each sample


@pytest.fixture(scope="module")
def dataset(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("predict") / "out"
    assert main(["convert", str(flowers_folder), str(out), "--unlabelled", "--workers", "1", "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def split(dataset: Path) -> Split:
    return shardfeed.open(dataset)["train"][:61]


def rows(batches: Any) -> Rows:
    """Name and image bytes of each sample in TensorFlow's or PyTorch's batches."""
    return [
        (name, np.asarray(image).tobytes())
        for images, names in batches
        for image, name in zip(images, names if isinstance(names, list) else names.numpy().tolist(), strict=True)
    ]


def test_each_image_once_in_stored_order_with_its_name(split: Split) -> None:
    batches = shardfeed.predict_batches(split, batch_size=16, image_size=(20, 24))
    assert batches.element_spec == (tf.TensorSpec([None, 20, 24, 3], tf.uint8), tf.TensorSpec([None], tf.string))
    assert [len(names) for _, names in batches] == [16, 16, 16, 13]
    plain = make_batches(split, resize_center_crop((20, 24)), batch_size=61, order="stored")
    (expected,) = plain.as_numpy_iterator()
    names = [record[FILENAME] for record in split]
    assert len(set(names)) == 61
    for _ in range(2):
        assert rows(batches) == list(zip(names, [image.tobytes() for image in expected], strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_image_once_with_its_name_in_pytorch(split: Split, workers: int) -> None:
    options: dict[str, Any] = {"batch_size": 16, "workers": workers}
    loader = shardfeed.torch_predict_loader(split, image_size=20, **options)
    assert [images.shape for images, _ in loader] == [(16, 3, 20, 20)] * 3 + [(13, 3, 20, 20)]
    expected = [np.asarray(torch_center_crop(20)(record, 0)).tobytes() for record in split]
    assert rows(loader) == list(zip([record[FILENAME] for record in split], expected, strict=True))
    same = shardfeed.torch_predict_loader(split, image_transform=torch_center_crop(20), **options)
    assert rows(same) == rows(loader)


def small(image: Image.Image) -> Image.Image:
    return image.resize((8, 8))


def test_a_transform_of_others_prepares_the_images(split: Split) -> None:
    loader = shardfeed.torch_predict_loader(split, batch_size=16, image_transform=small, workers=0)
    assert [name for name, _ in rows(loader)] == [record[FILENAME] for record in split]
    assert next(iter(loader))[0].shape == (16, 3, 8, 8)


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_each_image_is_on_one_of_several_ranks(split: Split, ranks: int) -> None:
    whole = rows(shardfeed.torch_predict_loader(split, batch_size=42, image_size=16, workers=0))
    parts = [
        rows(shardfeed.torch_predict_loader(split, batch_size=42, image_size=16, workers=0, ranks=Ranks(rank, ranks)))
        for rank in range(ranks)
    ]
    assert all(parts)
    assert list(itertools.chain(*parts)) == whole  # the shares follow each other

    alone = rows(shardfeed.predict_batches(split, batch_size=16, image_size=16))
    slices = [split[rank / ranks : (rank + 1) / ranks] for rank in range(ranks)]
    found = [rows(shardfeed.predict_batches(part, batch_size=16, image_size=16)) for part in slices]
    assert list(itertools.chain(*found)) == alone


def test_replicas_share_the_same_images(split: Split) -> None:
    plain = shardfeed.predict_batches(split, batch_size=16, image_size=16)
    shared = shardfeed.predict_batches(split, batch_size=16, image_size=16, replicas=4)
    assert rows(shared) == rows(plain)


def test_another_feature_in_place_of_the_name(split: Split, flowers: Dataset) -> None:
    (_, ids), *_ = shardfeed.predict_batches(split, batch_size=16, image_size=8, key=SOURCE_ID)
    assert ids.numpy().tolist() == [record[SOURCE_ID] for record in split[:16]]
    loader = shardfeed.torch_predict_loader(split, batch_size=16, image_size=8, key=SOURCE_ID, workers=0)
    assert next(iter(loader))[1] == [record[SOURCE_ID] for record in split[:16]]
    labelled = flowers["validation"]
    (_, labels), *_ = shardfeed.predict_batches(labelled, batch_size=40, image_size=8, key=LABEL)
    assert labels.numpy().tolist() == labelled.column(LABEL).tolist()


@pytest.mark.parametrize("key", ["image/nothing", "image/encoded", "image/format"])
def test_a_key_that_is_none_is_refused_by_both(split: Split, key: str) -> None:
    for make in (shardfeed.predict_batches, shardfeed.torch_predict_loader):
        with pytest.raises(UsageError, match=rf"^key: got '{key}'.*'image/filename'"):
            make(split, batch_size=16, image_size=8, key=key)  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"^image_size, image_transform: expected exactly one"):
        shardfeed.torch_predict_loader(split, batch_size=16)
    with pytest.raises(UsageError, match=r"label: this dataset has no label; label=None.*predict_batches"):
        torch_eval_loader(split, batch_size=16, image_size=8)


def test_a_damaged_record_is_left_out(dataset: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(dataset, tmp_path / "out")
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 255
    shard.write_bytes(data)
    split = shardfeed.open(tmp_path / "out")["train"]
    names = shardfeed.open(dataset)["train"].column(FILENAME).tolist()
    for make, options in ((shardfeed.predict_batches, {}), (shardfeed.torch_predict_loader, {"workers": 0})):
        damaged = Skip(1)
        with pytest.warns(RuntimeWarning, match="left out, 1 of at most 1"):
            found = rows(make(split, batch_size=16, image_size=8, damaged=damaged, **options))  # type: ignore[operator]
        assert len(damaged.found) == 1
        lost = set(names) - {name for name, _ in found}
        assert [name for name in names if name not in lost] == [name for name, _ in found]
        assert len(lost) == 1


@pytest.mark.long
@pytest.mark.parametrize("texts", [False, True])
def test_the_step_that_is_printed_after_unlabelled_predicts(flowers_folder: Path, tmp_path: Path, texts: bool) -> None:
    table = tmp_path / "test.csv"
    paths = sorted(str(path.relative_to(flowers_folder)) for path in flowers_folder.rglob("*.jpg"))[:40]
    table.write_text("path,patient\n" + "".join(f"{path},p{number}\n" for number, path in enumerate(paths)))
    arguments = ["--labels", str(table), "--text-column", "patient"] if texts else []
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", str(flowers_folder), "out", "--unlabelled"]
    done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.split("next, in Python:\n")[1].split("\nor look at it:\n")[0].splitlines()
    code = (
        "\n".join(line[2:] for line in lines) + "\n    seen = globals().setdefault('seen', []) + names.numpy().tolist()"
    )
    code = code.replace("out", str(tmp_path / "out"), 1)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["seen"] == shardfeed.open(tmp_path / "out")["train"].column(FILENAME).tolist()
