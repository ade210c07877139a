"""Which source a path means, from Python and from the command alike."""

from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import FileNames, ImageFolder, LabelFile, convert, open_source
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL
from shardfeed.tools import cli


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three folders of images, and two label files."""
    for name in ("classes/cat/1.jpg", "classes/dog/2.jpg", "flat/cat_1.jpg", "flat/dog_2.jpg", "deep/x/cat_1.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
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
    name: str,
    options: dict[str, Any],
    kind: type,
    names: tuple[str, ...],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    source = open_source(name, **options)
    assert type(source) is kind
    assert source.schema.class_names[LABEL] == names


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("none", {}, "none: no such folder"),
        ("labels.csv", {"labels": "labels.csv"}, "is a file, and so is the one with the labels"),
        ("labels.csv", {"pattern": "(?P<label>x)"}, "either from a file or from file names"),
        ("classes", {"header": True}, "is a folder, and header is about a label file"),
        ("flat", {"path_column": 0}, "is a folder, and path_column is about a label file"),
        ("classes", {"class_names": {"kind": ["a"]}}, "about the columns of a label file"),
    ],
)
def test_what_cannot_be_meant(
    name: str, options: dict[str, Any], said: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match=said):
        open_source(name, **options)


def test_a_path_converts_as_the_command_does(flowers_folder: Path, tmp_path: Path) -> None:
    report = convert(flowers_folder, tmp_path / "python", workers=1)
    assert cli.main(["convert", str(flowers_folder), str(tmp_path / "command"), "--workers", "1", "--quiet"]) == 0
    ours, theirs = (shardfeed.open(tmp_path / name) for name in ("python", "command"))
    assert ours.manifest.fingerprint == theirs.manifest.fingerprint == report.manifest.fingerprint
    assert [*ours["train"]] == [*theirs["train"]]


@pytest.mark.parametrize("source", [3, None, b"photos", [1, 2]])
def test_what_is_no_source(source: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"source: got .*, expected a path, or samples with a schema"):
        convert(source, tmp_path / "out")  # type: ignore[arg-type]  # that is what is refused


def test_an_output_inside_the_folder_is_refused(place: Path) -> None:
    """The next run would take it for images. A label file's folder is another thing: only what it names is taken."""
    for source in (ImageFolder(place / "classes"), FileNames(place / "flat"), str(place / "classes")):
        folder = place / ("flat" if isinstance(source, FileNames) else "classes")
        before = sorted(folder.rglob("*"))
        with pytest.raises(UsageError, match="lies inside the source"):
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
    assert len(open_source(path, follow_links=True, **labels)) == 3  # type: ignore[arg-type]
    plain = open_source(path, **labels)  # type: ignore[arg-type]
    assert [skipped.code for skipped in plain.findings.rejected] == ["E_PATH_ESCAPE"]
    chosen = open_source(path, include=["*1.jpg", "*2.jpg"], exclude="f*", **labels)  # type: ignore[arg-type]
    assert len(chosen) == 2
    assert not chosen.findings.rejected
    said = "rows whose files include and exclude leave out: 1"
    assert (said in chosen.findings.notes) == (name == "labels")


def test_a_row_that_names_no_image_is_held_against_the_label_file(place: Path, tmp_path: Path) -> None:
    (place / "classes" / "cat" / "notes.txt").write_text("meow")
    (place / "labels.csv").write_text("path,kind\ncat/1.jpg,a\ncat/notes.txt,b\n")
    assert [sample.key for sample in LabelFile(place / "labels.csv", place / "classes")] == [
        b"cat/1.jpg",
        b"cat/notes.txt",
    ]
