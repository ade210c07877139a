"""Splits by lists that the user gives, for every reader whose samples have names."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_images import image_file, put

import shardfeed
from shardfeed.converters import append, convert, open_source
from shardfeed.converters.sources.image_folder import FileNames
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Sample, info_of
from shardfeed.converters.sources.splits.split_list import typed_split_lists
from shardfeed.errors import LabelFileError, TooManyRejectedError, UsageError
from shardfeed.schema import LABEL, Feature, Schema
from tests.converters.sources.builders import BUILDERS

KEYS = ("cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png")
TWO = {"train": "train.txt", "test": "test.txt"}
WHOLE = {"cat/1.png": "train", "cat/2.png": "test", "dog/3.png": "train", "dog/4.png": "test"}
THREE = {"cat/1.png": "train", "cat/2.png": "validation", "dog/3.png": "test", "dog/4.png": "train"}


def plant(root: Path, files: Mapping[str, Any]) -> Path:
    for key in KEYS:
        put(root / "images" / key, image_file())
    for name, content in files.items():
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        put(root / name, text)
    return root / "images"


def splits_of(source: Any) -> dict[str, str | None]:
    return {one.key.decode(): one.split for one in source}


def sizes(report: Any) -> dict[str, int]:
    return {name: split.records for name, split in report.manifest.splits.items()}


def of_two(train: Any, test: Any, end: str = "txt") -> tuple[dict[str, str], dict[str, Any]]:
    return {"train": f"train.{end}", "test": f"test.{end}"}, {f"train.{end}": train, f"test.{end}": test}


def mat(**values: Any) -> bytes:
    module = pytest.importorskip("scipy.io", reason="the extra of MATLAB's files is missing")
    module.savemat(file := io.BytesIO(), {name: np.array(value) for name, value in values.items()})
    return file.getvalue()


def names(*texts: str) -> np.ndarray:
    return np.array([[text] for text in texts], object)


RECORDS = [("cat", "1.png", "train"), ("cat", "2.png", "test"), ("dog", "3.png", "train"), ("dog", "4.png", "test")]
# Lists of two splits as datasets have them; each says the splits of WHOLE.
LISTS: dict[str, tuple[Any, Mapping[str, Any]]] = {
    "paths": of_two("cat/1.png\ndog/3.png\n", "cat/2.png\ndog/4.png\n"),
    "paths without extension, Food-101": of_two("cat/1\ndog/3\n", "cat/2\ndog/4\n"),
    "names and numbers, Oxford-IIIT Pet": of_two("#Image CLASS\n1 1 2 3\n3 2 2 3\n", "2 1 1 2\n4 1 2 2\n"),
    "names and a label with blanks, FGVC-Aircraft": of_two("1 Boeing 707\n3 B2 x\n", "2 Boeing 707\n4 B2 x\n"),
    "names and a mark, VOC": of_two("1 -1\n3  1\n", "2\t-1\n4  1\n"),
    "paths from elsewhere, YOLO": of_two("./images/cat/1.png\n./dog/3.png", "/data/x/cat/2.png\r\nC:\\x\\dog\\4.png"),
    "files beside images": of_two("1.xml\n3.xml\n", "2.txt\n4.txt\n"),
    "paths and labels": of_two("cat/1.png 0\ndog/3.png 1\n", "cat/2.png 0\ndog/4.png 1\n"),
    "CSV with a header": of_two("id,image\n7,1.png\n9,3.png\n", "id,image\n2,2.png\n4,4.png\n", "csv"),
    "JSON by class, Food-101": of_two({"cat": ["cat/1"], "dog": ["dog/3"]}, {"c": ["cat/2"], "d": ["dog/4"]}, "json"),
    "JSON by class, names alone": of_two({"cat": ["1"], "dog": ["3"]}, ["cat/2", "dog/4"], "json"),
    "JSON of COCO": of_two(
        {"images": [{"file_name": "1.png", "id": 5}, {"file_name": "3.png", "id": 6}], "annotations": [{"id": 5}]},
        {"images": [{"file_name": "2.png", "id": 7}, {"file_name": "4.png", "id": 8}], "licenses": []},
        "json",
    ),
    "MATLAB, names and labels, Stanford Dogs": of_two(
        mat(file_list=names("cat/1.png", "dog/3.png"), labels=[[1], [2]]),
        mat(file_list=names("cat/2.png", "dog/4.png"), labels=[[1], [2]]),
        "mat",
    ),
    "MATLAB, numbers by split, Flowers": ("setid.mat", {"setid.mat": mat(trnid=[[1, 3]], tstid=[[2, 4]])}),
    "JSON by split": ("s.json", {"s.json": {"train": ["1.png", "3.png"], "test": ["2.png", "4.png"]}}),
    "JSON by split, rows, CoOp": (
        "s.json",
        {"s.json": {"train": [["1.png", 0, "cat"], ["3.png", 1, "d"]], "test": [["2.png", 0, "c"], ["4.png", 1, "d"]]}},
    ),
    "JSON by split and class": (
        "s.json",
        {"s.json": {"train": {"cat": ["1"], "dog": ["3"]}, "test": {"cat": ["2"], "dog": ["4"]}}},
    ),
    "JSON by name": ("s.json", {"s.json": WHOLE}),
    "JSON of records, Karpathy": (
        "s.json",
        {"s.json": {"dataset": "x", "images": [{"filepath": a, "filename": b, "split": c} for a, b, c in RECORDS]}},
    ),
    "JSON Lines": ("s.jsonl", {"s.jsonl": "".join(json.dumps({"file": b, "split": c}) + "\n" for _, b, c in RECORDS)}),
    "a table of words": (
        "s.csv",
        {"s.csv": "path,label,split\n1.png,a,train\n2.png,b,test\n3.png,a,Train\n4.png,b,testing\n"},
    ),
    "a table without a header": (
        "s.tsv",
        {"s.tsv": "1.png\ta\ttrain\n2.png\tb\ttest\n3.png\ta\ttrain\n4.png\tb\ttest\n"},
    ),
    "ids, and 1 for training, CUB": (
        "train_test_split.txt",
        {
            "images.txt": "11 cat/1.png\n12 cat/2.png\n13 dog/3.png\n14 dog/4.png\n",
            "train_test_split.txt": "11 1\n12 0\n13 1\n14 0\n",
        },
    ),
    "a column is_train": ("s.csv", {"s.csv": "image,is_train\n1.png,True\n2.png,False\n3.png,True\n4.png,False\n"}),
    "one file of both, asked for by split": (
        {"train": "s.json", "test": "s.json"},
        {"s.json": {"train": ["1", "3"], "test": ["2", "4"]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lists", "files"), LISTS.values(), ids=LISTS)
def test_lists_as_datasets_have_them(
    lists: Any, files: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    source = open_source(root, split_list=lists)
    assert splits_of(source) == WHOLE
    assert not info_of(source).findings.rejected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list_eval_partition.txt", "1.png 0\n2.png 1\n3.png 2\n4.png 0\n"),
        ("list_eval_partition.csv", "image_id,partition\n1.png,0\n2.png,1\n3.png,2\n4.png,0\n"),
        ("s.csv", "set;image\n1;1.png\n2;2.png\n3;3.png\n1;4.png\n"),
        ("imdb.json", {"images": {"name": ["1.png", "2.png", "3.png", "4.png"], "set": [1, 2, 3, 1]}, "meta": {}}),
        ("setid.mat", mat(trnid=[[1, 4]], valid=[[2]], tstid=[[3]])),
    ],
)  # fmt: skip
def test_tables_of_three_splits(name: str, text: Any, tmp_path: Path) -> None:
    root = plant(tmp_path, {name: text})
    assert splits_of(open_source(root, split_list=tmp_path / name)) == THREE


def test_a_column_called_fold_has_folds(tmp_path: Path) -> None:
    root = plant(tmp_path, {"f.csv": "image,fold\n1.png,0\n2.png,1\n3.png,2\n4.png,0\n"})
    assert {*splits_of(open_source(root, split_list=tmp_path / "f.csv")).values()} == {"fold_0", "fold_1", "fold_2"}


def test_paths_of_lists_begin_at_the_source_too(tmp_path: Path) -> None:
    root = plant(tmp_path, {"images/meta/a.txt": "1\n3\n", "images/meta/b.txt": "2\n4\n"})
    assert splits_of(open_source(root, split_list={"train": "meta/a.txt", "test": "meta/b.txt"})) == WHOLE


REFUSED: dict[str, tuple[Any, Mapping[str, Any], str]] = {
    "no name is an image's": (TWO, {"train.txt": "cow/1\ncow/8\n", "test.txt": "cow/2\ncow/9\n"}, "train.txt:1"),
    "an image in two splits": (TWO, {"train.txt": "1\n2\n", "test.txt": "3\n2\n"}, "test.txt:2"),
    "all are empty": (TWO, {"train.txt": "\n", "test.txt": ""}, "train.txt"),
    "a table with a name": ({"train": "s.csv"}, {"s.csv": "image,split\n1.png,train\n2.png,test\n"}, "s.csv"),
    "a table without splits": ("s.csv", {"s.csv": "image,label\n1.png,x\n2.png,y\n"}, "s.csv"),
    "a table with an odd split": ("s.txt", {"s.txt": "1.png train\n2.png test\n3.png yes\n4.png test\n"}, "s.txt:3"),
    "a split that the file has not": ({"val": "s.json"}, {"s.json": {"train": ["1"], "test": ["2"]}}, "s.json"),
    "0 and 1 that say nothing": ("s.txt", {"s.txt": "1.png 0\n2.png 1\n3.png 0\n4.png 0\n"}, "s.txt"),
    "numbers under several keys": ({"train": "s.json"}, {"s.json": {"a": [1, 2], "b": [3, 4]}}, "s.json"),
    "no such file": ({"train": "none.txt"}, {}, "none.txt"),
    "a pickle": ({"train": "s.npy"}, {"s.npy": b"\x93NUMPY\x01\0"}, "s.npy"),
}


@pytest.mark.parametrize(("lists", "files", "place"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_clear_is_refused_with_its_place(
    lists: Any, files: Mapping[str, Any], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabelFileError) as caught:
        open_source(root, split_list=lists)
    assert caught.value.place == place


def test_a_name_that_may_be_two_images_is_refused_and_a_folder_of_its_split_decides(tmp_path: Path) -> None:
    root = plant(tmp_path, {"images/cat/3.png": image_file(), "a.txt": "1\n3\n", "b.txt": "2\n4\n"})
    with pytest.raises(LabelFileError, match=r"'3' may be 'cat/3\.png' or 'dog/3\.png' \(1 such name\)"):
        open_source(root, split_list={"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"})
    for name in ("cars_train/1.png", "cars_train/2.png", "cars_test/1.png", "cars_test/2.png"):
        put(tmp_path / "cars" / name, image_file())
    put(tmp_path / "a.txt", "1.png\n2.png\n")
    lists = {"train": tmp_path / "a.txt", "none": "rest"}
    source = open_source(tmp_path / "cars", split_list=lists, reader="folder", options=_unlabelled())
    assert [*splits_of(source)] == ["cars_train/1.png", "cars_train/2.png"]


def _unlabelled() -> Any:
    return shardfeed.converters.LabelOptions(unlabelled=True)


def test_images_in_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path, {"train.txt": "1\n", "test.txt": "2\n"})
    monkeypatch.chdir(tmp_path)
    left_out = open_source(root, split_list=TWO)
    assert splits_of(left_out) == {"cat/1.png": "train", "cat/2.png": "test"}
    assert "images in no list, left out: 2 (dog/3.png, dog/4.png)" in info_of(left_out).findings.notes
    for alone in ({"test": "test.txt"}, {"train": "train.txt"}, {"val": "train.txt", "test": "test.txt"}):
        with pytest.raises(UsageError) as caught:
            open_source(root, split_list=alone)
        assert caught.value.place == "split_list"
    rest = open_source(root, split_list={"test": "test.txt", "train": "rest"})
    assert [*splits_of(rest).values()] == ["train", "test", "train", "train"]
    assert len(open_source(root, split_list={"test": "test.txt", "none": "rest"})) == 1
    assert len(open_source(root, split_list={"test": "rest", "none": "test.txt"})) == 3


def test_names_without_an_image_are_bad_images(tmp_path: Path) -> None:
    lists = {"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"}
    root = plant(tmp_path, {"a.txt": "1\n3\nfox/7\n", "b.txt": "2\n8.png\n4\n"})
    with pytest.raises(TooManyRejectedError) as caught:
        convert(root, tmp_path / "out", split_list=lists, workers=1)
    assert [(one.key, one.why) for one in caught.value.rejected] == [
        (b"8.png", "b.txt:2: no image has this name"),
        (b"fox/7", "a.txt:3: no image has this name"),
    ]
    report = convert(root, tmp_path / "out", split_list=lists, workers=1, max_bad=2)
    assert sizes(report) == {"train": 2, "test": 2}


def test_inputs_that_the_reader_rejects_count_if_they_are_in_a_list(tmp_path: Path) -> None:
    root = plant(tmp_path, {"a.txt": "1\n5\n", "b.txt": "2\n"})
    for name in ("5.png", "6.png"):
        put(root / name, image_file())  # beside the class folders: no class
    source = open_source(root, split_list={"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"})
    assert [one.key for one in info_of(source).findings.rejected] == [b"5.png"]


def test_a_changed_list_changes_only_its_shards(tmp_path: Path) -> None:
    root = plant(tmp_path, {"a.txt": "1\n3\n", "b.txt": "2\n4\n"})
    lists = {"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"}
    convert(root, tmp_path / "one", split_list=lists, workers=1)
    put(tmp_path / "a.txt", "1\n3\n4\n")
    put(tmp_path / "b.txt", "2\n")
    report = convert(root, tmp_path / "two", split_list=lists, workers=1)
    assert sizes(report) == {"train": 3, "test": 1}
    put(tmp_path / "more/cat/9.png", image_file())
    put(tmp_path / "more/dog/8.png", image_file())
    put(tmp_path / "c.txt", "9.png\n")
    more = {"test": tmp_path / "c.txt", "train": "rest"}
    grown = append(tmp_path / "two", tmp_path / "more", tmp_path / "three", split_list=more)
    assert sizes(grown) == {"train": 4, "test": 2}


def test_an_open_source_takes_lists_and_the_users_own_states_its_splits(tmp_path: Path) -> None:
    root = plant(tmp_path, {"a.txt": "1\n3\n", "b.txt": "2\n4\n"})
    lists = {"train": tmp_path / "a.txt", "test": tmp_path / "b.txt"}
    opened = FileNames(root, pattern=r"(?P<label>\w+)/\d\.png")
    report = convert(opened, tmp_path / "out", split_list=lists, workers=1)
    assert report.images == 4

    class Own:
        schema = Schema({LABEL: Feature("int64")}, {LABEL: ("cat",)})

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Sample:
            return Sample(b"1.png", image_file(), {LABEL: [0][index]})

    with pytest.raises(UsageError, match="states the splits"):
        convert(Own(), tmp_path / "own", split_list=lists)


ROW = {"label": "cat", "caption": "a cat", "number": 1, "objects": [{"bbox": (2, 4, 10, 12), "category": "cat"}]}


@pytest.mark.parametrize("reader", BUILDERS)
def test_every_reader_takes_lists_or_says_that_its_samples_have_no_names(tmp_path: Path, reader: str) -> None:
    builder = BUILDERS[reader]
    rows = [{"image": image_file(), "key": f"{i:09}", **_said(builder.says)} for i in range(4)]
    (tmp_path / "in").mkdir()
    builder.write(tmp_path / "in", {"one": rows})
    path = tmp_path / "in" / builder.path
    plain = open_source(path, reader=reader, options=builder.kind(**(builder.masks if "mask" in builder.says else {})))
    keys = [one.key.decode() for one in plain]
    put(tmp_path / "train.txt", "".join(f"{key}\n" for key in keys[::2]))
    put(tmp_path / "test.txt", "".join(f"{key}\n" for key in keys[1::2]))
    lists = {"train": tmp_path / "train.txt", "test": tmp_path / "test.txt"}
    options = builder.kind(**(builder.masks if "mask" in builder.says else {}))
    assert isinstance(plain, ColumnarSource)
    if getattr(plain.keys, "numbered", False):
        with pytest.raises(UsageError) as caught:
            open_source(path, reader=reader, options=options, split_list=lists)
        assert caught.value.place == "split_list"
        return
    source = open_source(path, reader=reader, options=options, split_list=lists)
    assert splits_of(source) == {key: ("train", "test")[i % 2] for i, key in enumerate(keys)}


def _said(says: frozenset[str]) -> dict[str, Any]:
    """The values of a row that a format can say."""
    found = {key: value for key, value in ROW.items() if key in says}
    if "label" in found and "name" not in says:
        found["label"] = 0
    if "tags" in says and "label" not in says:
        found["tags"] = ["cat"]
    if "mask" in says:
        found = {"mask": np.arange(40 * 60, dtype=np.uint8).reshape(40, 60) % 3}
    return found


def test_typed_lists() -> None:
    assert typed_split_lists(["train=a.txt", "test=b=c.txt"]) == {"train": ["a.txt"], "test": ["b=c.txt"]}
    assert typed_split_lists(["train=a.txt", "train=b.txt"]) == {"train": ["a.txt", "b.txt"]}
    assert typed_split_lists(["lists/a=b.txt"]) == "lists/a=b.txt"
    for texts in (["a.csv", "train=b.txt"], ["a.csv", "b.csv"], ["train="]):
        with pytest.raises(UsageError):
            typed_split_lists(texts)


ONE = (("train", 4), ("test", 2), ("data", 3))


def _arrays(count: int) -> dict[str, Any]:
    return {"x": np.zeros((count, 8, 8, 3), np.uint8), "y": np.arange(count) % 2}


def _npz(root: Path) -> None:
    for name, count in ONE:
        np.savez(root / f"{name}.npz", **_arrays(count))


def _hdf5(root: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the extra of HDF5 is missing")
    for name, count in ONE:
        with h5py.File(root / f"{name}.h5", "w") as file:
            for key, array in _arrays(count).items():
                file[key] = array


def _mat(root: Path) -> None:
    for name, count in ONE:
        arrays = _arrays(count)
        put(root / f"{name}.mat", mat(X=np.moveaxis(arrays["x"], 0, -1), y=arrays["y"][:, None]))


def _arrays_of_one_file(root: Path) -> None:
    named: Any = {f"{key}_{name}".removesuffix("_data"): a for name, n in ONE for key, a in _arrays(n).items()}
    np.savez(root / "all.npz", **named)


@pytest.mark.parametrize("write", [_npz, _hdf5, _mat, _arrays_of_one_file])
def test_images_in_no_split_beside_others_are_asked_for(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    with pytest.raises(UsageError) as caught:
        convert(tmp_path / "in", tmp_path / "out", workers=1)
    assert caught.value.place == "split"
    assert not (tmp_path / "out").exists()
    for lists, splits in (
        ({"extra": "rest"}, {"train": 4, "test": 2, "extra": 3}),
        ({"train": "rest"}, {"train": 7, "test": 2}),
        ({"none": "rest"}, {"train": 4, "test": 2}),
    ):
        report = convert(tmp_path / "in", tmp_path / next(iter(lists)), split_list=lists, workers=1)
        assert sizes(report) == splits
    drawn = convert(tmp_path / "in", tmp_path / "drawn", split={"train": 0.5, "validation": 0.5}, workers=1)
    assert drawn.manifest.splits["test"].records == 2


def test_the_split_of_all_is_not_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **_arrays(3))
    report = convert(tmp_path / "data.npz", tmp_path / "out", workers=1)
    assert [*report.manifest.splits] == ["train"]
    with pytest.raises(UsageError, match="no list"):
        convert(tmp_path / "data.npz", tmp_path / "two", split_list={"test": "rest"}, workers=1)


def test_extra_is_a_split_of_its_own(tmp_path: Path) -> None:
    for name, count in (("train_32x32", 4), ("test_32x32", 2), ("extra_32x32", 3)):
        put(
            tmp_path / "in" / f"{name}.mat",
            mat(X=np.zeros((8, 8, 3, count), np.uint8), y=(np.arange(count) % 2)[:, None]),
        )
    report = convert(tmp_path / "in", tmp_path / "out", workers=1)
    assert sizes(report) == {
        "train": 4,
        "test": 2,
        "extra": 3,
    }
