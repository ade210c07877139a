"""TFRecords of others become samples: by their keys, compressed or damaged, and never with labels off by one."""

import gzip
import os
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from foreign_tfrecords import example, picture, write
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from object_images import encoded

import shardfeed
from shardfeed.annotations import BOX, CAPTION, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, RASTER
from shardfeed.converters import convert, open_source, survey
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources import tfrecord
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.formats.tfrecord import frame
from shardfeed.readers import Dataset
from shardfeed.schema import FILENAME, LABEL, TEXT
from shardfeed.testing.source import SourceContract

from in_process import OwnEngine

NAMES = (b"ant", b"bee", b"cat")


def row(number: int, **features: Any) -> dict[str, Any]:
    """As the classification script of 2016 wrote them: labels from 1, 0 is background."""
    own = {"image/encoded": picture(number), "image/class/label": number % 3 + 1, "image/class/text": NAMES[number % 3]}
    return own | {"image/filename": b"n%02d.JPEG" % number, "image/colorspace": b"RGB"} | features


def read(path: Path | str, **options: Any) -> ColumnarSource:
    return tfrecord.read(Look(str(path)), ColumnOptions(**options))


def packed(path: Path, rows: list[dict[str, Any]], how: Any) -> None:
    with tf.io.TFRecordWriter(str(path), how) as writer:
        for features in rows:
            writer.write(example(features))


