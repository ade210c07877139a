"""A dataset in every format: the same records, from each into each other, in every pipeline, and for their programs."""

import errno
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_tfrecords import picture
from hypothesis import given, settings
from hypothesis import strategies as st
from object_images import put
from PIL import Image

import shardfeed
from shardfeed import errors
from shardfeed.annotations import OBJECT_MASK, RASTER, XMIN
from shardfeed.converters import ImageFolder, LabelOptions, Source, convert, open_source
from shardfeed.converters.existing.dataset_source import DatasetSource
from shardfeed.converters.sources.options import options_of
from shardfeed.errors import MissingExtraError, OutputExistsError, RecordError, TooManyRejectedError, UsageError
from shardfeed.formats import mds, parquet
from shardfeed.formats import webdataset as webdataset_format
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.naming import is_shard
from shardfeed.pipelines import Blocks, Global, Stream, make_batches
from shardfeed.pipelines.torch import torch_eval_loader
from shardfeed.readers.verification import verify
from shardfeed.schema import ENCODED, FILENAME, LABEL

from in_process import OwnEngine
from repository import ROOT
from trees import tree

OTHERS = sorted(FORMATS.keys() - {NATIVE.name})
SCENES = ROOT / "data_samples" / "scenes"
DRAWN: Mapping[str, tuple[str, dict[str, Any]]] = {
    "masks": ("coco/instances.json", {"tasks": ["boxes", "masks"]}),
    "keypoints": ("coco/keypoints.json", {"tasks": ["boxes", "keypoints"]}),
    "captions": ("coco/captions.json", {}),
    "raster": ("masks", {"class_names": SCENES / "masks.txt"}),
}


def made(source: Source, out: Path, shards: Any = 2, **options: Any) -> Path:
    convert(source, out, workers=OwnEngine(1), shards=shards, **options)
    return out


def drawn(name: str, out: Path) -> Path:
    path, options = DRAWN[name]
    return made(open_source(SCENES / path, options=options_of({"images": SCENES / "images", **options})), out)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """36 photos in each format, by its name: JPEGs, and some PNGs."""
    root = tmp_path_factory.mktemp("formats")
    for number in range(36):
        path = root / "images" / "ab"[number % 2] / f"{number}.x.{'png' if number % 5 == 0 else 'jpg'}"
        put(path, picture(number, "PNG" if number % 5 == 0 else "JPEG"))
    source = made(ImageFolder(root / "images"), root / "source", split={"train": 0.7, "validation": 0.3})
    return {"source": source, **{to: made(DatasetSource(source), root / to, to=to) for to in FORMATS}}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Drawn scenes with boxes and masks in each format, by its name."""
    root = tmp_path_factory.mktemp("scenes")
    source = drawn("masks", root / "source")
    return {to: made(DatasetSource(source), root / to, to=to) for to in FORMATS}


def payloads(directory: Path) -> dict[str, list[bytes]]:
    data = shardfeed.open(directory)
    return {name: split.payloads(np.arange(len(split))) for name, split in data.items()}


def shards_of(directory: Path) -> dict[str, bytes]:
    """Shards, indexes and columns."""
    return {name: data for name, data in tree(directory).items() if "-of-" in name or "shard." in name}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in DRAWN])
def test_every_pair_and_back(name: str, tmp_path: Path) -> None:
    """The same payloads, the same fingerprint, and the same bytes wherever a record comes from."""
    source = drawn(name, tmp_path / "source")
    known = {to: made(DatasetSource(source), tmp_path / to, to=to) for to in FORMATS}
    assert shards_of(known["tfrecord"]) == shards_of(source)
    for first, directory in known.items():
        for second in FORMATS:
            again = made(DatasetSource(directory), tmp_path / f"{first}-{second}", to=second)
            assert shards_of(again) == shards_of(known[second]), f"{first} to {second}"
            assert shardfeed.open(again).manifest.fingerprint == shardfeed.open(source).manifest.fingerprint


def test_the_same_records_in_every_format(photos: dict[str, Path]) -> None:
    """And back, to the same shards; the fingerprint is that of the source."""
    records = payloads(photos["source"])
    assert shards_of(photos["tfrecord"]) == shards_of(photos["source"])
    for to, directory in photos.items():
        assert payloads(directory) == records
        assert shardfeed.open(directory).manifest.fingerprint == shardfeed.open(photos["source"]).manifest.fingerprint
        found = verify(directory)
        assert (found.damages, found.strangers, found.records) == ([], [], 36), to


@pytest.mark.parametrize("to", OTHERS)
def test_and_back(scenes: dict[str, Path], to: str, tmp_path: Path) -> None:
    """With boxes and masks: the same files as those of the dataset that was never in another format."""
    assert shards_of(made(DatasetSource(scenes[to]), tmp_path / "back")) == shards_of(scenes["tfrecord"])


@pytest.mark.parametrize("to", ["mds", *(pytest.param(to, marks=pytest.mark.long) for to in OTHERS if to != "mds")])
@pytest.mark.parametrize(
    "order", [Stream(10), *(pytest.param(order, marks=pytest.mark.long) for order in (Global(), Blocks(10)))]
)
def test_tensorflow_batches(photos: dict[str, Path], order: Any, to: str) -> None:
    """Those of TFRecords."""
    found = []
    for directory in (photos[NATIVE.name], photos[to]):
        split = shardfeed.open(directory)["train"]
        batches = make_batches(
            split, lambda record, seed: (record[ENCODED], seed), batch_size=8, seed=5, order=order, keys=[ENCODED]
        )
        found.append([part.numpy().tolist() for batch in batches.take(3) for part in batch])
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_torch_batches(photos: dict[str, Path]) -> None:
    """The same in every format."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for to, directory in photos.items():
        loader = torch_eval_loader(shardfeed.open(directory)["train"], batch_size=16, transform=_pick, workers=0)
        found[to] = [tuple(batch["name"]) + tuple(batch["label"].tolist()) for batch in loader]
    assert sum(map(len, found["tfrecord"])) == 2 * len(shardfeed.open(photos["source"])["train"])
    assert all(batches == found["tfrecord"] for batches in found.values())


