"""Which source a path means, from Python and from the command alike."""

import json
from pathlib import Path
from typing import Any

import pytest
from object_images import put
from PIL import Image

import shardfeed
from shardfeed.converters import FileNames, ImageFolder, LabelFile, LabelOptions, Unlabelled, convert, open_source
from shardfeed.converters.sources.options import options_of
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL
from shardfeed.tools import cli


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three folders of images, and two label files."""
    for name in ("classes/cat/1.jpg", "classes/dog/2.jpg", "flat/cat_1.jpg", "flat/dog_2.jpg", "deep/x/cat_1.jpg"):
        path = tmp_path / name
        put(path, name)
    (tmp_path / "labels.csv").write_text("path,kind\ncat/1.jpg,a\ndog/2.jpg,b\n")
    (tmp_path / "classes" / "labels.csv").write_text("cat/1.jpg;a\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "kind", "names"),
    [
        ("classes", {}, ImageFolder, ("cat", "dog")),
        ("classes", {"class_names": ["dog", "cat", "cow"]}, ImageFolder, ("dog", "cat", "cow")),
        ("flat", {}, FileNames, ("cat", "dog")),
        ("deep", {"pattern": r"(?P<label>[a-z]+)_.*"}, FileNames, ("cat",)),
        ("classes/labels.csv", {"delimiter": ";", "header": False}, LabelFile, ("a",)),
        ("classes", {"labels": "labels.csv"}, LabelFile, ("a", "b")),
        ("classes", {"labels": "labels.csv", "label_columns": ["kind"], "path_column": 0}, LabelFile, ("a", "b")),
    ],
)
def test_what_a_path_means(
    name: str, options: dict[str, Any], kind: type, names: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    source = open_source(name, options=options_of(options))
    assert type(source) is kind
    assert source.schema.class_names[LABEL] == names


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("none", {}, "none: no such file or folder"),
        ("labels.csv", {"labels": "labels.csv"}, "is a file, but the labels"),
        ("labels.csv", {"pattern": "(?P<label>x)"}, "pattern is for folder, but this is read as labels"),
        ("classes", {"header": True}, "is a folder, but header is for a label file"),
        ("flat", {"path_column": 0}, "is a folder, but path_column is for a label file"),
        ("classes", {"class_names": {"kind": ["a"]}}, "for the columns of a label file"),
        ("classes", {"text_columns": ["kind"]}, "is a folder, but text_columns is for a label file"),
        ("classes", {"encoding": "latin-1"}, "encoding: got 'latin-1', but the source has no text"),
        ("classes", {"unlabelled": True, "pattern": "(?P<label>x)"}, "unlabelled: pattern is for labels"),
        ("classes", {"unlabelled": True, "class_names": ["a"]}, "unlabelled: class_names is for labels"),
        ("classes", {"unlabelled": True, "labels": "labels.csv", "one_hot": ["kind"]}, "one_hot is for labels"),
    ],
)
def test_what_cannot_be_meant(
    name: str, options: dict[str, Any], said: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match=said):
        open_source(name, options=options_of(options))


@pytest.mark.parametrize(
    ("name", "options", "kind", "keys"),
    [
        ("flat", {}, Unlabelled, [b"cat_1.jpg", b"dog_2.jpg"]),
        ("classes", {}, Unlabelled, [b"cat/1.jpg", b"dog/2.jpg"]),
        ("classes", {"labels": "labels.csv"}, LabelFile, [b"cat/1.jpg", b"dog/2.jpg"]),
        ("classes", {"labels": "labels.csv", "text_columns": ["kind"]}, LabelFile, [b"cat/1.jpg", b"dog/2.jpg"]),
    ],
)
def test_images_without_labels(
    name: str, options: dict[str, Any], kind: type, keys: list[bytes], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    source = open_source(name, options=options_of({"unlabelled": True, **options}))
    assert type(source) is kind
    assert [sample.key for sample in source] == keys
    assert not source.schema.class_names


def test_unlabelled_folders_may_be_splits(tmp_path: Path) -> None:
    for name in ("val/a/1.jpg", "test/2.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    assert [(sample.key, sample.split) for sample in Unlabelled(tmp_path)] == [
        (b"test/2.jpg", "test"),
        (b"val/a/1.jpg", "validation"),
    ]
    (tmp_path / "3.jpg").write_text("x")
    assert {sample.split for sample in Unlabelled(tmp_path)} == {None}
    with pytest.raises(UsageError, match="no file in it"):
        (tmp_path / "none").mkdir()
        Unlabelled(tmp_path / "none")


TABLE = """id;tags;age;caption;fold;area
cat/1;big|red;31;"two; cats";0;[1, 2]
dog/2;red;;a dog;1;[3, 4]
"""


def test_the_command_takes_what_python_takes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "kaggle.csv").write_bytes((TABLE + "cat/3;Café;1;x;1;[0, 0]\n").encode("latin-1"))
    arguments = ["convert", str(place / "classes"), str(place / "out"), "--labels", str(place / "kaggle.csv")]
    arguments += ["--label-column", "tags", "--label-separator", "|", "--text-column", "4", "--split-column", "fold"]
    arguments += ["--number-column", "age", "--missing", "age=nan", "--number-column", "area:float:2"]
    arguments += ["--max-bad", "1"]  # cat/3 is not there
    assert cli.main([*arguments, "--encoding", "latin-1", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {name: split["records"] for name, split in plan["splits"].items()} == {"fold_0": 1, "fold_1": 1}
    assert plan["class_names"] == {LABEL: ["Café", "big", "red"]}
    kinds = {key: (kept["dtype"], kept["shape"], kept["kind"]) for key, kept in plan["features"].items()}
    assert kinds["image/age"] == ("float32", [], "number")
    assert kinds["image/caption"] == ("bytes", [], "text")
    assert kinds["image/area"] == ("float32", [2], "number")
    assert kinds[LABEL] == ("int64", [None], "tags")
    assert cli.main([*arguments, "--encoding", "latin-1", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "  image/caption      bytes    text    one\n" in printed
    assert "  image/area         float32  number  2\n" in printed
    assert cli.main([*arguments, "--dry-run"]) == 2
    assert "kaggle.csv:4, column 'tags': got the class name 'Caf\\udce9'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--missing", "age"], "got 'age', expected COLUMN=VALUE"),
        (["--label-separator", "|", "--label-separator", "x=;"], "got '|' with others"),
        (["--label-separator", "kind=|", "--label-separator", "x=;"], "got the column 'x', expected one of kind"),
        (["--number-column", "kind:float"], "column 'kind': got 'a', expected a number"),
    ],
)
def test_what_the_command_cannot_mean(
    options: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["--labels", str(place / "labels.csv")]
    assert cli.main(["convert", str(place / "classes"), str(place / "out"), *labels, "--dry-run", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_dataset_without_labels(flowers_folder: Path, tmp_path: Path) -> None:
    """It converts, verifies and makes batches; what wants a label says that there is none."""
    from shardfeed.pipelines import make_batches, train_batches

    convert(Unlabelled(flowers_folder), tmp_path / "out", workers=1, split={"train": 0.5, "validation": 0.5})
    split = shardfeed.open(tmp_path / "out")["train"]
    assert not split.schema.class_names
    assert cli.main(["verify", str(tmp_path / "out"), "--quiet"]) == 0
    assert cli.main(["inspect", str(tmp_path / "out")]) == 0
    batches = make_batches(
        split, lambda features, seed: features["image/filename"], batch_size=4, keys=["image/filename"]
    )
    assert len(next(iter(batches.as_numpy_iterator()))) == 4
    with pytest.raises(UsageError, match="label: this dataset has no label; label=None"):
        train_batches(split, batch_size=4, image_size=32)


def test_a_path_converts_as_the_command_does(flowers_folder: Path, tmp_path: Path) -> None:
    report = convert(flowers_folder, tmp_path / "python", workers=1)
    assert cli.main(["convert", str(flowers_folder), str(tmp_path / "command"), "--workers", "1", "--quiet"]) == 0
    ours, theirs = (shardfeed.open(tmp_path / name) for name in ("python", "command"))
    assert ours.manifest.fingerprint == theirs.manifest.fingerprint == report.manifest.fingerprint
    assert [*ours["train"]] == [*theirs["train"]]


@pytest.mark.parametrize("source", [3, None, b"photos", [1, 2]])
def test_what_is_no_source(source: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"source: got .*, expected Source or a path; see shardfeed"):
        convert(source, tmp_path / "out")  # type: ignore[arg-type]  # that is what is refused


def test_an_output_inside_the_folder_is_refused(place: Path) -> None:
    """The next run would take it for images. A label file's folder is another thing: only what it names is taken."""
    for source in (ImageFolder(place / "classes"), FileNames(place / "flat"), str(place / "classes")):
        folder = place / ("flat" if isinstance(source, FileNames) else "classes")
        before = sorted(folder.rglob("*"))
        with pytest.raises(UsageError, match="is inside the source"):
            convert(source, folder / "out")
        assert sorted(folder.rglob("*")) == before
    assert LabelFile(place / "classes" / "labels.csv").findings.folder is None


