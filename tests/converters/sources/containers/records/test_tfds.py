"""Datasets that TensorFlow Datasets prepared, as TFRecord and as ArrayRecord: the same samples come out of both."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]  # compiled
from foreign_tfrecords import example, picture

import shardfeed
from shardfeed.annotations import IS_CROWD, OBJECT_LABEL
from shardfeed.converters import convert
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources import tfrecord
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare import arrayrecord
from shardfeed.converters.sources.readers import recognise
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.schema import LABEL, TEXT
from shardfeed.testing.source import SourceContract

NAMES = ["ant", "bee", "cat"]
FORMATS = {"tfrecord": tfrecord, "array_record": arrayrecord}


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 255, (8, 9, 3), np.uint8)


class Bugs(tfds.core.GeneratorBasedBuilder):
    """Labels, boxes, and names that lie beside the records."""

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = ""

    def _info(self) -> Any:
        objects = {"bbox": tfds.features.BBoxFeature(), "label": tfds.features.ClassLabel(names=["leg", "wing"]),
                   "is_crowd": np.bool_}  # fmt: skip
        features = {
            "image": tfds.features.Image(encoding_format="png"),
            "label": tfds.features.ClassLabel(names=NAMES),
            "file_name": tfds.features.Text(),
            "objects": tfds.features.Sequence(objects),
        }
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features), supervised_keys=("image", "label")
        )

    def _split_generators(self, manager: Any) -> Any:
        del manager
        return {"train": self._generate_examples(range(5)), "test": self._generate_examples(range(5, 8))}

    def _generate_examples(self, numbers: range) -> Any:
        for n in numbers:
            box = tfds.features.BBox(ymin=0.1, xmin=0.2, ymax=0.5, xmax=0.9)
            objects = [{"bbox": box, "label": i % 2, "is_crowd": i == 0} for i in range(n % 3)]
            yield n, {"image": pixels(n), "label": n % 2, "file_name": f"{n}.png", "objects": objects}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The dataset in each format."""
    found = {}
    for form in FORMATS:
        builder = Bugs(data_dir=tmp_path_factory.mktemp(form), file_format=form)
        builder.download_and_prepare()
        found[form] = Path(builder.data_path)
    return found


def read(path: Path, **options: Any) -> ColumnarSource:
    return arrayrecord.read(Look(str(path)), ColumnOptions(**options))


def write(path: Path, records: list[bytes], options: str = "group_size:1,uncompressed") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = array_record_module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()


def row(number: int) -> bytes:
    return example({"image": picture(number), "label": number % 2})


class TestContract(SourceContract):
    @pytest.fixture
    def build(self, prepared: dict[str, Path]) -> Callable[[], ColumnarSource]:
        return lambda: read(prepared["array_record"])


@pytest.mark.parametrize("form", FORMATS)
def test_prepared(prepared: dict[str, Path], form: str) -> None:
    """Names from the files beside, splits from the files' names, boxes turned into left, top, right, bottom."""
    source = FORMATS[form].read(Look(str(prepared[form])), ColumnOptions())
    assert source.schema.class_names == {LABEL: tuple(NAMES), OBJECT_LABEL: ("leg", "wing")}  # no cat is there
    assert {sample.key: sample.split for sample in source} == {
        b"%d.png" % n: "train" if n < 5 else "test" for n in range(8)
    }
    for sample in source:
        n = int(sample.key[:1])
        np.testing.assert_array_equal(tf.io.decode_png(read_image(sample)).numpy(), pixels(n))
        assert sample.features == {LABEL: n % 2, TEXT: NAMES[n % 2].encode()}
        objects = sample.objects
        np.testing.assert_allclose(objects.boxes, np.tile([0.2, 0.1, 0.9, 0.5], (n % 3, 1)), rtol=1e-6)
        assert objects.columns == {OBJECT_LABEL: [0, 1][: n % 3], IS_CROWD: [1, 0][: n % 3]}
    found = recognise(Look(str(prepared[form])), {})
    assert [(one.name, one.missing) for one in found] == [(form.replace("_", ""), "")]
    assert found[0].found.startswith("2 ")


