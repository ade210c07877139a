"""TFRecords that someone else wrote become a dataset: verified, opened, read, without a byte of them changed."""

import gzip
import io
import signal
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import foreign_tfrecords
import numpy as np
import pytest
import tensorflow as tf
from foreign_tfrecords import picture
from PIL import Image

import shardfeed
from shardfeed.converters import adopt, survey
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import IntegrityError, OutputExistsError, UsageError
from shardfeed.formats.tfrecord import frame
from shardfeed.pipelines import eval_batches, train_batches
from shardfeed.readers import verify
from shardfeed.schema import LABEL, Feature
from shardfeed.split_words import usual_split
from shardfeed.tools.cli import main
from shardfeed.tools.commands.verify_command import check_image

from trees import tree

NAMES = ("tench", "goldfish", "shark")


def example(**features: Any) -> bytes:
    """A serialized Example by TensorFlow; a key's `__` stands for "/"."""
    return foreign_tfrecords.example({key.replace("__", "/"): value for key, value in features.items()})


def imagenet(number: int) -> bytes:
    """As the Model Garden's imagenet_to_gcs.py writes them: labels from 1, format in capitals, boxes in some."""
    out = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 255, (20 + number % 5, 30, 3), np.uint8)
    Image.fromarray(pixels).save(out, "JPEG")
    boxes = {"image__object__bbox__xmin": [0.25] * (number % 3)} if number % 2 and number % 3 else {}
    return example(
        image__encoded=out.getvalue(),
        image__format=b"JPEG",
        image__colorspace=b"RGB",
        image__channels=3,
        image__height=20 + number % 5,
        image__width=30,
        image__filename=b"n%d.JPEG" % number,
        image__class__label=number % 3 + 1,
        image__class__synset=b"n0%d" % (number % 3),
        image__class__text=NAMES[number % 3].encode(),
        **boxes,
    )


