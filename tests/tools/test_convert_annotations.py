"""`shardfeed convert` of annotations, as it is typed: what is printed before, in --dry-run, in the end, in errors."""

import json
from pathlib import Path

import pytest

from shardfeed import report
from shardfeed.converters import AnnotationOptions, open_source
from shardfeed.errors import UsageError
from shardfeed.tools import cli
from tests.converters.sources.annotations.test_coco import bad, of_coco, plant, scene

from report_page import ReportPage


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit code, what was printed, and what was printed as errors."""
    code = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


TOLD = (
    'recognised as coco: instances.json has "images" and "annotations" of objects, as in COCO; '
    "instances.json: 3 images, 3 objects of 3 classes"
)


def test_a_file_and_its_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = plant(tmp_path, scene())
    code, out, _ = typed(capsys, "convert", file, tmp_path / "out", "--images", tmp_path / "images", "--workers", "1")
    assert code == 0
    assert out.startswith(TOLD + "\n")
    assert out.count("recognised as") == 1
    assert "annotations: 3 read = 3 written (1 clipped, by at most 0.5 px) + 0 left out\n" in out
    assert "note: classes without objects in the source, kept: 1 (toothbrush (id 90))" in out


def test_a_folder_without_writing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_coco(tmp_path / "coco")
    words = ("convert", tmp_path / "coco", tmp_path / "out", "--dry-run")
    code, out, _ = typed(capsys, *words)
    assert code == 0
    assert out.startswith("recognised as coco: annotations/instances_train2017.json, annotations/instances_val2017")
    assert "6 objects, before clipping and filtering; 2 images without" in out
    lines = out.splitlines()
    start = lines.index("  class       train  validation")
    assert lines[start + 1 : start + 4] == [
        "  person          2           2",
        "  dog             1           1",
        "  toothbrush      0           0",
    ]
    code, out, _ = typed(capsys, *words, "--json")
    found = json.loads(out)
    assert (found["planned"]["objects"], found["planned"]["without_objects"]) == (6, 2)
    counts = [split["class_counts"]["image/object/class/label"] for split in found["splits"].values()]
    assert [sum(of_class) for of_class in zip(*counts, strict=True)] == [4, 2, 0]
    assert found["planned"]["left_out"] == []
    assert found["notes"][0].startswith("recognised as coco: ")
    assert not (tmp_path / "out").exists()


def test_what_is_left_out_is_listed_and_stops_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = plant(tmp_path, bad(image_id=99))
    words = ("convert", file, tmp_path / "out", "--workers", "1")
    code, out, err = typed(capsys, *words, "--dry-run")
    assert code == 3
    assert "1 annotation left out (1 E_ORPHAN):\n  instances.json: E_ORPHAN, annotation 77: its image_id is 99" in out
    assert "nothing was written; repair them, or run again with --max-bad-objects 1 (or more: " in err
    code, out, err = typed(capsys, *words)
    assert code == 3
    assert "--max-bad-objects 1" in err
    code, out, _ = typed(capsys, *words, "--max-bad-objects", "1")
    assert code == 0
    assert (
        f"annotations: 4 read = 3 written (1 clipped, by at most 0.5 px) + 1 left out, listed in {tmp_path}/out" in out
    )
    (line,) = (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()
    assert json.loads(line)["code"] == "E_ORPHAN"
    (line,) = (tmp_path / "out" / "clipped.jsonl").read_text().splitlines()
    clipped = json.loads(line)
    assert clipped["code"] == "clipped"
    assert clipped["reason"].endswith(" annotations, by at most 0.5 pixels")
    code, out, _ = typed(capsys, "inspect", tmp_path / "out")
    assert "annotations were clipped at the borders of their images, see clipped.jsonl" in out
    assert typed(capsys, "verify", tmp_path / "out")[0] == 0
    page = tmp_path / "page.html"
    report(tmp_path / "out").save(page)
    assert ReportPage(page.read_text()).text.count("Images with clipped annotations, clipped: 1") == 1


def test_tasks_and_the_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_coco(tmp_path / "coco")
    words = ("convert", tmp_path / "coco", tmp_path / "out", "--dry-run")
    code, out, _ = typed(capsys, *words, "--reader", "coco", "--tasks", "boxes, masks", "--boxes-on", "stored")
    assert code == 0
    assert out.startswith("read as coco, as requested: instances_train2017.json, instances_val2017.json: 6 images")
    assert "image/object/mask" in out
    code, out, _ = typed(capsys, *words, "--tasks", "captions")
    assert code == 0
    assert "image/caption" in out
    code, out, _ = typed(capsys, *words, "--tasks", "captions,boxes")
    assert code == 0
    assert "image/caption" in out
    assert "image/object/bbox" in out
    code, _, err = typed(capsys, *words, "--reader", "cocoa")
    assert code == 2
    assert "--reader: got 'cocoa', expected one of webdataset, parquet" in err
    code, _, err = typed(capsys, *words, "--reader", "folder")
    assert code == 2
    assert "choose a reader with --reader NAME" in err


def test_images_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    file = plant(tmp_path / "in", scene(), images=())
    code, _, err = typed(capsys, "convert", file, tmp_path / "out")
    assert code == 2
    assert "none of its images, such as b.png, is in" in err
    assert err.endswith("give their folder: --images DIR\n")
    assert len(err.splitlines()) == 1


def test_python_opens_what_the_command_does(tmp_path: Path) -> None:
    file = plant(tmp_path, scene())
    assert (
        len(open_source(file, reader="coco", options=AnnotationOptions(images=tmp_path / "images", tasks=["masks"])))
        == 3
    )
    with pytest.raises(UsageError, match="but this is read as coco; leave it out"):
        open_source(file, options=AnnotationOptions(class_names=["a"]))
