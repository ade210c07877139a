"""`shardfeed report`: what is planted is found, each printed command mends it, and no text of a dataset is markup."""

import csv
import io
import json
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import SCENES, scenes
from object_images import put
from PIL import Image, ImageEnhance, ImageFilter

import shardfeed
from shardfeed.annotations import CAPTION, XMIN
from shardfeed.converters import (
    AnnotationOptions,
    ImageFolder,
    ImageOptions,
    LabelFile,
    LabelOptions,
    convert,
    open_source,
)
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main
from shardfeed.tools.report import measure, sections

from pictures import image_bytes
from report_page import ReportPage
from web_server import web_server

SIZE = (96, 72)
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}"
RIGHT_TO_LEFT = "\u202eتفاحة"
TAGS = LabelOptions(labels=SCENES / "tags.csv", label_columns=["tags"], label_separator=" ")
Report = Callable[..., dict[str, Any]]


def photo(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    large = Image.fromarray(rng.integers(30, 200, (6, 8, 3), np.uint8)).resize(SIZE, Image.Resampling.BICUBIC)
    noise = rng.normal(0, 6, (SIZE[1], SIZE[0], 1))
    return Image.fromarray(np.clip(np.asarray(large) + noise, 0, 255).astype(np.uint8))


def jpeg(image: Image.Image, quality: int = 90) -> bytes:
    return image_bytes(image, "JPEG", quality=quality)


NEAR = {
    "encoded": lambda image: jpeg(image, 50),
    "resized": lambda image: jpeg(image.resize((60, 45))),
    "cropped": lambda image: jpeg(image.crop((1, 1, SIZE[0] - 1, SIZE[1] - 1))),
    "brightened": lambda image: jpeg(ImageEnhance.Brightness(image).enhance(1.2)),
}
# Finding -> keys that its list has.
PLANTED = {
    "equal-across-splits": {"train/a/000.jpg", "train/b/001.jpg"},
    "alike-across-splits": {"train/a/002.jpg", "train/b/003.jpg", "train/a/004.jpg", "train/b/005.jpg"},
    "two-labels": {"train/a/006.jpg", "train/b/other.jpg"},
    "equal": {"train/a/twice.jpg"},
    "blank": {"train/b/blank.jpg"},
    "broken": {"train/a/broken.jpg"},
    "dark": {"train/a/dark.jpg"},
    "blurred": {"train/b/blurred.jpg"},
    "odd-shapes": {"train/b/long.jpg"},
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with one or a few of each fault."""
    root = tmp_path_factory.mktemp("planted")
    files: dict[str, bytes] = {}
    for i in range(40):
        files[f"{'test' if i >= 30 else 'train'}/{'ab'[i % 2]}/{i:03d}.jpg"] = jpeg(photo(i))
    for i, key in enumerate(sorted(PLANTED["equal-across-splits"], key=lambda key: key[-7:])):
        files[f"test/{'ab'[i]}/copy.jpg"] = files[key]
    for i, change in enumerate(NEAR.values(), 2):
        files[f"test/{'ab'[i % 2]}/near{i}.jpg"] = change(photo(i))
    files["train/b/other.jpg"] = files["train/a/006.jpg"]
    files["train/a/twice.jpg"] = files["train/a/008.jpg"]
    files["train/b/blank.jpg"] = jpeg(Image.new("RGB", SIZE, (30, 90, 200)))
    files["train/a/broken.jpg"] = jpeg(photo(50))
    files["train/a/dark.jpg"] = jpeg(ImageEnhance.Brightness(photo(51)).enhance(0.12))
    files["train/b/blurred.jpg"] = jpeg(photo(52).filter(ImageFilter.GaussianBlur(5)))
    files["train/b/long.jpg"] = jpeg(photo(53).resize((200, 40)))
    for name, data in files.items():
        path = root / "images" / name
        put(path, data)
    convert(ImageFolder(root / "images"), root / "set")
    shard = next((root / "set").glob("train-*.tfrecord"))
    content = bytearray(shard.read_bytes())
    content[content.index(files["train/a/broken.jpg"]) + 300] ^= 1
    shard.write_bytes(content)
    return root / "set"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Call the command in the test's directory; what it prints with --json."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> dict[str, Any]:
        assert main(["report", *map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_what_is_planted_is_found(planted: Path, report: Report, tmp_path: Path) -> None:
    found = {finding["code"]: set(finding["keys"]) for finding in report(planted, "-o", "page.html")["findings"]}
    assert found == PLANTED
    page = ReportPage((tmp_path / "page.html").read_text())
    assert page.pictures > 20
    assert "train/b/003.jpg" in page.text
    assert "6 images" not in page.text
    assert "Values of Brightness" in page.text


def test_a_dataset_at_a_url(planted: Path, report: Report) -> None:
    with web_server(planted.parent) as server:
        findings = report(f"{server.url}/set", "-o", "page.html")["findings"]
    assert {finding["code"]: set(finding["keys"]) for finding in findings} == PLANTED
    assert findings[0]["command"].startswith("shardfeed remove set set-without-"), "of a local copy"


def test_each_printed_command_mends_its_finding(planted: Path, report: Report, tmp_path: Path) -> None:
    content = report(planted, "-o", "page.html")
    commands = {finding["code"]: shlex.split(finding["command"]) for finding in content["findings"]}
    assert commands.keys() == PLANTED.keys()
    for code, (program, *arguments) in commands.items():
        assert program == "shardfeed"
        assert main([*arguments, "--quiet"]) == 0, code
        rest = [finding["code"] for finding in report(arguments[2], "-o", f"{code}.html")["findings"]]
        assert code not in rest
    everything, anew = content["remedies"].values()
    assert main([*shlex.split(anew)[1:], "--quiet"]) == 0
    rest = [finding["code"] for finding in report(f"{planted}-divided", "-o", "divided.html")["findings"]]
    assert "equal-across-splits" not in rest
    assert main([*shlex.split(everything)[1:], "--quiet"]) == 0
    rest = report(f"{planted}-mended", "-o", "rest.html")["findings"]
    assert {finding["code"] for finding in rest} == {"dark", "blurred", "odd-shapes"}


def test_classes_are_judged_too(report: Report, tmp_path: Path) -> None:
    for name, count, size in (("red fox", 12, SIZE), ("Red_Fox", 1, SIZE), ("icon", 6, (24, 18)), ("cat", 3, SIZE)):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        for i in range(count):
            image = photo(ord(name[0]) * 100 + i).resize(size)
            (folder / f"{i}.png").write_bytes(image_bytes(image, "PNG"))
    convert(ImageFolder(tmp_path / "images"), tmp_path / "set")
    content = report("set")
    found = {finding["code"]: finding for finding in content["findings"]}
    assert set(found) == {"class-names", "small-class-2", "imbalance"}
    assert found["small-class-2"]["command"] == "", "nobody wants to lose a class"
    assert list(csv.reader(io.StringIO((tmp_path / "report_files" / "class-names.csv").read_text()))) == [
        ["Red_Fox", "red fox"]
    ]
    assert main([*shlex.split(found["class-names"]["command"])[1:], "--quiet"]) == 0
    assert shardfeed.open("set-class-names").class_names == ("red fox", "cat", "icon")


@pytest.mark.parametrize("hashed", [True, False])
def test_commands_with_and_without_hashes(hashed: bool, report: Report, tmp_path: Path) -> None:
    """Copies are found in both, but `split --group-duplicates` needs hashes. No list of removals has a whole class."""
    for i in range(40):
        name = f"{('train', 'test')[i % 4 == 3]}/{'ab'[i % 2]}/{i}.jpg"
        files = {name: jpeg(photo(i))} | ({f"test/a/copy{i}.jpg": jpeg(photo(i))} if i in (0, 4) else {})
        files |= {f"train/small/{i}.jpg": jpeg(photo(90 + i).resize((24, 18)))} if i < 8 else {}
        files |= {f"train/a/again{i}.jpg": jpeg(photo(i))} if i == 8 else {}
        for file, data in files.items():
            put(tmp_path / "images" / file, data)
    convert(ImageFolder(tmp_path / "images"), tmp_path / "set", image=ImageOptions(sha256=hashed))
    content = report("set")
    commands = {finding["code"]: finding["command"] for finding in content["findings"]}
    assert set(commands) == {"equal-across-splits", "equal", "absent-test", "small-class-2"}
    assert len(content["remedies"]) == 1 + hashed
    for line in filter(None, {*commands.values(), *content["remedies"].values()}):
        assert ("--group-duplicates" in line) <= hashed
        assert main([*shlex.split(line)[1:], "--quiet"]) == 0, line
    assert not [one for one in report("set-divided")["findings"] if one["code"].startswith("absent")]
    assert shardfeed.open("set-mended")["train"].class_counts["image/class/label"][2] == 8


def test_text_of_a_dataset_is_text(report: Report, tmp_path: Path) -> None:
    names = [HOSTILE, RIGHT_TO_LEFT, HOSTILE * 150]
    folder = tmp_path / "images"
    folder.mkdir()
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label"])
        for i in range(9):
            name = (
                f"{HOSTILE.replace('/', '')}{i}\n.jpg"
                if i == 0
                else f"{RIGHT_TO_LEFT}{HOSTILE.replace('/', '')}{i}.jpg"
            )
            (folder / name).write_bytes(jpeg(photo(i // 2)))
            writer.writerow([name, names[i % 3]])
    out = tmp_path / f"set {HOSTILE.replace('/', '')}"
    convert(LabelFile(tmp_path / "labels.csv", folder), out)
    content = report(out.name, "-o", "page.html")
    (finding,) = (one for one in content["findings"] if one["code"] == "two-labels")
    page = ReportPage((tmp_path / "page.html").read_text())
    assert "<script>alert(1)</script>" in page.text
    assert "49" not in page.text.replace(" ", "").partition("Findings")[0]
    assert "\u202e" not in page.text
    assert "line breaks" in page.text
    assert max(map(len, page.text.split("\n"))) < 3_000
    assert main([*shlex.split(finding["command"])[1:], "--quiet"]) == 0
    assert len(list((tmp_path / "page_files").glob("two-labels.txt"))) == 1
    changes = report(out.name, shlex.split(finding["command"])[3], "-o", "c.html")
    assert [one["title"] for one in changes["findings"]] == ["7 images removed"]
    ReportPage((tmp_path / "c.html").read_text())


@pytest.mark.parametrize("task", ["masks", "keypoints", "rasters"])
def test_objects_have_a_section(task: str, report: Report, tmp_path: Path) -> None:
    convert(scenes(task), tmp_path / "set")
    content = report("set", "-o", "page.html")
    data = shardfeed.open("set")["train"]
    if task == "rasters":
        (table,) = content["sections"]["Objects"]
        assert sum(float(row[1].rstrip(" %")) for row in table["rows"]) == pytest.approx(100, abs=0.1)
    else:
        boxes = sum(len(record[XMIN]) for record in data)  # type: ignore[arg-type]  # an array
        (chart, *_), (places,) = (
            [of for of in content["sections"]["Objects"] if key in of] for key in ("totals", "cells")
        )
        assert sum(map(sum, places["cells"])) == boxes
        assert chart["totals"] == [boxes]
    assert "Objects" in ReportPage((tmp_path / "page.html").read_text()).text


@pytest.mark.parametrize("labels", ["boxes", "tags"])
def test_an_image_is_shown_with_each_of_its_classes(labels: str, report: Report, tmp_path: Path) -> None:
    """Not only with the first, as which a class may never occur."""
    source = scenes("masks") if labels == "boxes" else open_source(SCENES / "images", options=TAGS)
    convert(source, tmp_path / "set")
    content = report("set", "-o", "page.html")
    images: Counter[str] = Counter()
    for record in shardfeed.open("set")["train"]:
        names = record["image/object/class/text" if labels == "boxes" else "image/class/text"]
        images.update({name.decode() for name in names} or {"no class"})  # type: ignore[union-attr]  # texts
    page = ReportPage((tmp_path / "page.html").read_text())
    assert len(images) == 4
    for name, count in images.items():
        assert f"{name}, train: {count} image" in page.text
    (together,) = (of for of in content["sections"]["Samples"] if of["title"].startswith("Classes that occur together"))
    assert together["rows"][0] == ["square, triangle", 6]


def test_larger_pictures_are_fewer(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the page of a large dataset with boxes stays below 20 MB, too."""
    monkeypatch.setattr("shardfeed.tools.report.report._PICTURES", 24)
    convert(scenes("masks"), tmp_path / "set")
    report("set", "-o", "page.html")
    page = ReportPage((tmp_path / "page.html").read_text())
    assert "no room for 2 more rows" in page.text
    assert page.pictures <= 12 + 1, "of two rows, and of an image that was rotated"


def test_captions_are_beside_their_pictures(report: Report, tmp_path: Path) -> None:
    options = AnnotationOptions(images=SCENES / "images")
    convert(open_source(SCENES / "coco" / "captions.json", options=options), tmp_path / "set")
    report("set", "-o", "page.html")
    page = ReportPage((tmp_path / "page.html").read_text())
    for record in shardfeed.open("set")["train"]:
        assert record[CAPTION][0].decode() in page.text  # type: ignore[index, union-attr]  # texts


def test_what_most_images_are_is_not_denied(report: Report, tmp_path: Path) -> None:
    """A quarter and more may be dark, which is no finding then."""
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    for i in range(8):
        (folder / f"{i}.png").write_bytes(image_bytes(ImageEnhance.Brightness(photo(i)).enhance(0.12), "PNG"))
    convert(ImageFolder(tmp_path / "images"), tmp_path / "set")
    content = report("set")
    assert content["findings"] == []
    assert "none unusually dark" in content["summary"]


def test_a_second_report_measures_nothing(
    flowers: Dataset, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = report(flowers.directory)
    monkeypatch.setattr(measure, "_measure_some", None)
    assert report(flowers.directory) == first
    (kept,) = (tmp_path / "report_files").glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(TypeError):  # it measures again
        main(["report", flowers.directory, "--quiet"])


def test_what_differs(report: Report, tmp_path: Path) -> None:
    images = tmp_path / "images"
    for i in range(8):
        path = images / "ab"[i % 2] / f"{i}.jpg"
        put(path, jpeg(photo(i)))
    convert(ImageFolder(images), "old")
    (images / "a" / "0.jpg").unlink()
    (images / "a" / "2.jpg").write_bytes(jpeg(photo(20)))
    (images / "a" / "4.jpg").rename(images / "a" / "new.jpg")
    (images / "b" / "8.jpg").write_bytes(jpeg(photo(21)))
    convert(ImageFolder(images), "new", split={"train": 0.5, "test": 0.5})
    content = report("old", "new", "-o", "page.html")
    moved = len({*names("new", "test")} - {"b/8.jpg"})
    assert [one["title"] for one in content["findings"]] == [
        f"{moved} image{'s' * (moved != 1)} in another split",
        "1 image with other bytes",
        *(["1 image renamed"] if "a/new.jpg" not in names("new", "test") else []),
        "1 image removed",
        "1 image added",
    ]
    assert content["sections"]["Counts"][1]["rows"] == [["a", 4, 3, -1], ["b", 4, 5, 1]]
    assert "a/2.jpg" in ReportPage((tmp_path / "page.html").read_text()).text


# Changes to a folder {path: number of a picture}, and the differences that they are.
CHANGES = {
    "relabelled": ({"a/0.jpg": "b/0.jpg", "a/2.jpg": "b/9.jpg"}, ["2 images with another label"]),
    "moved": ({"test/a/6.jpg": "train/a/6.jpg"}, ["1 image in another split"]),
    "both": ({"test/a/6.jpg": "train/b/6.jpg"}, ["1 image with another label", "1 image in another split"]),
    "renamed": ({"a/0.jpg": "a/new.jpg"}, ["1 image renamed"]),
    "exchanged": ({"a/0.jpg": "b/1.jpg", "b/1.jpg": "a/0.jpg"}, ["2 images with another label"]),
    "one name for another": ({"a/2.jpg": "a/0.jpg", "a/0.jpg": "b/0.jpg"}, [
        "1 image with another label", "1 image renamed",
    ]),
    "a copy with another label": ({"b/copy.jpg": "b/other.jpg"}, ["1 image renamed"]),
    "labels of copies": ({"b/copy.jpg": "a/other.jpg"}, ["1 image with another label"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_file_with_another_label_or_split_is_not_only_renamed(case: str, report: Report, tmp_path: Path) -> None:
    paths = {"a/0.jpg": 0, "b/1.jpg": 1, "a/2.jpg": 2, "b/3.jpg": 3, "a/copy.jpg": 5, "b/copy.jpg": 5}
    paths |= {"test/a/6.jpg": 6, "test/b/7.jpg": 7}
    renamed, expected = CHANGES[case]
    for out, change in (("old", {}), ("new", renamed)):
        for path, number in paths.items():
            name = change.get(path, path)
            file = tmp_path / f"{out} images" / (name if name.startswith("t") else f"train/{name}")
            put(file, jpeg(photo(number)))
        convert(ImageFolder(tmp_path / f"{out} images"), out)
    assert [one["title"] for one in report("old", "new")["findings"]] == expected


def test_other_annotations_of_the_same_file_are_a_difference(report: Report, tmp_path: Path) -> None:
    said = json.loads((SCENES / "coco" / "instances.json").read_text())
    of_image: dict[int, list[dict[str, Any]]] = {}
    for one in said["annotations"]:
        of_image.setdefault(one["image_id"], []).append(one)
    second = next(of[1] for of in of_image.values() if len(of) > 1)
    names = [one["id"] for one in said["categories"]]
    boxes = ["--images", str(SCENES / "images")]
    for out in ("old", "new"):
        (tmp_path / f"{out}.json").write_text(json.dumps(said))
        assert main(["convert", f"{out}.json", out, *boxes, "--quiet"]) == 0
        second["category_id"] = next(name for name in names if name != second["category_id"])
    assert [one["title"] for one in report("old", "new")["findings"]] == ["1 image with other annotations"]
    captions = json.loads((SCENES / "coco" / "captions.json").read_text())
    for out in ("before", "after"):
        (tmp_path / f"{out}.json").write_text(json.dumps(captions))
        assert main(["convert", f"{out}.json", out, *boxes, "--quiet"]) == 0
        captions["annotations"][0]["caption"] += ", at night"
    assert [one["title"] for one in report("before", "after")["findings"]] == ["1 image with other annotations"]


def test_measurements_are_of_the_files_as_they_are_now(report: Report, tmp_path: Path) -> None:
    """Damage and repairs change no manifest; a copy of a damaged dataset has the same manifest."""
    images = tmp_path / "images" / "a"
    images.mkdir(parents=True)
    for i in range(6):
        (images / f"{i}.jpg").write_bytes(jpeg(photo(i)))
    convert(ImageFolder(images.parent), "set", shards=1)
    (shard,) = (tmp_path / "set").glob("train-*")
    whole = shard.read_bytes()
    shutil.copytree("set", "copy")

    def broken(dataset: str = "set") -> int:
        return sum(one["count"] for one in report(dataset)["findings"] if one["code"] == "broken")

    def rewrite(content: bytes, seconds: int) -> None:
        shard.write_bytes(content)
        os.utime(shard, (seconds, seconds))  # a clock of coarse ticks would be no other time

    assert broken() == 0
    rewrite(whole[:2000] + bytes(100) + whole[2100:], 1_000_000_000)
    assert broken() == 1
    assert broken("copy") == 0
    rewrite(whole, 1_000_000_000)
    assert broken() == 0, "what was damaged is measured again, though nothing shows the repair"


def names(dataset: str, split: str) -> list[str]:
    return [name.decode() for name in shardfeed.open(dataset)[split].column("image/filename")]


def test_what_cannot_be_meant(flowers: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-o", "page.png"], ["-o", str(tmp_path / "none" / "page.html")]):
        assert main(["report", flowers.directory, *arguments]) == 2
        assert "--output" in capsys.readouterr().err


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_bars_stand_out(theme: str) -> None:
    """By the contrast that WCAG 2.2 asks for: 4.5 for text, 3 for bars and for borders that say something."""
    css = (Path(measure.__file__).parent / "templates" / "page.css").read_text()
    values = re.findall(r":root \{(.*?)\}", css)[theme == "dark"]
    colours = {name: _luminance(value) for name, value in re.findall(r"--(\w+): (#\w+)", values)}
    for behind in ("paper", "plate"):
        for name, least in {"ink": 4.5, "soft": 4.5, "link": 4.5, "red": 4.5, "blue": 3, "orange": 3}.items():
            low, high = sorted((colours[behind], colours[name]))
            assert (high + 0.05) / (low + 0.05) >= least, (name, behind)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_whole_numbers_have_a_bar_each() -> None:
    (chart,) = sections.histogram("Objects", "", {"number": np.array([0, 1, 1, 3])})
    assert chart.bars == [("0", [1]), ("1", [2]), ("2", [0]), ("3", [1])]