def write(path: Path, payloads: list[bytes], options: Any = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for payload in payloads:
            writer.write(payload)


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """train of 40 in 4 files, validation of 12 in 2, named as the Model Garden does, beside another file."""
    for split, shards, first, count in (("train", 4, 0, 10), ("validation", 2, 40, 6)):
        for i in range(shards):
            numbers = range(first + i * count, first + (i + 1) * count)
            write(tmp_path / "garden" / f"{split}-{i:05d}-of-{shards:05d}", [imagenet(n) for n in numbers])
    (tmp_path / "garden" / "README").write_text("x")
    return tmp_path / "garden"


def test_model_garden_files_are_linked(garden: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in garden.iterdir()}
    (garden).chmod(0o555)
    found = survey(garden)
    manifest = adopt(found, tmp_path / "out")
    (garden).chmod(0o755)
    assert {path.name: path.read_bytes() for path in garden.iterdir()} == before
    assert found.ignored_files == ("README",)
    assert found.distinct
    assert manifest.schema.features["image/object/bbox/xmin"] == Feature("float32", (None,), "place")
    assert manifest.schema.features[LABEL] == Feature("int64", (), "label")
    assert manifest.splits["train"].class_counts[LABEL] == (0, 14, 13, 13)
    assert manifest.splits["train"].formats == {"jpeg": 40}, "by its bytes"
    link = tmp_path / "out" / "train-00002-of-00004.tfrecord"
    assert link.readlink() == garden / "train-00002-of-00004"
    assert verify(tmp_path / "out", check_image).damages == []
    data = shardfeed.open(tmp_path / "out")
    assert data.class_names == ("0", *NAMES)
    train = data["train"]
    for place in (0, 7, 25, 39):
        expected = tf.train.Example.FromString(imagenet(place)).features.feature
        assert train[place]["image/filename"] == b"n%d.JPEG" % place
        assert train[place][LABEL] == expected[LABEL].int64_list.value[0]
        boxes = train[place]["image/object/bbox/xmin"]
        assert list(boxes) == list(expected["image/object/bbox/xmin"].float_list.value)  # type: ignore[arg-type]
    assert train.column(LABEL).tolist() == [n % 3 + 1 for n in range(40)]
    images, labels = next(iter(train_batches(train, batch_size=8, image_size=16)))
    assert images.shape == (8, 16, 16, 3)
    assert 1 <= int(tf.reduce_min(labels)) <= int(tf.reduce_max(labels)) <= 3
    seen = np.concatenate([labels for _, labels in eval_batches(data["validation"], batch_size=5, image_size=16)])
    assert seen.tolist() == [n % 3 + 1 for n in range(40, 52)]


def test_tfds_reads_what_was_adopted(garden: Path, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    adopt(survey(garden), tmp_path / "out")
    builder = tfds.builder_from_directory(str(tmp_path / "out"))
    rows = list(tfds.as_numpy(builder.as_dataset(split="validation")))
    assert [row["image/filename"] for row in rows] == [b"n%d.JPEG" % n for n in range(40, 52)]
    assert builder.info.features[LABEL].names == ["0", *NAMES]
    assert [len(row["image/object/bbox/xmin"]) for row in rows] == [n % 3 * (n % 2) for n in range(40, 52)]


def test_names_for_the_classes(garden: Path, tmp_path: Path) -> None:
    names = ("background", "a", "b", "c", "d")
    assert adopt(survey(garden, class_names=names), tmp_path / "out").schema.class_names == {LABEL: names}
    with pytest.raises(UsageError, match="1 names, and the values of image/class/label are 0 to 3"):
        survey(garden, class_names=("a",))
    write(garden / "train-00003-of-00004", [example(image__class__label=1, image__class__text=b"other")])
    found = survey(garden)
    assert found.schema.class_names == {LABEL: ("0", *NAMES)}, "of most records"
    assert any("1: 'other', not 'tench'" in note for note in found.notes)
    write(garden / "train-00003-of-00004", [example(image__class__label=-1)])
    assert survey(garden).schema.class_names == {}


def test_records_without_images(tmp_path: Path) -> None:
    """Floats, ragged integers, a feature that some lack: whatever an Example holds."""
    rows = [
        {"x": [float(i), 0.5], "n": list(range(i % 4)), "name": b"row %d" % i, "one": i}
        | ({"some": i} if i % 3 else {})
        for i in range(25)
    ]
    for number in range(3):
        write(tmp_path / "in" / f"part_{number * 5}.tfrecords", [example(**row) for row in rows[number::3]])
    found = survey(tmp_path / "in", split_name="everything")
    adopt(found, tmp_path / "out")
    assert verify(tmp_path / "out").damages == []
    split = shardfeed.open(tmp_path / "out")["everything"]
    assert len(split) == 25
    for record, row in zip(split, rows[0::3] + rows[1::3] + rows[2::3], strict=True):
        assert record["name"] == row["name"]
        assert record["one"] == row["one"]
        assert list(record["x"]) == row["x"]  # type: ignore[arg-type]
        assert list(record["n"]) == row["n"]  # type: ignore[arg-type]
        assert list(record["some"]) == ([row["some"]] if "some" in row else [])  # type: ignore[arg-type]
    assert np.asarray(split[0]["some"]).dtype == np.int64


def test_beside_where_the_names_are_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for i in range(2):
        write(home / f"train-{i:05d}-of-00002.tfrecord", [example(image__class__label=n) for n in range(4)])
    (home / "notes.txt").write_text("kept")
    before = (home / "train-00001-of-00002.tfrecord").read_bytes()
    found = survey(home)
    assert found.has_standard_names
    assert not found.distinct
    manifest = adopt(found)
    assert verify(home).damages == []
    assert (home / "notes.txt").read_text() == "kept"
    assert "notes.txt" in manifest.sidecars
    assert (home / "train-00001-of-00002.tfrecord").read_bytes() == before
    assert shardfeed.open(home)["train"].column(LABEL).tolist() == [0, 1, 2, 3] * 2
    (home / "manifest.json").unlink()
    (home / "folder").mkdir()
    with pytest.raises(UsageError, match="folder, which is not part of a dataset"):
        adopt(survey(home))
    (home / "folder").rmdir()
    (home / "index" / "mine.npy").write_bytes(b"1")
    with pytest.raises(UsageError, match=r"index/mine.npy, which is not part of a dataset"):
        adopt(survey(home))
    assert (home / "index" / "mine.npy").exists()


def test_not_beside_where_they_are_not(garden: Path, tmp_path: Path) -> None:
    found = survey(garden)
    assert not found.has_standard_names
    with pytest.raises(UsageError, match="train-00000-of-00004 is not named like"):
        adopt(found)
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputExistsError):
        adopt(found, tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["garden", "taken"]


def test_tfds_files_are_adopted(tmp_path: Path) -> None:
    """Files that TFDS itself writes are adopted with the names that it gives them."""
    import tensorflow_datasets as tfds

    class Builder(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        name = "tiny_images"

        def _info(self) -> tfds.core.DatasetInfo:
            label = tfds.features.ClassLabel(names=["a", "b"])
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict({"image": tfds.features.Image(), "label": label})
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(7), "test": self._generate_examples(3)}

        def _generate_examples(self, count: int) -> Any:
            for i in range(count):
                yield i, {"image": np.full((8, 8, 3), i, np.uint8), "label": i % 2}

    builder = Builder(data_dir=str(tmp_path / "tfds"))
    builder.download_and_prepare()
    found = survey(builder.data_path)
    assert {split.name: split.files for split in found.splits} == {
        "test": ("tiny_images-test.tfrecord-00000-of-00001",),
        "train": ("tiny_images-train.tfrecord-00000-of-00001",),
    }
    adopt(found, tmp_path / "out")
    assert verify(tmp_path / "out").damages == []
    assert sorted(record["label"] for record in shardfeed.open(tmp_path / "out")["train"]) == [0, 0, 0, 0, 1, 1, 1]


def test_what_cannot_be_adopted(garden: Path, tmp_path: Path) -> None:
    shard = garden / "train-00001-of-00004"
    whole = shard.read_bytes()

    def refused(content: bytes, error: type[Exception], match: str) -> None:
        shard.write_bytes(content)
        with pytest.raises(error, match=match):
            survey(garden)

    refused(gzip.compress(whole), UsageError, "train-00001-of-00004: compressed with gzip; .*gunzip")
    refused(zlib.compress(whole), UsageError, "compressed with zlib; .*compression_type='ZLIB'")
    write(shard, [imagenet(0)], tf.io.TFRecordOptions(compression_type="GZIP"))
    refused(shard.read_bytes(), UsageError, "gzip")
    write(shard, [imagenet(0)], tf.io.TFRecordOptions(compression_type="ZLIB"))
    refused(shard.read_bytes(), UsageError, "zlib")
    refused(b"<html>not found</html>" * 20, UsageError, "not a TFRecord file")
    refused(whole[:2000] + b"x" + whole[2001:], IntegrityError, r"00001-of-00004, record \d, offset \d+: .*salvage")
    refused(whole[:-1], IntegrityError, "record 9, offset .*salvage")
    refused(frame(b"no example at all"), IntegrityError, "record 0, offset 0: not a tf.train.Example")
    sequence = tf.train.SequenceExample()
    sequence.feature_lists.feature_list["x"].feature.add().int64_list.value.append(1)
    refused(frame(sequence.SerializeToString()), UsageError, "SequenceExample")
    mixed = frame(example(image__height=1.5))
    refused(mixed, IntegrityError, "00001-of-00004, record 0.*image/height is float32, but int64 in .*00000-of-00004")
    shard.unlink()
    with pytest.raises(UsageError, match=r"split train: of 4 shards 1 are missing: 1; .*partial=True"):
        survey(garden)
    assert survey(garden, partial=True).records == 42


def test_folders_without_records(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        survey(tmp_path / "none")
    with pytest.raises(UsageError, match="like a TFRecord file"):
        survey(tmp_path)
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with pytest.raises(UsageError, match="contain no records"):
        survey(tmp_path)
    (tmp_path / "a.tfrecord").write_bytes(frame(b""))
    with pytest.raises(UsageError, match="no record has a feature"):
        survey(tmp_path)
    with pytest.raises(UsageError, match="split"):
        survey(tmp_path, split_name="a b")


KILLED = """
import os, signal, sys
name, directory = sys.argv[1:]
rename = os.rename
def killed(source, target):
    if os.path.relpath(target, directory) == name:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
os.rename = killed
from shardfeed.converters import adopt, survey
adopt(survey(directory))
"""


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "index/train-00001-of-00002.tfindex",
        "index/train.image.class.label.npy",
    ],
)
def test_killed_while_it_writes_beside_the_files(tmp_path: Path, name: str) -> None:
    """The next run makes the same dataset as one that was not killed; nothing half written becomes part of it."""
    for place in ("whole", "killed"):
        (tmp_path / place).mkdir()
        for shard in range(2):
            records = [frame(imagenet(number)) for number in range(shard * 5, shard * 5 + 5)]
            (tmp_path / place / f"train-{shard:05d}-of-00002.tfrecord").write_bytes(b"".join(records))
        (tmp_path / place / "README.txt").write_text("mine")
    adopt(survey(tmp_path / "whole"))
    done = subprocess.run([sys.executable, "-c", KILLED, name, str(tmp_path / "killed")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / f"{name}.partial").exists()
    adopt(survey(tmp_path / "killed"))
    assert verify(tmp_path / "killed").damages == []
    found, expected = tree(tmp_path / "killed"), tree(tmp_path / "whole")
    named = {"manifest.json", "dataset_info.json"}  # they hold the folder's name
    assert found.keys() == expected.keys()
    assert {n: d for n, d in found.items() if n not in named} == {n: d for n, d in expected.items() if n not in named}


def test_a_folders_own_files_of_tfds_stay(tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00001.tfrecord").write_bytes(frame(imagenet(1)))
    (tmp_path / "dataset_info.json").write_text("mine")
    adopt(survey(tmp_path))
    assert (tmp_path / "dataset_info.json").read_text() == "mine"
    assert not (tmp_path / "features.json").exists()
    assert verify(tmp_path).damages == []


def test_a_manifest_of_something_else(tmp_path: Path) -> None:
    """It is not taken for ours, and not written over."""
    root = tmp_path / "app"
    root.mkdir()
    (root / "train-00000-of-00001.tfrecord").write_bytes(frame(imagenet(1)))
    (root / "manifest.json").write_text('{"name": "an app of the web"}')
    assert main(["adopt", str(root), str(tmp_path / "out"), "--quiet"]) == 0
    assert verify(tmp_path / "out").damages == []
    with pytest.raises(UsageError, match=r"a manifest.json of another program"):
        adopt(survey(root))
    assert (root / "manifest.json").read_text() == '{"name": "an app of the web"}'


def test_a_file_where_the_indexes_go(tmp_path: Path) -> None:
    place = tmp_path / "cats"
    place.mkdir()
    write(place / "train-00000-of-00001.tfrecord", [imagenet(0)])
    (place / "index").write_text("of something else")
    found = survey(place)
    with pytest.raises(UsageError, match="holds index, which is not part of a dataset; move it away"):
        adopt(found)
    assert (place / "index").read_text() == "of something else"


def test_labels_that_some_records_lack_are_noted(tmp_path: Path) -> None:
    rows = [{"image": picture(n)} | ({"label": n} if n else {}) for n in range(4)]
    write(tmp_path / "train-00000-of-00001", [example(**row) for row in rows])
    assert "label is not the label, as some records lack it: train has it in 3 of 4 records" in survey(tmp_path).notes


def test_a_split_without_records_lacks_no_label(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00002", [])
    write(tmp_path / "train-00001-of-00002", [example(image=picture(n), label=n) for n in range(2)])
    write(tmp_path / "test-00000-of-00001", [])
    assert survey(tmp_path).schema.key(LABEL) == "label"


def test_splits_are_named_as_convert_names_them(tmp_path: Path) -> None:
    """By the usual word for the one in the name of a file or folder; Spark's part files are one split."""
    for folder, words in (("tfx", ("Split-train", "Split-eval")), ("spark", ("train.tfrecord", "val.tfrecord"))):
        for word in words:
            for part in range(2):
                name = f"part-0000{part}-6a5b{part}-c000.tfrecord"
                write(tmp_path / folder / word / name, [example(image=picture(part), label=part)])
        assert {split.name: len(split.files) for split in survey(tmp_path / folder).splits} == {
            usual_split(word.removeprefix("Split-").removesuffix(".tfrecord")) or "eval": 2 for word in words
        }


def test_files_of_spark_without_a_suffix(tmp_path: Path) -> None:
    """By their content, in folders, for `adopt` and `convert` alike, even if the first file has no records."""
    for word, counts in (("train", (0, 3)), ("eval", (2,))):
        for part, count in enumerate(counts):
            path = tmp_path / "in" / f"{word}_tfrecords" / f"part-r-{part:05d}"
            write(path, [example(image=picture(part * 10 + n), label=n % 2) for n in range(count)])
        (tmp_path / "in" / f"{word}_tfrecords" / "_SUCCESS").touch()
    assert {split.name: len(split.files) for split in survey(tmp_path / "in").splits} == {"train": 2, "eval": 1}
    source = open_source(tmp_path / "in")
    assert Counter(source[i].split for i in range(len(source))) == {"train": 3, "eval": 2}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "part-r-00000").write_text("a,b\n1,2\n" * 9)
    with pytest.raises(UsageError, match="named like a TFRecord file"):
        survey(tmp_path / "other")


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["Split-train/data_tfrecord-00000-of-00001", "Split-eval/data_tfrecord-00000-of-00001"], ["eval", "train"]),
        (["train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"], ["train", "validation"]),
        (["mnist-train.tfrecord-00000-of-00001", "mnist-test.tfrecord-00000-of-00001"], ["test", "train"]),
        (["a_train.tfrecord", "b_train.tfrecord", "c_val.tfrecord"], ["train", "validation"]),
        (["cats_train_v1.tfrecord", "cats_val_v1.tfrecord"], ["train", "validation"]),
    ],
)
def test_splits_are_those_of_convert(tmp_path: Path, names: list[str], splits: list[str]) -> None:
    """`adopt` names splits as `convert` does, but for files that are named like shards: `val-00000-of-00001`."""
    for name in names:
        write(tmp_path / name, [example(image=picture(len(name)), label=0)])
    assert [split.name for split in survey(tmp_path).splits] == splits
    source = open_source(tmp_path)
    assert {source[i].split for i in range(len(source))} == {usual_split(name) or name for name in splits}


def test_names_without_a_word_for_a_split(tmp_path: Path) -> None:
    """`adopt` keeps them apart; `convert` reads them as one, and says so."""
    for name in ("cats/0.tfrecord", "dogs/0.tfrecord"):
        write(tmp_path / name, [example(image=picture(len(name)), label=0)])
    assert [split.name for split in survey(tmp_path).splits] == ["cats", "dogs"]
    source = open_source(tmp_path)
    assert [source[i].split for i in range(len(source))] == [None, None]
    note = "kinds of files without a word for a split, read as one: 2 (cats, dogs)"
    assert note in info_of(source).findings.notes


def test_that_no_label_was_found_is_said_with_the_way_to_name_one(tmp_path: Path) -> None:
    write(tmp_path / "in" / "x.tfrecord", [example(img=picture(n), breed=n) for n in range(3)])
    (note,) = [note for note in survey(tmp_path / "in").notes if note.startswith("no feature is the label")]
    assert "breed" in note
    assert "label_key" in note
    named = survey(tmp_path / "in", label_key="breed")
    assert named.schema.key(LABEL) == "breed"
    assert not [note for note in named.notes if note.startswith("no feature is the label")]
