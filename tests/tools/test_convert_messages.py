"""Messages of `shardfeed convert` before and after: early rejections, their language, next steps that work."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, LabelFile, Sample, convert
from shardfeed.errors import ShardfeedError, TooManyRejectedError, UsageError
from shardfeed.schema import LABEL, Feature, Schema, Value
from shardfeed.text import number, shell_quoted
from shardfeed.tools.cli import main
from shardfeed.tools.next_steps import next_steps, training_lines

from pictures import image_bytes
from repository import ROOT


def encoded(number: int) -> bytes:
    """A small JPEG file."""
    return image_bytes(Image.new("RGB", (40 + number, 32), (number * 30, 80, 40)), "JPEG")


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run: Run) -> Run:
    """Run `convert` in this process."""
    return partial(run, "convert")


@pytest.fixture
def strays(folder: Callable[..., Path]) -> Path:
    """An image folder of 9 images in classes, and 3 beside them, which have no label."""
    root = folder(3)
    for i in range(3):
        (root / f"stray{i}.jpg").write_bytes(encoded(i))
    return root


def test_a_dry_run_says_what_planning_rejects(run: Run, strays: Path, tmp_path: Path) -> None:
    code, out, err = run(strays, tmp_path / "out", "--dry-run")
    assert code == 3
    assert "9 images, " in out
    assert "damaged images are found during conversion" in out.splitlines()[0]  # nothing was opened
    assert "3 inputs rejected (3 E_NO_LABEL):\n  stray0.jpg: E_NO_LABEL, an image next to the class folders\n" in out
    assert "or run again with --max-bad 3" in err
    assert run(strays, tmp_path / "out", "--dry-run", "--max-bad", "3")[0] == 0
    plan = json.loads(run(strays, tmp_path / "out", "--dry-run", "--json")[1])
    assert [entry["key"] for entry in plan["rejected"]] == ["stray0.jpg", "stray1.jpg", "stray2.jpg"]
    assert {entry["code"] for entry in plan["rejected"]} == {"E_NO_LABEL"}


def test_what_an_earlier_run_left_is_told_in_numbers_that_agree(
    run: Run, folder: Callable[..., Path], tmp_path: Path
) -> None:
    root = folder(1)
    bad = root / "rose" / "bad.jpg"
    bad.write_bytes(b"\xff\xd8 no more")
    assert run(root, tmp_path / "out", "--workers", "1")[0] == 3
    bad.write_bytes(encoded(9))
    code, out, _ = run(root, tmp_path / "out", "--workers", "1")
    assert code == 0
    assert "0 of 1 shard is kept, and 3 images" in out
    assert "4 images (" in out
    assert "1 image in this run" in out


def test_what_a_report_looks_like_in_a_shell(strays: Path, tmp_path: Path) -> None:
    report = convert(strays, tmp_path / "out", max_bad=3, workers=1)
    shown = repr(report)
    assert shown == f"Report({str(tmp_path / 'out')!r}, committed, train: 9; 3 rejected)"
    assert "not committed, train: 9" in repr(convert(strays, tmp_path / "new", max_bad=3, dry_run=True))
    kept = shardfeed.filter(tmp_path / "out", tmp_path / "some", where="height > 0", dry_run=True)
    assert repr(kept).endswith("; 1 note)")


def test_files_of_three_kinds_and_a_fourth_are_not_told_as_three(
    run: Run, folder: Callable[..., Path], tmp_path: Path
) -> None:
    root = folder(1)
    for name in ("a.txt", "b.txt", "c.csv", "d.json"):
        (root / name).write_text("text")
    out = run(root, tmp_path / "out", "--dry-run")[1]
    assert "4 files ignored, not images by name or content: " in out
    assert "(a.txt, c.csv, d.json, ...)" in out


def test_what_planning_rejects_stops_before_an_image_is_read(
    run: Run, strays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("images are read")

    monkeypatch.setattr("shardfeed.converters.conversion.write_missing", read)
    before = sorted(os.listdir(tmp_path))
    code, out, err = run(strays, tmp_path / "out")
    assert code == 3
    assert "stray2.jpg: E_NO_LABEL" in out
    assert err.startswith(f"shardfeed: {tmp_path}/out: 3 inputs rejected (3 E_NO_LABEL: stray0.jpg, stray1.jpg, ")
    assert err.endswith("repair or remove them, leave them out with --exclude PATTERN, or run again with --max-bad 3\n")
    assert [name for name in sorted(os.listdir(tmp_path)) if not name.endswith(".lock")] == before
    report = json.loads(run(strays, tmp_path / "out", "--json", "--max-bad", "2")[1])
    assert (report["committed"], len(report["rejected"])) == (False, 3)
    assert run(strays, tmp_path / "out", "--quiet", "--max-bad", "20%")[1] == ""


def test_too_many_rejected_speaks_python_in_python(strays: Path, tmp_path: Path) -> None:
    with pytest.raises(TooManyRejectedError, match=r"stray0.jpg.* run again with max_bad=3$") as caught:
        convert(strays, tmp_path / "out")
    assert caught.value.report is None
    assert [noted.key for noted in caught.value.rejected] == [b"stray0.jpg", b"stray1.jpg", b"stray2.jpg"]
    (strays / "rose" / "broken.jpg").write_bytes(b"\xff\xd8 no more")
    with pytest.raises(TooManyRejectedError, match=r"4 inputs.*: rose/broken.jpg.*max_bad=4 to commit") as caught:
        convert(strays, tmp_path / "out", max_bad=3, workers=1)
    assert len(caught.value.rejected) == len(caught.value.report.rejected) == 4


# What is wrong -> (arguments in Python, as typed, what Python says, what the command says).
def _table(root: Path) -> Path:
    (root / "labels.csv").write_text("nowhere/1.jpg,cat\nnowhere/2.jpg,dog\n")
    return root / "labels.csv"


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        (["--size", "0"], "--size"),
        (["--pattern", "("], "--pattern: '('"),
        (["--shards", "0"], "--shards"),
        (["--max-bad", "many"], "--max-bad"),
        (["--quality", "101"], "--quality"),
        (
            ["--resize-shorter", "8", "--size", "9"],
            "--size: every image gets this size, so --resize-shorter has no effect",
        ),
        (["--split", "a=0.5"], "--split"),
        (["--shard-size", "0"], "--shard-size"),
        (
            ["--shard-size", "5"],
            "--shard-size: got '5', expected a size with its unit like 256MB; write 5MB, or --shards 5",
        ),
        (["--split", "train=0.8,test=0.1,test=0.2"], "--split: got 'test' twice"),
        (["--shards", "train=2,train=1"], "--shards: got 'train' twice"),
        (["--shards", "train=2,tset=1"], "--shards: got the split 'tset', expected 'train'"),
        (["--columns", "image=a,image=b"], "--columns: got 'image' twice"),
        (["--columns", "image="], "--columns: got 'image=', expected NAME=VALUE"),
        (["--missing", "age=1", "--missing", "age=2"], "--missing: got 'age' twice"),
        (["--number-column", "a:int", "--number-column", "a"], "--number-column: got 'a' twice"),
        (["--label-separator", "a=;", "--label-separator", "a=|"], "--label-separator: got 'a' twice"),
    ],
)
def test_the_place_of_a_bad_argument_is_its_flag(
    run: Run, folder: Callable[..., Path], tmp_path: Path, typed: list[str], place: str
) -> None:
    code, _, err = run(folder(2), tmp_path / "out", *typed)
    assert code == 2
    assert err.startswith(f"shardfeed: {place}")


def test_a_folder_that_is_called_like_an_argument_is_no_argument(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labels").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("labels", "out", "--label-column", "x")[2].startswith(
        "shardfeed: labels: is a folder, but --label-column"
    )


def test_no_message_of_the_packages_names_a_flag_by_hand() -> None:
    """Flags are the command line's own: below it, messages name arguments, which `said` translates.

    But for notes in a report, which both read: those say both.
    """
    root = ROOT
    found = []
    for package in ("converters", "shardfeed"):
        for path in sorted((root / package).rglob("*.py")):
            for line, text in enumerate(path.read_text().splitlines(), 1):
                code = text.partition("  #")[0]
                flag = re.search(r"[\"'][^\"'`]*(?<![\w`-])--[a-z][a-z-]+", code)
                if flag and not any(word in code for word in ("shardfeed ", "in Python", "docker run")):
                    found.append(f"{path.relative_to(root)}:{line}: {code.strip()}")
    assert found == []


@pytest.mark.parametrize("address", ["az://box/x", "hf://datasets/a/b", "https://host/x.zip"])
def test_an_output_that_is_not_written_to_is_refused(run: Run, folder: Callable[..., Path], address: str) -> None:
    code, _, err = run(folder(2), address)
    assert code == 2
    assert err.startswith(f"shardfeed: {address}: got a URL that shardfeed does not write to, expected s3://")
    with pytest.raises(UsageError, match="does not write to"):
        convert(folder(2), address)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.zip", "an archive"),
        ("a.tar.gz", "tar"),
        ("a.parquet", "cannot be read as Parquet"),
        ("a.XLSX", "save it as CSV"),
    ],
)
def test_files_of_another_kind_are_named(run: Run, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    code, _, err = run(tmp_path / name, tmp_path / "out")
    assert code == 2
    assert said in err
    assert said in run(tmp_path, tmp_path / "out", "--labels", tmp_path / name)[2]


class Made:
    """Six images with features of any kind."""

    def __init__(
        self, features: Mapping[str, tuple[Feature, list[Value]]], names: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.schema = Schema({key: feature for key, (feature, _) in features.items()}, names)
        self.values = {key: values for key, (_, values) in features.items()}

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> Sample:
        if i >= len(self):
            raise IndexError(i)
        features = {key: values[i % len(values)] for key, values in self.values.items()}
        return Sample(f"{i}.jpg".encode(), encoded(i), features)


_SIDES = {
    f"image/object/bbox/{side}": (Feature("float32", (None,)), [[0.25], [0.1, 0.5], []]) for side in ("xmin", "xmax")
}
_LISTED: tuple[Feature, list[Value]] = (Feature("int64", (None,)), [[0], [0, 1], []])
_TAGS = (Feature("int64", (None,), "tags"), _LISTED[1])
KINDS: dict[str, Made] = {
    "classes": Made({LABEL: (Feature("int64"), [0, 1])}, {LABEL: ("a", "b")}),
    "regression": Made({"image/class/value": (Feature("float32"), [0.5, 1.5])}, {}),
    "multi-label": Made({LABEL: _LISTED}, {LABEL: ("a", "b")}),
    "tags": Made({LABEL: _TAGS}, {LABEL: ("a", "b")}),
    "tags elsewhere": Made({"image/parts/label": _TAGS}, {"image/parts/label": ("a", "b")}),
    "captions": Made({"image/caption": (Feature("bytes", (None,), "text"), [[b"a dog", b"a cat"], []])}, {}),
    "boxes": Made({**_SIDES, "image/object/class/label": _LISTED}, {}),
    "boxes and a class": Made({**_SIDES, LABEL: (Feature("int64"), [0, 1])}, {LABEL: ("a", "b")}),
    "landmarks": Made({"image/landmarks": (Feature("float32", (3,)), [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])}, {}),
    "text alone": Made({"image/caption": (Feature("bytes"), [b"a dog"])}, {}),
    "no labels": Made({}, {}),
}


def only(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no other framework were installed."""
    monkeypatch.setattr("shardfeed.tools.next_steps.find_spec", lambda name: name == framework)


