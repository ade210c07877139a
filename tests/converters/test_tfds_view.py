"""One directory, every loader: the same counts and labels through readers that know nothing of us."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert, rebuild
from shardfeed.readers import Dataset
from shardfeed.schema import ENCODED, FILENAME, HEIGHT, LABEL, WIDTH, Feature, Schema

Counts = dict[bytes, int]  # image/filename -> label


def ours(flowers: Dataset, name: str) -> Counts:
    return {record[FILENAME]: record[LABEL] for record in flowers[name]}  # type: ignore[misc]  # both are scalars


def shards(flowers: Dataset, name: str) -> list[str]:
    return sorted(str(path) for path in Path(flowers.directory).glob(f"{name}-*.tfrecord"))


@pytest.mark.parametrize("name", ["train", "validation"])
def test_plain_tf_data(flowers: Dataset, name: str) -> None:
    spec = {FILENAME: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)}
    data = tf.data.TFRecordDataset(shards(flowers, name)).map(lambda x: tf.io.parse_single_example(x, spec))
    found = [(row[FILENAME], int(row[LABEL])) for row in data.as_numpy_iterator()]
    assert len(found) == len(flowers[name])
    assert dict(found) == ours(flowers, name)


def test_tfds_builder_from_directory(flowers: Dataset) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(flowers.directory)
    label = builder.info.features[LABEL]
    assert label.names == ["daisy", "rose", "tulip"]
    assert [label.int2str(i) for i in range(3)] == list(flowers.class_names)
    for name, split in flowers.items():
        assert builder.info.splits[name].num_examples == len(split)
        rows = list(tfds.as_numpy(builder.as_dataset(split=name)))
        assert {row[FILENAME]: int(row[LABEL]) for row in rows} == ours(flowers, name)
        assert all(row["image/encoded"].dtype == "uint8" and row["image/encoded"].shape[2] == 3 for row in rows)
    assert len(list(builder.as_dataset(split="train[:50%]"))) == round(len(flowers["train"]) / 2)
    image, target = next(iter(builder.as_dataset(split="train", as_supervised=True)))
    assert image.dtype == tf.uint8
    assert target.dtype == tf.int64


def test_a_directory_called_as_tfds_calls_versions(flowers_folder: Path, tmp_path: Path) -> None:
    """It is found by name, and says that name; what is made again of it has the same bytes."""
    import tensorflow_datasets as tfds

    out = tmp_path / "root" / "photos" / "2.0.1"
    out.parent.mkdir(parents=True)
    convert(ImageFolder(flowers_folder), out, workers=1)
    builder = tfds.builder("photos", data_dir=str(tmp_path / "root"))
    assert (builder.info.name, str(builder.info.version), builder.info.full_name) == ("photos", "2.0.1", "photos/2.0.1")
    pairs = tfds.load("photos:2.0.1", data_dir=str(tmp_path / "root"), split="train", as_supervised=True)
    assert len(pairs) == len(shardfeed.open(out)["train"])
    before = (out / "dataset_info.json").read_bytes()
    (out / "dataset_info.json").unlink()
    rebuild(out)
    assert (out / "dataset_info.json").read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("size", [(24, 30), None])
def test_tfds_reads_raw_pixels(flowers_folder: Path, tmp_path: Path, size: tuple[int, int] | None) -> None:
    """Pixels of one size are a uint8 tensor; of many sizes, bytes beside the height and width that shape them."""
    import tensorflow_datasets as tfds

    options = ImageOptions(encode="raw", size=size)
    convert(ImageFolder(flowers_folder), tmp_path / "raw", split={"train": 0.5, "test": 0.5}, image=options, workers=1)
    data = shardfeed.open(tmp_path / "raw")
    builder = tfds.builder_from_directory(data.directory)
    shapes = set()
    for name, split in data.items():
        rows = list(tfds.as_numpy(builder.as_dataset(split=name)))
        records = {record[FILENAME]: record for record in split}
        assert len(rows) == len(records)
        for row in rows:
            record = records[row[FILENAME]]
            shape = (record[HEIGHT], record[WIDTH], 3)
            shapes.add(shape)
            expected = np.frombuffer(record[ENCODED], np.uint8).reshape(shape)
            found = row[ENCODED]
            if size is None:
                assert isinstance(found, bytes)
                found = np.frombuffer(found, np.uint8).reshape(row[HEIGHT], row[WIDTH], 3)
            assert found.dtype == np.uint8
            assert np.array_equal(found, expected)
    assert (len(shapes) == 1) == (size is not None)
    image, label = next(iter(builder.as_dataset(split="train", as_supervised=True)))
    assert image.dtype == (tf.string if size is None else tf.uint8)
    assert label.dtype == tf.int64


# In a process of its own: the package brings a second tensorflow.Example proto, which TensorFlow's refuses.
TFRECORD = """
import json, os, sys
from tfrecord.reader import tfrecord_loader

rows = []
for path in json.loads(sys.argv[1]):
    index = os.path.join(os.path.dirname(path), "index", os.path.basename(path)[:-9] + ".tfindex")
    for half in (0, 1):
        description = {"image/filename": "byte", "image/class/label": "int"}
        for row in tfrecord_loader(path, index, description, shard=(half, 2)):
            rows.append([bytes(row["image/filename"]).decode(), int(row["image/class/label"][0])])
print(json.dumps(rows))
"""


@pytest.mark.long
def test_the_tfrecord_package_with_our_index(flowers: Dataset) -> None:
    for name, split in flowers.items():
        command = [sys.executable, "-c", TFRECORD, json.dumps(shards(flowers, name))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert len(rows) == len(split), "the index splits each shard in two without loss"
        assert {key.encode(): label for key, label in rows} == ours(flowers, name)


def test_features_whose_labels_files_would_be_one_have_none() -> None:
    """Else the names of the one would be read as those of the other."""
    from shardfeed.converters.commit.tfds_view import tfds_files

    long = "image/" + "x" * 250 + "/label"
    names = {"image/a.b": ("x", "y"), "image/a/b": ("z",), "image/c": ("u",), long: ("v",)}
    schema = Schema({key: Feature("int64") for key in names}, names)
    files = tfds_files("x", schema, {})
    assert {name for name in files if name.endswith(".txt")} == {"image.c.labels.txt"}
    found = json.loads(files["features.json"])["featuresDict"]["features"]
    assert [found[key]["classLabel"]["numClasses"] for key in names] == ["2", "1", "1", "1"]


def test_label_names_that_a_line_cannot_hold_have_no_labels_file() -> None:
    from shardfeed.converters.commit.tfds_view import tfds_files

    for names, written in ((("a", "b c"), True), (("a", ""), False), ((" a", "b"), False)):
        schema = Schema({LABEL: Feature("int64")}, {LABEL: names})
        assert ("image.class.label.labels.txt" in tfds_files("x", schema, {})) is written
