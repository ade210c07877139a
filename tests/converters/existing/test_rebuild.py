"""Files rebuilt from shards come back byte for byte, or not at all."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert, rebuild, salvage
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.manifest import read_manifest
from shardfeed.readers import Dataset, verify
from shardfeed.schema import ENCODED, FILENAME, LABEL, TEXT
from shardfeed.tools.cli import main

from in_process import OwnEngine

INDEX = "index/train-00001-of-00004.tfindex"
SHARD = "train-00001-of-00004.tfrecord"
COLUMN = "index/validation.image.class.label.npy"
VIEW = ("dataset_info.json", "features.json", "image.class.label.labels.txt")


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {name: (data, (directory / name).stat().st_mtime_ns) for name, data in content(directory).items()}


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_nothing_to_do_changes_nothing(copy: Path) -> None:
    before = tree(copy)
    done = rebuild(copy)
    assert (done.files, done.lost, done.written) == ({}, {}, False)
    assert tree(copy) == before


@pytest.mark.promise(24)
@pytest.mark.parametrize("damage", ["removed", "cut", "stale", "flipped"])
def test_every_file_made_of_shards_comes_back(copy: Path, flowers: Dataset, damage: str) -> None:
    whole = content(copy)
    names = [name for name in whole if not name.endswith(".tfrecord") and name != "manifest.json"]
    assert len(names) == 6 + 2 * 8 + 3
    for number, name in enumerate(names):
        path = copy / name
        if damage == "removed":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(whole[name][: len(whole[name]) * number // len(names)])
        elif damage == "stale":
            path.write_bytes(whole[names[number - 1]])
        else:
            path.write_bytes(bytes([whole[name][0] ^ 1]) + whole[name][1:])
    before = tree(copy)
    done = rebuild(copy, dry_run=True)
    assert tree(copy) == before
    assert (set(done.files), done.lost, done.written) == (set(names), {}, False)
    (copy / (INDEX + ".partial")).write_text("of a run that was killed")
    assert rebuild(copy).written
    assert content(copy) == whole
    assert verify(copy).damages == []
    assert not [path for path in copy.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.promise(24)
def test_every_bit_of_an_index(copy: Path) -> None:
    """Each flip is found by the reader, who names the command that then gives the same bytes."""
    path = copy / "index/validation-00001-of-00002.tfindex"
    whole = path.read_bytes()
    shards = shardfeed.open(copy)["validation"].shards
    for bit in range(len(whole) * 8):
        path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
        with pytest.raises(IntegrityError, match="shardfeed rebuild DIR"):
            shards.view(1)
        if bit % 397 == 0:
            assert set(rebuild(copy).files) == {str(path.relative_to(copy))}
            assert path.read_bytes() == whole


def test_a_damaged_shard_is_refused_and_nothing_is_written(copy: Path) -> None:
    (copy / INDEX).unlink()
    (copy / "features.json").unlink()
    whole = (copy / SHARD).read_bytes()
    for changed, match in (
        (whole[:-1], "the shard itself is damaged; .*salvage"),
        (whole[:500] + bytes([whole[500] ^ 1]) + whole[501:], r"record \d+, offset \d+.*salvage"),
    ):
        (copy / SHARD).write_bytes(changed)
        before = tree(copy)
        with pytest.raises(IntegrityError, match=match) as error:
            rebuild(copy)
        assert error.value.exit_code == 4
        assert tree(copy) == before
    (copy / SHARD).unlink()
    with pytest.raises(IntegrityError, match=r"missing.*salvage"):
        rebuild(copy)


def test_whole_records_that_are_not_those_that_were_written(copy: Path) -> None:
    """Two swapped: right CRCs, right size, another index."""
    lines = [tuple(map(int, line.split())) for line in (copy / INDEX).read_text().splitlines()]
    whole = (copy / SHARD).read_bytes()
    parts = [whole[a : a + size] for a, size in lines]
    assert len(parts[0]) != len(parts[1])
    (copy / SHARD).write_bytes(b"".join([parts[1], parts[0], *parts[2:]]))
    (copy / INDEX).unlink()
    with pytest.raises(IntegrityError, match="since they were written"):
        rebuild(copy)


def test_what_is_not_made_of_shards(tmp_path: Path, folder: Callable[..., Path]) -> None:
    root = folder(4)
    (root / "daisy" / "bad.jpg").write_bytes(b"no image")
    convert(ImageFolder(root), tmp_path / "out", max_bad=1, workers=1)
    whole = content(tmp_path / "out")
    (tmp_path / "out" / "rejected.jsonl").unlink()
    (tmp_path / "out" / "features.json").write_text("{}")
    done = rebuild(tmp_path / "out")
    assert done.lost == {"rejected.jsonl": "missing"}
    assert set(done.files) == {"features.json"}
    del whole["rejected.jsonl"]
    assert content(tmp_path / "out") == whole


@pytest.mark.parametrize("size", [(10, 12), None])
def test_the_view_of_raw_pixels(tmp_path: Path, folder: Callable[..., Path], size: tuple[int, int] | None) -> None:
    convert(ImageFolder(folder(3)), tmp_path / "out", image=ImageOptions(encode="raw", size=size), workers=1)
    whole = content(tmp_path / "out")
    for name in VIEW:
        os.unlink(tmp_path / "out" / name)
    assert set(rebuild(tmp_path / "out").files) == set(VIEW)
    assert content(tmp_path / "out") == whole


def test_no_dataset_and_a_damaged_manifest(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        rebuild(tmp_path)
    (copy / "manifest.json").write_bytes((copy / "manifest.json").read_bytes()[:-9])
    with pytest.raises(IntegrityError, match="salvage"):
        rebuild(copy)


@pytest.mark.parametrize("name", ["arrayrecord", "mds", "webdataset"])
def test_what_other_programs_read_beside_shards(name: str, tmp_path: Path, folder: Callable[..., Path]) -> None:
    convert(ImageFolder(folder(3)), tmp_path / "out", to=name, workers=1)
    whole = content(tmp_path / "out")
    sidecars = set(read_manifest(str(tmp_path / "out")).sidecars)
    columns = {file for file in whole if file.endswith(".npy")}
    assert columns
    for file in sidecars | columns:
        os.unlink(tmp_path / "out" / file)
    assert set(rebuild(tmp_path / "out").files) == sidecars | columns
    assert content(tmp_path / "out") == whole


@pytest.mark.parametrize(
    "name", ["webdataset", "mds", *(pytest.param(name, marks=pytest.mark.long) for name in ("arrayrecord", "parquet"))]
)
def test_an_index_that_cannot_be_made_again(name: str, tmp_path: Path, folder: Callable[..., Path]) -> None:
    """Run the command that the error names: it gives the same images, labels and splits."""
    classes, place = ("tulip", "rose", "daisy"), tmp_path / "old"
    source, options = ImageFolder(folder(3), class_names=classes), {"split": {"train": 0.5, "test": 0.5}, "to": name}
    convert(source, place, workers=OwnEngine(1), **options)  # type: ignore[arg-type]

    def content_of(directory: Path) -> list[tuple[object, ...]]:
        keys = FILENAME, ENCODED, LABEL, TEXT
        data = shardfeed.open(directory)
        assert data.class_names == classes
        return sorted((split, *(record[key] for key in keys)) for split in data for record in data[split])

    whole = content_of(place)
    index = next((place / "index").glob("train-*.index"))
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match="`shardfeed rebuild DIR`"):
        shardfeed.open(place)
    index.unlink()
    with pytest.raises(IntegrityError, match=f"missing, and indexes of {name} shards cannot be restored") as caught:
        rebuild(place)
    with pytest.raises(UsageError, match="`shardfeed rebuild DIR` shows the"):
        salvage(place, tmp_path / "salvaged")
    (tmp_path / "names.txt").write_text("\n".join(classes))
    stands_for = {"DIR": str(place), "NEW": str(tmp_path / "new"), "NAMES": str(tmp_path / "names.txt")}
    command = caught.value.remedy.split("`")[1].split()
    assert command.pop(0) == "shardfeed"
    assert main([*(stands_for.get(word, word) for word in command), "--workers", "1", "--quiet"]) == 0
    assert content_of(tmp_path / "new") == whole