@pytest.mark.long
@pytest.mark.parametrize("framework", ["tensorflow", "torch", ""])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_lines_work_as_printed_for_every_kind_of_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, framework: str
) -> None:
    """With what is installed alone."""
    only(framework, monkeypatch)
    out = tmp_path / "it's a \\ data\nset"
    report = convert(KINDS[kind], out, workers=1)
    steps = next_steps(str(out), report.manifest)
    python, shell = steps.split("next, in Python:\n")[1].split("\nor look at it:\n")
    names: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)
    exec("\n".join(line[2:] for line in python.splitlines()), names)
    (batch,) = names["batches" if kind == "no labels" else "train"]  # type: ignore[misc]
    images, *labels = (
        [*batch.values()] if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else [batch]
    )
    assert tuple(images.shape) == ((6, 3, 224, 224) if framework == "torch" else (6, 224, 224, 3))
    rows = [getattr(row, "numpy", lambda row=row: row)() for row in labels[0]] if labels else []
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    if kind == "no labels":
        assert sorted(rows) == [b"%d.jpg" % i for i in range(6)]
    if kind.startswith("tags"):
        assert sorted(rows) == [[0, 0]] * 2 + [[1, 0]] * 2 + [[1, 1]] * 2
    if kind == "captions" and framework:
        assert sorted({*rows}) in ([b"", b"a cat", b"a dog"], [b"", b"a cat"], [b"", b"a dog"])
    # What the shell makes of the line is the very path.
    assert len(shell.splitlines()) == 1
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shell.strip()}"], capture_output=True, check=True
    ).stdout.decode().split("\0")  # fmt: skip
    assert words[:5] == ["shardfeed", "preview", str(out), "-o", "sheet.png"]


