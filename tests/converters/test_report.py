"""Inputs that a report lists, and those that it only counts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, convert, from_dicts
from shardfeed.converters.rejects import LeftOut
from shardfeed.converters.shards.task import Remark
from shardfeed.converters.sources.source import Findings, info_of
from shardfeed.errors import argument
from shardfeed.tools.cli import main


@pytest.fixture
def mixed(folder: Callable[..., Path]) -> Path:
    """18 images, every third a progressive JPEG, and a bitmap."""
    root = folder(6)
    for number, path in enumerate(sorted(root.rglob("*.jpg"))):
        if number % 3 == 0:
            Image.open(path).save(path, progressive=True)
    Image.open(root / "rose" / "0001.jpg").save(root / "rose" / "0001.bmp")
    (root / "rose" / "0001.jpg").unlink()
    return root


def test_progressive_files_are_counted_or_made_baseline(mixed: Path, tmp_path: Path) -> None:
    kept = convert(ImageFolder(mixed), tmp_path / "kept", workers=1)
    assert kept.notes[0].startswith("6 progressive")
    assert kept.warnings == []
    assert "turbojpeg" not in kept.manifest.made_by
    pytest.importorskip("turbojpeg", reason="no wheel for this Python or machine")
    made = convert(ImageFolder(mixed), tmp_path / "made", workers=1, image=ImageOptions(baseline=True))
    assert [note for note in made.notes if "progressive" in note] == []
    assert [noted.what for noted in made.normalised].count("baseline") == 6
    assert {noted.what for noted in made.normalised if not noted.asked} == {"bmp"}
    assert made.manifest.made_by["turbojpeg"]
    assert made.manifest.fingerprint != kept.manifest.fingerprint
    lines = (tmp_path / "made" / "normalised.jsonl").read_text().splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["bmp"], "what was asked for needs no list"


def test_pngs_among_jpegs_are_counted_or_made_jpegs(mixed: Path, tmp_path: Path) -> None:
    remedy = "--png-to-jpeg (in Python ImageOptions(png_to_jpeg=True)) stores all as JPEG"
    note = f"1 PNG is among 17 JPEGs, but some readers only decode JPEG: {remedy}"
    assert note in convert(ImageFolder(mixed), tmp_path / "kept", workers=1).notes
    made = convert(ImageFolder(mixed), tmp_path / "made", workers=1, image=ImageOptions(png_to_jpeg=True))
    assert made.manifest.splits["train"].formats == {"jpeg": 18}
    assert [noted.what for noted in made.normalised] == ["bmp+png-to-jpeg"]
    only = convert(ImageFolder(mixed, include="*.bmp"), tmp_path / "only", workers=1)
    assert not any("PNG" in note for note in only.notes), "where all are PNGs there is nothing to stumble over"


def test_what_convert_prints_about_pixels(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: object) -> str:
        assert main(["convert", str(mixed), str(tmp_path / "out"), *map(str, arguments)]) == 0
        return capsys.readouterr().out

    raw = ("--encode", "raw", "--size", "20x30", "--workers", "1")
    assert "raw pixels: 32.4 kB, 20 * 30 * 3 = 1,800 bytes per image" in printed(*raw, "--dry-run")
    assert json.loads(printed(*raw, "--dry-run", "--json"))["planned"]["raw_bytes"] == 18 * 1800
    assert "raw pixels: about" in printed("--encode", "raw", "--dry-run")
    assert json.loads(printed("--dry-run", "--json"))["planned"]["raw_bytes"] is None
    out = printed(*raw)
    assert "17 resized+raw, as requested" in out
    assert "raw pixels: 20 * 30 * 3 = 1,800 bytes per image" in out
    record = shardfeed.open(tmp_path / "out")["train"][0]
    assert (record["image/format"], len(record["image/encoded"])) == (b"raw", 1800)  # type: ignore[arg-type]
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
    assert main(["inspect", str(tmp_path / "out"), "--records", "1"]) == 0
    assert "<1800 bytes, uint8 [20, 30, 3]>" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--encode", "raw", "--quality", "90"],
        ["--encode", "raw", "--baseline"],
        ["--size", "256", "--resize-shorter", "256"],
        ["--size", "256x"],
        ["--size", "-3"],
        ["--size", "0"],
        ["--size", "1x2x3"],
        ["--size", "70000"],
        ["--encode", "webp"],
    ],
)
def test_options_that_cannot_be_meant(mixed: Path, tmp_path: Path, options: list[str]) -> None:
    try:
        code = main(["convert", str(mixed), str(tmp_path / "out"), *options])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    assert code == 2
    assert not (tmp_path / "out").exists()


def test_a_reason_with_an_option_reads_as_typed_and_as_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = Image.Exif()
    turned[0x112] = 6
    Image.new("RGB", (60, 40)).save(tmp_path / "a.jpg")
    Image.new("RGB", (60, 40)).save(tmp_path / "b.jpg", exif=turned)
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("filename,class,xmin,ymin,xmax,ymax\na.jpg,cat,1,1,9,9\nb.jpg,cat,1,1,9,9\n")
    assert main(["convert", str(boxes), str(tmp_path / "out"), "--max-bad", "1", "--workers", "1"]) == 0
    for text in (capsys.readouterr().out, (tmp_path / "out" / "rejected.jsonl").read_text()):
        assert "give --boxes-on upright|stored (in Python boxes_on='upright' or 'stored')" in text
    reason = f"{argument('colours', typed='FILE')} names colours"
    for told in (Remark(b"a", "E_MASK_LOSSY", reason).why, LeftOut(b"a", "E_OUTLINE", reason).reason):
        assert told == "--colours FILE (in Python colours) names colours"
    source = from_dicts([{"image": (tmp_path / "a.jpg").read_bytes(), "key": "a.jpg"}])
    noted = replace(source, findings=Findings(notes=[reason]))
    assert info_of(noted).findings.notes == ["--colours FILE (in Python colours) names colours"]
