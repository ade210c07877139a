"""Folders of images and masks, found, paired, and converted."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sources import reader

import shardfeed
from shardfeed.annotations import RASTER, Raster
from shardfeed.converters import ImageOptions, convert
from shardfeed.converters.images.store import store_image
from shardfeed.converters.shards.place_raster import raster_values
from shardfeed.converters.sources.annotations.masks_meaning import read_class_table
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.options import AnnotationOptions, LabelOptions
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import Source, info_of
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.testing.source import SourceContract

HEIGHT, WIDTH = 8, 12
PLAIN = AnnotationOptions()
ABC = AnnotationOptions(class_names=("a", "b", "c"))


recognise, read = reader("masks")


def image(path: Path, pixels: np.ndarray | None = None, **options: Any) -> None:
    """A file with these pixels; a photo of its own colour where there are none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if pixels is None:
        colour = tuple(np.frombuffer(path.name.encode().ljust(3)[:3], np.uint8).tolist())
        Image.new("RGB", (WIDTH, HEIGHT), colour).save(path)
    else:
        Image.fromarray(pixels).save(path, **options)


def mask(values: tuple[int, ...] = (0, 1, 2, 255), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice(np.array(values, np.uint8), (HEIGHT, WIDTH))


def tree(root: Path, *pairs: str, values: tuple[int, ...] = (0, 1, 2, 255)) -> Path:
    """`a.jpg=b.png`: an image and its mask; one side may be left out."""
    for number, pair in enumerate(pairs):
        photo, _, of_photo = pair.partition("=")
        if photo:
            image(root / photo)
        if of_photo:
            image(root / of_photo, mask(values, number))
    return root


def keys(source: Source) -> dict[str, tuple[str, str | None]]:
    """Mask and split of each sample, by its key."""
    samples = [source[i] for i in range(len(source))]
    assert all(sample.raster for sample in samples)
    return {os.fsdecode(s.key): (s.raster.name, s.split) for s in samples if s.raster}


def rejected(source: Source) -> list[tuple[str, str]]:
    return [(os.fsdecode(one.key), one.code) for one in info_of(source).findings.rejected]


@pytest.mark.parametrize(
    ("pairs", "splits"),
    [
        (["images/1.jpg=masks/1.png", "images/2.jpg=masks/2.png"], {None}),
        (["images/train/1.jpg=masks/train/1.png", "images/val/1.jpg=masks/val/1.png"], {"train", "validation"}),
        (["train/images/1.jpg=train/masks/1.png", "test/images/1.jpg=test/masks/1.png"], {"train", "test"}),
        (["train/1.jpg=train_masks/1_mask.gif", "train/2.jpg=train_masks/2_mask.gif"], {"train"}),
        (["train/1.png=trainannot/1.png", "val/1.png=valannot/1.png"], {"train", "validation"}),
        (["train/0001.png=train_labels/0001_L.png", "val/1.png=val_labels/1_L.png"], {"train", "validation"}),
        (["train_images/1.jpg=train_masks/1.png", "val_images/2.jpg=val_masks/2.png"], {"train", "validation"}),
        (["1.jpg=1_mask.png", "2.jpg=2_mask.png"], {None}),
        (["train/a b.jpg=train/a b_mask.png", "valid/c.jpg=valid/c_mask.png"], {"train", "validation"}),
        (["9_sat.jpg=9_mask.png", "10_sat.jpg=10_mask.png"], {None}),
        (["images/x/1.jpg=annotations/trimaps/x/1.png", "images/2.jpg=annotations/trimaps/2.png"], {None}),
        (["Images/img_1.jpg=GroundTruth/gt_1.png", "Images/img_2.jpg=GroundTruth/gt_2.png"], {None}),
        (["images/1.jpg=segmentation/1.png", "images/1_seg.jpg=segmentation/1_seg.png"], {None}),
        (["data/imgs/1.tif=data/labels/1.tif", "data/imgs/2.tif=data/labels/2.tif"], {None}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_pairs_are_found_by_name(pairs: list[str], splits: set[str | None], tmp_path: Path) -> None:
    root = tree(tmp_path, *pairs, values=(0, 1, 2))
    source = read(root, ABC)
    expected = dict(pair.split("=") for pair in pairs)
    assert {key: name for key, (name, _) in keys(source).items()} == expected
    assert {split for _, split in keys(source).values()} == splits
    assert rejected(source) == []
    evidence = recognise(root)
    assert (evidence.name, evidence.missing) == ("masks", "")
    assert f"{len(pairs)} images with a mask" in evidence.found


def test_what_has_no_partner_is_named(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.png", "images/2.jpg=", "=masks/3.png", "images/4.jpg=masks/4.png")
    tree(tmp_path, "images/4.png=", "images/5.jpg=masks/5.png")
    source = read(tmp_path, ABC)
    assert list(keys(source)) == ["images/1.jpg", "images/5.jpg"]
    assert rejected(source) == [
        (key, "E_PAIR") for key in ("images/2.jpg", "images/4.jpg", "images/4.png", "masks/3.png")
    ]
    reasons = [one.reason for one in info_of(source).findings.rejected]
    assert "expected 2, or the same name with _mask" in reasons[0]
    assert "masks/4.png may also be the mask of images/4.png" in reasons[1]


def test_an_image_with_two_masks_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.png", "=labels/1.png", "images/2.jpg=masks/2.png")
    with pytest.raises(UsageError, match=r"images/1.jpg has two masks, .*; leave one kind out: exclude"):
        read(tmp_path, ABC)
    evidence = recognise(tmp_path)
    assert "leave one kind out" in evidence.missing
    assert keys(read(tmp_path, ABC, exclude="masks/1.png"))["images/1.jpg"] == ("labels/1.png", None)
    assert keys(read(tmp_path, ABC, exclude="labels"))["images/1.jpg"] == ("masks/1.png", None)


def test_what_is_not_wanted_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "train/images/1.jpg=train/masks/1.png", "test/images/2.jpg=", "train/images/3.png=train/masks/3.png")
    source = read(tmp_path, ABC, exclude=("test/**", "3.png"))
    assert list(keys(source)) == ["train/images/1.jpg"]
    assert rejected(source) == []
    assert "2 images left out by include and exclude" in info_of(source).findings.notes
    source = read(tmp_path, ABC, include="train/**", exclude="nothing.*")
    assert list(keys(source)) == ["train/images/1.jpg", "train/images/3.png"]
    assert "nothing matched the exclude pattern 'nothing.*'" in info_of(source).findings.notes


def test_images_may_lie_elsewhere(tmp_path: Path) -> None:
    tree(tmp_path, "photos/train/1.jpg=drawn/train/1.png", "photos/val/1.jpg=drawn/val/1.png", "photos/val/2.jpg=")
    options = AnnotationOptions(class_names=("a", "b", "c"), images=str(tmp_path / "photos"))
    source = read(tmp_path / "drawn", options)
    assert recognise(tmp_path / "drawn", options) is not None
    assert keys(source) == {"train/1.jpg": ("train/1.png", "train"), "val/1.jpg": ("val/1.png", "validation")}
    assert rejected(source) == [("val/2.jpg", "E_PAIR")]
    (tmp_path / "drawn").rename(tmp_path / "masks")
    assert keys(read(tmp_path, options)) == {
        "train/1.jpg": ("masks/train/1.png", "train"), "val/1.jpg": ("masks/val/1.png", "validation"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ["cat/1.jpg", "dog/1.jpg"],
        ["with_mask/1.jpg", "without_mask/1.jpg"],
        ["mask/1.jpg", "no_mask/1.jpg"],
        ["images/1.jpg", "labels/1.txt"],
        ["images/train2017/1.jpg", "annotations/instances.json"],
        ["1.jpg"],
    ],
    ids=lambda names: names[0],
)
def test_other_folders_are_not_taken_for_masks(names: list[str], tmp_path: Path) -> None:
    for name in names:
        if name.endswith(".jpg"):
            image(tmp_path / name)
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("{}")
    assert recognise(tmp_path) is None
    with pytest.raises(UsageError, match="no image with a mask"):
        read(tmp_path)


def test_almost_a_folder_of_masks_says_what_is_missing(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.png", *(f"images/{i}.jpg=" for i in range(2, 9)))
    evidence = recognise(tmp_path)
    assert evidence.missing == "partners for 7 others"
    assert recognise(tmp_path, AnnotationOptions(tasks=frozenset({"boxes"}))) is None
    assert recognise(tmp_path / "images" / "1.jpg") is None


def test_files_in_no_split_beside_others_are_refused(tmp_path: Path) -> None:
    tree(tmp_path, "images/train/1.jpg=masks/train/1.png", "images/2.jpg=masks/2.png")
    with pytest.raises(UsageError, match="1 image in no split, the others in train"):
        read(tmp_path, ABC)
    source = read(tmp_path, ABC, exclude="2.*")
    assert {split for _, split in keys(source).values()} == {"train"}


@pytest.mark.parametrize("values", [(0, 127, 255), (0, 50, 100), (0, 128)])
def test_grey_values_are_asked_for_by_a_table_that_works(values: tuple[int, ...], tmp_path: Path) -> None:
    root = tree(tmp_path / "in", "images/1.jpg=masks/1.png", "images/2.jpg=masks/2.png", values=values)
    with pytest.raises(UsageError, match=r"a table with the header name,value: colours"):
        read(root)
    names = tuple("abc"[: len(values)])
    with pytest.raises(UsageError, match=r"names for 0, 1, 2, ..., but masks have 0, .* header name,value"):
        read(root, AnnotationOptions(class_names=names))
    rows = [f"{name},{value}" for name, value in zip(names, values, strict=True)]
    (tmp_path / "values.csv").write_text("\n".join(["name,value", *rows]))
    source = read(root, AnnotationOptions(colours=tmp_path / "values.csv"))
    assert source.schema.raster.class_names == names
    np.testing.assert_array_equal(stored_masks(source)["images/1.jpg"], np.searchsorted(values, mask(values)))


def test_void_that_nobody_asked_for_is_noted(tmp_path: Path) -> None:
    root = tree(tmp_path, "images/1.jpg=masks/1.png", values=(0, 127, 255))
    source = read(root, AnnotationOptions(class_names=[f"c{i}" for i in range(128)]))
    assert "masks have 255, which is void, unless the option void changes it" in info_of(source).findings.notes
    asked = AnnotationOptions(class_names=[f"c{i}" for i in range(128)], void=255)
    assert not any("void" in note for note in info_of(read(root, asked)).findings.notes)


def test_numbers_of_objects_and_photos_are_no_classes(tmp_path: Path) -> None:
    numbers = np.arange(HEIGHT * WIDTH * 4, dtype=np.uint16).reshape(HEIGHT * 4, WIDTH) + 1000
    image(tmp_path / "objects/images/1.jpg", np.zeros((HEIGHT * 4, WIDTH, 3), np.uint8))
    image(tmp_path / "objects/masks/1.png", numbers)
    with pytest.raises(UsageError, match="so many values may number objects, and are not their classes"):
        read(tmp_path / "objects")
    photo = np.random.default_rng(0).integers(0, 256, (HEIGHT * 4, WIDTH * 4, 3), np.uint8)
    for side in ("input", "target"):
        image(tmp_path / "photos" / side / "1.png", photo)
    with pytest.raises(UsageError, match=r"its masks have as many colours as photos, .*unlabelled=True"):
        open_source(tmp_path / "photos")
    assert len(open_source(tmp_path / "photos", options=LabelOptions(unlabelled=True))) == 2


def test_photos_beside_annotations_of_another_kind_are_no_masks(tmp_path: Path) -> None:
    for folder in ("export/images", "photos"):
        tree(tmp_path / folder, "a.jpg=", "b.jpg=")
    assert recognise(tmp_path / "export", AnnotationOptions(images=str(tmp_path / "photos"))) is None


def stored_masks(source: Source) -> dict[str, np.ndarray]:
    """Masks as a worker stores them, by the key of their sample."""
    assert source.schema.raster is not None
    found = {}
    for i in range(len(source)):
        sample, options = source[i], ImageOptions()
        values = raster_values(sample, store_image(read_image(sample), options), source.schema.raster, options)
        found[os.fsdecode(sample.key)] = np.asarray(Image.open(io.BytesIO(cast(bytes, values[RASTER]))))
    return found


@pytest.mark.parametrize("values", [(0, 255), (0, 1)])
@pytest.mark.parametrize("names", [None, ("no", "yes")])
def test_two_values_are_background_and_foreground(
    values: tuple[int, ...], names: tuple[str, ...] | None, tmp_path: Path
) -> None:
    root = tree(tmp_path / "in", "images/1.jpg=masks/1.png", "images/2.jpg=masks/2.png", values=values)
    source = read(root, AnnotationOptions(class_names=names))
    assert source.schema.raster.class_names == (names or ("background", "foreground"))
    found = stored_masks(source)
    np.testing.assert_array_equal(found["images/1.jpg"], mask(values) > 0)
    if values == (0, 255):
        assert source.schema.raster.class_ids == (0, 255)
        assert any("255 is class 1" in note for note in info_of(source).findings.notes)


def test_empty_masks_do_not_tell_what_255_is(tmp_path: Path) -> None:
    """A crack in one of a hundred walls would be void, and nobody would know."""
    for i in range(40):
        tree(tmp_path, f"images/{i:02d}.jpg=masks/{i:02d}.png", values=(0,))
    named = AnnotationOptions(class_names=("wall", "crack"))
    with pytest.raises(UsageError, match=r"the 40 masks that were sampled contain only 0.*void='none' or void=255"):
        read(tmp_path, named)
    with pytest.raises(UsageError, match="the meaning of its mask values is unknown: 40 masks sampled, with 0;"):
        read(tmp_path)
    answers: list[tuple[Any, dict[int, int]]] = [(255, {0: 0, 1: 1, 255: 255}), ("none", {0: 0, 255: 1})]
    for void, table in answers:
        sample = read(tmp_path, AnnotationOptions(class_names=("wall", "crack"), void=void))[0]
        assert dict(sample.raster.table.values) == table
    image(tmp_path / "masks/23.png", mask((0, 255)))
    sample = read(tmp_path, named)[0]
    assert dict(sample.raster.table.values) == {0: 0, 255: 1}, "it is looked for until one is found"


def test_a_palette_that_shows_0_as_white_is_no_background(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=")
    pixels = Image.fromarray(mask((0, 1)), "L")
    pixels.putpalette([255, 255, 255, 0, 0, 0])
    (tmp_path / "masks").mkdir()
    pixels.save(tmp_path / "masks" / "1.png")
    with pytest.raises(UsageError, match="1 mask sampled, with 0, 1; name the classes"):
        read(tmp_path)
    pixels.putpalette([0, 0, 0, 255, 255, 255])
    pixels.save(tmp_path / "masks" / "1.png")
    assert read(tmp_path).schema.raster == Raster(("background", "foreground"))


@pytest.mark.parametrize(
    ("void", "names", "table"),
    [
        (None, "abc", {0: 0, 1: 1, 2: 2, 255: 255}),
        (0, "bc", {0: 255, 1: 0, 2: 1}),
        (1, "ac", {0: 0, 1: 255, 2: 1}),
        ("none", "abc", {0: 0, 1: 1, 2: 2}),
    ],
)
def test_void_is_what_is_said(void: Any, names: str, table: dict[int, int], tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.png", "images/2.jpg=masks/2.png", values=(0, 1, 2))
    sample = read(tmp_path, AnnotationOptions(class_names=tuple(names), void=void))[0]
    assert dict(sample.raster.table.values) == table


def test_more_than_255_classes(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.png")
    image(tmp_path / "images/2.jpg")
    image(tmp_path / "masks/2.png", np.full((HEIGHT, WIDTH), 299, np.uint16))
    source = read(tmp_path, AnnotationOptions(class_names=tuple(map(str, range(300)))))
    assert (source.schema.raster.void, source.schema.raster.bits) == (65535, 16)


def coloured(root: Path) -> Path:
    tree(root, "images/1.jpg=", "images/2.jpg=")
    for name in ("1", "2"):
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        pixels[2:4], pixels[4:] = (128, 0, 0), (64, 64, 0)
        image(root / f"masks/{name}.png", pixels)
    return root


TABLES = {
    "class_dict.csv": "name,r,g,b\nsky,128,0,0\nroad, 64, 64, 0\nVoid,0,0,0\n",
    "label_colors.txt": "128 0 0\tsky\n64 64 0\t\troad\n0 0 0 Void\n",
    "labelmap.txt": "# label:color_rgb:parts:actions\nsky:128,0,0::\nroad:64,64,0::\nvoid:0,0,0::\n",
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("given", [False, True])
def test_colours_need_a_table(name: str, given: bool, tmp_path: Path) -> None:
    root = coloured(tmp_path / "in")
    with pytest.raises(UsageError, match=r"colours, \(0, 0, 0\), \(64, 64, 0\), \(128, 0, 0\).*name,r,g,b: colours"):
        read(root, ABC)
    table = (tmp_path / "mine.csv") if given else root / name
    table.write_text(TABLES[name])
    source = read(root, AnnotationOptions(colours=str(table)) if given else PLAIN)
    assert (source.schema.raster.class_names, source.schema.raster.void) == (("sky", "road"), 255)
    expected = np.repeat([255, 0, 1], [2, 2, 4])[:, None].repeat(WIDTH, 1)
    for found in stored_masks(source).values():
        np.testing.assert_array_equal(found, expected)
    assert any(note.lower() == "classes that are void: 1 (void)" for note in info_of(source).findings.notes)


def test_class_names_choose_among_those_of_a_table(tmp_path: Path) -> None:
    root = coloured(tmp_path)
    (root / "class_dict.csv").write_text(TABLES["class_dict.csv"])
    source = read(root, AnnotationOptions(class_names=("road",)))
    assert source.schema.raster.class_names == ("road",)
    sample = source[0]
    assert sample.raster.table.colours == ((0, 0, 0, 255), (64, 64, 0, 0), (128, 0, 0, 255))
    with pytest.raises(UsageError, match="got the class rod, which the masks do not have"):
        read(root, AnnotationOptions(class_names=("rod",)))
    with pytest.raises(UsageError, match="void: got the value 3, but the classes have colours"):
        read(root, AnnotationOptions(void=3))


def test_roboflow_s_table_of_values(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        tree(tmp_path / split, "1.jpg=1_mask.png", "2.jpg=2_mask.png", values=(0, 1, 2))
        (tmp_path / split / "_classes.csv").write_text("Pixel Value, Class\n0, background\n1, crack\n2, rust\n")
    source = read(tmp_path)
    assert source.schema.raster.class_names == ("background", "crack", "rust")
    assert {split for _, split in keys(source).values()} == {"train", "validation"}
    (tmp_path / "valid" / "_classes.csv").write_text("Pixel Value, Class\n0, background\n1, rust\n2, crack\n")
    with pytest.raises(UsageError, match=r"train/_classes.csv and valid/_classes.csv list different classes"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no class"),
        ("name,r,g,b\n", "a header without classes"),
        ("name,r,g\na,1,2\n", "got the columns name, r, g, expected name, r, g, b"),
        ("name,r,g,b\na,1,2\n", r":2: got 3 cells, the header has 4"),
        ("name,r,g,b\na,1,2,256\n", ":2: got '256', expected a number from 0 to 255"),
        ("name,r,g,b\na,1,2,x\n", ":2: got 'x'"),
        ("name,r,g,b\na,1,2,3\nb,1,2,3\n", r":3: the colour \(1, 2, 3\) is already on line 2"),
        ("name,r,g,b\na,1,2,3\na,1,2,4\n", ":3: the name a is already on line 2"),
        ("name,value\n,3\n", "got the class name ''"),
        ("1 2 3 a\n1,2,3,b\n", ":2: got '1,2,3,b', unlike line 1"),
        ("na\xefve,r,g,b\n", "not UTF-8"),
    ],
)
def test_a_table_that_is_none_is_refused(text: str, why: str, tmp_path: Path) -> None:
    root = coloured(tmp_path / "in")
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(LabelFileError, match=why):
        read(root, AnnotationOptions(colours=str(tmp_path / "t.csv")))
    with pytest.raises(LabelFileError, match="cannot be read"):
        read(root, AnnotationOptions(colours=str(tmp_path / "none.csv")))


starts = st.sampled_from(["", "name,r,g,b\n", "value\tname\n", "1 2 3 a\n", "a:1,2,3::\n", "name;r;g;b\n"])
pieces = st.lists(st.sampled_from(['"', ",", "\n", "\t", ";", " ", "0", "255", "-1", "a", "\u0663", "\x00", "#", ":"]))


@given(starts, pieces)
def test_whatever_a_table_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, start: str, more: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "table.txt"
    path.write_text(start + "".join(more), encoding="utf-8")
    try:
        rows = read_class_table(str(path))
    except LabelFileError:
        return
    assert rows
    assert all((row.colour is None) != (row.value is None) for row in rows)


def palette_png(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = Image.fromarray(values, "L")
    found.putpalette(np.random.default_rng(1).integers(0, 256, 768, np.uint8).tobytes())
    found.save(path)


def voc(root: Path, base: str = "VOCdevkit/VOC2012", stems: tuple[str, ...] = ("000001", "000002", "000003")) -> Path:
    for number, stem in enumerate(stems):
        image(root / base / "JPEGImages" / f"2007_{stem}.jpg")
        palette_png(root / base / "SegmentationClass" / f"2007_{stem}.png", mask((0, 15, 20, 255), number))
        palette_png(root / base / "SegmentationObject" / f"2007_{stem}.png", mask((0, 1), number))
    image(root / base / "JPEGImages" / "2008_000009.jpg")
    lists = root / base / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("2007_000001\n2007_000002\n")
    (lists / "val.txt").write_text("2007_000003\n")
    (lists / "trainval.txt").write_text("2007_000001\n2007_000002\n2007_000003\n")
    return root


def test_pascal_voc(tmp_path: Path) -> None:
    root = voc(tmp_path / "in")
    evidence = recognise(root)
    assert evidence.found == "Pascal VOC's masks (JPEGImages, SegmentationClass): 3 images with a mask"
    source = read(root)
    assert source.schema.raster.class_names[::20] == ("background", "tvmonitor")
    assert (len(source.schema.raster.class_names), source.schema.raster.void) == (21, 255)
    splits = {key[-10:-4]: split for key, (_, split) in keys(source).items()}
    assert splits == {"000001": "train", "000002": "train", "000003": "validation"}
    assert rejected(source) == []
    assert "1 image or mask left out, in no list" in info_of(source).findings.notes
    convert(source, tmp_path / "out", workers=1)
    data = shardfeed.open(tmp_path / "out")
    assert {name: split.records for name, split in data.manifest.splits.items()} == {"train": 2, "validation": 1}
    (record,) = (record for record in data["validation"])
    pixels = np.asarray(Image.open(io.BytesIO(cast(bytes, record[RASTER]))))
    np.testing.assert_array_equal(pixels, mask((0, 15, 20, 255), 2))


def test_both_years_of_voc(tmp_path: Path) -> None:
    voc(tmp_path)
    voc(tmp_path, "VOCdevkit/VOC2007", ("000004", "000005", "000006"))
    lists = tmp_path / "VOCdevkit/VOC2007/ImageSets/Segmentation"
    (lists / "train.txt").write_text("2007_000004\n")
    (lists / "val.txt").write_text("2007_000005\n2007_000006\n")
    source = read(tmp_path)
    assert [split for _, split in keys(source).values()].count("train") == 3
    assert len(source) == 6
    assert rejected(source) == []


def test_voc_s_lists_and_files_that_differ_are_named(tmp_path: Path) -> None:
    root = voc(tmp_path, "")
    (root / "JPEGImages" / "2007_000001.jpg").unlink()
    (root / "SegmentationClass" / "2007_000002.png").unlink()
    with open(root / "ImageSets" / "Segmentation" / "val.txt", "a") as file:
        file.write("2007_000099\n")
    source = read(root)
    assert rejected(source) == [
        ("2007_000099", "E_MISSING"),
        ("JPEGImages/2007_000002.jpg", "E_PAIR"),
        ("SegmentationClass/2007_000001.png", "E_PAIR"),
    ]
    with open(root / "ImageSets" / "Segmentation" / "val.txt", "a") as file:
        file.write("2007_000002\n")
    with pytest.raises(LabelFileError, match=r"val.txt:3: 2007_000002 is also in the split train"):
        read(root)


def test_the_layout_of_voc_with_classes_of_one_s_own(tmp_path: Path) -> None:
    """As CVAT and labelme write it: nobody's bicycle may become an aeroplane."""
    root = tree(tmp_path, "JPEGImages/a.jpg=SegmentationClass/a.png", "JPEGImages/b.jpg=SegmentationClass/b.png")
    with pytest.raises(UsageError, match="the meaning of its mask values"):
        read(root)
    source = read(root, ABC)
    assert source.schema.raster.class_names == ("a", "b", "c")
    (root / "labelmap.txt").write_text("# label:color_rgb:parts:actions\nbackground:0,0,0::\nb:1,1,1::\nc:2,2,2::\n")
    source = read(root)
    assert source.schema.raster.class_names == ("background", "b", "c")
    assert (224, 224, 192, 255) in source[0].raster.table.colours


def test_cvat_s_list_of_all_images_names_no_split(tmp_path: Path) -> None:
    root = tree(tmp_path, "JPEGImages/a.jpg=SegmentationClass/a.png", "JPEGImages/b.jpg=SegmentationClass/b.png")
    (root / "ImageSets" / "Segmentation").mkdir(parents=True)
    (root / "ImageSets" / "Segmentation" / "default.txt").write_text("a\nb\n")
    assert {split for _, split in keys(read(root, ABC)).values()} == {None}


def cityscapes(root: Path, kinds: tuple[str, ...]) -> Path:
    for split, city in (("train", "aachen"), ("val", "ulm")):
        stem = f"{city}_000000_000019"
        image(root / "leftImg8bit" / split / city / f"{stem}_leftImg8bit.png")
        for kind in kinds:
            values = {"labelIds": (0, 7, 33, 9), "labelTrainIds": (0, 18, 255)}.get(kind, (1, 2))
            image(root / "gtFine" / split / city / f"{stem}_gtFine_{kind}.png", mask(values))
        (root / "gtFine" / split / city / f"{stem}_gtFine_polygons.json").write_text("{}")
    return root


@pytest.mark.parametrize("kinds", [("labelIds",), ("color", "instanceIds", "labelIds", "labelTrainIds")], ids=len)
def test_cityscapes(kinds: tuple[str, ...], tmp_path: Path) -> None:
    root = cityscapes(tmp_path / "in", kinds)
    kind = kinds[-1]
    evidence = recognise(root)
    assert evidence.found.startswith(f"Cityscapes (leftImg8bit, gtFine, *_{kind}.png): 2 images")
    source = read(root)
    raster = source.schema.raster
    assert (len(raster.class_names), raster.void) == (19, 255)
    assert (raster.class_names[0], raster.class_names[-1]) == ("road", "bicycle")
    assert raster.class_ids[:3] == ((7, 8, 11) if kind == "labelIds" else ())
    assert any(note.startswith(f"masks: {kind}") for note in info_of(source).findings.notes)
    assert rejected(source) == []
    assert [split for _, split in keys(source).values()] == ["train", "validation"]
    (root / "leftImg8bit" / "train").rename(root / "leftImg8bit" / "train_extra")
    (root / "gtFine" / "train").rename(root / "gtFine" / "train_extra")
    assert [split for _, split in keys(read(root.parent)).values()] == ["train_extra", "validation"]
    source = read(root)
    found = next(iter(stored_masks(source).values()))
    table = {0: 255, 7: 0, 33: 18, 9: 255} if kind == "labelIds" else {0: 0, 18: 18, 255: 255}
    np.testing.assert_array_equal(found, np.vectorize(table.get)(mask(tuple(table))))


def test_ade20k(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for split, short in (("training", "train"), ("validation", "val")):
        stem = f"ADE_{short}_00000001"
        tree(root, f"images/{split}/{stem}.jpg=annotations/{split}/{stem}.png", values=(0, 1, 150))
    source = read(root)
    raster = source.schema.raster
    assert (raster.class_names[0], raster.class_names[149], raster.class_ids[0], raster.void) == ("1", "150", 1, 255)
    assert [split for _, split in keys(source).values()] == ["train", "validation"]
    rows = [f"{i}\t0.1\t10\t1\tthing {i}" for i in range(1, 151)]
    (root / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tName\n" + "\n".join(rows))
    source = read(root)
    assert source.schema.raster.class_names[0] == "thing 1"
    names = tuple(f"class {i}" for i in range(150))
    source = read(root, AnnotationOptions(class_names=names))
    assert source.schema.raster.class_names == names
    found = stored_masks(source)
    table = {0: 255, 1: 0, 150: 149}
    np.testing.assert_array_equal(
        found["images/training/ADE_train_00000001.jpg"], np.vectorize(table.get)(mask((0, 1, 150)))
    )


def test_no_pair_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file in it"):
        read(tmp_path / "empty")
    tree(tmp_path / "in", "images/1.jpg=", "=masks/2.png")
    with pytest.raises(UsageError, match="no image with a mask: 1 image and 1 mask by their names"):
        read(tmp_path / "in")


def test_masks_that_cannot_be_read_are_told_before_anything_is_written(tmp_path: Path) -> None:
    tree(tmp_path, "images/1.jpg=masks/1.jpg")
    with pytest.raises(UsageError, match=r"none of its masks can be read, the first: 1.jpg: a jpeg file"):
        read(tmp_path)


class TestMaskedImages(SourceContract):
    keys_are_sorted = True

    @pytest.fixture(params=["pairs", "voc", "cityscapes"])
    def build(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Source]:
        if request.param == "voc":
            root = voc(tmp_path)
        elif request.param == "cityscapes":
            root = cityscapes(tmp_path, ("labelIds",))
        else:
            root = tree(
                tmp_path, "images/1.jpg=masks/1.png", "images/2.jpg=masks/2.png", "images/3.jpg=", "=masks/4.png"
            )
        return lambda: read(root, ABC if request.param == "pairs" else PLAIN)
