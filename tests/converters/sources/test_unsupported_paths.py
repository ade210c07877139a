"""Paths of which nothing is there, and files that are not what their names say."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardfeed.converters import LabelOptions, open_source
from shardfeed.errors import UsageError


@pytest.mark.parametrize("name", ["a.tar", "a.h5", "a.he5", "a.lmdb", "a.pq", "a.TFRecord", "a.array_record"])
@pytest.mark.parametrize(("content", "got"), [(b"", "it is empty"), (b"hello", "it begins with b'hello'")])
def test_a_name_that_lies(tmp_path: Path, name: str, content: bytes, got: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path / name)
    assert str(caught.value).endswith(
        f"{name}: is named like a file of many samples, but is not one: {got}; copy it again, or rename it"
    )


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "train-images-idx3-ubyte", "a.parquet"])
def test_an_empty_file_is_named_by_its_reader(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"not an intact .np[yz] file|begins with b'', expected 00|file size is 0"):
        open_source(tmp_path / name)


def test_a_list_of_files_is_no_lie(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": ["a.jpg"], "label": ["cat"]}), tmp_path / "a.pq")
    with pytest.raises(UsageError, match=r"got the extension '\.pq', expected"):
        open_source(tmp_path / "a.pq")


def test_tars_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.tar: no such file or folder; check the path"):
        open_source(tmp_path / "a.tar")
    with pytest.raises(UsageError, match=r"a-000.tar is missing, one of the 4 files that it matches"):
        open_source(tmp_path / "a-{000..003}.tar")
    with pytest.raises(UsageError, match="got the range"):
        open_source(tmp_path / "a-{3..1}.tar")


def test_a_folder_of_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.tar").touch()
    (tmp_path / "b.tar").touch()
    with pytest.raises(UsageError, match=r"no image among 2 files: 2 \.tar; a\.tar is empty: copy it again"):
        open_source(tmp_path)


@pytest.mark.parametrize("name", ["a.h5", "a.npz", "a.tfrecord"])
def test_samples_are_no_label_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"is a file of many samples, .* give it as the only source: it contains its"):
        open_source(tmp_path, options=LabelOptions(labels=tmp_path / name))