def labels(source: ColumnarSource) -> list[Any]:
    return [sample.features[LABEL] for sample in source]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two shards of a split, one of another."""
    write(tmp_path / "in" / "train-00000-of-00002", [row(n) for n in range(5)])
    write(tmp_path / "in" / "train-00001-of-00002", [row(n) for n in range(5, 7)])
    write(tmp_path / "in" / "validation-00000-of-00001", [row(n) for n in range(7, 9)])
    return tmp_path / "in"


class TestContract(SourceContract):
    @pytest.fixture
    def build(self, home: Path) -> Callable[[], ColumnarSource]:
        return lambda: read(home)


class TestContractOfPacked(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], ColumnarSource]:
        packed(tmp_path / "a.tfrecord", [row(n) for n in range(3)], "GZIP")
        packed(tmp_path / "b.tfrecord", [row(n) for n in range(3, 5)], "ZLIB")
        return lambda: read(tmp_path)


def test_names_of_its_own(tmp_path: Path) -> None:
    """Image, label, name, text, split and more, by the keys that are given; what is left is said."""
    rows = [
        {"pic": picture(n), "other": picture(90 + n), "y": n % 2, "who": b"p/%d" % n, "says": [b"a", b"b"][: n % 3],
         "part": [b"train", b"val"][n % 2], "w": n / 4, "tags": [b"x"]}
        for n in range(4)
    ]  # fmt: skip
    write(tmp_path / "a.tfrecord", rows)
    with pytest.raises(UsageError, match=r"several columns may be the image: other, pic; choose .* columns"):
        read(tmp_path)
    given = {"image": "pic", "label": "y", "key": "who", "text": "says", "split": "part", "image/weight": "w"}
    source = read(tmp_path, columns=given)
    assert [sample.key for sample in source] == [b"p/0.jpg", b"p/1.jpg", b"p/2.jpg", b"p/3.jpg"]
    assert [sample.split for sample in source] == ["train", "validation"] * 2
    assert source[2].features == {LABEL: 0, TEXT: b"0", CAPTION: [b"a", b"b"], "image/weight": 0.5}
    assert read_image(source[3]) == picture(3)
    assert "unused columns: 2 (other, tags)" in source.findings.notes
    with pytest.raises(UsageError, match=r"no column 'nope' for image: it has other, part, pic, .*"):
        read(tmp_path, columns={"image": "nope"})
    with pytest.raises(UsageError, match="got 'image/width', expected image"):
        read(tmp_path, columns={**given, "image/width": "y"})
    with pytest.raises(UsageError, match="expected labels: names, or whole"):
        read(tmp_path, columns={**given, "label": "w"})


def test_a_list_is_no_label_map(tmp_path: Path) -> None:
    """It says no numbers: whether its first class is 0 or 1 nobody knows."""
    write(tmp_path / "in" / "a.tfrecord", [{"image": picture(n), "label": n} for n in (1, 2)])
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    with pytest.raises(LabelFileError, match=r"is a list of names, .*; give it as class_names, .* label_offset=1"):
        read(tmp_path / "in", label_map=str(tmp_path / "names.txt"))
    assert labels(read(tmp_path / "in", class_names=str(tmp_path / "names.txt"), label_offset=1)) == [0, 1]
    with pytest.raises(LabelFileError, match="cannot read"):
        read(tmp_path / "in", label_map=str(tmp_path / "nothing.txt"))


ITEMS = "item { id: 7 name: 'cat' }\nitem { name: 'ant' id: 1 }\nitem { id: 3 name: 'bee' }\n"


def test_a_label_map_has_its_own_numbers(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.tfrecord", [{"image": picture(n), "label": n} for n in (1, 7, 3)])
    (tmp_path / "in" / "x_label_map.pbtxt").write_text(ITEMS)
    assert labels(read(tmp_path / "in")) == [0, 2, 1]
    (tmp_path / "map.pbtxt").write_text(ITEMS)
    with pytest.raises(UsageError, match="names and numbers the classes, and so does label_offset"):
        read(tmp_path / "in", label_map=str(tmp_path / "map.pbtxt"), label_offset=1)


def test_texts_that_contradict_the_names(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [row(n) for n in range(6)])
    with pytest.raises(UsageError, match=r"'ant' for 1, .* give label_offset=1"):
        read(tmp_path, class_names=("ant", "bee", "cat", "dog"))
    assert labels(read(tmp_path, class_names=("ant", "bee", "cat"), label_offset=1)) == [0, 1, 2] * 2
    with pytest.raises(UsageError, match="correct the names"):
        read(tmp_path, class_names=("background", "bee", "ant", "cat"))


def test_classes_that_are_texts(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [{"image": picture(n), "label": [b"dog", b"ant"][n % 2]} for n in range(3)])
    source = read(tmp_path)
    assert (labels(source), source.schema.class_names) == ([1, 0, 1], {LABEL: ("ant", "dog")})
    with pytest.raises(UsageError, match="label_offset is for numbers, but labels are texts"):
        read(tmp_path, label_offset=1)
    with pytest.raises(UsageError, match="did you mean 'dogs'"):
        read(tmp_path, class_names=("dogs", "ant"))


def test_objects(tmp_path: Path) -> None:
    """As the Object Detection API writes them: fractions, classes from 1 by the label map."""
    rows = [
        {"image/encoded": picture(n), "image/filename": b"%d.jpg" % n, "image/source_id": b"%d" % (70 + n),
         **{side: [0.25 * i for i in range(n)] for side in BOX[:2]},
         **{side: [0.25 * i + 0.2 for i in range(n)] for side in BOX[2:]},
         OBJECT_LABEL: [1 + i % 2 for i in range(n)], IS_CROWD: [0] * n, "image/object/difficult": [1] * n,
         "image/object/class/text": [(b"ant", b"bee")[i % 2] for i in range(n)], "image/object/weight": [0.5] * n}
        for n in (2, 1, 3)
    ]  # fmt: skip
    write(tmp_path / "in" / "coco_train.record-00000-of-00001", rows)
    (tmp_path / "in" / "label_map.pbtxt").write_text("item { id: 1 name: 'ant' } item { id: 2 name: 'bee' }")
    source = read(tmp_path / "in")
    assert source[0].number == 72
    found = source[2].objects
    np.testing.assert_allclose(found.boxes[1], [0.25, 0.25, 0.45, 0.45], rtol=1e-6)
    assert found.columns == {OBJECT_LABEL: [0, 1, 0], IS_CROWD: [0] * 3, "image/object/difficult": [1] * 3}
    assert "unused columns: 1 (image/object/weight)" in source.findings.notes
    convert(source, tmp_path / "out", workers=OwnEngine(1))
    record = next(r for r in shardfeed.open(tmp_path / "out")["train"] if r[FILENAME] == b"3.jpg")
    assert list(record[OBJECT_LABEL]) == [0, 1, 0]
    assert list(record["image/object/class/text"]) == [b"ant", b"bee", b"ant"]
    (tmp_path / "in" / "label_map.pbtxt").unlink()
    assert read(tmp_path / "in").schema.class_names[OBJECT_LABEL] == ("ant", "bee")  # by the texts
    for features in rows:
        del features["image/object/class/text"]
    write(tmp_path / "in" / "coco_train.record-00000-of-00001", rows)
    with pytest.raises(UsageError, match="label_offset=1"):
        read(tmp_path / "in")
    rows[1][BOX[0]] = [0.0, 0.5]
    write(tmp_path / "in" / "coco_train.record-00000-of-00001", rows)
    source = read(tmp_path / "in", label_offset=1)
    assert [(skipped.key, skipped.code) for skipped in source.findings.rejected] == [(b"1.jpg", "E_NO_LABEL")]
    assert [one.code for one in source.findings.account.left_out] == ["E_LINE"] * 2


def test_names_that_are_not_unique(tmp_path: Path) -> None:
    """Then file and record are the name; where they were asked for by the user, that is said."""
    write(tmp_path / "a.tfrecord", [{"image": picture(n), "label": 0, "id": b"same"} for n in range(2)])
    source = read(tmp_path)
    assert [sample.key for sample in source] == [b"a.tfrecord/000000.jpg", b"a.tfrecord/000001.jpg"]
    assert any("made of file and number" in note for note in source.findings.notes)
    with pytest.raises(UsageError, match="column id: a value is not a key, or repeats"):
        read(tmp_path, columns={"key": "id"})
    write(tmp_path / "a.tfrecord", [{"image": picture(n), "label": 0, "id": b"../%d" % n} for n in range(2)])
    assert read(tmp_path)[0].key == b"a.tfrecord/000000.jpg"


def test_raw_pixels(tmp_path: Path) -> None:
    """As TensorFlow's first example for MNIST wrote them; a PNG without loss."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 6, 5, 1), np.uint8)
    write(tmp_path / "train.tfrecords", [
        {"height": 6, "width": 5, "depth": 1, "label": i, "image_raw": one.tobytes()} for i, one in enumerate(pixels)
    ])  # fmt: skip
    source = read(tmp_path)
    assert source[1].key == b"train.tfrecords/000001.png"
    np.testing.assert_array_equal(tf.io.decode_png(read_image(source[1])).numpy(), pixels[1])
    assert pickle.loads(pickle.dumps(source[1])).image() == read_image(source[1])


