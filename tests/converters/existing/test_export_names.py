"""Names that are hard for a format, through each export: read again as the same, or refused with advice that works."""

import io
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hard_exports import HEIGHT, WIDTH, Hard, exported, made
from PIL import Image

import shardfeed
from shardfeed.annotations import RASTER
from shardfeed.converters import LabelOptions, export, open_source
from shardfeed.converters.sources.classes import class_folder
from shardfeed.schema import ENCODED, FILENAME
from shardfeed.tools.cli import main

from pictures import image_bytes

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools

# What a format stores; all with boxes are also tried with images that have none.
FORMS = (
    ("folder", "label"),
    ("csv", "label"),
    ("csv", "tags"),
    ("csv", "boxes"),
    ("coco", "boxes"),
    ("coco", "masks"),
    ("coco", "captions"),
    ("yolo", "boxes"),
    ("yolo", "keypoints"),
    ("yolo", "rotated"),
    ("voc", "boxes"),
    ("voc", "boxes and raster"),
    ("masks", "raster"),
)
# Classes by what they are mistaken for: splits and folders; missing values; numbers; lists, files and code.
CLASSES = (
    (
        "train",
        "val",
        "test",
        "validation",
        "images",
        "labels",
        "masks",
        "Thumbs.db",
        "__MACOSX",
        ".hidden",
        "..",
        "a/b",
    ),
    ("NA", "N/A", "null", "None", "nan", "true", "yes", "no", "unlabelled", "background", "void", "difficult", "CON"),
    (
        "1",
        "01",
        "1.0",
        "-1",
        "1e5",
        "0x10",
        "inf",
        "0: cat",
        "1 cat",
        "cat 1",
        "cat,1",
        "%2F",
        "größe",
        "犬🐕",
        "A",
        "a",
    ),
    (
        "a,b",
        "a;b|c",
        "q\"u'o",
        "# c",
        "// c",
        "- x",
        "-rf",
        "=1+1",
        "[1]",
        "{a}",
        "item {",
        "names: x",
        "<b>&amp;",
        "\\n",
    ),
)
EACH = sorted(
    {name for group in CLASSES for name in group} | {"[a, b]", "*", "id", "label", "class", "\ufeffx", "x" * 250}
)
LISTS = (("csv", "[1]"), ("csv", "[a, b]"))  # cells of nothing else are lists
KEYS = (
    ("1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.png"),
    ("-rf.jpg", "a b.jpg", "ü.jpg", "#1.jpg", "a,b.jpg", "q\"'.jpg", "new%20.jpg", "[a]*?.jpg", "x" * 247 + ".jpg"),
    (
        "UP.JPG",
        "up.png",
        "train/1.jpg",
        "test/images/1.jpg",
        "images/2.jpg",
        "d/e/f.jpg",
        ".h/x.jpg",
        "noext",
        "S/a.jpg",
        "s/b.jpg",
    ),
)
SPLITS = (("train",), ("train", "validation"), ("validation", "test"))
PAIRS = [
    (*form, CLASSES[c], KEYS[(f + c) % len(KEYS)], SPLITS[(f + 2 * c) % len(SPLITS)])
    for (f, form), c in product(enumerate(FORMS), range(len(CLASSES)))
]


def check_same(to: str, hard: Hard, tmp_path: Path) -> None:
    outcome = exported(hard, to, tmp_path / "room")
    assert outcome.same, f"{to}: {hard}: {outcome.wrong or outcome.refused}"


@pytest.mark.parametrize(("to", "kind", "classes", "keys", "splits"), PAIRS)
def test_each_format_with_each_group_of_names(
    to: str, kind: str, classes: Any, keys: Any, splits: Any, tmp_path: Path
) -> None:
    check_same(to, Hard(kind, classes, keys, splits), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("to", "kind"), FORMS)
def test_all_groups_of_names(to: str, kind: str, tmp_path: Path) -> None:
    for classes, keys, splits in product(CLASSES, KEYS, SPLITS):
        check_same(to, Hard(kind, classes, keys, splits), tmp_path)