def test_packed_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are compressed together are written out once: none is unpacked for each of its neighbours."""
    write(tmp_path / "a.array_record", [row(n) for n in range(5)], "group_size:4")
    source = read(tmp_path)
    assert "1 compressed file was unpacked" in source.findings.notes[0]
    monkeypatch.setattr(arrayrecord, "_open", None)
    assert [read_image(sample) for sample in source] == [picture(n) for n in range(5)]
    assert [sample.key for sample in source][::4] == [b"a.array_record/000000.jpg", b"a.array_record/000004.jpg"]


def test_a_file_is_opened_once_for_many_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.array_record"
    write(path, [row(n) for n in range(6)])
    source, opened, open_ = read(path), list[str](), os.open

    def noted(at: Any, *more: Any, **known: Any) -> int:
        opened.append(os.fsdecode(at))
        return open_(at, *more, **known)

    monkeypatch.setattr(os, "open", noted)
    assert [read_image(sample) for sample in source] == [picture(n) for n in range(6)]
    assert opened.count(str(path)) == 1
    os.utime(path, ns=(1, 1))
    with pytest.raises(RejectedError, match="changed after it was listed"):
        read_image(source[0])


@pytest.mark.parametrize("group", [1, 2])
def test_damage(tmp_path: Path, group: int) -> None:
    path = tmp_path / "a.array_record"
    write(path, [row(n) for n in range(6)], f"group_size:{group},uncompressed")
    data = bytearray(path.read_bytes())
    data[data.find(picture(3)) + 200] ^= 1
    path.write_bytes(data)
    source = read(path)
    assert len(source) == 6 - group
    (rejected,) = source.findings.rejected
    assert "chunk data hash mismatch" in rejected.reason
    assert rejected.key == (b"a.array_record:3" if group == 1 else b"a.array_record:4")
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match="truncated: its list of records at the end is missing"):
        read(path)
    path.write_bytes(b"nonsense" * 10_000)
    assert arrayrecord.recognise(Look(str(path)), ColumnOptions()) is None
    with pytest.raises(UsageError, match="not an ArrayRecord file, or its start is damaged"):
        read(path)


def test_changes_after_the_survey(tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    write(path, [row(n) for n in range(2)])
    content = read(path)[1].image
    write(path, [row(n) for n in range(3)])
    with pytest.raises(RejectedError, match="E_SOURCE_CHANGED"):
        content()  # type: ignore[operator]
    path.unlink()
    with pytest.raises(RejectedError, match=r"E_SOURCE_CHANGED.*was deleted"):
        content()  # type: ignore[operator]


def test_other_records(tmp_path: Path) -> None:
    write(tmp_path / "a.array_record", [b"\xff text"])
    with pytest.raises(UsageError, match=r"not a tf.train.Example: .*only records that are serialised"):
        read(tmp_path)


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.array_record", [row(0)])
    for name in [name for name in sys.modules if name.startswith("array_record")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "array_record", None)
    with pytest.raises(MissingExtraError, match=r"array_record is not installed; pip install 'shardfeed\[formats\]'"):
        read(tmp_path)


class Streets(tfds.core.GeneratorBasedBuilder):
    """Images with a mask each, and a vector of marks."""

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = ""

    def _info(self) -> Any:
        mask = tfds.features.Image(shape=(None, None, 1), encoding_format="png")
        features = {"image": tfds.features.Image(encoding_format="png"), "segmentation_mask": mask,
                    "attributes": tfds.features.Tensor(shape=(3,), dtype=np.int64)}  # fmt: skip
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, manager: Any) -> Any:
        del manager
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        mask = (np.arange(72) % 3).astype(np.uint8).reshape(8, 9, 1)
        for i in range(3):
            yield i, {"image": pixels(i), "segmentation_mask": mask, "attributes": [i % 2, 1, 0]}


@pytest.mark.parametrize("form", FORMATS)
def test_masks_and_marks(tmp_path: Path, form: str) -> None:
    """TFDS's usual name is the mask, where nothing else is a label; vectors of marks are the classes of the ones."""
    Streets(data_dir=str(tmp_path), file_format=form).download_and_prepare()
    with pytest.raises(UsageError, match=r"mask values is unknown: .*; without masks: unlabelled=True"):
        open_source(tmp_path / "streets" / "1.0.0")
    masked = open_source(tmp_path / "streets" / "1.0.0", options=ColumnOptions(class_names=("a", "b", "c")))
    convert(masked, tmp_path / "masks", workers=1)
    assert shardfeed.open(tmp_path / "masks").manifest.schema.raster.class_names == ("a", "b", "c")  # type: ignore[union-attr]
    assert "unused columns: 1 (attributes)" in info_of(masked).findings.notes
    marked = open_source(tmp_path / "streets" / "1.0.0", options=ColumnOptions(columns={"label": "attributes"}))
    assert [sample.features[LABEL] for sample in marked] == [[1], [0, 1], [1]]
