"""Files of many samples beside images, and those that almost can be read: what a user is told."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_tfrecords import write
from object_images import put
from PIL import Image

from shardfeed.converters import convert, open_source
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError
from shardfeed.tools import cli


@pytest.fixture
def png() -> bytes:
    """An image file."""
    with io.BytesIO() as file:
        Image.new("RGB", (8, 8)).save(file, "PNG")
        return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with eight images and their labels in digits.npz."""
    (tmp_path / "source").mkdir()
    np.savez(tmp_path / "source" / "digits.npz", images=np.zeros((8, 9, 9), np.uint8), labels=np.arange(8) % 2)
    return tmp_path / "source"


@pytest.mark.parametrize("name", ["1.jpg", "images/1.jpg", "train/cat/1.JPG"])
def test_images_beside_are_not_left_out_in_silence(folder: Path, name: str) -> None:
    put(folder / name, b"")
    with pytest.raises(UsageError) as caught:
        open_source(folder)
    assert f"2 readers match it (folder: images ({name}); npz: 1 .npz file" in str(caught.value)
    assert len(open_source(folder, reader="npz")) == 8


def test_a_folder_of_images_alone_asks_no_reader(tmp_path: Path) -> None:
    """Importing them takes longer than converting a few images."""
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.JPG").write_bytes(b"")
    script = (
        "import sys\nfrom shardfeed.converters import open_source\n"
        f"assert len(open_source({str(tmp_path)!r})) == 1\n"
        "assert not [name for name in sys.modules if name.endswith(('.parquet.reader', '.arrays.npz', '.lmdb'))]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_hidden_or_far_below_is_not_meant(folder: Path) -> None:
    for name in (".cache/1.jpg", ".1.jpg", "docs/build/pictures/1.jpg"):
        put(folder / name, b"")
    assert len(open_source(folder)) == 8


@pytest.mark.parametrize("options", [{"include": "*.npz"}, {"exclude": ["x"]}, {"follow_links": True}])
@pytest.mark.parametrize("reader", [None, "npz"])
def test_patterns_of_files_are_not_ignored(folder: Path, options: dict[str, Any], reader: str | None) -> None:
    """Samples are no files: all would have been taken."""
    with pytest.raises(UsageError, match=f"{next(iter(options))} applies to image files, but.*as npz; give only the"):
        open_source(folder, reader=reader, **options)


def test_a_tar_of_class_folders(tmp_path: Path, png: bytes) -> None:
    """It reads like a WebDataset without labels, and the classes would be lost in silence."""
    for name, folders in (("classes.tar", ("cat", "dog")), ("one.tar", ("train",)), ("none.tar", ("",))):
        with tarfile.open(tmp_path / name, "w") as tar:
            for key in (os.path.join(folder, f"{i}.png") for folder in folders for i in range(3)):
                member = tarfile.TarInfo(key)
                member.size = len(png)
                tar.addfile(member, io.BytesIO(png))
    notes = notes_of(tmp_path / "classes.tar")
    assert notes[1].startswith("no labels, and images in several folders (cat, dog): if those are classes, unpack")
    assert not any("folders" in note for name in ("one", "none") for note in notes_of(tmp_path / f"{name}.tar"))


def notes_of(path: Path) -> list[str]:
    """Notes of the report about a source."""
    source = open_source(path)
    assert isinstance(source, ColumnarSource)
    return list(source.findings.notes)


def test_flags_are_told_where_a_command_was_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asking for the reader would not help: what it lacks is all that is told."""
    path = tmp_path / "a.npz"
    np.savez(path, stack=np.zeros((8, 9, 9), np.uint8), kinds=np.arange(8) % 2)
    assert cli.main(["convert", str(path), str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip()
    assert said.endswith("kinds int64 [8]; name the array of images: --columns image=stack,label=NAME")
    assert cli.main(["convert", str(path), str(tmp_path / "out"), "--columns", "image=stacks"]) == 2
    assert capsys.readouterr().err.strip().endswith("; correct --columns")
    with pytest.raises(UsageError, match=r"name the array of images: columns=\{'image': 'stack'\}$"):
        open_source(path)


def test_what_was_taken_is_said_once(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the first line, and in the JSON report as the first of its notes; how arrays are read is told below."""
    said = "recognised as npz: 8 images from images, labels from labels"
    assert cli.main(["convert", str(folder), str(tmp_path / "a"), "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{said}\n")
    assert shown.count("8 images from") == 1
    assert "note: axes of images: images, height, width\n" in shown
    for dry in (["--dry-run"], []):
        assert cli.main(["convert", str(folder), str(tmp_path / "b"), "--workers", "1", "--json", *dry]) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert notes[0] == said
        assert "axes of images: images, height, width" in notes


@pytest.mark.parametrize("reader", [None, "tfrecord"])
def test_what_is_in_records_is_said_once(tmp_path: Path, reader: str | None, png: bytes) -> None:
    write(tmp_path / "in" / "train-00000-of-00001", [{"image/encoded": png, "image/class/label": n} for n in range(2)])
    report = convert(open_source(tmp_path / "in", reader=reader), tmp_path / "out", workers=1)
    told = [note for note in report.notes if "image from image/encoded" in note]
    by = "recognised as tfrecord" if reader is None else "read as tfrecord, as requested"
    assert told == [f"{by}: 1 TFRecord file, 2 samples: image from image/encoded, label from image/class/label"]


def test_a_dry_run_counts_the_objects_in_records(
    tmp_path: Path, png: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = {
        f"image/object/bbox/{side}": [at, at]
        for side, at in zip(("xmin", "ymin", "xmax", "ymax"), (0.1, 0.2, 0.6, 0.7), strict=True)
    }
    row = {"image/encoded": png, **sides, "image/object/class/label": [0, 1], "image/object/class/text": [b"a", b"b"]}
    write(tmp_path / "in" / "train-00000-of-00001", [row])
    assert cli.main(["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["planned"]["objects"], report["planned"]["without_objects"]) == (2, 0)
    assert report["splits"]["train"]["class_counts"]["image/object/class/label"] == [1, 1]


def test_what_is_suggested_for_bad_records_works(
    tmp_path: Path, png: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no files: --exclude would be refused."""
    write(tmp_path / "in" / "train-00000-of-00001", [{"image/encoded": png}, {"image/encoded": b""}])
    command = ["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--workers", "1"]
    assert cli.main(command) == 3
    said = capsys.readouterr().err
    assert "nothing was written; repair or remove them, or run again with --max-bad 1" in said
    assert "--exclude" not in said
    assert cli.main([*command, "--max-bad", "1"]) == 0