def _pick(record: Mapping[str, Any], seed: Any) -> dict[str, Any]:
    return {"name": record[FILENAME], "label": record[LABEL]}


@pytest.mark.parametrize("to", OTHERS)
def test_what_changed_is_found(to: str, tmp_path: Path) -> None:
    """A flipped bit anywhere: `verify` says so, and no record is read that is another one than was written."""
    source = DatasetSource(scenes_of_two(tmp_path))
    directory = made(source, tmp_path / to, 1, to=to)
    check_flips(directory, of=40)


@pytest.mark.parametrize("to", OTHERS)
@pytest.mark.parametrize("of", [pytest.param(1500, marks=pytest.mark.long), pytest.param(0, marks=pytest.mark.torture)])
def test_every_flipped_bit_is_found(to: str, of: int, tmp_path: Path) -> None:
    """Many of them, or in the longest sweep all; of an ArrayRecord, most of which is padding, many."""
    directory = made(DatasetSource(scenes_of_two(tmp_path)), tmp_path / to, 1, to=to)
    check_flips(directory, of or (20_000 if to == "arrayrecord" else 0))


def scenes_of_two(place: Path) -> Path:
    """Two small images and their boxes."""
    root = place / "two"
    root.mkdir()
    rows = []
    for number in range(2):
        Image.new("RGB", (8 + number, 8), (number, 9, 9)).save(root / f"{number}.png")
        box = {"xmin": 1, "ymin": 1, "xmax": 5, "ymax": 6, "class": "a"}
        rows.append(",".join(map(str, (f"{number}.png", *box.values()))))
    (place / "boxes.csv").write_text("\n".join(["file,xmin,ymin,xmax,ymax,class", *rows]) + "\n")
    return made(open_source(place / "boxes.csv", options=LabelOptions(images=root)), place / "tfrecord", 1)


def check_flips(directory: Path, of: int = 0) -> None:
    (shard,) = (directory / name for name in shardfeed.open(directory).manifest.files() if is_shard(name))
    whole, records, refused = shard.read_bytes(), payloads(directory), 0
    step = 8 * len(whole) // of | 1 if of else 1
    for bit in range(0, 8 * len(whole), step):
        at = bit // 8
        with shard.open("r+b") as file:
            file.seek(at)
            file.write(bytes([whole[at] ^ 1 << bit % 8]))
        assert [damage.file for damage in verify(directory).damages][:1] == [str(shard.relative_to(directory))], bit
        try:
            assert payloads(directory) == records
        except RecordError:
            refused += 1
        with shard.open("r+b") as file:
            file.seek(at)
            file.write(whole[at : at + 1])
    assert refused > 0 or step > 1  # what frames a record is none of it
    assert shard.read_bytes() == whole