def test_records_that_cannot_be_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is listed, with its file and number and a reason; the others are there."""
    monkeypatch.setattr(tfrecord, "_LOOKED_AT", 1)  # by the first record each image has one label
    rows = [row(n) for n in range(7)]
    del rows[1]["image/encoded"]
    rows[2]["image/encoded"] = b""
    rows[3]["image/class/label"] = -1
    rows[4]["image/class/label"] = [1, 2]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for features in rows:
            writer.write(example(features))
        writer.write(b"\xff nonsense")
        writer.write(tf.train.SequenceExample(feature_lists={"feature_list": {"a": {}}}).SerializeToString())
    source = read(tmp_path, class_names=("ant", "bee", "cat"), label_offset=1)
    found = {skipped.key.decode(): (skipped.code, skipped.reason) for skipped in source.findings.rejected}
    expected = {
        "n01.JPEG": ("E_NOT_IMAGE", "no image in image/encoded"),
        "n02.JPEG": ("E_EMPTY", "no image in image/encoded"),
        "n03.JPEG": ("E_NO_LABEL", "-1, which means"),
        "n04.JPEG": ("E_NO_LABEL", "2 values of image/class/label, expected one"),
        "a.tfrecord:7": ("E_CORRUPT", "not a tf.train.Example: unknown wire type 7"),
        "a.tfrecord:8": ("E_UNSUPPORTED", "a tf.train.SequenceExample, which is not"),
    }
    assert found.keys() == expected.keys()
    for key, (code, reason) in expected.items():
        assert found[key][0] == code
        assert reason in found[key][1]
    assert [sample.key for sample in source] == [b"n00.JPEG", b"n05.JPEG", b"n06.JPEG"]


def test_damage(home: Path) -> None:
    """A flipped bit costs a record, a cut what is behind it; a file of which nothing is whole is refused."""
    path = home / "train-00000-of-00002"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data[:-30])
    source = read(home)
    assert [(s.key.decode(), s.code) for s in source.findings.rejected] == [
        ("train-00000-of-00002:0", "E_CORRUPT"), ("train-00000-of-00002:4", "E_CORRUPT"),
    ]  # fmt: skip
    assert len(source) == 7
    content = source[0].image
    path.write_bytes(data)
    with pytest.raises(RejectedError, match="E_SOURCE_CHANGED"):
        content()  # type: ignore[operator]
    path.write_bytes(b"no records " * 40)
    with pytest.raises(UsageError, match="not a TFRecord file, or it has no intact record"):
        read(home)
    path.unlink()
    with pytest.raises(UsageError, match="split train: of 2 shards these are missing: 0"):
        read(home)


def test_a_bit_that_flips_after_the_survey(home: Path) -> None:
    source = read(home)
    path = home / "train-00000-of-00002"
    state = path.stat()
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(state.st_mtime_ns, state.st_mtime_ns))
    with pytest.raises(RejectedError, match="E_CORRUPT: train-00000-of-00002, record 0: record data damaged"):
        read_image(source[0])


@pytest.mark.parametrize("how", ["GZIP", "ZLIB"])
def test_compressed(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked once, into a folder that is gone with the source; the same samples."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    packed(tmp_path / "in.tfrecord", [row(n) for n in range(4)], how)
    evidence = tfrecord.recognise(Look(str(tmp_path / "in.tfrecord")), ColumnOptions())
    assert evidence.found == "1 TFRecord file, compressed"
    assert not list((tmp_path / "tmp").iterdir())
    source = read(tmp_path / "in.tfrecord")
    assert [read_image(sample) for sample in source] == [picture(n) for n in range(4)]
    assert "1 compressed file was unpacked" in source.findings.notes[0]
    assert source[0].image.mtime_ns == (tmp_path / "in.tfrecord").stat().st_mtime_ns  # type: ignore[union-attr]
    convert(source, tmp_path / "out", workers=OwnEngine(1))
    assert len(shardfeed.open(tmp_path / "out")["train"]) == 4
    assert list((tmp_path / "tmp").iterdir())
    del source
    assert not list((tmp_path / "tmp").iterdir())


def test_compressed_and_damaged(tmp_path: Path) -> None:
    packed(tmp_path / "in.tfrecord", [row(n) for n in range(9)], "GZIP")
    data = (tmp_path / "in.tfrecord").read_bytes()
    (tmp_path / "in.tfrecord").write_bytes(data[: len(data) // 2])
    source = read(tmp_path / "in.tfrecord")
    assert 1 <= len(source) < 9
    assert {skipped.code for skipped in source.findings.rejected} <= {"E_CORRUPT", "E_TRUNCATED"}
    assert "is truncated" in source.findings.rejected[-1].reason
    (tmp_path / "in.tfrecord").write_bytes(zlib.compress(bytes(10_000_000)))  # would fill a disk, and is no record
    with pytest.raises(UsageError, match="not a TFRecord file"):
        read(tmp_path / "in.tfrecord")
    assert tfrecord.recognise(Look(str(tmp_path / "in.tfrecord")), ColumnOptions()) is None


def test_what_is_not_recognised(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"something else, of some length")
    assert tfrecord.recognise(Look(str(tmp_path / "a.tfrecord")), ColumnOptions()) is None
    assert tfrecord.recognise(Look(str(tmp_path / "none")), ColumnOptions()) is None
    write(tmp_path / "texts" / "a.tfrecord", [{"text": b"no image"}])
    evidence = tfrecord.recognise(Look(str(tmp_path / "texts")), ColumnOptions())
    assert "no column of images in it: it has text" in evidence.missing
    with tf.io.TFRecordWriter(str(tmp_path / "sequences.tfrecord")) as writer:
        writer.write(tf.train.SequenceExample(feature_lists={"feature_list": {"a": {}}}).SerializeToString())
    with pytest.raises(UsageError, match=r"sequences\.tfrecord: tf\.train\.SequenceExamples; write their lists"):
        read(tmp_path / "sequences.tfrecord")
    (home / "train-00001-of-00002").unlink()
    evidence = tfrecord.recognise(Look(str(home)), ColumnOptions())
    assert "missing: 1" in evidence.missing
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(UsageError, match=r"empty.tfrecord: no record"):
        read(tmp_path / "empty.tfrecord")


def test_our_own_dataset_is_one_already(flowers: Dataset) -> None:
    evidence = tfrecord.recognise(Look(flowers.directory), ColumnOptions())
    assert "with shardfeed.open" in evidence.missing
    source = read(flowers.directory)
    assert source.schema.class_names == {LABEL: flowers.class_names}
    assert {(sample.key, sample.features[LABEL], sample.split) for sample in source} == {
        (record[FILENAME], record[LABEL], split) for split in flowers for record in flowers[split]
    }


def test_folders_that_hold_something_else(tmp_path: Path, prepared_by_version: Path) -> None:
    """Not looked through; where one alone holds what is meant, that is taken."""
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.jpg").write_bytes(picture(1))
    assert tfrecord.recognise(Look(str(tmp_path / "photos")), ColumnOptions()) is None
    evidence = tfrecord.recognise(Look(str(prepared_by_version)), ColumnOptions())
    assert not evidence.missing
    assert "the files are in the folder 1.0.0" in read(prepared_by_version).findings.notes
    os.mkfifo(tmp_path / "a.tfrecord")
    assert tfrecord.recognise(Look(str(tmp_path / "a.tfrecord")), ColumnOptions()) is None
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        read(tmp_path / "a.tfrecord")
    with pytest.raises(UsageError, match="no such file or folder"):
        read(tmp_path / "b.tfrecord")
    with pytest.raises(UsageError, match="no file in it or its folders"):
        read(tmp_path / "photos")


@pytest.fixture
def prepared_by_version(tmp_path: Path) -> Path:
    """As TFDS lays a dataset out: a folder for each version."""
    write(tmp_path / "bugs" / "1.0.0" / "bugs-train.tfrecord-00000-of-00001", [row(0)])
    return tmp_path / "bugs"


one = st.tuples(st.integers(0, 10**6), st.sampled_from(["flip", "cut", "insert", "drop"]))
damage = st.lists(one, min_size=1, max_size=3)
BOXES = dict.fromkeys(BOX[:2], 0.25) | dict.fromkeys(BOX[2:], 0.5) | {OBJECT_LABEL: 0}


@pytest.mark.parametrize("how", ["framed", "payload", "gzip"])
@given(damages=damage)
@settings(max_examples=30)
def test_any_damage_is_listed_or_refused(
    tmp_path_factory: pytest.TempPathFactory, how: str, damages: list[tuple[int, str]]
) -> None:
    """And what is offered is whole, as far as CRCs tell."""
    rows = [example(row(n) | BOXES | {LABEL: n}) for n in range(3)]
    whole = b"".join(map(frame, rows))
    data = bytearray({"framed": whole, "payload": rows[1], "gzip": gzip.compress(whole, mtime=0)}[how])
    before = bytes(data)
    for number, what in damages:
        at = number % len(data)
        if what == "flip":
            data[at] ^= 1 << number % 8
        elif what == "cut" and at:
            del data[at:]
        else:
            data[at : at + (what == "drop")] = b"" if what == "drop" and len(data) > 1 else b"\x81\x00"
    assume(bytes(data) not in (before, before[: len(data)]))  # less of it may be whole records
    path = tmp_path_factory.mktemp("damaged") / "a.tfrecord"
    path.write_bytes(data if how != "payload" else b"".join(map(frame, (rows[0], bytes(data), rows[2]))))
    try:
        source = read(path, class_names=("ant", "bee", "cat", "dog"))
    except UsageError:
        return
    if how == "framed":
        assert source.findings.rejected
        assert {read_image(sample) for sample in source} <= {picture(n) for n in range(3)}


def test_a_file_by_a_relative_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beside it are found, and workers in another directory find it."""
    monkeypatch.chdir(home)
    (home / "label_map.pbtxt").write_text(ITEMS + "item { id: 2 name: 'x' }")
    with pytest.raises(UsageError, match=r"'bee' for 2, but the class names have 3; correct the names"):
        read("train-00000-of-00002")
    (home / "label_map.pbtxt").unlink()
    source = read("train-00000-of-00002")
    monkeypatch.chdir("/")
    assert read_image(source[0]) == picture(0)
    assert {sample.split for sample in source} == {"train"}


