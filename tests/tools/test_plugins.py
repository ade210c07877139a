"""A package that is installed beside ours adds a reader, an engine and a command."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from boxes_package import POINTS, add_points, install_package, write_package

from shardfeed.converters import AnnotationOptions, ImageFolder, NamedWorkers, convert, open_source
from shardfeed.converters.sources.source import info_of
from shardfeed.errors import UsageError
from shardfeed.readers import verify
from shardfeed.tools.cli import main

from repository import ROOT

LINES = "circle.001.jpg 1 2 30 40 ring\nsquare.001.jpg 5 5 9 9 dot\nsquare.001.jpg 1 1 9 9 ring\n"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two images, and a file of the package's format."""
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("circle.001.jpg", "square.001.jpg"):
        shutil.copy(ROOT / "data_samples" / "flat" / name, folder)
    (folder / "all.boxes").write_text(LINES)
    return folder


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A folder per class, beside a file that might be of the package's format."""
    for name in ("circle", "square"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        shutil.copy(ROOT / "data_samples" / "flat" / f"{name}.001.jpg", tmp_path / "classes" / name)
    (tmp_path / "classes" / "all.boxes").write_text("of paper\n")
    return tmp_path / "classes"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages on sys.path, empty."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    for name in [name for name in sys.modules if name.split(".")[0] == "their_boxes"]:
        monkeypatch.delitem(sys.modules, name)
    return site


@pytest.fixture
def package(site: Path) -> Path:
    """The package, as an installation leaves it."""
    write_package(site)
    add_points(site, "their-boxes", POINTS)
    return site


@pytest.mark.usefixtures("package")
def test_a_reader_of_a_package_is_detected_and_chosen_by_name(images: Path) -> None:
    said = "boxes: images and boxes in lines; 2 images, 3 objects of 2 classes"
    assert info_of(open_source(images)).described == f"recognised as {said}"
    beside = AnnotationOptions(images=images)
    assert info_of(open_source(images / "all.boxes", options=beside)).described == f"recognised as {said}"
    source = open_source(images / "all.boxes", reader="boxes", options=beside)
    assert [len(sample.objects or ()) for sample in source] == [1, 2]
    with pytest.raises(UsageError, match=r"expected one of webdataset, .*, folder, boxes;"):
        open_source(images, reader="bokses")
    with pytest.raises(UsageError, match="unit is for"):
        open_source(images, reader="boxes", options=AnnotationOptions(unit="fractions"))


@pytest.mark.usefixtures("package")
def test_an_engine_of_a_package_writes_the_shards(images: Path, tmp_path: Path) -> None:
    report = convert(images, tmp_path / "out", workers=NamedWorkers("here", 3))
    assert "3 workers are this process" in report.notes
    assert verify(report.out)
    with pytest.raises(UsageError, match="engine: got 'there', expected one of local, ray, here"):
        convert(images, tmp_path / "none", workers=NamedWorkers("there"))


@pytest.mark.usefixtures("package")
def test_the_command_line_has_reader_engine_and_command(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(images / "all.boxes")
    assert main(["convert", str(images), str(tmp_path / "out"), "--reader", "boxes", "--engine", "here"]) == 0
    assert "read as boxes, as requested" in capsys.readouterr().out
    assert main(["count", file, file, "--total"]) == 0
    assert capsys.readouterr().out == "6\n"
    assert main(["--help"]) == 0
    assert "of other packages:\n  count       of the package their-boxes 1.5\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["help", "count"])
    assert "print one number" in capsys.readouterr().out
    assert main(["count"]) == 2
    assert "expected FILES too" in capsys.readouterr().err
    assert main(["convert", file, str(tmp_path / "none"), "--engine", "hree"]) == 2
    assert "--engine: got 'hree', expected one of local, ray, here; did you mean here?" in capsys.readouterr().err
    assert main(["completion", "bash"]) == 0
    assert 'count:-*) words="--total"' in capsys.readouterr().out
    assert main(["cuont"]) == 2
    assert "count" in capsys.readouterr().err


BROKEN = {
    "no_such_module:boxes": "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    "json:boxes": "cannot be imported: AttributeError",
    "json:loads": "is <function loads .*>, expected ",
}


@pytest.mark.parametrize("point", BROKEN)
def test_a_broken_package_is_named_and_stops_nobody_else(
    point: str, site: Path, images: Path, classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = dict.fromkeys(("shardfeed.readers", "shardfeed.commands"), f"boxes = {point}")
    add_points(site, "their-boxes", groups | {"shardfeed.engines": f"boxes = {point.replace('loads', '__name__')}"})
    problem = f"of their-boxes 1.5 {BROKEN[point]}"
    with pytest.raises(UsageError, match=f"reader: the reader 'boxes' {problem}"):
        open_source(images, reader="boxes")
    if point != "json:loads":
        with pytest.raises(UsageError, match=f"engine: the engine 'boxes' {problem}"):
            convert(ImageFolder(classes), tmp_path / "none", workers=NamedWorkers("boxes"))
    assert main(["completion", "bash"]) == 0
    assert "boxes:-*" not in capsys.readouterr().out
    assert main(["boxes"]) == 2
    error = capsys.readouterr().err
    assert re.search(f"the command 'boxes' {problem}", error)
    assert error.endswith("; update the package their-boxes, or uninstall it\n")
    assert main(["--help"]) == 0  # which imports no command
    with pytest.warns(UserWarning, match=problem):
        assert len(open_source(classes)) == 2


def test_a_bug_in_a_packages_reader_stops_nobody_else(
    package: Path, classes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(package / "their_boxes" / "__init__.py", "a") as file:
        file.write("\nboxes.module.recognise = lambda look, options: 1 // 0\n")
    with pytest.warns(UserWarning, match=r"the reader 'boxes' of their-boxes 1\.5 is not used: ZeroDivisionError"):
        assert len(open_source(classes)) == 2
    assert main(["convert", str(classes), str(tmp_path / "out"), "--quiet"]) == 0
    assert capsys.readouterr().err.startswith("shardfeed: warning: the reader 'boxes' of their-boxes 1.5 is not used")


def test_a_name_of_ours_keeps_its_meaning_and_one_of_two_packages_has_none(
    package: Path, classes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_points(package, "more-boxes", POINTS)
    add_points(
        package, "coco", {"shardfeed.readers": "coco = their_boxes:boxes", "shardfeed.commands": "verify = json"}
    )
    with pytest.raises(UsageError, match=r"of more-boxes 1\.5 and their-boxes 1\.5: two packages have"):
        open_source(classes, reader="boxes")
    with pytest.warns(UserWarning, match=r"the reader 'coco' of coco 1\.5 is not used: shardfeed has a reader"):
        assert len(open_source(classes)) == 2
    assert main(["verify", str(classes)]) != 0
    assert "MANIFEST" in capsys.readouterr().err.upper()


def test_a_list_of_entry_points_that_cannot_be_read_hides_its_package_alone(package: Path, images: Path) -> None:
    add_points(package, "damaged", {"shardfeed.readers": "="})
    (package / "damaged-1.5.dist-info" / "entry_points.txt").write_bytes(b"[a]\nno equals sign\n")
    with pytest.warns(UserWarning, match=r"entry points of damaged 1\.5 cannot be read"):
        assert info_of(open_source(images)).described.startswith("recognised as boxes")


def test_nobody_asks_for_packages_where_ours_have_the_name(images: Path, tmp_path: Path) -> None:
    """It takes up to a tenth of a second."""
    (images / "all.boxes").unlink()
    script = """
import sys
from shardfeed.tools.cli import main
main(["convert", *sys.argv[1:], "--unlabelled", "--engine", "local", "--workers", "1", "--quiet"])
main(["inspect", sys.argv[2], "--json"])
assert "importlib.metadata" not in sys.modules
"""
    words = [sys.executable, "-c", script, str(images), str(tmp_path / "out")]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_a_package_that_pip_installed_runs_its_own_contract(images: Path, tmp_path: Path) -> None:
    project, target = tmp_path / "project", tmp_path / "target"
    write_package(project)
    install_package(project, target)
    environment = os.environ | {"PYTHONPATH": str(target)}

    def run(*words: object, cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, words)], env=environment, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    command = ("-m", "shardfeed.tools.cli")
    assert "recognised as boxes" in run(*command, "convert", images, "out", "--engine", "here")
    assert run(*command, "count", images / "all.boxes") == "3\n"
    python = "from shardfeed.converters import *; print(len(open_source('images', reader='boxes')))"
    assert run("-c", python) == "2\n"
    shutil.copy(project / "test_boxes.py", tmp_path)
    assert " passed" in run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "test_boxes.py")