@pytest.mark.parametrize("name", ["train", "N/A", "a,b", "# c", "[1]", "\ufeffx"])
def test_a_class_alone(name: str, tmp_path: Path) -> None:
    check_same("folder", Hard("label", (name,), ("1.jpg",)), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("to", ["folder", "csv"])
def test_each_class_alone_and_beside_another(to: str, tmp_path: Path) -> None:
    for name in EACH:
        if (to, name) in LISTS:
            assert (
                "would be read as a list" in exported(Hard("label", (name,), ("1.jpg",)), to, tmp_path / "room").refused
            )
            continue
        check_same(to, Hard("label", (name,), ("1.jpg",)), tmp_path)
        check_same(to, Hard("label", ("zz", name), splits=("train", "test")), tmp_path)


@pytest.mark.parametrize("splits", [("fold_1", "fold_2"), ("NA", "null"), ("train", "trainval"), ("images", "X")])
@pytest.mark.parametrize(("to", "kind"), [("csv", "boxes"), ("coco", "boxes and captions"), ("coco", "captions")])
def test_splits_of_other_names(to: str, kind: str, splits: Any, tmp_path: Path) -> None:
    check_same(to, Hard(kind, splits=splits), tmp_path)


@pytest.mark.parametrize(("to", "kind"), FORMS)
def test_one_image(to: str, kind: str, tmp_path: Path) -> None:
    check_same(to, Hard(kind, ("only",), ("1.jpg", "2.jpg") if kind == "tags" else ("1.jpg",), counts=(0,)), tmp_path)


@pytest.mark.parametrize("splits", [("train",), ("train", "test"), ("validation",)])
@pytest.mark.parametrize("classes", [("train",), ("train", "test"), ("train", "Train"), ("val", "train", "cat")])
@pytest.mark.parametrize("keys", [("1.jpg", "2.jpg", "3.jpg"), ("train/test/1.jpg", "test/train/2.jpg", "train/3.jpg")])
def test_a_class_called_train(classes: Any, splits: Any, keys: Any, tmp_path: Path) -> None:
    check_same("folder", Hard("label", classes, keys, splits), tmp_path)


# A dataset that a format cannot store by its names, and a format that its message offers, which can.
REFUSED = (
    ("voc", Hard("boxes", keys=(" a.jpg", "b.jpg")), "coco"),
    ("voc", Hard("boxes", keys=("a .jpg", "b.jpg")), "yolo"),
    ("voc", Hard("boxes", keys=("a\nb.jpg", "b.jpg")), "coco"),
    ("voc", Hard("boxes", keys=("\ufeffa.jpg", "b.jpg")), "coco"),
    ("voc", Hard("raster", keys=("masks/a.jpg", "b.jpg")), "masks"),
    ("voc", Hard("boxes", keys=("a.jpg", "a.png")), "coco"),
    ("csv", Hard("boxes", keys=(" a.jpg", "b.jpg")), "coco"),
    ("csv", Hard("captions"), "coco"),
    ("folder", Hard("label", keys=("plain/1.jpg", "2.jpg", "1.jpg")), "csv"),
    ("folder", Hard("label", ("x" * 256, "y")), "csv"),
    ("folder", Hard("label", splits=("fold_1", "fold_2")), "csv"),
    ("yolo", Hard("boxes", splits=("fold_1", "fold_2")), "coco"),
    ("coco", Hard("boxes", splits=("val_2",)), "csv"),
    ("coco", Hard("boxes", splits=("captions", "instances")), "csv"),
    ("coco", Hard("boxes", splits=("train", "instances_train")), "csv"),
)


@pytest.mark.parametrize(
    ("to", "hard", "other"), REFUSED, ids=lambda each: each if isinstance(each, str) else str(each)[:40]
)
def test_refused_by_name_with_a_format_that_takes_it(to: str, hard: Hard, other: str, tmp_path: Path) -> None:
    refused = exported(hard, to, tmp_path / "room").refused
    offered = re.search(r"export to ([a-z]+(?: or [a-z]+)*)", refused)
    assert offered is not None, refused
    formats = offered[1].split(" or ")
    assert other in formats
    for each in formats:
        check_same(each, hard, tmp_path)


def test_splits_that_no_format_keeps_lead_to_no_circle(tmp_path: Path) -> None:
    hard = Hard("boxes", splits=("train", "Train"))
    for to in ("coco", "csv", "yolo"):
        refused = exported(hard, to, tmp_path / "room").refused
        assert "export to" not in refused
    words = re.search(r"`shardfeed (split DATASET OUT \S+ \S+)` makes other splits", refused)
    assert words is not None, refused
    places = {"DATASET": str(tmp_path / "room" / "data"), "OUT": str(tmp_path / "divided")}
    assert main([places.get(word, word) for word in words[1].split()]) == 0
    export(tmp_path / "divided", tmp_path / "coco", "coco")


@pytest.mark.parametrize(
    ("to", "kind"), [("folder", "label"), ("csv", "label"), ("yolo", "boxes"), ("masks", "raster")]
)
def test_two_classes_of_the_same_letters(to: str, kind: str, tmp_path: Path) -> None:
    hard = Hard(kind, ("\u00e9", "e\u0301"))
    assert "shardfeed relabel" in exported(hard, to, tmp_path / "room").refused
    if kind == "boxes":
        check_same("coco", hard, tmp_path)


@pytest.mark.parametrize("to", ["csv", "coco"])
def test_names_that_become_one_name_in_every_format(to: str, tmp_path: Path) -> None:
    refused = exported(Hard("boxes", keys=("a", "a.jpg")), to, tmp_path / "room").refused
    assert refused.endswith("rename one of the two in the source")


def test_a_split_of_captions_that_has_none(tmp_path: Path) -> None:
    """Its file would be one of images alone: it is known by its name only if the split has a usual one."""
    splits = ("a", "b", "c")
    assert (
        "no image of the split b has a caption"
        in exported(Hard("captions", splits=splits), "coco", tmp_path / "a").refused
    )
    check_same("coco", Hard("captions", splits=("train", "validation", "test")), tmp_path)


def test_a_class_list_tells_a_split_from_a_class(tmp_path: Path) -> None:
    """The folder train holds the class train, and the classes train and test may be folders themselves."""
    for name in (
        "train/bus/1.jpg",
        "train/train/2.jpg",
        "flat/train/1.jpg",
        "flat/training/2.jpg",
        "flat/test/a/3.jpg",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(Image.new("RGB", (8, 8)), "JPEG"))
    inside = open_source(tmp_path, exclude="flat", options=LabelOptions(class_names=["bus", "train"]))
    assert [(one.key, one.split) for one in map(inside.__getitem__, range(2))] == [
        (b"train/bus/1.jpg", "train"),
        (b"train/train/2.jpg", "train"),
    ]
    flat = open_source(tmp_path / "flat", options=LabelOptions(class_names=["train", "training", "test"]))
    assert sorted(flat[i].features["image/class/text"] for i in range(3)) == [b"test", b"train", b"training"]
    assert {flat[i].split for i in range(3)} == {None}


@pytest.mark.parametrize(
    "keys", [("1.jpg", "test/2.jpg", "a/train/3.jpg"), ("train/1.jpg", "2.jpg"), ("val/1.jpg", "2.jpg")]
)
def test_masks_in_folders_called_like_splits(keys: Any, tmp_path: Path) -> None:
    check_same("masks", Hard("raster", keys=keys), tmp_path)


def test_the_folders_of_classes_are_read_as_they_are_written() -> None:
    assert [class_folder(name) for name in ("cat", "N/A", ".git", "..", "100%")] == [
        b"cat",
        b"N%2FA",
        b"%2Egit",
        b"%2E.",
        b"100%",
    ]


def test_masks_of_voc_are_found_as_torchvision_finds_them(tmp_path: Path) -> None:
    """A line of a list, with .jpg in JPEGImages and .png in SegmentationClass: whatever folder it is in."""
    hard = Hard(
        "raster", ("background", "cat"), ("images/1.jpg", "a/2.jpg", "3.jpg", "b c/4.jpg"), ("train", "validation")
    )
    data = made(hard, tmp_path / "data")
    export(data, tmp_path / "voc", "voc")
    for split, word in (("train", "train"), ("validation", "val")):
        lines = (tmp_path / f"voc/ImageSets/Segmentation/{word}.txt").read_text().splitlines()
        found = {}
        for line in lines:
            image = (tmp_path / "voc/JPEGImages" / f"{line}.jpg").read_bytes()
            with Image.open(tmp_path / "voc/SegmentationClass" / f"{line}.png") as mask:
                assert mask.mode == "P"
                assert mask.getpalette()[:9] == [0, 0, 0, 128, 0, 0, 0, 128, 0]  # type: ignore[index]
                found[image] = np.asarray(mask).tolist()
        expected = {
            record[ENCODED]: np.asarray(Image.open(io.BytesIO(record[RASTER]))).tolist() for record in data[split]
        }  # type: ignore[arg-type]
        assert found == expected


def test_notes_say_what_programs_without_a_class_list_find(tmp_path: Path) -> None:
    data = made(
        Hard("label", ("train", "cat"), ("1.jpg", "2.jpg", "3.jpg"), ("train", "validation", "train")),
        tmp_path / "data",
    )
    notes = " ".join(export(data, tmp_path / "folder", "folder").notes)
    assert "classes without images in the split validation: 1 (train)" in notes
    assert "classes are not sorted by name" in notes
    assert "classes that are called like a split: 1 (train)" in notes
    data = made(Hard("boxes", keys=("1.jpg", "2.png")), tmp_path / "boxes")
    notes = " ".join(export(data, tmp_path / "voc", "voc").notes)
    assert "names do not end in .jpg: 1; torchvision looks for NAME.jpg" in notes
    assert "rounded" not in notes  # a float32 is no further from a whole pixel than it can be


def odd_pictures() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    gray16 = Image.fromarray(rng.integers(0, 1 << 16, (HEIGHT, WIDTH), np.uint16))
    colours = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8))
    alpha = colours.convert("RGBA")
    alpha.putalpha(Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH), np.uint8)))
    return {
        "gray16.png": image_bytes(gray16, "PNG"),
        "palette.png": image_bytes(colours.quantize(16), "PNG"),
        "alpha.png": image_bytes(alpha, "PNG"),
        "bits.png": image_bytes(colours.convert("1"), "PNG"),
        "gray.jpg": image_bytes(colours.convert("L"), "JPEG"),
        "cmyk.jpg": image_bytes(colours.convert("CMYK"), "JPEG"),
    }


@pytest.mark.parametrize("to", ["folder", "csv"])
@pytest.mark.parametrize("keep_depth", [False, True])
def test_odd_images_keep_the_bytes_that_are_stored(to: Any, keep_depth: bool, tmp_path: Path) -> None:
    for name, data in odd_pictures().items():
        (tmp_path / f"set/{name[:2]}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"set/{name[:2]}/{name}").write_bytes(data)
    flags = ["--keep-depth"] if keep_depth else []
    assert main(["convert", str(tmp_path / "set"), str(tmp_path / "data"), "--workers", "1", *flags]) == 0
    report = export(tmp_path / "data", tmp_path / "out", to)
    words = report.convert_commands[0].split()
    words[words.index("NEW")] = str(tmp_path / "again")
    assert main([*words[1:], "--quiet", "--workers", "1"]) == 0
    ours, theirs = (
        {record[ENCODED]: record[FILENAME] for record in shardfeed.open(tmp_path / name)["train"]}
        for name in ("data", "again")
    )
    assert ours == theirs