def test_sequence_examples_with_a_context(tmp_path: Path) -> None:
    """Their context reads as an Example; frames in their lists are not lost in silence."""
    features = tf.train.Example.FromString(example({"label": 0})).features
    sequence = tf.train.SequenceExample(context=features, feature_lists={"feature_list": {"frames": {}}})
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(example({"image": picture(0), "label": 0}))
        writer.write(sequence.SerializeToString())
    (rejected,) = read(tmp_path).findings.rejected
    assert rejected.code == "E_UNSUPPORTED"


def _sequence() -> bytes:
    context = tf.train.Features(feature={"label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))})
    lists = tf.train.FeatureLists(feature_list={"frames": tf.train.FeatureList(feature=[tf.train.Feature()])})
    return tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString()


def _events(folder: Path) -> list[bytes]:
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        tf.summary.write("x", 1.0, step=0)
    writer.close()
    (log,) = folder.iterdir()
    return [bytes(record.numpy()) for record in tf.data.TFRecordDataset(str(log))]


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        ("tensors by tf.io.serialize_tensor", "read them with tf.io.parse_tensor"),
        ("image files with nothing around them", "write each as a feature"),
        ("tf.train.SequenceExamples", "write their lists"),
        ("events of TensorBoard", "give the files that have the images"),
        ("JSON texts", "write their values"),
    ],
)
def test_records_that_are_something_else_are_named(tmp_path: Path, what: str, remedy: str) -> None:
    records = {
        "tensors": [tf.io.serialize_tensor(tf.zeros((4, 4, 3), tf.uint8)).numpy()],
        "image": [picture(0)],
        "tf.train": [_sequence()],
        "events": _events(tmp_path / "log"),
        "JSON": [b'{"image": "a.jpg"}'],
    }
    (tmp_path / "in").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "in" / "a.tfrecord")) as writer:
        for record in records[what.split(" ")[0].partition(".Seq")[0]]:
            writer.write(record)
    for read_it in (open_source, survey):
        with pytest.raises(UsageError, match=f"{what}.*; {remedy}"):
            read_it(tmp_path / "in")


