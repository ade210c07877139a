"""Parquet files as `datasets` and others write them; and what is wrong with some."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_images import encoded, image_file
from sources import reader

import shardfeed
from shardfeed.annotations import BOX, CAPTION, OBJECT_LABEL, RASTER
from shardfeed.converters import convert, open_source
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.parts import FilePart
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.reading import read_content
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT
from shardfeed.testing.source import SourceContract
from shardfeed.tools import cli

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
CLASSES = {"names": ["cat", "dog"], "_type": "ClassLabel"}


recognise, read = reader("parquet")


def hugging_face(table: pa.Table, features: Mapping[str, Any]) -> pa.Table:
    """The table with what `datasets` notes in a schema."""
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def images(count: int, first: int = 0, names: Sequence[str | None] | None = None) -> pa.Array:
    found = [{"bytes": image_file(seed=i), "path": f"{i}.png"} for i in range(first, first + count)]
    for one, name in zip(found, names or (), strict=False):
        one["path"] = name
    return pa.array(found, IMAGE)


def written(path: Path, columns: Mapping[str, Any], features: Mapping[str, Any] | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(dict(columns))
    pq.write_table(table if features is None else hugging_face(table, features), path, **options)
    return path


def as_datasets_does(folder: Path, **options: Any) -> Path:
    """Two files for training and one for testing, with ClassLabel names in the schema."""
    features = {"image": {"_type": "Image"}, "label": CLASSES, "note": {"dtype": "string", "_type": "Value"}}
    for i, name in enumerate(("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001")):
        columns = {"image": images(3, 3 * i), "label": [0, 1, 1], "note": [f"n{j}" for j in range(3)]}
        written(folder / "data" / f"{name}.parquet", columns, features, row_group_size=2, **options)
    return folder


class TestContract(SourceContract):
    @pytest.fixture(params=["none", "snappy"])
    def build(self, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Source]:
        folder = as_datasets_does(tmp_path, compression=request.param, use_dictionary=request.param != "none")
        return lambda: read(folder, ColumnOptions(columns={"image/note": "note"}))


class TestContractOfRejected(SourceContract):
    @pytest.fixture
    def build(self, tmp_path: Path) -> Callable[[], Source]:
        columns = {"image": [image_file(), None, image_file(seed=1)], "label": [1, 0, 0], "text": ["a", "b", None]}
        path = written(tmp_path / "a.parquet", columns, compression="none", use_dictionary=False)
        return lambda: read(path)


def test_what_datasets_writes(tmp_path: Path) -> None:
    folder = as_datasets_does(tmp_path / "in")
    evidence = recognise(folder)
    assert (evidence.found, evidence.missing) == ("Parquet files: image from image, label from label", "")
    source = read(folder, ColumnOptions(columns={"image/note": "note"}))
    assert source.schema.class_names[LABEL] == ("cat", "dog")
    order = [6, 7, 8, 0, 1, 2, 3, 4, 5]  # test comes before train
    assert list(source.keys) == [b"%d.png" % i for i in order]
    for i, sample in zip(order, source, strict=True):
        assert read_content(sample.image) == image_file(seed=i)
        label = (0, 1, 1)[i % 3]
        assert sample.features == {LABEL: label, TEXT: (b"cat", b"dog")[label], "image/note": b"n%d" % (i % 3)}
        assert sample.split == ("test" if i > 5 else "train")
    report = convert(source, tmp_path / "out", workers=1)
    assert not report.rejected
    assert shardfeed.open(tmp_path / "out").manifest.splits.keys() == {"test", "train"}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_every_layout_gives_what_pyarrow_gives(tmp_path: Path, codec: str, dictionary: bool, version: str) -> None:
    """Compressed or not, with a dictionary that ends in plain pages, both kinds of pages; nulls are E_MISSING."""
    draw = random.Random(7)
    values = [draw.randbytes(draw.randrange(1, 900)) for _ in range(200)]
    values += values[:40]
    options: dict[str, Any] = {"compression": codec, "use_dictionary": dictionary, "data_page_version": version}
    options |= {"data_page_size": 4000, "dictionary_pagesize_limit": 20_000, "write_batch_size": 10}
    with_nulls = [None if i % 7 == 3 else value for i, value in enumerate(values)]
    for i, column in enumerate((values, with_nulls, [{"bytes": value} for value in with_nulls])):
        wanted = values if i == 0 else with_nulls
        path = written(tmp_path / f"{i}.parquet", {"image": column}, row_group_size=170, **options)
        found, places = rows_of(read(path))
        assert found == dict(enumerate(wanted))
        in_place = codec == "none" and not dictionary and i == 0
        assert (places == {os.fsencode(path)}) is in_place


@pytest.mark.parametrize("codec", ["gzip", "zstd", "brotli", "lz4"])
def test_other_codecs(tmp_path: Path, codec: str) -> None:
    values = [b"%d" % i * 20 for i in range(50)]
    path = written(tmp_path / "a.parquet", {"image": values}, compression=codec)
    assert rows_of(read(path))[0] == dict(enumerate(values))


def rows_of(source: ColumnarSource) -> tuple[dict[int, bytes | None], set[bytes]]:
    """The image of each row, None for null; and the files that they are in."""
    found: dict[int, bytes | None] = {}
    for skipped in info_of(source).findings.rejected:
        assert skipped.code == "E_MISSING"
        found[int(skipped.key.rpartition(b":")[2])] = None
    images = [sample.image for sample in source]
    for sample, image in zip(source, images, strict=True):
        assert isinstance(image, FilePart)
        found[int(sample.key.rpartition(b"/")[2])] = image()
    return dict(sorted(found.items())), {image.path for image in images if isinstance(image, FilePart)}


def test_a_label_whose_values_are_paths_is_no_class(tmp_path: Path) -> None:
    """Each way of the remedy works: a label after all, texts, or neither."""
    rows = [{"image": image_file(), "label": f"masks/{i}.png"} for i in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=r"its values are paths, such as 'masks/0.png'; columns=.'text'"):
        open_source(tmp_path / "a.parquet")
    asked = ({"columns": {"label": "label"}}, {"columns": {"text": "label"}}, {"unlabelled": True})
    found = [open_source(tmp_path / "a.parquet", options=ColumnOptions(**one)).schema.features for one in asked]
    assert [(LABEL in one, CAPTION in one) for one in found] == [(True, False), (False, True), (False, False)]


def test_plain_columns_labels_and_captions(tmp_path: Path) -> None:
    """Columns as programs other than `datasets` write them: binary, class names, lists of captions, a split column."""
    columns = {
        "file": ["a/1.png", "a/2.png"],
        "image": pa.array([image_file(), image_file(seed=1)], pa.large_binary()),
        "class": pa.array(["owl", "cat"]).dictionary_encode(),
        "captions": [["one", " two "], []],
        "part": ["train", "val"],
        "size": [1.5, 2.0],
    }
    path = str(written(tmp_path / "a.parquet", columns))
    source = read(path, ColumnOptions(columns={"key": "file", "split": "part", "image/size": "size"}))
    assert list(source.keys) == [b"a/1.png", b"a/2.png"]
    assert [sample.split for sample in source] == ["train", "validation"]
    assert source[0].features == {LABEL: 1, TEXT: b"owl", CAPTION: [b"one", b"two"], "image/size": 1.5}
    account = info_of(source).findings.account
    assert [one.key for one in account.left_out] == [b"a.parquet:1"]
    source = read(path, ColumnOptions(columns={"label": "part"}, class_names=("val", "train")))
    assert [sample.features[LABEL] for sample in source] == [1, 0]
    assert list(source.keys) == [b"a/00000000", b"a/00000001"]


def test_a_name_of_a_class_that_is_a_number(tmp_path: Path) -> None:
    """A label is the place of its name, whatever that is; -1 is what `datasets` has for none."""
    features = {"image": {"_type": "Image"}, "label": {"names": ["1", "2", "0"], "_type": "ClassLabel"}}
    path = written(tmp_path / "a.parquet", {"image": images(4), "label": [0, 1, 2, -1]}, features)
    source = read(path)
    assert [(sample.features[LABEL], sample.features[TEXT]) for sample in source] == [(0, b"1"), (1, b"2"), (2, b"0")]
    assert [(one.key, one.code) for one in info_of(source).findings.rejected] == [(b"3.png", "E_NO_LABEL")]
    renamed = read(path, ColumnOptions(class_names=("x", "y", "z")))
    assert renamed[0].features[TEXT] == b"x"
    with pytest.raises(UsageError, match=r"got 2 names for 3 classes"):
        read(path, ColumnOptions(class_names=("x", "y")))


@pytest.mark.parametrize("about", [{"feature": CLASSES, "_type": "Sequence"}, {"feature": CLASSES, "_type": "List"}])
def test_several_classes_of_an_image(tmp_path: Path, about: Any) -> None:
    """A set, in which one that comes again is once; names of the schema, or those that occur."""
    columns = {"image": images(4), "label": [[1, 0], [1, 1], [], None]}
    source = read(written(tmp_path / "a.parquet", columns, {"label": about}))
    assert [sample.features[LABEL] for sample in source] == [[1, 0], [1], []]
    assert source[0].features[TEXT] == [b"dog", b"cat"]
    assert source.schema.kind(LABEL) == "tags"
    assert [skipped.code for skipped in info_of(source).findings.rejected] == ["E_NO_LABEL"]
    columns = {"image": images(2), "label": [["b", "a"], ["c"]]}
    source = read(written(tmp_path / "a.parquet", columns))
    assert [sample.features[LABEL] for sample in source] == [[1, 0], [2]]


def test_texts_beside_labels_that_are_texts(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"image": images(2), "label": ["cat", "dog"], "name": ["x", "y"]})
    with pytest.raises(UsageError, match="'label' are texts, expected numbers with names in 'name'"):
        read(path, ColumnOptions(columns={"label": "label", TEXT: "name"}))


def test_columns_of_another_type(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"image": images(1), "x": [1.5]})
    with pytest.raises(UsageError, match=r"expected labels: .* for numbers, give columns=\{'image/value': 'x'}"):
        read(path, ColumnOptions(columns={"label": "x"}))
    assert read(path, ColumnOptions(columns={"image/value": "x"}))[0].features == {"image/value": 1.5}
    for what in ("text", "split", "key"):
        with pytest.raises(UsageError, match=f"the column 'x' holds float values, expected .* for {what}"):
            read(path, ColumnOptions(columns={what: "x"}))


@pytest.mark.parametrize("typed", [False, True])
def test_a_first_file_without_rows(tmp_path: Path, typed: bool) -> None:
    """pandas gives a column without values the type null."""
    empty = {"image": images(0), "label": pa.array([], pa.int64())}
    written(tmp_path / "train-00000-of-00002.parquet", empty if typed else dict.fromkeys(empty, pa.nulls(0)))
    written(tmp_path / "train-00001-of-00002.parquet", {"image": images(2), "label": [0, 1]})
    assert [sample.features[LABEL] for sample in open_source(tmp_path)] == [0, 1]


@pytest.mark.parametrize("column", ["label", "annotation", "mask", "segmentation_mask"])
def test_a_second_image_is_the_mask_by_its_name(tmp_path: Path, column: str) -> None:
    """As in sidewalk-semantic. Beside other labels, a mask is taken only if it is named."""
    mask = {"bytes": encoded(np.arange(2400, dtype=np.uint8).reshape(40, 60) % 3), "path": None}
    values = {"pixel_values": images(2), column: pa.array([mask] * 2, IMAGE)}
    path = str(written(tmp_path / "a.parquet", values))
    with pytest.raises(UsageError, match=rf"choose one, .*'pixel_values'.*; .* its mask, also .*'mask': '{column}'"):
        read(path)
    with pytest.raises(UsageError, match=r"the meaning of its mask values is unknown: .* class_names"):
        read(path, ColumnOptions(columns={"image": "pixel_values", "mask": column}))
    options = ColumnOptions(columns={"image": "pixel_values"}, class_names=("a", "b", "c"))
    assert RASTER in read(path, options).schema.features
    plain = read(path, ColumnOptions(columns={"image": "pixel_values"}, unlabelled=True))
    assert RASTER not in plain.schema.features
    assert f"unused columns: 1 ({column})" in plain.findings.notes
    labelled = read(
        str(written(tmp_path / "b.parquet", {**values, "class": [0, 1]})), replace(options, class_names=None)
    )
    assert RASTER not in labelled.schema.features
    assert f"unused columns: 1 ({column})" in labelled.findings.notes


def test_paths_that_come_again_are_no_keys(tmp_path: Path) -> None:
    path = written(tmp_path / "train.parquet", {"image": images(3, names=["a.png", "a.png", None])})
    source = read(path)
    assert list(source.keys) == [b"train/00000000", b"train/00000001", b"train/00000002"]
    assert any(note.startswith("keys are made of file and number") for note in source.findings.notes)


OBJECTS = [
    [([10, 5, 20, 20], 1), ([0, 0, 60, 40], 0)],
    [],
    [([3, 4, 6, 34], 0), ([1, 2], 0), ([1, 1, 2, 2], 9), (None, 1)],
]


@pytest.mark.parametrize("form", ["struct of lists", "list of structs"])
def test_objects(tmp_path: Path, form: str) -> None:
    """Boxes as cppe-5 has them, in both forms; what is none is left out with a code."""
    category: dict[str, Any] = {"feature": CLASSES, "_type": "Sequence"}
    if form == "struct of lists":
        said: list[Any] = [{"bbox": [b for b, _ in row], "category": [c for _, c in row]} for row in OBJECTS]
        about: Any = {"bbox": {}, "category": category}
    else:
        said = [[{"bbox": box, "category": label} for box, label in row] for row in OBJECTS]
        about = {"feature": {"bbox": {}, "category": CLASSES}, "_type": "List"}
    columns = {"image": images(3), "objects": said, "width": [60] * 3, "height": [40] * 3}
    path = written(tmp_path / "a.parquet", columns, {"image": {"_type": "Image"}, "objects": about})
    source = read(path)
    assert source.schema.class_names[OBJECT_LABEL] == ("cat", "dog")
    assert "objects from objects" in source.described
    report = convert(source, tmp_path / "out", workers=1, max_bad={"objects": 9})
    assert not report.rejected
    records = {record["image/filename"]: record for record in shardfeed.open(tmp_path / "out")["train"]}
    first = records[b"0.png"]
    assert [np.asarray(first[key]).tolist() for key in (BOX[0], OBJECT_LABEL)] == [[np.float32(10 / 60), 0], [1, 0]]
    assert [len(np.asarray(records[key][OBJECT_LABEL])) for key in (b"0.png", b"1.png", b"2.png")] == [2, 0, 1]
    account = info_of(source).findings.account
    assert [(one.key, one.code) for one in account.left_out] == [
        (b"2.png", "E_LINE"),
        (b"2.png", "E_BOX_EMPTY"),
        (b"2.png", "E_CATEGORY"),
    ]


def test_images_that_are_paths_alone(tmp_path: Path) -> None:
    array = pa.array([{"bytes": None, "path": "a.png"}, {"bytes": None, "path": "b.png"}], IMAGE)
    path = written(tmp_path / "a.parquet", {"image": array}, compression="none", use_dictionary=False)
    with pytest.raises(UsageError, match="its images are null, it has only 2 paths; a list of files is a label table"):
        read(path)


def test_files_that_differ(tmp_path: Path) -> None:
    """In the type of a column that is used, or in class names; columns that no one uses may differ."""
    features = {"image": {"_type": "Image"}, "label": CLASSES}
    written(tmp_path / "a.parquet", {"image": images(1), "label": [0], "more": [1]}, features)
    second = written(tmp_path / "b.parquet", {"image": images(1, 1), "label": [0]}, features)
    assert len(read(tmp_path)) == 2
    written(second, {"image": images(1, 1), "label": ["cat"]}, features)
    with pytest.raises(UsageError, match=r"b.parquet: the column 'label' holds text values, but integer .*a.parquet"):
        read(tmp_path)
    features["label"] = {"names": ["dog", "cat"], "_type": "ClassLabel"}
    written(second, {"image": images(1, 1), "label": [0]}, features)
    with pytest.raises(UsageError, match=r"b.parquet: the classes of label differ from those in"):
        read(tmp_path)


BAD: dict[str, tuple[Callable[[], Mapping[str, Any]], str]] = {
    "no image": (lambda: {"x": [1]}, "no column of images in it"),
    "two images": (lambda: {"x": [b"1"], "y": [b"2"]}, "several columns may be the image: x, y.*image"),
    "two labels": (
        lambda: {"image": [b""], "label": [1], "class": [1]},
        "several columns may be the label: label, class",
    ),
    "labels from 1": (
        lambda: {"image": [b"", b""], "label": [1, 2]},
        "labels start at 1.*label_offset=1|label_offset=1",
    ),
    "lists of images": (lambda: {"image": [[b""]]}, "no column of images in it"),
    "no row": (lambda: {"image": pa.array([], pa.binary())}, "no sample in its 1 Parquet file"),
    "no label": (lambda: {"image": [b""], "label": pa.array([None], pa.int64())}, "none of 1 sample can be used"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files(tmp_path: Path, what: str) -> None:
    columns, message = BAD[what]
    with pytest.raises(UsageError, match=message):
        read(str(written(tmp_path / "a.parquet", columns())))


def test_cut_files(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"image": images(2)})
    data = path.read_bytes()
    for length in (0, 3, 8, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(UsageError, match="cannot be read as Parquet"):
            read(path)
    path.write_bytes(b"PAR1" + bytes(1000))
    with pytest.raises(UsageError, match="cannot be read as Parquet"):
        read(path)


def test_damaged_pages(tmp_path: Path) -> None:
    """Whatever bit of a page's header or lengths is wrong: an error or a code, no exception of another kind."""
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    path = written(tmp_path / "a.parquet", {"image": [b"x" * 50, b"y" * 60]}, **options)
    data = path.read_bytes()
    told = 0
    for place in range(4, 110):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            for sample in read(path):
                read_content(sample.image)
        except (UsageError, RejectedError):
            told += 1
    assert told > 10