@pytest.mark.parametrize("name", ["classes", "flat", "labels"])
def test_every_source_takes_the_files_that_are_asked_for(name: str, place: Path, tmp_path: Path) -> None:
    labels = {"labels": place / "labels.csv"} if name == "labels" else {}
    path = place / ("flat" if name == "flat" else "classes")
    (tmp_path / "far").mkdir()
    kinds = {"classes": "cat/far.jpg", "flat": "cat_3.jpg", "labels": "far.jpg"}
    (tmp_path / "far" / "x.jpg").write_text("far")
    (path / kinds[name]).symlink_to(tmp_path / "far" / "x.jpg")
    if name == "labels":
        (place / "labels.csv").write_text("path,kind\ncat/1.jpg,a\ndog/2.jpg,b\nfar.jpg,a\n")
    assert len(open_source(path, follow_links=True, options=options_of(labels))) == 3  # type: ignore[arg-type]
    plain = open_source(path, options=options_of(labels))  # type: ignore[arg-type]
    assert [skipped.code for skipped in plain.findings.rejected] == ["E_PATH_ESCAPE"]
    chosen = open_source(path, include=["*1.jpg", "*2.jpg"], exclude="f*", options=options_of(labels))  # type: ignore[arg-type]
    assert len(chosen) == 2
    assert not chosen.findings.rejected
    said = "rows whose files are left out by include and exclude: 1"
    assert (said in chosen.findings.notes) == (name == "labels")