def test_paths_are_quoted_for_the_shell() -> None:
    for path in ("plain", "sp ace", "a'b", "$HOME", "new\nline'\\", "caf\udce9", "-o", "é"):
        words = subprocess.run(
            ["bash", "-c", f"printf %s {shell_quoted(path)}"], capture_output=True, check=True
        ).stdout
        assert os.fsdecode(words) == (f"./{path}" if path.startswith("-") else path)
        assert shell_quoted(path).isprintable()
    assert shlex.split(shell_quoted("a b")) == ["a b"]


def test_one_is_singular(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    assert [number(n, "image") for n in (0, 1, 2, 8118)] == ["0 images", "1 image", "2 images", "8,118 images"]
    assert number(1, "class", "classes") == "1 class"
    root = folder(1, classes=("only",))
    (root / "only" / "bad.jpg").write_bytes(b"words")
    code, out, err = run(root, tmp_path / "out", "--workers", "1")
    assert code == 3
    assert not re.search(r"(?<![\d,])1 (classes|images|inputs|files|shards)\b", out + err)
    code, out, _ = run(root, tmp_path / "out", "--max-bad", "1")
    assert "1 class of image/class/label" in out
    assert "out: 1 image (" in out


def test_a_help_text_has_one_percent_sign(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    assert "--max-bad N|P% " in capsys.readouterr().out


def test_errors_of_python_name_no_flag(folder: Callable[..., Path], tmp_path: Path) -> None:
    convert(folder(2), tmp_path / "out", workers=1)
    with pytest.raises(ShardfeedError, match="or give replace=True"):
        convert(folder(2), tmp_path / "out", workers=1)
    with pytest.raises(UsageError, match=r"^max_bad: "):
        convert(ImageFolder(folder(2)), tmp_path / "other", max_bad="many")
    with pytest.raises(UsageError, match=r"give it as|as root|no row"):
        LabelFile(_table(tmp_path), header=False)


def test_training_lines_are_python() -> None:
    for made in KINDS.values():
        for framework in ("tensorflow", "torch", ""):
            lines = training_lines("a'b", made.schema, "train", 1, framework=framework)
            compile("\n".join(lines), "next", "exec")
            package = {"tensorflow": "train_batches|make_batches", "torch": "torch_loader", "": "array_batches"}[
                framework
            ]
            assert re.search(package, lines[-1])


def test_what_was_made_plain_is_counted_once_an_image(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "images" / "a"
    root.mkdir(parents=True)
    for i in range(3):
        Image.new("RGBA", (9, 9), (i, 0, 0, 9)).save(root / f"{i}.png")
    Image.new("RGB", (9, 9)).save(root / "3.bmp")
    code, out, _ = run(root.parent, tmp_path / "out", "--workers", "1")
    assert code == 0
    assert "4 images stored as upright RGB or grey of 8 bits, so that all loaders agree: alpha 3, bmp 1\n" in out


@pytest.mark.parametrize(("name", "change"), [("0.png", "16-bit"), ("0.tif", "tiff+16-bit")])
def test_that_16_bits_become_8_is_said(run: Run, tmp_path: Path, name: str, change: str) -> None:
    root = tmp_path / "images" / "a"
    root.mkdir(parents=True)
    values = np.arange(0, 65_536, 256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(values).save(root / name)
    code, out, _ = run(root.parent, tmp_path / "out", "--workers", "1")
    assert code == 0
    assert f"of 8 bits, so that all loaders agree: {change} 1; 1 reduced from 16 to 8 bits: --keep-depth" in out
    _, out, _ = run(root.parent, tmp_path / "deep", "--workers", "1", "--keep-depth")
    assert "of 8 bits" not in out
    assert ("upright RGB or grey, so that all loaders agree: tiff 1\n" in out) == ("tiff" in change)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["masks", "keypoints", "rasters"])
@pytest.mark.parametrize("framework", ["tensorflow", "torch", ""])
def test_the_next_lines_take_along_what_is_in_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, framework: str
) -> None:
    only(framework, monkeypatch)
    out = tmp_path / "out"
    steps = next_steps(str(out), convert(scenes(kind), out, workers=1).manifest)
    python = steps.split("next, in Python:\n")[1].split("\nor look at it:\n")[0]
    names: dict[str, Any] = {}
    exec("\n".join(line[2:] for line in python.splitlines()), names)
    batch = next(iter(names["train"]))
    if framework == "torch":
        images, targets = batch
        assert images.shape[1:] == (3, 224, 224)
        assert kind == "rasters" or {"boxes", kind} <= targets[0].keys()
    elif not framework:
        assert {"images", *(["raster"] if kind == "rasters" else ["boxes", kind])} <= batch.keys()
    elif kind != "rasters":
        assert {"images", "bounding_boxes", kind} <= batch.keys()
        assert batch["images"].shape[1:] == (224, 224, 3)
    else:
        assert [part.shape[1:] for part in batch] == [(224, 224, 3), (224, 224, 1)]