def test_webdataset(photos: dict[str, Path], scenes: dict[str, Path]) -> None:
    import webdataset

    data = shardfeed.open(photos["webdataset"])
    url = str(photos["webdataset"] / "data" / "train-{00000..00001}-of-00002.tar")
    rows = list(webdataset.WebDataset(url, shardshuffle=False).decode("pil"))
    assert [row["json"]["image/filename"] for row in rows] == [record[FILENAME].decode() for record in data["train"]]
    assert [row["cls"] for row in rows] == [record[LABEL] for record in data["train"]]
    assert {*rows[0]} & {"jpg", "png"}
    assert not any("." in row["__key__"] for row in rows)
    raw = list(webdataset.WebDataset(url, shardshuffle=False))
    assert [row.get("jpg", row.get("png")) for row in raw] == [record[ENCODED] for record in data["train"]]
    info = json.loads((photos["webdataset"] / "_info.json").read_text())["splits"]["train"]
    assert (info["num_samples"], sum(info["shard_lengths"])) == (len(rows), len(rows))
    assert all((photos["webdataset"] / name).is_file() for name in info["filenames"])
    wids = json.loads((photos["webdataset"] / "train.wids.json").read_text())["shardlist"]
    assert [(photos["webdataset"] / one["url"]).stat().st_size for one in wids] == [one["filesize"] for one in wids]
    with tarfile.open(scenes["webdataset"] / "data" / "train-00000-of-00002.tar") as tar:
        assert {(member.mtime, member.uid, member.uname) for member in tar} == {(0, 0, "")}


