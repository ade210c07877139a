"""A Parquet file as a list of files: as a label file of JSON Lines that says the same."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardfeed.converters import LabelOptions
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import LABEL, TEXT

ROWS: list[dict[str, Any]] = [
    {"path": "a.jpg", "label": 1, "split": "train", "area": 1.5, "tags": ["x", "y"], "note": None},
    {"path": "b.jpg", "label": 0, "split": "val", "area": -2.0, "tags": [], "note": "ä"},
]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_it_says_what_json_lines_say(images: Path) -> None:
    """Labels, splits, numbers, lists, empty cells; images in it are passed over."""
    lines = images / "l.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    path = written(images / "l.parquet", [{**row, "image": {"bytes": b"x"}, "thumb": b"x"} for row in ROWS])
    options: dict[str, Any] = {"label_columns": ["label", "tags"], "number_columns": ["area"], "text_columns": ["note"]}
    one, other = (LabelFile(file, exclude=["l.*"], **options) for file in (lines, path))
    assert list(one) == list(other)
    assert one.schema == other.schema
    assert [sample.split for sample in other] == ["train", "validation"]


def test_it_is_a_label_file_where_one_is_named(images: Path) -> None:
    path = written(
        images / "l.parquet", [{"file_name": "a.jpg", "label": "cat"}, {"file_name": "c.jpg", "label": "dog"}]
    )
    for source in (open_source(path), open_source(images, options=LabelOptions(labels=path))):
        assert [(sample.key, sample.features[TEXT]) for sample in source] == [(b"a.jpg", b"cat")]
        assert source.schema.class_names[LABEL] == ("cat", "dog")
        (skipped,) = source.findings.rejected
        assert (skipped.code, skipped.reason) == ("E_MISSING", "l.parquet:2: no such file")


def test_paths_without_bytes_are_read_with_the_class_names(images: Path, tmp_path: Path) -> None:
    """As `datasets` writes an imagefolder: images with a path and null bytes, absolute, and ClassLabel's names."""
    home = tmp_path / "table"
    home.mkdir()
    about = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["zebra", "ant"]}}
    stated = {"huggingface": json.dumps({"info": {"features": about}})}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    paths = [str(images / name) for name in ("a.jpg", "b.jpg")]
    table = pa.table({"image": pa.array([{"bytes": None, "path": p} for p in paths], kind), "label": [1, 0]})
    pq.write_table(table.replace_schema_metadata(stated), home / "train.parquet")
    with pytest.raises(UsageError, match=r"its images are null.*give .*train.parquet itself, and reader='labels'"):
        open_source(home)
    with pytest.raises(UsageError, match=r"is a folder, expected a label file; give the file itself: .*train.parquet"):
        open_source(home, reader="labels")
    source = open_source(home / "train.parquet", reader="labels")
    assert source.schema.class_names == {LABEL: ("zebra", "ant")}
    assert [(sample.key, sample.features[LABEL]) for sample in source] == [(b"a.jpg", 1), (b"b.jpg", 0)]
    assert f"the images are in {images}, where the paths of the label file are" in source.findings.notes
    given = LabelOptions(class_names=["x", "y"])
    assert open_source(home / "train.parquet", reader="labels", options=given).schema.class_names == {LABEL: ("x", "y")}


def test_bad_lists(images: Path) -> None:
    path = written(images / "l.parquet", [{"path": "a.jpg", "label": "cat"}, {"path": "a.jpg", "label": "dog"}])
    with pytest.raises(LabelFileError, match=r"l.parquet:2, column 'label': got 'dog', expected 'cat' as in line 1"):
        LabelFile(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(LabelFileError, match="cannot be read as Parquet"):
        LabelFile(path)
    written(path, [{"image": b"x"}])
    with pytest.raises(LabelFileError, match="it has no column of texts or numbers"):
        LabelFile(path)
    written(path, [{"path": "a.jpg", "label": {"x": 1}}])
    with pytest.raises(LabelFileError, match="got an object or a list in a list"):
        LabelFile(path)
    pq.write_table(pa.table({"path": pa.array([b"caf\xe9"]).view(pa.string())}), path)
    with pytest.raises(LabelFileError, match="cannot be read as Parquet: 'utf-8' codec"):
        LabelFile(path)