@pytest.mark.parametrize("how", ["", "GZIP"])
def test_masks_by_their_usual_key(tmp_path: Path, how: str) -> None:
    """DeepLab's records have no other label. A record without a mask is listed."""
    mask = encoded(np.arange(2240, dtype=np.uint8).reshape(40, 56) % 3)
    rows: list[dict[str, Any]] = [{"image/encoded": picture(n), RASTER: mask} for n in range(3)]
    del rows[1][RASTER]
    (tmp_path / "in").mkdir()
    packed(tmp_path / "in" / "train-00000-of-00001.tfrecord", rows, how)
    with pytest.raises(UsageError, match=r"the meaning of its mask values is unknown: .*with 0, 1, 2"):
        open_source(tmp_path / "in")
    source = open_source(tmp_path / "in", options=ColumnOptions(class_names=("a", "b", "c")))
    report = convert(source, tmp_path / "out", workers=OwnEngine(1), max_bad=1)
    assert [one.what for one in report.rejected] == ["E_PAIR"]
    data = shardfeed.open(tmp_path / "out")
    assert data.manifest.schema.raster.class_names == ("a", "b", "c")
    assert len(data["train"]) == 2
    assert RASTER in data["train"][0]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"image/object/depth": "image/object/weight"}, "image/object/depth from image/object/weight: it is not read"),
        ({OBJECT_LABEL: "image/object/weight"}, "it is not read"),
        ({OBJECT_AREA: "nothing"}, "there is no such key"),
    ],
)
def test_keys_of_objects_that_are_asked_for_are_read_or_refused(
    tmp_path: Path, columns: dict[str, str], problem: str
) -> None:
    boxes = {side: [0.1 if "min" in side else 0.5] for side in BOX}
    own = {
        "image/encoded": picture(0),
        OBJECT_LABEL: [0],
        OBJECT_MASK: [picture(1, "PNG")],
        "image/object/weight": [0.5],
    }
    write(tmp_path / "a.tfrecord", [own | boxes])
    assert len(open_source(tmp_path)) == 1
    with pytest.raises(UsageError, match=problem):
        open_source(tmp_path, options=ColumnOptions(columns=columns))