def test_a_row_that_names_no_image_is_held_against_the_label_file(place: Path, tmp_path: Path) -> None:
    (place / "classes" / "cat" / "notes.txt").write_text("meow")
    (place / "labels.csv").write_text("path,kind\ncat/1.jpg,a\ncat/notes.txt,b\n")
    assert [sample.key for sample in LabelFile(place / "labels.csv", place / "classes")] == [
        b"cat/1.jpg",
        b"cat/notes.txt",
    ]


def test_unlabelled_files_that_are_no_images_are_passed_over(tmp_path: Path) -> None:
    """As in a folder of classes: a drawing or a licence beside a test set is no broken photo."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "LICENCE").write_text("yours")
    source = open_source(tmp_path, options=LabelOptions(unlabelled=True))
    assert [sample.key for sample in source] == [b"a.png"]
    assert not source.findings.rejected
    assert any("2 files ignored" in note for note in source.findings.notes)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("1/00000000.shard/00000000.snapshot", "a dataset of tf.data's Dataset.save; load it with"),
        ("snapshot.metadata", "a dataset of tf.data's Dataset.save"),
        ("logs/events.out.tfevents.1700000000.host", "a log of TensorBoard"),
        ("export/saved_model.pb", "a SavedModel"),
        ("ckpt-1.index/checkpoint", "a checkpoint of a model"),
    ],
)
def test_folders_that_tensorflow_writes_are_named(tmp_path: Path, name: str, what: str) -> None:
    put(tmp_path / name, b"x" * 99)
    with pytest.raises(UsageError, match=f"{Path(name).name} belongs to {what}"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metadata.csv", "file_name,breed,age\na.png,pug,3\nb.png,boxer,4\n"),
        ("metadata.jsonl", '{"file_name": "a.png", "breed": "pug"}\n{"file_name": "b.png", "breed": "boxer"}\n'),
        ("list.tsv", "image\tbreed\tage\na.png\tpug\t3\nb.png\tboxer\t4\n"),
        ("nested/metadata.csv", "file_name,breed,age\na.png,pug,3\nb.png,boxer,4\n"),
    ],
)
def test_a_table_beside_images_is_named_with_the_options_that_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str
) -> None:
    """Each remedy is typed: with the file, and with the column that is its label."""
    root = tmp_path / "photos"
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(content)
    for name in "ab":
        Image.new("RGB", (4, 4)).save((root / file).with_name(f"{name}.png"))
    (tmp_path / "photos" / "nested").mkdir(exist_ok=True)
    out, table = str(tmp_path / "out"), str(root / file)
    assert cli.main(["convert", str(root), out]) == 2
    assert f"--labels {table}, with --label-column COLUMN unless it is called label" in capsys.readouterr().err
    if "/" not in file:
        assert cli.main(["convert", str(root), out, "--label-column", "breed"]) == 2
        assert f"give that file as --labels {table}" in capsys.readouterr().err
    assert cli.main(["convert", str(root), out, "--labels", table, "--label-column", "breed", "--workers", "1"]) == 0
    assert shardfeed.open(out)["train"].schema.class_names[LABEL] == ("boxer", "pug")