def test_a_damaged_directory(tmp_path: Path) -> None:
    """At the end of the file, where a compression that pyarrow does not know would end the process."""
    path = written(tmp_path / "a.parquet", {"image": [b"x" * 50, b"y" * 60]}, compression="snappy")
    data = path.read_bytes()
    told = 0
    for place in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data) - 8):
        if data[place] == 2:  # that is how snappy is written, among others
            path.write_bytes(data[:place] + bytes([2 ^ 0x20]) + data[place + 1 :])
            try:
                read(path)
            except UsageError:
                told += 1
    assert told


def test_texts_that_are_no_text(tmp_path: Path) -> None:
    texts = pa.array([b"caf\xe9"]).view(pa.string())
    path = written(tmp_path / "a.parquet", {"image": images(1), "text": texts})
    with pytest.raises(UsageError, match="cannot be read as Parquet: 'utf-8' codec"):
        read(path)


def test_an_encoding_that_only_pyarrow_knows(tmp_path: Path) -> None:
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"image": "DELTA_LENGTH_BYTE_ARRAY"}}
    path = written(tmp_path / "a.parquet", {"image": [b"x", b"y"]}, **options)
    assert [read_content(sample.image) for sample in read(path)] == [b"x", b"y"]


def test_a_file_that_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"image": images(2)})
    image = read(path)[0].image
    os.utime(path, ns=(1, 1))
    with pytest.raises(RejectedError) as caught:
        read_content(image)
    assert caught.value.code is RejectCode.SOURCE_CHANGED