def test_columns_that_are_not_used_are_all_named(tmp_path: Path) -> None:
    row = dict.fromkeys(("edema", "mass", "nodule", "pneumonia", "fracture"), 1.0)
    write(tmp_path / "a.tfrecord", [{"image": picture(n), **row} for n in range(2)])
    notes = read(tmp_path).findings.notes
    assert "unused columns: 5 (edema, fracture, mass, nodule, pneumonia)" in notes


def test_names_beside_vectors_of_marks(tmp_path: Path) -> None:
    """`labels.txt` names them if it has a name for each place."""
    write(tmp_path / "a.tfrecord", [{"image": picture(n), "label": [n, 1, 0]} for n in range(2)])
    for names, expected in (("ant\nbee\ncat\n", ("ant", "bee", "cat")), ("ant\nbee\n", ("0", "1", "2"))):
        (tmp_path / "label.labels.txt").write_text(names)
        source = read(tmp_path)
        assert source.schema.class_names[LABEL] == expected
        assert labels(source) == [[1], [0, 1]]


def test_remedies_follow_from_the_fault(tmp_path: Path) -> None:
    """Records without images, as CVAT exports them; without any column of images; without labels; of raw pixels."""
    sides = {side: [0.1 if "min" in side else 0.5] for side in BOX}
    write(tmp_path / "cvat" / "default.tfrecord", [sides | {"image/encoded": b"", "image/height": 4, "image/width": 4}])
    with pytest.raises(UsageError, match=r"no image in image/encoded; write the files again with the images in them"):
        open_source(tmp_path / "cvat")
    write(tmp_path / "texts" / "a.tfrecord", [{"label": 1, "text": b"a"}])
    with pytest.raises(UsageError, match=r"it has label, text; write the bytes of the image files into one"):
        open_source(tmp_path / "texts")
    write(tmp_path / "none" / "a.tfrecord", [{"image": picture(n), "label": -1} for n in range(2)])
    with pytest.raises(UsageError, match=r"no label; name another column, .*, or give unlabelled"):
        open_source(tmp_path / "none")
    assert len(open_source(tmp_path / "none", options=ColumnOptions(unlabelled=True))) == 2
    write(tmp_path / "raw" / "a.tfrecord", [{"pix": b"\xff" * 48, "height": 4, "width": 4, "depth": 3}])
    with pytest.raises(UsageError, match=r"choose one, columns=\{'image': 'pix'\}, or write"):
        open_source(tmp_path / "raw")
    assert len(open_source(tmp_path / "raw", options=ColumnOptions(columns={"image": "pix"}))) == 1


@pytest.mark.parametrize(
    ("texts", "expected"), [([b"ant", b"bee"], [[0, 1], [0, 1]]), ([b"bee"], [1, 1]), (None, [1, 1])]
)
def test_a_text_for_each_number_shows_numbers_of_classes(
    tmp_path: Path, texts: list[bytes] | None, expected: list[Any]
) -> None:
    rows = [{"image/encoded": picture(n), LABEL: [0, 1]} | ({TEXT: texts} if texts else {}) for n in range(2)]
    write(tmp_path / "a.tfrecord", rows)
    assert labels(read(tmp_path, class_names=("ant", "bee"))) == expected