@given(st.text("az09/.-", min_size=1, max_size=100), st.integers(0, 8**11 - 1))
@settings(max_examples=50)
def test_the_header_of_a_tar_is_that_of_tarfile(name: str, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    assert webdataset_format._header(name.encode(), size) == entry.tobuf(tarfile.USTAR_FORMAT)


def test_webdataset_has_rasters_as_pictures(tmp_path: Path) -> None:
    import webdataset

    out = made(DatasetSource(drawn("raster", tmp_path / "source")), tmp_path / "out", to="webdataset")
    urls = sorted(map(str, out.glob("data/*.tar")))
    rows = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert [row["seg.png"] for row in rows] == [record[RASTER] for record in shardfeed.open(out)["train"]]
    assert RASTER not in json.loads(rows[0]["json"])


def test_parquet(photos: dict[str, Path], scenes: dict[str, Path]) -> None:
    """pyarrow reads each column, its pages' checksums compared; the metadata names the classes as `datasets` wants."""
    from pyarrow import parquet

    data = shardfeed.open(photos["parquet"])
    paths = sorted((photos["parquet"] / "data").glob("train-*.parquet"))
    rows = [row for path in paths for row in parquet.read_table(path, page_checksum_verification=True).to_pylist()]
    records = list(data["train"])
    assert [row["image"]["bytes"] for row in rows] == [record[ENCODED] for record in records]
    assert [row["image"]["path"] for row in rows] == [record[FILENAME].decode() for record in records]
    assert [row["label"] for row in rows] == [record[LABEL] for record in records]
    opened = parquet.ParquetFile(paths[0])
    features = json.loads(opened.schema_arrow.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert features["label"] == {"_type": "ClassLabel", "names": list(data.class_names)}
    image = opened.metadata.row_group(0).column(0)
    assert (image.path_in_schema, image.compression, image.has_offset_index) == ("image.bytes", "UNCOMPRESSED", True)
    assert set(image.encodings) == {"PLAIN", "RLE"}
    assert image.statistics is None
    rows = [
        row for path in sorted(scenes["parquet"].rglob("*.parquet")) for row in parquet.read_table(path).to_pylist()
    ]
    records = list(shardfeed.open(scenes["parquet"])["train"])
    assert [row[XMIN] for row in rows] == [record[XMIN].tolist() for record in records]
    assert [[m["bytes"] for m in row[OBJECT_MASK]] for row in rows] == [list(record[OBJECT_MASK]) for record in records]


def test_parquet_in_several_row_groups(
    scenes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pyarrow import parquet as pyarrow_parquet

    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 4000)
    out = made(DatasetSource(scenes["tfrecord"]), tmp_path / "out", 1, to="parquet")
    (path,) = out.rglob("*.parquet")
    assert pyarrow_parquet.ParquetFile(path).num_row_groups > 3
    assert payloads(out) == payloads(scenes["tfrecord"])


def test_mds(photos: dict[str, Path]) -> None:
    """By the layout alone; `make peers` reads it with `streaming`."""
    data, folder = shardfeed.open(photos["mds"]), photos["mds"] / "train"
    records = iter(data["train"])
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        content = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(content) == shard["raw_data"]["bytes"]
        count, *offsets = np.frombuffer(content, "<u4", shard["samples"] + 2).tolist()
        assert (count, offsets[-1]) == (shard["samples"], len(content))
        assert json.loads(content[4 * (count + 2) : offsets[0]])["column_names"] == shard["column_names"]
        for begin, end in pairwise(offsets):
            variable = [
                name for name, size in zip(shard["column_names"], shard["column_sizes"], strict=True) if not size
            ]
            sizes = dict(zip(variable, np.frombuffer(content, "<u4", len(variable), begin).tolist(), strict=True))
            at, found = begin + 4 * len(variable), {}
            for name, size in zip(shard["column_names"], shard["column_sizes"], strict=True):
                at += (size := size or sizes[name])
                found[name] = content[at - size : at]
            assert at == end
            record = next(records)
            assert found["image"] == record[ENCODED]
            assert int.from_bytes(found["label"], "little") == record[LABEL]


def test_arrayrecord(photos: dict[str, Path]) -> None:
    """Each record is its payload, and TFDS finds the dataset by its directory."""
    import tensorflow_datasets as tfds
    from array_record.python.array_record_module import ArrayRecordReader

    found: list[bytes] = []
    for path in sorted(photos["arrayrecord"].glob("train-*.array_record")):
        reader = ArrayRecordReader(str(path))
        assert "group_size:1," in reader.writer_options_string()
        found += reader.read_all()
        reader.close()
    assert found == payloads(photos["arrayrecord"])["train"]
    builder = tfds.builder_from_directory(photos["arrayrecord"])
    source = builder.as_data_source(split="validation")
    records = list(shardfeed.open(photos["arrayrecord"])["validation"])
    assert [row[LABEL] for row in source] == [record[LABEL] for record in records]
    assert [row[FILENAME] for row in source] == [record[FILENAME] for record in records]


@pytest.mark.parametrize(("to", "module"), [("parquet", "pyarrow"), ("arrayrecord", "array_record")])
def test_a_missing_package_is_named(
    photos: dict[str, Path], to: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == module else True)
    with pytest.raises(MissingExtraError, match=rf"{module} is not installed; pip install 'shardfeed\[formats\]'"):
        made(DatasetSource(photos["source"]), tmp_path / "out", to=to)


def test_the_writer_of_the_bytes_is_noted(photos: dict[str, Path]) -> None:
    """Another version is another plan: it may write other bytes."""
    import pyarrow

    assert shardfeed.open(photos["parquet"]).manifest.made_by["pyarrow"] == pyarrow.__version__
    assert "array_record" in shardfeed.open(photos["arrayrecord"]).manifest.made_by
    assert "pyarrow" not in shardfeed.open(photos["mds"]).manifest.made_by


def test_an_mds_shard_that_is_too_large(
    photos: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mds, "_MOST_BYTES", 10_000)
    with pytest.raises(UsageError, match="at most 10,000 bytes"):
        made(DatasetSource(photos["source"]), tmp_path / "out", to="mds")
    assert not list(tmp_path.rglob("*.mds*"))


DISK_IS_FULL = """
import resource, signal, sys
from shardfeed.formats.example import encode
from shardfeed.formats.registry import FORMATS
from shardfeed.schema import Feature, Schema
from shardfeed.errors import StorageError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
features = {"image/encoded": Feature("bytes"), "image/format": Feature("bytes")}
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
for to in sys.argv[2:]:
    try:
        with FORMATS[to].sink(f"{sys.argv[1]}/{to}", f"{sys.argv[1]}/index", Schema(features), 100) as sink:
            for number in range(100):
                sink.write({"image/encoded": bytes(20_000), "image/format": b"png"})
    except StorageError as error:
        print(to, error.errno)
"""


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """And leaves no file, whoever writes it."""
    done = subprocess.run(
        [sys.executable, "-c", DISK_IS_FULL, str(tmp_path), *OTHERS], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{to} {errno.EFBIG}" for to in OTHERS], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", OTHERS)
def test_is_replaced_whatever_its_manifest_says(photos: dict[str, Path], to: str, tmp_path: Path) -> None:
    """Folders of ours are known, also by their names alone; what is none of ours is not lost."""
    out = tmp_path / "out"
    shutil.copytree(photos[to], out)
    (out / "manifest.json").write_bytes(b'{"format_version": 3, "crc32c": "" ')
    inside = next(path for path in out.rglob("*0000*") if "index" not in path.parts).parent / "mine.txt"
    inside.touch()
    with pytest.raises(OutputExistsError, match=r"mine\.txt, which is not part"):
        made(DatasetSource(photos["source"]), out, replace=True)
    inside.unlink()
    made(DatasetSource(photos["source"]), out, replace=True, to=to)
    assert not verify(out).damages


def test_a_split_that_is_no_more(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Its folder goes with what an earlier run left."""
    images, out = folder(2), tmp_path / "out"
    for name in ("train", "test"):
        shutil.copytree(images, tmp_path / "source" / name)
    (tmp_path / "source/test" / "daisy" / "bad.jpg").write_bytes(b"")
    with pytest.raises(TooManyRejectedError):
        made(open_source(tmp_path / "source"), out, 1, to="mds")
    assert (tmp_path / ".out.staging/dataset/test").is_dir()
    shutil.rmtree(tmp_path / "source/test")
    made(open_source(tmp_path / "source"), out, 1, to="mds")
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["index", "train"]