def test_what_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    assert recognise(tmp_path) is None
    written(tmp_path / "b" / "b.parquet", {"path": ["a.png"], "label": [0]})
    assert recognise(tmp_path / "b") is None, "a list of files"
    written(tmp_path / "c" / "default" / "train" / "0000.parquet", {"image": images(1)})
    assert recognise(tmp_path / "c") is not None


_MEASURED = """
import re, sys
from shardfeed.converters import open_source
source = open_source(sys.argv[1])
for i in range(0, len(source), len(source) // 1000):
    source[i].image()
said = open("/proc/self/status").read()  # ru_maxrss would be at least that of the process that started this one
print(len(source), int(re.search(r"VmHWM:\\s*(\\d+) kB", said)[1]) * 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_memory(tmp_path: Path, compression: str) -> None:
    """At most 150 bytes a sample, with a label, a name and a caption, whatever the row groups."""
    peaks = {}
    for count in (20_000, 420_000):  # of 200,000 more the allocator's own noise is 20 bytes each
        draw = random.Random(1)
        image = [{"bytes": draw.randbytes(100), "path": f"{i:09}.png"} for i in range(count)]
        columns = {
            "image": image,
            "label": [i % 9 for i in range(count)],
            "text": [f"caption {i:09}" for i in range(count)],
        }
        options: dict[str, Any] = {"compression": compression, "use_dictionary": compression != "none"}
        path = written(tmp_path / f"{count}.parquet", columns, row_group_size=10_000, **options)
        done = subprocess.run([sys.executable, "-c", _MEASURED, path], capture_output=True, text=True, check=True)
        found, peak = map(int, done.stdout.split())
        assert found == count
        peaks[count] = peak
    grown = (peaks[420_000] - peaks[20_000]) / 400_000
    assert grown < 150, f"{grown:.0f} bytes a sample"


def test_labels_that_are_booleans(tmp_path: Path) -> None:
    values = {"image": images(3), "label": [True, False, True]}
    source = read(written(tmp_path / "a.parquet", values), ColumnOptions(class_names=("no", "yes")))
    assert [sample.features[TEXT] for sample in source] == [b"yes", b"no", b"yes"]
    values = {"image": images(2), "cat": [True, False], "dog": [True, None]}
    source = read(written(tmp_path / "b.parquet", values), ColumnOptions(one_hot=["cat", "dog"]))
    assert source[0].features[TEXT] == [b"cat", b"dog"]
    assert [(one.code, "dog: null" in one.reason) for one in info_of(source).findings.rejected] == [
        ("E_NO_LABEL", True)
    ]


def test_masks_of_colours_are_refused_with_what_works(tmp_path: Path) -> None:
    """A table of colours is no option of Parquet, and is not named."""
    colours = np.tile(np.arange(3, dtype=np.uint8) * 90, (40, 60, 1))
    masks = pa.array([{"bytes": encoded(colours), "path": None}] * 2, IMAGE)
    path = str(written(tmp_path / "a.parquet", {"image": images(2), "mask": masks}))
    with pytest.raises(UsageError, match=r"have colours, expected one channel .*; without masks: unlabelled=True"):
        read(path)
    assert RASTER not in read(path, ColumnOptions(unlabelled=True)).schema.features


def test_columns_may_be_given_several_times(tmp_path: Path) -> None:
    """As a message that names one of them may be followed."""
    mask = {"bytes": encoded(np.arange(2400, dtype=np.uint8).reshape(40, 60) % 2), "path": None}
    path = written(tmp_path / "a.parquet", {"a": images(2), "b": pa.array([mask] * 2, IMAGE), "c": [0, 1]})
    (tmp_path / "names.txt").write_text("sky\nsea\n")
    given = ["--columns", "image=a", "--columns", "mask=b,image/c=c", "--class-names", tmp_path / "names.txt"]
    assert cli.main([str(one) for one in ("convert", path, tmp_path / "out", *given)]) == 0
    records = [*shardfeed.open(tmp_path / "out")["train"]]
    assert all(RASTER in record for record in records)
    assert sorted(record["image/c"] for record in records) == [0, 1]


def test_a_column_is_named_as_a_whole(tmp_path: Path) -> None:
    table = pa.table({"image": images(3), "kind, species": ["Cat", "cat", "dog"]})
    pq.write_table(table, tmp_path / "a.parquet")
    source = read(tmp_path, ColumnOptions(columns={"label": "kind, species"}))
    assert "column kind, species: classes that differ only in case: 1 (Cat and cat)" in info_of(source).findings.notes
